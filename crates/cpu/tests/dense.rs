//! Convolutions, Fourier transforms and linear algebra from end to end. Expected numbers come from NumPy 2.4,
//! SciPy 1.17 and MLX 0.32.4 where nothing else is said.

use olivine_core::fft::{self, Frames, Norm};
use olivine_core::linalg::{self, Ord};
use olivine_core::ops::{ConvParams, ConvolveMode, PadMode, convolve};
use olivine_core::{Array, Complex64, Dtype, Error, Result};

fn cpu() {
    olivine_cpu::register();
}

/// Numbers that look random, in -1..1.
fn noise(shape: &[usize], seed: u32) -> Result<Array> {
    let n: usize = shape.iter().product();
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let v: Vec<f32> = (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    Array::from_slice(&v, shape)
}

fn floats(a: &Array) -> Result<Vec<f64>> {
    a.astype(Dtype::F64)?.to_vec()
}

fn complexes(a: &Array) -> Result<Vec<(f32, f32)>> {
    Ok(a.to_vec::<Complex64>()?.iter().map(|z| (z.re, z.im)).collect())
}

fn line(v: &[f32]) -> Result<Array> {
    Array::from_slice(v, &[v.len()])
}

#[track_caller]
fn near(a: &Array, b: &Array, tolerance: f64) -> Result<()> {
    assert_eq!(a.shape(), b.shape());
    let off = a.subtract(b)?.abs()?.astype(Dtype::F64)?;
    let worst = floats(&off)?.into_iter().fold(0.0, f64::max);
    assert!(worst <= tolerance, "{worst} apart");
    Ok(())
}

#[track_caller]
fn close(a: &Array, want: &[f64], tolerance: f64) -> Result<()> {
    let got = floats(a)?;
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() <= tolerance, "{got:?} for {want:?}");
    }
    Ok(())
}

#[test]
fn convolutions_as_mlx_computes_them() -> Result<()> {
    cpu();
    let x = Array::arange(0.0, 12.0, 1.0, Dtype::F32)?.reshape(&[1, 3, 4])?;
    let w = Array::arange(0.0, 12.0, 1.0, Dtype::F32)?.reshape(&[2, 3, 2])?;
    let y = x.conv_transpose1d(&w, 2, 0, 1, 0, 2)?;
    assert_eq!(y.shape()[..], [1, 7, 2]);
    close(&y, &[1., 33., 3., 43., 10., 138., 23., 111., 50., 274., 43., 179., 77., 221.], 0.0)?;
    let x = Array::arange(0.0, 3.0, 1.0, Dtype::F32)?.reshape(&[1, 3, 1])?;
    let w = Array::from_slice(&[1f32, 2.0], &[1, 2, 1])?;
    close(&x.conv_transpose1d(&w, 2, 1, 2, 0, 1)?, &[0., 1., 0., 4., 0.], 0.0)?;
    let x = Array::arange(0.0, 5.0, 1.0, Dtype::F32)?.reshape(&[1, 5, 1])?;
    let params =
        ConvParams { padding: vec![(1, 2)], input_dilation: vec![2], flip: true, ..Default::default() };
    close(&x.conv_general(&w, &params)?, &[0., 0., 1., 2., 2., 4., 3., 6., 4., 8., 0.], 0.0)?;
    // Strides that are no row-major ones, and mixed types.
    let t = noise(&[2, 5, 6, 3], 1)?;
    let w = noise(&[4, 3, 3, 3], 2)?;
    let turned = t.transpose(&[0, 2, 1, 3])?;
    let a = turned.conv2d(&w, [1, 2], [1, 0], [1, 1], 1)?;
    let b = t.conv2d(&w.transpose(&[0, 2, 1, 3])?, [2, 1], [0, 1], [1, 1], 1)?.transpose(&[0, 2, 1, 3])?;
    near(&a, &b, 1e-5)?;
    assert_eq!(t.astype(Dtype::F16)?.conv2d(&w, [1; 2], [0; 2], [1; 2], 1)?.dtype(), Dtype::F32);
    // An empty batch, and no channels: sums of nothing.
    let y =
        Array::zeros(&[0, 5, 1], Dtype::F32)?.conv1d(&Array::ones(&[1, 3, 1], Dtype::F32)?, 1, 0, 1, 1)?;
    assert_eq!(y.shape()[..], [0, 3, 1]);
    let y =
        Array::zeros(&[1, 5, 0], Dtype::F32)?.conv1d(&Array::ones(&[2, 3, 0], Dtype::F32)?, 1, 0, 1, 1)?;
    close(&y, &[0.0; 6], 0.0)
}

