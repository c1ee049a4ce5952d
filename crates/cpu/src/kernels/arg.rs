//! Index of the smallest or largest element along an axis: the first extreme, or the first NaN.

use super::Shared;
use super::operand::{Operand, output};
use super::reduce::Extreme;
use super::strided::{Axes, Axis, Walk, collapse, count, split_inner};
use super::wide::{BLOCK, Load, Loader, ordered_loader};
use crate::lanes::{Kernel, Lanes};
use crate::pool::{parallel_for, parallel_ranges};
use olivine_core::op::ArgKind;
use olivine_core::{Complex64, Error, Result};
use std::marker::PhantomData;
use std::ops::Range;

/// Elements of a row that one task looks through.
const PART: usize = 1 << 15;

/// Extremes that are found side by side in a block.
const TURNS: usize = 32;

/// Which of two elements to take.
trait Choice<T>: Send + Sync + 'static {
    /// What anything is taken before, or is equal to.
    const WORST: T;
    /// Whether `x` is taken before the earlier `best`.
    fn before(x: T, best: T) -> bool;
}
struct Largest;
struct Smallest;
impl<T: Extreme> Choice<T> for Largest {
    const WORST: T = T::LOWEST;
    #[inline(always)]
    fn before(x: T, best: T) -> bool {
        x.above(best) || (x.nan() && !best.nan())
    }
}
impl<T: Extreme> Choice<T> for Smallest {
    const WORST: T = T::HIGHEST;
    #[inline(always)]
    fn before(x: T, best: T) -> bool {
        x.below(best) || (x.nan() && !best.nan())
    }
}

/// One search as tasks see it. Positions of `kept` and `along` from `base` are elements of the operand, and `out` has
/// one place for each position of `kept`.
struct Job<W, C> {
    base: Shared<u8>,
    size: usize,
    load: Load<W>,
    kept: Axes<1>,
    along: Axis<1>,
    out: Shared<u32>,
    choice: PhantomData<fn(C)>,
}

impl<W: Extreme, C> Job<W, C> {
    /// At most `BLOCK` elements, `stride` apart, from `at` on.
    ///
    /// # Safety
    /// They are elements of the operand.
    #[inline(always)]
    unsafe fn load<'b>(&self, at: isize, stride: isize, n: usize, buf: &'b mut [W; BLOCK]) -> &'b [W] {
        // SAFETY: the caller's promise; the loader gives `n` elements.
        unsafe {
            let p = self.base.get().cast_const().offset(at * self.size as isize);
            std::slice::from_raw_parts((self.load)(p, stride, n, buf), n)
        }
    }
}

/// Finds the best of elements `range` of the row at `at`, and its index.
struct Row<'a, W, C> {
    job: &'a Job<W, C>,
    at: isize,
    range: Range<usize>,
}

impl<W: Extreme, C: Choice<W>> Kernel for Row<'_, W, C> {
    type Output = (W, usize);
    #[inline(always)]
    fn run<S: Lanes>(self, _s: S) -> (W, usize) {
        let stride = self.job.along.strides[0];
        let mut buf = [W::default(); BLOCK];
        // First the value of the extreme and its block, without indices; then its place in the block. The
        // first element stands for a row in which nothing is better than the worst.
        let (mut best, mut block) = (C::WORST, self.range.start);
        let mut start = self.range.start;
        while start < self.range.end {
            let n = BLOCK.min(self.range.end - start);
            // SAFETY: elements of the row.
            let xs = unsafe { self.job.load(self.at + start as isize * stride, stride, n, &mut buf) };
            let mut turns = [C::WORST; TURNS];
            let mut chunks = xs.chunks_exact(TURNS);
            for chunk in &mut chunks {
                for i in 0..TURNS {
                    turns[i] = if C::before(chunk[i], turns[i]) { chunk[i] } else { turns[i] };
                }
            }
            for (t, &x) in turns.iter_mut().zip(chunks.remainder()) {
                *t = if C::before(x, *t) { x } else { *t };
            }
            let mut half = TURNS / 2;
            while half > 0 {
                for i in 0..half {
                    let x = turns[i + half];
                    turns[i] = if C::before(x, turns[i]) { x } else { turns[i] };
                }
                half /= 2;
            }
            if C::before(turns[0], best) {
                (best, block) = (turns[0], start);
                if best.nan() {
                    break;
                }
            }
            start += n;
        }
        let n = BLOCK.min(self.range.end - block);
        // SAFETY: as above.
        let xs = unsafe { self.job.load(self.at + block as isize * stride, stride, n, &mut buf) };
        let place = xs.iter().position(|&x| x == best || (x.nan() && best.nan()));
        (best, block + place.unwrap_or(0))
    }
}

/// Compares the elements of rows with the best so far of a block of columns.
struct Columns<'a, W, C> {
    job: &'a Job<W, C>,
    blocks: usize,
    items: Range<usize>,
}

