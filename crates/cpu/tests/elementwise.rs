//! Every elementwise operation on every type against a reference in `f64`, ends included.

use half::{bf16, f16};
use olivine_core::op::{Binary, Op, Unary};
use olivine_core::{Array, Complex64, Dtype, Kind, Result};

/// Interesting numbers of a type, as `f64` where that holds them.
fn samples(d: Dtype) -> Vec<f64> {
    let mut v: Vec<f64> = vec![0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 63.0, 64.0, 100.0];
    match d.kind() {
        Kind::Bool => return vec![0.0, 1.0, 1.0, 0.0, 0.0, 1.0],
        Kind::Unsigned => v.extend([250.0, 255.0]),
        Kind::Signed => v.extend([-1.0, -2.0, -3.0, -7.0, -64.0, -128.0, 127.0]),
        Kind::Float | Kind::Complex => {
            v.extend([
                -0.0,
                0.5,
                -0.5,
                1.5,
                2.5,
                -2.5,
                0.1,
                -0.1,
                1e-3,
                -1.0,
                -7.25,
                0.999,
                -0.999,
                1e-7,
                3.99,
                -20.0,
                88.0,
                -90.0,
                1000.0,
                12345.0,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
            ]);
            if d == Dtype::F32 || d == Dtype::F64 {
                v.extend([1e-40, -1e-40, 1e30, -1e30, 3e38, 1e-20, 123456789.0]);
            }
        }
    }
    v
}

fn array(v: &[f64], d: Dtype) -> Result<Array> {
    let n = [v.len()];
    match d {
        Dtype::F16 => Array::from_slice(&v.iter().map(|&x| f16::from_f64(x)).collect::<Vec<_>>(), &n),
        Dtype::BF16 => Array::from_slice(&v.iter().map(|&x| bf16::from_f64(x)).collect::<Vec<_>>(), &n),
        Dtype::F32 => Array::from_slice(&v.iter().map(|&x| x as f32).collect::<Vec<_>>(), &n),
        _ => Array::from_slice(v, &n)?.astype(d),
    }
}

fn values(a: &Array) -> Result<Vec<f64>> {
    Ok(match a.dtype() {
        Dtype::F16 => a.to_vec::<f16>()?.into_iter().map(f64::from).collect(),
        Dtype::BF16 => a.to_vec::<bf16>()?.into_iter().map(f64::from).collect(),
        Dtype::F32 => a.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
        Dtype::F64 => a.to_vec()?,
        Dtype::Bool => a.to_vec::<bool>()?.into_iter().map(|b| b as u8 as f64).collect(),
        Dtype::U8 => a.to_vec::<u8>()?.into_iter().map(f64::from).collect(),
        Dtype::U16 => a.to_vec::<u16>()?.into_iter().map(f64::from).collect(),
        Dtype::U32 => a.to_vec::<u32>()?.into_iter().map(f64::from).collect(),
        Dtype::U64 => a.to_vec::<u64>()?.into_iter().map(|x| x as f64).collect(),
        Dtype::I8 => a.to_vec::<i8>()?.into_iter().map(f64::from).collect(),
        Dtype::I16 => a.to_vec::<i16>()?.into_iter().map(f64::from).collect(),
        Dtype::I32 => a.to_vec::<i32>()?.into_iter().map(f64::from).collect(),
        Dtype::I64 => a.to_vec::<i64>()?.into_iter().map(|x| x as f64).collect(),
        Dtype::C64 => a.to_vec::<Complex64>()?.into_iter().map(|c| c.re as f64).collect(),
    })
}

/// Rounds a reference to a type, as storing it would.
fn rounded(x: f64, d: Dtype) -> f64 {
    match d {
        Dtype::F16 => f16::from_f64(x).to_f64(),
        Dtype::BF16 => bf16::from_f64(x).to_f64(),
        Dtype::F32 => x as f32 as f64,
        _ => x,
    }
}

/// Distance between neighbouring numbers of the type at `x`.
fn unit(x: f64, d: Dtype) -> f64 {
    let (digits, least) = match d {
        Dtype::F16 => (10, -24),
        Dtype::BF16 => (7, -133),
        Dtype::F32 => (23, -149),
        _ => (52, -1074),
    };
    let e = if x == 0.0 { least } else { x.abs().log2().floor() as i32 - digits };
    2f64.powi(e.max(least))
}

