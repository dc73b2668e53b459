//! `list_files`: what lies under a directory.

use super::walk::{Entry, Tree, shown};
use super::workdir::Kind;
use super::{Args, Context, ToolError, Work};
use crate::limits;

/// The deepest listing, and the default. From the contract.
const DEPTH_MAX: u64 = 5;

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let depth = args.int("max_depth").unwrap_or(DEPTH_MAX).min(DEPTH_MAX);
    let mut tree = Tree::open(context, args.str("path").unwrap_or("."), depth as usize)?;
    let mut listing = Listing { entries: Vec::new(), depth: depth as usize, total: 0 };
    for entry in &mut tree {
        listing.take(entry);
    }
    Ok((listing.text() + tree.note()).into())
}

/// The entries that are shown. When there are too many the deepest go first, so that what is left is an overview of the whole
/// and not the whole of its first directory.
struct Listing {
    entries: Vec<Entry>,
    /// Entries below this depth are only counted.
    depth: usize,
    total: usize,
}

impl Listing {
    fn take(&mut self, entry: Entry) {
        self.total += 1;
        if entry.depth > self.depth {
            return;
        }
        self.entries.push(entry);
        while self.entries.len() > limits::LISTED_MAX {
            if self.depth == 0 {
                self.entries.pop();
            } else {
                self.depth -= 1;
                self.entries.retain(|entry| entry.depth <= self.depth);
            }
        }
    }

    fn text(&self) -> String {
        let mut out = String::new();
        for entry in &self.entries {
            out.push_str(&shown(&entry.path));
            out.push_str(if entry.kind == Kind::Directory { "/\n" } else { "\n" });
        }
        match self.total - self.entries.len() {
            0 if out.is_empty() => out.push_str("(empty)"),
            0 => {}
            more => out.push_str(&format!("[{more} more entries left out; list a directory below, or use find_files]\n")),
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testdir::TestDir;

    fn list(dir: &TestDir, args: &str) -> Result<String, ToolError> {
        dir.call(run, include_str!("list_files.json"), args)
    }

    #[test]
    fn entries_are_sorted_and_ignored_ones_left_out() {
        let dir = TestDir::new();
        for file in ["b.rs", "a/x.rs", "a/deep/y.rs", ".git/config", "target/junk", ".hidden"] {
            dir.write(file, "");
        }
        dir.write(".gitignore", "target/\n");
        std::os::unix::fs::symlink("/etc", dir.path().join("out")).unwrap();
        assert_eq!(list(&dir, "{}").unwrap(), ".gitignore\n.hidden\na/\na/deep/\na/deep/y.rs\na/x.rs\nb.rs\nout\n");
        assert_eq!(list(&dir, r#"{"path":"./a","max_depth":0}"#).unwrap(), "a/deep/\na/x.rs\n");
        let absolute = format!("{{\"path\":\"{}/a/deep/\"}}", dir.path().display());
        assert_eq!(list(&dir, &absolute).unwrap(), "a/deep/y.rs\n");
        assert_eq!(list(&dir, r#"{"path":"target"}"#).unwrap(), "target/junk\n", "who names an ignored directory wants it");
        assert!(matches!(list(&dir, r#"{"path":".."}"#), Err(ToolError::OutsideWorkdir(_))));
        assert!(matches!(list(&dir, r#"{"path":"out"}"#), Err(ToolError::OutsideWorkdir(_))));
        assert!(matches!(list(&dir, r#"{"path":"b.rs"}"#), Err(ToolError::Io(_))));
    }

    #[test]
    fn the_depth_is_five_unless_less_is_asked_for() {
        let dir = TestDir::new();
        dir.write("1/2/3/4/5/6/7", "");
        let five = "1/\n1/2/\n1/2/3/\n1/2/3/4/\n1/2/3/4/5/\n1/2/3/4/5/6/\n";
        for (args, want) in [("{}", five), (r#"{"max_depth":99}"#, five), (r#"{"max_depth":1}"#, "1/\n1/2/\n")] {
            assert_eq!(list(&dir, args).unwrap(), want, "{args}");
        }
    }

    #[test]
    fn a_large_tree_is_shown_as_an_overview() {
        let note = |count: usize| format!("[{count} more entries left out; list a directory below, or use find_files]\n");
        let dir = TestDir::new();
        for i in 0..limits::LISTED_MAX {
            dir.write(&format!("a/f{i:05}"), "");
        }
        assert_eq!(list(&dir, r#"{"path":"a"}"#).unwrap().lines().count(), limits::LISTED_MAX);
        dir.write("z/last", "");
        assert_eq!(list(&dir, "{}").unwrap(), format!("a/\nz/\n{}", note(limits::LISTED_MAX + 1)));
        dir.write("a/g", "");
        let told = list(&dir, r#"{"path":"a"}"#).unwrap();
        assert!(told.starts_with("a/f00000\n") && told.ends_with(&note(1)) && told.lines().count() == limits::LISTED_MAX + 1);
    }
}
