//! `retrieve`: gets back what was left out of an earlier output.
//!
//! Every answer is a page within a fixed size that ends with the arguments of the next one, so that all of an original can be
//! read, however long it or one of its lines is.

use std::fmt::Write;
use std::ops::{Range, RangeInclusive};

use regex::{Regex, RegexBuilder};

use super::{Args, Context, TOOLS, ToolError, Work};
use crate::compress::{Lines, left_out};
use crate::limits;

/// Lines around each match.
const CONTEXT_LINES: usize = 3;
/// Handles named when one is unknown.
const HANDLES_SHOWN: usize = 10;

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let handle = args.str("handle").unwrap_or_default();
    let text = context.stash.get(handle).ok_or_else(|| unknown(context, handle))?;
    let lines = Lines::of(&text);
    let number = |name: &str| args.int(name).map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let pattern = args.str("pattern").map(compile).transpose()?;
    let range = match (number("start"), number("end"), number("offset")) {
        (None, None, None) if pattern.is_none() => middle(&lines, handle),
        (start, end, _) => clamped(&lines, start, end),
    };
    if range.is_empty() {
        return Ok(format!("[lines {}-{} are none: the end is before the start]", range.start(), range.end()).into());
    }
    Ok(match pattern {
        Some(pattern) => matching(&lines, range, &pattern),
        None => page(&lines, range, number("offset").unwrap_or(0)),
    }
    .into())
}

fn unknown(context: &Context, handle: &str) -> ToolError {
    let shown = &handle[..handle.floor_char_boundary(limits::SHOWN_CHARS_MAX)];
    let known = context.stash.handles(HANDLES_SHOWN).join(", ");
    let known = if known.is_empty() { "nothing was left out so far".to_owned() } else { format!("the newest are {known}") };
    ToolError::InvalidInput(format!("no output is kept under {shown:?}: {known}"))
}

fn compile(pattern: &str) -> Result<Regex, ToolError> {
    if pattern.len() > limits::RETRIEVE_PATTERN_BYTES_MAX {
        let (bytes, bytes_max) = (pattern.len(), limits::RETRIEVE_PATTERN_BYTES_MAX);
        return Err(ToolError::InvalidInput(format!("the pattern has {bytes} bytes; at most {bytes_max} are read")));
    }
    RegexBuilder::new(pattern).size_limit(limits::REGEX_BYTES_MAX).build().map_err(|e| ToolError::InvalidInput(format!("the pattern: {e}")))
}

/// The lines (from 1) between two given ones, as far as they exist.
fn clamped(lines: &Lines<'_>, start: Option<usize>, end: Option<usize>) -> RangeInclusive<usize> {
    let clamp = |n: usize| n.clamp(1, lines.len().max(1));
    start.map_or(1, clamp)..=end.map_or(lines.len(), clamp)
}

/// The lines (from 1) that were left out between head and tail, or all when the output was shortened otherwise.
fn middle(lines: &Lines<'_>, handle: &str) -> RangeInclusive<usize> {
    let made_by = handle.split('/').next().unwrap_or_default();
    let rules = TOOLS.iter().find(|tool| tool.name == made_by).and_then(|tool| tool.fidelity.rules());
    match rules.map(|rules| left_out(lines, &rules)) {
        Some(gap) if !gap.is_empty() => gap.start + 1..=gap.end,
        _ => 1..=lines.len(),
    }
}

/// Lines from a byte of the first one on, as they are, and how to go on when they are more than a page.
fn page(lines: &Lines<'_>, range: RangeInclusive<usize>, offset: usize) -> String {
    let mut out = String::new();
    let (start, end) = range.into_inner();
    for at in start..=end {
        let line = lines.get(at - 1).unwrap_or_default();
        let skipped = if at == start { line.floor_char_boundary(offset) } else { 0 };
        let rest = &line[skipped..];
        let room = limits::RETRIEVE_BYTES_MAX - out.len();
        if rest.len() <= room {
            out.push_str(rest);
        } else if out.is_empty() {
            let taken = rest.floor_char_boundary(room);
            let next = skipped + taken;
            let _ = write!(out, "{}\n[line {at} goes on: start={at} end={end} offset={next}]", &rest[..taken]);
            break;
        } else {
            let _ = write!(out, "[lines {at}-{end} follow: start={at} end={end}]");
            break;
        }
    }
    out
}

