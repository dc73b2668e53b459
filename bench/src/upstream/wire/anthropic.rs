//! Anthropic's Messages wire: its events, and the rules by which it refuses a request.

use serde_json::{Value, json};

use super::{Faults, Row, Wire, check_tools, count_key, items, name_fits, word};
use crate::upstream::turn::{Turn, halves};

pub(super) const ROW: Row = Row {
    wire: Wire::Anthropic,
    name: "anthropic",
    render,
    error_event,
    unknown_event: "event: vertex_event\ndata: {\"type\":\"vertex_event\",\"foo\":1}\n\n",
    rules,
};

fn push(out: &mut Vec<u8>, value: &Value) {
    out.extend_from_slice(format!("event: {}\ndata: {value}\n\n", word(&value["type"])).as_bytes());
}

fn error_event(kind: &str, message: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out, &json!({"type": "error", "error": {"type": kind, "message": message}}));
    out
}

fn render(turn: &Turn) -> Vec<u8> {
    let [input, output, read, write] = turn.counts();
    let mut out = Vec::new();
    let mut message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": []});
    if !turn.no_usage {
        message["usage"] =
            json!({"input_tokens": input, "cache_read_input_tokens": read, "cache_creation_input_tokens": write, "output_tokens": 1});
    }
    push(&mut out, &json!({"type": "message_start", "message": message}));
    push(&mut out, &json!({"type": "ping"}));
    for (index, (start, deltas)) in blocks(turn).into_iter().enumerate() {
        push(&mut out, &json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            push(&mut out, &json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        push(&mut out, &json!({"type": "content_block_stop", "index": index}));
    }
    let stop = turn.stop_or("end_turn", "tool_use");
    let mut delta = json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}});
    if !turn.no_usage {
        delta["usage"] = json!({"output_tokens": output});
    }
    push(&mut out, &delta);
    push(&mut out, &json!({"type": "message_stop"}));
    out
}

/// The content blocks of a turn: how each starts, and its deltas.
fn blocks(turn: &Turn) -> Vec<(Value, Vec<Value>)> {
    let mut blocks = Vec::new();
    if let Some((text, signature)) = &turn.thinking {
        let deltas = vec![json!({"type": "thinking_delta", "thinking": text}), json!({"type": "signature_delta", "signature": signature})];
        blocks.push((json!({"type": "thinking", "thinking": "", "signature": ""}), deltas));
    }
    if !turn.text.is_empty() {
        let deltas = halves(&turn.text).map(|t| json!({"type": "text_delta", "text": t})).collect();
        blocks.push((json!({"type": "text", "text": ""}), deltas));
    }
    for call in &turn.calls {
        let deltas = halves(&call.args).map(|a| json!({"type": "input_json_delta", "partial_json": a})).collect();
        blocks.push((json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}), deltas));
    }
    blocks
}

fn rules(body: &Value) -> Vec<String> {
    let mut faults = Faults::default();
    for key in ["model", "max_tokens", "messages"] {
        faults.when(body.get(key).is_none(), &format!("{key}: field required"));
    }
    faults.when(body["max_tokens"].as_u64() == Some(0), "max_tokens: must be at least 1");
    faults.when(count_key(body, "cache_control") > 4, "more than 4 cache breakpoints");
    let tools: Vec<_> = items(&body["tools"]).iter().map(|t| (&t["name"], &t["input_schema"])).collect();
    check_tools(&tools, &mut faults);
    faults.when(body.get("tool_choice").is_some() && tools.is_empty(), "tool_choice without tools");
    let messages = items(&body["messages"]);
    faults.when(messages.first().is_none_or(|m| m["role"] != "user"), "the first message is not the user's");
    faults.when(messages.last().is_some_and(|m| m["role"] != "user"), "the last message is not the user's");
    let mut open: Vec<&str> = Vec::new();
    let mut issued: Vec<&str> = Vec::new();
    for message in messages {
        check_results(message, &open, &mut faults);
        check_blocks(message, &mut faults);
        open = items(&message["content"]).iter().filter(|b| b["type"] == "tool_use").map(|b| word(&b["id"])).collect();
        for id in &open {
            faults.when(issued.contains(id), &format!("tool_use ids must be unique: {id:?}"));
            issued.push(id);
        }
    }
    faults.found
}

