//! Writes JSON values into a byte buffer.
//!
//! Most of what is written needs no escape, so the buffer is filled in runs: sixteen bytes at a time are tested for one that
//! needs attention, and everything before it is copied at once. Beside what JSON demands, the characters at which line
//! readers of other languages split (U+007F, U+0085, U+2028, U+2029) are escaped, so that a line stays one line for all.

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
    push_escaped(out, bytes);
    out.push(b'"');
}

fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut done = 0;
    let mut at = 0;
    loop {
        at += plain_run(&bytes[at..]);
        if at >= bytes.len() {
            break;
        }
        let (taken, escape) = escape_at(&bytes[at..]);
        if let Some(escape) = escape {
            out.extend_from_slice(&bytes[done..at]);
            escape.push(out);
            done = at + taken;
        }
        at += taken;
    }
    out.extend_from_slice(&bytes[done..]);
}

enum Escape {
    Short(u8),
    Unicode(u16),
}

impl Escape {
    fn push(self, out: &mut Vec<u8>) {
        match self {
            Escape::Short(byte) => out.extend_from_slice(&[b'\\', byte]),
            Escape::Unicode(code) => {
                let digit = |shift: u32| HEX[usize::from(code >> shift & 0xf)];
                out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
            }
        }
    }
}

/// What to do at a byte that [`plain_run`] stopped at: how many bytes it stands for, and the escape if it needs one.
fn escape_at(bytes: &[u8]) -> (usize, Option<Escape>) {
    match (ACTION[usize::from(bytes[0])], bytes) {
        (0, _) => (1, None),
        (b'u', [byte, ..]) => (1, Some(Escape::Unicode(u16::from(*byte)))),
        (b'2', [_, 0x85, ..]) => (2, Some(Escape::Unicode(0x85))),
        (b'3', [_, 0x80, last @ (0xa8 | 0xa9), ..]) => (3, Some(Escape::Unicode(0x2000 | u16::from(*last & 0x3f)))),
        (b'2' | b'3', _) => (1, None),
        (short, _) => (1, Some(Escape::Short(short))),
    }
}

/// Length of the run at the front that needs no look.
#[cfg(target_arch = "x86_64")]
fn plain_run(bytes: &[u8]) -> usize {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};
    let mut at = 0;
    while at + 16 <= bytes.len() {
        // SAFETY: SSE2 is part of the x86-64 baseline; the load is unaligned and its 16 bytes lie inside `bytes`.
        let mask = unsafe {
            let block = _mm_loadu_si128(bytes.as_ptr().add(at).cast::<__m128i>());
            let is = |byte: u8| _mm_cmpeq_epi8(block, _mm_set1_epi8(byte.cast_signed()));
            let control = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
            let quotes = _mm_or_si128(is(b'"'), is(b'\\'));
            let leads = _mm_or_si128(is(0xc2), is(0xe2));
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(control, quotes), _mm_or_si128(leads, is(0x7f))))
        };
        if mask != 0 {
            return at + mask.trailing_zeros() as usize;
        }
        at += 16;
    }
    at + plain_run_bytewise(&bytes[at..])
}

#[cfg(not(target_arch = "x86_64"))]
fn plain_run(bytes: &[u8]) -> usize {
    plain_run_bytewise(bytes)
}

fn plain_run_bytewise(bytes: &[u8]) -> usize {
    bytes.iter().position(|b| ACTION[usize::from(*b)] != 0).unwrap_or(bytes.len())
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
    fn every_character_below_3000_at_every_place_in_a_block() {
        for c in (0..0x3000).filter_map(char::from_u32) {
            for before in [0, 1, 15, 16, 17] {
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
