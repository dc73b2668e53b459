//! Servers that differ from the vendors' own: fields that they do not take, wrong labels, calls that their parser left in the text.

use gantry_bench::upstream::{Answer, Received, Script, Turn, Upstream, Wire};
use serde_json::{Value, json};

use crate::gantry::{Bed, run};

const WIRES: [Wire; 2] = [Wire::Anthropic, Wire::Chat];

/// A server that refuses each of these fields, one at a time, and otherwise calls a tool and then answers.
fn refusing(wire: Wire, fields: &'static [&'static str], say: fn(&str) -> Answer) -> Upstream {
    let decide = move |_: usize, request: &Received| {
        let body = request.json();
        match fields.iter().find(|field| body.get(**field).is_some()) {
            Some(field) => say(field),
            None if body["messages"].to_string().contains("done_1") => Turn::new().text("ok").on(wire),
            None => Turn::new().call_with_id("done_1", "list_files", "{}").on(wire),
        }
    };
    Upstream::start(Script::by(decide))
}

fn by_code(field: &str) -> Answer {
    Answer::json(400, &json!({"error": {"code": "unsupported_parameter", "param": field}}).to_string())
}

fn by_words(field: &str) -> Answer {
    let words = format!("Unsupported parameter: '{field}' is not supported with this model.");
    Answer::json(400, &json!({"error": {"message": words, "type": "invalid_request_error", "param": field}}).to_string())
}

fn by_schema(field: &str) -> Answer {
    Answer::json(422, &json!({"detail": [{"type": "extra_forbidden", "loc": ["body", field], "msg": "no"}]}).to_string())
}

#[test]
fn a_field_that_a_server_does_not_take_is_left_out_for_the_rest_of_the_run() {
    const CHAT: &[&str] = &["temperature", "reasoning_effort", "stream_options", "max_completion_tokens", "tool_choice"];
    const ANTHROPIC: &[&str] = &["temperature", "output_config", "cache_control", "tool_choice"];
    for (wire, fields) in [(Wire::Chat, CHAT), (Wire::Anthropic, ANTHROPIC)] {
        for say in [by_code, by_words, by_schema] {
            let bed = Bed::new();
            let upstream = refusing(wire, fields, say);
            let flags = ["--temperature", "0.5", "--effort", "low", "--max-output-tokens", "900", "--max-turns", "1"];
            let done = run(bed.against(&upstream, wire).args(flags));
            assert_eq!(done.code, Some(0), "{wire:?} {:?}", done.stream.events());
            let told = done.stream.all("retry");
            assert_eq!((told.len(), upstream.ledger().len()), (fields.len(), fields.len() + 2), "{wire:?}");
            for (retry, field) in told.iter().zip(fields) {
                assert_eq!((&retry["class"], &retry["delay_ms"]), (&"bad_request".into(), &0.into()));
                assert!(retry["message"].as_str().unwrap().ends_with(&format!("; trying again without that `{field}`")), "{retry}");
            }
            // The bound is kept under its other name, and under the only one that the other wire has.
            assert!(upstream.bodies().iter().all(|body| body.get("max_tokens").or(body.get("max_completion_tokens")) == Some(&json!(900))));
        }
    }
}

#[test]
fn a_field_that_cannot_be_left_out_or_was_not_sent_is_a_failure_at_once() {
    for (wire, field) in [(Wire::Anthropic, "max_tokens"), (Wire::Chat, "messages"), (Wire::Chat, "stream"), (Wire::Anthropic, "tools")] {
        let bed = Bed::new();
        let upstream = Upstream::start(Script::by(move |_, _| by_words(field)));
        let done = run(&mut bed.against(&upstream, wire));
        assert_eq!((done.code, upstream.ledger().len()), (Some(1), 1), "{wire:?} {field}");
        assert!(done.stream.one("error")["message"].as_str().unwrap().contains(field));
    }
    let bed = Bed::new();
    let words = r#"{"error":{"message":"temperature: must be at most 1","type":"invalid_request_error"}}"#;
    let upstream = Upstream::start(Script::answers(vec![Answer::json(400, words)]));
    let done = run(bed.against(&upstream, Wire::Anthropic).args(["--temperature", "1.5"]));
    assert_eq!((done.code, upstream.ledger().len()), (Some(1), 1), "a value out of range is the caller's to mend");
}

#[test]
fn a_run_that_left_out_a_field_plays_again() {
    let bed = Bed::new();
    let upstream = refusing(Wire::Chat, &["stream_options"], by_words);
    let cassette = bed.beside("cassette.ndjson");
    let lived = run(bed.against(&upstream, Wire::Chat).arg("--record").arg(&cassette));
    let played = run(&mut bed.command(&format!("replay/{}", cassette.display())));
    let told = |events: &[Value]| events.iter().filter(|e| e["event"] == "retry").map(|e| e["message"].clone()).collect::<Vec<_>>();
    assert_eq!((lived.code, played.code), (Some(0), Some(0)), "{:?}", played.stream.events());
    assert_eq!(told(lived.stream.events()).len(), 1);
    assert_eq!(lived.stream.last()["text"], played.stream.last()["text"]);
}

#[test]
fn the_first_byte_tells_a_stream_from_an_object_and_not_the_label() {
    for wire in WIRES {
        let events = Turn::new().text("streamed").events(wire);
        for (kind, front) in [("application/json", ""), ("application/json; charset=utf-8", "\n"), ("text/plain", ": hello\n\n")] {
            let bed = Bed::new();
            let body = [front.as_bytes(), &events].concat();
            let upstream = Upstream::start(Script::answers(vec![Answer::http(200, &[("content-type", kind)], body)]));
            let done = run(&mut bed.against(&upstream, wire));
            assert_eq!((done.code, &done.stream.last()["text"]), (Some(0), &"streamed".into()), "{wire:?} {kind}");
        }
        let failure = " {\"error\":{\"type\":\"invalid_request_error\",\"message\":\"said in one piece\"}}";
        let bed = Bed::new();
        let upstream = Upstream::start(Script::answers(vec![Answer::sse(failure)]));
        let done = run(&mut bed.against(&upstream, wire));
        assert_eq!((done.code, upstream.ledger().len()), (Some(1), 1), "{wire:?}");
        assert!(done.stream.one("error")["message"].as_str().unwrap().contains("said in one piece"));
    }
}
