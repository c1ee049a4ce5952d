//! Reading and writing at positions that arrays of indices give.
//!
//! All indices are checked before anything is written. Writes happen in row-major order of the indices, or are
//! divided among threads by destination, so that repeated positions give the same result every time.

mod combine;
mod positions;
mod search;
#[cfg(test)]
mod tests;

use super::Shared;
use super::operand::{Operand, output, typed_output, with_size};
use super::strided::{Axes, Walk, collapse_shape, count, split_inner};
use crate::pool::{parallel_for, parallel_ranges, threads};
use combine::{Meet, meeting};
use olivine_core::layout::row_major;
use olivine_core::op::ScatterMode;
use olivine_core::{Dtype, Error, Result, Shape};
use positions::{check_indices, each_index, window_starts};
pub use search::search_sorted;
use smallvec::SmallVec;
use std::sync::Mutex;

/// Elements that a task moves at least.
const GRAIN: usize = 1 << 14;

/// At each position of the index arrays, all of one shape, writes the window of `sizes` of `x` that starts at the
/// given indices of `axes` and at 0 elsewhere; `out` is row-major of the index shape followed by `sizes`.
///
/// # Errors
/// `Index` for a window that leaves `x`, `Shape` and `Dtype` for arguments that do not fit.
pub fn gather(
    axes: &[u8],
    sizes: &Shape,
    x: &Operand<'_>,
    indices: &[Operand<'_>],
    out: &mut [u8],
) -> Result<()> {
    // The name that users call it by: one element along one axis, all of the others.
    let op = match axes {
        [a] if (*a as usize) < x.layout.shape().rank() && *sizes == x.layout.shape().with(*a as usize, 1) => {
            "take"
        }
        _ => "gather",
    };
    let strides = x.layout.strides();
    let starts = window_starts(op, x.layout.shape(), strides, axes, sizes, indices)?;
    let window = collapse_shape(sizes, [strides]);
    let each = sizes.elements();
    let offset = x.layout.offset() as isize;
    with_size!(x.dtype.size(), T => {
        let src = x.elements::<T>(op)?;
        let out = output::<T>(op, out, starts.len() * each)?;
        if out.is_empty() {
            return Ok(());
        }
        let (src, p) = (Shared(src.as_ptr().cast_mut()), Shared(out.as_mut_ptr()));
        let (outer, inner) = split_inner(&window);
        let rows = count(outer);
        let [stride] = inner.strides;
        parallel_ranges(starts.len(), (GRAIN / each).max(1), &|range| {
            let mut to = range.start * each;
            if each == 1 {
                // Little enough between reads of memory that many of them are under way at once.
                for &start in &starts[range] {
                    // SAFETY: as below.
                    unsafe { *p.get().add(to) = *src.get().offset(offset + start) };
                    to += 1;
                }
                return;
            }
            for &start in &starts[range] {
                let mut walk = Walk::new(outer, [offset + start], 0);
                for _ in 0..rows {
                    // SAFETY: `window_starts` keeps windows inside the shape of `x`, whose reach `elements`
                    // checked; `to` counts through this range's part of `out`.
                    unsafe {
                        let (s, d) = (src.get().offset(walk.at[0]).cast_const(), p.get().add(to));
                        if stride == 1 {
                            std::ptr::copy_nonoverlapping(s, d, inner.len);
                        } else {
                            for j in 0..inner.len {
                                *d.add(j) = *s.offset(j as isize * stride);
                            }
                        }
                    }
                    to += inner.len;
                    walk.step();
                }
            }
        });
    });
    Ok(())
}

/// Lets `updates`, of the index shape followed by the window sizes, meet the elements of `out` (row-major of
/// `shape`, holding the array already) at the windows that the indices give. With [`ScatterMode::Set`] and a
/// repeated position the last one stays.
///
/// # Errors
/// `Index` for a window that leaves `shape`, in which case nothing is written; `Shape` and `Dtype` for arguments that do not fit.
pub fn scatter(
    axes: &[u8],
    mode: ScatterMode,
    shape: &Shape,
    updates: &Operand<'_>,
    indices: &[Operand<'_>],
    out: &mut [u8],
) -> Result<()> {
    let op = "scatter";
    let have = updates.layout.shape();
    let lead = indices.first().map_or(0, |i| i.layout.shape().rank());
    if have.rank() != lead + shape.rank() {
        return Err(Error::shape(op, format!("updates {have} do not fit {lead} index axes into {shape}")));
    }
    let sizes = Shape::new(&have[lead..]);
    let strides = row_major(shape);
    let starts = window_starts(op, shape, &strides, axes, &sizes, indices)?;
    if starts.len() * sizes.elements() != have.elements() {
        return Err(Error::shape(op, format!("updates {have} for {} positions", starts.len())));
    }
    let whole = Windows {
        starts: &starts,
        // An axis that is indexed one element at a time adds nothing to the place inside a window.
        apart: axes.iter().all(|&a| sizes[a as usize] == 1),
        positions: collapse_shape(&have[..lead], [&updates.layout.strides()[..lead]]),
        window: collapse_shape(&sizes, [&updates.layout.strides()[lead..], &strides]),
    };
    whole.scatter(op, meeting(mode, updates.dtype), shape, updates, out)
}

/// Where a scatter reads and writes.
struct Windows<'a> {
    /// Offset of each window in the destination.
    starts: &'a [isize],
    /// Different places inside a window never meet in the destination.
    apart: bool,
    /// Axes of the positions in the updates.
    positions: Axes<1>,
    /// Axes of a window in the updates and in the destination.
    window: Axes<2>,
}

impl Windows<'_> {
    fn scatter(
        &self,
        op: &'static str,
        meet: Meet,
        shape: &Shape,
        updates: &Operand<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        let src = updates.checked_bytes(op)?;
        let dst = typed_output(op, out, shape.elements(), updates.dtype)?;
        let size = updates.dtype.size() as isize;
        let each = count(&self.window);
        if self.starts.is_empty() || each == 0 {
            return Ok(());
        }
        let (src, dst) = (Shared(src.as_ptr().cast_mut()), Shared(dst));
        let offset = updates.layout.offset() as isize;
        let (outer, inner) = split_inner(&self.window);
        let rows = count(outer);
        // Part `range` of the innermost window axis for every position, in order, where the destination lies
        // in `within`.
        let pass = |range: std::ops::Range<usize>, within: std::ops::Range<isize>| {
            let mut position = Walk::new(&self.positions, [offset], 0);
            for &start in self.starts {
                if !within.contains(&start) {
                } else if each == 1 {
                    // SAFETY: as below.
                    unsafe {
                        let s = src.get().offset(position.at[0] * size).cast_const();
                        meet(s, dst.get().offset(start * size), 1, [1, 1]);
                    }
                } else {
                    let mut walk = Walk::new(outer, [position.at[0], start], 0);
                    for _ in 0..rows {
                        // SAFETY: `window_starts` keeps windows inside `shape`; updates are reached through
                        // their own layout, which `elements` checked; passes share no destination.
                        unsafe {
                            let [from, to] = inner.strides;
                            let first = range.start as isize;
                            let s = src.get().offset((walk.at[0] + first * from) * size).cast_const();
                            let d = dst.get().offset((walk.at[1] + first * to) * size);
                            meet(s, d, range.len(), inner.strides);
                        }
                        walk.step();
                    }
                }
                position.step();
            }
        };
        let everywhere = 0..isize::MAX;
        let work = self.starts.len() * each;
        if work < 2 * GRAIN || !self.apart {
            pass(0..inner.len, everywhere);
        } else if inner.len >= 64 {
            parallel_ranges(inner.len, inner.len.div_ceil(threads()).next_multiple_of(16), &|range| {
                pass(range, everywhere.clone());
            });
        } else {
            // Windows that start in different places share nothing when they lie apart.
            let n = threads();
            let step = shape.elements().div_ceil(n) as isize;
            parallel_for(n, &|i| pass(0..inner.len, i as isize * step..(i as isize + 1) * step));
        }
        Ok(())
    }
}

