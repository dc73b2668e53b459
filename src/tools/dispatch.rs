//! Runs one call from its JSON to what the model reads, whatever happens on the way.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use super::{Args, Context, Tool, ToolError, ToolSet, Work};
use crate::compress::{Compressed, compress};
use crate::limits;
use crate::rt::{self, Cancel, Clock, Either, Panicked};
use crate::sandbox::{self, End, Finished, Program};

/// What came of a call.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What the model reads.
    pub content: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// Size of the output before any cut.
    pub bytes: u64,
    /// Size of `content`.
    pub bytes_out: u64,
    /// Whether anything was left out.
    pub truncated: bool,
    /// The failure as the model reads it.
    pub error: Option<String>,
    /// Where the original is.
    pub handle: Option<String>,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// From the call to here.
    pub duration_ms: u64,
    /// What compression saved.
    pub bytes_saved: Option<u64>,
}

impl Outcome {
    /// A call that was not run, and why.
    pub fn refused(reason: &str) -> Outcome {
        Outcome::failed(format!("error: {reason}"))
    }

    /// The text may quote what the model sent, so it is bounded here for all.
    fn failed(mut text: String) -> Outcome {
        if text.len() > limits::TOOL_ERROR_BYTES_MAX {
            text.truncate(text.floor_char_boundary(limits::TOOL_ERROR_BYTES_MAX));
            text.push('…');
        }
        let bytes = text.len() as u64;
        Outcome { error: Some(text.clone()), content: text, is_error: true, bytes, bytes_out: bytes, ..Outcome::default() }
    }
}

/// The output of a tool before it is compressed.
#[derive(Default)]
struct Output {
    text: Vec<u8>,
    /// Size before any cut.
    bytes: u64,
    cut: bool,
    exit_code: Option<i32>,
    /// The command did not come to its own end.
    failed: bool,
}

/// Runs a call. Comes back soon after the run's cancel or deadline, too.
pub async fn dispatch(context: &Arc<Context>, set: &ToolSet, name: &str, args: &str, cancel: &Cancel, deadline: Instant) -> Outcome {
    let started = Clock::now();
    let done = match set.get(name) {
        Some(tool) => run(context, tool, args, cancel, deadline).await.map(|output| finish(context, tool, output)),
        None => Err(unknown(name, set)),
    };
    let mut outcome = done.unwrap_or_else(|error| Outcome::failed(format!("error: {error}")));
    outcome.duration_ms = u64::try_from(Clock::now().saturating_duration_since(started).as_millis()).unwrap_or(u64::MAX);
    outcome
}

async fn run(context: &Arc<Context>, tool: &'static Tool, args: &str, cancel: &Cancel, deadline: Instant) -> Result<Output, ToolError> {
    let args = Arc::new(Args::parse(args, tool.schema)?);
    // The hand-over to a worker and back costs more than reading a file that is in memory.
    let quick = match tool.run_cached {
        Some(run) => rt::catch_panic(async { run(context, &args) }).await.map_err(panicked)?,
        None => None,
    };
    let work = match quick {
        Some(work) => work?,
        None => on_worker(context, tool, &args, cancel).await?,
    };
    match work {
        Work::Done(text) => Ok(hard_cap(text)),
        Work::Spawn(order) => {
            let is_git = matches!(order.program, Program::Git { .. });
            let finished = sandbox::run(order, cancel, deadline).await;
            if is_git { git(finished) } else { command(finished) }
        }
    }
}

async fn on_worker(context: &Arc<Context>, tool: &'static Tool, args: &Arc<Args>, cancel: &Cancel) -> Result<Work, ToolError> {
    let (context, args) = (context.clone(), args.clone());
    let job = rt::blocking(move || (tool.run)(&context, &args));
    match rt::select(cancel.cancelled(), job).await {
        Either::Left(_) => Err(ToolError::Failed("the run ended before the tool did".into())),
        Either::Right(done) => done.map_err(panicked)?,
    }
}

fn panicked(what: Panicked) -> ToolError {
    ToolError::Failed(format!("the tool {what}; this is a fault of the harness"))
}

fn unknown(name: &str, set: &ToolSet) -> ToolError {
    let name = &name[..name.floor_char_boundary(100)];
    ToolError::UnknownTool(format!("{name:?}; there are {}", set.names().join(", ")))
}

/// Cuts what is beyond the contract's bound.
fn hard_cap(mut text: Vec<u8>) -> Output {
    let bytes = text.len() as u64;
    let cut = text.len() > limits::TOOL_OUTPUT_BYTES_MAX;
    if cut {
        let mut at = limits::TOOL_OUTPUT_BYTES_MAX;
        while at > 0 && text[at] & 0xc0 == 0x80 {
            at -= 1;
        }
        text.truncate(at);
        text.extend_from_slice("…[truncated]".as_bytes());
    }
    Output { text, bytes, cut, ..Output::default() }
}

