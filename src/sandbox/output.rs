//! Keeps the head and the tail of an output of any length in bounded memory.

use std::collections::VecDeque;

/// What a command has written so far, or the two ends of it.
pub(super) struct Kept {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
}

impl Kept {
    pub(super) fn new(bytes_max: usize) -> Kept {
        Kept { half: bytes_max / 2, head: Vec::new(), tail: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let (front, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(front);
        // Only the last of it can stay.
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// The output, its whole length, and where how much is missing.
    pub(super) fn finish(self) -> (Vec<u8>, u64, Option<(usize, u64)>) {
        let missing = self.bytes - (self.head.len() + self.tail.len()) as u64;
        let cut = (missing > 0).then_some((self.head.len(), missing));
        let mut output = self.head;
        let (front, back) = self.tail.as_slices();
        output.extend_from_slice(front);
        output.extend_from_slice(back);
        (output, self.bytes, cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_whole_and_what_does_not_keeps_both_ends() {
        for chunk in [1, 3, 7, 50, 1_000] {
            for total in [0usize, 5, 19, 20, 21, 100, 1_000] {
                let all: Vec<u8> = (0..total).map(|i| i as u8).collect();
                let mut kept = Kept::new(20);
                all.chunks(chunk).for_each(|c| kept.push(c));
                let (output, bytes, cut) = kept.finish();
                assert_eq!(bytes, total as u64);
                if total <= 20 {
                    assert_eq!((output, cut), (all, None));
                } else {
                    assert_eq!((&output[..10], &output[10..], cut), (&all[..10], &all[total - 10..], Some((10, total as u64 - 20))));
                }
            }
        }
    }
}
