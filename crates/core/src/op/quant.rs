//! Packed weights: groups of small integers with a scale and a bias each.

use super::{Grad, Meta, Metas, Op, arity, one};
use crate::shape::Shape;
use crate::{Array, Dtype, Error, Result};
use smallvec::SmallVec;

/// Affine quantization: `w = scale * q + bias` with `q` of `bits` bits, one scale and bias for every
/// `group` neighbours along the last axis. The `q` are packed as a little-endian bit stream into `u32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Affine {
    /// Elements that share a scale.
    pub group: usize,
    /// Bits of an element: 2, 3, 4, 5, 6 or 8.
    pub bits: u8,
}

impl Affine {
    /// `u32` words that a row of `n` elements takes.
    pub fn words(self, n: usize) -> usize {
        (n * self.bits as usize).div_ceil(32)
    }

    fn check(self, op: &'static str, n: usize) -> Result<()> {
        if !matches!(self.bits, 2 | 3 | 4 | 5 | 6 | 8) {
            return Err(Error::value(op, format!("bits must be 2, 3, 4, 5, 6 or 8, got {}", self.bits)));
        }
        if self.group == 0 || !n.is_multiple_of(self.group) || !(n * self.bits as usize).is_multiple_of(32) {
            let msg = format!("a last axis of {n} is no multiple of group size {} or of a word", self.group);
            return Err(Error::shape(op, msg));
        }
        Ok(())
    }

    /// Checks packed weights, scales and biases against each other; gives the unpacked shape.
    fn check_packed(self, op: &'static str, w: &Meta, scales: &Meta, biases: &Meta) -> Result<Shape> {
        if w.dtype != Dtype::U32 {
            return Err(Error::bad_dtype(op, "weights packed in uint32", w.dtype));
        }
        if !scales.dtype.is_float() || scales.dtype == Dtype::F64 || biases.dtype != scales.dtype {
            let msg = format!(
                "scales are {} and biases {}, one of the small floats expected",
                scales.dtype, biases.dtype
            );
            return Err(Error::dtype(op, msg));
        }
        let Some((&groups, lead)) = scales.shape.split_last() else {
            return Err(Error::shape(op, "scales have no axis"));
        };
        let n = groups.saturating_mul(self.group);
        self.check(op, n)?;
        let fits = scales.shape == biases.shape
            && w.shape.rank() == scales.shape.rank()
            && w.shape[..w.shape.rank() - 1] == *lead
            && w.shape[w.shape.rank() - 1] == self.words(n);
        if !fits {
            let msg = format!(
                "weights {}, scales {} and biases {} do not fit for {} bits in groups of {}",
                w.shape, scales.shape, biases.shape, self.bits, self.group
            );
            return Err(Error::shape(op, msg));
        }
        Ok(w.shape.with(w.shape.rank() - 1, n))
    }
}

/// Packing, unpacking, and products with packed weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quant {
    /// Gives packed weights, scales and biases of a float array.
    Quantize(Affine),
    /// Arguments: packed weights, scales, biases. Gives floats.
    Dequantize {
        /// How they are packed.
        spec: Affine,
        /// Type of the result.
        dtype: Dtype,
    },
    /// Arguments: `x`, packed weights, scales, biases. `x @ w.T` when `transpose`, else `x @ w`, without
    /// unpacking the weights. The weights have two axes, or the leading axes of `x`.
    Matmul {
        /// How they are packed.
        spec: Affine,
        /// Whether the last axis of the weights is summed over.
        transpose: bool,
    },
}

