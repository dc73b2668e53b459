//! The helper's side: one command, checked, run, and cleaned up after. Runs in a process of its own, with one thread.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::wire::{self, Program, Report, Spec};
use super::{bash, environment, tree};
use crate::limits;

/// From the request to end to the kill.
const GRACE: Duration = Duration::from_millis(200);

/// `gantry __exec`: stdin is the socket to the harness. The exit code tells nobody anything.
pub fn helper_main() -> u8 {
    let socket = io::stdin();
    let socket = socket.as_fd();
    let Ok((message, fds)) = wire::receive(socket) else { return 1 };
    // No message: the harness ended without needing us.
    if message.is_empty() {
        return 0;
    }
    let report = serve(socket, &message, fds);
    tree::kill();
    let _ = wire::send(socket, &report, &[]);
    0
}

fn serve(socket: BorrowedFd<'_>, message: &[u8], fds: Vec<OwnedFd>) -> Report {
    let failed = |what: &str, why: &dyn std::fmt::Display| Report::Failed(format!("{what}: {why}"));
    let spec: Spec = match serde_json::from_slice(message) {
        Ok(spec) => spec,
        Err(error) => return failed("the order cannot be read", &error),
    };
    let Ok([workdir, output]) = <[OwnedFd; 2]>::try_from(fds) else { return failed("the order", &"it lacks its descriptors") };
    if let Err(error) = settle(&workdir) {
        return failed("the working directory", &error);
    }
    if let Program::Bash(line) = &spec.program
        && let Err(why) = check(line, &spec)
    {
        return Report::Refused(why);
    }
    let mut child = match start(spec, output) {
        Ok(child) => child,
        Err(error) => return failed("the command cannot be started", &error),
    };
    let _ = wire::send(socket, &Report::Started, &[]);
    match watch(socket, &mut child) {
        Ok(status) => told(status),
        Err(error) => failed("the command was lost", &error),
    }
}

/// Goes where the command is to run, into a session without a terminal, as the one who inherits its orphans.
fn settle(workdir: &OwnedFd) -> io::Result<()> {
    if rustix::fs::fstat(workdir)?.st_nlink == 0 {
        return Err(io::Error::other("it was deleted"));
    }
    rustix::process::fchdir(workdir)?;
    // Fails only for a group leader, which a spawned child is not.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(())
}

/// Parses and judges the line under limits of its own: a line that makes the parser eat memory or time kills this process, and
/// the harness takes that for a refusal.
fn check(line: &str, spec: &Spec) -> Result<(), String> {
    let resources = [(Resource::As, limits::CHECK_MEMORY_BYTES_MAX), (Resource::Cpu, limits::CHECK_CPU_SECONDS_MAX)];
    let before = resources.map(|(resource, soft)| {
        let before = getrlimit(resource);
        // Without the limit the check still judges; only a hostile line could then hurt this process.
        let _ = setrlimit(resource, Rlimit { current: Some(soft), ..before });
        (resource, before)
    });
    let judged = bash::check(line, &spec.allow, &spec.path);
    for (resource, limit) in before {
        setrlimit(resource, limit).map_err(|e| format!("a limit of the check cannot be lifted: {e}"))?;
    }
    judged
}

fn start(spec: Spec, output: OwnedFd) -> io::Result<Child> {
    let mut command = match spec.program {
        Program::Bash(line) => {
            let mut command = Command::new("/bin/bash");
            command.args(["--noprofile", "--norc", "-c", &line]);
            command
        }
        Program::Git(args) => {
            let mut command = Command::new("git");
            command.args(args.into_iter().map(OsString::from_vec));
            command
        }
    };
    command.env_clear().envs(environment::variables(&spec.path));
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
    command.spawn()
}

/// Waits for the command's end, or for the harness to ask for it; a harness that is gone asks for it, too.
fn watch(socket: BorrowedFd<'_>, child: &mut Child) -> io::Result<ExitStatus> {
    let pid = rustix::process::Pid::from_child(child);
    let ended = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    loop {
        let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::IN), PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN)];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            done => done?,
        };
        if !fds[1].revents().is_empty() {
            return child.wait();
        }
        if !fds[0].revents().is_empty() {
            // The request is taken: a socket that closes with something unread is reset, and our report lost.
            let _ = wire::receive(socket);
            tree::end(GRACE);
            return Ok(child.try_wait().ok().flatten().unwrap_or_else(|| ExitStatus::from_raw(libc::SIGKILL)));
        }
    }
}

fn told(status: ExitStatus) -> Report {
    match (status.code(), status.signal()) {
        (Some(code), _) => Report::Exited(code),
        (None, signal) => Report::Signalled(signal.unwrap_or(libc::SIGKILL)),
    }
}
