//! What a run needs, as meant and checked: every file read, every name known, so that nothing here can fail as configuration
//! after `start`.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::{HeaderName, HeaderValue, Uri};

use crate::provider::{Effort, ModelSlug, Replay, TlsRoots};
use crate::rt::DriverChoice;
use crate::secret::Secret;
use crate::tools::ToolSet;

/// The programs that the `shell` tool may run when `--shell-allow` names none.
pub const SHELL_ALLOW_DEFAULT: [&str; 4] = ["cat", "find", "git", "ls"];

/// How a run proceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One agent until it stops calling tools, or until the turn cap.
    Single,
}

/// One row of [`MODES`].
pub struct ModeRow {
    /// The value of `--mode`, of `start.mode` and of `role`.
    pub name: &'static str,
    /// The mode that the name means.
    pub mode: Mode,
    /// One sentence for the help.
    pub doc: &'static str,
}

/// Every mode. `--mode`, its help and the completions read this table.
pub static MODES: &[ModeRow] =
    &[ModeRow { name: "single", mode: Mode::Single, doc: "One agent works until it stops calling tools, or until the turn cap." }];

impl Mode {
    /// The name on the command line and in events.
    pub fn name(self) -> &'static str {
        MODES.iter().find(|row| row.mode == self).expect("every mode has a row").name
    }
}

/// Something that a person should know but that does not stop the run; becomes a `warning` event after `start`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// `warning.code`, in snake case.
    pub code: &'static str,
    /// `warning.message`; holds no secret.
    pub message: String,
}

/// Everything a run needs. Made by `cli::resolve`; whoever holds one need not check its parts again.
#[derive(Debug)]
pub struct RunPlan {
    /// When the process began to work; `--timeout-ms` and `result.duration_ms` count from here.
    pub started: Instant,
    /// `--mode`.
    pub mode: Mode,
    /// `--workdir`, canonical.
    pub workdir: PathBuf,
    /// The same directory, held open (`O_PATH`), so that renaming it cannot move the run elsewhere.
    pub workdir_fd: OwnedFd,
    /// The text of `--prompt-file`; never blank.
    pub prompt: String,
    /// The text of `--system-file`.
    pub system: Option<String>,

    /// `--max-tokens`: the budget of the whole run in tokens, at least 1.
    pub max_tokens: u64,
    /// `--timeout-ms`: wall clock of the whole run, at least 1 ms.
    pub timeout: Duration,
    /// `--max-turns`: model calls before the last one that asks for the answer, at least 1.
    pub max_turns: u32,

    /// `--model`.
    pub model: ModelSlug,
    /// The key of the provider, fit for a header as it is. None where none is set, and then the vendor's `key_default` is sent,
    /// and where a header of the user's takes its place.
    pub key: Option<Secret>,
    /// Where the provider answers: `http` or `https`, with a host, without user, query or fragment. None where nothing is called.
    pub base_url: Option<Uri>,
    /// `--header` and attribution headers, each name once. They win over headers of our own of the same name.
    /// Every value is marked sensitive: it must not be shown or recorded.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Additional TLS roots.
    pub tls: TlsRoots,
    /// For a TCP connection and the TLS handshake on it.
    pub connect_timeout: Duration,
    /// `--idle-timeout-ms`: how long the provider may send nothing.
    pub idle_timeout: Duration,
    /// `GANTRY_DRIVER`.
    pub driver: DriverChoice,
    /// `--record`: the cassette to write, opened and emptied.
    pub record: Option<File>,
    /// `--max-output-tokens` of one model call.
    pub max_output_tokens: Option<u64>,
    /// `--effort`.
    pub effort: Option<Effort>,
    /// `--temperature`, from 0 to 2.
    pub temperature: Option<f32>,

    /// The cassette that `--model replay/…` names.
    pub replay: Option<Replay>,
    /// The tools that `--tool` leaves or adds.
    pub tools: ToolSet,
    /// `--shell-allow`: names of programs, without a path; never empty, each once.
    pub shell_allow: Vec<String>,
    /// Where they are found: the absolute directories of `PATH` that lie outside the workdir.
    pub shell_path: String,
    /// `--shell-timeout-ms`: wall clock of one command.
    pub shell_timeout: Duration,
    /// `--inject-skill`: valid names in the order given, each once. The files may still be missing.
    pub skills: Vec<String>,
    /// `--skills-dir`, or `.claude/skills` in the workdir. The default need not exist.
    pub skills_dir: PathBuf,

    /// What to say after `start`.
    pub notices: Vec<Notice>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_found_by_their_own_name() {
        for row in MODES {
            assert_eq!(row.mode.name(), row.name);
            assert!(row.doc.ends_with('.'), "{}", row.name);
        }
    }
}
