//! Elementary functions of `f32`, computed in `f64`.
//!
//! Twice the width makes errors of evaluation vanish, so every result is within little more than half a unit
//! in the last place of the true value. The code has no branches, so that the compiler turns loops over it
//! into vectors; the few arguments that it cannot serve (named by each function) are computed one by one
//! afterwards ([`Wide::special`]). Both depend on the value only, never on its place.
//!
//! Polynomials are minimax fits to relative errors below 1e-8, most of them below 1e-10; the reductions are
//! the classic ones (Muller, "Elementary functions", chapters 10 and 11).

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, LN_2, LOG2_E, LOG10_E, PI};

/// A function of one `f32`.
pub(super) trait Wide {
    /// The value, for arguments that are not special. `FUSED` says that the machine has a fused multiply-add.
    fn value<const FUSED: bool>(x: f64) -> f64;
    /// Whether the argument needs [`Wide::exact`].
    #[inline(always)]
    fn special(_x: f32) -> bool {
        false
    }
    /// The value for special arguments.
    fn exact(x: f32) -> f32 {
        x
    }
}

/// A function of two `f32`.
pub(super) trait Wide2 {
    /// The value, for arguments that are not special.
    fn value<const FUSED: bool>(x: f64, y: f64) -> f64;
    /// Whether the arguments need [`Wide2::exact`].
    fn special(x: f32, y: f32) -> bool;
    /// The value for special arguments.
    fn exact(x: f32, y: f32) -> f32;
}

#[inline(always)]
fn mad<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn poly<const FUSED: bool, const N: usize>(x: f64, c: &[f64; N]) -> f64 {
    let mut p = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        p = mad::<FUSED>(p, x, c[i]);
    }
    p
}

#[inline(always)]
fn pick(c: bool, a: f64, b: f64) -> f64 {
    if c { a } else { b }
}

/// 1.5 * 2^52: adding it rounds to an integer, which is then also in the low bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;

const EXP: [f64; 8] = [
    0.4999999999995539,
    0.1666666666673956,
    0.04166666678583003,
    0.00833333329261808,
    0.0013888839205158032,
    0.0001984131079252667,
    2.4867819354950184e-05,
    2.7576469844085073e-06,
];

/// e^r - 1 for the reduced argument, and the power of two that belongs to it.
#[inline(always)]
fn exp_parts<const F: bool>(x: f64) -> (f64, f64) {
    let t = mad::<F>(x, LOG2_E, MAGIC);
    let n = t - MAGIC;
    let r = mad::<F>(n, -LN_2, x);
    let p = mad::<F>(r * r, poly::<F, 8>(r, &EXP), r);
    let scale = f64::from_bits(t.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(1023) << 52);
    (p, scale)
}

/// e^x for |x| below 700.
#[inline(always)]
fn exp<const F: bool>(x: f64) -> f64 {
    let (p, s) = exp_parts::<F>(x);
    mad::<F>(p, s, s)
}

/// e^x - 1 for |x| below 700.
#[inline(always)]
fn expm1<const F: bool>(x: f64) -> f64 {
    let (p, s) = exp_parts::<F>(x);
    mad::<F>(p, s, s - 1.0)
}

/// Limited to where functions of `f32` that grow like e^x neither overflow `f64` nor have reached their
/// limits; NaN passes.
#[inline(always)]
fn limit(x: f64) -> f64 {
    let x = pick(x > 200.0, 200.0, x);
    pick(x < -200.0, -200.0, x)
}

const LOG: [f64; 6] = [
    0.6666666666666203,
    0.40000000011294473,
    0.2857142411180616,
    0.22222865050174936,
    0.18140076662334803,
    0.16623539053368946,
];

/// Logarithm of a positive, normal, finite number.
#[inline(always)]
fn ln_core<const F: bool>(x: f64) -> f64 {
    // x = 2^e m with m between sqrt(1/2) and sqrt(2).
    const ROOT: u64 = FRAC_1_SQRT_2.to_bits();
    let bits = x.to_bits().wrapping_sub(ROOT);
    // The exponent is small, so it can be made a float through the low bits of a large one.
    let biased = (bits >> 52).wrapping_add(2048) & 0xfff;
    let e = f64::from_bits(biased | 0x4330_0000_0000_0000) - (4_503_599_627_370_496.0 + 2048.0);
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(ROOT));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let tail = z * s * poly::<F, 6>(z, &LOG);
    mad::<F>(e, LN_2, mad::<F>(s, 2.0, tail))
}

