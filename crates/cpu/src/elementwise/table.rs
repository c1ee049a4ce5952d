//! From an operation and a type to the loop that computes it over a tile.
//!
//! Integer operations that do not depend on the sign are shared by both kinds.

use super::complex;
use super::convert::{copy, truth};
use super::loops::{Step, bin, by_float, by_int, by_type, by_width, map1, map2, un, vec1};
use super::loops::{plain1, plain2, unsigned, wide1, wide2};
use super::scalar::{self, Float};
use super::wide;
use crate::vecmath;
use olivine_core::op::{Binary, Unary};
use olivine_core::{Complex64, Dtype};

/// `single` for `f32`, `double` for `f64`.
fn by_width_of_float(d: Dtype, single: Step, double: Step) -> Option<Step> {
    match d {
        Dtype::F32 => Some(single),
        d => self::double(d, double),
    }
}

/// `step` for `f64`.
fn double(d: Dtype, step: Step) -> Option<Step> {
    (d == Dtype::F64).then_some(step)
}

/// Functions of one argument of a type as tiles hold it. `None` for what the operation's rule refuses.
pub(super) fn unary(op: Unary, d: Dtype) -> Option<Step> {
    let same = || Some(copy(d.size()));
    let int = d.is_integer() || d == Dtype::Bool;
    if d == Dtype::C64
        && let Some(step) = complex_unary(op)
    {
        return Some(step);
    }
    match op {
        Unary::Abs => by_float!(d, T => un!(T => T, |a| a.abs()))
            .or_else(
                || by_type!(d, T in [I8 i8, I16 i16, I32 i32, I64 i64] => un!(T => T, |a| a.wrapping_abs())),
            )
            .or_else(same),
        Unary::Neg => by_float!(d, T => un!(T => T, |a| -a))
            .or_else(|| by_width!(d, T => un!(T => T, |a| a.wrapping_neg()))),
        Unary::Sign if d == Dtype::Bool => Some(truth(d)),
        Unary::Sign => by_float!(d, T => un!(T => T, |a| a.sign()))
            .or_else(|| by_type!(d, T in [I8 i8, I16 i16, I32 i32, I64 i64] => un!(T => T, |a| a.signum())))
            .or_else(|| by_width!(d, T => un!(T => T, |a| (a != 0) as T))),
        Unary::Ceil | Unary::Floor | Unary::Round | Unary::Trunc if int => same(),
        Unary::Ceil => by_float!(d, T => un!(T => T, |a| a.ceil())),
        Unary::Floor => by_float!(d, T => un!(T => T, |a| a.floor())),
        Unary::Round => by_float!(d, T => un!(T => T, |a| a.round_ties_even())),
        Unary::Trunc => by_float!(d, T => un!(T => T, |a| a.trunc())),
        Unary::Square => binary(Binary::Mul, d).map(|(s, _)| s),
        Unary::Sqrt => by_float!(d, T => un!(T => T, |a| a.sqrt())),
        Unary::Rsqrt => by_float!(d, T => un!(T => T, |a| 1.0 / a.sqrt())),
        Unary::Exp if d == Dtype::F32 => Some(vec1!(vecmath::exp)),
        Unary::Exp => double(d, un!(plain1, f64 => f64, |a| a.exp())),
        Unary::Expm1 => by_width_of_float(d, wide1::<wide::Expm1>, un!(plain1, f64 => f64, |a| a.exp_m1())),
        Unary::Log => by_width_of_float(d, wide1::<wide::Ln>, un!(plain1, f64 => f64, |a| a.ln())),
        Unary::Log2 => by_width_of_float(d, wide1::<wide::Log2>, un!(plain1, f64 => f64, |a| a.log2())),
        Unary::Log10 => by_width_of_float(d, wide1::<wide::Log10>, un!(plain1, f64 => f64, |a| a.log10())),
        Unary::Log1p => by_width_of_float(d, wide1::<wide::Ln1p>, un!(plain1, f64 => f64, |a| a.ln_1p())),
        Unary::Sin => by_width_of_float(d, wide1::<wide::Sin>, un!(plain1, f64 => f64, |a| a.sin())),
        Unary::Cos => by_width_of_float(d, wide1::<wide::Cos>, un!(plain1, f64 => f64, |a| a.cos())),
        Unary::Tan => by_width_of_float(d, wide1::<wide::Tan>, un!(plain1, f64 => f64, |a| a.tan())),
        Unary::Asin => by_width_of_float(d, wide1::<wide::Asin>, un!(plain1, f64 => f64, |a| a.asin())),
        Unary::Acos => by_width_of_float(d, wide1::<wide::Acos>, un!(plain1, f64 => f64, |a| a.acos())),
        Unary::Atan => by_width_of_float(d, wide1::<wide::Atan>, un!(plain1, f64 => f64, |a| a.atan())),
        Unary::Sinh => by_width_of_float(d, wide1::<wide::Sinh>, un!(plain1, f64 => f64, |a| a.sinh())),
        Unary::Cosh => by_width_of_float(d, wide1::<wide::Cosh>, un!(plain1, f64 => f64, |a| a.cosh())),
        Unary::Tanh => by_width_of_float(d, vec1!(vecmath::tanh), un!(plain1, f64 => f64, |a| a.tanh())),
        Unary::Asinh => {
            by_width_of_float(d, wide1::<wide::Asinh>, un!(plain1, f64 => f64, |a| libm::asinh(a)))
        }
        Unary::Acosh => {
            by_width_of_float(d, wide1::<wide::Acosh>, un!(plain1, f64 => f64, |a| libm::acosh(a)))
        }
        Unary::Atanh => {
            by_width_of_float(d, wide1::<wide::Atanh>, un!(plain1, f64 => f64, |a| libm::atanh(a)))
        }
        Unary::Erf => by_width_of_float(d, vec1!(vecmath::erf), un!(plain1, f64 => f64, |a| libm::erf(a))),
        Unary::ErfInv => {
            by_width_of_float(d, wide1::<wide::ErfInv>, un!(plain1, f64 => f64, |a| scalar::erfinv(a)))
        }
        Unary::Lgamma => by_width_of_float(
            d,
            un!(plain1, f32 => f32, |a| scalar::lgamma(a as f64) as f32),
            un!(plain1, f64 => f64, |a| scalar::lgamma(a)),
        ),
        Unary::Digamma => by_width_of_float(
            d,
            un!(plain1, f32 => f32, |a| scalar::digamma(a as f64) as f32),
            un!(plain1, f64 => f64, |a| scalar::digamma(a)),
        ),
        Unary::Sigmoid => {
            by_width_of_float(d, vec1!(vecmath::sigmoid), un!(plain1, f64 => f64, |a| scalar::sigmoid(a)))
        }
        Unary::LogicalNot => Some(match d {
            Dtype::Bool => un!(u8 => u8, |a| (a == 0) as u8),
            _ => by_width!(d, T => un!(T => u8, |a| (a == 0) as u8))
                .or_else(|| by_float!(d, T => un!(T => u8, |a| (a == 0.0) as u8)))?,
        }),
        Unary::BitNot if d == Dtype::Bool => Some(un!(u8 => u8, |a| (a == 0) as u8)),
        Unary::BitNot => by_width!(d, T => un!(T => T, |a| !a)),
        // Only for complex numbers.
        Unary::Real | Unary::Imag | Unary::Conj => None,
    }
}

