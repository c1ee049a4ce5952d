//! y = x w^T for a few rows of x, bound by reading w.

use super::Quantized;
use super::decode::dequantize_span;
#[cfg(target_arch = "x86_64")]
use super::{avx512, fixed};
use crate::kernels::{Scratch, Shared};
use crate::lanes::{Kernel, Lanes, dispatch_at};
use crate::pool::parallel_ranges;
use crate::simd::Level;

/// Bytes of packed weights that are worth a task.
const GRAIN: usize = 1 << 14;

/// y = x w^T with x `[m, cols]`, y `[m, rows]`, m at most [`super::FEW`]. `at` is a level of this machine.
pub(super) fn multiply(at: Level, x: &[f32], w: &Quantized<'_>, m: usize, y: &mut [f32]) {
    let grain = GRAIN.div_ceil(w.row_words() * 4 + 1);
    #[cfg(target_arch = "x86_64")]
    if at >= Level::Avx512 && avx512::fits(w) {
        if m != 1 || !fixed::multiply(x, w, grain, y) {
            avx512::multiply(x, w, m, grain, y);
        }
        return;
    }
    let y = Shared(y.as_mut_ptr());
    parallel_ranges(w.rows, grain, &|rows| dispatch_at(at, Rows { x, w, m, rows, y: y.get() }));
}

/// Any format at any level: unpacks a row of w into the first-level cache.
struct Rows<'a> {
    x: &'a [f32],
    w: &'a Quantized<'a>,
    m: usize,
    rows: std::ops::Range<usize>,
    /// `[m, w.rows]`
    y: *mut f32,
}

impl Kernel for Rows<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Rows { x, w, m, rows, y } = self;
        let mut weights = Scratch::take(w.cols);
        for row in rows {
            dequantize_span(s, w, row, 0, &mut weights);
            for i in 0..m {
                let dot = dot(s, &x[i * w.cols..(i + 1) * w.cols], &weights);
                // SAFETY: y is `[m, w.rows]`, and this task alone writes these rows.
                unsafe { *y.add(i * w.rows + row) = dot };
            }
        }
    }
}

/// Sum of a[i] b[i]; the lengths are equal.
#[inline(always)]
fn dot<S: Lanes>(s: S, a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let (pa, pb, n) = (a.as_ptr(), b.as_ptr(), a.len());
    let mut acc = [s.splat(0.0); 4];
    let mut i = 0;
    // SAFETY: whole registers while they fit, `n - i` lanes for the last one.
    unsafe {
        while i + 4 * S::N <= n {
            for (j, v) in acc.iter_mut().enumerate() {
                let k = i + j * S::N;
                *v = s.mul_acc(s.load(pa.add(k)), s.load(pb.add(k)), *v);
            }
            i += 4 * S::N;
        }
        while i < n {
            acc[0] = s.mul_acc(s.load_part(pa.add(i), n - i), s.load_part(pb.add(i), n - i), acc[0]);
            i += S::N;
        }
    }
    s.reduce_add(s.add(s.add(acc[0], acc[1]), s.add(acc[2], acc[3])))
}
