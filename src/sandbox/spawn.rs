//! The harness's side of a command: start a helper, give it the order, take the output, and end it in time.

use std::future::pending;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};

use super::output::Kept;
use super::wire::{self, Report, Spec};
use super::{End, Finished, Program, SpawnOrder};
use crate::limits;
use crate::rt::{self, AsyncFd, Cancel, Cause, Clock, Either};

/// How much is read at once (bytes): what a pipe holds.
const READ_BYTES: usize = 64 * limits::KIB;
/// How long the rest of the output may take when nothing is alive that could write it.
const DRAIN: Duration = Duration::from_millis(200);

/// Helpers that wait for their order, so that a command need not wait for its helper.
#[derive(Default)]
pub struct Helpers {
    first: Mutex<First>,
}

/// Where the helper of the first command is.
#[derive(Default)]
enum First {
    #[default]
    NotStarted,
    Waits(Helper),
    Taken,
}

/// A helper's process and our end of its socket.
struct Helper {
    process: Child,
    socket: OwnedFd,
}

impl Helpers {
    /// Starts one ahead, unless a command was faster. That it cannot be started shows with that command.
    pub fn prepare(&self) {
        let mut first = self.lock();
        if matches!(*first, First::NotStarted)
            && let Ok(helper) = Helper::start()
        {
            *first = First::Waits(helper);
        }
    }

    fn take(&self) -> io::Result<Helper> {
        let first = std::mem::replace(&mut *self.lock(), First::Taken);
        if let First::Waits(helper) = first { Ok(helper) } else { Helper::start() }
    }

    /// What is behind the lock is valid after each statement, so a poisoned one is entered.
    fn lock(&self) -> std::sync::MutexGuard<'_, First> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Helper {
    fn start() -> io::Result<Helper> {
        let (ours, theirs) = wire::pair()?;
        // Our own binary, also when the file was replaced meanwhile; with nothing of our environment.
        let mut command = Command::new("/proc/self/exe");
        command.arg("__exec").env_clear().stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Helper { process: command.spawn()?, socket: ours })
    }
}

impl std::fmt::Debug for Helpers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Helpers")
    }
}

/// Runs one command to its end, whatever happens: a cancel or the deadline kills the tree and returns what was written so far.
pub async fn run(order: SpawnOrder, cancel: &Cancel, deadline: Instant) -> Finished {
    let mut kept = Kept::new(order.output_bytes_max);
    let end = match Running::start(order) {
        Ok(mut running) => running.finish(&mut kept, cancel, deadline).await,
        Err(error) => End::Failed(format!("the command cannot be started: {error}")),
    };
    let (output, output_bytes, cut) = kept.finish();
    Finished { output, output_bytes, cut, end }
}

/// A command that runs.
struct Running {
    socket: AsyncFd,
    output: Option<AsyncFd>,
    buffer: Vec<u8>,
    timeout: Duration,
    started: bool,
    /// Why we asked for the end, once we did.
    asked: Option<End>,
}

/// What there is to react to.
enum Wake {
    Ended(Cause),
    Time,
    Report(io::Result<Vec<u8>>),
    Output(io::Result<usize>),
}

impl Running {
    fn start(order: SpawnOrder) -> io::Result<Running> {
        let helper = order.helpers.take()?;
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let program = match order.program {
            Program::Bash { command } => wire::Program::Bash(command),
            Program::Git { args } => wire::Program::Git(args.into_iter().map(OsStringExt::into_vec).collect()),
        };
        let spec = Spec { program, allow: order.allow.to_vec(), path: order.path.to_string() };
        let socket = AsyncFd::new(helper.socket)?;
        bury(helper.process);
        wire::send(socket.as_fd(), &spec, &[order.workdir.as_fd(), writer.as_fd()])?;
        drop(writer);
        let output = Some(AsyncFd::new(reader)?);
        Ok(Running { socket, output, buffer: vec![0; READ_BYTES], timeout: order.timeout, started: false, asked: None })
    }

