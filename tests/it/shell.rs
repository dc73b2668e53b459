//! The shell tool: real bash, allowlisted programs, and nothing left alive.

use std::time::{Duration, Instant};

use gantry_bench::upstream::{Answer, Script, Turn, Upstream, Wire};
use serde_json::json;

use crate::gantry::{Bed, finish, run};
use crate::tools::call;

/// Runs one line, and gives what the model got.
fn shell(bed: &Bed, line: &str, allow: &[&str]) -> (crate::gantry::Done, String) {
    let mut flags = Vec::new();
    for program in allow {
        flags.extend(["--shell-allow", program]);
    }
    let (done, mut results) = call(bed, &[("shell", json!({ "command": line }))], &flags);
    assert_eq!(done.code, Some(0));
    (done, results.remove(0))
}

/// Processes whose command line holds a mark.
fn alive(mark: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(mark) && !line.contains("gantry-it"))
        .collect()
}

#[test]
fn a_line_runs_and_its_end_is_told() {
    let bed = Bed::new();
    bed.write("a.txt", "one\ntwo\n");
    assert_eq!(shell(&bed, "cat a.txt | wc -l; echo to stderr >&2", &["cat", "wc"]).1, "2\nto stderr\n");
    let (done, result) = shell(&bed, "cat a.txt; exit 3", &["cat"]);
    assert_eq!((result.as_str(), &done.stream.one("tool_result")["exit_code"]), ("one\ntwo\n[exit code 3]", &3.into()));
    assert!(done.stream.one("tool_result").get("error").is_none(), "an exit code is no failure of the tool");
    assert_eq!(shell(&bed, "pwd", &["ls"]).1.trim(), bed.work().display().to_string());
}

#[test]
fn what_is_not_allowed_is_refused_with_the_word_and_the_list() {
    let bed = Bed::new();
    for line in [
        "touch x",
        "ls; touch x",
        "ls $(touch x)",
        "eval touch x",
        "cat <(touch x)",
        "PATH=. ls",
        "./ls",
        "sudo ls",
        "find . -exec touch x \\;",
    ] {
        let (_, result) = shell(&bed, line, &["ls", "cat", "find"]);
        assert!(result.starts_with("error: invalid input: "), "{line}: {result}");
    }
    let (_, result) = shell(&bed, "touch x", &["ls"]);
    assert!(result.contains("`touch`") && result.contains("allowed programs are ls"), "{result}");
    assert!(!bed.work().join("x").exists());
}

#[test]
fn no_key_is_in_the_environment_and_stdin_is_empty() {
    let bed = Bed::new();
    let (_, env) = shell(&bed, "env; cat; cat /proc/$PPID/environ", &["env", "cat"]);
    assert!(env.contains("GIT_TERMINAL_PROMPT=0") && env.contains("PAGER=cat"), "{env}");
    assert!(!env.contains("secret") && !env.contains("API_KEY"), "{env}");
}

#[test]
fn a_timeout_kills_the_whole_tree_and_keeps_what_was_written() {
    let bed = Bed::new();
    let mark = format!("7{}.25", std::process::id());
    bed.write(
        "spawn.sh",
        format!("trap '' TERM\nsetsid sleep {mark} &\n(sleep {mark} &)\nnohup sleep {mark} >/dev/null &\necho begun\nsleep {mark}\n"),
    );
    let started = Instant::now();
    let (done, results) = call(
        &bed,
        &[("shell", json!({"command": format!("cat spawn.sh; sleep {mark} & setsid sleep {mark} & sleep {mark}"), "timeout_ms": 300}))],
        &["--shell-allow", "cat", "--shell-allow", "sleep", "--shell-allow", "setsid"],
    );
    assert!(results[0].contains("echo begun") && results[0].contains("[timed out"), "{}", results[0]);
    assert!(done.stream.one("tool_result")["error"].as_str().unwrap().contains("timed out"));
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(alive(&mark), Vec::<String>::new());
}

#[test]
fn a_background_process_neither_delays_the_call_nor_outlives_it() {
    let bed = Bed::new();
    let mark = format!("8{}.25", std::process::id());
    let started = Instant::now();
    let (_, result) = shell(&bed, &format!("sleep {mark} & (sleep {mark} &) ; echo done"), &["sleep"]);
    assert_eq!(result, "done\n");
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(alive(&mark), Vec::<String>::new());
}

