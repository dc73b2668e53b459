//! Recorded attempts: what `--record` writes and `--model replay/…` plays.
//!
//! A cassette is NDJSON: a head, then one line per attempt. It holds what the provider answered and which calls the request
//! answered, and nothing of what was sent: no key, no prompt. Playing goes through the same decoder as a live answer. An attempt
//! that is not there is an error and never a live call.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use bytes::Bytes;
use http::Uri;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::error::{Class, ProviderError};
use super::mask::Mask;
use super::types::Wire;
use crate::secret::Secret;

/// The cassette that is part of the binary.
const DEMO: &str = include_str!("demo.ndjson");
/// The version of the format.
const VERSION: u32 = 1;
/// The response headers that decide how an answer is read, beside the hint how long to wait and the target of a redirect.
const HEADERS_KEPT: [&str; 4] = ["content-type", "content-encoding", "request-id", "x-request-id"];
/// The kinds of failure that an answer's bytes do not tell.
const FAILURES: [Class; 5] = [Class::Transport, Class::Timeout, Class::Deadline, Class::Protocol, Class::BadRequest];
/// The pieces of one body that are told apart; the rest is one piece, since a server that sends single bytes without end would
/// fill the memory with lengths.
const CHUNKS_MAX: usize = 100_000;

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
struct Line {
    #[serde(flatten)]
    key: CallKey,
    /// The ids of the calls that the request brought the results of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    answers: Vec<String>,
    /// Absent when no answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    /// Lengths in bytes of the pieces in which the body arrived; empty: in one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    chunks: Vec<usize>,
    #[serde(default)]
    body: String,
    /// The body was no UTF-8: each of its bytes is one character of `body`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    bytewise: bool,
    /// What broke the attempt off, behind the status and the body that had come until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<Failed>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Failed {
    class: String,
    message: String,
}

/// A cassette that is played.
#[derive(Debug)]
pub struct Replay {
    wire: Wire,
    takes: HashMap<CallKey, Take>,
}

/// One attempt, as it is recorded and as it is played.
#[derive(Debug)]
pub(super) struct Take {
    key: CallKey,
    answers: Vec<String>,
    /// None when no answer came.
    pub(super) status: Option<u16>,
    pub(super) headers: HeaderMap,
    chunks: Vec<usize>,
    body: Vec<u8>,
    /// What broke the attempt off.
    pub(super) failed: Option<ProviderError>,
}

impl Take {
    /// An attempt that begins. `answers` are the ids of the calls whose results it brings.
    pub(super) fn begin(key: CallKey, answers: &[String]) -> Take {
        Take { key, answers: answers.to_vec(), status: None, headers: HeaderMap::new(), chunks: Vec::new(), body: Vec::new(), failed: None }
    }

    /// Takes the head of the answer: the headers that matter, and of a redirect no more than whereto.
    pub(super) fn head(&mut self, status: u16, headers: &HeaderMap) {
        self.status = Some(status);
        self.headers =
            headers.iter().filter(|(name, _)| HEADERS_KEPT.contains(&name.as_str())).map(|(n, v)| (n.clone(), v.clone())).collect();
        let target = headers.get(header::LOCATION).and_then(|l| l.to_str().ok()?.parse::<Uri>().ok());
        let origin = target.map(|to| to.host().map_or_else(|| "/".to_owned(), |host| format!("//{host}/")));
        self.headers.extend(origin.and_then(|to| to.parse().ok()).map(|to| (Some(header::LOCATION), to)));
    }

    /// Takes a piece of the body.
    pub(super) fn chunk(&mut self, chunk: &[u8]) {
        self.body.extend_from_slice(chunk);
        let full = self.chunks.len() == CHUNKS_MAX;
        match self.chunks.last_mut().filter(|_| full) {
            Some(last) => *last += chunk.len(),
            None => self.chunks.push(chunk.len()),
        }
    }

