//! Starts a program from a small process of its own and tells what it cost.
//!
//! The detour is for honest figures: the kernel counts what a process had before its exec, so the peak memory of a child is at
//! least its parent's; and the clock should start at the exec, not at the work of making a process. So a measuring tool runs
//! itself again as the launcher, which forks, notes the time, and execs.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::usage::{Usage, monotonic_ns};

/// The first argument of a launcher.
pub const LAUNCH: &str = "--launch";

/// A program that has run to its end.
#[derive(Debug, Deserialize, Serialize)]
pub struct Ran {
    /// When it was executed, by the monotonic clock.
    pub exec_ns: u64,
    /// User and system time, with that of its own children.
    pub cpu_us: f64,
    /// The largest resident set; at least the launcher's own, which is about 2 MiB.
    pub rss_max_kib: u64,
    /// Its exit code, if it has one.
    pub code: Option<i32>,
    /// The first line that it wrote.
    pub first_line: String,
    /// The last line that it wrote.
    pub last_line: String,
}

/// What the launcher does: runs the program of these words to its end, and prints [`Ran`] as a line.
///
/// # Errors
/// What the system says.
pub fn launch(mut words: impl Iterator<Item = OsString>) -> io::Result<Ran> {
    let program = words.next().ok_or_else(|| io::Error::other("a launcher needs a program"))?;
    let (mut clock, mut mark) = io::pipe()?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
    // SAFETY: between fork and exec the closure reads a clock and writes to a pipe, which is allowed there.
    unsafe { command.pre_exec(move || mark.write_all(&monotonic_ns().to_ne_bytes())) };
    let mut child = command.spawn()?;
    let mut exec_ns = [0; 8];
    clock.read_exact(&mut exec_ns)?;
    let mut output = Vec::new();
    child.stdout.take().expect("stdout is piped").read_to_end(&mut output)?;
    let (code, usage) = Usage::wait(child.id())?;
    let text = String::from_utf8_lossy(&output);
    Ok(Ran {
        exec_ns: u64::from_ne_bytes(exec_ns),
        cpu_us: usage.cpu.as_secs_f64() * 1e6,
        rss_max_kib: usage.rss_max_kib,
        code,
        first_line: text.lines().next().unwrap_or_default().to_owned(),
        last_line: text.lines().next_back().unwrap_or_default().to_owned(),
    })
}

/// Runs a program through a launcher, in an environment that holds these variables and no others.
///
/// # Errors
/// What the system or the launcher says.
pub fn run(launcher: &Path, words: &[OsString], variables: &[(OsString, OsString)]) -> io::Result<Ran> {
    let mut command = Command::new(launcher);
    command.arg(LAUNCH).args(words).env_clear().envs(variables.iter().cloned());
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    serde_json::from_slice(&output.stdout).map_err(|_| io::Error::other(String::from_utf8_lossy(&output.stderr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launched_program_is_timed_and_accounted_for() {
        let before = monotonic_ns();
        let words = ["python3", "-c", "x = bytearray(30_000_000); print('a'); print(sum(range(1_000_000)) and 'b'); exit(3)"];
        let ran = launch(words.into_iter().map(OsString::from)).unwrap();
        assert!(ran.exec_ns > before && ran.exec_ns < monotonic_ns());
        assert!(ran.cpu_us > 5_000.0 && ran.rss_max_kib > 30_000, "{ran:?}");
        assert_eq!((ran.code, ran.first_line.as_str(), ran.last_line.as_str()), (Some(3), "a", "b"));
        assert!(launch(["/nonexistent/program".into()].into_iter()).is_err());
    }
}
