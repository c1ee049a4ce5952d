//! Functions of one element.

use super::{Case, Row};
use crate::draw::Profile;
use crate::host::{Cx, Data, Host, wrap};
use olivine_core::op::Unary;
use olivine_core::{Dtype, Op};

pub(super) fn rows() -> Vec<Row> {
    let row = |u: Unary| {
        let dtypes = Dtype::ALL.into_iter().filter(move |d| u.output(*d).is_ok());
        Row::new(u.name(), dtypes, move |d, t| {
            let shape = d.shape(0, 4);
            // The complex sigmoid has poles at odd multiples of i pi, near which no digit is certain.
            let tame = t == Dtype::C64 && (d.profile == Profile::Special || u == Unary::Sigmoid);
            let mut x = if tame { d.between(&shape, t, -1.5, 1.5) } else { d.numbers(&shape, t) };
            if let (Data::Complex(v), true) = (&mut x.host.data, u.wants_float()) {
                // On the axes lie the cuts, where the sign of a zero decides.
                for part in v.iter_mut().flat_map(|z| [&mut z.re, &mut z.im]).filter(|p| **p == 0.0) {
                    *part = 0.25;
                }
            }
            Case::new(Op::Unary(u), vec![x])
        })
        .units(match u {
            Unary::Sigmoid => |d| if d == Dtype::C64 { 8.0 } else { 3.0 },
            // Sums of terms larger than the result, in the reference too.
            Unary::Lgamma | Unary::Digamma => |d| if d == Dtype::F64 { 64.0 } else { 4.0 },
            _ => |d| match d {
                Dtype::F64 => 4.0,
                Dtype::C64 => 32.0,
                _ => 2.0,
            },
        })
    };
    Unary::ALL.into_iter().map(row).collect()
}

/// Inverse of the error function by Newton's method.
pub(super) fn erfinv(x: f64) -> f64 {
    if x.is_nan() || x.abs() > 1.0 {
        return f64::NAN;
    }
    if x.abs() == 1.0 {
        return x * f64::INFINITY;
    }
    // A first guess with an error of a few thousandths (Winitzki 2008).
    let l = (-x * x).ln_1p();
    let a = 0.147;
    let b = 2.0 / (std::f64::consts::PI * a) + l / 2.0;
    let mut y = ((b * b - l / a).sqrt() - b).max(0.0).sqrt().copysign(x);
    for _ in 0..6 {
        // Near 1 the difference of erf to it is what counts.
        let tail = (1.0 - x.abs() - libm::erfc(y.abs())) * x.signum();
        let off = if x.abs() < 0.9 { libm::erf(y) - x } else { tail };
        y -= off * (y * y).exp() / std::f64::consts::FRAC_2_SQRT_PI;
    }
    y
}

/// Derivative of the logarithm of the gamma function: reflected to positive numbers, moved up by its recurrence,
/// and there by its asymptotic series (DLMF 5.5.4, 5.5.2, 5.11.2).
fn digamma(x: f64) -> f64 {
    if x <= 0.0 {
        if x == x.floor() {
            // At 0 the sign tells the side; the other poles have none.
            return if x == 0.0 { (-1.0 / x).min(f64::INFINITY) } else { f64::NAN };
        }
        let angle = std::f64::consts::PI * (x - x.round());
        return digamma(1.0 - x) - std::f64::consts::PI / angle.tan();
    }
    let (mut x, mut below) = (x, 0.0);
    while x < 12.0 {
        below += 1.0 / x;
        x += 1.0;
    }
    let q = 1.0 / (x * x);
    let series = q * (1.0 / 12.0 - q * (1.0 / 120.0 - q * (1.0 / 252.0 - q * (1.0 / 240.0 - q / 132.0))));
    x.ln() - 0.5 / x - series - below
}