fn check(what: &str, got: f64, want: f64, d: Dtype, ulps: f64) {
    if want.is_nan() {
        assert!(got.is_nan(), "{what} = {got}, not NaN");
        return;
    }
    let near = rounded(want, d);
    if got == near {
        return;
    }
    assert!(got.is_finite() && near.is_finite(), "{what} = {got}, not {near}");
    let off = (got - want).abs() / unit(near, d);
    assert!(off <= ulps, "{what} = {got:e}, not {want:e}: {off} units off");
}

fn unary(op: Unary, x: f64) -> Option<f64> {
    Some(match op {
        Unary::Abs => x.abs(),
        Unary::Neg => -x,
        Unary::Sign => {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                x.signum()
            }
        }
        Unary::Ceil => x.ceil(),
        Unary::Floor => x.floor(),
        Unary::Round => x.round_ties_even(),
        Unary::Trunc => x.trunc(),
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
        Unary::Acosh => x.acosh(),
        Unary::Atanh => libm::atanh(x),
        Unary::Erf => libm::erf(x),
        Unary::Lgamma => libm::lgamma(x),
        Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Unary::LogicalNot => (x == 0.0) as u8 as f64,
        // Checked by itself, by going back, and on its own types.
        Unary::ErfInv | Unary::Digamma | Unary::BitNot | Unary::Real | Unary::Imag | Unary::Conj => {
            return None;
        }
    })
}

#[test]
fn functions_of_one_argument() -> Result<()> {
    olivine_cpu::register();
    for d in Dtype::ALL {
        let x = array(&samples(d), d)?;
        let xs = values(&x)?;
        for op in Unary::ALL {
            let Ok(out) = op.output(d) else { continue };
            if d == Dtype::C64 || unary(op, 0.5).is_none() {
                continue;
            }
            let y = values(&Array::from_op(Op::Unary(op), std::slice::from_ref(&x))?)?;
            for (&x, &y) in xs.iter().zip(&y) {
                let want = unary(op, x).unwrap_or(f64::NAN);
                let what = format!("{} of {x:e} ({d})", op.name());
                if d.is_inexact() {
                    check(&what, y, want, out, 2.0);
                } else if d.kind() == Kind::Bool && out == Dtype::Bool {
                    assert_eq!(y, (want != 0.0) as u8 as f64, "{what}");
                } else {
                    // Integers wrap; `f64` does not hold the largest of them.
                    if d.size() == 8 && want < 0.0 && d.kind() == Kind::Unsigned {
                        continue;
                    }
                    let bits = 8 * d.size() as u32;
                    let low = (want as i128) & ((1i128 << bits) - 1);
                    assert_eq!((y as i128) & ((1i128 << bits) - 1), low, "{what}");
                }
            }
        }
    }
    Ok(())
}

/// Python's floor division and remainder.
fn python(a: f64, b: f64) -> (f64, f64) {
    let r = a % b;
    let r = if r == 0.0 {
        0.0f64.copysign(b)
    } else if (r < 0.0) != (b < 0.0) {
        r + b
    } else {
        r
    };
    (if b == 0.0 { a / b } else { ((a - r) / b).round() }, r)
}

