//! The one writer of stdout: whole lines, in order, without ever blocking the core.
//!
//! Lines are formatted into one buffer under a lock and written with calls that never wait. What a slow reader leaves
//! over stays in the buffer; the warden thread is woken and writes it when the descriptor is ready. Emitters wait in
//! [`Sink::ready`] once more than [`limits::SINK_BUFFER_BYTES_HIGH`] is pending, so a reader that stops bounds our memory
//! and stops the run instead of losing a line. The sums of `result` are folded as events pass, so that a last `result`
//! can be written when the core itself no longer answers.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::event::Event;
use super::field::Head;
use crate::error::Stop;
use crate::limits;
use crate::rt;

/// Room for the lines of several turns without growing (bytes).
const BUFFER_BYTES_START: usize = 64 * limits::KIB;

/// How long the warden waits for the lock, which the core holds for microseconds.
const LOCK_PATIENCE: Duration = Duration::from_millis(10);

/// The sums behind `result`, folded from the events themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Uncached input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens read from the provider's cache.
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    pub cache_write: u64,
    /// Model calls that ended well.
    pub turns: u64,
    /// Tool calls announced.
    pub tool_calls: u64,
}

impl Totals {
    fn fold(&mut self, event: &Event<'_>) {
        match *event {
            Event::AgentTurn { input_tokens, output_tokens, cache_read, cache_write, .. } => {
                self.add([input_tokens, output_tokens, cache_read, cache_write]);
                self.turns += 1;
            }
            Event::SubagentDone { input_tokens, output_tokens, cache_read, cache_write, .. } => {
                self.add([input_tokens, output_tokens, cache_read, cache_write]);
            }
            Event::ToolCall { .. } => self.tool_calls += 1,
            _ => {}
        }
    }

    fn add(&mut self, [input, output, cache_read, cache_write]: [u64; 4]) {
        self.input = self.input.saturating_add(input);
        self.output = self.output.saturating_add(output);
        self.cache_read = self.cache_read.saturating_add(cache_read);
        self.cache_write = self.cache_write.saturating_add(cache_write);
    }
}

/// The owner of stdout. Shared by the core thread and the warden thread.
pub struct Sink {
    fd: OwnedFd,
    started: Instant,
    state: Mutex<State>,
    /// Wakes the warden when output could not be written at once, or not at all.
    pending_bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct State {
    buffer: Vec<u8>,
    /// How much of the buffer is written already.
    written: usize,
    /// Length of the buffer up to the last whole line; what lies beyond was left by a panic while formatting.
    whole: usize,
    seq: u64,
    /// What `result` said; nothing more is accepted after it.
    sealed: Option<Stop>,
    /// The reader is gone or the descriptor failed; lines are dropped. A full disk keeps what is pending.
    broken: Option<io::ErrorKind>,
    totals: Totals,
    waiters: Vec<Waker>,
}

impl Sink {
    /// A sink over a private copy of the process's stdout, which children never inherit.
    ///
    /// # Errors
    /// When the descriptor cannot be copied (no descriptor left).
    pub fn stdout() -> io::Result<Sink> {
        Ok(Sink::over(io::stdout().as_fd().try_clone_to_owned()?))
    }

    /// A sink over any descriptor. Its flags are left as they are.
    pub fn over(fd: OwnedFd) -> Sink {
        let state = State { buffer: Vec::with_capacity(BUFFER_BYTES_START), ..State::default() };
        Sink { fd, started: rt::Clock::now(), state: Mutex::new(state), pending_bell: OnceLock::new() }
    }

    /// Counts the run's duration from an earlier moment, when the process began to work.
    pub fn since(mut self, started: Instant) -> Sink {
        self.started = started;
        self
    }

    /// The descriptor, for the warden's poll.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sets who is woken when output stays pending or the descriptor fails. The first call holds.
    pub fn on_pending(&self, bell: impl Fn() + Send + Sync + 'static) {
        let _ = self.pending_bell.set(Box::new(bell));
    }

    /// Adds one line. It goes out with the next [`Sink::flush`], or at once when many are waiting.
    pub fn emit(&self, event: &Event<'_>) {
        let mut state = self.lock();
        state.push(event);
        if state.pending() >= BUFFER_BYTES_START / 2 {
            self.write(state);
        }
    }

