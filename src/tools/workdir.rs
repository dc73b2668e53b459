//! The one way to files: beneath the workdir, or not at all.
//!
//! A path from a model is hostile. The kernel resolves it beneath the workdir's descriptor (`openat2`), so there is no moment
//! between a check and a use. What that call refuses although it may be right (an absolute link that points back into the
//! workdir), and what it cannot do on old kernels, is walked here component by component over held descriptors, with links
//! resolved by our own hand. `..` goes back along the descriptors that were walked, never through the file system.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::{Errno, ReadWriteFlags};

use super::ToolError;

/// What tmpfs calls itself in statfs(2).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
/// Links followed in one path, as the kernel counts.
const LINKS_MAX: usize = 40;

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
    /// The system's reason.
    Os(Errno),
}

impl From<Errno> for PathError {
    fn from(errno: Errno) -> PathError {
        if errno == Errno::XDEV { PathError::Outside } else { PathError::Os(errno) }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathError::Outside => f.write_str("leaves the workdir"),
            PathError::Malformed => f.write_str("is empty or has a NUL in it"),
            PathError::NotRegular => f.write_str("is no regular file but a FIFO, device or socket"),
            PathError::IsDirectory => f.write_str("is a directory"),
            PathError::Os(Errno::NOENT) => f.write_str("does not exist"),
            PathError::Os(errno) => write!(f, "{}", std::io::Error::from(*errno)),
        }
    }
}

impl PathError {
    /// The tool's failure for the path that the model gave.
    pub fn at(self, path: &str) -> ToolError {
        match self {
            PathError::Outside => ToolError::OutsideWorkdir(path.to_owned()),
            PathError::Malformed => ToolError::InvalidInput(format!("the path {path:?} {self}")),
            PathError::NotRegular | PathError::IsDirectory => ToolError::InvalidInput(format!("{path} {self}")),
            PathError::Os(_) => ToolError::Io(format!("{path} {self}")),
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

impl Workdir {
    /// The workdir behind an open directory, and the path under which models know it.
    pub fn new(root: OwnedFd, path: PathBuf) -> Workdir {
        let probe = rustix::fs::openat2(&root, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH);
        Workdir { beneath: !matches!(probe, Err(Errno::NOSYS | Errno::PERM)), root, path }
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
    pub fn open_file(&self, path: &str) -> Result<File, PathError> {
        let fd = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) {
            FileType::RegularFile => Ok(File::from(fd)),
            FileType::Directory => Err(PathError::IsDirectory),
            _ => Err(PathError::NotRegular),
        }
    }

    /// The whole of a regular file, if the kernel can give it from memory alone: no wait for a disk or a network. Nothing in any
    /// other case, also when the path is wrong; the slow way finds out why.
    pub fn read_cached(&self, path: &str, bytes_max: usize) -> Option<Vec<u8>> {
        let relative = self.relative(path).ok().filter(|_| self.beneath)?;
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

    /// Opens a directory.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn open_dir(&self, path: &str) -> Result<OwnedFd, PathError> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, PathError> {
        let relative = self.relative(path)?;
        let flags = flags | OFlags::CLOEXEC;
        if self.beneath {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            match retry(|| rustix::fs::openat2(&self.root, &relative, flags, Mode::empty(), resolve)) {
                // A link that only looks as if it led out, or one that does: the walk tells.
                Err(Errno::XDEV) => {}
                done => return Ok(done?),
            }
        }
        let place = self.walk(&relative, false)?;
        Ok(rustix::fs::openat(&place.dir, &place.name, flags | OFlags::NOFOLLOW, Mode::empty())?)
    }

    /// The place of a file that is to be written: links are followed to what they name, and missing directories on the way are
    /// made.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn place(&self, path: &str) -> Result<Place, PathError> {
        let place = self.walk(&self.relative(path)?, true)?;
        match place.found.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            None | Some(FileType::RegularFile) => Ok(place),
            Some(FileType::Directory) => Err(PathError::IsDirectory),
            Some(_) => Err(PathError::NotRegular),
        }
    }

    /// The path relative to the workdir, by its words alone: an absolute one must begin with the workdir.
    fn relative(&self, path: &str) -> Result<PathBuf, PathError> {
        if path.is_empty() || path.contains('\0') {
            return Err(PathError::Malformed);
        }
        let path = Path::new(path);
        let relative = if path.is_absolute() { self.inside(path).ok_or(PathError::Outside)? } else { path };
        if climbs_out(relative) {
            return Err(PathError::Outside);
        }
        Ok(if relative.as_os_str().is_empty() { PathBuf::from(".") } else { relative.to_path_buf() })
    }

    fn inside<'p>(&self, absolute: &'p Path) -> Option<&'p Path> {
        absolute.strip_prefix(&self.path).ok()
    }

    fn walk(&self, relative: &Path, make_dirs: bool) -> Result<Place, PathError> {
        let mut walk =
            Walk { above: vec![self.root.try_clone().map_err(|_| PathError::Os(Errno::MFILE))?], todo: VecDeque::new(), links: 0 };
        walk.push_front(relative);
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
                    if let Some(place) = self.step(&mut walk, step, make_dirs)? {
                        return Ok(place);
                    }
                }
            }
        }
    }

    /// Takes one named step; gives the place when it was the last.
    fn step(&self, walk: &mut Walk, name: OsString, make_dirs: bool) -> Result<Option<Place>, PathError> {
        let here = walk.above.last().expect("the root is never popped");
        let last = walk.todo.iter().all(|c| c.as_bytes() == b".");
        let found = match rustix::fs::statat(here, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) if last || make_dirs => None,
            Err(errno) => return Err(errno.into()),
        };
        match found.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Some(FileType::Symlink) => {
                walk.links += 1;
                if walk.links > LINKS_MAX {
                    return Err(PathError::Os(Errno::LOOP));
                }
                let target = PathBuf::from(OsString::from_vec(rustix::fs::readlinkat(here, &name, Vec::new())?.into_bytes()));
                if target.is_absolute() {
                    let inside = self.inside(&target).ok_or(PathError::Outside)?.to_path_buf();
                    walk.above.truncate(1);
                    walk.push_front(&inside);
                } else {
                    walk.push_front(&target);
                }
                Ok(None)
            }
            None if !last => {
                match rustix::fs::mkdirat(here, &name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                walk.enter(&name)?;
                Ok(None)
            }
            Some(FileType::Directory) if !last => {
                walk.enter(&name)?;
                Ok(None)
            }
            _ if last => Ok(Some(Place { dir: walk.above.pop().expect("the root is never popped"), name, found })),
            _ => Err(PathError::Os(Errno::NOTDIR)),
        }
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
}

impl Walk {
    fn push_front(&mut self, path: &Path) {
        for component in path.components().rev() {
            let step = match component {
                Component::Normal(name) => name,
                Component::ParentDir => OsStr::new(".."),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => OsStr::new("."),
            };
            self.todo.push_front(step.to_owned());
        }
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), PathError> {
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
        let walker = Workdir { beneath: false, ..dir.workdir() };
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
            assert!(workdir.open_dir(".").is_ok() && workdir.open_dir(&root).is_ok() && workdir.open_dir("absolute_dir").is_ok());
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
