//! What the warden may do to a run: cancel it, write its pending lines, and end its stream when nobody else can.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use super::sink::Sink;
use crate::error::Stop;
use crate::rt::{Cancel, Cause, LastResort, Ward};

/// A run as the warden sees it.
pub struct RunWard {
    sink: Arc<Sink>,
    cancel: Cancel,
}

impl RunWard {
    /// Watches over the run that writes to `sink` and ends by `cancel`.
    pub fn new(sink: Arc<Sink>, cancel: Cancel) -> RunWard {
        RunWard { sink, cancel }
    }
}

impl Ward for RunWard {
    fn output(&self) -> BorrowedFd<'_> {
        self.sink.as_fd()
    }

    fn drain(&self) -> bool {
        let left = self.sink.drain_some();
        if self.sink.broken().is_some() {
            self.cancel.cancel(Cause::ReaderGone);
        }
        left
    }

    fn reader_gone(&self) {
        self.sink.mark_reader_gone();
        self.cancel.cancel(Cause::ReaderGone);
    }

    fn signalled(&self) {
        self.cancel.cancel(Cause::Signal);
    }

    fn deadline(&self) {
        self.cancel.cancel(Cause::Deadline);
    }

    fn last_resort(&self, why: LastResort, bound: Duration) -> u8 {
        let stop = match (why, self.cancel.cause()) {
            (LastResort::SecondSignal, _) | (_, Some(Cause::Signal)) => Stop::Signal,
            (_, Some(Cause::Deadline)) => Stop::Deadline,
            (_, Some(Cause::ReaderGone)) => Stop::StdoutClosed,
            (_, Some(Cause::Budget)) => Stop::Budget,
            (_, Some(Cause::Failed) | None) => Stop::Internal,
        };
        self.sink.last_resort(stop, bound).unwrap_or(stop).exit().code()
    }
}
