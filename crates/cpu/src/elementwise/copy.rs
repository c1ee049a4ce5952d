//! Row-major copies of any layout.

use super::strided::{Strided, gather_bytes};
use crate::pool;
use crate::raw::Ptr;

/// Bytes that are worth a task of their own.
const GRAIN: usize = 1 << 17;

/// Copies all `n` elements of `size` bytes of a layout to `dst`, row-major.
///
/// # Safety
/// `src` is the address of the buffer that the layout, of `n > 0` elements, lies in; `dst` is valid for writing
/// `n` elements and does not overlap them. Both are aligned to `size`.
pub(super) unsafe fn copy(src: Ptr, layout: &Strided, size: usize, dst: Ptr, n: usize) {
    // Whole cache lines, so that no two tasks write to one.
    let lines = (n * size).div_ceil(64);
    let per = 64 / size;
    pool::parallel_ranges(lines, GRAIN / 64, &|range| {
        let elements = range.start * per..(range.end * per).min(n);
        let out = dst.at((elements.start * size) as isize);
        // SAFETY: the caller's promise; ranges are disjoint.
        unsafe { gather_bytes(src.get(), size, layout, elements, out.get()) };
    });
}
