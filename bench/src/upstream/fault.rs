//! What goes wrong between a client and a provider, by name: so that a test can try all of it, and a script can ask for one.

use super::answer::{Answer, Piece, chunk, chunked_head};
use super::turn::Turn;
use super::wire::Wire;

/// A named fault.
pub struct Fault {
    /// Its name in scripts.
    pub name: &'static str,
    answer: fn(Wire) -> Answer,
}

impl Fault {
    /// The fault of a name.
    pub fn named(name: &str) -> Option<&'static Fault> {
        FAULTS.iter().find(|fault| fault.name == name)
    }

    /// The answer that has this fault.
    pub fn on(&self, wire: Wire) -> Answer {
        (self.answer)(wire)
    }
}

const HTML: &str = "<!doctype html><html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>";
const EVENTS: [(&str, &str); 1] = [("content-type", "text/event-stream")];
const PAGE: [(&str, &str); 1] = [("content-type", "text/html")];
/// The longest body of an error: no client should keep all of it.
const LONG: usize = 2 << 20;
/// One line of a gigabyte is these pieces, 16,384 of them.
const PIECE_BYTES: usize = 64 << 10;
const GIGABYTE_PIECES: usize = (1 << 30) / PIECE_BYTES;

/// All faults.
pub const FAULTS: &[Fault] = &[
    // The connection.
    fault("close", |_| Answer::raw(vec![Piece::Close])),
    fault("reset", |_| Answer::raw(vec![Piece::Reset])),
    fault("hang", |_| Answer::raw(vec![Piece::Hang])),
    fault("close-in-head", |_| broken("HTTP/1.1 200 OK\r\ncontent-ty", Piece::Close)),
    fault("close-after-head", |_| Answer::sse_broken("", Piece::Close)),
    fault("hang-after-head", |_| Answer::sse_broken("", Piece::Hang)),
    fault("close-in-body", |wire| Answer::sse_broken(half(wire), Piece::Close)),
    fault("reset-in-body", |wire| Answer::sse_broken(half(wire), Piece::Reset)),
    fault("hang-in-body", |wire| Answer::sse_broken(half(wire), Piece::Hang)),
    // HTTP.
    fault("garbage", |_| broken("\x16\x03\x01 this is no HTTP\r\n\r\n", Piece::Close)),
    fault("endless-head", |_| endless("HTTP/1.1 200 OK\r\n", b"x-more: yes\r\n".to_vec())),
    fault("endless-head-line", |_| endless("HTTP/1.1 200 OK\r\nx-more: ", vec![b'y'; PIECE_BYTES])),
    fault("chunk-cut", |wire| broken_body([b"ffff\r\n".as_slice(), &half(wire)].concat())),
    fault("chunk-size-is-no-number", |wire| broken_body([b"zz\r\n".as_slice(), &half(wire)].concat())),
    fault("no-last-chunk", |wire| Answer::sse_broken(calling(wire), Piece::Close)),
    fault("length-too-long", |wire| Answer::claiming(200, &EVENTS, half(wire).len() + 99, half(wire)).closing()),
    fault("length-too-short", |wire| Answer::claiming(200, &EVENTS, half(wire).len(), calling(wire)).closing()),
    fault("gzip", |wire| Answer::gzipped(calling(wire))),
    fault("gzip-in-name-only", |wire| Answer::http(200, &[EVENTS[0], ("content-encoding", "gzip")], calling(wire))),
    fault("wrong-type", |wire| Answer::http(200, &[("content-type", "text/plain")], calling(wire))),
    fault("redirect", |_| Answer::http(307, &[("location", "https://elsewhere.invalid/")], "")),
    fault("too-large-early", |wire| Answer::json(413, &error(wire, "request_too_large", "too large")).early()),
    // Statuses and their bodies.
    fault("html-200", |_| Answer::http(200, &PAGE, HTML)),
    fault("html-502", |_| Answer::http(502, &PAGE, HTML)),
    fault("empty-500", |_| Answer::http(500, &[], "")),
    fault("long-500", |_| Answer::http(500, &PAGE, "x".repeat(LONG))),
    fault("not-utf8-500", |_| Answer::http(500, &PAGE, b"\xff\xfe\x00\x80")),
    fault("array-500", |wire| Answer::json(500, &format!("[{}]", error(wire, "api_error", "in an array")))),
    fault("text-403", |_| Answer::http(403, &[("content-type", "text/plain")], "error code: 1015")),
    fault("payment", |wire| Answer::json(402, &error(wire, "billing_error", "credit balance is too low"))),
    fault("quota", |wire| Answer::json(429, &error(wire, "insufficient_quota", "out of quota"))),
    fault("rate-limit", |wire| limited(wire, 429, "retry-after-ms", "20")),
    fault("rate-limit-long", |wire| limited(wire, 429, "retry-after", "86400")),
    fault("rate-limit-unreadable", |wire| limited(wire, 429, "retry-after", "-5 soon")),
    fault("overloaded", |wire| Answer::json(529, &error(wire, "overloaded_error", "busy"))),
    // The stream.
    fault("no-end", |wire| Answer::sse(half(wire))),
    fault("empty-body", |_| Answer::sse("")),
    fault("error-event", |wire| Answer::sse((wire.row().error_event)("overloaded_error", "busy"))),
    fault("error-event-in-body", |wire| Answer::sse([whole_events(wire), (wire.row().error_event)("api_error", "lost")].concat())),
    fault("event-is-no-json", |wire| Answer::sse([whole_events(wire), b"data: {\"type\":\n\n".to_vec(), calling(wire)].concat())),
    fault("endless-events", |wire| endless_body(wire.row().unknown_event.as_bytes())),
    fault("endless-comments", |_| endless_body(b": still here\n\n")),
    fault("endless-line", |_| endless_body(&[b'x'; PIECE_BYTES])),
    fault("gigabyte-line", |_| gigabyte_line()),
];

