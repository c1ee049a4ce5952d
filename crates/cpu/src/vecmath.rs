//! Elementary functions of vectors of `f32`.
//!
//! Each is written once over [`Lanes`] with exactly rounded operations only (no [`Lanes::mul_acc`]), so
//! that its value depends neither on the lane nor on the length of the slice.

use crate::lanes::{Kernel, Lanes, dispatch_at};
use crate::simd::{Level, level};

/// e^x within 1 unit in the last place, through the subnormals; NaN stays NaN.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, then e^r by a polynomial that is minimax for
/// (e^r - 1 - r) / r^2 relative to e^r, and a scaling by 2^n that rounds once.
#[inline(always)]
pub fn exp<S: Lanes>(s: S, x: S::F) -> S::F {
    // Past these ends the result is +0 or infinity anyway. The order of operands lets NaN through.
    let x = s.min(s.splat(89.0), s.max(s.splat(-104.0), x));
    // Adding 1.5 * 2^23 rounds to an integer, which is then also in the low bits.
    let magic = s.splat(12_582_912.0);
    let t = s.fma(x, s.splat(std::f32::consts::LOG2_E), magic);
    let n = s.sub(t, magic);
    let r = s.fma(n, s.splat(-0.693_359_4), x);
    let r = s.fma(n, s.splat(2.121_944_4e-4), r);
    let p = s.splat(1.381_459_3e-3);
    let p = s.fma(p, r, s.splat(8.368_719e-3));
    let p = s.fma(p, r, s.splat(4.166_839e-2));
    let p = s.fma(p, r, s.splat(1.666_652_1e-1));
    let p = s.fma(p, r, s.splat(4.999_999_4e-1));
    let p = s.fma(s.mul(r, r), p, r);
    let p = s.add(p, s.splat(1.0));
    s.scale2(p, s.sub_i(s.bits(t), s.bits(magic)))
}

/// 2^x for x <= 0, within 2e-7 of its size, 0 for -inf; NaN stays NaN.
///
/// Half the work of [`exp`]: what the weights of an attention need.
#[allow(clippy::approx_constant, reason = "a minimax coefficient near ln 2, not ln 2")]
#[inline(always)]
pub fn exp2_weight<S: Lanes>(s: S, x: S::F) -> S::F {
    let (n, r) = s.split(x);
    let p = s.splat(1.326_472_7e-3);
    let p = s.fma(p, r, s.splat(9.671_513e-3));
    let p = s.fma(p, r, s.splat(5.550_733_6e-2));
    let p = s.fma(p, r, s.splat(2.402_224_2e-1));
    let p = s.fma(p, r, s.splat(6.931_47e-1));
    let p = s.fma(p, r, s.splat(1.0));
    s.scale_by(p, n)
}

/// |x|.
#[inline(always)]
fn magnitude<S: Lanes>(s: S, x: S::F) -> S::F {
    s.float_of(s.and_i(s.bits(x), s.splat_i(i32::MAX)))
}

/// `a`, which is not negative, with the sign of `x`.
#[inline(always)]
fn signed_as<S: Lanes>(s: S, a: S::F, x: S::F) -> S::F {
    s.float_of(s.or_i(s.bits(a), s.and_i(s.bits(x), s.splat_i(i32::MIN))))
}

#[inline(always)]
fn poly<S: Lanes, const N: usize>(s: S, x: S::F, c: [f32; N]) -> S::F {
    let mut p = s.splat(c[N - 1]);
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        p = s.fma(p, x, s.splat(c[i]));
    }
    p
}

/// The error function within 2 units in the last place.
///
/// Below 1 a polynomial for erf(x) / x - 1 in x^2, from there 1 - e^-p with a polynomial p for
/// -log(erfc(x)), both minimax; 1 from 4 on.
#[inline(always)]
pub fn erf<S: Lanes>(s: S, x: S::F) -> S::F {
    let a = magnitude(s, x);
    let near = [
        1.283_791_6e-1,
        -3.761_262_6e-1,
        1.128_36e-1,
        -2.685_443_9e-2,
        5.189_523e-3,
        -8.020_733_4e-4,
        7.888_763e-5,
    ];
    let near = s.fma(a, poly(s, s.mul(a, a), near), a);
    let far = [
        3.540_229_8e-4,
        1.127_038_7,
        6.382_282e-1,
        1.030_349_1e-1,
        -2.180_396e-2,
        2.939_214e-3,
        -1.855_277_1e-4,
    ];
    // The order of operands lets NaN through.
    let p = poly(s, s.min(s.splat(4.0), a), far);
    let far = s.sub(s.splat(1.0), exp(s, s.sub(s.splat(0.0), p)));
    signed_as(s, s.select(s.lt(a, s.splat(1.0)), near, far), x)
}

/// The hyperbolic tangent within 2 units in the last place: a minimax polynomial for (tanh(x) - x) / x^3 in
/// x^2 below 0.63, else 1 - 2 / (e^2x + 1).
#[inline(always)]
pub fn tanh<S: Lanes>(s: S, x: S::F) -> S::F {
    let a = magnitude(s, x);
    let near = [-3.333_327_8e-1, 1.333_133_3e-1, -5.373_015_3e-2, 2.060_661e-2, -5.667_423e-3];
    let z = s.mul(a, a);
    let near = s.fma(s.mul(a, z), poly(s, z, near), a);
    let (one, two) = (s.splat(1.0), s.splat(2.0));
    let far = s.sub(one, s.div(two, s.add(exp(s, s.mul(two, a)), one)));
    signed_as(s, s.select(s.lt(a, s.splat(0.63)), near, far), x)
}

