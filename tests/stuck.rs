//! A run whose core no longer answers still ends with exactly one result, in time.
//!
//! No flag makes the core hang, so this program plays both sides: started with a scene's name it is a run that hangs (a real sink
//! and a real warden over its real stdout, and a main thread that never comes back); without one it starts each scene as a child
//! and reads what it writes.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may unwrap: its panic is the report")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gantry::emit::{Event, RunWard, Sink};
use gantry::error::Stop;
use gantry::rt::{Cancel, Clock, Signals, Warden};
use serde_json::Value;

/// The contract gives a run two seconds from the first signal, or from its deadline, to its result.
const ALLOWED: Duration = Duration::from_millis(2_500);

struct Scene {
    name: &'static str,
    play: fn(&Sink),
    watch: fn(Child, BufReader<ChildStdout>),
}

static SCENES: &[Scene] = &[
    Scene { name: "deadline", play: |sink| emit_turns(sink, 3), watch: |child, out| expect(child, out, 3, "deadline", 3, None) },
    Scene { name: "signal", play: |sink| emit_turns(sink, 2), watch: |child, out| expect(child, out, 3, "signal", 2, Some(1)) },
    Scene { name: "second_signal", play: |sink| emit_turns(sink, 2), watch: |child, out| expect(child, out, 3, "signal", 2, Some(2)) },
    Scene { name: "full_pipe", play: |sink| emit_turns(sink, 400), watch: |child, out| expect(child, out, 3, "deadline", 400, None) },
    Scene {
        name: "after_result",
        play: |sink| sink.seal(Stop::Completed, None),
        watch: |child, out| expect(child, out, 0, "completed", 0, None),
    },
];

fn main() {
    let scene = std::env::args().nth(1).and_then(|name| SCENES.iter().find(|s| s.name == name));
    if let Some(scene) = scene {
        hang(scene);
    }
    for scene in SCENES {
        let mut child = Command::new(std::env::current_exe().unwrap()).arg(scene.name).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (scene.watch)(child, out);
        println!("scene {} ok", scene.name);
    }
    println!("{} passed, 0 failed", SCENES.len());
}

/// The run: emits, and never comes back.
fn hang(scene: &Scene) -> ! {
    let sink = Arc::new(Sink::stdout().unwrap());
    let cancel = Cancel::new();
    let timeout = if scene.name.contains("signal") { Duration::from_secs(600) } else { Duration::from_millis(300) };
    let ward = Arc::new(RunWard::new(sink.clone(), cancel));
    let warden = Warden::start(ward, Signals::install().unwrap(), Some(Clock::now() + timeout)).unwrap();
    sink.on_pending(warden.bell());
    (scene.play)(&sink);
    loop {
        std::thread::park();
    }
}

fn emit_turns(sink: &Sink, turns: u32) {
    for turn in 0..turns {
        sink.emit(&Event::AgentTurn {
            role: "single",
            turn,
            input_tokens: 10,
            output_tokens: 1,
            cache_read: 0,
            cache_write: 0,
            duration_ms: 1,
            stop_reason: "tool_use",
            attempts: 1,
            ttft_ms: 1,
            usage_estimated: None,
        });
        sink.emit(&Event::AssistantText { role: "single", text: &"x".repeat(300) });
    }
    sink.flush();
}

fn expect(mut child: Child, mut out: BufReader<ChildStdout>, code: i32, stop: &str, turns: u64, signals: Option<u32>) {
    let mut lines = Vec::new();
    if signals.is_some() {
        // The first line tells that the handlers are there.
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        lines.push(first);
    }
    let started = Instant::now();
    for _ in 0..signals.unwrap_or(0) {
        assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    }
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    lines.extend(rest.lines().map(str::to_owned));
    assert_eq!(child.wait().unwrap().code(), Some(code), "{stop}");
    assert!(started.elapsed() < ALLOWED, "{stop}: {:?}", started.elapsed());
    let events: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = events.last().unwrap();
    assert_eq!(events.iter().filter(|e| e["event"] == "result").count(), 1, "{stop}: {last}");
    assert_eq!((&last["event"], &last["stop_reason"]), (&"result".into(), &stop.into()));
    assert_eq!(
        (last["turns"].as_u64(), last["total_input"].as_u64()),
        (Some(turns), Some(turns * 10)),
        "the sums were folded as events passed"
    );
    assert!(events.iter().enumerate().all(|(at, e)| e["seq"].as_u64() == Some(at as u64)), "whole lines without gaps");
}
