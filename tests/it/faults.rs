//! Every fault that the upstream knows, on every wire, before an answer that is well: what is repeated, what is final, and that no
//! call of a broken answer is run.

use std::sync::Mutex;

use gantry_bench::upstream::{FAULTS, Fault, Script, Turn, Upstream, Wire};

use crate::gantry::{Bed, run};

/// Runs at the same time: most of a run's time is a wait before it tries again.
const AT_ONCE: usize = 8;

/// What becomes of a run whose first answer has a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// The attempt is repeated after a failure of this class, and the run ends well.
    Repeated(&'static str),
    /// The run ends with this code after one request.
    Final(i32),
    /// The answer is whole enough to be taken, and its call is run.
    Taken,
    /// The deadline ends it.
    Deadline,
}

const OUTCOMES: &[(Outcome, &[&str])] = &[
    (Outcome::Repeated("timeout"), &["hang", "hang-after-head", "hang-in-body"]),
    (
        Outcome::Repeated("transport"),
        &[
            "close",
            "reset",
            "close-in-head",
            "close-after-head",
            "close-in-body",
            "reset-in-body",
            "chunk-cut",
            "chunk-size-is-no-number",
            "length-too-long",
            "length-too-short",
            "no-end",
            "empty-body",
        ],
    ),
    (Outcome::Repeated("protocol"), &["garbage", "endless-head", "endless-head-line", "event-is-no-json", "endless-line", "gigabyte-line"]),
    (Outcome::Repeated("server"), &["html-502", "empty-500", "long-500", "not-utf8-500", "array-500", "error-event-in-body"]),
    (Outcome::Repeated("overloaded"), &["overloaded", "error-event"]),
    (Outcome::Repeated("rate_limited"), &["rate-limit", "rate-limit-unreadable"]),
    (Outcome::Final(5), &["rate-limit-long"]),
    (Outcome::Final(1), &["gzip", "gzip-in-name-only", "redirect", "too-large-early", "html-200", "text-403", "payment", "quota"]),
    (Outcome::Taken, &["no-last-chunk", "wrong-type"]),
    (Outcome::Deadline, &["endless-events", "endless-comments"]),
];

fn outcome(fault: &Fault) -> Outcome {
    let rows: Vec<_> = OUTCOMES.iter().filter(|row| row.1.contains(&fault.name)).collect();
    assert_eq!(rows.len(), 1, "{} has one outcome", fault.name);
    rows[0].0
}

fn try_one(wire: Wire, fault: &Fault) {
    let bed = Bed::new();
    let upstream = Upstream::start(Script::answers(vec![fault.on(wire), Turn::new().text("ok").on(wire)]));
    let outcome = outcome(fault);
    if outcome == Outcome::Deadline {
        bed.timeout(1_000);
    }
    let mut command = bed.against(&upstream, wire);
    if outcome == Outcome::Repeated("timeout") {
        command.args(["--idle-timeout-ms", "800"]);
    }
    let done = run(&mut command);
    let retries: Vec<&str> = done.stream.all("retry").iter().map(|r| r["class"].as_str().unwrap()).collect();
    let seen = (done.code, upstream.ledger().len(), retries.as_slice(), done.stream.all("tool_call").len());
    let wanted = match &outcome {
        Outcome::Repeated(class) => (Some(0), 2, std::slice::from_ref(class), 0),
        Outcome::Final(code) => (Some(*code), 1, [].as_slice(), 0),
        Outcome::Taken => (Some(0), 2, [].as_slice(), 1),
        Outcome::Deadline => (Some(3), 1, [].as_slice(), 0),
    };
    assert_eq!(seen, wanted, "{wire:?} {} {:#?}", fault.name, done.stream.events());
}

#[test]
fn every_fault_has_its_outcome_on_every_wire() {
    let all: Vec<_> = Wire::ALL.iter().flat_map(|wire| FAULTS.iter().map(|fault| (*wire, fault))).collect();
    let next = Mutex::new(all.iter());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((wire, fault)) = next.lock().unwrap().next() else { return };
                    try_one(*wire, fault);
                }
            });
        }
    });
}
