//! Faults on the wire: what is repeated, what is final, and what the run says of it.

use std::sync::Arc;
use std::time::Duration;

use gantry_bench::upstream::{Answer, Certificate, Piece, Script, Turn, Upstream, Wire};

use crate::gantry::{Bed, Done, run};

const WIRES: [Wire; 2] = [Wire::Anthropic, Wire::Chat];

fn ok(wire: Wire) -> Answer {
    Turn::new().text("ok").on(wire)
}

/// The key that the bed gives to a run on a wire.
fn key(wire: Wire) -> &'static str {
    if wire == Wire::Chat { "sk-secret-1" } else { "sk-ant-secret-0" }
}

fn error_body(kind: &str) -> String {
    format!("{{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"because\"}}}}")
}

/// Runs against the answers in order.
fn play(wire: Wire, answers: Vec<Answer>) -> (Done, Upstream) {
    let bed = Bed::new();
    let upstream = Upstream::start(Script::answers(answers));
    (run(&mut bed.against(&upstream, wire)), upstream)
}

#[test]
fn what_may_pass_is_repeated_and_told() {
    for wire in WIRES {
        let body = ok(wire);
        let whole = Turn::new().text("half").events(wire);
        let half = &whole[..whole.len() / 2];
        let faults = [
            ("overloaded", Answer::json(529, &error_body("overloaded_error"))),
            ("server", Answer::json(500, &error_body("api_error"))),
            ("overloaded", Answer::http(503, &[("content-type", "text/html")], "<title>Down</title>")),
            ("rate_limited", Answer::http(429, &[("retry-after-ms", "20")], error_body("rate_limit_error"))),
            ("transport", Answer::raw(vec![Piece::Close])),
            ("transport", Answer::raw(vec![Piece::Reset])),
            ("transport", Answer::sse_broken(half, Piece::Close)),
            ("transport", Answer::sse_broken(half, Piece::Reset)),
            ("transport", Answer::sse(half).closing()),
            ("protocol", Answer::raw(vec![Piece::Bytes(b"\x16\x03\x01 this is no HTTP\r\n\r\n".to_vec()), Piece::Close])),
            (
                "overloaded",
                Answer::sse("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n"),
            ),
        ];
        for (class, fault) in faults {
            let (done, upstream) = play(wire, vec![fault.clone(), body.clone()]);
            assert_eq!((done.code, upstream.ledger().len()), (Some(0), 2), "{wire:?} {class} {:?}", done.stream.events());
            let retry = done.stream.one("retry");
            assert_eq!((&retry["class"], &retry["attempt"]), (&class.into(), &1.into()), "{wire:?} {retry}");
            assert_eq!(done.stream.one("agent_turn")["attempts"], 2);
            assert_eq!(done.stream.one("assistant_text")["text"], "ok", "nothing of the failed attempt is left");
        }
    }
}

#[test]
fn what_is_final_costs_one_call_and_names_the_reason() {
    let long = "prompt is too long: 200 tokens > 100 maximum";
    for wire in WIRES {
        for (answer, part) in [
            (Answer::json(400, &error_body("invalid_request_error")), "400 (invalid_request_error): because"),
            (
                Answer::json(401, &format!("{{\"error\":{{\"message\":\"bad key {}\",\"code\":\"invalid_api_key\"}}}}", key(wire))),
                "[secret]",
            ),
            (Answer::json(402, &error_body("billing_error")), "402"),
            (Answer::json(429, "{\"error\":{\"message\":\"out of quota\",\"code\":\"insufficient_quota\"}}"), "out of quota"),
            (Answer::json(400, &format!("{{\"error\":{{\"message\":\"{long}\"}}}}")), long),
            (Answer::http(302, &[("location", "https://evil.example/x?key=1")], ""), "evil.example"),
            (Answer::http(200, &[("content-type", "text/html")], "<html><title>Login</title>"), "Login"),
            (Answer::http(200, &[("content-encoding", "gzip"), ("content-type", "text/event-stream")], "\x1f"), "gzip"),
        ] {
            let (done, upstream) = play(wire, vec![answer]);
            assert_eq!((done.code, upstream.ledger().len()), (Some(1), 1), "{part} {:?}", done.stream.events());
            let error = done.stream.one("error");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(part), "{part}: {message}");
            assert!(!message.contains("secret-"), "{message}");
            assert_eq!((&error["kind"], &error["recoverable"]), (&"provider".into(), &false.into()));
        }
    }
}

#[test]
fn an_answer_before_the_body_was_read_is_heard() {
    let bed = Bed::new();
    std::fs::write(bed.beside("prompt.md"), "x".repeat(20_000_000)).unwrap();
    let upstream = Upstream::start(Script::early(Answer::json(413, "{\"error\":{\"message\":\"too large\"}}")));
    let done = run(&mut bed.against(&upstream, Wire::Chat));
    assert_eq!((done.code, done.stream.all("retry").len()), (Some(1), 0));
    assert!(done.stream.one("error")["message"].as_str().unwrap().contains("413"));
}

#[test]
fn a_server_that_stays_down_gets_four_attempts() {
    let (done, upstream) = play(Wire::Chat, vec![Answer::http(503, &[("retry-after-ms", "1")], "down")]);
    assert_eq!((done.code, upstream.ledger().len(), done.stream.all("retry").len()), (Some(1), 4, 3));
    assert_eq!(done.stream.one("error")["recoverable"], true);
}

#[test]
fn a_wait_that_does_not_fit_ends_the_run_now_with_the_hint() {
    let (done, upstream) = play(Wire::Anthropic, vec![Answer::http(429, &[("retry-after", "120")], error_body("rate_limit_error"))]);
    assert_eq!((done.code, upstream.ledger().len()), (Some(5), 1));
    assert_eq!(done.stream.one("error")["retry_after_ms"], 120_000);
    assert!(done.took < Duration::from_secs(5));
}

