//! Convolutions, Fourier and Hadamard transforms, linear algebra, and views that share elements.

use super::{Case, F64, check_batches, check_derivatives, each_case, one, setup};
use olivine_core::fft::{self, Norm};
use olivine_core::ops::{ConvParams, ConvolveMode, convolve, depends};
use olivine_core::{Array, Dtype, Result, linalg};

const F32: Dtype = Dtype::F32;

/// Both parts of a complex array.
fn parts(a: &Array) -> Result<Vec<Array>> {
    Ok(vec![a.real()?, a.imag()?])
}

/// Far from singular, whatever is added to it.
fn shifted(x: &Array, by: f64) -> Result<Array> {
    x.add(&Array::identity(x.dim(-1)?, x.dtype())?.scale(by)?)
}

fn positive(x: &Array) -> Result<Array> {
    shifted(&x.matmul(&x.swapaxes(-1, -2)?)?, 2.0)
}

/// With eigenvalues that lie apart, symmetric or not.
fn apart(x: &Array) -> Result<Array> {
    let on = Array::from_slice(&[1.0f64, 3.0, 6.0], &[3])?.astype(x.dtype())?;
    x.scale(0.3)?.add(&Array::identity(3, x.dtype())?.multiply(&on)?)
}

fn symmetric(x: &Array) -> Result<Array> {
    let x = apart(x)?;
    x.add(&x.swapaxes(-1, -2)?)?.scale(0.5)
}

