//! From the addresses that core hands to kernels to slices.
//!
//! Core keeps the memory of a launch's arguments and results alive, and keeps everybody else from writing
//! them, until the work that was sent to the stream is done. All functions here rest on that promise, and on
//! layouts lying inside their buffers ([`olivine_core::Layout`] keeps that true).

use olivine_core::buffer::DevMem;

/// An address that tasks on several threads use, each at places of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ptr(*mut u8);

// SAFETY: tasks write disjoint places, and the memory outlives the launch that they belong to.
unsafe impl Send for Ptr {}
// SAFETY: as above.
unsafe impl Sync for Ptr {}

impl Ptr {
    /// Start of a piece of memory.
    pub(crate) fn of(mem: DevMem) -> Ptr {
        Ptr(mem.ptr as *mut u8)
    }

    /// From any pointer.
    pub(crate) fn new(p: *mut u8) -> Ptr {
        Ptr(p)
    }

    /// The pointer. A method, so that closures capture the whole wrapper.
    #[inline(always)]
    pub(crate) fn get(self) -> *mut u8 {
        self.0
    }

    /// The address `bytes` further on. Only dereferencing needs it to lie inside the memory.
    #[inline(always)]
    pub(crate) fn at(self, bytes: isize) -> Ptr {
        Ptr(self.0.wrapping_offset(bytes))
    }
}

/// The `len` elements from element `start` of an argument's memory on.
///
/// # Safety
/// They lie inside the memory, and any bits are a value of `T`; called while the launch that the memory belongs to runs.
pub(crate) unsafe fn slice<'a, T: Copy>(mem: DevMem, start: usize, len: usize) -> &'a [T] {
    debug_assert!((start + len) * size_of::<T>() <= mem.bytes, "{start} + {len} elements of {mem:?}");
    // SAFETY: the caller's promise; device memory is aligned for every element type.
    unsafe { std::slice::from_raw_parts((mem.ptr as *const T).add(start), len) }
}

/// The first `len` elements of a result's memory.
///
/// # Safety
/// They lie inside the memory, and any bits are a value of `T`; called while the launch that the memory belongs to runs; nothing else reads
/// or writes them meanwhile.
pub(crate) unsafe fn slice_mut<'a, T: Copy>(mem: DevMem, len: usize) -> &'a mut [T] {
    debug_assert!(len * size_of::<T>() <= mem.bytes, "{len} elements of {mem:?}");
    // SAFETY: the caller's promise; device memory is aligned for every element type and was written or
    // zeroed before, so it is initialised.
    unsafe { std::slice::from_raw_parts_mut(mem.ptr as *mut T, len) }
}
