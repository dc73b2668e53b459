//! What every request must keep to, whatever its content: the rules that real APIs enforce, and that a history only grows.

use serde_json::Value;

use super::render::Wire;

/// What a request breaks. `before` is the body of the request before it on the same run.
pub fn violations(wire: Wire, body: &[u8], before: Option<&[u8]>) -> Vec<String> {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return vec!["the body is no JSON".to_owned()] };
    let mut found = match wire {
        Wire::Anthropic => anthropic(&value),
        Wire::Chat => chat(&value),
    };
    if let Some(before) = before
        && !grows(before, body)
    {
        found.push("the messages of the request before are no byte prefix of this one's".to_owned());
    }
    found
}

/// The bytes of the messages of the first body, and all before them, begin the second.
fn grows(before: &[u8], body: &[u8]) -> bool {
    let end = before.windows(3).rposition(|w| w == b"}],").unwrap_or(before.len());
    before.get(..end) == body.get(..end)
}

fn anthropic(body: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |what: &str| found.push(what.to_owned());
    for key in ["model", "max_tokens", "messages"] {
        if body.get(key).is_none() {
            say(&format!("{key}: field required"));
        }
    }
    if body.to_string().matches("\"cache_control\"").count() > 4 {
        say("more than 4 cache breakpoints");
    }
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    if messages.first().is_none_or(|m| m["role"] != "user") {
        say("the first message is not the user's");
    }
    let mut open: Vec<String> = Vec::new();
    for message in &messages {
        let blocks = message["content"].as_array().cloned().unwrap_or_default();
        if blocks.is_empty() {
            say("a message without content");
        }
        let answered: Vec<String> = blocks
            .iter()
            .filter(|b| b["type"] == "tool_result")
            .map(|b| b["tool_use_id"].as_str().unwrap_or_default().to_owned())
            .collect();
        if answered != open {
            say(&format!("tool_use ids {open:?} are answered by {answered:?}"));
        }
        open = blocks.iter().filter(|b| b["type"] == "tool_use").map(|b| b["id"].as_str().unwrap_or_default().to_owned()).collect();
        for block in &blocks {
            match block["type"].as_str().unwrap_or_default() {
                "text" if block["text"].as_str().is_none_or(|t| t.trim().is_empty()) => say("a text block is blank"),
                "thinking" if block["signature"].as_str().is_none_or(str::is_empty) => say("thinking.signature: field required"),
                "tool_use" => {
                    if !block["input"].is_object() {
                        say("tool_use.input is no object");
                    }
                    if !name_fits(block["name"].as_str().unwrap_or_default()) {
                        say("tool_use.name has letters that are not allowed");
                    }
                }
                _ => {}
            }
        }
    }
    found
}

fn chat(body: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |what: &str| found.push(what.to_owned());
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let mut open: Vec<String> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "system" && at > 0 {
            say("a system message that is not the first");
        }
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            match open.iter().position(|o| o == id) {
                Some(at) => drop(open.remove(at)),
                None => say(&format!("a tool message answers {id:?}, which no call asked")),
            }
            continue;
        }
        if !open.is_empty() {
            say(&format!("calls {open:?} have no answer"));
        }
        let calls = message["tool_calls"].as_array();
        if calls.is_some_and(Vec::is_empty) {
            say("an empty array of tool calls");
        }
        for call in calls.into_iter().flatten() {
            let (name, args) =
                (call["function"]["name"].as_str().unwrap_or_default(), call["function"]["arguments"].as_str().unwrap_or_default());
            if !name_fits(name) {
                say("a function's name has letters that are not allowed");
            }
            if !serde_json::from_str::<Value>(args).is_ok_and(|v| v.is_object()) {
                say("a function's arguments are no JSON object");
            }
        }
        open = calls.into_iter().flatten().map(|c| c["id"].as_str().unwrap_or_default().to_owned()).collect();
    }
    found
}

fn name_fits(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_history_is_seen() {
        let ok = br#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"stream":true}"#;
        assert!(violations(Wire::Anthropic, ok, None).is_empty());
        let bad = br#"{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"a b","input":[]}]},{"role":"user","content":[{"type":"text","text":" "}]}]}"#;
        let found = violations(Wire::Anthropic, bad, Some(ok)).join("\n");
        for part in ["max_tokens", "first message", "answered by", "no object", "letters", "blank", "prefix"] {
            assert!(found.contains(part), "{part}: {found}");
        }
        let chat = br#"{"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"assistant","tool_calls":[]},{"role":"tool","tool_call_id":"q"}]}"#;
        let found = violations(Wire::Chat, chat, None).join("\n");
        for part in ["system message", "empty array", "no call asked"] {
            assert!(found.contains(part), "{part}: {found}");
        }
    }
}
