//! A directory for one test, removed when the test ends.

use std::fs;
use std::path::{Path, PathBuf};

/// Owns the directory.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a new one; `name` is the test's, unique in this process.
    pub(super) fn new(name: &str) -> Scratch {
        let root = std::env::temp_dir().join(format!("gantry-cli-{}-{name}", std::process::id()));
        fs::create_dir(&root).expect("the name is unique");
        Scratch(fs::canonicalize(root).expect("it was just made"))
    }

    /// The directory.
    pub(super) fn root(&self) -> &Path {
        &self.0
    }

    /// A path in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file in it.
    pub(super) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("writable");
        path
    }

    /// A directory in it.
    pub(super) fn dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("writable");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
