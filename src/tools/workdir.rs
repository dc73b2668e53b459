//! The one way to files: beneath the workdir, or not at all.
//!
//! A path from a model is hostile. The kernel resolves it beneath the workdir's descriptor (`openat2`), so there is no moment
//! between a check and a use. What that call refuses although it may be right (an absolute link that points back into the
//! workdir), and what it cannot do on old kernels, is walked here component by component over held descriptors, with links
//! resolved by our own hand. `..` goes back along the descriptors that were walked, never through the file system.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::{Errno, ReadWriteFlags};

use super::ToolError;
use crate::limits;

/// What tmpfs calls itself in statfs(2).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
/// Links followed in one path, as the kernel counts.
const LINKS_MAX: usize = 40;
/// Directories held open while a path is walked: far deeper than any source tree, far fewer than a process may open.
const HELD_MAX: usize = 256;
/// The longest path that the kernel takes (bytes, without its end).
const PATH_BYTES_MAX: usize = 4_095;

/// A directory whose files can be reached, and nothing else.
pub struct Workdir {
    root: OwnedFd,
    path: PathBuf,
    /// `openat2` is there; a container's filter or an old kernel may refuse it.
    beneath: bool,
}

/// Why a path cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// It leaves the workdir.
    Outside,
    /// It has a NUL in it, or is empty.
    Malformed,
    /// It is a FIFO, a device or a socket.
    NotRegular,
    /// It is a directory where a file was asked for.
    IsDirectory,
    /// It belongs to git itself, where a written file can become a program that someone else runs.
    GitOwned,
    /// The workdir was deleted.
    Vanished,
    /// The system's reason.
    Os(Errno),
}

impl From<Errno> for PathError {
    fn from(errno: Errno) -> PathError {
        match errno {
            Errno::XDEV => PathError::Outside,
            // What open(2) says of a socket, and of a device without a driver.
            Errno::NXIO => PathError::NotRegular,
            errno => PathError::Os(errno),
        }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathError::Outside => "leaves the workdir",
            PathError::Malformed => "is empty or has a NUL in it",
            PathError::NotRegular => "is no regular file but a FIFO, device or socket",
            PathError::IsDirectory => "is a directory",
            PathError::GitOwned => "lies in .git, where only git writes",
            PathError::Vanished => "cannot be reached: the working directory was deleted",
            PathError::Os(Errno::NOENT) => "does not exist",
            PathError::Os(Errno::ACCESS) => "may not be accessed: permission denied",
            PathError::Os(Errno::LOOP) => "leads through a loop of symbolic links",
            PathError::Os(Errno::NOTDIR) => "is not a directory, or goes through a file",
            PathError::Os(Errno::NAMETOOLONG) => "is too long or too deep",
            PathError::Os(errno) => return write!(f, "cannot be used: {}", std::io::Error::from(*errno)),
        })
    }
}

impl PathError {
    /// There is nothing under the path.
    pub fn is_absent(self) -> bool {
        matches!(self, PathError::Os(Errno::NOENT | Errno::NOTDIR))
    }

    /// The tool's failure for the path that the model gave.
    pub fn at(self, path: &str) -> ToolError {
        let cut = path.floor_char_boundary(limits::SHOWN_PATH_BYTES_MAX);
        let path = if cut < path.len() { format!("{}…", &path[..cut]) } else { path.to_owned() };
        match self {
            PathError::Outside => ToolError::OutsideWorkdir(path),
            PathError::Malformed => ToolError::InvalidInput(format!("the path {path:?} {self}")),
            PathError::NotRegular | PathError::IsDirectory | PathError::GitOwned => ToolError::InvalidInput(format!("{path} {self}")),
            PathError::Vanished | PathError::Os(_) => ToolError::Io(format!("{path} {self}")),
        }
    }
}

/// What an entry of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link, a FIFO, a device or a socket.
    Other,
}

