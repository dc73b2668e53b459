//! Runs a command with io_uring forbidden, as the default profiles of container engines do: `no_uring COMMAND ARG…`.
#![allow(clippy::print_stderr, reason = "a tool for people and scripts")]

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Refuses the three calls with EPERM and lets all others pass.
fn forbid() -> std::io::Result<()> {
    const NUMBER_AT: u32 = 0;
    let load = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: NUMBER_AT };
    let is = |call: libc::c_long, skip: u8| libc::sock_filter { code: 0x15, jt: skip, jf: 0, k: call as u32 };
    let give = |what: u32| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: what };
    let mut program = [
        load,
        is(libc::SYS_io_uring_setup, 3),
        is(libc::SYS_io_uring_enter, 2),
        is(libc::SYS_io_uring_register, 1),
        give(libc::SECCOMP_RET_ALLOW),
        give(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program outlives the call, its length is right, and every jump lands inside it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(command) = words.next() else {
        eprintln!("usage: no_uring COMMAND ARG…");
        return ExitCode::from(2);
    };
    let error = match forbid() {
        Ok(()) => Command::new(command).args(words).exec(),
        Err(error) => error,
    };
    eprintln!("no_uring: {error}");
    ExitCode::from(126)
}
