//! Fourier transforms along one axis.
//!
//! Rows that lie at strides are gathered, several neighbours at a time so that every cache line is used,
//! transformed in a buffer of their own, and written with the factor.

use crate::lanes::{Kernel, Lanes, dispatch};
use crate::{pool, raw};
use olivine_core::op::{Fft, FftKind};
use olivine_core::{Dtype, Error, Result, Shape};
use olivine_cpu_libs::Complex;
use olivine_cpu_libs::fft::{Direction, Real};
use std::ops::Mul;

/// Rows gathered together along axes that are not the last.
const NEIGHBOURS: usize = 16;
/// Elements between gathered rows.
const APART: usize = 16;
/// Elements of one task, about.
const TASK: usize = 1 << 13;

/// Where the rows of an array lie: `outer` times `inner` of them, elements `inner` apart.
#[derive(Clone, Copy)]
struct Rows {
    outer: usize,
    inner: usize,
    len: usize,
}

/// Transforms the row-major array `x` into `y`.
///
/// # Errors
/// `Value` or `Dtype` where sizes or types are not those of the operation.
pub fn run(op: &Fft, x: &[u8], dtype: Dtype, shape: &Shape, y: &mut [u8]) -> Result<()> {
    let name = "fft";
    if op.axis >= shape.rank() || op.n == 0 || x.len() != shape.elements() * dtype.size() {
        return Err(Error::value(name, format!("{op:?} of {} bytes of shape {shape}", x.len())));
    }
    let from = Rows {
        outer: shape[..op.axis].iter().product(),
        inner: shape[op.axis + 1..].iter().product(),
        len: shape[op.axis],
    };
    let scale = f64::from_bits(op.scale);
    match (op.kind, dtype) {
        (FftKind::Complex, Dtype::C64) => {
            complex::<f32, _>(op, cast(x)?, from, scale, y, |z: Complex<f32>| z)
        }
        (FftKind::Complex, Dtype::F32) => {
            complex(op, cast(x)?, from, scale, y, |r: f32| Complex::new(r, 0.0))
        }
        (FftKind::Complex, Dtype::F64) => {
            complex(op, cast(x)?, from, scale, y, |r: f64| Complex::new(r, 0.0))
        }
        (FftKind::RealToHalf, Dtype::F32) => to_half::<f32>(op, cast(x)?, from, scale, y),
        (FftKind::RealToHalf, Dtype::F64) => to_half::<f64>(op, cast(x)?, from, scale, y),
        (FftKind::HalfToReal, Dtype::C64) => to_real(op, cast(x)?, from, scale, y),
        (FftKind::Complex | FftKind::RealToHalf | FftKind::HalfToReal, other) => {
            Err(Error::bad_dtype(name, "float32, float64 or complex64 as the transform asks", other))
        }
    }
}

/// Bytes as elements of a type of which any bits are a value.
fn cast<T: Plain>(x: &[u8]) -> Result<&[T]> {
    if !x.len().is_multiple_of(size_of::<T>()) || (!x.is_empty() && !x.as_ptr().cast::<T>().is_aligned()) {
        return Err(Error::value("fft", "a buffer that does not hold whole elements"));
    }
    if x.is_empty() {
        return Ok(&[]);
    }
    // SAFETY: whole, aligned elements, whose bits may be any.
    Ok(unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), x.len() / size_of::<T>()) })
}

/// Types whose bits may be any.
trait Plain: Copy + Send + Sync + 'static {}
impl Plain for f32 {}
impl Plain for f64 {}
impl Plain for Complex<f32> {}

/// Numbers that transforms compute with.
pub(super) trait Number: Real + Mul<Output = Self> + Into<f64> {
    fn of(x: f64) -> Self;
    fn to_f32(self) -> f32;
}
impl Number for f32 {
    fn of(x: f64) -> f32 {
        x as f32
    }
    fn to_f32(self) -> f32 {
        self
    }
}
impl Number for f64 {
    fn of(x: f64) -> f64 {
        x
    }
    fn to_f32(self) -> f32 {
        self as f32
    }
}

/// Room that a task keeps from row to row.
#[derive(Default)]
struct Room<R> {
    scratch: Vec<Complex<R>>,
    spectrum: Vec<Complex<R>>,
}