#[test]
fn parameters_without_meaning_are_errors() -> Result<()> {
    cpu();
    let x = Array::ones(&[1, 5, 4], Dtype::F32)?;
    let w = Array::ones(&[2, 3, 4], Dtype::F32)?;
    assert!(matches!(x.conv1d(&w, 1, 0, 1, 0), Err(Error::Value { .. })));
    assert!(matches!(x.conv1d(&w, 0, 0, 1, 1), Err(Error::Value { .. })));
    assert!(matches!(x.conv1d(&w, 1, 0, 0, 1), Err(Error::Value { .. })));
    assert!(x.conv1d(&w, 1, 0, 1, 3).is_err());
    assert!(x.conv1d(&w, 1, 0, usize::MAX, 1).is_err());
    assert!(x.conv1d(&w, 1, usize::MAX, 1, 1).is_err());
    assert!(x.conv1d(&w, 1, 0, 3, 1).is_err());
    assert!(x.conv2d(&w, [1; 2], [0; 2], [1; 2], 1).is_err());
    assert!(x.astype(Dtype::I32)?.conv1d(&w.astype(Dtype::I32)?, 1, 0, 1, 1).is_err());
    assert!(x.conv_transpose1d(&w, usize::MAX, 0, 1, 0, 1).is_err());
    assert!(x.conv1d(&Array::ones(&[2, 0, 4], Dtype::F32)?, 1, 0, 1, 1).is_err());
    // A stride beyond the input is fine.
    close(&x.conv1d(&w, 1 << 40, 0, 1, 1)?, &[12.0, 12.0], 0.0)
}

/// The derivatives of a convolution are convolutions: `<y', conv(x, w)>` is linear in both, so its derivatives
/// must give back the same number.
#[test]
fn derivatives_are_convolutions() -> Result<()> {
    cpu();
    for (stride, lo, hi, kd, id, g) in
        [(1, 0, 0, 1, 1, 1), (2, 1, 2, 1, 1, 2), (3, 2, 0, 2, 1, 1), (2, 1, 1, 2, 3, 2), (1, -1, 3, 1, 2, 1)]
    {
        let (n, c, f, len, k) = (2usize, 4usize, 6usize, 11usize, 3usize);
        let (x, w) = (noise(&[n, len, c], 3)?, noise(&[f, k, c / g], 4)?);
        let forward = |x: &Array, w: &Array| {
            x.conv_general(
                w,
                &ConvParams {
                    stride: vec![stride],
                    padding: vec![(lo, hi)],
                    kernel_dilation: vec![kd],
                    input_dilation: vec![id],
                    groups: Some(g),
                    flip: false,
                },
            )
        };
        let y = forward(&x, &w)?;
        let out = y.shape()[1];
        let ct = noise(y.shape(), 5)?;
        let dot = |a: &Array, b: &Array| floats(&a.multiply(b)?.sum(&[], false)?).map(|v| v[0]);
        let want = dot(&y, &ct)?;
        // With respect to the input: features and channels of each group exchanged, the window backwards.
        let reach = ((k - 1) * kd) as i64;
        let wt = w.reshape(&[g, f / g, k, c / g])?.transpose(&[0, 3, 2, 1])?.reshape(&[c, k, f / g])?;
        let spread = ((len - 1) * id + 1) as i64;
        let before = reach - lo;
        let after = spread + reach - before - ((out - 1) * stride + 1) as i64;
        let dx = ct.conv_general(
            &wt,
            &ConvParams {
                stride: vec![id],
                padding: vec![(before, after)],
                kernel_dilation: vec![kd],
                input_dilation: vec![stride],
                groups: Some(g),
                flip: true,
            },
        )?;
        assert_eq!(dx.shape(), x.shape());
        assert!((dot(&dx, &x)? - want).abs() < 1e-3, "input of {stride} {lo} {hi} {kd} {id} {g}");
        // With respect to the weights: batch and features in each other's place.
        let xt = x.reshape(&[n, len, g, c / g])?.transpose(&[3, 1, 2, 0])?.reshape(&[c / g, len, g * n])?;
        let window = ((out - 1) * stride + 1) as i64;
        let after = reach + window - spread - lo;
        let dw = xt
            .conv_general(
                &ct.transpose(&[2, 1, 0])?,
                &ConvParams {
                    stride: vec![kd],
                    padding: vec![(lo, after)],
                    kernel_dilation: vec![stride],
                    input_dilation: vec![id],
                    groups: Some(g),
                    flip: false,
                },
            )?
            .transpose(&[2, 1, 0])?;
        assert_eq!(dw.shape(), w.shape());
        assert!((dot(&dw, &w)? - want).abs() < 1e-3, "weights of {stride} {lo} {hi} {kd} {id} {g}");
    }
    Ok(())
}