impl Kind {
    fn of(file_type: FileType) -> Kind {
        match file_type {
            FileType::Directory => Kind::Directory,
            FileType::RegularFile => Kind::File,
            _ => Kind::Other,
        }
    }
}

/// A path that was walked: the directory that holds its last component, which is no link.
pub struct Place {
    /// The directory.
    pub dir: OwnedFd,
    /// The name in it.
    pub name: OsString,
    /// What is there, if anything.
    pub found: Option<Stat>,
}

impl Place {
    /// Whether what is there is the file of an earlier look, without a change in between.
    pub fn is_still(&self, earlier: &Metadata) -> bool {
        let earlier = (earlier.dev(), earlier.ino(), earlier.len(), earlier.ctime(), earlier.ctime_nsec());
        self.found.is_some_and(|now| {
            let size = u64::try_from(now.st_size).unwrap_or(0);
            earlier == (now.st_dev, now.st_ino, size, now.st_ctime, now.st_ctime_nsec as i64)
        })
    }
}

impl Workdir {
    /// The workdir behind an open directory, and the path under which models know it (absolute, canonical).
    pub fn new(root: OwnedFd, path: PathBuf) -> Workdir {
        let probe = rustix::fs::openat2(&root, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH);
        Workdir { beneath: !matches!(probe, Err(Errno::NOSYS | Errno::PERM)), root, path }
    }

    /// The workdir at a path that is trusted.
    ///
    /// # Errors
    /// The system's reason.
    pub fn at(path: &Path) -> Result<Workdir, PathError> {
        let path = path.canonicalize().map_err(|e| PathError::Os(Errno::from_io_error(&e).unwrap_or(Errno::IO)))?;
        let root = rustix::fs::openat(CWD, &path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Workdir::new(root, path))
    }

    /// The same as on a kernel without `openat2`.
    #[cfg(test)]
    pub(super) fn without_openat2(self) -> Workdir {
        Workdir { beneath: false, ..self }
    }

