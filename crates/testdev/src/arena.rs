//! Memory that notices misuse.

use olivine_core::Device;
use olivine_core::buffer::DevMem;
use std::alloc::{Layout, alloc, dealloc};
use std::collections::{BTreeMap, VecDeque};

/// Bytes before and after every block that nobody may touch.
const GUARD: usize = 128;
const GUARD_BYTE: u8 = 0xa5;
/// What fresh and freed memory is filled with.
const POISON: u8 = 0xcd;
/// Freed memory that is kept and watched for a while.
const QUARANTINE: usize = 16 << 20;

struct Block {
    device: Device,
    bytes: usize,
}

/// All blocks of all test devices.
#[derive(Default)]
pub(crate) struct Arena {
    live: BTreeMap<u64, Block>,
    freed: VecDeque<DevMem>,
    quarantined: usize,
    violations: Vec<String>,
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes + 2 * GUARD, 64).expect("core asks for sizes that exist")
}

/// The bytes of a block with its guards.
///
/// # Safety
/// The block was made by [`Arena::alloc`] and not deallocated, and nobody writes to it meanwhile.
unsafe fn whole<'a>(mem: DevMem) -> &'a mut [u8] {
    let start = (mem.ptr as usize - GUARD) as *mut u8;
    // SAFETY: the allocation begins a guard before the block and ends a guard after it.
    unsafe { std::slice::from_raw_parts_mut(start, mem.bytes + 2 * GUARD) }
}

impl Arena {
    pub(crate) fn alloc(&mut self, device: Device, bytes: usize) -> DevMem {
        // SAFETY: the guards make the size larger than zero.
        let start = unsafe { alloc(layout(bytes)) };
        assert!(!start.is_null(), "the host is out of memory");
        // SAFETY: fresh memory of exactly this size.
        unsafe {
            start.write_bytes(GUARD_BYTE, bytes + 2 * GUARD);
            start.add(GUARD).write_bytes(POISON, bytes);
        }
        let mem = DevMem { ptr: start as u64 + GUARD as u64, bytes };
        self.live.insert(mem.ptr, Block { device, bytes });
        mem
    }

    pub(crate) fn free(&mut self, device: Device, mem: DevMem) {
        match self.live.get(&mem.ptr) {
            Some(b) if b.device == device && b.bytes == mem.bytes => {}
            Some(b) => {
                let msg =
                    format!("{mem:?} of {device} was given back, but has {} bytes on {}", b.bytes, b.device);
                return self.violations.push(msg);
            }
            None => {
                return self
                    .violations
                    .push(format!("{mem:?} of {device} was given back twice or never taken"));
            }
        }
        self.live.remove(&mem.ptr);
        // SAFETY: the block was alive a moment ago; core promises that all work that uses it is done.
        let bytes = unsafe { whole(mem) };
        let (before, rest) = bytes.split_at_mut(GUARD);
        let (block, after) = rest.split_at_mut(mem.bytes);
        if before.iter().chain(&*after).any(|&b| b != GUARD_BYTE) {
            self.violations.push(format!("something wrote outside {mem:?} of {device}"));
        }
        block.fill(POISON);
        self.freed.push_back(mem);
        self.quarantined += mem.bytes;
        while self.quarantined > QUARANTINE {
            self.release_oldest();
        }
    }

    fn release_oldest(&mut self) {
        let Some(mem) = self.freed.pop_front() else { return };
        self.quarantined -= mem.bytes;
        // SAFETY: freed blocks stay allocated while they are in quarantine.
        let bytes = unsafe { whole(mem) };
        if bytes[GUARD..GUARD + mem.bytes].iter().any(|&b| b != POISON) {
            self.violations.push(format!("something wrote to {mem:?} after it was given back"));
        }
        // SAFETY: allocated with the same layout, and nobody knows of it any more.
        unsafe { dealloc(bytes.as_mut_ptr(), layout(mem.bytes)) };
    }

    /// Checks that `mem` is a live block of `device`, or the beginning of one.
    pub(crate) fn check(&mut self, what: &str, device: Device, mem: DevMem, bytes: usize) {
        let sound = self.live.get(&mem.ptr).is_some_and(|b| b.device == device && bytes <= b.bytes);
        if !sound {
            let on = self.live.get(&mem.ptr).map(|b| (b.device, b.bytes));
            self.violations.push(format!("{what} on {device} got {bytes} bytes of {mem:?}, which is {on:?}"));
        }
    }

    /// Checks that host memory is not a device's.
    pub(crate) fn check_host(&mut self, what: &str, mem: DevMem) {
        if let Some((start, b)) = self.live.range(..=mem.ptr).next_back()
            && mem.ptr < start + b.bytes as u64
        {
            self.violations.push(format!("{what} got {mem:?} as host memory, which belongs to {}", b.device));
        }
    }

    pub(crate) fn live(&self, device: Device) -> (usize, usize) {
        let blocks = self.live.values().filter(|b| b.device == device);
        blocks.fold((0, 0), |(n, bytes), b| (n + 1, bytes + b.bytes))
    }

    /// Everything that was found, after a look at all freed blocks.
    pub(crate) fn violations(&mut self) -> Vec<String> {
        while !self.freed.is_empty() {
            self.release_oldest();
        }
        std::mem::take(&mut self.violations)
    }
}
