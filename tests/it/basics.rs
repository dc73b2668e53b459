//! A run that goes well, on both wires.

use gantry_bench::upstream::{Script, Turn, Upstream, Wire};

use crate::gantry::{Bed, run};

#[test]
fn a_run_tells_start_turns_calls_results_text_and_one_result() {
    for wire in [Wire::Anthropic, Wire::Chat] {
        let bed = Bed::new();
        bed.write("src/main.rs", "fn main() {}\n").write("notes.txt", "ä\n");
        let upstream = Upstream::start(Script::turns(
            wire,
            vec![
                Turn::new().text("Looking.").call("list_files", "{}").call("read_file", r#"{"path":"notes.txt"}"#).usage([100, 20, 5, 7]),
                Turn::new().call("grep", r#"{"pattern":"fn main"}"#),
                Turn::new().text("A small program.").usage([50, 5, 100, 0]),
            ],
        ));
        let done = run(&mut bed.against(&upstream, wire));
        assert_eq!((done.code, upstream.violations()), (Some(0), vec![]), "{}", done.stderr);
        let result = done.stream.last();
        assert_eq!(
            (&result["exit"], &result["stop_reason"], &result["text"]),
            (&"ok".into(), &"completed".into(), &"A small program.".into())
        );
        assert_eq!((&result["turns"], &result["tool_calls"], &result["total_input"]), (&3.into(), &3.into(), &250.into()));
        assert_eq!((&result["total_cache_read"], &result["total_cache_write"]), (&105.into(), &7.into()));
        let bodies = upstream.ledger();
        assert_eq!(bodies.len(), 3);
        assert!(String::from_utf8_lossy(&bodies[2].body).contains("src/main.rs:1:fn main"));
        assert_eq!(bodies[0].connection, bodies[2].connection, "the connection is kept");
    }
}

#[test]
fn the_first_request_is_lean() {
    let bed = Bed::new();
    let upstream = Upstream::start(Script::turns(Wire::Anthropic, vec![Turn::new().text("ok")]));
    run(&mut bed.against(&upstream, Wire::Anthropic));
    let body = upstream.ledger()[0].json();
    let bytes = body["system"].to_string().len() + body["tools"].to_string().len();
    assert!(bytes <= 5_000, "system prompt and tools have {bytes} bytes");
}

#[test]
fn two_runs_of_the_same_flags_send_the_same_bytes() {
    let bed = Bed::new();
    let bodies: Vec<Vec<u8>> = (0..2)
        .map(|_| {
            let upstream = Upstream::start(Script::turns(Wire::Anthropic, vec![Turn::new().text("ok")]));
            run(&mut bed.against(&upstream, Wire::Anthropic));
            upstream.ledger()[0].body.clone()
        })
        .collect();
    assert_eq!(bodies[0], bodies[1]);
}

#[test]
fn an_injected_skill_stands_before_the_persona_and_a_missing_one_is_a_warning() {
    let bed = Bed::new();
    bed.write(".claude/skills/terse/SKILL.md", "Be terse.\n");
    std::fs::write(bed.beside("persona.md"), "You review code.").unwrap();
    let upstream = Upstream::start(Script::turns(Wire::Chat, vec![Turn::new().text("ok")]));
    let done = run(bed
        .against(&upstream, Wire::Chat)
        .args(["--inject-skill", "terse", "--inject-skill", "absent", "--system-file"])
        .arg(bed.beside("persona.md")));
    assert_eq!(done.stream.one("skill_loaded")["name"], "terse");
    assert_eq!(done.stream.one("warning")["code"], "skill_missing");
    let system = upstream.ledger()[0].json()["messages"][0]["content"].as_str().unwrap().to_owned();
    assert_eq!(system, "<skill name=\"terse\">\nBe terse.\n</skill>\n\nYou review code.");
}

#[test]
fn a_recording_is_played_back_as_the_same_stream() {
    let bed = Bed::new();
    bed.write("a.txt", "one\n");
    let upstream = Upstream::start(Script::turns(
        Wire::Chat,
        vec![Turn::new().text("x").call_with_id("q1", "read_file", r#"{"path":"a.txt"}"#), Turn::new().text("Done: é漢😀.")],
    ));
    let tape = bed.beside("tape.ndjson");
    let live = run(bed.against(&upstream, Wire::Chat).arg("--record").arg(&tape));
    let text = std::fs::read_to_string(&tape).unwrap();
    assert!(!text.contains("sk-secret-1") && !text.contains("Look around"), "{text}");
    drop(upstream);
    let played = run(&mut bed.command(&format!("replay/{}", tape.display())));
    let strip = |done: &crate::gantry::Done| -> Vec<serde_json::Value> {
        done.stream.events()[1..]
            .iter()
            .map(|e| {
                let mut e = e.clone();
                for key in ["ts", "duration_ms", "ttft_ms"] {
                    e.as_object_mut().unwrap().remove(key);
                }
                e
            })
            .collect()
    };
    assert_eq!(strip(&live), strip(&played));
    std::fs::write(bed.work().join("a.txt"), "changed").unwrap();
    assert_eq!(run(&mut bed.command(&format!("replay/{}", tape.display()))).code, Some(0), "what tools read may change");
    let lines: Vec<&str> = text.lines().take(2).collect();
    std::fs::write(&tape, lines.join("\n")).unwrap();
    let missed = run(&mut bed.command(&format!("replay/{}", tape.display())));
    assert_eq!((missed.code, &missed.stream.one("error")["kind"]), (Some(1), &"provider".into()));
    assert!(missed.stream.one("error")["message"].as_str().unwrap().contains("turn 1"));
}
