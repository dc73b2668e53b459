//! Keeps the head and the tail of what is too long, in lines, in bytes, and within a line.

use std::fmt::Write;

use super::{Piece, Rules};

/// Writes the pieces within the rules. The second value tells whether anything was left out.
pub(super) fn render(pieces: &[Piece<'_>], rules: &Rules, handle: &str) -> (String, bool) {
    let (head, tail) = split(pieces, rules);
    let mut out = String::with_capacity(rules.bytes_max.min(pieces.len() * 80) + 256);
    let mut cut_lines = false;
    for piece in &pieces[..head] {
        cut_lines |= push(&mut out, piece, rules, handle);
    }
    if head < tail {
        let (first, last) = (line_number(pieces, head), line_number(pieces, tail) - 1);
        let bytes: usize = pieces[head..tail].iter().map(bytes_of).sum();
        let _ = writeln!(
            out,
            "[lines {first}-{last} left out ({bytes} bytes); retrieve handle=\"{handle}\" start={first} end={last} gives them]"
        );
    }
    for piece in &pieces[tail..] {
        cut_lines |= push(&mut out, piece, rules, handle);
    }
    (out, cut_lines || head < tail)
}

/// How many pieces are kept at the front, and from which on they are kept at the end.
fn split(pieces: &[Piece<'_>], rules: &Rules) -> (usize, usize) {
    let sizes = || pieces.iter().map(|p| shown_bytes(p, rules));
    if pieces.len() <= rules.lines_max && sizes().sum::<usize>() <= rules.bytes_max {
        return (pieces.len(), pieces.len());
    }
    let head_bytes = rules.bytes_max / 5 * 4;
    let head = fitting(sizes().take(rules.lines_head), head_bytes);
    let tail_lines = (rules.lines_max - rules.lines_head).min(pieces.len() - head);
    let tail = fitting(sizes().rev().take(tail_lines), rules.bytes_max - head_bytes);
    (head, pieces.len() - tail)
}

/// How many sizes from the front add up to no more than the bound.
fn fitting(sizes: impl Iterator<Item = usize>, bytes_max: usize) -> usize {
    let mut left = bytes_max;
    sizes.take_while(|size| left.checked_sub(*size).map(|rest| left = rest).is_some()).count()
}

/// The number (from 1) in the original of the line that a piece begins with.
fn line_number(pieces: &[Piece<'_>], at: usize) -> usize {
    let count = |piece: &Piece<'_>| match piece {
        Piece::Line(_) => 1,
        Piece::Repeated(times) => *times,
    };
    pieces[..at].iter().map(count).sum::<usize>() + 1
}

fn bytes_of(piece: &Piece<'_>) -> usize {
    match piece {
        Piece::Line(line) => line.len(),
        Piece::Repeated(_) => 0,
    }
}

fn shown_bytes(piece: &Piece<'_>, rules: &Rules) -> usize {
    match piece {
        Piece::Line(line) => line.len().min(rules.line_bytes_max),
        Piece::Repeated(_) => 30,
    }
}

/// Writes one piece; true when the middle of its line was left out.
fn push(out: &mut String, piece: &Piece<'_>, rules: &Rules, handle: &str) -> bool {
    match piece {
        Piece::Repeated(times) => {
            let _ = writeln!(out, "[the line above {times} more times]");
            false
        }
        Piece::Line(line) if line.len() <= rules.line_bytes_max => {
            out.push_str(line);
            false
        }
        Piece::Line(line) => {
            let keep = rules.line_bytes_max / 2;
            let (front, back) = (line.floor_char_boundary(keep), line.ceil_char_boundary(line.len() - keep));
            let _ = write!(out, "{}[… {} bytes left out; see retrieve handle=\"{handle}\"]{}", &line[..front], back - front, &line[back..]);
            true
        }
    }
}