/// Runs `transform(values, result, room)` over all rows: the first `take` elements of each row of `x`, and zeros up to
/// `fill`, become `len` elements of `y`.
fn each<R: Default, X: Copy + Sync, A: Copy + Default, B: Plain + Default>(
    x: &[X],
    from: Rows,
    fill: usize,
    len: usize,
    y: &mut [u8],
    widen: impl Fn(X) -> A + Sync,
    transform: impl Fn(&mut [A], &mut [B], &mut Room<R>) + Sync,
) -> Result<()> {
    let Rows { outer, inner, len: have } = from;
    if y.len() != outer * inner * len * size_of::<B>() {
        return Err(Error::value("fft", format!("an output of {} bytes", y.len())));
    }
    let out = raw::Ptr::new(y.as_mut_ptr());
    let take = have.min(fill);
    let together = if inner == 1 { (TASK / fill.max(1)).clamp(1, 64) } else { NEIGHBOURS.min(inner) };
    // Tasks go over blocks of neighbours: of the outer axes when rows are dense, else of the inner ones.
    let (blocks, count) = if inner == 1 {
        (1, outer.div_ceil(together))
    } else {
        (inner.div_ceil(together), outer * inner.div_ceil(together))
    };
    pool::parallel_for(count, &|task| {
        // A line or two more from row to row keep rows, which are often powers of two, out of each other's cache sets.
        let (apart, results_apart) = (fill + APART, len + APART);
        let mut values = vec![A::default(); if inner == 1 { fill } else { 0 }];
        let mut many = vec![A::default(); if inner == 1 { 0 } else { apart * together }];
        let mut result = vec![B::default(); if inner == 1 { 0 } else { results_apart * together }];
        let mut room = Room::default();
        let write = |at: usize, v: B| {
            // SAFETY: `at` is one of the `outer * inner * len` elements of the output, which has aligned room
            // for them; every element belongs to one row, and every row to one task.
            unsafe { out.get().cast::<B>().add(at).write(v) }
        };
        if inner == 1 {
            for row in task * together..((task + 1) * together).min(outer) {
                for (v, &s) in values.iter_mut().zip(&x[row * have..row * have + take]) {
                    *v = widen(s);
                }
                values[take..].fill(A::default());
                // SAFETY: a row of the output, which has aligned room for all of them; any bits are a value; a
                // row belongs to one task.
                let result =
                    unsafe { std::slice::from_raw_parts_mut(out.get().cast::<B>().add(row * len), len) };
                transform(&mut values, result, &mut room);
            }
            return;
        }
        let (o, first) = (task / blocks, task % blocks * together);
        let lines = together.min(inner - first);
        for j in 0..take {
            let at = (o * have + j) * inner + first;
            for (l, &s) in x[at..at + lines].iter().enumerate() {
                many[l * apart + j] = widen(s);
            }
        }
        for l in 0..lines {
            let line = &mut many[l * apart..l * apart + fill];
            line[take..].fill(A::default());
            transform(line, &mut result[l * results_apart..][..len], &mut room);
        }
        for k in 0..len {
            for l in 0..lines {
                write((o * len + k) * inner + first + l, result[l * results_apart + k]);
            }
        }
    });
    Ok(())
}

fn narrow<R: Number>(z: Complex<R>, scale: R) -> Complex<f32> {
    Complex::new((z.re * scale).to_f32(), (z.im * scale).to_f32())
}

fn complex<R: Transform, X: Copy + Sync>(
    op: &Fft,
    x: &[X],
    from: Rows,
    scale: f64,
    y: &mut [u8],
    widen: impl Fn(X) -> Complex<R> + Sync,
) -> Result<()> {
    let plan = R::complex(op.n, if op.inverse { Direction::Inverse } else { Direction::Forward });
    let scale = R::of(scale);
    let transform = |row: &mut [Complex<R>], out: &mut [Complex<f32>], room: &mut Room<R>| {
        plan(row, &mut room.scratch);
        for (o, &z) in out.iter_mut().zip(row.iter()) {
            *o = narrow(z, scale);
        }
    };
    each(x, from, op.n, op.n, y, widen, transform)
}

fn to_half<R: Transform>(op: &Fft, x: &[R], from: Rows, scale: f64, y: &mut [u8]) -> Result<()> {
    let (scale, half) = (R::of(scale), op.n / 2 + 1);
    if op.n.is_multiple_of(2) {
        let (factors, plan) = R::halves(op.n);
        let (quarter, one_minus) = (&factors[..], half - 1);
        return each(
            x,
            from,
            op.n,
            half,
            y,
            |v: R| v,
            |row: &mut [R], out: &mut [Complex<f32>], room: &mut Room<R>| {
                room.spectrum.resize(half, Complex::default());
                let pairs = &mut room.spectrum[..one_minus];
                for (z, pair) in pairs.iter_mut().zip(row.chunks_exact(2)) {
                    *z = Complex::new(pair[0], pair[1]);
                }
                plan(pairs, &mut room.scratch);
                dispatch(Untangle { pairs, factors: quarter, scale, out });
            },
        );
    }
    let plan = R::forward(op.n);
    each(
        x,
        from,
        op.n,
        half,
        y,
        |v: R| v,
        |row: &mut [R], out: &mut [Complex<f32>], room: &mut Room<R>| {
            room.spectrum.resize(half, Complex::default());
            plan(row, &mut room.spectrum, &mut room.scratch);
            for (o, &z) in out.iter_mut().zip(&room.spectrum) {
                *o = narrow(z, scale);
            }
        },
    )
}

