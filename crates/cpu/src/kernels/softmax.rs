//! Softmax and log-sum-exp over the last axis.

use super::{Floats, FloatsMut, Result, Scratch, Shared, ensure, through_f32, with_same_floats};
use crate::lanes::{Element, Kernel, Lanes, dispatch_at, narrow};
use crate::pool::parallel_ranges;
use crate::simd::{Level, level};
use crate::vecmath::exp;
use std::any::TypeId;

/// Elements that are worth a task.
const GRAIN: usize = 1 << 13;

/// exp(x - max) / sum(exp(x - max)) over rows of `n` elements.
///
/// Any mix of storage types; computed in `f32`. As in NumPy, a row with NaN or +inf, or of -inf throughout,
/// gives NaN.
///
/// # Errors
/// When lengths do not fit.
pub fn softmax(x: Floats<'_>, n: usize, out: FloatsMut<'_>) -> Result<()> {
    softmax_at(level(), x, n, out)
}

fn softmax_at(at: Level, x: Floats<'_>, n: usize, out: FloatsMut<'_>) -> Result<()> {
    const OP: &str = "softmax";
    ensure!(x.len() == out.len(), OP, "x has {} elements, the result {}", x.len(), out.len());
    ensure!(n > 0 && x.len().is_multiple_of(n), OP, "{} elements are not rows of {n}", x.len());
    let rows = x.len() / n;
    with_same_floats!(x, out, (x, out) => {
        let to = Shared(out.as_mut_ptr());
        parallel_ranges(rows, GRAIN.div_ceil(n), &|range| {
            // SAFETY: `out` has the length of `x`; ranges do not overlap.
            let out = unsafe { std::slice::from_raw_parts_mut(to.get().add(range.start * n), range.len() * n) };
            dispatch_at(at, Softmax { x: &x[range.start * n..range.end * n], n, out });
        });
    }, out => return through_f32(at, x, out, |x, out| softmax_at(at, x, n, out)));
    Ok(())
}

/// log(sum(exp(x))) over rows of `n` elements; `out` has one element a row.
///
/// Any mix of storage types; computed in `f32`. A row of -inf gives -inf, one with +inf and no NaN +inf.
///
/// # Errors
/// When lengths do not fit.
pub fn logsumexp(x: Floats<'_>, n: usize, out: FloatsMut<'_>) -> Result<()> {
    logsumexp_at(level(), x, n, out)
}

fn logsumexp_at(at: Level, x: Floats<'_>, n: usize, out: FloatsMut<'_>) -> Result<()> {
    const OP: &str = "logsumexp";
    ensure!(n > 0 && x.len().is_multiple_of(n), OP, "{} elements are not rows of {n}", x.len());
    let rows = x.len() / n;
    ensure!(out.len() == rows, OP, "the result has {} elements for {rows} rows", out.len());
    with_same_floats!(x, out, (x, out) => {
        let to = Shared(out.as_mut_ptr());
        parallel_ranges(rows, GRAIN.div_ceil(n), &|range| {
            // SAFETY: `out` has one element a row; ranges do not overlap.
            let out = unsafe { std::slice::from_raw_parts_mut(to.get().add(range.start), range.len()) };
            dispatch_at(at, LogSumExp { x: &x[range.start * n..range.end * n], n, out });
        });
    }, out => return through_f32(at, x, out, |x, out| logsumexp_at(at, x, n, out)));
    Ok(())
}

/// Largest element; NaN may be passed over.
#[inline(always)]
fn largest<S: Lanes, X: Element>(s: S, x: &[X]) -> f32 {
    let (p, n) = (x.as_ptr(), x.len());
    let mut acc = [s.splat(f32::NEG_INFINITY); 4];
    let mut i = 0;
    // SAFETY: whole registers while they fit.
    unsafe {
        while i + 4 * S::N <= n {
            for (j, acc) in acc.iter_mut().enumerate() {
                *acc = s.max(X::load(s, p.add(i + j * S::N)), *acc);
            }
            i += 4 * S::N;
        }
        while i + S::N <= n {
            acc[0] = s.max(X::load(s, p.add(i)), acc[0]);
            i += S::N;
        }
    }
    let most = s.reduce_max(s.max(s.max(acc[0], acc[1]), s.max(acc[2], acc[3])));
    x[i..].iter().fold(most, |m, x| m.max(x.to_f32()))
}

