//! `grep`: lines that match a regular expression, by ripgrep's own parts.

use std::fs::File;
use std::io;

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::find_files::glob;
use super::walk::{Tree, shown};
use super::workdir::{Kind, PathError};
use super::{Args, Context, ToolError, Work};
use crate::limits;

/// What is shown of a line (bytes): a line of code, and a part of a minified one.
const LINE_BYTES_MAX: usize = 300;
/// What of that stands before the match (bytes).
const LINE_BYTES_BEFORE: usize = 100;
/// Lines shown around a match at most.
const CONTEXT_MAX: u64 = 20;

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let matcher = matcher(args.str("pattern").unwrap_or_default(), args.flag("ignore_case"))?;
    let only = args.str("glob").map(glob).transpose()?;
    let path = args.str("path").unwrap_or(".");
    let lines = args.int("context").unwrap_or(0).min(CONTEXT_MAX) as usize;
    let results_max = args.int("max_results").map_or(limits::MATCHES_MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let results_max = results_max.clamp(1, limits::MATCHES_MAX);
    let mut hits = Hits { matcher: &matcher, results_max, out: Vec::new(), path: String::new(), count: 0, skipped: 0, divide: false };
    let mut searcher = searcher(lines);
    match context.workdir.open_file(path) {
        Ok(file) => hits.search(&mut searcher, &file, path.to_owned()),
        Err(PathError::IsDirectory) => {
            let mut tree = Tree::open(context, path, usize::MAX)?;
            let base = tree.base();
            for entry in tree.by_ref().filter(|entry| entry.kind == Kind::File) {
                if only.as_ref().is_some_and(|only| !only.is_match(Tree::below(&base, &entry))) {
                    continue;
                }
                match context.workdir.open_file(&entry.path) {
                    Ok(file) => hits.search(&mut searcher, &file, shown(&entry.path)),
                    Err(_) => hits.skipped += 1,
                }
                if hits.is_full() {
                    break;
                }
            }
            hits.out.extend_from_slice(tree.note().as_bytes());
        }
        Err(error) => return Err(error.at(path)),
    }
    Ok(Work::Done(hits.finish()))
}

/// A pattern whose memory is bounded, when it is compiled and when it runs: it may be hostile.
fn matcher(pattern: &str, ignore_case: bool) -> Result<RegexMatcher, ToolError> {
    if pattern.is_empty() || pattern.len() > limits::PATTERN_BYTES_MAX {
        let bytes = pattern.len();
        return Err(ToolError::InvalidInput(format!("the pattern has {bytes} bytes; 1 to {} are read", limits::PATTERN_BYTES_MAX)));
    }
    RegexMatcherBuilder::new()
        .case_insensitive(ignore_case)
        .size_limit(limits::REGEX_BYTES_MAX)
        .dfa_size_limit(limits::REGEX_CACHE_BYTES_MAX)
        .crlf(true)
        .build(pattern)
        .map_err(|e| ToolError::InvalidInput(format!("the pattern: {e}")))
}

fn searcher(context_lines: usize) -> Searcher {
    SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .binary_detection(BinaryDetection::quit(0))
        .before_context(context_lines)
        .after_context(context_lines)
        .heap_limit(Some(limits::SEARCHED_LINE_BYTES_MAX))
        .build()
}

/// What was found so far.
struct Hits<'m> {
    matcher: &'m RegexMatcher,
    results_max: usize,
    out: Vec<u8>,
    /// The file being searched, as it is shown.
    path: String,
    /// Matching lines, those that are not shown included.
    count: usize,
    /// Files that could not be searched.
    skipped: usize,
    /// The next group of lines needs a divider before it.
    divide: bool,
}

