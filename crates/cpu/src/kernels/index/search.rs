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
            for j in block * GRAIN..((block + 1) * GRAIN).min(inner.len) {
                let v = key(xs[(at + j as isize * stride) as usize]);
                let (mut low, mut len) = (0usize, n);
                while len > 0 {
                    let half = len / 2;
                    let here = key(s[(first + (low + half) as isize * step) as usize]);
                    let passed = here < v || (right && here == v);
                    low = if passed { low + half + 1 } else { low };
                    len = if passed { len - half - 1 } else { half };
                }
                // SAFETY: `row` and `j` count through the elements of `values`, each in one task.
                unsafe { *out.get().add(row * inner.len + j) = low as u32 };
            }
        }
    });
    Ok(())
}