/// 1 / (1 + e^-x) within 3 units in the last place.
#[inline(always)]
pub fn sigmoid<S: Lanes>(s: S, x: S::F) -> S::F {
    // e^-|x| never overflows, and for negative x the same quotient with it above the line is the value.
    let e = exp(s, s.float_of(s.or_i(s.bits(x), s.splat_i(i32::MIN))));
    let one = s.splat(1.0);
    s.div(s.select(s.lt(x, s.splat(0.0)), e, one), s.add(one, e))
}

struct MapExp<'a>(&'a mut [f32]);

impl Kernel for MapExp<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let (p, n) = (self.0.as_mut_ptr(), self.0.len());
        let mut i = 0;
        // SAFETY: `i + N <= n` for whole registers, `n - i` lanes for the last one.
        unsafe {
            while i + S::N <= n {
                s.store(p.add(i), exp(s, s.load(p.add(i))));
                i += S::N;
            }
            if i < n {
                s.store_part(p.add(i), n - i, exp(s, s.load_part(p.add(i), n - i)));
            }
        }
    }
}

/// Replaces each element by its exponential, on the calling thread; see [`exp`].
pub fn exp_in_place(xs: &mut [f32]) {
    exp_in_place_at(level(), xs);
}

/// [`exp_in_place`] at an instruction-set level no higher than `at`.
pub fn exp_in_place_at(at: Level, xs: &mut [f32]) {
    dispatch_at(at, MapExp(xs));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance in representable floats between `got` and the real number `want`, in units in the last place.
    fn ulps(got: f32, want: f64) -> f64 {
        let near = want as f32;
        if got == near {
            return 0.0;
        }
        if !got.is_finite() || !near.is_finite() {
            return f64::INFINITY;
        }
        let step = (f32::from_bits(near.to_bits() + 1) as f64 - near as f64).abs();
        (got as f64 - want).abs() / step
    }

    const LEVELS: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

    #[test]
    fn exp_is_within_one_ulp_everywhere() {
        // Every 97th float: all exponents, both signs, infinities and NaN ranges included.
        let inputs: Vec<f32> = (0..u32::MAX / 97).map(|i| f32::from_bits(i * 97)).collect();
        for at in LEVELS {
            let mut got = inputs.clone();
            exp_in_place_at(at, &mut got);
            let mut worst = 0.0f64;
            for (&x, &y) in inputs.iter().zip(&got) {
                if x.is_nan() {
                    assert!(y.is_nan(), "{at:?} exp({x}) = {y}");
                    continue;
                }
                let e = ulps(y, (x as f64).exp());
                assert!(e <= 1.0, "{at:?} exp({x:e}) = {y:e}, off by {e} ulp");
                worst = worst.max(e);
            }
            assert!(worst > 0.0);
        }
    }

    struct Weights<'a>(&'a [f32], &'a mut [f32]);
    impl Kernel for Weights<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Lanes>(self, s: S) {
            for (x, y) in self.0.iter().zip(self.1) {
                // SAFETY: one float each.
                unsafe { s.store_part(y, 1, exp2_weight(s, s.load_part(x, 1))) };
            }
        }
    }

    #[test]
    fn weights_are_powers_of_two() {
        let mut xs: Vec<f32> = (0..400_000).map(|i| i as f32 * -4.1e-4).collect();
        xs.extend((0..160).map(|i| -i as f32));
        xs.extend((0..160).map(|i| 0.5 - i as f32).filter(|&x| x < 0.0));
        xs.extend([-0.0, -1e-30, -1e5, -3e38, f32::NEG_INFINITY, f32::NAN]);
        for at in LEVELS {
            let mut got = vec![9.0; xs.len()];
            dispatch_at(at, Weights(&xs, &mut got));
            for (&x, &y) in xs.iter().zip(&got) {
                let want = (x as f64).exp2();
                let fine = (y as f64 - want).abs() <= 2e-7 * want + 1.5e-45;
                assert!(fine || x.is_nan() && y.is_nan(), "{at:?} 2^{x} = {y}, not {want}");
            }
        }
    }

    #[test]
    fn exp_at_the_ends() {
        for at in LEVELS {
            let inf = f32::INFINITY;
            let mut v =
                [0.0, -0.0, inf, -inf, 88.722_83, 88.7229, -103.97, -103.98, 1e30, -1e30, 1e-40, f32::NAN];
            exp_in_place_at(at, &mut v);
            assert_eq!(v[..4], [1.0, 1.0, inf, 0.0], "{at:?}");
            assert!(v[4].is_finite() && v[4] > 3.4e38, "{at:?} {}", v[4]);
            assert_eq!(v[5], inf, "{at:?}");
            assert_eq!(v[6..11], [f32::from_bits(1), 0.0, inf, 0.0, 1.0], "{at:?}");
            assert!(v[11].is_nan());
        }
    }

    #[test]
    fn exp_does_not_depend_on_the_position() {
        let xs: Vec<f32> = (0..64).map(|i| (i as f32 * 0.731).sin() * 40.0).collect();
        for at in LEVELS {
            let mut whole = xs.clone();
            exp_in_place_at(at, &mut whole);
            for start in 0..20 {
                for len in 1..40 {
                    let mut part = xs[start..start + len].to_vec();
                    exp_in_place_at(at, &mut part);
                    assert!(part.iter().zip(&whole[start..]).all(|(a, b)| a.to_bits() == b.to_bits()));
                }
            }
        }
    }
}
