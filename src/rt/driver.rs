//! Starts the core: chooses the driver, io_uring, or epoll where the ring cannot be made; and leaves no task behind.
//!
//! The crate's own fallback tests a ring of two entries, and then fails when the real one is refused (memory lock limit, no
//! descriptor left). So the real ring is tried here, and any failure means epoll.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use monoio::{Driver, IoUringDriver, LegacyDriver, Runtime, RuntimeBuilder};

use super::pool::Pool;
use super::task::TaskList;

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

/// What belongs to the core that runs on this thread.
pub(super) struct Core {
    pub(super) tasks: RefCell<TaskList>,
    pub(super) pool: Arc<Pool>,
}

thread_local! {
    // There while `block_on` runs on this thread.
    static CORE: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
}

impl Core {
    /// The core of this thread. A future of this module that is polled elsewhere has nothing to run on, and panics.
    pub(super) fn current() -> Rc<Core> {
        CORE.with(|core| core.borrow().clone()).expect("polled within block_on")
    }
}

/// Takes the core off its thread at the end, also after a panic.
struct Seat;

impl Seat {
    fn take() -> Seat {
        let core = Core { tasks: RefCell::default(), pool: Arc::default() };
        CORE.with(|place| *place.borrow_mut() = Some(Rc::new(core)));
        Seat
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(core) = CORE.with(|place| place.borrow_mut().take()) {
            core.pool.close();
        }
    }
}

/// Runs a future to its end on this thread, which becomes the core. `make` is told the driver's name: `io_uring` or `epoll`.
///
/// Every task is dropped on this thread before it returns; workers that are still busy are not waited for. A panic of the future
/// goes on to the caller after that.
///
/// # Errors
/// When no driver can be made, with the system's reason.
pub fn block_on<F: Future>(choice: DriverChoice, make: impl FnOnce(&'static str) -> F) -> io::Result<F::Output> {
    if choice != DriverChoice::Epoll {
        match RuntimeBuilder::<IoUringDriver>::new().with_entries(RING_ENTRIES).enable_timer().build() {
            Ok(runtime) => return Ok(run(runtime, || make("io_uring"))),
            Err(error) if choice == DriverChoice::Uring => return Err(error),
            Err(_) => {}
        }
    }
    let runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build()?;
    Ok(run(runtime, || make("epoll")))
}

fn run<D: Driver, F: Future>(mut runtime: Runtime<D>, make: impl FnOnce() -> F) -> F::Output {
    let _seat = Seat::take();
    // The future stays on this stack and the crate's task only borrows it: a waker that outlives the run, in a `Cancel` say, keeps
    // that task alive, but then nothing is left in it that another thread could drop.
    let mut future = pin!(Some(make()));
    let ended = runtime.block_on(poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let future = future.as_mut().as_pin_mut().expect("polled until it is ready and not again");
            future.poll(cx)
        }));
        let ended = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => Err(payload),
        };
        // Here and not after `block_on`: descriptors and timers take themselves off the driver when they are dropped.
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            future.set(None);
            drop_tasks();
        }));
        Poll::Ready(ended.and_then(|output| dropped.map(|()| output)))
    }));
    ended.unwrap_or_else(|payload| resume_unwind(payload))
}

/// One at a time and outside of the list's borrow: a task that is dropped may spawn another.
fn drop_tasks() {
    loop {
        let task = Core::current().tasks.borrow_mut().pop();
        if task.is_none() {
            return;
        }
    }
}

/// Whether the ring can be made here; the error is the system's reason. For diagnosis.
///
/// # Errors
/// The reason why io_uring cannot be used.
pub fn probe() -> io::Result<()> {
    RuntimeBuilder::<IoUringDriver>::new().with_entries(RING_ENTRIES).build().map(drop)
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;
    use crate::rt::{Cancel, Cause, sleep, spawn, yield_fair};

    /// Runs the same test on both drivers. Where the ring is forbidden, it is run on epoll alone.
    pub(in crate::rt) fn both(test: impl AsyncFn()) {
        for choice in [DriverChoice::Auto, DriverChoice::Epoll] {
            block_on(choice, |_| test()).unwrap();
        }
    }

    #[test]
    fn each_driver_runs_a_future_and_tells_its_name() {
        let epoll = block_on(DriverChoice::Epoll, |name| async move { name }).unwrap();
        assert_eq!(epoll, "epoll");
        let auto = block_on(DriverChoice::Auto, |name| async move { name }).unwrap();
        assert_eq!(auto, if probe().is_ok() { "io_uring" } else { "epoll" });
    }

    struct Mark(Rc<Cell<u32>>);

    impl Drop for Mark {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn the_end_of_the_core_drops_every_task_that_still_waits() {
        both(async || {});
        for choice in [DriverChoice::Auto, DriverChoice::Epoll] {
            let dropped = Rc::new(Cell::new(0));
            let (first, second) = (Mark(dropped.clone()), Mark(dropped.clone()));
            let meanwhile = block_on(choice, |_| async {
                spawn(async move { drop(first) });
                spawn(async move {
                    let _second = second;
                    sleep(Duration::from_secs(600)).await;
                });
                yield_fair().await;
                dropped.get()
            });
            assert_eq!((meanwhile.unwrap(), dropped.get()), (1, 2));
        }
    }

    #[test]
    fn a_panic_of_the_main_future_goes_on_after_the_tasks_are_dropped() {
        let dropped = Rc::new(Cell::new(0));
        let mark = Mark(dropped.clone());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            block_on(DriverChoice::Epoll, |_| async {
                spawn(async move {
                    let _mark = mark;
                    sleep(Duration::from_secs(600)).await;
                });
                yield_fair().await;
                panic!("the main future")
            })
        }));
        let payload = panicked.map(io::Result::<()>::unwrap).unwrap_err();
        assert_eq!((payload.downcast_ref::<&str>(), dropped.get()), (Some(&"the main future"), 1));
        assert!(block_on(DriverChoice::Epoll, |_| async {}).is_ok(), "the thread can be a core again");
    }

    #[test]
    fn a_waker_that_outlives_the_core_is_woken_without_harm() {
        let cancel = Cancel::new();
        both(async || {
            let waiting = cancel.cancelled();
            spawn(async move {
                waiting.await;
            });
            yield_fair().await;
        });
        cancel.cancel(Cause::Failed);
    }

    /// Makes io_uring_setup fail on this thread, as the profiles of containers do.
    fn forbid_the_ring(errno: i32) {
        const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        let mut filter = [
            libc::sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 },
            libc::sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: 1, k: libc::SYS_io_uring_setup as u32 },
            libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | errno as u32 },
            libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: both calls change this thread alone; the program and its filter outlive the call that reads them.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
        };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
    }

    #[test]
    fn where_the_ring_is_forbidden_epoll_is_taken_and_the_ring_alone_is_an_error() {
        for errno in [libc::EPERM, libc::ENOSYS] {
            let filtered = std::thread::spawn(move || {
                forbid_the_ring(errno);
                let name = block_on(DriverChoice::Auto, |name| async move {
                    sleep(Duration::from_millis(1)).await;
                    name
                });
                assert_eq!(name.unwrap(), "epoll");
                assert_eq!(block_on(DriverChoice::Uring, |_| async {}).unwrap_err().raw_os_error(), Some(errno));
                assert_eq!(probe().unwrap_err().raw_os_error(), Some(errno));
            });
            filtered.join().unwrap();
        }
    }
}
