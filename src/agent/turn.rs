//! The loop of one agent, top to bottom: call the model, tell what it said, run its calls, again.
//!
//! Everything that can take time races the run's cancel, so the loop itself always comes back with a reason; nobody has to
//! break it off from outside. An assistant message enters the transcript only when its stream ended properly, so half a tool
//! call is never run and a failed attempt leaves nothing behind.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::meter::Meter;
use super::prompt;
use crate::emit::{Event, Sink};
use crate::error::{Error, Kind, Stop};
use crate::limits;
use crate::provider::{
    Answer, Call, Class, Effort, Prefix, ProviderError, Reply, RetryNote, Session, Tail, ToolCall, ToolChoice, ToolResult, ToolSchema,
    TurnStop, Usage, estimate_tokens,
};
use crate::rt::{self, Cancel, Cause};
use crate::tools::{self, Context, Outcome, ToolSet};
use crate::transcript::Transcript;

/// Answers with neither text nor calls that are met with a nudge before the run gives up. One is common, a second in a row
/// means that the model has nothing to say.
const EMPTY_ANSWERS_MAX: u32 = 1;
/// Pauses of a server-side turn that are resumed in a row.
const PAUSES_MAX: u32 = 8;

/// What an agent is made of. All of it is fixed for the run.
pub struct Setup<'a> {
    /// The `role` of its events.
    pub role: &'a str,
    /// Where its events go.
    pub sink: &'a Sink,
    /// The run's budget.
    pub meter: &'a Meter,
    /// Ends it from outside.
    pub cancel: Cancel,
    /// The end of the run's wall clock.
    pub deadline: Instant,
    /// What its tools share.
    pub context: Arc<Context>,
    /// Which tools it may call.
    pub tools: &'a ToolSet,
    /// Model calls of one pass, the last one without tools not counted.
    pub turns_max: u32,
    /// Output tokens of one call, when bounded.
    pub output_tokens_max: Option<u64>,
    /// Sampling temperature, when set.
    pub temperature: Option<f32>,
    /// Reasoning effort, when set.
    pub effort: Option<Effort>,
}

/// How a pass ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The reason.
    pub stop: Stop,
    /// The last text of the model.
    pub text: String,
}

/// One agent with its transcript.
pub struct Agent<'a> {
    setup: Setup<'a>,
    session: Session,
    transcript: Transcript,
    head: Bytes,
    turn: u32,
    calls_issued: u64,
    /// The ids of the calls whose results the next request brings.
    answering: Vec<String>,
    empty_answers: u32,
    pauses: u32,
    text: String,
}

/// What the loop does after a turn.
enum Next {
    Again,
    End(Stop),
}

