//! Places of elements among sorted ones.

use crate::kernels::Shared;
use crate::kernels::operand::{Operand, output};
use crate::kernels::sort::Keyed;
use crate::kernels::strided::{Walk, collapse_shape, count, split_inner};
use crate::kernels::wide::with_element;
use crate::pool::parallel_ranges;
use olivine_core::{Error, Result};
use std::hint::select_unpredictable;

/// Elements that a task looks up at least.
const GRAIN: usize = 1 << 11;

/// Elements that are looked up side by side.
const TOGETHER: usize = 16;

/// Sorted elements for each one that is looked up, up to which their keys are all made beforehand.
const KEYS_PAY: usize = 4;

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

/// Keys as wide as they have to be.
trait Key: Copy + Ord + Default + Send + Sync {
    fn of(key: u64) -> Self;
}
impl Key for u32 {
    #[inline(always)]
    fn of(key: u64) -> u32 {
        key as u32
    }
}
impl Key for u64 {
    #[inline(always)]
    fn of(key: u64) -> u64 {
        key
    }
}

/// For each of `wanted`, the keys that come before it, with `RIGHT` also those that are equal.
fn places<K: Key, const RIGHT: bool>(keys: &[K], wanted: &[K; TOGETHER]) -> [u32; TOGETHER] {
    let passes = |here: K, v: K| if RIGHT { here <= v } else { here < v };
    let mut low = [0u32; TOGETHER];
    let mut len = keys.len();
    // Halves are the same for all, so that their reads of memory overlap; which way one goes is not to be foreseen.
    while len > 1 {
        let half = len / 2;
        for (low, &v) in low.iter_mut().zip(wanted) {
            // SAFETY: `low + len` is at most the number of keys, also of keys without an order: `low` rises by no
            // more than `len` falls.
            let here = unsafe { *keys.get_unchecked(*low as usize + half - 1) };
            *low = select_unpredictable(passes(here, v), *low + half as u32, *low);
        }
        len -= half;
    }
    if let [_, ..] = keys {
        for (low, &v) in low.iter_mut().zip(wanted) {
            *low += passes(keys[*low as usize], v) as u32;
        }
    }
    low
}

fn typed<T: Keyed>(
    op: &'static str,
    right: bool,
    sorted: &Operand<'_>,
    values: &Operand<'_>,
    out: &mut [u8],
) -> Result<()> {
    let xs = values.elements::<T>(op)?;
    let s = sorted.elements::<T>(op)?;
    let out = output::<u32>(op, out, values.layout.elements())?;
    if out.is_empty() {
        return Ok(());
    }
    let (n, first, step) =
        (sorted.layout.elements(), sorted.layout.offset() as isize, sorted.layout.strides()[0]);
    // NaNs of every kind are equal.
    let key = |x: T| x.key().min(T::NANS);
    let sorted_key = |i: usize| key(s[(first + i as isize * step) as usize]);
    let out = Shared(out.as_mut_ptr());
    if n > KEYS_PAY * values.layout.elements() {
        each_block(values, &|at, stride, to, count| {
            for k in 0..count {
                let v = key(xs[(at + k as isize * stride) as usize]);
                let (mut low, mut high) = (0, n);
                while low < high {
                    let middle = low + (high - low) / 2;
                    let here = sorted_key(middle);
                    if here < v || (right && here == v) { low = middle + 1 } else { high = middle }
                }
                // SAFETY: `to + k` counts through the elements of `values`, each in one task.
                unsafe { *out.get().add(to + k) = low as u32 };
            }
        });
        return Ok(());
    }
    if T::BITS <= 32 {
        keyed::<T, u32>(
            &(0..n).map(|i| sorted_key(i) as u32).collect::<Vec<_>>(),
            right,
            xs,
            values,
            key,
            out,
        );
    } else {
        keyed::<T, u64>(&(0..n).map(sorted_key).collect::<Vec<_>>(), right, xs, values, key, out);
    }
    Ok(())
}

/// Looks all of `values` up among `keys`.
fn keyed<T: Keyed, K: Key>(
    keys: &[K],
    right: bool,
    xs: &[T],
    values: &Operand<'_>,
    key: impl Fn(T) -> u64 + Sync,
    out: Shared<u32>,
) {
    each_block(values, &|at, stride, to, count| {
        for start in (0..count).step_by(TOGETHER) {
            let here = TOGETHER.min(count - start);
            let mut wanted = [K::default(); TOGETHER];
            for (k, v) in wanted[..here].iter_mut().enumerate() {
                *v = K::of(key(xs[(at + (start + k) as isize * stride) as usize]));
            }
            let found =
                if right { places::<K, true>(keys, &wanted) } else { places::<K, false>(keys, &wanted) };
            // SAFETY: `to + start + here` is at most the number of elements of `values`, each in one task.
            unsafe {
                std::ptr::copy_nonoverlapping(found.as_ptr(), out.get().add(to + start), here);
            }
        }
    });
}

/// Calls `f` with the first of some elements of `values`, which are not none, their distance, their place in row-major order and their
/// number, until all have come.
fn each_block(values: &Operand<'_>, f: &(dyn Fn(isize, isize, usize, usize) + Sync)) {
    let axes = collapse_shape(values.layout.shape(), [values.layout.strides()]);
    let (outer, inner) = split_inner(&axes);
    let [stride] = inner.strides;
    let offset = values.layout.offset() as isize;
    let blocks = inner.len.div_ceil(GRAIN);
    parallel_ranges(count(outer) * blocks, (GRAIN / inner.len).max(1), &|range| {
        for task in range {
            let (row, start) = (task / blocks, task % blocks * GRAIN);
            let at = Walk::new(outer, [offset], row).at[0] + start as isize * stride;
            f(at, stride, row * inner.len + start, GRAIN.min(inner.len - start));
        }
    });
}