#[test]
fn convolve_follows_numpy() -> Result<()> {
    cpu();
    let r = |n: usize| Array::arange(0.0, n as f64, 1.0, Dtype::F32);
    close(&convolve(&r(3)?, &r(4)?, ConvolveMode::Same)?, &[0., 1., 4., 7.], 0.0)?;
    close(&convolve(&r(7)?, &r(4)?, ConvolveMode::Same)?, &[0., 1., 4., 10., 16., 22., 28.], 0.0)?;
    close(&convolve(&r(3)?, &r(5)?, ConvolveMode::Valid)?, &[1., 4., 7.], 0.0)?;
    close(&convolve(&r(3)?, &r(4)?, ConvolveMode::Full)?, &[0., 0., 1., 4., 7., 6.], 0.0)?;
    assert!(convolve(&r(0)?, &r(4)?, ConvolveMode::Full).is_err());
    Ok(())
}

#[test]
fn fourier_transforms_of_small_lines() -> Result<()> {
    cpu();
    let x = line(&[1.0, 2.0, 3.0])?;
    let y = complexes(&fft::fft(&x, None, -1, Norm::Backward)?)?;
    let want = [(6.0, 0.0), (-1.5, 0.866_025_4), (-1.5, -0.866_025_4)];
    for (a, b) in y.iter().zip(want) {
        assert!((a.0 - b.0).abs() < 1e-6 && (a.1 - b.1).abs() < 1e-6);
    }
    // Cut, filled up, and with the three norms.
    assert_eq!(complexes(&fft::fft(&x, Some(2), 0, Norm::Backward)?)?, [(3.0, 0.0), (-1.0, 0.0)]);
    assert_eq!(complexes(&fft::fft(&x, Some(4), 0, Norm::Forward)?)?[0], (1.5, 0.0));
    assert_eq!(complexes(&fft::fft(&line(&[1.0; 4])?, None, 0, Norm::Ortho)?)?[0], (2.0, 0.0));
    assert_eq!(fft::rfft(&x, None, -1, Norm::Backward)?.shape()[..], [2]);
    assert_eq!(
        fft::irfft(&fft::rfft(&x, None, -1, Norm::Backward)?, None, -1, Norm::Backward)?.shape()[..],
        [2]
    );
    assert!(matches!(fft::fft(&x, Some(0), -1, Norm::Backward), Err(Error::Value { .. })));
    assert!(fft::fft(&Array::zeros(&[0], Dtype::F32)?, None, -1, Norm::Backward).is_err());
    assert!(fft::fft(&x, None, 1, Norm::Backward).is_err());
    assert!(fft::irfft(&line(&[1.0])?, None, -1, Norm::Backward).is_err());
    assert_eq!(fft::fft(&Array::zeros(&[0, 4], Dtype::F32)?, None, -1, Norm::Backward)?.shape()[..], [0, 4]);
    close(&fft::fftfreq(5, 0.5)?, &[0.0, 0.4, 0.8, -0.8, -0.4], 1e-7)?;
    close(&fft::fftfreq(4, 1.0)?, &[0.0, 0.25, -0.5, -0.25], 0.0)?;
    close(&fft::rfftfreq(5, 1.0)?, &[0.0, 0.2, 0.4], 1e-7)?;
    close(&fft::fftshift(&Array::arange_i32(5)?, None)?, &[3., 4., 0., 1., 2.], 0.0)?;
    close(&fft::ifftshift(&Array::arange_i32(5)?, None)?, &[2., 3., 4., 0., 1.], 0.0)
}

