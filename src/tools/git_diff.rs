//! `git_diff`: what changed, by git itself, with every hook to another program turned off.
//!
//! git compares any two files of the machine when it takes its arguments for paths outside a repository. It does so for exactly
//! two words that are no options, so there are never two: a path that would be the second is given twice, which selects the same.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::{Args, Context, ToolError, Work};
use crate::limits;
use crate::sandbox::{Program, SpawnOrder};

/// What keeps git from running programs that the repository names, from colours and quoted names, and from what lies above the
/// workdir in the same repository.
const HARDENED: [&str; 8] =
    ["--no-pager", "-c", "core.quotePath=false", "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--relative"];
/// Paths of one call.
const PATHS_MAX: usize = 1_000;

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let mut words: Vec<OsString> = HARDENED.iter().map(OsString::from).collect();
    if args.flag("staged") {
        words.push("--cached".into());
    }
    let range = args.str("range").map(checked).transpose()?;
    let mut paths = args.list("paths").map(|path| inside(context, path)).collect::<Result<Vec<OsString>, ToolError>>()?;
    if paths.len() > PATHS_MAX {
        return Err(ToolError::InvalidInput(format!("{} paths; at most {PATHS_MAX} are taken, so name their directory", paths.len())));
    }
    if paths.len() + range.iter().len() == 2 {
        paths.extend(paths.last().cloned());
    }
    words.extend(range.map(OsString::from));
    words.push("--".into());
    words.extend(paths);
    let workdir = context.workdir.root().try_clone_to_owned().map_err(|e| ToolError::Io(e.to_string()))?;
    Ok(Work::Spawn(SpawnOrder {
        program: Program::Git { args: words },
        workdir: Arc::new(workdir),
        allow: context.shell.allow.clone(),
        path: context.shell.path.clone(),
        helpers: context.shell.helpers.clone(),
        timeout: context.shell.timeout,
        output_bytes_max: limits::TOOL_OUTPUT_BYTES_MAX,
    }))
}

/// A revision or range: letters of such, never an option, never a path out of the workdir.
fn checked(range: &str) -> Result<&str, ToolError> {
    let fits = |c: char| c.is_alphanumeric() || "._-/~^@{}:+#!".contains(c);
    if range.len() > limits::SHOWN_PATH_BYTES_MAX || range.starts_with(['-', '/']) || range.contains("./") || !range.chars().all(fits) {
        let shown = &range[..range.floor_char_boundary(limits::SHOWN_CHARS_MAX)];
        return Err(ToolError::InvalidInput(format!("`{shown}` is no revision or range, such as HEAD~1 or main..HEAD")));
    }
    Ok(range)
}

