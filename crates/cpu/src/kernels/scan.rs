//! Running reductions along an axis.
//!
//! Floats accumulate in `f64`. A row is cut into parts of fixed length whose totals are combined first, so that
//! threads can share it; the result is the same for every number of threads.

use super::Shared;
use super::operand::{Operand, typed_output};
use super::reduce::{Additive, Extremal, Fold, Max, Min, Prod, Sum};
use super::strided::{Axes, Axis, Walk, collapse, count, split_inner};
use super::wide::{
    BLOCK, Load, Loader, Store, Wide, loader, ordered_loader, store, store_complex, store_f32, store_f64,
    store_log, store_ordered, store_wrapped,
};
use crate::pool::{parallel_for, parallel_ranges};
use olivine_core::layout::row_major;
use olivine_core::op::{Reduce, ReduceKind, Scan, ScanKind};
use olivine_core::{Complex64, Dtype, Error, Result};
use std::marker::PhantomData;
use std::ops::Range;

/// Accumulators that take turns when only the total of a part is wanted.
const TURNS: usize = 8;
/// Rows, or parts of one, that are scanned side by side: each step of a row waits for the one before.
const SIDE: usize = 4;
/// Elements of one part of a row.
const PART: usize = 1 << 16;
/// Elements that a task takes at least.
const GRAIN: usize = 1 << 14;

/// Running log of the sum of exponentials: the largest element so far, and the sum relative to it.
struct LogSumExp;

macro_rules! log_sum_exp {
    ($($t:ty),*) => { $(
        impl Fold<$t> for LogSumExp {
            type Acc = (f64, f64);
            const START: (f64, f64) = (f64::NEG_INFINITY, 0.0);
            #[inline(always)]
            fn push(acc: (f64, f64), x: $t) -> (f64, f64) {
                meet(acc, (x as f64, 1.0))
            }
            #[inline(always)]
            fn merge(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
                meet(a, b)
            }
        }
    )* };
}
log_sum_exp!(f32, f64);

/// The logarithm itself: its imaginary part turns with every element, so nothing can be kept apart.
impl Fold<Complex64> for LogSumExp {
    type Acc = (f64, f64);
    const START: (f64, f64) = (f64::NEG_INFINITY, 0.0);
    #[inline(always)]
    fn push(acc: (f64, f64), x: Complex64) -> (f64, f64) {
        log_add_exp(acc, (x.re as f64, x.im as f64))
    }
    #[inline(always)]
    fn merge(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
        log_add_exp(a, b)
    }
}

/// log(e^a + e^b) of complex numbers.
fn log_add_exp(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    if b.0 == f64::NEG_INFINITY {
        return a;
    }
    if a.0 == f64::NEG_INFINITY {
        return b;
    }
    let high = a.0.max(b.0);
    let (p, q) = ((a.0 - high).exp(), (b.0 - high).exp());
    let (re, im) = (p * a.1.cos() + q * b.1.cos(), p * a.1.sin() + q * b.1.sin());
    (high + re.hypot(im).ln(), im.atan2(re))
}

/// Sums `a.1 e^a.0` and `b.1 e^b.0` in that form, with the larger exponent; NaN stays.
#[inline(always)]
fn meet(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    if a.0 == b.0 {
        // Also both infinite, whose difference is no number.
        (a.0, a.1 + b.1)
    } else if b.0 < a.0 {
        (a.0, a.1 + b.1 * (b.0 - a.0).exp())
    } else if a.0.is_nan() {
        a
    } else {
        (b.0, b.1 + a.1 * (a.0 - b.0).exp())
    }
}

