//! The server: a thread per connection over plain sockets, so that every byte is ours, and the ledger that they share.

use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Script;
use super::received::Received;

/// A running upstream. Ends with its handle.
pub struct Upstream {
    addr: SocketAddr,
    https: bool,
    started: Instant,
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) script: Script,
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
        let shared = Arc::new(Shared { script, state: Mutex::default(), changed: Condvar::new(), stopping: AtomicBool::new(false) });
        let theirs = shared.clone();
        std::thread::spawn(move || theirs.accept(&listener));
        Upstream { addr, https, started: Instant::now(), shared }
    }

    /// The address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// When it started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// `http://127.0.0.1:PORT`, or with `https://localhost`.
    pub fn base_url(&self) -> String {
        if self.https { format!("https://localhost:{}", self.addr.port()) } else { format!("http://{}", self.addr) }
    }

    /// What was received so far, in the order of arrival.
    pub fn ledger(&self) -> Vec<Received> {
        self.ledger_from(0)
    }

    /// What was received so far, without the first requests.
    pub fn ledger_from(&self, first: usize) -> Vec<Received> {
        self.shared.lock().ledger.get(first..).unwrap_or_default().to_vec()
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
        for stream in self.shared.lock().open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the accepting thread, so that it sees the flag.
        let _ = TcpStream::connect(self.addr);
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

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for number in 0.. {
            std::thread::sleep(self.script.accept_after);
            let accepted = listener.accept();
            if self.stopping.load(Ordering::Relaxed) {
                return;
            }
            let Ok((stream, _)) = accepted else { continue };
            let shared = self.clone();
            std::thread::spawn(move || {
                let stream = Arc::new(stream);
                shared.lock().open.insert(number, stream.clone());
                let _ = shared.serve(&stream, number);
                shared.lock().open.remove(&number);
            });
        }
    }
}
