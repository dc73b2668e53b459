//! Pipes, sockets and process descriptors as something to wait for, on both drivers.
//!
//! The crate polls sockets only. Its socket type never looks at what the descriptor is, so any descriptor that can be polled
//! may be wrapped in one; readiness is all that is asked of it, and the reads and writes are our own.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;

use super::task::breathe;
use crate::limits::{BURST_BYTES_MAX, KIB};

/// A descriptor that the core can wait for. It is owned, and set to non-blocking: never pass one whose open file description
/// is shared with another process that does not expect that.
pub struct AsyncFd {
    io: monoio::net::TcpStream,
    /// What was moved since it last had to be waited for (bytes).
    burst: Cell<usize>,
}

impl AsyncFd {
    /// Takes over a pollable descriptor (pipe, socket, pidfd, eventfd).
    ///
    /// # Errors
    /// When it cannot be set to non-blocking or cannot be polled (a regular file, for one).
    pub fn new(fd: OwnedFd) -> io::Result<AsyncFd> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        // No socket call is ever made on it, only poll, read and write.
        let io = monoio::net::TcpStream::from_std(std::net::TcpStream::from(fd))?;
        Ok(AsyncFd { io, burst: Cell::new(0) })
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
        self.rest(buf.len()).await;
        loop {
            match rustix::io::read(self, &mut *buf) {
                Err(rustix::io::Errno::AGAIN) => {
                    self.burst.set(0);
                    self.readable().await?;
                }
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
            self.rest(buf.len()).await;
            match rustix::io::write(self, buf) {
                Err(rustix::io::Errno::AGAIN) => {
                    self.burst.set(0);
                    self.writable().await?;
                }
                Err(rustix::io::Errno::INTR) => {}
                done => buf = &buf[done?..],
            }
        }
        Ok(())
    }

    /// Gives way after a burst. A child that writes faster than we read would else keep the core from its timers, and so from
    /// that child's own time-out. Comes before a call and not after it, so that no byte is lost when the wait is given up.
    async fn rest(&self, next_bytes: usize) {
        if self.burst.get() >= BURST_BYTES_MAX {
            self.burst.set(0);
            breathe().await;
        }
        // A small call takes about as long as one of 4 KiB; a pipe moves no more than 64 KiB at once.
        self.burst.set(self.burst.get() + next_bytes.clamp(4 * KIB, 64 * KIB));
    }
}

