//! What of a tool's output the model gets to read.
//!
//! Nothing is lost: whenever something is left out, the original stays in the stash under a handle, and a line in the output says
//! what is missing and how to get it. Lines that are kept are kept byte for byte. One index of lines serves every stage: repeated
//! lines become one (noisy output only), long lines lose their middle, and a long output keeps its head and tail.

mod cap;
mod dedup;
mod lines;
#[cfg(test)]
mod random;

use std::borrow::Cow;
use std::ops::Range;

pub use lines::Lines;

use crate::limits;
use cap::Layout;

/// The bounds of one output.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Whether repeated lines become one. For noisy output only.
    pub dedup: bool,
    /// Longest output in lines.
    pub lines_max: usize,
    /// Lines kept at the front of a longer one; the rest of `lines_max` is kept at the end.
    pub lines_head: usize,
    /// Longest output (bytes); of a longer one at most 4 parts in 5 are kept at the front.
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
    /// The text; borrowed when it is the input.
    pub text: Cow<'a, str>,
    /// Whether lines or parts of lines were left out. Folded repetitions do not count: the text tells all of them.
    pub capped: bool,
}

/// Applies the rules. `handle` is asked once when the text is not the input, and gives where the original can be found.
pub fn compress<'a>(input: &'a str, rules: &Rules, handle: &mut dyn FnMut() -> String) -> Compressed<'a> {
    let lines = Lines::of(input);
    let layout = Layout::of(&lines, rules);
    if layout.is_whole() {
        return Compressed { text: Cow::Borrowed(input), capped: false };
    }
    Compressed { text: Cow::Owned(layout.write(&handle())), capped: layout.is_capped() }
}

/// The lines (by index) that [`compress`] leaves out between head and tail; empty when there are none.
pub fn left_out(lines: &Lines<'_>, rules: &Rules) -> Range<usize> {
    Layout::of(lines, rules).gap
}

#[cfg(test)]
mod tests {
    use super::random::Random;
    use super::*;

    const HANDLE: &str = "shell/0123456789ab";

    fn run(input: &str, rules: &Rules) -> (String, bool) {
        let mut asked = 0;
        let got = compress(input, rules, &mut || {
            asked += 1;
            HANDLE.into()
        });
        let borrowed = matches!(got.text, Cow::Borrowed(_));
        assert_eq!((borrowed, asked), (got.text == input, usize::from(!borrowed)), "a handle is made for what is not the input");
        (got.text.into_owned(), got.capped)
    }

    #[test]
    fn what_fits_is_borrowed_and_stashes_nothing() {
        for input in ["", "a", "a\r\nb\n\nc", "\n\n\n\n\n\n\n", "x\n".repeat(500).as_str(), "y".repeat(2_048).as_str()] {
            assert_eq!(run(input, &Rules::new(false)), (input.to_owned(), false));
        }
    }

    #[test]
    fn a_long_output_keeps_head_and_tail_and_says_how_to_get_the_rest() {
        let input: String = (1..=1000).map(|i| format!("line {i}\r\n")).collect();
        let (text, capped) = run(&input, &Rules::new(false));
        let middle: usize = (401..=900).map(|i| format!("line {i}\r\n").len()).sum();
        let hint = format!("[lines 401-900 left out ({middle} bytes); retrieve handle=\"{HANDLE}\" start=401 end=900 gives them]\n");
        assert!(capped && text.starts_with("line 1\r\nline 2\r\n") && text.ends_with("line 999\r\nline 1000\r\n"), "{text}");
        assert!(text.contains(&format!("line 400\r\n{hint}line 901\r\n")), "{text}");
        assert_eq!((text.lines().count(), left_out(&Lines::of(&input), &Rules::new(false))), (501, 400..900));
    }

    #[test]
    fn repeated_lines_fold_only_in_noisy_output() {
        let input = format!("start\n{}end\n", "same text\n".repeat(100));
        assert_eq!(run(&input, &Rules::new(false)), (input.clone(), false));
        let folded = "start\nsame text\n[previous line repeated 99 more times]\nend\n";
        assert_eq!(run(&input, &Rules::new(true)), (folded.to_owned(), false));
    }

