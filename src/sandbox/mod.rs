//! Runs the model's commands: everything that starts a process does it through here.
//!
//! The harness itself never forks. It starts its own binary again as `gantry __exec`, the *helper*: one thread, no key in its
//! environment, no descriptor but a socket to the harness. The helper parses the line (a hostile line may kill a parser, so it is
//! the helper that dies), refuses what it cannot prove, starts bash or git, reports how that ended and kills whatever the command
//! left behind. When the socket closes, the harness is gone, and the helper kills the tree and ends.

mod bash;
mod environment;
mod helper;
mod output;
mod spawn;
mod tree;
mod wire;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

pub use helper::helper_main;
pub use spawn::{Helpers, run};

/// What the shell tool may do, as the run's plan says.
#[derive(Clone, Debug)]
pub struct ShellPolicy {
    /// Program names that a line may call, or absolute paths of programs.
    pub allow: Arc<[String]>,
    /// How long one command may take when the model does not say, and at most.
    pub timeout: Duration,
    /// Where programs are found, as in `PATH`.
    pub path: Arc<str>,
    /// Helpers that wait for an order.
    pub helpers: Arc<Helpers>,
}

/// What to start.
#[derive(Clone, Debug)]
pub enum Program {
    /// A line of the model, checked against the allowlist first.
    Bash {
        /// The line, at most [`crate::limits::SHELL_COMMAND_BYTES_MAX`].
        command: String,
    },
    /// git with arguments of our own: no shell, no check.
    Git {
        /// The arguments after `git`.
        args: Vec<OsString>,
    },
}

/// One command to run.
#[derive(Clone, Debug)]
pub struct SpawnOrder {
    /// What to start.
    pub program: Program,
    /// Its working directory (an `O_PATH` descriptor will do).
    pub workdir: Arc<OwnedFd>,
    /// See [`ShellPolicy::allow`]; used for [`Program::Bash`] only.
    pub allow: Arc<[String]>,
    /// See [`ShellPolicy::path`].
    pub path: Arc<str>,
    /// Where its helper comes from.
    pub helpers: Arc<Helpers>,
    /// From the start of the command to its kill.
    pub timeout: Duration,
    /// How much output is kept (bytes): the first half from its head, the second half from its tail.
    pub output_bytes_max: usize,
}

/// How a command ended, and what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// stdout and stderr in the order in which they were written, at most `output_bytes_max`.
    pub output: Vec<u8>,
    /// What was written altogether (bytes).
    pub output_bytes: u64,
    /// Where the output was cut: at this offset of `output`, that many bytes are missing.
    pub cut: Option<(usize, u64)>,
    /// How it ended.
    pub end: End,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this code.
    Exited(i32),
    /// This signal killed it.
    Signalled(i32),
    /// Its time, or the run's, ran out: the whole tree was killed.
    TimedOut,
    /// The run was cancelled: the whole tree was killed.
    Cancelled,
    /// Nothing was run: the check refused the line, and this says why and what to write instead.
    Refused(String),
    /// Nothing was run, or its end is not known: a fault of the machine, in words.
    Failed(String),
}
