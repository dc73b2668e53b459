//! What the model sees, as bytes that are encoded once.
//!
//! A message is encoded for its wire when it enters and is never touched again. The bytes lie in chunks that a request in
//! flight shares by handle, so a turn costs what is new in it: re-serialising a history of 2 MB took 1.3 ms a turn, handing
//! over its chunks takes microseconds. Only grows, so the request's prefix stays cacheable at the provider.

pub mod stash;

use bytes::Bytes;

use crate::limits;

/// The encoded messages of one agent, in order.
#[derive(Default)]
pub struct Transcript {
    /// Frozen chunks, each at least as large as a request body frame should be.
    full: Vec<Bytes>,
    /// The tail that still grows; copied into a request, since it will be written to again.
    open: Vec<u8>,
    messages: usize,
    bytes: usize,
}

impl Transcript {
    /// An empty transcript. Holds no memory until the first message.
    pub fn new() -> Transcript {
        Transcript::default()
    }

    /// Adds one encoded message. `encode` appends to the buffer and leaves what is there alone; its second argument tells
    /// whether this is the first message, which is the one without a separator before it.
    pub fn append(&mut self, encode: impl FnOnce(&mut Vec<u8>, bool)) {
        if self.open.capacity() == 0 {
            self.open.reserve(self.chunk_bytes());
        }
        let before = self.open.len();
        encode(&mut self.open, self.messages == 0);
        assert!(self.open.len() >= before, "a message only appends");
        self.bytes += self.open.len() - before;
        self.messages += 1;
        if self.open.len() >= self.chunk_bytes() {
            self.full.push(Bytes::from(std::mem::take(&mut self.open)));
        }
    }

    /// The messages as a chain of handles; valid for as long as the request needs it, whatever is appended meanwhile.
    pub fn chain(&self) -> impl Iterator<Item = Bytes> + '_ {
        let tail = (!self.open.is_empty()).then(|| Bytes::copy_from_slice(&self.open));
        self.full.iter().cloned().chain(tail)
    }

    /// Number of messages.
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Size of the encoded messages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Chunks double from small to large, so that a short run stays small.
    fn chunk_bytes(&self) -> usize {
        (limits::CHUNK_BYTES_MIN << self.full.len().min(16)).min(limits::CHUNK_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(transcript: &Transcript) -> Vec<u8> {
        transcript.chain().flat_map(|b| b.to_vec()).collect()
    }

    #[test]
    fn a_chain_taken_before_an_append_is_a_prefix_of_the_one_after() {
        let mut transcript = Transcript::new();
        let mut before = Vec::new();
        for i in 0..2_000usize {
            transcript.append(|out, first| {
                out.extend_from_slice(if first { b"" } else { b"," });
                out.resize(out.len() + i % 700, b'x');
            });
            let now = joined(&transcript);
            assert!(now.starts_with(&before));
            assert_eq!(now.len(), transcript.bytes());
            before = now;
        }
    }

    #[test]
    fn a_full_chunk_is_shared_and_not_copied() {
        let mut transcript = Transcript::new();
        for _ in 0..100 {
            transcript.append(|out, _| out.resize(out.len() + 10_000, b'x'));
        }
        let (a, b): (Vec<_>, Vec<_>) = (transcript.chain().collect(), transcript.chain().collect());
        assert!(a.len() > 2);
        for (x, y) in a.iter().zip(&b).take(a.len() - 1) {
            assert_eq!(x.as_ptr(), y.as_ptr());
        }
    }

    #[test]
    fn chunks_are_large_once_the_transcript_is() {
        let mut transcript = Transcript::new();
        for _ in 0..1_000 {
            transcript.append(|out, _| out.resize(out.len() + 5_000, b'x'));
        }
        let small = transcript.full.iter().filter(|c| c.len() < limits::CHUNK_BYTES_MAX).count();
        assert!(small <= 3, "{small} small chunks of {}", transcript.full.len());
    }

    #[test]
    fn one_large_message_is_one_chunk() {
        let mut transcript = Transcript::new();
        transcript.append(|out, _| out.resize(1_000_000, b'x'));
        assert_eq!(transcript.chain().count(), 1);
    }
}