/// The matching lines with their numbers and some lines around each; groups are divided by `--`.
fn matching(lines: &Lines<'_>, range: RangeInclusive<usize>, pattern: &Regex) -> String {
    let (start, end) = range.into_inner();
    let text = |at: usize| lines.get(at - 1).unwrap_or_default().trim_end_matches(['\n', '\r']);
    let mut out = String::new();
    let mut shown = start - 1;
    for at in (start..=end).filter(|at| pattern.is_match(text(*at))) {
        let from = at.saturating_sub(CONTEXT_LINES).max(shown + 1);
        if !out.is_empty() && from > shown + 1 {
            out.push_str("--\n");
        }
        for near in from..=(at + CONTEXT_LINES).min(end) {
            let line = numbered(near, text(near), pattern);
            if out.len() + line.len() > limits::RETRIEVE_BYTES_MAX {
                let _ = write!(out, "[more follows: start={near} end={end} and the same pattern]");
                return out;
            }
            out.push_str(&line);
            shown = near;
        }
    }
    if out.is_empty() { format!("[no line of {start}-{end} matches]") } else { out }
}

/// A line with its number, and a colon when it matches; of a long one the part around its first match.
fn numbered(number: usize, line: &str, pattern: &Regex) -> String {
    let found = pattern.find(line);
    let mark = if found.is_some() { ':' } else { '-' };
    if line.len() <= limits::RESULT_LINE_BYTES_MAX {
        return format!("{number}{mark} {line}\n");
    }
    let Range { start, end } = around(line, found.map_or(0, |found| found.start()));
    format!("{number}{mark} [bytes {start}-{end} of {}] {}\n", line.len(), &line[start..end])
}