#[test]
fn fourier_transforms_go_there_and_back() -> Result<()> {
    cpu();
    for n in [1usize, 2, 3, 31, 64, 97, 100, 1009, 6144] {
        let x = noise(&[3, n], n as u32)?;
        let y = fft::ifft(&fft::fft(&x, None, -1, Norm::Ortho)?, None, -1, Norm::Ortho)?;
        near(&y.real()?, &x, 1e-5)?;
        let back = fft::irfft(&fft::rfft(&x, None, -1, Norm::Backward)?, Some(n), -1, Norm::Backward)?;
        near(&back, &x, 1e-5)?;
    }
    // Any axis, any strides: as along the last axis of a copy.
    let x = noise(&[5, 12, 34], 7)?;
    for a in 0..3 {
        let along = fft::fft(&x, None, a, Norm::Backward)?;
        let last = fft::fft(&x.moveaxis(a, -1)?, None, -1, Norm::Backward)?.moveaxis(-1, a)?;
        near(&along, &last, 1e-5)?;
        let along = fft::rfft(&x.astype(Dtype::F64)?, Some(10), a, Norm::Backward)?;
        let last = fft::rfft(&x.moveaxis(a, -1)?, Some(10), -1, Norm::Backward)?.moveaxis(-1, a)?;
        near(&along, &last, 1e-4)?;
    }
    let y =
        fft::irfftn(&fft::rfftn(&x, None, None, Norm::Backward)?, Some(&[5, 12, 34]), None, Norm::Backward)?;
    near(&y, &x, 1e-5)?;
    let y = fft::ifft2(&fft::fft2(&x, None, [0, 1], Norm::Forward)?, None, [0, 1], Norm::Forward)?;
    near(&y.real()?, &x, 1e-5)?;
    // Sizes without axes belong to the last axes.
    let a = noise(&[4, 8, 8], 9)?;
    let y = fft::irfftn(&a, Some(&[8, 8]), None, Norm::Backward)?;
    assert_eq!(y.shape()[..], [4, 8, 8]);
    near(&y, &fft::irfft2(&a, Some(&[8, 8]), [-2, -1], Norm::Backward)?, 0.0)
}

