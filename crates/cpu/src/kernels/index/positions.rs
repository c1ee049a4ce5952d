//! Reading index arrays: negative indices count from the end, those out of range are errors.

use super::{FirstError, GRAIN, check_integer};
use crate::kernels::Shared;
use crate::kernels::operand::Operand;
use crate::kernels::strided::{Walk, collapse_shape, count, split_inner};
use crate::pool::parallel_ranges;
use olivine_core::{Dtype, Element, Error, Result, Shape};

/// The indices of `i` in row-major order, each within an axis of `size` elements.
pub(super) fn read_indices(
    op: &'static str,
    i: &Operand<'_>,
    axis: usize,
    size: usize,
) -> Result<Vec<usize>> {
    let mut at = vec![0usize; i.layout.elements()];
    resolve(op, i, axis, size, 1, &mut at, |place, index| *place = index)?;
    Ok(at)
}

/// Offset of the window that each position of the index arrays gives, where axes have `strides`.
pub(super) fn window_starts(
    op: &'static str,
    shape: &Shape,
    strides: &[isize],
    axes: &[u8],
    sizes: &Shape,
    indices: &[Operand<'_>],
) -> Result<Vec<isize>> {
    let rising = axes.windows(2).all(|w| w[0] < w[1]) && axes.iter().all(|&a| (a as usize) < shape.rank());
    if !rising || axes.len() != indices.len() {
        let msg = format!("{} index arrays for axes {axes:?} of shape {shape}", indices.len());
        return Err(Error::shape(op, msg));
    }
    if sizes.rank() != shape.rank() || sizes.iter().zip(shape.iter()).any(|(&s, &n)| s > n) {
        return Err(Error::shape(op, format!("a window of {sizes} does not lie within shape {shape}")));
    }
    let at = indices.first().map_or_else(Shape::scalar, |i| i.layout.shape().clone());
    let mut starts = vec![0isize; at.elements()];
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

impl Job {
    fn run<T: Element + Into<i128>, P: Copy + Send + Sync>(
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
        let one = |position: usize, at: isize| {
            let value: i128 = xs[at as usize].into();
            match self.check(value) {
                // SAFETY: positions are below the length of `out`, which is that of the index array, and each
                // belongs to one task.
                Some(index) => use_index(unsafe { &mut *p.get().add(position) }, index),
                None => errors.note(position, self.error(value)),
            }
        };
        parallel_ranges(n, GRAIN, &|range| {
            let mut position = range.start;
            let mut walk = Walk::new(outer, [offset], position / inner.len);
            let mut j = position % inner.len;
            while position < range.end {
                let stop = inner.len.min(j + range.end - position);
                for j in j..stop {
                    one(position, walk.at[0] + j as isize * inner.strides[0]);
                    position += 1;
                }
                j = 0;
                walk.step();
            }
        });
        errors.into_result()
    }

    #[inline(always)]
    fn check(self, value: i128) -> Option<usize> {
        let at = if value < 0 { value + self.size as i128 } else { value };
        (at >= 0 && at + self.window as i128 <= self.size as i128).then_some(at as usize)
    }

    #[cold]
    fn error(self, value: i128) -> Error {
        let Job { op, axis, size, window } = self;
        let of = if window == 1 { String::new() } else { format!(" of a window of {window}") };
        Error::index(op, format!("index {value}{of} is out of range for axis {axis} of size {size}"))
    }
}
