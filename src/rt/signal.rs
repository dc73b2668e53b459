//! The signals that ask a process to end, as something to poll.
//!
//! A handler adds to an eventfd and does nothing else. A blocked mask with a signalfd would be inherited by every child, which
//! then could not be terminated; a handler is not inherited across exec.
//!
//! SIGXFSZ gets a handler, too, for what it keeps from happening: a write beyond the user's limit on file sizes is an error like
//! any other, and does not end the process without a `result`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// The eventfd that the handler writes to. A handler has no other way to reach anything.
static HANDLER_FD: AtomicI32 = AtomicI32::new(-1);

/// The process's termination signals, from [`Signals::install`] on.
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Installs the handlers. Once per process.
    ///
    /// # Errors
    /// When no descriptor is left, or the handlers cannot be set.
    pub fn install() -> io::Result<Signals> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        HANDLER_FD.store(fd.as_raw_fd(), Ordering::Relaxed);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT] {
            set_handler(signal, on_signal)?;
        }
        // nohup(1) has it ignored, and means that.
        if !is_ignored(libc::SIGHUP) {
            set_handler(libc::SIGHUP, on_signal)?;
        }
        // A write beyond the limit of a file's size then fails like any other, and the run ends in order.
        set_handler(libc::SIGXFSZ, on_nothing)?;
        Ok(Signals { fd })
    }

    /// How many signals arrived since the last call.
    pub fn take(&self) -> u64 {
        let mut count = [0u8; 8];
        match rustix::io::read(&self.fd, &mut count) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let own = self.fd.as_raw_fd();
        let _ = HANDLER_FD.compare_exchange(own, -1, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid one, and is only written to; without a new one the call changes nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

fn set_handler(signal: i32, handler: extern "C" fn(i32)) -> io::Result<()> {
    // SAFETY: an all-zero sigaction is a valid one; the handlers below make at most one async-signal-safe call and keep errno.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_signal(_: i32) {
    let fd = HANDLER_FD.load(Ordering::Relaxed);
    let one = 1u64;
    // SAFETY: write(2) is async-signal-safe, the buffer is a local of 8 bytes, and errno is put back for whoever was interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(fd, (&raw const one).cast(), 8);
        *libc::__errno_location() = errno;
    }
}

extern "C" fn on_nothing(_: i32) {}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Signals that come from the test alone: each write of a number of eight bytes to the descriptor is so many.
    pub(in crate::rt) fn by_hand() -> (Signals, OwnedFd) {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let hand = fd.try_clone().unwrap();
        (Signals { fd }, hand)
    }

    #[test]
    fn each_signal_is_counted_once_and_neither_ends_the_process() {
        let signals = Signals::install().unwrap();
        assert_eq!(signals.take(), 0);
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: the handler of the signal is installed; it runs on this thread before the call returns.
            assert_eq!(unsafe { libc::raise(signal) }, 0);
        }
        assert_eq!((signals.take(), signals.take()), (2, 0));
        drop(signals);
        // SAFETY: as above, and there is nobody to tell now; then the tests may be interrupted again.
        let raised = unsafe {
            let raised = libc::raise(libc::SIGTERM);
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGTERM, libc::SIG_DFL);
            raised
        };
        assert_eq!(raised, 0);
    }

    #[test]
    fn errno_is_as_before_after_a_signal() {
        // SAFETY: errno belongs to this thread, and the function only writes to a descriptor that is not open.
        let errno = unsafe {
            *libc::__errno_location() = libc::EXDEV;
            on_signal(libc::SIGINT);
            *libc::__errno_location()
        };
        assert_eq!(errno, libc::EXDEV);
    }
}
