//! The index of lines that every stage reads.

/// Where the lines of a text end. A line includes its line end, so the lines together are the text.
pub struct Lines<'a> {
    text: &'a str,
    ends: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Indexes a text; memchr finds the line ends by SIMD.
    pub fn of(text: &'a str) -> Lines<'a> {
        let mut ends = Vec::with_capacity(text.len() / 32 + 1);
        ends.extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
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
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        Some(&self.text[start..end])
    }

    /// The lines from `from` up to and without `to` as one text; bounds beyond the end are taken as the end.
    pub fn range(&self, from: usize, to: usize) -> &'a str {
        let at = |n: usize| if n == 0 { 0 } else { self.ends[n.min(self.len()) - 1] };
        if self.is_empty() || from >= to { "" } else { &self.text[at(from)..at(to)] }
    }

    /// All lines.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// Size of the longest line, line end included (bytes).
    pub fn longest(&self) -> usize {
        self.iter().map(str::len).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_together_are_the_text() {
        for text in ["", "\n", "a", "a\n", "a\nb", "\n\n", "a\r\nä\n\nb"] {
            let lines = Lines::of(text);
            assert_eq!(lines.iter().collect::<String>(), text);
            assert_eq!(lines.iter().collect::<Vec<_>>(), text.split_inclusive('\n').collect::<Vec<_>>());
            assert_eq!(lines.range(0, usize::MAX), text);
        }
    }

    #[test]
    fn a_range_is_clamped() {
        let lines = Lines::of("a\nb\nc");
        assert_eq!((lines.range(1, 2), lines.range(2, 9), lines.range(3, 9), lines.range(2, 1)), ("b\n", "c", "", ""));
    }
}
