//! Fork and join in microseconds.
//!
//! One set of worker threads serves the process. A caller hands out `n` tasks and takes part itself;
//! workers spin for a short while after their last task, so that the next small kernel finds them awake,
//! and then sleep. A second caller that arrives while the workers are busy runs its tasks alone: it
//! already has a core of its own, and waiting would cost more than it saves. The same holds for a task
//! that calls [`parallel_for`] itself.
//!
//! The join waits only for workers that have entered the batch. A worker that the operating system has
//! put aside (because another program wants its core) is not waited for: the caller does its share and
//! closes the batch, and the worker finds it closed when it comes back.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::{Duration, Instant};

type Task = dyn Fn(usize) + Sync;

/// A borrowed task whose lifetime is erased while workers hold it.
#[derive(Clone, Copy)]
struct TaskRef(*const Task);
// SAFETY: the task is `Sync`, and `parallel_for` does not return before every worker has let go of it.
unsafe impl Send for TaskRef {}

/// Keeps what one side writes often off the cache line that the other side watches.
#[repr(align(128))]
struct Line<T>(T);

struct Shared {
    /// `epoch << 32 | OPEN | workers inside`. A worker may read `task` only between adding itself to
    /// the count of an open epoch and taking itself off again.
    state: Line<AtomicU64>,
    /// Next task index of the batch.
    next: Line<AtomicUsize>,
    /// Workers that the batch has use for; set before it opens.
    wanted: AtomicUsize,
    task: Mutex<Option<(TaskRef, usize)>>,
    panicked: AtomicBool,
    /// Workers asleep or about to be; changed under `gate`, read without it.
    sleepers: AtomicUsize,
    gate: Mutex<()>,
    wake: Condvar,
    busy: Mutex<()>,
    workers: usize,
}

const OPEN: u64 = 1 << 31;
const INSIDE: u64 = OPEN - 1;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<&'static Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let threads = std::env::var("OLIVINE_NUM_THREADS")
            .ok()
            .and_then(|v| v.parse::<usize>().ok())
            .filter(|&n| n > 0)
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
            .min(1024);
        // A machine that refuses a thread still computes, with the threads that it gave.
        let mut started = 0;
        let (ready, handles) = std::sync::mpsc::channel::<&'static Shared>();
        let handles = std::sync::Arc::new(Mutex::new(handles));
        for i in 0..threads - 1 {
            let handles = handles.clone();
            let spawned = std::thread::Builder::new().name(format!("olivine-cpu-{i}")).spawn(move || {
                let shared = lock(&handles).recv();
                if let Ok(shared) = shared {
                    work(shared);
                }
            });
            if spawned.is_err() {
                break;
            }
            started += 1;
        }
        let shared: &'static Shared = Box::leak(Box::new(Shared {
            state: Line(AtomicU64::new(0)),
            next: Line(AtomicUsize::new(0)),
            wanted: AtomicUsize::new(0),
            task: Mutex::new(None),
            panicked: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            gate: Mutex::new(()),
            wake: Condvar::new(),
            busy: Mutex::new(()),
            workers: started,
        }));
        for _ in 0..started {
            // A worker that is already gone is one that will not enter a batch.
            let _ = ready.send(shared);
        }
        shared
    })
}

thread_local! {
    static LIMIT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Number of threads that take part in a kernel that this thread starts: `OLIVINE_NUM_THREADS`, or the
/// cores of the machine; fewer inside [`with_limit`].
pub fn threads() -> usize {
    (shared().workers + 1).min(LIMIT.get())
}

/// Runs `f`; kernels that it starts from this thread use at most `threads` threads (at least one).
pub fn with_limit<R>(threads: usize, f: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            LIMIT.set(self.0);
        }
    }
    let _restore = Restore(LIMIT.replace(threads.max(1)));
    f()
}

/// A waiting thread burns cycles this long, which covers the gap between two kernels of one evaluation,
const SPIN: Duration = Duration::from_micros(20);
/// then offers its core to others between two looks, and after this long it sleeps.
const LINGER: Duration = Duration::from_micros(300);

/// Waits until `done` says so or `LINGER` is over; returns whether it is done.
fn linger(done: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..16 {
            if done() {
                return true;
            }
            std::hint::spin_loop();
        }
        let waited = start.elapsed();
        if waited > LINGER {
            return false;
        }
        if waited > SPIN {
            std::thread::yield_now();
        }
    }
}

