//! `grep`: lines that match a regular expression, by ripgrep's own parts.

use std::fmt::Write;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

use super::find_files::glob;
use super::walk::Tree;
use super::{Args, Context, ToolError, Work};
use crate::limits;

/// What a pattern may compile to (bytes): hostile counted repetitions stop here.
const PATTERN_BYTES_MAX: usize = 8 * limits::MIB;
/// What is shown of a line (bytes).
const LINE_BYTES_MAX: usize = 300;

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let pattern = args.str("pattern").unwrap_or_default();
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(args.flag("ignore_case"))
        .size_limit(PATTERN_BYTES_MAX)
        .line_terminator(Some(b'\n'))
        .build(pattern)
        .map_err(|e| ToolError::InvalidInput(format!("the pattern: {e}")))?;
    let only = args.str("glob").map(glob).transpose()?;
    let path = args.str("path").unwrap_or(".");
    let mut hits = Hits { out: String::new(), count: 0, left_out: 0, searcher: searcher(), matcher };
    if context.workdir.open_file(path).is_ok() {
        hits.search(context, path);
    } else {
        for entry in Tree::open(context, path, None)?.filter(|e| e.is_file) {
            if only.as_ref().is_none_or(|only| only.is_match(&entry.below)) {
                hits.search(context, &entry.path);
            }
        }
    }
    Ok(hits.finish(pattern).into())
}

fn searcher() -> Searcher {
    SearcherBuilder::new().line_number(true).binary_detection(BinaryDetection::quit(0)).build()
}

struct Hits {
    out: String,
    count: usize,
    left_out: usize,
    searcher: Searcher,
    matcher: RegexMatcher,
}

impl Hits {
    /// Searches one file. A file that is gone or cannot be read has no hits.
    fn search(&mut self, context: &Context, path: &str) {
        let Ok(file) = context.workdir.open_file(path) else { return };
        let Hits { out, count, left_out, searcher, matcher } = self;
        let sink = Lossy(|number, line| {
            if *count >= limits::MATCHES_MAX {
                *left_out += 1;
                return Ok(*left_out < limits::MATCHES_COUNTED_MAX);
            }
            *count += 1;
            let line = line.trim_end();
            let cut = line.floor_char_boundary(LINE_BYTES_MAX);
            let _ = writeln!(out, "{path}:{number}:{}{}", &line[..cut], if cut < line.len() { "…" } else { "" });
            Ok(true)
        });
        let _ = searcher.search_file(&*matcher, &file, sink);
    }

    fn finish(mut self, pattern: &str) -> String {
        if self.count == 0 {
            return format!("no line matches {pattern}");
        }
        if self.left_out > 0 {
            let more = if self.left_out >= limits::MATCHES_COUNTED_MAX { "or more " } else { "" };
            let _ = writeln!(self.out, "[{} {more}matches left out; narrow the pattern, the path or the glob]", self.left_out);
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testdir::TestDir;

    fn grep(dir: &TestDir, args: &str) -> Result<String, ToolError> {
        let args = Args::parse(args, include_str!("grep.json")).unwrap();
        match run(&dir.context(), &args)? {
            Work::Done(bytes) => Ok(String::from_utf8(bytes).unwrap()),
            Work::Spawn(_) => panic!("grep starts nothing"),
        }
    }

    #[test]
    fn matches_come_sorted_with_path_and_line() {
        let dir = TestDir::new();
        dir.write("b.rs", "fn main() {}\nlet x = 1;\n");
        dir.write("a/c.rs", "// FN here\r\nfn two() {}\r\n");
        dir.write("bin", b"fn\0binary");
        dir.write("t/skip.rs", "fn skipped() {}");
        dir.write(".gitignore", "t\n");
        for (args, want) in [
            (r#"{"pattern":"fn \\w+"}"#, "a/c.rs:2:fn two() {}\nb.rs:1:fn main() {}\n"),
            (r#"{"pattern":"fn","ignore_case":true,"path":"a"}"#, "a/c.rs:1:// FN here\na/c.rs:2:fn two() {}\n"),
            (r#"{"pattern":"fn","glob":"b.*"}"#, "b.rs:1:fn main() {}\n"),
            (r#"{"pattern":"fn","path":"b.rs"}"#, "b.rs:1:fn main() {}\n"),
            (r#"{"pattern":"absent"}"#, "no line matches absent"),
        ] {
            assert_eq!(grep(&dir, args).unwrap(), want, "{args}");
        }
        assert!(matches!(grep(&dir, r#"{"pattern":"("}"#), Err(ToolError::InvalidInput(_))));
        assert!(matches!(grep(&dir, r#"{"pattern":"x","path":"/etc"}"#), Err(ToolError::OutsideWorkdir(_))));
        assert!(matches!(grep(&dir, r#"{"pattern":"(a{1000}){1000}"}"#), Err(ToolError::InvalidInput(_))));
    }

    #[test]
    fn many_and_long_matches_are_bounded_and_said() {
        let dir = TestDir::new();
        dir.write("many", "x\n".repeat(limits::MATCHES_MAX + 5));
        assert!(grep(&dir, r#"{"pattern":"x"}"#).unwrap().contains("[5 matches left out"));
        dir.write("many", format!("{}\n", "ä".repeat(5_000)));
        assert!(grep(&dir, r#"{"pattern":"ä"}"#).unwrap().len() < 400);
    }
}
