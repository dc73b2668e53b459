//! The words that agent and wire share: requests, replies, usage, and the trait of a codec.

use std::borrow::Cow;
use std::ops::Add;

use super::error::ProviderError;
use super::optional::Refused;

/// A wire format. Each has one codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic's Messages API.
    AnthropicMessages,
    /// OpenAI's Chat Completions API and what is compatible with it.
    OpenAiChat,
}

impl Wire {
    /// Every wire.
    pub const ALL: [Wire; 2] = [Wire::AnthropicMessages, Wire::OpenAiChat];

    /// The name in cassettes and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Wire::AnthropicMessages => "anthropic-messages",
            Wire::OpenAiChat => "openai-chat",
        }
    }
}

/// Tokens of one call, meaning the same for every provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input that was neither read from nor written to the provider's cache.
    pub input: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache.
    pub cache_write: u64,
}

impl Add for Usage {
    type Output = Usage;

    fn add(self, other: Usage) -> Usage {
        Usage {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

/// Tokens that so many bytes of JSON or text are, roughly: four bytes a token, rounded up. For servers that state no usage.
pub fn estimate_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStop {
    /// It is done.
    EndTurn,
    /// It waits for tool results.
    ToolUse,
    /// The output limit, or the model's window, is full.
    MaxTokens,
    /// It refused.
    Refusal,
    /// The provider's filter stepped in.
    ContentFilter,
    /// A long turn on the server's side is to be resumed.
    Pause,
}

impl TurnStop {
    /// The value of `agent_turn.stop_reason`.
    pub const fn name(self) -> &'static str {
        match self {
            TurnStop::EndTurn => "end_turn",
            TurnStop::ToolUse => "tool_use",
            TurnStop::MaxTokens => "max_tokens",
            TurnStop::Refusal => "refusal",
            TurnStop::ContentFilter => "content_filter",
            TurnStop::Pause => "pause",
        }
    }
}

/// A call that the model asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id, or one made up where it gives none. Not empty.
    pub id: String,
    /// The tool's name, as the model gave it.
    pub name: String,
    /// The arguments as the JSON text that arrived; `{}` when nothing did. May be invalid.
    pub args: String,
}

/// One part of a reply, in the order in which it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Text for the user.
    Text(String),
    /// Reasoning, to be replayed as it came.
    Thinking {
        /// The text; may be empty.
        text: String,
        /// The provider's signature over it, or the name of the field it came in; see the codec.
        signature: String,
    },
    /// Reasoning that only the provider can read.
    Redacted(String),
    /// A tool call.
    Call(ToolCall),
}

/// A whole assistant turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its parts in order.
    pub blocks: Vec<Block>,
    /// Why it ended.
    pub stop: TurnStop,
    /// The provider's own word for it; empty when it said none.
    pub stop_raw: String,
    /// What it cost, when the provider said so.
    pub usage: Option<Usage>,
}

impl Reply {
    /// The text for the user. Several text parts follow each other without a separator.
    pub fn text(&self) -> Cow<'_, str> {
        let mut texts = self.blocks.iter().filter_map(|b| if let Block::Text(text) = b { Some(text.as_str()) } else { None });
        match (texts.next(), texts.next()) {
            (None, _) => Cow::Borrowed(""),
            (Some(one), None) => Cow::Borrowed(one),
            (Some(one), Some(two)) => Cow::Owned([one, two].into_iter().chain(texts).collect()),
        }
    }

    /// The tool calls in the model's order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|b| if let Block::Call(call) = b { Some(call) } else { None })
    }

    /// Size of all that the model wrote (bytes).
    pub fn bytes(&self) -> usize {
        let size = |block: &Block| match block {
            Block::Text(text) | Block::Redacted(text) | Block::Thinking { text, .. } => text.len(),
            Block::Call(call) => call.name.len() + call.args.len(),
        };
        self.blocks.iter().map(size).sum()
    }
}

/// A tool's answer to one call.
#[derive(Clone, Copy, Debug)]
pub struct ToolResult<'a> {
    /// The id of the call.
    pub call_id: &'a str,
    /// The tool's name as the model gave it.
    pub name: &'a str,
    /// What the model reads.
    pub content: &'a str,
    /// Whether the call failed.
    pub is_error: bool,
}

