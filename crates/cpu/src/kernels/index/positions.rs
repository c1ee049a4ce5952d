//! Reading index arrays: negative indices count from the end, those out of range are errors.

use super::{FirstError, GRAIN, check_integer};
use crate::kernels::Shared;
use crate::kernels::operand::Operand;
use crate::kernels::strided::{Walk, collapse_shape, split_inner};
use crate::lanes::{Kernel, Lanes, dispatch};
use crate::pool::parallel_ranges;
use olivine_core::{Dtype, Element, Error, Result, Shape};
use std::cell::Cell;

/// Places of windows that indices give, in a buffer that the thread keeps: memory fresh from the system costs more than a pass
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

/// Indices that are looked at together.
const CHUNK: usize = 1 << 10;

/// Calls `use_indices` with a position and the indices from there on, each within an axis of `size` elements, 0 in
/// place of those that are out of range; together all indices of `i`. Positions of one `unit`, the first of which is a
/// multiple of it, come in order, one after the other.
pub(super) fn each_index(
    op: &'static str,
    i: &Operand<'_>,
    axis: usize,
    size: usize,
    unit: usize,
    use_indices: impl Fn(usize, &[isize]) + Sync,
) -> Result<()> {
    if size == 0 {
        // No index is in range, so that nothing may be looked at.
        return check_indices(op, i, axis, size);
    }
    Job { op, axis, size, window: 1 }.chunks_of(i, unit, use_indices)
}

/// Whether all indices of `i` lie within an axis of `size` elements.
pub(super) fn check_indices(op: &'static str, i: &Operand<'_>, axis: usize, size: usize) -> Result<()> {
    Job { op, axis, size, window: 1 }.chunks_of(i, 1, |_, _| {})
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
        let p = Shared(starts.as_mut_ptr());
        let job = Job { op, axis, size: shape[axis], window: sizes[axis] };
        job.chunks_of(i, 1, |position, at| {
            // SAFETY: positions are below the number of indices, which is that of the starts, and each comes up once.
            let starts = unsafe { std::slice::from_raw_parts_mut(p.get().add(position), at.len()) };
            for (start, &index) in starts.iter_mut().zip(at) {
                *start += index * stride;
            }
        })?;
    }
    Ok(starts)
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
trait Position: Element + Default {
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

/// Turns indices into places within an axis, 0 for those that are out of range; whether none is.
struct Resolve<'a, T> {
    xs: &'a [T],
    size: i64,
    end: u64,
    places: &'a mut [isize],
}

impl<T: Position> Kernel for Resolve<'_, T> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Lanes>(self, _s: S) -> bool {
        let mut outside = 0;
        for (place, &x) in self.places.iter_mut().zip(self.xs) {
            let v = x.position();
            let i = (if v < 0 { v + self.size } else { v }) as u64;
            outside |= (i >= self.end) as u64;
            *place = if i < self.end { i as isize } else { 0 };
        }
        outside == 0
    }
}

impl Job {
    /// [`Job::chunks`] of indices of any type.
    fn chunks_of(
        self,
        i: &Operand<'_>,
        unit: usize,
        use_indices: impl Fn(usize, &[isize]) + Sync,
    ) -> Result<()> {
        check_integer(self.op, i.dtype)?;
        match i.dtype {
            Dtype::U8 => self.chunks::<u8>(i, unit, use_indices),
            Dtype::U16 => self.chunks::<u16>(i, unit, use_indices),
            Dtype::U32 => self.chunks::<u32>(i, unit, use_indices),
            Dtype::U64 => self.chunks::<u64>(i, unit, use_indices),
            Dtype::I8 => self.chunks::<i8>(i, unit, use_indices),
            Dtype::I16 => self.chunks::<i16>(i, unit, use_indices),
            Dtype::I32 => self.chunks::<i32>(i, unit, use_indices),
            Dtype::I64 => self.chunks::<i64>(i, unit, use_indices),
            Dtype::Bool | Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 | Dtype::C64 => {
                Err(Error::bad_dtype(self.op, "integer indices", i.dtype))
            }
        }
    }

    fn chunks<T: Position + std::fmt::Display>(
        self,
        i: &Operand<'_>,
        unit: usize,
        use_indices: impl Fn(usize, &[isize]) + Sync,
    ) -> Result<()> {
        let xs = i.elements::<T>(self.op)?;
        let n = i.layout.elements();
        if n == 0 {
            return Ok(());
        }
        let axes = collapse_shape(i.layout.shape(), [i.layout.strides()]);
        let (outer, inner) = split_inner(&axes);
        let offset = i.layout.offset() as isize;
        let errors = FirstError::new();
        let size = self.size as i64;
        // First place that a window does not fit behind; none does where the axis is shorter.
        let end = (self.size + 1).saturating_sub(self.window) as u64;
        parallel_ranges(n / unit, (GRAIN / unit).max(1), &|units| {
            let range = units.start * unit..units.end * unit;
            let mut position = range.start;
            let mut walk = Walk::new(outer, [offset], position / inner.len);
            let mut j = position % inner.len;
            let (mut places, mut apart) = ([0isize; CHUNK], [T::default(); CHUNK]);
            while position < range.end {
                let count = (inner.len - j).min(range.end - position).min(CHUNK);
                let first = walk.at[0] + j as isize * inner.strides[0];
                let xs = if inner.strides[0] == 1 {
                    &xs[first as usize..first as usize + count]
                } else {
                    for (k, x) in apart[..count].iter_mut().enumerate() {
                        *x = xs[(first + k as isize * inner.strides[0]) as usize];
                    }
                    &apart[..count]
                };
                let places = &mut places[..count];
                if !dispatch(Resolve { xs, size, end, places }) {
                    let index = |x: T| {
                        let v = x.position();
                        (if v < 0 { v + size } else { v }) as u64
                    };
                    if let Some(k) = (0..count).find(|&k| index(xs[k]) >= end) {
                        errors.note(position + k, self.error(xs[k]));
                    }
                }
                use_indices(position, places);
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

    #[cold]
    fn error(self, value: impl std::fmt::Display) -> Error {
        let Job { op, axis, size, window } = self;
        let of = if window == 1 { String::new() } else { format!(" of a window of {window}") };
        Error::index(op, format!("index {value}{of} is out of range for axis {axis} of size {size}"))
    }
}
