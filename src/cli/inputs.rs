//! Files and directories that a run is given: opened and read now, so that nothing about them can fail after `start`.

use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::fault::{Fault, shown};
use super::sys;
use crate::error::Stop;
use crate::limits;
use crate::rt::Signals;

/// Opens the directory to work in; its canonical path and the directory, held.
pub(super) fn workdir(path: &Path) -> Result<(PathBuf, OwnedFd), Fault> {
    let fault =
        |error: io::Error| Fault::new("--workdir", format!("{}: {error}; give a directory that can be read and entered", shown(path)));
    let canonical = fs::canonicalize(path).map_err(fault)?;
    let held = sys::open_dir(&canonical).map_err(fault)?;
    if canonical.to_str().is_none() {
        return Err(Fault::new("--workdir", format!("{} is not UTF-8 and cannot be told in events; rename it", shown(&canonical))));
    }
    Ok((canonical, held))
}

/// A directory that must be there; its canonical path.
pub(super) fn directory(flag: &str, path: &Path) -> Result<PathBuf, Fault> {
    let fault = |error: io::Error| Fault::new(flag, format!("{}: {error}; give a directory that can be read", shown(path)));
    let canonical = fs::canonicalize(path).map_err(fault)?;
    sys::open_dir(&canonical).map_err(fault)?;
    Ok(canonical)
}

/// Makes sure that a file holds certificates. Which of them are good is judged when one is needed.
pub(super) fn certificates(subject: &str, path: &Path) -> Result<(), Fault> {
    let bytes = whole_file(subject, path, limits::CERTIFICATES_BYTES_MAX)?;
    match memchr::memmem::find(&bytes, b"-----BEGIN CERTIFICATE-----") {
        Some(_) => Ok(()),
        None => Err(Fault::new(subject, format!("{} holds no certificate in PEM; give a file that does", shown(path)))),
    }
}

/// Makes sure that a file can be made at a path, or replaced there.
pub(super) fn writable(flag: &str, path: &Path) -> Result<(), Fault> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    directory(flag, folder)?;
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => Err(Fault::new(flag, format!("{} is there and is not a regular file; name another", shown(path)))),
        _ => Ok(()),
    }
}

/// The text of a file.
pub(super) fn text_file(flag: &str, path: &Path, bytes_max: usize) -> Result<String, Fault> {
    let bytes = whole_file(flag, path, bytes_max)?;
    text(bytes).map_err(|what| Fault::new(flag, format!("{} {what}", shown(path))))
}

/// The bytes of a regular file. One that is too large is refused before it is read, one that grows meanwhile after.
fn whole_file(subject: &str, path: &Path, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    let fault = |error: io::Error| Fault::new(subject, format!("{}: {error}; give a file that can be read", shown(path)));
    let file = sys::open_regular(path).map_err(fault)?;
    let size = usize::try_from(file.metadata().map_err(fault)?.len()).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    if size <= bytes_max {
        bytes.reserve_exact(size + 1);
        file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(fault)?;
    }
    if size.max(bytes.len()) > bytes_max {
        return Err(Fault::new(subject, format!("{} {}", shown(path), too_large(bytes_max))));
    }
    Ok(bytes)
}

fn too_large(bytes_max: usize) -> String {
    format!("is larger than {} MiB; give less", bytes_max / limits::MIB)
}

/// The prompt from stdin, to its end, unless the deadline or a signal comes first.
pub(super) fn text_stdin(deadline: Instant, signals: Option<&Signals>) -> Result<String, Fault> {
    let fault = |what: String| Fault::new("--prompt-file", format!("stdin {what}"));
    match sys::read_to_end(io::stdin(), limits::PROMPT_BYTES_MAX, deadline, signals) {
        Ok(sys::Input::Whole(bytes)) if bytes.len() > limits::PROMPT_BYTES_MAX => Err(fault(too_large(limits::PROMPT_BYTES_MAX))),
        Ok(sys::Input::Whole(bytes)) => text(bytes).map_err(fault),
        Ok(sys::Input::Late) => {
            let fault = fault("did not end within --timeout-ms; close it after the prompt".into());
            Err(Fault { stop: Stop::Deadline, ..fault })
        }
        Ok(sys::Input::Signalled) => Err(Fault { stop: Stop::Signal, ..fault("had not ended when a signal came".into()) }),
        Err(error) => Err(fault(format!("cannot be read: {error}"))),
    }
}

