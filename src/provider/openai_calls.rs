//! Assembles tool calls from fragments, as differently as servers of the Chat Completions wire cut them.
//!
//! Some give each call its index and send fragments of several in turn; some give all calls the same index, or none; some
//! repeat id and name with every fragment, or make up a new id each time; some send no id at all, or a whole call at once.

use super::types::ToolCall;
use crate::limits;

/// Calls of one answer beyond which it is none any more.
const CALLS_MAX: usize = limits::CALLS_PER_TURN_MAX * 4;

/// An answer has more calls than it can have.
pub(super) struct TooMany;

/// The calls of one answer in the making, in the order in which they began.
#[derive(Default)]
pub(super) struct Calls(Vec<(Option<u64>, ToolCall)>);

impl Calls {
    /// Adds a fragment to the call it belongs to, or begins one. What a fragment lacks is empty.
    pub(super) fn take(&mut self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> Result<(), TooMany> {
        match self.place(index, id, name, arguments) {
            Some(at) => {
                let call = &mut self.0[at].1;
                if call.id.is_empty() {
                    call.id.push_str(id);
                }
                if call.name.is_empty() {
                    call.name.push_str(name);
                }
                call.args.push_str(arguments);
            }
            None if self.0.len() >= CALLS_MAX => return Err(TooMany),
            None => self.0.push((index, ToolCall { id: id.to_owned(), name: name.to_owned(), args: arguments.to_owned() })),
        }
        Ok(())
    }

    /// The call that a fragment continues; none when it begins one.
    ///
    /// An index alone does not tell. A fragment with a name begins a call when it differs from the call at hand in id or name,
    /// or when that one's arguments are complete already; servers that merely repeat the name do neither.
    fn place(&self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> Option<usize> {
        let may_be = |of: Option<u64>| index.is_none() || of.is_none() || of == index;
        if !id.is_empty()
            && let Some(at) = self.0.iter().rposition(|(of, call)| call.id == id && may_be(*of))
        {
            return Some(at);
        }
        let at = match index {
            Some(_) => self.0.iter().rposition(|(of, _)| *of == index)?,
            None => self.0.len().checked_sub(1)?,
        };
        let call = &self.0[at].1;
        let another_id = !id.is_empty() && !call.id.is_empty();
        let begins = another_id || name != call.name || (!arguments.is_empty() && is_complete(&call.args));
        let named = !name.is_empty() && !call.name.is_empty();
        (!(named && begins)).then_some(at)
    }

    /// The calls in the order of their indices; when not all have one, in the order in which they began.
    pub(super) fn finish(mut self) -> Vec<ToolCall> {
        if self.0.iter().all(|(index, _)| index.is_some()) {
            self.0.sort_by_key(|(index, _)| *index);
        }
        self.0.into_iter().map(|(_, call)| call).collect()
    }
}

/// Whether arguments are a whole JSON object.
fn is_complete(args: &str) -> bool {
    args.trim_end().ends_with('}') && serde_json::from_str::<serde::de::IgnoredAny>(args).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fragment<'a> = (Option<u64>, &'a str, &'a str, &'a str);

    /// The calls that fragments make, each as `id name args`.
    fn calls(fragments: &[Fragment<'_>]) -> Vec<String> {
        let mut calls = Calls::default();
        for (index, id, name, arguments) in fragments {
            calls.take(*index, id, name, arguments).ok().unwrap();
        }
        calls.finish().into_iter().map(|c| format!("{} {} {}", c.id, c.name, c.args)).collect()
    }

    #[test]
    fn fragments_go_by_index_with_gaps_and_in_any_order() {
        let got = calls(&[
            (Some(20_000), "b", "two", ""),
            (Some(3), "a", "one", "{\"x\":"),
            (Some(20_000), "", "", "{\"y\""),
            (Some(3), "", "", "1}"),
            (Some(20_000), "", "", ":2}"),
        ]);
        assert_eq!(got, ["a one {\"x\":1}", "b two {\"y\":2}"]);
    }

    #[test]
    fn calls_under_one_index_are_told_apart() {
        let by_id = [(Some(0), "a", "read", "{}"), (Some(0), "b", "read", "{\"p\":"), (Some(0), "", "", "2}")];
        assert_eq!(calls(&by_id), ["a read {}", "b read {\"p\":2}"]);
        let by_name = [(Some(0), "", "read", "{}"), (Some(0), "", "write", "{}"), (Some(0), "x", "grep", "")];
        assert_eq!(calls(&by_name), [" read {}", " write {}", "x grep "]);
        let by_completion = [(Some(0), "", "read", "{\"p\":1}"), (Some(0), "", "read", "{\"p\":"), (Some(0), "", "read", "2}")];
        assert_eq!(calls(&by_completion), [" read {\"p\":1}", " read {\"p\":2}"]);
    }

    #[test]
    fn calls_without_an_index_follow_each_other() {
        let got = calls(&[(None, "a", "read", "{}"), (None, "b", "list", ""), (None, "", "grep", "{\"q\":"), (None, "", "", "3}")]);
        assert_eq!(got, ["a read {}", "b list ", " grep {\"q\":3}"]);
    }

    #[test]
    fn what_is_repeated_with_every_fragment_begins_no_call() {
        let first = (Some(0), "a", "read", "{\"p\":");
        for (second, third) in [
            ((Some(0), "a", "read", "1}"), (Some(0), "a", "", "")),
            ((Some(0), "a", "read", "1}"), (Some(0), "a", "read", "")),
            ((Some(0), "", "read", "1}"), (Some(0), "", "read", "")),
            ((Some(0), "new", "", "1}"), (Some(0), "newer", "", "")),
            ((None, "a", "", "1}"), (None, "", "", "")),
        ] {
            assert_eq!(calls(&[first, second, third]), ["a read {\"p\":1}"], "{second:?} {third:?}");
        }
    }

    #[test]
    fn id_and_name_may_come_late() {
        assert_eq!(calls(&[(Some(0), "", "", "{"), (Some(0), "", "read", ""), (Some(0), "a", "", "}")]), ["a read {}"]);
    }

    #[test]
    fn one_id_under_two_indices_is_two_calls() {
        assert_eq!(calls(&[(Some(0), "a", "read", "1"), (Some(1), "a", "read", "2")]), ["a read 1", "a read 2"]);
    }

    #[test]
    fn more_calls_than_an_answer_can_have_are_refused() {
        let mut calls = Calls::default();
        for i in 0..CALLS_MAX as u64 {
            assert!(calls.take(Some(i), "", "t", "").is_ok());
        }
        assert!(calls.take(Some(0), "", "", "{}").is_ok());
        assert!(calls.take(Some(u64::MAX), "", "t", "").is_err());
    }
}