impl Hits<'_> {
    fn search(&mut self, searcher: &mut Searcher, file: &File, path: String) {
        self.path = path;
        let matcher = self.matcher;
        if searcher.search_file(matcher, file, &mut *self).is_err() {
            self.skipped += 1;
        }
        self.divide = searcher.before_context() > 0 && !self.out.is_empty();
    }

    /// Nobody reads how many more there are beyond this.
    fn is_full(&self) -> bool {
        self.count >= self.results_max + limits::MATCHES_COUNTED_MAX
    }

    /// One line as grep writes it: `:` marks a match and `-` what stands around one.
    fn line(&mut self, number: Option<u64>, mark: char, line: &[u8]) {
        if std::mem::take(&mut self.divide) {
            self.out.extend_from_slice(b"--\n");
        }
        let line = line.trim_ascii_end();
        let at = self.matcher.find(line).ok().flatten().map_or(0, |found| found.start());
        self.out.extend_from_slice(format!("{}{mark}{}{mark}", self.path, number.unwrap_or(0)).as_bytes());
        self.out.extend_from_slice(part(line, at).as_bytes());
        self.out.push(b'\n');
    }

    fn finish(mut self) -> Vec<u8> {
        let more = self.count.saturating_sub(self.results_max);
        let or_more = if self.is_full() { " or more" } else { "" };
        if self.count == 0 {
            self.out.splice(0..0, *b"no line matches\n");
        }
        if more > 0 {
            self.out
                .extend_from_slice(format!("[{more}{or_more} matches left out; narrow the pattern, the path or the glob]\n").as_bytes());
        }
        if self.skipped > 0 {
            let note = format!("[{} files not searched: they cannot be read, or have a line too long]\n", self.skipped);
            self.out.extend_from_slice(note.as_bytes());
        }
        self.out
    }
}

impl Sink for &mut Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.count += 1;
        if self.count <= self.results_max {
            self.line(found.line_number(), ':', found.bytes());
        }
        Ok(!self.is_full())
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.count <= self.results_max {
            self.line(context.line_number(), '-', context.bytes());
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.divide = true;
        Ok(true)
    }
}

/// A line, or of a long one the part around a place in it.
fn part(line: &[u8], at: usize) -> String {
    if line.len() <= LINE_BYTES_MAX {
        return String::from_utf8_lossy(line).into_owned();
    }
    let from = boundary(line, at.min(line.len()).saturating_sub(LINE_BYTES_BEFORE));
    let to = boundary(line, (from + LINE_BYTES_MAX).min(line.len()));
    let cut = |is_cut: bool| if is_cut { "…" } else { "" };
    format!("{}{}{}", cut(from > 0), String::from_utf8_lossy(&line[from..to]), cut(to < line.len()))
}

