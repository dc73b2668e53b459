//! Folds runs of equal lines, as progress output and retry loops write them.

use super::{Lines, Piece};

/// The shortest run that is folded; shorter ones cost less than the line that would replace them.
const RUN_MIN: usize = 5;

/// The lines, each run of at least [`RUN_MIN`] equal ones as its first line and a count.
pub(super) fn fold<'a>(lines: &Lines<'a>) -> Vec<Piece<'a>> {
    let mut out = Vec::with_capacity(lines.len());
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let run = (at + 1..lines.len()).take_while(|next| lines.get(*next) == Some(line)).count() + 1;
        if run >= RUN_MIN {
            out.extend([Piece::Line(line), Piece::Repeated(run - 1)]);
        } else {
            out.extend(std::iter::repeat_n(Piece::Line(line), run));
        }
        at += run;
    }
    out
}
