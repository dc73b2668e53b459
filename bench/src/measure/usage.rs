//! What a process costs, from the kernel's own books: processor time, memory, and the one clock that processes share.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// What a process has used.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// User and system time.
    pub cpu: Duration,
    /// The largest resident set, in KiB. It counts what the process had before its exec too.
    pub rss_max_kib: u64,
}

impl Usage {
    fn of(usage: &libc::rusage) -> Usage {
        let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1_000);
        Usage { cpu: time(usage.ru_utime) + time(usage.ru_stime), rss_max_kib: usage.ru_maxrss as u64 }
    }

    /// What this process has used so far.
    ///
    /// # Errors
    /// What the system says.
    pub fn own() -> io::Result<Usage> {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to writable memory of the right size.
        if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all bytes are initialised, and any bytes are a valid value of this struct of integers.
        Ok(Usage::of(&unsafe { usage.assume_init() }))
    }

    /// Waits for a child that nobody else waits for. Returns its exit code, if it has one, and what it and its own children
    /// that it waited for have used.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(pid: u32) -> io::Result<(Option<i32>, Usage)> {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        let mut status = 0;
        // SAFETY: both pointers are to writable memory of the right size.
        if unsafe { libc::wait4(pid as libc::pid_t, &raw mut status, 0, usage.as_mut_ptr()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
        // SAFETY: all bytes are initialised, and any bytes are a valid value of this struct of integers.
        Ok((code, Usage::of(&unsafe { usage.assume_init() })))
    }
}

/// The monotonic clock in nanoseconds, the same for all processes of the machine. Safe to call between fork and exec.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live value, and the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_accounted_for() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 7"]).spawn().unwrap();
        let (code, usage) = Usage::wait(child.id()).unwrap();
        assert_eq!(code, Some(7));
        assert!(usage.cpu > Duration::from_micros(500) && usage.rss_max_kib > 500, "{usage:?}");
        assert!(child.wait().is_err(), "a child is waited for once");
        assert!(Usage::own().unwrap().cpu > Duration::ZERO);
        let before = monotonic_ns();
        assert!(monotonic_ns() >= before && before > 0);
    }
}
