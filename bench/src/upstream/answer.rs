//! An answer as bytes and faults.

use std::time::Duration;

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Piece {
    /// These bytes, as they are, in one write.
    Bytes(Vec<u8>),
    /// A wait.
    Wait(Duration),
    /// Nothing more until the client goes away.
    Hang,
    /// These bytes again and again until the client goes away.
    Forever(Vec<u8>),
    /// The connection ends here.
    Close,
    /// The connection is reset here.
    Reset,
}

/// What a client gets for one request: raw steps, status line included.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) pieces: Vec<Piece>,
    /// The connection stays open for the next request.
    pub(super) keep: bool,
}

impl Answer {
    /// Steps as they are; the connection is closed after them.
    pub fn raw(pieces: Vec<Piece>) -> Answer {
        Answer { pieces, keep: false }
    }

    /// A whole answer with a length.
    pub fn http(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Answer {
        let body = body.as_ref();
        let mut bytes = head(status, headers);
        bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        bytes.extend_from_slice(body);
        Answer { pieces: vec![Piece::Bytes(bytes)], keep: true }
    }

    /// JSON with a status.
    pub fn json(status: u16, body: &str) -> Answer {
        Answer::http(status, &[("content-type", "application/json")], body)
    }

    /// A stream of events in one piece, chunked as servers do.
    pub fn sse(body: impl AsRef<[u8]>) -> Answer {
        Answer::sse_in(vec![body.as_ref().to_vec()])
    }

    /// A stream of events in these pieces, a chunk each.
    pub fn sse_in(pieces: Vec<Vec<u8>>) -> Answer {
        let mut front = head(200, &[("content-type", "text/event-stream")]);
        front.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        let mut steps = vec![];
        // The head and the first piece share a write, as a server without delay would do.
        for piece in pieces.iter().filter(|p| !p.is_empty()) {
            front.extend_from_slice(&chunk(piece));
            steps.push(Piece::Bytes(std::mem::take(&mut front)));
        }
        front.extend_from_slice(b"0\r\n\r\n");
        match steps.last_mut() {
            Some(Piece::Bytes(last)) => last.extend_from_slice(&front),
            _ => steps.push(Piece::Bytes(front)),
        }
        Answer { pieces: steps, keep: true }
    }

    /// A stream that ends in a fault instead of its end.
    pub fn sse_broken(body: impl AsRef<[u8]>, fault: Piece) -> Answer {
        let mut front = head(200, &[("content-type", "text/event-stream")]);
        front.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        if !body.as_ref().is_empty() {
            front.extend_from_slice(&chunk(body.as_ref()));
        }
        Answer::raw(vec![Piece::Bytes(front), fault])
    }

    /// The same, after a wait before the first byte.
    pub fn after(mut self, wait: Duration) -> Answer {
        self.pieces.insert(0, Piece::Wait(wait));
        self
    }

    /// The same, closing the connection.
    pub fn closing(mut self) -> Answer {
        self.keep = false;
        self
    }
}

fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status} Scripted\r\n").into_bytes();
    for (name, value) in headers {
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    out
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    out
}