    /// Writes what can be written without waiting and leaves the rest to the warden.
    pub fn flush(&self) {
        self.write(self.lock());
    }

    /// Waits until the reader has taken enough for more lines to be emitted. Ends at once when the reader is gone.
    pub async fn ready(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.lock();
            if state.pending() < limits::SINK_BUFFER_BYTES_HIGH || state.broken.is_some() {
                return Poll::Ready(());
            }
            if !state.waiters.iter().any(|w| w.will_wake(cx.waker())) {
                state.waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Adds `result` with the sums so far, and accepts nothing after it. The first call holds.
    pub fn seal(&self, stop: Stop, text: Option<&str>) {
        let duration_ms = self.elapsed_ms();
        let mut state = self.lock();
        let totals = state.totals;
        state.push(&result_event(stop, &totals, duration_ms, text));
        state.sealed.get_or_insert(stop);
        self.write(state);
    }

    /// Time since the sink was made, which is the start of the run.
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(rt::Clock::now().saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the reader is gone (or the descriptor failed), and how.
    pub fn broken(&self) -> Option<io::ErrorKind> {
        self.lock_until(rt::Clock::now() + LOCK_PATIENCE)?.broken
    }

    /// Whether every line that was emitted is written.
    pub fn is_delivered(&self) -> bool {
        self.lock_until(rt::Clock::now() + LOCK_PATIENCE).is_some_and(|state| state.pending() == 0 && state.broken.is_none())
    }

    /// Writes pending bytes without waiting; for the warden. True when some are left, or when the core holds the lock for longer
    /// than a line takes: it may be stuck in a write, and the warden must not be.
    pub fn drain_some(&self) -> bool {
        let Some(mut state) = self.lock_until(rt::Clock::now() + LOCK_PATIENCE) else { return true };
        state.write(self.fd.as_fd());
        state.pending() > 0 && state.broken.is_none()
    }

    /// Drops what is pending and every line to come: the reader is gone. For the warden.
    pub fn mark_reader_gone(&self) {
        if let Some(mut state) = self.lock_until(rt::Clock::now() + LOCK_PATIENCE) {
            state.fail(io::ErrorKind::BrokenPipe);
        }
    }

    /// Writes a `result` from the folded sums when the core did not: for the warden, right before the process ends.
    ///
    /// Waits for the lock and then for the reader, within `bound` in all. Gives the reason that the stream states, which is the
    /// core's when it came to its own `result`; nothing when the lock could not be had.
    pub fn last_resort(&self, stop: Stop, bound: Duration) -> Option<Stop> {
        let until = rt::Clock::now() + bound;
        let mut state = self.lock_until(until)?;
        if state.sealed.is_none() {
            let totals = state.totals;
            state.push(&result_event(stop, &totals, self.elapsed_ms(), None));
        }
        let stated = *state.sealed.get_or_insert(stop);
        loop {
            state.write(self.fd.as_fd());
            let left = until.saturating_duration_since(rt::Clock::now());
            if state.pending() == 0 || state.broken.is_some() || left.is_zero() || !rt::wait_writable(self.fd.as_fd(), left) {
                return Some(stated);
            }
        }
    }

    fn write(&self, mut state: MutexGuard<'_, State>) {
        state.write(self.fd.as_fd());
        let ring = state.pending() > 0 || state.broken.is_some();
        drop(state);
        if ring && let Some(bell) = self.pending_bell.get() {
            bell();
        }
    }

    /// Enters a poisoned lock too: a panic while formatting leaves at most a half line, which is dropped here.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.drop_half_line();
        state
    }

    fn lock_until(&self, until: Instant) -> Option<MutexGuard<'_, State>> {
        loop {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(poisoned)) => {
                    let mut state = poisoned.into_inner();
                    state.drop_half_line();
                    return Some(state);
                }
                Err(TryLockError::WouldBlock) if rt::Clock::now() >= until => return None,
                Err(TryLockError::WouldBlock) => rt::pause(Duration::from_millis(2)),
            }
        }
    }
}

/// The `result` line from its parts.
fn result_event<'a>(stop: Stop, totals: &Totals, duration_ms: u64, text: Option<&'a str>) -> Event<'a> {
    Event::Result {
        exit: stop.exit(),
        total_input: totals.input,
        total_output: totals.output,
        total_cache_read: totals.cache_read,
        total_cache_write: totals.cache_write,
        duration_ms,
        stop_reason: stop,
        turns: totals.turns,
        tool_calls: totals.tool_calls,
        text,
        structured: None,
    }
}

