//! Functions of single elements whose results the operations define beyond what the language does.

/// Integers with every result defined.
pub(super) trait Int: Copy {
    /// Quotient rounded towards negative infinity; 0 when the divisor is 0, wrapping at the ends.
    fn floor_div(self, b: Self) -> Self;
    /// Remainder with the sign of the divisor; 0 when the divisor is 0.
    fn floor_rem(self, b: Self) -> Self;
    /// Power that wraps; a negative exponent gives 0, but 1 and -1 have their powers.
    fn power(self, b: Self) -> Self;
    /// Bits moved up; 0 from the width on, and for a negative distance.
    fn shift_up(self, b: Self) -> Self;
    /// Bits moved down, the sign filling; only the sign is left from the width on, and for a negative
    /// distance.
    fn shift_down(self, b: Self) -> Self;
}

macro_rules! int {
    ($($t:ty),*; $signed:literal) => { $(
        impl Int for $t {
            #[inline(always)]
            fn floor_div(self, b: Self) -> Self {
                if b == 0 {
                    return 0;
                }
                let (q, r) = (self.wrapping_div(b), self.wrapping_rem(b));
                #[allow(unused_comparisons, reason = "one text for both kinds")]
                if r != 0 && (r < 0) != (b < 0) { q.wrapping_sub(1) } else { q }
            }
            #[inline(always)]
            fn floor_rem(self, b: Self) -> Self {
                if b == 0 {
                    return 0;
                }
                let r = self.wrapping_rem(b);
                #[allow(unused_comparisons, reason = "one text for both kinds")]
                if r != 0 && (r < 0) != (b < 0) { r.wrapping_add(b) } else { r }
            }
            #[inline(always)]
            fn power(self, b: Self) -> Self {
                #[allow(unused_comparisons, reason = "one text for both kinds")]
                if b < 0 {
                    let odd = b & 1 == 1;
                    return if self == 1 || ($signed && self.wrapping_add(1) == 0 && !odd) {
                        1
                    } else if $signed && self.wrapping_add(1) == 0 {
                        self
                    } else {
                        0
                    };
                }
                let (mut base, mut e, mut r): (Self, Self, Self) = (self, b, 1);
                while e != 0 {
                    if e & 1 == 1 {
                        r = r.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    e >>= 1;
                }
                r
            }
            #[inline(always)]
            fn shift_up(self, b: Self) -> Self {
                #[allow(unused_comparisons, reason = "one text for both kinds")]
                if b < 0 || b as u64 >= <$t>::BITS as u64 { 0 } else { self.wrapping_shl(b as u32) }
            }
            #[inline(always)]
            fn shift_down(self, b: Self) -> Self {
                #[allow(unused_comparisons, reason = "one text for both kinds")]
                if b < 0 || b as u64 >= <$t>::BITS as u64 {
                    if self < 0 { <$t>::MAX.wrapping_add(<$t>::MAX).wrapping_add(1) } else { 0 }
                } else {
                    self.wrapping_shr(b as u32)
                }
            }
        }
    )* };
}
int!(u8, u16, u32, u64; false);
int!(i8, i16, i32, i64; true);

/// Real floats beyond the standard library.
pub(super) trait Float: Copy {
    /// -1, 1, or the argument itself where it is 0 or NaN.
    fn sign(self) -> Self;
    /// Quotient rounded towards negative infinity.
    fn floor_div(self, b: Self) -> Self;
    /// Remainder with the sign of the divisor, exact.
    fn floor_rem(self, b: Self) -> Self;
    /// log(exp(a) + exp(b)).
    fn log_add_exp(self, b: Self) -> Self;
}

macro_rules! float {
    ($t:ty) => {
        #[inline(always)]
        fn sign(self) -> Self {
            if self > 0.0 {
                1.0
            } else if self < 0.0 {
                -1.0
            } else {
                self
            }
        }
        #[inline(always)]
        fn floor_div(self, b: Self) -> Self {
            // From the exact remainder, as Python does: the rounded quotient alone can be one too large.
            if b == 0.0 {
                return self / b;
            }
            let r = self % b;
            let mut q = (self - r) / b;
            if r != 0.0 && (r < 0.0) != (b < 0.0) {
                q -= 1.0;
            }
            if q == 0.0 {
                return (0.0 as $t).copysign(self / b);
            }
            let f = q.floor();
            if q - f > 0.5 { f + 1.0 } else { f }
        }
        #[inline(always)]
        fn floor_rem(self, b: Self) -> Self {
            let r = self % b;
            if r == 0.0 {
                (0.0 as $t).copysign(b)
            } else if (r < 0.0) != (b < 0.0) {
                r + b
            } else {
                r
            }
        }
        #[inline(always)]
        fn log_add_exp(self, b: Self) -> Self {
            let (high, low) = if self > b { (self, b) } else { (b, self) };
            if self.is_nan() || b.is_nan() {
                return self + b;
            }
            // Equal infinities have no difference.
            if high == low { high + std::f64::consts::LN_2 as $t } else { high + (low - high).exp().ln_1p() }
        }
    };
}

impl Float for f32 {
    float!(f32);
}

impl Float for f64 {
    float!(f64);
}

/// 1 / (1 + exp(-x)).
pub(super) fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

/// Inverse of the error function: a rough start (Winitzki 2008, "A handy approximation for the error
/// function and its inverse") and Halley's iteration, on the complement where the argument is near 1.
pub(super) fn erfinv(x: f64) -> f64 {
    let a = x.abs();
    if a == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    if a.is_nan() || a > 1.0 {
        return f64::NAN;
    }
    if a < 1e-9 {
        // The next term of the series is below half a unit in the last place.
        return x * (0.5 / std::f64::consts::FRAC_2_SQRT_PI * 2.0);
    }
    // log(1 - a^2) without cancellation.
    let l = (-a).ln_1p() + a.ln_1p();
    let k = 2.0 / (std::f64::consts::PI * 0.147) + l / 2.0;
    let mut y = ((k * k - l / 0.147).sqrt() - k).sqrt();
    for _ in 0..3 {
        // erf(y) - a, through erfc where both are near 1; 1 - a is exact there.
        let miss = if a > 0.5 { (1.0 - a) - libm::erfc(y) } else { libm::erf(y) - a };
        let step = miss / (std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp());
        y -= step / (1.0 + y * step);
    }
    y.copysign(x)
}

/// Rounded to `f32` so that a later rounding to a shorter type gives what rounding at once would: inexact
/// values get an odd last bit (Boldo and Melquiond 2008, "Emulation of a FMA and correctly rounded sums:
/// proved algorithms using rounding to odd").
#[inline(always)]
pub(super) fn to_odd(a: f64) -> f32 {
    let near = a as f32;
    let back = near as f64;
    let bits = near.to_bits();
    // Towards zero, unless nearest already was; then the odd bit.
    let cut = bits - (back.abs() > a.abs() && near.is_finite()) as u32;
    let inexact = back != a && near.is_finite();
    f32::from_bits(if inexact { cut | 1 } else { bits })
}

/// Towards zero; the nearest end where it is beyond the type, 0 for NaN. What `as` does, in a form that becomes
/// vectors.
#[inline(always)]
pub(super) fn to_i32(a: f32) -> i32 {
    const END: f32 = 2_147_483_648.0;
    let number = if a.is_nan() { 0.0 } else { a };
    let low = if number < -END { -END } else { number };
    let inside = if low >= END { 0.0 } else { low };
    // SAFETY: from -2^31 on and below 2^31.
    let i = unsafe { inside.to_int_unchecked::<i32>() };
    if low >= END { i32::MAX } else { i }
}

/// To `f64`, odd where it is not exact.
#[inline(always)]
pub(super) fn u64_to_odd(a: u64) -> f64 {
    let sticky = ((a & 0x7ff) != 0) as u64;
    let rounded = (a & !0x7ff) | sticky << 11;
    (if a < 1 << 53 { a } else { rounded }) as f64
}

/// To `f64`, odd where it is not exact.
#[inline(always)]
pub(super) fn i64_to_odd(a: i64) -> f64 {
    let m = u64_to_odd(a.unsigned_abs());
    if a < 0 { -m } else { m }
}

/// Logarithm of the absolute value of the gamma function.
pub(super) fn lgamma(x: f64) -> f64 {
    if x == f64::NEG_INFINITY { f64::INFINITY } else { libm::lgamma(x) }
}

/// Derivative of [`lgamma`]: the asymptotic series (Abramowitz and Stegun, 6.3.18) from 10 on, the recurrence
/// (6.3.5) below, the reflection (6.3.7) for negative arguments. NaN at the poles of negative integers, an
/// infinity of the other sign at the zeros.
pub(super) fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::NEG_INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x.fract() == 0.0 || x == f64::NEG_INFINITY {
            return f64::NAN;
        }
        // The tangent of the fraction alone, which is exact.
        let part = x - x.round();
        return digamma(1.0 - x) - std::f64::consts::PI / (std::f64::consts::PI * part).tan();
    }
    let (mut x, mut below) = (x, 0.0);
    while x < 10.0 {
        below += 1.0 / x;
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    let series = r
        * (1.0 / 12.0
            - r * (1.0 / 120.0
                - r * (1.0 / 252.0
                    - r * (1.0 / 240.0 - r * (1.0 / 132.0 - r * (691.0 / 32760.0 - r / 12.0))))));
    if x == f64::INFINITY { x } else { x.ln() - 0.5 / x - series - below }
}
