//! The server: a thread per connection over plain sockets, so that every byte is ours, and the ledger that they share.
//!
//! Threads wait in accept(2) beforehand, so that a first request is noted when it arrives and not when a thread has been made.

use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Script;
use super::received::Received;

/// Threads that wait for a connection at the start; when the last of them has got one, it starts another.
const WAITING: usize = 2;
/// A rest when connections cannot be accepted, which is when the process has no descriptor left.
const NO_DESCRIPTOR: Duration = Duration::from_millis(10);

/// A running upstream. Ends with its handle.
pub struct Upstream {
    addr: SocketAddr,
    https: bool,
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) script: Script,
    pub(super) started: Instant,
    listener: TcpListener,
    /// Threads that wait for a connection.
    waiting: AtomicUsize,
    connections: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
    stopping: AtomicBool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) ledger: Vec<Received>,
    /// What clients did wrong by the rules of the wire.
    pub(super) violations: Vec<String>,
    /// Answers that the client did not take to their end.
    pub(super) abandoned: usize,
    /// Connections by their number. A connection leaves when its thread is done, which closes it.
    open: HashMap<usize, Arc<TcpStream>>,
}

impl Upstream {
    /// Starts on a free port of the loopback interface.
    ///
    /// # Panics
    /// When no port can be had.
    pub fn start(script: Script) -> Upstream {
        Upstream::start_on(0, script)
    }

    /// Starts on a port of the loopback interface.
    ///
    /// # Panics
    /// When the port cannot be had.
    pub fn start_on(port: u16, script: Script) -> Upstream {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port of the loopback interface");
        let addr = listener.local_addr().expect("a bound socket has an address");
        let https = script.tls.is_some();
        let shared = Arc::new(Shared {
            script,
            started: Instant::now(),
            listener,
            waiting: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
        });
        (0..WAITING).for_each(|_| shared.clone().start_waiting());
        Upstream { addr, https, shared }
    }

    /// The address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// When it started.
    pub fn started(&self) -> Instant {
        self.shared.started
    }

    /// `http://127.0.0.1:PORT`, or with `https://localhost`.
    pub fn base_url(&self) -> String {
        if self.https { format!("https://localhost:{}", self.addr.port()) } else { format!("http://{}", self.addr) }
    }

    /// What was received so far, in the order of arrival.
    pub fn ledger(&self) -> Vec<Received> {
        self.shared.lock().ledger.clone()
    }

    /// The request of a number, from 0; none when it has not arrived yet.
    pub fn received(&self, number: usize) -> Option<Received> {
        self.shared.lock().ledger.get(number).cloned()
    }

    /// The bodies received so far, as JSON; null where one was none.
    pub fn bodies(&self) -> Vec<Value> {
        self.shared.lock().ledger.iter().map(Received::json).collect()
    }

    /// What clients did wrong so far, by the rules of the wire.
    pub fn violations(&self) -> Vec<String> {
        self.shared.lock().violations.clone()
    }

    /// How many answers the client broke off.
    pub fn abandoned(&self) -> usize {
        self.shared.lock().abandoned
    }

    /// Waits until so many requests have arrived.
    ///
    /// # Panics
    /// When they did not within the bound.
    pub fn wait_for(&self, requests: usize, bound: Duration) {
        self.wait(bound, &format!("{requests} requests"), |state| state.ledger.len() >= requests);
    }

    /// Waits until so many answers were broken off by the client.
    ///
    /// # Panics
    /// When they were not within the bound.
    pub fn wait_abandoned(&self, answers: usize, bound: Duration) {
        self.wait(bound, &format!("{answers} abandoned answers"), |state| state.abandoned >= answers);
    }

    fn wait(&self, bound: Duration, what: &str, ready: impl Fn(&State) -> bool) {
        let state = self.shared.lock();
        let (state, timed_out) =
            self.shared.changed.wait_timeout_while(state, bound, |s| !ready(s)).unwrap_or_else(PoisonError::into_inner);
        drop(state);
        assert!(!timed_out.timed_out(), "no {what} within {bound:?}");
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        // SAFETY: the descriptor is open. A listener that is shut down fails all that wait in accept(2).
        unsafe { libc::shutdown(self.shared.listener.as_raw_fd(), libc::SHUT_RD) };
        for stream in self.shared.lock().open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl State {
    /// Takes a request into the ledger and returns its number.
    pub(super) fn note(&mut self, received: Received) -> usize {
        self.ledger.push(received);
        self.ledger.len() - 1
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes who waits for that.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let done = change(&mut self.lock());
        self.changed.notify_all();
        done
    }

    fn start_waiting(self: Arc<Self>) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        std::thread::spawn(move || self.accept());
    }

    fn accept(self: Arc<Self>) {
        loop {
            std::thread::sleep(self.script.accept_after);
            let accepted = self.listener.accept();
            if self.stopping.load(Ordering::Relaxed) {
                return;
            }
            let Ok((stream, _)) = accepted else {
                std::thread::sleep(NO_DESCRIPTOR);
                continue;
            };
            if self.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.clone().start_waiting();
            }
            let number = self.connections.fetch_add(1, Ordering::Relaxed);
            let stream = Arc::new(stream);
            self.lock().open.insert(number, stream.clone());
            let _ = self.serve(&stream, number);
            self.lock().open.remove(&number);
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
    }
}
