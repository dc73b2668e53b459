//! Walks the tree as a developer sees it: ignore files hold, `.git` is left out, links are not followed.
//!
//! Only the patterns are ripgrep's own. Its walker goes by paths, which a command of the model can move meanwhile, and opens
//! whatever has the name of an ignore file: a FIFO would hold it for ever, and a link to `/dev/zero` would fill the memory. Here
//! every directory and every ignore file is opened through [`Workdir`], a directory at a time, and bounded.
//!
//! Ignore files count from the workdir down. Those above it are not read, so a repository's rules hold in the workdir when the
//! workdir is its root.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::vec;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::workdir::{Kind, Workdir};
use super::{Context, ToolError};
use crate::limits;

/// A walk over one directory of the workdir, in the order of the paths.
pub(super) struct Tree<'c> {
    workdir: &'c Workdir,
    base: PathBuf,
    depth_max: usize,
    /// The directories that we are in, the innermost at the end.
    open: Vec<Open>,
    left: usize,
}

/// A directory on the way.
struct Open {
    /// Relative to the workdir; empty for the workdir itself.
    path: PathBuf,
    entries: vec::IntoIter<(OsString, Kind)>,
    rules: Option<Rc<Rules>>,
}

/// One thing found.
pub(super) struct Entry {
    /// Its path relative to the workdir.
    pub(super) path: PathBuf,
    /// 0 for what lies directly in the directory where the walk began.
    pub(super) depth: usize,
    /// What it is.
    pub(super) kind: Kind,
}

impl<'c> Tree<'c> {
    /// Begins a walk. `depth_max` is the depth of the deepest entries that it gives.
    pub(super) fn open(context: &'c Context, path: &str, depth_max: usize) -> Result<Tree<'c>, ToolError> {
        let workdir = &context.workdir;
        let relative = workdir.relative(Path::new(path)).map_err(|e| e.at(path))?;
        // Without `.` and doubled slashes, so that patterns and the model see each path in one form.
        let base: PathBuf = relative.components().filter(|c| c.as_os_str() != ".").collect();
        let mut tree = Tree { workdir, base: base.clone(), depth_max, open: Vec::new(), left: limits::WALK_ENTRIES_MAX };
        let entries = workdir.read_dir(&relative, tree.left).map_err(|e| e.at(path))?;
        let mut rules = excluded(workdir);
        let mut above: Vec<&Path> = base.ancestors().skip(1).collect();
        above.reverse();
        for dir in above {
            rules = Rules::of(workdir, dir, &Rules::NAMES, rules);
        }
        tree.enter(base, entries, rules);
        Ok(tree)
    }

    /// The part of an entry's path below the directory where the walk began.
    pub(super) fn below<'e>(base: &Path, entry: &'e Entry) -> &'e Path {
        entry.path.strip_prefix(base).unwrap_or(&entry.path)
    }

    /// The directory where the walk began, relative to the workdir.
    pub(super) fn base(&self) -> PathBuf {
        self.base.clone()
    }

    /// A note for the model when the walk came to its bound.
    pub(super) fn note(&self) -> &'static str {
        if self.left == 0 { "[the tree is too large: not all of it was looked at; name a directory in it]\n" } else { "" }
    }

    fn enter(&mut self, path: PathBuf, entries: Vec<(OsString, Kind)>, rules: Option<Rc<Rules>>) {
        let has = |name: &&&str| entries.iter().any(|(entry, kind)| entry.as_os_str() == **name && *kind != Kind::Directory);
        let names: Vec<&str> = Rules::NAMES.iter().filter(has).copied().collect();
        let rules = Rules::of(self.workdir, &path, &names, rules);
        self.open.push(Open { path, entries: entries.into_iter(), rules });
    }
}

impl Iterator for Tree<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        while self.left > 0 {
            let depth = self.open.len().checked_sub(1)?;
            let dir = &mut self.open[depth];
            let Some((name, kind)) = dir.entries.next() else {
                self.open.pop();
                continue;
            };
            self.left -= 1;
            let path = dir.path.join(&name);
            if name == ".git" || dir.rules.as_ref().is_some_and(|rules| rules.ignores(&path, kind == Kind::Directory)) {
                continue;
            }
            if kind == Kind::Directory && depth < self.depth_max {
                let rules = dir.rules.clone();
                // What cannot be read is passed over: a walk shows what there is to see.
                if let Ok(entries) = self.workdir.read_dir(&path, self.left) {
                    self.enter(path.clone(), entries, rules);
                }
            }
            return Some(Entry { path, depth, kind });
        }
        None
    }
}

/// The ignore files of one directory, and those of the directories above it.
struct Rules {
    dir: PathBuf,
    /// In the order of [`Rules::NAMES`].
    files: [Gitignore; 2],
    above: Option<Rc<Rules>>,
}

impl Rules {
    /// The files with rules. One of the first name anywhere wins over one of the second, as in ripgrep.
    const NAMES: [&str; 2] = [".ignore", ".gitignore"];

    /// The rules in a directory: those above it when it has none of its own.
    fn of(workdir: &Workdir, dir: &Path, names: &[&str], above: Option<Rc<Rules>>) -> Option<Rc<Rules>> {
        let files = Rules::NAMES.map(|name| if names.contains(&name) { patterns(workdir, &dir.join(name)) } else { Gitignore::empty() });
        if files.iter().all(Gitignore::is_empty) {
            return above;
        }
        Some(Rc::new(Rules { dir: dir.to_owned(), files, above }))
    }

    fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        for kind in 0..Rules::NAMES.len() {
            let mut rules = Some(self);
            while let Some(Rules { dir, files, above }) = rules {
                match files[kind].matched(path.strip_prefix(dir).unwrap_or(path), is_dir) {
                    Match::None => rules = above.as_deref(),
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                }
            }
        }
        false
    }
}

/// What the repository ignores on this machine only.
fn excluded(workdir: &Workdir) -> Option<Rc<Rules>> {
    let exclude = patterns(workdir, Path::new(".git/info/exclude"));
    (!exclude.is_empty()).then(|| Rc::new(Rules { dir: PathBuf::new(), files: [Gitignore::empty(), exclude], above: None }))
}

/// The patterns of a file; none when it cannot be had. A line that is no pattern is passed over, as git does.
fn patterns(workdir: &Workdir, path: &Path) -> Gitignore {
    let mut text = Vec::new();
    let Ok(file) = workdir.open_file(path) else { return Gitignore::empty() };
    if file.take(limits::IGNORE_FILE_BYTES_MAX as u64).read_to_end(&mut text).is_err() {
        return Gitignore::empty();
    }
    // Paths are matched relative to the file's own directory.
    let mut builder = GitignoreBuilder::new("");
    for line in String::from_utf8_lossy(&text).trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// A path as the model sees it. One with control characters is quoted, so that no name can look like several lines.
pub(super) fn shown(path: &Path) -> String {
    let path = path.to_string_lossy();
    if path.chars().any(char::is_control) { format!("{path:?}") } else { path.into_owned() }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::tools::testdir::TestDir;

    fn files(dir: &TestDir, path: &str) -> Vec<String> {
        let context = dir.context();
        let tree = Tree::open(&context, path, usize::MAX).unwrap();
        tree.filter(|e| e.kind != Kind::Directory).map(|e| shown(&e.path)).collect()
    }

    fn git(dir: &TestDir, args: &[&str]) -> String {
        let out = Command::new("git").args(args).current_dir(dir.path()).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    /// git is the oracle: the same tree, the same rules.
    #[test]
    fn what_git_ignores_is_left_out() {
        let dir = TestDir::new();
        git(&dir, &["init", "-q"]);
        for (path, rules) in [
            (".gitignore", "\u{feff}target/\n*.log\n!keep.log\n/only_here\n# comment\n\\#odd\nbuild\ndocs/*.pdf\n**/gen/x\n"),
            ("a/.gitignore", "!*.log\nlocal\n[\n"),
            ("a/b/.gitignore", "*\n!.gitignore\n!shown\n"),
            (".git/info/exclude", "private\n"),
        ] {
            dir.write(path, rules);
        }
        let names =
            ["target/x", "t.log", "keep.log", "only_here", "#odd", "build/x", "docs/a.pdf", "gen/x", "local", "shown", "private", "z"];
        for below in ["", "a/", "a/b/", "c/", "a/c/"] {
            for name in names {
                dir.write(&format!("{below}{name}"), "");
            }
        }
        dir.write("e/target", "a file, and the rule means directories");
        let mut want: Vec<String> = git(&dir, &["ls-files", "-o", "--exclude-standard"]).lines().map(str::to_owned).collect();
        want.sort_by(|a, b| Path::new(a).cmp(Path::new(b)));
        assert!(want.len() > 20 && want.iter().any(|w| w == "a/t.log") && !want.iter().any(|w| w == "c/t.log"), "{want:?}");
        assert_eq!(files(&dir, "."), want);
        for below in ["a", "a/b", "./c//"] {
            let part: Vec<String> = want.iter().filter(|w| Path::new(w).starts_with(below.trim_start_matches("./"))).cloned().collect();
            assert_eq!(files(&dir, below), part, "{below}");
        }
    }

    #[test]
    fn an_ignore_file_that_is_none_is_passed_over_at_once() {
        let dir = TestDir::new();
        dir.write("a/x", "");
        dir.write("b/x", "");
        dir.write("c/x", "");
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("a/.gitignore"), rustix::fs::Mode::RWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("b/.gitignore")).unwrap();
        dir.write("c/.gitignore/x", "");
        dir.write(".ignore", [b"\xff\xfe\0".as_slice(), &b"{".repeat(5_000_000)].concat());
        assert_eq!(files(&dir, "."), [".ignore", "a/.gitignore", "a/x", "b/.gitignore", "b/x", "c/.gitignore/x", "c/x"]);
    }

    #[test]
    fn links_are_shown_and_not_followed() {
        let dir = TestDir::new();
        dir.write("a/x", "");
        for (target, link) in [("..", "a/up"), ("self", "self"), ("/", "root"), ("a", "same")] {
            std::os::unix::fs::symlink(target, dir.path().join(link)).unwrap();
        }
        assert_eq!(files(&dir, "."), ["a/up", "a/x", "root", "same", "self"]);
        assert_eq!(files(&dir, "same"), ["same/up", "same/x"]);
    }

    #[test]
    fn a_deep_tree_and_odd_names_are_walked() {
        use std::os::unix::ffi::OsStrExt;
        let dir = TestDir::new();
        let deep = "d/".repeat(1_000);
        dir.write(&format!("{deep}x"), "");
        dir.write("two\nlines", "");
        std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9")), "").unwrap();
        assert_eq!(files(&dir, "."), ["caf\u{fffd}".to_owned(), format!("{deep}x"), "\"two\\nlines\"".to_owned()]);
    }
}
