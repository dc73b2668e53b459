//! `find_files`: files whose path matches a glob.

use globset::GlobBuilder;

use super::walk::Tree;
use super::{Args, Context, ToolError, Work};
use crate::limits;

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let pattern = args.str("pattern").unwrap_or_default();
    let matcher = glob(pattern)?;
    let mut out = String::new();
    let mut left_out = 0usize;
    let mut count = 0;
    for entry in Tree::open(context, args.str("path").unwrap_or("."), None)?.filter(|e| !e.is_dir) {
        if !matcher.is_match(&entry.below) {
            continue;
        }
        if count >= limits::ENTRIES_MAX {
            left_out += 1;
            continue;
        }
        count += 1;
        out.push_str(&entry.path);
        out.push('\n');
    }
    if left_out > 0 {
        out.push_str(&format!("[{left_out} more files left out; narrow the pattern or the path]\n"));
    }
    Ok(if out.is_empty() { format!("no file matches {pattern}") } else { out }.into())
}

/// A glob over whole paths. One without a slash matches names anywhere, as people mean `*.rs`.
pub(super) fn glob(pattern: &str) -> Result<globset::GlobMatcher, ToolError> {
    let pattern = pattern.trim_start_matches("./");
    if pattern.is_empty() {
        return Err(ToolError::InvalidInput("the pattern is empty".into()));
    }
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err(ToolError::OutsideWorkdir(pattern.to_owned()));
    }
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
    Ok(glob.map_err(|e| ToolError::InvalidInput(format!("the glob {pattern}: {}", e.kind())))?.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testdir::TestDir;

    fn find(dir: &TestDir, args: &str) -> Result<String, ToolError> {
        let args = Args::parse(args, include_str!("find_files.json")).unwrap();
        match run(&dir.context(), &args)? {
            Work::Done(bytes) => Ok(String::from_utf8(bytes).unwrap()),
            Work::Spawn(_) => panic!("find_files starts nothing"),
        }
    }

    #[test]
    fn globs_match_whole_paths_and_names_anywhere() {
        let dir = TestDir::new();
        for file in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/b.txt", "target/d.rs"] {
            dir.write(file, "");
        }
        dir.write(".ignore", "target\n");
        for (args, want) in [
            (r#"{"pattern":"*.rs"}"#, "a.rs\nsrc/b.rs\nsrc/deep/c.rs\n"),
            (r#"{"pattern":"src/*.rs"}"#, "src/b.rs\n"),
            (r#"{"pattern":"**/*.{txt,md}"}"#, "src/b.txt\n"),
            (r#"{"pattern":"*.rs","path":"src/deep"}"#, "src/deep/c.rs\n"),
            (r#"{"pattern":"*.go"}"#, "no file matches *.go"),
        ] {
            assert_eq!(find(&dir, args).unwrap(), want, "{args}");
        }
        for args in [r#"{"pattern":""}"#, r#"{"pattern":"[a"}"#, r#"{"pattern":"{a"}"#] {
            assert!(matches!(find(&dir, args), Err(ToolError::InvalidInput(_))), "{args}");
        }
        assert!(matches!(find(&dir, r#"{"pattern":"../*"}"#), Err(ToolError::OutsideWorkdir(_))));
    }
}
