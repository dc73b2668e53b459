//! Test support: feeds a recorded body to a codec in pieces, as a call does from a connection.

use super::error::{Class, ProviderError};
use super::optional::Refused;
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
    codec.tail(tail, &Refused::default(), &mut out);
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

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"é \\ud83d\\ude00\"}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"t\",\"input\":{}}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"x\\\":[1]}\"}}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":5}}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
    );
    const CHAT: &str = concat!(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"hm\",\"content\":\"é \\ud83d\\ude00\"}}]}\r\n\r\n: c\r\n\r\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"t\",\"arguments\":\"{\"}}]}}]}\r\n\r\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"}\"}}]},\"finish_reason\":\"stop\"}]}\r\n\r\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"total_tokens\":9}}\r\n\r\ndata: [DONE]\r\n\r\n",
    );

    fn mangled(body: &[u8], random: &mut Random) -> Vec<u8> {
        let mut out = body.to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(out.len());
            match random.below(4) {
                0 => out[at] = random.below(256) as u8,
                1 => drop(out.remove(at)),
                2 => out.insert(at, b"\"{}[]:,\\\r\n0e"[random.below(12)]),
                _ => {
                    let end = (at + 1 + random.below(120)).min(out.len());
                    let piece = out[at..end].to_vec();
                    let to = random.below(out.len());
                    out.splice(to..to, piece);
                }
            }
        }
        out
    }

    #[test]
    fn whatever_a_stream_holds_ends_in_a_failure_or_in_a_turn_that_can_go_back() {
        let mut random = Random(0x6c62_272e_07bb_0142);
        for (vendor, body) in [("anthropic", MESSAGES), ("local", CHAT)] {
            let codec = codec_of(vendor);
            assert_eq!(stream(&*codec, [body.as_bytes()]).unwrap().calls().count(), 1);
            let mut answers = 0;
            for _ in 0..20_000 {
                let bytes = mangled(body.as_bytes(), &mut random);
                let Ok(reply) = stream(&*codec, random.pieces(&bytes, 200)) else { continue };
                answers += 1;
                let mut out = Vec::new();
                codec.assistant(&reply, true, &mut out);
                let json = out.strip_prefix(b",").unwrap_or(&out);
                assert!(serde_json::from_slice::<serde_json::Value>(json).is_ok(), "{}", String::from_utf8_lossy(&bytes));
                let ids: std::collections::HashSet<&str> = reply.calls().map(|c| c.id.as_str()).collect();
                assert!(ids.len() == reply.calls().count() && !ids.contains(""));
            }
            assert!(answers > 1_000, "only {answers} of the mangled streams were answers");
        }
    }
}