const fn fault(name: &'static str, answer: fn(Wire) -> Answer) -> Fault {
    Fault { name, answer }
}

/// A turn with a call, whole: whoever runs the call of a broken stream is caught.
fn calling(wire: Wire) -> Vec<u8> {
    Turn::new().text("half a word").call("list_files", r#"{"max_depth":1}"#).events(wire)
}

fn half(wire: Wire) -> Vec<u8> {
    let mut events = calling(wire);
    events.truncate(events.len() * 2 / 3);
    events
}

/// The events of half a turn, without the one that is cut.
fn whole_events(wire: Wire) -> Vec<u8> {
    let mut events = half(wire);
    let end = events.windows(2).rposition(|w| w == b"\n\n").map_or(0, |at| at + 2);
    events.truncate(end);
    events
}

/// The body of an error as the wire writes it: the data of its event.
fn error(wire: Wire, kind: &str, message: &str) -> String {
    let event = String::from_utf8((wire.row().error_event)(kind, message)).expect("events are UTF-8");
    event.lines().find_map(|line| line.strip_prefix("data: ")).expect("an event has data").to_owned()
}

fn limited(wire: Wire, status: u16, header: &str, value: &str) -> Answer {
    Answer::http(status, &[("content-type", "application/json"), (header, value)], error(wire, "rate_limit_error", "slow down"))
}

fn broken(bytes: &str, end: Piece) -> Answer {
    Answer::raw(vec![Piece::Bytes(bytes.as_bytes().to_vec()), end])
}

/// A chunked answer whose frames are as given; the connection ends after them.
fn broken_body(frames: Vec<u8>) -> Answer {
    Answer::raw(vec![Piece::Bytes(chunked_head(200, &EVENTS)), Piece::Bytes(frames), Piece::Close])
}

fn endless(begin: &str, more: Vec<u8>) -> Answer {
    Answer::raw(vec![Piece::Bytes(begin.as_bytes().to_vec()), Piece::Forever(more)])
}

fn endless_body(more: &[u8]) -> Answer {
    Answer::raw(vec![Piece::Bytes(chunked_head(200, &EVENTS)), Piece::Forever(chunk(more))])
}

fn gigabyte_line() -> Answer {
    let more = Piece::Times(GIGABYTE_PIECES, chunk(&[b'x'; PIECE_BYTES]));
    let (begin, end) = (chunk(b"data: {\"text\":\""), [chunk(b"\"}\n\n"), b"0\r\n\r\n".to_vec()].concat());
    Answer::raw(vec![Piece::Bytes(chunked_head(200, &EVENTS)), Piece::Bytes(begin), more, Piece::Bytes(end), Piece::Close])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_found() {
        for fault in FAULTS {
            assert_eq!(FAULTS.iter().filter(|f| f.name == fault.name).count(), 1, "{}", fault.name);
            assert!(Fault::named(fault.name).is_some());
        }
        assert!(Fault::named("none").is_none());
    }

    #[test]
    fn half_a_turn_ends_within_its_call() {
        for wire in Wire::ALL {
            let text = String::from_utf8(half(*wire)).unwrap();
            assert!(text.contains("list_files") && !text.contains("max_depth\":1") && !text.ends_with("\n\n"), "{text}");
            let whole = String::from_utf8(whole_events(*wire)).unwrap();
            assert!(text.starts_with(&whole) && whole.ends_with("\n\n") && whole.len() > 100, "{whole}");
        }
    }
}
