//! An answer as bytes and faults.

use std::sync::Arc;
use std::time::Duration;

use super::cut::Cut;
use super::gzip::gzip;

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Piece {
    /// These bytes, as they are, in one write.
    Bytes(Vec<u8>),
    /// A wait; it ends early when the client goes away.
    Wait(Duration),
    /// Nothing more until the client goes away.
    Hang,
    /// These bytes again and again until the client goes away.
    Forever(Vec<u8>),
    /// These bytes so many times.
    Times(usize, Vec<u8>),
    /// The connection ends here.
    Close,
    /// The connection is reset here.
    Reset,
}

/// What a client gets for one request: raw steps, status line included. A copy shares the steps.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) pieces: Arc<Vec<Piece>>,
    /// The connection stays open for the next request.
    pub(super) keep: bool,
    /// The answer is given before the request's body is read.
    pub(super) early: bool,
}

impl Answer {
    /// Steps as they are; the connection is closed after them.
    pub fn raw(pieces: Vec<Piece>) -> Answer {
        Answer { pieces: Arc::new(pieces), keep: false, early: false }
    }

    /// A whole answer with a length.
    pub fn http(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Answer {
        let body = body.as_ref();
        let length = body.len();
        Answer::claiming(status, headers, length, body)
    }

    /// An answer with a length that need not be true. The connection stays open, so a length that is too long is a hang.
    pub fn claiming(status: u16, headers: &[(&str, &str)], length: usize, body: impl AsRef<[u8]>) -> Answer {
        let mut bytes = head(status, headers);
        bytes.extend_from_slice(format!("content-length: {length}\r\n\r\n").as_bytes());
        bytes.extend_from_slice(body.as_ref());
        Answer { keep: true, ..Answer::raw(vec![Piece::Bytes(bytes)]) }
    }

    /// JSON with a status.
    pub fn json(status: u16, body: &str) -> Answer {
        Answer::http(status, &[("content-type", "application/json")], body)
    }

    /// A stream of events in one piece, chunked as servers do.
    pub fn sse(body: impl AsRef<[u8]>) -> Answer {
        Answer::sse_cut(body, &Cut::Whole)
    }

    /// A stream of events, cut into chunks.
    pub fn sse_cut(body: impl AsRef<[u8]>, cut: &Cut) -> Answer {
        Answer::sse_in(cut.apply(body.as_ref()))
    }

    /// A stream of events in these pieces, a chunk each.
    pub fn sse_in(pieces: Vec<Vec<u8>>) -> Answer {
        Answer::chunked(200, &[("content-type", "text/event-stream")], pieces)
    }

    /// A body in these pieces, a chunk and a write each.
    pub fn chunked(status: u16, headers: &[(&str, &str)], pieces: Vec<Vec<u8>>) -> Answer {
        let mut front = chunked_head(status, headers);
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
        Answer { keep: true, ..Answer::raw(steps) }
    }

    /// A stream of events under gzip.
    pub fn gzipped(body: impl AsRef<[u8]>) -> Answer {
        Answer::http(200, &[("content-type", "text/event-stream"), ("content-encoding", "gzip")], gzip(body.as_ref()))
    }

    /// A stream that ends in a fault instead of its end.
    pub fn sse_broken(body: impl AsRef<[u8]>, fault: Piece) -> Answer {
        let mut front = chunked_head(200, &[("content-type", "text/event-stream")]);
        if !body.as_ref().is_empty() {
            front.extend_from_slice(&chunk(body.as_ref()));
        }
        Answer::raw(vec![Piece::Bytes(front), fault])
    }

    /// The same, after a wait before the first byte.
    pub fn after(mut self, wait: Duration) -> Answer {
        Arc::make_mut(&mut self.pieces).insert(0, Piece::Wait(wait));
        self
    }

    /// The same, with a wait between the head and the body.
    pub fn after_head(mut self, wait: Duration) -> Answer {
        let pieces = Arc::make_mut(&mut self.pieces);
        let found = pieces.iter().enumerate().find_map(|(at, piece)| match piece {
            Piece::Bytes(bytes) => bytes.windows(4).position(|w| w == b"\r\n\r\n").map(|end| (at, end + 4)),
            _ => None,
        });
        if let Some((at, end)) = found
            && let Piece::Bytes(bytes) = &mut pieces[at]
        {
            let body = bytes.split_off(end);
            pieces.splice(at + 1..at + 1, [Piece::Wait(wait), Piece::Bytes(body)]);
        }
        self
    }

    /// The same, with a wait between any two pieces.
    pub fn paced(mut self, wait: Duration) -> Answer {
        let spaced = self.pieces.iter().flat_map(|piece| [Piece::Wait(wait), piece.clone()]).skip(1).collect();
        self.pieces = Arc::new(spaced);
        self
    }

    /// The same bytes in other writes: cuts the head and the frames of chunks too, where [`Answer::sse_cut`] cuts the body.
    pub fn torn(mut self, cut: &Cut) -> Answer {
        let torn = self.pieces.iter().flat_map(|piece| match piece {
            Piece::Bytes(bytes) => cut.apply(bytes).into_iter().map(Piece::Bytes).collect(),
            other => vec![other.clone()],
        });
        self.pieces = Arc::new(torn.collect());
        self
    }

    /// The same, given before the request's body is read; the connection is closed after it. Only an answer of a list
    /// ([`super::Script::answers`]) can be early: what is decided by a request's content is not.
    pub fn early(mut self) -> Answer {
        self.early = true;
        self.closing()
    }

    /// The same, closing the connection.
    pub fn closing(mut self) -> Answer {
        self.keep = false;
        self
    }
}

/// The bytes with CR LF for every line feed, as some gateways end their lines.
pub fn crlf(events: &[u8]) -> Vec<u8> {
    events.iter().flat_map(|byte| if *byte == b'\n' { &b"\r\n"[..] } else { std::slice::from_ref(byte) }).copied().collect()
}

pub(super) fn chunked_head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut out = head(status, headers);
    out.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
    out
}

fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status} Scripted\r\n").into_bytes();
    for (name, value) in headers {
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    out
}

pub(super) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(answer: &Answer) -> Vec<String> {
        let show = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => format!("{other:?}"),
        };
        answer.pieces.iter().map(show).collect()
    }

    #[test]
    fn an_answer_is_these_bytes() {
        assert_eq!(
            writes(&Answer::json(429, "{}")),
            ["HTTP/1.1 429 Scripted\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"]
        );
        assert_eq!(
            writes(&Answer::sse_cut("data: 1234567\n\n", &Cut::Every(8))),
            [
                "HTTP/1.1 200 Scripted\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n8\r\ndata: 12\r\n",
                "7\r\n34567\n\n\r\n0\r\n\r\n"
            ]
        );
        assert_eq!(crlf(b"a\n\nb"), b"a\r\n\r\nb");
    }

    #[test]
    fn waits_stand_where_they_are_asked_for() {
        let ms = Duration::from_millis;
        let answer = Answer::sse_in(vec![b"a".to_vec(), b"b".to_vec()]).paced(ms(1)).after_head(ms(2)).after(ms(3));
        let shown = writes(&answer);
        assert_eq!((shown.len(), shown[0].as_str(), shown[2].as_str(), shown[4].as_str()), (6, "Wait(3ms)", "Wait(2ms)", "Wait(1ms)"));
        assert!(shown[1].ends_with("\r\n\r\n") && shown[3] == "1\r\na\r\n");
    }

    #[test]
    fn a_torn_answer_has_the_same_bytes() {
        let answer = Answer::sse("data: x\n\n");
        assert_eq!(writes(&answer.clone().torn(&Cut::Every(1))).concat(), writes(&answer).concat());
        assert!(writes(&answer.torn(&Cut::Every(1))).iter().all(|w| w.len() == 1));
    }
}
