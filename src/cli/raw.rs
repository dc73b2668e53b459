//! The command line as typed: split, each word read, nothing looked up. What it means is [`super::resolve`]'s to say.

use std::ffi::OsString;
use std::path::PathBuf;

use http::{HeaderName, HeaderValue};
use lexopt::{Arg, Parser};

use super::COMMANDS;
use super::fault::{Fault, Faults, nearest, shown};
use super::flags::Need;
use super::table::FLAGS;
use crate::provider::Effort;
use crate::run::plan::Mode;

/// The values of the flags. None or empty: not given, or given wrongly and reported.
#[derive(Debug, Default)]
pub(super) struct RawArgs {
    /// `--base-url`.
    pub(super) base_url: Option<String>,
    /// `--effort`.
    pub(super) effort: Option<Effort>,
    /// `--header`, in order.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// `--idle-timeout-ms`.
    pub(super) idle_timeout_ms: Option<u64>,
    /// `--inject-skill`.
    pub(super) skills: Vec<String>,
    /// `--max-output-tokens`.
    pub(super) max_output_tokens: Option<u64>,
    /// `--max-tokens`.
    pub(super) max_tokens: Option<u64>,
    /// `--max-turns`.
    pub(super) max_turns: Option<u64>,
    /// `--mode`.
    pub(super) mode: Option<Mode>,
    /// `--model`.
    pub(super) model: Option<String>,
    /// `--prompt-file`; `-` is stdin.
    pub(super) prompt_file: Option<PathBuf>,
    /// `--record`.
    pub(super) record: Option<PathBuf>,
    /// `--shell-allow`.
    pub(super) shell_allow: Vec<String>,
    /// `--shell-timeout-ms`.
    pub(super) shell_timeout_ms: Option<u64>,
    /// `--skills-dir`.
    pub(super) skills_dir: Option<PathBuf>,
    /// `--system-file`.
    pub(super) system_file: Option<PathBuf>,
    /// `--temperature`.
    pub(super) temperature: Option<f32>,
    /// `--timeout-ms`.
    pub(super) timeout_ms: Option<u64>,
    /// `--tool`.
    pub(super) tools: Vec<String>,
    /// `--workdir`.
    pub(super) workdir: Option<PathBuf>,
}

/// A person asked for words instead of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// `--help` or `-h`.
    Help,
    /// `--version` or `-V`.
    Version,
}

/// A command line, read.
#[derive(Debug, Default)]
pub(super) struct Typed {
    /// The values.
    pub(super) raw: RawArgs,
    /// What could not be read, and required flags that are not there.
    pub(super) faults: Faults,
    /// Set by the first flag that asks for words.
    pub(super) asked: Option<Asked>,
}

/// Reads the arguments of a run. A value is the next word as it is, also when it looks like a flag.
pub(super) fn parse(args: &[OsString]) -> Typed {
    let mut typed = Typed::default();
    // A misspelt command is no run with all its flags missing.
    if let Some(near) = args.first().and_then(meant_command) {
        let message = format!("{} is not a command; did you mean `gantry {near}`?", shown(&args[0]));
        typed.faults.push(Fault::new("", message));
        return typed;
    }
    let mut seen = vec![false; FLAGS.len()];
    let mut parser = Parser::from_args(args.iter().cloned());
    // The value of an unknown flag would be reported a second time, as a stray word.
    let mut after_unknown = false;
    loop {
        let was_after_unknown = std::mem::take(&mut after_unknown);
        match parser.next() {
            Ok(None) => break,
            Ok(Some(Arg::Long("help") | Arg::Short('h'))) => _ = typed.asked.get_or_insert(Asked::Help),
            Ok(Some(Arg::Long("version") | Arg::Short('V'))) => _ = typed.asked.get_or_insert(Asked::Version),
            Ok(Some(Arg::Long(name))) => match FLAGS.binary_search_by(|flag| flag.long.cmp(name)) {
                Ok(index) => take(&mut typed, &mut seen, index, &mut parser),
                Err(_) => {
                    typed.faults.push(unknown_flag(name));
                    // A value after `=` belongs to it too.
                    after_unknown = parser.optional_value().is_none();
                }
            },
            Ok(Some(Arg::Short(letter))) => {
                let rest = parser.optional_value().unwrap_or_default();
                typed.faults.push(unknown_short(letter, &rest.to_string_lossy()));
                after_unknown = true;
            }
            Ok(Some(Arg::Value(_))) if was_after_unknown => {}
            Ok(Some(Arg::Value(word))) => typed.faults.push(stray_word(&word)),
            Err(error) => typed.faults.push(Fault::new("", error.to_string())),
        }
    }
    for (flag, _) in FLAGS.iter().zip(&seen).filter(|(flag, seen)| flag.need == Need::Required && !**seen) {
        typed.faults.push(Fault::new(format!("--{}", flag.long), format!("missing; give {}: {}", flag.usage(), flag.short)));
    }
    typed
}

fn take(typed: &mut Typed, seen: &mut [bool], index: usize, parser: &mut Parser) {
    let flag = &FLAGS[index];
    let subject = format!("--{}", flag.long);
    let Ok(value) = parser.value() else {
        seen[index] = true;
        return typed.faults.push(Fault::new(subject, format!("no value follows; give {}", flag.usage())));
    };
    if seen[index] && flag.need != Need::Repeatable {
        return typed.faults.push(Fault::new(subject, "given more than once; give it once"));
    }
    seen[index] = true;
    if let Err(message) = (flag.set)(&mut typed.raw, value) {
        typed.faults.push(Fault::new(subject, message));
    }
}

fn unknown_flag(name: &str) -> Fault {
    // lexopt has split at `=`, so a value cannot be in the name.
    let subject = shown(format!("--{name}"));
    match nearest(name, FLAGS.iter().map(|flag| flag.long)) {
        Some(near) => Fault::new("", format!("{subject} is not a flag; did you mean --{near}?")),
        None => Fault::new("", format!("{subject} is not a flag; `gantry help` lists them all")),
    }
}

fn unknown_short(letter: char, rest: &str) -> Fault {
    let name = rest.split('=').next().unwrap_or_default();
    let name = format!("{letter}{name}");
    let subject = shown(format!("-{name}"));
    match nearest(&name, FLAGS.iter().map(|flag| flag.long)) {
        Some(near) => Fault::new("", format!("{subject} is not a flag; did you mean --{near}?")),
        None => Fault::new("", format!("{subject} is not a flag: all flags are written in full, with two dashes")),
    }
}

fn stray_word(word: &OsString) -> Fault {
    let message = "belongs to no flag; a run is told by flags alone, and the prompt goes into --prompt-file";
    Fault::new("", format!("{} {message}", shown(word)))
}

fn meant_command(word: &OsString) -> Option<&'static str> {
    nearest(word.to_str().filter(|word| !word.starts_with('-'))?, COMMANDS.iter().filter(|row| !row.hidden).map(|row| row.name))
}
