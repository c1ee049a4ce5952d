//! Elementwise mathematics, comparisons, logic, conversion and choice.

use crate::dtype::{Dtype, Scalar};
use crate::op::{Binary, Op, Unary};
use crate::shape::Shape;
use crate::{Array, Error, Result};

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident => $op:ident),* $(,)?) => {
        impl Array { $( $(#[$doc])* pub fn $name(&self) -> Result<Array> { self.unary(Unary::$op) } )* }
    };
}

unary! {
    /// Absolute value; the modulus of complex numbers, as `f32`.
    abs => Abs,
    /// `-x`.
    negative => Neg,
    /// -1, 0 or 1; NaN for NaN; `x / |x|` of complex numbers.
    sign => Sign,
    /// Smallest integer that is not less.
    ceil => Ceil,
    /// Largest integer that is not greater.
    floor => Floor,
    /// Nearest integer, ties to even; both parts of a complex number. See [`Array::round_to`].
    round => Round,
    /// Nearest integer towards zero.
    trunc => Trunc,
    /// Square root.
    sqrt => Sqrt,
    /// `1 / sqrt(x)`.
    rsqrt => Rsqrt,
    /// `x * x`.
    square => Square,
    /// e to the power of x.
    exp => Exp,
    /// `exp(x) - 1`, right for small x.
    expm1 => Expm1,
    /// Natural logarithm.
    log => Log,
    /// Logarithm to base 2.
    log2 => Log2,
    /// Logarithm to base 10.
    log10 => Log10,
    /// `log(1 + x)`, right for small x.
    log1p => Log1p,
    /// Sine of radians.
    sin => Sin,
    /// Cosine of radians.
    cos => Cos,
    /// Tangent of radians.
    tan => Tan,
    /// Inverse sine, in radians.
    arcsin => Asin,
    /// Inverse cosine, in radians.
    arccos => Acos,
    /// Inverse tangent, in radians.
    arctan => Atan,
    /// Hyperbolic sine.
    sinh => Sinh,
    /// Hyperbolic cosine.
    cosh => Cosh,
    /// Hyperbolic tangent.
    tanh => Tanh,
    /// Inverse hyperbolic sine.
    arcsinh => Asinh,
    /// Inverse hyperbolic cosine.
    arccosh => Acosh,
    /// Inverse hyperbolic tangent.
    arctanh => Atanh,
    /// Error function, `2 / sqrt(pi)` times the integral of `exp(-t^2)` from 0 to x.
    erf => Erf,
    /// Inverse of [`Array::erf`].
    erfinv => ErfInv,
    /// Logarithm of the absolute value of the gamma function.
    lgamma => Lgamma,
    /// Derivative of [`Array::lgamma`]; NaN at negative integers, minus and plus infinity at the zeros.
    digamma => Digamma,
    /// `1 / (1 + exp(-x))`.
    sigmoid => Sigmoid,
    /// True where x is zero.
    logical_not => LogicalNot,
    /// All bits inverted; logical for `bool`.
    bitwise_invert => BitNot,
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident => $op:ident),* $(,)?) => {
        impl Array { $( $(#[$doc])* pub fn $name(&self, other: &Array) -> Result<Array> { self.binary(Binary::$op, other) } )* }
    };
}

binary! {
    /// `a + b`.
    add => Add,
    /// `a - b`.
    subtract => Sub,
    /// `a * b`.
    multiply => Mul,
    /// `a / b`; integers become `f32`.
    divide => Div,
    /// `a / b` rounded towards negative infinity, in the type of the arguments.
    floor_divide => FloorDiv,
    /// Remainder with the sign of the divisor.
    remainder => Rem,
    /// `a` to the power of `b`.
    power => Pow,
    /// The larger; NaN when either is.
    maximum => Max,
    /// The smaller; NaN when either is.
    minimum => Min,
    /// Angle of the point (b, a), in radians.
    arctan2 => Atan2,
    /// `log(exp(a) + exp(b))` without overflow.
    logaddexp => LogAddExp,
    /// `sqrt(a * a + b * b)` without overflow.
    hypot => Hypot,
    /// `|a|` with the sign of `b`.
    copysign => Copysign,
    /// Both are true.
    logical_and => LogicalAnd,
    /// Either is true.
    logical_or => LogicalOr,
    /// Bitwise and.
    bitwise_and => BitAnd,
    /// Bitwise or.
    bitwise_or => BitOr,
    /// Bitwise exclusive or.
    bitwise_xor => BitXor,
    /// Bits moved up.
    left_shift => Shl,
    /// Bits moved down.
    right_shift => Shr,
    /// `a == b`.
    equal => Eq,
    /// `a != b`.
    not_equal => Ne,
    /// `a < b`.
    less => Lt,
    /// `a <= b`.
    less_equal => Le,
    /// `a > b`.
    greater => Gt,
    /// `a >= b`.
    greater_equal => Ge,
}

impl Array {
    pub(crate) fn unary(&self, op: Unary) -> Result<Array> {
        if op.wants_float() && !self.dtype().is_inexact() {
            return self.astype(Dtype::F32)?.unary(op);
        }
        Array::from_op(Op::Unary(op), std::slice::from_ref(self))
    }

    fn binary(&self, op: Binary, other: &Array) -> Result<Array> {
        let mut dtype = self.dtype().promote(other.dtype());
        if op.wants_float() {
            dtype = dtype.to_inexact();
        }
        if dtype == Dtype::Bool {
            match op {
                // A difference of truth values is one where they differ.
                Binary::Sub => return self.binary(Binary::Ne, other),
                Binary::FloorDiv | Binary::Rem | Binary::Pow => {
                    let a = self.astype(Dtype::U8)?;
                    return a.binary(op, &other.astype(Dtype::U8)?)?.astype(Dtype::Bool);
                }
                Binary::Shl | Binary::Shr => dtype = Dtype::U8,
                _ => {}
            }
        }
        let shape = Shape::broadcast(op.name(), self.shape(), other.shape())?;
        let a = self.astype(dtype)?.broadcast_to(&shape)?;
        let b = other.astype(dtype)?.broadcast_to(&shape)?;
        Array::from_op(Op::Binary(op), &[a, b])
    }

    /// The elements as another type: floats round to nearest even; a float outside an integer type saturates
    /// and NaN becomes 0; integers wrap; everything but zero is true.
    pub fn astype(&self, dtype: Dtype) -> Result<Array> {
        if self.dtype() == dtype {
            return Ok(self.clone());
        }
        Array::from_op(Op::Cast(dtype), std::slice::from_ref(self))
    }

    /// `a` where `condition` is true, else `b`; all three broadcast.
    pub fn select(condition: &Array, a: &Array, b: &Array) -> Result<Array> {
        let dtype = a.dtype().promote(b.dtype());
        let shape = Shape::broadcast("where", a.shape(), b.shape())?;
        let shape = Shape::broadcast("where", condition.shape(), &shape)?;
        let c = condition.astype(Dtype::Bool)?.broadcast_to(&shape)?;
        let a = a.astype(dtype)?.broadcast_to(&shape)?;
        let b = b.astype(dtype)?.broadcast_to(&shape)?;
        Array::from_op(Op::Select, &[c, a, b])
    }

    /// `x * factor`, the factor rounded to this array's type.
    pub fn scale(&self, factor: f64) -> Result<Array> {
        self.multiply(&self.scalar_like(factor))
    }

    /// `1 / x`; integers become `f32`.
    pub fn reciprocal(&self) -> Result<Array> {
        let x = self.astype(self.dtype().to_inexact())?;
        x.scalar_like(1.0).divide(&x)
    }

    /// The elements limited to `low..=high`.
    pub fn clip(&self, low: Option<&Array>, high: Option<&Array>) -> Result<Array> {
        let mut x = self.clone();
        if let Some(l) = low {
            x = x.maximum(l)?;
        }
        if let Some(h) = high {
            x = x.minimum(h)?;
        }
        Ok(x)
    }

    /// True where the element is NaN.
    pub fn isnan(&self) -> Result<Array> {
        if !self.dtype().is_inexact() {
            return Array::zeros(self.shape(), Dtype::Bool);
        }
        self.not_equal(self)
    }

    /// `x * sigmoid(x)` (Elfwing et al. 2018).
    pub fn silu(&self) -> Result<Array> {
        self.multiply(&self.sigmoid()?)
    }

    /// `x * (1 + erf(x / sqrt(2))) / 2` (Hendrycks and Gimpel 2016).
    pub fn gelu(&self) -> Result<Array> {
        let half = self.scale(0.5)?;
        half.multiply(&self.scale(std::f64::consts::FRAC_1_SQRT_2)?.erf()?.add(&half.scalar_like(1.0))?)
    }

    /// Gaussian error linear unit by its tanh approximation (Hendrycks and Gimpel 2016, section 2).
    pub fn gelu_tanh(&self) -> Result<Array> {
        let c = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
        let inner = self.add(&self.square()?.multiply(self)?.scale(0.044715)?)?.scale(c)?;
        self.scale(0.5)?.multiply(&inner.tanh()?.add(&self.scalar_like(1.0))?)
    }

    /// A constant beside this array in an operation: its own type for numbers that the type can hold, `f32`
    /// for a fraction beside integers.
    pub(crate) fn weak(&self, value: f64, op: &'static str) -> Result<Array> {
        let d = self.dtype();
        let dtype = if d.is_inexact() {
            d
        } else if value.fract() != 0.0 || !value.is_finite() {
            Dtype::F32
        } else if d == Dtype::Bool {
            Dtype::I32
        } else {
            d
        };
        let s = Scalar::from_f64(value, dtype);
        if dtype.is_integer() && s.to_f64() != value {
            return Err(Error::value(op, format!("{value} is outside {dtype}")));
        }
        Ok(Array::constant(s, Shape::scalar()))
    }
}
