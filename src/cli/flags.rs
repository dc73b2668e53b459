//! What a run flag is. The rows are in [`super::table`]; the parser, help, docs/CLI.md and completions read nothing else.

use std::ffi::OsString;

use super::raw::RawArgs;
use super::table::FLAGS;

/// One run flag. Every flag takes one value, as `--flag value` or `--flag=value`.
pub(super) struct Flag {
    /// The name without dashes.
    pub(super) long: &'static str,
    /// How the help names the value.
    pub(super) value: &'static str,
    /// Whether and how often it is given.
    pub(super) need: Need,
    /// Where the help lists it.
    pub(super) group: Group,
    /// What a shell offers for the value.
    pub(super) complete: Complete,
    /// One sentence.
    pub(super) short: &'static str,
    /// What else there is to know, in whole sentences; may be empty.
    pub(super) long_doc: &'static str,
    /// The value that stands when the flag is not given, for the help.
    pub(super) default: Option<fn() -> String>,
    /// Reads the value; the error says what is wrong and how to mend it, without naming the flag.
    pub(super) set: fn(&mut RawArgs, OsString) -> Result<(), String>,
}

/// Whether and how often a flag is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Exactly once.
    Required,
    /// Once or not at all.
    Optional,
    /// Any number of times.
    Repeatable,
}

/// A chapter of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// What to do, where.
    Task,
    /// When to stop.
    Limits,
    /// Which model answers, and how it is reached.
    Model,
    /// What the model may do.
    Tools,
}

impl Group {
    /// Every chapter in the order of the help.
    pub(super) const ALL: [Group; 4] = [Group::Task, Group::Limits, Group::Model, Group::Tools];

    /// The heading.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Group::Task => "The task",
            Group::Limits => "Limits",
            Group::Model => "The model",
            Group::Tools => "Tools and skills",
        }
    }

    /// Its flags, in the order of the table.
    pub(super) fn flags(self) -> impl Iterator<Item = &'static Flag> {
        FLAGS.iter().filter(move |flag| flag.group == self)
    }
}

/// What a shell offers when the value is being typed.
pub(super) enum Complete {
    /// Nothing.
    Nothing,
    /// Files.
    File,
    /// Directories.
    Dir,
    /// These words.
    Words(fn() -> Vec<String>),
}

impl Flag {
    /// `--name <VALUE>`.
    pub(super) fn usage(&self) -> String {
        format!("--{} <{}>", self.long, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn flags_are_sorted_and_unique() {
        for pair in FLAGS.windows(2) {
            assert!(pair[0].long < pair[1].long, "{} before {}", pair[0].long, pair[1].long);
        }
    }

    #[test]
    fn names_and_values_are_well_formed() {
        for flag in FLAGS {
            assert!(flag.long.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "--{}", flag.long);
            assert!(!flag.value.is_empty() && flag.value == flag.value.to_ascii_uppercase(), "--{}", flag.long);
            assert!(!matches!(flag.long, "help" | "version"), "--{} is answered by the parser", flag.long);
        }
    }

    #[test]
    fn docs_are_sentences_and_short_ones_fit_a_line() {
        let mut seen = HashSet::new();
        for flag in FLAGS {
            assert!(flag.short.ends_with('.') && flag.short.len() <= 90, "--{}: {}", flag.long, flag.short.len());
            assert!(flag.long_doc.is_empty() || flag.long_doc.ends_with('.'), "--{}", flag.long);
            assert!(seen.insert(flag.short), "--{} says what another flag says", flag.long);
            if let Some(default) = flag.default {
                assert!(!default().is_empty(), "--{}", flag.long);
                assert_ne!(flag.need, Need::Required, "--{} is required and has a default", flag.long);
            }
        }
    }

    #[test]
    fn every_group_has_flags_and_no_flag_is_without_group() {
        assert!(Group::ALL.iter().all(|group| group.flags().next().is_some()));
        assert_eq!(Group::ALL.iter().map(|group| group.flags().count()).sum::<usize>(), FLAGS.len());
    }

    #[test]
    fn every_setter_refuses_an_empty_value_and_bytes_that_are_no_text_or_keeps_them_as_a_path() {
        use std::os::unix::ffi::OsStringExt;
        for flag in FLAGS {
            let mut raw = RawArgs::default();
            assert!((flag.set)(&mut raw, OsString::new()).is_err(), "--{} takes an empty value", flag.long);
            let binary = (flag.set)(&mut raw, OsString::from_vec(vec![b'x', 0xff]));
            let is_path = matches!(flag.complete, Complete::File | Complete::Dir);
            assert_eq!(binary.is_ok(), is_path, "--{}", flag.long);
        }
    }
}
