//! Arrangement, contraction, order statistics and counting. Expected values are NumPy 2's.

use olivine_core::dtype::{Category, FloatInfo, IntInfo, can_cast, isdtype, issubdtype, result_type};
use olivine_core::ops::{
    Indexing, Interpolation, PadMode, depends, einsum, einsum_path, kron, meshgrid, tensordot, tensordot_last,
};
use olivine_core::{Array, Dtype, Error, Result};

fn count(shape: &[usize]) -> Result<Array> {
    olivine_cpu::register();
    let n: usize = shape.iter().product();
    Array::arange_int(0, n as i64, 1, Dtype::I32)?.reshape(shape)
}

fn values(a: &Array) -> Result<Vec<i32>> {
    a.astype(Dtype::I32)?.to_vec()
}

fn dims(a: &Array) -> Vec<usize> {
    a.shape().to_vec()
}

fn floats(v: &[f32]) -> Result<Array> {
    olivine_cpu::register();
    Array::from_slice(v, &[v.len()])
}

#[test]
fn axes_and_parts_that_do_not_exist_are_errors() -> Result<()> {
    let scalar = count(&[])?;
    assert!(matches!(scalar.expand_dims(&[-3, -2]), Err(Error::Index { .. })));
    let x = count(&[4])?;
    assert!(matches!(x.split(0, 0), Err(Error::Value { op: "split", .. })));
    assert!(x.split(3, 0).is_err());
    assert!(x.roll(&[1, 2], &[0]).is_err());
    assert!(x.unflatten(0, &[3, -1]).is_err());
    assert!(x.unflatten(0, &[-1, -1]).is_err());
    assert!(x.matrix_transpose().is_err());
    assert!(x.diagonal(0, 0, 1).is_err());
    assert!(x.tile(&[usize::MAX, 2]).is_err());
    assert!(x.repeat(usize::MAX, 0).is_err());
    assert!(x.pad(&[(usize::MAX, 1)], &PadMode::Zero).is_err());
    assert!(Array::zeros(&[0], Dtype::F32)?.pad(&[(1, 1)], &PadMode::Edge).is_err());
    assert!(Array::hanning(usize::MAX).is_err());
    Ok(())
}

#[test]
fn repeating_and_tiling() -> Result<()> {
    let x = count(&[2, 2])?;
    assert_eq!(dims(&count(&[2])?.repeat(0, 0)?), [0]);
    assert_eq!(values(&x.repeat(2, 0)?)?, [0, 1, 0, 1, 2, 3, 2, 3]);
    assert_eq!(values(&x.tile(&[2, 1, 2])?)?, [0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3]);
    assert_eq!(values(&x.roll(&[1], &[])?)?, [3, 0, 1, 2]);
    assert_eq!(values(&x.roll(&[-1], &[1])?)?, [1, 0, 3, 2]);
    assert_eq!(values(&x.flip(&[])?)?, [3, 2, 1, 0]);
    Ok(())
}

#[test]
fn padding_in_every_mode() -> Result<()> {
    let x = count(&[3])?;
    let pad = |mode: &PadMode| x.pad(&[(4, 5)], mode).and_then(|y| values(&y));
    assert_eq!(pad(&PadMode::Zero)?, [0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0]);
    assert_eq!(pad(&PadMode::Edge)?, [0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2]);
    assert_eq!(pad(&PadMode::Reflect)?, [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1]);
    assert_eq!(pad(&PadMode::Symmetric)?, [2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1]);
    assert_eq!(pad(&PadMode::Wrap)?, [2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]);
    assert_eq!(pad(&PadMode::Constant(Array::from_scalar(7i32)))?[..5], [7, 7, 7, 7, 0]);
    let corner = count(&[2, 2])?.pad(&[(1, 0), (0, 1)], &PadMode::Edge)?;
    assert_eq!(values(&corner)?, [0, 1, 1, 0, 1, 1, 2, 3, 3]);
    Ok(())
}

