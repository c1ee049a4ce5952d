//! Elementwise functions of two arrays of one shape and type.

use super::{Grad, Meta, Metas, Op, arity, one};
use crate::dtype::Kind;
use crate::{Array, Dtype, Error, Result};
use serde::{Deserialize, Serialize};

/// Elementwise function of two arrays. Complex numbers are compared by their real, then their imaginary parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the functions")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// Floats only.
    Div,
    /// Rounded towards negative infinity; an integer divided by zero gives 0.
    FloorDiv,
    /// Remainder with the sign of the divisor, as Python's `%`; an integer modulo zero gives 0.
    Rem,
    /// Integers wrap; a negative integer exponent gives 0 (1 and -1 as base excepted).
    Pow,
    /// NaN when either is.
    Max,
    /// NaN when either is.
    Min,
    Atan2,
    /// log(exp(a) + exp(b)) without overflow.
    LogAddExp,
    /// sqrt(a * a + b * b) without overflow; infinite when either is, even beside NaN.
    Hypot,
    /// The absolute value of the first with the sign of the second.
    Copysign,
    LogicalAnd,
    LogicalOr,
    BitAnd,
    BitOr,
    BitXor,
    /// Shifts by the width or more give 0.
    Shl,
    /// Arithmetic for signed types; shifts by the width or more give 0, or -1 for negative numbers.
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Binary {
    /// All of them, in order.
    pub const ALL: [Binary; 26] = [
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::Div,
        Binary::FloorDiv,
        Binary::Rem,
        Binary::Pow,
        Binary::Max,
        Binary::Min,
        Binary::Atan2,
        Binary::LogAddExp,
        Binary::Hypot,
        Binary::Copysign,
        Binary::LogicalAnd,
        Binary::LogicalOr,
        Binary::BitAnd,
        Binary::BitOr,
        Binary::BitXor,
        Binary::Shl,
        Binary::Shr,
        Binary::Eq,
        Binary::Ne,
        Binary::Lt,
        Binary::Le,
        Binary::Gt,
        Binary::Ge,
    ];

    /// Name as users know it.
    pub fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "subtract",
            Binary::Mul => "multiply",
            Binary::Div => "divide",
            Binary::FloorDiv => "floor_divide",
            Binary::Rem => "remainder",
            Binary::Pow => "power",
            Binary::Max => "maximum",
            Binary::Min => "minimum",
            Binary::Atan2 => "arctan2",
            Binary::LogAddExp => "logaddexp",
            Binary::Hypot => "hypot",
            Binary::Copysign => "copysign",
            Binary::LogicalAnd => "logical_and",
            Binary::LogicalOr => "logical_or",
            Binary::BitAnd => "bitwise_and",
            Binary::BitOr => "bitwise_or",
            Binary::BitXor => "bitwise_xor",
            Binary::Shl => "left_shift",
            Binary::Shr => "right_shift",
            Binary::Eq => "equal",
            Binary::Ne => "not_equal",
            Binary::Lt => "less",
            Binary::Le => "less_equal",
            Binary::Gt => "greater",
            Binary::Ge => "greater_equal",
        }
    }

    /// Whether integers become floats before it is applied.
    pub fn wants_float(self) -> bool {
        matches!(self, Binary::Div | Binary::Atan2 | Binary::LogAddExp | Binary::Hypot | Binary::Copysign)
    }

    /// Type of the result for arguments of type `d`.
    pub fn output(self, d: Dtype) -> Result<Dtype> {
        let kind = d.kind();
        let refuse = |wanted: &str| Err(Error::bad_dtype(self.name(), wanted, d));
        match self {
            Binary::Add | Binary::Mul => Ok(d),
            Binary::Sub if kind == Kind::Bool => refuse("numbers"),
            Binary::Sub => Ok(d),
            Binary::Div if !d.is_inexact() => refuse("floats"),
            Binary::Div => Ok(d),
            Binary::LogAddExp if !d.is_inexact() => refuse("floats"),
            Binary::Atan2 | Binary::Hypot | Binary::Copysign if !d.is_float() => refuse("real floats"),
            Binary::Atan2 | Binary::Hypot | Binary::Copysign | Binary::LogAddExp => Ok(d),
            Binary::FloorDiv | Binary::Rem if kind == Kind::Complex => refuse("real numbers"),
            Binary::FloorDiv | Binary::Rem | Binary::Pow if kind == Kind::Bool => refuse("numbers"),
            Binary::FloorDiv | Binary::Rem | Binary::Max | Binary::Min | Binary::Pow => Ok(d),
            Binary::BitAnd | Binary::BitOr | Binary::BitXor if d.is_inexact() => refuse("integers or bool"),
            Binary::BitAnd | Binary::BitOr | Binary::BitXor => Ok(d),
            Binary::Shl | Binary::Shr if !d.is_integer() => refuse("integers"),
            Binary::Shl | Binary::Shr => Ok(d),
            Binary::Lt
            | Binary::Le
            | Binary::Gt
            | Binary::Ge
            | Binary::LogicalAnd
            | Binary::LogicalOr
            | Binary::Eq
            | Binary::Ne => Ok(Dtype::Bool),
        }
    }

    pub(super) fn infer(self, inputs: &[&Meta]) -> Result<Metas> {
        let [a, b] = arity(self.name(), inputs)?;
        if a.shape != b.shape {
            return Err(Error::shape(self.name(), format!("shapes {} and {} differ", a.shape, b.shape)));
        }
        if a.dtype != b.dtype {
            return Err(Error::dtype(self.name(), format!("types {} and {} differ", a.dtype, b.dtype)));
        }
        one(a.shape.clone(), self.output(a.dtype)?)
    }

    pub(super) fn grad(self) -> Grad {
        match self {
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Div
            | Binary::Rem
            | Binary::Pow
            | Binary::Max
            | Binary::Min
            | Binary::Atan2
            | Binary::LogAddExp
            | Binary::Hypot
            | Binary::Copysign => Grad::Pointwise(partial),
            Binary::FloorDiv
            | Binary::LogicalAnd
            | Binary::LogicalOr
            | Binary::BitAnd
            | Binary::BitOr
            | Binary::BitXor
            | Binary::Shl
            | Binary::Shr
            | Binary::Eq
            | Binary::Ne
            | Binary::Lt
            | Binary::Le
            | Binary::Gt
            | Binary::Ge => Grad::NonDiff,
        }
    }
}

