//! `read_file`: a file's text, or a range of its lines.

use std::io::{BufRead, BufReader, Read};

use super::{Args, Context, ToolError, Work};
use crate::limits;

/// How much of a file is looked at to tell text from binary (bytes).
const SNIFF_BYTES: usize = 8 * limits::KIB;

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
    answer(BufReader::with_capacity(SNIFF_BYTES, file), bytes, args)
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
    if start.is_none() && end.is_none() {
        return whole(reader, bytes).map_err(io);
    }
    let (start, end) = (start.unwrap_or(1).max(1), end.unwrap_or(u64::MAX));
    if end < start {
        return Err(ToolError::InvalidInput(format!("end_line {end} is before start_line {start}")));
    }
    range(reader, start, end).map_err(io)
}

/// A file in `/proc` states no size, so the bound holds while reading, too.
fn whole(reader: impl BufRead, bytes: u64) -> std::io::Result<Work> {
    let mut out = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0).min(limits::READ_BYTES_MAX));
    reader.take(limits::READ_BYTES_MAX as u64).read_to_end(&mut out)?;
    if bytes > out.len() as u64 && out.len() == limits::READ_BYTES_MAX {
        let lines = memchr::memchr_iter(b'\n', &out).count();
        out.extend_from_slice(
            format!("\n[the file has {bytes} bytes; this is its front up to line {lines}; read on with start_line]\n").as_bytes(),
        );
    }
    Ok(Work::Done(out))
}

fn range(mut reader: impl BufRead, start: u64, end: u64) -> std::io::Result<Work> {
    let mut out = Vec::new();
    let mut line = 0u64;
    let mut skipped = Vec::new();
    while line < end {
        let keep = line + 1 >= start;
        let target = if keep { &mut out } else { &mut skipped };
        if read_line(&mut reader, target)? == 0 {
            break;
        }
        skipped.clear();
        line += 1;
        if out.len() > limits::READ_BYTES_MAX {
            out.extend_from_slice(format!("\n[cut at line {line}; read on with start_line]\n").as_bytes());
            return Ok(Work::Done(out));
        }
    }
    if line < start {
        return Ok(format!("[the file has only {line} lines]").into());
    }
    Ok(Work::Done(out))
}

/// One line with its end, of which at most a bound is kept; the whole line is consumed.
fn read_line(reader: &mut impl BufRead, out: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut read = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(read);
        }
        let end = memchr::memchr(b'\n', buffer).map(|at| at + 1);
        let taken = end.unwrap_or(buffer.len());
        if out.len() <= limits::READ_BYTES_MAX {
            out.extend_from_slice(&buffer[..taken]);
        }
        reader.consume(taken);
        read += taken;
        if end.is_some() {
            return Ok(read);
        }
    }
}

/// What a file is, unless it is text in an encoding close to ASCII.
pub(super) fn binary_kind(front: &[u8]) -> Option<&'static str> {
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
    fn a_range_is_inclusive_and_told_when_it_is_beyond_the_end() {
        let dir = TestDir::new();
        dir.write("a", "1\n2\r\n3\n4");
        for (range, want) in [
            (r#""start_line":2,"end_line":3"#, "2\r\n3\n"),
            (r#""start_line":4"#, "4"),
            (r#""end_line":1"#, "1\n"),
            (r#""start_line":0,"end_line":1"#, "1\n"),
            (r#""start_line":3,"end_line":99"#, "3\n4"),
            (r#""start_line":5"#, "[the file has only 4 lines]"),
        ] {
            assert_eq!(read(&dir, &format!("{{\"path\":\"a\",{range}}}")).unwrap(), want, "{range}");
        }
        assert!(matches!(read(&dir, r#"{"path":"a","start_line":3,"end_line":2}"#), Err(ToolError::InvalidInput(_))));
    }

    #[test]
    fn a_binary_file_is_described() {
        let dir = TestDir::new();
        dir.write("p.png", b"\x89PNG\r\n\x1a\n....");
        dir.write("z", b"ab\0cd");
        assert!(read(&dir, r#"{"path":"p.png"}"#).unwrap().contains("PNG image, 12 bytes"));
        assert!(read(&dir, r#"{"path":"z"}"#).unwrap().contains("unknown format, 5 bytes"));
    }

    #[test]
    fn a_huge_file_is_bounded_and_its_ranges_are_reachable() {
        let dir = TestDir::new();
        dir.write("big", "0123456789abcde\n".repeat(1_000_000));
        let front = read(&dir, r#"{"path":"big"}"#).unwrap();
        assert!(front.len() < limits::READ_BYTES_MAX + 200 && front.contains("16000000 bytes"));
        assert_eq!(read(&dir, r#"{"path":"big","start_line":999999,"end_line":1000000}"#).unwrap(), "0123456789abcde\n".repeat(2));
        dir.write("line", vec![b'x'; 10_000_000]);
        assert!(read(&dir, r#"{"path":"line","start_line":1}"#).unwrap().len() < limits::READ_BYTES_MAX + 10_000);
    }
}
