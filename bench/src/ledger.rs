//! The ledger as a file: a request a line, so that what one client sent can be sent again by another.

use std::io::{self, BufRead};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::upstream::Received;

/// Headers whose values are secrets. Their length is kept, so that the request stays as long as it was.
const SECRETS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// A request as a line of the file.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Microseconds since the upstream started.
    pub at_us: u64,
    /// Which connection, from 0.
    pub connection: usize,
    /// `POST`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, when it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body in hexadecimal digits, when it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_hex: Option<String>,
}

impl Entry {
    /// What is written of a request.
    pub fn of(received: &Received, started: Instant) -> Entry {
        let headers = received.headers.iter().map(|(name, value)| {
            let secret = SECRETS.contains(&name.as_str());
            (name.clone(), if secret { "x".repeat(value.len()) } else { value.clone() })
        });
        let text = std::str::from_utf8(&received.body).ok();
        let hex = || received.body.iter().map(|b| format!("{b:02x}")).collect();
        Entry {
            at_us: received.at.saturating_duration_since(started).as_micros() as u64,
            connection: received.connection,
            method: received.method.clone(),
            path: received.path.clone(),
            headers: headers.collect(),
            body: text.map(str::to_owned),
            body_hex: if text.is_none() { Some(hex()) } else { None },
        }
    }

    /// The entry as a line of the file.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("an entry is JSON") + "\n"
    }

    /// The request's bytes as they go over the wire, with a length in any case.
    pub fn request(&self) -> Vec<u8> {
        let body = self.body.as_ref().map_or_else(|| unhex(self.body_hex.as_deref().unwrap_or_default()), |text| text.clone().into_bytes());
        let mut out = format!("{} {} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        for (name, value) in self.headers.iter().filter(|(name, _)| !["content-length", "transfer-encoding"].contains(&name.as_str())) {
            out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        out.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        out.extend_from_slice(&body);
        out
    }
}

fn unhex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Reads entries, one at a time: a ledger may be larger than memory should be.
pub fn read(file: impl BufRead) -> impl Iterator<Item = io::Result<Entry>> {
    let parse = |(at, line): (usize, io::Result<String>)| {
        serde_json::from_str(&line?).map_err(|e| io::Error::other(format!("line {}: {e}", at + 1)))
    };
    file.lines().enumerate().map(parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(body: &[u8]) -> Received {
        let headers = [("x-api-key", "secret"), ("content-length", "7"), ("a", "b")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        Received {
            method: "POST".into(),
            path: "/v1".into(),
            headers: headers.into(),
            body: body.to_vec(),
            connection: 3,
            at: Instant::now(),
            written: 0,
            left_early: false,
        }
    }

    #[test]
    fn a_request_is_written_read_and_sent_again_without_its_key() {
        for body in [b"{\"a\":\"\xc3\xa9\"}".as_slice(), b"\xff\x00z", b""] {
            let entry = Entry::of(&received(body), Instant::now());
            let back: Vec<Entry> = read(entry.line().as_bytes()).map(Result::unwrap).collect();
            assert_eq!(back, [entry]);
            let head = format!("POST /v1 HTTP/1.1\r\nx-api-key: xxxxxx\r\na: b\r\ncontent-length: {}\r\n\r\n", body.len());
            assert_eq!(back[0].request(), [head.as_bytes(), body].concat());
        }
        assert!(read(&b"{}"[..]).next().unwrap().unwrap_err().to_string().starts_with("line 1: "));
    }
}
