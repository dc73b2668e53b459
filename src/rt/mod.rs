//! The runtime: one core thread, and by its side a warden thread and a small pool of workers.
//!
//! Everything that names the runtime's crate lies here, so that it can be exchanged in one folder. The core runs io_uring, or
//! epoll where the ring cannot be made (as in most containers). What the crate lacks is here: a deadline that holds when the
//! core is busy ([`warden`]), pipes and process descriptors ([`AsyncFd`]), name resolution off the core ([`resolve`]), and
//! workers that start only when needed ([`blocking`]).

mod async_fd;
mod cancel;
mod clock;
mod driver;
mod net;
mod output;
mod pool;
mod signal;
mod task;
mod warden;

pub use async_fd::AsyncFd;
pub use cancel::{Cancel, Cause};
pub use clock::Clock;
pub use driver::{DriverChoice, block_on, probe};
pub use net::{ConnectError, Stream, connect, resolve};
pub use output::{wait_writable, write_nowait};
pub use pool::blocking;
pub use signal::Signals;
pub use task::{Either, Elapsed, Panicked, catch_panic, pause, select, sleep, spawn, timeout, yield_fair};
pub use warden::{LastResort, Ward, Warden};

/// hyper's traits over this runtime.
pub mod hyper {
    pub use monoio_compat::hyper::{MonoioExecutor as Executor, MonoioIo as Io, MonoioTimer as Timer};
}