#[test]
fn short_time_transforms_as_mlx_computes_them() -> Result<()> {
    cpu();
    let x = Array::arange(0.0, 10.0, 1.0, Dtype::F32)?;
    let four = Frames { n_fft: Some(4), ..Frames::default() };
    let y = fft::stft(&x, &four, &PadMode::Reflect)?;
    assert_eq!(y.shape()[..], [3, 11]);
    close(&y.real()?.slice_axis(0, 0, 1)?, &[4., 4., 6., 10., 14., 18., 22., 26., 30., 32., 32.], 1e-5)?;
    near(&fft::istft(&y, &four, None)?, &x, 1e-5)?;
    close(&fft::istft(&y, &four, Some(5))?, &[0., 1., 2., 3., 4.], 1e-5)?;
    let longer = fft::istft(&y, &four, Some(12))?;
    close(&longer, &[0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 8., 7.], 1e-5)?;
    let apart = Frames {
        n_fft: Some(5),
        hop: Some(3),
        window: Some(line(&[1.0, 2.0])?),
        uncentered: true,
        ..Frames::default()
    };
    let y = fft::stft(&x, &apart, &PadMode::Reflect)?;
    close(&y.real()?, &[5., 14., -2.927_05, -6.854_1, 0.427_05, -0.145_9], 1e-4)?;
    // Several lines at once, both sides, overlapping windows that reach everything.
    let x = noise(&[2, 3, 50], 4)?;
    let window = line(&[0.5, 1.0, 1.5, 1.0, 2.0, 0.25, 0.75, 1.0])?;
    for onesided in [true, false] {
        let f = Frames {
            n_fft: Some(8),
            hop: Some(3),
            window: Some(window.clone()),
            onesided: Some(onesided),
            norm: Norm::Ortho,
            ..Frames::default()
        };
        let y = fft::istft(&fft::stft(&x, &f, &PadMode::Edge)?, &f, Some(50))?;
        near(&y.slice_axis(-1, 0, 48)?, &x.slice_axis(-1, 0, 48)?, 1e-5)?;
    }
    assert!(fft::stft(&x, &Frames { n_fft: Some(0), ..Frames::default() }, &PadMode::Reflect).is_err());
    assert!(fft::stft(&x, &Frames { hop: Some(0), ..four.clone() }, &PadMode::Reflect).is_err());
    assert!(fft::stft(&x, &Frames { win_length: Some(5), ..four }, &PadMode::Reflect).is_err());
    assert!(fft::stft(&x, &Frames { uncentered: true, ..Frames::default() }, &PadMode::Reflect).is_err());
    Ok(())
}

#[test]
fn hadamard_is_orthogonal_and_keeps_types() -> Result<()> {
    cpu();
    for d in [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64] {
        let x = Array::from_slice(&[1f32, 2.0, 3.0, 4.0], &[4])?.astype(d)?;
        let y = x.hadamard_transform(None)?;
        assert_eq!(y.dtype(), d);
        close(&y, &[5.0, -1.0, -2.0, 0.0], 0.0)?;
    }
    let x = noise(&[2, 3, 40], 3)?;
    let norm = |a: &Array| floats(&linalg::norm(a, None, None, false)?).map(|v| v[0]);
    assert!((norm(&x)? - norm(&x.hadamard_transform(None)?)?).abs() < 1e-4);
    assert!(noise(&[6], 1)?.hadamard_transform(None).is_err());
    assert!(Array::zeros(&[0], Dtype::F32)?.hadamard_transform(None).is_err());
    Ok(())
}

