//! Anthropic's Messages wire.
//!
//! Caching: the system block carries one marker, which covers the tools before it too; the request carries one at its top
//! level, which the vendor moves to the last block by itself. So nothing in the history is ever edited for the cache's sake.

use super::body_error;
use super::error::{Class, ProviderError};
use super::types::{Block, Codec, Decoder, Prefix, Progress, Reply, Tail, ToolCall, ToolChoice, ToolResult, TurnStop, Usage, Wire};
use super::vendor::Vendor;
use crate::json::read::{Reader, Value};
use crate::json::write::{push_str, push_u64};
use crate::limits;

/// The version of the wire that is spoken.
const VERSION: &str = "2023-06-01";

/// The codec.
pub(super) struct Messages {
    pub(super) vendor: &'static Vendor,
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
        let mut begun = false;
        for block in &reply.blocks {
            let before = out.len();
            if begun {
                out.push(b',');
            }
            if push_block(block, out) {
                begun = true;
            } else {
                out.truncate(before);
            }
        }
        if !begun {
            // The wire takes no empty content; this stands for an answer of which nothing can be replayed.
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

    fn tail(&self, tail: &Tail, out: &mut Vec<u8>) {
        out.extend_from_slice(b"],\"max_tokens\":");
        // The wire wants a bound in every request.
        push_u64(out, tail.max_output_tokens.unwrap_or(limits::OUTPUT_TOKENS_DEFAULT));
        if tail.tool_choice == ToolChoice::None {
            out.extend_from_slice(b",\"tool_choice\":{\"type\":\"none\"}");
        }
        if let Some(temperature) = tail.temperature {
            out.extend_from_slice(format!(",\"temperature\":{temperature}").as_bytes());
        }
        if let Some(effort) = tail.effort {
            out.extend_from_slice(b",\"output_config\":{\"effort\":");
            push_str(out, effort.name());
            out.push(b'}');
        }
        out.extend_from_slice(b",\"stream\":true,\"cache_control\":{\"type\":\"ephemeral\"}}");
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Stream::new(self.vendor.name))
    }

    fn whole(&self, body: &[u8]) -> Result<Reply, ProviderError> {
        let mut stream = Stream::new(self.vendor.name);
        let mut scratch = body.to_vec();
        let read = Reader::new().with(&mut scratch, |message| {
            if message.str("type") != Some("message") {
                return Err(stream.unexpected("a body that is no message"));
            }
            for (i, block) in message.get("content").into_iter().flat_map(Value::items).enumerate() {
                stream.start_block(i as u64, block)?;
            }
            stream.take_usage(message.get("usage"));
            stream.take_stop(message);
            stream.done = true;
            Ok(())
        });
        match read {
            Ok(Ok(())) => Box::new(stream).finish(),
            Ok(Err(error)) => Err(body_error::stated(body).map_or(error, |said| body_error::in_stream(self.vendor.name, said))),
            Err(invalid) => Err(stream.unexpected(&invalid.0)),
        }
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

/// False for what the wire would refuse: blank text, and reasoning without its signature.
fn push_block(block: &Block, out: &mut Vec<u8>) -> bool {
    match block {
        Block::Text(text) if text.trim().is_empty() => return false,
        Block::Text(text) => push_text(text, out),
        Block::Thinking { signature, .. } if signature.is_empty() => return false,
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
            push_str(out, &super::types::replayable_name(&call.name));
            out.extend_from_slice(b",\"input\":");
            out.extend_from_slice(super::types::object_text(&call.args).as_bytes());
            out.push(b'}');
        }
    }
    true
}

/// One streamed answer.
struct Stream {
    vendor: &'static str,
    reader: Option<Reader>,
    /// Blocks by the index that the wire gives them; indices may have gaps.
    blocks: Vec<(u64, Block)>,
    stop: Option<TurnStop>,
    stop_raw: String,
    usage: Option<Usage>,
    bytes: usize,
    done: bool,
}

impl Stream {
    fn new(vendor: &'static str) -> Stream {
        Stream {
            vendor,
            reader: Some(Reader::new()),
            blocks: Vec::new(),
            stop: None,
            stop_raw: String::new(),
            usage: None,
            bytes: 0,
            done: false,
        }
    }

