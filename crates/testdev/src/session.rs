//! A test's turn with the devices.

use crate::device::{DEVICES, device, register, shared};
use crate::faults::{Failing, Faults};
use olivine_core::alloc::{clear_cache, set_cache_limit, stats};
use olivine_core::backend::Limits;
use olivine_core::{Device, Stream};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Exclusive use of the test devices, without delays and faults at first. When it ends, everything that was
/// found to be wrong makes the test fail.
pub struct Session {
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Session {
    /// Waits for its turn.
    pub fn new() -> Session {
        register();
        let turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
        shared(|s| s.faults = Faults::default());
        Session { _turn: turn }
    }

    /// Every piece of work starts up to `max` late; a third of it at once.
    pub fn delay(&self, max: Duration, seed: u64) {
        shared(|s| (s.faults.max_delay, s.faults.delay_seed) = (max, seed));
    }

    /// Fused operations are done by their composites.
    pub fn fallbacks(&self, on: bool) {
        shared(|s| s.faults.fallbacks = on);
    }

    /// What fusion must respect.
    pub fn limits(&self, limits: Limits) {
        shared(|s| s.faults.limits = limits);
    }

    /// The piece of work that is `n`-th from now on fails, whatever stream it is on.
    pub fn fail_task(&self, n: u64) {
        shared(|s| s.faults.failing = Failing::At(s.faults.tasks + n));
    }

    /// The `n`-th piece of work of an operation (or of `upload` and `download`) from now on fails.
    pub fn fail_op(&self, op: &str, n: u64) {
        shared(|s| s.faults.failing = Failing::Op(op.to_owned(), n));
    }

    /// Pieces of work fail with a probability.
    pub fn fail_randomly(&self, probability: f64, seed: u64) {
        shared(|s| s.faults.failing = Failing::Randomly { probability, seed });
    }

    /// Requests for memory and for copies are refused from the `n`-th on.
    pub fn full_from(&self, n: u64) {
        shared(|s| s.faults.full_from = s.faults.requests + n);
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        shared(|s| (s.faults.failing, s.faults.full_from) = (Failing::Never, u64::MAX));
    }

    /// Failures injected so far.
    pub fn injected(&self) -> u64 {
        shared(|s| s.faults.injected)
    }

    /// Pieces of work begun so far.
    pub fn tasks(&self) -> u64 {
        shared(|s| s.faults.tasks)
    }

    /// Requests for memory and for copies made so far.
    pub fn requests(&self) -> u64 {
        shared(|s| s.faults.requests)
    }

    /// Whether core keeps freed memory for reuse; otherwise it gives back what is idle at once, so that
    /// each allocation is a request to the device and freed memory is watched.
    pub fn caching(&self, on: bool) {
        for d in all() {
            set_cache_limit(d, if on { usize::MAX } else { 0 });
        }
    }

    /// Bytes that arrays use on the CPU and each test device.
    pub fn active(&self) -> Vec<usize> {
        all().map(|d| stats(d).active).collect()
    }

    /// Waits for the work of `streams`, whatever its outcome, and takes their errors.
    pub fn settle(&self, streams: &[Stream]) {
        for _ in 0..2 {
            for s in streams {
                let _ = s.synchronize();
            }
        }
    }

    /// Fails when something wrong was seen, or when core holds device memory that its counters do not show.
    pub fn check(&self) {
        for d in all() {
            clear_cache(d);
        }
        for d in all().skip(1) {
            let (counted, (blocks, bytes)) = (stats(d), shared(|s| s.arena.live(d)));
            assert_eq!(
                counted.active + counted.cache,
                bytes,
                "{d}: {blocks} blocks are alive, the counters say {counted:?}"
            );
        }
        let found = shared(|s| s.arena.violations());
        assert!(
            found.is_empty(),
            "{} things went wrong, first {:#?}",
            found.len(),
            &found[..found.len().min(5)]
        );
    }
}

fn all() -> impl Iterator<Item = Device> {
    std::iter::once(Device::CPU).chain((0..DEVICES).map(device))
}

impl Default for Session {
    fn default() -> Self {
        Session::new()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        shared(|s| s.faults = Faults::default());
        self.caching(true);
        if !std::thread::panicking() {
            self.check();
        }
    }
}