each_case! {
    convolutions_along_a_line: F64, &[&[2, 9, 4], &[6, 3, 2]], (-1.0, 1.0), |x| {
        let flipped = ConvParams { padding: vec![(2, -1)], groups: Some(2), flip: true, ..ConvParams::default() };
        Ok(vec![x[0].conv1d(&x[1], 2, 1, 1, 2)?, x[0].conv1d(&x[1], 1, 0, 3, 2)?, x[0].conv_general(&x[1], &flipped)?])
    };
    convolutions_of_images: F64, &[&[2, 5, 6, 3], &[4, 3, 2, 3]], (-1.0, 1.0), |x| {
        Ok(vec![
            x[0].conv2d(&x[1], [1, 2], [1, 0], [1, 1], 1)?,
            x[0].conv2d(&x[1], [2, 1], [2, 2], [2, 3], 1)?,
            x[0].conv_transpose2d(&x[1], [2, 3], [1, 0], [1, 2], [1, 0], 1)?,
        ])
    };
    convolutions_by_channel: F64, &[&[1, 5, 5, 3], &[3, 3, 3, 1]], (-1.0, 1.0), |x| {
        one(x[0].conv2d(&x[1], [1, 1], [1, 1], [1, 1], 3))
    };
    convolutions_of_volumes: F64, &[&[1, 3, 4, 3, 2], &[2, 2, 2, 2, 2]], (-1.0, 1.0), |x| {
        one(x[0].conv3d(&x[1], [1, 2, 1], [0, 1, 1], [1, 1, 1], 1))
    };
    convolutions_of_lines: F64, &[&[7], &[4]], (-1.0, 1.0), |x| {
        Ok(vec![
            convolve(&x[0], &x[1], ConvolveMode::Full)?, convolve(&x[0], &x[1], ConvolveMode::Same)?,
            convolve(&x[0], &x[1], ConvolveMode::Valid)?,
        ])
    };
    spectra: F32, &[&[3, 6]], (-1.0, 1.0), |x| {
        let mut all = parts(&fft::rfft(&x[0], None, -1, Norm::Backward)?)?;
        all.extend(parts(&fft::rfft(&x[0], Some(5), 0, Norm::Ortho)?)?);
        all.extend(parts(&fft::fft(&x[0], Some(4), 1, Norm::Forward)?)?);
        Ok(all)
    };
    spectra_of_complex_numbers: F32, &[&[5], &[5]], (-1.0, 1.0), |x| {
        let z = Array::complex(&x[0], &x[1])?;
        let mut all = parts(&fft::fft(&z, None, 0, Norm::Backward)?)?;
        all.extend(parts(&fft::ifft(&z, Some(7), 0, Norm::Backward)?)?);
        all.push(fft::irfft(&z, None, 0, Norm::Backward)?);
        all.push(fft::irfft(&z, Some(7), 0, Norm::Ortho)?);
        Ok(all)
    };
    spectra_of_planes: F32, &[&[4, 5]], (-1.0, 1.0), |x| {
        let y = fft::rfft2(&x[0], None, [0, 1], Norm::Backward)?;
        let mut all = parts(&y)?;
        all.push(fft::irfft2(&y.square()?, Some(&[4, 5]), [0, 1], Norm::Backward)?);
        Ok(all)
    };
    hadamard: F64, &[&[2, 8]], (-1.0, 1.0), |x| one(x[0].hadamard_transform(None));
    hadamard_of_twelve: F64, &[&[2, 24]], (-1.0, 1.0), |x| one(x[0].hadamard_transform(Some(0.5)));
    inverses: F64, &[&[2, 3, 3]], (-1.0, 1.0), |x| {
        let a = shifted(&x[0], 3.0)?;
        Ok(vec![linalg::inv(&a)?, linalg::tri_inv(&a, false)?, linalg::tri_inv(&a, true)?])
    };
    solutions: F64, &[&[3, 3], &[3, 2]], (-1.0, 1.0), |x| {
        let a = shifted(&x[0], 3.0)?;
        Ok(vec![
            linalg::solve(&a, &x[1])?, linalg::solve_triangular(&a, &x[1], true)?,
            linalg::solve_triangular(&a, &x[1], false)?,
        ])
    };
    choleskys: F64, &[&[3, 3]], (-1.0, 1.0), |x| {
        let a = positive(&x[0])?;
        Ok(vec![linalg::cholesky(&a, false)?, linalg::cholesky(&a, true)?])
    };
    determinants: F64, &[&[2, 3, 3]], (-1.0, 1.0), |x| {
        let a = shifted(&x[0], 3.0)?;
        Ok(vec![linalg::det(&a)?, linalg::slogdet(&a)?.1])
    };
    orthogonal_factors: F64, &[&[3, 3]], (-1.0, 1.0), |x| {
        let (q, r) = linalg::qr(&shifted(&x[0], 2.0)?)?;
        Ok(vec![q, r])
    };
    orthogonal_factors_of_tall: F64, &[&[4, 2]], (-1.0, 1.0), |x| {
        let (q, r) = linalg::qr(&x[0])?;
        Ok(vec![q, r])
    };
    orthogonal_factors_of_wide: F64, &[&[2, 4]], (-1.0, 1.0), |x| {
        let (q, r) = linalg::qr(&x[0])?;
        Ok(vec![q, r])
    };
    triangular_factors: F64, &[&[3, 3]], (-1.0, 1.0), |x| {
        let (p, l, u) = linalg::lu(&shifted(&x[0], 3.0)?)?;
        Ok(vec![p, l, u])
    };
    triangular_factors_of_tall_and_wide: F64, &[&[4, 2]], (-1.0, 1.0), |x| {
        let (_, l, u) = linalg::lu(&x[0])?;
        let (_, m, v) = linalg::lu(&x[0].swapaxes(0, 1)?)?;
        Ok(vec![l, u, m, v])
    };
    eigenvalues_of_symmetric: F64, &[&[3, 3]], (-1.0, 1.0), |x| {
        let (w, v) = linalg::eigh(&symmetric(&x[0])?, false)?;
        Ok(vec![w, v, linalg::eigvalsh(&symmetric(&x[0])?, true)?])
    };
    singular_values: F64, &[&[3, 3]], (-1.0, 1.0), |x| {
        let (u, s, v) = linalg::svd(&apart(&x[0])?)?;
        Ok(vec![u, s, v, linalg::svdvals(&apart(&x[0])?)?])
    };
    singular_values_of_tall: F64, &[&[3, 2]], (-1.0, 1.0), |x| {
        let (u, s, v) = linalg::svd(&x[0])?;
        Ok(vec![u, s, v])
    };
    singular_values_of_wide: F64, &[&[2, 3]], (-1.0, 1.0), |x| {
        let (u, s, v) = linalg::svd(&x[0])?;
        Ok(vec![u, s, v])
    };
    eigenvalues: F32, &[&[3, 3]], (-1.0, 1.0), |x| {
        let (w, v) = linalg::eig(&apart(&x[0])?)?;
        let mut all = parts(&w)?;
        all.extend(parts(&v)?);
        all.extend(parts(&linalg::eigvals(&apart(&x[0])?)?)?);
        Ok(all)
    };
    pseudoinverses: F64, &[&[3, 2], &[3, 2]], (-1.0, 1.0), |x| {
        Ok(vec![linalg::pinv(&x[0], None)?, linalg::lstsq(&x[0], &x[1], None)?])
    };
    matrix_norms: F64, &[&[3, 3]], (-1.0, 1.0), |x| {
        let a = apart(&x[0])?;
        Ok(vec![
            linalg::norm(&a, None, None, false)?, linalg::matrix_norm(&a, Some(linalg::Ord::Nuclear), false)?,
            linalg::matrix_power(&a, 3)?, linalg::cross(&a, &a.swapaxes(0, 1)?, -1)?,
        ])
    };
    windows_that_overlap: F64, &[&[12]], (-1.0, 1.0), |x| {
        Ok(vec![x[0].as_strided(&[4, 3], Some(&[2, 1]), 1)?.square()?, x[0].contiguous()?])
    };
    dependencies: F64, &[&[3], &[2]], (-1.0, 1.0), |x| {
        let y = depends(&[x[0].square()?], &[x[1].sin()?])?;
        one(y[0].multiply(&y[0]))
    };
    searches: F64, &[&[4], &[3]], (-1.0, 1.0), |x| {
        let at = x[0].sort(0, false)?.searchsorted(&x[1], false)?;
        one(x[1].multiply(&at.astype(F64)?))
    };
}
