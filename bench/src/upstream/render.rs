//! Turns as the bytes of a wire.

use serde_json::{Value, json};

use super::answer::Answer;

/// A provider's wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    Chat,
}

/// What the model says in one turn.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    text: String,
    thinking: Option<(String, String)>,
    calls: Vec<(String, String, String)>,
    stop: Option<String>,
    usage: Option<[u64; 4]>,
    no_usage: bool,
}

impl Turn {
    /// A turn that says nothing yet.
    pub fn new() -> Turn {
        Turn::default()
    }

    /// Adds text.
    pub fn text(mut self, text: &str) -> Turn {
        self.text.push_str(text);
        self
    }

    /// Sets reasoning and its signature.
    pub fn thinking(mut self, text: &str, signature: &str) -> Turn {
        self.thinking = Some((text.to_owned(), signature.to_owned()));
        self
    }

    /// Adds a call; its id is made from its place.
    pub fn call(self, name: &str, args: &str) -> Turn {
        let id = format!("id_{}_{}", name, self.calls.len());
        self.call_with_id(&id, name, args)
    }

    /// Adds a call with an id.
    pub fn call_with_id(mut self, id: &str, name: &str, args: &str) -> Turn {
        self.calls.push((id.to_owned(), name.to_owned(), args.to_owned()));
        self
    }

    /// Sets the stop reason in the wire's own word.
    pub fn stop(mut self, raw: &str) -> Turn {
        self.stop = Some(raw.to_owned());
        self
    }

    /// Sets input, output, cache read, cache write.
    pub fn usage(mut self, usage: [u64; 4]) -> Turn {
        self.usage = Some(usage);
        self
    }

    /// States no usage at all.
    pub fn no_usage(mut self) -> Turn {
        self.no_usage = true;
        self
    }

    /// The turn as an answer on a wire.
    pub fn on(&self, wire: Wire) -> Answer {
        Answer::sse(self.events(wire))
    }

    /// The turn as the events of a wire.
    pub fn events(&self, wire: Wire) -> Vec<u8> {
        match wire {
            Wire::Anthropic => self.anthropic(),
            Wire::Chat => self.chat(),
        }
    }

    fn counts(&self) -> [u64; 4] {
        self.usage.unwrap_or([100, 10, 0, 0])
    }

    fn anthropic(&self) -> Vec<u8> {
        let [input, output, read, write] = self.counts();
        let mut out = Vec::new();
        let mut event = |value: Value| {
            out.extend_from_slice(format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default()).as_bytes());
        };
        let usage =
            json!({"input_tokens": input, "cache_read_input_tokens": read, "cache_creation_input_tokens": write, "output_tokens": 1});
        let mut message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": []});
        if !self.no_usage {
            message["usage"] = usage;
        }
        event(json!({"type": "message_start", "message": message}));
        event(json!({"type": "ping"}));
        let mut index = 0;
        let mut block = |start: Value, deltas: Vec<Value>| {
            event(json!({"type": "content_block_start", "index": index, "content_block": start}));
            for delta in deltas {
                event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
            }
            event(json!({"type": "content_block_stop", "index": index}));
            index += 1;
        };
        if let Some((text, signature)) = &self.thinking {
            let deltas =
                vec![json!({"type": "thinking_delta", "thinking": text}), json!({"type": "signature_delta", "signature": signature})];
            block(json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
        }
        if !self.text.is_empty() {
            block(json!({"type": "text", "text": ""}), halves(&self.text).map(|t| json!({"type": "text_delta", "text": t})).collect());
        }
        for (id, name, args) in &self.calls {
            let deltas = halves(args).map(|a| json!({"type": "input_json_delta", "partial_json": a})).collect();
            block(json!({"type": "tool_use", "id": id, "name": name, "input": {}}), deltas);
        }
        let stop = self.stop.clone().unwrap_or_else(|| if self.calls.is_empty() { "end_turn" } else { "tool_use" }.to_owned());
        let mut delta = json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}});
        if !self.no_usage {
            delta["usage"] = json!({"output_tokens": output});
        }
        event(delta);
        event(json!({"type": "message_stop"}));
        out
    }

    fn chat(&self) -> Vec<u8> {
        let [input, output, read, write] = self.counts();
        let mut out = Vec::new();
        let mut event = |value: Value| out.extend_from_slice(format!("data: {value}\n\n").as_bytes());
        let chunk = |delta: Value, finish: Value| json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        event(chunk(json!({"role": "assistant", "content": ""}), Value::Null));
        if let Some((text, field)) = &self.thinking {
            event(chunk(json!({field.as_str(): text}), Value::Null));
        }
        for text in halves(&self.text) {
            event(chunk(json!({"content": text}), Value::Null));
        }
        for (index, (id, name, args)) in self.calls.iter().enumerate() {
            let begin = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
            event(chunk(json!({"tool_calls": [begin]}), Value::Null));
            for part in halves(args) {
                event(chunk(json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]}), Value::Null));
            }
        }
        let stop = self.stop.clone().unwrap_or_else(|| if self.calls.is_empty() { "stop" } else { "tool_calls" }.to_owned());
        event(chunk(json!({}), json!(stop)));
        if !self.no_usage {
            let prompt = input + read + write;
            let usage = json!({"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output, "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": write}});
            event(json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [], "usage": usage}));
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
        out
    }
}

/// A text in two parts, cut on a character boundary; none when it is empty.
fn halves(text: &str) -> impl Iterator<Item = &str> {
    let at = text.floor_char_boundary(text.len() / 2);
    [&text[..at], &text[at..]].into_iter().filter(|t| !t.is_empty())
}
