//! Replaces a file as a whole: whoever looks sees the old content or the new, also after a kill in the middle.
//!
//! The new content goes into a temporary file of the same directory, which then takes the old one's name. It is not flushed to
//! the disk: a run's result is as durable as any program's output, and a flush would cost milliseconds a file. A hard link to
//! the old file keeps the old content: writing in place would keep the link, but not be atomic.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::workdir::Place;

/// Makes the names of temporary files differ within the process.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Writes `content` to a place. A file that was there keeps its permission bits, and its owner where we may give it away.
pub(super) fn replace(place: &Place, content: &[u8]) -> Result<(), Errno> {
    let temp = Temp::create(place)?;
    write_all(&temp.file, content)?;
    if let Some(old) = &place.found {
        // Root may give files away; anyone else owns what it may replace, or gets the file as its own.
        let _ = rustix::fs::fchown(&temp.file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
        rustix::fs::fchmod(&temp.file, Mode::from_raw_mode(old.st_mode & 0o7777))?;
    }
    temp.rename()
}

/// A temporary file that is gone unless it was renamed.
struct Temp<'p> {
    place: &'p Place,
    name: OsString,
    file: OwnedFd,
    renamed: bool,
}

impl<'p> Temp<'p> {
    fn create(place: &'p Place) -> Result<Temp<'p>, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = OsString::from(format!(".gantry-{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
            match rustix::fs::openat(&place.dir, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => return Ok(Temp { place, name, file, renamed: false }),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn rename(mut self) -> Result<(), Errno> {
        rustix::fs::renameat(&self.place.dir, &self.name, &self.place.dir, &self.place.name)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // Nothing more can be done about a temporary file that cannot be removed.
            let _ = rustix::fs::unlinkat(&self.place.dir, &self.name, AtFlags::empty());
        }
    }
}

fn write_all(file: &OwnedFd, mut content: &[u8]) -> Result<(), Errno> {
    while !content.is_empty() {
        match rustix::io::write(file.as_fd(), content) {
            Err(Errno::INTR) => {}
            Ok(0) => return Err(Errno::NOSPC),
            done => content = &content[done?..],
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::tools::testdir::TestDir;

    fn names(dir: &TestDir) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn mode_and_owner_are_kept_and_no_temporary_file_stays() {
        let dir = TestDir::new();
        dir.write("run.sh", "old");
        let path = dir.path().join("run.sh");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).unwrap();
        let before = std::fs::metadata(&path).unwrap();
        replace(&dir.workdir().place("run.sh").unwrap(), b"new").unwrap();
        let after = std::fs::metadata(&path).unwrap();
        assert_eq!((after.mode(), after.uid()), (before.mode(), before.uid()));
        assert_ne!(after.ino(), before.ino(), "the file was replaced, not overwritten");
        assert_eq!((dir.read("run.sh"), names(&dir)), (b"new".to_vec(), vec!["run.sh".to_owned()]));
    }

    #[test]
    fn a_link_stays_a_link_and_its_target_is_written() {
        let dir = TestDir::new();
        dir.write("real", "old");
        symlink("real", dir.path().join("link")).unwrap();
        replace(&dir.workdir().place("link").unwrap(), b"new").unwrap();
        assert!(std::fs::symlink_metadata(dir.path().join("link")).unwrap().is_symlink());
        assert_eq!(dir.read("real"), b"new");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let dir = TestDir::new();
        dir.write("file", "old");
        let place = dir.workdir().place("file").unwrap();
        let temp = Temp::create(&place).unwrap();
        assert_eq!(names(&dir).len(), 2);
        drop(temp);
        assert_eq!((dir.read("file"), names(&dir)), (b"old".to_vec(), vec!["file".to_owned()]));
    }
}
