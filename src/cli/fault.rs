//! What is wrong with a configuration, collected so that a person mends everything in one go.

use std::ffi::OsStr;
use std::fmt;

use crate::error::{Error, Stop};
use crate::limits;

/// One thing that is wrong, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// What it is about: `--workdir`, `OPENAI_API_KEY`; empty where the message says it.
    pub(super) subject: String,
    /// What is wrong and what to do. Holds no secret.
    pub(super) message: String,
    /// Why the run ends: the configuration, or what came while a prompt was awaited.
    pub(super) stop: Stop,
}

impl Fault {
    /// A fault of a flag or a variable.
    pub(super) fn new(subject: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault { subject: subject.into(), message: message.into(), stop: Stop::Config }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.subject.as_str() {
            "" => f.write_str(&self.message),
            subject => write!(f, "{subject}: {}", self.message),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error { stop: fault.stop, ..Error::config(fault.to_string()) }
    }
}

/// Faults in the order found, bounded: a command line of a million wrong words is answered in a few.
#[derive(Debug, Default)]
pub(super) struct Faults {
    kept: Vec<Fault>,
    more: usize,
}

impl Faults {
    /// Adds one.
    pub(super) fn push(&mut self, fault: Fault) {
        if self.kept.len() < limits::CONFIG_FAULTS_MAX {
            self.kept.push(fault);
        } else {
            self.more += 1;
        }
    }

    /// The value, or its fault is kept.
    pub(super) fn keep<T>(&mut self, result: Result<T, Fault>) -> Option<T> {
        result.map_err(|fault| self.push(fault)).ok()
    }

    /// Whether nothing is wrong so far.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// All of them; a last one counts those that were not kept.
    pub(super) fn into_vec(mut self) -> Vec<Fault> {
        if self.more > 0 {
            self.kept.push(Fault::new("", format!("{} more faults are not listed; mend these first", self.more)));
        }
        self.kept
    }
}

/// A value as a person may read it in a message: quoted, cut, without control characters.
pub(super) fn shown(value: impl AsRef<OsStr>) -> String {
    let text = value.as_ref().to_string_lossy();
    let mut out = String::from("'");
    let mut chars = text.chars();
    for c in chars.by_ref().take(limits::SHOWN_CHARS_MAX) {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    if chars.next().is_some() {
        out.push('…');
    }
    out.push('\'');
    out
}

/// The candidate that was probably meant, if one is near: the same but for case, underscores and a few slips, or begun alike.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > limits::SHOWN_CHARS_MAX {
        return None;
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace('_', "-");
    let word = plain(word);
    let slips_max = word.chars().count().div_ceil(4);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let other = plain(candidate);
        let mut slips = strsim::damerau_levenshtein(&word, &other);
        if word.len() >= 3 && (other.starts_with(&word) || word.starts_with(&other)) {
            slips = slips.min(slips_max);
        }
        if slips <= slips_max && best.is_none_or(|(least, _)| slips < least) {
            best = Some((slips, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The mend of an unknown name: what was probably meant, and what there is.
pub(super) fn choices(word: &str, names: &[&str]) -> String {
    match nearest(word, names.iter().copied()) {
        Some(near) => format!("did you mean {near}? There is: {}", names.join(", ")),
        None => format!("there is: {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_slip_case_underscores_and_a_beginning_find_the_name() {
        let names = ["prompt-file", "max-tokens", "max-turns", "timeout-ms", "tool", "workdir"];
        for (word, near) in [
            ("prompt", "prompt-file"),
            ("max_tokens", "max-tokens"),
            ("MaxTokens", "max-tokens"),
            ("max-turn", "max-turns"),
            ("timeout", "timeout-ms"),
            ("tools", "tool"),
            ("wrokdir", "workdir"),
        ] {
            assert_eq!(nearest(word, names), Some(near), "{word}");
        }
        for word in ["", "x", "isolate", "network", "to"] {
            assert_eq!(nearest(word, names), None, "{word}");
        }
        assert_eq!(nearest(&"a".repeat(1 << 20), names), None);
    }

    #[test]
    fn a_hostile_value_is_shown_short_and_without_control_characters() {
        assert_eq!(shown("a b"), "'a b'");
        assert_eq!(shown("a\n\u{1b}[2J"), "'a\\n\\u{1b}[2J'");
        assert_eq!(shown(OsStr::from_bytes(b"\xffx")), "'\u{fffd}x'");
        let long = shown("é".repeat(100_000));
        assert_eq!(long.chars().count(), limits::SHOWN_CHARS_MAX + 3);
    }

    #[test]
    fn faults_beyond_the_bound_are_counted() {
        let mut faults = Faults::default();
        for n in 0..limits::CONFIG_FAULTS_MAX + 5 {
            faults.push(Fault::new("--x", n.to_string()));
        }
        let faults = faults.into_vec();
        assert_eq!(faults.len(), limits::CONFIG_FAULTS_MAX + 1);
        assert!(faults.last().expect("not empty").to_string().starts_with("5 more faults"));
    }
}
