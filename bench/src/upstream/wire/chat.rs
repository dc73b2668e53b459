//! OpenAI's Chat Completions wire: its chunks, and the rules by which it and its many copies refuse a request.

use serde_json::{Value, json};

use super::{Faults, Row, Wire, check_tools, items, name_fits, word};
use crate::upstream::turn::{Turn, halves};

pub(super) const ROW: Row = Row {
    wire: Wire::Chat,
    name: "chat",
    render,
    error_event,
    unknown_event: "event: gateway.trace\ndata: {\"object\":\"gateway.trace\",\"choices\":[]}\n\n",
    rules,
};

const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

fn push(out: &mut Vec<u8>, value: &Value) {
    out.extend_from_slice(format!("data: {value}\n\n").as_bytes());
}

fn error_event(kind: &str, message: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out, &json!({"error": {"type": kind, "code": kind, "message": message}}));
    out
}

fn chunk(choices: &Value) -> Value {
    json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": choices})
}

fn render(turn: &Turn) -> Vec<u8> {
    let [input, output, read, write] = turn.counts();
    let mut out = Vec::new();
    for delta in deltas(turn) {
        push(&mut out, &chunk(&json!([{"index": 0, "delta": delta, "finish_reason": null}])));
    }
    push(&mut out, &chunk(&json!([{"index": 0, "delta": {}, "finish_reason": turn.stop_or("stop", "tool_calls")}])));
    if !turn.no_usage {
        let prompt = input + read + write;
        let mut last = chunk(&json!([]));
        last["usage"] = json!({"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": write}});
        push(&mut out, &last);
    }
    out.extend_from_slice(b"data: [DONE]\n\n");
    out
}

fn deltas(turn: &Turn) -> Vec<Value> {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    if let Some((text, field)) = &turn.thinking {
        deltas.push(json!({field.as_str(): text}));
    }
    deltas.extend(halves(&turn.text).map(|text| json!({"content": text})));
    for (index, call) in turn.calls.iter().enumerate() {
        let begin = json!({"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}});
        deltas.push(json!({"tool_calls": [begin]}));
        deltas.extend(halves(&call.args).map(|part| json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]})));
    }
    deltas
}

fn rules(body: &Value) -> Vec<String> {
    let mut faults = Faults::default();
    for key in ["model", "messages"] {
        faults.when(body.get(key).is_none(), &format!("{key}: field required"));
    }
    faults.when(body.get("stream_options").is_some() && body["stream"] != true, "stream_options without stream");
    faults.when(body["tools"].as_array().is_some_and(Vec::is_empty), "an empty array of tools");
    let tools: Vec<_> = items(&body["tools"]).iter().map(|t| (&t["function"]["name"], &t["function"]["parameters"])).collect();
    check_tools(&tools, &mut faults);
    faults.when(body.get("tool_choice").is_some() && tools.is_empty(), "tool_choice without tools");
    let mut open: Vec<&str> = Vec::new();
    let messages = items(&body["messages"]);
    faults.when(messages.is_empty(), "no messages");
    for (at, message) in messages.iter().enumerate() {
        let role = word(&message["role"]);
        faults.when(!ROLES.contains(&role), &format!("the role {role:?} is none"));
        faults.when(["system", "developer"].contains(&role) && at > 0, "a system message that is not the first");
        if role == "tool" {
            let id = word(&message["tool_call_id"]);
            match open.iter().position(|o| *o == id) {
                Some(at) => drop(open.remove(at)),
                None => faults.say(format!("a tool message answers {id:?}, which no call asked")),
            }
            faults.when(!message["content"].is_string() && !message["content"].is_array(), "a tool message without content");
            continue;
        }
        faults.when(!open.is_empty(), &format!("calls {open:?} have no answer"));
        check_content(message, &mut faults);
        open = check_calls(message, &mut faults);
    }
    faults.when(!open.is_empty(), &format!("calls {open:?} have no answer"));
    faults.found
}

fn check_content(message: &Value, faults: &mut Faults) {
    let content = &message["content"];
    let says = content.is_string() && (message["role"] == "assistant" || !word(content).is_empty()) || !items(content).is_empty();
    let calls = message["role"] == "assistant" && message.get("tool_calls").is_some();
    faults.when(!says && !calls, "a message without content");
}

/// Checks the calls of a message, and returns their ids.
fn check_calls<'a>(message: &'a Value, faults: &mut Faults) -> Vec<&'a str> {
    let mut ids: Vec<&str> = Vec::new();
    faults.when(message["tool_calls"].as_array().is_some_and(Vec::is_empty), "an empty array of tool calls");
    for call in items(&message["tool_calls"]) {
        let (id, name, args) = (word(&call["id"]), word(&call["function"]["name"]), word(&call["function"]["arguments"]));
        faults.when(call["type"] != "function", "a call that is not of type function");
        faults.when(!name_fits(name), &format!("the function's name {name:?} has letters that are not allowed"));
        let object = serde_json::from_str::<Value>(args).is_ok_and(|v| v.is_object());
        faults.when(!object, &format!("the function's arguments {args:?} are no JSON object"));
        faults.when(id.is_empty() || ids.contains(&id), &format!("the call's id {id:?} is not its own"));
        ids.push(id);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_these_bytes() {
        let turn = Turn::new().thinking("hm", "reasoning_content").text("ab").call_with_id("t1", "grep", "{}").usage([1, 2, 3, 4]);
        assert_eq!(String::from_utf8(render(&turn)).unwrap(), include_str!("chat_turn.sse"));
    }

    #[test]
    fn a_history_with_calls_and_results_is_accepted() {
        let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "a", "arguments": "{}"}});
        let body = json!({"model": "m", "stream": true, "stream_options": {}, "tool_choice": "none",
            "tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}}],
            "messages": [
                {"role": "system", "content": "s"}, {"role": "user", "content": "u"},
                {"role": "assistant", "content": null, "tool_calls": [call("1"), call("2")]},
                {"role": "tool", "tool_call_id": "2", "content": ""}, {"role": "tool", "tool_call_id": "1", "content": "x"}]});
        assert_eq!(rules(&body), Vec::<String>::new());
    }

    #[test]
    fn each_rule_is_named_when_it_is_broken() {
        let call = |name: &str, args: &str| json!({"id": "i", "type": "f", "function": {"name": name, "arguments": args}});
        let body = json!({"stream_options": {}, "tools": [], "tool_choice": "auto", "messages": [
            {"role": "user", "content": ""}, {"role": "system", "content": "b"}, {"role": "robot", "content": "c"},
            {"role": "assistant", "content": "d", "tool_calls": []},
            {"role": "tool", "tool_call_id": "q"},
            {"role": "assistant", "content": null, "tool_calls": [call("a b", "{"), call("a", "{}")]}]});
        let found = rules(&body).join("\n");
        for part in [
            "model: field",
            "stream_options without",
            "array of tools",
            "tool_choice without",
            "\"robot\" is none",
            "system message",
            "no call asked",
            "tool message without content",
            "[\"i\", \"i\"] have no answer",
            "a message without content",
            "array of tool calls",
            "type function",
            "letters",
            "no JSON object",
            "not its own",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
    }
}