/// Checks that `i` has the shape of `x` everywhere but along `axis`.
fn check_along(op: &'static str, x: &Shape, i: &Operand<'_>, axis: usize) -> Result<()> {
    let have = i.layout.shape();
    let fits =
        axis < x.rank() && x.rank() == have.rank() && (0..x.rank()).all(|a| a == axis || x[a] == have[a]);
    if !fits {
        return Err(Error::shape(op, format!("indices {have} do not fit shape {x} at axis {axis}")));
    }
    Ok(())
}

/// `out[i, j, k] = x[i, indices[i, j, k], k]` for axis 1 of three; `out` is row-major of the shape of `indices`.
///
/// # Errors
/// `Index` for an index that is out of range, `Shape` and `Dtype` for arguments that do not fit.
pub fn take_along(axis: usize, x: &Operand<'_>, indices: &Operand<'_>, out: &mut [u8]) -> Result<()> {
    let op = "take_along_axis";
    check_along(op, x.layout.shape(), indices, axis)?;
    let size = x.layout.shape()[axis];
    let shape = indices.layout.shape();
    let along = x.layout.strides()[axis];
    let mut strides: SmallVec<[isize; 4]> = SmallVec::from_slice(x.layout.strides());
    strides[axis] = 0;
    let axes = collapse_shape(shape, [&strides]);
    let offset = x.layout.offset() as isize;
    with_size!(x.dtype.size(), T => {
        let src = x.elements::<T>(op)?;
        let out = output::<T>(op, out, shape.elements())?;
        if out.is_empty() {
            return Ok(());
        }
        let (src, p) = (Shared(src.as_ptr().cast_mut()), Shared(out.as_mut_ptr()));
        let (outer, inner) = split_inner(&axes);
        let [stride] = inner.strides;
        each_index(op, indices, axis, size, 1, |mut position, mut at| {
            let mut walk = Walk::new(outer, [offset], position / inner.len);
            while !at.is_empty() {
                let j = position % inner.len;
                let (now, later) = at.split_at(at.len().min(inner.len - j));
                let first = walk.at[0] + j as isize * stride;
                // SAFETY: `each_index` keeps indices inside the axis; other coordinates are those of a
                // shape that `x` has; `elements` checked its layout. Positions are below their number, which
                // is the length of the output, and each comes up once.
                unsafe {
                    let (s, d) = (src.get().offset(first).cast_const(), p.get().add(position));
                    if stride == 0 && along == 1 {
                        for (k, &i) in now.iter().enumerate() {
                            *d.add(k) = *s.offset(i);
                        }
                    } else {
                        for (k, &i) in now.iter().enumerate() {
                            *d.add(k) = *s.offset(k as isize * stride + i * along);
                        }
                    }
                }
                position += now.len();
                at = later;
                walk.step();
            }
        })
    })
}