#[test]
fn the_end_of_the_run_is_the_end_of_its_command() {
    let bed = Bed::new();
    for (ending, code) in [("deadline", 3), ("TERM", 3), ("KILL", -1)] {
        let mark = format!("9{}.{}", std::process::id(), ending.len());
        let line = format!("sleep {mark} & sleep {mark}");
        let upstream =
            Upstream::start(Script::by(move |_, _| Turn::new().call("shell", &json!({"command": line}).to_string()).on(Wire::Chat)));
        bed.timeout(if ending == "deadline" { 700 } else { 30_000 });
        let started = Instant::now();
        let mut child = bed.against(&upstream, Wire::Chat).args(["--shell-allow", "sleep"]).spawn().unwrap();
        until(|| alive(&mark).len() >= 2);
        if ending != "deadline" {
            assert!(std::process::Command::new("kill").args([format!("-{ending}"), child.id().to_string()]).status().unwrap().success());
        }
        if code < 0 {
            child.wait().unwrap();
        } else {
            assert_eq!(finish(child, started).code, Some(code));
        }
        until(|| alive(&mark).is_empty());
    }
}

/// Waits for something that another process does, with a bound.
fn until(ready: impl Fn() -> bool) {
    let bound = Instant::now() + Duration::from_secs(10);
    while !ready() {
        assert!(Instant::now() < bound, "it did not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn endless_output_is_bounded_and_both_ends_are_kept() {
    let bed = Bed::new();
    let (done, results) = call(
        &bed,
        &[("shell", json!({"command": "yes | head -c 300000000 | tr -d '\\n'; echo; echo the end"}))],
        &["--shell-allow", "yes", "--shell-allow", "head", "--shell-allow", "tr"],
    );
    let event = done.stream.one("tool_result");
    assert_eq!((event["bytes"].as_u64(), &event["truncated"]), (Some(150_000_009), &true.into()));
    assert!(results[0].ends_with("the end\n") && results[0].len() < 40_000, "{}", results[0].len());
}

#[test]
fn endless_output_does_not_outlast_its_time() {
    let bed = Bed::new();
    let started = Instant::now();
    let line = json!({"command": "yes & yes & yes & yes", "timeout_ms": 300});
    let (done, results) = call(&bed, &[("shell", line)], &["--shell-allow", "yes"]);
    assert!(done.stream.one("tool_result")["error"].as_str().unwrap().contains("timed out"), "{}", results[0]);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn a_line_that_kills_its_parser_is_a_refusal() {
    let bed = Bed::new();
    for line in ["<<E$[\t\t\t\t".to_owned(), "(".repeat(26), "{ ".repeat(20_000), format!("echo {}", "$(".repeat(5_000))] {
        let started = Instant::now();
        let (_, result) = shell(&bed, &line, &["ls"]);
        assert!(result.starts_with("error: invalid input: "), "{result}");
        assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    }
}

#[test]
fn git_diff_shows_changes_and_starts_nothing_of_the_repository() {
    let bed = Bed::new();
    bed.write("a.txt", "one\n").write("evil.sh", "#!/bin/sh\ntouch \"$(dirname \"$0\")/../pwned\"\ncat\n");
    let setup = "git init -q && git add a.txt && git -c user.name=a -c user.email=a@b commit -qm one && echo two >> a.txt && chmod +x evil.sh \
        && git config core.fsmonitor \"$PWD/evil.sh\" && git config diff.external \"$PWD/evil.sh\" && git config core.pager \"$PWD/evil.sh\"";
    assert!(std::process::Command::new("bash").args(["-c", setup]).current_dir(bed.work()).status().unwrap().success());
    let (_, results) = call(&bed, &[("git_diff", json!({})), ("git_diff", json!({"range": "nope..nope"}))], &[]);
    assert!(results[0].contains("+two"), "{}", results[0]);
    assert_eq!(results[1], "error: git: fatal: bad revision 'nope..nope'");
    assert!(!bed.beside("pwned").exists());
}

#[test]
fn a_helper_that_waits_for_an_order_ends_with_its_run() {
    let bed = Bed::new();
    let upstream = Upstream::start(Script::answers(vec![Answer::sse(Turn::new().text("ok").events(Wire::Chat))]));
    let done = run(&mut bed.against(&upstream, Wire::Chat));
    assert_eq!(done.code, Some(0));
    let helper = format!("{} __exec", crate::gantry::BIN);
    until(|| {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let parents = processes.filter(|p| {
            std::fs::read(p.path().join("cmdline")).is_ok_and(|l| String::from_utf8_lossy(&l).replace('\0', " ").starts_with(&helper))
        });
        // Whoever has lost its harness is a child of init.
        parents
            .filter(|p| {
                std::fs::read_to_string(p.path().join("stat"))
                    .is_ok_and(|s| s.rsplit(") ").next().is_some_and(|r| r.split(' ').nth(1) == Some("1")))
            })
            .count()
            == 0
    });
}
