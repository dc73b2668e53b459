//! `list_files`: what lies under a directory.

use super::walk::Tree;
use super::{Args, Context, ToolError, Work};
use crate::limits;

/// The deepest listing, and the default. From the contract.
const DEPTH_MAX: u64 = 5;

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let path = args.str("path").unwrap_or(".");
    let depth = args.int("max_depth").unwrap_or(DEPTH_MAX).min(DEPTH_MAX);
    let mut out = String::new();
    let mut left_out = 0usize;
    for (count, entry) in Tree::open(context, path, Some(depth as usize + 1))?.enumerate() {
        if count >= limits::ENTRIES_MAX {
            left_out += 1;
            continue;
        }
        out.push_str(&entry.path);
        out.push_str(if entry.is_dir { "/\n" } else { "\n" });
    }
    if left_out > 0 {
        out.push_str(&format!("[{left_out} more entries left out; list a directory below, or use find_files]\n"));
    }
    Ok(if out.is_empty() { "(empty)".to_owned() } else { out }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testdir::TestDir;

    fn list(dir: &TestDir, args: &str) -> Result<String, ToolError> {
        let args = Args::parse(args, include_str!("list_files.json")).unwrap();
        match run(&dir.context(), &args)? {
            Work::Done(bytes) => Ok(String::from_utf8(bytes).unwrap()),
            Work::Spawn(_) => panic!("list_files starts nothing"),
        }
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
        assert_eq!(list(&dir, r#"{"path":"a","max_depth":0}"#).unwrap(), "a/deep/\na/x.rs\n");
        assert_eq!(list(&dir, r#"{"path":"a/deep/"}"#).unwrap(), "a/deep/y.rs\n");
        assert!(matches!(list(&dir, r#"{"path":".."}"#), Err(ToolError::OutsideWorkdir(_))));
        assert!(matches!(list(&dir, r#"{"path":"out"}"#), Err(ToolError::OutsideWorkdir(_))));
        assert!(matches!(list(&dir, r#"{"path":"b.rs"}"#), Err(ToolError::Io(_))));
    }

    #[test]
    fn a_large_tree_says_what_was_left_out() {
        let dir = TestDir::new();
        for i in 0..limits::ENTRIES_MAX + 7 {
            dir.write(&format!("f{i:05}"), "");
        }
        assert!(list(&dir, "{}").unwrap().ends_with("[7 more entries left out; list a directory below, or use find_files]\n"));
    }
}
