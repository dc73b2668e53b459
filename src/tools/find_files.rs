//! `find_files`: files whose path matches a glob.

use globset::{GlobBuilder, GlobMatcher};

use super::walk::{Tree, shown};
use super::workdir::Kind;
use super::{Args, Context, ToolError, Work};
use crate::limits;

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let pattern = args.str("pattern").unwrap_or_default();
    let glob = glob(pattern)?;
    let mut tree = Tree::open(context, args.str("path").unwrap_or("."), usize::MAX)?;
    let base = tree.base();
    let mut out = String::new();
    let mut count = 0;
    for entry in tree.by_ref().filter(|entry| entry.kind != Kind::Directory && glob.is_match(Tree::below(&base, entry))) {
        count += 1;
        if count <= limits::FOUND_MAX {
            out.push_str(&shown(&entry.path));
            out.push('\n');
        }
    }
    match count {
        0 => out.push_str("no file matches\n"),
        count if count > limits::FOUND_MAX => {
            out.push_str(&format!("[{} more files left out; narrow the pattern or the path]\n", count - limits::FOUND_MAX));
        }
        _ => {}
    }
    Ok((out + tree.note()).into())
}

/// A glob over whole paths. One without a slash matches names anywhere, as people mean `*.rs`.
pub(super) fn glob(pattern: &str) -> Result<GlobMatcher, ToolError> {
    let invalid = |why: String| Err(ToolError::InvalidInput(why));
    if pattern.len() > limits::PATTERN_BYTES_MAX {
        return invalid(format!("the glob has {} bytes; at most {} are read", pattern.len(), limits::PATTERN_BYTES_MAX));
    }
    let relative = pattern.trim_start_matches("./");
    if relative.is_empty() {
        return invalid("the glob is empty".into());
    }
    if relative.starts_with('/') {
        return invalid(format!("the glob {pattern} begins with a slash; it is matched below `path`, so begin with **/ or a name"));
    }
    if relative.split('/').any(|part| part == "..") {
        return Err(ToolError::OutsideWorkdir(pattern.to_owned()));
    }
    let anywhere = if relative.contains('/') { relative.to_owned() } else { format!("**/{relative}") };
    match GlobBuilder::new(&anywhere).literal_separator(true).build() {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(error) => invalid(format!("the glob {pattern}: {}", error.kind())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testdir::TestDir;

    fn find(dir: &TestDir, args: &str) -> Result<String, ToolError> {
        dir.call(run, include_str!("find_files.json"), args)
    }

    #[test]
    fn globs_match_whole_paths_and_names_anywhere() {
        let dir = TestDir::new();
        for file in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/b.txt", "target/d.rs", "src/A.RS"] {
            dir.write(file, "");
        }
        dir.write(".ignore", "target\n");
        for (args, want) in [
            (r#"{"pattern":"*.rs"}"#, "a.rs\nsrc/b.rs\nsrc/deep/c.rs\n"),
            (r#"{"pattern":"src/*.rs"}"#, "src/b.rs\n"),
            (r#"{"pattern":"./src/**"}"#, "src/A.RS\nsrc/b.rs\nsrc/b.txt\nsrc/deep/c.rs\n"),
            (r#"{"pattern":"**/*.{txt,md}"}"#, "src/b.txt\n"),
            (r#"{"pattern":"*.rs","path":"src/deep"}"#, "src/deep/c.rs\n"),
            (r#"{"pattern":"deep/*","path":"src"}"#, "src/deep/c.rs\n"),
            (r#"{"pattern":"*.go"}"#, "no file matches\n"),
        ] {
            assert_eq!(find(&dir, args).unwrap(), want, "{args}");
        }
    }

    #[test]
    fn a_pattern_that_cannot_be_meant_is_refused() {
        let dir = TestDir::new();
        let nested = format!(r#"{{"pattern":"{}"}}"#, "{".repeat(4_000));
        let long = format!(r#"{{"pattern":"{}"}}"#, "x".repeat(1_000_000));
        for args in [
            r#"{"pattern":""}"#,
            r#"{"pattern":"./"}"#,
            r#"{"pattern":"[a"}"#,
            r#"{"pattern":"{a"}"#,
            r#"{"pattern":"/a"}"#,
            &nested,
            &long,
        ] {
            assert!(matches!(find(&dir, args), Err(ToolError::InvalidInput(_))), "{}", &args[..40.min(args.len())]);
        }
        assert!(matches!(find(&dir, r#"{"pattern":"../*"}"#), Err(ToolError::OutsideWorkdir(_))));
    }

    #[test]
    fn more_files_than_are_shown_are_counted() {
        let dir = TestDir::new();
        for i in 0..limits::FOUND_MAX + 7 {
            dir.write(&format!("f{i:05}"), "");
        }
        let told = find(&dir, r#"{"pattern":"f*"}"#).unwrap();
        assert!(
            told.ends_with("\n[7 more files left out; narrow the pattern or the path]\n") && told.lines().count() == limits::FOUND_MAX + 1
        );
    }
}
