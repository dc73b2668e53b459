//! Writes JSON values into a byte buffer.
//!
//! Sixteen bytes at a time are compared with everything that may need an escape, which gives a mask with a bit for each byte to
//! look at. What lies between two escapes is copied at once, so text that needs none costs one pass and one copy. Beside what
//! JSON demands, the characters at which line readers of other languages split (U+007F, U+0085, U+2028, U+2029) are escaped, so
//! that a line stays one line for all.

/// How a byte is treated: 0 as it is, `u` as `\u00XX`, `2` and `3` as the lead of a sequence to look at, else `\` and that byte.
static ACTION: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut i = 0;
    while i < 0x20 {
        table[i] = b'u';
        i += 1;
    }
    table[b'\n' as usize] = b'n';
    table[b'\r' as usize] = b'r';
    table[b'\t' as usize] = b't';
    table[0x08] = b'b';
    table[0x0c] = b'f';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[0x7f] = b'u';
    table[0xc2] = b'2';
    table[0xe2] = b'3';
    table
};

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `text` as a JSON string, quotes included.
pub fn push_str(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut done = 0;
    let (blocks, rest) = bytes.as_chunks::<16>();
    for (nth, block) in blocks.iter().enumerate() {
        let mut marks = marks(block);
        while marks != 0 {
            done = escape(out, bytes, done, nth * 16 + marks.trailing_zeros() as usize);
            marks &= marks - 1;
        }
    }
    for at in bytes.len() - rest.len()..bytes.len() {
        if ACTION[usize::from(bytes[at])] != 0 {
            done = escape(out, bytes, done, at);
        }
    }
    out.extend_from_slice(&bytes[done..]);
    out.push(b'"');
}

/// Writes the byte at `at` as an escape if it needs one, after what lies between `done` and it. Gives up to where all is written.
#[inline]
fn escape(out: &mut Vec<u8>, bytes: &[u8], done: usize, at: usize) -> usize {
    let (taken, code) = match (ACTION[usize::from(bytes[at])], &bytes[at + 1..]) {
        (b'u', _) => (1, u16::from(bytes[at])),
        (b'2', [0x85, ..]) => (2, 0x85),
        (b'3', [0x80, last @ (0xa8 | 0xa9), ..]) => (3, 0x2000 | u16::from(last & 0x3f)),
        (b'2' | b'3', _) => return done,
        (short, _) => {
            out.extend_from_slice(&bytes[done..at]);
            out.extend_from_slice(&[b'\\', short]);
            return at + 1;
        }
    };
    let digit = |shift: u32| HEX[usize::from(code >> shift & 0xf)];
    out.extend_from_slice(&bytes[done..at]);
    out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
    at + taken
}

/// A bit for each byte of the block that [`ACTION`] has an entry for, the first byte in the lowest.
#[cfg(target_arch = "x86_64")]
#[inline]
fn marks(block: &[u8; 16]) -> u32 {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};
    // SAFETY: SSE2 is part of the x86-64 baseline, so the instructions exist; the one access to memory is an unaligned load of the
    // sixteen bytes that `block` refers to.
    unsafe {
        let block = _mm_loadu_si128(block.as_ptr().cast::<__m128i>());
        let is = |byte: u8| _mm_cmpeq_epi8(block, _mm_set1_epi8(byte.cast_signed()));
        // No unsigned less-than in SSE2: a byte is at most 0x1f when it is the smaller of the two.
        let control = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
        let quotes = _mm_or_si128(is(b'"'), is(b'\\'));
        let leads = _mm_or_si128(is(0xc2), is(0xe2));
        let any = _mm_or_si128(_mm_or_si128(control, quotes), _mm_or_si128(leads, is(0x7f)));
        _mm_movemask_epi8(any).cast_unsigned()
    }
}

#[cfg(not(target_arch = "x86_64"))]
use marks_bytewise as marks;

/// The same without SIMD; elsewhere the way, here the oracle.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn marks_bytewise(block: &[u8; 16]) -> u32 {
    block.iter().rev().fold(0, |marks, byte| marks << 1 | u32::from(ACTION[usize::from(*byte)] != 0))
}

/// Appends a whole number in decimal.
pub fn push_u64(out: &mut Vec<u8>, mut value: u64) {
    // u64::MAX has 20 digits.
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by the plainest means.
    fn oracle(text: &str) -> Vec<u8> {
        let mut out = String::from("\"");
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\0'..='\u{1f}' | '\u{7f}' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
                c => out.push(c),
            }
        }
        out.push('"');
        out.into_bytes()
    }

    fn check(text: &str) {
        let mut out = Vec::new();
        push_str(&mut out, text);
        assert_eq!(out, oracle(text), "{text:?}");
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    }

    #[test]
    fn a_block_is_marked_like_its_bytes_one_by_one() {
        for byte in 0..=u8::MAX {
            for place in 0..16 {
                let mut block = [b'x'; 16];
                block[place] = byte;
                assert_eq!(marks(&block), marks_bytewise(&block), "{byte:#x} at {place}");
            }
            assert_eq!(marks(&[byte; 16]), marks_bytewise(&[byte; 16]), "{byte:#x}");
        }
    }

    #[test]
    fn every_character_below_3000_at_every_edge_of_a_block() {
        for c in (0..0x3000).filter_map(char::from_u32) {
            for before in [0, 1, 13, 14, 15, 16, 17] {
                check(&format!("{}{c}{}", "x".repeat(before), "y".repeat(20)));
            }
        }
    }

    #[test]
    fn random_texts_equal_the_oracle() {
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let alphabet: Vec<char> = "aé\"\\\n\u{85}\u{2028}\u{2029}\u{7f}\0漢😀 z".chars().collect();
        for _ in 0..20_000 {
            let len = next() % 70;
            let text: String =
                (0..len).map(|_| if next() % 4 == 0 { alphabet[(next() % alphabet.len() as u64) as usize] } else { 'p' }).collect();
            check(&text);
        }
    }

    #[test]
    fn numbers() {
        for value in [0, 9, 10, 99, 12_345, u64::MAX] {
            let mut out = Vec::new();
            push_u64(&mut out, value);
            assert_eq!(out, value.to_string().into_bytes());
        }
    }
}
