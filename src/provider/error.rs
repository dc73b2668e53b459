//! What can go wrong on the way to a model and back, typed from statuses, headers and error bodies.

use std::fmt;
use std::time::Duration;

/// The kind of a failed attempt. Decides whether it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Too many requests for now.
    RateLimited,
    /// The provider has no capacity for now.
    Overloaded,
    /// Credit or a long-term quota is used up.
    Quota,
    /// The key is missing, wrong or not allowed.
    Auth,
    /// The transcript does not fit the model's window.
    ContextOverflow,
    /// The provider does not take the request.
    BadRequest,
    /// The provider's filter refused the request.
    ContentFilter,
    /// The provider failed.
    Server,
    /// The connection failed or broke.
    Transport,
    /// What came back is no answer of this wire.
    Protocol,
    /// Nothing came within a time-out.
    Timeout,
    /// The run's deadline or cancel ended the call.
    Deadline,
    /// The cassette holds no answer for the request.
    ReplayMiss,
}

impl Class {
    /// The value of `retry.class`, and the word in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Class::RateLimited => "rate_limited",
            Class::Overloaded => "overloaded",
            Class::Quota => "quota",
            Class::Auth => "auth",
            Class::ContextOverflow => "context_overflow",
            Class::BadRequest => "bad_request",
            Class::ContentFilter => "content_filter",
            Class::Server => "server",
            Class::Transport => "transport",
            Class::Protocol => "protocol",
            Class::Timeout => "timeout",
            Class::Deadline => "deadline",
            Class::ReplayMiss => "replay_miss",
        }
    }

    /// Whether the same request may succeed later.
    pub const fn retryable(self) -> bool {
        matches!(self, Class::RateLimited | Class::Overloaded | Class::Server | Class::Transport | Class::Protocol | Class::Timeout)
    }
}

/// A failed attempt, or the failed call after the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    /// Its kind.
    pub class: Class,
    /// The HTTP status, when there was an answer.
    pub status: Option<u16>,
    /// The provider's own code or type.
    pub code: Option<String>,
    /// What happened, for a person; bounded, and without the key.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
}

impl ProviderError {
    /// A failure that is not an HTTP answer.
    pub fn new(class: Class, message: impl Into<String>) -> ProviderError {
        ProviderError { class, status: None, code: None, message: message.into(), retry_after: None }
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ProviderError {}
