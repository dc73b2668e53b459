//! `read_file`: a file's text, or a range of its lines.

use std::io::{BufRead, BufReader};

use super::{Args, Context, ToolError, Work};
use crate::limits;

/// How much of a file is looked at to tell text from binary (bytes).
const SNIFF_BYTES: usize = 8 * limits::KIB;

/// What is read of a file in one call (bytes).
const READ_BUFFER_BYTES: usize = 64 * limits::KIB;

/// What the first bytes of well-known binary formats say.
static KINDS: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\x7fELF", "ELF program or library"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\0asm", "WebAssembly module"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
];

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let path = args.str("path").unwrap_or_default();
    let file = context.workdir.open_file(path).map_err(|e| e.at(path))?;
    let bytes = file.metadata().map_err(|e| ToolError::Io(format!("{path}: {e}")))?.len();
    answer(BufReader::with_capacity(READ_BUFFER_BYTES, file), bytes, args)
}

/// The same for a small file that the kernel has in memory, without ever waiting for a disk; nothing when it would have to.
pub(super) fn run_cached(context: &Context, args: &Args) -> Option<Result<Work, ToolError>> {
    let content = context.workdir.read_cached(args.str("path")?, limits::READ_CACHED_BYTES_MAX)?;
    Some(answer(content.as_slice(), content.len() as u64, args))
}

fn answer(mut reader: impl BufRead, bytes: u64, args: &Args) -> Result<Work, ToolError> {
    let path = args.str("path").unwrap_or_default();
    let io = |e: std::io::Error| ToolError::Io(format!("{path}: {e}"));
    let front = reader.fill_buf().map_err(io)?;
    if let Some(kind) = binary_kind(&front[..front.len().min(SNIFF_BYTES)]) {
        return Ok(format!("{path} is a binary file ({kind}, {bytes} bytes); its content is not shown.").into());
    }
    let (start, end) = (args.int("start_line"), args.int("end_line"));
    let (first, last) = (start.unwrap_or(1).max(1), end.unwrap_or(u64::MAX));
    if last < first {
        return Err(ToolError::InvalidInput(format!("end_line {last} is before start_line {first}")));
    }
    let mut page = Page::read(&mut reader, first, last, bytes).map_err(io)?;
    if start.is_some() || end.is_some() || page.is_cut {
        page.add_note(&mut reader).map_err(io)?;
    }
    Ok(Work::Done(page.text))
}

/// Lines of a file, byte for byte and within a bound.
struct Page {
    text: Vec<u8>,
    /// The number of the first line in `text`.
    first: u64,
    /// Line ends up to where the file was read.
    line_ends: u64,
    /// The file was read up to here in the middle of a line.
    in_line: bool,
    /// There was more than the bound.
    is_cut: bool,
}

impl Page {
    /// Reads the lines from `first` to `last`. `bytes` is how long the file says it is; a file in `/proc` says 0, so it is a hint.
    fn read(reader: &mut impl BufRead, first: u64, last: u64, bytes: u64) -> std::io::Result<Page> {
        let mut page = Page { text: Vec::new(), first, line_ends: 0, in_line: false, is_cut: false };
        while page.line_ends < first - 1 && page.pass(reader, first - 1, usize::MAX, false)? {}
        if first == 1 && last == u64::MAX {
            page.text.reserve_exact(usize::try_from(bytes).unwrap_or(0).min(limits::READ_BYTES_MAX));
        }
        while page.line_ends < last {
            let room = limits::READ_BYTES_MAX - page.text.len();
            page.is_cut = room == 0 && !reader.fill_buf()?.is_empty();
            if room == 0 || !page.pass(reader, last, room, true)? {
                break;
            }
        }
        if page.is_cut {
            // A line that is not whole is left to the next page, unless it alone is the page.
            let whole = memchr::memrchr(b'\n', &page.text).map_or(page.text.len(), |at| at + 1);
            page.text.truncate(whole);
        }
        Ok(page)
    }

    /// Reads on within one buffer, at most to the line end with the given number, and says whether there was anything.
    fn pass(&mut self, reader: &mut impl BufRead, line_ends: u64, bytes_max: usize, keep: bool) -> std::io::Result<bool> {
        let buffer = reader.fill_buf()?;
        let buffer = &buffer[..buffer.len().min(bytes_max)];
        let mut taken = buffer.len();
        for at in memchr::memchr_iter(b'\n', buffer) {
            self.line_ends += 1;
            if self.line_ends == line_ends {
                taken = at + 1;
                break;
            }
        }
        if keep {
            self.text.extend_from_slice(&buffer[..taken]);
        }
        self.in_line = if taken > 0 { buffer[taken - 1] != b'\n' } else { self.in_line };
        reader.consume(taken);
        Ok(taken > 0)
    }

