//! Elementwise functions of one array.

use super::{Cotangents, Grad, Meta, Metas, Op, arity, one};
use crate::dtype::{Complex64, Kind};
use crate::{Array, Dtype, Error, Result};
use serde::{Deserialize, Serialize};

/// Elementwise function of one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the functions")]
pub enum Unary {
    Abs,
    Neg,
    Sign,
    Ceil,
    Floor,
    /// To the nearest integer, ties to even.
    Round,
    /// Towards zero.
    Trunc,
    Sqrt,
    Rsqrt,
    Square,
    Exp,
    Expm1,
    Log,
    Log2,
    Log10,
    Log1p,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    ErfInv,
    /// Logarithm of the absolute value of the gamma function.
    Lgamma,
    /// Derivative of [`Unary::Lgamma`].
    Digamma,
    /// 1 / (1 + exp(-x)), without overflow.
    Sigmoid,
    LogicalNot,
    BitNot,
    Real,
    Imag,
    Conj,
}

/// What an argument must be and what comes of it.
enum Rule {
    /// Any number, the same type.
    Same,
    /// Real numbers, the same type; integers stay as they are.
    Real,
    /// Floats; complex only where stated.
    Float { complex: bool },
    /// Anything to `bool`.
    ToBool,
    /// Integers and `bool`.
    Bits,
    /// Complex to its part in `f32`.
    Part,
    /// Complex to complex.
    Complex,
}

impl Unary {
    /// All of them, in order.
    pub const ALL: [Unary; 38] = [
        Unary::Abs,
        Unary::Neg,
        Unary::Sign,
        Unary::Ceil,
        Unary::Floor,
        Unary::Round,
        Unary::Trunc,
        Unary::Sqrt,
        Unary::Rsqrt,
        Unary::Square,
        Unary::Exp,
        Unary::Expm1,
        Unary::Log,
        Unary::Log2,
        Unary::Log10,
        Unary::Log1p,
        Unary::Sin,
        Unary::Cos,
        Unary::Tan,
        Unary::Asin,
        Unary::Acos,
        Unary::Atan,
        Unary::Sinh,
        Unary::Cosh,
        Unary::Tanh,
        Unary::Asinh,
        Unary::Acosh,
        Unary::Atanh,
        Unary::Erf,
        Unary::ErfInv,
        Unary::Lgamma,
        Unary::Digamma,
        Unary::Sigmoid,
        Unary::LogicalNot,
        Unary::BitNot,
        Unary::Real,
        Unary::Imag,
        Unary::Conj,
    ];