#[test]
fn factors_multiply_back_for_every_type_and_batch() -> Result<()> {
    cpu();
    for d in [Dtype::F32, Dtype::F64, Dtype::C64, Dtype::F16, Dtype::BF16] {
        let tolerance = match d {
            Dtype::F16 => 2e-2,
            Dtype::BF16 => 2e-1,
            _ => 1e-4,
        };
        for shape in [vec![4, 4], vec![2, 3, 5, 5], vec![7, 2, 2]] {
            let n = shape[shape.len() - 1];
            let eye = linalg::matrix_power(&Array::zeros(&[n, n], d)?, 0)?;
            let a = noise(&shape, 5)?.astype(d)?.add(&eye.scale(3.0)?)?;
            let a = if d == Dtype::C64 {
                let i = Array::from_scalar(Complex64 { re: 0.0, im: 1.0 });
                a.add(&noise(&shape, 6)?.multiply(&i)?)?
            } else {
                a
            };
            // Stored the other way round.
            let a = a.swapaxes(-1, -2)?;
            let full = eye.broadcast_to(a.shape())?;
            let x = linalg::inv(&a)?;
            assert_eq!(x.dtype(), d);
            near(&a.matmul(&x)?, &full, tolerance)?;
            let b = noise(&[n, 3], 8)?.astype(d)?;
            near(
                &a.matmul(&linalg::solve(&a, &b)?)?,
                &b.broadcast_to(linalg::solve(&a, &b)?.shape())?,
                tolerance,
            )?;
            let (q, r) = linalg::qr(&a)?;
            near(&q.matmul(&r)?, &a, tolerance * 4.0)?;
            let (u, s, vt) = linalg::svd(&a)?;
            near(&u.multiply(&s.expand_dims(&[-2])?)?.matmul(&vt)?, &a, tolerance * 4.0)?;
            near(&linalg::pinv(&a, None)?, &x, tolerance)?;
            let (p, l, u) = linalg::lu(&a)?;
            let rows = p.expand_dims(&[-1])?.broadcast_to(l.shape())?;
            near(&l.take_along_axis(&rows, -2)?.matmul(&u)?, &a, tolerance * 4.0)?;
            let at = if d == Dtype::C64 { a.swapaxes(-1, -2)?.conjugate()? } else { a.swapaxes(-1, -2)? };
            let spd = a.matmul(&at)?;
            let l = linalg::cholesky(&spd, false)?;
            let lt = if d == Dtype::C64 { l.swapaxes(-1, -2)?.conjugate()? } else { l.swapaxes(-1, -2)? };
            near(&l.matmul(&lt)?, &spd, tolerance * 20.0)?;
            near(&linalg::cholesky_inv(&l, false)?, &linalg::inv(&spd)?, tolerance)?;
            let (w, v) = linalg::eigh(&spd, false)?;
            near(&spd.matmul(&v)?, &v.multiply(&w.expand_dims(&[-2])?)?, tolerance * 20.0)?;
            near(&w, &linalg::eigvalsh(&spd, true)?, tolerance * 20.0)?;
            let (w, v) = linalg::eig(&a)?;
            assert_eq!((w.dtype(), v.dtype()), (Dtype::C64, Dtype::C64));
            near(&a.astype(Dtype::C64)?.matmul(&v)?, &v.multiply(&w.expand_dims(&[-2])?)?, 1e-3)?;
            let (sign, log) = linalg::slogdet(&a.astype(if d == Dtype::C64 { d } else { Dtype::F32 })?)?;
            let det = linalg::det(&a.astype(sign.dtype())?)?;
            near(&det.abs()?.log()?, &log, 1e-3)?;
            near(&sign.multiply(&det.abs()?)?, &det, 1e-1)?;
        }
    }
    Ok(())
}

