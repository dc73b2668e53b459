//! What must hold for any input, each rule checked against a plain second implementation. A fuzz target is one call of these; the
//! tests below make the same calls with seeded input on stable.

use std::collections::VecDeque;

use gantry::compress::{Lines, Rules, left_out};
use gantry::json::read::Reader;
use gantry::json::write::push_str;
use gantry::provider::sse::{Splitter, TooLong};
use gantry::provider::{Codec, Progress, Reply, VENDORS, codec};

/// A string is read back as it was, and its line holds nothing at which any line reader splits.
pub fn json_write(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut out = b"before ".to_vec();
    push_str(&mut out, &text);
    let written = std::str::from_utf8(&out).expect("what is written is text").strip_prefix("before ").expect("only appended to");
    assert_eq!(serde_json::from_str::<String>(written).expect("what is written is JSON"), text);
    let plain = |c: char| !c.is_ascii_control() && !matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}');
    assert!(written.chars().all(plain), "{written:?}");
    let needs_none = text.chars().all(|c| plain(c) && !matches!(c, '"' | '\\'));
    assert!(!needs_none || written.len() == text.len() + 2, "an escape that is not needed: {written}");
}

/// What the reader takes is JSON for serde, too, and a reader that has failed still reads.
pub fn json_read(data: &[u8]) {
    let mut reader = Reader::new();
    let mut copy = data.to_vec();
    let json = reader.with(&mut copy, |value| value.to_json());
    if let Ok(json) = json {
        serde_json::from_str::<&serde_json::value::RawValue>(&json).expect("what was read is written as JSON");
    }
    assert_eq!(reader.with(&mut br#"{"a":7}"#.to_vec(), |value| value.u64("a")), Ok(Some(7)));
}

/// The output is within the bounds, is the input when no handle was asked for, and holds lines of the input in their order.
pub fn compress(data: &[u8]) {
    let Some((rules, data)) = data.split_first_chunk::<6>() else { return };
    let number = |at: usize| usize::from(rules[at]);
    let rules = Rules {
        dedup: rules[0] & 1 == 1,
        lines_max: 2 + number(1),
        lines_head: number(2) % (2 + number(1)),
        bytes_max: 600 + 32 * number(3) + number(4),
        line_bytes_max: 140 + number(5),
    };
    let text = String::from_utf8_lossy(data);
    let mut asked = 0;
    let got = gantry::compress::compress(&text, &rules, &mut || {
        asked += 1;
        "shell/0123456789ab".into()
    });
    assert_eq!(asked, usize::from(got.text != text));
    assert!(asked == 1 || !got.capped);
    assert!(got.text.len() <= rules.bytes_max, "{} {rules:?}", got.text.len());
    assert!(got.text.split_inclusive('\n').count() <= rules.lines_max + 1, "{rules:?}");
    let gap = left_out(&Lines::of(&text), &rules);
    let note = format!("[lines {}-{} left out (", gap.start + 1, gap.end);
    assert!(gap.is_empty() || got.capped && got.text.contains(&note), "{note}");
    let mut rest: VecDeque<&str> = text.split_inclusive('\n').collect();
    let is_note = |line: &str| line.starts_with("[lines ") || line.starts_with("[previous ") || line.contains("[… ");
    for line in got.text.split_inclusive('\n').filter(|line| !is_note(line)) {
        while rest.pop_front().expect("a kept line is one of the input, in order") != line {}
    }
}

/// Event names and data, as owned text.
type Events = Vec<(Vec<u8>, Vec<u8>)>;

struct Overflow;

impl From<TooLong> for Overflow {
    fn from(_: TooLong) -> Overflow {
        Overflow
    }
}

/// However a stream is cut, its events are those that the standard's own words give.
pub fn sse(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let mut events = Events::new();
    let mut take = |name: &[u8], data: &mut [u8]| {
        events.push((name.to_vec(), data.to_vec()));
        data.fill(0);
        Ok::<(), Overflow>(())
    };
    let mut splitter = Splitter::default();
    for piece in pieces(body, *cut) {
        assert!(splitter.feed(piece, &mut take).is_ok(), "the bound is far above a fuzzer's input");
    }
    assert!(splitter.finish(&mut take).is_ok());
    assert_eq!(events, events_by_the_standard(body));
}

fn events_by_the_standard(body: &[u8]) -> Events {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
    let mut bytes = body.iter().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' | b'\n' => {
                if *byte == b'\r' {
                    bytes.next_if_eq(&&b'\n');
                }
                lines.push(Vec::new());
            }
            byte => lines.last_mut().expect("never empty").push(*byte),
        }
    }
    let (mut events, mut name, mut data) = (Events::new(), Vec::new(), None::<Vec<u8>>);
    // The end of the body ends a line and an event.
    for line in lines.into_iter().chain([Vec::new()]) {
        if line.is_empty() {
            let name = std::mem::take(&mut name);
            events.extend(data.take().map(|data| (name, data)));
            continue;
        }
        let colon = line.iter().position(|b| *b == b':');
        let value = colon.map_or(&b""[..], |at| &line[at + 1..]);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon.unwrap_or(line.len())] {
            b"event" => name = value.to_vec(),
            b"data" => match &mut data {
                Some(data) => data.extend([b"\n", value].concat()),
                None => data = Some(value.to_vec()),
            },
            _ => {}
        }
    }
    events
}

