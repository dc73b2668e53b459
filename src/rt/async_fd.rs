//! Pipes, sockets and process descriptors as something to wait for, on both drivers.
//!
//! The crate polls sockets only. Its socket type never looks at what the descriptor is, so any descriptor that can be polled
//! may be wrapped in one; readiness is all that is asked of it, and the reads and writes are our own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use rustix::fs::OFlags;

/// A descriptor that the core can wait for. It is owned, and set to non-blocking: never pass one whose open file description
/// is shared with another process that does not expect that.
pub struct AsyncFd {
    io: monoio::net::TcpStream,
}

impl AsyncFd {
    /// Takes over a pollable descriptor (pipe, socket, pidfd, eventfd).
    ///
    /// # Errors
    /// When it cannot be set to non-blocking or cannot be polled (a regular file, for one).
    pub fn new(fd: OwnedFd) -> io::Result<AsyncFd> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        // SAFETY: the descriptor is owned here and handed over; no socket call is ever made on it, only poll, read and write.
        let std = unsafe { std::net::TcpStream::from_raw_fd(fd.into_raw_fd()) };
        Ok(AsyncFd { io: monoio::net::TcpStream::from_std(std)? })
    }

    /// Waits until a read would not block.
    ///
    /// # Errors
    /// When the poll itself fails.
    pub async fn readable(&self) -> io::Result<()> {
        self.io.readable(false).await
    }

    /// Waits until a write would not block.
    ///
    /// # Errors
    /// When the poll itself fails.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.writable(false).await
    }

    /// Reads some bytes; 0 at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// Of read(2).
    pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::io::read(self, &mut *buf) {
                Err(rustix::io::Errno::AGAIN) => self.readable().await?,
                Err(rustix::io::Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// Of write(2).
    pub async fn write_all(&self, mut buf: &[u8]) -> io::Result<()> {
        while !buf.is_empty() {
            match rustix::io::write(self, buf) {
                Err(rustix::io::Errno::AGAIN) => self.writable().await?,
                Err(rustix::io::Errno::INTR) => {}
                done => buf = &buf[done?..],
            }
        }
        Ok(())
    }
}

impl AsFd for AsyncFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsRawFd;
        // SAFETY: the wrapped stream owns the descriptor and lives as long as the borrow.
        unsafe { BorrowedFd::borrow_raw(self.io.as_raw_fd()) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rt::{DriverChoice, Either, block_on, select, sleep, timeout};

    fn both(test: impl AsyncFn()) {
        for choice in [DriverChoice::Auto, DriverChoice::Epoll] {
            block_on(choice, |_| test()).unwrap();
        }
    }

    #[test]
    fn a_pipe_carries_more_than_it_holds() {
        both(async || {
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            let (reader, writer) = (AsyncFd::new(reader).unwrap(), AsyncFd::new(writer).unwrap());
            let sent = vec![7u8; 300_000];
            let theirs = sent.clone();
            crate::rt::spawn(async move { writer.write_all(&theirs).await.unwrap() });
            let mut got = Vec::new();
            let mut buf = [0u8; 5_000];
            loop {
                match reader.read(&mut buf).await.unwrap() {
                    0 => break,
                    n => got.extend_from_slice(&buf[..n]),
                }
            }
            assert_eq!(got, sent);
        });
    }

    #[test]
    fn a_read_that_was_given_up_loses_no_byte() {
        both(async || {
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            let reader = AsyncFd::new(reader).unwrap();
            let mut buf = [0u8; 8];
            assert!(matches!(select(reader.read(&mut buf), sleep(Duration::from_millis(2))).await, Either::Right(())));
            rustix::io::write(&writer, b"abc").unwrap();
            assert_eq!(timeout(Duration::from_secs(5), reader.read(&mut buf)).await.unwrap().unwrap(), 3);
            assert_eq!(&buf[..3], b"abc");
        });
    }

    #[test]
    fn a_process_descriptor_becomes_readable_when_the_process_ends() {
        both(async || {
            let mut child = std::process::Command::new("sleep").arg("0.05").spawn().unwrap();
            let pid = rustix::process::Pid::from_child(&child);
            let fd = AsyncFd::new(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap()).unwrap();
            timeout(Duration::from_secs(10), fd.readable()).await.unwrap().unwrap();
            assert!(child.try_wait().unwrap().is_some());
        });
    }
}
