//! Small pieces of asynchronous control: spawn, sleep, select, and the fence around a panic.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::driver::Core;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Where a task's future lies: the crate polls it there, and the end of the core takes it out.
type Place = Rc<RefCell<Option<Task>>>;

/// The tasks that have not ended. The crate keeps a task only by its wakers, and would drop one that still waits at the end of the
/// core whenever its last waker is dropped, on whichever thread that is.
#[derive(Default)]
pub(super) struct TaskList {
    next: u64,
    places: Vec<(u64, Place)>,
}

impl TaskList {
    fn insert(&mut self, place: Place) -> u64 {
        self.next += 1;
        self.places.push((self.next, place));
        self.next
    }

    fn remove(&mut self, key: u64) {
        self.places.retain(|(other, _)| *other != key);
    }

    /// One of them, for the caller to drop.
    pub(super) fn pop(&mut self) -> Option<Task> {
        self.places.pop().and_then(|(_, place)| place.take())
    }
}

/// Starts a task on this core and lets it run by itself, at the longest until the core ends. A panic in it would end every other
/// task, so it is fenced.
pub fn spawn(future: impl Future<Output = ()> + 'static) {
    let fenced = async move {
        // The panic hook has told what happened; whoever waits for the task sees it gone.
        let _ = catch_panic(future).await;
    };
    let place: Place = Rc::new(RefCell::new(Some(Box::pin(fenced))));
    let key = Core::current().tasks.borrow_mut().insert(place.clone());
    monoio::spawn(poll_fn(move |cx| poll_place(&place, key, cx)));
}

fn poll_place(place: &Place, key: u64, cx: &mut Context<'_>) -> Poll<()> {
    let mut task = place.borrow_mut();
    let Some(running) = task.as_mut() else { return Poll::Ready(()) };
    if running.as_mut().poll(cx).is_pending() {
        return Poll::Pending;
    }
    Core::current().tasks.borrow_mut().remove(key);
    *task = None;
    Poll::Ready(())
}

/// Sleeps on the core's timer wheel (1 ms steps); nothing at all if there is nothing to wait for. Does not fire while some task is
/// always ready, so no deadline rests on it.
pub async fn sleep(duration: Duration) {
    if !duration.is_zero() {
        monoio::time::sleep(duration).await;
    }
}

/// Gives way to everything else, timers, arrived input and wakes from other threads too; takes up to 1 ms. The crate looks at those
/// only when no task is ready, so work that never waits must do this now and then.
pub(super) async fn breathe() {
    // A timer of the crate that is due at once still waits for its next look at the timers.
    monoio::time::sleep(Duration::ZERO).await;
}

/// Blocks this thread; for threads that are not a core.
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Lets every other ready task run once. Waking oneself is no yield here: such a task goes to the front of the queue.
pub async fn yield_fair() {
    monoio::spawn(async {}).await;
}

/// The time ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// The future's value, or [`Elapsed`] after `duration`.
///
/// # Errors
/// When the time ran out; the future is dropped then.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    match select(future, sleep(duration)).await {
        Either::Left(value) => Ok(value),
        Either::Right(()) => Err(Elapsed),
    }
}

/// Which of two futures was ready first.
#[derive(Debug)]
pub enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

/// Waits for the first of two futures and drops the other. The left one wins when both are ready.
pub async fn select<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let mut a = pin!(a);
    let mut b = pin!(b);
    poll_fn(|cx| match a.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Either::Left(value)),
        Poll::Pending => b.as_mut().poll(cx).map(Either::Right),
    })
    .await
}

/// What a panic said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked(pub String);

impl Panicked {
    fn from_payload(payload: &(dyn Any + Send)) -> Panicked {
        let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| payload.downcast_ref::<String>().cloned());
        Panicked(text.unwrap_or_else(|| "a panic without a message".to_owned()))
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.0)
    }
}

