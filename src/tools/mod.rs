//! What the model may do: a table of tools, each with its description and its parameters beside it.
//!
//! A tool is a plain function that runs on a worker and returns bytes or a command to start; it never sees the run, the wire or
//! the transcript. Its failure is a value that the model reads. Every path goes through [`Workdir`], which cannot be left.

mod args;
mod atomic;
mod confinement;
mod dispatch;
mod edit_file;
mod find_files;
mod git_diff;
mod grep;
mod list_files;
mod near;
mod read_file;
mod retrieve;
mod set;
mod shell;
mod skill_load;
#[cfg(test)]
mod testdir;
mod walk;
mod workdir;
mod write_file;

use std::fmt;
use std::path::PathBuf;

pub use args::Args;
pub use dispatch::{Outcome, dispatch};
pub use set::ToolSet;
pub use skill_load::{SkillError, read_skill, valid_name};
pub use workdir::{PathError, Workdir};

use crate::compress::Rules;
use crate::sandbox::{ShellPolicy, SpawnOrder};
use crate::transcript::stash::Stash;

/// Who decides that a tool is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// On unless `--tool` narrows the set.
    Base,
    /// Changes files; off unless named.
    OptIn,
    /// Granted by the harness; cannot be named.
    Control,
}

/// What may be left out of a tool's output for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// Content: what is beyond the bounds.
    Exact,
    /// Logs and progress: repeated lines, too.
    Noisy,
    /// Nothing: it is a page that the tool has bounded. To cut what was asked for because it had been cut would lead in a circle.
    Paged,
}

impl Fidelity {
    /// The compressor's rules; none when the output is passed on as it is.
    pub const fn rules(self) -> Option<Rules> {
        match self {
            Fidelity::Exact => Some(Rules::new(false)),
            Fidelity::Noisy => Some(Rules::new(true)),
            Fidelity::Paged => None,
        }
    }
}

/// See [`Tool::run_cached`].
pub type RunCached = fn(&Context, &Args) -> Option<Result<Work, ToolError>>;

/// One tool.
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Who decides that it is offered.
    pub group: Group,
    /// What may be left out of its output.
    pub fidelity: Fidelity,
    /// What the model is told about it.
    pub description: &'static str,
    /// Its parameters as JSON Schema text.
    pub schema: &'static str,
    /// Does the work. Runs on a worker and may block.
    pub run: fn(&Context, &Args) -> Result<Work, ToolError>,
    /// Does the work on the core when it cannot block, or says that it might; then a worker does it.
    pub run_cached: Option<RunCached>,
}

macro_rules! tool {
    ($name:ident, $group:ident, $fidelity:ident) => {
        Tool {
            name: stringify!($name),
            group: Group::$group,
            fidelity: Fidelity::$fidelity,
            description: include_str!(concat!(stringify!($name), ".md")).trim_ascii(),
            schema: include_str!(concat!(stringify!($name), ".json")).trim_ascii(),
            run: $name::run,
            run_cached: None,
        }
    };
}

/// Every tool, in the order in which the model is told of them.
pub static TOOLS: &[Tool] = &[
    Tool { run_cached: Some(read_file::run_cached), ..tool!(read_file, Base, Exact) },
    tool!(list_files, Base, Exact),
    tool!(find_files, Base, Exact),
    tool!(grep, Base, Exact),
    tool!(git_diff, Base, Exact),
    tool!(shell, Base, Noisy),
    tool!(skill_load, Base, Exact),
    tool!(write_file, OptIn, Exact),
    tool!(edit_file, OptIn, Exact),
    tool!(retrieve, Control, Paged),
];

/// What a tool gives back.
pub enum Work {
    /// Its output.
    Done(Vec<u8>),
    /// A command to run; its output is the tool's.
    Spawn(SpawnOrder),
}

impl From<String> for Work {
    fn from(text: String) -> Work {
        Work::Done(text.into_bytes())
    }
}

/// Why a tool did not do what was asked. The texts are for the model: what was wrong, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolError {
    /// A path leaves the workdir.
    OutsideWorkdir(String),
    /// The file system refused.
    Io(String),
    /// The arguments make no sense.
    InvalidInput(String),
    /// There is no such tool.
    UnknownTool(String),
    /// The command or the tool itself failed.
    Failed(String),
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolError::OutsideWorkdir(what) => write!(f, "path outside workdir: {what}"),
            ToolError::Io(what) => write!(f, "io: {what}"),
            ToolError::InvalidInput(what) => write!(f, "invalid input: {what}"),
            ToolError::UnknownTool(what) => write!(f, "unknown tool: {what}"),
            ToolError::Failed(what) => f.write_str(what),
        }
    }
}

/// What the tools of a run share.
pub struct Context {
    /// The directory that they work in and cannot leave.
    pub workdir: Workdir,
    /// Where skills are found. The user's choice, so it may lie outside the workdir.
    pub skills_root: PathBuf,
    /// What the shell may run.
    pub shell: ShellPolicy,
    /// Where the originals of shortened outputs stay.
    pub stash: Stash,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_a_closed_object_and_every_description_a_sentence() {
        for tool in TOOLS {
            let schema: serde_json::Value = serde_json::from_str(tool.schema).unwrap_or_else(|e| panic!("{}: {e}", tool.name));
            assert_eq!((&schema["type"], &schema["additionalProperties"]), (&"object".into(), &false.into()), "{}", tool.name);
            for required in schema["required"].as_array().into_iter().flatten() {
                assert!(schema["properties"].get(required.as_str().unwrap()).is_some(), "{}: {required}", tool.name);
            }
            assert!(tool.description.ends_with('.'), "{}", tool.name);
            assert!(!tool.schema.contains('\n') && !tool.schema.contains(": "), "{}: no byte of the schema is wasted", tool.name);
        }
    }

    #[test]
    fn the_default_tools_cost_less_than_3600_bytes() {
        let bytes: usize =
            TOOLS.iter().filter(|t| t.group != Group::OptIn).map(|t| t.name.len() + t.description.len() + t.schema.len()).sum();
        assert!(bytes < 3_600, "{bytes}");
    }
}