impl Quant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Quant::Quantize(_) => "quantize",
            Quant::Dequantize { .. } => "dequantize",
            Quant::Matmul { .. } => "quantized_matmul",
        }
    }

    pub(super) fn infer(self, inputs: &[&Meta]) -> Result<Metas> {
        let name = self.name();
        match self {
            Quant::Quantize(spec) => {
                let [w] = arity(name, inputs)?;
                if !w.dtype.is_float() || w.dtype == Dtype::F64 {
                    return Err(Error::bad_dtype(name, "float16, bfloat16 or float32", w.dtype));
                }
                let rank = w.shape.rank();
                if rank == 0 {
                    return Err(Error::shape(name, "a scalar has no axis to group"));
                }
                let n = w.shape[rank - 1];
                spec.check(name, n)?;
                let groups = w.shape.with(rank - 1, n / spec.group);
                Ok(SmallVec::from_iter([
                    Meta::new(w.shape.with(rank - 1, spec.words(n)), Dtype::U32),
                    Meta::new(groups.clone(), w.dtype),
                    Meta::new(groups, w.dtype),
                ]))
            }
            Quant::Dequantize { spec, dtype } => {
                let [w, s, b] = arity(name, inputs)?;
                if !dtype.is_float() || dtype == Dtype::F64 {
                    return Err(Error::bad_dtype(name, "float16, bfloat16 or float32 as result", dtype));
                }
                one(spec.check_packed(name, w, s, b)?, dtype)
            }
            Quant::Matmul { spec, transpose } => {
                let [x, w, s, b] = arity(name, inputs)?;
                if !x.dtype.is_float() || x.dtype == Dtype::F64 {
                    return Err(Error::bad_dtype(name, "float16, bfloat16 or float32", x.dtype));
                }
                let full = spec.check_packed(name, w, s, b)?;
                let (r, f) = (x.shape.rank(), full.rank());
                let lead_fits = f == 2 || (f == r && full[..f - 2] == x.shape[..r - 2]);
                if r == 0 || f < 2 || !lead_fits {
                    return Err(Error::shape(name, format!("x {} and weights {full} do not fit", x.shape)));
                }
                let (inner, outer) =
                    if transpose { (full[f - 1], full[f - 2]) } else { (full[f - 2], full[f - 1]) };
                if x.shape[r - 1] != inner {
                    let msg = format!("last axis of x {} is not {inner}, as weights {full} need", x.shape);
                    return Err(Error::shape(name, msg));
                }
                one(x.shape.with(r - 1, outer), x.dtype)
            }
        }
    }

    pub(super) fn fallback(self, inputs: &[Array]) -> Option<Result<Vec<Array>>> {
        let Quant::Matmul { spec, transpose } = self else { return None };
        let [x, w, s, b] = inputs else { return None };
        let product = || {
            let w = Array::from_op(
                Op::Quant(Quant::Dequantize { spec, dtype: x.dtype() }),
                &[w.clone(), s.clone(), b.clone()],
            )?;
            let w = if transpose { w.swapaxes(-1, -2)? } else { w };
            Ok(vec![x.matmul(&w)?])
        };
        Some(product())
    }
}

impl Quant {
    pub(super) fn grad(self) -> Grad {
        match self {
            Quant::Quantize(_) => Grad::NonDiff,
            Quant::Dequantize { .. } => Grad::ViaFallback,
            Quant::Matmul { .. } => Grad::ViaFallback,
        }
    }
}

/// Weights in front as the operation wants them: without the batch axis, or with all leading axes of `x`.
pub(super) fn batched(op: &Op, inputs: &[Array], flags: &[bool], n: usize) -> Result<Vec<Array>> {
    let expand = |i: usize| -> Result<Array> {
        if flags[i] {
            return Ok(inputs[i].clone());
        }
        inputs[i].broadcast_to(&crate::transforms::prefixed(n, inputs[i].shape()))
    };
    if let Op::Quant(Quant::Matmul { .. }) = op
        && !flags[1..].contains(&true)
    {
        let mut all = inputs.to_vec();
        if inputs[1].rank() > 2 {
            all = (0..inputs.len()).map(expand).collect::<Result<_>>()?;
        }
        return Ok(Array::from_op_multi(op.clone(), &all)?.into_iter().collect());
    }
    let all = (0..inputs.len()).map(expand).collect::<Result<Vec<_>>>()?;
    Ok(Array::from_op_multi(op.clone(), &all)?.into_iter().collect())
}