#[test]
fn functions_of_two_floats() -> Result<()> {
    olivine_cpu::register();
    for d in [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64] {
        let s = values(&array(&samples(d), d)?)?;
        let pairs: Vec<(f64, f64)> = s.iter().flat_map(|&a| s.iter().map(move |&b| (a, b))).collect();
        let a = array(&pairs.iter().map(|p| p.0).collect::<Vec<_>>(), d)?;
        let b = array(&pairs.iter().map(|p| p.1).collect::<Vec<_>>(), d)?;
        for op in Binary::ALL {
            let Ok(out) = op.output(d) else { continue };
            let y = values(&Array::from_op(Op::Binary(op), &[a.clone(), b.clone()])?)?;
            for (&(a, b), &y) in pairs.iter().zip(&y) {
                let nan = a.is_nan() || b.is_nan();
                let truth = |c: bool| c as u8 as f64;
                let want = match op {
                    Binary::Add => a + b,
                    Binary::Sub => a - b,
                    Binary::Mul => a * b,
                    Binary::Div => a / b,
                    Binary::FloorDiv if (a / b).abs() > 1e6 || a.is_infinite() => continue,
                    Binary::FloorDiv if b.is_infinite() && a != 0.0 => {
                        if a.is_nan() {
                            a
                        } else if (a < 0.0) != (b < 0.0) {
                            -1.0
                        } else {
                            0.0
                        }
                    }
                    Binary::FloorDiv => python(a, b).0,
                    Binary::Rem => python(a, b).1,
                    Binary::Pow => a.powf(b),
                    Binary::Max | Binary::Min if nan => f64::NAN,
                    Binary::Max => a.max(b),
                    Binary::Min => a.min(b),
                    Binary::Atan2 => a.atan2(b),
                    Binary::Hypot => a.hypot(b),
                    Binary::Copysign => a.copysign(b),
                    Binary::LogAddExp if nan => f64::NAN,
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
                    Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr => continue,
                };
                check(&format!("{}({a:e}, {b:e}) in {d}", op.name()), y, want, out, 2.0);
            }
        }
    }
    Ok(())
}

#[test]
fn functions_of_two_integers() -> Result<()> {
    olivine_cpu::register();
    macro_rules! run {
        ($($t:ty => $d:ident),*) => { $( {
            let d = Dtype::$d;
            let s: Vec<$t> = vec![
                0, 1, 2, 3, 7, 8, 31, 32, 63, 64, 100, <$t>::MAX, <$t>::MAX - 1, <$t>::MIN, <$t>::MIN + 1,
                (0 as $t).wrapping_sub(1), (0 as $t).wrapping_sub(3),
            ];
            let pairs: Vec<($t, $t)> = s.iter().flat_map(|&a| s.iter().map(move |&b| (a, b))).collect();
            let n = [pairs.len()];
            let a = Array::from_slice(&pairs.iter().map(|p| p.0).collect::<Vec<_>>(), &n)?;
            let b = Array::from_slice(&pairs.iter().map(|p| p.1).collect::<Vec<_>>(), &n)?;
            for op in Binary::ALL {
                let Ok(out) = op.output(d) else { continue };
                let y = Array::from_op(Op::Binary(op), &[a.clone(), b.clone()])?;
                let got: Vec<i128> = if out == Dtype::Bool {
                    y.to_vec::<bool>()?.into_iter().map(|v| v as i128).collect()
                } else {
                    y.to_vec::<$t>()?.into_iter().map(|v| v as i128).collect()
                };
                for (&(x, y), &got) in pairs.iter().zip(&got) {
                    let (a, b) = (x as i128, y as i128);
                    let wrap = |v: i128| v as $t as i128;
                    let width = <$t>::BITS as i128;
                    let want = match op {
                        Binary::Add => wrap(a + b),
                        Binary::Sub => wrap(a - b),
                        Binary::Mul => wrap(a.wrapping_mul(b)),
                        Binary::FloorDiv | Binary::Rem if b == 0 => 0,
                        Binary::FloorDiv => {
                            wrap(a.div_euclid(b) - (b < 0 && a.rem_euclid(b) != 0) as i128)
                        }
                        Binary::Rem => {
                            let r = a.rem_euclid(b);
                            if b < 0 && r != 0 { r + b } else { r }
                        }
                        Binary::Pow if b < 0 => match a {
                            1 => 1,
                            -1 => if b % 2 == 0 { 1 } else { -1 },
                            _ => 0,
                        },
                        Binary::Pow => {
                            let (mut r, mut base, mut e) = (1 as $t, x, b);
                            while e > 0 {
                                if e & 1 == 1 {
                                    r = r.wrapping_mul(base);
                                }
                                base = base.wrapping_mul(base);
                                e >>= 1;
                            }
                            r as i128
                        }
                        Binary::Max => a.max(b),
                        Binary::Min => a.min(b),
                        Binary::LogicalAnd => (a != 0 && b != 0) as i128,
                        Binary::LogicalOr => (a != 0 || b != 0) as i128,
                        Binary::BitAnd => a & b,
                        Binary::BitOr => a | b,
                        Binary::BitXor => a ^ b,
                        Binary::Shl if b < 0 || b >= width => 0,
                        Binary::Shl => wrap(a << b),
                        Binary::Shr if b < 0 || b >= width => if a < 0 { -1 } else { 0 },
                        Binary::Shr => a >> b,
                        Binary::Eq => (a == b) as i128,
                        Binary::Ne => (a != b) as i128,
                        Binary::Lt => (a < b) as i128,
                        Binary::Le => (a <= b) as i128,
                        Binary::Gt => (a > b) as i128,
                        Binary::Ge => (a >= b) as i128,
                        Binary::Div
                        | Binary::Atan2
                        | Binary::LogAddExp
                        | Binary::Hypot
                        | Binary::Copysign => continue,
                    };
                    assert_eq!(got, want, "{}({x}, {y}) in {d}", op.name());
                }
            }
        } )* };
    }
    run!(u8 => U8, u16 => U16, u32 => U32, u64 => U64, i8 => I8, i16 => I16, i32 => I32, i64 => I64);
    Ok(())
}