#[test]
fn systems_and_their_shapes() -> Result<()> {
    cpu();
    let a = Array::from_slice(&[2f32, 1.0, 1.0, 3.0], &[2, 2])?;
    close(&linalg::solve(&a, &line(&[3.0, 5.0])?)?, &[0.8, 1.4], 1e-6)?;
    let many = a.broadcast_to(&[3, 2, 2])?;
    assert_eq!(linalg::solve(&many, &line(&[3.0, 5.0])?)?.shape()[..], [3, 2]);
    assert!(linalg::solve(&a, &line(&[1.0; 3])?).is_err());
    assert!(linalg::solve(&many, &Array::ones(&[4, 2], Dtype::F32)?).is_err());
    close(&linalg::solve_triangular(&a, &line(&[4.0, 6.0])?, false)?, &[2.0, 4.0 / 3.0], 1e-6)?;
    close(&linalg::solve_triangular(&a, &line(&[4.0, 6.0])?, true)?, &[1.0, 2.0], 1e-6)?;
    // A line through (0, 1), (1, 3), (2, 5), (3, 7.2): `np.linalg.lstsq` gives 2.06, 0.96.
    let x = Array::from_slice(&[0f32, 1.0, 1.0, 1.0, 2.0, 1.0, 3.0, 1.0], &[4, 2])?;
    close(&linalg::lstsq(&x, &line(&[1.0, 3.0, 5.0, 7.2])?, None)?, &[2.06, 0.96], 1e-5)?;
    let nine = Array::arange(1.0, 10.0, 1.0, Dtype::F32)?.reshape(&[3, 3])?;
    close(&linalg::matrix_rank(&nine, None)?, &[2.0], 0.0)?;
    close(&linalg::matrix_power(&a, 3)?, &[15.0, 20.0, 20.0, 35.0], 1e-4)?;
    close(&linalg::matrix_power(&a, -1)?, &[0.6, -0.2, -0.2, 0.4], 1e-6)?;
    let (m, v) = (noise(&[3, 40], 1)?, noise(&[40], 2)?);
    let chain = linalg::multi_dot(&[m.clone(), noise(&[40, 5], 3)?, noise(&[5, 40], 4)?, v.clone()])?;
    let plain = m.matmul(&noise(&[40, 5], 3)?)?.matmul(&noise(&[5, 40], 4)?)?.matmul(&v)?;
    near(&chain, &plain, 1e-4)?;
    let nine = Array::from_slice(&[1f32, 2.0, 1.0, 3.0, 4.0, 1.0, 5.0, 6.0, 1.0], &[3, 3])?;
    let (packed, swaps) = linalg::lu_factor(&nine)?;
    assert_eq!(swaps.to_vec::<u32>()?, [2, 2, 2]);
    close(&packed, &[5., 6., 1., 0.2, 0.8, 0.8, 0.6, 0.5, 0.0], 1e-6)?;
    assert_eq!(linalg::lu(&nine)?.0.to_vec::<u32>()?, [1, 2, 0]);
    close(&linalg::cross(&line(&[1., 2., 3.])?, &line(&[3., 4.])?, -1)?, &[-12., 9., -2.], 0.0)?;
    close(&linalg::cross(&line(&[1., 2.])?, &line(&[3., 4.])?, -1)?, &[0., 0., -2.], 0.0)?;
    assert!(linalg::cross(&line(&[1.; 4])?, &line(&[3.; 4])?, -1).is_err());
    Ok(())
}

#[test]
fn norms_of_every_order() -> Result<()> {
    cpu();
    let a = Array::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    let inf = f64::INFINITY;
    for (ord, want) in [
        (None, 5.477_225_6),
        (Some(Ord::Frobenius), 5.477_225_6),
        (Some(Ord::Nuclear), 5.830_952),
        (Some(Ord::P(2.0)), 5.464_985_7),
        (Some(Ord::P(-2.0)), 0.365_966_2),
        (Some(Ord::P(1.0)), 6.0),
        (Some(Ord::P(-1.0)), 4.0),
        (Some(Ord::P(inf)), 7.0),
        (Some(Ord::P(-inf)), 3.0),
    ] {
        for axes in [None, Some(&[0, 1][..]), Some(&[-2, -1][..])] {
            close(&linalg::norm(&a, ord, axes, false)?, &[want], 1e-5)?;
            assert_eq!(linalg::norm(&a, ord, axes, true)?.shape()[..], [1, 1], "{ord:?}");
        }
    }
    for (p, want) in [
        (2.0, [3.162_277_7, 4.472_136]),
        (1.0, [4.0, 6.0]),
        (-1.0, [0.75, 1.333_333_3]),
        (inf, [3.0, 4.0]),
        (-inf, [1.0, 2.0]),
        (0.0, [2.0, 2.0]),
        (3.0, [3.036_589, 4.160_168]),
    ] {
        close(&linalg::norm(&a, Some(Ord::P(p)), Some(&[0]), false)?, &want, 1e-5)?;
        assert_eq!(linalg::norm(&a, Some(Ord::P(p)), Some(&[0]), true)?.shape()[..], [1, 2]);
    }
    // Exchanged axes exchange rows and columns.
    close(&linalg::norm(&a, Some(Ord::P(inf)), Some(&[-1, -2]), false)?, &[6.0], 0.0)?;
    assert_eq!(linalg::norm(&Array::ones(&[2, 3], Dtype::F32)?, None, None, true)?.shape()[..], [1, 1]);
    assert!(linalg::norm(&a, Some(Ord::P(3.0)), None, false).is_err());
    assert!(linalg::norm(&a, Some(Ord::Frobenius), Some(&[0]), false).is_err());
    assert!(linalg::norm(&Array::zeros(&[2, 2, 2], Dtype::F32)?, Some(Ord::P(2.0)), None, false).is_err());
    let z = Array::from_slice(&[Complex64 { re: 3.0, im: 4.0 }, Complex64 { re: 1.0, im: 0.0 }], &[2])?;
    close(&linalg::norm(&z, None, None, false)?, &[26f64.sqrt()], 1e-6)?;
    // The square of this is beyond float16, its root is not.
    let h = line(&[3000.0, 4000.0])?.astype(Dtype::F16)?;
    close(&linalg::norm(&h, None, None, false)?, &[5000.0], 0.0)
}

