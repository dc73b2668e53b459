//! Kills everything that a command has started, however it tried to get away.
//!
//! The helper is a subreaper: whoever loses its parent below it becomes its own child, whatever session or group it has put itself
//! into. So killing one's children until there are none left gets all of them.

use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

use crate::rt::{self, Clock};

/// How long this is tried; a machine that cannot kill in that time is in other trouble.
const BOUND: Duration = Duration::from_secs(5);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// Asks all to end, waits so long, and kills what is left.
pub(super) fn end(grace: Duration) {
    let until = Clock::now() + grace;
    for pid in descendants() {
        // Whoever is gone already needs no signal.
        let _ = kill_process(pid, Signal::TERM);
        let _ = kill_process(pid, Signal::CONT);
    }
    while Clock::now() < until && !reap() {
        rt::pause(PAUSE);
    }
    kill();
}

/// Kills all, at once.
pub(super) fn kill() {
    let until = Clock::now() + BOUND;
    while !reap() && Clock::now() < until {
        for pid in descendants() {
            let _ = kill_process(pid, Signal::KILL);
        }
        if !reap() {
            rt::pause(PAUSE);
        }
    }
}

/// Buries the dead. True when there is no child left.
fn reap() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Our children and theirs, as far as they are known now.
fn descendants() -> Vec<Pid> {
    let mut found: Vec<Pid> = Vec::new();
    let mut todo = children_of("self");
    while let Some(pid) = todo.pop() {
        if !found.contains(&pid) {
            found.push(pid);
            todo.extend(children_of(&pid.as_raw_nonzero().to_string()));
        }
    }
    found
}

fn children_of(process: &str) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let pids: Vec<Pid> =
        lists.flat_map(|list| list.split_whitespace().filter_map(|p| Pid::from_raw(p.parse().ok()?)).collect::<Vec<_>>()).collect();
    pids
}
