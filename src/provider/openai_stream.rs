//! Assembles a Chat Completions answer from its chunks, as differently as servers cut them.
//!
//! What differs between servers: calls without an index or an id, several calls under one index, a whole call in one chunk,
//! fragments of two calls in turn; usage in any chunk, also in one without choices; a finish reason that says `stop`, or nothing,
//! although there are calls; reasoning under several names; an error object after a status of 200; an answer that is not
//! streamed at all.

use std::cell::Cell;
use std::rc::Rc;

use super::body_error;
use super::error::{Class, ProviderError};
use super::types::{Block, Decoder, Progress, Reply, ToolCall, TurnStop, Usage, settle_calls};
use crate::json::read::{Reader, Value};
use crate::limits;

/// The fields in which servers send reasoning as text.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];
/// Calls of one answer beyond which the stream is no answer any more.
const CALLS_MAX: usize = limits::CALLS_PER_TURN_MAX * 4;

/// One answer in the making.
pub(super) struct Stream {
    vendor: &'static str,
    made_up: Rc<Cell<u64>>,
    reader: Option<Reader>,
    text: String,
    reasoning: String,
    reasoning_field: &'static str,
    calls: Vec<Call>,
    stop_raw: String,
    refused: bool,
    usage: Option<Usage>,
    bytes: usize,
    terminated: bool,
}

/// A call in the making.
struct Call {
    index: Option<u64>,
    call: ToolCall,
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
            calls: Vec::new(),
            stop_raw: String::new(),
            refused: false,
            usage: None,
            bytes: 0,
            terminated: false,
        }
    }

    fn take(&mut self, chunk: Value<'_, '_>) -> Result<(), ProviderError> {
        if !chunk.is_object() {
            return Err(self.broken("an event that is no object"));
        }
        self.take_usage(chunk);
        let Some(choice) = chunk.get("choices").and_then(|choices| choices.items().find(|c| c.u64("index").unwrap_or(0) == 0)) else {
            return Ok(());
        };
        // A server that does not stream sends `message` where others send `delta`.
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            self.take_delta(delta)?;
        }
        if let Some(reason) = choice.str("finish_reason").filter(|r| !r.is_empty()) {
            self.stop_raw = reason.to_owned();
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
        if let Some(refusal) = delta.str("refusal") {
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
        self.bound(name.len() + arguments.len())?;
        match self.place(index, id, name) {
            Some(at) => {
                let call = &mut self.calls[at].call;
                if call.id.is_empty() {
                    call.id.push_str(id);
                }
                if call.name.is_empty() {
                    call.name.push_str(name);
                }
                call.args.push_str(&arguments);
            }
            None if self.calls.len() >= CALLS_MAX => return Err(self.broken("more tool calls than an answer can have")),
            None => self.calls.push(Call { index, call: ToolCall { id: id.to_owned(), name: name.to_owned(), args: arguments } }),
        }
        Ok(())
    }

    /// The call that a fragment continues. A new id always begins a call, whatever its index says; without an id, a name
    /// begins one unless the call under that index has none yet.
    fn place(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        if !id.is_empty()
            && let Some(at) = self.calls.iter().rposition(|c| c.call.id == id)
        {
            return Some(at);
        }
        let at = match index {
            Some(index) => self.calls.iter().rposition(|c| c.index == Some(index))?,
            None => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[at].call;
        let begins = if id.is_empty() { !name.is_empty() && !call.name.is_empty() && index.is_none() } else { !call.id.is_empty() };
        (!begins).then_some(at)
    }

    fn take_usage(&mut self, chunk: Value<'_, '_>) {
        // Groq puts it elsewhere in streams.
        let Some(stated) = chunk.get("usage").or_else(|| chunk.get("x_groq").and_then(|x| x.get("usage"))) else { return };
        let (prompt, total) = (stated.u64("prompt_tokens"), stated.u64("total_tokens"));
        let Some(prompt) = prompt.or(total) else { return };
        let output = stated.u64("completion_tokens").unwrap_or_else(|| total.unwrap_or(prompt).saturating_sub(prompt));
        let details = stated.get("prompt_tokens_details");
        let cached =
            details.and_then(|d| d.u64("cached_tokens")).or_else(|| stated.u64("prompt_cache_hit_tokens")).unwrap_or(0).min(prompt);
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
        match self.stop_raw.as_str() {
            "length" | "model_length" => TurnStop::MaxTokens,
            "content_filter" => TurnStop::ContentFilter,
            _ if self.refused => TurnStop::Refusal,
            "tool_calls" | "function_call" => TurnStop::ToolUse,
            _ => TurnStop::EndTurn,
        }
    }
}

impl Decoder for Stream {
    fn event(&mut self, event: &[u8], data: &mut [u8]) -> Result<Progress, ProviderError> {
        if data.trim_ascii() == b"[DONE]" {
            self.terminated = true;
            return Ok(Progress::Done);
        }
        // The reader overwrites what it reads, and an error object is read as a whole by another.
        let raw = (event == b"error" || memchr::memmem::find(data, b"\"error\"").is_some()).then(|| data.to_vec());
        if let Some(raw) = raw {
            let an_error = event == b"error"
                || serde_json::from_slice::<serde_json::Value>(&raw).is_ok_and(|v| v.get("error").is_some_and(|e| !e.is_null()));
            if an_error && let Some(said) = body_error::stated(&raw) {
                return Err(body_error::in_stream(self.vendor, said));
            }
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
        let stop = self.stop();
        let mut blocks = Vec::new();
        if !self.reasoning.is_empty() {
            blocks.push(Block::Thinking { text: self.reasoning, signature: self.reasoning_field.to_owned() });
        }
        if !self.text.is_empty() {
            blocks.push(Block::Text(self.text));
        }
        let mut calls = self.calls;
        // Calls under an index come in its order; those without keep theirs.
        if calls.iter().all(|c| c.index.is_some()) {
            calls.sort_by_key(|c| c.index);
        }
        for Call { mut call, .. } in calls {
            if call.id.is_empty() {
                self.made_up.set(self.made_up.get() + 1);
                call.id = format!("call_{}", self.made_up.get());
            }
            blocks.push(Block::Call(call));
        }
        let mut reply = Reply { blocks, stop, stop_raw: self.stop_raw, usage: self.usage };
        settle_calls(&mut reply);
        Ok(reply)
    }
}
