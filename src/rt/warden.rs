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
use super::task::fence;
use crate::error::Exit;
use crate::limits;

/// Why the warden ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastResort {
    /// The run did not end within the grace.
    Stuck,
    /// A second signal asked not to wait. One that comes with the first, as from timeout(1), is taken for its echo.
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
        let watch = Watch::new(ward, signals, deadline)?;
        let shared = watch.shared.clone();
        std::thread::Builder::new().name("gantry-warden".into()).stack_size(256 * limits::KIB).spawn(move || watch.guard())?;
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
    signalled: Option<Instant>,
    reader_gone: bool,
}

/// What one poll saw.
struct Seen {
    writable: bool,
    gone: bool,
    signalled: bool,
}

impl Watch {
    fn new(ward: Arc<dyn Ward>, signals: Signals, deadline: Option<Instant>) -> io::Result<Watch> {
        let shared = Arc::new(Shared {
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            pending: AtomicBool::new(false),
            state: Mutex::new(State { deadline, ..State::default() }),
            drained: Condvar::new(),
        });
        Ok(Watch { ward, signals, shared, grace: None, signalled: None, reader_gone: false })
    }

    /// Watches until the run has ended, by itself or here. A panic of the ward leaves nobody to watch, so that is an end too.
    fn guard(mut self) {
        let why = match fence(|| self.run()) {
            Ok(None) => return,
            Ok(Some(why)) => why,
            Err(_) => LastResort::Stuck,
        };
        let last = fence(|| self.ward.last_resort(why, Duration::from_millis(limits::LAST_WRITE_MS)));
        let code = last.unwrap_or(Exit::Error.code());
        // SAFETY: _exit has no preconditions; destructors and exit handlers are left out on purpose, since the core may be stuck.
        unsafe { libc::_exit(i32::from(code)) }
    }

    /// Until the run has ended by itself, or must be ended.
    fn run(&mut self) -> Option<LastResort> {
        while !self.done() {
            let seen = self.wait();
            if seen.signalled && self.second_signal() {
                return Some(LastResort::SecondSignal);
            }
            if seen.gone && !self.reader_gone {
                self.reader_gone = true;
                self.shared.pending.store(false, Ordering::Release);
                self.ward.reader_gone();
                self.ask_to_end();
            }
            // Taken back before the attempt: what the core leaves over meanwhile must not be forgotten after it.
            let pending = self.shared.pending.swap(false, Ordering::AcqRel);
            if (pending || seen.writable) && self.ward.drain() {
                self.shared.pending.store(true, Ordering::Release);
            }
            if self.out_of_time() {
                return Some(LastResort::Stuck);
            }
        }
        None
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

    /// Takes the signals that came. True when they say not to wait for the run.
    fn second_signal(&mut self) -> bool {
        if self.signals.take() == 0 {
            return false;
        }
        if let Some(first) = self.signalled {
            return first.elapsed() >= Duration::from_millis(limits::SIGNAL_ECHO_MS);
        }
        self.signalled = Some(Clock::now());
        self.ward.signalled();
        self.ask_to_end();
        false
    }

    /// Acts on the moments that have come. True when the run had its grace and has not ended.
    fn out_of_time(&mut self) -> bool {
        let now = Clock::now();
        if self.grace.is_some_and(|grace| now >= grace) {
            if self.shared.lock().finishing {
                // `finish` has its own bound; the last line is written or the reader does not take it.
                self.grace = None;
                self.shared.lock().deadline = None;
                return false;
            }
            return true;
        }
        let due = self.shared.lock().deadline.take_if(|at| now >= *at).is_some();
        if due {
            self.ward.deadline();
            self.ask_to_end();
        }
        false
    }

    fn ask_to_end(&mut self) {
        self.grace.get_or_insert(Clock::now() + Duration::from_millis(limits::CANCEL_GRACE_MS));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{self, JoinHandle};

    use super::*;
    use crate::rt::signal;

    const SOON: Duration = Duration::from_secs(10);
    const GRACE: Duration = Duration::from_millis(limits::CANCEL_GRACE_MS);

    /// A run that writes `left` to a pipe and tells what the warden asks of it.
    struct Told {
        output: OwnedFd,
        left: Mutex<Vec<u8>>,
        calls: Sender<&'static str>,
    }

    impl Told {
        fn call(&self, name: &'static str) {
            self.calls.send(name).unwrap();
        }
    }

    impl Ward for Told {
        fn output(&self) -> BorrowedFd<'_> {
            self.output.as_fd()
        }

        fn drain(&self) -> bool {
            let mut left = self.left.lock().unwrap();
            while !left.is_empty() {
                match crate::rt::write_nowait(self.output.as_fd(), &left) {
                    Ok(n) => drop(left.drain(..n)),
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                        return true;
                    }
                }
            }
            false
        }

        fn reader_gone(&self) {
            self.call("reader gone");
        }

        fn signalled(&self) {
            self.call("signalled");
        }

        fn deadline(&self) {
            self.call("deadline");
        }

        fn last_resort(&self, _: LastResort, _: Duration) -> u8 {
            unreachable!("`run` leaves this to `guard`")
        }
    }

