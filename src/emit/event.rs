//! Every event and field of the stream, declared once.
//!
//! A line is `{"event":…,"ts":…,"seq":…` and then the fields in the order of this table; an optional field is left out
//! when absent, never null. From this table come the writer below, the JSON Schema, `docs/EVENTS.md` and the README's
//! table, so nothing can be declared twice.

use super::field::{Field, FieldSpec, FileChange, Head, Json};
use crate::error::{Exit, Kind, Stop};
use crate::json::write;

// One name per field type, so that the table reads as a table. The lifetime is that of the borrowed line.
type Text<'a> = &'a str;
type Maybe<'a> = Option<&'a str>;
type Count<'a> = u64;
type Small<'a> = u32;
type MaybeCount<'a> = Option<u64>;
type MaybeCode<'a> = Option<i32>;
type Flag<'a> = bool;
type MaybeFlag<'a> = Option<bool>;
type Names<'a> = &'a [&'a str];
type Files<'a> = &'a [FileChange<'a>];
type MaybeJson<'a> = Option<Json<'a>>;
type ExitName<'a> = Exit;
type StopName<'a> = Stop;
type KindName<'a> = Kind;

/// One event of the stream, for docs and schema.
#[derive(Clone, Copy, Debug)]
pub struct EventSpec {
    /// The value of `event`.
    pub name: &'static str,
    /// When it is emitted.
    pub doc: &'static str,
    /// Its fields in wire order, without `event`, `ts`, `seq` and `run`.
    pub fields: &'static [FieldSpec],
}

macro_rules! events {
    ($( #[doc = $doc:literal] $variant:ident = $name:literal { $( #[doc = $fdoc:literal] $field:ident: $type:ident, )* } )*) => {
        /// One line for the embedder, borrowed from where its values live.
        #[derive(Clone, Copy, Debug)]
        pub enum Event<'a> {
            $( #[doc = $doc] $variant { $( #[doc = $fdoc] $field: $type<'a>, )* }, )*
        }

        impl Event<'_> {
            /// The value of `event`.
            pub fn name(&self) -> &'static str {
                match self { $( Event::$variant { .. } => $name, )* }
            }

            /// Appends the whole line, newline included.
            pub fn write(&self, head: &Head<'_>, out: &mut Vec<u8>) {
                match self { $( Event::$variant { $( $field, )* } => {
                    out.extend_from_slice(concat!("{\"event\":\"", $name, "\",\"ts\":").as_bytes());
                    head.put(out);
                    $( if $field.present() {
                        out.extend_from_slice(concat!(",\"", stringify!($field), "\":").as_bytes());
                        $field.put(out);
                    } )*
                    out.extend_from_slice(b"}\n");
                } )* }
            }
        }

        /// The table behind [`Event`], in the order of the docs.
        pub static SPECS: &[EventSpec] = &[ $( EventSpec {
            name: $name,
            doc: $doc.trim_ascii_start(),
            fields: &[ $( FieldSpec {
                name: stringify!($field),
                doc: $fdoc.trim_ascii_start(),
                shape: <$type<'static> as Field>::SHAPE,
                optional: <$type<'static> as Field>::OPTIONAL,
            }, )* ],
        }, )* ];
    };
}

impl Head<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        write::push_u64(out, self.ts);
        out.extend_from_slice(b",\"seq\":");
        write::push_u64(out, self.seq);
        if let Some(run) = self.run {
            out.extend_from_slice(b",\"run\":");
            write::push_str(out, run);
        }
    }
}

