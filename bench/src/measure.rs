//! Measurements of whole processes: CPU time by the operating system's accounting, memory by the kernel's high-water mark.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a finished process used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// User and system CPU.
    pub cpu: Duration,
    /// Peak resident memory (KiB).
    pub peak_kib: u64,
    /// From start to end.
    pub wall: Duration,
}

/// Runs a command to its end and tells what it used. Its output is thrown away.
///
/// # Errors
/// When it cannot be started, or ends without success.
pub fn run(command: &mut Command) -> io::Result<Used> {
    let started = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut peak_kib = 0;
    let mut usage = no_usage();
    let mut status = 0;
    loop {
        // The mark only rises, so the last look before the end is the peak, or next to it.
        peak_kib = peak_kib.max(high_water(&child));
        // SAFETY: `status` and `usage` are valid for writes, and the child is ours and not waited for elsewhere.
        let done = unsafe { libc::wait4(child.id() as i32, &raw mut status, libc::WNOHANG, &raw mut usage) };
        match done {
            0 => std::thread::sleep(Duration::from_micros(500)),
            -1 => return Err(io::Error::last_os_error()),
            _ => break,
        }
    }
    if status != 0 {
        return Err(io::Error::other(format!("{command:?} ended with wait status {status}")));
    }
    Ok(Used { cpu: cpu_of(&usage), peak_kib, wall: started.elapsed() })
}

/// CPU time of this process so far.
pub fn own_cpu() -> Duration {
    let mut usage = no_usage();
    // SAFETY: `usage` is valid for writes.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    cpu_of(&usage)
}

fn no_usage() -> libc::rusage {
    // SAFETY: a rusage is plain numbers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

fn cpu_of(usage: &libc::rusage) -> Duration {
    let time = |t: libc::timeval| Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64);
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn high_water(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The middle of some values.
pub fn median<T: Copy + PartialOrd>(values: &mut [T]) -> Option<T> {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 2).copied()
}

/// The machine, in one line.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model =
        cpuinfo.lines().find_map(|l| l.strip_prefix("model name")).map_or("unknown CPU", |l| l.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cores} cores, Linux {}", read("/proc/sys/kernel/osrelease").trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_has_used_cpu_and_memory() {
        let used = run(Command::new("python3").args(["-c", "x = bytearray(30_000_000); s = sum(range(2_000_000))"])).unwrap();
        assert!(used.cpu > Duration::from_millis(5) && used.peak_kib > 30_000, "{used:?}");
        assert!(run(&mut Command::new("false")).is_err());
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!((median(&mut [3, 1, 2]), median::<u32>(&mut [])), (Some(2), None));
    }
}
