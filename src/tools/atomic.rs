//! Replaces a file as a whole: whoever looks sees the old content or the new, also after a kill in the middle.
//!
//! The new content goes into a file without a name, which vanishes with the process; when it is complete it gets a temporary name
//! in the same directory, and with that takes the old one's place. Only a kill between these two calls leaves a file behind, or
//! one at any time on a file system that has no nameless files.
//!
//! Nothing is flushed to the disk: a run's result is as durable as any program's output, and a flush would cost milliseconds a
//! file. A hard link to the old file keeps the old content: writing in place would keep the link, but not be atomic.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::workdir::Place;

/// Makes the names of temporary files differ within the process.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Writes `content` to a place. A file that was there keeps its permission bits, and its owner where we may give it away.
pub(super) fn replace(place: &Place, content: &[u8]) -> Result<(), Errno> {
    fill(Temp::create(place)?, content)
}

fn fill(mut temp: Temp<'_>, content: &[u8]) -> Result<(), Errno> {
    write_all(&temp.file, content)?;
    if let Some(old) = &temp.place.found {
        // Root may give files away; anyone else owns what it may replace, or gets the file as its own, and then not the bits
        // that would let others run it in its name.
        let given = rustix::fs::fchown(&temp.file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
        let kept = if given.is_ok() { 0o7777 } else { 0o1777 };
        rustix::fs::fchmod(&temp.file, Mode::from_raw_mode(old.st_mode & kept))?;
    }
    temp.publish()
}

/// A file in the making: gone unless it is published.
struct Temp<'p> {
    place: &'p Place,
    file: OwnedFd,
    /// Its name in the directory, as long as there is something to remove under it.
    name: Option<OsString>,
}

impl<'p> Temp<'p> {
    fn create(place: &'p Place) -> Result<Temp<'p>, Errno> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        match rustix::fs::openat(&place.dir, c".", flags, mode(place)) {
            Ok(file) if rustix::fs::statat(CWD, path_of(&file), AtFlags::empty()).is_ok() => Ok(Temp { place, file, name: None }),
            // Not every file system has nameless files, and without /proc they cannot be named.
            _ => Temp::create_named(place),
        }
    }

    fn create_named(place: &'p Place) -> Result<Temp<'p>, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (name, file) = under_a_free_name(|name| rustix::fs::openat(&place.dir, name, flags, mode(place)))?;
        Ok(Temp { place, file, name: Some(name) })
    }

    fn publish(&mut self) -> Result<(), Errno> {
        let Place { dir, name: target, .. } = self.place;
        let name = match self.name.take() {
            Some(name) => name,
            None => under_a_free_name(|name| rustix::fs::linkat(CWD, path_of(&self.file), dir, name, AtFlags::SYMLINK_FOLLOW))?.0,
        };
        let renamed = rustix::fs::renameat(dir, &name, dir, target);
        if renamed.is_err() {
            self.name = Some(name);
        }
        renamed
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Nothing more can be done about a temporary file that cannot be removed.
            let _ = rustix::fs::unlinkat(&self.place.dir, name, AtFlags::empty());
        }
    }
}

/// Who may read the file while it is written: for a new one the umask says so, else those who may read the old one.
fn mode(place: &Place) -> Mode {
    Mode::from_raw_mode(place.found.map_or(0o666, |old| old.st_mode & 0o777))
}