    #[test]
    fn a_run_at_the_cut_is_never_cut_in_two() {
        let numbered = |from: usize, to: usize| (from..to).map(|i| format!("n{i}\n")).collect::<String>();
        let input = numbered(0, 600) + &"same text\n".repeat(3_000) + &numbered(600, 699);
        let (text, _) = run(&input, &Rules::new(true));
        assert!(!text.contains("repeated"), "the run needs two lines and one is left: {text}");
        let input = numbered(0, 600) + &"same text\n".repeat(3_000) + &numbered(600, 698);
        let (text, _) = run(&input, &Rules::new(true));
        assert!(text.contains("gives them]\nsame text\n[previous line repeated 2999 more times]\nn600\n"), "{text}");
    }

    #[test]
    fn one_endless_line_loses_its_middle() {
        let input = format!("{{{}}}\r\n", "äx".repeat(100_000));
        let (text, capped) = run(&input, &Rules::new(false));
        assert!(capped && text.len() <= limits::RESULT_LINE_BYTES_MAX, "{}", text.len());
        assert!(text.starts_with("{ä") && text.ends_with("x}\r\n") && text.contains("start=1 offset="), "{text}");
    }

    /// Puts back what the notes in a text say, from the original alone.
    fn restore(text: &str, input: &str) -> String {
        let original: Vec<&str> = input.split_inclusive('\n').collect();
        let number = |text: &str, key: &str| -> usize {
            let rest = text.split_once(key).unwrap().1;
            rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap()].parse().unwrap()
        };
        let mut out = String::new();
        let mut last = "";
        for line in text.split_inclusive('\n') {
            if line.starts_with("[lines ") {
                out.push_str(&original[number(line, "start=") - 1..number(line, "end=")].concat());
            } else if line.starts_with("[previous ") {
                out.extend(std::iter::repeat_n(last, number(line, "repeated ")));
            } else if let Some((front, note)) = line.split_once("[… ") {
                let (nth, offset, bytes) = (number(note, "start="), number(note, "offset="), number(note, ""));
                assert_eq!(front.len(), offset, "the note stands where the hole is");
                last = original[nth - 1];
                out.push_str(front);
                out.push_str(&last[offset..offset + bytes]);
                out.push_str(note.split_once("…]").unwrap().1);
            } else {
                out.push_str(line);
                last = line;
            }
        }
        out
    }

    fn random_text(random: &mut Random) -> String {
        let mut text = String::new();
        let kinds = 1 + random.below(6);
        for _ in 0..random.below(90) {
            let long = "long ä".repeat(1 + random.below(80));
            let line = ["same", "a longer line that is repeated", "", "漢字", &long][random.below(kinds).min(4)];
            let end = ["\n", "\r\n"][random.below(8) / 7];
            text.push_str(&format!("{line}{end}").repeat(1 + random.below(9) / 8 * random.below(90)));
        }
        text.truncate(text.len() - random.below(2).min(text.len()));
        text
    }

    #[test]
    fn the_original_follows_from_the_output_and_its_notes_and_the_bounds_hold() {
        let mut random = Random(42);
        let mut seen = [0; 4];
        for _ in 0..4_000 {
            let input = random_text(&mut random);
            let lines_max = 2 + random.below(60);
            let rules = Rules {
                dedup: random.below(2) == 0,
                lines_max,
                lines_head: random.below(lines_max + 1),
                bytes_max: 700 + random.below(3_000),
                line_bytes_max: 130 + random.below(200),
            };
            let (text, capped) = run(&input, &rules);
            assert_eq!(restore(&text, &input), input, "{rules:?}\n{text}");
            assert!(text.len() <= rules.bytes_max, "{} {rules:?}", text.len());
            assert!(text.split_inclusive('\n').count() <= rules.lines_max + 1, "{rules:?}\n{text}");
            for (seen, note) in seen.iter_mut().zip(["[lines ", "[previous ", "[… ", ""]) {
                *seen += usize::from(text.contains(note));
            }
            assert_eq!(capped, text.contains("[lines ") || text.contains("[… "), "{text}");
            let gap = left_out(&Lines::of(&input), &rules);
            assert_eq!(!gap.is_empty(), text.contains(&format!("[lines {}-{} ", gap.start + 1, gap.end)));
        }
        assert!(seen.iter().all(|n| *n > 200), "each note is met often: {seen:?}");
    }
}
