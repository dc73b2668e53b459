//! Keeps keys out of messages and recordings: a provider may quote the key that it refuses.

use std::borrow::Cow;

use memchr::memmem;

use crate::secret::Secret;

/// Shorter values are no secrets but placeholders (`x`, `local`), and would be found in half of all words.
const SECRET_BYTES_MIN: usize = 6;
/// What stands where a secret was.
const MASK: &[u8] = b"[secret]";

/// The texts that nobody may read.
pub(super) struct Mask(Vec<Secret>);

impl Mask {
    /// A mask over these. Of a header such as `Bearer KEY` the key alone is a secret too.
    pub(super) fn new(secrets: impl IntoIterator<Item = Secret>) -> Mask {
        let with_parts = |secret: Secret| {
            let key = secret.expose().split_once(' ').map(|(_, key)| Secret::new(key.trim()));
            [Some(secret), key]
        };
        let mut all: Vec<Secret> = secrets.into_iter().flat_map(with_parts).flatten().collect();
        all.retain(|secret| secret.expose().len() >= SECRET_BYTES_MIN);
        // The longest first, so that no rest of it is left where it begins with another.
        all.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Mask(all)
    }

    /// The bytes without the secrets.
    pub(super) fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut clean = Cow::Borrowed(bytes);
        for secret in self.0.iter().map(|secret| secret.expose().as_bytes()) {
            let found: Vec<usize> = memmem::find_iter(&clean, secret).collect();
            if found.is_empty() {
                continue;
            }
            let mut out = Vec::with_capacity(clean.len());
            let mut from = 0;
            for at in found {
                out.extend_from_slice(&clean[from..at]);
                out.extend_from_slice(MASK);
                from = at + secret.len();
            }
            out.extend_from_slice(&clean[from..]);
            clean = Cow::Owned(out);
        }
        clean
    }

    /// The text without the secrets.
    pub(super) fn text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_secret_is_taken_out_wherever_it_stands() {
        let mask = Mask::new(["sk-777", "Bearer tok-abcdef", "sk-777-long", "local", "a b"].map(Secret::new));
        for (text, clean) in [
            ("sk-777", "[secret]"),
            ("äsk-777ä sk-777", "ä[secret]ä [secret]"),
            ("sk-777-long.", "[secret]."),
            ("was Bearer tok-abcdef or tok-abcdef", "was [secret] or [secret]"),
            ("a local model", "a local model"),
            ("", ""),
        ] {
            assert_eq!(mask.text(text), clean);
        }
        assert_eq!(&*mask.bytes(b"\xffsk-777\xff"), b"\xff[secret]\xff");
    }
}
