//! Anthropic's Messages wire.
//!
//! Caching: the system block carries one marker, which covers the tools before it too; the request carries one at its top
//! level, which the vendor moves to the last block by itself. So nothing in the history is ever edited for the cache's sake.

use std::cell::Cell;
use std::rc::Rc;

use super::anthropic_stream::Stream;
use super::body_error;
use super::error::ProviderError;
use super::optional::Refused;
use super::reply::{object_text, replayable_name};
use super::types::{Block, Codec, Decoder, Prefix, Reply, Tail, ToolChoice, ToolResult, Wire};
use super::vendor::Vendor;
use crate::json::write::{push_str, push_u64};
use crate::limits;

/// The version of the wire that is spoken.
const VERSION: &str = "2023-06-01";

/// The codec.
pub(super) struct Messages {
    pub(super) vendor: &'static Vendor,
    /// Counts the call ids that were made up, so that each is new in the transcript.
    pub(super) made_up: Rc<Cell<u64>>,
}

impl Codec for Messages {
    fn wire(&self) -> Wire {
        Wire::AnthropicMessages
    }

    fn path(&self) -> &'static str {
        "/v1/messages"
    }

    fn headers(&self, key: Option<&str>, out: &mut Vec<(&'static str, String)>) {
        out.push(("anthropic-version", VERSION.to_owned()));
        out.extend(key.map(|key| ("x-api-key", key.to_owned())));
    }

    fn head(&self, prefix: &Prefix<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"model\":");
        push_str(out, prefix.model);
        if !prefix.tools.is_empty() {
            out.extend_from_slice(b",\"tools\":[");
            for (i, tool) in prefix.tools.iter().enumerate() {
                out.extend_from_slice(if i > 0 { b",{\"name\":" } else { b"{\"name\":" });
                push_str(out, tool.name);
                out.extend_from_slice(b",\"description\":");
                push_str(out, tool.description);
                out.extend_from_slice(b",\"input_schema\":");
                out.extend_from_slice(tool.schema.as_bytes());
                out.push(b'}');
            }
            out.push(b']');
        }
        out.extend_from_slice(b",\"system\":[{\"type\":\"text\",\"text\":");
        push_str(out, prefix.system);
        out.extend_from_slice(b",\"cache_control\":{\"type\":\"ephemeral\"}}],\"messages\":[");
    }

    fn user(&self, text: &str, first: bool, out: &mut Vec<u8>) {
        open(first, b"user", out);
        push_text(text, out);
        out.extend_from_slice(b"]}");
    }

    fn assistant(&self, reply: &Reply, first: bool, out: &mut Vec<u8>) {
        open(first, b"assistant", out);
        // The wire takes neither empty content nor a turn that ends in reasoning; a text stands for what is missing.
        let mut wants_text = true;
        let mut begun = false;
        for block in reply.blocks.iter().filter(|block| replayable(block)) {
            if begun {
                out.push(b',');
            }
            push_block(block, out);
            begun = true;
            wants_text = matches!(block, Block::Thinking { .. } | Block::Redacted(_));
        }
        if wants_text {
            if begun {
                out.push(b',');
            }
            push_text("(empty)", out);
        }
        out.extend_from_slice(b"]}");
    }

    fn tool_results(&self, results: &[ToolResult<'_>], note: Option<&str>, first: bool, out: &mut Vec<u8>) {
        open(first, b"user", out);
        for (i, result) in results.iter().enumerate() {
            out.extend_from_slice(if i > 0 {
                b",{\"type\":\"tool_result\",\"tool_use_id\":"
            } else {
                b"{\"type\":\"tool_result\",\"tool_use_id\":"
            });
            push_str(out, result.call_id);
            if !result.content.is_empty() {
                out.extend_from_slice(b",\"content\":");
                push_str(out, result.content);
            }
            if result.is_error {
                out.extend_from_slice(b",\"is_error\":true");
            }
            out.push(b'}');
        }
        if let Some(note) = note {
            if !results.is_empty() {
                out.push(b',');
            }
            push_text(note, out);
        }
        out.extend_from_slice(b"]}");
    }

    fn tail(&self, tail: &Tail, refused: &Refused, out: &mut Vec<u8>) {
        out.extend_from_slice(b"],\"max_tokens\":");
        // The wire wants a bound in every request.
        push_u64(out, tail.max_output_tokens.unwrap_or(limits::OUTPUT_TOKENS_DEFAULT));
        if tail.tool_choice == ToolChoice::None && refused.takes("tool_choice") {
            out.extend_from_slice(b",\"tool_choice\":{\"type\":\"none\"}");
        }
        if let Some(temperature) = tail.temperature.filter(|_| refused.takes("temperature")) {
            out.extend_from_slice(format!(",\"temperature\":{temperature}").as_bytes());
        }
        if let Some(effort) = tail.effort.filter(|_| refused.takes("output_config")) {
            out.extend_from_slice(b",\"output_config\":{\"effort\":");
            push_str(out, effort.name());
            out.push(b'}');
        }
        out.extend_from_slice(b",\"stream\":true");
        if refused.takes("cache_control") {
            out.extend_from_slice(b",\"cache_control\":{\"type\":\"ephemeral\"}");
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

fn open(first: bool, role: &[u8], out: &mut Vec<u8>) {
    if !first {
        out.push(b',');
    }
    out.extend_from_slice(b"{\"role\":\"");
    out.extend_from_slice(role);
    out.extend_from_slice(b"\",\"content\":[");
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    push_str(out, text);
    out.push(b'}');
}

/// The wire refuses blank text, and reasoning without its signature.
fn replayable(block: &Block) -> bool {
    match block {
        Block::Text(text) => !text.trim().is_empty(),
        Block::Thinking { signature, .. } => !signature.is_empty(),
        Block::Redacted(_) | Block::Call(_) => true,
    }
}

fn push_block(block: &Block, out: &mut Vec<u8>) {
    match block {
        Block::Text(text) => push_text(text, out),
        Block::Thinking { text, signature } => {
            out.extend_from_slice(b"{\"type\":\"thinking\",\"thinking\":");
            push_str(out, text);
            out.extend_from_slice(b",\"signature\":");
            push_str(out, signature);
            out.push(b'}');
        }
        Block::Redacted(data) => {
            out.extend_from_slice(b"{\"type\":\"redacted_thinking\",\"data\":");
            push_str(out, data);
            out.push(b'}');
        }
        Block::Call(call) => {
            out.extend_from_slice(b"{\"type\":\"tool_use\",\"id\":");
            push_str(out, &call.id);
            out.extend_from_slice(b",\"name\":");
            push_str(out, &replayable_name(&call.name));
            out.extend_from_slice(b",\"input\":");
            out.extend_from_slice(object_text(&call.args).as_bytes());
            out.push(b'}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::feed::{body, codec_of};
    use crate::provider::{Effort, ToolCall, ToolSchema, TurnStop};

    fn reply(blocks: Vec<Block>) -> Reply {
        Reply { blocks, stop: TurnStop::EndTurn, stop_raw: String::new(), usage: None }
    }

    fn encoded(blocks: Vec<Block>) -> serde_json::Value {
        let mut out = Vec::new();
        codec_of("anthropic").assistant(&reply(blocks), true, &mut out);
        serde_json::from_slice::<serde_json::Value>(&out).unwrap()["content"].take()
    }

    fn call(name: &str, args: &str) -> Block {
        Block::Call(ToolCall { id: "toolu_1".into(), name: name.into(), args: args.into() })
    }

    #[test]
    fn a_turn_goes_back_as_it_came() {
        let thinking = Block::Thinking { text: String::new(), signature: "c2ln".into() };
        let content =
            encoded(vec![thinking, Block::Redacted("ZA==".into()), Block::Text(" a\n".into()), call("read_file", "{ \"path\":\"a\" }")]);
        assert_eq!(
            content,
            serde_json::json!([
                {"type": "thinking", "thinking": "", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "ZA=="},
                {"type": "text", "text": " a\n"},
                {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a"}},
            ])
        );
    }

    #[test]
    fn what_the_wire_refuses_is_not_sent() {
        let unsigned = || Block::Thinking { text: "x".into(), signature: String::new() };
        let empty = serde_json::json!([{"type": "text", "text": "(empty)"}]);
        assert_eq!(encoded(vec![Block::Text(" \n".into()), unsigned()]), empty);
        assert_eq!(encoded(vec![]), empty);
        assert_eq!(encoded(vec![Block::Redacted("ZA==".into()), Block::Text(String::new())])[1], empty[0]);
        let mended = encoded(vec![unsigned(), call("functions.read file", "{\"path\":")]);
        assert_eq!(mended[0]["name"], "functions_read_file");
        assert_eq!(mended[0]["input"], serde_json::json!({"invalid_arguments": "{\"path\":"}));
    }

    #[test]
    fn results_come_before_our_own_words_and_failures_are_marked() {
        let mut out = Vec::new();
        let result = |call_id, content, is_error| ToolResult { call_id, name: "t", content, is_error };
        codec_of("anthropic").tool_results(&[result("a", "one", false), result("b", "", true)], Some("go on"), true, &mut out);
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&out).unwrap(),
            serde_json::json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                {"type": "tool_result", "tool_use_id": "b", "is_error": true},
                {"type": "text", "text": "go on"},
            ]})
        );
    }

    #[test]
    fn a_body_is_whole_and_always_bounds_the_output() {
        let tools = [ToolSchema { name: "t", description: "does \"t\"", schema: "{\"type\":\"object\"}" }];
        let none = Tail { max_output_tokens: None, tool_choice: ToolChoice::Auto, temperature: None, effort: None };
        let value = body(&*codec_of("anthropic"), &tools, &none);
        assert_eq!(value["max_tokens"], limits::OUTPUT_TOKENS_DEFAULT);
        assert_eq!((&value["stream"], &value["tools"][0]["input_schema"]["type"]), (&true.into(), &"object".into()));
        assert!(value.get("tool_choice").is_none() && value.get("temperature").is_none() && value.get("output_config").is_none());
        let all = Tail { max_output_tokens: Some(300), tool_choice: ToolChoice::None, temperature: Some(0.7), effort: Some(Effort::Low) };
        let value = body(&*codec_of("anthropic"), &[], &all);
        assert_eq!((&value["max_tokens"], &value["tool_choice"]["type"]), (&300.into(), &"none".into()));
        assert_eq!((value["temperature"].to_string().as_str(), &value["output_config"]["effort"]), ("0.7", &"low".into()));
        assert!(value.get("tools").is_none());
    }

    #[test]
    fn two_markers_cache_the_prefix_and_the_history() {
        let none = Tail { max_output_tokens: None, tool_choice: ToolChoice::Auto, temperature: None, effort: None };
        let value = body(&*codec_of("anthropic"), &[], &none);
        let marker = serde_json::json!({"type": "ephemeral"});
        assert_eq!((&value["cache_control"], &value["system"][0]["cache_control"]), (&marker, &marker));
        assert_eq!(value.to_string().matches("cache_control").count(), 2);
    }
}
