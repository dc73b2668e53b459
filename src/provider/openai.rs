//! OpenAI's Chat Completions wire, which most servers of open models and gateways speak too.
//!
//! Only what every such server takes is sent. The system prompt is the one system message, at the front; whatever else there is
//! to say goes into a user message, since many chat templates refuse a second system message.

use std::cell::Cell;
use std::rc::Rc;

use super::body_error;
use super::error::ProviderError;
use super::openai_stream::Stream;
use super::optional::Refused;
use super::reply::{object_text, replayable_name};
use super::types::{Block, Codec, Decoder, Prefix, Reply, Tail, ToolChoice, ToolResult, Wire};
use super::vendor::Vendor;
use crate::json::write::{push_str, push_u64};

/// The codec.
pub(super) struct Chat {
    pub(super) vendor: &'static Vendor,
    /// Counts the call ids that were made up, so that each is new in the transcript.
    pub(super) made_up: Rc<Cell<u64>>,
}

impl Codec for Chat {
    fn wire(&self) -> Wire {
        Wire::OpenAiChat
    }

    fn path(&self) -> &'static str {
        "/chat/completions"
    }

    fn headers(&self, key: Option<&str>, out: &mut Vec<(&'static str, String)>) {
        out.extend(key.map(|key| ("authorization", format!("Bearer {key}"))));
    }

    fn head(&self, prefix: &Prefix<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"model\":");
        push_str(out, prefix.model);
        if !prefix.tools.is_empty() {
            out.extend_from_slice(b",\"tools\":[");
            for (i, tool) in prefix.tools.iter().enumerate() {
                out.extend_from_slice(if i > 0 {
                    b",{\"type\":\"function\",\"function\":{\"name\":"
                } else {
                    b"{\"type\":\"function\",\"function\":{\"name\":"
                });
                push_str(out, tool.name);
                out.extend_from_slice(b",\"description\":");
                push_str(out, tool.description);
                out.extend_from_slice(b",\"parameters\":");
                out.extend_from_slice(tool.schema.as_bytes());
                out.extend_from_slice(b"}}");
            }
            out.push(b']');
        }
        // The system message is part of the head, so every message behind it begins with a comma.
        out.extend_from_slice(b",\"messages\":[{\"role\":\"system\",\"content\":");
        push_str(out, prefix.system);
        out.push(b'}');
    }

    fn user(&self, text: &str, _first: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(b",{\"role\":\"user\",\"content\":");
        push_str(out, text);
        out.push(b'}');
    }

    fn assistant(&self, reply: &Reply, _first: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(b",{\"role\":\"assistant\",\"content\":");
        let text = reply.text();
        match (text.is_empty(), reply.calls().next().is_some()) {
            (true, true) => out.extend_from_slice(b"null"),
            // Some servers refuse an empty message; this stands for an answer without anything in it.
            (true, false) => push_str(out, "(empty)"),
            (false, _) => push_str(out, &text),
        }
        if self.vendor.replays_reasoning {
            for block in &reply.blocks {
                if let Block::Thinking { text, signature: field } = block {
                    out.push(b',');
                    push_str(out, field);
                    out.push(b':');
                    push_str(out, text);
                }
            }
        }
        for (i, call) in reply.calls().enumerate() {
            out.extend_from_slice(if i == 0 { b",\"tool_calls\":[" } else { b"," });
            out.extend_from_slice(b"{\"id\":");
            push_str(out, &call.id);
            out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
            push_str(out, &replayable_name(&call.name));
            out.extend_from_slice(b",\"arguments\":");
            push_str(out, &object_text(&call.args));
            out.extend_from_slice(b"}}");
        }
        out.extend_from_slice(if reply.calls().next().is_some() { b"]}" } else { b"}" });
    }

    fn tool_results(&self, results: &[ToolResult<'_>], note: Option<&str>, first: bool, out: &mut Vec<u8>) {
        for result in results {
            out.extend_from_slice(b",{\"role\":\"tool\",\"tool_call_id\":");
            push_str(out, result.call_id);
            // The wire has no mark for a failure; the text says so itself.
            out.extend_from_slice(b",\"content\":");
            push_str(out, result.content);
            out.push(b'}');
        }
        if let Some(note) = note {
            self.user(note, first, out);
        }
    }

    fn tail(&self, tail: &Tail, refused: &Refused, out: &mut Vec<u8>) {
        out.push(b']');
        // A bound that is larger than what the window has left is refused by some servers, so none is sent unless it is meant.
        let key = [self.vendor.max_tokens_key, "max_completion_tokens", "max_tokens"].into_iter().find(|key| refused.takes(key));
        if let (Some(bound), Some(key)) = (tail.max_output_tokens, key) {
            out.push(b',');
            push_str(out, key);
            out.push(b':');
            push_u64(out, bound);
        }
        if tail.tool_choice == ToolChoice::None && refused.takes("tool_choice") {
            out.extend_from_slice(b",\"tool_choice\":\"none\"");
        }
        if let Some(temperature) = tail.temperature.filter(|_| refused.takes("temperature")) {
            out.extend_from_slice(format!(",\"temperature\":{temperature}").as_bytes());
        }
        if let Some(effort) = tail.effort.filter(|_| refused.takes("reasoning_effort")) {
            out.extend_from_slice(b",\"reasoning_effort\":");
            push_str(out, effort.name());
        }
        out.extend_from_slice(b",\"stream\":true");
        if refused.takes("stream_options") {
            out.extend_from_slice(b",\"stream_options\":{\"include_usage\":true}");
        }
        out.push(b'}');
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Stream::new(self.vendor.name, self.made_up.clone()))
    }

    fn whole(&self, body: &[u8]) -> Result<Reply, ProviderError> {
        Stream::new(self.vendor.name, self.made_up.clone()).whole(body)
    }

    fn error(&self, status: u16, body: &[u8]) -> ProviderError {
        body_error::from_status(self.vendor.name, status, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::feed::{body, codec_of};
    use crate::provider::{Effort, ToolCall, ToolSchema, TurnStop};

    fn encoded(vendor: &str, blocks: Vec<Block>) -> serde_json::Value {
        let mut out = Vec::new();
        let reply = Reply { blocks, stop: TurnStop::EndTurn, stop_raw: String::new(), usage: None };
        codec_of(vendor).assistant(&reply, false, &mut out);
        serde_json::from_slice(out.strip_prefix(b",").unwrap()).unwrap()
    }

    fn call(name: &str, args: &str) -> Block {
        Block::Call(ToolCall { id: "a".into(), name: name.into(), args: args.into() })
    }

    #[test]
    fn a_turn_goes_back_with_its_calls_in_forms_that_servers_take() {
        assert_eq!(
            encoded(
                "openai",
                vec![Block::Text("I ".into()), Block::Text("read".into()), call("read_file", "{ \"p\":1}"), call("x.y", "[")]
            ),
            serde_json::json!({"role": "assistant", "content": "I read", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read_file", "arguments": "{ \"p\":1}"}},
                {"id": "a", "type": "function", "function": {"name": "x_y", "arguments": "{\"invalid_arguments\":\"[\"}"}},
            ]})
        );
        let calls_only = encoded("openai", vec![call("t", "{}")]);
        assert!(calls_only["content"].is_null() && calls_only.get("content").is_some());
        assert_eq!(encoded("openai", vec![Block::Text("done".into())]), serde_json::json!({"role": "assistant", "content": "done"}));
    }

    #[test]
    fn reasoning_goes_back_under_its_own_name_to_servers_that_want_it() {
        for field in ["reasoning_content", "reasoning"] {
            let blocks = || vec![Block::Thinking { text: "hm".into(), signature: field.into() }, call("t", "{}")];
            assert_eq!(encoded("local", blocks())[field], "hm");
            assert_eq!(encoded("openrouter", blocks())[field], "hm");
            assert!(encoded("openai", blocks()).get(field).is_none());
        }
    }

    #[test]
    fn the_one_system_message_stands_in_front_and_our_own_words_are_the_users() {
        let none = Tail { max_output_tokens: None, tool_choice: ToolChoice::Auto, temperature: None, effort: None };
        let value = body(&*codec_of("local"), &[], &none);
        let roles: Vec<&str> = value["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user"]);
        assert_eq!(value["messages"][3]["tool_call_id"], value["messages"][2]["tool_calls"][0]["id"]);
    }

    #[test]
    fn nothing_optional_is_sent_unless_it_is_meant() {
        let none = Tail { max_output_tokens: None, tool_choice: ToolChoice::Auto, temperature: None, effort: None };
        let value = body(&*codec_of("local"), &[], &none);
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["model", "messages", "stream", "stream_options"]);
        assert_eq!(value["stream_options"]["include_usage"], true);
        let tools = [ToolSchema { name: "t", description: "does t", schema: "{\"type\":\"object\"}" }];
        let all = Tail { max_output_tokens: Some(300), tool_choice: ToolChoice::None, temperature: Some(0.5), effort: Some(Effort::High) };
        for (vendor, key) in [("openai", "max_completion_tokens"), ("openrouter", "max_tokens"), ("local", "max_tokens")] {
            let value = body(&*codec_of(vendor), &tools, &all);
            let wanted = (&300.into(), &"none".into(), &0.5.into(), &"high".into(), &"object".into());
            let parameters = &value["tools"][0]["function"]["parameters"]["type"];
            assert_eq!((&value[key], &value["tool_choice"], &value["temperature"], &value["reasoning_effort"], parameters), wanted);
        }
    }
}
