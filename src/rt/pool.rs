//! Workers for what would block the core: files, walks, name resolution, heavy computing.
//!
//! They start with the first job and end after some idle time, so that a short run pays for none. A job that hangs keeps its
//! thread and nothing else: the process ends without waiting for it. The crate has a queue of its own for such jobs, but there a
//! wait that is given up races with the job.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::driver::Core;
use super::task::{Panicked, fence};

/// Workers of one core. Jobs are mostly short file work; more threads than this would only contend.
const THREADS_MAX: usize = 4;
/// How long a worker waits for the next job before it ends.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// Runs `job` on a worker and waits for its value without blocking the core.
///
/// If the wait is given up, a job that was not begun never is: nothing is written for a call that was cancelled. One that runs goes
/// on, and its value is dropped.
///
/// # Errors
/// What a panic in the job said.
pub async fn blocking<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Result<T, Panicked> {
    let wait = Wait(Arc::new(Mutex::new(Slot::Awaited(None))));
    let theirs = wait.0.clone();
    Core::current().pool.clone().submit(Box::new(move || {
        if matches!(*lock(&theirs), Slot::Awaited(_)) {
            put(&theirs, fence(job));
        }
    }));
    poll_fn(|cx| wait.poll(cx)).await
}

/// Where a job leaves its value.
enum Slot<T> {
    Awaited(Option<Waker>),
    Filled(Result<T, Panicked>),
    /// The value was taken, or nobody waits for it any more.
    Closed,
}

/// The side that waits. Nothing that is taken out of the slot, waker or value, is dropped while the slot is locked.
struct Wait<T>(Arc<Mutex<Slot<T>>>);

impl<T> Wait<T> {
    fn poll(&self, cx: &Context<'_>) -> Poll<Result<T, Panicked>> {
        let mut slot = lock(&self.0);
        let next = if matches!(*slot, Slot::Awaited(_)) { Slot::Awaited(Some(cx.waker().clone())) } else { Slot::Closed };
        let before = std::mem::replace(&mut *slot, next);
        drop(slot);
        match before {
            Slot::Awaited(_) => Poll::Pending,
            Slot::Filled(value) => Poll::Ready(value),
            Slot::Closed => unreachable!("not polled again after it gave its value"),
        }
    }
}

impl<T> Drop for Wait<T> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *lock(&self.0), Slot::Closed);
        drop(before);
    }
}

fn put<T>(slot: &Mutex<Slot<T>>, value: Result<T, Panicked>) {
    let mut slot = lock(slot);
    if !matches!(*slot, Slot::Awaited(_)) {
        drop(slot);
        return drop(value);
    }
    let before = std::mem::replace(&mut *slot, Slot::Filled(value));
    drop(slot);
    if let Slot::Awaited(Some(waker)) = before {
        waker.wake();
    }
}

/// The queue and its workers.
pub(super) struct Pool {
    queue: Mutex<Queue>,
    bell: Condvar,
    idle: Duration,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool { queue: Mutex::default(), bell: Condvar::new(), idle: IDLE }
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

    /// The core has ended: what was not begun is dropped, and idle workers go.
    pub(super) fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.closed = true;
        let dropped = std::mem::take(&mut queue.jobs);
        drop(queue);
        self.bell.notify_all();
        drop(dropped);
    }

    fn work(&self) {
        let mut queue = lock(&self.queue);
        while !queue.closed {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                // A job has a fence of its own; this one is for a value that panics when it is dropped here.
                let _ = fence(job);
                queue = lock(&self.queue);
                continue;
            }
            queue.idle += 1;
            let (woken, wait) = self.bell.wait_timeout(queue, self.idle).unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            queue.idle -= 1;
            if wait.timed_out() && queue.jobs.is_empty() {
                break;
            }
        }
        queue.threads -= 1;
    }
}

