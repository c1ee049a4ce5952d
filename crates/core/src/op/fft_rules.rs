//! Derivatives and batching of Fourier and Hadamard transforms, which are linear.

use super::{Fft, FftKind, Grad, Hadamard, Op};
use crate::{Array, Dtype, Result};

impl Fft {
    pub(super) fn grad(&self) -> Grad {
        Grad::Linear(transpose)
    }
}

/// `y` cut or filled up with zeros along an axis.
fn fit(y: &Array, axis: usize, n: usize) -> Result<Array> {
    let has = y.shape()[axis];
    if has >= n {
        return y.slice_axis(axis as i32, 0, n);
    }
    let zeros = Array::zeros(&y.shape().with(axis, n - has), y.dtype())?;
    crate::ops::concatenate(&[y.clone(), zeros], axis as i32)
}

/// The transform with the other sign; the half that a real transform leaves out counts once, not twice.
fn transpose(op: &Op, inputs: &[Array], cotangents: &[Option<Array>], _: usize) -> Result<Option<Array>> {
    let (Op::Fft(fft), Some(c)) = (op, &cotangents[0]) else { return Ok(None) };
    let x = &inputs[0];
    let kind = match fft.kind {
        FftKind::Complex | FftKind::RealToHalf => FftKind::Complex,
        FftKind::HalfToReal => FftKind::RealToHalf,
    };
    let back = Fft { kind, inverse: !fft.inverse, ..*fft };
    let mut y = Array::from_op(Op::Fft(back), std::slice::from_ref(c))?;
    if fft.kind == FftKind::HalfToReal {
        let half = fft.n / 2 + 1;
        let mut weights = vec![2.0f32; half];
        weights[0] = 1.0;
        if fft.n.is_multiple_of(2) {
            weights[half - 1] = 1.0;
        }
        let mut dims = vec![1; y.rank()];
        dims[fft.axis] = half;
        y = y.multiply(&Array::from_slice(&weights, &dims)?)?;
    }
    let y = if x.dtype().is_complex() { y } else { y.real()?.astype(x.dtype())? };
    fit(&y, fft.axis, x.shape()[fft.axis]).map(Some)
}

pub(super) fn batched(op: &Op, inputs: &[Array], _: usize) -> Result<Vec<Array>> {
    let Op::Fft(fft) = op else { return Ok(Vec::new()) };
    Ok(vec![Array::from_op(Op::Fft(Fft { axis: fft.axis + 1, ..*fft }), inputs)?])
}

impl Hadamard {
    pub(super) fn grad(self) -> Grad {
        Grad::Linear(hadamard_transpose)
    }
}

/// Sylvester's matrices are symmetric; the transpose of the odd part is what it makes of the unit vectors.
fn hadamard_transpose(op: &Op, _: &[Array], cotangents: &[Option<Array>], _: usize) -> Result<Option<Array>> {
    let (Op::Hadamard(h), Some(c)) = (op, &cotangents[0]) else { return Ok(None) };
    let n = c.shape()[c.rank() - 1];
    let Some((m, two)) = Hadamard::split(n) else { return Ok(None) };
    if m == 1 {
        return Array::from_op(op.clone(), std::slice::from_ref(c)).map(Some);
    }
    let mut parts: Vec<usize> = c.shape()[..c.rank() - 1].to_vec();
    parts.extend([m, two]);
    let y = Array::from_op(Op::Hadamard(*h), &[c.reshape(&parts)?])?;
    let wide = if y.dtype() == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
    let one = Hadamard { scale: 1.0f32.to_bits() };
    let transposed = Array::from_op(Op::Hadamard(one), &[Array::identity(m, wide)?])?;
    let y = transposed.matmul(&y.astype(wide)?)?;
    y.astype(c.dtype())?.reshape(c.shape()).map(Some)
}