/// Lets `values` meet the elements of `out` (row-major of `shape`, holding the array already) at
/// `[i, indices[i, j, k], k]` for axis 1 of three, in row-major order.
///
/// # Errors
/// `Index` for an index that is out of range, in which case nothing is written; `Shape` and `Dtype` for arguments that do not fit.
pub fn put_along(
    axis: usize,
    mode: ScatterMode,
    shape: &Shape,
    indices: &Operand<'_>,
    values: &Operand<'_>,
    out: &mut [u8],
) -> Result<()> {
    let op = "put_along_axis";
    check_along(op, shape, indices, axis)?;
    if values.layout.shape() != indices.layout.shape() {
        let (v, i) = (values.layout.shape(), indices.layout.shape());
        return Err(Error::shape(op, format!("values {v} and indices {i} differ")));
    }
    // Before anything is written.
    check_indices(op, indices, axis, shape[axis])?;
    let job = Put { op, axis, shape, indices, values };
    let meet = meeting(mode, values.dtype);
    with_size!(values.dtype.size(), T => if mode == ScatterMode::Set {
        // SAFETY: `put` gives places of elements of this size.
        job.put::<T>(out, |s, d| unsafe { *d = *s })
    } else {
        // SAFETY: `put` gives places of elements of the values' type.
        job.put::<T>(out, |s, d| unsafe { meet(s.cast(), d.cast(), 1, [1, 1]) })
    })
}

