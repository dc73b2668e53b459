//! The one way to end a run from outside, from any thread.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

/// Why a run is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The wall clock ran out.
    Deadline,
    /// SIGINT, SIGTERM, SIGHUP or SIGQUIT.
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
    node: Arc<Node>,
}

#[derive(Default)]
struct Node {
    cause: OnceLock<Cause>,
    waiting: Mutex<Vec<Arc<Slot>>>,
    parent: Option<Cancel>,
}

/// The waker of one wait. It is listed with the handle and with all its ancestors, since any of them may end the wait.
#[derive(Default)]
struct Slot {
    waker: Mutex<Option<Waker>>,
}

impl Slot {
    /// Gives the old waker back, to be dropped when no lock is held: it may be the last of its task, and the end of that task may
    /// come back here.
    fn swap(&self, waker: Option<Waker>) -> Option<Waker> {
        std::mem::replace(&mut *lock(&self.waker), waker)
    }
}

impl Cancel {
    /// A handle that is not cancelled.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// A handle that is cancelled with this one, and can be cancelled alone.
    pub fn child(&self) -> Cancel {
        Cancel { node: Arc::new(Node { parent: Some(self.clone()), ..Node::default() }) }
    }

    /// Cancels, and wakes everyone who waits. The first cause holds.
    pub fn cancel(&self, cause: Cause) {
        if self.cause().is_some() || self.node.cause.set(cause).is_err() {
            return;
        }
        let waiting = std::mem::take(&mut *lock(&self.node.waiting));
        for slot in waiting {
            if let Some(waker) = slot.swap(None) {
                waker.wake();
            }
        }
    }

    /// The cause, once cancelled. Takes no lock.
    pub fn cause(&self) -> Option<Cause> {
        self.lineage().find_map(|cancel| cancel.node.cause.get().copied())
    }

    /// Waits for the cancel. A wait that is given up leaves nothing behind.
    pub fn cancelled(&self) -> impl Future<Output = Cause> + use<> {
        let mut wait = Wait { cancel: self.clone(), slot: None };
        poll_fn(move |cx| wait.poll(cx))
    }

    /// The handle and its ancestors.
    fn lineage(&self) -> impl Iterator<Item = &Cancel> {
        std::iter::successors(Some(self), |cancel| cancel.node.parent.as_ref())
    }
}

struct Wait {
    cancel: Cancel,
    slot: Option<Arc<Slot>>,
}

impl Wait {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Cause> {
        if let Some(slot) = &self.slot {
            drop(slot.swap(Some(cx.waker().clone())));
        } else if self.cancel.cause().is_none() {
            let slot = Arc::new(Slot { waker: Mutex::new(Some(cx.waker().clone())) });
            self.cancel.lineage().for_each(|cancel| lock(&cancel.node.waiting).push(slot.clone()));
            self.slot = Some(slot);
        }
        // Looked at after the waker is in its place: a cancel either finds the waker or is seen here.
        self.cancel.cause().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        self.cancel.lineage().for_each(|cancel| lock(&cancel.node.waiting).retain(|other| !Arc::ptr_eq(other, &slot)));
    }
}

/// What is behind the locks is valid after each statement, so a poisoned lock is entered.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rt::driver::tests::both;
    use crate::rt::{DriverChoice, block_on, timeout};

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
    fn no_wake_is_lost_between_threads() {
        both(async || {
            for _ in 0..500 {
                let cancel = Cancel::new();
                let grandchild = cancel.child().child();
                let thread = std::thread::spawn(move || cancel.cancel(Cause::Failed));
                assert_eq!(timeout(Duration::from_secs(10), grandchild.cancelled()).await, Ok(Cause::Failed));
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn a_poisoned_lock_is_entered() {
        let cancel = Cancel::new();
        let theirs = cancel.clone();
        let panicked = std::thread::spawn(move || {
            let _waiting = theirs.node.waiting.lock().unwrap();
            panic!("poisons the lock");
        });
        assert!(panicked.join().is_err() && cancel.node.waiting.is_poisoned());
        cancel.cancel(Cause::Budget);
        assert_eq!(cancel.cause(), Some(Cause::Budget));
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
        let child = cancel.child();
        block_on(DriverChoice::Epoll, |_| crate::rt::select(async { crate::rt::yield_fair().await }, child.cancelled())).unwrap();
        assert!(lock(&cancel.node.waiting).is_empty() && lock(&child.node.waiting).is_empty());
    }
}
