//! The thread that keeps the promises when the core cannot: deadline, signals, a reader that is gone, a reader that is slow.
//!
//! Timers of the core do not fire while a task is busy, so nothing that must happen rests on them. The warden sleeps in poll(2)
//! over stdout (an error there means that the reader is gone, which is seen within a millisecond even while a run only waits),
//! the signals, and a bell; its time-out is the next moment that matters. Once it has asked the run to end, the run has a
//! grace; after that the warden writes the last line itself and ends the process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::clock::Clock;
use super::signal::Signals;
use crate::limits;

/// Why the warden ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastResort {
    /// The run did not end within the grace.
    Stuck,
    /// A second signal asked not to wait.
    SecondSignal,
}

/// What the warden watches over. Called on its thread; must not block for long.
pub trait Ward: Send + Sync {
    /// The descriptor of the output.
    fn output(&self) -> BorrowedFd<'_>;
    /// Writes pending output without waiting. True when some is left.
    fn drain(&self) -> bool;
    /// Nobody reads the output any more: the run is to end.
    fn reader_gone(&self);
    /// The first signal: the run is to end.
    fn signalled(&self);
    /// The wall clock ran out: the run is to end.
    fn deadline(&self);
    /// Writes the last line in the run's place, within `bound`, and gives the exit code.
    fn last_resort(&self, why: LastResort, bound: Duration) -> u8;
}

/// A handle to the running warden.
pub struct Warden {
    shared: Arc<Shared>,
}

struct Shared {
    bell: OwnedFd,
    /// Output is pending that the core could not write.
    pending: AtomicBool,
    state: Mutex<State>,
    drained: Condvar,
}

#[derive(Default)]
struct State {
    deadline: Option<Instant>,
    /// The run has written its last line; only pending output is left to do.
    finishing: bool,
    ended: bool,
}

impl Warden {
    /// Starts the warden's thread.
    ///
    /// # Errors
    /// When no descriptor or thread can be had.
    pub fn start(ward: Arc<dyn Ward>, signals: Signals, deadline: Option<Instant>) -> io::Result<Warden> {
        let shared = Arc::new(Shared {
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            pending: AtomicBool::new(false),
            state: Mutex::new(State { deadline, ..State::default() }),
            drained: Condvar::new(),
        });
        let watch = Watch { ward, signals, shared: shared.clone(), grace: None, signals_seen: 0, reader_gone: false };
        std::thread::Builder::new().name("gantry-warden".into()).stack_size(256 * limits::KIB).spawn(move || watch.run())?;
        Ok(Warden { shared })
    }

    /// A bell to ring when output stays pending.
    pub fn bell(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = self.shared.clone();
        move || {
            shared.pending.store(true, Ordering::Release);
            shared.ring();
        }
    }

    /// The run has ended and its last line is in the output: waits until it is written, at most `bound`.
    pub fn finish(self, bound: Duration) {
        let until = Clock::now() + bound;
        let mut state = self.shared.lock();
        state.finishing = true;
        self.shared.ring();
        while !state.ended {
            let left = until.saturating_duration_since(Clock::now());
            if left.is_zero() {
                return;
            }
            state = self.shared.drained.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn ring(&self) {
        // Fails only when the counter is full, and then the bell is rung already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's own side.
struct Watch {
    ward: Arc<dyn Ward>,
    signals: Signals,
    shared: Arc<Shared>,
    /// When the run must have ended, once it was asked to.
    grace: Option<Instant>,
    signals_seen: u64,
    reader_gone: bool,
}

/// What one poll saw.
struct Seen {
    writable: bool,
    gone: bool,
    signalled: bool,
}

impl Watch {
    fn run(mut self) {
        while !self.done() {
            let seen = self.wait();
            if seen.signalled {
                self.on_signal();
            }
            if seen.gone && !self.reader_gone {
                self.reader_gone = true;
                self.shared.pending.store(false, Ordering::Release);
                self.ward.reader_gone();
                self.ask_to_end();
            }
            if seen.writable || self.shared.pending.load(Ordering::Acquire) {
                let left = self.ward.drain();
                self.shared.pending.store(left, Ordering::Release);
            }
            self.on_time();
        }
    }

    /// True when the run has ended and its output is out. Tells whoever waits.
    fn done(&self) -> bool {
        let mut state = self.shared.lock();
        let done = state.finishing && (self.reader_gone || !self.shared.pending.load(Ordering::Acquire));
        if done {
            state.ended = true;
            self.shared.drained.notify_all();
        }
        done
    }

    fn wait(&self) -> Seen {
        let pending = self.shared.pending.load(Ordering::Acquire);
        let output = if self.reader_gone { None } else { Some(self.ward.output()) };
        let interest = if pending { PollFlags::OUT } else { PollFlags::empty() };
        let mut fds = Vec::with_capacity(3);
        fds.push(PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN));
        fds.push(PollFd::from_borrowed_fd(self.shared.bell.as_fd(), PollFlags::IN));
        fds.extend(output.map(|fd| PollFd::from_borrowed_fd(fd, interest)));
        let timeout = self.next_moment().map(|at| at.saturating_duration_since(Clock::now()));
        let timeout = timeout.and_then(|d| Timespec::try_from(d).ok());
        // An error (EINTR, no memory) is a round without news.
        let _ = poll(&mut fds, timeout.as_ref());
        let out = fds.get(2).map_or(PollFlags::empty(), PollFd::revents);
        let seen = Seen {
            writable: out.contains(PollFlags::OUT),
            // ERR is a pipe without a reader; HUP a socket or terminal whose other side is gone.
            gone: out.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL),
            signalled: fds[0].revents().contains(PollFlags::IN),
        };
        if fds[1].revents().contains(PollFlags::IN) {
            let _ = rustix::io::read(&self.shared.bell, &mut [0u8; 8]);
        }
        seen
    }

    fn next_moment(&self) -> Option<Instant> {
        self.grace.or(self.shared.lock().deadline)
    }

    fn on_signal(&mut self) {
        self.signals_seen += self.signals.take();
        if self.signals_seen == 0 {
            return;
        }
        if self.signals_seen >= 2 {
            self.end_process(LastResort::SecondSignal);
        }
        self.ward.signalled();
        self.ask_to_end();
    }

    fn on_time(&mut self) {
        let now = Clock::now();
        if self.grace.is_some_and(|grace| now >= grace) {
            if self.shared.lock().finishing {
                // `finish` has its own bound; the last line is written or the reader does not take it.
                self.grace = None;
                self.shared.lock().deadline = None;
                return;
            }
            self.end_process(LastResort::Stuck);
        }
        let due = self.shared.lock().deadline.take_if(|at| now >= *at).is_some();
        if due {
            self.ward.deadline();
            self.ask_to_end();
        }
    }

    fn ask_to_end(&mut self) {
        self.grace.get_or_insert(Clock::now() + Duration::from_millis(limits::CANCEL_GRACE_MS));
    }

    fn end_process(&self, why: LastResort) -> ! {
        let code = self.ward.last_resort(why, Duration::from_millis(limits::LAST_WRITE_MS));
        // SAFETY: _exit has no preconditions; destructors and exit handlers are left out on purpose, since the core may be stuck.
        unsafe { libc::_exit(i32::from(code)) }
    }
}