    /// Says which lines these are, of how many.
    fn add_note(&mut self, reader: &mut impl BufRead) -> std::io::Result<()> {
        let in_text = memchr::memchr_iter(b'\n', &self.text).count() as u64 + u64::from(self.text.last().is_some_and(|b| *b != b'\n'));
        let mut counted = 0;
        while counted < limits::COUNTED_BYTES_MAX && self.pass(reader, u64::MAX, usize::MAX, false)? {
            counted += READ_BUFFER_BYTES;
        }
        let total = self.line_ends + u64::from(self.in_line);
        let at_least = if counted < limits::COUNTED_BYTES_MAX { "" } else { "at least " };
        let Page { first, text, .. } = self;
        let last = *first + in_text - 1;
        let note = if text.is_empty() {
            format!("[the file has only {total} lines]")
        } else if !self.is_cut {
            format!("[lines {first}-{last} of {total}]")
        } else if text.ends_with(b"\n") {
            format!("[lines {first}-{last} of {at_least}{total}; read on with start_line {}]", last + 1)
        } else {
            format!("[line {first} of {at_least}{total} is cut after {} bytes; grep shows parts of long lines]", text.len())
        };
        if text.last().is_some_and(|b| *b != b'\n') {
            text.push(b'\n');
        }
        text.extend_from_slice(note.as_bytes());
        Ok(())
    }
}

