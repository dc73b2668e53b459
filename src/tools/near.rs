//! Why a text that looks right is not in a file. Models copy with line numbers, other blanks or other quotes; told which it is,
//! and what the file has, they do not guess a second time.

use std::fmt::Write;

use crate::limits;

/// The largest file that is looked through (bytes): source files are far smaller.
const FILE_BYTES_MAX: usize = limits::MIB;
/// Lines of the search that are compared.
const COMPARED_LINES_MAX: usize = 50;
/// Lines of the file that are quoted.
const QUOTED_LINES_MAX: usize = 20;
/// What is quoted of a line (bytes).
const QUOTED_BYTES_MAX: usize = 200;

/// What is wrong with a text that is not in a file, and what the file has instead.
pub(super) fn explain(file: &[u8], search: &[u8]) -> String {
    if file.len() > FILE_BYTES_MAX || search.len() > FILE_BYTES_MAX {
        return "`search` was not found; grep for a part of it".into();
    }
    let (file, search) = (String::from_utf8_lossy(file), String::from_utf8_lossy(search));
    if without_line_numbers(&search).is_some_and(|text| file.contains(&text)) {
        return "`search` was not found: its lines begin with line numbers, which are not part of the file".into();
    }
    let wanted: Vec<String> = search.lines().map(folded).collect();
    // Blank lines around a block say nothing about where it is.
    let lead = wanted.iter().take_while(|line| line.is_empty()).count();
    let wanted = &wanted[lead..wanted.iter().rposition(|line| !line.is_empty()).map_or(lead, |last| last + 1)];
    let lines: Vec<String> = file.lines().map(folded).collect();
    let Some((at, alike)) = closest(&lines, &wanted[..wanted.len().min(COMPARED_LINES_MAX)]) else {
        return "`search` was not found, nor a line like its first; read the file again".into();
    };
    if alike == wanted.len() {
        format!("`search` was not found; the same but for blanks or quotes is{}copy it exactly", quoted(&file, at, alike))
    } else {
        let there = quoted(&file, at, alike + 1);
        format!("`search` was not found; its first {alike} lines are like these, then the file goes on differently{there}copy it exactly")
    }
}

/// Where the most lines in a row are like the wanted ones, beginning with the first, and how many.
fn closest(lines: &[String], wanted: &[String]) -> Option<(usize, usize)> {
    let first = wanted.first()?;
    let alike = |at: usize| lines[at..].iter().zip(wanted).take_while(|(line, wanted)| line == wanted).count();
    let mut best = None;
    for at in (0..lines.len()).filter(|at| lines[*at] == *first) {
        let alike = alike(at);
        if best.is_none_or(|(_, most)| alike > most) {
            best = Some((at, alike));
        }
        if alike == wanted.len() {
            break;
        }
    }
    best
}

/// A line without what the eye does not see: blanks of every kind are one, quotes and dashes are plain.
fn folded(line: &str) -> String {
    let plain = |c: char| match c {
        '\u{2018}' | '\u{2019}' => '\'',
        '\u{201c}' | '\u{201d}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        c => c,
    };
    let seen = line.chars().filter(|c| !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')).map(plain).collect::<String>();
    seen.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Some lines of the file, with where they are.
fn quoted(file: &str, at: usize, count: usize) -> String {
    let shown: Vec<&str> = file.lines().skip(at).take(count.min(QUOTED_LINES_MAX)).collect();
    let mut out = format!(" (lines {}-{}):\n", at + 1, at + shown.len());
    for line in shown {
        let _ = writeln!(out, "{}", &line[..line.floor_char_boundary(QUOTED_BYTES_MAX)]);
    }
    out
}

/// The text without the numbers that every one of its lines begins with, as listings have them.
fn without_line_numbers(text: &str) -> Option<String> {
    let bare = |line: &str| {
        let line = line.trim_start();
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let rest = rest.strip_prefix([':', '\t', '|', '→']).filter(|_| rest.len() < line.len())?;
        Some(rest.strip_prefix(' ').unwrap_or(rest).to_owned())
    };
    let lines: Option<Vec<String>> = text.lines().map(bare).collect();
    lines.filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "fn main() {\n\tlet x = \"1\";\n\tlet y = 2;\n}\n\nfn other() {\n\tlet x = \"1\";\n}\n";

    #[test]
    fn a_near_miss_is_explained_and_the_file_quoted() {
        for (search, told) in [
            ("    let y = 2;\n", "the same but for blanks or quotes is (lines 3-3):\n\tlet y = 2;\ncopy it exactly"),
            ("\n\nlet x = \u{201c}1\u{201d};  \nlet\u{a0}y = 2;", "(lines 2-3):\n\tlet x = \"1\";\n\tlet y = 2;\n"),
            ("let x = \"1\";\n}", "(lines 7-8):\n\tlet x = \"1\";\n}\n"),
            ("1: fn main() {\n2: \tlet x = \"1\";", "its lines begin with line numbers"),
            ("  7→\tlet x = \"1\";\n  8→}", "its lines begin with line numbers"),
            (
                "fn other() {\n  let z",
                "its first 1 lines are like these, then the file goes on differently (lines 6-7):\nfn other() {\n\tlet x",
            ),
            ("nothing like it", "nor a line like its first"),
            ("\n \n", "nor a line like its first"),
        ] {
            let said = explain(FILE.as_bytes(), search.as_bytes());
            assert!(said.contains(told), "{search:?}: {said}");
        }
    }

    #[test]
    fn what_is_said_and_what_is_compared_is_bounded() {
        let file = format!("x  {}\n", "y".repeat(9_000)).repeat(100);
        let search = format!("x {}\n", "y".repeat(9_000)).repeat(99);
        let said = explain(file.as_bytes(), search.as_bytes());
        assert!(said.contains("(lines 1-20)") && said.len() < 4_500, "{}", said.len());
        let same = "x\n".repeat(limits::MIB / 2);
        assert!(explain(same.as_bytes(), format!("{}y", "x\n".repeat(400_000)).as_bytes()).contains("first 50 lines"));
        assert!(explain(&[b'x'; limits::MIB + 1], b"y").contains("not found"));
        assert!(explain(b"\xff\xfe\0", b"\xff").contains("not found"));
    }
}
