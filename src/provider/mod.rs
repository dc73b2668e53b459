//! The wire: what goes to a provider and what comes back.
//!
//! A [`Codec`] turns transcript and tools into bytes and bytes into a [`Reply`]; it does no I/O. A transport carries the bytes,
//! live or from a cassette, and knows no vendor. A vendor is a row of [`VENDORS`]. `Session` puts them together: one model call
//! with its retries.

mod anthropic;
mod anthropic_stream;
mod body;
mod body_error;
mod call;
mod cassette;
mod client;
#[cfg(test)]
mod conformance;
mod error;
#[cfg(test)]
mod feed;
mod hint;
mod incoming;
mod line;
mod mask;
mod openai;
mod openai_calls;
mod openai_stream;
mod optional;
#[cfg(test)]
mod raw;
mod reply;
mod retry;
pub mod sse;
mod tls;
mod types;
mod vendor;

pub use call::{Answer, Call, RetryNote, Session, Transport};
pub use cassette::{CallKey, Recorder, Replay};
pub use client::{Client, ClientSetup};
pub use error::{Class, ProviderError};
pub use optional::Refused;
pub use tls::{TlsRoots, builtin_roots};
pub use types::{
    Block, Codec, Decoder, Effort, Prefix, Progress, Reply, Tail, ToolCall, ToolChoice, ToolResult, ToolSchema, TurnStop, Usage, Wire,
    estimate_tokens,
};
pub use vendor::{ModelSlug, VENDORS, Vendor};

/// The codec of a wire, as a vendor speaks it.
pub fn codec(wire: Wire, vendor: &'static Vendor) -> Box<dyn Codec> {
    match wire {
        Wire::AnthropicMessages => Box::new(anthropic::Messages { vendor, made_up: Default::default() }),
        Wire::OpenAiChat => Box::new(openai::Chat { vendor, made_up: Default::default() }),
    }
}
