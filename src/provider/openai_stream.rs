//! Assembles a Chat Completions answer from its chunks, as differently as servers cut them.
//!
//! What differs between servers: usage in any chunk, also in one without choices; a finish reason that says `stop`, or nothing,
//! although there are calls; reasoning under several names; an error object after a status of 200; an answer that is not
//! streamed at all. How they cut calls is the matter of [`Calls`].

use std::cell::Cell;
use std::rc::Rc;

use super::body_error;
use super::error::{Class, ProviderError};
use super::openai_calls::{Calls, TooMany};
use super::reply::settle;
use super::types::{Block, Decoder, Progress, Reply, TurnStop, Usage};
use crate::json::read::{Reader, Value};
use crate::limits;

/// The fields in which servers send reasoning as text.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];
/// Why an answer ended, in servers' words. Whatever else they may say is an end like any other, and the word is kept.
static STOPS: &[(&str, TurnStop)] = &[
    ("stop", TurnStop::EndTurn),
    ("tool_calls", TurnStop::ToolUse),
    ("function_call", TurnStop::ToolUse),
    ("length", TurnStop::MaxTokens),
    ("max_tokens", TurnStop::MaxTokens),
    ("model_length", TurnStop::MaxTokens),
    ("content_filter", TurnStop::ContentFilter),
    ("refusal", TurnStop::Refusal),
];
/// One answer in the making.
pub(super) struct Stream {
    vendor: &'static str,
    made_up: Rc<Cell<u64>>,
    reader: Option<Reader>,
    text: String,
    reasoning: String,
    reasoning_field: &'static str,
    calls: Calls,
    stop_raw: String,
    refused: bool,
    usage: Option<Usage>,
    bytes: usize,
    /// A choice was seen.
    begun: bool,
    terminated: bool,
}

impl Stream {
    pub(super) fn new(vendor: &'static str, made_up: Rc<Cell<u64>>) -> Stream {
        Stream {
            vendor,
            made_up,
            reader: None,
            text: String::new(),
            reasoning: String::new(),
            reasoning_field: REASONING_FIELDS[0],
            calls: Calls::default(),
            stop_raw: String::new(),
            refused: false,
            usage: None,
            bytes: 0,
            begun: false,
            terminated: false,
        }
    }

    /// Decodes an answer that was not streamed.
    pub(super) fn whole(mut self, body: &[u8]) -> Result<Reply, ProviderError> {
        self.event(b"", &mut body.to_vec())?;
        // Nothing can be missing behind a whole body, whether it names a reason or not.
        self.terminated = true;
        Box::new(self).finish()
    }