    /// Takes the failure that ended the attempt, so far as the answer does not tell it: a date to wait for lies in the past when
    /// it is played.
    pub(super) fn end(&mut self, error: &ProviderError) {
        let hint = error.retry_after.map(|hint| u64::try_from(hint.as_millis()).unwrap_or(u64::MAX));
        self.headers.extend(hint.map(|ms| (Some(HeaderName::from_static("retry-after-ms")), HeaderValue::from(ms))));
        if self.status.is_none() || matches!(error.class, Class::Transport | Class::Timeout | Class::Deadline) {
            self.failed = Some(error.clone());
        }
    }

    /// The body in the pieces in which it came.
    pub(super) fn pieces(&self) -> Vec<Bytes> {
        let mut body = Bytes::copy_from_slice(&self.body);
        if self.chunks.is_empty() { vec![body] } else { self.chunks.iter().map(|bytes| body.split_to(*bytes)).collect() }
    }

    fn from_line(line: Line) -> Result<Take, String> {
        let Line { key, answers, status, headers, chunks, body, bytewise, failed } = line;
        let body = if bytewise {
            body.chars().map(|c| u8::try_from(u32::from(c))).collect::<Result<_, _>>().map_err(|_| "`body` is not bytewise")?
        } else {
            body.into_bytes()
        };
        let cuts = chunks.iter().try_fold(0usize, |sum, bytes| sum.checked_add(*bytes));
        if !chunks.is_empty() && cuts != Some(body.len()) {
            return Err("`chunks` do not add up to the body".to_owned());
        }
        let pair = |(name, value): &(String, String)| {
            let parsed = name.parse::<HeaderName>().ok().zip(value.parse::<HeaderValue>().ok());
            parsed.ok_or_else(|| format!("`{name}` is no header"))
        };
        let headers = headers.iter().map(pair).collect::<Result<HeaderMap, String>>()?;
        let failure = |Failed { class, message }: Failed| {
            let class = FAILURES.into_iter().find(|known| known.name() == class);
            class.map(|class| ProviderError::new(class, message)).ok_or("`failed` has an unknown class")
        };
        let failed = failed.map(failure).transpose()?;
        if status.is_none() && failed.is_none() {
            return Err("neither `status` nor `failed` is there".to_owned());
        }
        Ok(Take { key, answers, status, headers, chunks, body, failed })
    }

    fn into_line(self, mask: &Mask) -> Line {
        let Take { key, answers, status, headers, mut chunks, body, failed } = self;
        let masked = mask.bytes(&body);
        if masked.len() != body.len() || chunks.len() < 2 {
            chunks.clear();
        }
        let (body, bytewise) = match String::from_utf8(masked.into_owned()) {
            Ok(text) => (text, false),
            Err(bytes) => (bytes.as_bytes().iter().copied().map(char::from).collect(), true),
        };
        let headers = headers.iter().filter_map(|(name, value)| Some((name.as_str().to_owned(), mask.text(value.to_str().ok()?))));
        let failed = failed.map(|error| Failed { class: error.class.name().to_owned(), message: mask.text(&error.message) });
        Line { key, answers, status, headers: headers.collect(), chunks, body, bytewise, failed }
    }
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
        let head: Head =
            serde_json::from_str(first).map_err(|e| fault(at, &format!("no cassette head, so --record did not write this file: {e}")))?;
        if head.cassette != VERSION {
            return Err(fault(at, &format!("format {} is unknown here, {VERSION} is read", head.cassette)));
        }
        let wire =
            Wire::ALL.into_iter().find(|w| w.name() == head.wire).ok_or_else(|| fault(at, &format!("unknown wire `{}`", head.wire)))?;
        let mut takes = HashMap::new();
        for (at, line) in lines {
            let line: Line = serde_json::from_str(line).map_err(|e| fault(at, &e.to_string()))?;
            let take = Take::from_line(line).map_err(|what| fault(at, &what))?;
            if let Some(old) = takes.insert(take.key.clone(), take) {
                let CallKey { agent, turn, attempt } = old.key;
                return Err(fault(at, &format!("agent {agent}, turn {turn}, attempt {attempt} is there twice")));
            }
        }
        Ok(Replay { wire, takes })
    }

    /// The wire that was recorded.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// The attempt of that key. The request must bring the results of exactly the calls that were answered then.
    pub(super) fn play(&self, key: &CallKey, answers: &[String]) -> Result<&Take, ProviderError> {
        let miss = |why: String| {
            let CallKey { agent, turn, attempt } = key;
            let message =
                format!("the cassette has no answer for agent {agent}, turn {turn}, attempt {attempt}: {why}; record again with --record");
            ProviderError::new(Class::ReplayMiss, message)
        };
        let take = self.takes.get(key).ok_or_else(|| miss("it was not recorded".into()))?;
        if take.answers != answers {
            return Err(miss(format!("the request brings results for {answers:?}, recorded were {:?}", take.answers)));
        }
        Ok(take)
    }
}

