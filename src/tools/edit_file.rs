//! `edit_file`: replaces a text that occurs exactly as often as the model expects.
//!
//! The file is bytes, and only the matched ones change: line ends, a byte order mark, a missing final newline and foreign bytes
//! stay. Models write `\n`; in a file that ends its lines with CRLF the search and the replacement are taken to mean that.

use std::fmt::Write;
use std::io::Read;

use memchr::memmem;

use super::{Args, Context, ToolError, Work, atomic};
use crate::limits;

/// Lines shown on each side of a change.
const CONTEXT_LINES: usize = 2;
/// Places named in an error.
const PLACES_MAX: usize = 10;

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let path = args.str("path").unwrap_or_default();
    let (search, replace) = (args.str("search").unwrap_or_default(), args.str("replace").unwrap_or_default());
    let expected = usize::try_from(args.int("expected_count").unwrap_or(1)).unwrap_or(usize::MAX);
    if search.is_empty() {
        return Err(ToolError::InvalidInput("`search` is empty; to create a file or replace all of it use write_file".into()));
    }
    if search == replace {
        return Err(ToolError::InvalidInput("`search` and `replace` are the same: nothing would change".into()));
    }
    let old = read(context, path)?;
    let edit = Edit::plan(&old, search, replace);
    if edit.at.len() != expected || edit.at.is_empty() {
        return Err(ToolError::InvalidInput(edit.refusal(path, expected)));
    }
    let new = edit.apply();
    if new.len() > limits::EDIT_BYTES_MAX {
        return Err(ToolError::InvalidInput(format!(
            "{path} would have {} bytes; at most {} are edited",
            new.len(),
            limits::EDIT_BYTES_MAX
        )));
    }
    let place = context.workdir.place(path).map_err(|e| e.at(path))?;
    atomic::replace(&place, &new).map_err(|e| ToolError::Io(format!("{path}: {}", std::io::Error::from(e))))?;
    Ok(edit.report(path, &new).into())
}

fn read(context: &Context, path: &str) -> Result<Vec<u8>, ToolError> {
    let file = context.workdir.open_file(path).map_err(|e| e.at(path))?;
    let mut old = Vec::new();
    let bound = limits::EDIT_BYTES_MAX as u64;
    file.take(bound + 1).read_to_end(&mut old).map_err(|e| ToolError::Io(format!("{path}: {e}")))?;
    if old.len() > limits::EDIT_BYTES_MAX {
        return Err(ToolError::InvalidInput(format!("{path} is larger than {bound} bytes")));
    }
    Ok(old)
}

/// A planned replacement.
struct Edit<'f> {
    old: &'f [u8],
    search: Vec<u8>,
    replace: Vec<u8>,
    /// Where the matches begin.
    at: Vec<usize>,
}

impl<'f> Edit<'f> {
    fn plan(old: &'f [u8], search: &str, replace: &str) -> Edit<'f> {
        let plain = Edit::find(old, search.as_bytes().to_vec(), replace.as_bytes().to_vec());
        if !plain.at.is_empty() || !has_crlf(old) || !search.contains('\n') && !replace.contains('\n') {
            return plain.with_line_ends();
        }
        Edit::find(old, crlf(search), crlf(replace))
    }

    fn find(old: &'f [u8], search: Vec<u8>, replace: Vec<u8>) -> Edit<'f> {
        let at = memmem::find_iter(old, &search).collect();
        Edit { old, search, replace, at }
    }

    /// New lines in a CRLF file get its line end, also when the search itself had none.
    fn with_line_ends(mut self) -> Edit<'f> {
        if all_crlf(self.old) && !self.search.contains(&b'\n') {
            self.replace = crlf(&String::from_utf8_lossy(&self.replace));
        }
        self
    }

    fn apply(&self) -> Vec<u8> {
        let mut new = Vec::with_capacity(self.old.len() + self.at.len() * self.replace.len());
        let mut done = 0;
        for &at in &self.at {
            new.extend_from_slice(&self.old[done..at]);
            new.extend_from_slice(&self.replace);
            done = at + self.search.len();
        }
        new.extend_from_slice(&self.old[done..]);
        new
    }

    fn refusal(&self, path: &str, expected: usize) -> String {
        if self.at.is_empty() {
            return format!("`search` is not in {path}; nothing was written{}", self.near_miss());
        }
        let lines: Vec<String> = self.at.iter().take(PLACES_MAX).map(|at| line_of(self.old, *at).to_string()).collect();
        let more = if self.at.len() > PLACES_MAX { ", …" } else { "" };
        format!(
            "`search` is in {path} {} times (lines {}{more}), expected {expected}; nothing was written. Add lines around it to name one place, or set expected_count",
            self.at.len(),
            lines.join(", "),
        )
    }

    /// Why a text that looks right is not found.
    fn near_miss(&self) -> String {
        let search = String::from_utf8_lossy(&self.search);
        let text = String::from_utf8_lossy(self.old);
        if let Some(stripped) = without_line_numbers(&search)
            && text.contains(&stripped)
        {
            return ": it begins with line numbers, which are not part of the file".into();
        }
        let Some(first) = search.lines().map(str::trim).find(|l| !l.is_empty()) else { return String::new() };
        match text.lines().position(|line| line.trim() == first) {
            Some(at) => format!(
                ": line {} is the same but for blanks or tabs, or what follows it differs; read the file again and copy exactly",
                at + 1
            ),
            None => "; read the file again and copy the text exactly".into(),
        }
    }

    fn report(&self, path: &str, new: &[u8]) -> String {
        let times = if self.at.len() == 1 { String::new() } else { format!(" ({} places)", self.at.len()) };
        let mut out = format!("edited {path}{times}\n");
        let first = line_of(self.old, self.at[0]);
        let count = memchr::memchr_iter(b'\n', &self.replace).count() + 1;
        let from = first.saturating_sub(CONTEXT_LINES + 1);
        for (i, line) in
            new.split(|b| *b == b'\n').enumerate().skip(from).take((count + 2 * CONTEXT_LINES).min(limits::EDIT_REPORT_LINES_MAX))
        {
            let line = String::from_utf8_lossy(line);
            let _ = writeln!(out, "{}: {}", i + 1, line.trim_end_matches('\r'));
        }
        out
    }
}

fn line_of(text: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text[..at]).count() + 1
}