#[test]
fn matrices_without_results_and_without_elements() -> Result<()> {
    cpu();
    let value =
        |a: Result<Array>| matches!(a.and_then(|a| a.to_bytes().map(|_| ())), Err(Error::Value { .. }));
    let zero = Array::zeros(&[2, 2], Dtype::F32)?;
    assert!(value(linalg::inv(&zero)));
    assert!(value(linalg::tri_inv(&zero, false)));
    assert!(value(linalg::solve(&zero, &line(&[1.0, 1.0])?)));
    assert!(value(linalg::cholesky(&zero.subtract(&Array::ones(&[2, 2], Dtype::F32)?)?, false)));
    assert!(value(linalg::svdvals(&zero.full_like(f64::NAN)?)));
    assert!(value(linalg::eigvals(&zero.full_like(f64::INFINITY)?)));
    close(&linalg::det(&zero)?, &[0.0], 0.0)?;
    close(&linalg::pinv(&zero, None)?, &[0.0; 4], 0.0)?;
    let (sign, log) = linalg::slogdet(&zero)?;
    assert_eq!((sign.item::<f32>()?, log.item::<f32>()?), (0.0, f32::NEG_INFINITY));
    assert!(linalg::inv(&Array::ones(&[2, 3], Dtype::F32)?).is_err());
    assert!(linalg::inv(&line(&[1.0])?).is_err());

    let none = Array::zeros(&[0, 0], Dtype::F32)?;
    assert_eq!(linalg::inv(&none)?.shape()[..], [0, 0]);
    close(&linalg::det(&none)?, &[1.0], 0.0)?;
    assert_eq!(linalg::eig(&none)?.0.to_vec::<Complex64>()?.len(), 0);
    let (u, s, vt) = linalg::svd(&Array::zeros(&[2, 3, 0], Dtype::F32)?)?;
    assert_eq!(
        (&u.shape()[..], &s.shape()[..], &vt.shape()[..]),
        (&[2, 3, 3][..], &[2, 0][..], &[2, 0, 0][..])
    );
    near(&u, &linalg::matrix_power(&Array::zeros(&[2, 3, 3], Dtype::F32)?, 0)?, 0.0)?;
    assert_eq!(linalg::pinv(&Array::zeros(&[3, 0], Dtype::F32)?, None)?.shape()[..], [0, 3]);
    assert_eq!(linalg::inv(&Array::zeros(&[0, 3, 3], Dtype::F64)?)?.shape()[..], [0, 3, 3]);
    let eye = linalg::matrix_power(&Array::zeros(&[2, 2], Dtype::F64)?, 0)?;
    assert_eq!(linalg::inv(&eye)?.dtype(), Dtype::F64);
    Ok(())
}
