//! The server itself: a thread per connection over plain sockets, so that every byte is ours.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::answer::{Answer, Piece};
use super::{Script, verify};

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// `POST`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// Which connection, from 0.
    pub connection: usize,
    /// When its first byte had arrived.
    pub at: Instant,
}

impl Received {
    /// The body as JSON; null when it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// A running upstream. Ends with its handle.
pub struct Upstream {
    addr: SocketAddr,
    https: bool,
    shared: Arc<Shared>,
}

struct Shared {
    script: Script,
    state: Mutex<State>,
    changed: Condvar,
    stopping: AtomicBool,
    connections: AtomicUsize,
}

#[derive(Default)]
struct State {
    ledger: Vec<Received>,
    /// What clients did wrong by the rules of the wire.
    violations: Vec<String>,
    /// Answers that the client did not take to their end.
    abandoned: usize,
    open: Vec<TcpStream>,
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
            state: Mutex::default(),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
        });
        let theirs = shared.clone();
        std::thread::spawn(move || theirs.accept(&listener));
        Upstream { addr, https, shared }
    }

    /// The address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:PORT`, or with `https://localhost`.
    pub fn base_url(&self) -> String {
        if self.https { format!("https://localhost:{}", self.addr.port()) } else { format!("http://{}", self.addr) }
    }

    /// What was received so far.
    pub fn ledger(&self) -> Vec<Received> {
        self.shared.lock().ledger.clone()
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
        for stream in self.shared.lock().open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the accepting thread, so that it sees the flag.
        let _ = TcpStream::connect(self.addr);
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            if self.stopping.load(Ordering::Relaxed) {
                return;
            }
            let Ok(stream) = stream else { continue };
            let shared = self.clone();
            std::thread::spawn(move || {
                let _ = shared.serve(stream);
            });
        }
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        stream.set_nodelay(true)?;
        self.lock().open.push(stream.try_clone()?);
        match &self.script.tls {
            None => self.talk(BufReader::new(stream.try_clone()?), &stream, connection),
            Some(certificate) => {
                let secured = certificate.accept(stream.try_clone()?)?;
                self.talk(BufReader::new(secured), &stream, connection)
            }
        }
    }

    fn talk<S: Read + Write>(&self, mut io: BufReader<S>, socket: &TcpStream, connection: usize) -> io::Result<()> {
        loop {
            if io.fill_buf()?.is_empty() {
                return Ok(());
            }
            let mut received = read_head(&mut io, connection)?;
            let length: u64 = received.header("content-length").and_then(|l| l.parse().ok()).unwrap_or(0);
            let number = self.lock().ledger.len();
            if let Some(early) = &self.script.early {
                self.note(received);
                self.play(early, io.get_mut(), socket);
                let _ = socket.shutdown(Shutdown::Write);
                // Whoever closes with bytes unread sends a reset, which may overtake the answer.
                io::copy(&mut io, &mut io::sink())?;
                return Ok(());
            }
            io.by_ref().take(length).read_to_end(&mut received.body)?;
            let answer = self.answer(number, &received);
            self.note(received);
            if !self.play(&answer, io.get_mut(), socket) || !answer.keep {
                let _ = socket.shutdown(Shutdown::Both);
                return Ok(());
            }
        }
    }

    fn answer(&self, number: usize, received: &Received) -> Answer {
        let Some(wire) = self.script.strict else { return (self.script.decide)(number, received) };
        let before = self.lock().ledger.last().map(|r| r.body.clone());
        let found = verify::violations(wire, &received.body, before.as_deref());
        if found.is_empty() {
            return (self.script.decide)(number, received);
        }
        let text = found.join("; ");
        self.lock().violations.extend(found);
        Answer::json(400, &serde_json::json!({"type": "error", "error": {"type": "invalid_request_error", "message": text}}).to_string())
    }

    fn note(&self, received: Received) {
        self.lock().ledger.push(received);
        self.changed.notify_all();
    }

    /// Plays an answer. False when the connection is done for.
    fn play<S: Write>(&self, answer: &Answer, io: &mut S, socket: &TcpStream) -> bool {
        let taken = answer.pieces.iter().try_for_each(|piece| step(piece, io, socket));
        let gone = taken.as_ref().is_err_and(|e| e.kind() != io::ErrorKind::Interrupted);
        if gone {
            self.lock().abandoned += 1;
            self.changed.notify_all();
        }
        taken.is_ok()
    }
}

/// One step; an error of kind `Interrupted` is the end that the script wanted, any other means that the client went away.
fn step<S: Write>(piece: &Piece, io: &mut S, socket: &TcpStream) -> io::Result<()> {
    match piece {
        Piece::Bytes(bytes) => {
            io.write_all(bytes)?;
            io.flush()
        }
        Piece::Wait(time) => {
            std::thread::sleep(*time);
            Ok(())
        }
        Piece::Hang => {
            let mut byte = [0u8];
            let mut socket = socket;
            while socket.read(&mut byte)? > 0 {}
            Err(io::ErrorKind::UnexpectedEof.into())
        }
        Piece::Forever(bytes) => loop {
            io.write_all(bytes)?;
            io.flush()?;
        },
        Piece::Close => Err(io::ErrorKind::Interrupted.into()),
        Piece::Reset => {
            reset(socket);
            Err(io::ErrorKind::Interrupted.into())
        }
    }
}

/// A close after this sends RST and no FIN.
fn reset(socket: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and `linger` is a valid value of the size given.
    unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), size);
    }
}

fn read_head(io: &mut impl BufRead, connection: usize) -> io::Result<Received> {
    let at = Instant::now();
    let mut line = String::new();
    io.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        line.clear();
        if io.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
            return Ok(Received { method, path, headers, body: Vec::new(), connection, at });
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
}