/// git's output, and no exit code: it says yes by 0, and anything else is a failure with git's reason.
fn git(finished: Finished) -> Result<Output, ToolError> {
    if let End::Exited(1..) = finished.end {
        let said = String::from_utf8_lossy(&finished.output);
        // A page of options would follow.
        let reason = said.split("\nusage:").next().unwrap_or_default().trim();
        return Err(ToolError::Failed(format!("git: {reason}")));
    }
    Ok(Output { exit_code: None, ..command(finished)? })
}

/// A finished command as a tool's output: what it wrote, and a line on how it ended unless that was well.
fn command(finished: Finished) -> Result<Output, ToolError> {
    let Finished { output, output_bytes, cut, end } = finished;
    let mut text = output;
    if let Some((at, missing)) = cut {
        let note = format!("\n[{missing} bytes left out here: a command's output is kept up to {} bytes]\n", limits::TOOL_OUTPUT_BYTES_MAX);
        text.splice(at..at, note.into_bytes());
    }
    let (line, exit_code) = match &end {
        End::Refused(why) => return Err(ToolError::InvalidInput(why.clone())),
        End::Failed(why) => return Err(ToolError::Failed(why.clone())),
        End::Exited(0) => (None, Some(0)),
        End::Exited(code) => (Some(format!("[exit code {code}]")), Some(*code)),
        End::Signalled(signal) => (Some(format!("[killed by signal {signal}]")), Some(128 + signal)),
        End::TimedOut => (
            Some("[timed out: the command and all it had started were killed; the output above is what it wrote until then]".to_owned()),
            None,
        ),
        End::Cancelled => (Some("[the run ended: the command was killed]".to_owned()), None),
    };
    // A command that says no by its exit code has done its work: grep without a match, a test that fails.
    let failed = line.is_some() && !matches!(end, End::Exited(_));
    if let Some(line) = line {
        if text.last().is_some_and(|b| *b != b'\n') {
            text.push(b'\n');
        }
        text.extend_from_slice(line.as_bytes());
    }
    Ok(Output { bytes: output_bytes, text, cut: cut.is_some(), exit_code, failed })
}

