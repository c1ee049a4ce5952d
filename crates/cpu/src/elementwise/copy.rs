//! Row-major copies of any layout.

use super::convert::{self, STREAM};
use super::strided::{Strided, gather_bytes};
use crate::kernels::tile;
use crate::lanes::{Kernel, Lanes, dispatch};
use crate::pool;
use crate::raw::Ptr;
use smallvec::SmallVec;

/// Bytes that are worth a task of their own.
const GRAIN: usize = 1 << 17;
/// Extent of the square blocks that a transposition goes through: whole cache lines on both sides.
const BLOCK: usize = 64;

/// Copies all `n` elements of `size` bytes of a layout to `dst`, row-major.
///
/// # Safety
/// `src` is the address of the buffer that the layout, of `n > 0` elements, lies in; `dst` is valid for writing
/// `n` elements and does not overlap them. Both are aligned to `size`.
pub(super) unsafe fn copy(src: Ptr, layout: &Strided, size: usize, dst: Ptr, n: usize) {
    if let Some(t) = Transposed::of(layout) {
        // SAFETY: the caller's promise.
        unsafe {
            match size {
                1 => t.copy::<u8>(src, dst),
                2 => t.copy::<u16>(src, dst),
                4 => t.copy::<u32>(src, dst),
                _ => t.copy::<u64>(src, dst),
            }
        }
        return;
    }
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

/// A layout whose elements lie dense along an outer axis but not along the innermost one: a batch of matrices
/// stored by columns.
pub(super) struct Transposed {
    /// Axes beside the two: length, stride of the source, stride of the copy.
    batch: SmallVec<[(usize, isize, isize); 4]>,
    /// The axis along which the source is dense: length, stride of the copy.
    rows: (usize, isize),
    /// The innermost axis: length, stride of the source.
    cols: (usize, isize),
    offset: isize,
}

impl Transposed {
    /// Of a layout that is worth going through in blocks.
    pub(super) fn of(layout: &Strided) -> Option<Transposed> {
        let cols = layout.inner();
        if matches!(cols.1, 0 | 1) || cols.0 < 8 {
            return None;
        }
        let at = layout.outer().iter().position(|&(len, stride)| stride == 1 && len >= 8)?;
        let mut batch = SmallVec::new();
        let (mut rows, mut step) = ((0, 0), cols.0 as isize);
        for (i, &(len, stride)) in layout.outer().iter().enumerate().rev() {
            if i == at {
                rows = (len, step);
            } else {
                batch.push((len, stride, step));
            }
            step *= len as isize;
        }
        batch.reverse();
        Some(Transposed { batch, rows, cols, offset: layout.offset() })
    }

    /// # Safety
    /// As for [`copy`], with elements of type `T`.
    unsafe fn copy<T: Copy + Default>(&self, src: Ptr, dst: Ptr) {
        let size = size_of::<T>() as isize;
        let count: usize = self.batch.iter().map(|b| b.0).product();
        let strips = self.rows.0.div_ceil(BLOCK);
        let large = count * self.rows.0 * self.cols.0 * size as usize >= STREAM;
        let store = if large { convert::stream(size as usize) } else { convert::copy(size as usize) };
        // At least a few blocks a task.
        let bytes = BLOCK * self.cols.0 * size as usize;
        let grain = (GRAIN / bytes.max(1)).max(1);
        pool::parallel_ranges(count * strips, grain, &|range| {
            let mut block = [T::default(); BLOCK * BLOCK];
            for task in range {
                let (mut which, strip) = (task / strips, task % strips);
                let (mut from, mut to) = (self.offset, 0);
                for &(len, s, d) in self.batch.iter().rev() {
                    let i = (which % len) as isize;
                    which /= len;
                    from += i * s;
                    to += i * d;
                }
                let first = strip * BLOCK;
                let rows = BLOCK.min(self.rows.0 - first);
                let from = src.at((from + first as isize) * size).get().cast::<T>().cast_const();
                let to = dst.at((to + first as isize * self.rows.1) * size).get().cast::<T>();
                for start in (0..self.cols.0).step_by(BLOCK) {
                    let cols = BLOCK.min(self.cols.0 - start);
                    // Whole rows of the source first, then whole rows of the copy: neither side is touched by
                    // parts of a line, however unfortunate the strides are for the cache.
                    let source = Source {
                        first: from.wrapping_offset(start as isize * self.cols.1),
                        stride: self.cols.1,
                    };
                    // SAFETY: `cols` rows of the source from `start` on hold `rows` elements each from here on.
                    unsafe { source.turn(cols, rows, &mut block) };
                    // The rows of the next block lie far apart, where no prefetcher of the machine finds them.
                    for j in BLOCK..BLOCK + BLOCK.min(self.cols.0 - start - cols) {
                        source.prefetch(j, rows);
                    }
                    for i in 0..rows {
                        let line = to.wrapping_offset(i as isize * self.rows.1 + start as isize);
                        // SAFETY: row `first + i` of the copy holds `cols` elements from `start` on, which belong
                        // to this task.
                        unsafe { store(line.cast(), [block[i * BLOCK..].as_ptr().cast(); 3], cols) };
                    }
                }
            }
            convert::stream_end();
        });
    }
}

/// Rows of a transposition's source, `stride` elements apart.
struct Source<T> {
    first: *const T,
    stride: isize,
}

impl<T: Copy> Source<T> {
    /// Writes the transpose of the first `count` rows of `len` elements to a block.
    ///
    /// # Safety
    /// The rows are readable.
    #[inline(always)]
    unsafe fn turn(&self, count: usize, len: usize, block: &mut [T; BLOCK * BLOCK]) {
        if let (4, Ok(stride)) = (size_of::<T>(), usize::try_from(self.stride)) {
            // The bits of any type of four bytes pass through the vectors unchanged.
            let turn = Turn { src: self.first.cast(), stride, count, len, dst: block.as_mut_ptr().cast() };
            dispatch(turn);
            return;
        }
        for j in 0..count {
            // SAFETY: the caller's promise.
            let line =
                unsafe { std::slice::from_raw_parts(self.first.offset(j as isize * self.stride), len) };
            for (i, &v) in line.iter().enumerate() {
                block[i * BLOCK + j] = v;
            }
        }
    }

    /// Brings row `j` nearer.
    #[inline(always)]
    fn prefetch(&self, j: usize, len: usize) {
        #[cfg(target_arch = "x86_64")]
        for i in (0..len * size_of::<T>()).step_by(64) {
            let p = self.first.wrapping_offset(j as isize * self.stride).cast::<i8>().wrapping_add(i);
            // SAFETY: the instruction is in the baseline and does nothing that can be observed.
            unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (j, len);
    }
}

/// [`Source::turn`] in vectors of 32-bit elements.
struct Turn {
    src: *const f32,
    stride: usize,
    count: usize,
    len: usize,
    dst: *mut f32,
}

impl Kernel for Turn {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        // SAFETY: `Source::turn` passes readable rows and a block of `BLOCK` by `BLOCK` elements.
        unsafe { tile::transpose(s, self.count, self.len, self.src, self.stride, self.dst, BLOCK) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use olivine_core::{Layout, Shape};

    fn check<T: Copy + Default + PartialEq + std::fmt::Debug>(number: impl Fn(usize) -> T) {
        for dims in [[1, 9, 70], [3, 64, 64], [2, 130, 8], [1, 1, 200], [2, 65, 129]] {
            let layout = Layout::contiguous(Shape::new(&dims));
            let n = layout.elements();
            let data: Vec<T> = (0..n).map(&number).collect();
            for perm in [[0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1], [1, 0, 2]] {
                let turned = layout.transpose(&perm);
                let mut got = vec![T::default(); n];
                let (src, dst) = (Ptr::new(data.as_ptr() as *mut u8), Ptr::new(got.as_mut_ptr().cast()));
                // SAFETY: the layout covers `data`, and `got` is as long.
                unsafe { copy(src, &Strided::of(&turned), size_of::<T>(), dst, n) };
                let (s, t) = (turned.shape(), turned.strides());
                let mut want = Vec::with_capacity(n);
                for i in 0..s[0] {
                    for j in 0..s[1] {
                        for k in 0..s[2] {
                            want.push(
                                data[(i as isize * t[0] + j as isize * t[1] + k as isize * t[2]) as usize],
                            );
                        }
                    }
                }
                assert_eq!(got, want, "{dims:?} {perm:?}");
            }
        }
    }

    #[test]
    fn transpositions_of_any_extent() {
        check(|i| i as u8);
        check(|i| i as u16);
        check(|i| i as u32);
        check(|i| i as u64);
    }
}
