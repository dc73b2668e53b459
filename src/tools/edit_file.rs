//! `edit_file`: replaces a text that occurs exactly as often as the model expects.
//!
//! The file is bytes, and only the matched ones change: line ends, a byte order mark, a missing final newline and foreign bytes
//! stay. Models write `\n`; in a file that ends its lines with CRLF the search and the replacement are taken to mean that.

use std::fmt::Write;
use std::fs::Metadata;
use std::io::Read;

use memchr::memmem;

use super::{Args, Context, ToolError, Work, atomic, near};
use crate::limits;

/// Lines shown on each side of a change.
const CONTEXT_LINES: usize = 2;
/// What the report shows of a line (bytes).
const LINE_BYTES_MAX: usize = 300;
/// Places that are replaced at once: beyond it the list of them would outweigh the file.
const COUNT_MAX: usize = 100_000;
/// Places named in an error.
const PLACES_MAX: usize = 10;

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let path = args.str("path").unwrap_or_default();
    let (search, replace) = (args.str("search").unwrap_or_default(), args.str("replace").unwrap_or_default());
    let expected = usize::try_from(args.int("expected_count").unwrap_or(1)).unwrap_or(usize::MAX);
    let invalid = |what: String| Err(ToolError::InvalidInput(what));
    if search.is_empty() {
        return invalid("`search` is empty; to create a file or replace all of it use write_file".into());
    }
    if search == replace {
        return invalid("`search` and `replace` are the same: nothing would change".into());
    }
    let (found, old) = read(context, path)?;
    let edit = Edit::plan(&old, search, replace);
    if let Some(why) = edit.refusal(expected) {
        return invalid(format!("{path}: {why}; nothing was written"));
    }
    let places = edit.at.len();
    let bytes = (old.len() - places * edit.search.len()).saturating_add(places.saturating_mul(edit.replace.len()));
    if bytes > limits::EDIT_BYTES_MAX {
        return invalid(format!("{path} would have {bytes} bytes; at most {} are edited", limits::EDIT_BYTES_MAX));
    }
    let new = edit.apply(bytes);
    let place = context.workdir.place(path).map_err(|e| e.at(path))?;
    if !place.is_still(&found) {
        return Err(ToolError::Failed(format!("{path} was changed by something else meanwhile; read it again; nothing was written")));
    }
    atomic::replace(&place, &new).map_err(|e| ToolError::Io(format!("{path}: {}", std::io::Error::from(e))))?;
    Ok(edit.report(path, &new).into())
}

/// The file's content, and its state before that was read.
fn read(context: &Context, path: &str) -> Result<(Metadata, Vec<u8>), ToolError> {
    let io = |e: std::io::Error| ToolError::Io(format!("{path}: {e}"));
    let file = context.workdir.open_file(path).map_err(|e| e.at(path))?;
    let found = file.metadata().map_err(io)?;
    let mut old = Vec::new();
    file.take(limits::EDIT_BYTES_MAX as u64 + 1).read_to_end(&mut old).map_err(io)?;
    if old.len() > limits::EDIT_BYTES_MAX {
        return Err(ToolError::InvalidInput(format!("{path} is larger than {} bytes", limits::EDIT_BYTES_MAX)));
    }
    Ok((found, old))
}

/// A planned replacement.
struct Edit<'f> {
    old: &'f [u8],
    search: Vec<u8>,
    replace: Vec<u8>,
    /// Where the matches begin; none overlaps the one before.
    at: Vec<usize>,
}