#[test]
fn conversions_between_all_types() -> Result<()> {
    olivine_cpu::register();
    let clamp = |x: f64, to: Dtype| -> f64 {
        let bits = 8 * to.size() as i32;
        let (low, high) = if to.kind() == Kind::Signed {
            (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1) - 1.0)
        } else {
            (0.0, 2f64.powi(bits) - 1.0)
        };
        if x.is_nan() { 0.0 } else { x.trunc().clamp(low, high) }
    };
    for from in Dtype::ALL {
        let x = array(&samples(from), from)?;
        let xs = values(&x)?;
        for to in Dtype::ALL {
            let y = values(&x.astype(to)?)?;
            for (&x, &y) in xs.iter().zip(&y) {
                let want = match to.kind() {
                    Kind::Bool => (x != 0.0) as u8 as f64,
                    Kind::Float | Kind::Complex if to == Dtype::C64 => x as f32 as f64,
                    Kind::Float | Kind::Complex => rounded(x, to),
                    Kind::Signed | Kind::Unsigned if from.is_inexact() => clamp(x, to),
                    Kind::Signed | Kind::Unsigned => {
                        let bits = 8 * to.size() as u32;
                        let low = (x as i128) & ((1i128 << bits) - 1);
                        let negative = to.kind() == Kind::Signed && low >> (bits - 1) == 1;
                        (if negative { low - (1i128 << bits) } else { low }) as f64
                    }
                };
                assert!(
                    y == want || (y.is_nan() && want.is_nan()),
                    "{x:e} ({from}) to {to}: {y}, not {want}"
                );
            }
        }
    }
    // Rounding twice, through float32, would give the even neighbour of a tie that is none.
    let just_above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    let x = Array::from_slice(&[just_above, -just_above], &[2])?;
    assert_eq!(values(&x.astype(Dtype::F16)?)?, [1.0 + 2f64.powi(-10), -1.0 - 2f64.powi(-10)]);
    let big = (1i64 << 40) + (1 << 32) + 1;
    let x = Array::from_slice(&[big, -big], &[2])?;
    let up = (1i64 << 40) as f64 + (1i64 << 33) as f64;
    assert_eq!(values(&x.astype(Dtype::BF16)?)?, [up, -up]);
    Ok(())
}

