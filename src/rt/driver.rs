//! Chooses the driver: io_uring, or epoll where the ring cannot be made.
//!
//! The crate's own fallback tests a ring of two entries, and then fails when the real one is refused (memory lock limit, no
//! descriptor left). So the real ring is tried here, and any failure means epoll.

use std::future::Future;
use std::io;

use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};

/// Entries of the ring: the crate's smallest, which is plenty for connections, pipes and timers of one core.
const RING_ENTRIES: u32 = 256;

/// Which driver the core runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring, or epoll where it cannot be had.
    Auto,
    /// io_uring or an error.
    Uring,
    /// epoll.
    Epoll,
}

/// Runs a future to its end on this thread, which becomes the core. `make` is told the driver's name: `io_uring` or `epoll`.
///
/// # Errors
/// When no driver can be made, with the system's reason.
pub fn block_on<F: Future>(choice: DriverChoice, make: impl FnOnce(&'static str) -> F) -> io::Result<F::Output> {
    if choice != DriverChoice::Epoll {
        match RuntimeBuilder::<IoUringDriver>::new().with_entries(RING_ENTRIES).enable_timer().build() {
            Ok(mut runtime) => return Ok(runtime.block_on(make("io_uring"))),
            Err(error) if choice == DriverChoice::Uring => return Err(error),
            Err(_) => {}
        }
    }
    let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build()?;
    Ok(runtime.block_on(make("epoll")))
}

/// Whether the ring can be made here; the error is the system's reason. For diagnosis.
///
/// # Errors
/// The reason why io_uring cannot be used.
pub fn probe() -> io::Result<()> {
    RuntimeBuilder::<IoUringDriver>::new().with_entries(RING_ENTRIES).build().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_driver_runs_a_future_and_tells_its_name() {
        let epoll = block_on(DriverChoice::Epoll, |name| async move { name }).unwrap();
        assert_eq!(epoll, "epoll");
        let auto = block_on(DriverChoice::Auto, |name| async move { name }).unwrap();
        assert_eq!(auto, if probe().is_ok() { "io_uring" } else { "epoll" });
    }
}