impl<'f> Edit<'f> {
    /// What was written is taken as it is, unless the file speaks for other line ends: all of them CRLF, or, when nothing is
    /// found otherwise, some.
    fn plan(old: &'f [u8], search: &str, replace: &str) -> Edit<'f> {
        let as_written = || Edit::find(old, search.as_bytes().to_vec(), replace.as_bytes().to_vec());
        let with_crlf = || Edit::find(old, crlf(search), crlf(replace));
        if search.contains('\r') {
            return as_written();
        }
        if all_crlf(old) {
            return with_crlf();
        }
        let edit = as_written();
        if edit.at.is_empty() && search.contains('\n') { with_crlf() } else { edit }
    }

    fn find(old: &'f [u8], search: Vec<u8>, replace: Vec<u8>) -> Edit<'f> {
        let at = memmem::find_iter(old, &search).take(COUNT_MAX + 1).collect();
        Edit { old, search, replace, at }
    }

    fn apply(&self, bytes: usize) -> Vec<u8> {
        let mut new = Vec::with_capacity(bytes);
        let mut done = 0;
        for &at in &self.at {
            new.extend_from_slice(&self.old[done..at]);
            new.extend_from_slice(&self.replace);
            done = at + self.search.len();
        }
        new.extend_from_slice(&self.old[done..]);
        new
    }

    /// Why it is not done, if so.
    fn refusal(&self, expected: usize) -> Option<String> {
        if self.at.is_empty() {
            return Some(near::explain(self.old, &self.search));
        }
        if let Some(at) = self.overlap() {
            return Some(format!("`search` occurs in itself at line {}, so which place is meant is not clear", line_of(self.old, at)));
        }
        let found = self.at.len();
        if found > COUNT_MAX {
            return Some(format!("`search` occurs more than {COUNT_MAX} times"));
        }
        (found != expected).then(|| {
            let lines: Vec<String> = self.at.iter().take(PLACES_MAX).map(|at| line_of(self.old, *at).to_string()).collect();
            let more = if found > PLACES_MAX { ", …" } else { "" };
            let (times, lines) = (if found == 1 { "once" } else { &format!("{found} times") }, lines.join(", "));
            format!(
                "`search` occurs {times} (lines {lines}{more}), expected {expected}; add lines to name one place, or set expected_count"
            )
        })
    }

    /// Where a match begins within another one: in `aaa` there are two places for `aa`.
    fn overlap(&self) -> Option<usize> {
        let bytes = self.search.len();
        self.at.iter().find_map(|at| {
            let inner = &self.old[at + 1..(at + 2 * bytes - 1).min(self.old.len())];
            memmem::find(inner, &self.search).map(|offset| at + 1 + offset).filter(|overlap| *overlap < at + bytes)
        })
    }

    /// What the first changed place looks like now, with the numbers of its lines.
    fn report(&self, path: &str, new: &[u8]) -> String {
        let places = if self.at.len() == 1 { String::new() } else { format!(", {} places", self.at.len()) };
        let mut out = format!("edited {path}{places}\n");
        let first = line_of(self.old, self.at[0]);
        let count = memchr::memchr_iter(b'\n', &self.replace).count() + 1;
        let from = first.saturating_sub(CONTEXT_LINES + 1);
        let shown = (count + 2 * CONTEXT_LINES).min(limits::EDIT_REPORT_LINES_MAX);
        let lines = new.strip_suffix(b"\n").unwrap_or(new).split(|b| *b == b'\n');
        for (i, line) in lines.enumerate().skip(from).take(shown) {
            let line = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]);
            let _ = writeln!(out, "{}: {}", i + 1, line.trim_end_matches('\r'));
        }
        out
    }
}

/// The number of the line that a byte is in.
fn line_of(text: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text[..at]).count() + 1
}

/// Whether a file has line ends and each of them is CRLF.
fn all_crlf(text: &[u8]) -> bool {
    let mut ends = memchr::memchr_iter(b'\n', text).peekable();
    ends.peek().is_some() && ends.all(|at| at > 0 && text[at - 1] == b'\r')
}

