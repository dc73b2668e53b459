//! Recorded attempts: what `--record` writes and `--model replay/…` plays.
//!
//! A cassette is NDJSON: a head, then one line per attempt. It holds what the provider answered and which calls the request
//! answered, and nothing of what was sent: no key, no prompt. Playing goes through the same decoder as a live answer. An attempt
//! that is not there is an error and never a live call.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::error::{Class, ProviderError};
use super::types::Wire;
use crate::secret::Secret;

/// The cassette that is part of the binary.
const DEMO: &str = include_str!("demo.ndjson");
/// The version of the format.
const VERSION: u32 = 1;
/// The response headers that a decoder or the retry policy looks at.
pub(super) const HEADERS_KEPT: [&str; 4] = ["content-type", "retry-after", "retry-after-ms", "request-id"];
/// Shorter values are no secrets but placeholders (`x`, `local`), and would be found in half of all words.
pub(super) const SECRET_BYTES_MIN: usize = 6;
/// What stands in a recording where a secret was.
const MASK: &str = "[secret]";

#[derive(Serialize, Deserialize)]
struct Head {
    cassette: u32,
    wire: String,
}

/// Which attempt of which agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CallKey {
    /// The agent's role or name.
    pub agent: String,
    /// The turn, from 0.
    pub turn: u32,
    /// The attempt, from 1.
    pub attempt: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line<'a> {
    #[serde(flatten)]
    key: CallKey,
    /// The ids of the calls that the request brought the results of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    answers: Vec<String>,
    status: u16,
    headers: Vec<(String, String)>,
    /// Lengths of the pieces in which the body arrived; empty: in one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    chunks: Vec<usize>,
    body: Cow<'a, str>,
    /// The body broke off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

/// A cassette that is played.
#[derive(Debug)]
pub struct Replay {
    wire: Wire,
    lines: HashMap<CallKey, Line<'static>>,
}

/// One played answer.
pub(super) struct Played {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) chunks: Vec<Bytes>,
    pub(super) cut: bool,
}

impl Replay {
    /// The text of the cassette of that name in the binary.
    pub fn built_in(name: &str) -> Option<&'static str> {
        (name == "demo").then_some(DEMO)
    }

    /// Reads a cassette. `name` is the file's, for the errors.
    ///
    /// # Errors
    /// For a person: the file and the line.
    pub fn parse(text: &str, name: &str) -> Result<Replay, String> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let fault = |at: usize, what: &str| format!("cassette {name}:{}: {what}", at + 1);
        let (at, first) = lines.next().ok_or_else(|| fault(0, "the file is empty"))?;
        let head: Head = serde_json::from_str(first).map_err(|e| fault(at, &format!("no cassette head: {e}")))?;
        if head.cassette != VERSION {
            return Err(fault(at, &format!("format {} is unknown here, {VERSION} is read", head.cassette)));
        }
        let wire =
            Wire::ALL.into_iter().find(|w| w.name() == head.wire).ok_or_else(|| fault(at, &format!("unknown wire `{}`", head.wire)))?;
        let mut found = HashMap::new();
        for (at, line) in lines {
            let line: Line<'static> = serde_json::from_str(line).map_err(|e| fault(at, &e.to_string()))?;
            let cuts = line.chunks.iter().try_fold(0usize, |sum, n| sum.checked_add(*n));
            if !line.chunks.is_empty() && cuts != Some(line.body.len()) {
                return Err(fault(at, "`chunks` do not add up to the body"));
            }
            if let Some(old) = found.insert(line.key.clone(), line) {
                let CallKey { agent, turn, attempt } = old.key;
                return Err(fault(at, &format!("agent {agent}, turn {turn}, attempt {attempt} is there twice")));
            }
        }
        Ok(Replay { wire, lines: found })
    }

    /// The wire that was recorded.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    pub(super) fn play(&self, key: &CallKey, answers: &[String]) -> Result<Played, ProviderError> {
        let miss = |why: String| {
            let CallKey { agent, turn, attempt } = key;
            let message =
                format!("the cassette has no answer for agent {agent}, turn {turn}, attempt {attempt}: {why}; record again with --record");
            ProviderError::new(Class::ReplayMiss, message)
        };
        let line = self.lines.get(key).ok_or_else(|| miss("it was not recorded".into()))?;
        if line.answers != answers {
            return Err(miss(format!("the request brings results for {answers:?}, recorded were {:?}", line.answers)));
        }
        let mut body = Bytes::copy_from_slice(line.body.as_bytes());
        let chunks = if line.chunks.is_empty() { vec![body] } else { line.chunks.iter().map(|n| body.split_to(*n)).collect() };
        Ok(Played { status: line.status, headers: line.headers.clone(), chunks, cut: line.cut })
    }
}

