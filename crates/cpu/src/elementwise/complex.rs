//! Functions of complex numbers, computed in `f64`, where the squares of `f32` neither overflow nor vanish.
//!
//! Branch cuts and signs of zeros follow Kahan 1987, "Branch cuts for complex elementary functions".

use olivine_core::Complex64;

/// A complex number in `f64`.
#[derive(Clone, Copy)]
struct Z {
    re: f64,
    im: f64,
}

impl From<Complex64> for Z {
    #[inline(always)]
    fn from(a: Complex64) -> Z {
        Z { re: a.re as f64, im: a.im as f64 }
    }
}

impl From<Z> for Complex64 {
    #[inline(always)]
    fn from(z: Z) -> Complex64 {
        Complex64 { re: z.re as f32, im: z.im as f32 }
    }
}

impl Z {
    const ONE: Z = Z { re: 1.0, im: 0.0 };

    fn is_nan(self) -> bool {
        self.re.is_nan() || self.im.is_nan()
    }

    fn is_infinite(self) -> bool {
        self.re.is_infinite() || self.im.is_infinite()
    }

    fn is_zero(self) -> bool {
        self.re == 0.0 && self.im == 0.0
    }

    #[inline(always)]
    fn times(self, b: Z) -> Z {
        Z { re: self.re * b.re - self.im * b.im, im: self.re * b.im + self.im * b.re }
    }

    #[inline(always)]
    fn over(self, b: Z) -> Z {
        let d = b.re * b.re + b.im * b.im;
        Z { re: (self.re * b.re + self.im * b.im) / d, im: (self.im * b.re - self.re * b.im) / d }
    }

    fn modulus(self) -> f64 {
        self.re.hypot(self.im)
    }

    /// `i z`.
    fn turn(self) -> Z {
        Z { re: -self.im, im: self.re }
    }

    /// `-i z`.
    fn turn_back(self) -> Z {
        Z { re: self.im, im: -self.re }
    }

    fn sqrt(self) -> Z {
        let Z { re: x, im: y } = self;
        if y.is_infinite() {
            return Z { re: f64::INFINITY, im: y };
        }
        if self.is_zero() {
            return Z { re: 0.0, im: y };
        }
        let t = ((x.hypot(y) + x.abs()) / 2.0).sqrt();
        if x >= 0.0 {
            Z { re: t, im: y / (2.0 * t) }
        } else {
            Z { re: y.abs() / (2.0 * t), im: t.copysign(y) }
        }
    }

    fn exp(self) -> Z {
        let r = self.re.exp();
        if self.im == 0.0 {
            return Z { re: r, im: self.im };
        }
        if self.re == f64::NEG_INFINITY {
            return Z { re: 0.0, im: 0.0 };
        }
        let (s, c) = self.im.sin_cos();
        Z { re: r * c, im: r * s }
    }

    fn ln(self) -> Z {
        let (high, low) = (self.re.abs().max(self.im.abs()), self.re.abs().min(self.im.abs()));
        // Near 1 the logarithm of the modulus would cancel.
        let d = (high - 1.0) * (high + 1.0) + low * low;
        let re = if d.abs() < 0.5 { 0.5 * d.ln_1p() } else { high.hypot(low).ln() };
        Z { re, im: self.im.atan2(self.re) }
    }

    fn sinh(self) -> Z {
        let (s, c) = self.im.sin_cos();
        // An imaginary part of zero keeps its sign, also beside infinity.
        let im = if self.im == 0.0 { self.im } else { self.re.cosh() * s };
        Z { re: if self.re == 0.0 { self.re } else { self.re.sinh() * c }, im }
    }

    fn cosh(self) -> Z {
        let (s, c) = self.im.sin_cos();
        // Zero times infinity must not arise where the product is a zero.
        let im = if self.im == 0.0 { 0.0f64.copysign(self.re * self.im) } else { self.re.sinh() * s };
        Z { re: self.re.cosh() * c, im }
    }

    fn tanh(self) -> Z {
        let Z { re: x, im: y } = self;
        let (s, c) = y.sin_cos();
        if x.abs() > 350.0 {
            // 1 to the last digit, and the imaginary part vanishes.
            let im = if y.is_finite() { 0.0f64.copysign(s * c) } else { 0.0 };
            return Z { re: 1.0f64.copysign(x), im };
        }
        let (sh, ch) = (x.sinh(), x.cosh());
        let d = sh * sh + c * c;
        Z { re: sh * ch / d, im: s * c / d }
    }

