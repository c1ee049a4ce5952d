//! When to delay, to fail and to be out of memory.

use olivine_core::backend::Limits;
use olivine_core::{Device, Error, Result, Stream};
use std::time::Duration;

/// A number that looks random, the same for the same arguments.
pub(crate) fn mix(parts: &[u64]) -> u64 {
    let mut h = 0x9e37_79b9_7f4a_7c15u64;
    for &p in parts {
        h = (h ^ p).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        h ^= h >> 29;
        h = h.wrapping_mul(0x94d0_49bb_1331_11eb);
        h ^= h >> 32;
    }
    h
}

/// Which pieces of work fail.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Failing {
    Never,
    /// The piece of work of this number, counted over all streams.
    At(u64),
    /// The n-th piece of work of this operation.
    Op(String, u64),
    /// Each with this probability.
    Randomly {
        probability: f64,
        seed: u64,
    },
}

#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) max_delay: Duration,
    pub(crate) delay_seed: u64,
    pub(crate) failing: Failing,
    /// Requests for memory or copies from this number on are refused.
    pub(crate) full_from: u64,
    pub(crate) tasks: u64,
    pub(crate) requests: u64,
    pub(crate) injected: u64,
    pub(crate) fallbacks: bool,
    pub(crate) limits: Limits,
}

impl Default for Faults {
    fn default() -> Self {
        Faults {
            max_delay: Duration::ZERO,
            delay_seed: 0,
            failing: Failing::Never,
            full_from: u64::MAX,
            tasks: 0,
            requests: 0,
            injected: 0,
            fallbacks: false,
            limits: olivine_cpu::LIMITS,
        }
    }
}

impl Faults {
    /// What to do about a piece of work: how long to wait before it, and whether it fails.
    pub(crate) fn task(&mut self, op: &'static str, stream: Stream, seq: u64) -> (Duration, Result<()>) {
        let n = self.tasks;
        self.tasks += 1;
        let place = mix(&[u64::from(stream.id), u64::from(stream.device.index), seq]);
        let fails = match &mut self.failing {
            Failing::Never => false,
            Failing::At(at) => n == *at,
            Failing::Op(name, left) if op == name => {
                let now = *left == 0;
                *left = left.wrapping_sub(1);
                now
            }
            Failing::Op(..) => false,
            Failing::Randomly { probability, seed } => {
                (mix(&[place, *seed]) >> 11) as f64 / (1u64 << 53) as f64 <= *probability
            }
        };
        let delay = match self.max_delay.as_nanos() as u64 {
            0 => Duration::ZERO,
            max => {
                let r = mix(&[place, self.delay_seed, 1]);
                // A third of all work starts at once, so that queues run dry, too.
                if r.is_multiple_of(3) { Duration::ZERO } else { Duration::from_nanos((r >> 8) % max) }
            }
        };
        let outcome = if fails {
            self.injected += 1;
            Err(Error::Device { op, device: stream.device, msg: format!("injected failure of task {n}") })
        } else {
            Ok(())
        };
        (delay, outcome)
    }

    /// Whether a request for memory is granted.
    pub(crate) fn request(&mut self, op: &'static str, device: Device, bytes: usize) -> Result<()> {
        let n = self.requests;
        self.requests += 1;
        if n < self.full_from {
            return Ok(());
        }
        self.injected += 1;
        Err(Error::OutOfMemory { op, device, requested: bytes, active: 0, limit: 0 })
    }
}