    /// A warden whose thread tells how it ended, where the real one ends the process.
    struct Bed {
        warden: Warden,
        watching: JoinHandle<Option<LastResort>>,
        reader: OwnedFd,
        hand: OwnedFd,
        calls: Receiver<&'static str>,
    }

    impl Bed {
        fn new(left: Vec<u8>, deadline: Option<Instant>) -> Bed {
            let (reader, output) = rustix::pipe::pipe().unwrap();
            let (tell, calls) = channel();
            let (signals, hand) = signal::tests::by_hand();
            let ward = Told { output, left: Mutex::new(left), calls: tell };
            let mut watch = Watch::new(Arc::new(ward), signals, deadline).unwrap();
            let warden = Warden { shared: watch.shared.clone() };
            Bed { warden, watching: thread::spawn(move || watch.run()), reader, hand, calls }
        }

        fn told(&self) -> &'static str {
            self.calls.recv_timeout(SOON).unwrap()
        }

        fn signal(&self, times: u64) {
            rustix::io::write(&self.hand, &times.to_ne_bytes()).unwrap();
        }

        fn finish(self, bound: Duration) -> Option<LastResort> {
            self.warden.finish(bound);
            self.watching.join().unwrap()
        }
    }

    #[test]
    fn the_deadline_asks_the_run_to_end_and_one_that_does_is_let_be() {
        let deadline = Clock::now() + Duration::from_millis(20);
        let bed = Bed::new(Vec::new(), Some(deadline));
        assert_eq!(bed.told(), "deadline");
        assert!(Clock::now() >= deadline);
        assert_eq!(bed.finish(SOON), None);
    }

    #[test]
    fn a_run_that_does_not_end_within_the_grace_is_ended() {
        let begun = Clock::now();
        let bed = Bed::new(Vec::new(), Some(begun));
        assert_eq!(bed.told(), "deadline");
        bed.signal(1);
        assert_eq!(bed.told(), "signalled");
        assert_eq!(bed.watching.join().unwrap(), Some(LastResort::Stuck));
        let took = begun.elapsed();
        assert!(took >= GRACE && took < 2 * GRACE, "{took:?}");
    }

    #[test]
    fn a_second_signal_does_not_wait_for_the_run() {
        let bed = Bed::new(Vec::new(), None);
        bed.signal(2);
        assert_eq!(bed.told(), "signalled", "two at once are one and its echo");
        let first = Clock::now();
        thread::sleep(Duration::from_millis(limits::SIGNAL_ECHO_MS));
        bed.signal(1);
        assert_eq!(bed.watching.join().unwrap(), Some(LastResort::SecondSignal));
        assert!(first.elapsed() < GRACE);
        assert_eq!(bed.calls.try_recv().ok(), None, "the run is asked once");
    }

    #[test]
    fn an_echo_of_the_first_signal_is_no_second_one() {
        let (signals, hand) = signal::tests::by_hand();
        let (reader, output) = rustix::pipe::pipe().unwrap();
        let ward = Told { output, left: Mutex::default(), calls: channel().0 };
        let mut watch = Watch::new(Arc::new(ward), signals, None).unwrap();
        let echo = Duration::from_millis(limits::SIGNAL_ECHO_MS);
        // A first signal in the future is one that was just now, however slow the machine.
        for (first, second) in [(Clock::now() + 1_000 * echo, false), (Clock::now() - echo, true)] {
            rustix::io::write(&hand, &1u64.to_ne_bytes()).unwrap();
            watch.signalled = Some(first);
            assert_eq!(watch.second_signal(), second);
        }
        drop(reader);
    }

    #[test]
    fn a_reader_that_goes_is_seen_while_nothing_is_written() {
        let mut bed = Bed::new(Vec::new(), None);
        let (other, _) = rustix::pipe::pipe().unwrap();
        drop(std::mem::replace(&mut bed.reader, other));
        assert_eq!(bed.told(), "reader gone");
        bed.warden.bell()();
        assert_eq!(bed.finish(SOON), None, "what is pending then is nobody's");
    }

    #[test]
    fn a_slow_reader_gets_everything_before_the_end() {
        let mut sent = vec![b'x'; 300_000];
        sent.push(b'\n');
        let bed = Bed::new(sent.clone(), None);
        bed.warden.bell()();
        let Bed { warden, watching, reader, .. } = bed;
        let reading = thread::spawn(move || {
            let (mut got, mut reader) = (Vec::new(), std::fs::File::from(reader));
            // The end of the pipe does not come, as the warden holds its other side.
            while got.last() != Some(&b'\n') {
                let mut some = [0; 5_000];
                let n = reader.read(&mut some).unwrap();
                got.extend_from_slice(&some[..n]);
            }
            got
        });
        warden.finish(SOON);
        assert_eq!(watching.join().unwrap(), None);
        assert!(reading.join().unwrap() == sent);
    }

    #[test]
    fn a_reader_that_never_reads_is_waited_for_within_the_bound() {
        let bed = Bed::new(vec![b'x'; 300_000], None);
        bed.warden.bell()();
        let begun = Clock::now();
        bed.warden.finish(Duration::from_millis(50));
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(50) && took < SOON, "{took:?}");
        assert!(!bed.watching.is_finished());
        drop(bed.reader);
        assert_eq!(bed.watching.join().unwrap(), None);
    }

    /// A run whose core leaves output over at the very moment when the warden has just written all there was.
    struct Interrupted {
        output: OwnedFd,
        bell: Mutex<Option<Box<dyn Fn() + Send>>>,
        drained: Sender<()>,
    }

    impl Ward for Interrupted {
        fn output(&self) -> BorrowedFd<'_> {
            self.output.as_fd()
        }

        fn drain(&self) -> bool {
            if let Some(bell) = self.bell.lock().unwrap().take() {
                bell();
            }
            self.drained.send(()).unwrap();
            false
        }

        fn reader_gone(&self) {}
        fn signalled(&self) {}
        fn deadline(&self) {}

        fn last_resort(&self, _: LastResort, _: Duration) -> u8 {
            unreachable!("the run ends by itself")
        }
    }

    #[test]
    fn output_left_over_during_an_attempt_is_not_forgotten() {
        let (_reader, output) = rustix::pipe::pipe().unwrap();
        let (tell, drained) = channel();
        let ward = Arc::new(Interrupted { output, bell: Mutex::new(None), drained: tell });
        let (signals, _hand) = signal::tests::by_hand();
        let mut watch = Watch::new(ward.clone(), signals, None).unwrap();
        let warden = Warden { shared: watch.shared.clone() };
        *ward.bell.lock().unwrap() = Some(Box::new(warden.bell()));
        let watching = thread::spawn(move || watch.run());
        warden.bell()();
        for _ in 0..2 {
            drained.recv_timeout(SOON).unwrap();
        }
        warden.finish(SOON);
        assert_eq!(watching.join().unwrap(), None);
    }

    #[test]
    fn the_thread_lets_go_of_the_output_when_the_run_has_ended() {
        let bed = Bed::new(Vec::new(), None);
        let mut reader = std::fs::File::from(bed.reader.try_clone().unwrap());
        assert_eq!(bed.finish(SOON), None);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "the end of the stream");
    }
}
