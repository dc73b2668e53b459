//! A server of plain sockets for tests: what a connection does is a function of the test, so every byte and every close is its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A listening server. Its threads end with their connections.
pub(super) struct Raw {
    pub(super) addr: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Raw {
    /// Starts on a free port. `talk` is given each connection with its number, from 0, on a thread of its own.
    pub(super) fn start(talk: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> Raw {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, talk) = (listener.local_addr().unwrap(), Arc::new(talk));
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (number, talk) = (count.fetch_add(1, Ordering::SeqCst), talk.clone());
                std::thread::spawn(move || talk(number, stream.unwrap()));
            }
        });
        Raw { addr, accepted }
    }

    /// Answers the requests of all connections with these bytes in turn, the last one again and again; each answer ends its
    /// connection.
    pub(super) fn answering(answers: Vec<Vec<u8>>) -> Raw {
        Raw::start(move |number, mut stream| {
            request(&stream);
            let _ = stream.write_all(&answers[number.min(answers.len() - 1)]);
        })
    }

    /// Connections so far.
    pub(super) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// Reads one request: its head in lower case, and its body.
pub(super) fn request(stream: &TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let head = head(&mut reader);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (head, body)
}

/// Reads a head, and whatever came in the same piece.
pub(super) fn head(reader: &mut impl BufRead) -> String {
    let mut head = String::new();
    while reader.read_line(&mut head).unwrap() > 2 {}
    head.to_ascii_lowercase()
}

/// An answer whose body has a stated length.
pub(super) fn answer(status: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status}\r\n");
    headers.iter().for_each(|header| text += &format!("{header}\r\n"));
    text += &format!("content-length: {}\r\n\r\n{body}", body.len());
    text.into_bytes()
}