    /// Name as users know it.
    pub fn name(self) -> &'static str {
        match self {
            Unary::Abs => "abs",
            Unary::Neg => "negative",
            Unary::Sign => "sign",
            Unary::Ceil => "ceil",
            Unary::Floor => "floor",
            Unary::Round => "round",
            Unary::Trunc => "trunc",
            Unary::Sqrt => "sqrt",
            Unary::Rsqrt => "rsqrt",
            Unary::Square => "square",
            Unary::Exp => "exp",
            Unary::Expm1 => "expm1",
            Unary::Log => "log",
            Unary::Log2 => "log2",
            Unary::Log10 => "log10",
            Unary::Log1p => "log1p",
            Unary::Sin => "sin",
            Unary::Cos => "cos",
            Unary::Tan => "tan",
            Unary::Asin => "arcsin",
            Unary::Acos => "arccos",
            Unary::Atan => "arctan",
            Unary::Sinh => "sinh",
            Unary::Cosh => "cosh",
            Unary::Tanh => "tanh",
            Unary::Asinh => "arcsinh",
            Unary::Acosh => "arccosh",
            Unary::Atanh => "arctanh",
            Unary::Erf => "erf",
            Unary::ErfInv => "erfinv",
            Unary::Lgamma => "lgamma",
            Unary::Digamma => "digamma",
            Unary::Sigmoid => "sigmoid",
            Unary::LogicalNot => "logical_not",
            Unary::BitNot => "bitwise_invert",
            Unary::Real => "real",
            Unary::Imag => "imag",
            Unary::Conj => "conjugate",
        }
    }

    fn rule(self) -> Rule {
        match self {
            Unary::Abs | Unary::Neg | Unary::Square | Unary::Sign | Unary::Round => Rule::Same,
            Unary::Ceil | Unary::Floor | Unary::Trunc => Rule::Real,
            Unary::Sqrt
            | Unary::Exp
            | Unary::Log
            | Unary::Sigmoid
            | Unary::Rsqrt
            | Unary::Expm1
            | Unary::Log2
            | Unary::Log10
            | Unary::Log1p
            | Unary::Sin
            | Unary::Cos
            | Unary::Tan
            | Unary::Asin
            | Unary::Acos
            | Unary::Atan
            | Unary::Sinh
            | Unary::Cosh
            | Unary::Tanh
            | Unary::Asinh
            | Unary::Acosh
            | Unary::Atanh => Rule::Float { complex: true },
            Unary::Erf | Unary::ErfInv | Unary::Lgamma | Unary::Digamma => Rule::Float { complex: false },
            Unary::LogicalNot => Rule::ToBool,
            Unary::BitNot => Rule::Bits,
            Unary::Real | Unary::Imag => Rule::Part,
            Unary::Conj => Rule::Complex,
        }
    }

    /// Whether integers become floats before it is applied.
    pub fn wants_float(self) -> bool {
        matches!(self.rule(), Rule::Float { .. })
    }

    /// Type of the result for an argument of type `d`.
    pub fn output(self, d: Dtype) -> Result<Dtype> {
        let kind = d.kind();
        let (ok, out, wanted) = match self.rule() {
            Rule::Same if matches!(self, Unary::Abs) && kind == Kind::Complex => (true, Dtype::F32, ""),
            Rule::Same => (kind != Kind::Bool || self != Unary::Neg, d, "numbers"),
            Rule::Real => (kind != Kind::Complex, d, "real numbers"),
            Rule::Float { complex: true } => (d.is_inexact(), d, "floats"),
            Rule::Float { complex: false } => (d.is_float(), d, "real floats"),
            Rule::ToBool => (true, Dtype::Bool, ""),
            Rule::Bits => (!d.is_inexact(), d, "integers or bool"),
            Rule::Part => (kind == Kind::Complex, Dtype::F32, "complex numbers"),
            Rule::Complex => (kind == Kind::Complex, d, "complex numbers"),
        };
        if ok { Ok(out) } else { Err(Error::bad_dtype(self.name(), wanted, d)) }
    }

    pub(super) fn infer(self, inputs: &[&Meta]) -> Result<Metas> {
        let [x] = arity(self.name(), inputs)?;
        one(x.shape.clone(), self.output(x.dtype)?)
    }

    pub(super) fn grad(self) -> Grad {
        match self {
            Unary::Sign
            | Unary::Ceil
            | Unary::Floor
            | Unary::Round
            | Unary::Trunc
            | Unary::LogicalNot
            | Unary::BitNot => Grad::NonDiff,
            Unary::Abs | Unary::Real | Unary::Imag | Unary::Conj => Grad::Explicit { jvp, vjp },
            Unary::Neg
            | Unary::Sqrt
            | Unary::Rsqrt
            | Unary::Square
            | Unary::Exp
            | Unary::Expm1
            | Unary::Log
            | Unary::Log2
            | Unary::Log10
            | Unary::Log1p
            | Unary::Sin
            | Unary::Cos
            | Unary::Tan
            | Unary::Asin
            | Unary::Acos
            | Unary::Atan
            | Unary::Sinh
            | Unary::Cosh
            | Unary::Tanh
            | Unary::Asinh
            | Unary::Acosh
            | Unary::Atanh
            | Unary::Erf
            | Unary::ErfInv
            | Unary::Lgamma
            | Unary::Digamma
            | Unary::Sigmoid => Grad::Pointwise(partial),
        }
    }

    /// Whether the slope is infinite somewhere in the domain.
    pub(super) fn is_singular(self) -> bool {
        matches!(
            self,
            Unary::Sqrt
                | Unary::Rsqrt
                | Unary::Log
                | Unary::Log2
                | Unary::Log10
                | Unary::Log1p
                | Unary::Asin
                | Unary::Acos
                | Unary::Acosh
                | Unary::Atanh
                | Unary::ErfInv
        )
    }
}

/// `z / |z|`, and 0 at 0.
fn direction(z: &Array) -> Result<Array> {
    if !z.dtype().is_complex() {
        return z.sign();
    }
    let size = z.abs()?.astype(z.dtype())?;
    let zero = size.equal(&size.scalar_like(0.0))?;
    z.divide(&Array::select(&zero, &size.full_like(1.0)?, &size)?)
}

