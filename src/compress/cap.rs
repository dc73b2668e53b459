//! Lays a text out within the bounds: repeated lines as one, long lines without their middle, a long text as head and tail.
//!
//! The layout is filled from the front until a bound is met; only then from the end backwards. So the cost is that of what is
//! shown, however long the text is, and a run of equal lines is never cut in two.

use std::fmt::Write;
use std::ops::Range;

use super::{Lines, Rules, dedup};

/// Room for the line that stands where lines are left out (bytes): its words, four numbers and a handle.
const GAP_BYTES: usize = 256;

/// What is shown of a text, and what is not.
pub(super) struct Layout<'l, 't> {
    lines: &'l Lines<'t>,
    line_bytes_max: usize,
    head: Vec<Piece>,
    /// The lines between head and tail, by index; empty when nothing is left out.
    pub(super) gap: Range<usize>,
    tail: Vec<Piece>,
}

/// A line that is shown, by its index, and how many equal ones behind it are not.
#[derive(Clone, Copy)]
struct Piece {
    line: usize,
    repeats: usize,
}

/// What may still be shown.
#[derive(Clone, Copy)]
struct Room {
    lines: usize,
    bytes: usize,
}

impl Room {
    /// Takes what a piece needs, if it is there.
    fn take(&mut self, piece: Piece, lines: &Lines<'_>, rules: &Rules) -> bool {
        let noted = usize::from(piece.repeats > 0);
        let bytes = lines.bytes(piece.line, piece.line + 1).min(rules.line_bytes_max) + noted * dedup::NOTE_BYTES;
        match (self.lines.checked_sub(1 + noted), self.bytes.checked_sub(bytes)) {
            (Some(lines), Some(bytes)) => {
                *self = Room { lines, bytes };
                true
            }
            _ => false,
        }
    }
}

impl<'l, 't> Layout<'l, 't> {
    /// Lays a text out.
    pub(super) fn of(lines: &'l Lines<'t>, rules: &Rules) -> Layout<'l, 't> {
        let mut head = front(lines, rules);
        let mut gap = end(&head)..lines.len();
        let mut tail = Vec::new();
        if !gap.is_empty() {
            let bytes = rules.bytes_max.saturating_sub(GAP_BYTES);
            let mut room = Room { lines: rules.lines_head, bytes: bytes / 5 * 4 };
            head.truncate(head.iter().take_while(|piece| room.take(**piece, lines, rules)).count());
            let used = bytes / 5 * 4 - room.bytes;
            gap.start = end(&head);
            tail = back(lines, rules, gap.start, Room { lines: rules.lines_max - rules.lines_head, bytes: bytes - used });
            gap.end = tail.first().map_or(lines.len(), |piece| piece.line);
        }
        Layout { lines, line_bytes_max: rules.line_bytes_max, head, gap, tail }
    }

    /// Whether anything was left out that is not told word by word, which a repetition is.
    pub(super) fn is_capped(&self) -> bool {
        !self.gap.is_empty() || self.pieces().any(|piece| self.text(piece).len() > self.line_bytes_max)
    }

    /// Whether the layout is the text itself.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_capped() && self.pieces().all(|piece| piece.repeats == 0)
    }

    /// Writes the layout; `handle` is where the model finds the original.
    pub(super) fn write(&self, handle: &str) -> String {
        let mut out = String::new();
        for piece in &self.head {
            self.push(&mut out, *piece, handle);
        }
        if !self.gap.is_empty() {
            let (first, last, bytes) = (self.gap.start + 1, self.gap.end, self.lines.bytes(self.gap.start, self.gap.end));
            let _ = writeln!(
                out,
                "[lines {first}-{last} left out ({bytes} bytes); retrieve handle=\"{handle}\" start={first} end={last} gives them]"
            );
        }
        for piece in &self.tail {
            self.push(&mut out, *piece, handle);
        }
        out
    }

    fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.head.iter().chain(&self.tail).copied()
    }

    fn text(&self, piece: Piece) -> &'t str {
        self.lines.get(piece.line).unwrap_or_default()
    }

    fn push(&self, out: &mut String, piece: Piece, handle: &str) {
        let line = self.text(piece);
        if line.len() <= self.line_bytes_max {
            out.push_str(line);
        } else {
            shorten(out, line, piece.line + 1, self.line_bytes_max, handle);
        }
        if piece.repeats > 0 {
            let _ = writeln!(out, "[previous line repeated {} more times]", piece.repeats);
        }
    }
}

/// The index behind the last line that the pieces stand for.
fn end(pieces: &[Piece]) -> usize {
    pieces.last().map_or(0, |piece| piece.line + piece.repeats + 1)
}

/// The pieces from the start of the text on for which there is room.
fn front(lines: &Lines<'_>, rules: &Rules) -> Vec<Piece> {
    let mut room = Room { lines: rules.lines_max, bytes: rules.bytes_max };
    let mut pieces = Vec::with_capacity(lines.len().min(rules.lines_max));
    while end(&pieces) < lines.len() {
        let line = end(&pieces);
        let piece = Piece { line, repeats: if rules.dedup { dedup::repeats_behind(lines, line) } else { 0 } };
        if !room.take(piece, lines, rules) {
            break;
        }
        pieces.push(piece);
    }
    pieces
}

/// The pieces up to the end of the text, and none before `from`, for which there is room.
fn back(lines: &Lines<'_>, rules: &Rules, from: usize, mut room: Room) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut end = lines.len();
    while end > from {
        let repeats = if rules.dedup { dedup::repeats_before(lines, from, end - 1) } else { 0 };
        let piece = Piece { line: end - 1 - repeats, repeats };
        if !room.take(piece, lines, rules) {
            break;
        }
        pieces.push(piece);
        end = piece.line;
    }
    pieces.reverse();
    pieces
}

/// Writes a line without its middle, in at most `bytes_max` bytes.
fn shorten(out: &mut String, line: &str, number: usize, bytes_max: usize, handle: &str) {
    let note = |bytes: usize, offset: usize| {
        format!("[… {bytes} bytes left out; retrieve handle=\"{handle}\" start={number} offset={offset} gives them …]")
    };
    let keep = bytes_max.saturating_sub(note(line.len(), line.len()).len()) / 2;
    let (front, back) = (line.floor_char_boundary(keep), line.ceil_char_boundary(line.len() - keep));
    out.push_str(&line[..front]);
    out.push_str(&note(back - front, front));
    out.push_str(&line[back..]);
}