/// When the wall clock of a run ends.
pub(super) fn deadline(started: Instant, timeout_ms: u64) -> Instant {
    started.checked_add(Duration::from_millis(timeout_ms)).expect("TIMEOUT_MS_MAX is far below the end of the clock")
}

/// Text in UTF-8 that says something.
fn text(bytes: Vec<u8>) -> Result<String, String> {
    if let Some(at) = memchr::memchr(0, &bytes) {
        return Err(format!("is not text: there is a NUL at byte {at}; give UTF-8 text"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = 1 + memchr::memchr_iter(b'\n', &error.as_bytes()[..at]).count();
        format!("is not UTF-8 at byte {at} (line {line}); save it as UTF-8")
    })?;
    if text.trim().is_empty() {
        return Err("is empty; write the text into it".into());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_prompt_that_is_missing_empty_huge_or_no_text_is_refused_and_says_where() {
        let dir = Scratch::new("prompts");
        let huge = dir.file("huge", b"");
        fs::File::options().write(true).open(&huge).and_then(|file| file.set_len(limits::PROMPT_BYTES_MAX as u64 + 1)).expect("sparse");
        for (path, what) in [
            (dir.path("missing"), "No such file"),
            (dir.root().to_owned(), "is a directory"),
            (dir.file("empty", b""), "is empty"),
            (dir.file("blank", b" \n\t\n"), "is empty"),
            (dir.file("latin1", b"one\ntw\xe9\n"), "not UTF-8 at byte 6 (line 2)"),
            (dir.file("cut", b"one\xe2\x82"), "not UTF-8 at byte 3 (line 1)"),
            (dir.file("binary", b"\x7fELF\0\0"), "NUL at byte 4"),
            (huge, "larger than 64 MiB"),
        ] {
            let fault = text_file("--prompt-file", &path, limits::PROMPT_BYTES_MAX).expect_err(what).to_string();
            assert!(fault.starts_with("--prompt-file: ") && fault.contains(what), "{fault}");
        }
        assert_eq!(text_file("--prompt-file", &dir.file("good", "é\r\n".as_bytes()), 4).expect("text"), "é\r\n");
    }

    #[test]
    fn a_workdir_is_canonical_and_held_through_a_symlink() {
        let dir = Scratch::new("workdir");
        let real = dir.dir("real");
        let link = dir.path("link");
        std::os::unix::fs::symlink(&real, &link).expect("symlink");
        assert_eq!(workdir(&link).expect("a directory").0, real);

        let circle = dir.path("circle");
        std::os::unix::fs::symlink(&circle, &circle).expect("symlink");
        let odd = dir.root().join(std::ffi::OsStr::from_bytes(b"odd\xff"));
        fs::create_dir(&odd).expect("a name of any bytes");
        for (path, what) in
            [(dir.path("missing"), "No such file"), (dir.file("f", b""), "Not a directory"), (circle, "symbolic links"), (odd, "not UTF-8")]
        {
            let fault = workdir(&path).expect_err(what).to_string();
            assert!(fault.contains(what), "{fault}");
        }
    }

    #[test]
    fn a_file_of_certificates_holds_one() {
        let dir = Scratch::new("certificates");
        let good = dir.file("good.pem", b"# ours\n-----BEGIN CERTIFICATE-----\n");
        assert_eq!(certificates("SSL_CERT_FILE", &good), Ok(()));
        for bad in [dir.file("key.pem", b"-----BEGIN PRIVATE KEY-----\n"), dir.file("empty", b""), dir.root().to_owned()] {
            assert!(certificates("SSL_CERT_FILE", &bad).is_err_and(|fault| fault.subject == "SSL_CERT_FILE"), "{}", bad.display());
        }
    }

    #[test]
    fn a_cassette_goes_where_a_file_can_be() {
        let dir = Scratch::new("record");
        assert_eq!(writable("--record", &dir.path("new")), Ok(()));
        assert_eq!(writable("--record", &dir.file("old", b"x")), Ok(()));
        assert!(writable("--record", dir.root()).is_err());
        assert!(writable("--record", &dir.path("no/such/folder")).is_err());
    }
}
