//! Every way in which a run ends: exactly one result, the right code, in time.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gantry_bench::upstream::{Answer, Piece, Script, Turn, Upstream, Wire};

use crate::gantry::{Bed, finish, run, wait};

const SOON: Duration = Duration::from_secs(10);

fn hanging() -> Upstream {
    Upstream::start(Script::answers(vec![Answer::raw(vec![Piece::Hang])]))
}

fn endless_calls(wire: Wire) -> Upstream {
    Upstream::start(
        Script::by(move |n, _| Turn::new().call_with_id(&format!("c{n}"), "list_files", "{}").usage([100, 10, 0, 0]).on(wire)).strict(wire),
    )
}

fn signal(child: &std::process::Child, name: &str) {
    assert!(Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap().success());
}

#[test]
fn the_turn_cap_asks_once_more_without_tools() {
    for wire in [Wire::Anthropic, Wire::Chat] {
        let bed = Bed::new();
        let upstream = Upstream::start(
            Script::by(move |n, r| match String::from_utf8_lossy(&r.body).contains("\"tool_choice\"") {
                true => Turn::new().text("So far.").on(wire),
                false => Turn::new().call_with_id(&format!("c{n}"), "list_files", "{}").on(wire),
            })
            .strict(wire),
        );
        let done = run(bed.against(&upstream, wire).args(["--max-turns", "3"]));
        let result = done.stream.last();
        assert_eq!((&result["exit"], &result["stop_reason"], &result["text"]), (&"ok".into(), &"turn_cap".into(), &"So far.".into()));
        let bodies = upstream.ledger();
        assert_eq!((bodies.len(), upstream.violations()), (4, vec![]));
        assert!(bodies[3].json().get("tools").is_some(), "the tools stay, for the cache's sake");
        assert!(String::from_utf8_lossy(&bodies[3].body).contains("This was the last turn with tools"));
        assert!(wire == Wire::Chat || roles_alternate(&upstream));
    }
}

#[test]
fn the_budget_ends_the_run_before_the_calls_of_the_turn_that_met_it() {
    let bed = Bed::new();
    let upstream = endless_calls(Wire::Anthropic);
    let done = run(&mut bed.budget(550).against(&upstream, Wire::Anthropic));
    assert_eq!(done.code, Some(2));
    assert_eq!(done.stream.one("budget_exceeded")["limit"], 550);
    let (turns, calls) = (done.stream.all("agent_turn").len(), done.stream.all("tool_call").len());
    assert!(turns >= 2 && calls < turns + 1, "{turns} {calls}");
    let bounds: Vec<u64> = upstream.ledger().iter().map(|r| r.json()["max_tokens"].as_u64().unwrap()).collect();
    assert!(bounds.windows(2).all(|w| w[1] < w[0]) && bounds[0] <= 550, "the output bound is clamped to what is left: {bounds:?}");
}

