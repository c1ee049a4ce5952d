//! Convolutions with one channel per group: every channel has weights of its own, and memory sets the pace.

use super::windows::Phase;
use super::{Number, Sizes};
use crate::gemm::{C64, Grid};
use crate::lanes::{Element, Kernel, Lanes, dispatch};
use crate::{pool, raw};
use half::{bf16, f16};
use olivine_core::Result;

/// Sums over the taps of a window, channel by channel.
pub trait Depthwise: Copy + Send + Sync + 'static {
    /// `out[c * apart] = sum over (x_at, w_at) of taps: x[x_at + c] * w[w_at + c]`, for `channels` channels.
    #[doc(hidden)]
    fn sums(x: &[Self], w: &[Self], taps: &[(usize, usize)], channels: usize, apart: usize, out: &mut [Self]);
}

/// Sums in `f32` registers, four vectors at a time, and a tail of single channels.
struct Sums<'a, T> {
    x: &'a [T],
    w: &'a [T],
    taps: &'a [(usize, usize)],
    channels: usize,
    apart: usize,
    out: &'a mut [T],
}

impl<T: Element> Kernel for Sums<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Sums { x, w, taps, channels, apart, out } = self;
        const AT_ONCE: usize = 4;
        let mut c = 0;
        // Slices that end where the last channel of a tap does keep every load below in bounds.
        let fits = taps.iter().all(|&(a, b)| a + channels <= x.len() && b + channels <= w.len());
        assert!(fits && (apart != 1 || out.len() >= channels), "taps lie inside the input");
        while apart == 1 && c + S::N <= channels {
            let vectors = ((channels - c) / S::N).min(AT_ONCE);
            let mut acc = [s.splat(0.0); AT_ONCE];
            for &(a, b) in taps {
                for (v, sum) in acc.iter_mut().enumerate().take(vectors) {
                    // SAFETY: `c + vectors * N` does not exceed the channels, which lie inside, see above.
                    unsafe {
                        let xv = T::load(s, x.as_ptr().add(a + c + v * S::N));
                        let wv = T::load(s, w.as_ptr().add(b + c + v * S::N));
                        *sum = s.fma(xv, wv, *sum);
                    }
                }
            }
            for (v, &sum) in acc.iter().enumerate().take(vectors) {
                // SAFETY: as above, for the output.
                unsafe { T::store(s, out.as_mut_ptr().add(c + v * S::N), sum) }
            }
            c += vectors * S::N;
        }
        for c in c..channels {
            let sum =
                taps.iter().fold(0.0f32, |sum, &(a, b)| x[a + c].to_f32().mul_add(w[b + c].to_f32(), sum));
            out[c * apart] = T::from_f32(sum);
        }
    }
}

macro_rules! small {
    ($($t:ty),*) => { $(
        impl Depthwise for $t {
            fn sums(x: &[$t], w: &[$t], taps: &[(usize, usize)], channels: usize, apart: usize, out: &mut [$t]) {
                dispatch(Sums { x, w, taps, channels, apart, out });
            }
        }
    )* };
}
small!(f32, f16, bf16);

impl Depthwise for f64 {
    fn sums(x: &[f64], w: &[f64], taps: &[(usize, usize)], channels: usize, apart: usize, out: &mut [f64]) {
        for c in 0..channels {
            out[c * apart] = taps.iter().map(|&(a, b)| x[a + c] * w[b + c]).sum();
        }
    }
}

impl Depthwise for C64 {
    fn sums(x: &[C64], w: &[C64], taps: &[(usize, usize)], channels: usize, apart: usize, out: &mut [C64]) {
        for c in 0..channels {
            out[c * apart] = taps.iter().fold(C64::default(), |s, &(a, b)| {
                let (p, q) = (x[a + c], w[b + c]);
                C64 { re: s.re + p.re * q.re - p.im * q.im, im: s.im + p.re * q.im + p.im * q.re }
            });
        }
    }
}

/// One combination of phases; `w` holds its taps, `[features, taps]`.
pub(super) fn run<T: Number>(
    sizes: &Sizes,
    phases: [&Phase; 3],
    grid: &Grid,
    x: &[T],
    w: &[T],
    y: &mut [T],
) -> Result<()> {
    let (channels, per_channel) = (sizes.channels, sizes.features / sizes.groups);
    let taps: usize = phases.iter().map(|p| p.taps.len()).product();
    // Weights with the channels inside: for each feature of a channel, for each tap.
    let mut turned = vec![T::default(); w.len()];
    for (i, v) in turned.iter_mut().enumerate() {
        let (c, rest) = (i % channels, i / channels);
        let (tap, j) = (rest % taps, rest / taps);
        *v = w[(c * per_channel + j) * taps + tap];
    }
    let [c0, c1, c2] = phases.map(|p| p.count);
    let [n0, n1, n2] = sizes.input;
    let len = y.len();
    let out = raw::Ptr::new(y.as_mut_ptr().cast());
    pool::parallel_for(sizes.batch * c0 * c1, &|task| {
        let (i1, i0, image) = (task % c1, task / c1 % c0, task / (c1 * c0));
        let place = |d: usize, i: usize, t: usize| phases[d].taps[t].place + i as i64 * phases[d].step;
        let inside = |p: i64, n: usize| (0..n as i64).contains(&p).then_some(p as usize);
        let row = grid.base + image * grid.strides[0] + i0 * grid.strides[1] + i1 * grid.strides[2];
        // Rows of the input that this row of results meets: first element and first tap.
        let mut rows = Vec::new();
        for t0 in 0..phases[0].taps.len() {
            for t1 in 0..phases[1].taps.len() {
                let at = inside(place(0, i0, t0), n0).zip(inside(place(1, i1, t1), n1));
                if let Some((p0, p1)) = at {
                    let first = ((image * n0 + p0) * n1 + p1) * n2 * channels;
                    rows.push((first, (t0 * phases[1].taps.len() + t1) * phases[2].taps.len()));
                }
            }
        }
        let mut met = Vec::with_capacity(taps);
        for i2 in 0..c2 {
            let at = row + i2 * grid.strides[3];
            assert!(at + sizes.features <= len, "results lie inside the output");
            // SAFETY: inside the output by the check above; no other task and no other `i2` has these results,
            // as a grid of distinct positions of the output says.
            let out =
                unsafe { std::slice::from_raw_parts_mut(out.get().cast::<T>().add(at), sizes.features) };
            for j in 0..per_channel {
                met.clear();
                for &(first, tap) in &rows {
                    for t2 in 0..phases[2].taps.len() {
                        if let Some(p2) = inside(place(2, i2, t2), n2) {
                            met.push((first + p2 * channels, (j * taps + tap + t2) * channels));
                        }
                    }
                }
                T::sums(x, &turned, &met, channels, per_channel, &mut out[j..]);
            }
        }
    });
    Ok(())
}
