//! Reading index arrays: negative indices count from the end, those out of range are errors.

use super::{FirstError, GRAIN, check_integer};
use crate::kernels::Shared;
use crate::kernels::operand::Operand;
use crate::kernels::strided::{Walk, collapse_shape, count, split_inner};
use crate::pool::parallel_ranges;
use olivine_core::{Dtype, Element, Error, Result, Shape};
use std::cell::Cell;

/// Places that indices give, in a buffer that the thread keeps: memory fresh from the system costs more than a pass
/// over it.
pub(super) struct Places {
    buffer: Vec<isize>,
    len: usize,
}

thread_local! {
    static SPARE: Cell<Vec<isize>> = const { Cell::new(Vec::new()) };
}

/// Above this many places a thread does not keep its buffer.
const KEPT: usize = 1 << 21;

impl Places {
    /// Room for `len` places, with whatever is left in it from before.
    fn take(len: usize) -> Places {
        let mut buffer = SPARE.take();
        if buffer.len() < len {
            buffer = vec![0; len];
        }
        Places { buffer, len }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        if self.buffer.len() <= KEPT {
            SPARE.set(std::mem::take(&mut self.buffer));
        }
    }
}

impl std::ops::Deref for Places {
    type Target = [isize];
    fn deref(&self) -> &[isize] {
        &self.buffer[..self.len]
    }
}

impl std::ops::DerefMut for Places {
    fn deref_mut(&mut self) -> &mut [isize] {
        &mut self.buffer[..self.len]
    }
}

/// The indices of `i` in row-major order, each within an axis of `size` elements.
pub(super) fn read_indices(op: &'static str, i: &Operand<'_>, axis: usize, size: usize) -> Result<Places> {
    let mut at = Places::take(i.layout.elements());
    resolve(op, i, axis, size, 1, &mut at, |place, index| *place = index as isize)?;
    Ok(at)
}

/// Indices that are looked at together.
const CHUNK: usize = 1 << 10;

/// Calls `use_indices` with a position and the indices from there on, each within an axis of `size` elements, 0 in
/// place of those that are out of range; together all indices of `i`.
pub(super) fn each_index(
    op: &'static str,
    i: &Operand<'_>,
    axis: usize,
    size: usize,
    use_indices: impl Fn(usize, &[isize]) + Sync,
) -> Result<()> {
    let n = i.layout.elements();
    if size == 0 {
        // No index is in range, so that nothing may be looked at.
        return read_indices(op, i, axis, size).map(drop);
    }
    let job = Job { op, axis, size, window: 1 };
    check_integer(op, i.dtype)?;
    match i.dtype {
        Dtype::U8 => job.chunks::<u8>(i, n, use_indices),
        Dtype::U16 => job.chunks::<u16>(i, n, use_indices),
        Dtype::U32 => job.chunks::<u32>(i, n, use_indices),
        Dtype::U64 => job.chunks::<u64>(i, n, use_indices),
        Dtype::I8 => job.chunks::<i8>(i, n, use_indices),
        Dtype::I16 => job.chunks::<i16>(i, n, use_indices),
        Dtype::I32 => job.chunks::<i32>(i, n, use_indices),
        Dtype::I64 => job.chunks::<i64>(i, n, use_indices),
        Dtype::Bool | Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 | Dtype::C64 => {
            Err(Error::bad_dtype(op, "integer indices", i.dtype))
        }
    }
}

