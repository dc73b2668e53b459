//! Writes that never wait, on a descriptor whose flags are not ours to change.
//!
//! stdout is shared with whoever started us, so O_NONBLOCK must not be set on it. `pwritev2` with RWF_NOWAIT asks for the same
//! per call; where a descriptor does not know that flag, it is asked whether it is ready, and given no more than is certain to
//! fit.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::net::SendFlags;

/// What a pipe or terminal that polls as writable takes without blocking (bytes): POSIX's PIPE_BUF.
const ATOMIC_BYTES: usize = 4096;

/// Writes as much as goes without waiting.
///
/// # Errors
/// `WouldBlock` when nothing goes now; otherwise those of write(2).
pub fn write_nowait(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let iov = libc::iovec { iov_base: bytes.as_ptr() as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `iov` describes `bytes`, which outlives the call and is only read; offset -1 means the current position.
    let written = unsafe { libc::pwritev2(fd.as_raw_fd(), &iov, 1, -1, libc::RWF_NOWAIT) };
    if let Ok(written) = usize::try_from(written) {
        return Ok(written);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Terminals, some file systems (for buffered writes), and kernels without the flag.
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS) => write_when_ready(fd, bytes),
        // A file on disk answers so when the page is not there at once; a file never waits for a reader.
        Some(libc::EAGAIN) if kind(fd).is_file() => plain(fd, bytes),
        _ => Err(error),
    }
}

fn write_when_ready(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    match kind(fd) {
        FileType::RegularFile => plain(fd, bytes),
        FileType::Socket => Ok(rustix::net::send(fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?),
        _ if wait_writable(fd, Duration::ZERO) => plain(fd, &bytes[..bytes.len().min(ATOMIC_BYTES)]),
        _ => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn plain(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(fd, bytes)?)
}

fn kind(fd: BorrowedFd<'_>) -> FileType {
    rustix::fs::fstat(fd).map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

/// Blocks this thread until the descriptor takes bytes, its reader is gone, or `bound` has passed. True unless it passed.
pub fn wait_writable(fd: BorrowedFd<'_>, bound: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::OUT)];
    let bound = Timespec::try_from(bound).ok();
    matches!(poll(&mut fds, bound.as_ref()), Ok(1..))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::{FromRawFd, OwnedFd};

    use super::*;

    type Way = fn(BorrowedFd<'_>, &[u8]) -> io::Result<usize>;

    /// Both ways of writing, as kernels before 6.4 have only the second one for pipes and sockets.
    const WAYS: [Way; 2] = [write_nowait, write_when_ready];

    /// Writes until it would block; how much went.
    fn fill(fd: &impl AsFd, write: Way) -> usize {
        let mut sent = 0;
        loop {
            match write(fd.as_fd(), &[b'x'; 10_000]) {
                Ok(n) => sent += n,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    return sent;
                }
            }
        }
    }

    #[test]
    fn a_full_pipe_gives_would_block_and_keeps_its_flags() {
        for write in WAYS {
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            let before = rustix::fs::fcntl_getfl(&writer).unwrap();
            let sent = fill(&writer, write);
            assert!(sent >= 16_384, "a pipe holds more than {sent}");
            assert_eq!(rustix::fs::fcntl_getfl(&writer).unwrap(), before);
            assert!(!wait_writable(writer.as_fd(), Duration::ZERO));
            drop(reader);
            assert_eq!(write(writer.as_fd(), b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
    }

    #[test]
    fn a_file_takes_all_and_a_full_disk_says_so() {
        for write in WAYS {
            let mut file = tempfile();
            for part in [&[b'y'; 100_000][..], b"z"] {
                assert_eq!(write(file.as_fd(), part).unwrap(), part.len());
            }
            std::io::Seek::rewind(&mut file).unwrap();
            let mut got = Vec::new();
            file.read_to_end(&mut got).unwrap();
            assert!(got.len() == 100_001 && got.ends_with(b"yz"), "the second write goes on where the first ended");
            let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
            assert_eq!(write(full.as_fd(), b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
    }

    #[test]
    fn a_full_socket_gives_would_block_and_a_closed_one_an_error() {
        for write in WAYS {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            assert!(fill(&ours, write) > 0);
            drop(theirs);
            assert_eq!(write(ours.as_fd(), b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
    }

    #[test]
    fn a_terminal_takes_what_its_reader_takes_and_no_more() {
        let (mut master, mut slave) = (-1, -1);
        // SAFETY: both descriptors are written by the call; the null pointers ask for its defaults.
        let made = unsafe { libc::openpty(&mut master, &mut slave, std::ptr::null_mut(), std::ptr::null(), std::ptr::null()) };
        assert_eq!(made, 0);
        // SAFETY: the call has just made them, and nobody else owns them.
        let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        for _ in 0..2 {
            assert_eq!(write_nowait(slave.as_fd(), b"a line\n").unwrap(), 7);
            let mut got = [0; 64];
            let n = rustix::io::read(&master, &mut got).unwrap();
            assert_eq!(&got[..n], b"a line\r\n");
        }
        drop(master);
        assert_eq!(write_nowait(slave.as_fd(), b"x").unwrap_err().raw_os_error(), Some(libc::EIO));
    }

    fn tempfile() -> std::fs::File {
        use rustix::fs::{Mode, OFlags, open};
        open("/tmp", OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR | Mode::WUSR).unwrap().into()
    }
}
