//! Places of elements among sorted ones.

use crate::kernels::Shared;
use crate::kernels::operand::{Operand, output};
use crate::kernels::sort::Keyed;
use crate::kernels::strided::{Walk, collapse_shape, count, split_inner};
use crate::kernels::wide::with_element;
use crate::pool::parallel_ranges;
use olivine_core::{Error, Result};

/// Elements that a task looks up at least.
const GRAIN: usize = 1 << 11;

/// Elements that are looked up side by side.
const TOGETHER: usize = 16;

/// Counts the elements of `sorted`, which has one axis, that come before each of `values` in the order of sorting, with
/// `right` also those that are equal; `out` is row-major of the shape of `values`. In what is not sorted the counts
/// mean nothing, but stay below its length.
///
/// # Errors
/// `Shape` and `Dtype` for arguments that do not fit.
pub fn search_sorted(right: bool, sorted: &Operand<'_>, values: &Operand<'_>, out: &mut [u8]) -> Result<()> {
    let op = "searchsorted";
    if sorted.layout.shape().rank() != 1 || sorted.layout.elements() > u32::MAX as usize {
        return Err(Error::shape(op, format!("sorted numbers of shape {}", sorted.layout.shape())));
    }
    if sorted.dtype != values.dtype {
        return Err(Error::dtype(op, format!("types {} and {} differ", sorted.dtype, values.dtype)));
    }
    with_element!(sorted.dtype, T => typed::<T>(op, right, sorted, values, out))
}

fn typed<T: Keyed>(
    op: &'static str,
    right: bool,
    sorted: &Operand<'_>,
    values: &Operand<'_>,
    out: &mut [u8],
) -> Result<()> {
    let shape = values.layout.shape();
    let xs = values.elements::<T>(op)?;
    let s = sorted.elements::<T>(op)?;
    let out = output::<u32>(op, out, shape.elements())?;
    if out.is_empty() {
        return Ok(());
    }
    let out = Shared(out.as_mut_ptr());
    let (n, first, step) =
        (sorted.layout.elements(), sorted.layout.offset() as isize, sorted.layout.strides()[0]);
    let axes = collapse_shape(shape, [values.layout.strides()]);
    let (outer, inner) = split_inner(&axes);
    let [stride] = inner.strides;
    // NaNs of every kind are equal.
    let key = |x: T| x.key().min(T::NANS);
    let offset = values.layout.offset() as isize;
    let blocks = inner.len.div_ceil(GRAIN);
    parallel_ranges(count(outer) * blocks, (GRAIN / inner.len).max(1), &|range| {
        for task in range {
            let (row, block) = (task / blocks, task % blocks);
            let at = Walk::new(outer, [offset], row).at[0];
            let end = ((block + 1) * GRAIN).min(inner.len);
            for start in (block * GRAIN..end).step_by(TOGETHER) {
                let n_here = TOGETHER.min(end - start);
                let mut wanted = [0u64; TOGETHER];
                for (k, v) in wanted[..n_here].iter_mut().enumerate() {
                    *v = key(xs[(at + (start + k) as isize * stride) as usize]);
                }
                // Halves are the same for all, so that their reads of memory overlap.
                let mut low = [0usize; TOGETHER];
                let passes = |low: usize, v: u64| {
                    let here = key(s[(first + low as isize * step) as usize]);
                    // No branch: which way it goes is not to be foreseen.
                    (here < v) | (right & (here == v))
                };
                let mut len = n;
                while len > 1 {
                    let half = len / 2;
                    for (low, &v) in low.iter_mut().zip(&wanted) {
                        let up = passes(*low + half - 1, v);
                        *low = std::hint::select_unpredictable(up, *low + half, *low);
                    }
                    len -= half;
                }
                for (k, (low, &v)) in low.iter().zip(&wanted[..n_here]).enumerate() {
                    let found = low + (n > 0 && passes(*low, v)) as usize;
                    // SAFETY: `row` and `start + k` count through the elements of `values`, each in one task.
                    unsafe { *out.get().add(row * inner.len + start + k) = found as u32 };
                }
            }
        }
    });
    Ok(())
}