/// Compresses an output and keeps its original when something is left out.
fn finish(context: &Context, tool: &Tool, output: Output) -> Outcome {
    let text = String::from_utf8(output.text).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    let mut handle = None;
    let compressed = match tool.fidelity.rules() {
        Some(rules) => compress(&text, &rules, &mut || handle.insert(context.stash.put(tool.name, &text)).clone()),
        None => Compressed { text: Cow::Borrowed(&text), capped: false },
    };
    let capped = compressed.capped;
    let content = compressed.text.into_owned();
    let saved = text.len().saturating_sub(content.len()) as u64;
    let failure = output.failed.then(|| content.lines().next_back().unwrap_or_default().to_owned());
    Outcome {
        is_error: output.failed,
        bytes: output.bytes,
        bytes_out: content.len() as u64,
        truncated: output.cut || capped,
        error: failure.map(|line| format!("error: {}", line.trim_start_matches('[').trim_end_matches(']'))),
        handle,
        exit_code: output.exit_code,
        bytes_saved: (saved > 0).then_some(saved),
        content,
        ..Outcome::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rt::{Cause, DriverChoice, block_on};
    use crate::tools::testdir::TestDir;

    fn call(dir: &TestDir, name: &str, args: &str) -> Outcome {
        let context = Arc::new(dir.context());
        let set = ToolSet::resolve(&["+write_file".into()]).unwrap();
        let cancel = Cancel::new();
        block_on(DriverChoice::Auto, |_| dispatch(&context, &set, name, args, &cancel, Clock::now() + Duration::from_secs(60))).unwrap()
    }

    #[test]
    fn every_failure_is_text_for_the_model() {
        let dir = TestDir::new();
        for (name, args, start) in [
            ("functions.read_file", "{}", "error: unknown tool: \"functions.read_file\"; there are read_file, list_files,"),
            ("edit_file", "{}", "error: unknown tool: \"edit_file\""),
            ("", "{}", "error: unknown tool: \"\""),
            ("read_file", "{", "error: invalid input: the arguments are no JSON"),
            ("read_file", r#"{"path":"../x"}"#, "error: path outside workdir: ../x"),
            ("read_file", r#"{"path":"x"}"#, "error: io: x does not exist"),
        ] {
            let outcome = call(&dir, name, args);
            assert!(outcome.is_error && outcome.content.starts_with(start), "{}", outcome.content);
            assert_eq!((outcome.error.as_deref(), outcome.bytes), (Some(outcome.content.as_str()), outcome.content.len() as u64));
        }
    }

    #[test]
    fn a_failure_that_quotes_the_model_stays_short() {
        let dir = TestDir::new();
        let long = "ä".repeat(100_000);
        for (name, args) in [
            (long.as_str(), "{}".to_owned()),
            ("read_file", format!(r#"{{"path":"{long}"}}"#)),
            ("read_file", format!(r#"{{"path":"{}"}}"#, "../".repeat(100_000))),
            ("read_file", format!(r#"{{"{long}":1}}"#)),
            ("grep", format!(r#"{{"pattern":"({}"}}"#, "x\\n".repeat(1_000))),
        ] {
            let outcome = call(&dir, name, &args);
            assert!(outcome.is_error && outcome.content.len() < limits::TOOL_ERROR_BYTES_MAX + 10, "{}", outcome.content.len());
        }
    }

    #[test]
    fn a_tool_that_panics_fails_and_nothing_else() {
        let panics = |run_cached| Tool {
            name: "panics",
            group: crate::tools::Group::Base,
            fidelity: crate::tools::Fidelity::Exact,
            description: "",
            schema: r#"{"properties":{}}"#,
            run: |_, _| panic!("on a worker"),
            run_cached,
        };
        let (on_worker, on_core): (Tool, Tool) = (panics(None), panics(Some(|_, _| panic!("on the core"))));
        let context = Arc::new(TestDir::new().context());
        for (tool, place) in [(on_worker, "on a worker"), (on_core, "on the core")] {
            let tool: &'static Tool = Box::leak(Box::new(tool));
            let cancel = Cancel::new();
            let deadline = Clock::now() + Duration::from_secs(60);
            let done = block_on(DriverChoice::Auto, |_| run(&context, tool, "", &cancel, deadline)).unwrap();
            let told = done.err().unwrap().to_string();
            assert!(told.contains(place) && told.ends_with("this is a fault of the harness"), "{told}");
        }
    }

    #[test]
    fn git_fails_with_its_own_reason() {
        let finished =
            |code, output: &str| Finished { output: output.into(), output_bytes: output.len() as u64, cut: None, end: End::Exited(code) };
        let output = git(finished(0, "diff")).unwrap();
        assert_eq!((output.text, output.exit_code), (b"diff".to_vec(), None));
        for (said, told) in [
            ("warning: Not a git repository.\nusage: git diff\n -x", "git: warning: Not a git repository."),
            ("fatal: bad revision 'x'\n", "git: fatal: bad revision 'x'"),
        ] {
            assert_eq!(git(finished(128, said)).err(), Some(ToolError::Failed(told.into())));
        }
    }

    #[test]
    fn a_long_file_is_capped_and_comes_back_by_its_handle() {
        let dir = TestDir::new();
        let text: String = (0..2_000).map(|i| format!("line {i}\n")).collect();
        dir.write("long", &text);
        let outcome = call(&dir, "read_file", r#"{"path":"long"}"#);
        assert!(!outcome.is_error && outcome.truncated && outcome.bytes == text.len() as u64);
        assert!(outcome.content.contains(outcome.handle.as_deref().unwrap()));
        assert_eq!(outcome.bytes_saved, Some(outcome.bytes - outcome.bytes_out));
    }

    #[test]
    fn a_page_of_the_original_is_not_cut_again() {
        let dir = TestDir::new();
        let context = Arc::new(dir.context());
        let set = ToolSet::resolve(&[]).unwrap();
        let cancel = Cancel::new();
        for text in ["short\n".repeat(2_000), "one long line ".repeat(2_000)] {
            let args = format!(r#"{{"handle":"{}","start":1}}"#, context.stash.put("shell", &text));
            let deadline = Clock::now() + Duration::from_secs(60);
            let outcome = block_on(DriverChoice::Auto, |_| dispatch(&context, &set, "retrieve", &args, &cancel, deadline)).unwrap();
            assert_eq!((outcome.content, outcome.truncated, outcome.handle), (text, false, None));
        }
    }

    #[test]
    fn foreign_bytes_become_text() {
        let dir = TestDir::new();
        dir.write("latin", b"caf\xe9\n");
        assert_eq!(call(&dir, "read_file", r#"{"path":"latin"}"#).content, "caf\u{fffd}\n");
    }

    #[test]
    fn a_cancelled_run_gets_an_answer_at_once() {
        let dir = TestDir::new();
        let context = Arc::new(dir.context());
        let set = ToolSet::resolve(&[]).unwrap();
        let cancel = Cancel::new();
        cancel.cancel(Cause::Signal);
        let outcome = block_on(DriverChoice::Auto, |_| dispatch(&context, &set, "list_files", "{}", &cancel, Clock::now())).unwrap();
        assert!(outcome.is_error);
    }
}
