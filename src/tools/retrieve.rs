//! `retrieve`: gets back what was left out of an earlier output.

use std::fmt::Write;

use regex::RegexBuilder;

use super::{Args, Context, ToolError, Work};
use crate::compress::Lines;
use crate::limits;

/// Lines around each match.
const CONTEXT_LINES: usize = 3;
/// Handles named when one is unknown.
const HANDLES_SHOWN: usize = 10;

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let handle = args.str("handle").unwrap_or_default();
    let text = context.stash.get(handle).ok_or_else(|| {
        let known = context.stash.handles(HANDLES_SHOWN);
        ToolError::InvalidInput(format!("unknown handle {handle:?}; known are {known:?}"))
    })?;
    let lines = Lines::of(&text);
    let clamp = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).clamp(1, lines.len().max(1));
    let (start, end) = match (args.int("start"), args.int("end")) {
        (None, None) if args.str("pattern").is_none() => middle(&lines),
        (start, end) => (start.map_or(1, clamp), end.map_or(lines.len(), clamp)),
    };
    if end < start {
        return Ok(format!("[lines {start}-{end} are none: the end is before the start]").into());
    }
    match args.str("pattern") {
        Some(pattern) => matching(&lines, start, end, pattern).map(Work::from),
        None => Ok(slice(&lines, start, end).into()),
    }
}

/// The lines that the cap leaves out, or all when it leaves none.
fn middle(lines: &Lines<'_>) -> (usize, usize) {
    if lines.len() <= limits::RESULT_LINES_MAX {
        return (1, lines.len());
    }
    (limits::RESULT_LINES_HEAD + 1, lines.len() - (limits::RESULT_LINES_MAX - limits::RESULT_LINES_HEAD))
}

/// A page of lines, and where the next begins.
fn slice(lines: &Lines<'_>, start: usize, end: usize) -> String {
    let mut out = String::new();
    for at in start..=end.min(lines.len()) {
        let line = lines.get(at - 1).unwrap_or_default();
        let room = limits::RETRIEVE_BYTES_MAX.saturating_sub(out.len());
        if line.len() > room {
            if out.is_empty() {
                out.push_str(&line[..line.floor_char_boundary(room)]);
                let _ = write!(out, "\n[line {at} has {} bytes, this is its front; use a pattern to look into it]", line.len());
            } else {
                let _ = write!(out, "[lines {at}-{end} follow: start={at} end={end}]");
            }
            break;
        }
        out.push_str(line);
    }
    out
}

/// The matching lines with their numbers and some lines around each; groups are divided by `--`.
fn matching(lines: &Lines<'_>, start: usize, end: usize, pattern: &str) -> Result<String, ToolError> {
    let regex =
        RegexBuilder::new(pattern).size_limit(limits::MIB).build().map_err(|e| ToolError::InvalidInput(format!("the pattern: {e}")))?;
    let mut out = String::new();
    let mut shown = start - 1;
    let mut any = false;
    for at in start..=end.min(lines.len()) {
        if !regex.is_match(lines.get(at - 1).unwrap_or_default().trim_end()) {
            continue;
        }
        let from = at.saturating_sub(CONTEXT_LINES).max(shown + 1).max(start);
        if any && from > shown + 1 {
            out.push_str("--\n");
        }
        any = true;
        for near in from..=(at + CONTEXT_LINES).min(end).min(lines.len()) {
            let line = lines.get(near - 1).unwrap_or_default().trim_end();
            let cut = line.floor_char_boundary(limits::RESULT_LINE_BYTES_MAX);
            let _ = writeln!(out, "{near}{} {}", if regex.is_match(line) { ':' } else { '-' }, &line[..cut]);
            shown = near;
        }
        if out.len() > limits::RETRIEVE_BYTES_MAX {
            let _ = write!(out, "[more matches may follow: start={}]", shown + 1);
            break;
        }
    }
    Ok(if any { out } else { format!("[no line of {start}-{end} matches {pattern}]") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testdir::TestDir;

    fn get(text: &str, args: &str) -> Result<String, ToolError> {
        let context = TestDir::new().context();
        let handle = context.stash.put("shell", text);
        let args = args.replace('@', &handle);
        match run(&context, &Args::parse(&args, include_str!("retrieve.json")).unwrap())? {
            Work::Done(bytes) => Ok(String::from_utf8(bytes).unwrap()),
            Work::Spawn(_) => panic!("retrieve starts nothing"),
        }
    }

    fn numbered(count: usize) -> String {
        (1..=count).map(|i| format!("l{i}\r\n")).collect()
    }

    #[test]
    fn without_more_it_is_what_the_cap_left_out() {
        let got = get(&numbered(1000), r#"{"handle":"@"}"#).unwrap();
        assert!(got.starts_with("l401\r\n") && got.ends_with("l900\r\n"));
        assert_eq!(get("a\nb", r#"{"handle":"@"}"#).unwrap(), "a\nb");
    }

    #[test]
    fn ranges_are_inclusive_clamped_and_byte_identical() {
        let text = numbered(10);
        assert_eq!(get(&text, r#"{"handle":"@","start":2,"end":3}"#).unwrap(), "l2\r\nl3\r\n");
        assert_eq!(get(&text, r#"{"handle":"@","start":9,"end":99}"#).unwrap(), "l9\r\nl10\r\n");
        assert!(get(&text, r#"{"handle":"@","start":5,"end":2}"#).unwrap().contains("none"));
        let big = get(&numbered(100_000), r#"{"handle":"@","start":1}"#).unwrap();
        assert!(big.len() < limits::RETRIEVE_BYTES_MAX + 200 && big.contains("follow: start="));
        let long = get(&"x".repeat(1_000_000), r#"{"handle":"@"}"#).unwrap();
        assert!(long.len() < limits::RETRIEVE_BYTES_MAX + 200 && long.contains("1000000 bytes"));
    }

    #[test]
    fn a_pattern_gives_numbered_lines_with_context() {
        let got = get(&numbered(40), r#"{"handle":"@","pattern":"^l(10|30)$"}"#).unwrap();
        assert!(got.starts_with("7- l7\n8- l8\n9- l9\n10: l10\n11- l11\n"), "{got}");
        assert!(got.contains("13- l13\n--\n27- l27\n") && got.ends_with("33- l33\n"), "{got}");
        assert!(get("a", r#"{"handle":"@","pattern":"z"}"#).unwrap().contains("no line"));
        for args in [r#"{"handle":"@","pattern":"("}"#, r#"{"handle":"shell/x"}"#] {
            assert!(matches!(get("a", args), Err(ToolError::InvalidInput(_))), "{args}");
        }
    }
}
