//! Finds runs of equal lines, as progress output and retry loops write them.

use super::Lines;

/// The shortest run that is folded, by the contract.
const RUN_MIN: usize = 5;
/// What must be saved (bytes): more than the line that tells of the repetition takes.
pub(super) const NOTE_BYTES: usize = 48;

/// How many lines right behind the one at `at` equal it; 0 when they are too few to be worth a note.
pub(super) fn repeats_behind(lines: &Lines<'_>, at: usize) -> usize {
    let line = lines.get(at);
    worth(lines, at, (at + 1..lines.len()).take_while(|next| lines.get(*next) == line).count())
}

/// How many lines right before the one at `at`, none of them before `from`, equal it; 0 when they are too few.
pub(super) fn repeats_before(lines: &Lines<'_>, from: usize, at: usize) -> usize {
    let line = lines.get(at);
    worth(lines, at, (from..at).rev().take_while(|before| lines.get(*before) == line).count())
}

fn worth(lines: &Lines<'_>, at: usize, repeats: usize) -> usize {
    if repeats + 1 >= RUN_MIN && repeats * lines.bytes(at, at + 1) > NOTE_BYTES { repeats } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_counted_from_both_ends() {
        let text = format!("a\n{}b\n", "fifteen letters\n".repeat(6));
        let lines = Lines::of(&text);
        let behind: Vec<usize> = (0..lines.len()).map(|at| repeats_behind(&lines, at)).collect();
        assert_eq!(behind, [0, 5, 4, 0, 0, 0, 0, 0]);
        assert_eq!((repeats_before(&lines, 0, 6), repeats_before(&lines, 4, 6), repeats_before(&lines, 0, 7)), (5, 0, 0));
    }

    #[test]
    fn a_run_that_a_note_would_not_shorten_stays() {
        let blank = "\n".repeat(NOTE_BYTES + 1);
        assert_eq!(repeats_behind(&Lines::of(&blank), 0), 0);
        assert_eq!(repeats_behind(&Lines::of(&format!("{blank}\n")), 0), NOTE_BYTES + 1);
    }

    #[test]
    fn a_last_line_without_its_end_is_another_line() {
        let text = format!("{}twenty letters there", "twenty letters there\n".repeat(5));
        assert_eq!(repeats_behind(&Lines::of(&text), 0), 4);
    }
}