impl Binary {
    /// Whether a partial derivative is infinite somewhere.
    pub(super) fn is_singular(self) -> bool {
        matches!(self, Binary::Div | Binary::Pow | Binary::Atan2 | Binary::LogAddExp)
    }
}

/// Partial derivative by argument `i`. Where `maximum` and `minimum` tie, the first argument takes it all.
fn partial(op: &Op, inputs: &[Array], y: &Array, i: usize) -> Result<Option<Array>> {
    let Op::Binary(f) = op else { return Ok(None) };
    let (a, b) = (&inputs[0], &inputs[1]);
    let first = i == 0;
    let d = match f {
        Binary::Add => a.full_like(1.0)?,
        Binary::Sub => a.full_like(if first { 1.0 } else { -1.0 })?,
        Binary::Mul => if first { b } else { a }.clone(),
        Binary::Div if first => b.reciprocal()?,
        Binary::Div => y.divide(b)?.negative()?,
        Binary::Rem if first => a.full_like(1.0)?,
        Binary::Rem => a.floor_divide(b)?.negative()?,
        Binary::Pow if first => {
            // b * a^(b-1), which is 0 rather than NaN at a = 0, b = 0.
            let safe = b.equal(&b.scalar_like(0.0))?;
            let d = b.multiply(&a.power(&b.subtract(&b.scalar_like(1.0))?)?)?;
            Array::select(&safe, &a.full_like(0.0)?, &d)?
        }
        Binary::Pow => {
            // a^b * log(a), which is 0 at a = 0.
            let zero = a.equal(&a.scalar_like(0.0))?;
            let log = Array::select(&zero, &a.full_like(1.0)?, a)?.log()?;
            y.multiply(&log)?
        }
        // Equal arguments: the slope is the second one's, as in MLX, so that `maximum(x, 0)` has slope 0 at 0.
        Binary::Max if first => a.greater(b)?.astype(a.dtype())?,
        Binary::Max => a.less_equal(b)?.astype(a.dtype())?,
        Binary::Min if first => a.less(b)?.astype(a.dtype())?,
        Binary::Min => a.greater_equal(b)?.astype(a.dtype())?,
        Binary::Atan2 => {
            let norm = a.square()?.add(&b.square()?)?;
            if first { b.divide(&norm)? } else { a.negative()?.divide(&norm)? }
        }
        Binary::LogAddExp => {
            // 0 where both are -inf: neither adds anything.
            let none = y.equal(&y.scalar_like(f64::NEG_INFINITY))?;
            let finite = Array::select(&none, &y.scalar_like(0.0), y)?;
            if first { a } else { b }.subtract(&finite)?.exp()?
        }
        Binary::Hypot => {
            // Taken as 0 where both are 0, like the derivative of an absolute value.
            let zero = y.equal(&y.scalar_like(0.0))?;
            let d = if first { a } else { b }.divide(&Array::select(&zero, &y.full_like(1.0)?, y)?)?;
            Array::select(&zero, &y.full_like(0.0)?, &d)?
        }
        Binary::Copysign if first => {
            a.full_like(1.0)?.copysign(b)?.multiply(&a.full_like(1.0)?.copysign(a)?)?
        }
        Binary::Copysign
        | Binary::FloorDiv
        | Binary::LogicalAnd
        | Binary::LogicalOr
        | Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::Shl
        | Binary::Shr
        | Binary::Eq
        | Binary::Ne
        | Binary::Lt
        | Binary::Le
        | Binary::Gt
        | Binary::Ge => return Ok(None),
    };
    Ok(Some(d))
}
