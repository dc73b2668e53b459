//! `shell`: a bash command line, of allowlisted programs only.

use std::sync::Arc;
use std::time::Duration;

use super::{Args, Context, ToolError, Work};
use crate::limits;
use crate::sandbox::{Program, SpawnOrder};

pub(super) fn run(context: &Context, args: &Args) -> Result<Work, ToolError> {
    let command = args.str("command").unwrap_or_default();
    if command.trim().is_empty() {
        return Err(ToolError::InvalidInput("the command is blank".into()));
    }
    if command.len() > limits::SHELL_COMMAND_BYTES_MAX || command.contains('\0') {
        let bound = limits::SHELL_COMMAND_BYTES_MAX;
        return Err(ToolError::InvalidInput(format!("a command has at most {bound} bytes and no NUL; write a file and use that")));
    }
    let workdir = context.workdir.root().try_clone_to_owned().map_err(|e| ToolError::Io(e.to_string()))?;
    let asked = args.int("timeout_ms").map_or(context.shell.timeout, Duration::from_millis);
    Ok(Work::Spawn(SpawnOrder {
        program: Program::Bash { command: command.to_owned() },
        workdir: Arc::new(workdir),
        allow: context.shell.allow.clone(),
        path: context.shell.path.clone(),
        helpers: context.shell.helpers.clone(),
        timeout: asked.min(context.shell.timeout),
        output_bytes_max: limits::TOOL_OUTPUT_BYTES_MAX,
    }))
}