    /// The directory itself.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The path under which models know it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file for reading. Never blocks on what is none.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File, PathError> {
        let fd = self.open(path.as_ref(), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) {
            FileType::RegularFile => Ok(File::from(fd)),
            FileType::Directory => Err(PathError::IsDirectory),
            _ => Err(PathError::NotRegular),
        }
    }

    /// The whole of a regular file, if the kernel can give it from memory alone: no wait for a disk or a network. Nothing in any
    /// other case, also when the path is wrong; the slow way finds out why.
    pub fn read_cached(&self, path: &str, bytes_max: usize) -> Option<Vec<u8>> {
        let relative = self.relative(Path::new(path)).ok().filter(|_| self.beneath)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
        let fd = rustix::fs::openat2(&self.root, &relative, flags, Mode::empty(), resolve).ok()?;
        let stat = rustix::fs::fstat(&fd).ok()?;
        let bytes = usize::try_from(stat.st_size).ok().filter(|bytes| (1..=bytes_max).contains(bytes))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return None;
        }
        // One byte more than stated tells that the file grew meanwhile.
        let mut content = vec![0; bytes + 1];
        let read = match rustix::io::preadv2(&fd, &mut [IoSliceMut::new(&mut content)], 0, ReadWriteFlags::NOWAIT) {
            // Files that live in memory do not know the flag, and need it least.
            Err(Errno::OPNOTSUPP) if rustix::fs::fstatfs(&fd).is_ok_and(|fs| fs.f_type == TMPFS_MAGIC) => {
                rustix::io::pread(&fd, &mut content, 0)
            }
            done => done,
        };
        let read = read.ok()?;
        content.truncate(read);
        (read == bytes).then_some(content)
    }

    /// The entries of a directory in the order of their names, at most `entries_max`.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn read_dir(&self, path: impl AsRef<Path>, entries_max: usize) -> Result<Vec<(OsString, Kind)>, PathError> {
        let dir = self.open(path.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        // A deleted directory still opens as `.` and looks empty.
        if rustix::fs::fstat(&dir)?.st_nlink == 0 {
            return Err(self.explained(PathError::Os(Errno::NOENT)));
        }
        let mut entries = Vec::new();
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems tell the type only when asked for it.
                FileType::Unknown => match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => Kind::of(FileType::from_raw_mode(stat.st_mode)),
                    Err(_) => continue,
                },
                file_type => Kind::of(file_type),
            };
            entries.push((name.to_owned(), kind));
            if entries.len() >= entries_max {
                break;
            }
        }
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(entries)
    }

    /// The place of a file that is to be written: links are followed to what they name, and missing directories on the way are
    /// made. Nothing in `.git` has one: a hook or a setting written there is a program that the user's own git runs later.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn place(&self, path: &str) -> Result<Place, PathError> {
        let relative = self.relative(Path::new(path))?;
        if matches!(path.rsplit('/').next(), Some("" | "." | "..")) {
            return Err(PathError::IsDirectory);
        }
        let place = self.walk(&relative, true).map_err(|e| self.explained(e))?;
        match place.found.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            None | Some(FileType::RegularFile) => Ok(place),
            Some(FileType::Directory) => Err(PathError::IsDirectory),
            Some(_) => Err(PathError::NotRegular),
        }
    }

    /// The path relative to the workdir, by its words alone: an absolute one must begin with the workdir.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn relative(&self, path: &Path) -> Result<PathBuf, PathError> {
        let bytes = path.as_os_str().as_bytes();
        if bytes.is_empty() || bytes.contains(&0) {
            return Err(PathError::Malformed);
        }
        if bytes.len() > PATH_BYTES_MAX {
            return Err(PathError::Os(Errno::NAMETOOLONG));
        }
        let relative = if path.is_absolute() { self.inside(path).ok_or(PathError::Outside)? } else { path.to_owned() };
        if climbs_out(&relative) {
            return Err(PathError::Outside);
        }
        Ok(if relative.as_os_str().is_empty() { PathBuf::from(".") } else { relative })
    }

    fn inside(&self, absolute: &Path) -> Option<PathBuf> {
        let relative = absolute.strip_prefix(&self.path).ok()?;
        let bytes = absolute.as_os_str().as_bytes();
        // What asked for a directory at its end still does; components alone would forget it.
        Some(if bytes.ends_with(b"/") || bytes.ends_with(b"/.") { relative.join("") } else { relative.to_owned() })
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, PathError> {
        let relative = self.relative(path)?;
        self.open_relative(&relative, flags | OFlags::CLOEXEC).map_err(|e| self.explained(e))
    }

    fn open_relative(&self, relative: &Path, flags: OFlags) -> Result<OwnedFd, PathError> {
        if self.beneath {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            match retry(|| rustix::fs::openat2(&self.root, relative, flags, Mode::empty(), resolve)) {
                // A link that only looks as if it led out, or one that does; or a `..` while the machine renames without end.
                // The walk tells.
                Err(Errno::XDEV | Errno::AGAIN) => {}
                done => return Ok(done?),
            }
        }
        let place = self.walk(relative, false)?;
        Ok(rustix::fs::openat(&place.dir, &place.name, flags | OFlags::NOFOLLOW, Mode::empty())?)
    }

    /// In a deleted workdir nothing exists, which is not the path's fault.
    fn explained(&self, error: PathError) -> PathError {
        match (error, rustix::fs::fstat(&self.root)) {
            (PathError::Os(Errno::NOENT), Ok(root)) if root.st_nlink == 0 => PathError::Vanished,
            _ => error,
        }
    }

    fn walk(&self, relative: &Path, write: bool) -> Result<Place, PathError> {
        let root = self.root.try_clone().map_err(|_| PathError::Os(Errno::MFILE))?;
        let mut walk = Walk { above: vec![root], todo: VecDeque::new(), links: 0, write };
        walk.push_front(relative.as_os_str());
        loop {
            let Some(step) = walk.todo.pop_front() else {
                // The path ends in `.`, `..` or a slash: it is the directory we stand in.
                let dir = walk.above.pop().expect("the root is never popped");
                let found = Some(rustix::fs::fstat(&dir)?);
                return Ok(Place { dir, name: OsString::from("."), found });
            };
            match step.as_bytes() {
                b"." => continue,
                b".." if walk.above.len() == 1 => return Err(PathError::Outside),
                b".." => drop(walk.above.pop()),
                _ => {
                    if let Some(place) = self.step(&mut walk, step)? {
                        return Ok(place);
                    }
                }
            }
        }
    }

    /// Takes one named step; gives the place when it was the last.
    fn step(&self, walk: &mut Walk, name: OsString) -> Result<Option<Place>, PathError> {
        if walk.write && name.eq_ignore_ascii_case(".git") {
            return Err(PathError::GitOwned);
        }
        let here = walk.above.last().expect("the root is never popped");
        let last = walk.todo.is_empty();
        let found = match rustix::fs::statat(here, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) if last || walk.write => None,
            Err(errno) => return Err(errno.into()),
        };
        match found.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Some(FileType::Symlink) => self.follow(walk, &name).map(|()| None),
            None if !last => {
                match rustix::fs::mkdirat(here, &name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                walk.enter(&name).map(|()| None)
            }
            Some(FileType::Directory) if !last => walk.enter(&name).map(|()| None),
            _ if last => Ok(Some(Place { dir: walk.above.pop().expect("the root is never popped"), name, found })),
            _ => Err(PathError::Os(Errno::NOTDIR)),
        }
    }

    /// Puts what a link says in front of what is left to walk.
    fn follow(&self, walk: &mut Walk, name: &OsStr) -> Result<(), PathError> {
        walk.links += 1;
        if walk.links > LINKS_MAX {
            return Err(PathError::Os(Errno::LOOP));
        }
        let here = walk.above.last().expect("the root is never popped");
        let target = PathBuf::from(OsString::from_vec(rustix::fs::readlinkat(here, name, Vec::new())?.into_bytes()));
        if target.is_absolute() {
            let inside = self.inside(&target).ok_or(PathError::Outside)?;
            walk.above.truncate(1);
            walk.push_front(inside.as_os_str());
        } else {
            walk.push_front(target.as_os_str());
        }
        Ok(())
    }
}

