//! A caching allocator for every device, in stream order.
//!
//! Memory that a buffer gives up returns to a cache together with the point on its stream after which it
//! may be used again. The same stream may take it at once, since its work runs in order; anybody else when
//! that point has passed.

use crate::backend;
use crate::buffer::DevMem;
use crate::device::{Device, Stream};
use crate::event::Event;
use crate::{Error, Result};
use smallvec::SmallVec;
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

struct Cached {
    mem: DevMem,
    /// Everything that may still use it; the home stream's last use comes first.
    after: SmallVec<[Event; 2]>,
    /// Order of arrival; the oldest goes first when the cache must shrink.
    age: u64,
}

impl Cached {
    fn usable_by(&self, stream: Stream) -> bool {
        self.after.iter().all(|e| e.stream() == Some(stream) || e.is_done())
    }
    fn idle(&self) -> bool {
        self.after.iter().all(Event::is_done)
    }
}

struct Pool {
    classes: HashMap<usize, Vec<Cached>>,
    active: usize,
    peak: usize,
    cache: usize,
    limit: usize,
    cache_limit: usize,
    clock: u64,
}

impl Default for Pool {
    fn default() -> Self {
        Pool {
            classes: HashMap::new(),
            active: 0,
            peak: 0,
            cache: 0,
            limit: usize::MAX,
            cache_limit: usize::MAX,
            clock: 0,
        }
    }
}

struct Waiting {
    after: SmallVec<[Event; 2]>,
    /// Dropped once `after` is done.
    _what: Box<dyn Any + Send + Sync>,
}

#[derive(Default)]
struct Pools {
    pools: HashMap<Device, Pool>,
    waiting: Vec<Waiting>,
}

impl Pools {
    fn take_done(&mut self) -> Vec<Waiting> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        self.waiting.extract_if(.., |w| w.after.iter().all(Event::is_done)).collect()
    }
}

static POOLS: Mutex<Option<Pools>> = Mutex::new(None);

fn with<T>(f: impl FnOnce(&mut Pools) -> T) -> T {
    let mut guard: MutexGuard<'_, Option<Pools>> = POOLS.lock().unwrap_or_else(|e| e.into_inner());
    f(guard.get_or_insert_default())
}

/// Bytes that are set aside for a request: eight steps to each power of two, so at most an eighth is lost,
/// and requests of nearly the same size share memory.
fn class(bytes: usize) -> usize {
    let bytes = bytes.max(64);
    let step = (bytes.next_power_of_two() / 16).max(64);
    bytes.next_multiple_of(step)
}

/// Memory for work of `stream` to write.
pub(crate) fn alloc(op: &'static str, device: Device, bytes: usize, stream: Stream) -> Result<DevMem> {
    take(op, device, bytes, |c| c.usable_by(stream))
}

/// Memory for the host to write at once.
pub(crate) fn alloc_idle(op: &'static str, device: Device, bytes: usize, _home: Stream) -> Result<DevMem> {
    take(op, device, bytes, Cached::idle)
}

fn take(op: &'static str, device: Device, bytes: usize, usable: impl Fn(&Cached) -> bool) -> Result<DevMem> {
    let size = class(bytes);
    let found = with(|p| {
        let pool = p.pools.entry(device).or_default();
        // Before the cache is asked: memory from there counts like any other.
        let limit = pool.limit;
        if pool.active.saturating_add(size) > limit {
            return Err(Error::OutOfMemory { op, device, requested: bytes, active: pool.active, limit });
        }
        if let Some(list) = pool.classes.get_mut(&size)
            && let Some(at) = list.iter().rposition(&usable)
        {
            let c = list.remove(at);
            pool.cache -= size;
            pool.active += size;
            pool.peak = pool.peak.max(pool.active);
            return Ok(Some(c.mem));
        }
        let excess = (pool.active + pool.cache + size).saturating_sub(limit);
        if excess > 0 {
            shrink(pool, device, pool.cache.saturating_sub(excess));
        }
        // Counted before the lock is let go, so that threads together cannot pass the limit.
        pool.active += size;
        pool.peak = pool.peak.max(pool.active);
        Ok(None)
    })?;
    if let Some(mem) = found {
        return Ok(mem);
    }
    let fresh = backend::get(device).and_then(|b| {
        b.alloc(device, size).or_else(|e| {
            if !matches!(e, Error::OutOfMemory { .. }) {
                return Err(e);
            }
            // The device is full: once more without what the cache holds, and then without what it will
            // hold when the work that still uses it is done.
            clear_cache(device);
            b.alloc(device, size).or_else(|e| if drain(device) { b.alloc(device, size) } else { Err(e) })
        })
    });
    fresh.map_err(|e| {
        let active = with(|p| {
            let pool = p.pools.entry(device).or_default();
            pool.active -= size;
            pool.active
        });
        match e {
            Error::OutOfMemory { limit, .. } => {
                Error::OutOfMemory { op, device, requested: bytes, active, limit }
            }
            e => e,
        }
    })
}