/// From the spectrum `z` of `x[0] + i x[1], x[2] + i x[3], …`, `m` numbers, to that of `x`: even and odd places have the
/// spectra `(z[k] + conj(z[m - k])) / 2` and `(z[k] - conj(z[m - k])) / 2i`.
struct Untangle<'a, R> {
    pairs: &'a [Complex<R>],
    factors: &'a [Complex<R>],
    scale: R,
    /// One more than pairs.
    out: &'a mut [Complex<f32>],
}

/// Places, and their mirror images, that are taken apart together.
const MIRRORED: usize = 16;

impl<R: Number> Kernel for Untangle<'_, R> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, _s: S) {
        let Untangle { pairs: z, factors, scale, out } = self;
        let (m, half) = (z.len(), scale * R::of(0.5));
        let out = &mut out[..m + 1];
        out[0] = narrow(Complex::new(z[0].re + z[0].im, R::of(0.0)), scale);
        out[m] = narrow(Complex::new(z[0].re - z[0].im, R::of(0.0)), scale);
        // Places 1 to `last` meet their images, the middle one itself.
        let last = m / 2;
        let one = |a: Complex<R>, b: Complex<R>, w: Complex<R>| {
            let (sum, difference) =
                (Complex::new(a.re + b.re, a.im - b.im), Complex::new(a.re - b.re, a.im + b.im));
            // `difference` times `-i w`.
            let turned = Complex::new(
                difference.re * w.im + difference.im * w.re,
                difference.im * w.im - difference.re * w.re,
            );
            (narrow(sum + turned, half), narrow(Complex::new(sum.re - turned.re, turned.im - sum.im), half))
        };
        let mut k = 1;
        while k + MIRRORED <= last {
            let (front, back) = out.split_at_mut(k + MIRRORED);
            let end = m - k + 1 - (k + MIRRORED);
            let front = &mut front[k..];
            let back = &mut back[end - MIRRORED..end];
            let (a, w) = (&z[k..k + MIRRORED], &factors[k..k + MIRRORED]);
            let b = &z[m - k + 1 - MIRRORED..m - k + 1];
            for j in 0..MIRRORED {
                let (x, y) = one(a[j], b[MIRRORED - 1 - j], w[j]);
                front[j] = x;
                back[MIRRORED - 1 - j] = y;
            }
            k += MIRRORED;
        }
        for k in k..=last {
            let (x, y) = one(z[k], z[m - k], factors[k]);
            out[k] = x;
            out[m - k] = y;
        }
    }
}

fn to_real(op: &Fft, x: &[Complex<f32>], from: Rows, scale: f64, y: &mut [u8]) -> Result<()> {
    let plan = f32::inverse(op.n);
    let (scale, half) = (scale as f32, op.n / 2 + 1);
    each(
        x,
        from,
        half,
        op.n,
        y,
        |z| z,
        |row: &mut [Complex<f32>], out: &mut [f32], room: &mut Room<f32>| {
            plan(row, out, &mut room.scratch);
            for o in out.iter_mut() {
                *o *= scale;
            }
        },
    )
}

type Run<R> = Box<dyn Fn(&mut [Complex<R>], &mut Vec<Complex<R>>) + Sync>;
type RunInto<A, B, R> = Box<dyn Fn(&mut [A], &mut [B], &mut Vec<Complex<R>>) + Sync>;

/// Plans of either precision as functions.
trait Transform: Number {
    fn complex(n: usize, direction: Direction) -> Run<Self>;
    fn forward(n: usize) -> RunInto<Self, Complex<Self>, Self>;
    /// For an even length: the factors of its first quarter, and the complex transform of half the length.
    fn halves(n: usize) -> (Vec<Complex<Self>>, Run<Self>);
    fn inverse(n: usize) -> RunInto<Complex<Self>, Self, Self>;
}

macro_rules! transform {
    ($t:ty) => {
        impl Transform for $t {
            fn complex(n: usize, direction: Direction) -> Run<$t> {
                let plan = <$t>::plan(n, direction);
                Box::new(move |row, scratch| plan.run(row, scratch))
            }
            fn forward(n: usize) -> RunInto<$t, Complex<$t>, $t> {
                let plan = <$t>::real_forward(n);
                Box::new(move |row, out, scratch| {
                    let done = plan.run(row, out, scratch);
                    debug_assert!(done, "rows have the length of the plan");
                })
            }
            fn halves(n: usize) -> (Vec<Complex<$t>>, Run<$t>) {
                let plan = <$t as Real>::half_length(n);
                (plan.factors().to_vec(), Box::new(move |row, scratch| plan.run(row, scratch)))
            }
            fn inverse(n: usize) -> RunInto<Complex<$t>, $t, $t> {
                let plan = <$t>::real_inverse(n);
                Box::new(move |row, out, scratch| {
                    let done = plan.run(row, out, scratch);
                    debug_assert!(done, "rows have the length of the plan");
                })
            }
        }
    };
}
transform!(f32);
transform!(f64);