#[test]
fn complex_numbers() -> Result<()> {
    olivine_cpu::register();
    let c = |re: f32, im: f32| Complex64 { re, im };
    let v = [c(1.0, 2.0), c(-3.0, 0.5), c(0.0, -1.0), c(-4.0, 0.0), c(3.0, 4.0)];
    let w = [c(0.5, -1.0), c(2.0, 2.0), c(0.0, 1.0), c(-1.0, 3.0), c(3.0, -4.0)];
    let (a, b) = (Array::from_slice(&v, &[5])?, Array::from_slice(&w, &[5])?);
    let near = |x: &Array, want: Vec<Complex64>| -> Result<()> {
        for (g, w) in x.to_vec::<Complex64>()?.iter().zip(want) {
            assert!((g.re - w.re).abs() < 1e-5 && (g.im - w.im).abs() < 1e-5, "{g:?} for {w:?}");
        }
        Ok(())
    };
    let zip =
        |f: &dyn Fn(Complex64, Complex64) -> Complex64| v.iter().zip(&w).map(|(&a, &b)| f(a, b)).collect();
    let mul = |a: Complex64, b: Complex64| c(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
    near(&a.multiply(&b)?, zip(&mul))?;
    near(&a.divide(&b)?.multiply(&b)?, v.to_vec())?;
    near(&a.sqrt()?.square()?, v.to_vec())?;
    near(&a.log()?.exp()?, v.to_vec())?;
    let s = a.sigmoid()?;
    let one = Array::from_slice(&[c(1.0, 0.0); 5], &[5])?;
    near(&s.multiply(&one.add(&a.negative()?.exp()?)?)?, vec![c(1.0, 0.0); 5])?;
    assert_eq!(a.abs()?.to_vec::<f32>()?[4], 5.0);
    let part = |u| Array::from_op(Op::Unary(u), std::slice::from_ref(&a));
    assert_eq!(part(Unary::Real)?.to_vec::<f32>()?, [1.0, -3.0, 0.0, -4.0, 3.0]);
    assert_eq!(part(Unary::Imag)?.to_vec::<f32>()?, [2.0, 0.5, -1.0, 0.0, 4.0]);
    near(&part(Unary::Conj)?, v.iter().map(|z| c(z.re, -z.im)).collect())?;
    assert_eq!(a.equal(&a)?.to_vec::<bool>()?, [true; 5]);
    assert_eq!(a.not_equal(&b)?.to_vec::<bool>()?, [true; 5]);
    Ok(())
}

/// Functions of `f32` over their whole range against `f64`.
#[test]
fn vector_mathematics_is_within_its_bounds() -> Result<()> {
    olivine_cpu::register();
    // Every 9973rd float: all exponents and both signs.
    let xs: Vec<f32> = (0..u32::MAX / 9973).map(|i| f32::from_bits(i * 9973)).collect();
    let x = Array::from_slice(&xs, &[xs.len()])?;
    for op in Unary::ALL {
        if unary(op, 0.5).is_none() || op.output(Dtype::F32)? != Dtype::F32 {
            continue;
        }
        // An exponential, a sum and a quotient, each rounded.
        let units = if op == Unary::Sigmoid { 3.0 } else { 2.0 };
        let y = Array::from_op(Op::Unary(op), std::slice::from_ref(&x))?.to_vec::<f32>()?;
        for (&x, &y) in xs.iter().zip(&y) {
            let want = unary(op, x as f64).unwrap_or(f64::NAN);
            check(&format!("{}({x:e})", op.name()), y as f64, want, Dtype::F32, units);
        }
    }
    Ok(())
}

#[test]
fn erfinv_goes_back() -> Result<()> {
    olivine_cpu::register();
    let xs: Vec<f32> = (0..200_000).map(|i| (i as f32 - 100_000.0) / 100_000.0).collect();
    let mut xs: Vec<f32> = xs.into_iter().filter(|x| x.abs() < 1.0).collect();
    xs.extend([f32::from_bits(0x3f7f_ffff), -f32::from_bits(0x3f7f_ffff), 1e-30, -1e-40]);
    let y = Array::from_slice(&xs, &[xs.len()])?.erfinv()?.to_vec::<f32>()?;
    for (&x, &y) in xs.iter().zip(&y) {
        // One unit of y moves erf(y) by this much.
        let slope = std::f64::consts::FRAC_2_SQRT_PI * (-(y as f64).powi(2)).exp();
        let off = (libm::erf(y as f64) - x as f64).abs() / (slope * unit(y as f64, Dtype::F32));
        assert!(off <= 2.0, "erfinv({x:e}) = {y:e}, {off} units off");
    }
    let ends = Array::from_slice(&[1.0f32, -1.0, 1.5, f32::NAN, 0.0], &[5])?;
    let y = ends.erfinv()?.to_vec::<f32>()?;
    assert_eq!((y[0], y[1], y[4]), (f32::INFINITY, f32::NEG_INFINITY, 0.0));
    assert!(y[2].is_nan() && y[3].is_nan());
    let y = ends.astype(Dtype::F64)?.erfinv()?.to_vec::<f64>()?;
    assert_eq!((y[0], y[1], y[4]), (f64::INFINITY, f64::NEG_INFINITY, 0.0));
    Ok(())
}