fn work(s: &'static Shared) {
    let mut seen = 0;
    loop {
        let fresh = || s.state.0.load(Ordering::Acquire) >> 32 != seen;
        if !linger(fresh) {
            let mut gate = lock(&s.gate);
            s.sleepers.fetch_add(1, Ordering::SeqCst);
            while s.state.0.load(Ordering::SeqCst) >> 32 == seen {
                gate = s.wake.wait(gate).unwrap_or_else(|e| e.into_inner());
            }
            s.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
        let state = s.state.0.load(Ordering::Acquire);
        seen = state >> 32;
        if enter(s, seen) {
            let task = *lock(&s.task);
            if let Some((task, n)) = task {
                run(s, task, n);
            }
            s.state.0.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Adds this worker to the batch `epoch`, unless that is over or has workers enough.
fn enter(s: &Shared, epoch: u64) -> bool {
    let inside = |state: u64| {
        let open = state >> 32 == epoch && state & OPEN != 0;
        (open && (state & INSIDE) < s.wanted.load(Ordering::Relaxed) as u64).then_some(state + 1)
    };
    s.state.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, inside).is_ok()
}

fn run(s: &Shared, task: TaskRef, n: usize) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        loop {
            let i = s.next.0.fetch_add(1, Ordering::Relaxed);
            if i >= n {
                break;
            }
            // SAFETY: `parallel_for` keeps the task alive until no worker is inside the batch.
            unsafe { (*task.0)(i) }
        }
    }));
    if outcome.is_err() {
        s.panicked.store(true, Ordering::Relaxed);
    }
}

/// Calls `f(0)`, …, `f(n - 1)`, each once, spread over the pool, and returns when all have ended.
///
/// Tasks are handed out one at a time, so uneven ones balance. A panic in a task is raised again here;
/// the tasks that other threads had not begun still run.
pub fn parallel_for(n: usize, f: &(dyn Fn(usize) + Sync)) {
    if n <= 1 || LIMIT.get() == 1 {
        (0..n).for_each(f);
        return;
    }
    let s = shared();
    let guard = match s.busy.try_lock() {
        Ok(guard) if s.workers > 0 => guard,
        // The guard is poisoned when a task panicked; the state it protects was closed before that.
        Err(TryLockError::Poisoned(e)) if s.workers > 0 => e.into_inner(),
        _ => return (0..n).for_each(f),
    };
    // SAFETY: only the lifetime is erased; this function waits for the workers before it returns.
    let task = TaskRef(unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync), *const Task>(f) });
    *lock(&s.task) = Some((task, n));
    s.next.0.store(0, Ordering::Relaxed);
    let wanted = (n.min(LIMIT.get()) - 1).min(s.workers);
    s.wanted.store(wanted, Ordering::Relaxed);
    let epoch = (s.state.0.load(Ordering::Relaxed) >> 32).wrapping_add(1) & u64::from(u32::MAX);
    s.state.0.store(epoch << 32 | OPEN, Ordering::SeqCst);
    if s.sleepers.load(Ordering::SeqCst) > 0 {
        // Passing through the gate makes sure that a worker between its last look and its sleep is
        // either asleep, and hears the call, or has not looked yet.
        drop(lock(&s.gate));
        for _ in 0..wanted {
            s.wake.notify_one();
        }
    }
    run(s, task, n);
    s.state.0.fetch_and(!OPEN, Ordering::AcqRel);
    while !linger(|| s.state.0.load(Ordering::Acquire) & INSIDE == 0) {}
    let panicked = s.panicked.swap(false, Ordering::Relaxed);
    drop(guard);
    if panicked {
        panic!("a task of the CPU pool panicked");
    }
}

/// Splits `0..len` into ranges of at least `grain` elements, a few per thread, and calls `f` on each.
pub fn parallel_ranges(len: usize, grain: usize, f: &(dyn Fn(std::ops::Range<usize>) + Sync)) {
    let most = len.div_ceil(grain.max(1)).max(1);
    let parts = most.min(threads() * 4);
    if parts <= 1 {
        if len > 0 {
            f(0..len);
        }
        return;
    }
    let step = len.div_ceil(parts);
    parallel_for(parts, &|i| {
        let (a, b) = ((i * step).min(len), ((i + 1) * step).min(len));
        if a < b {
            f(a..b);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_runs_once() {
        for n in [0, 1, 2, 7, 1000] {
            let hits: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            parallel_for(n, &|i| {
                hits[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        let caught = std::panic::catch_unwind(|| parallel_for(8, &|i| assert!(i != 5)));
        assert!(caught.is_err());
        let sum = AtomicUsize::new(0);
        parallel_for(8, &|i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 28);
    }

    #[test]
    fn callers_on_many_threads_finish() {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let sum = AtomicUsize::new(0);
                        parallel_for(16, &|i| {
                            sum.fetch_add(i, Ordering::Relaxed);
                        });
                        assert_eq!(sum.into_inner(), 120);
                    }
                });
            }
        });
    }

    #[test]
    fn batches_after_a_sleep_finish() {
        for _ in 0..20 {
            std::thread::sleep(LINGER * 3);
            let sum = AtomicUsize::new(0);
            parallel_for(50, &|i| {
                sum.fetch_add(i, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 1225);
        }
    }

    #[test]
    fn a_task_may_start_tasks() {
        let sum = AtomicUsize::new(0);
        parallel_for(4, &|_| {
            parallel_for(4, &|j| {
                sum.fetch_add(j, Ordering::Relaxed);
            })
        });
        assert_eq!(sum.into_inner(), 24);
    }

    #[test]
    fn a_limit_of_one_stays_on_the_caller() {
        let caller = std::thread::current().id();
        with_limit(1, || {
            assert_eq!(threads(), 1);
            parallel_for(64, &|_| assert_eq!(std::thread::current().id(), caller));
        });
        assert!(threads() >= 1);
    }
}
