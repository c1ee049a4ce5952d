//! Working memory for packed panels, kept per thread between calls.
//!
//! Fresh pages cost more to fault in than a small product takes to compute.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;

/// A cache line, and the width of the widest vector.
const ALIGN: usize = 64;
/// Larger buffers go back to the system after use,
const KEEP_BYTES: usize = 32 << 20;
/// and a thread keeps no more than this many.
const KEEP: usize = 4;

/// Aligned plain memory, initialised (with zeros or with what an earlier use left there).
pub(super) struct Scratch {
    ptr: *mut u8,
    bytes: usize,
}

thread_local! {
    static FREE: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// A buffer at rest.
struct Buffer {
    ptr: *mut u8,
    bytes: usize,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `Scratch::new` with this size and alignment.
        unsafe { dealloc(self.ptr, Layout::from_size_align_unchecked(self.bytes, ALIGN)) }
    }
}

impl Scratch {
    /// Room for `len` values of `T`, which must be a plain number type.
    pub fn new<T>(len: usize) -> Self {
        let bytes = len.saturating_mul(size_of::<T>()).max(ALIGN).next_multiple_of(4096);
        let kept = FREE
            .try_with(|free| {
                let mut free = free.borrow_mut();
                let fit = free.iter().enumerate().filter(|(_, b)| b.bytes >= bytes);
                let best = fit.min_by_key(|(_, b)| b.bytes).map(|(i, _)| i);
                best.map(|i| std::mem::ManuallyDrop::new(free.swap_remove(i)))
            })
            .ok()
            .flatten();
        if let Some(buffer) = kept {
            return Scratch { ptr: buffer.ptr, bytes: buffer.bytes };
        }
        let Ok(layout) = Layout::from_size_align(bytes, ALIGN) else {
            panic!("a product needs {bytes} bytes of working memory")
        };
        // SAFETY: the size is not zero.
        let ptr = unsafe { alloc_zeroed(layout) };
        if ptr.is_null() {
            handle_alloc_error(layout);
        }
        Scratch { ptr, bytes }
    }

    /// The start, aligned to 64 bytes.
    pub fn ptr<T>(&self) -> *mut T {
        self.ptr.cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let buffer = Buffer { ptr: self.ptr, bytes: self.bytes };
        if self.bytes > KEEP_BYTES {
            return;
        }
        // A thread that is ending has no list any more; the buffer is then freed by its own drop.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() >= KEEP {
                let smallest = (0..free.len()).min_by_key(|&i| free[i].bytes);
                if let Some(i) = smallest.filter(|&i| free[i].bytes < buffer.bytes) {
                    free.swap_remove(i);
                }
            }
            if free.len() < KEEP {
                free.push(buffer);
            }
        });
    }
}

/// A pointer that tasks of one batch share; each touches its own part.
#[derive(Clone, Copy)]
pub(super) struct Shared<T>(*mut T);

// SAFETY: tasks that share the pointer write disjoint parts and read only finished ones.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub fn new(ptr: *mut T) -> Self {
        Shared(ptr)
    }

    pub fn get(&self) -> *mut T {
        self.0
    }
}