/// A tool as the model is told of it.
#[derive(Clone, Copy, Debug)]
pub struct ToolSchema<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it does.
    pub description: &'a str,
    /// Its parameters as JSON Schema text.
    pub schema: &'a str,
}

/// What stays the same over all requests of an agent.
#[derive(Clone, Copy, Debug)]
pub struct Prefix<'a> {
    /// The bare model id.
    pub model: &'a str,
    /// The system prompt; not empty.
    pub system: &'a str,
    /// The tools, in the order in which they are sent.
    pub tools: &'a [ToolSchema<'a>],
}

/// Whether the model may call tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// Not in this call.
    None,
}

/// How hard a reasoning model is to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A little.
    Low,
    /// Some.
    Medium,
    /// A lot.
    High,
}

impl Effort {
    /// Every value with its name on the command line and on the wire.
    pub const ALL: [(&'static str, Effort); 3] = [("low", Effort::Low), ("medium", Effort::Medium), ("high", Effort::High)];

    /// The name.
    pub fn name(self) -> &'static str {
        Effort::ALL.iter().find(|row| row.1 == self).expect("every effort has a row").0
    }
}

/// What may differ from request to request; stands behind the messages, so that everything before stays the same bytes.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    /// Bound on this call's output (tokens); without one the wire's default holds.
    pub max_output_tokens: Option<u64>,
    /// Whether tools may be called.
    pub tool_choice: ToolChoice,
    /// Sampling temperature, when set.
    pub temperature: Option<f32>,
    /// Reasoning effort, when set.
    pub effort: Option<Effort>,
}

/// One wire format as one vendor speaks it: bytes in, bytes out, no I/O.
///
/// A request body is `head ++ messages ++ tail`. The head ends inside the open array of messages; each message that is not the
/// first begins with its separator.
pub trait Codec {
    /// Which wire it speaks.
    fn wire(&self) -> Wire;

    /// The path below the base URL, with its leading slash.
    fn path(&self) -> &'static str;

    /// The headers of this wire, authentication included when there is a key.
    fn headers(&self, key: Option<&str>, out: &mut Vec<(&'static str, String)>);

    /// Begins a body.
    fn head(&self, prefix: &Prefix<'_>, out: &mut Vec<u8>);

    /// Adds a user message.
    fn user(&self, text: &str, first: bool, out: &mut Vec<u8>);

    /// Adds the assistant's turn so that the provider takes it back.
    fn assistant(&self, reply: &Reply, first: bool, out: &mut Vec<u8>);

    /// Adds the results of all calls of the turn before, in order, and an optional line of ours behind them.
    fn tool_results(&self, results: &[ToolResult<'_>], note: Option<&str>, first: bool, out: &mut Vec<u8>);

    /// Ends a body, without the fields that the server has refused.
    fn tail(&self, tail: &Tail, refused: &Refused, out: &mut Vec<u8>);

    /// A decoder for one streamed answer.
    fn decoder(&self) -> Box<dyn Decoder>;

    /// Decodes an answer that came whole although a stream was asked for.
    ///
    /// # Errors
    /// An error object in the body, or a body that is none of this wire's.
    fn whole(&self, body: &[u8]) -> Result<Reply, ProviderError>;

    /// The failure behind a status that is not 2xx. `message` names the status, the provider's own code and its text.
    fn error(&self, status: u16, body: &[u8]) -> ProviderError;
}

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More events are expected.
    More,
    /// The answer is complete; the rest of the body may be ignored.
    Done,
}

/// Builds one reply from the events of a stream.
pub trait Decoder {
    /// Takes one event. `data` is scratch: decoding may overwrite it.
    ///
    /// # Errors
    /// An error that the provider sends inside the stream, or an event that is none of this wire's.
    fn event(&mut self, event: &[u8], data: &mut [u8]) -> Result<Progress, ProviderError>;

    /// The usage stated so far; counted when the attempt fails.
    fn usage(&self) -> Option<Usage>;

    /// The reply, after [`Progress::Done`] or at the end of the body.
    ///
    /// # Errors
    /// When the answer did not end properly.
    fn finish(self: Box<Self>) -> Result<Reply, ProviderError>;
}