/// Sum of exp(x - shift); where `store`, the terms go to `out`.
///
/// # Safety
/// With `store`, `out` is valid for writing `x.len()` floats.
#[inline(always)]
unsafe fn sum_exp<S: Lanes, X: Element>(s: S, x: &[X], shift: f32, store: bool, out: *mut f32) -> f32 {
    let (p, n) = (x.as_ptr(), x.len());
    let vs = s.splat(shift);
    let mut acc = [s.splat(0.0); 4];
    let mut i = 0;
    let mut last = 0.0;
    // SAFETY: whole registers while they fit, `n - i` lanes for the last one.
    unsafe {
        while i + 4 * S::N <= n {
            for (j, acc) in acc.iter_mut().enumerate() {
                let e = exp(s, s.sub(X::load(s, p.add(i + j * S::N)), vs));
                if store {
                    s.store(out.add(i + j * S::N), e);
                }
                *acc = s.add(*acc, e);
            }
            i += 4 * S::N;
        }
        while i < n {
            let left = n - i;
            let mut e = [0.0; crate::lanes::MAX_LANES];
            s.store(e.as_mut_ptr(), exp(s, s.sub(X::load_part(s, p.add(i), left), vs)));
            let e = &e[..left.min(S::N)];
            if store {
                std::ptr::copy_nonoverlapping(e.as_ptr(), out.add(i), e.len());
            }
            last += e.iter().sum::<f32>();
            i += S::N;
        }
    }
    last + s.reduce_add(s.add(s.add(acc[0], acc[1]), s.add(acc[2], acc[3])))
}

struct Softmax<'a, T> {
    x: &'a [T],
    n: usize,
    out: &'a mut [T],
}

impl<T: Element> Kernel for Softmax<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let n = self.n;
        // Terms stay in the result where that is f32, else in working memory.
        let in_place = TypeId::of::<T>() == TypeId::of::<f32>();
        let mut scratch = Scratch::take(if in_place { 0 } else { n });
        for (x, out) in self.x.chunks_exact(n).zip(self.out.chunks_exact_mut(n)) {
            let terms: &mut [f32] = if in_place {
                // SAFETY: the type is f32.
                unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), n) }
            } else {
                &mut scratch
            };
            let most = largest(s, x);
            // SAFETY: `terms` has n floats.
            let total = unsafe { sum_exp(s, x, most, true, terms.as_mut_ptr()) };
            let factor = s.splat(1.0 / total);
            let mut i = 0;
            while i < n {
                // SAFETY: partial registers stop at n.
                unsafe {
                    let p = terms.as_mut_ptr().add(i);
                    if n - i >= S::N {
                        s.store(p, s.mul(s.load(p), factor));
                    } else {
                        s.store_part(p, n - i, s.mul(s.load_part(p, n - i), factor));
                    }
                }
                i += S::N;
            }
            if !in_place {
                narrow(s, &scratch, out);
            }
        }
    }
}

struct LogSumExp<'a, T> {
    x: &'a [T],
    n: usize,
    out: &'a mut [T],
}

impl<T: Element> Kernel for LogSumExp<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        for (x, out) in self.x.chunks_exact(self.n).zip(self.out.iter_mut()) {
            let most = largest(s, x);
            // An infinite shift would turn the infinities that decide the result into NaN.
            let shift = if most.is_finite() { most } else { 0.0 };
            // SAFETY: nothing is stored.
            let total = unsafe { sum_exp(s, x, shift, false, std::ptr::null_mut()) };
            *out = T::from_f32(shift + total.ln());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    const LEVELS: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

