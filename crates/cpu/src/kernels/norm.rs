//! Root-mean-square and layer normalisation over the last axis.

use super::{Floats, FloatsMut, Result, Shared, ensure, through_f32, widen_all, with_same_floats};
use crate::lanes::{Element, Kernel, Lanes, dispatch_at};
use crate::pool::parallel_ranges;
use crate::simd::{Level, level};
use std::borrow::Cow;

/// Elements that are worth a task.
const GRAIN: usize = 1 << 14;

/// x / sqrt(mean(x^2) + eps) * weight over rows of `n` elements (Zhang and Sennrich, arXiv:1910.07467).
///
/// Any mix of storage types; computed in `f32` and rounded once.
///
/// # Errors
/// When lengths do not fit.
pub fn rms_norm(
    x: Floats<'_>,
    weight: Option<Floats<'_>>,
    eps: f32,
    n: usize,
    out: FloatsMut<'_>,
) -> Result<()> {
    norm_at(level(), "rms_norm", x, [weight, None], eps, n, false, out)
}

/// (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over rows of `n` elements (Ba and others,
/// arXiv:1607.06450), with the biased variance.
///
/// Any mix of storage types; computed in `f32`, the variance from differences to the mean, and rounded once.
///
/// # Errors
/// When lengths do not fit.
pub fn layer_norm(
    x: Floats<'_>,
    weight: Option<Floats<'_>>,
    bias: Option<Floats<'_>>,
    eps: f32,
    n: usize,
    out: FloatsMut<'_>,
) -> Result<()> {
    norm_at(level(), "layer_norm", x, [weight, bias], eps, n, true, out)
}

/// Widened once for all rows.
fn widened<'a>(at: Level, x: Floats<'a>) -> Cow<'a, [f32]> {
    match x {
        Floats::F32(x) => Cow::Borrowed(x),
        x => {
            let mut buf = vec![0.0; x.len()];
            widen_all(at, x, &mut buf);
            Cow::Owned(buf)
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "what both norms check and compute differs in these alone")]
fn norm_at(
    at: Level,
    op: &'static str,
    x: Floats<'_>,
    weight_bias: [Option<Floats<'_>>; 2],
    eps: f32,
    n: usize,
    center: bool,
    out: FloatsMut<'_>,
) -> Result<()> {
    ensure!(x.len() == out.len(), op, "x has {} elements, the result {}", x.len(), out.len());
    ensure!(n > 0 && x.len().is_multiple_of(n), op, "{} elements are not rows of {n}", x.len());
    for (name, w) in ["weight", "bias"].iter().zip(weight_bias) {
        let len = w.map_or(n, |w| w.len());
        ensure!(len == n, op, "{name} has {len} elements for rows of {n}");
    }
    let [weight, bias] = weight_bias.map(|w| w.map(|w| widened(at, w)));
    let (weight, bias) = (weight.as_deref(), bias.as_deref());
    let rows = x.len() / n;
    with_same_floats!(x, out, (x, out) => {
        let to = Shared(out.as_mut_ptr());
        parallel_ranges(rows, GRAIN.div_ceil(n), &|range| {
            // SAFETY: `out` has the length of `x`; ranges do not overlap.
            let out = unsafe { std::slice::from_raw_parts_mut(to.get().add(range.start * n), range.len() * n) };
            let x = &x[range.start * n..range.end * n];
            dispatch_at(at, Rows { x, weight, bias, eps, n, center, out });
        });
    }, out => return through_f32(at, x, out, |x, out| norm_at(at, op, x, weight_bias, eps, n, center, out)));
    Ok(())
}

struct Rows<'a, T> {
    x: &'a [T],
    weight: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
    eps: f32,
    n: usize,
    center: bool,
    out: &'a mut [T],
}

impl<T: Element> Kernel for Rows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let n = self.n;
        for (x, out) in self.x.chunks_exact(n).zip(self.out.chunks_exact_mut(n)) {
            let mean = if self.center { sum::<S, T, false>(s, x, 0.0) / n as f32 } else { 0.0 };
            let factor = 1.0 / (sum::<S, T, true>(s, x, mean) / n as f32 + self.eps).sqrt();
            let (mean, factor) = (s.splat(mean), s.splat(factor));
            let mut i = 0;
            while i < n {
                let left = n - i;
                // SAFETY: weight, bias and out have n elements; partial registers stop there.
                unsafe {
                    let v = if left >= S::N {
                        T::load(s, x.as_ptr().add(i))
                    } else {
                        T::load_part(s, x.as_ptr().add(i), left)
                    };
                    let mut v = s.mul(s.sub(v, mean), factor);
                    if let Some(w) = self.weight {
                        v = s.mul(v, s.load_part(w.as_ptr().add(i), left));
                    }
                    if let Some(b) = self.bias {
                        v = s.add(v, s.load_part(b.as_ptr().add(i), left));
                    }
                    if left >= S::N {
                        T::store(s, out.as_mut_ptr().add(i), v);
                    } else {
                        T::store_part(s, out.as_mut_ptr().add(i), left, v);
                    }
                }
                i += S::N;
            }
        }
    }
}

