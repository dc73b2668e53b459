//! The one place where a failure becomes an exit code and an `error` event.

use std::fmt;

/// How a run ended, as `result.exit` and as the process exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Completed normally, also when a cap of turns or iterations ended it.
    Ok = 0,
    /// A run error: provider failure, panic, team collapse, reader gone.
    Error = 1,
    /// The token budget was met.
    Budget = 2,
    /// Wall clock, SIGINT, SIGTERM, SIGHUP or SIGQUIT.
    Timeout = 3,
    /// Invalid configuration; never follows a `start`.
    Config = 4,
    /// The provider kept rate limiting after all retries.
    RateLimited = 5,
}

impl Exit {
    /// Every value in code order; the docs are rendered from it.
    pub const ALL: [Exit; 6] = [Exit::Ok, Exit::Error, Exit::Budget, Exit::Timeout, Exit::Config, Exit::RateLimited];

    /// The process exit code.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The value of `result.exit`.
    pub const fn name(self) -> &'static str {
        match self {
            Exit::Ok => "ok",
            Exit::Error => "error",
            Exit::Budget => "budget",
            Exit::Timeout => "timeout",
            Exit::Config => "config",
            Exit::RateLimited => "rate_limited",
        }
    }

    /// One sentence for the table of exit codes.
    pub const fn meaning(self) -> &'static str {
        match self {
            Exit::Ok => "Completed normally, also when the turn or iteration cap ended it.",
            Exit::Error => {
                "A run error: provider failure, refusal, an answer cut at the output limit, panic, or stdout closed by the reader."
            }
            Exit::Budget => "The token budget (`--max-tokens`) was met.",
            Exit::Timeout => "The wall clock (`--timeout-ms`) ran out, or SIGINT, SIGTERM, SIGHUP or SIGQUIT arrived.",
            Exit::Config => "Invalid configuration; every fault is named, and no `start` was emitted.",
            Exit::RateLimited => {
                "The provider still rate limited after all retries: wait `error.retry_after_ms` when present, then run again."
            }
        }
    }
}

/// The value of `error.kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Flags, files, keys: the embedder mends it.
    Config,
    /// The model's provider or the way to it.
    Provider,
    /// No subagent of a team came to a report.
    TeamCollapse,
    /// A fault of our own, or of the machine.
    Internal,
    /// A mission was not fulfilled.
    Verify,
}

impl Kind {
    /// Every value, for the schema.
    pub const ALL: [Kind; 5] = [Kind::Config, Kind::Provider, Kind::TeamCollapse, Kind::Internal, Kind::Verify];

    /// The value on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Config => "config",
            Kind::Provider => "provider",
            Kind::TeamCollapse => "team_collapse",
            Kind::Internal => "internal",
            Kind::Verify => "verify",
        }
    }
}

/// Why a run ended, as `result.stop_reason`; finer than [`Exit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model ended its turn without calls.
    Completed,
    /// `--max-turns` was reached and the last call answered.
    TurnCap,
    /// The last answer was cut at the output limit.
    MaxTokens,
    /// The model refused.
    Refusal,
    /// The provider's filter ended the answer.
    ContentFilter,
    /// `--max-tokens` was met.
    Budget,
    /// `--timeout-ms` ran out.
    Deadline,
    /// SIGINT, SIGTERM, SIGHUP or SIGQUIT.
    Signal,
    /// The reader of stdout went away.
    StdoutClosed,
    /// The provider kept rate limiting.
    RateLimited,
    /// The provider failed.
    ProviderError,
    /// A fault of our own.
    Internal,
    /// The configuration was invalid.
    Config,
}

impl Stop {
    /// Every value, for the schema.
    pub const ALL: [Stop; 13] = [
        Stop::Completed,
        Stop::TurnCap,
        Stop::MaxTokens,
        Stop::Refusal,
        Stop::ContentFilter,
        Stop::Budget,
        Stop::Deadline,
        Stop::Signal,
        Stop::StdoutClosed,
        Stop::RateLimited,
        Stop::ProviderError,
        Stop::Internal,
        Stop::Config,
    ];

    /// The value on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Stop::Completed => "completed",
            Stop::TurnCap => "turn_cap",
            Stop::MaxTokens => "max_tokens",
            Stop::Refusal => "refusal",
            Stop::ContentFilter => "content_filter",
            Stop::Budget => "budget",
            Stop::Deadline => "deadline",
            Stop::Signal => "signal",
            Stop::StdoutClosed => "stdout_closed",
            Stop::RateLimited => "rate_limited",
            Stop::ProviderError => "provider_error",
            Stop::Internal => "internal",
            Stop::Config => "config",
        }
    }

    /// The exit that goes with it. The only map from reason to code.
    pub const fn exit(self) -> Exit {
        match self {
            Stop::Completed | Stop::TurnCap => Exit::Ok,
            Stop::Budget => Exit::Budget,
            Stop::Deadline | Stop::Signal => Exit::Timeout,
            Stop::RateLimited => Exit::RateLimited,
            Stop::Config => Exit::Config,
            Stop::MaxTokens | Stop::Refusal | Stop::ContentFilter | Stop::StdoutClosed | Stop::ProviderError | Stop::Internal => {
                Exit::Error
            }
        }
    }
}

/// A failure that ends a run, in the words of the `error` event.
#[derive(Clone, Debug)]
pub struct Error {
    /// `error.kind`.
    pub kind: Kind,
    /// Becomes `result.stop_reason` and, through [`Stop::exit`], the exit code.
    pub stop: Stop,
    /// What happened and what to do, for a person. Bounded; holds no key and no prompt text.
    pub message: String,
    /// Whether running again may help.
    pub recoverable: bool,
    /// The provider's own hint, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl Error {
    /// A fault of our own or of the machine.
    pub fn internal(message: impl Into<String>) -> Error {
        Error { kind: Kind::Internal, stop: Stop::Internal, message: message.into(), recoverable: false, retry_after_ms: None }
    }

    /// A fault in what was asked for.
    pub fn config(message: impl Into<String>) -> Error {
        Error { kind: Kind::Config, stop: Stop::Config, message: message.into(), recoverable: false, retry_after_ms: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.message)
    }
}

impl std::error::Error for Error {}