/// Whether a path goes above its start by its words alone.
fn climbs_out(path: &Path) -> bool {
    let mut depth = 0i32;
    path.components().any(|component| {
        depth += match component {
            Component::ParentDir => -1,
            Component::Normal(_) => 1,
            _ => 0,
        };
        depth < 0
    })
}

/// A path on its way.
struct Walk {
    /// The directories from the root to where we stand.
    above: Vec<OwnedFd>,
    todo: VecDeque<OsString>,
    links: usize,
    /// The path is to be written: missing directories are made.
    write: bool,
}

impl Walk {
    fn push_front(&mut self, path: &OsStr) {
        // A slash at the end asks for a directory, as `.` does.
        if path.as_bytes().ends_with(b"/") {
            self.todo.push_front(OsString::from("."));
        }
        for step in path.as_bytes().split(|b| *b == b'/').rev().filter(|step| !step.is_empty()) {
            self.todo.push_front(OsStr::from_bytes(step).to_owned());
        }
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), PathError> {
        if self.above.len() >= HELD_MAX {
            return Err(PathError::Os(Errno::NAMETOOLONG));
        }
        let here = self.above.last().expect("the root is never popped");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = rustix::fs::openat(here, name, flags, Mode::empty())?;
        self.above.push(next);
        Ok(())
    }
}