    fn take(&mut self, chunk: Value<'_, '_>) -> Result<(), ProviderError> {
        if !chunk.is_object() {
            return Err(self.broken("an event that is no object"));
        }
        let choice = chunk.get("choices").and_then(|choices| choices.items().find(|c| c.u64("index").unwrap_or(0) == 0));
        // Groq and Moonshot put it elsewhere in streams.
        let elsewhere = [chunk.get("x_groq"), choice].into_iter().flatten().find_map(|holder| holder.get("usage"));
        if let Some(usage) = chunk.get("usage").or(elsewhere) {
            self.take_usage(usage);
        }
        let Some(choice) = choice else { return Ok(()) };
        self.begun = true;
        // A server that does not stream sends `message` where others send `delta`.
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            self.take_delta(delta)?;
        }
        if let Some(reason) = choice.str("finish_reason").filter(|r| !r.is_empty()) {
            self.stop_raw = reason[..reason.floor_char_boundary(limits::PROVIDER_CODE_BYTES_MAX)].to_owned();
        }
        if choice.str("native_finish_reason") == Some("network_error") {
            return Err(ProviderError::new(Class::Server, format!("{} lost its upstream inside the stream (network_error)", self.vendor)));
        }
        Ok(())
    }

    fn take_delta(&mut self, delta: Value<'_, '_>) -> Result<(), ProviderError> {
        if let Some(content) = delta.get("content") {
            match content.as_str() {
                Some(text) => self.grow_text(text)?,
                None => content.items().filter_map(|part| part.str("text")).try_for_each(|text| self.grow_text(text))?,
            }
        }
        if let Some(refusal) = delta.str("refusal").filter(|r| !r.is_empty()) {
            self.refused = true;
            self.grow_text(refusal)?;
        }
        if let Some((field, text)) = REASONING_FIELDS.iter().find_map(|f| Some((*f, delta.str(f).filter(|t| !t.is_empty())?))) {
            self.bound(text.len())?;
            self.reasoning_field = field;
            self.reasoning.push_str(text);
        }
        delta.get("tool_calls").into_iter().flat_map(Value::items).try_for_each(|call| self.take_call(call))
    }

    fn grow_text(&mut self, text: &str) -> Result<(), ProviderError> {
        self.bound(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    /// Adds a fragment to the call it belongs to, or begins one.
    fn take_call(&mut self, fragment: Value<'_, '_>) -> Result<(), ProviderError> {
        let index = fragment.u64("index");
        let id = fragment.str("id").unwrap_or_default();
        let function = fragment.get("function");
        let name = function.and_then(|f| f.str("name")).unwrap_or_default();
        let arguments = function.and_then(|f| f.get("arguments"));
        // Some servers send the arguments as the object they are.
        let arguments = arguments.map(|a| a.as_str().map_or_else(|| a.to_json(), str::to_owned)).unwrap_or_default();
        self.bound(id.len() + name.len() + arguments.len())?;
        self.calls.take(index, id, name, &arguments).map_err(|TooMany| self.broken("more tool calls than an answer can have"))
    }

    /// Prompt counts include what came from the cache or went to it. Reasoning is part of the output; servers that leave it out
    /// of the completion's count have it in the total. Counts are cumulative: the last statement holds.
    fn take_usage(&mut self, stated: Value<'_, '_>) {
        let (prompt, completion, total) = (stated.u64("prompt_tokens"), stated.u64("completion_tokens"), stated.u64("total_tokens"));
        let Some(prompt) = prompt.or_else(|| total.map(|total| total.saturating_sub(completion.unwrap_or(0)))) else { return };
        let output = completion.unwrap_or(0).max(total.unwrap_or(0).saturating_sub(prompt));
        let details = stated.get("prompt_tokens_details");
        let cached = details.and_then(|d| d.u64("cached_tokens"));
        let cached = cached.or_else(|| ["prompt_cache_hit_tokens", "cached_tokens"].iter().find_map(|key| stated.u64(key)));
        let cached = cached.unwrap_or(0).min(prompt);
        let written = details.and_then(|d| d.u64("cache_write_tokens")).unwrap_or(0).min(prompt - cached);
        self.usage = Some(Usage { input: prompt - cached - written, output, cache_read: cached, cache_write: written });
    }

    fn bound(&mut self, more: usize) -> Result<(), ProviderError> {
        self.bytes += more;
        if self.bytes > limits::REPLY_BYTES_MAX { Err(self.broken("an answer beyond all bounds")) } else { Ok(()) }
    }

    fn broken(&self, what: &str) -> ProviderError {
        ProviderError::new(Class::Protocol, format!("{} sent {what}", self.vendor))
    }

    fn stop(&self) -> TurnStop {
        let said = STOPS.iter().find(|row| row.0 == self.stop_raw).map_or(TurnStop::EndTurn, |row| row.1);
        match said {
            TurnStop::EndTurn | TurnStop::ToolUse if self.refused => TurnStop::Refusal,
            said => said,
        }
    }
}

impl Decoder for Stream {
    fn event(&mut self, event: &[u8], data: &mut [u8]) -> Result<Progress, ProviderError> {
        if data.trim_ascii() == b"[DONE]" {
            self.terminated = true;
            return Ok(Progress::Done);
        }
        if let Some(error) = body_error::in_answer(self.vendor, event, data) {
            return Err(error);
        }
        let mut reader = self.reader.take().unwrap_or_default();
        let taken = reader.with(data, |chunk| self.take(chunk));
        self.reader = Some(reader);
        match taken {
            Ok(done) => done.map(|()| Progress::More),
            Err(invalid) => Err(self.broken(&format!("an event that is no JSON ({})", invalid.0))),
        }
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn finish(self: Box<Self>) -> Result<Reply, ProviderError> {
        if self.stop_raw == "error" {
            return Err(ProviderError::new(Class::Server, format!("{} ended the answer with finish_reason `error`", self.vendor)));
        }
        if self.stop_raw.is_empty() && !self.terminated {
            return Err(ProviderError::new(Class::Transport, format!("{} ended the stream before the answer was complete", self.vendor)));
        }
        if !self.begun {
            return Err(self.broken("no choice"));
        }
        let stop = self.stop();
        let mut blocks = Vec::new();
        if !self.reasoning.is_empty() {
            blocks.push(Block::Thinking { text: self.reasoning, signature: self.reasoning_field.to_owned() });
        }
        if !self.text.is_empty() {
            blocks.push(Block::Text(self.text));
        }
        blocks.extend(self.calls.finish().into_iter().map(Block::Call));
        let mut reply = Reply { blocks, stop, stop_raw: self.stop_raw, usage: self.usage };
        settle(&mut reply, &self.made_up);
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::feed::{codec_of, events, stream};

    const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    const CALLS: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;

    fn decode(chunks: &[&str]) -> Result<Reply, ProviderError> {
        events(&*codec_of("local"), chunks)
    }

    fn delta(fields: &str) -> String {
        format!("{{\"choices\":[{{\"index\":0,\"delta\":{{{fields}}},\"finish_reason\":null}}]}}")
    }

    /// Decodes one `tool_calls` fragment per chunk; the calls as (id, name, args).
    fn calls(fragments: &[&str]) -> Vec<(String, String, String)> {
        let mut chunks: Vec<String> = fragments.iter().map(|f| delta(&format!("\"tool_calls\":[{f}]"))).collect();
        chunks.push(CALLS.to_owned());
        let reply = decode(&chunks.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        assert_eq!(reply.stop, TurnStop::ToolUse);
        reply.calls().map(|c| (c.id.clone(), c.name.clone(), c.args.clone())).collect()
    }

    fn call(id: &str, name: &str, args: &str) -> (String, String, String) {
        (id.into(), name.into(), args.into())
    }

    #[test]
    fn text_comes_as_a_string_or_in_parts() {
        let parts = delta(r#""content":[{"type":"text","text":"b"},{"type":"image"},{"type":"text","text":"c"}]"#);
        let reply = decode(&[&delta(r#""role":"assistant","content":"a""#), &parts, &delta(r#""content":null"#), STOP]).unwrap();
        assert_eq!((reply.text().as_ref(), reply.stop, reply.stop_raw.as_str()), ("abc", TurnStop::EndTurn, "stop"));
    }

    #[test]
    fn one_id_on_two_calls_is_made_two() {
        let got = calls(&[
            r#"{"index":0,"id":"a","function":{"name":"read","arguments":"{\"p\":1}"}}"#,
            r#"{"index":1,"id":"a","function":{"name":"read","arguments":"{\"p\":2}"}}"#,
        ]);
        assert_eq!(got, [call("a", "read", "{\"p\":1}"), call("gantry_1", "read", "{\"p\":2}")]);
    }

    #[test]
    fn made_up_ids_are_new_in_every_answer_of_a_session() {
        let codec = codec_of("local");
        let chunks = [delta(r#""tool_calls":[{"function":{"name":"t","arguments":"{}"}}]"#), CALLS.to_owned()];
        let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
        let ids: Vec<String> = (0..2).map(|_| events(&*codec, &chunks).unwrap().calls().next().unwrap().id.clone()).collect();
        assert_eq!(ids, ["gantry_1", "gantry_2"]);
    }

    #[test]
    fn absent_arguments_are_an_empty_object_and_object_arguments_are_text() {
        for (arguments, args) in [("\"\"", "{}"), ("\"  \"", "{}"), ("null", "{}"), ("{}", "{}"), (r#"{"p":[1,"x"]}"#, r#"{"p":[1,"x"]}"#)]
        {
            let got = calls(&[&format!("{{\"index\":0,\"id\":\"a\",\"function\":{{\"name\":\"t\",\"arguments\":{arguments}}}}}")]);
            assert_eq!(got, [call("a", "t", args)]);
        }
        assert_eq!(calls(&[r#"{"index":0,"id":"a","function":{"name":"t"}}"#]), [call("a", "t", "{}")]);
    }

    #[test]
    fn an_empty_list_of_calls_is_no_call() {
        let reply = decode(&[&delta(r#""content":"done","tool_calls":[],"function_call":null"#), CALLS]).unwrap();
        assert_eq!((reply.calls().count(), reply.stop), (0, TurnStop::EndTurn));
    }

    #[test]
    fn complete_calls_count_whatever_the_finish_reason_says_unless_it_was_cut() {
        let one = delta(r#""tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{}"}}]"#);
        let with = |reason: &str| format!("{{\"choices\":[{{\"delta\":{{}},\"finish_reason\":{reason}}}]}}");
        for (reason, stop) in [
            ("\"stop\"", TurnStop::ToolUse),
            ("null", TurnStop::ToolUse),
            ("\"function_call\"", TurnStop::ToolUse),
            ("\"whatever\"", TurnStop::ToolUse),
            ("\"length\"", TurnStop::MaxTokens),
            ("\"content_filter\"", TurnStop::ContentFilter),
        ] {
            let reply = decode(&[&one, &with(reason), "[DONE]"]).unwrap();
            assert_eq!((reply.stop, reply.calls().count()), (stop, 1), "{reason}");
        }
    }

    #[test]
    fn a_stream_that_breaks_off_is_no_answer() {
        let text = delta(r#""content":"half an answer""#);
        for chunks in [&[text.as_str()][..], &[]] {
            let error = decode(chunks).unwrap_err();
            assert!(error.class == Class::Transport && error.class.retryable(), "{error:?}");
        }
        assert_eq!(decode(&[&text, STOP]).unwrap().text(), "half an answer");
        assert_eq!(decode(&[&text, "[DONE]"]).unwrap().stop, TurnStop::EndTurn);
        assert_eq!(decode(&["[DONE]"]).unwrap_err().class, Class::Protocol);
    }

    #[test]
    fn an_error_inside_the_stream_is_a_failure_and_never_an_answer() {
        let text = delta(r#""content":"half""#);
        for (chunk, class, part) in [
            (r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"gone"}}}"#, Class::Server, "gone"),
            (r#"{"error":{"message":"x"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#, Class::Server, "x"),
            (r#"{"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#, Class::Server, "`error`"),
            (r#"{"choices":[{"delta":{},"finish_reason":"stop","native_finish_reason":"network_error"}]}"#, Class::Server, "network_error"),
            (r#"{"error":"the runner died"}"#, Class::Server, "the runner died"),
            ("half of {", Class::Protocol, "no JSON"),
            ("7", Class::Protocol, "no object"),
        ] {
            let error = decode(&[&text, chunk, "[DONE]"]).unwrap_err();
            assert_eq!((error.class, error.message.contains(part)), (class, true), "{error:?}");
        }
    }

    #[test]
    fn reasoning_is_kept_apart_with_the_field_it_came_in() {
        for field in REASONING_FIELDS {
            let (a, b) = (delta(&format!("\"{field}\":\"let me \"")), delta(&format!("\"{field}\":\"see\",\"content\":\"\"")));
            let reply = decode(&[&a, &b, &delta(r#""content":"yes""#), STOP]).unwrap();
            assert_eq!(reply.blocks[0], Block::Thinking { text: "let me see".into(), signature: field.into() });
            assert_eq!(reply.text(), "yes");
        }
    }

    #[test]
    fn a_refusal_is_told_from_an_answer() {
        let reply = decode(&[&delta(r#""refusal":"I will ""#), &delta(r#""refusal":"not""#), STOP]).unwrap();
        assert_eq!((reply.text().as_ref(), reply.stop), ("I will not", TurnStop::Refusal));
        let reply = decode(&[&delta(r#""content":"yes","refusal":"""#), STOP]).unwrap();
        assert_eq!(reply.stop, TurnStop::EndTurn);
    }

    #[test]
    fn usage_is_taken_wherever_it_stands_and_the_last_holds() {
        let usage = |body: &str| format!("{{\"choices\":[],\"usage\":{body}}}");
        let of = |chunks: &[&str]| decode(&[&[STOP][..], chunks].concat()).unwrap().usage;
        let full = usage(r#"{"prompt_tokens":100,"completion_tokens":9,"total_tokens":109,"prompt_tokens_details":{"cached_tokens":80}}"#);
        assert_eq!(of(&[&full]), Some(Usage { input: 20, output: 9, cache_read: 80, cache_write: 0 }));
        assert_eq!(of(&[&full, r#"{"choices":[],"usage":null}"#, "[DONE]"]), of(&[&full]));
        for (body, input, output, cache_read, cache_write) in [
            (r#"{"prompt_tokens":5,"completion_tokens":1}"#, 5, 1, 0, 0),
            (r#"{"prompt_tokens":5,"completion_tokens":null,"total_tokens":null}"#, 5, 0, 0, 0),
            (r#"{"prompt_tokens":10,"completion_tokens":2,"total_tokens":52}"#, 10, 42, 0, 0),
            (
                r#"{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":5}}"#,
                1,
                2,
                4,
                5,
            ),
            (r#"{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":7}"#, 3, 2, 7, 0),
            (r#"{"prompt_tokens":10,"completion_tokens":2,"cached_tokens":99}"#, 0, 2, 10, 0),
            (r#"{"total_tokens":30}"#, 30, 0, 0, 0),
            (r#"{"total_tokens":30,"completion_tokens":10}"#, 20, 10, 0, 0),
        ] {
            let expected = Usage { input, output, cache_read, cache_write };
            for chunk in [usage(body), format!("{{\"x_groq\":{{\"usage\":{body}}}}}"), format!("{{\"choices\":[{{\"usage\":{body}}}]}}")] {
                assert_eq!(of(&[&full, &chunk]), Some(expected), "{chunk}");
            }
        }
        for nothing in ["{}", "null", r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#, "[]", r#"{"prompt_tokens":-1}"#] {
            assert_eq!(of(&[&usage(nothing)]), None, "{nothing}");
        }
    }

    #[test]
    fn only_the_first_choice_is_read() {
        let other = r#"{"choices":[{"index":1,"delta":{"content":"other"}}]}"#;
        assert_eq!(decode(&[other, &delta(r#""content":"first""#), STOP]).unwrap().text(), "first");
    }

    #[test]
    fn comments_and_unknown_fields_are_passed_over() {
        let body = ": PROCESSING\n\nevent: chunk\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\",\"audio\":{}},\"logprobs\":[]}],\"new\":1}\n\n: PROCESSING\n\ndata: [DONE]\n\ndata: garbage";
        assert_eq!(stream(&*codec_of("openrouter"), [body.as_bytes()]).unwrap().text(), "a");
    }

    #[test]
    fn an_answer_that_is_not_streamed_is_the_same_answer() {
        let whole = |body: &str| codec_of("local").whole(body.as_bytes());
        let reply = whole(
            r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","function":{"name":"t","arguments":""}}]},"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
        )
        .unwrap();
        assert_eq!((reply.stop, reply.calls().next().unwrap().args.as_str()), (TurnStop::ToolUse, "{}"));
        assert_eq!(reply.usage.unwrap().input, 3);
        for (body, class) in [
            (r#"{"error":{"message":"x","code":"insufficient_quota"}}"#, Class::Quota),
            ("{}", Class::Protocol),
            ("", Class::Protocol),
            (r#"{"choices":[]}"#, Class::Protocol),
            ("[]", Class::Protocol),
        ] {
            assert_eq!(whole(body).unwrap_err().class, class, "{body}");
        }
    }

    #[test]
    fn an_answer_without_bounds_is_refused() {
        let piece = delta(&format!("\"content\":\"{}\"", "x".repeat(limits::MIB)));
        let error = decode(&vec![piece.as_str(); limits::REPLY_BYTES_MAX / limits::MIB + 1]).unwrap_err();
        assert_eq!((error.class, error.message.contains("beyond all bounds")), (Class::Protocol, true));
    }
}