/// Scans `x` into `out`, row-major of its shape, of the type that [`Scan`] gives. A scan that is not inclusive starts
/// with what nothing gives: 0, 1, the least or greatest number of the type (an infinity of floats), minus infinity.
///
/// # Errors
/// `Dtype` for the logarithm of anything but floats, `Shape` for an axis that does not exist, `Value` for an output of the wrong size.
pub fn run(params: &Scan, x: &Operand<'_>, out: &mut [u8]) -> Result<()> {
    let op = match params.kind {
        ScanKind::Sum => "cumsum",
        ScanKind::Prod => "cumprod",
        ScanKind::Max => "cummax",
        ScanKind::Min => "cummin",
        ScanKind::LogSumExp => "logcumsumexp",
    };
    if params.axis >= x.layout.shape().rank() {
        let msg = format!("axis {} is out of range for {}", params.axis, x.layout.shape());
        return Err(Error::shape(op, msg));
    }
    match params.kind {
        ScanKind::Sum => additive::<Sum>(op, params, x, out),
        ScanKind::Prod => additive::<Prod>(op, params, x, out),
        ScanKind::Max => extreme::<Max>(op, params, x, out),
        ScanKind::Min => extreme::<Min>(op, params, x, out),
        ScanKind::LogSumExp => match loader(x.dtype) {
            Loader::F32(load) => {
                scan::<f32, LogSumExp>(op, params, x, out, x.dtype, load, store_log(x.dtype))
            }
            Loader::F64(load) => {
                scan::<f64, LogSumExp>(op, params, x, out, x.dtype, load, store_log(x.dtype))
            }
            Loader::Complex(load) => {
                scan::<Complex64, LogSumExp>(op, params, x, out, x.dtype, load, store_complex())
            }
            Loader::Int(_) => Err(Error::bad_dtype(op, "floats", x.dtype)),
        },
    }
}

fn additive<F: Additive>(op: &'static str, params: &Scan, x: &Operand<'_>, out: &mut [u8]) -> Result<()> {
    let to = Reduce::output(ReduceKind::Sum, x.dtype);
    match loader(x.dtype) {
        Loader::Int(load) => scan::<i64, F>(op, params, x, out, to, load, store_wrapped(to.size())),
        Loader::F32(load) => scan::<f32, F>(op, params, x, out, to, load, store_f64(to)),
        Loader::F64(load) => scan::<f64, F>(op, params, x, out, to, load, store_f64(to)),
        Loader::Complex(load) => scan::<Complex64, F>(op, params, x, out, to, load, store_complex()),
    }
}

fn extreme<F: Extremal>(op: &'static str, params: &Scan, x: &Operand<'_>, out: &mut [u8]) -> Result<()> {
    match ordered_loader(x.dtype) {
        Loader::Int(load) => scan::<i64, F>(op, params, x, out, x.dtype, load, store_ordered(x.dtype)),
        Loader::F32(load) => scan::<f32, F>(op, params, x, out, x.dtype, load, store_f32(x.dtype)),
        Loader::F64(load) => scan::<f64, F>(op, params, x, out, x.dtype, load, store_f64(x.dtype)),
        Loader::Complex(load) => {
            scan::<Complex64, F>(op, params, x, out, x.dtype, load, store!(Complex64 => Complex64, a => a))
        }
    }
}

/// One scan as tasks see it. Every position of the axes is an element of the operand and of the output, where no two
/// share one.
struct Job<'a, W: Wide, F: Fold<W>> {
    params: &'a Scan,
    /// Axes beside the scanned one, in the input and in the output.
    kept: Axes<2>,
    along: Axis<2>,
    x: Shared<u8>,
    size: usize,
    load: Load<W>,
    y: Shared<u8>,
    out_size: usize,
    store: Store<F::Acc>,
    fold: PhantomData<fn(F)>,
}

fn scan<W: Wide, F: Fold<W>>(
    op: &'static str,
    params: &Scan,
    x: &Operand<'_>,
    out: &mut [u8],
    to: Dtype,
    load: Load<W>,
    store: Store<F::Acc>,
) -> Result<()> {
    let shape = x.layout.shape();
    let n = shape.elements();
    let y = Shared(typed_output(op, out, n, to)?);
    let bytes = x.checked_bytes(op)?;
    if n == 0 {
        return Ok(());
    }
    let (from, size, rows) = (x.layout.strides(), x.dtype.size(), row_major(shape));
    let axis = |i: usize| Axis { len: shape[i], strides: [from[i], rows[i]] };
    let job = Job::<W, F> {
        params,
        kept: collapse((0..shape.rank()).filter(|&i| i != params.axis).map(axis)),
        along: axis(params.axis),
        // SAFETY: the offset is an element.
        x: Shared(unsafe { bytes.as_ptr().add(x.layout.offset() * size) }.cast_mut()),
        size,
        load,
        y,
        out_size: to.size(),
        store,
        fold: PhantomData,
    };
    match job.kept.last() {
        Some(inner) if inner.strides[1] == 1 => job.columns(),
        Some(_) | None => job.rows(),
    }
    Ok(())
}

