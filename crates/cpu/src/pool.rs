//! Fork and join in microseconds.
//!
//! One set of worker threads serves the process. A caller hands out `n` tasks and takes part itself;
//! workers spin for a short while after their last task, so that the next small kernel finds them awake,
//! and then sleep. A second caller that arrives while the workers are busy runs its tasks alone: it
//! already has a core of its own, and waiting would cost more than it saves.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};

type Task = dyn Fn(usize) + Sync;

/// A borrowed task whose lifetime is erased while workers hold it.
#[derive(Clone, Copy)]
struct TaskRef(*const Task);
// SAFETY: the task is `Sync`, and `parallel_for` does not return before every worker has let go of it.
unsafe impl Send for TaskRef {}

struct Shared {
    /// Raised for every batch; workers watch it.
    epoch: AtomicU32,
    task: Mutex<Option<(TaskRef, usize)>>,
    next: AtomicUsize,
    /// Workers that have not yet finished with the current batch.
    pending: AtomicUsize,
    panicked: AtomicBool,
    sleepers: Mutex<usize>,
    wake: Condvar,
    busy: Mutex<()>,
    workers: usize,
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<&'static Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let threads = std::env::var("OLIVINE_NUM_THREADS")
            .ok()
            .and_then(|v| v.parse::<usize>().ok())
            .filter(|&n| n > 0)
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
        let shared: &'static Shared = Box::leak(Box::new(Shared {
            epoch: AtomicU32::new(0),
            task: Mutex::new(None),
            next: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            sleepers: Mutex::new(0),
            wake: Condvar::new(),
            busy: Mutex::new(()),
            workers: threads - 1,
        }));
        for i in 0..shared.workers {
            std::thread::Builder::new()
                .name(format!("olivine-cpu-{i}"))
                .spawn(move || work(shared))
                .expect("spawning a worker thread of the CPU pool");
        }
        shared
    })
}

/// Number of threads that take part in a kernel: `OLIVINE_NUM_THREADS`, or the cores of the machine.
pub fn threads() -> usize {
    shared().workers + 1
}

/// Spins before a worker sleeps: some tens of microseconds, longer than the gap between two kernels of
/// one evaluation.
const SPINS: u32 = 20_000;

fn work(s: &'static Shared) {
    let mut seen = 0;
    loop {
        let mut spins = 0;
        loop {
            let epoch = s.epoch.load(Ordering::Acquire);
            if epoch != seen {
                seen = epoch;
                break;
            }
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
                continue;
            }
            let mut sleepers = s.sleepers.lock().unwrap_or_else(|e| e.into_inner());
            *sleepers += 1;
            while s.epoch.load(Ordering::Acquire) == seen {
                sleepers = s.wake.wait(sleepers).unwrap_or_else(|e| e.into_inner());
            }
            *sleepers -= 1;
            spins = 0;
        }
        let task = *s.task.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((task, n)) = task {
            run(s, task, n);
        }
        s.pending.fetch_sub(1, Ordering::Release);
    }
}

fn run(s: &Shared, task: TaskRef, n: usize) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        loop {
            let i = s.next.fetch_add(1, Ordering::Relaxed);
            if i >= n {
                break;
            }
            // SAFETY: `parallel_for` keeps the task alive until `pending` is zero.
            unsafe { (*task.0)(i) }
        }
    }));
    if outcome.is_err() {
        s.panicked.store(true, Ordering::Relaxed);
    }
}

/// Calls `f(0)`, …, `f(n - 1)`, each once, spread over the pool, and returns when all have ended.
///
/// Tasks are handed out one at a time, so uneven ones balance. A panic in a task is raised again here.
pub fn parallel_for(n: usize, f: &(dyn Fn(usize) + Sync)) {
    let s = shared();
    let guard = if n > 1 && s.workers > 0 { s.busy.try_lock().ok() } else { None };
    let Some(_guard) = guard else {
        for i in 0..n {
            f(i);
        }
        return;
    };
    // SAFETY: only the lifetime is erased; this function waits for `pending == 0` before it returns.
    let task = TaskRef(unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync), *const Task>(f) });
    *s.task.lock().unwrap_or_else(|e| e.into_inner()) = Some((task, n));
    s.next.store(0, Ordering::Relaxed);
    s.pending.store(s.workers, Ordering::Relaxed);
    s.epoch.fetch_add(1, Ordering::Release);
    if *s.sleepers.lock().unwrap_or_else(|e| e.into_inner()) > 0 {
        s.wake.notify_all();
    }
    run(s, task, n);
    let mut spins = 0u32;
    while s.pending.load(Ordering::Acquire) != 0 {
        spins += 1;
        if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
    if s.panicked.swap(false, Ordering::Relaxed) {
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
}
