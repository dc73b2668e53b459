//! Small pieces of asynchronous control: spawn, sleep, select, and the fence around a panic.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Starts a task on this core and lets it run by itself. A panic in it would end every other task, so it is fenced.
pub fn spawn(future: impl Future<Output = ()> + 'static) {
    monoio::spawn(async move {
        // The panic hook has told what happened; whoever waits for the task sees it gone.
        let _ = catch_panic(future).await;
    });
}

/// Sleeps on the core's timer wheel (1 ms steps). Does not fire while some task is always ready, so no deadline rests on it.
pub async fn sleep(duration: Duration) {
    monoio::time::sleep(duration).await;
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
    pub(super) fn from_payload(payload: &(dyn Any + Send)) -> Panicked {
        let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| payload.downcast_ref::<String>().cloned());
        Panicked(text.unwrap_or_else(|| "a panic without a message".to_owned()))
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.0)
    }
}

/// Runs a future with a fence around each of its polls, so that a panic in it becomes a value.
///
/// # Errors
/// What the panic said. The future is not polled again.
pub async fn catch_panic<F: Future>(future: F) -> Result<F::Output, Panicked> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(payload) => Poll::Ready(Err(Panicked::from_payload(payload.as_ref()))),
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::rt::{Clock, DriverChoice, block_on};

    fn both(test: impl AsyncFn()) {
        for choice in [DriverChoice::Auto, DriverChoice::Epoll] {
            block_on(choice, |_| test()).unwrap();
        }
    }

    #[test]
    fn a_fair_yield_lets_another_ready_task_run() {
        both(async || {
            let ran = Rc::new(Cell::new(false));
            let flag = ran.clone();
            spawn(async move { flag.set(true) });
            yield_fair().await;
            assert!(ran.get());
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

    #[test]
    fn a_timeout_fires_and_a_ready_future_wins() {
        both(async || {
            let start = Clock::now();
            assert_eq!(timeout(Duration::from_millis(20), std::future::pending::<()>()).await, Err(Elapsed));
            assert!(start.elapsed() >= Duration::from_millis(20));
            assert_eq!(timeout(Duration::ZERO, async { 1 }).await, Ok(1));
        });
    }
}
