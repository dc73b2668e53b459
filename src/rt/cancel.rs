//! The one way to end a run from outside, from any thread.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

/// Why a run is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The wall clock ran out.
    Deadline,
    /// SIGINT or SIGTERM.
    Signal,
    /// Nobody reads stdout any more.
    ReaderGone,
    /// The token budget is met elsewhere in the run.
    Budget,
    /// Another part of the run has failed.
    Failed,
}

/// A handle to the end of a run. Clones are the same handle; a child ends with its parent, not the other way round.
#[derive(Clone, Default)]
pub struct Cancel {
    inner: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    cause: Option<Cause>,
    waiters: BTreeMap<u64, Waker>,
    next_waiter: u64,
    children: Vec<Weak<Mutex<State>>>,
}

impl Cancel {
    /// A handle that is not cancelled.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Cancels, and wakes everyone who waits. The first cause holds.
    pub fn cancel(&self, cause: Cause) {
        let (waiters, children) = {
            let mut state = lock(&self.inner);
            if state.cause.is_some() {
                return;
            }
            state.cause = Some(cause);
            (std::mem::take(&mut state.waiters), std::mem::take(&mut state.children))
        };
        waiters.into_values().for_each(Waker::wake);
        for child in children.iter().filter_map(Weak::upgrade) {
            Cancel { inner: child }.cancel(cause);
        }
    }

    /// The cause, once cancelled.
    pub fn cause(&self) -> Option<Cause> {
        lock(&self.inner).cause
    }

    /// Waits for the cancel.
    pub fn cancelled(&self) -> impl Future<Output = Cause> + use<> {
        Cancelled { inner: self.inner.clone(), id: None }
    }

    /// A handle that is cancelled with this one, and can be cancelled alone.
    pub fn child(&self) -> Cancel {
        let child = Cancel::new();
        let mut state = lock(&self.inner);
        match state.cause {
            Some(cause) => child.cancel(cause),
            None => {
                state.children.retain(|c| c.strong_count() > 0);
                state.children.push(Arc::downgrade(&child.inner));
            }
        }
        child
    }
}

struct Cancelled {
    inner: Arc<Mutex<State>>,
    id: Option<u64>,
}

impl Future for Cancelled {
    type Output = Cause;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Cause> {
        let inner = self.inner.clone();
        let mut state = lock(&inner);
        if let Some(cause) = state.cause {
            return Poll::Ready(cause);
        }
        let id = *self.id.get_or_insert_with(|| {
            state.next_waiter += 1;
            state.next_waiter
        });
        state.waiters.insert(id, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            lock(&self.inner).waiters.remove(&id);
        }
    }
}

/// The state is valid after each statement, so a poisoned lock is entered.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::{DriverChoice, block_on};

    #[test]
    fn a_cancel_from_another_thread_wakes_the_core() {
        for choice in [DriverChoice::Auto, DriverChoice::Epoll] {
            let cancel = Cancel::new();
            let theirs = cancel.clone();
            let thread = std::thread::spawn(move || theirs.cancel(Cause::Signal));
            let cause = block_on(choice, |_| cancel.cancelled()).unwrap();
            thread.join().unwrap();
            assert_eq!(cause, Cause::Signal);
        }
    }

    #[test]
    fn the_first_cause_holds() {
        let cancel = Cancel::new();
        cancel.cancel(Cause::Deadline);
        cancel.cancel(Cause::Signal);
        assert_eq!(cancel.cause(), Some(Cause::Deadline));
    }

    #[test]
    fn a_child_ends_with_its_parent_and_not_the_other_way_round() {
        let parent = Cancel::new();
        let (a, b) = (parent.child(), parent.child());
        a.cancel(Cause::Budget);
        assert_eq!((parent.cause(), b.cause()), (None, None));
        parent.cancel(Cause::Signal);
        assert_eq!((a.cause(), b.cause(), parent.child().cause()), (Some(Cause::Budget), Some(Cause::Signal), Some(Cause::Signal)));
    }

    #[test]
    fn a_dropped_wait_leaves_no_waker_behind() {
        let cancel = Cancel::new();
        block_on(DriverChoice::Epoll, |_| crate::rt::select(async { crate::rt::yield_fair().await }, cancel.cancelled())).unwrap();
        assert!(lock(&cancel.inner).waiters.is_empty());
    }
}