/// Functions of one complex number.
fn complex_unary(op: Unary) -> Option<Step> {
    type C = Complex64;
    Some(match op {
        Unary::Abs => un!(C => f32, |a| complex::modulus(a)),
        Unary::Neg => un!(C => C, |a| C { re: -a.re, im: -a.im }),
        Unary::Sign => un!(plain1, C => C, |a| complex::sign(a)),
        Unary::Round => un!(C => C, |a| complex::round(a)),
        Unary::Sqrt => un!(plain1, C => C, |a| complex::sqrt(a)),
        Unary::Rsqrt => un!(plain1, C => C, |a| complex::rsqrt(a)),
        Unary::Square => un!(C => C, |a| complex::mul(a, a)),
        Unary::Exp => un!(plain1, C => C, |a| complex::exp(a)),
        Unary::Expm1 => un!(plain1, C => C, |a| complex::expm1(a)),
        Unary::Log => un!(plain1, C => C, |a| complex::ln(a)),
        Unary::Log2 => un!(plain1, C => C, |a| complex::log2(a)),
        Unary::Log10 => un!(plain1, C => C, |a| complex::log10(a)),
        Unary::Log1p => un!(plain1, C => C, |a| complex::ln_1p(a)),
        Unary::Sin => un!(plain1, C => C, |a| complex::sin(a)),
        Unary::Cos => un!(plain1, C => C, |a| complex::cos(a)),
        Unary::Tan => un!(plain1, C => C, |a| complex::tan(a)),
        Unary::Asin => un!(plain1, C => C, |a| complex::asin(a)),
        Unary::Acos => un!(plain1, C => C, |a| complex::acos(a)),
        Unary::Atan => un!(plain1, C => C, |a| complex::atan(a)),
        Unary::Sinh => un!(plain1, C => C, |a| complex::sinh(a)),
        Unary::Cosh => un!(plain1, C => C, |a| complex::cosh(a)),
        Unary::Tanh => un!(plain1, C => C, |a| complex::tanh(a)),
        Unary::Asinh => un!(plain1, C => C, |a| complex::asinh(a)),
        Unary::Acosh => un!(plain1, C => C, |a| complex::acosh(a)),
        Unary::Atanh => un!(plain1, C => C, |a| complex::atanh(a)),
        Unary::Sigmoid => un!(plain1, C => C, |a| complex::sigmoid(a)),
        Unary::LogicalNot => un!(C => u8, |a| !complex::is_true(a) as u8),
        Unary::Real => un!(C => f32, |a| a.re),
        Unary::Imag => un!(C => f32, |a| a.im),
        Unary::Conj => un!(C => C, |a| C { re: a.re, im: -a.im }),
        Unary::Ceil
        | Unary::Floor
        | Unary::Trunc
        | Unary::Erf
        | Unary::ErfInv
        | Unary::Lgamma
        | Unary::Digamma
        | Unary::BitNot => return None,
    })
}