    async fn finish(&mut self, kept: &mut Kept, cancel: &Cancel, deadline: Instant) -> End {
        let mut until = deadline.min(Clock::now() + self.timeout);
        loop {
            match self.wake(cancel, until).await {
                Wake::Output(Ok(n)) if n > 0 => kept.push(&self.buffer[..n]),
                Wake::Output(_) => self.output = None,
                Wake::Ended(_) | Wake::Time if self.asked.is_some() => return self.asked.take().unwrap_or(End::TimedOut),
                Wake::Ended(cause) => until = self.ask(if cause == Cause::Deadline { End::TimedOut } else { End::Cancelled }),
                Wake::Time => until = self.ask(End::TimedOut),
                Wake::Report(report) => {
                    if let Some(end) = self.report(report) {
                        self.drain(kept).await;
                        return end;
                    }
                }
            }
        }
    }

    async fn wake(&mut self, cancel: &Cancel, until: Instant) -> Wake {
        let asked = self.asked.is_some();
        let ended = async { if asked { pending().await } else { cancel.cancelled().await } };
        let time = rt::sleep(until.saturating_duration_since(Clock::now()));
        let report = async {
            let readable = self.socket.readable().await;
            readable.and_then(|()| wire::receive(self.socket.as_fd()).map(|(bytes, _)| bytes))
        };
        let (output, buffer) = (&self.output, &mut self.buffer);
        let read = async {
            match output {
                Some(output) => output.read(buffer).await,
                None => pending().await,
            }
        };
        // Output comes last: it may be there each time, and what ends it must not wait for that.
        match rt::select(rt::select(ended, time), rt::select(report, read)).await {
            Either::Left(Either::Left(cause)) => Wake::Ended(cause),
            Either::Left(Either::Right(())) => Wake::Time,
            Either::Right(Either::Left(report)) => Wake::Report(report),
            Either::Right(Either::Right(read)) => Wake::Output(read),
        }
    }

    /// Asks the helper to kill the command, and gives the moment until which its report is awaited.
    fn ask(&mut self, why: End) -> Instant {
        self.asked = Some(why);
        // A helper that is gone has killed the command already, or never will.
        let _ = rustix::io::write(&self.socket, wire::KILL);
        Clock::now() + Duration::from_millis(limits::KILL_MS_MAX)
    }

    /// The end that a report means, if it means one.
    fn report(&mut self, report: io::Result<Vec<u8>>) -> Option<End> {
        let bytes = match report {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            // Our request and its report crossed: a socket that closes with something unread is reset.
            Err(_) if self.asked.is_some() => return self.asked.take(),
            Err(error) => return Some(End::Failed(format!("the helper's socket: {error}"))),
            Ok(bytes) => bytes,
        };
        if bytes.is_empty() {
            return Some(self.helper_gone());
        }
        let end = match serde_json::from_slice(&bytes) {
            Ok(Report::Started) => {
                self.started = true;
                return None;
            }
            Ok(Report::Refused(why)) => End::Refused(why),
            Ok(Report::Failed(why)) => End::Failed(why),
            Ok(Report::Exited(code)) => End::Exited(code),
            Ok(Report::Signalled(signal)) => End::Signalled(signal),
            Err(error) => End::Failed(format!("the helper's report cannot be read: {error}")),
        };
        Some(self.asked.take().unwrap_or(end))
    }

    fn helper_gone(&mut self) -> End {
        match (self.asked.take(), self.started) {
            (Some(end), _) => end,
            (None, true) => End::Failed("the process that ran the command was killed, and with it the command".to_owned()),
            (None, false) => End::Refused("the line is too deeply nested to be checked; write a simpler one".to_owned()),
        }
    }

    /// Takes what is left in the pipe: all writers are dead.
    async fn drain(&mut self, kept: &mut Kept) {
        let Running { output: Some(output), buffer, .. } = self else { return };
        let all = async {
            while let Ok(n @ 1..) = output.read(buffer).await {
                kept.push(&buffer[..n]);
            }
        };
        // Whoever holds the pipe open beyond this got away; the rest of its words is not awaited.
        let _ = rt::timeout(DRAIN, all).await;
    }
}

/// Takes note of a helper's death, whenever that comes, so that it does not stay a zombie.
fn bury(mut process: Child) {
    let pid = rustix::process::Pid::from_child(&process);
    let Ok(ended) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else { return };
    rt::spawn(async move {
        if let Ok(ended) = AsyncFd::new(ended)
            && ended.readable().await.is_ok()
        {
            let _ = process.try_wait();
        }
    });
}