impl<W: Extreme, C: Choice<W>> Kernel for Columns<'_, W, C> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, _s: S) {
        let job = self.job;
        let (outer, inner) = split_inner(&job.kept);
        let stride = inner.strides[0];
        let mut buf = [W::default(); BLOCK];
        let (mut best, mut at) = ([C::WORST; BLOCK], [0u32; BLOCK]);
        for item in self.items {
            let (o, b) = (item / self.blocks, item % self.blocks);
            let from = b * BLOCK;
            let width = BLOCK.min(inner.len - from);
            let base = Walk::new(outer, [0], o).at[0] + from as isize * stride;
            best[..width].fill(C::WORST);
            at[..width].fill(0);
            for row in 0..job.along.len {
                // SAFETY: positions of the kept axes and along the row.
                let xs =
                    unsafe { job.load(base + row as isize * job.along.strides[0], stride, width, &mut buf) };
                for ((best, at), &x) in best[..width].iter_mut().zip(&mut at[..width]).zip(xs) {
                    let take = C::before(x, *best);
                    *best = if take { x } else { *best };
                    *at = if take { row as u32 } else { *at };
                }
            }
            // SAFETY: each item writes indices of its own.
            unsafe {
                let out = job.out.get().add(o * inner.len + from);
                std::ptr::copy_nonoverlapping(at.as_ptr(), out, width);
            }
        }
    }
}

/// Writes the index along `axis` of the extreme of each row of `x`, the other axes in row-major order, as `u32`.
///
/// # Errors
/// `Value` for an empty axis or an output of the wrong size, `Shape` for an axis that
/// does not exist or is too long for `u32`.
pub fn run(kind: ArgKind, axis: usize, x: &Operand<'_>, out: &mut [u8]) -> Result<()> {
    match kind {
        ArgKind::Min => typed::<Smallest>("argmin", axis, x, out),
        ArgKind::Max => typed::<Largest>("argmax", axis, x, out),
    }
}

fn typed<C>(op: &'static str, axis: usize, x: &Operand<'_>, out: &mut [u8]) -> Result<()>
where
    C: Choice<i64> + Choice<f32> + Choice<f64> + Choice<Complex64>,
{
    match ordered_loader(x.dtype) {
        Loader::Int(load) => along::<i64, C>(op, axis, x, out, load),
        Loader::F32(load) => along::<f32, C>(op, axis, x, out, load),
        Loader::F64(load) => along::<f64, C>(op, axis, x, out, load),
        Loader::Complex(load) => along::<Complex64, C>(op, axis, x, out, load),
    }
}