/// An answer is a failure or a turn that goes back as JSON, the same however it was cut.
pub fn decode(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    for name in ["anthropic", "openai", "openrouter"] {
        let vendor = VENDORS.iter().find(|vendor| vendor.name == name).expect("the table has it");
        let answer = |cut: u8| {
            let codec = codec(vendor.wire.expect("it has one wire"), vendor);
            reply(&*codec, body, cut).map(|reply| {
                let mut out = Vec::new();
                codec.assistant(&reply, true, &mut out);
                let json = out.strip_prefix(b",").unwrap_or(&out).to_vec();
                serde_json::from_slice::<&serde_json::value::RawValue>(&json).expect("a turn goes back as JSON");
                json
            })
        };
        assert_eq!(answer(*cut), answer(0), "{name}");
    }
}

fn reply(codec: &dyn Codec, body: &[u8], cut: u8) -> Option<Reply> {
    let (mut decoder, mut splitter, mut progress) = (codec.decoder(), Splitter::default(), Progress::More);
    let mut take = |event: &[u8], data: &mut [u8]| {
        if progress == Progress::More {
            progress = decoder.event(event, data).map_err(|_| Overflow)?;
        }
        Ok::<(), Overflow>(())
    };
    for piece in pieces(body, cut) {
        splitter.feed(piece, &mut take).ok()?;
    }
    splitter.finish(&mut take).ok()?;
    decoder.finish().ok()
}

/// The bytes in pieces of one size; 0 is all at once.
fn pieces(bytes: &[u8], cut: u8) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(if cut == 0 { bytes.len().max(1) } else { usize::from(cut) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: usize = 10_000;

    /// xorshift64.
    fn random(seed: &mut u64, bound: usize) -> usize {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        (*seed % bound as u64) as usize
    }

    /// Calls a check with strings of the parts, in any order.
    fn many(check: fn(&[u8]), parts: &[&[u8]]) {
        let mut seed = 0x2545_f491_4f6c_dd1d;
        for _ in 0..ROUNDS {
            let mut data: Vec<u8> = (0..6).map(|_| random(&mut seed, 256) as u8).collect();
            for _ in 0..random(&mut seed, 60) {
                let part = parts[random(&mut seed, parts.len())];
                let times = if random(&mut seed, 8) == 0 { random(&mut seed, 40) } else { 1 };
                data.extend(std::iter::repeat_n(part, times).flatten());
            }
            check(&data);
        }
    }

    #[test]
    fn strings() {
        many(json_write, &[b"plain text", "é\u{85}漢😀\u{2028}\u{2029}".as_bytes(), b"\"\\\n\r\t\x08\x0c\0\x7f", b"\xc2", b"\xe2\x80"]);
    }

    #[test]
    fn documents() {
        let parts: [&[u8]; 12] =
            [b"{", b"}", b"[", b"]", b",", b":", b"\"a\"", b"\"\\ud83d\"", b"-1.5e3", b"null", b" ", b"{\"a\":[1,{\"b\":true}]}"];
        many(|data| json_read(&data[6..]), &parts);
    }

    #[test]
    fn outputs() {
        let long = "0123456789abcdé".repeat(40);
        many(compress, &[b"a line that comes again\n", b"\n", b"b\r\n", long.as_bytes(), "漢字\n".as_bytes(), b"no end"]);
    }

    #[test]
    fn streams() {
        many(sse, &[b"data: x\n", b"\n", b"\r", b"\r\n", b"event: e\n", b"data", b":", b" ", b"\xef\xbb\xbf", b"data:\xff\n", b": c\n"]);
    }

    #[test]
    fn answers() {
        let parts: [&[u8]; 10] = [
            b"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
            b"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
            b"data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"t\",\"input\":{}}}\n\n",
            b"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":3}}\n\n",
            b"data: {\"type\":\"message_stop\"}\n\n",
            b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n",
            b"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"i\",\"function\":{\"name\":\"t\",\"arguments\":\"{}\"}}]}}]}\n\n",
            b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
            b"data: [DONE]\n\n",
            b"data: {}\n\n",
        ];
        many(|data| decode(&data[5..]), &parts);
    }
}
