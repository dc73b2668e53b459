//! Where the originals of shortened outputs stay, so that the model can get back what was left out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A content-addressed store, bounded in bytes; the one that was used longest ago goes first. Thread-safe.
pub struct Stash {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// The one used last is at the back. A run has some hundreds at most, so a walk is fast enough.
    entries: VecDeque<Entry>,
    bytes: usize,
}

struct Entry {
    handle: String,
    text: Arc<str>,
}

impl Entry {
    /// What the entry takes: its text, and about as much as two allocations and the place in the queue need.
    fn bytes(&self) -> usize {
        self.text.len() + 128
    }
}

/// Hex digits of a handle, by the contract.
const DIGITS: usize = 12;

impl Stash {
    /// An empty stash that holds at most so many bytes (and always the newest entry).
    pub fn new(bytes_max: usize) -> Stash {
        Stash { bytes_max, held: Mutex::default() }
    }

    /// Keeps a text and gives its handle, `<tool>/<12 hex digits>` of its BLAKE3. The same text has the same handle; should
    /// another text be held under it, the digits go on until they differ, so that none is served for the other.
    pub fn put(&self, tool: &str, text: &str) -> String {
        let digest = blake3::hash(text.as_bytes()).to_hex();
        let mut held = self.lock();
        for digits in (DIGITS..=digest.len()).step_by(4) {
            let handle = format!("{tool}/{}", &digest[..digits]);
            match held.touch(&handle) {
                None => {
                    held.push(Entry { handle: handle.clone(), text: text.into() }, self.bytes_max);
                    return handle;
                }
                Some(entry) if *entry.text == *text => return handle,
                Some(_) => {}
            }
        }
        unreachable!("two texts have never shared a whole BLAKE3 digest")
    }

    /// The text behind a handle.
    pub fn get(&self, handle: &str) -> Option<Arc<str>> {
        self.lock().touch(handle).map(|entry| entry.text.clone())
    }

    /// The handles, newest first, at most `count`.
    pub fn handles(&self, count: usize) -> Vec<String> {
        self.lock().entries.iter().rev().take(count).map(|e| e.handle.clone()).collect()
    }

    /// No statement under the lock panics half-way, so a poisoned one is entered.
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// The entry of a handle, which becomes the one used last.
    fn touch(&mut self, handle: &str) -> Option<&Entry> {
        let at = self.entries.iter().position(|e| e.handle == handle)?;
        let entry = self.entries.remove(at)?;
        self.entries.push_back(entry);
        self.entries.back()
    }

    /// Adds an entry and drops old ones until the rest is within the bound.
    fn push(&mut self, entry: Entry, bytes_max: usize) {
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        while self.bytes > bytes_max && self.entries.len() > 1 {
            self.bytes -= self.entries.pop_front().map_or(0, |e| e.bytes());
        }
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
        let digits = handle.strip_prefix("shell/").unwrap();
        assert!(digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{handle}");
        assert_eq!(&*stash.get(&handle).unwrap(), "hello");
        assert_ne!(handle, stash.put("grep", "hello"));
        assert!(stash.get("shell/000000000000").is_none());
    }

    #[test]
    fn a_collision_is_given_a_longer_handle() {
        let stash = Stash::new(1_000);
        let handle = stash.put("shell", "hello");
        // As if another text had the same first digits.
        stash.lock().entries[0].text = "other".into();
        let longer = stash.put("shell", "hello");
        assert!(longer.starts_with(&handle) && longer.len() > handle.len());
        assert_eq!((&*stash.get(&handle).unwrap(), &*stash.get(&longer).unwrap()), ("other", "hello"));
        assert_eq!(stash.put("shell", "hello"), longer);
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let texts: Vec<String> = (0..4).map(|i| i.to_string().repeat(1_000)).collect();
        let stash = Stash::new(2_500);
        let (a, b) = (stash.put("t", &texts[0]), stash.put("t", &texts[1]));
        stash.get(&a);
        let c = stash.put("t", &texts[2]);
        assert!(stash.get(&b).is_none() && stash.get(&a).is_some() && stash.get(&c).is_some());
        stash.put("t", &texts[0]);
        stash.put("t", &texts[3]);
        assert!(stash.get(&c).is_none() && stash.get(&a).is_some());
        let big = stash.put("t", &"x".repeat(9_000));
        assert_eq!(stash.handles(9), vec![big]);
    }

    #[test]
    fn what_is_held_stays_within_the_bound_and_is_counted_right() {
        let stash = Stash::new(10_000);
        for i in 0..500usize {
            stash.put("t", &i.to_string().repeat(i % 90));
            let held = stash.lock();
            assert_eq!(held.bytes, held.entries.iter().map(Entry::bytes).sum::<usize>());
            assert!(held.bytes <= 10_000);
        }
    }

    #[test]
    fn threads_share_it_also_after_one_panicked() {
        let stash = Stash::new(1 << 20);
        std::thread::scope(|scope| {
            let poison = scope.spawn(|| {
                let _held = stash.lock();
                panic!("on purpose");
            });
            assert!(poison.join().is_err());
            for thread in 0..4 {
                let stash = &stash;
                scope.spawn(move || {
                    for i in 0..100 {
                        let text = format!("{thread} {i}");
                        assert_eq!(&*stash.get(&stash.put("t", &text)).unwrap(), text);
                    }
                });
            }
        });
        assert_eq!(stash.handles(1_000).len(), 400);
    }
}