fn real(op: Unary, x: f64) -> f64 {
    match op {
        Unary::Abs => x.abs(),
        Unary::Neg => -x,
        Unary::Sign if x == 0.0 || x.is_nan() => x,
        Unary::Sign => x.signum(),
        Unary::Ceil => x.ceil(),
        Unary::Floor => x.floor(),
        Unary::Round => x.round_ties_even(),
        Unary::Trunc => x.trunc(),
        Unary::Lgamma => libm::lgamma(x),
        Unary::Digamma => digamma(x),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Square => x * x,
        Unary::Exp => x.exp(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Log => x.ln(),
        Unary::Log2 => x.log2(),
        Unary::Log10 => x.log10(),
        Unary::Log1p => x.ln_1p(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        Unary::Tanh => x.tanh(),
        Unary::Asinh => libm::asinh(x),
        Unary::Acosh if x < 1.0 => f64::NAN,
        Unary::Acosh => libm::acosh(x),
        Unary::Atanh => libm::atanh(x),
        Unary::Erf => libm::erf(x),
        Unary::ErfInv => erfinv(x),
        Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Unary::LogicalNot => f64::from(u8::from(x == 0.0)),
        Unary::Real | Unary::Conj => x,
        Unary::Imag => 0.0,
        // Of floats an error.
        Unary::BitNot => f64::NAN,
    }
}

fn int(op: Unary, x: i128, d: Dtype) -> i128 {
    match op {
        Unary::Abs => x.abs(),
        Unary::Neg => -x,
        Unary::Sign => x.signum(),
        Unary::Square if d == Dtype::Bool => x,
        Unary::Square => x.wrapping_mul(x),
        Unary::BitNot if d == Dtype::Bool => 1 - x,
        Unary::BitNot => !x,
        Unary::LogicalNot => i128::from(x == 0),
        Unary::Imag => 0,
        // Whole already, or an error.
        Unary::Ceil
        | Unary::Floor
        | Unary::Round
        | Unary::Trunc
        | Unary::Lgamma
        | Unary::Digamma
        | Unary::Real
        | Unary::Conj
        | Unary::Sqrt
        | Unary::Rsqrt
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
        | Unary::Sigmoid => x,
    }
}

fn complex(op: Unary, z: Cx) -> Cx {
    let one = Cx::new(1.0, 0.0);
    let i = Cx::new(0.0, 1.0);
    let half = |z: Cx| Cx::new(z.re / 2.0, z.im / 2.0);
    let (plus, minus) = (z.exp(), (-z).exp());
    match op {
        Unary::Neg => -z,
        Unary::Square => z * z,
        Unary::Sqrt => z.sqrt(),
        Unary::Rsqrt => one / z.sqrt(),
        Unary::Exp => plus,
        Unary::Expm1 => plus - one,
        Unary::Log => z.ln(),
        Unary::Log2 => Cx::new(z.ln().re / std::f64::consts::LN_2, z.ln().im / std::f64::consts::LN_2),
        Unary::Log10 => Cx::new(z.ln().re / std::f64::consts::LN_10, z.ln().im / std::f64::consts::LN_10),
        Unary::Log1p => (one + z).ln(),
        Unary::Sin => Cx::new(z.re.sin() * z.im.cosh(), z.re.cos() * z.im.sinh()),
        Unary::Cos => Cx::new(z.re.cos() * z.im.cosh(), -z.re.sin() * z.im.sinh()),
        Unary::Tan => complex(Unary::Sin, z) / complex(Unary::Cos, z),
        Unary::Sinh => half(plus - minus),
        Unary::Cosh => half(plus + minus),
        Unary::Tanh => complex(Unary::Sinh, z) / complex(Unary::Cosh, z),
        Unary::Asin => -i * (i * z + (one - z * z).sqrt()).ln(),
        Unary::Acos => Cx::new(std::f64::consts::FRAC_PI_2, 0.0) - complex(Unary::Asin, z),
        Unary::Atan => half(i * ((one - i * z).ln() - (one + i * z).ln())),
        Unary::Asinh => (z + (z * z + one).sqrt()).ln(),
        Unary::Acosh => (z + (z + one).sqrt() * (z - one).sqrt()).ln(),
        Unary::Atanh => half((one + z).ln() - (one - z).ln()),
        Unary::Sigmoid => one / (one + minus),
        Unary::Conj => z.conj(),
        Unary::Sign if z.abs() == 0.0 => z,
        Unary::Sign => Cx::new(z.re / z.abs(), z.im / z.abs()),
        Unary::Ceil => Cx::new(z.re.ceil(), z.im.ceil()),
        Unary::Floor => Cx::new(z.re.floor(), z.im.floor()),
        Unary::Round => Cx::new(z.re.round_ties_even(), z.im.round_ties_even()),
        // Real results, below, or errors.
        Unary::Abs
        | Unary::LogicalNot
        | Unary::Real
        | Unary::Imag
        | Unary::BitNot
        | Unary::Trunc
        | Unary::Lgamma
        | Unary::Digamma
        | Unary::Erf
        | Unary::ErfInv => z,
    }
}

pub(super) fn reference(op: Unary, x: &Host) -> Host {
    let (d, shape) = (x.dtype, &x.shape);
    if op == Unary::LogicalNot {
        return Host::bools(shape, x.to_cx().iter().map(|z| z.re == 0.0 && z.im == 0.0));
    }
    match &x.data {
        Data::Int(v) => Host::int(d, shape, v.iter().map(|&x| wrap(int(op, x, d), d)).collect()),
        Data::Real(v) => {
            let out = Host::real(d, shape, v.iter().map(|&x| real(op, x)).collect());
            if matches!(op, Unary::Lgamma | Unary::Digamma) {
                // Both cross zero, and have poles at the negative whole numbers.
                let near = |x: f64| if x < 0.0 { 1.0 + x.abs() / (x - x.round()).abs() } else { 1.0 };
                return out.with_magnitude(v.iter().map(|&x| near(x)).collect());
            }
            out
        }
        Data::Complex(v) if matches!(op, Unary::Abs | Unary::Real | Unary::Imag) => {
            let part = |z: &Cx| if op == Unary::Imag { z.im } else { z.re };
            let f = |z: &Cx| if op == Unary::Abs { z.abs() } else { part(z) };
            Host::real(Dtype::F32, shape, v.iter().map(f).collect())
        }
        Data::Complex(v) => Host::complex(shape, v.iter().map(|&z| complex(op, z)).collect()),
    }
}
