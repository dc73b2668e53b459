//! Assembles a Messages answer from its events.
//!
//! A stream is whole only when it says so itself (`message_stop`): what breaks off before is no answer, however complete it
//! looks. Events, blocks and deltas of kinds to come are passed over.

use std::cell::Cell;
use std::rc::Rc;

use super::body_error;
use super::error::{Class, ProviderError};
use super::reply::settle;
use super::types::{Block, Decoder, Progress, Reply, ToolCall, TurnStop, Usage};
use crate::json::read::{Reader, Value};
use crate::limits;

/// Why an answer ended, in the wire's words. Whatever else it may say is an end like any other, and the word is kept.
static STOPS: &[(&str, TurnStop)] = &[
    ("end_turn", TurnStop::EndTurn),
    ("stop_sequence", TurnStop::EndTurn),
    ("tool_use", TurnStop::ToolUse),
    ("max_tokens", TurnStop::MaxTokens),
    ("model_context_window_exceeded", TurnStop::MaxTokens),
    ("refusal", TurnStop::Refusal),
    ("pause_turn", TurnStop::Pause),
];
/// Blocks beyond which an answer is none any more.
const BLOCKS_MAX: usize = limits::CALLS_PER_TURN_MAX * 4;

/// One answer in the making.
pub(super) struct Stream {
    vendor: &'static str,
    made_up: Rc<Cell<u64>>,
    reader: Option<Reader>,
    /// Blocks by the index that the wire gives them; indices may have gaps.
    blocks: Vec<(u64, Block)>,
    stop: TurnStop,
    stop_raw: String,
    usage: Option<Usage>,
    bytes: usize,
    done: bool,
}

impl Stream {
    pub(super) fn new(vendor: &'static str, made_up: Rc<Cell<u64>>) -> Stream {
        Stream {
            vendor,
            made_up,
            reader: None,
            blocks: Vec::new(),
            stop: TurnStop::EndTurn,
            stop_raw: String::new(),
            usage: None,
            bytes: 0,
            done: false,
        }
    }

    /// Decodes an answer that was not streamed.
    pub(super) fn whole(mut self, body: &[u8]) -> Result<Reply, ProviderError> {
        if let Some(error) = body_error::in_answer(self.vendor, b"", body) {
            return Err(error);
        }
        let read = Reader::new().with(&mut body.to_vec(), |message| {
            if message.str("type") != Some("message") {
                return Err(self.broken("a body that is no message"));
            }
            for (i, block) in message.get("content").into_iter().flat_map(Value::items).enumerate() {
                self.start_block(i as u64, block)?;
            }
            self.take_usage(message.get("usage"));
            self.take_stop(message);
            self.done = true;
            Ok(())
        });
        read.unwrap_or_else(|invalid| Err(self.broken(&format!("a body that is no JSON ({})", invalid.0))))?;
        Box::new(self).finish()
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
        if self.blocks.len() >= BLOCKS_MAX {
            return Err(self.broken("an answer of too many blocks"));
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
        self.stop_raw = raw[..raw.floor_char_boundary(limits::PROVIDER_CODE_BYTES_MAX)].to_owned();
        self.stop = STOPS.iter().find(|row| row.0 == raw).map_or(TurnStop::EndTurn, |row| row.1);
    }

    fn bound(&mut self, more: usize) -> Result<(), ProviderError> {
        self.bytes += more;
        if self.bytes > limits::REPLY_BYTES_MAX {
            return Err(self.broken("an answer beyond all bounds"));
        }
        Ok(())
    }

    fn broken(&self, what: &str) -> ProviderError {
        ProviderError::new(Class::Protocol, format!("{} sent {what}", self.vendor))
    }
}

fn block_bytes(block: &Block) -> usize {
    match block {
        Block::Text(text) | Block::Redacted(text) => text.len(),
        Block::Thinking { text, signature } => text.len() + signature.len(),
        Block::Call(call) => call.id.len() + call.name.len() + call.args.len(),
    }
}

impl Decoder for Stream {
    fn event(&mut self, event: &[u8], data: &mut [u8]) -> Result<Progress, ProviderError> {
        if let Some(error) = body_error::in_answer(self.vendor, event, data) {
            return Err(error);
        }
        let mut reader = self.reader.take().unwrap_or_default();
        let taken = reader.with(data, |message| self.take(message));
        self.reader = Some(reader);
        taken.unwrap_or_else(|invalid| Err(self.broken(&format!("an event that is no JSON ({})", invalid.0))))
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
            stop: self.stop,
            stop_raw: self.stop_raw,
            usage: self.usage,
        };
        settle(&mut reply, &self.made_up);
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::feed::{codec_of, events, stream};

    const START: &str = r#"{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}"#;
    const STOP: &str = r#"{"type":"message_stop"}"#;

    fn decode(chunks: &[&str]) -> Result<Reply, ProviderError> {
        events(&*codec_of("anthropic"), chunks)
    }

    fn start(index: u32, block: &str) -> String {
        format!("{{\"type\":\"content_block_start\",\"index\":{index},\"content_block\":{block}}}")
    }