/// The way to an open file that has no name.
fn path_of(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Makes something under the first name that is not taken.
fn under_a_free_name<T>(mut make: impl FnMut(&OsString) -> Result<T, Errno>) -> Result<(OsString, T), Errno> {
    loop {
        let name = OsString::from(format!(".gantry-{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
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
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::tools::testdir::TestDir;

    type Way = fn(&Place) -> Result<Temp<'_>, Errno>;

    /// Both ways to a temporary file, one after the other.
    const WAYS: [Way; 2] = [|place| Temp::create(place), |place| Temp::create_named(place)];

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn mode_and_owner_are_kept_and_no_temporary_file_stays() {
        for way in WAYS {
            for mode in [0o755, 0o600, 0o640, 0o444, 0o751] {
                let dir = TestDir::new();
                dir.write("run.sh", "old");
                let path = dir.path().join("run.sh");
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
                let before = std::fs::metadata(&path).unwrap();
                let place = dir.workdir().place("run.sh").unwrap();
                fill(way(&place).unwrap(), b"new").unwrap();
                let after = std::fs::metadata(&path).unwrap();
                assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
                assert_ne!(after.ino(), before.ino(), "the file was replaced, not overwritten");
                assert_eq!((dir.read("run.sh"), names(dir.path())), (b"new".to_vec(), vec!["run.sh".to_owned()]));
            }
        }
    }

    #[test]
    fn the_file_of_another_owner_keeps_it_when_root_writes() {
        let dir = TestDir::new();
        dir.write("theirs", "old");
        let path = dir.path().join("theirs");
        if std::os::unix::fs::chown(&path, Some(12_345), Some(23_456)).is_err() {
            println!("skipped: only root can give files away");
            return;
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o6750)).unwrap();
        replace(&dir.workdir().place("theirs").unwrap(), b"new").unwrap();
        let after = std::fs::metadata(&path).unwrap();
        assert_eq!((after.uid(), after.gid(), after.mode() & 0o7777), (12_345, 23_456, 0o6750));
    }

    #[test]
    fn a_new_file_has_the_mode_that_the_umask_leaves() {
        let dir = TestDir::new();
        replace(&dir.workdir().place("ours").unwrap(), b"").unwrap();
        dir.write("theirs", "");
        let mode = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().mode();
        assert_eq!(mode("ours"), mode("theirs"));
    }

    #[test]
    fn links_stay_links_and_hard_links_keep_the_old_content() {
        let dir = TestDir::new();
        dir.write("deep/real", "old");
        std::fs::hard_link(dir.path().join("deep/real"), dir.path().join("hard")).unwrap();
        for (target, link) in [("deep/real", "one"), ("one", "two"), ("two", "three")] {
            symlink(target, dir.path().join(link)).unwrap();
        }
        symlink(dir.path().join("deep/real"), dir.path().join("absolute")).unwrap();
        for (i, link) in ["one", "three", "absolute"].into_iter().enumerate() {
            replace(&dir.workdir().place(link).unwrap(), format!("new {i}").as_bytes()).unwrap();
            assert!(std::fs::symlink_metadata(dir.path().join(link)).unwrap().is_symlink());
            assert_eq!(dir.read("deep/real"), format!("new {i}").as_bytes());
        }
        assert_eq!((dir.read("hard"), names(&dir.path().join("deep"))), (b"old".to_vec(), vec!["real".to_owned()]));
        symlink("made", dir.path().join("dangling")).unwrap();
        replace(&dir.workdir().place("dangling").unwrap(), b"x").unwrap();
        assert_eq!(dir.read("made"), b"x");
    }

    #[test]
    fn a_file_in_the_making_is_gone_when_it_is_given_up() {
        for way in WAYS {
            let dir = TestDir::new();
            dir.write("file", "old");
            let place = dir.workdir().place("file").unwrap();
            let temp = way(&place).unwrap();
            write_all(&temp.file, b"half").unwrap();
            drop(temp);
            assert_eq!((dir.read("file"), names(dir.path())), (b"old".to_vec(), vec!["file".to_owned()]));
        }
    }

    #[test]
    fn a_directory_that_took_the_name_meanwhile_is_an_error_and_stays() {
        for way in WAYS {
            let dir = TestDir::new();
            let place = dir.workdir().place("name").unwrap();
            dir.write("name/inside", "");
            assert_eq!(fill(way(&place).unwrap(), b"x"), Err(Errno::ISDIR));
            assert_eq!(names(dir.path()), ["name"]);
        }
    }

    #[test]
    fn a_full_disk_leaves_the_old_file_and_nothing_else() {
        let dir = TestDir::new();
        let disk = dir.path().join("disk");
        std::fs::create_dir(&disk).unwrap();
        let mount = |args: &[&str]| Command::new(args[0]).args(&args[1..]).arg(&disk).output().is_ok_and(|out| out.status.success());
        if !mount(&["mount", "-t", "tmpfs", "-o", "size=64k", "none"]) {
            println!("skipped: a small disk can only be mounted by root");
            return;
        }
        let tried = std::panic::catch_unwind(|| {
            for way in WAYS {
                dir.write("disk/file", "old");
                let place = dir.workdir().place("disk/file").unwrap();
                assert_eq!(fill(way(&place).unwrap(), &[b'x'; 1_000_000]), Err(Errno::NOSPC));
                assert_eq!((dir.read("disk/file"), names(&disk)), (b"old".to_vec(), vec!["file".to_owned()]));
            }
        });
        assert!(mount(&["umount"]));
        assert!(tried.is_ok());
    }
}
