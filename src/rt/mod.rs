//! The runtime: one core thread, and by its side a warden thread and a small pool of workers.
//!
//! Everything that names the runtime's crate lies here, so that it can be exchanged in one folder. The core runs io_uring, or
//! epoll where the ring cannot be made (as in most containers). What the crate lacks, or gets wrong, is made good here, and each
//! row has its test:
//!
//! | the crate | here |
//! |---|---|
//! | a task that wakes itself is run again before all others | [`yield_fair`] |
//! | timers, and wakes from other threads, wait until no task is ready | deadlines rest on the [`Warden`]; [`AsyncFd`] pauses after a burst |
//! | a panic in one task unwinds through all | [`spawn`] and [`catch_panic`] fence each poll |
//! | a task that waits at the end is dropped with its last waker, on any thread | [`block_on`] drops all tasks before it returns |
//! | a blocking job races with a wait that is given up, and its threads start at once | [`blocking`] |
//! | pipes and process descriptors cannot be awaited | [`AsyncFd`] |
//! | names are resolved on the core, and only their first address is tried | [`resolve`], [`connect`] |
//! | epoll is chosen by a probe that the real ring may not live up to | [`block_on`] |

mod async_fd;
mod cancel;
mod clock;
mod conceal;
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
pub use conceal::conceal;
pub use driver::{DriverChoice, block_on, probe};
pub use net::{ConnectError, Stream, connect, resolve};
pub use output::{wait_writable, write_nowait};
pub use pool::blocking;
pub use signal::Signals;
pub use task::{Either, Elapsed, Panicked, catch_panic, pause, select, sleep, spawn, timeout, yield_fair};
pub use warden::{LastResort, Ward, Warden};

/// hyper's traits over this runtime.
pub mod hyper {
    pub use monoio_compat::hyper::MonoioIo as Io;
}