/// Functions that are linear over the real numbers, and the absolute value.
fn jvp(op: &Op, inputs: &[Array], _: &[Array], tangents: &[Option<Array>]) -> Result<Cotangents> {
    let (Op::Unary(f), Some(t)) = (op, &tangents[0]) else { return Ok(Cotangents::from_iter([None])) };
    let x = &inputs[0];
    let y = if *f != Unary::Abs {
        t.unary(*f)?
    } else if x.dtype().is_complex() {
        direction(x)?.conjugate()?.multiply(t)?.real()?
    } else {
        t.multiply(&x.sign()?)?
    };
    Ok(Cotangents::from_iter([Some(y)]))
}

fn vjp(
    op: &Op,
    inputs: &[Array],
    _: &[Array],
    cotangents: &[Option<Array>],
    _: &[bool],
) -> Result<Cotangents> {
    let (Op::Unary(f), Some(c)) = (op, &cotangents[0]) else { return Ok(Cotangents::from_iter([None])) };
    let x = &inputs[0];
    let wide = || c.astype(x.dtype());
    let back = if *f == Unary::Abs {
        direction(x)?.multiply(&wide()?)?
    } else if *f == Unary::Real {
        wide()?
    } else if *f == Unary::Imag {
        wide()?.multiply(&Array::from_scalar(Complex64 { re: 0.0, im: 1.0 }))?
    } else {
        c.unary(*f)?
    };
    Ok(Cotangents::from_iter([Some(back)]))
}

/// Derivative of a real function by its argument, from the argument `x` and, where cheaper, the result `y`.
fn partial(op: &Op, inputs: &[Array], y: &Array, _i: usize) -> Result<Option<Array>> {
    let Op::Unary(f) = op else { return Ok(None) };
    let x = &inputs[0];
    let one = || x.scalar_like(1.0);
    let d = match f {
        Unary::Neg => x.full_like(-1.0)?,
        Unary::Sqrt => y.full_like(0.5)?.divide(y)?,
        Unary::Rsqrt => y.multiply(&y.square()?)?.scale(-0.5)?,
        Unary::Square => x.scale(2.0)?,
        Unary::Exp => y.clone(),
        Unary::Expm1 => y.add(&one())?,
        Unary::Log => x.reciprocal()?,
        Unary::Log2 => x.scale(std::f64::consts::LN_2)?.reciprocal()?,
        Unary::Log10 => x.scale(std::f64::consts::LN_10)?.reciprocal()?,
        Unary::Log1p => x.add(&one())?.reciprocal()?,
        Unary::Sin => x.cos()?,
        Unary::Cos => x.sin()?.negative()?,
        Unary::Tan => y.square()?.add(&one())?,
        Unary::Asin => one().subtract(&x.square()?)?.rsqrt()?,
        Unary::Acos => one().subtract(&x.square()?)?.rsqrt()?.negative()?,
        Unary::Atan => x.square()?.add(&one())?.reciprocal()?,
        Unary::Sinh => x.cosh()?,
        Unary::Cosh => x.sinh()?,
        Unary::Tanh => one().subtract(&y.square()?)?,
        Unary::Asinh => x.square()?.add(&one())?.rsqrt()?,
        Unary::Acosh => x.square()?.subtract(&one())?.rsqrt()?,
        Unary::Atanh => one().subtract(&x.square()?)?.reciprocal()?,
        Unary::Erf => x.square()?.negative()?.exp()?.scale(std::f64::consts::FRAC_2_SQRT_PI)?,
        Unary::ErfInv => y.square()?.exp()?.scale(1.0 / std::f64::consts::FRAC_2_SQRT_PI)?,
        Unary::Lgamma => x.digamma()?,
        Unary::Digamma => crate::ops::trigamma(x)?,
        Unary::Sigmoid => y.multiply(&one().subtract(y)?)?,
        Unary::Abs
        | Unary::Sign
        | Unary::Ceil
        | Unary::Floor
        | Unary::Round
        | Unary::Trunc
        | Unary::LogicalNot
        | Unary::BitNot
        | Unary::Real
        | Unary::Imag
        | Unary::Conj => return Ok(None),
    };
    Ok(Some(d))
}
