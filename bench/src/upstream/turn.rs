//! What a model says in one turn, before it is bytes of a wire.

use super::answer::Answer;
use super::wire::Wire;

/// A call of a tool.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments as the model wrote them; they need not be JSON.
    pub(super) args: String,
}

/// What the model says in one turn.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    pub(super) text: String,
    pub(super) thinking: Option<(String, String)>,
    pub(super) calls: Vec<Call>,
    pub(super) stop: Option<String>,
    usage: Option<[u64; 4]>,
    pub(super) no_usage: bool,
    noise: bool,
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

    /// Sets reasoning and its signature; on the chat wire the second word is the name of the field that carries the reasoning.
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
        self.calls.push(Call { id: id.to_owned(), name: name.to_owned(), args: args.to_owned() });
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

    /// Puts comments, empty comments and events of unknown kinds between the events, as gateways do.
    pub fn noise(mut self) -> Turn {
        self.noise = true;
        self
    }

    /// The turn as an answer on a wire.
    pub fn on(&self, wire: Wire) -> Answer {
        Answer::sse(self.events(wire))
    }

    /// The turn as the events of a wire.
    pub fn events(&self, wire: Wire) -> Vec<u8> {
        let events = (wire.row().render)(self);
        if !self.noise {
            return events;
        }
        let noise = [": PROCESSING\n\n:\n\n", wire.row().unknown_event].concat();
        let mut out = Vec::with_capacity(events.len() * 4);
        for line in events.split_inclusive(|b| *b == b'\n') {
            out.extend_from_slice(line);
            if line == b"\n" {
                out.extend_from_slice(noise.as_bytes());
            }
        }
        out
    }

    /// Input, output, cache read, cache write.
    pub(super) fn counts(&self) -> [u64; 4] {
        self.usage.unwrap_or([100, 10, 0, 0])
    }

    /// The stop reason: as set, or what the wire calls the usual one.
    pub(super) fn stop_or(&self, end: &str, calls: &str) -> String {
        self.stop.clone().unwrap_or_else(|| if self.calls.is_empty() { end } else { calls }.to_owned())
    }
}

/// A text in two parts, cut on a character boundary; none when it is empty. So every field arrives in more than one piece.
pub(super) fn halves(text: &str) -> impl Iterator<Item = &str> {
    let at = text.floor_char_boundary(text.len() / 2);
    [&text[..at], &text[at..]].into_iter().filter(|t| !t.is_empty())
}
