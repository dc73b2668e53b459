//! One run: `start` first, `result` last, and the right exit code, whatever happens between.
//!
//! The run itself is a future on the core; around it stand a fence against panics and the warden, which ends the run from outside
//! and, when the core no longer answers, writes the last line itself.

pub mod plan;
mod single;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use crate::agent::prompt::{self, Skill};
use crate::agent::stop_of;
use crate::emit::{Event, RunWard, SCHEMA_VERSION, Sink};
use crate::error::{Error, Exit, Stop};
use crate::limits;
use crate::rt::{self, Cancel, Clock, Either, Signals, Warden};
use crate::tools;

use plan::RunPlan;

/// What a mode needs beside the plan.
struct Run {
    plan: RunPlan,
    sink: Arc<Sink>,
    cancel: Cancel,
}

/// How a mode ended.
struct Ended {
    stop: Stop,
    text: String,
}

/// Carries a plan out. stdout gets the whole stream; the exit is the one that `result` states.
pub fn execute(plan: RunPlan, signals: Signals) -> Exit {
    let Ok(sink) = Sink::stdout() else { return Exit::Error };
    let sink = Arc::new(sink.since(plan.started));
    let cancel = Cancel::new();
    let ward = Arc::new(RunWard::new(sink.clone(), cancel.clone()));
    let warden = match Warden::start(ward, signals, Some(plan.started + plan.timeout)) {
        Ok(warden) => warden,
        Err(error) => return fail_early(&sink, &format!("the warden thread cannot be started: {error}")),
    };
    sink.on_pending(warden.bell());
    let driver = plan.driver;
    let run = Run { plan, sink: sink.clone(), cancel: cancel.clone() };
    let done = rt::block_on(driver, |name| rt::catch_panic(bracket(run, name)));
    let ended = match done {
        Ok(Ok(ended)) => ended,
        Ok(Err(panicked)) => Err(Error::internal(format!("the run {panicked}"))),
        Err(error) => Err(Error::internal(format!("no runtime can be made (GANTRY_DRIVER chooses the driver): {error}"))),
    };
    let exit = conclude(&sink, &cancel, ended);
    warden.finish(Duration::from_millis(limits::FINISH_MS));
    // Nor was a reader that does not read.
    if exit == Exit::Ok && !sink.is_delivered() { Stop::StdoutClosed.exit() } else { exit }
}

fn fail_early(sink: &Sink, message: &str) -> Exit {
    emit_error(sink, &Error::internal(message));
    sink.last_resort(Stop::Internal, Duration::from_millis(limits::FINISH_MS));
    Stop::Internal.exit()
}

/// Writes the end of the stream and tells the exit. A cancel explains whatever failure came after it.
fn conclude(sink: &Sink, cancel: &Cancel, ended: Result<Ended, Error>) -> Exit {
    let Ended { stop, text } = match (ended, cancel.cause()) {
        (Ok(ended), _) => ended,
        (Err(_), Some(cause)) => Ended { stop: stop_of(cause), text: String::new() },
        (Err(error), None) => {
            emit_error(sink, &error);
            Ended { stop: error.stop, text: String::new() }
        }
    };
    sink.seal(stop, Some(text.as_str()).filter(|t| !t.is_empty()));
    // The reader is gone, or the disk full: nobody was told that it went well.
    if sink.broken().is_some() { Stop::StdoutClosed.exit() } else { stop.exit() }
}

fn emit_error(sink: &Sink, error: &Error) {
    let Error { kind, ref message, recoverable, retry_after_ms, .. } = *error;
    sink.emit(&Event::Error { kind, message, recoverable, retry_after_ms, code: None });
}

async fn bracket(run: Run, driver: &'static str) -> Result<Ended, Error> {
    start(&run, driver);
    for notice in &run.plan.notices {
        run.sink.emit(&Event::Warning { code: notice.code, message: &notice.message });
    }
    run.sink.flush();
    let skills = inject_skills(&run).await;
    let system = prompt::system(&skills, run.plan.system.as_deref());
    let cancel = run.cancel.clone();
    let mode = single::run(run, &system);
    // The modes answer a cancel by themselves, soon; should one not, it is dropped here, and the warden's grace goes on.
    let patience = async {
        cancel.cancelled().await;
        rt::sleep(Duration::from_millis(limits::CANCEL_GRACE_MS / 2)).await;
    };
    match rt::select(mode, patience).await {
        Either::Left(ended) => ended,
        Either::Right(()) => Ok(Ended { stop: cancel.cause().map_or(Stop::Internal, stop_of), text: String::new() }),
    }
}

fn start(run: &Run, driver: &'static str) {
    let plan = &run.plan;
    run.sink.emit(&Event::Start {
        schema_version: SCHEMA_VERSION,
        model: &plan.model.slug,
        provider: plan.model.vendor.name,
        mode: plan.mode.name(),
        workdir: &plan.workdir.to_string_lossy(),
        version: env!("CARGO_PKG_VERSION"),
        run_id: &format!("{:016x}", random()),
        tools: plan.tools.names(),
        context_limit: None,
        isolate: false,
        sandbox: "parser",
        driver,
    });
}

/// Reads the skills that go into the system prompt. A missing one is told and left out.
async fn inject_skills(run: &Run) -> Vec<Skill> {
    let mut found = Vec::new();
    for name in &run.plan.skills {
        let (root, theirs) = (run.plan.skills_dir.clone(), name.clone());
        match rt::blocking(move || tools::read_skill(&root, &theirs).map_err(|e| e.to_string())).await {
            Ok(Ok(text)) => {
                run.sink.emit(&Event::SkillLoaded { name, bytes: text.len() as u64 });
                found.push(Skill { name: name.clone(), text });
            }
            Ok(Err(why)) => skill_missing(run, name, &why),
            Err(panicked) => skill_missing(run, name, &panicked.to_string()),
        }
    }
    found
}

fn skill_missing(run: &Run, name: &str, why: &str) {
    let message = format!("skill {name} was not injected: {why} (looked in {})", run.plan.skills_dir.display());
    run.sink.emit(&Event::Warning { code: "skill_missing", message: &message });
}

/// A number that differs from run to run: the standard library's hasher is seeded by the system.
fn random() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(Clock::epoch_ms());
    hasher.finish()
}
