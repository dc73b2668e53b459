//! Reads requests as servers do: a head of lines, and a body with a length or in chunks.

use std::io::{self, BufRead, Read};
use std::time::Instant;

use super::received::Received;

/// More than any provider takes; a client that sends more is broken.
const BODY_BYTES_MAX: u64 = 256 << 20;
/// Bound on a head, so that endless headers end.
const HEAD_BYTES_MAX: u64 = 1 << 20;

/// Waits for the next request and reads its head. None when the client is done.
pub(super) fn read_head(io: &mut impl BufRead, connection: usize) -> io::Result<Option<Received>> {
    if io.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let at = Instant::now();
    let mut head = io.take(HEAD_BYTES_MAX);
    let line = read_line(&mut head)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let line = read_line(&mut head)?;
        if line.is_empty() {
            return Ok(Some(Received { method, path, headers, body: Vec::new(), connection, at, written: 0, left_early: false }));
        }
        let (name, value) = line.split_once(':').ok_or_else(|| wrong("a header without a colon"))?;
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// Reads the body that the head announces.
pub(super) fn read_body(io: &mut impl BufRead, head: &Received) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if head.header("transfer-encoding").is_some_and(|e| e.eq_ignore_ascii_case("chunked")) {
        while read_chunk(io, &mut body)? > 0 {}
        return Ok(body);
    }
    let length = head.header("content-length").map_or(Ok(0), str::parse).map_err(|_| wrong("a length that is no number"))?;
    read_exactly(io, length, &mut body)?;
    Ok(body)
}

fn read_chunk(io: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<u64> {
    let line = read_line(&mut io.take(HEAD_BYTES_MAX))?;
    let digits = line.split(';').next().unwrap_or_default().trim();
    let size = u64::from_str_radix(digits, 16).map_err(|_| wrong("a chunk's size that is no number"))?;
    read_exactly(io, size, body)?;
    if !read_line(&mut io.take(HEAD_BYTES_MAX))?.is_empty() {
        return Err(wrong("a chunk that does not end where it says"));
    }
    Ok(size)
}

fn read_exactly(io: &mut impl BufRead, size: u64, body: &mut Vec<u8>) -> io::Result<()> {
    if size.saturating_add(body.len() as u64) > BODY_BYTES_MAX {
        return Err(wrong("a body over the bound"));
    }
    body.reserve(size as usize);
    if io.take(size).read_to_end(body)? as u64 == size { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// A line without its end.
fn read_line(io: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    io.read_line(&mut line)?;
    let text = line.strip_suffix('\n').ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut text: &[u8]) -> io::Result<Received> {
        let mut received = read_head(&mut text, 0)?.unwrap();
        received.body = read_body(&mut text, &received)?;
        assert_eq!(text, b"", "nothing is left over");
        Ok(received)
    }

    #[test]
    fn a_body_has_a_length_or_comes_in_chunks() {
        let whole = read(b"POST /v1/x?y HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").unwrap();
        assert_eq!((whole.method.as_str(), whole.path.as_str(), whole.header("host")), ("POST", "/v1/x?y", Some("a")));
        assert_eq!(whole.body, b"abc");
        let chunks = read(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n").unwrap();
        assert_eq!(chunks.body, b"abc");
        assert!(read_head(&mut &b""[..], 0).unwrap().is_none());
    }

    #[test]
    fn a_request_that_is_cut_or_lies_is_an_error() {
        for text in [
            "POST / HT",
            "POST / HTTP/1.1\r\nno colon\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc",
            "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nq\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n",
        ] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
