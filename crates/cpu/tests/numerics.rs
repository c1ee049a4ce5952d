//! Values at the edges: NaN, overflow, integers that wrap, long sums. Where no source is named the expected values are
//! those of NumPy 2 or follow from the definition.

use half::f16;
use olivine_core::{Array, Complex64, Dtype, Error, Result};

const NAN: f32 = f32::NAN;

fn floats(v: &[f32]) -> Result<Array> {
    olivine_cpu::register();
    Array::from_slice(v, &[v.len()])
}

fn ints(v: &[i32]) -> Result<Array> {
    olivine_cpu::register();
    Array::from_slice(v, &[v.len()])
}

/// Equal, NaN at the same places.
#[track_caller]
fn same(got: &Array, want: &[f32]) {
    let got: Vec<f32> = got.astype(Dtype::F32).and_then(|a| a.to_vec()).unwrap();
    let equal =
        got.len() == want.len() && got.iter().zip(want).all(|(g, w)| g == w || g.is_nan() && w.is_nan());
    assert!(equal, "{got:?} for {want:?}");
}

#[test]
fn running_extremes_keep_nan() -> Result<()> {
    let x = floats(&[1.0, NAN, 4.0, 2.0])?;
    same(&x.cummax(0, false, true)?, &[1.0, NAN, NAN, NAN]);
    same(&x.cummin(0, true, true)?, &[NAN, NAN, 2.0, 2.0]);
    same(&x.max(&[], false)?, &[NAN]);
    same(&x.min(&[], false)?, &[NAN]);
    same(&x.maximum(&floats(&[NAN, 0.0, 5.0, NAN])?)?, &[NAN, NAN, 5.0, NAN]);
    assert_eq!(x.argmax(0, false)?.to_vec::<u32>()?, [1]);
    assert_eq!(x.argmin(0, false)?.to_vec::<u32>()?, [1]);
    same(&x.median(&[], false)?, &[NAN]);
    Ok(())
}

#[test]
fn nan_sorts_last_in_both_directions_and_in_complex_numbers() -> Result<()> {
    let x = floats(&[NAN, 1.0, f32::INFINITY, -2.0, NAN, -f32::INFINITY])?;
    let inf = f32::INFINITY;
    same(&x.sort(0, false)?, &[-inf, -2.0, 1.0, inf, NAN, NAN]);
    same(&x.sort(0, true)?, &[inf, 1.0, -2.0, -inf, NAN, NAN]);
    assert_eq!(x.argsort(0, true)?.to_vec::<u32>()?, [2, 1, 3, 5, 0, 4]);
    let z = |re, im| Complex64 { re, im };
    let c = Array::from_slice(&[z(5.0, NAN), z(3.0, 0.0), z(1.0, 0.0)], &[3])?;
    assert_eq!(c.argsort(0, false)?.to_vec::<u32>()?, [2, 1, 0]);
    // Equal elements keep their order.
    let ties = ints(&[1, 0, 1, 0])?;
    assert_eq!(ties.argsort(0, false)?.to_vec::<u32>()?, [1, 3, 0, 2]);
    assert_eq!(ties.argsort(0, true)?.to_vec::<u32>()?, [0, 2, 1, 3]);
    Ok(())
}

#[test]
fn negative_zero_is_false_and_nan_is_true() -> Result<()> {
    assert!(!floats(&[-0.0])?.any(&[], false)?.item::<bool>()?);
    assert!(!floats(&[1.0, -0.0])?.all(&[], false)?.item::<bool>()?);
    assert!(floats(&[NAN])?.all(&[], false)?.item::<bool>()?);
    assert_eq!(floats(&[0.0, -0.0, NAN, 2.0])?.count_nonzero(&[], false)?.to_vec::<i32>()?, [2]);
    Ok(())
}

#[test]
fn infinities_become_the_largest_number_of_the_type() -> Result<()> {
    let x = floats(&[f32::INFINITY, -f32::INFINITY, NAN, 1.0])?;
    same(&x.astype(Dtype::F16)?.nan_to_num(0.0, None, None)?, &[65504.0, -65504.0, 0.0, 1.0]);
    let most = f32::from_bits(0x7f7f_0000);
    same(&x.astype(Dtype::BF16)?.nan_to_num(0.0, None, None)?, &[most, -most, 0.0, 1.0]);
    same(&x.nan_to_num(3.0, Some(7.0), None)?, &[7.0, f32::MIN, 3.0, 1.0]);
    assert_eq!(ints(&[i32::MAX])?.isposinf()?.to_vec::<bool>()?, [false]);
    assert_eq!(x.isposinf()?.to_vec::<bool>()?, [true, false, false, false]);
    assert_eq!(x.isneginf()?.to_vec::<bool>()?, [false, true, false, false]);
    assert_eq!(x.isfinite()?.to_vec::<bool>()?, [false, false, false, true]);
    Ok(())
}

