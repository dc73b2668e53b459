//! The scripted upstream, seen by clients that are nothing but a socket.

#![allow(clippy::unwrap_used, reason = "a test may unwrap: its panic is the report")]

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gantry_bench::upstream::{Answer, Certificate, Cut, FAULTS, Fault, Piece, Script, Turn, Upstream, Wire, crlf};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};

const SOON: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(3_600);
const OK: &str = r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"}]}"#;

fn request(body: &str, connection: &str) -> String {
    format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: {connection}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn connect(upstream: &Upstream) -> TcpStream {
    let stream = TcpStream::connect(upstream.addr()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// Sends the only request of a connection, and returns the connection.
fn send(upstream: &Upstream, body: &str) -> TcpStream {
    let mut stream = connect(upstream);
    stream.write_all(request(body, "close").as_bytes()).unwrap();
    stream
}

/// Sends a request and reads until the server closes.
fn ask(upstream: &Upstream, body: &str) -> Vec<u8> {
    let mut answer = Vec::new();
    send(upstream, body).read_to_end(&mut answer).unwrap();
    answer
}

fn play(answer: Answer) -> Vec<u8> {
    ask(&Upstream::start(Script::answers(vec![answer])), OK)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The head and the body of a chunked answer. A strict reading: whatever is not as it must be is a panic.
fn unchunk(answer: &[u8]) -> (String, Vec<u8>) {
    let (head, mut rest) = split(answer, b"\r\n\r\n");
    let mut body = Vec::new();
    loop {
        let (size, after) = split(rest, b"\r\n");
        let size = usize::from_str_radix(std::str::from_utf8(size).unwrap(), 16).unwrap();
        if size == 0 {
            assert_eq!(after, b"\r\n", "nothing follows the last chunk");
            return (text(head), body);
        }
        body.extend_from_slice(&after[..size]);
        rest = after[size..].strip_prefix(b"\r\n").unwrap();
    }
}

fn split<'a>(bytes: &'a [u8], at: &[u8]) -> (&'a [u8], &'a [u8]) {
    let found = bytes.windows(at.len()).position(|w| w == at).unwrap_or_else(|| panic!("{at:?} in {}", text(bytes)));
    (&bytes[..found], &bytes[found + at.len()..])
}

#[test]
fn a_request_is_in_the_ledger_as_it_was_sent() {
    let upstream = Upstream::start(Script::answers(vec![Answer::json(200, "{}")]));
    assert!(text(&ask(&upstream, OK)).ends_with("\r\n\r\n{}"));
    let ledger = upstream.ledger();
    assert_eq!((ledger[0].method.as_str(), ledger[0].path.as_str(), ledger[0].header("host")), ("POST", "/v1/messages", Some("x")));
    assert_eq!((ledger[0].body.as_slice(), &upstream.bodies()[0]["model"]), (OK.as_bytes(), &"m".into()));
    assert!(ledger[0].at >= upstream.started());
}

#[test]
fn the_ledger_tells_what_was_written_and_who_left() {
    let upstream = Upstream::start(Script::answers(vec![Answer::json(200, "{}"), Answer::sse_broken("data: x\n\n", Piece::Hang)]));
    let mut stream = connect(&upstream);
    stream.write_all(request(OK, "keep-alive").as_bytes()).unwrap();
    let whole = play(Answer::json(200, "{}")).len();
    stream.read_exact(&mut vec![0; whole]).unwrap();
    stream.write_all(request(OK, "keep-alive").as_bytes()).unwrap();
    upstream.wait_for(2, SOON);
    drop(stream);
    upstream.wait_abandoned(1, SOON);
    let (first, last) = (&upstream.ledger()[0], &upstream.ledger()[1]);
    assert_eq!((first.written, first.left_early), (whole as u64, false));
    assert!(last.left_early && last.written > 9, "{last:?}");
    assert_eq!((upstream.abandoned(), last.connection), (1, 0), "the connection was kept");
}

#[test]
fn the_bytes_of_a_turn_arrive_however_they_are_cut() {
    for wire in Wire::ALL {
        let events = Turn::new().text("é漢😀").call("grep", "{}").noise().events(*wire);
        for cut in [Cut::Whole, Cut::Every(1), Cut::Random(3), Cut::Awkward] {
            assert_eq!(unchunk(&play(Answer::sse_cut(&events, &cut))).1, events, "{cut:?}");
            assert_eq!(unchunk(&play(Answer::sse(&events).torn(&cut))).1, events, "{cut:?}");
        }
        assert_eq!(unchunk(&play(Answer::sse(crlf(&events)))).1.len(), events.len() + events.iter().filter(|b| **b == b'\n').count());
        assert!(text(&events).matches(": PROCESSING\n\n:\n\n").count() > 3);
    }
}

#[test]
fn a_short_script_repeats_its_last_answer() {
    let upstream = Upstream::start(Script::answers(vec![Answer::json(500, ""), Answer::json(200, "")]));
    let statuses: Vec<String> = (0..4).map(|_| text(&ask(&upstream, OK)[9..12])).collect();
    assert_eq!(statuses, ["500", "200", "200", "200"]);
}

#[test]
fn a_script_may_be_a_function_and_its_panic_is_told() {
    let upstream = Upstream::start(Script::by(|n, received| {
        assert!(received.body.len() < 10, "a long body");
        Answer::json(200, &n.to_string())
    }));
    assert!(text(&ask(&upstream, "{}")).ends_with("\r\n0"));
    assert!(text(&ask(&upstream, OK)).contains(" 500 "));
    assert_eq!(upstream.violations(), ["the script panicked at request 1: a long body"]);
}

#[test]
fn a_strict_script_refuses_what_breaks_a_rule_and_what_forgets() {
    let upstream = Upstream::start(Script::turns(Wire::Anthropic, vec![Turn::new().text("ok")]));
    let grown = OK.replace("}]}", r#"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}"#);
    assert!(text(&ask(&upstream, OK)).contains(" 200 "));
    assert!(text(&ask(&upstream, &grown)).contains(" 200 "));
    assert_eq!(upstream.violations(), Vec::<String>::new());
    assert!(text(&ask(&upstream, OK)).contains(" 400 "));
    assert!(text(&ask(&upstream, "{")).contains(" 400 "));
    let found = upstream.violations();
    assert!(found[0].contains("byte prefix") && found[1].contains("no JSON"), "{found:?}");
}

#[test]
fn waits_are_kept_and_end_when_the_client_leaves() {
    let wait = Duration::from_millis(40);
    let answer = Answer::sse_in(vec![b"a".to_vec(), b"b".to_vec()]).paced(wait).after_head(wait).after(wait);
    let upstream = Upstream::start(Script::answers(vec![answer]).accept_after(wait));
    let started = Instant::now();
    assert_eq!(unchunk(&ask(&upstream, OK)).1, b"ab");
    assert!(started.elapsed() >= 4 * wait, "{:?}", started.elapsed());
    let upstream = Upstream::start(Script::answers(vec![Answer::json(200, "").after(LONG)]));
    let stream = send(&upstream, OK);
    upstream.wait_for(1, SOON);
    drop(stream);
    upstream.wait_abandoned(1, SOON);
}

#[test]
fn a_reset_is_a_reset_and_a_close_is_a_close() {
    let end = |piece: Piece| {
        let upstream = Upstream::start(Script::answers(vec![Answer::sse_broken("data: x\n\n", piece)]));
        let mut answer = Vec::new();
        send(&upstream, OK).read_to_end(&mut answer).map_err(|e: io::Error| e.kind())
    };
    assert_eq!(end(Piece::Reset).unwrap_err(), ErrorKind::ConnectionReset);
    assert!(end(Piece::Close).unwrap() > 0);
}

#[test]
fn an_early_answer_comes_while_the_body_is_still_on_its_way() {
    let upstream = Upstream::start(Script::early(Answer::json(413, "{}")));
    let mut stream = connect(&upstream);
    stream.write_all(b"POST / HTTP/1.1\r\ncontent-length: 50000000\r\n\r\n").unwrap();
    let mut front = [0; 12];
    stream.read_exact(&mut front).unwrap();
    assert_eq!(&front, b"HTTP/1.1 413");
    stream.write_all(&vec![b'x'; 5_000_000]).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"\r\n\r\n{}"), "the whole answer is there before the end");
}

#[test]
fn every_fault_ends_or_goes_on_until_the_client_leaves() {
    for (wire, fault) in Wire::ALL.iter().flat_map(|wire| FAULTS.iter().map(move |fault| (*wire, fault))) {
        let upstream = Upstream::start(Script::answers(vec![fault.on(wire)]));
        let mut stream = send(&upstream, OK);
        // Enough to see an endless one begin, and the ends of all others that do not hang.
        let mut answer = Vec::new();
        let quiet = if fault.name.starts_with("hang") { Duration::from_millis(1) } else { SOON };
        upstream.wait_for(1, SOON);
        stream.set_read_timeout(Some(quiet)).unwrap();
        let read = (&mut stream).take(4 << 20).read_to_end(&mut answer);
        let kind = read.as_ref().err().map(io::Error::kind);
        match fault.name {
            name if name.starts_with("hang") => assert_eq!(kind, Some(ErrorKind::WouldBlock), "{name}"),
            name if name.starts_with("reset") => assert_eq!(kind, Some(ErrorKind::ConnectionReset), "{name}"),
            name if name.starts_with("endless") || name.starts_with("gigabyte") => assert_eq!(answer.len(), 4 << 20, "{name}"),
            name => assert!(read.is_ok() && answer.len() < 4 << 20, "{name} {kind:?}"),
        }
        let endless = ["hang", "endless", "gigabyte"].iter().any(|word| fault.name.starts_with(word));
        drop(stream);
        if endless {
            upstream.wait_abandoned(1, SOON);
        }
    }
}

#[test]
fn faults_are_what_their_names_say() {
    let bytes = |name: &str| play(Fault::named(name).unwrap().on(Wire::Chat));
    assert_eq!(bytes("close"), b"");
    assert!(!text(&bytes("close-in-head")).contains("\r\n\r\n"));
    assert!(std::panic::catch_unwind(|| unchunk(&bytes("no-last-chunk"))).is_err(), "the last chunk is missing");
    let (head, events) = unchunk(&bytes("no-end"));
    assert!(head.contains("text/event-stream") && !text(&events).contains("[DONE]"));
    for (name, longer) in [("length-too-short", true), ("length-too-long", false)] {
        let answer = bytes(name);
        let (head, body) = split(&answer, b"\r\n\r\n");
        let claimed: usize = text(head).rsplit("content-length: ").next().unwrap().parse().unwrap();
        assert_eq!(body.len() > claimed, longer, "{name}");
    }
    let gzip = bytes("gzip");
    assert!(split(&gzip, b"\r\n\r\n").1.starts_with(b"\x1f\x8b"));
    assert!(text(&bytes("error-event")).contains(r#"data: {"error":{"type":"overloaded_error""#));
}

#[test]
fn tls_is_spoken_to_whoever_trusts_the_authority() {
    let certificate = Arc::new(Certificate::new());
    let upstream = Upstream::start(Script::answers(vec![Answer::json(200, "{}")]).tls(certificate.clone()));
    assert!(upstream.base_url().starts_with("https://localhost:"));
    let over = |authority: &Certificate| -> io::Result<Vec<u8>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = rustls::StreamOwned::new(rustls::ClientConnection::new(Arc::new(config), name).unwrap(), connect(&upstream));
        stream.write_all(request(OK, "close").as_bytes())?;
        let mut answer = vec![0; 15];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    };
    assert_eq!(over(&certificate).unwrap(), b"HTTP/1.1 200 Sc");
    assert!(over(&Certificate::new()).is_err(), "another authority is not this one");
}

#[test]
fn many_clients_at_once_are_all_in_the_ledger() {
    let upstream = Upstream::start(Script::answers(vec![Answer::json(200, "{}")]));
    std::thread::scope(|scope| {
        for client in 0..40 {
            let upstream = &upstream;
            scope.spawn(move || ask(upstream, &client.to_string()));
        }
    });
    let mut seen: Vec<u64> = upstream.bodies().iter().map(|b| b.as_u64().unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..40).collect::<Vec<_>>());
}

#[test]
#[should_panic(expected = "no 1 requests within")]
fn waiting_for_what_does_not_come_fails_the_test() {
    Upstream::start(Script::answers(vec![Answer::json(200, "")])).wait_for(1, Duration::from_millis(1));
}
