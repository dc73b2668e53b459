//! What was asked: from the command line to a plan that can be carried out, or to words for a person.
//!
//! `table` has a row for every flag of a run and `COMMANDS` one for every command; the parser (`raw`), the help and
//! docs/CLI.md (`usage`) and the `completions` read the rows. What was typed (`raw`) is kept apart from what is meant
//! (`resolve`): the first needs no I/O, the second opens, reads and checks everything, and tells all faults at once.
//! `env` is the only reader of the environment, `sys` the only caller of the system here.

mod commands;
mod completions;
mod doctor;
mod endpoint;
mod env;
mod fault;
mod flags;
mod headers;
mod inputs;
mod out;
mod raw;
mod resolve;
#[cfg(test)]
mod scratch;
mod sys;
mod table;
mod usage;
mod values;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub use self::env::args;
pub use self::usage::cli_page;

use self::env::Env;
use self::raw::Asked;
use crate::emit::{Event, Sink};
use crate::error::{Error, Exit, Stop};
use crate::limits;
use crate::rt::{Clock, Signals};
use crate::run;

/// A command, which is the first word of a command line. Without one, the flags tell a run.
struct Command {
    /// The word.
    name: &'static str,
    /// What may follow it, for the usage line.
    args: &'static str,
    /// Left out of help and completions: for gantry's own processes.
    hidden: bool,
    /// One sentence.
    short: &'static str,
    /// What else there is to know; may be empty.
    long_doc: &'static str,
    /// Carries it out with the words that follow.
    run: fn(&[OsString]) -> ExitCode,
}

/// Every command, sorted by name.
static COMMANDS: &[Command] = &[
    Command {
        name: "__exec",
        args: "",
        hidden: true,
        short: "Carries out one command for a run.",
        long_doc: "",
        run: |_| ExitCode::from(crate::sandbox::helper_main()),
    },
    Command {
        name: "completions",
        args: "bash|fish|zsh",
        hidden: false,
        short: "Prints the shell's script that completes flags and values.",
        long_doc: "For example, in ~/.bashrc: source <(gantry completions bash).",
        run: commands::completions,
    },
    Command {
        name: "doctor",
        args: "[--json]",
        hidden: false,
        short: "Tells what this machine offers, and which keys are set.",
        long_doc: "Values of keys are never shown. Nothing is sent anywhere.",
        run: doctor::doctor,
    },
    Command {
        name: "help",
        args: "[COMMAND]",
        hidden: false,
        short: "Prints the flags of a run and the commands, or what a command does.",
        long_doc: "",
        run: commands::help,
    },
    Command {
        name: "schema",
        args: "events",
        hidden: false,
        short: "Prints the JSON Schema of an event, which is a line of a run's stdout.",
        long_doc: "",
        run: commands::schema,
    },
    Command {
        name: "version",
        args: "[--json]",
        hidden: false,
        short: "Prints the version of gantry, and as JSON that of the event schema too.",
        long_doc: "",
        run: commands::version,
    },
];

/// Does what the words say. `argv` begins after the program's name.
pub fn main(argv: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = argv.collect();
    let command = args.first().and_then(|word| COMMANDS.iter().find(|command| word == command.name));
    match command {
        Some(command) if !command.hidden && args[1..].iter().any(|word| word == "--help" || word == "-h") => {
            out::print(&usage::help_for(command))
        }
        Some(command) => (command.run)(&args[1..]),
        None => ExitCode::from(run_flags(&args).code()),
    }
}

/// One run, or the answer why there is none. Whatever happens, stdout ends with one `result`.
fn run_flags(args: &[OsString]) -> Exit {
    let started = Clock::now();
    // From here on a signal is an event of the run, also while a prompt on stdin is awaited.
    let signals = match Signals::install() {
        Ok(signals) => signals,
        Err(error) => return refuse(&[Error::internal(format!("signals cannot be handled: {error}"))], started),
    };
    let plan = catch_unwind(AssertUnwindSafe(|| {
        let typed = raw::parse(args);
        match typed.asked {
            Some(asked) => Err(vec![Error::config(answer(asked))]),
            None => resolve::resolve(typed, &Env::collect(), started, Some(&signals)).map_err(into_errors),
        }
    }));
    match plan {
        Ok(Ok(plan)) => run::execute(plan, signals),
        Ok(Err(errors)) => {
            if args.is_empty() {
                out::note("gantry is driven by flags; `gantry help` tells them.\n");
            }
            refuse(&errors, started)
        }
        Err(_) => refuse(&[Error::internal("reading the command line panicked; stderr has the place")], started),
    }
}

fn into_errors(faults: Vec<fault::Fault>) -> Vec<Error> {
    faults.into_iter().map(Error::from).collect()
}

/// Words for the person on stderr; the message of the error that a program reads.
fn answer(asked: Asked) -> &'static str {
    match asked {
        Asked::Help => {
            out::note(&usage::help());
            "--help is not a run flag; `gantry help` prints the help and exits 0"
        }
        Asked::Version => {
            out::note(&commands::version_line());
            "--version is not a run flag; `gantry version` prints the version and exits 0"
        }
    }
}

/// Tells why there is no run: an `error` a fault, then `result`, without a `start`.
fn refuse(errors: &[Error], started: Instant) -> Exit {
    let stop = errors.iter().map(|error| error.stop).find(|stop| *stop != Stop::Config).unwrap_or(Stop::Config);
    let Ok(sink) = Sink::stdout().map(|sink| sink.since(started)) else { return stop.exit() };
    for error in errors {
        sink.emit(&Event::Error {
            kind: error.kind,
            message: &error.message,
            recoverable: error.recoverable,
            retry_after_ms: None,
            code: None,
        });
    }
    sink.last_resort(stop, Duration::from_millis(limits::FINISH_MS));
    stop.exit()
}