    fn asin(self) -> Z {
        if self.is_nan() {
            return Z { re: f64::NAN, im: f64::NAN };
        }
        if self.is_infinite() {
            return Z { re: self.re.atan2(self.im.abs()), im: f64::INFINITY.copysign(self.im) };
        }
        let (minus, plus) = (self.below_one().sqrt(), self.above_one().sqrt());
        let product = minus.times(plus);
        let im = (minus.re * plus.im - minus.im * plus.re).asinh();
        Z { re: self.re.atan2(product.re), im }
    }

    fn acos(self) -> Z {
        if self.is_nan() {
            return Z { re: f64::NAN, im: f64::NAN };
        }
        if self.is_infinite() {
            return Z { re: self.im.abs().atan2(self.re), im: -f64::INFINITY.copysign(self.im) };
        }
        let (minus, plus) = (self.below_one().sqrt(), self.above_one().sqrt());
        let im = (plus.re * minus.im - plus.im * minus.re).asinh();
        Z { re: 2.0 * minus.re.atan2(plus.re), im }
    }

    fn acosh(self) -> Z {
        if self.is_nan() {
            return Z { re: f64::NAN, im: f64::NAN };
        }
        if self.is_infinite() {
            return Z { re: f64::INFINITY, im: self.im.atan2(self.re) };
        }
        let minus = Z { re: self.re - 1.0, im: self.im }.sqrt();
        let plus = self.above_one().sqrt();
        let re = (minus.re * plus.re + minus.im * plus.im).asinh();
        Z { re, im: 2.0 * minus.im.atan2(plus.re) }
    }

    fn atanh(self) -> Z {
        if self.is_nan() {
            return Z { re: f64::NAN, im: f64::NAN };
        }
        if self.is_infinite() {
            let im = std::f64::consts::FRAC_PI_2.copysign(self.im);
            return Z { re: 0.0f64.copysign(self.re), im };
        }
        let (a, y) = (self.re.abs(), self.im);
        let near = (1.0 - a) * (1.0 - a) + y * y;
        let re = if near == 0.0 { f64::INFINITY } else { 0.25 * (4.0 * a / near).ln_1p() };
        let im = 0.5 * (2.0 * y).atan2((1.0 - a) * (1.0 + a) - y * y);
        Z { re: re.copysign(self.re), im }
    }

    /// `1 - z`.
    fn below_one(self) -> Z {
        Z { re: 1.0 - self.re, im: -self.im }
    }

    /// `1 + z`.
    fn above_one(self) -> Z {
        Z { re: 1.0 + self.re, im: self.im }
    }

    fn scaled(self, by: f64) -> Z {
        Z { re: self.re * by, im: self.im * by }
    }
}

/// Functions of one complex number made of a method.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($z:ident) => $e:expr;)*) => { $(
        $(#[$doc])*
        pub(super) fn $name(a: Complex64) -> Complex64 {
            let $z = Z::from(a);
            $e.into()
        }
    )* };
}

functions! {
    /// Principal square root.
    sqrt(z) => z.sqrt();
    /// 1 / sqrt(z).
    rsqrt(z) => Z::ONE.over(z.sqrt());
    /// Exponential.
    exp(z) => z.exp();
    /// exp(z) - 1, right for small z.
    expm1(z) => {
        let (s, c) = z.im.sin_cos();
        let half = (0.5 * z.im).sin();
        let im = if z.im == 0.0 { z.im } else { z.re.exp() * s };
        Z { re: z.re.exp_m1() * c - 2.0 * half * half, im }
    };
    /// Principal logarithm.
    ln(z) => z.ln();
    /// Principal logarithm to base 2.
    log2(z) => z.ln().scaled(std::f64::consts::LOG2_E);
    /// Principal logarithm to base 10.
    log10(z) => z.ln().scaled(std::f64::consts::LOG10_E);
    /// log(1 + z), right for small z.
    ln_1p(z) => {
        let d = z.re * (2.0 + z.re) + z.im * z.im;
        let re = if d.abs() < 0.5 { 0.5 * d.ln_1p() } else { z.above_one().ln().re };
        Z { re, im: z.im.atan2(1.0 + z.re) }
    };
    /// Sine.
    sin(z) => z.turn().sinh().turn_back();
    /// Cosine.
    cos(z) => z.turn().cosh();
    /// Tangent.
    tan(z) => z.turn().tanh().turn_back();
    /// Inverse sine.
    asin(z) => z.asin();
    /// Inverse cosine.
    acos(z) => z.acos();
    /// Inverse tangent.
    atan(z) => z.turn().atanh().turn_back();
    /// Hyperbolic sine.
    sinh(z) => z.sinh();
    /// Hyperbolic cosine.
    cosh(z) => z.cosh();
    /// Hyperbolic tangent.
    tanh(z) => z.tanh();
    /// Inverse hyperbolic sine.
    asinh(z) => z.turn().asin().turn_back();
    /// Inverse hyperbolic cosine.
    acosh(z) => z.acosh();
    /// Inverse hyperbolic tangent.
    atanh(z) => z.atanh();
    /// z / |z|; 0 of 0.
    sign(z) => {
        let m = z.modulus();
        if m == 0.0 { z } else { z.scaled(1.0 / m) }
    };
    /// 1 / (1 + exp(-z)).
    sigmoid(z) => {
        let e = Z { re: -z.re, im: -z.im }.exp();
        if e.is_infinite() { Z { re: 0.0, im: 0.0 } } else { Z::ONE.over(e.above_one()) }
    };
}

