//! The index of lines that every stage reads.

/// Where the lines of a text end. A line includes its line end, so the lines together are the text.
pub struct Lines<'a> {
    text: &'a str,
    ends: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Indexes a text. A mask of 64 bytes at a time is four times as fast as a search for each line end, since lines are short.
    pub fn of(text: &'a str) -> Lines<'a> {
        // A line of code or of a log has about 32 bytes; a wrong guess costs a growth.
        let mut ends = Vec::with_capacity(text.len() / 32 + 1);
        let (blocks, rest) = text.as_bytes().as_chunks::<64>();
        for (nth, block) in blocks.iter().enumerate() {
            let mut marks = newlines(block);
            while marks != 0 {
                ends.push(nth * 64 + marks.trailing_zeros() as usize + 1);
                marks &= marks - 1;
            }
        }
        let before = text.len() - rest.len();
        ends.extend(rest.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| before + at + 1));
        if ends.last().copied().unwrap_or(0) < text.len() {
            ends.push(text.len());
        }
        Lines { text, ends }
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The line at an index from 0, with its line end.
    pub fn get(&self, at: usize) -> Option<&'a str> {
        let end = *self.ends.get(at)?;
        Some(&self.text[self.start(at)..end])
    }

    /// Size of the lines from `from` up to and without `to` (bytes); bounds beyond the end are taken as the end.
    pub fn bytes(&self, from: usize, to: usize) -> usize {
        self.start(to).saturating_sub(self.start(from))
    }

    /// Where a line begins; the end of the text for all beyond the last.
    fn start(&self, at: usize) -> usize {
        match at.min(self.ends.len()) {
            0 => 0,
            at => self.ends[at - 1],
        }
    }
}

/// A bit for each line feed in the block, the first byte in the lowest.
#[cfg(target_arch = "x86_64")]
#[inline]
fn newlines(block: &[u8; 64]) -> u64 {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    let (quarters, _) = block.as_chunks::<16>();
    quarters.iter().rev().fold(0, |marks, quarter| {
        // SAFETY: SSE2 is part of the x86-64 baseline, so the instructions exist; the one access to memory is an unaligned load of
        // the sixteen bytes that `quarter` refers to.
        let found = unsafe {
            let bytes = _mm_loadu_si128(quarter.as_ptr().cast::<__m128i>());
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\n'.cast_signed())))
        };
        marks << 16 | u64::from(found.cast_unsigned())
    })
}

#[cfg(not(target_arch = "x86_64"))]
use newlines_bytewise as newlines;

/// The same without SIMD; elsewhere the way, here the oracle.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn newlines_bytewise(block: &[u8; 64]) -> u64 {
    block.iter().rev().fold(0, |marks, byte| marks << 1 | u64::from(*byte == b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::random::Random;

    fn check(text: &str) {
        let lines = Lines::of(text);
        let got: Vec<&str> = (0..lines.len()).filter_map(|at| lines.get(at)).collect();
        assert_eq!(got, text.split_inclusive('\n').collect::<Vec<_>>(), "{text:?}");
        assert_eq!((lines.get(lines.len()), lines.is_empty()), (None, text.is_empty()));
    }

    #[test]
    fn the_lines_are_those_of_std() {
        for text in ["", "\n", "a", "a\n", "a\nb", "\n\n", "a\r\nä\n\nb"] {
            check(text);
        }
        let mut random = Random(7);
        for round in 0..2_000 {
            let len = random.below(200);
            check(&(0..len).map(|_| if random.below(round % 20 + 1) == 0 { '\n' } else { 'ä' }).collect::<String>());
        }
    }

    #[test]
    fn a_block_is_marked_like_its_bytes_one_by_one() {
        let mut random = Random(9);
        for place in 0..64 {
            let mut block: [u8; 64] = std::array::from_fn(|_| random.below(256) as u8);
            block[place] = b'\n';
            assert_eq!(newlines(&block), newlines_bytewise(&block));
            assert!(newlines(&block) >> place & 1 == 1);
        }
    }

    #[test]
    fn the_size_of_a_range_is_clamped() {
        let lines = Lines::of("a\nbc\nd");
        assert_eq!((lines.bytes(1, 2), lines.bytes(2, 9), lines.bytes(0, 3), lines.bytes(3, 9), lines.bytes(2, 1)), (3, 1, 6, 0, 0));
    }
}
