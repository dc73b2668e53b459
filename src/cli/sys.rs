//! The one door from the command line to system calls that std does not have: opening what a person named without being
//! held up by it, and asking the kernel what it can do.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::rt::{Clock, Signals};

/// Opens a regular file for reading. A FIFO, a device, a socket or a directory is refused at once.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    // O_NONBLOCK: opening a FIFO returns although nobody writes into it. It means nothing on a regular file.
    let fd = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    let what = match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
        FileType::RegularFile => return Ok(File::from(fd)),
        FileType::Directory => "is a directory",
        FileType::Fifo => "is a FIFO",
        FileType::Socket => "is a socket",
        _ => "is a device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{what}, not a regular file")))
}

/// Holds a directory open as a place to resolve names from, and makes sure that it can be listed and entered.
pub(super) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let place = open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    openat(&place, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(place)
}

/// What came of reading to the end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// All there was, or one byte more than the bound.
    Whole(Vec<u8>),
    /// The deadline came first.
    Late,
    /// A signal came first. It is left pending for whoever ends the process.
    Signalled,
}

/// Reads until the end, at most one byte more than `bytes_max`.
pub(super) fn read_to_end(fd: impl AsFd, bytes_max: usize, deadline: Instant, signals: Option<&Signals>) -> io::Result<Input> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; crate::limits::CHUNK_BYTES_MAX];
    while bytes.len() <= bytes_max {
        let wait = deadline.saturating_duration_since(Clock::now());
        let wait = Timespec::try_from(wait).expect("a wait is bounded by the longest timeout, which fits");
        let mut fds = vec![PollFd::new(&fd, PollFlags::IN)];
        fds.extend(signals.map(|signals| PollFd::new(signals, PollFlags::IN)));
        match poll(&mut fds, Some(&wait)) {
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(0) => return Ok(Input::Late),
            Ok(_) if fds.get(1).is_some_and(|signals| !signals.revents().is_empty()) => return Ok(Input::Signalled),
            Ok(_) => {}
        }
        let want = piece.len().min(bytes_max + 1 - bytes.len());
        match rustix::io::read(&fd, &mut piece[..want]) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(&piece[..n]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Input::Whole(bytes))
}

/// `openat2(RESOLVE_BENEATH)`, by which file tools are confined.
pub(super) fn openat2_works() -> io::Result<()> {
    openat2(rustix::fs::CWD, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH)?;
    Ok(())
}

/// A descriptor for a process, by which children are awaited.
pub(super) fn pidfd_works() -> io::Result<()> {
    pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(())
}

/// `Linux 6.18.5 x86_64`.
pub(super) fn kernel() -> String {
    let name = rustix::system::uname();
    format!("{} {} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy(), name.machine().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    #[test]
    fn only_a_regular_file_is_opened_and_nothing_blocks() {
        let dir = Scratch::new("open-regular");
        let file = dir.file("prompt.md", b"text");
        assert!(open_regular(&file).is_ok());

        let fifo = dir.path("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from(0o600), 0).expect("fifo");
        let socket = dir.path("socket");
        let _listener = UnixListener::bind(&socket).expect("socket");
        for (path, what) in [(fifo.as_path(), "FIFO"), (dir.root(), "directory"), (Path::new("/dev/null"), "device")] {
            let error = open_regular(path).expect_err("not a regular file").to_string();
            assert!(error.contains(what), "{error}");
        }
        // A socket cannot be opened at all.
        assert!(open_regular(&socket).is_err());
    }

    #[test]
    fn a_directory_is_held_and_a_file_is_not_one() {
        let dir = Scratch::new("open-dir");
        let file = dir.file("f", b"");
        let held = open_dir(dir.root()).expect("held");
        assert!(openat(&held, "f", OFlags::RDONLY, Mode::empty()).is_ok());
        assert!(open_dir(&file).is_err());
        assert!(open_dir(&dir.path("missing")).is_err());
    }

    #[test]
    fn reading_ends_at_the_end_at_the_bound_or_at_the_deadline() {
        let far = Clock::now() + Duration::from_secs(60);
        let (reader, mut writer) = io::pipe().expect("pipe");
        writer.write_all(b"hello").expect("fits");
        let read = |deadline| read_to_end(&reader, 3, deadline, None).expect("readable");
        assert_eq!(read(far), Input::Whole(b"hell".to_vec()), "one more than the bound, so that the excess shows");
        assert_eq!(read(Clock::now() + Duration::from_millis(5)), Input::Late, "the writer is still there");
        drop(writer);
        assert_eq!(read(far), Input::Whole(Vec::new()));
    }

    #[test]
    fn this_kernel_answers() {
        assert!(kernel().starts_with("Linux "));
        openat2_works().expect("openat2");
        pidfd_works().expect("pidfd_open");
    }
}