/// Sum of x - mean, or of its square.
#[inline(always)]
fn sum<S: Lanes, X: Element, const SQUARE: bool>(s: S, x: &[X], mean: f32) -> f32 {
    let (p, n) = (x.as_ptr(), x.len());
    let shift = s.splat(mean);
    let mut acc = [s.splat(0.0); 4];
    let mut i = 0;
    // SAFETY: whole registers while they fit, `n - i` lanes for the last one.
    unsafe {
        while i + 4 * S::N <= n {
            for (j, acc) in acc.iter_mut().enumerate() {
                let d = s.sub(X::load(s, p.add(i + j * S::N)), shift);
                *acc = if SQUARE { s.mul_acc(d, d, *acc) } else { s.add(d, *acc) };
            }
            i += 4 * S::N;
        }
        while i < n {
            let left = n - i;
            let d = if left >= S::N {
                s.sub(X::load(s, p.add(i)), shift)
            } else {
                // Lanes past the end must count as zero after the shift too.
                let mut d = [0.0; crate::lanes::MAX_LANES];
                s.store(d.as_mut_ptr(), s.sub(X::load_part(s, p.add(i), left), shift));
                d[left..].fill(0.0);
                s.load(d.as_ptr())
            };
            acc[0] = if SQUARE { s.mul_acc(d, d, acc[0]) } else { s.add(d, acc[0]) };
            i += S::N;
        }
    }
    s.reduce_add(s.add(s.add(acc[0], acc[1]), s.add(acc[2], acc[3])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    const LEVELS: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

    fn noise(n: usize, seed: u32) -> Vec<f32> {
        (0..n as u32)
            .map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 8) as f32 / (1u32 << 23) as f32 - 0.3)
            .collect()
    }

    fn check<X: Element, W: Element, Y: Element>(rows: usize, n: usize, unit: f64)
    where
        for<'a> Floats<'a>: From<&'a [X]> + From<&'a [W]>,
        for<'a> FloatsMut<'a>: From<&'a mut [Y]>,
    {
        let x: Vec<X> = noise(rows * n, 1).into_iter().map(X::from_f32).collect();
        let w: Vec<W> = noise(n, 7).into_iter().map(W::from_f32).collect();
        let b: Vec<W> = noise(n, 9).into_iter().map(W::from_f32).collect();
        for at in LEVELS {
            for (center, weight, bias) in [
                (false, false, false),
                (false, true, false),
                (true, false, false),
                (true, true, false),
                (true, true, true),
                (true, false, true),
            ] {
                let mut y = vec![Y::default(); rows * n];
                let pick = |on: bool, w: &'static [W]| on.then(|| Floats::from(w));
                let (w, b): (&'static [W], &'static [W]) = (w.clone().leak(), b.clone().leak());
                norm_at(
                    at,
                    "norm",
                    x.as_slice().into(),
                    [pick(weight, w), pick(bias, b)],
                    1e-5,
                    n,
                    center,
                    y.as_mut_slice().into(),
                )
                .unwrap();
                for (x, y) in x.chunks(n).zip(y.chunks(n)) {
                    let x: Vec<f64> = x.iter().map(|x| x.to_f32() as f64).collect();
                    let mean = if center { x.iter().sum::<f64>() / n as f64 } else { 0.0 };
                    let var = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
                    for i in 0..n {
                        let mut want = (x[i] - mean) / (var + 1e-5f32 as f64).sqrt();
                        if weight {
                            want *= w[i].to_f32() as f64;
                        }
                        if bias {
                            want += b[i].to_f32() as f64;
                        }
                        let got = y[i].to_f32() as f64;
                        assert!(
                            (got - want).abs() <= unit * want.abs() + 3e-6,
                            "{at:?} {rows}x{n} {center} at {i}: {got}, not {want}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn norms_of_many_widths() {
        for n in [1, 2, 7, 15, 16, 17, 31, 64, 100, 576, 1025, 4096] {
            check::<f32, f32, f32>(5, n, 1e-6);
        }
        check::<f32, f32, f32>(400, 96, 1e-6);
    }

    #[test]
    fn norms_of_every_type() {
        for n in [33, 640] {
            check::<f16, f16, f16>(3, n, 1e-3);
            check::<bf16, bf16, bf16>(3, n, 8e-3);
            check::<bf16, f32, bf16>(3, n, 8e-3);
            check::<f16, bf16, f32>(3, n, 1e-6);
            check::<f32, f16, bf16>(3, n, 8e-3);
        }
    }

    #[test]
    fn a_large_mean_does_not_swamp_the_variance() {
        let x: Vec<f32> = (0..1000).map(|i| 30_000.0 + (i % 2) as f32).collect();
        let mut y = vec![0.0f32; 1000];
        layer_norm(x.as_slice().into(), None, None, 0.0, 1000, y.as_mut_slice().into()).unwrap();
        assert!(
            y.iter().enumerate().all(|(i, y)| (y - (i % 2 * 2) as f32 + 1.0).abs() < 2e-2),
            "{:?}",
            &y[..4]
        );
    }

    #[test]
    fn wrong_sizes_are_errors() {
        let x = [1.0f32; 12];
        let run = |n, w: Option<usize>, len: usize| {
            let mut y = [0.0f32; 12];
            rms_norm(Floats::F32(&x), w.map(|w| Floats::F32(&x[..w])), 1e-5, n, FloatsMut::F32(&mut y[..len]))
                .map_err(|e| e.to_string())
        };
        assert_eq!(run(4, Some(4), 12), Ok(()));
        for (result, part) in [
            (run(5, None, 12), "rows of 5"),
            (run(0, None, 12), "rows of 0"),
            (run(4, Some(3), 12), "weight has 3"),
            (run(4, None, 11), "the result 11"),
        ] {
            let e = result.unwrap_err();
            assert!(e.starts_with("[rms_norm]") && e.contains(part), "{e}");
        }
    }
}
