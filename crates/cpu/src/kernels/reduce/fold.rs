//! What reductions and scans compute, element by element.

use super::rows::TURNS;
use super::widen::{add_each, add_rows, add_turns, multiply_rows};
use crate::kernels::wide::Wide;
use crate::lanes::Lanes;
use olivine_core::Complex64;

/// A reduction of elements of type `W`: an associative merge of accumulators that elements are pushed into.
pub(in crate::kernels) trait Fold<W: Wide>: 'static {
    /// Accumulator, wide enough for long reductions.
    type Acc: Copy + Send + Sync + 'static;
    /// Accumulator of no elements.
    const START: Self::Acc;
    /// Counts one more element.
    fn push(acc: Self::Acc, x: W) -> Self::Acc;
    /// Counts both.
    fn merge(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// Counts whole turns: element `i` of each goes to `acc[i]`.
    #[inline(always)]
    fn push_turns<S: Lanes>(_s: S, acc: &mut [Self::Acc; TURNS], xs: &[W]) {
        let mut a = *acc;
        for turn in xs.chunks_exact(TURNS) {
            for i in 0..TURNS {
                a[i] = Self::push(a[i], turn[i]);
            }
        }
        *acc = a;
    }
    /// Counts one more element in each accumulator.
    #[inline(always)]
    fn push_each<S: Lanes>(_s: S, acc: &mut [Self::Acc], xs: &[W]) {
        for (a, &x) in acc.iter_mut().zip(xs) {
            *a = Self::push(*a, x);
        }
    }
    /// Counts four more elements in each accumulator, one of each row.
    #[inline(always)]
    fn push_rows<S: Lanes>(_s: S, acc: &mut [Self::Acc], rows: [&[W]; 4]) {
        let n = acc.len();
        let [p, q, r, t] = rows.map(|row| &row[..n]);
        for (i, a) in acc.iter_mut().enumerate() {
            *a = Self::push(Self::push(Self::push(Self::push(*a, p[i]), q[i]), r[i]), t[i]);
        }
    }
    /// Whether [`Fold::push_plain`] may count these elements.
    #[inline(always)]
    fn plain(_acc: Self::Acc, _xs: &[W]) -> bool {
        false
    }
    /// [`Fold::push`] of elements that are known to be plain.
    #[inline(always)]
    fn push_plain(acc: Self::Acc, x: W) -> Self::Acc {
        Self::push(acc, x)
    }
    /// Whether further elements cannot change the result.
    #[inline(always)]
    fn settled(_acc: Self::Acc) -> bool {
        false
    }
}

/// Sum: floats in `f64`, integers wrap.
pub(in crate::kernels) struct Sum;
/// Product, likewise.
pub(in crate::kernels) struct Prod;
/// Largest; NaN wins.
pub(in crate::kernels) struct Max;
/// Smallest; NaN wins.
pub(in crate::kernels) struct Min;
/// The bits that are set in any element: 0 when all are false.
pub(in crate::kernels) struct Any;
/// Not 0 when an element is false.
pub(in crate::kernels) struct NotAll;

macro_rules! fold {
    ($fold:ty, $w:ty => $acc:ty: $start:expr, |$a:ident, $x:ident| $push:expr, |$m:ident, $n:ident| $merge:expr) => {
        fold!($fold, $w => $acc: $start, |$a, $x| $push, |$m, $n| $merge, |_a| false);
    };
    ($fold:ty, $w:ty => $acc:ty: $start:expr, |$a:ident, $x:ident| $push:expr, |$m:ident, $n:ident| $merge:expr,
        |$s:ident| $settled:expr) => {
        impl Fold<$w> for $fold {
            type Acc = $acc;
            const START: $acc = $start;
            #[inline(always)]
            fn push($a: $acc, $x: $w) -> $acc {
                $push
            }
            #[inline(always)]
            fn merge($m: $acc, $n: $acc) -> $acc {
                $merge
            }
            #[inline(always)]
            fn settled($s: $acc) -> bool {
                $settled
            }
        }
    };
}

