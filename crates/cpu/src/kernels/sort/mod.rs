//! Ordering along an axis. NaN comes last in either direction; equal elements keep their order.
//!
//! Elements become unsigned keys that order as they do; long rows are sorted by digits of the keys, short ones
//! by comparison.

mod keys;
mod radix;
mod select;
#[cfg(test)]
mod tests;

use super::Shared;
use super::operand::{Operand, output};
use super::strided::{Axes, Axis, Walk, collapse, count};
use super::wide::with_element;
use crate::pool::{parallel_ranges, threads};
pub(super) use keys::Keyed;
use olivine_core::layout::row_major;
use olivine_core::op::Sort;
use olivine_core::{Complex64, Element, Error, Result};
use radix::{Item, Packed, Pair, Scratch, WIDE, sort};
use select::{Move, Row, select_row};
use std::ops::Range;

/// Elements of rows that a task sorts at least.
const GRAIN: usize = 1 << 12;

fn name(params: &Sort) -> &'static str {
    match (params.indices, params.kth) {
        (false, None) => "sort",
        (true, None) => "argsort",
        (false, Some(_)) => "partition",
        (true, Some(_)) => "argpartition",
    }
}

/// Orders `x` along an axis into `out`, row-major of its shape: elements, or indices as `u32`. With `kth` only that
/// position has to be right, with nothing larger before it and nothing smaller after it. Complex numbers order by
/// their real and then their imaginary parts.
///
/// # Errors
/// `Index` for a position that is out of range, `Shape` for an axis that does not exist or is too long for `u32`
/// indices, `Value` for an output of the wrong size.
pub fn run(params: &Sort, x: &Operand<'_>, out: &mut [u8]) -> Result<()> {
    let op = name(params);
    let shape = x.layout.shape();
    let Some(&n) = shape.get(params.axis) else {
        return Err(Error::shape(op, format!("axis {} is out of range for {shape}", params.axis)));
    };
    if let Some(k) = params.kth
        && k >= n
    {
        return Err(Error::index(op, format!("position {k} is out of range for {n} elements")));
    }
    if n > u32::MAX as usize {
        return Err(Error::shape(op, format!("{n} elements are more than uint32 can index")));
    }
    with_element!(x.dtype, T => typed::<T>(op, params, x, out))
}

/// Rows along one axis, in the input and in the output.
struct Rows<'a> {
    kept: &'a Axes<2>,
    base: [isize; 2],
    axis: Axis<2>,
    params: &'a Sort,
    /// Threads share the work on one row, since there are few.
    share: bool,
}

fn typed<T: Keyed>(op: &'static str, params: &Sort, x: &Operand<'_>, out: &mut [u8]) -> Result<()> {
    let shape = x.layout.shape();
    let to = row_major(shape);
    let axis = |i: usize| Axis { len: shape[i], strides: [x.layout.strides()[i], to[i]] };
    let kept = collapse((0..shape.rank()).filter(|&i| i != params.axis).map(axis));
    let row = axis(params.axis);
    let xs = x.elements::<T>(op)?;
    let n = count(&kept);
    // Few long rows one after the other with all threads on each, else each thread its own rows.
    let share = n < 2 * threads() && row.len > 1 << 16;
    let rows = Rows { kept: &kept, base: [x.layout.offset() as isize, 0], axis: row, params, share };
    let grain = if share { n } else { (GRAIN / row.len.max(1)).max(1) };
    // Complex numbers have more elements than keys, so they are moved by index.
    if params.indices {
        let out = Shared(output::<u32>(op, out, shape.elements())?.as_mut_ptr());
        if shape.elements() > 0 {
            parallel_ranges(n, grain, &|range| {
                rows.indices(xs, range, |o, _, index| {
                    // SAFETY: `o` is a position of the rows of this task.
                    unsafe { *out.get().offset(o) = index };
                })
            });
        }
        return Ok(());
    }
    let out = Shared(output::<T>(op, out, shape.elements())?.as_mut_ptr());
    if shape.elements() == 0 {
        return Ok(());
    }
    let by_index = T::DTYPE == Complex64::DTYPE;
    parallel_ranges(n, grain, &|range| {
        if by_index {
            rows.indices(xs, range, |o, first, index| {
                let x = xs[(first + index as isize * row.strides[0]) as usize];
                // SAFETY: `o` is a position of the rows of this task.
                unsafe { *out.get().offset(o) = x };
            });
        } else if T::BITS <= 32 {
            rows.values::<T, u32, Values<false>>(xs, range, |k| k as u32, |k| k as u64, out);
        } else {
            rows.values::<T, u64, Values<true>>(xs, range, |k| k, |k| k, out);
        }
    });
    Ok(())
}