/// Takes the steps that `xs` gives from `acc` on and writes them to `out`; several scans of one length side by side.
#[inline(always)]
fn steps<W: Wide, F: Fold<W>, const PLAIN: bool, const INCLUSIVE: bool, const N: usize>(
    mut acc: [F::Acc; N],
    xs: [&[W]; N],
    out: [&mut [F::Acc; BLOCK]; N],
) -> [F::Acc; N] {
    let n = xs[0].len().min(BLOCK);
    let xs = xs.map(|x| &x[..n]);
    for i in 0..n {
        for k in 0..N {
            let next = if PLAIN { F::push_plain(acc[k], xs[k][i]) } else { F::push(acc[k], xs[k][i]) };
            out[k][i] = if INCLUSIVE { next } else { acc[k] };
            acc[k] = next;
        }
    }
    acc
}

impl<W: Wide, F: Fold<W>> Job<'_, W, F> {
    /// At most `BLOCK` elements, `stride` apart, from `at` on.
    ///
    /// # Safety
    /// They are elements of the operand.
    #[inline(always)]
    unsafe fn load<'b>(&self, at: isize, stride: isize, n: usize, buf: &'b mut [W; BLOCK]) -> &'b [W] {
        // SAFETY: the caller's promise; the loader gives `n` elements.
        unsafe {
            let p = self.x.get().cast_const().offset(at * self.size as isize);
            std::slice::from_raw_parts((self.load)(p, stride, n, buf), n)
        }
    }

    /// Stores results, `stride` apart, from `at` on.
    ///
    /// # Safety
    /// They are elements of the output that belong to the calling task.
    #[inline(always)]
    unsafe fn store(&self, values: &[F::Acc], at: isize, stride: isize) {
        // SAFETY: the caller's promise.
        unsafe {
            let p = self.y.get().offset(at * self.out_size as isize);
            (self.store)(values.as_ptr(), values.len(), p, stride);
        }
    }

    /// Place along the axis of step 0 of a scan, and the direction of its steps.
    fn steps(&self) -> (isize, isize) {
        if self.params.reverse { (self.along.len as isize - 1, -1) } else { (0, 1) }
    }

    /// Takes steps `range` of the scan of the row at `at` from `acc` on.
    fn part(&self, at: [isize; 2], range: Range<usize>, mut acc: F::Acc) {
        let [from, to] = self.along.strides;
        let (first, step) = self.steps();
        let (mut buf, mut values) = ([W::default(); BLOCK], [F::START; BLOCK]);
        let mut start = range.start;
        while start < range.end {
            let n = BLOCK.min(range.end - start);
            let place = first + start as isize * step;
            // SAFETY: steps of a row are elements of it; a row, or a part of one, belongs to one task.
            unsafe {
                let xs = self.load(at[0] + place * from, step * from, n, &mut buf);
                [acc] = match (F::plain(acc, xs), self.params.inclusive) {
                    (true, true) => steps::<W, F, true, true, 1>([acc], [xs], [&mut values]),
                    (true, false) => steps::<W, F, true, false, 1>([acc], [xs], [&mut values]),
                    (false, true) => steps::<W, F, false, true, 1>([acc], [xs], [&mut values]),
                    (false, false) => steps::<W, F, false, false, 1>([acc], [xs], [&mut values]),
                };
                self.store(&values[..n], at[1] + place * to, step * to);
            }
            start += n;
        }
    }

    /// [`Job::part`] of several rows or parts of one length.
    fn parts(&self, at: [[isize; 2]; SIDE], ranges: [Range<usize>; SIDE], mut acc: [F::Acc; SIDE]) {
        let [from, to] = self.along.strides;
        let (first, step) = self.steps();
        let (mut bufs, mut values) = ([[W::default(); BLOCK]; SIDE], [[F::START; BLOCK]; SIDE]);
        let len = ranges[0].len();
        let mut done = 0;
        while done < len {
            let n = BLOCK.min(len - done);
            let place = |k: usize| first + (ranges[k].start + done) as isize * step;
            let [b0, b1, b2, b3] = &mut bufs;
            // SAFETY: as in `part`.
            unsafe {
                let xs = [
                    self.load(at[0][0] + place(0) * from, step * from, n, b0),
                    self.load(at[1][0] + place(1) * from, step * from, n, b1),
                    self.load(at[2][0] + place(2) * from, step * from, n, b2),
                    self.load(at[3][0] + place(3) * from, step * from, n, b3),
                ];
                let plain = (0..SIDE).all(|k| F::plain(acc[k], xs[k]));
                let out = values.each_mut();
                acc = match (plain, self.params.inclusive) {
                    (true, true) => steps::<W, F, true, true, SIDE>(acc, xs, out),
                    (true, false) => steps::<W, F, true, false, SIDE>(acc, xs, out),
                    (false, true) => steps::<W, F, false, true, SIDE>(acc, xs, out),
                    (false, false) => steps::<W, F, false, false, SIDE>(acc, xs, out),
                };
                for k in 0..SIDE {
                    self.store(&values[k][..n], at[k][1] + place(k) * to, step * to);
                }
            }
            done += n;
        }
    }

    /// What steps `range` of the row at `at` come to.
    fn total(&self, at: isize, range: Range<usize>) -> F::Acc {
        let from = self.along.strides[0];
        let (first, step) = self.steps();
        let mut buf = [W::default(); BLOCK];
        let mut acc = [F::START; TURNS];
        let mut start = range.start;
        while start < range.end {
            let n = BLOCK.min(range.end - start);
            let place = first + start as isize * step;
            // SAFETY: steps of a row are elements of it.
            let xs = unsafe { self.load(at + place * from, step * from, n, &mut buf) };
            if acc.iter().all(|&a| F::plain(a, &[])) && F::plain(acc[0], xs) {
                for turn in xs.chunks(TURNS) {
                    for (a, &x) in acc.iter_mut().zip(turn) {
                        *a = F::push_plain(*a, x);
                    }
                }
            } else {
                for turn in xs.chunks(TURNS) {
                    for (a, &x) in acc.iter_mut().zip(turn) {
                        *a = F::push(*a, x);
                    }
                }
            }
            start += n;
        }
        acc.into_iter().fold(F::START, F::merge)
    }

    /// Scans rows one element after the other.
    fn rows(&self) {
        let (n, len) = (count(&self.kept), self.along.len);
        let parts = len.div_ceil(PART);
        if parts == 1 {
            parallel_ranges(n, (GRAIN / len).max(1), &|range| {
                let mut walk = Walk::new(&self.kept, [0, 0], range.start);
                let mut next = || {
                    let at = walk.at;
                    walk.step();
                    at
                };
                for _ in 0..range.len() / SIDE {
                    let at = [next(), next(), next(), next()];
                    self.parts(at, std::array::from_fn(|_| 0..len), [F::START; SIDE]);
                }
                for _ in 0..range.len() % SIDE {
                    self.part(next(), 0..len, F::START);
                }
            });
            return;
        }
        let mut totals = vec![F::START; n * parts];
        let places = Shared(totals.as_mut_ptr());
        let bounds = |k: usize| k * PART..((k + 1) * PART).min(len);
        parallel_for(n * parts, &|task| {
            let at = Walk::new(&self.kept, [0, 0], task / parts).at[0];
            let total = self.total(at, bounds(task % parts));
            // SAFETY: `task` is below the length of `totals`.
            unsafe { *places.get().add(task) = total };
        });
        for row in totals.chunks_exact_mut(parts) {
            let mut before = F::START;
            for total in row {
                let with = F::merge(before, *total);
                *total = before;
                before = with;
            }
        }
        let totals = &totals;
        parallel_for((n * parts).div_ceil(SIDE), &|group| {
            let tasks = group * SIDE..((group + 1) * SIDE).min(n * parts);
            let at = |task: usize| Walk::new(&self.kept, [0, 0], task / parts).at;
            let first = tasks.start;
            let even = tasks.len() == SIDE && tasks.clone().all(|t| bounds(t % parts).len() == PART);
            if even {
                self.parts(
                    std::array::from_fn(|k| at(first + k)),
                    std::array::from_fn(|k| bounds((first + k) % parts)),
                    std::array::from_fn(|k| totals[first + k]),
                );
            } else {
                for task in tasks {
                    self.part(at(task), bounds(task % parts), totals[task]);
                }
            }
        });
    }

    /// Scans blocks of neighbouring rows side by side; the innermost kept axis is dense in the output.
    fn columns(&self) {
        let (outer, inner) = split_inner(&self.kept);
        let blocks = inner.len.div_ceil(BLOCK);
        let grain = (GRAIN / (self.along.len * inner.len.min(BLOCK))).max(1);
        let (first, step) = self.steps();
        parallel_ranges(count(outer) * blocks, grain, &|items| {
            let (mut buf, mut acc) = ([W::default(); BLOCK], [F::START; BLOCK]);
            for item in items {
                let from = item % blocks * BLOCK;
                let width = BLOCK.min(inner.len - from);
                let walk = Walk::new(outer, [0, 0], item / blocks);
                let acc = &mut acc[..width];
                acc.fill(F::START);
                for i in 0..self.along.len as isize {
                    let place = first + i * step;
                    let source =
                        walk.at[0] + place * self.along.strides[0] + from as isize * inner.strides[0];
                    let target = walk.at[1] + place * self.along.strides[1] + from as isize;
                    // SAFETY: positions of the axes; each item has columns of its own.
                    unsafe {
                        let xs = self.load(source, inner.strides[0], width, &mut buf);
                        if !self.params.inclusive {
                            self.store(acc, target, 1);
                        }
                        for (a, &x) in acc.iter_mut().zip(xs) {
                            *a = F::push(*a, x);
                        }
                        if self.params.inclusive {
                            self.store(acc, target, 1);
                        }
                    }
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::{Bytes, Numbers, coordinates, layouts, places, position, same};
    use olivine_core::op::{Reduce, ReduceKind};
    use olivine_core::{Layout, Shape};

    const KINDS: [ScanKind; 5] =
        [ScanKind::Sum, ScanKind::Prod, ScanKind::Max, ScanKind::Min, ScanKind::LogSumExp];

    fn to(kind: ScanKind, d: Dtype) -> Dtype {
        match kind {
            ScanKind::Sum | ScanKind::Prod => Reduce::output(ReduceKind::Sum, d),
            ScanKind::Max | ScanKind::Min | ScanKind::LogSumExp => d,
        }
    }

    /// What nothing gives, in the type.
    fn start(kind: ScanKind, d: Dtype) -> f64 {
        let least = |v| if d.is_float() { v } else { Bytes::of(d, [v]).get(d, 0) };
        match kind {
            ScanKind::Sum => 0.0,
            ScanKind::Prod => 1.0,
            ScanKind::Max | ScanKind::LogSumExp => {
                least(if d == Dtype::Bool { 0.0 } else { f64::NEG_INFINITY })
            }
            ScanKind::Min => least(f64::INFINITY),
        }
    }

    fn next(kind: ScanKind, acc: f64, x: f64) -> f64 {
        match kind {
            ScanKind::Sum => acc + x,
            ScanKind::Prod => acc * x,
            ScanKind::Max | ScanKind::Min if acc.is_nan() || x.is_nan() => f64::NAN,
            ScanKind::Max => acc.max(x),
            ScanKind::Min => acc.min(x),
            ScanKind::LogSumExp if acc == f64::NEG_INFINITY => x,
            ScanKind::LogSumExp => acc.max(x) + (-(acc - x).abs()).exp().ln_1p(),
        }
    }

    #[test]
    fn every_kind_type_layout_and_axis_matches_the_definition() {
        let mut numbers = Numbers::new(9);
        for shape in [&[1][..], &[9], &[4, 7], &[2, 1, 5], &[3, 4, 5], &[2, 600], &[0, 3]] {
            for (layout, len) in layouts(shape, &mut numbers) {
                for dtype in Dtype::ALL {
                    let float = dtype.is_float();
                    let values: Vec<f64> = (0..len)
                        .map(|_| [1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 2.0, 3.0][numbers.below(8)])
                        .collect();
                    let bytes = Bytes::of(dtype, values);
                    let spots = places(&layout);
                    for kind in KINDS {
                        let complex = dtype == Dtype::C64;
                        if (kind == ScanKind::LogSumExp && !float)
                            || (complex && matches!(kind, ScanKind::Max | ScanKind::Min))
                            || (kind == ScanKind::Prod && shape.contains(&600))
                        {
                            continue;
                        }
                        let d = to(kind, dtype);
                        for axis in 0..shape.len() {
                            for (reverse, inclusive) in
                                [(false, true), (true, true), (false, false), (true, false)]
                            {
                                let mut out = Bytes::zeros(spots.len() * d.size());
                                let params = Scan { kind, axis, reverse, inclusive };
                                run(&params, &bytes.operand(&layout, dtype), out.mut_slice()).unwrap();
                                let mut acc =
                                    vec![start(kind, d); Shape::new(shape).without(axis).elements()];
                                for i in 0..spots.len() {
                                    // Row-major order visits each row in order, backwards for the reverse.
                                    let i = if reverse { spots.len() - 1 - i } else { i };
                                    let mut c = coordinates(shape, i);
                                    c.remove(axis);
                                    let acc = &mut acc[position(&Shape::new(shape).without(axis), &c)];
                                    let with = next(kind, *acc, bytes.get(dtype, spots[i]));
                                    let want = if inclusive { with } else { *acc };
                                    let got = out.get(d, i);
                                    let tolerance = match (kind, dtype) {
                                        (ScanKind::LogSumExp, _) | (_, Dtype::BF16 | Dtype::F16) => {
                                            want.abs() * if d.size() == 2 { 4e-3 } else { 1e-6 }
                                        }
                                        _ => 0.0,
                                    };
                                    assert!(
                                        same(got, want) || (got - want).abs() <= tolerance,
                                        "{params:?} {dtype} {layout:?} [{i}]: {got} {want}"
                                    );
                                    *acc = with;
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn scan_f32(kind: ScanKind, xs: &[f32]) -> Vec<f32> {
        let layout = Layout::contiguous(Shape::new(&[xs.len()]));
        let (bytes, mut out) = (Bytes::from(xs), Bytes::zeros(4 * xs.len()));
        let params = Scan { kind, axis: 0, reverse: false, inclusive: true };
        run(&params, &bytes.operand(&layout, Dtype::F32), out.mut_slice()).unwrap();
        out.typed::<f32>().to_vec()
    }

    #[test]
    fn nan_stays_from_where_it_is() {
        for kind in KINDS {
            let got = scan_f32(kind, &[1.0, f32::NAN, 4.0, 2.0]);
            assert!(got[0] == 1.0 && got[1..].iter().all(|x| x.is_nan()), "{kind:?} {got:?}");
        }
    }

    #[test]
    fn infinities_in_a_log_of_sums() {
        let inf = f32::INFINITY;
        assert_eq!(
            scan_f32(ScanKind::LogSumExp, &[-inf, -inf, 0.0, inf, inf, 1.0]),
            [-inf, -inf, 0.0, inf, inf, inf]
        );
        assert_eq!(scan_f32(ScanKind::LogSumExp, &[1e4, -1e4, 1e4])[1], 1e4);
    }

    #[test]
    fn long_rows_are_accurate_and_joined() {
        let n = 200_000;
        let got = scan_f32(ScanKind::Sum, &vec![0.1; n]);
        for i in [0, 65_535, 65_536, n - 1] {
            let want = 0.1f32 as f64 * (i + 1) as f64;
            assert!((got[i] as f64 / want - 1.0).abs() < 1e-7, "{i}");
        }
        let mut xs = vec![0.0; n];
        (xs[3], xs[100_000]) = (5.0, 7.0);
        let got = scan_f32(ScanKind::Max, &xs);
        assert_eq!((got[2], got[3], got[99_999], got[100_000], got[n - 1]), (0.0, 5.0, 5.0, 7.0, 7.0));
        let got = scan_f32(ScanKind::LogSumExp, &vec![0.0; n]);
        assert!((got[n - 1] - (n as f32).ln()).abs() < 1e-5);
    }

    #[test]
    fn an_axis_of_one_in_a_padded_array() {
        let bytes = Bytes::of(Dtype::F32, (0..12).map(|i| i as f64));
        let layout = Layout::contiguous(Shape::new(&[3, 4])).slice(&[0, 1], &[1, 1], &Shape::new(&[3, 1]));
        let mut out = Bytes::zeros(12);
        let params = Scan { kind: ScanKind::Sum, axis: 1, reverse: false, inclusive: true };
        run(&params, &bytes.operand(&layout, Dtype::F32), out.mut_slice()).unwrap();
        assert_eq!(out.typed::<f32>(), [1.0, 5.0, 9.0]);
    }

    #[test]
    fn misfits_are_errors() {
        let layout = Layout::contiguous(Shape::new(&[4]));
        let bytes = Bytes::zeros(32);
        let mut out = Bytes::zeros(16);
        let params = |kind, axis| Scan { kind, axis, reverse: false, inclusive: true };
        let e = run(&params(ScanKind::LogSumExp, 0), &bytes.operand(&layout, Dtype::I32), out.mut_slice());
        assert!(matches!(e, Err(Error::Dtype { op: "logcumsumexp", .. })));
        let e = run(&params(ScanKind::Sum, 1), &bytes.operand(&layout, Dtype::F32), out.mut_slice());
        assert!(matches!(e, Err(Error::Shape { op: "cumsum", .. })));
        let e = run(&params(ScanKind::Sum, 0), &bytes.operand(&layout, Dtype::F64), out.mut_slice());
        assert!(matches!(e, Err(Error::Value { op: "cumsum", .. })));
    }
}