/// Writes a cassette, attempt by attempt.
pub struct Recorder {
    file: File,
    secrets: Vec<Secret>,
}

/// One attempt that is being recorded.
pub(super) struct Take {
    pub(super) key: CallKey,
    pub(super) answers: Vec<String>,
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) chunks: Vec<usize>,
    pub(super) body: Vec<u8>,
    pub(super) cut: bool,
}

impl Recorder {
    /// Begins a cassette in a file that was opened for it, readable by its owner alone. `secrets` never reach it.
    ///
    /// # Errors
    /// When the head cannot be written.
    pub fn begin(mut file: File, wire: Wire, secrets: Vec<Secret>) -> io::Result<Recorder> {
        let mut line = serde_json::to_vec(&Head { cassette: VERSION, wire: wire.name().to_owned() })?;
        line.push(b'\n');
        file.write_all(&line)?;
        Ok(Recorder { file, secrets })
    }

    /// Opens a file for a cassette, emptying what was there.
    ///
    /// # Errors
    /// Of open(2).
    pub fn create(path: &Path) -> io::Result<File> {
        use std::os::unix::fs::OpenOptionsExt;
        File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
    }

    pub(super) fn append(&mut self, take: Take) -> io::Result<()> {
        let Take { key, answers, status, headers, mut chunks, body, cut } = take;
        // What is no UTF-8 is no answer of any wire; its lossy form fails in the decoder just the same.
        let text = String::from_utf8_lossy(&body);
        let masked = self.mask(&text);
        if masked.len() != body.len() || chunks.len() < 2 {
            chunks.clear();
        }
        let headers = headers.into_iter().map(|(name, value)| (name, self.mask(&value).into_owned())).collect();
        let mut line = serde_json::to_vec(&Line { key, answers, status, headers, chunks, body: masked, cut })?;
        line.push(b'\n');
        self.file.write_all(&line)
    }

    fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for secret in self.secrets.iter().map(Secret::expose).filter(|s| s.len() >= SECRET_BYTES_MIN) {
            if text.contains(secret) {
                text = Cow::Owned(text.replace(secret, MASK));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_cassette_is_whole() {
        assert!(!Replay::parse(Replay::built_in("demo").unwrap(), "demo").unwrap().lines.is_empty());
    }

    #[test]
    fn a_fault_names_file_and_line() {
        for (text, part) in [
            ("", ":1: the file is empty"),
            ("{}", ":1: no cassette head"),
            ("{\"cassette\":9,\"wire\":\"openai-chat\"}", ":1: format 9"),
            ("{\"cassette\":1,\"wire\":\"x\"}", "unknown wire `x`"),
            ("{\"cassette\":1,\"wire\":\"openai-chat\"}\n\n{\"agent\":1}", ":3: "),
        ] {
            let error = Replay::parse(text, "f").err().unwrap();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn what_was_recorded_is_played_and_secrets_are_not_in_it() {
        let path = std::env::temp_dir().join(format!("gantry-cassette-{}", std::process::id()));
        let mut recorder = Recorder::begin(Recorder::create(&path).unwrap(), Wire::OpenAiChat, vec![Secret::new("sk-777")]).unwrap();
        let key = CallKey { agent: "single".into(), turn: 0, attempt: 1 };
        let take = |body: &str, attempt| Take {
            key: CallKey { attempt, ..key.clone() },
            answers: vec!["a".into()],
            status: 200,
            headers: vec![("content-type".into(), "text/event-stream".into())],
            chunks: vec![1, body.len() - 1],
            body: body.as_bytes().to_vec(),
            cut: attempt == 2,
        };
        recorder.append(take("data: ä\n\n", 1)).unwrap();
        recorder.append(take("key sk-777 echoed", 2)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(!text.contains("sk-777"), "{text}");
        let replay = Replay::parse(&text, "f").unwrap();
        let played = replay.play(&key, &["a".into()]).unwrap();
        assert_eq!((played.chunks.len(), played.chunks.concat()), (2, "data: ä\n\n".as_bytes().to_vec()));
        let second = replay.play(&CallKey { attempt: 2, ..key.clone() }, &["a".into()]).unwrap();
        assert!(second.cut && second.chunks.concat() == b"key [secret] echoed");
        assert_eq!(replay.play(&key, &[]).err().unwrap().class, Class::ReplayMiss);
        assert_eq!(replay.play(&CallKey { turn: 1, ..key }, &[]).err().unwrap().class, Class::ReplayMiss);
    }
}