events! {
    /// The run begins. Always the first line, unless the configuration was invalid.
    Start = "start" {
        /// Version of this stream's shape.
        schema_version: Text,
        /// The full model slug, as given.
        model: Text,
        /// The part of the slug before the first `/`.
        provider: Text,
        /// The execution mode.
        mode: Text,
        /// The canonical path of the original workdir.
        workdir: Text,
        /// Version of the binary.
        version: Text,
        /// Identifies this run in logs and file names.
        run_id: Text,
        /// Names of the tools that the model is offered.
        tools: Names,
        /// The compaction threshold, when set.
        context_limit: MaybeCount,
        /// Whether the run works on a shadow of the workdir.
        isolate: Flag,
        /// How far the kernel confines children: `full`, `landlock`, `parser`, or `off`.
        sandbox: Text,
        /// The runtime's driver: `io_uring` or `epoll`.
        driver: Text,
    }
    /// A skill was injected into the system prompt.
    SkillLoaded = "skill_loaded" {
        /// The skill's name.
        name: Text,
        /// Size of its text.
        bytes: Count,
    }
    /// A model call has ended well.
    AgentTurn = "agent_turn" {
        /// Who called: `single`, `loop`, `repair`, `coordinator`, or a subagent's name.
        role: Text,
        /// Counts the model calls of one pass from 0.
        turn: Small,
        /// Uncached input tokens.
        input_tokens: Count,
        /// Output tokens, reasoning included.
        output_tokens: Count,
        /// Tokens read from the provider's prompt cache.
        cache_read: Count,
        /// Tokens written to the provider's prompt cache.
        cache_write: Count,
        /// From the first byte sent to the end of the answer, retries and their waits included.
        duration_ms: Count,
        /// Why the model stopped: `end_turn`, `tool_use`, `max_tokens`, `refusal`, `content_filter` or `pause`.
        stop_reason: Text,
        /// HTTP attempts that the call took.
        attempts: Small,
        /// From the start of the last attempt to its first streamed byte.
        ttft_ms: Count,
        /// True when the provider stated no usage and the counts are estimates.
        usage_estimated: MaybeFlag,
    }
    /// The model wrote text.
    AssistantText = "assistant_text" {
        /// Who wrote it.
        role: Text,
        /// The text, whole.
        text: Text,
    }
    /// The model calls a tool.
    ToolCall = "tool_call" {
        /// Who calls.
        role: Text,
        /// The turn that asked for it.
        turn: Small,
        /// The tool's name as the model gave it.
        tool: Text,
        /// The arguments as JSON text; longer ones are cut, see `args_truncated`.
        args: Text,
        /// Pairs the call with its result; unique in the run.
        call_id: Text,
        /// Size of the whole arguments, when cut.
        args_bytes: MaybeCount,
        /// True when `args` was cut on a character boundary.
        args_truncated: MaybeFlag,
    }
    /// A tool has returned.
    ToolResult = "tool_result" {
        /// Who called.
        role: Text,
        /// The turn that asked for it.
        turn: Small,
        /// The tool's name as the model gave it.
        tool: Text,
        /// Size of the output before any cut.
        bytes: Count,
        /// Size of what the model gets.
        bytes_out: Count,
        /// Whether anything was cut.
        truncated: Flag,
        /// The failure as the model reads it.
        error: Maybe,
        /// Where the `retrieve` tool finds what was elided.
        handle: Maybe,
        /// Pairs the result with its call.
        call_id: Text,
        /// Time from the call to the result.
        duration_ms: Count,
        /// The command's exit code (`shell`, `git_diff`).
        exit_code: MaybeCode,
        /// What compression saved.
        bytes_saved: MaybeCount,
    }
    /// A failed attempt is going to be repeated.
    Retry = "retry" {
        /// Whose call it is.
        role: Text,
        /// The turn.
        turn: Small,
        /// The attempt that failed, from 1.
        attempt: Small,
        /// The class of the failure.
        class: Text,
        /// HTTP status, when there was an answer.
        status: MaybeCount,
        /// Wait before the next attempt.
        delay_ms: Count,
        /// What happened.
        message: Text,
    }
    /// Something that did not stop the run, but that its reader should know.
    Warning = "warning" {
        /// A stable code to match on.
        code: Text,
        /// What happened.
        message: Text,
    }
    /// A subagent starts (team mode).
    SubagentSpawn = "subagent_spawn" {
        /// Its unique name.
        name: Text,
        /// What it was told to look at.
        scope: Text,
    }
    /// A subagent has ended, well or not (team mode).
    SubagentDone = "subagent_done" {
        /// Its name.
        name: Text,
        /// Rounds that it completed.
        turns: Small,
        /// Sum over its calls, as in `agent_turn`.
        input_tokens: Count,
        /// Sum over its calls.
        output_tokens: Count,
        /// Sum over its calls.
        cache_read: Count,
        /// Sum over its calls.
        cache_write: Count,
        /// From its start to its end.
        duration_ms: Count,
    }
    /// A subagent has failed (team mode); its `subagent_done` follows.
    SubagentFailed = "subagent_failed" {
        /// Its name.
        name: Text,
        /// `budget`, `panic`, or the provider's error.
        reason: Text,
    }
    /// An iteration begins (loop and repair mode).
    IterationStart = "iteration_start" {
        /// Counts from 1.
        iteration: Small,
    }
    /// An iteration has ended (loop and repair mode).
    IterationEnd = "iteration_end" {
        /// Counts from 1.
        iteration: Small,
        /// Whether the loop ends here.
        stopped: Flag,
        /// `decided`, `cap`, `exit`, `verified` or `recurred`, when it ends here.
        reason: Maybe,
    }
    /// The transcript was compacted.
    HistoryCompacted = "history_compacted" {
        /// Whose transcript.
        role: Text,
        /// The turn after which it happened.
        turn: Small,
        /// Tool results that became stubs.
        results_elided: Small,
        /// The occupancy that triggered it, in tokens.
        input_tokens: Count,
    }
    /// The workdir's shadow is ready.
    Isolation = "isolation" {
        /// The backend that made it.
        backend: Text,
        /// Its path.
        shadow: Text,
        /// Set-up time.
        duration_ms: Count,
    }
    /// What the run changed in its shadow.
    Changes = "changes" {
        /// The changed files, sorted by path.
        files: Files,
        /// How many there are in all.
        total: Count,
        /// True when the list was cut.
        truncated: MaybeFlag,
    }
    /// A verification has ended (repair mode).
    Verify = "verify" {
        /// Counts from 1.
        iteration: Small,
        /// `passed` or `failed`.
        status: Text,
        /// The contract's error code.
        error_code: Maybe,
        /// Number of findings.
        findings: Count,
        /// Digest that tells a recurrence.
        findings_digest: Maybe,
        /// Where the gate's output lies.
        gate_log_path: Maybe,
    }
    /// The token budget is met, or too little of it is left for another call; at most once in a run.
    BudgetExceeded = "budget_exceeded" {
        /// The budget.
        limit: Count,
        /// What was used: input + output + cache_write; less than `limit` when the rest was too small for a call.
        total: Count,
    }
    /// Something failed.
    Error = "error" {
        /// The kind of the failure.
        kind: KindName,
        /// What happened and what to do; no key and no prompt text is in it.
        message: Text,
        /// Whether running again may help.
        recoverable: Flag,
        /// The provider's own hint.
        retry_after_ms: MaybeCount,
        /// A code of the mission contract.
        code: Maybe,
    }
    /// The run has ended. Exactly one, always the last line.
    Result = "result" {
        /// Mirrors the process exit code.
        exit: ExitName,
        /// Sum of uncached input tokens.
        total_input: Count,
        /// Sum of output tokens.
        total_output: Count,
        /// Sum of tokens read from the cache.
        total_cache_read: Count,
        /// Sum of tokens written to the cache.
        total_cache_write: Count,
        /// Wall time of the run.
        duration_ms: Count,
        /// Why it ended.
        stop_reason: StopName,
        /// Model calls that ended well.
        turns: Count,
        /// Tool calls that were run.
        tool_calls: Count,
        /// The final answer, or the last text before the run was ended early.
        text: Maybe,
        /// The final answer as JSON, when a schema was asked for.
        structured: MaybeJson,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: &Event<'_>) -> String {
        let mut out = Vec::new();
        event.write(&Head { ts: 1_730_000_000_000, seq: 7, run: None }, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_has_event_ts_seq_then_the_fields_in_table_order() {
        let got = line(&Event::IterationEnd { iteration: 2, stopped: true, reason: Some("cap") });
        assert_eq!(
            got,
            "{\"event\":\"iteration_end\",\"ts\":1730000000000,\"seq\":7,\"iteration\":2,\"stopped\":true,\"reason\":\"cap\"}\n"
        );
    }

    #[test]
    fn an_absent_field_is_left_out() {
        let got = line(&Event::IterationEnd { iteration: 2, stopped: false, reason: None });
        assert!(!got.contains("reason") && !got.contains("null"), "{got}");
    }

    #[test]
    fn a_line_never_holds_a_raw_line_separator() {
        let got = line(&Event::AssistantText { role: "single", text: "a\nb\u{2028}c\u{85}d\re\0" });
        let inner = got.strip_suffix('\n').unwrap();
        assert!(!inner.contains(['\n', '\r', '\u{2028}', '\u{2029}', '\u{85}', '\0']), "{inner:?}");
        let value: serde_json::Value = serde_json::from_str(inner).unwrap();
        assert_eq!(value["text"], "a\nb\u{2028}c\u{85}d\re\0");
    }

    #[test]
    fn names_are_unique_and_docs_are_sentences() {
        let mut seen = std::collections::BTreeSet::new();
        for spec in SPECS {
            assert!(seen.insert(spec.name), "{} twice", spec.name);
            assert!(spec.doc.ends_with('.') && !spec.doc.starts_with(' '), "{}: {:?}", spec.name, spec.doc);
            for field in spec.fields {
                assert!(field.doc.ends_with('.'), "{}.{}", spec.name, field.name);
            }
        }
    }
}
