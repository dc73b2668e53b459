//! Test support: feeds a recorded body to a codec in pieces, as a call does from a connection.

use super::error::{Class, ProviderError};
use super::sse::{Splitter, TooLong};
use super::types::{Block, Codec, Prefix, Progress, Reply, Tail, ToolCall, ToolResult, ToolSchema, TurnStop};
use super::vendor::VENDORS;

/// A failure in the words of the one that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failed(pub(super) ProviderError);

impl From<TooLong> for Failed {
    fn from(_: TooLong) -> Failed {
        Failed(ProviderError::new(Class::Protocol, "too long"))
    }
}

/// The codec of a vendor by its name.
pub(super) fn codec_of(name: &str) -> Box<dyn Codec> {
    let vendor = VENDORS.iter().find(|v| v.name == name).unwrap();
    super::codec(vendor.wire.unwrap(), vendor)
}

/// Decodes a streamed body that arrives in these pieces.
pub(super) fn stream<'b>(codec: &dyn Codec, pieces: impl IntoIterator<Item = &'b [u8]>) -> Result<Reply, ProviderError> {
    let mut decoder = codec.decoder();
    let mut splitter = Splitter::default();
    let mut progress = Progress::More;
    let mut take = |event: &[u8], data: &mut [u8]| {
        if progress == Progress::More {
            progress = decoder.event(event, data).map_err(Failed)?;
        }
        Ok(())
    };
    for piece in pieces {
        splitter.feed(piece, &mut take).map_err(|failed: Failed| failed.0)?;
    }
    splitter.finish(&mut take).map_err(|failed: Failed| failed.0)?;
    decoder.finish()
}

/// Decodes events, each given by its data.
pub(super) fn events(codec: &dyn Codec, events: &[&str]) -> Result<Reply, ProviderError> {
    let body: String = events.iter().map(|data| format!("data: {data}\n\n")).collect();
    stream(codec, [body.as_bytes()])
}

/// A body of every kind of message: a prompt, a turn with reasoning and two calls, their results and a line of ours.
pub(super) fn body(codec: &dyn Codec, tools: &[ToolSchema<'_>], tail: &Tail) -> serde_json::Value {
    let call = |id: &str, args: &str| Block::Call(ToolCall { id: id.into(), name: "t".into(), args: args.into() });
    let thinking = Block::Thinking { text: "hm \u{1}".into(), signature: "reasoning".into() };
    let blocks = vec![thinking, Block::Text("I see \"é\"".into()), call("a", "{\"x\": 1}"), call("b", "{")];
    let reply = Reply { blocks, stop: TurnStop::ToolUse, stop_raw: String::new(), usage: None };
    let result = |call_id, is_error| ToolResult { call_id, name: "t", content: "line\nline", is_error };
    let mut out = Vec::new();
    codec.head(&Prefix { model: "m", system: "be brief", tools }, &mut out);
    codec.user("do \"it\"", true, &mut out);
    codec.assistant(&reply, false, &mut out);
    codec.tool_results(&[result("a", false), result("b", true)], Some("go on"), false, &mut out);
    codec.tail(tail, &mut out);
    serde_json::from_slice(&out).unwrap()
}

/// Pseudo-random numbers; the same for the same seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    /// Cuts bytes into pieces of 1 to `piece_bytes_max`.
    pub(super) fn pieces<'b>(&mut self, mut bytes: &'b [u8], piece_bytes_max: usize) -> Vec<&'b [u8]> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let (front, back) = bytes.split_at((1 + self.below(piece_bytes_max)).min(bytes.len()));
            pieces.push(front);
            bytes = back;
        }
        pieces
    }
}