#[test]
fn a_scan_along_an_axis_of_one_in_a_slice() -> Result<()> {
    olivine_cpu::register();
    let x = Array::arange(0.0, 24.0, 1.0, Dtype::F32)?.reshape(&[4, 6])?;
    let part = x.slice(&[(Some(1), Some(4), 1), (Some(2), Some(3), 1)])?;
    same(&part.cumsum(1, false, true)?, &[8.0, 14.0, 20.0]);
    same(&part.cumsum(0, false, true)?, &[8.0, 22.0, 42.0]);
    same(&part.cumprod(1, true, false)?, &[1.0, 1.0, 1.0]);
    Ok(())
}

#[test]
fn reductions_and_sorts_of_a_reversed_view() -> Result<()> {
    olivine_cpu::register();
    let x = Array::arange(0.0, 6.0, 1.0, Dtype::F32)?.reshape(&[2, 3])?.flip(&[1])?;
    same(&x.sum(&[1], false)?, &[3.0, 12.0]);
    same(&x.sort(-1, false)?, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(x.argmax(1, false)?.to_vec::<u32>()?, [0, 0]);
    Ok(())
}

#[test]
fn division_by_zero_and_shifts_beyond_the_width_are_defined() -> Result<()> {
    // Division and remainder by zero give 0 as in NumPy; shifts by the width or more lose all bits.
    let x = ints(&[5, -5, 0, i32::MIN, i32::MIN])?;
    let d = ints(&[0, 0, 0, -1, 0])?;
    assert_eq!(x.floor_divide(&d)?.to_vec::<i32>()?, [0, 0, 0, i32::MIN, 0]);
    assert_eq!(x.remainder(&d)?.to_vec::<i32>()?, [0; 5]);
    let (q, r) = floats(&[-7.5, 7.5, -7.5])?.divmod(&floats(&[2.0, -2.0, f32::INFINITY])?)?;
    same(&q, &[-4.0, -4.0, -1.0]);
    same(&r, &[0.5, -0.5, f32::INFINITY]);
    let one = ints(&[1, 1, -1, -1, 1])?;
    let by = ints(&[40, 31, 40, 3, -1])?;
    assert_eq!(one.left_shift(&by)?.to_vec::<i32>()?, [0, i32::MIN, 0, -8, 0]);
    assert_eq!(one.right_shift(&by)?.to_vec::<i32>()?, [0, 0, -1, -1, 0]);
    let small = Array::from_slice(&[i8::MIN], &[1])?;
    assert_eq!(small.floor_divide(&Array::from_scalar(-1i8))?.to_vec::<i8>()?, [i8::MIN]);
    assert_eq!(small.negative()?.to_vec::<i8>()?, [i8::MIN]);
    assert_eq!(small.abs()?.to_vec::<i8>()?, [i8::MIN]);
    Ok(())
}

#[test]
fn floats_outside_an_integer_type_saturate() -> Result<()> {
    let x = floats(&[NAN, 1e30, -1e30, 300.7, -1.5, f32::INFINITY])?;
    assert_eq!(x.astype(Dtype::I32)?.to_vec::<i32>()?, [0, i32::MAX, i32::MIN, 300, -1, i32::MAX]);
    assert_eq!(x.astype(Dtype::U8)?.to_vec::<u8>()?, [0, 255, 0, 255, 0, 255]);
    assert_eq!(x.astype(Dtype::U64)?.to_vec::<u64>()?, [0, u64::MAX, 0, 300, 0, u64::MAX]);
    Ok(())
}

#[test]
fn sums_are_wide() -> Result<()> {
    olivine_cpu::register();
    let n = 20_000_000;
    let tenths = Array::full(&[n], 0.1f32)?.contiguous()?;
    let sum = tenths.sum(&[], false)?.item::<f32>()? as f64;
    let want = 0.1f32 as f64 * n as f64;
    assert!((sum - want).abs() <= 1e-6 * want, "{sum}");
    let columns = tenths.reshape(&[n / 2, 2])?.sum(&[0], false)?.to_vec::<f32>()?;
    assert!(columns.iter().all(|&c| (c as f64 - want / 2.0).abs() <= 1e-6 * want), "{columns:?}");
    let threes = Array::full(&[70_000], f16::from_f32(3.0))?.contiguous()?;
    assert_eq!(threes.mean(&[], false)?.item::<f16>()?, f16::from_f32(3.0));
    assert_eq!(threes.var(&[], false, 0)?.item::<f16>()?, f16::ZERO);
    let bytes = Array::from_slice(&[100i8, 100], &[2])?;
    assert_eq!(bytes.sum(&[], false)?.to_vec::<i32>()?, [200]);
    assert_eq!(bytes.cumsum(0, false, true)?.to_vec::<i32>()?, [100, 200]);
    assert_eq!(Array::from_slice(&[200u8, 200], &[2])?.prod(&[], false)?.to_vec::<u32>()?, [40_000]);
    Ok(())
}

#[test]
fn variance_of_large_numbers() -> Result<()> {
    let x = floats(&[1e8, 1e8 + 8.0, 1e8 + 16.0])?;
    let v = x.var(&[], false, 0)?.item::<f32>()?;
    assert!((v - 128.0 / 3.0).abs() < 1e-4, "{v}");
    same(&x.var(&[], false, 3)?, &[f32::INFINITY]);
    same(&floats(&[2.0])?.var(&[], true, 1)?, &[NAN]);
    let z = Array::from_slice(&[Complex64 { re: 1.0, im: 2.0 }, Complex64 { re: -0.5, im: 0.3 }], &[2])?;
    // 0.75^2 + 0.85^2.
    assert!((z.var(&[], false, 0)?.item::<f32>()? - 1.285).abs() < 1e-6);
    Ok(())
}

#[test]
fn rounding_to_decimals() -> Result<()> {
    let x = floats(&[1.26, -1.25, 0.5, 1e38, NAN])?;
    same(&x.round_to(1)?, &[1.3, -1.2, 0.5, 1e38, NAN]);
    same(&x.round_to(0)?, &[1.0, -1.0, 0.0, 1e38, NAN]);
    assert_eq!(ints(&[15, 25, -149, 151])?.round_to(-1)?.to_vec::<i32>()?, [20, 20, -150, 150]);
    assert_eq!(ints(&[15])?.round_to(2)?.to_vec::<i32>()?, [15]);
    Ok(())
}

#[test]
fn truth_values_in_arithmetic() -> Result<()> {
    olivine_cpu::register();
    let a = Array::from_slice(&[true, true, false, false], &[4])?;
    let b = Array::from_slice(&[true, false, true, false], &[4])?;
    // MLX gives truth values; the numbers are those of one bit.
    assert_eq!(a.subtract(&b)?.to_vec::<bool>()?, [false, true, true, false]);
    assert_eq!(a.floor_divide(&b)?.to_vec::<bool>()?, [true, false, false, false]);
    assert_eq!(a.power(&b)?.to_vec::<bool>()?, [true, true, false, true]);
    assert_eq!(a.left_shift(&b)?.to_vec::<u8>()?, [2, 1, 0, 0]);
    assert!(matches!(a.negative(), Err(Error::Dtype { .. })));
    Ok(())
}

#[test]
fn closeness() -> Result<()> {
    let (inf, x) = (f32::INFINITY, [1.0, 1.0, f32::INFINITY, f32::INFINITY, NAN]);
    let a = floats(&x)?;
    let b = floats(&[1.000_001, 1.1, inf, -inf, NAN])?;
    assert_eq!(a.isclose(&b, 1e-5, 1e-8, false)?.to_vec::<bool>()?, [true, false, true, false, false]);
    assert_eq!(a.isclose(&b, 1e-5, 1e-8, true)?.to_vec::<bool>()?, [true, false, true, false, true]);
    // An infinite number is near nothing finite, whatever the tolerance.
    assert_eq!(floats(&[1.0])?.isclose(&floats(&[inf])?, 1.0, 0.0, false)?.to_vec::<bool>()?, [false]);
    let big = 1i64 << 60;
    let (p, q) = (Array::from_scalar(big), Array::from_scalar(big + (1 << 52)));
    assert!(!p.isclose(&q, 1e-5, 1e-8, false)?.item::<bool>()?);
    assert!(a.array_equal(&a, true)?.item::<bool>()? && !a.array_equal(&a, false)?.item::<bool>()?);
    assert!(!a.array_equal(&floats(&[1.0])?, true)?.item::<bool>()?);
    Ok(())
}

#[test]
fn gamma_functions() -> Result<()> {
    // SciPy 1.17: gammaln and psi.
    let x = floats(&[0.5, 10.0, -1.5, 1e-8, 171.5])?;
    let near = |a: Array, want: [f64; 5]| -> Result<()> {
        for (g, w) in a.to_vec::<f32>()?.into_iter().map(f64::from).zip(want) {
            assert!((g - w).abs() <= 2e-7 * w.abs(), "{g} for {w}");
        }
        Ok(())
    };
    near(x.lgamma()?, [0.572_364_94, 12.801_827, 0.860_047, 18.420_68, 709.143_16])?;
    near(x.digamma()?, [-1.963_51, 2.251_752_6, 0.703_156_65, -1e8, 5.141_664])?;
    let ends = floats(&[0.0, -0.0, -1.0, f32::INFINITY, NAN])?;
    same(&ends.digamma()?, &[-f32::INFINITY, f32::INFINITY, NAN, f32::INFINITY, NAN]);
    let inf = f32::INFINITY;
    same(&ends.lgamma()?, &[inf, inf, inf, inf, NAN]);
    Ok(())
}

#[test]
fn complex_functions_on_their_branch_cuts() -> Result<()> {
    olivine_cpu::register();
    let z = |re: f32, im: f32| Complex64 { re, im };
    let x = Array::from_slice(&[z(-2.0, 0.0), z(-2.0, -0.0), z(2.0, 0.0), z(0.0, 2.0)], &[4])?;
    // NumPy 2 in complex128.
    let near = |a: Array, want: [(f64, f64); 4]| -> Result<()> {
        for (g, w) in a.to_vec::<Complex64>()?.into_iter().zip(want) {
            assert!((g.re as f64 - w.0).abs() < 1e-6 && (g.im as f64 - w.1).abs() < 1e-6, "{g:?} for {w:?}");
        }
        Ok(())
    };
    let (pi, half) = (std::f64::consts::PI, std::f64::consts::FRAC_PI_2);
    let (root, ln2) = (std::f64::consts::SQRT_2, std::f64::consts::LN_2);
    near(x.sqrt()?, [(0.0, root), (0.0, -root), (root, 0.0), (1.0, 1.0)])?;
    near(x.log()?, [(ln2, pi), (ln2, -pi), (ln2, 0.0), (ln2, half)])?;
    let a = 1.316_957_9;
    near(x.arcsin()?, [(-half, a), (-half, -a), (half, a), (0.0, 1.443_635_5)])?;
    near(x.arccos()?, [(pi, -a), (pi, a), (0.0, -a), (half, -1.443_635_5)])?;
    near(x.arccosh()?, [(a, pi), (a, -pi), (a, 0.0), (1.443_635_5, half)])?;
    let t = 0.549_306_15;
    near(x.arctanh()?, [(-t, half), (-t, -half), (t, half), (0.0, 1.107_148_7)])?;
    // 0 to the power of 0 is 1; of a number with a positive real part 0.
    let zero = Array::from_slice(&[z(0.0, 0.0); 2], &[2])?;
    let p = zero.power(&Array::from_slice(&[z(0.0, 0.0), z(2.0, 1.0)], &[2])?)?.to_vec::<Complex64>()?;
    assert_eq!(p, [z(1.0, 0.0), z(0.0, 0.0)]);
    let m = x.maximum(&Array::from_scalar(z(0.0, 3.0)))?.to_vec::<Complex64>()?;
    assert_eq!(m, [z(0.0, 3.0), z(0.0, 3.0), z(2.0, 0.0), z(0.0, 3.0)]);
    assert_eq!(x.max(&[], false)?.item::<Complex64>()?, z(2.0, 0.0));
    assert_eq!(x.real()?.to_vec::<f32>()?, [-2.0, -2.0, 2.0, 0.0]);
    assert_eq!(ints(&[3])?.imag()?.to_vec::<i32>()?, [0]);
    Ok(())
}

#[test]
fn softmax_over_several_axes() -> Result<()> {
    let x = floats(&[0.0, 1.0, 2.0, 3.0])?.reshape(&[2, 2])?;
    let all = x.softmax_axes(&[])?.to_vec::<f32>()?;
    assert!((all.iter().sum::<f32>() - 1.0).abs() < 1e-6 && (all[3] - 0.643_914_2).abs() < 1e-6);
    let first: Vec<f32> = x.softmax_axes(&[0])?.to_vec()?;
    assert!((first[0] - 0.119_202_92).abs() < 1e-7);
    let l = x.logsumexp_axes(&[0, 1], true)?;
    assert_eq!(l.shape()[..], [1, 1]);
    assert!((l.item::<f32>()? - 3.440_189_6).abs() < 1e-6);
    let none = Array::zeros(&[2, 0], Dtype::F32)?.logsumexp_axes(&[1], false)?;
    same(&none, &[-f32::INFINITY; 2]);
    Ok(())
}