fold!(Sum, i64 => i64: 0, |a, x| a.wrapping_add(x), |a, b| a.wrapping_add(b));
fold!(Sum, i32 => i32: 0, |a, x| a.wrapping_add(x), |a, b| a.wrapping_add(b));
impl Fold<f32> for Sum {
    type Acc = f64;
    const START: f64 = 0.0;
    #[inline(always)]
    fn push(acc: f64, x: f32) -> f64 {
        acc + x as f64
    }
    #[inline(always)]
    fn merge(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn push_turns<S: Lanes>(s: S, acc: &mut [f64; TURNS], xs: &[f32]) {
        add_turns(s, acc, xs);
    }
    #[inline(always)]
    fn push_each<S: Lanes>(s: S, acc: &mut [f64], xs: &[f32]) {
        add_each(s, acc, xs);
    }
    #[inline(always)]
    fn push_rows<S: Lanes>(s: S, acc: &mut [f64], rows: [&[f32]; 4]) {
        add_rows(s, acc, rows);
    }
}
fold!(Sum, f64 => f64: 0.0, |a, x| a + x, |a, b| a + b);
fold!(Sum, Complex64 => (f64, f64): (0.0, 0.0), |a, x| (a.0 + x.re as f64, a.1 + x.im as f64),
    |a, b| (a.0 + b.0, a.1 + b.1));
fold!(Prod, i64 => i64: 1, |a, x| a.wrapping_mul(x), |a, b| a.wrapping_mul(b));
fold!(Prod, i32 => i32: 1, |a, x| a.wrapping_mul(x), |a, b| a.wrapping_mul(b));
impl Fold<f32> for Prod {
    type Acc = f64;
    const START: f64 = 1.0;
    #[inline(always)]
    fn push(acc: f64, x: f32) -> f64 {
        acc * x as f64
    }
    #[inline(always)]
    fn merge(a: f64, b: f64) -> f64 {
        a * b
    }
    #[inline(always)]
    fn push_rows<S: Lanes>(s: S, acc: &mut [f64], rows: [&[f32]; 4]) {
        multiply_rows(s, acc, rows);
    }
}
fold!(Prod, f64 => f64: 1.0, |a, x| a * x, |a, b| a * b);
fold!(Prod, Complex64 => (f64, f64): (1.0, 0.0), |a, x| times(a, (x.re as f64, x.im as f64)), |a, b| times(a, b));
fold!(Any, i64 => i64: 0, |a, x| a | x, |a, b| a | b, |a| a != 0);
fold!(NotAll, i64 => i64: 0, |a, x| a | (x == 0) as i64, |a, b| a | b, |a| a != 0);

#[inline(always)]
fn times(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

/// Types with an order.
pub(in crate::kernels) trait Extreme: Wide + PartialOrd {
    /// Not above anything.
    const LOWEST: Self;
    /// Not below anything.
    const HIGHEST: Self;
    /// Whether it is NaN.
    fn nan(self) -> bool;
    /// Whether it is larger; false beside NaN.
    #[inline(always)]
    fn above(self, other: Self) -> bool {
        self > other
    }
    /// Whether it is smaller; false beside NaN.
    #[inline(always)]
    fn below(self, other: Self) -> bool {
        self < other
    }
}
macro_rules! integer_extremes {
    ($($t:ty),*) => { $(
        impl Extreme for $t {
            const LOWEST: $t = <$t>::MIN;
            const HIGHEST: $t = <$t>::MAX;
            #[inline(always)]
            fn nan(self) -> bool {
                false
            }
        }
    )* };
}
integer_extremes!(i32, i64);
macro_rules! float_extremes {
    ($($f:ty),*) => { $(
        impl Extreme for $f {
            const LOWEST: $f = <$f>::NEG_INFINITY;
            const HIGHEST: $f = <$f>::INFINITY;
            #[inline(always)]
            fn nan(self) -> bool {
                self.is_nan()
            }
        }
    )* };
}
float_extremes!(f32, f64);

/// By the real, then the imaginary part; NaN when either part is.
impl Extreme for Complex64 {
    const LOWEST: Complex64 = Complex64 { re: f32::NEG_INFINITY, im: f32::NEG_INFINITY };
    const HIGHEST: Complex64 = Complex64 { re: f32::INFINITY, im: f32::INFINITY };
    #[inline(always)]
    fn nan(self) -> bool {
        self.re.is_nan() || self.im.is_nan()
    }
    #[inline(always)]
    fn above(self, other: Self) -> bool {
        !self.nan() && !other.nan() && self > other
    }
    #[inline(always)]
    fn below(self, other: Self) -> bool {
        !self.nan() && !other.nan() && self < other
    }
}

impl<W: Extreme> Fold<W> for Max {
    type Acc = W;
    const START: W = W::LOWEST;
    #[inline(always)]
    fn push(acc: W, x: W) -> W {
        // Nothing is above a NaN accumulator, so it stays.
        if x.above(acc) || x.nan() { x } else { acc }
    }
    #[inline(always)]
    fn merge(a: W, b: W) -> W {
        <Max as Fold<W>>::push(a, b)
    }
    #[inline(always)]
    fn plain(acc: W, xs: &[W]) -> bool {
        !xs.iter().fold(acc.nan(), |any, x| any | x.nan())
    }
    #[inline(always)]
    fn push_plain(acc: W, x: W) -> W {
        if x > acc { x } else { acc }
    }
}

impl<W: Extreme> Fold<W> for Min {
    type Acc = W;
    const START: W = W::HIGHEST;
    #[inline(always)]
    fn push(acc: W, x: W) -> W {
        if x.below(acc) || x.nan() { x } else { acc }
    }
    #[inline(always)]
    fn merge(a: W, b: W) -> W {
        <Min as Fold<W>>::push(a, b)
    }
    #[inline(always)]
    fn plain(acc: W, xs: &[W]) -> bool {
        !xs.iter().fold(acc.nan(), |any, x| any | x.nan())
    }
    #[inline(always)]
    fn push_plain(acc: W, x: W) -> W {
        if x < acc { x } else { acc }
    }
}