/// Elements that move, with keys of 32 bits, or else of 64.
struct Values<const WIDE: bool>;
/// Indices that move, likewise.
struct Indices<const WIDE: bool>;

macro_rules! moves {
    ($what:ident<$wide:literal>, $out:ty, $item:ty, |$x:ident, $place:ident| $o:expr, |$key:ident, $at:ident| $i:expr,
        |$from:ident, $descending:ident| $back:expr) => {
        impl<T: Keyed> Move<T> for $what<$wide> {
            type Out = $out;
            type Item = $item;
            #[inline(always)]
            fn out($x: T, $place: usize) -> $out {
                $o
            }
            #[inline(always)]
            fn item($key: u64, $at: usize) -> $item {
                $i
            }
            #[inline(always)]
            fn of_item($from: $item, $descending: bool) -> $out {
                $back
            }
        }
    };
}
moves!(Values<false>, T, u32, |x, _place| x, |key, _at| key as u32, |i, d| T::element_in(i as u64, d));
moves!(Values<true>, T, u64, |x, _place| x, |key, _at| key, |i, d| T::element_in(i, d));
moves!(
    Indices<false>,
    u32,
    Packed,
    |_x, place| place as u32,
    |key, at| Packed(key << 32 | at as u64),
    |i, _d| i.0 as u32
);
moves!(
    Indices<true>,
    u32,
    Pair,
    |_x, place| place as u32,
    |key, at| Pair { key, index: at as u64 },
    |i, _d| i.index as u32
);