/// Functions of two arguments of a type as tiles hold it, and whether the arguments change places. `None`
/// for what the operation's rule refuses.
pub(super) fn binary(op: Binary, d: Dtype) -> Option<(Step, bool)> {
    let step = match op {
        Binary::Gt => return binary(Binary::Lt, d).map(|(s, _)| (s, true)),
        Binary::Ge => return binary(Binary::Le, d).map(|(s, _)| (s, true)),
        op if d == Dtype::Bool => truth_table(op),
        op if d == Dtype::C64 => complex(op),
        op if d.is_integer() => integer(op, d),
        op => real(op, d),
    };
    step.map(|s| (s, false))
}

fn truth_table(op: Binary) -> Option<Step> {
    Some(match op {
        Binary::Add | Binary::Max | Binary::LogicalOr | Binary::BitOr => {
            bin!(u8 => u8, |a, b| ((a | b) != 0) as u8)
        }
        Binary::Mul | Binary::Min | Binary::LogicalAnd | Binary::BitAnd => {
            bin!(u8 => u8, |a, b| (a != 0) as u8 & (b != 0) as u8)
        }
        Binary::BitXor | Binary::Ne => bin!(u8 => u8, |a, b| (a != 0) as u8 ^ (b != 0) as u8),
        Binary::Eq => bin!(u8 => u8, |a, b| ((a != 0) as u8 ^ (b != 0) as u8) ^ 1),
        Binary::Lt => bin!(u8 => u8, |a, b| (a == 0) as u8 & (b != 0) as u8),
        Binary::Le => bin!(u8 => u8, |a, b| (a == 0) as u8 | (b != 0) as u8),
        Binary::Sub
        | Binary::Div
        | Binary::FloorDiv
        | Binary::Rem
        | Binary::Pow
        | Binary::Atan2
        | Binary::LogAddExp
        | Binary::Hypot
        | Binary::Copysign
        | Binary::Shl
        | Binary::Shr
        | Binary::Gt
        | Binary::Ge => return None,
    })
}