/// What values are put where.
struct Put<'a> {
    op: &'static str,
    axis: usize,
    shape: &'a Shape,
    indices: &'a Operand<'a>,
    values: &'a Operand<'a>,
}

impl Put<'_> {
    /// Calls `meet` with the place of each value and the place that it belongs to.
    fn put<T: Copy + 'static>(&self, out: &mut [u8], meet: impl Fn(*const T, *mut T) + Sync) -> Result<()> {
        let &Put { op, axis, shape, indices, values } = self;
        let src = values.checked_bytes(op)?;
        let dst = typed_output(op, out, shape.elements(), values.dtype)?;
        let have = values.layout.shape();
        if have.elements() == 0 {
            return Ok(());
        }
        let (src, dst) = (Shared(src.as_ptr().cast_mut()), Shared(dst));
        let mut to = row_major(shape);
        let along = std::mem::replace(&mut to[axis], 0);
        let axes = collapse_shape(have, [values.layout.strides(), &to]);
        let (outer, inner) = split_inner(&axes);
        let [from, beside] = inner.strides;
        let offset = values.layout.offset() as isize;
        // Positions before `axis` never meet each other's, so they are what threads share out.
        let unit = have[axis..].iter().product();
        each_index(op, indices, axis, shape[axis], unit, |mut position, mut at| {
            let mut walk = Walk::new(outer, [offset, 0], position / inner.len);
            while !at.is_empty() {
                let j = position % inner.len;
                let (now, later) = at.split_at(at.len().min(inner.len - j));
                // SAFETY: `each_index` keeps indices inside the axis; other coordinates are those of a shape that
                // both sides have, within the layout that was checked.
                unsafe {
                    let s = src.get().cast::<T>().cast_const().offset(walk.at[0] + j as isize * from);
                    let d = dst.get().cast::<T>().offset(walk.at[1] + j as isize * beside);
                    if (from, beside, along) == (1, 0, 1) {
                        for (k, &i) in now.iter().enumerate() {
                            meet(s.add(k), d.offset(i));
                        }
                    } else {
                        for (k, &i) in now.iter().enumerate() {
                            let k = k as isize;
                            meet(s.offset(k * from), d.offset(k * beside + i * along));
                        }
                    }
                }
                position += now.len();
                at = later;
                walk.step();
            }
        })
    }
}

/// Keeps the first error that tasks meet.
struct FirstError(Mutex<Option<(usize, Error)>>);

impl FirstError {
    fn new() -> Self {
        FirstError(Mutex::new(None))
    }

    /// Notes an error at `position`; the one at the lowest position stays.
    fn note(&self, position: usize, error: Error) {
        let mut kept = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if kept.as_ref().is_none_or(|(p, _)| position < *p) {
            *kept = Some((position, error));
        }
    }

    fn into_result(self) -> Result<()> {
        match self.0.into_inner().unwrap_or_else(|e| e.into_inner()) {
            Some((_, e)) => Err(e),
            None => Ok(()),
        }
    }
}

/// Whether a type can index.
fn check_integer(op: &'static str, dtype: Dtype) -> Result<()> {
    if !dtype.is_integer() {
        return Err(Error::bad_dtype(op, "integer indices", dtype));
    }
    Ok(())
}
