//! `git_diff`: what changed, by git itself, with every hook to another program turned off.

use std::ffi::OsString;
use std::sync::Arc;

use super::{Args, Context, ToolError, Work};
use crate::limits;
use crate::sandbox::{Program, SpawnOrder};

/// What keeps git from running programs that the repository names, and from colours.
const HARDENED: [&str; 5] = ["--no-pager", "diff", "--no-ext-diff", "--no-textconv", "--no-color"];

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let mut words: Vec<OsString> = HARDENED.iter().map(OsString::from).collect();
    if args.flag("staged") {
        words.push("--cached".into());
    }
    for range in args.str("range").into_iter().flat_map(str::split_whitespace) {
        words.push(checked(range)?.into());
    }
    words.push("--".into());
    words.extend(args.list("paths").map(OsString::from));
    if words.iter().any(|word| word.as_encoded_bytes().contains(&0)) {
        return Err(ToolError::InvalidInput("a NUL in an argument".into()));
    }
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

/// A revision or range: letters of such, and never an option.
fn checked(range: &str) -> Result<&str, ToolError> {
    let fits = |c: char| c.is_alphanumeric() || "._-/~^@{}:+#".contains(c);
    if range.starts_with('-') || !range.chars().all(fits) {
        return Err(ToolError::InvalidInput(format!("`{range}` is no revision or range, such as HEAD~1 or main..HEAD")));
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testdir::TestDir;

    fn words(args: &str) -> Result<Vec<String>, ToolError> {
        let args = Args::parse(args, include_str!("git_diff.json")).unwrap();
        match run(&TestDir::new().context(), &args)? {
            Work::Spawn(SpawnOrder { program: Program::Git { args }, .. }) => {
                Ok(args.into_iter().map(|a| a.into_string().unwrap()).collect())
            }
            _ => panic!("git_diff starts git"),
        }
    }

    #[test]
    fn paths_stand_behind_the_end_of_options() {
        let got = words(r#"{"range":"main..HEAD","paths":["--output=x","a$(touch c).rs"],"staged":true}"#).unwrap();
        assert_eq!(got[5..], ["--cached", "main..HEAD", "--", "--output=x", "a$(touch c).rs"]);
    }

    #[test]
    fn a_range_is_never_an_option_or_a_command() {
        for range in ["--output=x", "-O", "a;b", "$(x)", "a|b", "`x`", "a b -c"] {
            assert!(words(&format!("{{\"range\":\"{range}\"}}")).is_err(), "{range}");
        }
        for range in ["HEAD~3", "v1.0^{commit}", "a...b", "HEAD@{1}", "main feature/x-1"] {
            assert!(words(&format!("{{\"range\":\"{range}\"}}")).is_ok(), "{range}");
        }
    }
}