/// Offset of the window that each position of the index arrays gives, where axes have `strides`.
pub(super) fn window_starts(
    op: &'static str,
    shape: &Shape,
    strides: &[isize],
    axes: &[u8],
    sizes: &Shape,
    indices: &[Operand<'_>],
) -> Result<Places> {
    let rising = axes.windows(2).all(|w| w[0] < w[1]) && axes.iter().all(|&a| (a as usize) < shape.rank());
    if !rising || axes.len() != indices.len() {
        let msg = format!("{} index arrays for axes {axes:?} of shape {shape}", indices.len());
        return Err(Error::shape(op, msg));
    }
    if sizes.rank() != shape.rank() || sizes.iter().zip(shape.iter()).any(|(&s, &n)| s > n) {
        return Err(Error::shape(op, format!("a window of {sizes} does not lie within shape {shape}")));
    }
    let at = indices.first().map_or_else(Shape::scalar, |i| i.layout.shape().clone());
    let mut starts = Places::take(at.elements());
    starts.fill(0);
    for (i, &axis) in indices.iter().zip(axes) {
        if *i.layout.shape() != at {
            return Err(Error::shape(op, format!("index shapes {at} and {} differ", i.layout.shape())));
        }
        let axis = axis as usize;
        let stride = strides[axis];
        resolve(op, i, axis, shape[axis], sizes[axis], &mut starts, |start, index| {
            *start += index as isize * stride;
        })?;
    }
    Ok(starts)
}

/// Calls `use_index` with each place of `out` and the index that belongs there, such that a window of `window`
/// elements from it lies within an axis of `size`.
fn resolve<P: Copy + Send + Sync>(
    op: &'static str,
    i: &Operand<'_>,
    axis: usize,
    size: usize,
    window: usize,
    out: &mut [P],
    use_index: impl Fn(&mut P, usize) + Sync,
) -> Result<()> {
    check_integer(op, i.dtype)?;
    let job = Job { op, axis, size, window };
    match i.dtype {
        Dtype::U8 => job.run::<u8, P>(i, out, use_index),
        Dtype::U16 => job.run::<u16, P>(i, out, use_index),
        Dtype::U32 => job.run::<u32, P>(i, out, use_index),
        Dtype::U64 => job.run::<u64, P>(i, out, use_index),
        Dtype::I8 => job.run::<i8, P>(i, out, use_index),
        Dtype::I16 => job.run::<i16, P>(i, out, use_index),
        Dtype::I32 => job.run::<i32, P>(i, out, use_index),
        Dtype::I64 => job.run::<i64, P>(i, out, use_index),
        Dtype::Bool | Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 | Dtype::C64 => {
            Err(Error::bad_dtype(op, "integer indices", i.dtype))
        }
    }
}

/// What indices are checked against.
#[derive(Clone, Copy)]
struct Job {
    op: &'static str,
    axis: usize,
    size: usize,
    window: usize,
}

/// Integers as positions; those beyond `i64` are beyond every axis, too.
trait Position: Element {
    fn position(self) -> i64;
}
macro_rules! positions {
    ($($t:ty),*) => { $( impl Position for $t {
        #[inline(always)]
        fn position(self) -> i64 { self as i64 }
    } )* };
}
positions!(u8, u16, u32, i8, i16, i32, i64);
impl Position for u64 {
    #[inline(always)]
    fn position(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }
}

impl Job {
    fn chunks<T: Position + std::fmt::Display>(
        self,
        i: &Operand<'_>,
        n: usize,
        use_indices: impl Fn(usize, &[isize]) + Sync,
    ) -> Result<()> {
        let xs = i.elements::<T>(self.op)?;
        if n == 0 {
            return Ok(());
        }
        let axes = collapse_shape(i.layout.shape(), [i.layout.strides()]);
        let (outer, inner) = split_inner(&axes);
        let offset = i.layout.offset() as isize;
        let errors = FirstError::new();
        let size = self.size as i64;
        parallel_ranges(n, GRAIN, &|range| {
            let mut position = range.start;
            let mut walk = Walk::new(outer, [offset], position / inner.len);
            let mut j = position % inner.len;
            let mut at = [0isize; CHUNK];
            while position < range.end {
                let count = (inner.len - j).min(range.end - position).min(CHUNK);
                let first = walk.at[0] + j as isize * inner.strides[0];
                let mut fits = true;
                let mut take = |place: &mut isize, x: T| {
                    let v = x.position();
                    let i = (if v < 0 { v + size } else { v }) as u64;
                    fits &= i < size as u64;
                    *place = if i < size as u64 { i as isize } else { 0 };
                };
                if inner.strides[0] == 1 {
                    for (place, &x) in at.iter_mut().zip(&xs[first as usize..first as usize + count]) {
                        take(place, x);
                    }
                } else {
                    for (k, place) in at[..count].iter_mut().enumerate() {
                        take(place, xs[(first + k as isize * inner.strides[0]) as usize]);
                    }
                }
                if !fits {
                    let x = |k: usize| xs[(first + k as isize * inner.strides[0]) as usize];
                    let out_of_range = |&k: &usize| !(-size..size).contains(&x(k).position());
                    if let Some(k) = (0..count).find(out_of_range) {
                        errors.note(position + k, self.error(x(k)));
                    }
                }
                use_indices(position, &at[..count]);
                position += count;
                j += count;
                if j == inner.len {
                    j = 0;
                    walk.step();
                }
            }
        });
        errors.into_result()
    }

    fn run<T: Position + std::fmt::Display, P: Copy + Send + Sync>(
        self,
        i: &Operand<'_>,
        out: &mut [P],
        use_index: impl Fn(&mut P, usize) + Sync,
    ) -> Result<()> {
        let xs = i.elements::<T>(self.op)?;
        if out.is_empty() {
            return Ok(());
        }
        let axes = collapse_shape(i.layout.shape(), [i.layout.strides()]);
        let (outer, inner) = split_inner(&axes);
        let offset = i.layout.offset() as isize;
        let p = Shared(out.as_mut_ptr());
        let errors = FirstError::new();
        let n = count(outer) * inner.len;
        debug_assert_eq!(n, i.layout.elements());
        let size = self.size as i64;
        // First place that a window does not fit behind; none does where the axis is shorter.
        let end = (self.size + 1).saturating_sub(self.window) as u64;
        let index = |x: T| {
            let v = x.position();
            (if v < 0 { v + size } else { v }) as u64
        };
        parallel_ranges(n, GRAIN, &|range| {
            let mut position = range.start;
            let mut walk = Walk::new(outer, [offset], position / inner.len);
            let mut j = position % inner.len;
            while position < range.end {
                let count = (inner.len - j).min(range.end - position);
                let at = |k: usize| xs[(walk.at[0] + (j + k) as isize * inner.strides[0]) as usize];
                // SAFETY: positions are below the length of `out`, which is that of the index array, and each
                // belongs to one task.
                let places = unsafe { std::slice::from_raw_parts_mut(p.get().add(position), count) };
                let mut fits = true;
                let mut take = |place: &mut P, x: T| {
                    let i = index(x);
                    fits &= i < end;
                    use_index(place, if i < end { i as usize } else { 0 });
                };
                if inner.strides[0] == 1 {
                    let first = (walk.at[0] + j as isize) as usize;
                    for (place, &x) in places.iter_mut().zip(&xs[first..first + count]) {
                        take(place, x);
                    }
                } else {
                    for (k, place) in places.iter_mut().enumerate() {
                        take(place, at(k));
                    }
                }
                if !fits && let Some(k) = (0..count).find(|&k| index(at(k)) >= end) {
                    errors.note(position + k, self.error(at(k)));
                }
                position += count;
                j = 0;
                walk.step();
            }
        });
        errors.into_result()
    }

    #[cold]
    fn error(self, value: impl std::fmt::Display) -> Error {
        let Job { op, axis, size, window } = self;
        let of = if window == 1 { String::new() } else { format!(" of a window of {window}") };
        Error::index(op, format!("index {value}{of} is out of range for axis {axis} of size {size}"))
    }
}