/// EAGAIN means that something on the way was renamed meanwhile.
fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..16 {
        match call() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return done,
        }
    }
    call()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tools::testdir::TestDir;

    /// The same directory by the kernel's resolution and by ours.
    fn both(dir: &TestDir) -> [Workdir; 2] {
        let walker = dir.workdir().without_openat2();
        let kernel = dir.workdir();
        assert!(kernel.beneath, "this kernel has openat2");
        [kernel, walker]
    }

    fn read(workdir: &Workdir, path: &str) -> Result<String, PathError> {
        let mut text = String::new();
        workdir.open_file(path)?.read_to_string(&mut text).map_err(|_| PathError::NotRegular)?;
        Ok(text)
    }

    fn tree() -> TestDir {
        let dir = TestDir::new();
        dir.write("sub/file", "inside");
        dir.write("../app-evil/file", "outside");
        let root = dir.path();
        symlink("sub/file", root.join("link")).unwrap();
        symlink(root.join("sub/file"), root.join("absolute")).unwrap();
        symlink(root.join("sub"), root.join("absolute_dir")).unwrap();
        symlink("../app-evil/file", root.join("out")).unwrap();
        symlink("/etc/passwd", root.join("out_absolute")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("../../sub/file", root.join("sub/up")).unwrap();
        dir
    }

    #[test]
    fn what_lies_inside_is_read_however_it_is_spelled() {
        let dir = tree();
        let root = dir.path().display().to_string();
        for workdir in both(&dir) {
            for path in ["sub/file", "./sub//file", "sub/../sub/file", "link", "absolute", "absolute_dir/file", &format!("{root}/sub/file")]
            {
                assert_eq!(read(&workdir, path).as_deref(), Ok("inside"), "{path} {}", workdir.beneath);
            }
            for path in [".", "./", &root, "absolute_dir/", "sub/.."] {
                assert!(workdir.read_dir(path, 9).is_ok(), "{path}");
            }
            assert_eq!(workdir.read_dir("sub", 9).unwrap(), [("file".into(), Kind::File), ("up".into(), Kind::Other)]);
        }
    }

    #[test]
    fn every_way_out_is_refused() {
        let dir = tree();
        let root = dir.path().display().to_string();
        let up = format!("{root}/../app-evil/file");
        let sibling = format!("{root}-evil/file");
        for workdir in both(&dir) {
            for path in ["../app-evil/file", "sub/../../app-evil/file", "out", "out_absolute", "/etc/passwd", &up, &sibling, "sub/up", "/"]
            {
                assert_eq!(read(&workdir, path), Err(PathError::Outside), "{path} {}", workdir.beneath);
                assert_eq!(workdir.place(path).err(), Some(PathError::Outside), "{path} {}", workdir.beneath);
            }
            for path in ["magic/etc/passwd", "loop", "absent", "sub/file/x", "", "a\0b"] {
                assert!(read(&workdir, path).is_err(), "{path:?}");
            }
        }
    }

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tree();
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        for workdir in both(&dir) {
            assert_eq!(read(&workdir, "fifo"), Err(PathError::NotRegular));
            assert!(read(&workdir, "socket").is_err());
            assert_eq!(read(&workdir, "sub"), Err(PathError::IsDirectory));
            assert_eq!(workdir.place("fifo").err(), Some(PathError::NotRegular));
            assert_eq!(workdir.place("sub/").err(), Some(PathError::IsDirectory));
        }
    }

    #[test]
    fn a_place_is_found_through_links_and_directories_are_made() {
        let dir = tree();
        let workdir = dir.workdir();
        let place = workdir.place("absolute").unwrap();
        assert_eq!((place.name.as_os_str(), place.found.is_some()), (OsStr::new("file"), true));
        let place = workdir.place("new/deep/file").unwrap();
        assert_eq!((place.name.as_os_str(), place.found.is_none()), (OsStr::new("file"), true));
        assert!(dir.path().join("new/deep").is_dir());
    }
}