fn complex(op: Binary) -> Option<Step> {
    type C = Complex64;
    Some(match op {
        Binary::Add => bin!(C => C, |a, b| C { re: a.re + b.re, im: a.im + b.im }),
        Binary::Sub => bin!(C => C, |a, b| C { re: a.re - b.re, im: a.im - b.im }),
        Binary::Mul => bin!(C => C, |a, b| complex::mul(a, b)),
        Binary::Div => bin!(plain2, C => C, |a, b| complex::div(a, b)),
        Binary::Pow => bin!(plain2, C => C, |a, b| complex::pow(a, b)),
        Binary::Max => bin!(C => C, |a, b| complex::max(a, b)),
        Binary::Min => bin!(C => C, |a, b| complex::min(a, b)),
        Binary::LogAddExp => bin!(plain2, C => C, |a, b| complex::log_add_exp(a, b)),
        Binary::Lt => bin!(C => u8, |a, b| complex::less(a, b) as u8),
        Binary::Le => bin!(C => u8, |a, b| complex::less_equal(a, b) as u8),
        Binary::Eq => bin!(C => u8, |a, b| (a.re == b.re) as u8 & (a.im == b.im) as u8),
        Binary::Ne => bin!(C => u8, |a, b| (a.re != b.re) as u8 | (a.im != b.im) as u8),
        Binary::LogicalAnd => bin!(C => u8, |a, b| complex::is_true(a) as u8 & complex::is_true(b) as u8),
        Binary::LogicalOr => bin!(C => u8, |a, b| complex::is_true(a) as u8 | complex::is_true(b) as u8),
        Binary::FloorDiv
        | Binary::Rem
        | Binary::Atan2
        | Binary::Hypot
        | Binary::Copysign
        | Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::Shl
        | Binary::Shr
        | Binary::Gt
        | Binary::Ge => return None,
    })
}

fn integer(op: Binary, d: Dtype) -> Option<Step> {
    use scalar::Int;
    match op {
        Binary::Add => by_width!(d, T => bin!(T => T, |a, b| a.wrapping_add(b))),
        Binary::Sub => by_width!(d, T => bin!(T => T, |a, b| a.wrapping_sub(b))),
        Binary::Mul => by_width!(d, T => bin!(T => T, |a, b| a.wrapping_mul(b))),
        Binary::FloorDiv => by_int!(d, T => bin!(plain2, T => T, |a, b| a.floor_div(b))),
        Binary::Rem => by_int!(d, T => bin!(plain2, T => T, |a, b| a.floor_rem(b))),
        Binary::Pow => by_int!(d, T => bin!(plain2, T => T, |a, b| a.power(b))),
        Binary::Max => by_int!(d, T => bin!(T => T, |a, b| if a > b { a } else { b })),
        Binary::Min => by_int!(d, T => bin!(T => T, |a, b| if a < b { a } else { b })),
        Binary::LogicalAnd => by_width!(d, T => bin!(T => u8, |a, b| (a != 0) as u8 & (b != 0) as u8)),
        Binary::LogicalOr => by_width!(d, T => bin!(T => u8, |a, b| ((a | b) != 0) as u8)),
        Binary::BitAnd => by_width!(d, T => bin!(T => T, |a, b| a & b)),
        Binary::BitOr => by_width!(d, T => bin!(T => T, |a, b| a | b)),
        Binary::BitXor => by_width!(d, T => bin!(T => T, |a, b| a ^ b)),
        Binary::Shl => by_int!(d, T => bin!(T => T, |a, b| a.shift_up(b))),
        Binary::Shr => by_int!(d, T => bin!(T => T, |a, b| a.shift_down(b))),
        Binary::Eq => by_width!(d, T => bin!(T => u8, |a, b| (a == b) as u8)),
        Binary::Ne => by_width!(d, T => bin!(T => u8, |a, b| (a != b) as u8)),
        Binary::Lt => by_int!(d, T => bin!(T => u8, |a, b| (a < b) as u8)),
        Binary::Le => by_int!(d, T => bin!(T => u8, |a, b| (a <= b) as u8)),
        Binary::Div
        | Binary::Atan2
        | Binary::LogAddExp
        | Binary::Hypot
        | Binary::Copysign
        | Binary::Gt
        | Binary::Ge => None,
    }
}