/// Logarithm of any number.
#[inline(always)]
fn ln<const F: bool>(x: f64) -> f64 {
    let y = ln_core::<F>(x);
    let y = pick(x == f64::INFINITY, f64::INFINITY, y);
    let y = pick(x == 0.0, f64::NEG_INFINITY, y);
    pick(x >= 0.0, y, f64::NAN)
}

/// log(1 + x), relatively exact near 0 too.
#[inline(always)]
fn ln_1p<const F: bool>(x: f64) -> f64 {
    let u = 1.0 + x;
    // What the sum lost, divided by it, is the correction of the logarithm.
    let y = ln_core::<F>(u) + (x - (u - 1.0)) / u;
    let y = pick(x == f64::INFINITY, f64::INFINITY, y);
    let y = pick(x == -1.0, f64::NEG_INFINITY, y);
    let y = pick(x == 0.0, x, y);
    pick(x >= -1.0, y, f64::NAN)
}

const SIN: [f64; 5] = [
    -0.16666666666663835,
    0.008333333331050206,
    -0.00019841266892061922,
    2.7555984097773712e-06,
    -2.4805052626704785e-08,
];
const COS: [f64; 5] = [
    0.04166666666666465,
    -0.0013888888887261701,
    2.480158519728965e-05,
    -2.7556365875993974e-07,
    2.0700269310421693e-09,
];

/// pi/2 in two parts; products of the first with integers below 2^20 are exact.
const HALF_PI_HIGH: f64 = f64::from_bits(FRAC_PI_2.to_bits() & !0xff_ffff);
const HALF_PI_LOW: f64 = 6.123_233_995_736_766e-17 + (FRAC_PI_2 - HALF_PI_HIGH);
/// Largest argument that the two parts reduce.
const TURNS: f32 = 1_000_000.0;

/// Sine and cosine of x minus the nearest multiple of pi/2, and that multiple in the low bits.
#[inline(always)]
fn sin_cos<const F: bool>(x: f64) -> (f64, f64, u64) {
    let t = mad::<F>(x, FRAC_2_PI, MAGIC);
    let n = t - MAGIC;
    let r = mad::<F>(n, -HALF_PI_LOW, mad::<F>(n, -HALF_PI_HIGH, x));
    let z = r * r;
    let s = mad::<F>(z * r, poly::<F, 5>(z, &SIN), r);
    let c = mad::<F>(z * z, poly::<F, 5>(z, &COS), mad::<F>(z, -0.5, 1.0));
    (s, c, t.to_bits())
}

#[inline(always)]
fn flip(x: f64, bit: u64) -> f64 {
    f64::from_bits(x.to_bits() ^ (bit << 63))
}

const ATAN: [f64; 7] = [
    0.9999999999792683,
    -0.3333333213375971,
    0.19999886298554978,
    -0.14281649202671204,
    0.11041165914159638,
    -0.08459688065107114,
    0.04714121815252937,
];

/// Angle of a point in the first quadrant: atan(y / x) for x and y not negative, and not both 0.
#[inline(always)]
fn angle<const F: bool>(y: f64, x: f64) -> f64 {
    // Turned by 0, 45 or 90 degrees so that the tangent is at most tan(pi/8).
    let small = y <= x * 0.414_213_562_373_095_1;
    let large = y > x * 2.414_213_562_373_095;
    let (num, den) = (pick(large, -x, pick(small, y, y - x)), pick(large, y, pick(small, x, y + x)));
    let start = pick(large, FRAC_PI_2, pick(small, 0.0, FRAC_PI_4));
    let z = num / den;
    mad::<F>(z, poly::<F, 7>(z * z, &ATAN), start)
}

const ASIN: [f64; 8] = [
    0.9999999999849357,
    0.16666667420330558,
    0.07499938288002096,
    0.044662013513098266,
    0.030092467655069115,
    0.024709993705797868,
    0.007228417953065565,
    0.034946225754156894,
];

/// asin(z) for 0 <= z <= 1/2 or, beyond, asin(sqrt((1 - z) / 2)).
#[inline(always)]
fn asin_core<const F: bool>(a: f64) -> f64 {
    let t = pick(a > 0.5, (1.0 - a) * 0.5, a * a);
    let z = pick(a > 0.5, t.sqrt(), a);
    z * poly::<F, 8>(t, &ASIN)
}