impl Rows<'_> {
    fn order<'a, I: Item>(&self, (items, spare): (&'a mut [I], &'a mut [I]), bits: u32) -> &'a mut [I] {
        match self.params.kth {
            None => sort(items, spare, bits, self.share),
            Some(k) => {
                items.select_nth_unstable(k);
                items
            }
        }
    }

    /// The position to select by digits: that of a long row.
    fn by_digits(&self) -> Option<usize> {
        self.params.kth.filter(|_| self.axis.len >= WIDE)
    }

    /// The row at `at`.
    fn row<'a, T>(&self, xs: &'a [T], at: isize) -> Row<'a, T> {
        let (len, descending) = (self.axis.len, self.params.descending);
        Row { xs, first: at, stride: self.axis.strides[0], len, descending }
    }

    /// Sorts the keys alone and turns them back into elements.
    fn values<T: Keyed, I: Item, M: Move<T, Out = T, Item = I>>(
        &self,
        xs: &[T],
        rows: Range<usize>,
        item: impl Fn(u64) -> I,
        key: impl Fn(I) -> u64,
        out: Shared<T>,
    ) {
        let n = self.axis.len;
        let [from, to] = self.axis.strides;
        let descending = self.params.descending;
        let mut walk = Walk::new(self.kept, self.base, rows.start);
        let mut scratch = Scratch::take(n * size_of::<I>());
        for _ in rows {
            let at = |j: usize| xs[(walk.at[0] + j as isize * from) as usize];
            // SAFETY: offsets are those of a row of the output, which belongs to this task.
            let put = |j: usize, x: T| unsafe { *out.get().offset(walk.at[1] + j as isize * to) = x };
            let (items, spare) = scratch.items::<I>(n);
            if let Some(kth) = self.by_digits() {
                let made =
                    select_row::<T, M>(self.row(xs, walk.at[0]), kth, self.share, (items, spare), &put);
                // Zeros of both signs have one key and so lie there together; there are as many of each as before.
                let zero = T::negative_zero().key_in(descending);
                let mut zeros = (0..n).map(at).filter(|x| x.key_in(descending) == zero);
                for j in made {
                    // SAFETY: as above; it was written just before.
                    let x = unsafe { *out.get().offset(walk.at[1] + j as isize * to) };
                    if x.key_in(descending) == zero
                        && let Some(x) = zeros.next()
                    {
                        put(j, x);
                    }
                }
                walk.step();
                continue;
            }
            let mut negative_zeros = false;
            if from == 1 {
                let start = walk.at[0] as usize;
                for (i, x) in items.iter_mut().zip(&xs[start..start + n]) {
                    negative_zeros |= x.is_negative_zero();
                    *i = item(x.key_in(descending));
                }
            } else {
                for (j, i) in items.iter_mut().enumerate() {
                    negative_zeros |= at(j).is_negative_zero();
                    *i = item(at(j).key_in(descending));
                }
            }
            let items = self.order((items, spare), T::BITS);
            for (j, &i) in items.iter().enumerate() {
                put(j, T::element_in(key(i), descending));
            }
            if negative_zeros {
                // Zeros of either sign are equal and keep their order.
                let zero = T::negative_zero().key_in(descending);
                let mut zeros = (0..n).map(at).filter(|x| x.key_in(descending) == zero);
                for (j, &i) in items.iter().enumerate() {
                    if key(i) == zero
                        && let Some(x) = zeros.next()
                    {
                        put(j, x);
                    }
                }
            }
            walk.step();
        }
    }

    /// Sorts keys with the indices of their elements. `put` takes a place of the output, the first element of the
    /// row, and the index in the row that belongs there.
    fn indices<T: Keyed>(&self, xs: &[T], rows: Range<usize>, put: impl Fn(isize, isize, u32) + Sync) {
        let n = self.axis.len;
        let [from, to] = self.axis.strides;
        let descending = self.params.descending;
        let mut walk = Walk::new(self.kept, self.base, rows.start);
        let narrow = T::BITS <= 32;
        let mut scratch = Scratch::take(n * if narrow { size_of::<Packed>() } else { size_of::<Pair>() });
        for _ in rows {
            let [x0, y0] = walk.at;
            let at = |j: usize| xs[(x0 + j as isize * from) as usize].key_in(descending);
            let put_at = |j: usize, index: u32| put(y0 + j as isize * to, x0, index);
            if let Some(kth) = self.by_digits() {
                let row = self.row(xs, x0);
                if narrow {
                    select_row::<T, Indices<false>>(row, kth, self.share, scratch.items(n), &put_at);
                } else {
                    select_row::<T, Indices<true>>(row, kth, self.share, scratch.items(n), &put_at);
                }
            } else if narrow {
                let (items, spare) = scratch.items::<Packed>(n);
                for (j, i) in items.iter_mut().enumerate() {
                    *i = Packed(at(j) << 32 | j as u64);
                }
                for (j, p) in self.order((items, spare), T::BITS).iter().enumerate() {
                    put_at(j, p.0 as u32);
                }
            } else {
                let (items, spare) = scratch.items::<Pair>(n);
                for (j, i) in items.iter_mut().enumerate() {
                    *i = Pair { key: at(j), index: j as u64 };
                }
                for (j, p) in self.order((items, spare), T::BITS).iter().enumerate() {
                    put_at(j, p.index as u32);
                }
            }
            walk.step();
        }
    }
}
