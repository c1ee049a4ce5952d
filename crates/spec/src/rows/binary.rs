//! Functions of two elements.

use super::{Case, Row};
use crate::draw::Profile;
use crate::host::{Cx, Data, Host, wrap};
use olivine_core::op::Binary;
use olivine_core::{Dtype, Op};

pub(super) fn rows() -> Vec<Row> {
    let row = |b: Binary| {
        let dtypes = Dtype::ALL.into_iter().filter(move |d| b.output(*d).is_ok());
        Row::new(b.name(), dtypes, move |d, t| {
            let shape = d.shape(0, 4);
            let tame = t == Dtype::C64 && d.profile == Profile::Special;
            let mut one = || if tame { d.between(&shape, t, -3.0, 3.0) } else { d.numbers(&shape, t) };
            let x = one();
            let y = one();
            // Shifts by more than the width are only some of them, and so are negative ones.
            let shift = matches!(b, Binary::Shl | Binary::Shr) && d.rng.chance(80);
            let y = if shift { d.integers(&shape, t, 0, 8 * t.size() as i64 - 1) } else { y };
            Case::new(Op::Binary(b), vec![x, y])
        })
        // Complex powers multiply the error of a logarithm.
        .units(|d| if d == Dtype::C64 { 64.0 } else { 2.0 })
    };
    Binary::ALL.into_iter().map(row).collect()
}

fn truth(b: bool) -> f64 {
    f64::from(u8::from(b))
}

/// Remainder with the sign of the divisor.
fn remainder(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r == 0.0 {
        0f64.copysign(b)
    } else if (r < 0.0) != (b < 0.0) {
        r + b
    } else {
        r
    }
}

/// The largest whole number that is at most the quotient.
fn floor_divide(a: f64, b: f64) -> f64 {
    if b == 0.0 || a.is_nan() || b.is_nan() {
        return a / b;
    }
    if a.is_infinite() {
        return f64::NAN;
    }
    if b.is_infinite() {
        return if a == 0.0 { 0.0 } else { -truth((a < 0.0) != (b < 0.0)) };
    }
    ((a - remainder(a, b)) / b).round()
}

fn real(op: Binary, a: f64, b: f64) -> f64 {
    let nan = a.is_nan() || b.is_nan();
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::FloorDiv => floor_divide(a, b),
        Binary::Rem => remainder(a, b),
        Binary::Pow => a.powf(b),
        Binary::Max | Binary::Min | Binary::LogAddExp if nan => f64::NAN,
        Binary::Max => a.max(b),
        Binary::Min => a.min(b),
        Binary::Atan2 => a.atan2(b),
        Binary::Hypot => a.hypot(b),
        Binary::Copysign => a.copysign(b),
        Binary::LogAddExp if a == b => a + std::f64::consts::LN_2,
        Binary::LogAddExp => a.max(b) + (a.min(b) - a.max(b)).exp().ln_1p(),
        Binary::LogicalAnd => truth(a != 0.0 && b != 0.0),
        Binary::LogicalOr => truth(a != 0.0 || b != 0.0),
        Binary::Eq => truth(a == b),
        Binary::Ne => truth(a != b),
        Binary::Lt => truth(a < b),
        Binary::Le => truth(a <= b),
        Binary::Gt => truth(a > b),
        Binary::Ge => truth(a >= b),
        // Of floats an error.
        Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr => f64::NAN,
    }
}

/// `a^e` in the type.
fn int_power(a: i128, e: i128, d: Dtype) -> i128 {
    if e < 0 {
        return match a {
            1 => 1,
            -1 => 1 - 2 * (e & 1),
            _ => 0,
        };
    }
    let (mut r, mut base, mut e) = (1i128, a, e);
    while e > 0 {
        if e & 1 == 1 {
            r = wrap(r.wrapping_mul(base), d);
        }
        base = wrap(base.wrapping_mul(base), d);
        e >>= 1;
    }
    wrap(r, d)
}