#[test]
fn strided_views_stay_inside_the_array() -> Result<()> {
    let x = count(&[3, 4])?.t()?;
    // As if the transposed array were stored by rows: 0 4 8 1 5 9 2 6 10 3 7 11.
    assert_eq!(values(&x.as_strided(&[2, 3], Some(&[1, 3]), 1)?)?, [4, 5, 6, 8, 9, 10]);
    assert_eq!(values(&x.as_strided(&[2, 2], Some(&[-1, 0]), 3)?)?, [1, 1, 8, 8]);
    assert_eq!(dims(&x.as_strided(&[0, 3], None, 0)?), [0, 3]);
    for (shape, strides, offset) in [
        (&[2, 3][..], &[6, 4][..], 0),
        (&[2][..], &[-1][..], 0),
        (&[1][..], &[1][..], 12),
        (&[2][..], &[isize::MAX][..], 0),
    ] {
        let e = x.as_strided(shape, Some(strides), offset);
        assert!(matches!(e, Err(Error::Index { op: "as_strided", .. })), "{shape:?} {strides:?} {offset}");
    }
    assert!(x.as_strided(&[0], Some(&[1]), usize::MAX).is_err());
    let part = x.slice(&[(Some(1), None, 2)])?;
    assert_eq!(values(&part.contiguous()?)?, values(&part)?);
    let y = depends(std::slice::from_ref(&x), &[part])?;
    assert_eq!(values(&y[0])?, values(&x)?);
    Ok(())
}

#[test]
fn splitting_at_places() -> Result<()> {
    let x = count(&[5])?;
    let parts = x.split_at(&[3, 1, -1, 9], 0)?;
    let parts: Vec<Vec<i32>> = parts.iter().map(values).collect::<Result<_>>()?;
    assert_eq!(parts, [vec![0, 1, 2], vec![], vec![1, 2, 3], vec![4], vec![]]);
    assert_eq!(count(&[2, 3])?.unstack(1)?.len(), 3);
    assert!(Array::zeros(&[0, 3], Dtype::F32)?.unstack(0)?.is_empty());
    let g = meshgrid(&[count(&[2])?, count(&[3])?], false, Indexing::Xy)?;
    assert_eq!((values(&g[0])?, values(&g[1])?), (vec![0, 1, 0, 1, 0, 1], vec![0, 0, 1, 1, 2, 2]));
    Ok(())
}

