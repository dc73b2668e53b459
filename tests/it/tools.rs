//! What the model may do, seen from the wire: the content of the tool results that the next request brings.

use std::process::{Command, Stdio};

use gantry_bench::upstream::{Script, Turn, Upstream, Wire};
use serde_json::Value;

use crate::gantry::{Bed, Done, run};

/// Lets the model make these calls in one turn, and gives the run and the results that the model got.
pub fn call(bed: &Bed, calls: &[(&str, Value)], flags: &[&str]) -> (Done, Vec<String>) {
    let mut turn = Turn::new();
    for (i, (name, args)) in calls.iter().enumerate() {
        turn = turn.call_with_id(&format!("c{i}"), name, &args.to_string());
    }
    let upstream = Upstream::start(Script::turns(Wire::Chat, vec![turn, Turn::new().text("ok")]));
    let done = run(bed.against(&upstream, Wire::Chat).args(flags));
    assert_eq!(upstream.violations(), Vec::<String>::new());
    let body = upstream.ledger().pop().expect("a request").json();
    let results = body["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "tool");
    (done, results.map(|m| m["content"].as_str().unwrap().to_owned()).collect())
}

#[test]
fn files_are_written_and_edited_and_nothing_is_left_behind() {
    let bed = Bed::new();
    bed.write("a.txt", "one\r\ntwo\r\n");
    let calls = [
        ("write_file", serde_json::json!({"path": "new/b.txt", "content": "hello"})),
        ("edit_file", serde_json::json!({"path": "a.txt", "search": "two", "replace": "three\nfour"})),
        ("edit_file", serde_json::json!({"path": "a.txt", "search": "absent", "replace": "x"})),
    ];
    let (done, results) = call(&bed, &calls, &["--tool", "+write_file", "--tool", "+edit_file"]);
    assert_eq!(done.code, Some(0));
    assert_eq!((bed.read("new/b.txt"), bed.read("a.txt")), (b"hello".to_vec(), b"one\r\nthree\r\nfour\r\n".to_vec()));
    assert!(results[2].starts_with("error: invalid input: "), "{}", results[2]);
    assert_eq!(bed.leftovers(), Vec::<String>::new());
}

#[test]
fn no_tool_reaches_out_of_the_workdir() {
    let bed = Bed::new();
    std::fs::write(bed.beside("secret"), "top secret").unwrap();
    std::os::unix::fs::symlink("../secret", bed.work().join("link")).unwrap();
    std::os::unix::fs::symlink("/", bed.work().join("root")).unwrap();
    let mut calls = Vec::new();
    for path in ["../secret", "link", "root/etc/passwd", "/etc/passwd", "./../secret", "a/../../secret"] {
        calls.push(("read_file", serde_json::json!({"path": path})));
        calls.push(("list_files", serde_json::json!({"path": path})));
        calls.push(("grep", serde_json::json!({"pattern": ".", "path": path})));
        calls.push(("write_file", serde_json::json!({"path": path, "content": "overwritten"})));
        calls.push(("edit_file", serde_json::json!({"path": path, "search": "secret", "replace": "public"})));
    }
    let (_, results) = call(&bed, &calls, &["--tool", "+write_file", "--tool", "+edit_file"]);
    assert!(results.iter().all(|r| r.starts_with("error: path outside workdir: ")), "{results:#?}");
    assert_eq!(std::fs::read_to_string(bed.beside("secret")).unwrap(), "top secret");
}

#[test]
fn odd_calls_get_an_answer_and_the_run_goes_on() {
    let bed = Bed::new();
    bed.write("f", "x");
    let odd = [
        ("multi_tool_use.parallel", serde_json::json!({})),
        ("", serde_json::json!({})),
        ("read_file", serde_json::json!("{\"path\":\"f\"}")),
        ("read_file", serde_json::json!({"path": "a\u{0}b"})),
        ("read_file", serde_json::json!({"path": 7})),
        ("decide_stop", serde_json::json!({})),
        ("write_file", serde_json::json!({"path": "f", "content": "y"})),
    ];
    let (done, results) = call(&bed, &odd, &[]);
    assert_eq!(done.code, Some(0));
    assert_eq!(results.len(), odd.len());
    assert_eq!(results[2], "x", "an object encoded twice is understood");
    assert!(results[6].starts_with("error: unknown tool"), "what is not offered is not run");
    assert_eq!(bed.read("f"), b"x");
}

#[test]
fn arguments_that_are_no_json_are_answered_and_replayed_as_an_object() {
    for wire in [Wire::Anthropic, Wire::Chat] {
        let bed = Bed::new();
        let turn = Turn::new().call_with_id("a", "read_file", "{\"path\": ").call_with_id("b", "list_files", "");
        let upstream = Upstream::start(Script::turns(wire, vec![turn, Turn::new().text("ok")]));
        let done = run(&mut bed.against(&upstream, wire));
        assert_eq!((done.code, upstream.violations()), (Some(0), vec![]));
    }
}

#[test]
fn two_hundred_calls_in_one_turn_are_all_answered() {
    let bed = Bed::new();
    let calls: Vec<(&str, Value)> = (0..200).map(|_| ("list_files", serde_json::json!({}))).collect();
    let (done, results) = call(&bed, &calls, &[]);
    assert_eq!((done.code, results.len(), done.stream.all("tool_result").len()), (Some(0), 200, 200));
}

#[test]
fn long_output_is_cut_and_comes_back_by_its_handle() {
    let bed = Bed::new();
    let text: String = (1..=3_000).map(|i| format!("line number {i}\n")).collect();
    bed.write("long.txt", &text);
    let upstream = Upstream::start(
        Script::by(|n, r| match n {
            0 => Turn::new().call_with_id("a", "read_file", r#"{"path":"long.txt"}"#).on(Wire::Chat),
            1 => {
                let body = r.json();
                let content = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned();
                let handle = content.split("handle=\"").nth(1).unwrap().split('"').next().unwrap();
                let args = serde_json::json!({"handle": handle, "start": 1500, "end": 1501}).to_string();
                Turn::new().call_with_id("b", "retrieve", &args).on(Wire::Chat)
            }
            _ => Turn::new().text("ok").on(Wire::Chat),
        })
        .strict(Wire::Chat),
    );
    let done = run(&mut bed.against(&upstream, Wire::Chat));
    let first = done.stream.all("tool_result")[0];
    assert_eq!((&first["truncated"], first["bytes"].as_u64()), (&true.into(), Some(text.len() as u64)));
    assert!(first["bytes_out"].as_u64().unwrap() < 20_000 && first["handle"].is_string());
    let last = upstream.ledger()[2].json();
    assert_eq!(last["messages"].as_array().unwrap().last().unwrap()["content"], "line number 1500\nline number 1501\n");
}

#[test]
fn a_huge_argument_is_cut_in_the_event_and_whole_in_the_file() {
    let bed = Bed::new();
    let content = "ä".repeat(1_000_000);
    let (done, _) = call(&bed, &[("write_file", serde_json::json!({"path": "big", "content": content}))], &["--tool", "+write_file"]);
    let event = done.stream.one("tool_call");
    assert_eq!(event["args_truncated"], true);
    assert!(event["args_bytes"].as_u64().unwrap() > 2_000_000 && event["args"].as_str().unwrap().len() <= 16 * 1024);
    assert_eq!(bed.read("big"), content.into_bytes());
}

#[test]
fn a_workdir_that_vanishes_is_an_error_of_each_tool_and_not_of_the_run() {
    let bed = Bed::new();
    let work = bed.work();
    let upstream = Upstream::start(Script::by(move |n, _| match n {
        0 => {
            let _ = std::fs::remove_dir_all(&work);
            Turn::new().call_with_id("a", "list_files", "{}").call_with_id("b", "read_file", r#"{"path":"x"}"#).on(Wire::Chat)
        }
        _ => Turn::new().text("ok").on(Wire::Chat),
    }));
    let done = run(&mut bed.against(&upstream, Wire::Chat));
    assert_eq!(done.code, Some(0));
}

#[test]
fn a_limit_on_file_sizes_fails_the_write_and_not_the_run() {
    let bed = Bed::new();
    bed.write("f", "old");
    let args = serde_json::json!({"path": "f", "content": "x".repeat(1_000_000)}).to_string();
    let turn = Turn::new().call_with_id("a", "write_file", &args);
    let upstream = Upstream::start(Script::turns(Wire::Chat, vec![turn, Turn::new().text("ok")]));
    let plain = bed.against(&upstream, Wire::Chat);
    let mut limited = Command::new("bash");
    limited
        .args(["-c", "ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(plain.get_program())
        .args(plain.get_args())
        .args(["--tool", "+write_file"]);
    limited.env_clear().envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = run(&mut limited);
    assert_eq!(done.code, Some(0));
    assert!(done.stream.one("tool_result")["error"].as_str().unwrap().starts_with("error: io: f: File too large"));
    assert_eq!((bed.read("f"), bed.leftovers()), (b"old".to_vec(), Vec::<String>::new()));
}