fn has_crlf(text: &[u8]) -> bool {
    memmem::find(text, b"\r\n").is_some()
}

fn all_crlf(text: &[u8]) -> bool {
    let mut ends = memchr::memchr_iter(b'\n', text).peekable();
    ends.peek().is_some() && ends.all(|at| at > 0 && text[at - 1] == b'\r')
}

fn crlf(text: &str) -> Vec<u8> {
    text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes()
}

/// The text without the numbers that a listing puts before each line, if each has one.
fn without_line_numbers(text: &str) -> Option<String> {
    let strip = |line: &str| {
        let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        let numbered = rest.len() < line.trim_start().len();
        numbered.then(|| rest.strip_prefix(": ").or(rest.strip_prefix('\t')).or(rest.strip_prefix('|'))).flatten().map(str::to_owned)
    };
    let lines: Option<Vec<String>> = text.lines().map(strip).collect();
    lines.filter(|l| !l.is_empty()).map(|l| l.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testdir::TestDir;

    fn edit(dir: &TestDir, args: serde_json::Value) -> Result<String, ToolError> {
        let args = Args::parse(&args.to_string(), include_str!("edit_file.json")).unwrap();
        match run(&dir.context(), &args)? {
            Work::Done(bytes) => Ok(String::from_utf8(bytes).unwrap()),
            Work::Spawn(_) => panic!("edit_file starts nothing"),
        }
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
        assert_eq!(after(b"a\r\nb\r\n", "a\r\nb", "x"), b"x\r\n");
    }

    #[test]
    fn the_count_must_be_as_expected_and_the_lines_are_told() {
        let dir = TestDir::new();
        dir.write("f", "x\ny\nx\n");
        let told = edit(&dir, serde_json::json!({"path": "f", "search": "x", "replace": "z"})).unwrap_err().to_string();
        assert!(told.contains("2 times (lines 1, 3), expected 1"), "{told}");
        assert_eq!(dir.read("f"), b"x\ny\nx\n");
        let report = edit(&dir, serde_json::json!({"path": "f", "search": "x", "replace": "z", "expected_count": 2})).unwrap();
        assert!(report.starts_with("edited f (2 places)\n1: z\n2: y\n"), "{report}");
        assert_eq!(dir.read("f"), b"z\ny\nz\n");
    }

    #[test]
    fn a_near_miss_is_explained() {
        let dir = TestDir::new();
        dir.write("f", "fn main() {\n\tlet x = 1;\n}\n");
        for (search, part) in [
            ("    let x = 1;\n", "line 2 is the same but for blanks"),
            ("1: fn main() {\n2: \tlet x = 1;", "line numbers"),
            ("nothing like it", "copy the text exactly"),
        ] {
            let told = edit(&dir, serde_json::json!({"path": "f", "search": search, "replace": "z"})).unwrap_err().to_string();
            assert!(told.contains(part), "{search}: {told}");
        }
        for args in [
            serde_json::json!({"path": "f", "search": "", "replace": "z"}),
            serde_json::json!({"path": "f", "search": "x", "replace": "x"}),
            serde_json::json!({"path": "f", "search": "x", "replace": "y", "expected_count": 0}),
            serde_json::json!({"path": ".", "search": "x", "replace": "y"}),
        ] {
            assert!(matches!(edit(&dir, args.clone()), Err(ToolError::InvalidInput(_))), "{args}");
        }
    }
}