/// The part of a long line with as much before a place as behind it.
fn around(line: &str, place: usize) -> Range<usize> {
    let half = limits::RESULT_LINE_BYTES_MAX / 2;
    let start = line.floor_char_boundary(place.saturating_sub(half));
    start..line.floor_char_boundary(start + 2 * half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::Rules;
    use crate::tools::testdir::TestDir;

    fn get(text: &str, args: &str) -> Result<String, ToolError> {
        get_of("shell", text, args)
    }

    fn get_of(tool: &str, text: &str, args: &str) -> Result<String, ToolError> {
        let context = TestDir::new().context();
        let handle = context.stash.put(tool, text);
        let args = args.replace('@', &handle);
        match run(&context, &Args::parse(&args, include_str!("retrieve.json")).unwrap())? {
            Work::Done(bytes) => {
                assert!(bytes.len() <= limits::RESULT_BYTES_MAX, "{}", bytes.len());
                Ok(String::from_utf8(bytes).unwrap())
            }
            Work::Spawn(_) => panic!("retrieve starts nothing"),
        }
    }

    fn numbered_lines(count: usize) -> String {
        (1..=count).map(|i| format!("l{i}\r\n")).collect()
    }

    /// Reads page after page by the notes alone.
    fn all(text: &str, first: &str) -> (String, usize) {
        let (mut out, mut pages, mut args) = (String::new(), 0, first.to_owned());
        loop {
            let page = get(text, &args).unwrap();
            pages += 1;
            let Some(note) = page.rfind('[').filter(|at| page[*at..].contains(" start=") || page[*at..].contains(": start=")) else {
                return (out + &page, pages);
            };
            let cut = page[note..].starts_with("[line ");
            out.push_str(&page[..note - usize::from(cut)]);
            let next = page[note..].trim_end_matches(']').split_once(": ").unwrap().1.replace(' ', ",\"").replace('=', "\":");
            args = format!("{{\"handle\":\"@\",\"{next}}}");
        }
    }

    #[test]
    fn without_more_it_is_what_the_cap_left_out() {
        let got = get(&numbered_lines(1000), r#"{"handle":"@"}"#).unwrap();
        assert!(got.starts_with("l401\r\n") && got.ends_with("l900\r\n"));
        assert_eq!(get("a\nb", r#"{"handle":"@"}"#).unwrap(), "a\nb");
    }

    #[test]
    fn what_the_cap_left_out_is_told_by_the_rules_of_the_tool_that_made_it() {
        let numbered = |range: Range<usize>| range.map(|i| format!("n{i}\n")).collect::<String>();
        let text = numbered(0..600) + &"the same line\n".repeat(50) + &numbered(600..660);
        let mut answers = Vec::new();
        for (tool, noisy) in [("shell", true), ("read_file", false)] {
            let gap = left_out(&Lines::of(&text), &Rules::new(noisy));
            let wanted = text.split_inclusive('\n').skip(gap.start).take(gap.len()).collect::<String>();
            answers.push(get_of(tool, &text, r#"{"handle":"@"}"#).unwrap());
            assert_eq!(answers.last(), Some(&wanted), "{tool}");
        }
        assert_ne!(answers[0], answers[1]);
    }

    #[test]
    fn ranges_are_inclusive_clamped_and_byte_identical() {
        let text = numbered_lines(10);
        for (args, wanted) in [
            (r#""start":2,"end":3"#, "l2\r\nl3\r\n"),
            (r#""start":9,"end":99"#, "l9\r\nl10\r\n"),
            (r#""start":99"#, "l10\r\n"),
            (r#""start":0,"end":0"#, "l1\r\n"),
            (r#""start":3,"end":4,"offset":1"#, "3\r\nl4\r\n"),
            (r#""start":3,"end":3,"offset":99"#, ""),
            (r#""start":5,"end":2"#, "[lines 5-2 are none: the end is before the start]"),
        ] {
            assert_eq!(get(&text, &format!(r#"{{"handle":"@",{args}}}"#)).unwrap(), wanted, "{args}");
        }
    }

    #[test]
    fn page_after_page_gives_the_original() {
        let long = "漢x".repeat(50_000);
        for text in [numbered_lines(30_000), long.clone(), format!("{long}\r\na\n{long}\nb\n{long}"), "a\n".repeat(40_000)] {
            let (got, pages) = all(&text, r#"{"handle":"@","start":1}"#);
            assert!(got == text, "{} bytes of {}", got.len(), text.len());
            assert!(pages <= text.len() / limits::RETRIEVE_BYTES_MAX * 2 + 2, "{pages} pages for {} bytes", text.len());
        }
    }

    #[test]
    fn a_pattern_gives_numbered_lines_with_context() {
        let got = get(&numbered_lines(40), r#"{"handle":"@","pattern":"^l(10|30)$"}"#).unwrap();
        assert!(got.starts_with("7- l7\n8- l8\n9- l9\n10: l10\n11- l11\n"), "{got}");
        assert!(got.contains("13- l13\n--\n27- l27\n") && got.ends_with("33- l33\n"), "{got}");
        let near = get(&numbered_lines(40), r#"{"handle":"@","pattern":"^l(10|12)$","start":10,"end":13}"#).unwrap();
        assert_eq!(near, "10: l10\n11- l11\n12: l12\n13- l13\n");
        assert_eq!(get("a", r#"{"handle":"@","pattern":"z"}"#).unwrap(), "[no line of 1-1 matches]");
    }

    #[test]
    fn a_match_inside_a_long_line_is_shown_with_its_place() {
        let text = format!("{}NEEDLE{}\n", "漢".repeat(50_000), "y".repeat(100_000));
        let got = get(&text, r#"{"handle":"@","pattern":"NEEDLE"}"#).unwrap();
        assert!(got.starts_with("1: [bytes 148974-151022 of 250006] 漢") && got.contains("NEEDLEyyy") && got.len() < 3_000, "{got}");
    }

    #[test]
    fn many_matches_are_paged() {
        let text = format!("{}\n", "w".repeat(1_990)).repeat(60);
        let got = get(&text, r#"{"handle":"@","pattern":"w"}"#).unwrap();
        assert!(got.ends_with("[more follows: start=16 end=60 and the same pattern]"), "{}", &got[got.len() - 80..]);
        let more = get(&text, r#"{"handle":"@","pattern":"w","start":16,"end":60}"#).unwrap();
        assert!(more.starts_with("16: www"));
    }

    #[test]
    fn a_refusal_is_short_and_names_what_there_is() {
        let long = "z".repeat(1_000_000);
        for (args, part) in [
            (r#"{"handle":"@","pattern":"("}"#.to_owned(), "unclosed group"),
            (format!(r#"{{"handle":"@","pattern":"{long}"}}"#), "1000000 bytes"),
            (r#"{"handle":"@","pattern":"\\w{999}{999}"}"#.to_owned(), "size limit"),
            (format!(r#"{{"handle":"{long}"}}"#), "the newest are shell/"),
            (r#"{"handle":"shell/x"}"#.to_owned(), "no output is kept under \"shell/x\""),
        ] {
            let Err(ToolError::InvalidInput(why)) = get("a", &args) else { panic!("{part}: not refused") };
            assert!(why.contains(part) && why.len() < 500, "{why}");
        }
    }
}