/// A path of the workdir as git takes it: relative, and none of its patterns with special meaning.
fn inside(context: &Context, path: &str) -> Result<OsString, ToolError> {
    let relative = context.workdir.relative(Path::new(path)).map_err(|e| e.at(path))?;
    Ok(Path::new(".").join(relative).into_os_string())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::tools::testdir::TestDir;

    fn words(dir: &TestDir, args: &str) -> Result<Vec<String>, ToolError> {
        let args = Args::parse(args, include_str!("git_diff.json")).unwrap();
        match run(&dir.context(), &args)? {
            Work::Spawn(SpawnOrder { program: Program::Git { args }, .. }) => {
                Ok(args.into_iter().map(|a| a.into_string().unwrap()).collect())
            }
            _ => panic!("git_diff starts git"),
        }
    }

    /// What the real git says to the words.
    fn diff(dir: &TestDir, below: &str, args: &str) -> String {
        let out = Command::new("git").args(words(dir, args).unwrap()).current_dir(dir.path().join(below)).output().unwrap();
        String::from_utf8([out.stdout, out.stderr].concat()).unwrap()
    }

    fn repository(dir: &TestDir) {
        let git = |args: &[&str]| {
            let identity = ["-c", "user.name=x", "-c", "user.email=x@y"];
            let out = Command::new("git").args(identity).args(args).current_dir(dir.path()).output().unwrap();
            assert!(out.status.success(), "{out:?}");
        };
        dir.write("sub/a", "one\n");
        dir.write("sub/ä $(touch x)", "one\n");
        dir.write("top", "one\n");
        git(&["init", "-q"]);
        git(&["add", "."]);
        git(&["commit", "-qm", "first"]);
        for file in ["sub/a", "sub/ä $(touch x)", "top"] {
            dir.write(file, "two\n");
        }
    }

    #[test]
    fn paths_stand_behind_the_end_of_options_and_have_no_magic() {
        let dir = TestDir::new();
        let got = words(&dir, r#"{"range":"main..HEAD","paths":["--output=x","a$(touch c).rs",":(exclude)y"],"staged":true}"#).unwrap();
        assert_eq!(got[HARDENED.len()..], ["--cached", "main..HEAD", "--", "./--output=x", "./a$(touch c).rs", "./:(exclude)y"]);
        let absolute = format!(r#"{{"paths":["{}/sub/a"]}}"#, dir.path().display());
        assert_eq!(words(&dir, &absolute).unwrap()[HARDENED.len()..], ["--", "./sub/a"]);
    }

    #[test]
    fn a_range_is_never_an_option_a_command_or_a_path_out() {
        let dir = TestDir::new();
        for range in
            ["--output=x", "-O", "a;b", "$(x)", "a|b", "`x`", "a b", "/etc/passwd", "../x", "a/../../x", "a\\u0000", &"x".repeat(999)]
        {
            assert!(words(&dir, &format!("{{\"range\":\"{range}\"}}")).is_err(), "{range}");
        }
        for range in ["HEAD~3", "v1.0^{commit}", "a...b", "HEAD@{1}", "feature/x-1", "HEAD^!", "..HEAD", "HEAD:dir/file"] {
            assert!(words(&dir, &format!("{{\"range\":\"{range}\"}}")).is_ok(), "{range}");
        }
        for path in ["../x", "/etc/passwd", "a/../../x"] {
            let error = words(&dir, &format!(r#"{{"paths":["{path}"]}}"#)).unwrap_err();
            assert!(matches!(error, ToolError::OutsideWorkdir(_)), "{path}: {error}");
        }
    }

    /// Both by paths and by ranges, inside a repository and without one.
    #[test]
    fn git_never_compares_files_of_its_own_accord() {
        for in_repository in [true, false] {
            let dir = TestDir::new();
            dir.write("../secret", "top secret\n");
            dir.write("plain", "plain\n");
            std::os::unix::fs::symlink("../secret", dir.path().join("link")).unwrap();
            std::os::unix::fs::symlink("..", dir.path().join("up")).unwrap();
            if in_repository {
                repository(&dir);
            }
            for args in [
                r#"{"paths":["link","plain"]}"#,
                r#"{"paths":["plain","link"]}"#,
                r#"{"paths":["up/secret","plain"]}"#,
                r#"{"range":"link","paths":["plain"]}"#,
                r#"{"range":"plain","paths":["up/secret"]}"#,
                r#"{"range":"link"}"#,
                r#"{"range":"up/secret"}"#,
                r#"{"paths":["link"]}"#,
                r#"{"staged":true,"paths":["up/secret","link"]}"#,
                r#"{"range":"plain","staged":true,"paths":["link"]}"#,
            ] {
                let said = diff(&dir, ".", args);
                assert!(!said.contains("top secret") && !said.contains("+plain") && !said.contains("-plain"), "{args}: {said}");
            }
        }
    }

    #[test]
    fn changes_of_the_workdir_are_shown_and_none_above_it() {
        let dir = TestDir::new();
        repository(&dir);
        assert_eq!(diff(&dir, ".", "{}").matches("+two").count(), 3);
        assert_eq!(diff(&dir, ".", r#"{"paths":["sub","top"]}"#).matches("+two").count(), 3);
        assert_eq!(diff(&dir, ".", r#"{"paths":["sub/ä $(touch x)"]}"#).matches("b/sub/ä $(touch x)").count(), 2);
        assert_eq!(diff(&dir, ".", r#"{"range":"HEAD","paths":["top"]}"#).matches("+two").count(), 1);
        assert_eq!(diff(&dir, ".", r#"{"staged":true}"#), "");
        let below = diff(&dir, "sub", "{}");
        assert!(below.contains("b/a\n") && !below.contains("top"), "{below}");
    }
}
