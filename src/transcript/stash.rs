//! Where the originals of shortened outputs stay, so that the model can get back what was left out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A content-addressed store, bounded in bytes; the one that was used longest ago goes first. Thread-safe.
pub struct Stash {
    bytes_max: usize,
    entries: Mutex<VecDeque<Entry>>,
}

struct Entry {
    handle: String,
    text: Arc<str>,
}

/// Hex digits of a handle, by the contract.
const DIGITS: usize = 12;

impl Stash {
    /// An empty stash that holds at most so many bytes (and always the newest entry).
    pub fn new(bytes_max: usize) -> Stash {
        Stash { bytes_max, entries: Mutex::new(VecDeque::new()) }
    }

    /// Keeps a text and gives its handle, `<tool>/<12 hex digits>` of its BLAKE3. The same text has the same handle; should
    /// another text have it already, the digits go on until they differ, so that nothing is ever served for something else.
    pub fn put(&self, tool: &str, text: &str) -> String {
        let digest = blake3::hash(text.as_bytes()).to_hex();
        let mut entries = self.lock();
        let mut digits = DIGITS;
        let handle = loop {
            let handle = format!("{tool}/{}", &digest[..digits]);
            match entries.iter().position(|e| e.handle == handle) {
                None => break handle,
                Some(at) if *entries[at].text == *text => {
                    let entry = entries.remove(at).expect("the position was just found");
                    entries.push_back(entry);
                    return handle;
                }
                Some(_) if digits == digest.len() => return handle,
                Some(_) => digits += 4,
            }
        };
        entries.push_back(Entry { handle: handle.clone(), text: text.into() });
        let mut bytes: usize = entries.iter().map(|e| e.text.len()).sum();
        while bytes > self.bytes_max && entries.len() > 1 {
            bytes -= entries.pop_front().map_or(0, |e| e.text.len());
        }
        handle
    }

    /// The text behind a handle.
    pub fn get(&self, handle: &str) -> Option<Arc<str>> {
        let mut entries = self.lock();
        let at = entries.iter().position(|e| e.handle == handle)?;
        let entry = entries.remove(at)?;
        let text = entry.text.clone();
        entries.push_back(entry);
        Some(text)
    }

    /// The handles, newest first, at most `count`.
    pub fn handles(&self, count: usize) -> Vec<String> {
        self.lock().iter().rev().take(count).map(|e| e.handle.clone()).collect()
    }

    /// The list is valid after each statement, so a poisoned lock is entered.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_has_the_same_handle_and_comes_back() {
        let stash = Stash::new(1_000);
        let handle = stash.put("shell", "hello");
        assert_eq!(handle, stash.put("shell", "hello"));
        assert_eq!(handle.strip_prefix("shell/").unwrap().len(), DIGITS);
        assert_eq!(&*stash.get(&handle).unwrap(), "hello");
        assert!(stash.get("shell/000000000000").is_none());
    }

    #[test]
    fn a_collision_is_given_a_longer_handle() {
        let stash = Stash::new(1_000);
        let handle = stash.put("shell", "hello");
        stash.lock()[0].text = "other".into();
        let longer = stash.put("shell", "hello");
        assert!(longer.starts_with(&handle) && longer.len() > handle.len());
        assert_eq!((&*stash.get(&handle).unwrap(), &*stash.get(&longer).unwrap()), ("other", "hello"));
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let stash = Stash::new(10);
        let (a, b) = (stash.put("t", "aaaa"), stash.put("t", "bbbb"));
        stash.get(&a);
        let c = stash.put("t", "cccc");
        assert!(stash.get(&b).is_none() && stash.get(&a).is_some() && stash.get(&c).is_some());
        let big = stash.put("t", "ddddddddddddddddd");
        assert_eq!(stash.handles(9), vec![big]);
    }
}