/// Writes a cassette, attempt by attempt.
pub struct Recorder {
    file: File,
    mask: Mask,
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
        Ok(Recorder { file, mask: Mask::new(secrets) })
    }

    /// Opens a file for a cassette, emptying what was there.
    ///
    /// # Errors
    /// Of open(2).
    pub fn create(path: &Path) -> io::Result<File> {
        use std::os::unix::fs::OpenOptionsExt;
        File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
    }

    /// Adds an attempt that has ended.
    pub(super) fn append(&mut self, take: Take) -> io::Result<()> {
        let mut line = serde_json::to_vec(&take.into_line(&self.mask))?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_built_in_cassette_is_whole() {
        assert!(!Replay::parse(Replay::built_in("demo").unwrap(), "demo").unwrap().takes.is_empty());
    }

    #[test]
    fn a_fault_names_file_and_line() {
        let line = |line: &str| format!("{{\"cassette\":1,\"wire\":\"openai-chat\"}}\n{line}");
        for (text, part) in [
            ("", ":1: the file is empty"),
            ("{}", ":1: no cassette head"),
            ("{\"cassette\":9,\"wire\":\"openai-chat\"}", ":1: format 9"),
            ("{\"cassette\":1,\"wire\":\"x\"}", "unknown wire `x`"),
            (&line("\n{\"agent\":1}"), ":3: "),
            (&line(r#"{"agent":"a","turn":0,"attempt":1}"#), ":2: neither"),
            (&line(r#"{"agent":"a","turn":0,"attempt":1,"status":200,"chunks":[9],"body":"x"}"#), ":2: `chunks`"),
            (&line(r#"{"agent":"a","turn":0,"attempt":1,"status":200,"chunks":[18446744073709551615,2],"body":"x"}"#), ":2: `chunks`"),
            (&line(r#"{"agent":"a","turn":0,"attempt":1,"status":200,"headers":[["a b","c"]]}"#), ":2: `a b`"),
            (&line(r#"{"agent":"a","turn":0,"attempt":1,"status":200,"bytewise":true,"body":"Ā"}"#), ":2: `body`"),
            (&line(r#"{"agent":"a","turn":0,"attempt":1,"failed":{"class":"x","message":""}}"#), ":2: `failed`"),
            (
                &line(concat!(
                    r#"{"agent":"a","turn":0,"attempt":1,"status":1}"#,
                    "\n",
                    r#"{"agent":"a","turn":0,"attempt":1,"status":1}"#
                )),
                ":3: ",
            ),
        ] {
            let error = Replay::parse(text, "f").err().unwrap();
            assert!(error.contains(part), "{error}");
        }
    }

    /// What was written, and the same read back.
    fn recorded(takes: Vec<Take>) -> (String, Replay) {
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let name = format!("gantry-cassette-{}-{}", std::process::id(), FILES.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let file = Recorder::create(&path).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let mut recorder = Recorder::begin(file, Wire::OpenAiChat, vec![Secret::new("sk-777")]).unwrap();
        takes.into_iter().for_each(|take| recorder.append(take).unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let replay = Replay::parse(&text, "f").unwrap();
        (text, replay)
    }

    fn key(attempt: u32) -> CallKey {
        CallKey { agent: "single".into(), turn: 0, attempt }
    }

    fn take(attempt: u32, chunks: &[&[u8]]) -> Take {
        let mut take = Take::begin(key(attempt), &["a".into()]);
        take.head(200, &HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"))]));
        chunks.iter().for_each(|chunk| take.chunk(chunk));
        take
    }

    fn played(replay: &Replay, attempt: u32) -> &Take {
        replay.play(&key(attempt), &["a".into()]).unwrap()
    }

    #[test]
    fn what_was_recorded_is_played_in_the_same_pieces() {
        let bodies: [&[&[u8]]; 5] = [&[b"d", b"ata: \xc3", b"\xa4\n\n"], &[b"one"], &[], &[b"not \xff utf-8\x00", b"\xfe"], &[b"\x80"]];
        let (_, replay) = recorded((0u32..).zip(bodies).map(|(n, chunks)| take(n, chunks)).collect());
        for (n, chunks) in (0u32..).zip(bodies) {
            let pieces = played(&replay, n).pieces();
            assert_eq!(pieces.iter().filter(|piece| !piece.is_empty()).collect::<Vec<_>>(), chunks);
            assert_eq!(played(&replay, n).headers["content-type"], "text/event-stream");
        }
    }

    #[test]
    fn no_secret_and_no_needless_header_is_written() {
        let mut take = take(1, &[b"the key sk-", b"777 echoed"]);
        let given = [
            ("content-type", "text/sk-777"),
            ("set-cookie", "session=1"),
            ("location", "https://user:pw@there.example/in?token=2"),
            ("x-request-id", "r1"),
        ];
        take.head(302, &given.iter().map(|(n, v)| (n.parse().unwrap(), v.parse().unwrap())).collect());
        take.end(&ProviderError::new(Class::Transport, "said sk-777"));
        let (text, replay) = recorded(vec![take]);
        for part in ["sk-777", "cookie", "token", "user", "pw@"] {
            assert!(!text.contains(part), "{part} in {text}");
        }
        let played = played(&replay, 1);
        assert_eq!(played.pieces().concat(), b"the key [secret] echoed");
        assert_eq!(
            (&played.headers["location"], &played.headers["x-request-id"]),
            (&"//there.example/".parse().unwrap(), &"r1".parse().unwrap())
        );
        assert_eq!(played.failed, Some(ProviderError::new(Class::Transport, "said [secret]")));
    }

    #[test]
    fn a_failure_is_kept_so_far_as_the_answer_does_not_tell_it() {
        let error = |class| ProviderError { retry_after: Some(Duration::from_millis(1_500)), ..ProviderError::new(class, "why") };
        let unanswered = |n, class| {
            let mut take = Take::begin(key(n), &["a".into()]);
            take.end(&error(class));
            take
        };
        let mut answered = take(9, &[b"{}"]);
        answered.end(&error(Class::RateLimited));
        let takes = (0..).zip(FAILURES).map(|(n, class)| unanswered(n, class)).chain([answered]).collect();
        let (_, replay) = recorded(takes);
        for (n, class) in (0..).zip(FAILURES) {
            assert_eq!((played(&replay, n).status, played(&replay, n).failed.as_ref().map(|e| e.class)), (None, Some(class)));
        }
        assert_eq!((&played(&replay, 9).failed, &played(&replay, 9).headers["retry-after-ms"]), (&None, &HeaderValue::from(1_500)));
    }

    #[test]
    fn the_lengths_of_pieces_are_bounded() {
        let mut take = take(1, &[]);
        (0..CHUNKS_MAX + 5).for_each(|_| take.chunk(b"x"));
        assert_eq!((take.chunks.len(), take.body.len()), (CHUNKS_MAX, CHUNKS_MAX + 5));
        assert_eq!(take.pieces().concat(), take.body);
    }

    #[test]
    fn another_call_or_other_results_are_a_miss() {
        let (_, replay) = recorded(vec![take(1, &[b"x"])]);
        for (key, answers) in
            [(key(2), &["a"][..]), (CallKey { turn: 1, ..key(1) }, &["a"]), (key(1), &[]), (key(1), &["a", "b"]), (key(1), &["b"])]
        {
            let answers: Vec<String> = answers.iter().map(|&id| id.to_owned()).collect();
            let error = replay.play(&key, &answers).unwrap_err();
            assert_eq!(error.class, Class::ReplayMiss);
            let place = format!("agent single, turn {}, attempt {}", key.turn, key.attempt);
            assert!(error.message.contains(&place) && error.message.contains("--record"), "{}", error.message);
        }
    }
}