/// Runs a future with a fence around each of its polls and around its end, so that a panic in it becomes a value.
///
/// # Errors
/// What the panic said. The future is not polled again.
pub async fn catch_panic<F: Future>(future: F) -> Result<F::Output, Panicked> {
    let mut future = pin!(Some(future));
    let ended = poll_fn(|cx| {
        let future = future.as_mut().as_pin_mut().expect("dropped below, after the last poll");
        match fence(|| future.poll(cx)) {
            Ok(poll) => poll.map(Ok),
            Err(panicked) => Poll::Ready(Err(panicked)),
        }
    })
    .await;
    match fence(|| future.set(None)) {
        Ok(()) => ended,
        Err(panicked) => ended.and(Err(panicked)),
    }
}

/// Turns a panic into a value. What the work touched is not to be trusted after one.
///
/// # Errors
/// What the panic said.
pub(super) fn fence<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked::from_payload(payload.as_ref()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use super::*;
    use crate::rt::Clock;
    use crate::rt::driver::tests::both;

    #[test]
    fn fair_yields_take_turns() {
        both(async || {
            let turns = Rc::new(Cell::new(0));
            let theirs = turns.clone();
            spawn(async move {
                loop {
                    theirs.set(theirs.get() + 1);
                    yield_fair().await;
                }
            });
            for _ in 0..100 {
                yield_fair().await;
            }
            assert!((99..=101).contains(&turns.get()), "{}", turns.get());
        });
    }

    #[test]
    fn a_breath_lets_timers_fire_amid_endless_work() {
        both(async || {
            let fired = Rc::new(Cell::new(false));
            let flag = fired.clone();
            spawn(async move {
                sleep(Duration::from_millis(3)).await;
                flag.set(true);
            });
            let until = Clock::now() + Duration::from_secs(10);
            while !fired.get() && Clock::now() < until {
                yield_fair().await;
                breathe().await;
            }
            assert!(fired.get());
        });
    }

    #[test]
    fn a_panicking_task_leaves_the_others_alone() {
        both(async || {
            spawn(async { panic!("one task's fault") });
            yield_fair().await;
            assert_eq!(catch_panic(async { panic!("told {}", 7) }).await, Err::<(), _>(Panicked("told 7".into())));
            assert_eq!(catch_panic(async { 7 }).await, Ok(7));
        });
    }

    /// Panics once it is dropped, which is not before its poll is over.
    struct Brittle;

    impl Future for Brittle {
        type Output = u8;

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u8> {
            Poll::Ready(7)
        }
    }

    impl Drop for Brittle {
        fn drop(&mut self) {
            panic!("at its end");
        }
    }

    #[test]
    fn a_panic_at_the_end_of_a_future_is_caught_too() {
        both(async || {
            assert_eq!(catch_panic(Brittle).await, Err(Panicked("at its end".into())));
            let ran = Rc::new(Cell::new(false));
            let flag = ran.clone();
            spawn(async {
                Brittle.await;
            });
            spawn(async move { flag.set(true) });
            yield_fair().await;
            assert!(ran.get());
        });
    }

    #[test]
    fn select_prefers_the_left_and_drops_the_loser() {
        both(async || {
            assert!(matches!(select(ready(1), ready(2)).await, Either::Left(1)));
            assert!(matches!(select(pending::<u8>(), ready(2)).await, Either::Right(2)));
            let shared = Rc::new(());
            let theirs = shared.clone();
            let loser = async move {
                pending::<()>().await;
                drop(theirs);
            };
            select(loser, sleep(Duration::from_millis(1))).await;
            assert_eq!(Rc::strong_count(&shared), 1);
        });
    }

    #[test]
    fn a_timeout_fires_and_a_ready_future_wins() {
        both(async || {
            let start = Clock::now();
            assert_eq!(timeout(Duration::from_millis(20), std::future::pending::<()>()).await, Err(Elapsed));
            assert!(start.elapsed() >= Duration::from_millis(20));
            assert_eq!(timeout(Duration::ZERO, async { 1 }).await, Ok(1));
            assert_eq!(timeout(Duration::MAX, yield_fair()).await, Ok(()));
            let at_once = timeout(Duration::from_secs(600), sleep(Duration::ZERO));
            assert!(matches!(select(at_once, ready(())).await, Either::Left(Ok(()))), "nothing to wait for is no wait");
        });
    }
}