/// erfinv(x) / x in w - 2.5 with w = -log(1 - x^2) up to 5,
const ERFINV_CENTRE: [f64; 11] = [
    1.501409353503943,
    0.24664028764081716,
    -0.004177339323284474,
    -0.0012527446835059195,
    0.00021828252933324627,
    -4.961894682530332e-06,
    -3.434567289744293e-06,
    4.658878983511552e-07,
    1.802924583831506e-08,
    -8.772501741536678e-09,
    3.360424424106846e-10,
];
/// and in sqrt(w) - 3 from there to the last `f32` below 1 (after Giles 2010, "Approximating the erfinv
/// function").
const ERFINV_TAIL: [f64; 10] = [
    2.8329768013399494,
    1.0016749665567315,
    0.009445283314818458,
    -0.0076372828179525785,
    0.005686991044285843,
    -0.0035974293847038687,
    0.0014850605574958109,
    -5.67400164441213e-05,
    -0.00030955499317000525,
    0.00011568510024225367,
];

/// Declares functions of one argument.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($x:ident, $F:ident) => $e:expr $(, special |$s:ident| $special:expr => $exact:expr)?;)*) => { $(
        $(#[$doc])*
        pub(super) struct $name;
        impl Wide for $name {
            #[inline(always)]
            fn value<const $F: bool>($x: f64) -> f64 {
                $e
            }
            $(
                #[inline(always)]
                fn special($s: f32) -> bool {
                    $special
                }
                fn exact($s: f32) -> f32 {
                    $exact
                }
            )?
        }
    )* };
}

functions! {
    /// e^x - 1.
    Expm1(x, F) => pick(x == 0.0, x, expm1::<F>(limit(x)));
    /// Natural logarithm.
    Ln(x, F) => ln::<F>(x);
    /// To base 2.
    Log2(x, F) => ln::<F>(x) * LOG2_E;
    /// To base 10.
    Log10(x, F) => ln::<F>(x) * LOG10_E;
    /// log(1 + x).
    Ln1p(x, F) => ln_1p::<F>(x);
    /// Sine; many turns are special.
    Sin(x, F) => {
        let (s, c, n) = sin_cos::<F>(x);
        pick(x == 0.0, x, flip(pick(n & 1 == 1, c, s), (n >> 1) & 1))
    }, special |x| x.abs() > TURNS => (x as f64).sin() as f32;
    /// Cosine; many turns are special.
    Cos(x, F) => {
        let (s, c, n) = sin_cos::<F>(x);
        flip(pick(n & 1 == 1, s, c), (n.wrapping_add(1) >> 1) & 1)
    }, special |x| x.abs() > TURNS => (x as f64).cos() as f32;
    /// Tangent; many turns are special.
    Tan(x, F) => {
        let (s, c, n) = sin_cos::<F>(x);
        let odd = n & 1 == 1;
        pick(x == 0.0, x, pick(odd, -c, s) / pick(odd, s, c))
    }, special |x| x.abs() > TURNS => (x as f64).tan() as f32;
    /// Inverse sine.
    Asin(x, F) => {
        let a = x.abs();
        let y = asin_core::<F>(a);
        let y = pick(a > 0.5, mad::<F>(y, -2.0, FRAC_PI_2), y);
        pick(a <= 1.0, y.copysign(x), f64::NAN)
    };
    /// Inverse cosine.
    Acos(x, F) => {
        let a = x.abs();
        let y = asin_core::<F>(a);
        let near = pick(x < 0.0, mad::<F>(y, -2.0, PI), 2.0 * y);
        let y = pick(a > 0.5, near, FRAC_PI_2 - y.copysign(x));
        pick(a <= 1.0, y, f64::NAN)
    };
    /// Inverse tangent.
    Atan(x, F) => {
        let a = x.abs();
        let y = pick(a == f64::INFINITY, FRAC_PI_2, angle::<F>(a, 1.0));
        y.copysign(x)
    };
    /// Hyperbolic sine.
    Sinh(x, F) => {
        let e = expm1::<F>(limit(x.abs()));
        (0.5 * (e + e / (e + 1.0))).copysign(x)
    };
    /// Hyperbolic cosine.
    Cosh(x, F) => {
        let e = exp::<F>(limit(x.abs()));
        0.5 * (e + 1.0 / e)
    };
    /// Inverse hyperbolic sine.
    Asinh(x, F) => {
        let a = x.abs();
        let y = ln_1p::<F>(a + a * a / (1.0 + (a * a + 1.0).sqrt()));
        pick(a == f64::INFINITY, x, y.copysign(x))
    };
    /// Inverse hyperbolic cosine.
    Acosh(x, F) => {
        let t = x - 1.0;
        let y = ln_1p::<F>(t + (t * (x + 1.0)).sqrt());
        pick(x >= 1.0, y, f64::NAN)
    };
    /// Inverse hyperbolic tangent.
    Atanh(x, F) => {
        let a = x.abs();
        let y = 0.5 * ln_1p::<F>(2.0 * a / (1.0 - a));
        let y = pick(a == 1.0, f64::INFINITY, y);
        pick(a <= 1.0, y.copysign(x), f64::NAN)
    };
    /// Inverse of the error function.
    ErfInv(x, F) => {
        let a = x.abs();
        let w = -ln_core::<F>((1.0 - a) * (1.0 + a));
        let centre = poly::<F, 11>(w - 2.5, &ERFINV_CENTRE);
        let tail = poly::<F, 10>(w.sqrt() - 3.0, &ERFINV_TAIL);
        let y = x * pick(w < 5.0, centre, tail);
        let y = pick(a == 1.0, f64::INFINITY.copysign(x), y);
        pick(a <= 1.0, y, f64::NAN)
    };
}

