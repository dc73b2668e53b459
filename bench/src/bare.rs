//! The bare loop: the least that a client must do to send requests and read their answers, as a measure for what more costs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// One kept connection.
pub struct Bare {
    stream: BufReader<TcpStream>,
    line: String,
}

impl Bare {
    /// Connects.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(addr: SocketAddr) -> io::Result<Bare> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        Ok(Bare { stream: BufReader::with_capacity(64 << 10, stream), line: String::new() })
    }

    /// Sends a request's bytes and reads its answer to the end. Returns the status and the length of the body.
    ///
    /// # Errors
    /// What the system says, or that the answer is not HTTP of a known length.
    pub fn exchange(&mut self, request: &[u8]) -> io::Result<(u16, u64)> {
        self.stream.get_mut().write_all(request)?;
        let status = self.next_line()?.get(9..12).and_then(|s| s.parse().ok()).ok_or_else(|| wrong("no status"))?;
        let mut length = None;
        loop {
            let line = self.next_line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok();
            }
        }
        match length {
            Some(length) => self.skip(length).map(|()| (status, length)),
            None => self.chunks().map(|length| (status, length)),
        }
    }

    fn chunks(&mut self) -> io::Result<u64> {
        let mut total = 0;
        loop {
            let size = u64::from_str_radix(self.next_line()?, 16).map_err(|_| wrong("a chunk without a size"))?;
            self.skip(size)?;
            self.next_line()?;
            total += size;
            if size == 0 {
                return Ok(total);
            }
        }
    }

    fn next_line(&mut self) -> io::Result<&str> {
        self.line.clear();
        self.stream.read_line(&mut self.line)?;
        self.line.strip_suffix("\r\n").ok_or_else(|| wrong("the answer ends too early"))
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let read = io::copy(&mut self.stream.by_ref().take(bytes), &mut io::sink())?;
        if read == bytes { Ok(()) } else { Err(wrong("the answer ends too early")) }
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::{Answer, Cut, Script, Upstream};

    #[test]
    fn answers_are_read_to_their_end_on_one_connection() {
        let body = "data: x\n\n".repeat(50);
        let answers = vec![Answer::json(404, "{}"), Answer::sse_cut(&body, &Cut::Random(1)), Answer::sse(&body).torn(&Cut::Every(3))];
        let upstream = Upstream::start(Script::answers(answers));
        let mut bare = Bare::connect(upstream.addr()).unwrap();
        let request = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi";
        let seen = [(); 3].map(|()| bare.exchange(request).unwrap());
        assert_eq!(seen, [(404, 2), (200, 450), (200, 450)]);
        assert!(upstream.ledger().iter().all(|r| r.connection == 0 && r.body == b"hi"));
    }

    #[test]
    fn an_answer_that_breaks_off_is_an_error() {
        let upstream = Upstream::start(Script::answers(vec![Answer::claiming(200, &[], 9, "x").closing()]));
        assert!(Bare::connect(upstream.addr()).unwrap().exchange(b"GET / HTTP/1.1\r\n\r\n").is_err());
    }
}