#[test]
fn diagonals_and_triangles() -> Result<()> {
    let x = count(&[2, 3])?;
    assert_eq!(values(&x.diagonal(1, 0, 1)?)?, [1, 5]);
    assert_eq!(dims(&x.diagonal(3, 0, 1)?), [0]);
    assert_eq!(dims(&x.diagonal(i64::MIN, 0, 1)?), [0]);
    assert_eq!(values(&x.tril(0)?)?, [0, 0, 0, 3, 4, 0]);
    assert_eq!(values(&x.triu(i64::MIN)?)?, values(&x)?);
    assert_eq!(values(&count(&[2])?.diag(-1)?)?, [0, 0, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!(values(&Array::eye(2, 3, 1, Dtype::F32)?)?, [0, 1, 0, 0, 0, 1]);
    assert_eq!(values(&x.trace(0, 0, 1, None)?)?, [4]);
    Ok(())
}

#[test]
fn einsum_with_repeated_letters_and_several_arrays() -> Result<()> {
    let x = Array::ones(&[5, 7, 4, 7], Dtype::F32)?;
    let y = einsum(
        "abcb->ac",
        &[{
            olivine_cpu::register();
            x
        }],
    )?;
    assert_eq!((dims(&y), y.to_vec::<f32>()?), (vec![5, 4], vec![7.0; 20]));
    let (a, b) = (count(&[2, 3])?, count(&[3, 2])?);
    assert_eq!(values(&einsum("ij,jk", &[a.clone(), b.clone()])?)?, [10, 13, 28, 40]);
    assert_eq!(values(&einsum("ij->ji", std::slice::from_ref(&a))?)?, [0, 3, 1, 4, 2, 5]);
    assert_eq!(values(&einsum("...j,j...->...", &[a.clone(), b.clone()])?)?, [10, 40]);
    assert_eq!(values(&tensordot_last(&a, &b, 1)?)?, [10, 13, 28, 40]);
    assert_eq!(values(&tensordot(&a, &b, &[0, 1], &[1, 0])?)?, [50]);
    assert_eq!(dims(&kron(&Array::zeros(&[0, 2], Dtype::F32)?, &a)?), [0, 6]);
    // The short sides first: 2 x 3 x 2 products, then 2 x 2 x 100, instead of 3 x 2 x 100 first.
    let c = count(&[2, 100])?;
    let path = einsum_path("ij,jk,kl->il", &[a.clone(), b.clone(), c])?;
    assert_eq!((path.steps, path.cost), (vec![vec![0, 1], vec![0, 1]], 412.0));
    for bad in ["ij,jk", "ijk->i", "ij->ik", "ij->ii", "i.j->", "i1->i", "ij->ij->ij", "......"] {
        let e = einsum(bad, std::slice::from_ref(&a));
        assert!(matches!(e, Err(Error::Value { op: "einsum", .. })), "{bad}: {e:?}");
    }
    assert!(matches!(einsum("ii", std::slice::from_ref(&a)), Err(Error::Shape { .. })));
    assert!(matches!(einsum("ij,ij", &[a, b]), Err(Error::Shape { .. })));
    Ok(())
}

#[test]
fn distinct_elements() -> Result<()> {
    let x = floats(&[3.0, f32::NAN, 1.0, 3.0, f32::NAN, -0.0, 0.0])?;
    let u = x.unique_all()?;
    let v = u.values.to_vec::<f32>()?;
    assert!(v[..3] == [0.0, 1.0, 3.0] && v[3].is_nan() && v.len() == 4, "{v:?}");
    assert_eq!(values(&u.index)?, [5, 2, 0, 1]);
    assert_eq!(values(&u.inverse)?, [2, 3, 1, 2, 3, 0, 0]);
    assert_eq!(values(&u.counts)?, [2, 1, 2, 2]);
    let s = count(&[3])?.unique_sized(5, Some(&Array::from_scalar(9i32)))?;
    assert_eq!((values(&s.values)?, values(&s.counts)?), (vec![0, 1, 2, 9, 9], vec![1, 1, 1, 0, 0]));
    assert_eq!(dims(&Array::zeros(&[2, 0], Dtype::F32)?.unique()?), [0]);
    assert_eq!(values(&count(&[4])?.isin(&Array::from_slice(&[2i32, 0], &[2])?)?)?, [1, 0, 1, 0]);
    Ok(())
}

#[test]
fn searching_counting_and_interpolating() -> Result<()> {
    let s = floats(&[1.0, 2.0, 2.0, f32::NAN])?;
    let v = floats(&[0.0, 2.0, 3.0, f32::NAN])?;
    assert_eq!(values(&s.searchsorted(&v, false)?)?, [0, 1, 3, 3]);
    assert_eq!(values(&s.searchsorted(&v, true)?)?, [0, 3, 3, 4]);
    let op = olivine_core::Op::Index(olivine_core::op::Index::SearchSorted { right: true });
    let composite = op.fallback(&[s.clone(), v.clone()]).expect("there is a composite")?;
    assert_eq!(values(&composite[0])?, [0, 3, 3, 4]);
    let x = Array::from_slice(&[1i32, 3, 1], &[3])?;
    assert_eq!(values(&x.bincount(None, 6)?)?, [0, 2, 0, 1, 0, 0]);
    let w = floats(&[0.5, 2.0, 0.25])?;
    assert_eq!(x.bincount(Some(&w), 0)?.to_vec::<f32>()?, [0.0, 0.75, 0.0, 2.0]);
    assert!(matches!(Array::from_slice(&[-1i32], &[1])?.bincount(None, 0), Err(Error::Value { .. })));
    let y = floats(&[0.0, 0.5, 1.0, 2.0, 2.5])?;
    let edges = y.histogram_edges(2, Some((0.0, 2.0)))?;
    assert_eq!(edges.to_vec::<f32>()?, [0.0, 1.0, 2.0]);
    assert_eq!(values(&y.histogram(&edges, None)?)?, [2, 2]);
    assert!(floats(&[f32::NAN])?.histogram_edges(2, None).is_err());
    assert_eq!(values(&y.digitize(&floats(&[0.5, 2.0])?, false)?)?, [0, 1, 1, 2, 2]);
    assert_eq!(values(&y.digitize(&floats(&[2.0, 0.5])?, true)?)?, [2, 1, 1, 0, 0]);
    let i = y.interp(&floats(&[0.5, 1.0, 2.0])?, &floats(&[10.0, 20.0, 0.0])?, Some(-1.0), None)?;
    assert_eq!(i.to_vec::<f32>()?, [-1.0, 10.0, 20.0, 0.0, 0.0]);
    assert_eq!(values(&count(&[2, 2])?.argwhere()?)?, [0, 1, 1, 0, 1, 1]);
    Ok(())
}

#[test]
fn order_statistics() -> Result<()> {
    let x = floats(&[4.0, 1.0, 3.0, 2.0])?;
    assert_eq!(x.median(&[], false)?.item::<f32>()?, 2.5);
    let q = x.quantile(&[0.0, 0.25, 1.0], &[], false, Interpolation::Linear)?;
    assert_eq!(q.to_vec::<f32>()?, [1.0, 1.75, 4.0]);
    for (between, want) in [
        (Interpolation::Lower, 2.0),
        (Interpolation::Higher, 3.0),
        (Interpolation::Midpoint, 2.5),
        (Interpolation::Nearest, 2.0),
    ] {
        assert_eq!(x.percentile(&[40.0], &[0], false, between)?.to_vec::<f32>()?, [want], "{between:?}");
    }
    assert!(x.quantile(&[1.5], &[], false, Interpolation::Linear).is_err());
    let c = floats(&[1.0, 2.0, 4.0, 3.0, 1.0, 2.0])?.reshape(&[2, 3])?.cov(true, 1)?;
    let want = [7.0 / 3.0, -0.5, -0.5, 1.0];
    assert!(c.to_vec::<f32>()?.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-6));
    assert_eq!(values(&count(&[3])?.square()?.diff(2, 0)?)?, [2]);
    Ok(())
}

#[test]
fn what_is_known_about_types() -> Result<()> {
    assert_eq!(result_type(&[Dtype::U8, Dtype::I8, Dtype::F16])?, Dtype::F16);
    assert!(result_type(&[]).is_err());
    assert!(can_cast(Dtype::I32, Dtype::F16) && !can_cast(Dtype::F32, Dtype::I64));
    assert!(issubdtype(Dtype::BF16, Category::Inexact) && issubdtype(Category::Floating, Category::Number));
    assert!(!issubdtype(Dtype::Bool, Category::Number) && issubdtype(Dtype::Bool, Category::Generic));
    assert!(isdtype(Dtype::U8, "integral")? && !isdtype(Dtype::C64, "real floating")?);
    assert!(isdtype(Dtype::U8, "whole").is_err());
    let f = FloatInfo::of(Dtype::F16).expect("a float");
    assert_eq!((f.max, f.eps, f.smallest_normal), (65504.0, 2f64.powi(-10), 2f64.powi(-14)));
    assert_eq!(FloatInfo::of(Dtype::F64).map(|f| f.max), Some(f64::MAX));
    assert_eq!(IntInfo::of(Dtype::U64).map(|i| i.max), Some(u64::MAX as i128));
    assert_eq!((IntInfo::of(Dtype::F32), FloatInfo::of(Dtype::I8)), (None, None));
    Ok(())
}