/// Power; anything but a positive finite base with a finite exponent is special.
pub(super) struct Pow;
impl Wide2 for Pow {
    #[inline(always)]
    fn value<const F: bool>(x: f64, y: f64) -> f64 {
        exp::<F>(limit(y * ln_core::<F>(x)))
    }
    #[inline(always)]
    fn special(x: f32, y: f32) -> bool {
        !((x > 0.0) & (x < f32::INFINITY) & (y.abs() < f32::INFINITY))
    }
    fn exact(x: f32, y: f32) -> f32 {
        (x as f64).powf(y as f64) as f32
    }
}

/// Angle of a point; zeros, infinities and NaN are special.
pub(super) struct Atan2;
impl Wide2 for Atan2 {
    #[inline(always)]
    fn value<const F: bool>(y: f64, x: f64) -> f64 {
        let a = angle::<F>(y.abs(), x.abs());
        pick(x < 0.0, PI - a, a).copysign(y)
    }
    #[inline(always)]
    fn special(y: f32, x: f32) -> bool {
        let plain = |v: f32| (v.abs() > 0.0) & (v.abs() < f32::INFINITY);
        !(plain(y) & plain(x))
    }
    fn exact(y: f32, x: f32) -> f32 {
        y.atan2(x)
    }
}

/// log(e^x + e^y); infinities and NaN are special.
pub(super) struct LogAddExp;
impl Wide2 for LogAddExp {
    #[inline(always)]
    fn value<const F: bool>(x: f64, y: f64) -> f64 {
        let (high, low) = (pick(x > y, x, y), pick(x > y, y, x));
        high + ln_1p::<F>(exp::<F>(limit(low - high)))
    }
    #[inline(always)]
    fn special(x: f32, y: f32) -> bool {
        !((x.abs() < f32::INFINITY) & (y.abs() < f32::INFINITY))
    }
    fn exact(x: f32, y: f32) -> f32 {
        super::scalar::Float::log_add_exp(x, y)
    }
}

/// Remainder with the sign of the divisor; large quotients, zeros and what is not finite are special.
pub(super) struct Rem;
/// Quotient rounded towards negative infinity; the same are special.
pub(super) struct FloorDiv;

/// Quotients up to here have exact products with a divisor in `f64`.
const QUOTIENT: f32 = 268_435_456.0;

/// Quotient rounded down and exact remainder.
#[inline(always)]
fn divide<const F: bool>(x: f64, y: f64) -> (f64, f64) {
    let q = (x / y).floor();
    // Exact, and one divisor off where the quotient was rounded up to an integer.
    let r = mad::<F>(-q, y, x);
    let off = (r != 0.0) & ((r < 0.0) != (y < 0.0));
    (pick(off, q - 1.0, q), pick(off, r + y, r))
}

#[inline(always)]
fn hard_quotient(x: f32, y: f32) -> bool {
    // A remainder much larger than its dividend can round up to the divisor.
    !((x.abs() > 0.0) & (y.abs() > 0.0) & (y.abs() < f32::INFINITY) & ((x / y).abs() < QUOTIENT))
}

impl Wide2 for Rem {
    #[inline(always)]
    fn value<const F: bool>(x: f64, y: f64) -> f64 {
        let r = divide::<F>(x, y).1;
        pick(r == 0.0, 0.0f64.copysign(y), r)
    }
    #[inline(always)]
    fn special(x: f32, y: f32) -> bool {
        hard_quotient(x, y)
    }
    fn exact(x: f32, y: f32) -> f32 {
        super::scalar::Float::floor_rem(x, y)
    }
}

impl Wide2 for FloorDiv {
    #[inline(always)]
    fn value<const F: bool>(x: f64, y: f64) -> f64 {
        let q = divide::<F>(x, y).0;
        pick(q == 0.0, 0.0, q)
    }
    #[inline(always)]
    fn special(x: f32, y: f32) -> bool {
        hard_quotient(x, y)
    }
    fn exact(x: f32, y: f32) -> f32 {
        super::scalar::Float::floor_div(x, y)
    }
}
