//! Walks the tree as a developer sees it: ignore files hold, `.git` is left out, links are not followed.
//!
//! The walk goes over the directory's descriptor, not its path, so it cannot be moved elsewhere meanwhile; what it finds is
//! opened through [`Workdir`] again.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use ignore::{DirEntry, Walk, WalkBuilder};

use super::{Context, ToolError};

/// A walk over one directory of the workdir.
pub(super) struct Tree {
    /// Keeps the descriptor that the walk's paths go through.
    _dir: OwnedFd,
    base: String,
    /// What stands before the names when they are shown: the directory as the model gave it.
    shown: String,
    walk: Walk,
}

/// One thing found.
pub(super) struct Entry {
    /// Its path relative to the workdir.
    pub(super) path: String,
    /// Its path relative to where the walk began.
    pub(super) below: String,
    /// Whether it is a directory.
    pub(super) is_dir: bool,
    /// Whether it is a regular file.
    pub(super) is_file: bool,
}

impl Tree {
    /// Begins a walk, sorted by path. `depth` bounds it: 1 is the directory's own entries.
    pub(super) fn open(context: &Context, path: &str, depth: Option<usize>) -> Result<Tree, ToolError> {
        let dir = context.workdir.open_dir(path).map_err(|e| e.at(path))?;
        let base = format!("/proc/self/fd/{}/", dir.as_raw_fd());
        let walk = WalkBuilder::new(&base)
            .hidden(false)
            .git_global(false)
            .require_git(false)
            .max_depth(depth)
            .filter_entry(|entry| entry.file_name() != ".git")
            .sort_by_file_path(Path::cmp)
            .build();
        let absolute = Path::new(path).strip_prefix(context.workdir.path()).ok().and_then(Path::to_str);
        let shown = absolute.unwrap_or(path).trim_start_matches("./").trim_end_matches('/');
        let shown = if shown.is_empty() || shown == "." { String::new() } else { format!("{shown}/") };
        Ok(Tree { _dir: dir, base, shown, walk })
    }
}

impl Iterator for Tree {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            // What cannot be read is passed over: a walk shows what there is to see.
            let Ok(entry) = self.walk.next()? else { continue };
            if entry.depth() > 0 {
                return Some(self.entry(&entry));
            }
        }
    }
}

impl Tree {
    fn entry(&self, entry: &DirEntry) -> Entry {
        let below = entry.path().strip_prefix(&self.base).unwrap_or(entry.path()).to_string_lossy().into_owned();
        let kind = entry.file_type();
        Entry {
            path: format!("{}{below}", self.shown),
            below,
            is_dir: kind.is_some_and(|k| k.is_dir()),
            is_file: kind.is_some_and(|k| k.is_file()),
        }
    }
}