/// Values behind these locks are valid after each statement, so a poisoned lock is entered.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::rt::driver::tests::both;
    use crate::rt::{Clock, DriverChoice, block_on, sleep, spawn, timeout, yield_fair};

    const SOON: Duration = Duration::from_secs(10);

    fn threads() -> usize {
        lock(&Core::current().pool.queue).threads
    }

    /// Keeps every worker busy until the sender is dropped; tells how many jobs have begun.
    fn hold(jobs: usize) -> (Sender<()>, Arc<Mutex<usize>>) {
        let (open, gate): (_, Receiver<()>) = channel();
        let (gate, begun) = (Arc::new(Mutex::new(gate)), Arc::new(Mutex::new(0)));
        for _ in 0..jobs {
            let (gate, begun) = (gate.clone(), begun.clone());
            spawn(async move {
                let held = blocking(move || {
                    *lock(&begun) += 1;
                    lock(&gate).recv().is_err()
                });
                assert!(held.await.unwrap());
            });
        }
        (open, begun)
    }

    async fn until(mut ready: impl FnMut() -> bool) {
        timeout(SOON, async {
            while !ready() {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .unwrap();
    }

    #[test]
    fn no_thread_is_there_before_the_first_job() {
        both(async || {
            assert_eq!(threads(), 0);
            assert_eq!(blocking(|| 6 * 7).await, Ok(42));
            assert_eq!(threads(), 1);
        });
    }

    #[test]
    fn a_panic_gives_its_text_and_costs_no_worker() {
        both(async || {
            for _ in 0..2 * THREADS_MAX {
                assert_eq!(blocking(|| -> () { panic!("in a job") }).await, Err(Panicked("in a job".into())));
            }
            assert_eq!(timeout(SOON, blocking(|| 1)).await, Ok(Ok(1)), "the workers live on");
        });
    }

    #[test]
    fn many_jobs_share_few_threads_and_all_come_back() {
        both(async || {
            let done = std::rc::Rc::new(std::cell::Cell::new(0));
            for _ in 0..500 {
                let done = done.clone();
                spawn(async move {
                    blocking(|| ()).await.unwrap();
                    done.set(done.get() + 1);
                });
            }
            until(|| done.get() == 500).await;
            assert!(threads() <= THREADS_MAX);
        });
    }

    #[test]
    fn jobs_that_wait_for_each_other_run_side_by_side() {
        both(async || {
            let meeting = Arc::new(std::sync::Barrier::new(THREADS_MAX));
            let met = Arc::new(Mutex::new(0));
            for _ in 0..THREADS_MAX {
                let (meeting, met) = (meeting.clone(), met.clone());
                spawn(async move {
                    blocking(move || meeting.wait()).await.unwrap();
                    *lock(&met) += 1;
                });
            }
            until(|| *lock(&met) == THREADS_MAX).await;
        });
    }

    #[test]
    fn the_core_goes_on_while_a_job_blocks() {
        both(async || {
            let (open, gate) = channel::<()>();
            let waiting = std::pin::pin!(blocking(move || gate.recv().is_ok()));
            let crate::rt::Either::Right(rest) = crate::rt::select(waiting, async { blocking(|| 5).await }).await else {
                panic!("the gate is shut")
            };
            assert_eq!(rest, Ok(5));
            drop(open);
        });
    }

    #[test]
    fn a_job_that_nobody_waits_for_any_more_is_not_begun() {
        both(async || {
            let (open, begun) = hold(THREADS_MAX);
            until(|| *lock(&begun) == THREADS_MAX).await;
            let ran = Arc::new(Mutex::new(false));
            let theirs = ran.clone();
            let given_up = timeout(Duration::from_millis(2), blocking(move || *lock(&theirs) = true)).await;
            assert!(given_up.is_err(), "every worker is held");
            drop(open);
            assert_eq!(blocking(|| 1).await, Ok(1), "it stood behind the one given up");
            assert!(!*lock(&ran));
        });
    }

    #[test]
    fn jobs_that_hang_do_not_keep_the_core_from_its_end_and_the_queued_are_dropped() {
        for choice in [DriverChoice::Auto, DriverChoice::Epoll] {
            let (open, begun) = block_on(choice, |_| async {
                let (open, begun) = hold(THREADS_MAX + 1);
                until(|| *lock(&begun) == THREADS_MAX).await;
                (open, begun)
            })
            .unwrap();
            drop(open);
            // Every job holds on to the count; when all have let go, none can begin.
            let until = Clock::now() + SOON;
            while Arc::strong_count(&begun) > 1 && Clock::now() < until {
                std::thread::yield_now();
            }
            assert_eq!((Arc::strong_count(&begun), *lock(&begun)), (1, THREADS_MAX));
        }
    }

    #[test]
    fn a_value_is_dropped_when_its_wait_was_given_up() {
        both(async || {
            let value = Arc::new(());
            let theirs = value.clone();
            let (open, gate) = channel::<()>();
            let (begin, begun) = channel();
            let waiting = blocking(move || {
                begin.send(()).unwrap();
                let _ = gate.recv();
                theirs
            });
            let given_up = async {
                yield_fair().await;
                begun.recv_timeout(SOON).unwrap();
            };
            assert!(matches!(crate::rt::select(waiting, given_up).await, crate::rt::Either::Right(())));
            drop(open);
            until(|| Arc::strong_count(&value) == 1).await;
        });
    }

    #[test]
    fn idle_workers_end_and_a_later_job_starts_a_new_one() {
        let pool = Arc::new(Pool { idle: Duration::from_millis(5), ..Pool::default() });
        for round in 0..2 {
            let (tell, told) = channel();
            pool.clone().submit(Box::new(move || tell.send(round).unwrap()));
            assert_eq!(told.recv_timeout(SOON), Ok(round));
            let until = Clock::now() + SOON;
            while Arc::strong_count(&pool) > 1 && Clock::now() < until {
                std::thread::yield_now();
            }
            assert_eq!(lock(&pool.queue).threads, 0);
        }
    }
}