/// What a file is, unless it is text in an encoding close to ASCII.
fn binary_kind(front: &[u8]) -> Option<&'static str> {
    if let Some(row) = KINDS.iter().find(|row| front.starts_with(row.0)) {
        return Some(row.1);
    }
    memchr::memchr(0, front).map(|_| "unknown format")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testdir::TestDir;

    fn read(dir: &TestDir, args: &str) -> Result<String, ToolError> {
        let args = Args::parse(args, include_str!("read_file.json")).unwrap();
        let context = dir.context();
        let slow = text(run(&context, &args));
        if let Some(quick) = run_cached(&context, &args) {
            assert_eq!(text(quick), slow, "both ways give the same");
        }
        slow
    }

    fn text(work: Result<Work, ToolError>) -> Result<String, ToolError> {
        match work? {
            Work::Done(bytes) => Ok(String::from_utf8(bytes).unwrap()),
            Work::Spawn(_) => panic!("read_file starts nothing"),
        }
    }

    #[test]
    fn a_file_in_memory_is_read_without_a_worker_and_anything_else_is_not() {
        let dir = TestDir::new();
        dir.write("warm", "text\n");
        dir.write("empty", "");
        dir.write("large", vec![b'x'; limits::READ_CACHED_BYTES_MAX + 1]);
        let context = dir.context();
        let quick = |path: &str| {
            let args = serde_json::json!({ "path": path }).to_string();
            run_cached(&context, &Args::parse(&args, include_str!("read_file.json")).unwrap()).is_some()
        };
        assert!(quick("warm"));
        for path in ["empty", "large", "absent", ".", "../app/warm", "/etc/passwd"] {
            assert!(!quick(path), "{path}");
        }
    }

    #[test]
    fn text_comes_byte_for_byte() {
        let dir = TestDir::new();
        dir.write("a", "\u{feff}one\r\ntwo\n\nlast");
        assert_eq!(read(&dir, r#"{"path":"a"}"#).unwrap(), "\u{feff}one\r\ntwo\n\nlast");
        dir.write("empty", "");
        assert_eq!(read(&dir, r#"{"path":"empty"}"#).unwrap(), "");
    }

    #[test]
    fn a_range_is_inclusive_and_says_what_it_is() {
        let dir = TestDir::new();
        dir.write("a", "1\n2\r\n3\n4");
        for (range, want) in [
            (r#""start_line":2,"end_line":3"#, "2\r\n3\n[lines 2-3 of 4]"),
            (r#""start_line":"2","end_line":2.0"#, "2\r\n[lines 2-2 of 4]"),
            (r#""start_line":4"#, "4\n[lines 4-4 of 4]"),
            (r#""end_line":1"#, "1\n[lines 1-1 of 4]"),
            (r#""start_line":0,"end_line":1"#, "1\n[lines 1-1 of 4]"),
            (r#""start_line":3,"end_line":99"#, "3\n4\n[lines 3-4 of 4]"),
            (r#""start_line":5"#, "[the file has only 4 lines]"),
            (r#""start_line":99,"end_line":100"#, "[the file has only 4 lines]"),
            (r#""start_line":null,"end_line":null"#, "1\n2\r\n3\n4"),
        ] {
            assert_eq!(read(&dir, &format!("{{\"path\":\"a\",{range}}}")).unwrap(), want, "{range}");
        }
        assert!(matches!(read(&dir, r#"{"path":"a","start_line":3,"end_line":2}"#), Err(ToolError::InvalidInput(_))));
        dir.write("ended", "1\n2\n");
        assert_eq!(read(&dir, r#"{"path":"ended","start_line":2}"#).unwrap(), "2\n[lines 2-2 of 2]");
        assert_eq!(read(&dir, r#"{"path":"ended","start_line":3}"#).unwrap(), "[the file has only 2 lines]");
        dir.write("empty", "");
        assert_eq!(read(&dir, r#"{"path":"empty","start_line":1}"#).unwrap(), "[the file has only 0 lines]");
    }

    /// Ranges of a file that is longer than any buffer, against the plain way to say the same.
    #[test]
    fn every_range_is_what_splitting_into_lines_gives() {
        let dir = TestDir::new();
        let text: String = (0..6_000).map(|i| format!("{i}{}\n", "x".repeat(i * 7 % 50))).collect();
        dir.write("a", &text);
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for (first, last) in [(1, 1), (1, 6_000), (2, 3), (4_321, 5_432), (5_999, 6_000), (6_000, 6_000)] {
            let want = format!("{}[lines {first}-{last} of 6000]", lines[first - 1..last].concat());
            let got = read(&dir, &format!(r#"{{"path":"a","start_line":{first},"end_line":{last}}}"#)).unwrap();
            assert!(got == want, "{first}-{last}");
        }
    }

    #[test]
    fn a_binary_file_is_described() {
        let dir = TestDir::new();
        dir.write("p.png", b"\x89PNG\r\n\x1a\n....");
        dir.write("z", b"ab\0cd");
        dir.write("w", b"\xff\xfea\0b\0");
        assert!(read(&dir, r#"{"path":"p.png"}"#).unwrap().contains("PNG image, 12 bytes"));
        assert!(read(&dir, r#"{"path":"z","start_line":1}"#).unwrap().contains("unknown format, 5 bytes"));
        assert!(read(&dir, r#"{"path":"w"}"#).unwrap().contains("UTF-16 text, 6 bytes"));
    }

    #[test]
    fn a_huge_file_is_bounded_and_each_of_its_pages_leads_to_the_next() {
        let dir = TestDir::new();
        let count = 100_000;
        let text: String = (1..=count).map(|i| format!("line {i}\n")).collect();
        dir.write("big", &text);
        let (mut next, mut got) = (1, String::new());
        while next <= count {
            let page = read(&dir, &format!(r#"{{"path":"big","start_line":{next}}}"#)).unwrap();
            assert!(page.len() < limits::READ_BYTES_MAX + 100);
            let (lines, note) = page.split_once("[lines").unwrap();
            got.push_str(lines);
            next = got.lines().count() + 1;
            let go_on = if next <= count { format!("; read on with start_line {next}]") } else { "]".into() };
            assert!(note.ends_with(&format!("-{} of {count}{go_on}", next - 1)), "{note}");
        }
        assert_eq!(got, text);
        assert!(read(&dir, r#"{"path":"big"}"#).unwrap().contains("[lines 1-"));
    }

    #[test]
    fn a_line_beyond_the_bound_is_cut_and_said() {
        let dir = TestDir::new();
        dir.write("line", [vec![b'x'; 10_000_000], b"\nnext\n".to_vec()].concat());
        let told = read(&dir, r#"{"path":"line"}"#).unwrap();
        assert!(told.ends_with(&format!("x\n[line 1 of 2 is cut after {} bytes; grep shows parts of long lines]", limits::READ_BYTES_MAX)));
        assert_eq!(read(&dir, r#"{"path":"line","start_line":2}"#).unwrap(), "next\n[lines 2-2 of 2]");
        dir.write("exact", vec![b'x'; limits::READ_BYTES_MAX]);
        assert_eq!(read(&dir, r#"{"path":"exact"}"#).unwrap().len(), limits::READ_BYTES_MAX, "what fits is whole");
    }
}