    fn delta(index: u32, kind: &str, key: &str, text: &str) -> String {
        format!("{{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{{\"type\":\"{kind}\",\"{key}\":{text:?}}}}}")
    }

    fn ending(reason: &str) -> String {
        format!("{{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{reason}\"}},\"usage\":{{\"output_tokens\":7}}}}")
    }

    fn usage_of(stated: &[&str]) -> Option<Usage> {
        let (first, later) = stated.split_first().unwrap();
        let mut chunks = vec![format!("{{\"type\":\"message_start\",\"message\":{{\"usage\":{first}}}}}")];
        chunks.extend(later.iter().map(|usage| format!("{{\"type\":\"message_delta\",\"delta\":{{}},\"usage\":{usage}}}")));
        chunks.push(STOP.to_owned());
        decode(&chunks.iter().map(String::as_str).collect::<Vec<_>>()).unwrap().usage
    }

    #[test]
    fn every_kind_of_block_is_kept_in_order() {
        let chunks = [
            START.to_owned(),
            start(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
            delta(0, "thinking_delta", "thinking", "let me "),
            delta(0, "thinking_delta", "thinking", "see"),
            delta(0, "signature_delta", "signature", "c2ln"),
            start(1, r#"{"type":"redacted_thinking","data":"ZGF0YQ=="}"#),
            start(2, r#"{"type":"text","text":""}"#),
            delta(2, "text_delta", "text", "I will read."),
            start(3, r#"{"type":"tool_use","id":"toolu_1","name":"read_file","input":{}}"#),
            delta(3, "input_json_delta", "partial_json", ""),
            delta(3, "input_json_delta", "partial_json", "{\"path\": \"a"),
            delta(3, "input_json_delta", "partial_json", "\"}"),
            start(4, r#"{"type":"tool_use","id":"toolu_2","name":"list_files","input":{}}"#),
            start(5, r#"{"type":"tool_use","id":"toolu_3","name":"grep","input":{"pattern":"x"}}"#),
            ending("tool_use"),
            STOP.to_owned(),
        ];
        let reply = decode(&chunks.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let call = |id: &str, name: &str, args: &str| Block::Call(ToolCall { id: id.into(), name: name.into(), args: args.into() });
        assert_eq!(
            reply.blocks,
            [
                Block::Thinking { text: "let me see".into(), signature: "c2ln".into() },
                Block::Redacted("ZGF0YQ==".into()),
                Block::Text("I will read.".into()),
                call("toolu_1", "read_file", "{\"path\": \"a\"}"),
                call("toolu_2", "list_files", "{}"),
                call("toolu_3", "grep", "{\"pattern\":\"x\"}"),
            ]
        );
        assert_eq!((reply.stop, reply.stop_raw.as_str()), (TurnStop::ToolUse, "tool_use"));
        assert_eq!(reply.usage, Some(Usage { input: 9, output: 7, cache_read: 0, cache_write: 0 }));
    }

    #[test]
    fn blocks_with_gaps_and_interleaved_deltas_go_by_index() {
        let chunks = [
            start(7, r#"{"type":"text","text":"b"}"#),
            start(2, r#"{"type":"text","text":"a"}"#),
            delta(7, "text_delta", "text", "B"),
            delta(2, "text_delta", "text", "A"),
            delta(5, "text_delta", "text", "of no block"),
            STOP.to_owned(),
        ];
        assert_eq!(decode(&chunks.iter().map(String::as_str).collect::<Vec<_>>()).unwrap().text(), "aAbB");
    }

    #[test]
    fn what_is_to_come_is_passed_over() {
        let body = [
            format!("event: message_start\ndata: {START}\n\n"),
            "event: vertex_event\ndata: {\"foo\":1}\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n".to_owned(),
            format!("data: {}\n\n", start(0, r#"{"type":"unknown_future","x":[]}"#)),
            format!("data: {}\n\n", delta(0, "unknown_delta", "text", "no")),
            format!("data: {}\n\n", start(1, r#"{"type":"text","text":"yes"}"#)),
            format!("data: {}\n\n", delta(1, "citations_delta", "citation", "no")),
            format!("data: {}\n\nevent: message_stop\ndata: {STOP}\n\ndata: garbage", ending("end_turn")),
        ]
        .concat();
        let reply = stream(&*codec_of("anthropic"), [body.as_bytes()]).unwrap();
        assert_eq!((reply.blocks, reply.stop), (vec![Block::Text("yes".into())], TurnStop::EndTurn));
    }

    #[test]
    fn the_last_stated_value_of_each_count_holds() {
        let usage = |input, cache_read, cache_write, output| Some(Usage { input, output, cache_read, cache_write });
        let start = r#"{"input_tokens":9,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":1}"#;
        let same = r#"{"input_tokens":9,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":16}"#;
        assert_eq!(usage_of(&[start, same]), usage(9, 5, 2, 16));
        let late = r#"{"input_tokens":18,"cache_read_input_tokens":8831,"output_tokens":426}"#;
        assert_eq!(usage_of(&[r#"{"input_tokens":8834}"#, late]), usage(18, 8831, 0, 426));
        assert_eq!(usage_of(&[start, r#"{"output_tokens":5}"#, r#"{"output_tokens":16}"#]), usage(9, 5, 2, 16));
        let nulls = r#"{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":16}"#;
        assert_eq!(usage_of(&[start, nulls]), usage(9, 5, 2, 16));
        assert_eq!(usage_of(&["null", "{}"]), None);
        assert_eq!(usage_of(&[r#"{"input_tokens":0,"output_tokens":0}"#]), None);
    }

    #[test]
    fn every_reason_is_told_and_its_word_kept() {
        for (raw, stop) in [
            ("end_turn", TurnStop::EndTurn),
            ("stop_sequence", TurnStop::EndTurn),
            ("max_tokens", TurnStop::MaxTokens),
            ("model_context_window_exceeded", TurnStop::MaxTokens),
            ("refusal", TurnStop::Refusal),
            ("pause_turn", TurnStop::Pause),
            ("tool_use", TurnStop::EndTurn),
            ("compaction", TurnStop::EndTurn),
        ] {
            let reply = decode(&[START, &start(0, r#"{"type":"text","text":"x"}"#), &ending(raw), STOP]).unwrap();
            assert_eq!((reply.stop, reply.stop_raw.as_str()), (stop, raw));
        }
        let reply = decode(&[&ending(&"x".repeat(1_000_000)), STOP]).unwrap();
        assert_eq!(reply.stop_raw.len(), limits::PROVIDER_CODE_BYTES_MAX);
    }

    #[test]
    fn a_stream_that_breaks_off_is_no_answer() {
        let tool = start(0, r#"{"type":"tool_use","id":"a","name":"t","input":{}}"#);
        let half = delta(0, "input_json_delta", "partial_json", "{\"path\":");
        let text = start(0, r#"{"type":"text","text":"complete"}"#);
        for chunks in [&[START, &tool, &half][..], &[START, &text], &[START, &text, &ending("end_turn")], &[]] {
            let error = decode(chunks).unwrap_err();
            assert!(error.class == Class::Transport && error.class.retryable(), "{error:?}");
        }
    }

    #[test]
    fn an_error_inside_the_stream_is_a_failure_and_never_an_answer() {
        let text = start(0, r#"{"type":"text","text":"half"}"#);
        let named = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
        let body = format!("data: {START}\n\ndata: {text}\n\n{named}data: {STOP}\n\n");
        let error = stream(&*codec_of("anthropic"), [body.as_bytes()]).unwrap_err();
        assert_eq!((error.class, error.code.as_deref()), (Class::Overloaded, Some("overloaded_error")));
        let unnamed = r#"{"request_id":"r","type":"error","error":{"type":"rate_limit_error","message":"slow"}}"#;
        assert_eq!(decode(&[START, unnamed, STOP]).unwrap_err().class, Class::RateLimited);
        assert_eq!(decode(&[START, "half of {", STOP]).unwrap_err().class, Class::Protocol);
    }

    #[test]
    fn usage_is_known_before_the_answer_is_whole() {
        let mut decoder = codec_of("anthropic").decoder();
        assert_eq!(decoder.usage(), None);
        decoder.event(b"", &mut START.as_bytes().to_vec()).unwrap();
        assert_eq!(decoder.usage().unwrap().input, 9);
    }

    #[test]
    fn an_answer_that_is_not_streamed_is_the_same_answer() {
        let whole = |body: &str| codec_of("anthropic").whole(body.as_bytes());
        let reply = whole(
            r#"{"type":"message","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"a","name":"t","input":{"x":1}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}"#,
        )
        .unwrap();
        assert_eq!(reply.blocks[0], Block::Thinking { text: "t".into(), signature: "s".into() });
        assert_eq!((reply.calls().next().unwrap().args.as_str(), reply.stop), ("{\"x\":1}", TurnStop::ToolUse));
        for (body, class) in [
            (r#"{"type":"error","error":{"type":"invalid_request_error","message":"x"}}"#, Class::BadRequest),
            (r#"{"input_tokens":7}"#, Class::Protocol),
            ("", Class::Protocol),
            ("[]", Class::Protocol),
        ] {
            assert_eq!(whole(body).unwrap_err().class, class, "{body}");
        }
    }

    #[test]
    fn an_answer_without_bounds_is_refused() {
        let blocks: Vec<String> = (0..=BLOCKS_MAX as u32).map(|i| start(i, r#"{"type":"text","text":""}"#)).collect();
        let error = decode(&blocks.iter().map(String::as_str).collect::<Vec<_>>()).unwrap_err();
        assert_eq!((error.class, error.message.contains("too many blocks")), (Class::Protocol, true));
        let text = start(0, r#"{"type":"text","text":""}"#);
        let piece = delta(0, "text_delta", "text", &"x".repeat(limits::MIB));
        let pieces = [vec![text.as_str()], vec![piece.as_str(); limits::REPLY_BYTES_MAX / limits::MIB + 1]].concat();
        assert!(decode(&pieces).unwrap_err().message.contains("beyond all bounds"));
    }
}
