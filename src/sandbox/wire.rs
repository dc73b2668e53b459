//! What harness and helper say to each other over their socket: whole messages, with descriptors beside the first.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType,
};
use serde::{Deserialize, Serialize};

use crate::limits;

/// What the helper is to run. The descriptors beside it are the working directory and the pipe for output.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    pub(super) program: Program,
    /// Names that a line may call.
    pub(super) allow: Vec<String>,
    /// Where programs are found.
    pub(super) path: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Program {
    Bash(String),
    /// Arguments in bytes: paths need not be UTF-8.
    Git(Vec<Vec<u8>>),
}

/// What the helper tells.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// The check passed and the command runs.
    Started,
    /// The check refused the line.
    Refused(String),
    /// The machine refused.
    Failed(String),
    /// The command exited, and nothing that it had started is alive.
    Exited(i32),
    /// A signal killed it, and nothing that it had started is alive.
    Signalled(i32),
}

/// The message that asks the helper to kill the command.
pub(super) const KILL: &[u8] = b"k";
/// The largest message: a line whose every byte is escaped, the allowlist, the path.
const MESSAGE_BYTES_MAX: usize = limits::SHELL_COMMAND_BYTES_MAX * 6 + 64 * limits::KIB;

/// Both ends of a helper's socket. Neither is inherited unless it becomes somebody's stdin.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

pub(super) fn send(socket: BorrowedFd<'_>, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("more descriptors than a message has room for"));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message; no bytes mean that the other side is gone.
pub(super) fn receive(socket: BorrowedFd<'_>) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::net::recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    bytes.truncate(got.bytes);
    let fds =
        control.drain().filter_map(|m| if let RecvAncillaryMessage::ScmRights(fds) = m { Some(fds) } else { None }).flatten().collect();
    Ok((bytes, fds))
}