fn along<W: Extreme, C: Choice<W>>(
    op: &'static str,
    axis: usize,
    x: &Operand<'_>,
    out: &mut [u8],
    load: Load<W>,
) -> Result<()> {
    let (shape, strides) = (x.layout.shape(), x.layout.strides());
    let Some(&len) = shape.get(axis) else {
        return Err(Error::shape(op, format!("axis {axis} is out of range for {shape}")));
    };
    if len == 0 {
        return Err(Error::value(op, format!("no value for an empty axis of {shape}")));
    }
    if len > u32::MAX as usize {
        return Err(Error::shape(op, format!("{len} elements are more than uint32 can index")));
    }
    let n = shape.without(axis).elements();
    let out = output::<u32>(op, out, n)?;
    let bytes = x.checked_bytes(op)?;
    if n == 0 {
        return Ok(());
    }
    let size = x.dtype.size();
    let beside = (0..shape.rank()).filter(|&i| i != axis);
    let job = Job::<W, C> {
        // SAFETY: `checked_bytes` checked the reach of the layout, of which the offset is an element.
        base: Shared(unsafe { bytes.as_ptr().add(x.layout.offset() * size) }.cast_mut()),
        size,
        load,
        kept: collapse(beside.map(|i| Axis { len: shape[i], strides: [strides[i]] })),
        along: Axis { len, strides: [strides[axis]] },
        out: Shared(out.as_mut_ptr()),
        choice: PhantomData,
    };
    let job = &job;
    let (outer, inner) = split_inner(&job.kept);
    if inner.strides[0].abs() < strides[axis].abs() && inner.len > 1 && len > 1 {
        let blocks = inner.len.div_ceil(BLOCK);
        let grain = (PART / (len * inner.len.min(BLOCK))).max(1);
        parallel_ranges(count(outer) * blocks, grain, &|items| W::launch(Columns { job, blocks, items }));
        return Ok(());
    }
    let parts = len.div_ceil(PART);
    let find = |o: usize, range: Range<usize>| {
        let at = Walk::new(&job.kept, [0], o).at[0];
        W::launch(Row { job, at, range })
    };
    if parts == 1 {
        parallel_ranges(n, (PART / len).max(1), &|outputs| {
            for o in outputs {
                // SAFETY: each output belongs to one task.
                unsafe { *job.out.get().add(o) = find(o, 0..len).1 as u32 };
            }
        });
        return Ok(());
    }
    let mut partial = vec![(C::WORST, 0usize); n * parts];
    let q = Shared(partial.as_mut_ptr());
    parallel_for(n * parts, &|task| {
        let (o, k) = (task / parts, task % parts);
        let found = find(o, k * PART..((k + 1) * PART).min(len));
        // SAFETY: `task` is below the length of `partial`.
        unsafe { *q.get().add(task) = found };
    });
    for (o, parts) in out.iter_mut().zip(partial.chunks_exact(parts)) {
        let mut best = parts[0];
        for &part in &parts[1..] {
            if C::before(part.0, best.0) {
                best = part;
            }
        }
        *o = best.1 as u32;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::{Bytes, Numbers, coordinates, layouts, places, position};
    use olivine_core::{Dtype, Layout, Shape};

    /// Index of the first extreme, or of the first NaN.
    fn reference(kind: ArgKind, xs: &[f64]) -> u32 {
        if let Some(i) = xs.iter().position(|x| x.is_nan()) {
            return i as u32;
        }
        let best = match kind {
            ArgKind::Max => xs.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ArgKind::Min => xs.iter().copied().fold(f64::INFINITY, f64::min),
        };
        xs.iter().position(|&x| x == best).unwrap() as u32
    }

    #[test]
    fn every_type_layout_and_axis_matches_the_definition() {
        let mut numbers = Numbers::new(6);
        for shape in [&[1][..], &[40], &[700], &[5, 33], &[600, 3], &[3, 4, 5]] {
            for (layout, len) in layouts(shape, &mut numbers) {
                for dtype in Dtype::ALL.into_iter().filter(|&d| d != Dtype::C64) {
                    for range in [3, 100] {
                        let nan = numbers.below(3) == 0;
                        let values = (0..len).map(|_| {
                            if nan && numbers.below(40) == 0 {
                                f64::NAN
                            } else {
                                numbers.below(range) as f64 - 1.0
                            }
                        });
                        let values: Vec<f64> = values.collect();
                        let bytes = Bytes::of(dtype, values);
                        let spots = places(&layout);
                        for axis in 0..shape.len() {
                            let rest = Shape::new(shape).without(axis);
                            let mut rows = vec![Vec::new(); rest.elements()];
                            for (i, &spot) in spots.iter().enumerate() {
                                let mut c = coordinates(shape, i);
                                c.remove(axis);
                                rows[position(&rest, &c)].push(bytes.get(dtype, spot));
                            }
                            for kind in [ArgKind::Min, ArgKind::Max] {
                                let mut out = Bytes::zeros(4 * rows.len());
                                run(kind, axis, &bytes.operand(&layout, dtype), out.mut_slice()).unwrap();
                                let want: Vec<u32> = rows.iter().map(|r| reference(kind, r)).collect();
                                assert_eq!(out.typed::<u32>(), want, "{kind:?} {dtype} {layout:?} {axis}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn long_rows_give_the_first_of_equals() {
        let n = 200_000;
        let layout = Layout::contiguous(Shape::new(&[n]));
        let mut xs: Vec<f32> = (0..n).map(|i| (i * 7919 % n) as f32).collect();
        (xs[70_000], xs[150_000]) = (1e9, 1e9);
        let find = |xs: &[f32]| {
            let (bytes, mut out) = (Bytes::from(xs), Bytes::zeros(4));
            run(ArgKind::Max, 0, &bytes.operand(&layout, Dtype::F32), out.mut_slice()).unwrap();
            out.typed::<u32>()[0]
        };
        assert_eq!(find(&xs), 70_000);
        (xs[180_000], xs[199_999]) = (f32::NAN, f32::NAN);
        assert_eq!(find(&xs), 180_000);
        assert_eq!(find(&vec![f32::NEG_INFINITY; n]), 0);
    }

    #[test]
    fn nothing_is_an_error_and_complex_numbers_have_an_order() {
        let empty = Layout::contiguous(Shape::new(&[2, 0]));
        let bytes = Bytes::zeros(0);
        let mut out = Bytes::zeros(8);
        let e = run(ArgKind::Max, 1, &bytes.operand(&empty, Dtype::F32), out.mut_slice());
        assert!(matches!(e, Err(Error::Value { op: "argmax", .. })));
        run(ArgKind::Max, 0, &bytes.operand(&empty, Dtype::F32), &mut []).unwrap();
        let one = Layout::contiguous(Shape::new(&[3]));
        let z = |re: f32, im: f32| Complex64 { re, im };
        let nan = f32::NAN;
        for (xs, least, largest) in [
            ([z(1.0, 2.0), z(1.0, -3.0), z(0.0, 9.0)], 2, 0),
            ([z(1.0, 2.0), z(1.0, 3.0), z(2.0, nan)], 2, 2),
            ([z(nan, 2.0), z(1.0, nan), z(2.0, 0.0)], 0, 0),
        ] {
            let bytes = Bytes::from(&xs);
            let mut out = Bytes::zeros(4);
            run(ArgKind::Min, 0, &bytes.operand(&one, Dtype::C64), out.mut_slice()).unwrap();
            assert_eq!(out.typed::<u32>(), [least]);
            run(ArgKind::Max, 0, &bytes.operand(&one, Dtype::C64), out.mut_slice()).unwrap();
            assert_eq!(out.typed::<u32>(), [largest]);
        }
    }
}