/// The text with each bare `\n` as CRLF.
fn crlf(text: &str) -> Vec<u8> {
    text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testdir::TestDir;

    fn edit(dir: &TestDir, args: serde_json::Value) -> Result<String, ToolError> {
        dir.call(run, include_str!("edit_file.json"), &args.to_string())
    }

    fn after(content: &[u8], search: &str, replace: &str) -> Vec<u8> {
        let dir = TestDir::new();
        dir.write("f", content);
        edit(&dir, serde_json::json!({"path": "f", "search": search, "replace": replace})).unwrap();
        dir.read("f")
    }

    #[test]
    fn only_the_matched_bytes_change() {
        assert_eq!(after(b"\xef\xbb\xbfa\r\nb\r\nc", "b", "x"), b"\xef\xbb\xbfa\r\nx\r\nc");
        assert_eq!(after(b"caf\xe9 one\n", "one", "two"), b"caf\xe9 two\n");
        assert_eq!(after(b"a\r\nb\nc\rd", "c", "x"), b"a\r\nb\nx\rd");
        assert_eq!(after(b"a\nb", "b", ""), b"a\n");
    }

    #[test]
    fn lines_searched_with_lf_are_found_in_a_crlf_file_and_keep_its_line_ends() {
        assert_eq!(after(b"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n"), b"x\r\ny\r\nz\r\nc\r\n");
        assert_eq!(after(b"a\r\nb\r\n", "b", "x\ny"), b"a\r\nx\r\ny\r\n");
        assert_eq!(after(b"a\r\nb\r\n", "\nb", "\nx\ny"), b"a\r\nx\r\ny\r\n");
        assert_eq!(after(b"a\r\nb\r\n", "b\n", ""), b"a\r\n");
        assert_eq!(after(b"a\r\nb\r\n", "a\r\nb", "x"), b"x\r\n");
        assert_eq!(after(b"a\r\nb\r\nc", "b\nc", "b\r\nd"), b"a\r\nb\r\nd");
        assert_eq!(after(b"a\r\nb\r\n", "a\r\n", "a\n"), b"a\nb\r\n", "who writes a line end out means it");
    }

    #[test]
    fn in_a_file_of_mixed_line_ends_only_the_match_decides() {
        assert_eq!(after(b"a\r\nb\nc\n", "b\nc", "x\ny"), b"a\r\nx\ny\n");
        assert_eq!(after(b"a\r\nb\nc\n", "a\nb", "x\ny"), b"x\r\ny\nc\n");
        assert_eq!(after(b"one\rtwo\n", "two", "three"), b"one\rthree\n");
    }

    /// Against the plain way to replace text, over many small files.
    #[test]
    fn an_edit_is_a_replacement_of_text() {
        let mut seed = 1u64;
        let mut letter = |of: &'static str| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let letters: Vec<char> = of.chars().collect();
            letters[(seed >> 33) as usize % letters.len()]
        };
        let mut done = 0;
        for _ in 0..20_000 {
            let old: String = (0..12).map(|_| letter("abä\n")).collect();
            let search: String = (0..3).map(|_| letter("abä\n")).collect();
            let plan = Edit::plan(old.as_bytes(), &search, "X\n");
            assert_eq!(plan.at.len(), old.matches(&search).count());
            // Every place is one where the text stands, also those that overlap.
            let places = (0..old.len()).filter(|at| old.as_bytes()[*at..].starts_with(search.as_bytes())).count();
            assert_eq!(plan.overlap().is_some(), places > plan.at.len(), "{search:?} in {old:?}");
            if plan.refusal(plan.at.len()).is_none() {
                assert_eq!(plan.apply(0), old.replace(&search, "X\n").into_bytes());
                done += 1;
            }
        }
        assert!(done > 1_000, "{done}");
    }

    #[test]
    fn the_count_must_be_as_expected_and_the_lines_are_told() {
        let dir = TestDir::new();
        dir.write("f", "x\ny\nx\n");
        for (expected, part) in [(1, "occurs 2 times (lines 1, 3), expected 1"), (3, "expected 3"), (0, "expected 0")] {
            let args = serde_json::json!({"path": "f", "search": "x", "replace": "z", "expected_count": expected});
            let told = edit(&dir, args).unwrap_err().to_string();
            assert!(told.contains(part) && told.ends_with("nothing was written"), "{told}");
        }
        assert_eq!(dir.read("f"), b"x\ny\nx\n");
        let report = edit(&dir, serde_json::json!({"path": "f", "search": "x", "replace": "z", "expected_count": 2})).unwrap();
        assert_eq!(report, "edited f, 2 places\n1: z\n2: y\n3: z\n");
        dir.write("f", "aaa\n");
        let told = edit(&dir, serde_json::json!({"path": "f", "search": "aa", "replace": "b"})).unwrap_err().to_string();
        assert!(told.contains("occurs in itself at line 1"), "{told}");
        assert_eq!(dir.read("f"), b"aaa\n");
    }

    #[test]
    fn the_report_is_short_whatever_was_written() {
        let dir = TestDir::new();
        dir.write("f", format!("{}\nx\n{}", "a".repeat(100_000), "b\n".repeat(1_000)));
        let long = format!("{}\n", "c".repeat(1_000)).repeat(1_000);
        let report = edit(&dir, serde_json::json!({"path": "f", "search": "x\n", "replace": long})).unwrap();
        assert!(report.starts_with("edited f\n1: aaa") && report.len() < 12_000, "{}", report.len());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let dir = TestDir::new();
        dir.write("f", "x\n");
        dir.write(".git/config", "x\n");
        for args in [
            serde_json::json!({"path": "f", "search": "", "replace": "z"}),
            serde_json::json!({"path": "f", "search": "x", "replace": "x"}),
            serde_json::json!({"path": "f", "search": "absent", "replace": "x"}),
            serde_json::json!({"path": ".", "search": "x", "replace": "y"}),
            serde_json::json!({"path": ".git/config", "search": "x", "replace": "y"}),
        ] {
            assert!(matches!(edit(&dir, args.clone()), Err(ToolError::InvalidInput(_))), "{args}");
        }
        let grown = serde_json::json!({"path": "f", "search": "x", "replace": "y".repeat(limits::EDIT_BYTES_MAX)});
        assert!(matches!(edit(&dir, grown), Err(ToolError::InvalidInput(_))));
        dir.write("many", "x".repeat(COUNT_MAX + 1));
        assert!(edit(&dir, serde_json::json!({"path": "many", "search": "x", "replace": "y", "expected_count": COUNT_MAX + 1})).is_err());
        std::fs::File::create(dir.path().join("huge")).unwrap().set_len(limits::EDIT_BYTES_MAX as u64 + 1).unwrap();
        assert!(matches!(edit(&dir, serde_json::json!({"path": "huge", "search": "x", "replace": "y"})), Err(ToolError::InvalidInput(_))));
    }

    #[test]
    fn a_file_that_changes_between_reading_and_writing_is_noticed() {
        let dir = TestDir::new();
        let context = dir.context();
        dir.write("f", "old");
        let (found, _) = read(&context, "f").unwrap();
        assert!(context.workdir.place("f").unwrap().is_still(&found));
        dir.write("f", "other");
        assert!(!context.workdir.place("f").unwrap().is_still(&found));
        std::fs::remove_file(dir.path().join("f")).unwrap();
        dir.write("f", "old");
        assert!(!context.workdir.place("f").unwrap().is_still(&found));
    }
}
