//! A request as it arrived, and what became of its answer.

use std::time::Instant;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// `POST`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body's bytes; none when the request was answered before its body.
    pub body: Vec<u8>,
    /// Which connection, from 0.
    pub connection: usize,
    /// When its first byte had arrived, by the monotonic clock.
    pub at: Instant,
    /// How many bytes of the answer the socket has taken.
    pub written: u64,
    /// The client went away before it had the whole answer.
    pub left_early: bool,
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