/// Returns memory whose last use by its home stream is what that stream was sent so far, and by others the
/// given events.
pub(crate) fn free(device: Device, mem: DevMem, home: Stream, uses: SmallVec<[Event; 1]>) {
    let after = last_uses(home, uses);
    let released = with(|p| {
        let pool = p.pools.entry(device).or_default();
        pool.active -= mem.bytes;
        pool.cache += mem.bytes;
        pool.clock += 1;
        let age = pool.clock;
        pool.classes.entry(mem.bytes).or_default().push(Cached { mem, after, age });
        if pool.cache > pool.cache_limit {
            shrink(pool, device, pool.cache_limit);
        }
        p.take_done()
    });
    // Outside the lock: an owner's drop may itself free buffers.
    drop(released);
}

fn last_uses(home: Stream, uses: SmallVec<[Event; 1]>) -> SmallVec<[Event; 2]> {
    let mut after: SmallVec<[Event; 2]> = SmallVec::new();
    if let Ok(t) = backend::get(home.device).and_then(|b| b.timeline(home)) {
        let last = t.last();
        after.push(Event::at(t, last));
    }
    after.extend(uses);
    after.retain(|e| !e.is_done());
    after
}

/// Drops `what` when the work of its streams that was sent so far is done.
pub(crate) fn release_later(home: Stream, uses: SmallVec<[Event; 1]>, what: Box<dyn Any + Send + Sync>) {
    let after = last_uses(home, uses);
    let released = with(|p| {
        p.waiting.push(Waiting { after, _what: what });
        p.take_done()
    });
    drop(released);
}

/// Gives idle memory back to the device, oldest first, until the cache holds at most `target` bytes.
fn shrink(pool: &mut Pool, device: Device, target: usize) {
    let Ok(b) = backend::get(device) else { return };
    let mut idle: Vec<(u64, usize)> = pool
        .classes
        .iter()
        .flat_map(|(&size, l)| l.iter().filter(|c| c.idle()).map(move |c| (c.age, size)))
        .collect();
    idle.sort_unstable();
    for (age, size) in idle {
        if pool.cache <= target {
            break;
        }
        if let Some(list) = pool.classes.get_mut(&size)
            && let Some(at) = list.iter().position(|c| c.age == age)
        {
            let c = list.remove(at);
            pool.cache -= size;
            b.free(device, c.mem);
        }
    }
}

/// Waits for all work that uses cached memory and gives that memory back; `false` when there was none.
fn drain(device: Device) -> bool {
    let busy: Vec<Event> = with(|p| {
        let pool = p.pools.entry(device).or_default();
        pool.classes.values().flatten().flat_map(|c| c.after.iter().cloned()).collect()
    });
    for event in &busy {
        // Work that failed has ended, too; its error stays with its results.
        let flushed = event.stream().map(|s| backend::get(s.device).and_then(|b| b.flush(s)));
        if !matches!(flushed, Some(Err(_))) {
            let _ = event.wait();
        }
    }
    clear_cache(device);
    !busy.is_empty()
}

/// Counters of a device's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryStats {
    /// In use by arrays.
    pub active: usize,
    /// Most that was in use at once since the last [`reset_peak`].
    pub peak: usize,
    /// Kept for reuse.
    pub cache: usize,
    /// Most that arrays may use.
    pub limit: usize,
    /// Most that is kept for reuse.
    pub cache_limit: usize,
}

/// Counters of a device's memory.
pub fn stats(device: Device) -> MemoryStats {
    with(|p| {
        let pool = p.pools.entry(device).or_default();
        MemoryStats {
            active: pool.active,
            peak: pool.peak,
            cache: pool.cache,
            limit: pool.limit,
            cache_limit: pool.cache_limit,
        }
    })
}

/// Sets the peak to what is in use now.
pub fn reset_peak(device: Device) {
    with(|p| {
        let pool = p.pools.entry(device).or_default();
        pool.peak = pool.active;
    });
}

/// Sets the most that arrays may use; returns what it was. Beyond it operations give
/// [`Error::OutOfMemory`].
pub fn set_limit(device: Device, bytes: usize) -> usize {
    with(|p| std::mem::replace(&mut p.pools.entry(device).or_default().limit, bytes))
}

/// Sets the most that is kept for reuse; returns what it was.
pub fn set_cache_limit(device: Device, bytes: usize) -> usize {
    with(|p| {
        let pool = p.pools.entry(device).or_default();
        let old = std::mem::replace(&mut pool.cache_limit, bytes);
        if pool.cache > bytes {
            shrink(pool, device, bytes);
        }
        old
    })
}

/// Gives everything that is kept for reuse and idle back to the device.
pub fn clear_cache(device: Device) {
    with(|p| {
        let pool = p.pools.entry(device).or_default();
        shrink(pool, device, 0);
        pool.classes.retain(|_, l| !l.is_empty());
    });
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn classes_waste_little_and_cover() {
        for bytes in (0..100_000).chain([1 << 20, (1 << 20) + 1, 123_456_789]) {
            let c = class(bytes);
            assert!(c >= bytes && c.is_multiple_of(64) && class(c) == c);
            assert!(bytes < 1024 || c - bytes <= bytes / 8, "{bytes} -> {c}");
        }
    }
}
