//! What every request must keep to, whatever its content: the rules of its wire, and that a history only grows.
//!
//! The second is a promise about bytes and not about values: a provider's cache, and a transcript that is encoded once, both live
//! from it. So the raw text is compared.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::Wire;

/// The parts of a request that may not change from turn to turn, as they are written.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

/// What a request breaks. `before` is the body of the request before it on the same run.
pub fn violations(wire: Wire, body: &[u8], before: Option<&[u8]>) -> Vec<String> {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return vec!["the body is no JSON".to_owned()] };
    let mut found = (wire.row().rules)(&value);
    // A request that was no JSON has been named when it came.
    let earlier = before.and_then(|before| serde_json::from_slice::<Written<'_>>(before).ok());
    if let (Some(before), Ok(now)) = (earlier, serde_json::from_slice::<Written<'_>>(body)) {
        found.extend(changes(&before, &now).into_iter().map(str::to_owned));
    }
    found
}

fn changes(before: &Written<'_>, now: &Written<'_>) -> Vec<&'static str> {
    let text = |part: Option<&RawValue>| part.map_or("", RawValue::get).to_owned();
    let mut found = Vec::new();
    if text(before.system) != text(now.system) {
        found.push("the system prompt is not that of the request before");
    }
    if text(before.tools) != text(now.tools) {
        found.push("the tools are not those of the request before");
    }
    let (old, new) = (text(before.messages), text(now.messages));
    let kept = old.strip_suffix(']').unwrap_or(&old);
    if !new.strip_prefix(kept).is_some_and(|rest| rest.starts_with([',', ']'])) {
        found.push("the messages of the request before are no byte prefix of this one's");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(system: &str, tools: &str, messages: &str) -> String {
        format!(r#"{{"model":"m","max_tokens":1,"system":"{system}","tools":[{tools}],"messages":[{messages}],"stream":true}}"#)
    }

    fn found(before: &str, now: &str) -> String {
        violations(Wire::Anthropic, now.as_bytes(), Some(before.as_bytes())).join("\n")
    }

    const ASKED: &str = r#"{"role":"user","content":"a"}"#;
    const ANSWERED: &str = r#"{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}"#;

    #[test]
    fn a_history_may_stay_or_grow_at_its_end() {
        let before = body("s", "", ASKED);
        assert_eq!(found(&before, &before), "");
        assert_eq!(found(&before, &body("s", "", ANSWERED)), "");
    }

    #[test]
    fn a_history_that_is_written_anew_is_seen_even_when_it_means_the_same() {
        let before = body("s", "", ANSWERED);
        let spaced = ANSWERED.replacen(':', ": ", 1);
        let escaped = ANSWERED.replace("\"b\"", "\"\\u0062\"");
        for now in [ASKED, &spaced, &escaped, &ANSWERED.replace("\"c\"", "\"cc\"")] {
            assert!(found(&before, &body("s", "", now)).contains("no byte prefix"), "{now}");
        }
    }

    #[test]
    fn a_system_prompt_or_a_toolset_that_changes_is_seen() {
        let before = body("s", "", ASKED);
        assert!(found(&before, &body("s2", "", ASKED)).contains("system prompt"));
        assert!(found(&before, &body("s", r#"{"name":"a","input_schema":{"type":"object"}}"#, ASKED)).contains("the tools"));
    }

    #[test]
    fn a_body_that_is_no_json_is_named_once() {
        assert_eq!(violations(Wire::Chat, b"{", None), ["the body is no JSON"]);
        assert_eq!(found("{", &body("s", "", ASKED)), "");
    }
}