fn real(op: Binary, d: Dtype) -> Option<Step> {
    match op {
        Binary::Add => by_float!(d, T => bin!(T => T, |a, b| a + b)),
        Binary::Sub => by_float!(d, T => bin!(T => T, |a, b| a - b)),
        Binary::Mul => by_float!(d, T => bin!(T => T, |a, b| a * b)),
        Binary::Div => by_float!(d, T => bin!(T => T, |a, b| a / b)),
        Binary::FloorDiv => {
            by_width_of_float(d, wide2::<wide::FloorDiv>, bin!(plain2, f64 => f64, |a, b| a.floor_div(b)))
        }
        Binary::Rem => {
            by_width_of_float(d, wide2::<wide::Rem>, bin!(plain2, f64 => f64, |a, b| a.floor_rem(b)))
        }
        Binary::Pow => by_width_of_float(d, wide2::<wide::Pow>, bin!(plain2, f64 => f64, |a, b| a.powf(b))),
        Binary::Max => by_float!(d, T => bin!(T => T, |a, b| if a > b || a.is_nan() { a } else { b })),
        Binary::Min => by_float!(d, T => bin!(T => T, |a, b| if a < b || a.is_nan() { a } else { b })),
        Binary::Atan2 => {
            by_width_of_float(d, wide2::<wide::Atan2>, bin!(plain2, f64 => f64, |a, b| a.atan2(b)))
        }
        Binary::LogAddExp => {
            by_width_of_float(d, wide2::<wide::LogAddExp>, bin!(plain2, f64 => f64, |a, b| a.log_add_exp(b)))
        }
        Binary::Hypot => by_width_of_float(
            d,
            bin!(f32 => f32, |a, b| complex::modulus(Complex64 { re: a, im: b })),
            bin!(plain2, f64 => f64, |a, b| a.hypot(b)),
        ),
        Binary::Copysign => by_float!(d, T => bin!(T => T, |a, b| a.copysign(b))),
        Binary::LogicalAnd => by_float!(d, T => bin!(T => u8, |a, b| (a != 0.0) as u8 & (b != 0.0) as u8)),
        Binary::LogicalOr => by_float!(d, T => bin!(T => u8, |a, b| (a != 0.0) as u8 | (b != 0.0) as u8)),
        Binary::Eq => by_float!(d, T => bin!(T => u8, |a, b| (a == b) as u8)),
        Binary::Ne => by_float!(d, T => bin!(T => u8, |a, b| (a != b) as u8)),
        Binary::Lt => by_float!(d, T => bin!(T => u8, |a, b| (a < b) as u8)),
        Binary::Le => by_float!(d, T => bin!(T => u8, |a, b| (a <= b) as u8)),
        Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::Shl
        | Binary::Shr
        | Binary::Gt
        | Binary::Ge => None,
    }
}

/// Rough cost of a function, in additions.
pub(super) fn cost_unary(op: Unary) -> usize {
    match op {
        Unary::Abs
        | Unary::Neg
        | Unary::Sign
        | Unary::Ceil
        | Unary::Floor
        | Unary::Round
        | Unary::Trunc
        | Unary::Sqrt
        | Unary::Rsqrt
        | Unary::Square
        | Unary::LogicalNot
        | Unary::BitNot
        | Unary::Real
        | Unary::Imag
        | Unary::Conj => 0,
        Unary::Exp
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
        | Unary::Sigmoid => 6,
    }
}

/// Rough cost of a function, in additions.
pub(super) fn cost_binary(op: Binary) -> usize {
    match op {
        Binary::FloorDiv | Binary::Rem | Binary::Pow | Binary::Atan2 | Binary::LogAddExp => 10,
        Binary::Add
        | Binary::Sub
        | Binary::Mul
        | Binary::Div
        | Binary::Max
        | Binary::Min
        | Binary::Hypot
        | Binary::Copysign
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
        | Binary::Ge => 0,
    }
}
