//! Writes that never wait, on a descriptor whose flags are not ours to change.
//!
//! stdout is shared with whoever started us, so O_NONBLOCK must not be set on it. `pwritev2` with RWF_NOWAIT asks for the same
//! per call; where a descriptor does not know that flag, it is asked whether it is ready, and given no more than is certain to
//! fit.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

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
        Some(libc::EAGAIN) if is_file(fd) => plain(fd, bytes),
        _ => Err(error),
    }
}

fn write_when_ready(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    if is_file(fd) {
        return plain(fd, bytes);
    }
    if !wait_writable(fd, Duration::ZERO) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    plain(fd, &bytes[..bytes.len().min(ATOMIC_BYTES)])
}

fn plain(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(fd, bytes)?)
}

fn is_file(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file())
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

    use super::*;

    #[test]
    fn a_full_pipe_gives_would_block_and_keeps_its_flags() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let before = rustix::fs::fcntl_getfl(&writer).unwrap();
        let mut sent = 0;
        let error = loop {
            match write_nowait(writer.as_fd(), &[b'x'; 10_000]) {
                Ok(n) => sent += n,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(sent >= 16_384, "a pipe holds more than {sent}");
        assert_eq!(rustix::fs::fcntl_getfl(&writer).unwrap(), before);
        assert!(!wait_writable(writer.as_fd(), Duration::ZERO));
        drop(reader);
        assert_eq!(write_nowait(writer.as_fd(), b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_file_takes_all_and_a_full_disk_says_so() {
        let mut file = tempfile();
        assert_eq!(write_nowait(file.as_fd(), &[b'y'; 100_000]).unwrap(), 100_000);
        std::io::Seek::rewind(&mut file).unwrap();
        let mut got = Vec::new();
        file.read_to_end(&mut got).unwrap();
        assert_eq!(got, [b'y'; 100_000]);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(write_nowait(full.as_fd(), b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_full_socket_gives_would_block() {
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        let error = loop {
            if let Err(error) = write_nowait(a.as_fd(), &[b'x'; 65_536]) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    fn tempfile() -> std::fs::File {
        use rustix::fs::{Mode, OFlags, open};
        open("/tmp", OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR | Mode::WUSR).unwrap().into()
    }
}
