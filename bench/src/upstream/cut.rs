//! Where a body is cut into pieces, each of which is a chunk and a write of its own.

/// A way to cut bytes.
#[derive(Clone, Debug)]
pub enum Cut {
    /// One piece.
    Whole,
    /// Pieces of so many bytes.
    Every(usize),
    /// Pieces of these sizes, and the rest in one.
    Sizes(Vec<usize>),
    /// Pieces of 1 to 16 bytes, the same for the same seed.
    Random(u64),
    /// Inside every character of more than one byte, inside every `data:`, and between two line feeds.
    Awkward,
}

impl Cut {
    /// The pieces. None is empty, and together they are the bytes.
    pub fn apply(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        let mut from = 0;
        for to in self.ends(bytes).into_iter().chain([bytes.len()]) {
            let to = to.min(bytes.len());
            if to > from {
                pieces.push(bytes[from..to].to_vec());
                from = to;
            }
        }
        pieces
    }

    fn ends(&self, bytes: &[u8]) -> Vec<usize> {
        match self {
            Cut::Whole => Vec::new(),
            Cut::Every(size) => (0..bytes.len()).step_by((*size).max(1)).collect(),
            Cut::Sizes(sizes) => running(sizes.iter().copied()).take(sizes.len()).collect(),
            Cut::Random(seed) => running(steps(*seed)).take_while(|end| *end < bytes.len()).collect(),
            Cut::Awkward => (1..bytes.len()).filter(|at| is_awkward(bytes, *at)).collect(),
        }
    }
}

fn running(sizes: impl Iterator<Item = usize>) -> impl Iterator<Item = usize> {
    sizes.scan(0, |end: &mut usize, size| {
        *end = end.saturating_add(size);
        Some(*end)
    })
}

/// Xorshift: enough for cuts, and the same on every machine.
fn steps(seed: u64) -> impl Iterator<Item = usize> {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15 | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        1 + (state >> 32) as usize % 16
    })
}

fn is_awkward(bytes: &[u8], at: usize) -> bool {
    let continues = bytes[at] & 0xc0 == 0x80;
    let in_name = bytes[..at].ends_with(b"da") && bytes[at..].starts_with(b"ta:");
    continues || in_name || bytes[at - 1] == b'\n' && bytes[at] == b'\n'
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "data: é漢😀\n\ndata: [DONE]\n\n";

    #[test]
    fn no_cut_loses_a_byte_and_no_piece_is_empty() {
        for cut in [Cut::Whole, Cut::Every(0), Cut::Every(7), Cut::Sizes(vec![0, 3, 900]), Cut::Random(1), Cut::Awkward] {
            let pieces = cut.apply(TEXT.as_bytes());
            assert_eq!(pieces.concat(), TEXT.as_bytes(), "{cut:?}");
            assert!(pieces.iter().all(|p| !p.is_empty()), "{cut:?}");
        }
        assert_eq!(Cut::Whole.apply(b""), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn sizes_are_exact() {
        let sizes = |cut: Cut| cut.apply(b"abcdef").iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(Cut::Every(1)), [1; 6]);
        assert_eq!(sizes(Cut::Every(4)), [4, 2]);
        assert_eq!(sizes(Cut::Sizes(vec![1, 2])), [1, 2, 3]);
    }

    #[test]
    fn the_awkward_cut_splits_characters_names_and_blank_lines() {
        let pieces = Cut::Awkward.apply(TEXT.as_bytes());
        assert!(pieces.iter().any(|p| std::str::from_utf8(p).is_err()));
        assert!(pieces.iter().any(|p| p.ends_with(b"da")));
        assert!(pieces.iter().filter(|p| p.starts_with(b"\n")).count() == 2);
    }

    #[test]
    fn a_seed_stands_for_one_cut() {
        let cut = |seed| Cut::Random(seed).apply(TEXT.as_bytes());
        assert_eq!(cut(5), cut(5));
        assert_ne!(cut(5), cut(6));
    }
}