impl State {
    fn pending(&self) -> usize {
        self.buffer.len() - self.written
    }

    fn push(&mut self, event: &Event<'_>) {
        if self.sealed.is_some() {
            return;
        }
        self.totals.fold(event);
        match self.broken {
            None => {}
            // The last line is still tried: space may have come back, and then the stream ends as it should.
            Some(io::ErrorKind::StorageFull) if matches!(event, Event::Result { .. }) => {}
            Some(_) => return,
        }
        event.write(&Head { ts: rt::Clock::epoch_ms(), seq: self.seq, run: None }, &mut self.buffer);
        self.seq += 1;
        self.whole = self.buffer.len();
    }

    fn drop_half_line(&mut self) {
        self.buffer.truncate(self.whole);
    }

    fn write(&mut self, fd: BorrowedFd<'_>) {
        while self.pending() > 0 {
            match rt::write_nowait(fd, &self.buffer[self.written..]) {
                Ok(0) => break,
                Ok(n) => self.written += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::StorageFull => {
                    self.broken.get_or_insert(io::ErrorKind::StorageFull);
                    break;
                }
                Err(e) => self.fail(e.kind()),
            }
        }
        if self.pending() == 0 {
            self.buffer.clear();
            self.written = 0;
            self.whole = 0;
            if self.buffer.capacity() > limits::SINK_BUFFER_BYTES_HIGH {
                self.buffer.shrink_to(BUFFER_BYTES_START);
            }
        }
        if self.pending() < limits::SINK_BUFFER_BYTES_HIGH || self.broken.is_some() {
            self.waiters.drain(..).for_each(Waker::wake);
        }
    }

    fn fail(&mut self, kind: io::ErrorKind) {
        self.broken.get_or_insert(kind);
        self.buffer.clear();
        self.written = 0;
        self.whole = 0;
        self.waiters.drain(..).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn pair() -> (std::fs::File, Sink) {
        let (reader, writer) = std::io::pipe().unwrap();
        (OwnedFd::from(reader).into(), Sink::over(OwnedFd::from(writer)))
    }

    fn text(sink: &Sink, text: &str) {
        sink.emit(&Event::AssistantText { role: "single", text });
    }

    #[test]
    fn a_panic_while_a_line_is_made_leaves_whole_lines_and_the_result_still_comes() {
        let (mut reader, sink) = pair();
        text(&sink, "before");
        let sink = std::sync::Arc::new(sink);
        let theirs = sink.clone();
        let panicked = std::thread::spawn(move || {
            let mut state = theirs.state.lock().unwrap();
            state.buffer.extend_from_slice(b"{\"event\":\"half");
            panic!("in the writer");
        });
        assert!(panicked.join().is_err());
        text(&sink, "after");
        sink.seal(Stop::Internal, None);
        drop(sink);
        let mut all = String::new();
        reader.read_to_string(&mut all).unwrap();
        let events: Vec<serde_json::Value> = all.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(events.iter().map(|e| e["seq"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((&events[1]["text"], &events[2]["event"]), (&"after".into(), &"result".into()));
    }

    #[test]
    fn nothing_comes_after_the_result() {
        let (mut reader, sink) = pair();
        sink.seal(Stop::Completed, Some("done"));
        sink.seal(Stop::Internal, None);
        text(&sink, "late");
        sink.flush();
        assert_eq!(sink.last_resort(Stop::Signal, Duration::from_millis(10)), Some(Stop::Completed));
        drop(sink);
        let mut all = String::new();
        reader.read_to_string(&mut all).unwrap();
        assert_eq!(all.lines().count(), 1, "{all}");
    }

    #[test]
    fn a_held_lock_is_given_up_on() {
        let (_reader, sink) = pair();
        let _held = sink.state.lock().unwrap();
        assert_eq!(sink.last_resort(Stop::Signal, Duration::from_millis(20)), None);
    }

    #[test]
    fn a_reader_that_is_gone_breaks_the_sink_and_nobody_panics() {
        let (reader, sink) = pair();
        drop(reader);
        text(&sink, "into the void");
        sink.flush();
        assert_eq!(sink.broken(), Some(io::ErrorKind::BrokenPipe));
        sink.seal(Stop::Completed, None);
    }
}
