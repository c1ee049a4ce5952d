//! Conversions between types.

use super::{Case, Row};
use crate::host::{Cx, Data, Host, limits, round_to, wrap};
use olivine_core::{Dtype, Kind, Op};

pub(super) fn rows() -> Vec<Row> {
    vec![Row::new("astype", Dtype::ALL, |d, t| {
        let shape = d.shape(0, 4);
        let to = d.rng.pick(&Dtype::ALL);
        Case::new(Op::Cast(to), vec![d.numbers(&shape, t)])
    })]
}

/// A float as an integer: towards zero, and to the nearest end beyond them; NaN gives 0.
fn saturate(x: f64, d: Dtype) -> i128 {
    let (low, high) = limits(d);
    if x.is_nan() { 0 } else { (x.trunc() as i128).clamp(low, high) }
}

pub(super) fn reference(to: Dtype, x: &Host) -> Host {
    let shape = &x.shape;
    match to.kind() {
        Kind::Bool => Host::bools(shape, x.to_cx().iter().map(|z| z.re != 0.0 || z.im != 0.0)),
        Kind::Unsigned | Kind::Signed => {
            let v = match &x.data {
                Data::Int(v) => v.iter().map(|&i| wrap(i, to)).collect(),
                Data::Real(_) | Data::Complex(_) => x.to_f64().into_iter().map(|x| saturate(x, to)).collect(),
            };
            Host::int(to, shape, v)
        }
        Kind::Float => match &x.data {
            // The nearest float of the integer, not of its nearest `f64`.
            Data::Int(v) => Host::real(to, shape, v.iter().map(|&i| of_int(i, to)).collect()),
            Data::Real(_) | Data::Complex(_) => {
                Host::real(to, shape, x.to_f64().into_iter().map(|x| round_to(x, to)).collect())
            }
        },
        Kind::Complex => match &x.data {
            Data::Complex(_) => x.clone(),
            Data::Int(v) => Host::complex(shape, v.iter().map(|&i| Cx::new(of_int(i, to), 0.0)).collect()),
            Data::Real(v) => Host::complex(shape, v.iter().map(|&x| Cx::new(round_to(x, to), 0.0)).collect()),
        },
    }
}

/// An integer of 64 bits or fewer as a float, rounded once: the low bits, which `f64` may lose, are kept as
/// one sticky bit that breaks ties the right way.
fn of_int(i: i128, d: Dtype) -> f64 {
    if d == Dtype::F64 {
        return i as f64;
    }
    let magnitude = i.unsigned_abs();
    let excess = (128 - magnitude.leading_zeros()).saturating_sub(40);
    let kept = magnitude >> excess << excess;
    let sticky = if kept == magnitude { 0 } else { 1u128 << excess };
    let x = round_to((kept | sticky) as f64, d);
    if i < 0 { -x } else { x }
}