    fn check<X: Element, Y: Element>(rows: usize, n: usize, size: f32, unit: f64)
    where
        for<'a> Floats<'a>: From<&'a [X]>,
        for<'a> FloatsMut<'a>: From<&'a mut [Y]>,
    {
        let x: Vec<X> = (0..(rows * n) as u32)
            .map(|i| {
                X::from_f32(size * ((i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1u32 << 23) as f32 - 1.0))
            })
            .collect();
        for at in LEVELS {
            let (mut y, mut l) = (vec![Y::default(); rows * n], vec![Y::default(); rows]);
            softmax_at(at, x.as_slice().into(), n, y.as_mut_slice().into()).unwrap();
            logsumexp_at(at, x.as_slice().into(), n, l.as_mut_slice().into()).unwrap();
            for (r, x) in x.chunks(n).enumerate() {
                let most = x.iter().map(|x| x.to_f32() as f64).fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = x.iter().map(|x| (x.to_f32() as f64 - most).exp()).sum();
                for (i, x) in x.iter().enumerate() {
                    let (got, want) =
                        (y[r * n + i].to_f32() as f64, (x.to_f32() as f64 - most).exp() / total);
                    assert!(
                        (got - want).abs() <= unit * want + 1e-7,
                        "{at:?} {rows}x{n} at {r},{i}: {got}, not {want}"
                    );
                }
                let (got, want) = (l[r].to_f32() as f64, most + total.ln());
                assert!(
                    (got - want).abs() <= unit * want.abs().max(1.0),
                    "{at:?} {rows}x{n} row {r}: {got}, not {want}"
                );
            }
        }
    }

    #[test]
    fn rows_of_many_widths() {
        for n in [1, 2, 8, 15, 16, 17, 63, 64, 65, 130, 1000, 50_000] {
            check::<f32, f32>(3, n, 8.0, 1e-5);
        }
        check::<f32, f32>(500, 40, 90.0, 1e-5);
    }

    #[test]
    fn every_type() {
        for n in [17, 300] {
            check::<f16, f16>(3, n, 5.0, 1e-3);
            check::<bf16, bf16>(3, n, 5.0, 8e-3);
            check::<bf16, f32>(3, n, 5.0, 1e-5);
            check::<f32, f16>(3, n, 5.0, 1e-3);
        }
    }

    #[test]
    fn infinities_and_nan() {
        let inf = f32::INFINITY;
        for n in [3, 40] {
            for at in LEVELS {
                let run = |fill: f32, first: f32| {
                    let mut x = vec![fill; n];
                    x[0] = first;
                    let (mut y, mut l) = (vec![0.0f32; n], [0.0f32]);
                    softmax_at(at, x.as_slice().into(), n, y.as_mut_slice().into()).unwrap();
                    logsumexp_at(at, x.as_slice().into(), n, l.as_mut_slice().into()).unwrap();
                    (y, l[0])
                };
                let (y, l) = run(-inf, -inf);
                assert!(y.iter().all(|y| y.is_nan()) && l == -inf, "{at:?} {y:?} {l}");
                let (y, l) = run(-inf, 5.0);
                assert!(y[0] == 1.0 && y[1..].iter().all(|&y| y == 0.0) && l == 5.0, "{at:?} {y:?} {l}");
                let (y, l) = run(1.0, inf);
                assert!(y[0].is_nan() && l == inf, "{at:?} {y:?} {l}");
                for fill in [0.0, -inf, inf] {
                    let (y, l) = run(fill, f32::NAN);
                    assert!(y.iter().all(|y| y.is_nan()) && l.is_nan(), "{at:?} {y:?} {l}");
                }
            }
        }
    }

    #[test]
    fn wrong_sizes_are_errors() {
        let (x, mut y) = ([0.0f32; 12], [0.0f32; 12]);
        let e = softmax(Floats::F32(&x), 5, FloatsMut::F32(&mut y)).unwrap_err().to_string();
        assert_eq!(e, "[softmax] 12 elements are not rows of 5");
        let e = softmax(Floats::F32(&x), 4, FloatsMut::F32(&mut y[..8])).unwrap_err().to_string();
        assert_eq!(e, "[softmax] x has 12 elements, the result 8");
        let e = logsumexp(Floats::F32(&x), 4, FloatsMut::F32(&mut y)).unwrap_err().to_string();
        assert_eq!(e, "[logsumexp] the result has 12 elements for 3 rows");
    }
}
