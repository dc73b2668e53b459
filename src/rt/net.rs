//! Names and connections: resolution off the core, and every address of a name tried.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use monoio::io::IntoPollIo;
use monoio::net::TcpStream;

use super::pool::blocking;
use super::task::{Elapsed, timeout};
use crate::limits::HOST_ADDRESSES_MAX;

/// A connected socket with the readiness interface that hyper and rustls take on both drivers.
pub type Stream = monoio::net::tcp::stream_poll::TcpStreamPoll;

/// The addresses of a host, at most [`HOST_ADDRESSES_MAX`], families interleaved so that a broken one costs one time-out and not
/// many. The system knows which family has a route, so its first choice stays the first.
///
/// # Errors
/// Of getaddrinfo, with its text.
pub async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let name = host.to_owned();
    let found = blocking(move || (name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>)).await;
    found.map_err(|panicked| io::Error::other(panicked.to_string()))?.map(interleave)
}

fn interleave(found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = found.first().is_some_and(SocketAddr::is_ipv6);
    let (a, b): (Vec<_>, Vec<_>) = found.into_iter().partition(|addr| addr.is_ipv6() == first_is_v6);
    let (mut a, mut b) = (a.into_iter(), b.into_iter());
    let pairs = std::iter::from_fn(|| match (a.next(), b.next()) {
        (None, None) => None,
        pair => Some(pair),
    });
    pairs.flat_map(|(x, y)| x.into_iter().chain(y)).take(HOST_ADDRESSES_MAX).collect()
}

/// No address of a host could be connected to.
#[derive(Debug)]
pub struct ConnectError {
    /// Each address tried, and why it failed.
    pub tried: Vec<(SocketAddr, io::Error)>,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tried.is_empty() {
            return f.write_str("the name has no address");
        }
        for (i, (addr, error)) in self.tried.iter().enumerate() {
            let separator = if i > 0 { "; " } else { "" };
            write!(f, "{separator}{addr}: {error}")?;
        }
        Ok(())
    }
}

/// Connects to the first address that answers, each within its share of `bound`.
///
/// # Errors
/// What each address said, when none answered.
pub async fn connect(addrs: &[SocketAddr], bound: Duration) -> Result<Stream, ConnectError> {
    let mut tried = Vec::new();
    let share = bound / u32::try_from(addrs.len().max(1)).unwrap_or(u32::MAX);
    for &addr in addrs {
        match timeout(share, connect_one(addr)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => tried.push((addr, error)),
            Err(Elapsed) => {
                tried.push((addr, io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} ms", share.as_millis()))))
            }
        }
    }
    Err(ConnectError { tried })
}

async fn connect_one(addr: SocketAddr) -> io::Result<Stream> {
    let stream = TcpStream::connect_addr(addr).await?;
    stream.set_nodelay(true)?;
    stream.into_poll_io()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use monoio::io::poll_io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::rt::driver::tests::both;
    use crate::rt::{Clock, Either, select, sleep};

    const SOON: Duration = Duration::from_secs(10);

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        (listener, addr)
    }

    fn refusing() -> SocketAddr {
        listener().1
    }

    /// An address that drops every request to connect: the queue of its listener is full and stays so.
    fn silent() -> (Vec<std::net::TcpStream>, TcpListener, SocketAddr) {
        let (listener, addr) = listener();
        rustix::net::listen(&listener, 0).unwrap();
        let filling = std::iter::from_fn(|| std::net::TcpStream::connect_timeout(&addr, Duration::from_millis(50)).ok());
        (filling.take(16).collect(), listener, addr)
    }

    #[test]
    fn families_are_interleaved_and_their_number_is_bounded() {
        let addr = |s: &str| s.parse::<SocketAddr>().unwrap();
        let got = interleave(vec![addr("[::1]:1"), addr("[::2]:1"), addr("1.1.1.1:1"), addr("[::3]:1")]);
        assert_eq!(got, vec![addr("[::1]:1"), addr("1.1.1.1:1"), addr("[::2]:1"), addr("[::3]:1")]);
        let many: Vec<SocketAddr> = (0..200).map(|i| SocketAddr::from(([10, 0, 0, i], 1))).collect();
        assert_eq!(interleave(many.clone()), many[..HOST_ADDRESSES_MAX]);
    }

    #[test]
    fn every_address_is_tried_until_one_answers() {
        both(async || {
            let (_full, _queue, silent) = silent();
            let (listener, alive) = listener();
            let echo = std::thread::spawn(move || {
                let mut peer = listener.accept().unwrap().0;
                let mut word = [0; 4];
                peer.read_exact(&mut word).unwrap();
                peer.write_all(&word).unwrap();
            });
            let mut stream = connect(&[refusing(), silent, alive], Duration::from_millis(600)).await.unwrap();
            assert!(stream.nodelay().unwrap());
            stream.write_all(b"ping").await.unwrap();
            let mut word = [0; 4];
            stream.read_exact(&mut word).await.unwrap();
            assert_eq!(&word, b"ping");
            echo.join().unwrap();
        });
    }

    #[test]
    fn when_none_answers_each_is_named_with_its_reason() {
        both(async || {
            let (_full, _queue, silent) = silent();
            let refusing = refusing();
            let error = connect(&[refusing, silent], Duration::from_millis(50)).await.err().unwrap();
            let kinds: Vec<_> = error.tried.iter().map(|(addr, error)| (*addr, error.kind())).collect();
            assert_eq!(kinds, [(refusing, io::ErrorKind::ConnectionRefused), (silent, io::ErrorKind::TimedOut)]);
            let text = error.to_string();
            assert!(text.contains(&refusing.to_string()) && text.contains("no answer within 25 ms"), "{text}");
            assert_eq!(connect(&[], SOON).await.err().unwrap().to_string(), "the name has no address");
        });
    }

    #[test]
    fn a_connection_that_is_given_up_is_closed() {
        both(async || {
            let (_full, _queue, silent) = silent();
            let begun = Clock::now();
            let given_up = select(connect(&[silent], SOON), sleep(Duration::from_millis(20))).await;
            assert!(matches!(given_up, Either::Right(())) && begun.elapsed() < SOON);
            sleep(Duration::from_millis(1)).await;
            let sockets = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
            let waiting = format!(" 0100007F:{:04X} 02 ", silent.port());
            assert!(!sockets.contains(&waiting), "no SYN is sent on");
        });
    }

    #[test]
    fn localhost_and_literals_resolve_and_an_unknown_name_does_not() {
        both(async || {
            assert!(resolve("localhost", 80).await.unwrap().iter().all(|a| a.ip().is_loopback()));
            assert_eq!(resolve("[::1]", 80).await.unwrap(), vec!["[::1]:80".parse().unwrap()]);
            assert_eq!(resolve("127.0.0.1", 81).await.unwrap(), vec!["127.0.0.1:81".parse().unwrap()]);
            assert!(resolve("no-such-host.invalid", 80).await.is_err());
        });
    }
}