/// Both parts to the nearest integer, ties to even.
#[inline(always)]
pub(super) fn round(a: Complex64) -> Complex64 {
    Complex64 { re: a.re.round_ties_even(), im: a.im.round_ties_even() }
}

/// Neither part is 0, or either is NaN.
#[inline(always)]
pub(super) fn is_true(a: Complex64) -> bool {
    (a.re != 0.0) | (a.im != 0.0)
}

/// Modulus, without overflow on the way.
#[inline(always)]
pub(super) fn modulus(a: Complex64) -> f32 {
    let (x, y) = (a.re as f64, a.im as f64);
    let m = (x * x + y * y).sqrt();
    // An infinite part wins over NaN.
    let inf = x.abs() == f64::INFINITY || y.abs() == f64::INFINITY;
    (if inf { f64::INFINITY } else { m }) as f32
}

/// Product, each part rounded once or twice from exact products.
#[inline(always)]
pub(super) fn mul(a: Complex64, b: Complex64) -> Complex64 {
    Z::from(a).times(b.into()).into()
}

/// Quotient.
#[inline(always)]
pub(super) fn div(a: Complex64, b: Complex64) -> Complex64 {
    Z::from(a).over(b.into()).into()
}

/// Power, e^(b log a): 1 for an exponent of 0, 0 for a base of 0 and an exponent with a positive real part.
pub(super) fn pow(a: Complex64, b: Complex64) -> Complex64 {
    let (a, b) = (Z::from(a), Z::from(b));
    if b.is_zero() {
        return Z::ONE.into();
    }
    if a.is_zero() {
        let r = if b.re > 0.0 { 0.0 } else { f64::NAN };
        return Z { re: r, im: r }.into();
    }
    // Small whole exponents by products, which keep exact results exact.
    if b.im == 0.0 && b.re.fract() == 0.0 && b.re.abs() <= 64.0 {
        let (mut base, mut e, mut r) = (a, b.re.abs() as u32, Z::ONE);
        while e != 0 {
            if e & 1 == 1 {
                r = r.times(base);
            }
            base = base.times(base);
            e >>= 1;
        }
        return (if b.re < 0.0 { Z::ONE.over(r) } else { r }).into();
    }
    b.times(a.ln()).exp().into()
}

/// log(e^a + e^b), the larger real part taken out.
pub(super) fn log_add_exp(a: Complex64, b: Complex64) -> Complex64 {
    let (a, b) = (Z::from(a), Z::from(b));
    if a.is_nan() || b.is_nan() {
        return Z { re: f64::NAN, im: f64::NAN }.into();
    }
    let (high, low) = if a.re >= b.re { (a, b) } else { (b, a) };
    if low.re == f64::NEG_INFINITY || high.re == f64::INFINITY {
        return high.into();
    }
    let e = Z { re: low.re - high.re, im: low.im - high.im }.exp();
    let l = e.above_one().ln();
    // The angle of the sum itself, since the logarithm is the principal one.
    let im = high.im + l.im;
    let turns = (im / std::f64::consts::TAU).round_ties_even();
    Z { re: high.re + l.re, im: im - turns * std::f64::consts::TAU }.into()
}

/// `a < b`, by real, then imaginary parts; false beside NaN.
#[inline(always)]
pub(super) fn less(a: Complex64, b: Complex64) -> bool {
    (a.re < b.re) | ((a.re == b.re) & (a.im < b.im))
}

/// `a <= b` in the same order.
#[inline(always)]
pub(super) fn less_equal(a: Complex64, b: Complex64) -> bool {
    (a.re < b.re) | ((a.re == b.re) & (a.im <= b.im))
}

/// The larger in that order, NaN when either is.
#[inline(always)]
pub(super) fn max(a: Complex64, b: Complex64) -> Complex64 {
    if Z::from(a).is_nan() || (!Z::from(b).is_nan() && less(b, a)) { a } else { b }
}

/// The smaller in that order, NaN when either is.
#[inline(always)]
pub(super) fn min(a: Complex64, b: Complex64) -> Complex64 {
    if Z::from(a).is_nan() || (!Z::from(b).is_nan() && less(a, b)) { a } else { b }
}
