//! Gzip without compression, to see what a client does with an encoding that it did not ask for.

/// The bytes as a gzip stream of stored blocks.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let mut blocks = bytes.chunks(usize::from(u16::MAX)).peekable();
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        out.push(u8::from(blocks.peek().is_none()));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&crc32(bytes).to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let fold = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_standard_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn every_block_carries_its_length_and_the_last_one_says_so() {
        let bytes = vec![7u8; 70_000];
        let out = gzip(&bytes);
        assert_eq!(&out[10..15], [0, 0xff, 0xff, 0, 0]);
        assert_eq!(&out[15 + 65_535..15 + 65_535 + 5], [1, 0x71, 0x11, 0x8e, 0xee]);
        assert_eq!(out.len(), 10 + 2 * 5 + bytes.len() + 8);
    }
}
