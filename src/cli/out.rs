//! Words for people: what the commands print, and the help that a run asks for. A run's own stdout is not written here.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::error::Exit;

/// Prints to stdout. A reader that is gone has read enough; any other failure is told by the exit code.
pub(super) fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            note(&format!("gantry: stdout: {error}\n"));
            ExitCode::from(Exit::Error.code())
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Tells a person something on stderr. Nothing depends on it, so a failure is passed over.
pub(super) fn note(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Refuses the words given to a command.
pub(super) fn refuse(message: &str) -> ExitCode {
    note(&format!("gantry: {message}\n"));
    ExitCode::from(Exit::Config.code())
}
