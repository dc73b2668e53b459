//! Makes what a model said fit for use: its calls run, and its turn goes back to the provider in a form that every API takes.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;

use serde_json::value::RawValue;

use super::types::{Block, Reply, TurnStop, Usage};
use crate::json::read::mend_surrogates;
use crate::json::write::push_str;

/// The longest name that APIs take back (bytes).
const NAME_BYTES_MAX: usize = 64;

/// Completes a decoded reply.
///
/// A call without arguments has an empty object, and half surrogates in its arguments are mended. A call whose id is missing,
/// or stands in the reply already, gets one that is new in the transcript: `made_up` counts them. A reply with calls waits for
/// their results whatever reason the server gave, unless it was cut or refused. Usage of nothing but zeros is none.
///
/// A call that a server left in the text as JSON stays text: only the agent knows which tools there are.
pub(super) fn settle(reply: &mut Reply, made_up: &Cell<u64>) {
    let mut ids = HashSet::new();
    let mut count = 0;
    for block in &mut reply.blocks {
        let Block::Call(call) = block else { continue };
        count += 1;
        call.args = match call.args.trim() {
            "" | "null" => "{}".to_owned(),
            _ => mended(std::mem::take(&mut call.args)),
        };
        if call.id.is_empty() || ids.contains(&call.id) {
            made_up.set(made_up.get() + 1);
            call.id = format!("gantry_{}", made_up.get());
        }
        ids.insert(call.id.clone());
    }
    match reply.stop {
        TurnStop::EndTurn | TurnStop::Pause if count > 0 => reply.stop = TurnStop::ToolUse,
        TurnStop::ToolUse if count == 0 => reply.stop = TurnStop::EndTurn,
        _ => {}
    }
    reply.usage = reply.usage.filter(|usage| *usage != Usage::default());
}

fn mended(args: String) -> String {
    let mut bytes = args.into_bytes();
    mend_surrogates(&mut bytes);
    String::from_utf8(bytes).expect("ASCII took the place of ASCII")
}

/// A call's arguments as an object that every API takes back. What is none is wrapped, so that the model sees what it wrote.
pub(super) fn object_text(args: &str) -> Cow<'_, str> {
    match serde_json::from_str::<&RawValue>(args) {
        Ok(raw) if raw.get().starts_with('{') => Cow::Borrowed(raw.get()),
        _ => {
            let mut out = b"{\"invalid_arguments\":".to_vec();
            push_str(&mut out, args);
            out.push(b'}');
            Cow::Owned(String::from_utf8(out).expect("escaped text is UTF-8"))
        }
    }
}

/// A tool's name as APIs take it back: models make up names with dots, blanks or other letters.
pub(super) fn replayable_name(name: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let mended: String = name.chars().take(NAME_BYTES_MAX).map(|c| if fits(c) { c } else { '_' }).collect();
    Cow::Owned(if mended.is_empty() { "unnamed".to_owned() } else { mended })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ToolCall;

    fn settled(stop: TurnStop, calls: &[(&str, &str)]) -> Reply {
        let call = |(id, args): &(&str, &str)| Block::Call(ToolCall { id: (*id).into(), name: "t".into(), args: (*args).into() });
        let mut reply = Reply { blocks: calls.iter().map(call).collect(), stop, stop_raw: String::new(), usage: Some(Usage::default()) };
        settle(&mut reply, &Cell::new(7));
        reply
    }

    #[test]
    fn absent_arguments_are_an_empty_object() {
        for args in ["", "  \n", "null", " null "] {
            assert_eq!(settled(TurnStop::ToolUse, &[("a", args)]).calls().next().unwrap().args, "{}", "{args:?}");
        }
    }

    #[test]
    fn half_surrogates_in_arguments_are_mended() {
        let reply = settled(TurnStop::ToolUse, &[("a", r#"{"text":"\ud83d\ude00 \ud83d"}"#)]);
        let args: serde_json::Value = serde_json::from_str(&reply.calls().next().unwrap().args).unwrap();
        assert_eq!(args["text"], "😀 \u{fffd}");
    }

    #[test]
    fn every_call_has_an_id_of_its_own() {
        let reply = settled(TurnStop::ToolUse, &[("", "{}"), ("a", "{}"), ("a", "{}"), ("", "{}")]);
        assert_eq!(reply.calls().map(|c| c.id.as_str()).collect::<Vec<_>>(), ["gantry_8", "a", "gantry_9", "gantry_10"]);
    }

    #[test]
    fn calls_decide_whether_the_turn_waits_unless_it_was_cut_or_refused() {
        let one = &[("a", "{}")];
        for (said, calls, meant) in [
            (TurnStop::EndTurn, &one[..], TurnStop::ToolUse),
            (TurnStop::Pause, one, TurnStop::ToolUse),
            (TurnStop::MaxTokens, one, TurnStop::MaxTokens),
            (TurnStop::Refusal, one, TurnStop::Refusal),
            (TurnStop::ContentFilter, one, TurnStop::ContentFilter),
            (TurnStop::ToolUse, &[], TurnStop::EndTurn),
            (TurnStop::Pause, &[], TurnStop::Pause),
        ] {
            assert_eq!(settled(said, calls).stop, meant, "{said:?} with {} calls", calls.len());
        }
    }

    #[test]
    fn usage_of_zeros_is_not_stated() {
        assert_eq!(settled(TurnStop::EndTurn, &[]).usage, None);
    }

    #[test]
    fn arguments_go_back_as_an_object() {
        for (args, replayed) in [
            ("{}", "{}"),
            (" {\"a\": 1.50}\n", "{\"a\": 1.50}"),
            ("[]", r#"{"invalid_arguments":"[]"}"#),
            (r#"{"path":"a"#, r#"{"invalid_arguments":"{\"path\":\"a"}"#),
            ("{}{}", r#"{"invalid_arguments":"{}{}"}"#),
            ("{\"a\":\"\u{1}\"}", r#"{"invalid_arguments":"{\"a\":\"\u0001\"}"}"#),
        ] {
            assert_eq!(object_text(args), replayed);
            assert!(serde_json::from_str::<serde_json::Map<_, _>>(&object_text(args)).is_ok(), "{args}");
        }
    }

    #[test]
    fn names_go_back_in_letters_that_apis_take() {
        for (name, replayed) in [
            ("read_file", "read_file"),
            ("multi_tool_use.parallel", "multi_tool_use_parallel"),
            ("default_api:x y", "default_api_x_y"),
            ("größe", "gr__e"),
            ("", "unnamed"),
        ] {
            assert_eq!(replayable_name(name), replayed);
        }
        assert_eq!(replayable_name(&"é".repeat(200)), "_".repeat(64));
        assert_eq!(replayable_name(&"x".repeat(65)), "x".repeat(64));
    }
}