/// Every call is answered once, in the very next message, before anything else is said there.
fn check_results(message: &Value, open: &[&str], faults: &mut Faults) {
    let content = items(&message["content"]);
    let answers: Vec<&str> = content.iter().filter(|b| b["type"] == "tool_result").map(|b| word(&b["tool_use_id"])).collect();
    let (mut wanted, mut given) = (open.to_vec(), answers.clone());
    wanted.sort_unstable();
    given.sort_unstable();
    faults.when(wanted != given, &format!("tool_use ids {open:?} are answered by {answers:?}"));
    let front = content.iter().take(answers.len()).all(|b| b["type"] == "tool_result");
    faults.when(!front, "tool results do not stand before other content");
}

fn check_blocks(message: &Value, faults: &mut Faults) {
    let role = word(&message["role"]);
    faults.when(!["user", "assistant"].contains(&role), &format!("the role {role:?} is none"));
    let content = items(&message["content"]);
    // A content that is one string is another spelling of one text block.
    let bare = word(&message["content"]);
    faults.when(content.is_empty() && bare.trim().is_empty(), "a message without content");
    for block in content {
        match word(&block["type"]) {
            "text" => faults.when(word(&block["text"]).trim().is_empty(), "a text block is blank"),
            "thinking" => faults.when(word(&block["signature"]).is_empty(), "thinking.signature: field required"),
            "tool_use" => {
                faults.when(!block["input"].is_object(), "tool_use.input is no object");
                faults.when(!name_fits(word(&block["name"])), "tool_use.name has letters that are not allowed");
                faults.when(role != "assistant", "tool_use in a message that is not the assistant's");
            }
            "tool_result" => faults.when(role != "user", "tool_result in a message that is not the user's"),
            "redacted_thinking" | "image" | "document" => {}
            other => faults.say(format!("a block of type {other:?}")),
        }
    }
    let thinks_last = content.last().is_some_and(|b| ["thinking", "redacted_thinking"].contains(&word(&b["type"])));
    faults.when(thinks_last, "the last block of a message is thinking");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_these_bytes() {
        let turn = Turn::new().thinking("hm", "sg").text("ab").call_with_id("t1", "grep", "{}").usage([1, 2, 3, 4]);
        assert_eq!(String::from_utf8(render(&turn)).unwrap(), include_str!("anthropic_turn.sse"));
    }

    fn found(body: &Value) -> String {
        rules(body).join("\n")
    }

    #[test]
    fn a_history_with_calls_and_results_is_accepted() {
        let body = json!({"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": "a", "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "1", "name": "a", "input": {}}, {"type": "tool_use", "id": "2", "name": "a", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "2"}, {"type": "tool_result", "tool_use_id": "1"}, {"type": "text", "text": "now"}]}]});
        assert_eq!(found(&body), "");
    }

    #[test]
    fn each_rule_is_named_when_it_is_broken() {
        let marker = json!({"cache_control": {}});
        let body = json!({"model": "m", "max_tokens": 0, "a": [marker, marker, marker, marker, marker], "tool_choice": {},
            "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "a b", "input": []}]},
                {"role": "user", "content": [{"type": "text", "text": " "}, {"type": "tool_result", "tool_use_id": "y"}]},
                {"role": "system", "content": []},
                {"role": "user", "content": [{"type": "tool_use", "id": "x", "name": "a", "input": {}}, {"type": "novel"}]},
                {"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "x"}, {"type": "thinking", "thinking": "t"}]}]});
        let found = found(&body);
        for part in [
            "at least 1",
            "more than 4",
            "tool_choice without",
            "first message",
            "last message",
            "[\"x\"] are answered by [\"y\"]",
            "before other content",
            "\"system\" is none",
            "without content",
            "is blank",
            "signature",
            "no object",
            "letters",
            "not the assistant's",
            "tool_result in a message",
            "\"novel\"",
            "is thinking",
            "unique: \"x\"",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
        let tools = json!({"tools": [{"name": "a", "input_schema": {}}, {"name": "a", "input_schema": {"type": "object"}}, {"name": "é"}]});
        let found = rules(&tools).join("\n");
        for part in ["model: field", "schema of \"a\"", "\"a\" stands there twice", "\"é\" is no name"] {
            assert!(found.contains(part), "{part}: {found}");
        }
    }
}
