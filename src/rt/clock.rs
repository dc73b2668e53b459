//! The only reader of the clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The machine's clocks.
pub struct Clock;

impl Clock {
    /// The monotonic clock: for durations and deadlines.
    pub fn now() -> Instant {
        Instant::now()
    }

    /// Milliseconds since the Unix epoch by the wall clock: for stamps only, since it may be set back.
    pub fn epoch_ms() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    }
}