#[test]
fn the_turn_that_meets_the_budget_is_told_and_its_calls_are_not_run() {
    let bed = Bed::new();
    let turn = Turn::new().text("Almost.").call("write_file", r#"{"path":"x","content":"y"}"#).usage([900, 200, 0, 0]);
    let upstream = Upstream::start(Script::turns(Wire::Chat, vec![turn]));
    let done = run(bed.budget(1000).against(&upstream, Wire::Chat).args(["--tool", "+write_file"]));
    assert_eq!((done.code, done.stream.all("tool_call").len()), (Some(2), 0));
    assert_eq!(done.stream.one("assistant_text")["text"], "Almost.");
    assert!(!bed.work().join("x").exists());
}

#[test]
fn a_budget_too_small_for_an_answer_costs_no_call() {
    let bed = Bed::new();
    let upstream = endless_calls(Wire::Chat);
    let done = run(&mut bed.budget(100).against(&upstream, Wire::Chat));
    assert_eq!((done.code, upstream.ledger().len()), (Some(2), 0));
}

#[test]
fn the_deadline_ends_a_hanging_call_and_the_server_sees_it() {
    let bed = Bed::new();
    let upstream = hanging();
    let done = run(&mut bed.timeout(300).against(&upstream, Wire::Anthropic));
    assert_eq!((done.code, &done.stream.last()["stop_reason"]), (Some(3), &"deadline".into()));
    assert!(done.took < Duration::from_secs(2), "{:?}", done.took);
    upstream.wait_abandoned(1, SOON);
}

#[test]
fn the_deadline_ends_an_endless_stream() {
    let bed = Bed::new();
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let chunk = b"16\r\ndata: {\"choices\":[]}\n\n\r\n".to_vec();
    let upstream = Upstream::start(Script::answers(vec![Answer::raw(vec![Piece::Bytes(head), Piece::Forever(chunk)])]));
    let done = run(&mut bed.timeout(500).against(&upstream, Wire::Chat));
    assert_eq!(done.code, Some(3));
    assert!(done.took < Duration::from_secs(3), "{:?}", done.took);
}

#[test]
fn one_signal_ends_the_run_with_a_result_within_two_seconds() {
    for name in ["TERM", "INT", "HUP", "QUIT"] {
        let bed = Bed::new();
        let upstream = hanging();
        let started = Instant::now();
        let child = bed.against(&upstream, Wire::Anthropic).spawn().unwrap();
        upstream.wait_for(1, SOON);
        signal(&child, name);
        let done = finish(child, started);
        assert_eq!((done.code, &done.stream.last()["stop_reason"]), (Some(3), &"signal".into()), "{name}");
        assert!(done.took < Duration::from_secs(3));
    }
}

#[test]
fn a_closed_stdout_cancels_the_run_at_once() {
    let bed = Bed::new();
    let upstream = hanging();
    let mut child = bed.against(&upstream, Wire::Anthropic).spawn().unwrap();
    upstream.wait_for(1, SOON);
    let started = Instant::now();
    drop(child.stdout.take());
    assert_eq!(wait(&mut child, SOON), Some(1));
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    upstream.wait_abandoned(1, SOON);
}

#[test]
fn a_reader_that_never_reads_does_not_keep_the_process() {
    let bed = Bed::new();
    bed.write("big", "0123456789abcdef\n".repeat(15_000));
    let upstream = Upstream::start(Script::by(|n, _| {
        Turn::new().text(&"x".repeat(60_000)).call_with_id(&format!("c{n}"), "list_files", "{}").on(Wire::Chat)
    }));
    let mut child = bed.timeout(1500).against(&upstream, Wire::Chat).spawn().unwrap();
    let started = Instant::now();
    assert_eq!(wait(&mut child, SOON), Some(3));
    assert!(started.elapsed() < Duration::from_secs(7), "{:?}", started.elapsed());
    assert!(upstream.ledger().len() < 60, "the run waits for its reader: {} calls", upstream.ledger().len());
}

#[test]
fn a_slow_reader_gets_every_line() {
    let bed = Bed::new();
    let upstream = Upstream::start(Script::by(|n, _| match n {
        0..40 => Turn::new().text(&"y".repeat(50_000)).call_with_id(&format!("c{n}"), "list_files", "{}").on(Wire::Chat),
        _ => Turn::new().text("end").on(Wire::Chat),
    }));
    let started = Instant::now();
    let mut child = bed.against(&upstream, Wire::Chat).spawn().unwrap();
    // The reader takes nothing until the run has filled the pipe and waits.
    upstream.wait_for(15, SOON);
    let mut reader = BufReader::with_capacity(1_000, child.stdout.take().unwrap());
    let mut all = Vec::new();
    reader.read_until(b'\n', &mut all).unwrap();
    reader.read_to_end(&mut all).unwrap();
    assert_eq!(wait(&mut child, SOON), Some(0));
    let stream = crate::stream::Stream::read(&all);
    assert_eq!(stream.all("assistant_text").len(), 41);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn stdout_may_be_a_file_and_a_full_disk_is_an_error() {
    let bed = Bed::new();
    let upstream = Upstream::start(Script::turns(Wire::Chat, vec![Turn::new().text("ok")]));
    let path = bed.beside("out.ndjson");
    let mut child = bed.against(&upstream, Wire::Chat).stdout(std::fs::File::create(&path).unwrap()).spawn().unwrap();
    assert_eq!(wait(&mut child, SOON), Some(0));
    assert_eq!(crate::stream::Stream::read(&std::fs::read(&path).unwrap()).exit_code(), 0);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = bed.against(&upstream, Wire::Chat).stdout(full).spawn().unwrap();
    assert_eq!(wait(&mut child, SOON), Some(1));
}

#[test]
fn closed_standard_descriptors_do_no_harm() {
    let bed = Bed::new();
    let upstream = Upstream::start(Script::turns(Wire::Chat, vec![Turn::new().text("ok")]));
    let run = bed.against(&upstream, Wire::Chat);
    let mut shell = Command::new("bash");
    shell.args(["-c", "exec \"$0\" \"$@\" <&- 2>&-", crate::gantry::BIN]).args(run.get_args());
    shell.env_clear().envs(run.get_envs().filter_map(|(k, v)| Some((k, v?))));
    let output = shell.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(crate::stream::Stream::read(&output.stdout).exit_code(), 0);
}

#[test]
fn a_refusal_a_filter_and_a_cut_answer_are_errors_that_name_the_reason() {
    for (raw, stop, wire) in [
        ("refusal", "refusal", Wire::Anthropic),
        ("content_filter", "content_filter", Wire::Chat),
        ("max_tokens", "max_tokens", Wire::Anthropic),
        ("length", "max_tokens", Wire::Chat),
        ("model_context_window_exceeded", "max_tokens", Wire::Anthropic),
    ] {
        let bed = Bed::new();
        let upstream = Upstream::start(Script::turns(wire, vec![Turn::new().text("partial").stop(raw)]));
        let done = run(&mut bed.against(&upstream, wire));
        assert_eq!((done.code, &done.stream.last()["stop_reason"]), (Some(1), &stop.into()), "{raw}");
        assert_eq!(done.stream.one("error")["recoverable"], false, "{raw}");
        assert_eq!((upstream.ledger().len(), &done.stream.one("assistant_text")["text"]), (1, &"partial".into()), "{raw}");
    }
}

#[test]
fn an_empty_answer_is_asked_again_once() {
    let bed = Bed::new();
    let upstream = Upstream::start(Script::turns(Wire::Anthropic, vec![Turn::new(), Turn::new().text("ok")]));
    assert_eq!(run(&mut bed.against(&upstream, Wire::Anthropic)).code, Some(0));
    let upstream = Upstream::start(Script::turns(Wire::Chat, vec![Turn::new()]));
    let done = run(&mut bed.against(&upstream, Wire::Chat));
    assert_eq!((done.code, upstream.ledger().len()), (Some(1), 2));
    assert!(roles_alternate(&upstream));
}

/// No two messages of the user's follow each other in any request, as strict chat templates want it.
fn roles_alternate(upstream: &Upstream) -> bool {
    upstream.ledger().iter().all(|received| {
        let body = received.json();
        let roles: Vec<&str> = body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
        roles.windows(2).all(|pair| pair != ["user", "user"])
    })
}

#[test]
fn a_reader_that_never_reads_is_not_told_by_the_exit_code_that_all_went_well() {
    let bed = Bed::new();
    let long = "x".repeat(1 << 20);
    let upstream = Upstream::start(Script::turns(Wire::Anthropic, vec![Turn::new().text(&long)]));
    let mut child = bed.against(&upstream, Wire::Anthropic).spawn().unwrap();
    // The pipe stays open and unread until the process has ended: `wait_with_output` would read it.
    let unread = child.stdout.take();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    drop(unread);
}
