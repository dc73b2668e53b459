//! Names and connections: resolution off the core, and every address of a name tried.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use monoio::io::IntoPollIo;
use monoio::net::TcpStream;

use super::pool::blocking;
use super::task::{Elapsed, timeout};

/// A connected socket with the readiness interface that hyper and rustls take on both drivers.
pub type Stream = monoio::net::tcp::stream_poll::TcpStreamPoll;

/// The addresses of a host, families interleaved so that a broken one costs one time-out and not many.
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
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.into_iter(), b.into_iter());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return out,
            (x, y) => out.extend(x.into_iter().chain(y)),
        }
    }
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
    use super::*;
    use crate::rt::{DriverChoice, block_on};

    #[test]
    fn families_are_interleaved() {
        let addr = |s: &str| s.parse::<SocketAddr>().unwrap();
        let got = interleave(vec![addr("[::1]:1"), addr("[::2]:1"), addr("1.1.1.1:1"), addr("[::3]:1")]);
        assert_eq!(got, vec![addr("[::1]:1"), addr("1.1.1.1:1"), addr("[::2]:1"), addr("[::3]:1")]);
    }

    #[test]
    fn a_dead_address_is_passed_over_and_named_when_none_answers() {
        for choice in [DriverChoice::Auto, DriverChoice::Epoll] {
            let alive = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let alive_addr = alive.local_addr().unwrap();
            let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            block_on(choice, |_| async move {
                assert!(connect(&[dead, alive_addr], Duration::from_secs(5)).await.is_ok());
                let error = connect(&[dead], Duration::from_secs(5)).await.err().unwrap();
                assert!(error.to_string().contains(&dead.to_string()), "{error}");
            })
            .unwrap();
        }
    }

    #[test]
    fn localhost_and_literals_resolve() {
        block_on(DriverChoice::Auto, |_| async {
            assert!(resolve("localhost", 80).await.unwrap().iter().all(|a| a.ip().is_loopback()));
            assert_eq!(resolve("[::1]", 80).await.unwrap(), vec!["[::1]:80".parse().unwrap()]);
        })
        .unwrap();
    }
}