impl AsFd for AsyncFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the wrapped stream owns the descriptor and lives as long as the borrow.
        unsafe { BorrowedFd::borrow_raw(self.io.as_raw_fd()) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    use std::rc::Rc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::rt::driver::tests::both;
    use crate::rt::{Clock, Either, Elapsed, select, sleep, spawn, timeout};

    const SOON: Duration = Duration::from_secs(10);

    fn pipe() -> (AsyncFd, AsyncFd) {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        (AsyncFd::new(reader).unwrap(), AsyncFd::new(writer).unwrap())
    }

    #[test]
    fn a_pipe_carries_more_than_it_holds() {
        both(async || {
            let (reader, writer) = pipe();
            let sent = vec![7u8; 3_000_000];
            let theirs = sent.clone();
            spawn(async move { writer.write_all(&theirs).await.unwrap() });
            let mut got = Vec::new();
            let mut buf = [0u8; 5_000];
            loop {
                match reader.read(&mut buf).await.unwrap() {
                    0 => break,
                    n => got.extend_from_slice(&buf[..n]),
                }
            }
            assert!(got == sent, "{} bytes", got.len());
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
            assert_eq!(timeout(SOON, reader.read(&mut buf)).await.unwrap().unwrap(), 3);
            assert_eq!(&buf[..3], b"abc");
        });
    }

    #[test]
    fn bytes_are_all_there_when_each_read_is_given_up_after_a_moment() {
        both(async || {
            let (reader, writer) = pipe();
            let sent: Vec<u8> = (0..4_000_000u32).map(|i| i as u8).collect();
            let theirs = sent.clone();
            spawn(async move { writer.write_all(&theirs).await.unwrap() });
            let (mut got, mut buf) = (Vec::new(), vec![0; 65_536]);
            while got.len() < sent.len() {
                // A future that is ready at its second poll: half of the reads are dropped while they wait or rest.
                let moment = crate::rt::yield_fair();
                if let Either::Left(n) = select(reader.read(&mut buf), moment).await {
                    got.extend_from_slice(&buf[..n.unwrap()]);
                }
            }
            assert!(got == sent);
        });
    }

    #[test]
    fn a_writer_that_waits_learns_that_its_reader_is_gone() {
        both(async || {
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            let writer = AsyncFd::new(writer).unwrap();
            let closer = thread::spawn(move || std::fs::File::from(reader).read_exact(&mut [0]).unwrap());
            let written = timeout(SOON, writer.write_all(&vec![0; 1_000_000])).await.unwrap();
            assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
            closer.join().unwrap();
        });
    }

    #[test]
    fn a_process_descriptor_becomes_readable_when_the_process_ends_and_not_before() {
        both(async || {
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let pid = rustix::process::Pid::from_child(&child);
            let fd = AsyncFd::new(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap()).unwrap();
            assert!(matches!(timeout(Duration::from_millis(5), fd.readable()).await, Err(Elapsed)));
            drop(child.stdin.take());
            timeout(SOON, fd.readable()).await.unwrap().unwrap();
            assert!(child.try_wait().unwrap().is_some());
        });
    }

    #[test]
    fn an_event_of_another_thread_wakes_the_core() {
        both(async || {
            let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
            let mut theirs = std::fs::File::from(event.try_clone().unwrap());
            let event = AsyncFd::new(event).unwrap();
            let other = thread::spawn(move || theirs.write_all(&3u64.to_ne_bytes()).unwrap());
            let mut count = [0; 8];
            assert_eq!(timeout(SOON, event.read(&mut count)).await.unwrap().unwrap(), 8);
            assert_eq!(u64::from_ne_bytes(count), 3);
            other.join().unwrap();
        });
    }

    #[test]
    fn one_socket_is_read_and_written_at_once() {
        both(async || {
            let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            let ours = Rc::new(AsyncFd::new(ours.into()).unwrap());
            let echo = thread::spawn(move || {
                let mut bytes = vec![0; 500_000];
                theirs.read_exact(&mut bytes).unwrap();
                theirs.write_all(&bytes).unwrap();
            });
            let writing = ours.clone();
            spawn(async move { writing.write_all(&[9; 500_000]).await.unwrap() });
            let (mut total, mut buf) = (0, [0; 65_536]);
            while total < 500_000 {
                let n = timeout(SOON, ours.read(&mut buf)).await.unwrap().unwrap();
                assert!(n > 0 && buf[..n].iter().all(|byte| *byte == 9));
                total += n;
            }
            echo.join().unwrap();
        });
    }

    #[test]
    fn endless_input_does_not_keep_a_timer_from_firing() {
        both(async || {
            // A semaphore that can be taken so often is always ready.
            let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::SEMAPHORE;
            let endless = AsyncFd::new(rustix::event::eventfd(u32::MAX, flags).unwrap()).unwrap();
            let until = Clock::now() + SOON;
            let reading = async {
                while Clock::now() < until {
                    endless.read(&mut [0; 8]).await.unwrap();
                }
            };
            assert!(matches!(select(reading, sleep(Duration::from_millis(20))).await, Either::Right(())));
        });
    }

    #[test]
    fn only_the_non_blocking_flag_is_added() {
        both(async || {
            let (_reader, writer) = rustix::pipe::pipe().unwrap();
            let before = rustix::fs::fcntl_getfl(&writer).unwrap();
            let writer = AsyncFd::new(writer).unwrap();
            assert_eq!(rustix::fs::fcntl_getfl(&writer).unwrap(), before | OFlags::NONBLOCK);
        });
    }
}