    fn take(&mut self, message: Value<'_, '_>) -> Result<Progress, ProviderError> {
        match message.str("type").unwrap_or_default() {
            "message_start" => self.take_usage(message.get("message").and_then(|m| m.get("usage"))),
            "content_block_start" => {
                if let Some(block) = message.get("content_block") {
                    self.start_block(message.u64("index").unwrap_or_default(), block)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = message.get("delta") {
                    self.grow_block(message.u64("index").unwrap_or_default(), delta)?;
                }
            }
            "message_delta" => {
                self.take_usage(message.get("usage"));
                if let Some(delta) = message.get("delta") {
                    self.take_stop(delta);
                }
            }
            "message_stop" => {
                self.done = true;
                return Ok(Progress::Done);
            }
            // Pings, ends of blocks, and whatever the vendor adds.
            _ => {}
        }
        Ok(Progress::More)
    }

    fn start_block(&mut self, index: u64, block: Value<'_, '_>) -> Result<(), ProviderError> {
        let text = |key: &str| block.str(key).unwrap_or_default().to_owned();
        let block = match block.str("type").unwrap_or_default() {
            "text" => Block::Text(text("text")),
            "thinking" => Block::Thinking { text: text("thinking"), signature: text("signature") },
            "redacted_thinking" => Block::Redacted(text("data")),
            "tool_use" => {
                let input = block.get("input").map(Value::to_json).filter(|json| json != "{}").unwrap_or_default();
                Block::Call(ToolCall { id: text("id"), name: text("name"), args: input })
            }
            // Blocks of tools that run on the vendor's side, and kinds to come: not ours to replay.
            _ => return Ok(()),
        };
        self.bound(block_bytes(&block))?;
        if self.blocks.len() >= limits::CALLS_PER_TURN_MAX * 4 {
            return Err(self.unexpected("an answer of too many blocks"));
        }
        self.blocks.push((index, block));
        Ok(())
    }

    fn grow_block(&mut self, index: u64, delta: Value<'_, '_>) -> Result<(), ProviderError> {
        let kind = delta.str("type").unwrap_or_default();
        let key = match kind {
            "text_delta" => "text",
            "thinking_delta" => "thinking",
            "signature_delta" => "signature",
            "input_json_delta" => "partial_json",
            _ => return Ok(()),
        };
        let more = delta.str(key).unwrap_or_default();
        self.bound(more.len())?;
        let Some((_, block)) = self.blocks.iter_mut().rev().find(|(i, _)| *i == index) else { return Ok(()) };
        match (block, kind) {
            (Block::Text(text), "text_delta") | (Block::Thinking { text, .. }, "thinking_delta") => text.push_str(more),
            (Block::Thinking { signature, .. }, "signature_delta") => signature.push_str(more),
            (Block::Call(call), "input_json_delta") => call.args.push_str(more),
            _ => {}
        }
        Ok(())
    }

    /// Counts are cumulative and may come in any message: the last stated value of each holds.
    fn take_usage(&mut self, stated: Option<Value<'_, '_>>) {
        let Some(stated) = stated else { return };
        let usage = self.usage.get_or_insert_default();
        for (key, field) in [
            ("input_tokens", &mut usage.input),
            ("output_tokens", &mut usage.output),
            ("cache_read_input_tokens", &mut usage.cache_read),
            ("cache_creation_input_tokens", &mut usage.cache_write),
        ] {
            if let Some(count) = stated.u64(key) {
                *field = count;
            }
        }
    }

    fn take_stop(&mut self, holder: Value<'_, '_>) {
        let Some(raw) = holder.str("stop_reason") else { return };
        self.stop_raw = raw.to_owned();
        self.stop = Some(match raw {
            "tool_use" => TurnStop::ToolUse,
            "max_tokens" | "model_context_window_exceeded" => TurnStop::MaxTokens,
            "refusal" => TurnStop::Refusal,
            "pause_turn" => TurnStop::Pause,
            _ => TurnStop::EndTurn,
        });
    }

    fn bound(&mut self, more: usize) -> Result<(), ProviderError> {
        self.bytes += more;
        if self.bytes > limits::REPLY_BYTES_MAX {
            return Err(self.unexpected("an answer beyond all bounds"));
        }
        Ok(())
    }

    fn unexpected(&self, what: &str) -> ProviderError {
        ProviderError::new(Class::Protocol, format!("{} sent {what}", self.vendor))
    }
}

fn block_bytes(block: &Block) -> usize {
    match block {
        Block::Text(text) | Block::Redacted(text) | Block::Thinking { text, .. } => text.len(),
        Block::Call(call) => call.name.len() + call.args.len(),
    }
}

impl Decoder for Stream {
    fn event(&mut self, event: &[u8], data: &mut [u8]) -> Result<Progress, ProviderError> {
        if event == b"error" {
            let said = body_error::stated(data)
                .unwrap_or_else(|| body_error::Stated { message: body_error::plain_text(data), ..Default::default() });
            return Err(body_error::in_stream(self.vendor, said));
        }
        let error_bytes = is_error(data).then(|| data.to_vec());
        if let Some(said) = error_bytes.as_deref().and_then(body_error::stated) {
            return Err(body_error::in_stream(self.vendor, said));
        }
        let mut reader = self.reader.take().unwrap_or_default();
        let taken = reader.with(data, |message| self.take(message));
        self.reader = Some(reader);
        taken.unwrap_or_else(|invalid| Err(self.unexpected(&format!("an event that is no JSON ({})", invalid.0))))
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn finish(self: Box<Self>) -> Result<Reply, ProviderError> {
        if !self.done {
            return Err(ProviderError::new(Class::Transport, format!("{} ended the stream before the answer was complete", self.vendor)));
        }
        let mut blocks = self.blocks;
        blocks.sort_by_key(|(index, _)| *index);
        let mut reply = Reply {
            blocks: blocks.into_iter().map(|(_, block)| block).collect(),
            stop: self.stop.unwrap_or(TurnStop::EndTurn),
            stop_raw: self.stop_raw,
            usage: self.usage,
        };
        super::types::settle_calls(&mut reply);
        Ok(reply)
    }
}

/// Whether an event without a name is an error object: some gateways leave the name out.
fn is_error(data: &[u8]) -> bool {
    data.starts_with(b"{\"type\":\"error\"") || data.starts_with(b"{\"type\": \"error\"") || data.starts_with(b"{\"error\"")
}
