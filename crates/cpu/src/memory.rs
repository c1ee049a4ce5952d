//! Memory of the host: aligned for vectors, zeroed, in huge pages where it is large.

use olivine_core::buffer::DevMem;
use olivine_core::{Device, Error, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Alignment of everything: a cache line, and the widest vector.
const ALIGN: usize = 64;
/// Size of a huge page; from here on memory is mapped rather than taken from the heap, so that zeros cost
/// nothing before they are touched.
const HUGE: usize = 2 << 20;

/// Bytes of memory that the machine has, or a guess of 8 GiB where it does not say.
pub(crate) fn physical() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    parse_meminfo(&text).unwrap_or(8 << 30)
}

fn parse_meminfo(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

fn exhausted(device: Device, bytes: usize) -> Error {
    Error::OutOfMemory { op: "alloc", device, requested: bytes, active: 0, limit: physical() }
}

/// Takes `bytes` of zeroed memory.
pub(crate) fn alloc(device: Device, bytes: usize) -> Result<DevMem> {
    if bytes >= HUGE
        && let Some(ptr) = map(bytes)
    {
        return Ok(DevMem { ptr, bytes });
    }
    let layout = Layout::from_size_align(bytes.max(1), ALIGN).map_err(|_| exhausted(device, bytes))?;
    if cfg!(unix) && bytes >= HUGE {
        // Freeing goes by size, so the heap must not serve what a failed mapping did not.
        return Err(exhausted(device, bytes));
    }
    // SAFETY: the size is not zero.
    let p = unsafe { alloc_zeroed(layout) };
    if p.is_null() { Err(exhausted(device, bytes)) } else { Ok(DevMem { ptr: p as u64, bytes }) }
}

/// Gives back what [`alloc`] gave.
pub(crate) fn free(mem: DevMem) {
    if cfg!(unix) && mem.bytes >= HUGE {
        unmap(mem);
        return;
    }
    if let Ok(layout) = Layout::from_size_align(mem.bytes.max(1), ALIGN) {
        // SAFETY: `alloc` gave this memory for the same layout, and nobody uses it any more.
        unsafe { dealloc(mem.ptr as *mut u8, layout) };
    }
}

/// Anonymous pages, aligned to huge ones and asking for them.
#[cfg(unix)]
fn map(bytes: usize) -> Option<u64> {
    let length = bytes.checked_next_multiple_of(4096)?;
    let padded = length.checked_add(HUGE)?;
    // SAFETY: a fresh anonymous mapping touches no memory that exists.
    let raw = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            padded,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if raw == libc::MAP_FAILED {
        return None;
    }
    let start = raw as usize;
    let aligned = start.next_multiple_of(HUGE);
    let (before, after) = (aligned - start, start + padded - (aligned + length));
    // SAFETY: both ends are whole pages of the mapping just made, outside the part that is kept.
    unsafe {
        if before > 0 {
            libc::munmap(raw, before);
        }
        if after > 0 {
            libc::munmap((aligned + length) as *mut _, after);
        }
        #[cfg(target_os = "linux")]
        libc::madvise(aligned as *mut _, length, libc::MADV_HUGEPAGE);
    }
    Some(aligned as u64)
}

#[cfg(unix)]
fn unmap(mem: DevMem) {
    // SAFETY: `map` made this mapping with the same length, and nobody uses it any more.
    unsafe { libc::munmap(mem.ptr as *mut _, mem.bytes.next_multiple_of(4096)) };
}

#[cfg(not(unix))]
fn map(_bytes: usize) -> Option<u64> {
    None
}

#[cfg(not(unix))]
fn unmap(_mem: DevMem) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_aligned_and_given_back() {
        for bytes in [64, 4096, HUGE - 64, HUGE, HUGE + 64, 5 * HUGE + 4160] {
            for _ in 0..3 {
                let m = alloc(Device::CPU, bytes).unwrap();
                assert_eq!(m.ptr as usize % ALIGN, 0);
                // SAFETY: fresh memory of `bytes` bytes that only this test knows.
                let s = unsafe { crate::raw::slice_mut::<u8>(m, bytes) };
                assert!(s.iter().all(|&b| b == 0));
                s.fill(7);
                free(m);
            }
        }
    }

    #[test]
    fn absurd_requests_are_errors() {
        for bytes in [1 << 50, usize::MAX / 2, usize::MAX] {
            assert!(matches!(alloc(Device::CPU, bytes), Err(Error::OutOfMemory { .. })));
        }
    }

    #[test]
    fn meminfo_is_read() {
        assert_eq!(parse_meminfo("MemTotal:       24689124 kB\nMemFree: 1 kB\n"), Some(24_689_124 * 1024));
        assert_eq!(parse_meminfo("nothing"), None);
    }
}