impl<'a> Agent<'a> {
    /// An agent with an empty transcript under the given system prompt.
    pub fn new(setup: Setup<'a>, session: Session, model: &str, system: &str) -> Agent<'a> {
        let schemas: Vec<ToolSchema<'_>> =
            setup.tools.iter().map(|t| ToolSchema { name: t.name, description: t.description, schema: t.schema }).collect();
        let mut head = Vec::with_capacity(8 * limits::KIB);
        session.codec().head(&Prefix { model, system, tools: &schemas }, &mut head);
        Agent {
            setup,
            session,
            transcript: Transcript::new(),
            head: Bytes::from(head),
            turn: 0,
            calls_issued: 0,
            answering: Vec::new(),
            empty_answers: 0,
            pauses: 0,
            text: String::new(),
        }
    }

    /// Runs one pass over `prompt` until the model is done or something ends it.
    ///
    /// # Errors
    /// What ends the run as a failure, in the words of the `error` event. A budget, a deadline and the turn cap are endings
    /// and not errors.
    pub async fn run(&mut self, prompt: &str) -> Result<Ending, Error> {
        self.say(prompt);
        let stop = loop {
            match self.one_turn(self.turn >= self.setup.turns_max).await? {
                Next::End(stop) => break stop,
                Next::Again => self.turn += 1,
            }
        };
        Ok(Ending { stop, text: std::mem::take(&mut self.text) })
    }

    /// Adds a user message.
    fn say(&mut self, text: &str) {
        let codec = self.session.codec();
        self.transcript.append(|out, first| codec.user(text, first, out));
    }

    async fn one_turn(&mut self, last: bool) -> Result<Next, Error> {
        if let Some(stop) = self.cancelled() {
            return Ok(Next::End(stop));
        }
        let tool_choice = if last { ToolChoice::None } else { ToolChoice::Auto };
        let Some(output_max) = self.output_allowance() else { return Ok(Next::End(self.budget_spent())) };
        self.setup.sink.flush();
        let answer = match self.call(tool_choice, output_max).await {
            Ok(answer) => answer,
            Err(error) => return self.call_failed(error),
        };
        let tripped = self.tell(&answer);
        if tripped {
            return Ok(Next::End(self.budget_spent()));
        }
        if last {
            return Ok(Next::End(Stop::TurnCap));
        }
        self.after(&answer.reply).await
    }

    /// The bound on the next answer, clamped to what is left of the budget; or nothing when that is too little for one.
    fn output_allowance(&self) -> Option<Option<u64>> {
        let left = self.setup.meter.left();
        if left < limits::OUTPUT_TOKENS_MIN {
            return None;
        }
        Some(match self.setup.output_tokens_max {
            Some(bound) => Some(bound.min(left)),
            None => (left < limits::OUTPUT_TOKENS_DEFAULT).then_some(left),
        })
    }

    async fn call(&mut self, tool_choice: ToolChoice, max_output_tokens: Option<u64>) -> Result<Answer, ProviderError> {
        let Setup { role, sink, deadline, ref cancel, temperature, effort, .. } = self.setup;
        let tail = Tail { max_output_tokens, tool_choice, temperature, effort };
        let body = std::iter::once(self.head.clone()).chain(self.transcript.chain()).collect();
        let turn = self.turn;
        let mut on_retry = |note: &RetryNote| {
            sink.emit(&Event::Retry {
                role,
                turn,
                attempt: note.attempt,
                class: note.class.name(),
                status: note.status.map(u64::from),
                delay_ms: note.delay_ms,
                message: &note.message,
            });
            sink.flush();
        };
        let call = Call { body, tail, turn, answers: &self.answering, deadline, cancel };
        self.session.call(call, &mut on_retry).await
    }

    /// Emits a turn that ended well and counts it. True when it met the budget.
    fn tell(&mut self, answer: &Answer) -> bool {
        let Setup { role, sink, meter, .. } = self.setup;
        let reply = &answer.reply;
        let usage = reply.usage.unwrap_or_else(|| self.estimate(reply)) + answer.failed_usage;
        sink.emit(&Event::AgentTurn {
            role,
            turn: self.turn,
            input_tokens: usage.input,
            output_tokens: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            duration_ms: answer.duration_ms,
            stop_reason: reply.stop.name(),
            attempts: answer.attempts,
            ttft_ms: answer.ttft_ms,
            usage_estimated: reply.usage.is_none().then_some(true),
        });
        let text = reply.text();
        if !text.is_empty() {
            sink.emit(&Event::AssistantText { role, text: &text });
            self.text = text.into_owned();
        }
        meter.add(&usage)
    }

    fn estimate(&self, reply: &Reply) -> Usage {
        let sent = self.head.len() + self.transcript.bytes();
        Usage { input: estimate_tokens(sent), output: estimate_tokens(reply.bytes()), cache_read: 0, cache_write: 0 }
    }

    /// Takes the reply into the transcript and does what it asks for.
    async fn after(&mut self, reply: &Reply) -> Result<Next, Error> {
        self.answering.clear();
        if let Some(error) = refused(reply) {
            return Err(error);
        }
        let codec = self.session.codec();
        let calls: Vec<&ToolCall> = reply.calls().collect();
        if !calls.is_empty() {
            self.empty_answers = 0;
            self.pauses = 0;
            self.transcript.append(|out, first| codec.assistant(reply, first, out));
            return self.run_calls(&calls, reply.stop == TurnStop::MaxTokens).await;
        }
        match reply.stop {
            TurnStop::Pause if self.pauses < PAUSES_MAX => {
                self.pauses += 1;
                self.transcript.append(|out, first| codec.assistant(reply, first, out));
                Ok(Next::Again)
            }
            TurnStop::MaxTokens => Err(cut_answer()),
            _ if !reply.text().trim().is_empty() => Ok(Next::End(Stop::Completed)),
            _ if self.empty_answers < EMPTY_ANSWERS_MAX => {
                self.empty_answers += 1;
                // Roles alternate: many chat templates refuse two messages of the user's in a row.
                self.transcript.append(|out, first| codec.assistant(reply, first, out));
                self.say(prompt::EMPTY_ANSWER);
                Ok(Next::Again)
            }
            _ => Err(provider_error(
                Stop::ProviderError,
                true,
                format!("the model answered with neither text nor a tool call, also when asked again (stop reason `{}`)", reply.stop_raw),
            )),
        }
    }

    /// Runs the calls of one turn in the model's order and appends their results as one message.
    async fn run_calls(&mut self, calls: &[&ToolCall], cut: bool) -> Result<Next, Error> {
        let mut outcomes = Vec::with_capacity(calls.len());
        for (i, call) in calls.iter().enumerate() {
            if let Some(stop) = self.cancelled() {
                return Ok(Next::End(stop));
            }
            let refusal = if cut {
                Some(prompt::CUT_CALL.to_owned())
            } else {
                (i >= limits::CALLS_PER_TURN_MAX).then(|| format!("not run: at most {} calls in one turn", limits::CALLS_PER_TURN_MAX))
            };
            outcomes.push(self.run_call(call, refusal).await);
        }
        let results: Vec<ToolResult<'_>> = calls
            .iter()
            .zip(&outcomes)
            .map(|(call, outcome)| ToolResult {
                call_id: &call.id,
                name: &call.name,
                content: &outcome.content,
                is_error: outcome.is_error,
            })
            .collect();
        let codec = self.session.codec();
        // The next call is the last one, and without tools: the model is told in the same message.
        let note = (self.turn + 1 >= self.setup.turns_max).then_some(prompt::LAST_CALL);
        self.transcript.append(|out, first| codec.tool_results(&results, note, first, out));
        self.answering.extend(calls.iter().map(|call| call.id.clone()));
        Ok(self.cancelled().map_or(Next::Again, Next::End))
    }

    async fn run_call(&mut self, call: &ToolCall, refusal: Option<String>) -> Outcome {
        let Setup { role, sink, .. } = self.setup;
        let id = format!("{}.{}", self.turn, self.calls_issued);
        self.calls_issued += 1;
        let args = cut_args(&call.args);
        let cut = args.len() < call.args.len();
        sink.emit(&Event::ToolCall {
            role,
            turn: self.turn,
            tool: &call.name,
            args,
            call_id: &id,
            args_bytes: cut.then_some(call.args.len() as u64),
            args_truncated: cut.then_some(true),
        });
        sink.flush();
        let outcome = match refusal {
            Some(reason) => Outcome::refused(&reason),
            None => {
                tools::dispatch(&self.setup.context, self.setup.tools, &call.name, &call.args, &self.setup.cancel, self.setup.deadline)
                    .await
            }
        };
        sink.emit(&Event::ToolResult {
            role,
            turn: self.turn,
            tool: &call.name,
            bytes: outcome.bytes,
            bytes_out: outcome.bytes_out,
            truncated: outcome.truncated,
            error: outcome.error.as_deref(),
            handle: outcome.handle.as_deref(),
            call_id: &id,
            duration_ms: outcome.duration_ms,
            exit_code: outcome.exit_code,
            bytes_saved: outcome.bytes_saved,
        });
        sink.flush();
        // A reader that does not keep up stops the run here, not the writer.
        let _either = rt::select(self.setup.cancel.cancelled(), sink.ready()).await;
        outcome
    }

    /// The reason, when the run was cancelled.
    fn cancelled(&self) -> Option<Stop> {
        self.setup.cancel.cause().map(stop_of)
    }

    fn budget_spent(&self) -> Stop {
        let Setup { sink, meter, .. } = self.setup;
        meter.trip();
        sink.emit(&Event::BudgetExceeded { limit: meter.limit(), total: meter.consumed() });
        Stop::Budget
    }

    fn call_failed(&self, error: ProviderError) -> Result<Next, Error> {
        match self.cancelled() {
            Some(stop) => Ok(Next::End(stop)),
            None if error.class == Class::Deadline => Ok(Next::End(Stop::Deadline)),
            None => Err(run_error(error)),
        }
    }
}

/// The run's reason for a cancel.
pub fn stop_of(cause: Cause) -> Stop {
    match cause {
        Cause::Deadline => Stop::Deadline,
        Cause::Signal => Stop::Signal,
        Cause::ReaderGone => Stop::StdoutClosed,
        Cause::Budget => Stop::Budget,
        Cause::Failed => Stop::Internal,
    }
}

/// What a failed call means for the run.
fn run_error(error: ProviderError) -> Error {
    let stop = if error.class == Class::RateLimited { Stop::RateLimited } else { Stop::ProviderError };
    let retry_after_ms = error.retry_after.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
    Error { kind: Kind::Provider, stop, recoverable: error.class.retryable(), retry_after_ms, message: error.to_string() }
}

fn provider_error(stop: Stop, recoverable: bool, message: String) -> Error {
    Error { kind: Kind::Provider, stop, message, recoverable, retry_after_ms: None }
}

/// An answer that the model or the provider withheld. Its calls, if any, are not run.
fn refused(reply: &Reply) -> Option<Error> {
    let (stop, what) = match reply.stop {
        TurnStop::Refusal => (Stop::Refusal, "the model refused to answer"),
        TurnStop::ContentFilter => (Stop::ContentFilter, "the provider's content filter ended the answer"),
        _ => return None,
    };
    Some(provider_error(stop, false, format!("{what} (stop reason `{}`)", reply.stop_raw)))
}

fn cut_answer() -> Error {
    let message = "the final answer was cut at the output limit; raise --max-output-tokens, or ask for a shorter answer";
    provider_error(Stop::MaxTokens, false, message.to_owned())
}

/// The arguments as an event carries them: whole up to the bound, else cut before a character that would cross it.
fn cut_args(args: &str) -> &str {
    &args[..args.floor_char_boundary(limits::EVENT_ARGS_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_cut_on_a_character_boundary() {
        let args = "ä".repeat(limits::EVENT_ARGS_BYTES_MAX);
        let cut = cut_args(&format!("x{args}")).to_owned();
        assert_eq!(cut.len(), limits::EVENT_ARGS_BYTES_MAX - 1);
        assert_eq!(cut_args("short"), "short");
    }
}
