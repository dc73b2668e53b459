//! The wire: what goes to a provider and what comes back.
//!
//! A [`Codec`] turns transcript and tools into bytes and bytes into a [`Reply`]; it does no I/O. A transport carries the bytes,
//! live or from a cassette, and knows no vendor. A vendor is a row of [`VENDORS`]. `Session` puts them together: one model call
//! with its retries.

mod error;
pub mod sse;
mod types;
mod vendor;

pub use error::{Class, ProviderError};
pub use types::{
    Block, Codec, Decoder, Effort, Prefix, Progress, Reply, Tail, ToolCall, ToolChoice, ToolResult, ToolSchema, TurnStop, Usage, Wire,
    estimate_tokens,
};
pub use vendor::{ModelSlug, VENDORS, Vendor};
