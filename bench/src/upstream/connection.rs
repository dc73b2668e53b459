//! One connection: reads a request, plays its answer, and so on until either side has had enough.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::time::Duration;

use super::answer::{Answer, Piece};
use super::request::{read_body, read_head};
use super::server::Shared;
use super::verify::violations;

/// Holds a usual request, so that it is read in one call.
const READ_BYTES: usize = 64 << 10;

/// Why an answer is not played on.
enum Stop {
    /// The script wants the end here.
    Scripted,
    /// The client went away.
    Left,
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Stop {
        Stop::Left
    }
}

impl Shared {
    pub(super) fn serve(&self, socket: &TcpStream, connection: usize) -> io::Result<()> {
        socket.set_nodelay(true)?;
        match &self.script.tls {
            None => self.talk(BufReader::with_capacity(READ_BYTES, socket), socket, connection),
            Some(certificate) => self.talk(BufReader::with_capacity(READ_BYTES, certificate.accept(socket)?), socket, connection),
        }
    }

    fn talk<S: Read + Write>(&self, mut io: BufReader<S>, socket: &TcpStream, connection: usize) -> io::Result<()> {
        while let Some(mut received) = read_head(&mut io, connection)? {
            let expected = self.lock().ledger.len();
            if let Some(early) = self.script.before_body(expected) {
                let number = self.update(|state| state.note(received));
                self.play(number, &early, io.get_mut(), socket);
                let _ = socket.shutdown(Shutdown::Write);
                // Whoever closes with bytes unread sends a reset, which may overtake the answer.
                io::copy(&mut io, &mut io::sink())?;
                return Ok(());
            }
            if received.header("expect").is_some() {
                io.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            received.body = read_body(&mut io, &received)?;
            let last = received.header("connection").is_some_and(|c| c.eq_ignore_ascii_case("close"));
            let number = self.update(|state| state.note(received));
            let answer = self.answer(number);
            if !self.play(number, &answer, io.get_mut(), socket) || !answer.keep || last {
                return Ok(());
            }
        }
        Ok(())
    }

    fn answer(&self, number: usize) -> Answer {
        let (received, before) = {
            let state = self.lock();
            let before = self.script.strict.and_then(|_| state.ledger[..number].iter().rev().find(|r| !r.body.is_empty()));
            (state.ledger[number].clone(), before.map(|r| r.body.clone()))
        };
        let found = self.script.strict.map(|wire| violations(wire, &received.body, before.as_deref())).unwrap_or_default();
        if !found.is_empty() {
            let text = found.join("; ");
            self.update(|state| state.violations.extend(found));
            return refusal(400, "invalid_request_error", &text);
        }
        catch_unwind(AssertUnwindSafe(|| self.script.answer(number, &received))).unwrap_or_else(|payload| {
            let said = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
            let text = format!("the script panicked at request {number}: {}", said.unwrap_or_default());
            self.update(|state| state.violations.push(text));
            refusal(500, "api_error", "the script panicked")
        })
    }

    /// Plays an answer. False when the connection is done for.
    fn play<S: Write>(&self, number: usize, answer: &Answer, io: &mut S, socket: &TcpStream) -> bool {
        let mut player = Player { io, socket, written: 0 };
        let end = answer.pieces.iter().try_for_each(|piece| player.step(piece));
        let (written, left) = (player.written, matches!(end, Err(Stop::Left)));
        self.update(|state| {
            let entry = &mut state.ledger[number];
            (entry.written, entry.left_early) = (written, left);
            state.abandoned += usize::from(left);
        });
        end.is_ok()
    }
}

fn refusal(status: u16, kind: &str, message: &str) -> Answer {
    Answer::json(status, &serde_json::json!({"type": "error", "error": {"type": kind, "message": message}}).to_string())
}

struct Player<'a, S> {
    io: &'a mut S,
    socket: &'a TcpStream,
    written: u64,
}

impl<S: Write> Player<'_, S> {
    fn step(&mut self, piece: &Piece) -> Result<(), Stop> {
        match piece {
            Piece::Bytes(bytes) => self.put(bytes),
            Piece::Times(times, bytes) => (0..*times).try_for_each(|_| self.put(bytes)),
            Piece::Forever(bytes) => loop {
                self.put(bytes)?;
            },
            Piece::Wait(time) => stay(self.socket, Some(*time)),
            Piece::Hang => stay(self.socket, None),
            Piece::Close => Err(Stop::Scripted),
            Piece::Reset => {
                reset_on_close(self.socket);
                Err(Stop::Scripted)
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let mut left = bytes;
        while !left.is_empty() {
            let taken = self.io.write(left)?;
            if taken == 0 {
                return Err(Stop::Left);
            }
            self.written += taken as u64;
            left = &left[taken..];
        }
        Ok(self.io.flush()?)
    }
}

/// Waits, without a bound if there is none, and ends at once when the client goes away.
fn stay(socket: &TcpStream, bound: Option<Duration>) -> Result<(), Stop> {
    let mut watch = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    let bound = bound.map(|b| libc::timespec { tv_sec: b.as_secs() as libc::time_t, tv_nsec: b.subsec_nanos().into() });
    let bound = bound.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `watch` is one valid entry, `bound` is null or points to a live value, and no signal mask is given.
    match unsafe { libc::ppoll(&raw mut watch, 1, bound, ptr::null()) } {
        0 => Ok(()),
        _ => Err(Stop::Left),
    }
}

/// Makes the close that follows send RST and no FIN.
fn reset_on_close(socket: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and `linger` is a valid value of the size given.
    unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), size);
    }
}
