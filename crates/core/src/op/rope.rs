//! Rotary position embedding (Su et al. 2021, "RoFormer").

use super::{Meta, Metas, Op, one};
use crate::{Array, Dtype, Error, Result};
use serde::{Deserialize, Serialize};

/// Rotation of pairs of features by `position * frequency`.
///
/// Arguments: `x` of shape `[batch, ..., length, features]`; `offset`, `i32` of shape `[]` or `[batch]`, the
/// position of the first row; and, when there is a third, `frequencies` of shape `[dims / 2]` in `f32`
/// (radians per position) instead of `base^(-2i / dims)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rope {
    /// Leading features that are rotated; even.
    pub dims: usize,
    /// Pairs are neighbours (`2i`, `2i + 1`) rather than halves (`i`, `i + dims / 2`).
    pub traditional: bool,
    /// Bits of the `f32` base.
    pub base: u32,
    /// Bits of the `f32` factor on positions.
    pub scale: u32,
}

impl Rope {
    pub(super) fn infer(self, inputs: &[&Meta]) -> Result<Metas> {
        let (Some(x), Some(offset), true) = (inputs.first(), inputs.get(1), inputs.len() <= 3) else {
            return Err(Error::value("rope", format!("takes 2 or 3 arrays, got {}", inputs.len())));
        };
        if !x.dtype.is_float() {
            return Err(Error::bad_dtype("rope", "real floats", x.dtype));
        }
        let r = x.shape.rank();
        if r < 2 || self.dims == 0 || !self.dims.is_multiple_of(2) || self.dims > x.shape[r - 1] {
            let msg = format!("{} rotated features for x of shape {}", self.dims, x.shape);
            return Err(Error::shape("rope", msg));
        }
        let scalar = offset.shape.rank() == 0;
        if offset.dtype != Dtype::I32 || !(scalar || (r > 2 && offset.shape[..] == x.shape[..1])) {
            let msg = format!(
                "offset is int32 of shape () or ({},), got {} {}",
                x.shape[0], offset.dtype, offset.shape
            );
            return Err(Error::shape("rope", msg));
        }
        if let Some(f) = inputs.get(2)
            && (f.dtype != Dtype::F32 || f.shape[..] != [self.dims / 2])
        {
            let msg = format!("frequencies are float32 ({},), got {} {}", self.dims / 2, f.dtype, f.shape);
            return Err(Error::shape("rope", msg));
        }
        one(x.shape.clone(), x.dtype)
    }

    pub(super) fn fallback(self, inputs: &[Array]) -> Result<Vec<Array>> {
        let (x, offset) = (&inputs[0], &inputs[1]);
        let r = x.shape().rank();
        let (half, length) = (self.dims / 2, x.shape()[r - 2]);
        let wide = if x.dtype() == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        let freqs = match inputs.get(2) {
            Some(f) => f.astype(wide)?,
            None if wide == Dtype::F64 => {
                let base = f32::from_bits(self.base) as f64;
                let f: Vec<f64> = (0..half).map(|i| base.powf(-2.0 * i as f64 / self.dims as f64)).collect();
                Array::from_slice(&f, &[half])?
            }
            None => {
                let base = f32::from_bits(self.base) as f64;
                let f: Vec<f32> =
                    (0..half).map(|i| base.powf(-2.0 * i as f64 / self.dims as f64) as f32).collect();
                Array::from_slice(&f, &[half])?
            }
        };
        let start = if offset.shape().rank() == 0 {
            offset.clone()
        } else {
            let mut dims = vec![1; r];
            dims[0] = x.shape()[0];
            offset.reshape(&dims)?
        };
        let rows = Array::arange_i32(length)?.reshape(&[length, 1])?;
        let positions = rows.add(&start)?.astype(wide)?.scale(f32::from_bits(self.scale) as f64)?;
        let angle = positions.multiply(&freqs)?;
        let (cos, sin) = (angle.cos()?, angle.sin()?);
        let h = x.astype(wide)?;
        let rotated = h.slice_axis(-1, 0, self.dims)?;
        let (a, b) = if self.traditional {
            let mut dims: Vec<usize> = x.shape()[..r - 1].to_vec();
            dims.extend([half, 2]);
            let pairs = rotated.reshape(&dims)?;
            let part = |i| pairs.slice_axis(-1, i, i + 1)?.squeeze(&[-1]);
            (part(0)?, part(1)?)
        } else {
            (rotated.slice_axis(-1, 0, half)?, rotated.slice_axis(-1, half, self.dims)?)
        };
        let y0 = a.multiply(&cos)?.subtract(&b.multiply(&sin)?)?;
        let y1 = a.multiply(&sin)?.add(&b.multiply(&cos)?)?;
        let y = if self.traditional {
            let mut dims: Vec<usize> = x.shape().to_vec();
            dims[r - 1] = self.dims;
            Array::concatenate(&[y0.expand_dims(&[-1])?, y1.expand_dims(&[-1])?], -1)?.reshape(&dims)?
        } else {
            Array::concatenate(&[y0, y1], -1)?
        };
        let y = y.astype(x.dtype())?;
        if self.dims == x.shape()[r - 1] {
            return Ok(vec![y]);
        }
        let rest = x.slice_axis(-1, self.dims, x.shape()[r - 1])?;
        Ok(vec![Array::concatenate(&[y, rest], -1)?])
    }
}

/// The batch joins the batch axis of the operation.
pub(super) fn batched(op: &Op, inputs: &[Array], flags: &[bool], n: usize) -> Result<Vec<Array>> {
    let Op::Rope(rope) = op else { return Ok(Vec::new()) };
    if flags.get(2) == Some(&true) {
        return crate::transforms::batch_function(|x| rope.fallback(x), inputs, flags, n);
    }
    let x = if flags[0] {
        inputs[0].clone()
    } else {
        inputs[0].broadcast_to(&crate::transforms::prefixed(n, inputs[0].shape()))?
    };
    // One sequence [length, features] has no batch axis yet.
    let single = x.rank() == 3;
    let b = if single { 1 } else { x.shape()[1] };
    let mut dims: Vec<usize> = vec![n * b];
    dims.extend_from_slice(&x.shape()[if single { 1 } else { 2 }..]);
    let offset = match (flags[1], inputs[1].rank() - flags[1] as usize) {
        (false, 0) => inputs[1].clone(),
        (false, _) => inputs[1].broadcast_to(&[n, b])?.reshape(&[n * b])?,
        (true, 0) => inputs[1].reshape(&[n, 1])?.broadcast_to(&[n, b])?.reshape(&[n * b])?,
        (true, _) => inputs[1].reshape(&[n * b])?,
    };
    let mut all = vec![x.reshape(&dims)?, offset];
    all.extend(inputs.get(2).cloned());
    Ok(vec![Array::from_op(op.clone(), &all)?.reshape(x.shape())?])
}