/// The start of the character at a place.
fn boundary(line: &[u8], mut at: usize) -> usize {
    while at > 0 && line.get(at).is_some_and(|b| b & 0xc0 == 0x80) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testdir::TestDir;

    fn grep(dir: &TestDir, args: &str) -> Result<String, ToolError> {
        dir.call(run, include_str!("grep.json"), args)
    }

    #[test]
    fn matches_come_sorted_with_path_and_line() {
        let dir = TestDir::new();
        dir.write("b.rs", "fn main() {}\nlet x = 1;\n");
        dir.write("a/c.rs", "// FN here\r\nfn two() {}\r\n");
        dir.write("bin", b"fn\0binary");
        dir.write("t/skip.rs", "fn skipped() {}");
        dir.write(".gitignore", "t\n");
        std::os::unix::fs::symlink("b.rs", dir.path().join("link.rs")).unwrap();
        for (args, want) in [
            (r#"{"pattern":"fn \\w+"}"#, "a/c.rs:2:fn two() {}\nb.rs:1:fn main() {}\n"),
            (r#"{"pattern":"fn","ignore_case":true,"path":"a"}"#, "a/c.rs:1:// FN here\na/c.rs:2:fn two() {}\n"),
            (r#"{"pattern":"fn","glob":"b.*"}"#, "b.rs:1:fn main() {}\n"),
            (r#"{"pattern":"fn","path":"b.rs"}"#, "b.rs:1:fn main() {}\n"),
            (r#"{"pattern":"fn","path":"link.rs"}"#, "link.rs:1:fn main() {}\n"),
            (r#"{"pattern":"^fn .*\\}$","path":"a"}"#, "a/c.rs:2:fn two() {}\n"),
            (r#"{"pattern":"absent"}"#, "no line matches\n"),
        ] {
            assert_eq!(grep(&dir, args).unwrap(), want, "{args}");
        }
        assert!(matches!(grep(&dir, r#"{"pattern":"x","path":"/etc"}"#), Err(ToolError::OutsideWorkdir(_))));
        assert!(matches!(grep(&dir, r#"{"pattern":"x","path":"absent"}"#), Err(ToolError::Io(_))));
    }

    #[test]
    fn lines_around_a_match_are_marked_and_groups_divided() {
        let dir = TestDir::new();
        dir.write("a", "1\n2 x\n3\n4\n5\n6 x\n7 x\n");
        dir.write("b", "x\n");
        let want = "a-1-1\na:2:2 x\na-3-3\n--\na-5-5\na:6:6 x\na:7:7 x\n--\nb:1:x\n";
        assert_eq!(grep(&dir, r#"{"pattern":"x","context":1}"#).unwrap(), want);
    }

    #[test]
    fn a_hostile_pattern_is_refused_and_a_slow_one_bounded() {
        let dir = TestDir::new();
        let long = format!(r#"{{"pattern":"{}"}}"#, "x".repeat(1_000_000));
        let nested = format!(r#"{{"pattern":"{}"}}"#, "(".repeat(4_000));
        for args in
            [r#"{"pattern":"("}"#, r#"{"pattern":""}"#, r#"{"pattern":"(\\w{1000}){1000}"}"#, r#"{"pattern":"a\nb"}"#, &long, &nested]
        {
            assert!(matches!(grep(&dir, args), Err(ToolError::InvalidInput(_))), "{}", &args[..40.min(args.len())]);
        }
        dir.write("a", format!("{}\n", "01".repeat(50_000)));
        assert!(grep(&dir, r#"{"pattern":"[01]*1[01]{20}2"}"#).unwrap().starts_with("no line matches"));
    }

    #[test]
    fn many_matches_are_counted_and_the_search_ends() {
        let dir = TestDir::new();
        dir.write("many", "x\n".repeat(limits::MATCHES_MAX + 5));
        let told = grep(&dir, r#"{"pattern":"x"}"#).unwrap();
        assert!(told.ends_with("[5 matches left out; narrow the pattern, the path or the glob]\n"), "{told}");
        let told = grep(&dir, r#"{"pattern":"x","max_results":2,"context":3}"#).unwrap();
        assert!(told.starts_with("many:1:x\nmany:2:x\n[203 matches left out"), "{told}");
        dir.write("many", "x\n".repeat(3 * limits::MATCHES_COUNTED_MAX));
        dir.write("more", "x\n");
        assert!(grep(&dir, r#"{"pattern":"x"}"#).unwrap().contains(&format!("[{} or more matches left out", limits::MATCHES_COUNTED_MAX)));
    }

    #[test]
    fn of_a_long_line_the_part_with_the_match_is_shown() {
        let dir = TestDir::new();
        dir.write("min.js", format!("{}needle{}\n", "ä".repeat(5_000), "ö".repeat(5_000)));
        let told = grep(&dir, r#"{"pattern":"needle"}"#).unwrap();
        assert!(told.starts_with("min.js:1:…ä") && told.contains("äneedleö") && told.ends_with("ö…\n"), "{told}");
        assert!(told.len() < LINE_BYTES_MAX + 30 && !told.contains('\u{fffd}'), "{told}");
    }

    #[test]
    fn what_cannot_be_searched_is_said() {
        let dir = TestDir::new();
        dir.write("huge", vec![b'y'; limits::SEARCHED_LINE_BYTES_MAX + 1]);
        dir.write("z", "x\n");
        let told = grep(&dir, r#"{"pattern":"x"}"#).unwrap();
        assert_eq!(told, "z:1:x\n[1 files not searched: they cannot be read, or have a line too long]\n");
    }

    #[test]
    fn a_name_that_is_no_text_is_searched_too() {
        use std::os::unix::ffi::OsStrExt;
        let dir = TestDir::new();
        std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9")), "x\n").unwrap();
        dir.write("two\nlines", "x\n");
        assert_eq!(grep(&dir, r#"{"pattern":"x"}"#).unwrap(), "caf\u{fffd}:1:x\n\"two\\nlines\":1:x\n");
    }
}
