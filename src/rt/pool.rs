//! Workers for what would block the core: files, walks, name resolution, heavy computing.
//!
//! They start with the first job and end after some idle time, so that a short run pays for none. A job that hangs keeps its
//! thread and nothing else: the process ends without waiting for it.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::task::Panicked;

/// Workers of one core. Jobs are mostly short file work; more threads than this would only contend.
const THREADS_MAX: usize = 4;
/// How long a worker waits for the next job before it ends.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    // One pool per core thread: no lock is shared between cores.
    static POOL: Arc<Pool> = Arc::new(Pool::default());
}

#[derive(Default)]
struct Pool {
    queue: Mutex<Queue>,
    bell: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// Runs `job` on a worker and waits for its value without blocking the core. Dropping the future does not stop the job.
///
/// # Errors
/// What a panic in the job said.
pub async fn blocking<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Result<T, Panicked> {
    let slot = Arc::new(Mutex::new(Slot { value: None, waker: None }));
    let theirs = slot.clone();
    POOL.with(Arc::clone).submit(Box::new(move || {
        let value = catch_unwind(AssertUnwindSafe(job)).map_err(|payload| Panicked::from_payload(payload.as_ref()));
        let waker = {
            let mut slot = lock(&theirs);
            slot.value = Some(value);
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }));
    Waiting { slot }.await
}

struct Slot<T> {
    value: Option<Result<T, Panicked>>,
    waker: Option<Waker>,
}

struct Waiting<T> {
    slot: Arc<Mutex<Slot<T>>>,
}

impl<T> Future for Waiting<T> {
    type Output = Result<T, Panicked>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = lock(&self.slot);
        match slot.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Pool {
    fn submit(self: Arc<Self>, job: Job) {
        let mut queue = lock(&self.queue);
        queue.jobs.push_back(job);
        if queue.idle >= queue.jobs.len() || queue.threads >= THREADS_MAX {
            drop(queue);
            self.bell.notify_one();
            return;
        }
        queue.threads += 1;
        drop(queue);
        let pool = self.clone();
        if std::thread::Builder::new().name("gantry-worker".into()).spawn(move || pool.work()).is_err() {
            self.work_without_thread();
        }
    }

    /// The machine has no thread left: the job runs here, late but not lost.
    fn work_without_thread(&self) {
        let job = {
            let mut queue = lock(&self.queue);
            queue.threads -= 1;
            if queue.threads > 0 { None } else { queue.jobs.pop_front() }
        };
        if let Some(job) = job {
            job();
        }
    }

    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job();
                queue = lock(&self.queue);
                continue;
            }
            queue.idle += 1;
            let (woken, wait) = self.bell.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            queue.idle -= 1;
            if wait.timed_out() && queue.jobs.is_empty() {
                queue.threads -= 1;
                return;
            }
        }
    }
}

/// Values behind these locks are valid after each statement, so a poisoned lock is entered.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::{DriverChoice, block_on, spawn};

    #[test]
    fn a_job_gives_its_value_and_a_panic_its_text() {
        for choice in [DriverChoice::Auto, DriverChoice::Epoll] {
            block_on(choice, |_| async {
                assert_eq!(blocking(|| 6 * 7).await, Ok(42));
                assert_eq!(blocking(|| -> () { panic!("in a job") }).await, Err(Panicked("in a job".into())));
                assert_eq!(blocking(|| 1).await, Ok(1), "the worker lives on");
            })
            .unwrap();
        }
    }

    #[test]
    fn many_jobs_share_few_threads_and_all_come_back() {
        block_on(DriverChoice::Auto, |_| async {
            let done = std::rc::Rc::new(std::cell::Cell::new(0));
            for _ in 0..500 {
                let done = done.clone();
                spawn(async move {
                    blocking(|| ()).await.unwrap();
                    done.set(done.get() + 1);
                });
            }
            while done.get() < 500 {
                blocking(|| ()).await.unwrap();
            }
            assert!(POOL.with(|p| lock(&p.queue).threads) <= THREADS_MAX);
        })
        .unwrap();
    }

    #[test]
    fn the_core_goes_on_while_a_job_blocks() {
        block_on(DriverChoice::Auto, |_| async {
            let (open, gate) = std::sync::mpsc::channel::<()>();
            let waiting = std::pin::pin!(blocking(move || gate.recv().is_ok()));
            let crate::rt::Either::Right(rest) = crate::rt::select(waiting, async { blocking(|| 5).await }).await else {
                panic!("the gate is shut")
            };
            assert_eq!(rest, Ok(5));
            drop(open);
        })
        .unwrap();
    }
}
