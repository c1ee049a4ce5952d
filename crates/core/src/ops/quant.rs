//! Packed weights.

use crate::op::{Affine, Op, Quant};
use crate::{Array, Dtype, Error, Result};

impl Array {
    /// Packs floats: `bits`-wide integers in `u32` words, a scale and a bias for every `group` neighbours of
    /// the last axis. Gives (packed, scales, biases).
    pub fn quantize(&self, group: usize, bits: u8) -> Result<(Array, Array, Array)> {
        let op = Op::Quant(Quant::Quantize(Affine { group, bits }));
        let all = Array::from_op_multi(op, std::slice::from_ref(self))?.into_vec();
        let [w, s, b] = <[Array; 3]>::try_from(all)
            .map_err(|v| Error::value("quantize", format!("gives three arrays, not {}", v.len())))?;
        Ok((w, s, b))
    }

    /// Unpacks what [`Array::quantize`] packed, as `dtype`.
    pub fn dequantize(
        &self,
        scales: &Array,
        biases: &Array,
        group: usize,
        bits: u8,
        dtype: Dtype,
    ) -> Result<Array> {
        let op = Op::Quant(Quant::Dequantize { spec: Affine { group, bits }, dtype });
        Array::from_op(op, &[self.clone(), scales.clone(), biases.clone()])
    }

    /// `self @ w.T` (`transpose`) or `self @ w` for packed weights `w`, without unpacking them.
    pub fn quantized_matmul(
        &self,
        w: &Array,
        scales: &Array,
        biases: &Array,
        transpose: bool,
        group: usize,
        bits: u8,
    ) -> Result<Array> {
        let op = Op::Quant(Quant::Matmul { spec: Affine { group, bits }, transpose });
        Array::from_op(op, &[self.clone(), w.clone(), scales.clone(), biases.clone()])
    }
}