fn int(op: Binary, a: i128, b: i128, d: Dtype) -> i128 {
    let width = 8 * d.size() as i128;
    match op {
        // Of truth values: or, and.
        Binary::Add if d == Dtype::Bool => a | b,
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a.wrapping_mul(b),
        Binary::FloorDiv | Binary::Rem if b == 0 => 0,
        Binary::FloorDiv => a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0),
        Binary::Rem => {
            let r = a.rem_euclid(b);
            if b < 0 && r != 0 { r + b } else { r }
        }
        Binary::Pow => int_power(a, b, d),
        Binary::Max => a.max(b),
        Binary::Min => a.min(b),
        Binary::LogicalAnd => i128::from(a != 0 && b != 0),
        Binary::LogicalOr => i128::from(a != 0 || b != 0),
        Binary::BitAnd => a & b,
        Binary::BitOr => a | b,
        Binary::BitXor => a ^ b,
        Binary::Shl if b < 0 || b >= width => 0,
        Binary::Shl => a << b,
        Binary::Shr if b < 0 || b >= width => -i128::from(a < 0),
        Binary::Shr => a >> b,
        Binary::Eq => i128::from(a == b),
        Binary::Ne => i128::from(a != b),
        Binary::Lt => i128::from(a < b),
        Binary::Le => i128::from(a <= b),
        Binary::Gt => i128::from(a > b),
        Binary::Ge => i128::from(a >= b),
        // Of integers an error.
        Binary::Div | Binary::Atan2 | Binary::LogAddExp | Binary::Hypot | Binary::Copysign => 0,
    }
}

fn complex(op: Binary, a: Cx, b: Cx) -> Cx {
    let t = |c: bool| Cx::new(truth(c), 0.0);
    let zero = |z: Cx| z.re == 0.0 && z.im == 0.0;
    let before = |a: Cx, b: Cx| if a.re == b.re { a.im < b.im } else { a.re < b.re };
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Pow if zero(a) && zero(b) => Cx::new(1.0, 0.0),
        Binary::Pow if zero(a) && b.re > 0.0 => Cx::default(),
        Binary::Pow => (b * a.ln()).exp(),
        Binary::LogAddExp => (a.exp() + b.exp()).ln(),
        Binary::Eq => t(a == b),
        Binary::Ne => t(a != b),
        Binary::LogicalAnd => t(!zero(a) && !zero(b)),
        Binary::LogicalOr => t(!zero(a) || !zero(b)),
        Binary::Lt => t(before(a, b)),
        Binary::Le => t(!before(b, a)),
        Binary::Gt => t(before(b, a)),
        Binary::Ge => t(!before(a, b)),
        Binary::Max => {
            if before(a, b) {
                b
            } else {
                a
            }
        }
        Binary::Min => {
            if before(b, a) {
                b
            } else {
                a
            }
        }
        // Of complex numbers an error.
        Binary::FloorDiv
        | Binary::Rem
        | Binary::Atan2
        | Binary::Hypot
        | Binary::Copysign
        | Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::Shl
        | Binary::Shr => a,
    }
}

/// Whether the result is a truth value.
fn is_test(op: Binary) -> bool {
    matches!(
        op,
        Binary::Eq
            | Binary::Ne
            | Binary::Lt
            | Binary::Le
            | Binary::Gt
            | Binary::Ge
            | Binary::LogicalAnd
            | Binary::LogicalOr
    )
}

pub(super) fn reference(op: Binary, a: &Host, b: &Host) -> Host {
    let (d, shape) = (a.dtype, &a.shape);
    let data = match (&a.data, &b.data) {
        (Data::Int(a), Data::Int(b)) => Data::Int(a.iter().zip(b).map(|(&a, &b)| int(op, a, b, d)).collect()),
        (Data::Real(a), Data::Real(b)) => {
            Data::Real(a.iter().zip(b).map(|(&a, &b)| real(op, a, b)).collect())
        }
        _ => Data::Complex(a.to_cx().iter().zip(b.to_cx()).map(|(&a, b)| complex(op, a, b)).collect()),
    };
    let out = Host { dtype: d, shape: shape.clone(), data, magnitude: None };
    if is_test(op) {
        return Host::bools(shape, out.to_f64().iter().map(|&x| x != 0.0));
    }
    match out.data {
        Data::Int(v) => Host::int(d, shape, v.into_iter().map(|x| wrap(x, d)).collect()),
        Data::Real(_) if op == Binary::LogAddExp => {
            // The sum of the larger argument and a logarithm: it can be small beside either.
            let (x, y) = (a.to_f64(), b.to_f64());
            let m = x.iter().zip(&y).map(|(a, b)| a.abs().max(b.abs())).collect();
            out.with_magnitude(m)
        }
        Data::Real(_) | Data::Complex(_) => out,
    }
}