#[test]
fn the_same_failure_twice_from_a_broken_template_is_believed() {
    let (done, upstream) = play(Wire::Chat, vec![Answer::json(500, "{\"error\":{\"message\":\"Unknown method: keys\"}}")]);
    assert_eq!((done.code, upstream.ledger().len()), (Some(1), 2));
    assert!(done.stream.one("error")["message"].as_str().unwrap().contains("Unknown method: keys"));
}

#[test]
fn a_kept_connection_that_the_server_closed_is_no_failed_attempt() {
    let bed = Bed::new();
    let first = Turn::new().call("list_files", "{}").on(Wire::Chat).closing();
    let upstream = Upstream::start(Script::answers(vec![first, ok(Wire::Chat)]));
    let done = run(&mut bed.against(&upstream, Wire::Chat));
    assert_eq!((done.code, done.stream.all("retry").len()), (Some(0), 0));
    assert_eq!(upstream.ledger().len(), 2);
}

#[test]
fn an_answer_that_is_not_streamed_is_taken_too() {
    for (wire, body) in [
        (
            Wire::Chat,
            r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}"#,
        ),
        (
            Wire::Anthropic,
            r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"whole"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":2}}"#,
        ),
    ] {
        let (done, _) = play(wire, vec![Answer::json(200, body)]);
        let result = done.stream.last();
        assert_eq!((&result["text"], &result["total_input"], &result["total_output"]), (&"whole".into(), &9.into(), &2.into()));
    }
}

#[test]
fn silence_is_ended_by_the_idle_timeout() {
    for pieces in
        [vec![Piece::Hang], vec![Piece::Bytes(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_vec()), Piece::Hang]]
    {
        let bed = Bed::new();
        let upstream = Upstream::start(Script::answers(vec![Answer::raw(pieces), ok(Wire::Chat)]));
        let done = run(bed.against(&upstream, Wire::Chat).args(["--idle-timeout-ms", "200"]));
        assert_eq!((done.code, &done.stream.one("retry")["class"]), (Some(0), &"timeout".into()));
    }
}

#[test]
fn bytes_may_be_cut_anywhere() {
    for wire in WIRES {
        let events = Turn::new().text("é漢😀 done").call("list_files", "{ }").events(wire);
        let pieces = events.chunks(1).map(<[u8]>::to_vec).collect();
        let crlf = String::from_utf8(events.clone()).unwrap().replace('\n', "\r\n");
        let (done, upstream) = play(wire, vec![Answer::sse_in(pieces), Answer::sse(crlf), ok(wire)]);
        assert_eq!(done.code, Some(0));
        assert!(done.stream.all("assistant_text")[..2].iter().all(|e| e["text"] == "é漢😀 done"));
        assert_eq!(upstream.ledger().len(), 3);
    }
}

#[test]
fn usage_that_is_missing_is_estimated_and_said() {
    let (done, _) = play(Wire::Chat, vec![Turn::new().text("some words").no_usage().on(Wire::Chat)]);
    let turn = done.stream.one("agent_turn");
    assert_eq!(turn["usage_estimated"], true);
    assert!(turn["input_tokens"].as_u64().unwrap() > 100 && turn["output_tokens"].as_u64().unwrap() >= 3);
}

#[test]
fn thinking_goes_back_as_it_came() {
    let bed = Bed::new();
    let upstream = Upstream::start(Script::turns(
        Wire::Anthropic,
        vec![Turn::new().thinking("hm", "sig==").text("x").call("list_files", "{}"), Turn::new().text("ok")],
    ));
    run(&mut bed.against(&upstream, Wire::Anthropic));
    let content = &upstream.ledger()[1].json()["messages"][1]["content"];
    assert_eq!(content[0], serde_json::json!({"type": "thinking", "thinking": "hm", "signature": "sig=="}));
}

#[test]
fn tls_is_trusted_by_the_named_certificate_only() {
    let certificate = Arc::new(Certificate::new());
    let bed = Bed::new();
    let pem = certificate.write_pem(bed.beside("ca.pem"));
    let upstream = Upstream::start(Script::turns(Wire::Anthropic, vec![Turn::new().text("ok")]).tls(certificate));
    let done = run(bed.against(&upstream, Wire::Anthropic).env("SSL_CERT_FILE", &pem));
    assert_eq!(done.code, Some(0), "{:?}", done.stream.events());
    let refused = run(&mut bed.against(&upstream, Wire::Anthropic));
    let error = refused.stream.one("error");
    assert_eq!((refused.code, &error["recoverable"]), (Some(1), &false.into()));
    assert!(error["message"].as_str().unwrap().contains("SSL_CERT_FILE"), "{error}");
}

#[test]
fn a_refused_connection_names_the_address() {
    let bed = Bed::new();
    let addr = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let done = run(bed.timeout(4000).command("local/m").args(["--base-url", &format!("http://{addr}/v1")]));
    assert!(matches!(done.code, Some(1 | 3)));
    let told = done.stream.all("retry")[0]["message"].as_str().unwrap();
    assert!(told.contains(&addr.to_string()) && told.contains("is the server running"), "{told}");
}

#[test]
fn endless_headers_and_lines_are_bounded() {
    let bed = Bed::new();
    let headers = Answer::raw(vec![Piece::Bytes(b"HTTP/1.1 200 OK\r\n".to_vec()), Piece::Forever(b"x-more: yes\r\n".to_vec())]);
    let upstream = Upstream::start(Script::answers(vec![headers, ok(Wire::Chat)]));
    let done = run(&mut bed.against(&upstream, Wire::Chat));
    assert_eq!((done.code, done.stream.all("retry").len()), (Some(0), 1));
}
