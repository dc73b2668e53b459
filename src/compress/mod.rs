//! What of a tool's output the model gets to read.
//!
//! Nothing is lost: whenever something is left out, the original stays in the stash under a handle, and a line in the output says
//! how to get it. Lines that are kept are kept byte for byte. The stages run over one index of lines: repeated lines become one
//! (noisy output only), long lines lose their middle, and a long output keeps its head and tail.

mod cap;
mod dedup;
mod lines;

use std::borrow::Cow;

pub use lines::Lines;

use crate::limits;

/// What a stage leaves of the text: a list of pieces in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    /// A line of the original with its line end.
    Line(&'a str),
    /// The line before occurred this many times more.
    Repeated(usize),
}

/// The bounds of one output.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Whether repeated lines become one. For noisy output only.
    pub dedup: bool,
    /// Longest output in lines.
    pub lines_max: usize,
    /// Lines kept at the front of a longer one; the rest of `lines_max` is kept at the end.
    pub lines_head: usize,
    /// Longest output (bytes); of a longer one 4 parts in 5 are kept at the front.
    pub bytes_max: usize,
    /// Longest line (bytes).
    pub line_bytes_max: usize,
}

impl Rules {
    /// The rules for output that must stay faithful, or for noisy output.
    pub const fn new(noisy: bool) -> Rules {
        Rules {
            dedup: noisy,
            lines_max: limits::RESULT_LINES_MAX,
            lines_head: limits::RESULT_LINES_HEAD,
            bytes_max: limits::RESULT_BYTES_MAX,
            line_bytes_max: limits::RESULT_LINE_BYTES_MAX,
        }
    }
}

/// What the model gets.
#[derive(Debug, PartialEq, Eq)]
pub struct Compressed<'a> {
    /// The text; borrowed when nothing was left out.
    pub text: Cow<'a, str>,
    /// Whether lines or parts of lines were left out. Folded repetitions do not count.
    pub capped: bool,
}

/// Applies the rules. `handle` is asked once, when something is left out, and gives where the original can be found.
pub fn compress<'a>(input: &'a str, rules: &Rules, handle: &mut dyn FnMut() -> String) -> Compressed<'a> {
    let lines = Lines::of(input);
    let fits = input.len() <= rules.bytes_max && lines.len() <= rules.lines_max && lines.longest() <= rules.line_bytes_max;
    let pieces = if rules.dedup { dedup::fold(&lines) } else { lines.iter().map(Piece::Line).collect() };
    let folded = pieces.len() < lines.len();
    if fits && !folded {
        return Compressed { text: Cow::Borrowed(input), capped: false };
    }
    let handle = handle();
    let (text, capped) = cap::render(&pieces, rules, &handle);
    if text.len() >= input.len() && !capped {
        return Compressed { text: Cow::Borrowed(input), capped: false };
    }
    Compressed { text: Cow::Owned(text), capped }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(input: &str, rules: &Rules) -> (String, bool, usize) {
        let mut asked = 0;
        let got = compress(input, rules, &mut || {
            asked += 1;
            "shell/0123456789ab".into()
        });
        (got.text.clone().into_owned(), got.capped, asked)
    }

    #[test]
    fn what_fits_is_borrowed_and_stashes_nothing() {
        let input = "a\r\nb\n\nc";
        let mut asked = false;
        let got = compress(input, &Rules::new(true), &mut || {
            asked = true;
            String::new()
        });
        assert!(matches!(got.text, Cow::Borrowed(_)) && !got.capped);
        assert_eq!((&*got.text, asked), (input, false));
    }

    #[test]
    fn a_long_output_keeps_head_and_tail_and_says_how_to_get_the_rest() {
        let input: String = (1..=1000).map(|i| format!("line {i}\r\n")).collect();
        let (text, capped, asked) = run(&input, &Rules::new(false));
        assert!(capped && asked == 1);
        assert!(text.starts_with("line 1\r\nline 2\r\n") && text.ends_with("line 999\r\nline 1000\r\n"), "{text}");
        assert!(text.contains("lines 401-900 ") && text.contains("shell/0123456789ab"), "{text}");
        assert_eq!(text.lines().count(), 501);
    }

    #[test]
    fn repeated_lines_fold_only_in_noisy_output() {
        let input = format!("start\n{}end\n", "same\n".repeat(100));
        assert_eq!(run(&input, &Rules::new(false)).0, input);
        let (text, capped, _) = run(&input, &Rules::new(true));
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.contains("99 more") && !capped, "{text}");
    }

    #[test]
    fn one_endless_line_loses_its_middle() {
        let input = format!("{{{}}}", "äx".repeat(100_000));
        let (text, capped, _) = run(&input, &Rules::new(false));
        assert!(capped && text.len() < limits::RESULT_LINE_BYTES_MAX + 300, "{}", text.len());
        assert!(text.starts_with("{ä") && text.contains("x}"));
    }

    #[test]
    fn many_long_lines_stay_within_the_bound_in_bytes() {
        let input = format!("{}\n", "y".repeat(1_500)).repeat(400);
        let (text, capped, _) = run(&input, &Rules::new(false));
        assert!(capped && text.len() <= limits::RESULT_BYTES_MAX + 300, "{}", text.len());
    }

    #[test]
    fn every_kept_line_is_a_line_of_the_original_in_order() {
        let mut seed = 42u64;
        for round in 0..300 {
            let mut input = String::new();
            for _ in 0..round * 3 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                input.push_str(&format!("l{}", seed % 5));
                input.push_str(["\n", "\r\n", "\n"][(seed % 3) as usize]);
            }
            let rules = Rules { lines_max: 50, lines_head: 40, bytes_max: 400, ..Rules::new(round % 2 == 0) };
            let (text, ..) = run(&input, &rules);
            let mut rest = Lines::of(&input).iter().map(str::to_owned).collect::<std::collections::VecDeque<_>>();
            for line in Lines::of(&text).iter().filter(|l| !l.starts_with('[')) {
                while rest.pop_front().expect("kept lines come from the original") != line {}
            }
        }
    }
}
