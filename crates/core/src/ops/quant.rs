//! Packed weights.

use super::matmul::pairs;
use crate::op::{Affine, Op, Packing, Quant};
use crate::shape::Shape;
use crate::{Array, Dtype, Error, Result};

impl Array {
    /// Packs floats: `bits`-wide integers in `u32` words, a scale and a bias for every `group` neighbours of
    /// the last axis. Gives (packed, scales, biases).
    pub fn quantize(&self, group: usize, bits: u8) -> Result<(Array, Array, Array)> {
        let op = Op::Quant(Quant::Quantize(Affine { group, bits }.into()));
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
        let op = Op::Quant(Quant::Dequantize { packing: Affine { group, bits }.into(), dtype });
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
        let op = Op::Quant(Quant::Matmul { packing: Affine { group, bits }.into(), transpose });
        Array::from_op(op, &[self.clone(), w.clone(), scales.clone(), biases.clone()])
    }

    /// Nearest E4M3 float, as its 8 bits in `u8`: ties to even, magnitudes above 448 become 448, NaN stays NaN.
    /// `f64` is rounded to `f32` first.
    pub fn to_fp8(&self) -> Result<Array> {
        if !self.dtype().is_float() {
            return Err(Error::bad_dtype("to_fp8", "real floats", self.dtype()));
        }
        let x = self.astype(Dtype::F32)?;
        let word = |v: u32| Array::from_scalar(v);
        // One look at the bits, so that all the rest is one pass.
        let all = x.view_as(Dtype::U32)?;
        let magnitude = all.bitwise_and(&word(0x7fff_ffff))?;
        let bits = magnitude.minimum(&word(448f32.to_bits()))?;
        // Rounded in place: the exponent's bias is larger by 120, which is 960 units of the code.
        let odd = bits.right_shift(&word(20))?.bitwise_and(&word(1))?;
        let normal = bits.add(&word(0x7_ffff))?.add(&odd)?.right_shift(&word(20))?.subtract(&word(960))?;
        // Below 2^-6: steps of 2^-9.
        let steps = x.abs()?.minimum(&Array::from_scalar(2f32.powi(-6)))?.scale(512.0)?.round()?;
        let small = bits.less(&word(2f32.powi(-6).to_bits()))?;
        let code = Array::select(&small, &steps.astype(Dtype::U32)?, &normal)?;
        let nan = magnitude.greater(&word(f32::INFINITY.to_bits()))?;
        let code = Array::select(&nan, &word(0x7f), &code)?;
        let sign = all.right_shift(&word(24))?.bitwise_and(&word(0x80))?;
        code.bitwise_or(&sign)?.astype(Dtype::U8)
    }

    /// The values of E4M3 floats whose bits these are, in `u8`.
    pub fn from_fp8(&self, dtype: Dtype) -> Result<Array> {
        if self.dtype() != Dtype::U8 || !dtype.is_float() {
            let msg = format!("takes uint8 to a real float, got {} to {dtype}", self.dtype());
            return Err(Error::dtype("from_fp8", msg));
        }
        let word = |v: u32| Array::from_scalar(v);
        let bits = self.astype(Dtype::U32)?;
        let magnitude = bits.bitwise_and(&word(0x7f))?;
        // As the top of a float the exponent is too small by 120.
        let v = magnitude.left_shift(&word(20))?.view_as(Dtype::F32)?.scale(2f64.powi(120))?;
        let v = Array::select(&magnitude.equal(&word(0x7f))?, &Array::from_scalar(f32::NAN), &v)?;
        Array::select(&bits.less(&word(0x80))?, &v, &v.negative()?)?.astype(dtype)
    }

    /// Packs floats along the last axis; see [`Packing`]. `global`, for [`Packing::Nvfp4`] only, is one `f32`, the
    /// largest magnitude of the whole array, to which the scales are relative; without it they stand alone.
    ///
    /// # Errors
    /// `Shape` when the last axis is no multiple of the group; `Dtype` for other types than `f16`, `bf16`, `f32`.
    pub fn pack(&self, packing: Packing, global: Option<&Array>) -> Result<PackedArray> {
        let mut inputs = vec![self.clone()];
        if let Some(g) = global {
            inputs.push(global_scale("quantize", packing, g)?);
        }
        let mut parts = Array::from_op_multi(Op::Quant(Quant::Quantize(packing)), &inputs)?.into_iter();
        let mut part = || parts.next().ok_or_else(|| Error::value("quantize", "a part is missing"));
        let (words, scales) = (part()?, part()?);
        let biases = if packing.has_biases() { Some(part()?) } else { None };
        Ok(PackedArray { words, scales, biases, packing })
    }

    /// `quantize(self) @ quantize(w).T`, where `self` is packed and unpacked for its rounding only. The `global`
    /// scales are those of [`Array::pack`], for `self` and for `w`.
    pub fn qqmm(&self, w: &PackedArray, global: Option<&Array>, global_w: Option<&Array>) -> Result<Array> {
        let x = self.rounded_to(w.packing, global)?;
        let y = w.matmul(&x, true)?;
        finish(y, w.packing, global_w)?.astype(self.dtype())
    }

    /// [`Array::qqmm`] of chosen matrices; see [`PackedArray::gather_matmul`].
    pub fn gather_qqmm(
        &self,
        w: &PackedArray,
        lhs: Option<&Array>,
        rhs: Option<&Array>,
        global: Option<&Array>,
        global_w: Option<&Array>,
    ) -> Result<Array> {
        let x = self.rounded_to(w.packing, global)?;
        let y = w.gather_matmul(&x, lhs, rhs, true)?;
        finish(y, w.packing, global_w)?.astype(self.dtype())
    }

    /// The values, in `f32`, that packing leaves.
    fn rounded_to(&self, packing: Packing, global: Option<&Array>) -> Result<Array> {
        if packing.has_biases() {
            return Err(Error::value("qqmm", "the mode is mxfp4, mxfp8 or nvfp4, not affine"));
        }
        self.pack(packing, global)?.unpack(Some(Dtype::F32), global)
    }
}

/// Checks that a scale for the whole array has a meaning.
fn global_scale(op: &'static str, packing: Packing, g: &Array) -> Result<Array> {
    if packing != Packing::Nvfp4 || g.size() != 1 {
        let msg = format!(
            "a global scale is one number, for nvfp4; got shape {} for {}",
            g.shape(),
            packing.mode()
        );
        return Err(Error::value(op, msg));
    }
    g.astype(Dtype::F32)?.reshape::<usize>(&[])
}

/// What scales that are relative to a global one are multiplied by: it over the largest number of the format.
fn unit(global: &Array) -> Result<Array> {
    global.divide(&global.scalar_like(6.0 * 448.0))
}

/// A product with weights whose scales are relative to `global`.
fn finish(y: Array, packing: Packing, global: Option<&Array>) -> Result<Array> {
    let Some(g) = global else { return Ok(y) };
    let factor = unit(&global_scale("qqmm", packing, g)?)?;
    let d = y.dtype();
    y.astype(Dtype::F32)?.multiply(&factor)?.astype(d)
}

/// A matrix, or several, whose rows are packed.
#[derive(Debug, Clone)]
pub struct PackedArray {
    /// The elements as a bit stream, `u32[.., words]`.
    pub words: Array,
    /// One for each group, `[.., groups]`: floats, or small floats in `u8`.
    pub scales: Array,
    /// As many, for [`Packing::Affine`].
    pub biases: Option<Array>,
    /// What they mean.
    pub packing: Packing,
}

impl PackedArray {
    /// From its parts.
    ///
    /// # Errors
    /// `Value`, `Dtype` or `Shape` when these are not parts of such a matrix.
    pub fn new(
        words: &Array,
        scales: &Array,
        biases: Option<&Array>,
        packing: Packing,
    ) -> Result<PackedArray> {
        let p =
            PackedArray { words: words.clone(), scales: scales.clone(), biases: biases.cloned(), packing };
        // Its rule checks the parts.
        p.unpack(None, None)?;
        Ok(p)
    }

    fn parts(&self) -> Vec<Array> {
        let mut parts = vec![self.words.clone(), self.scales.clone()];
        parts.extend(self.biases.clone());
        parts
    }

    /// Shape of the matrix, unpacked.
    pub fn shape(&self) -> Shape {
        let s = self.scales.shape();
        match s.split_last() {
            Some((&groups, _)) => s.with(s.rank() - 1, groups.saturating_mul(self.packing.group())),
            None => s.clone(),
        }
    }

    /// The floats again, as `dtype`: by default that of affine scales, else `bf16`, or `f32` with a `global` scale,
    /// which is that of [`Array::pack`].
    pub fn unpack(&self, dtype: Option<Dtype>, global: Option<&Array>) -> Result<Array> {
        let usual = match (self.packing, global) {
            (Packing::Affine(_), _) => self.scales.dtype(),
            (_, Some(_)) => Dtype::F32,
            (_, None) => Dtype::BF16,
        };
        let dtype = dtype.unwrap_or(usual);
        let unpack = |dtype| {
            let op = Op::Quant(Quant::Dequantize { packing: self.packing, dtype });
            Array::from_op(op, &self.parts())
        };
        let Some(g) = global else { return unpack(dtype) };
        let g = global_scale("dequantize", self.packing, g)?;
        // Scales are widened and multiplied first, so that each element is rounded once more only.
        let values = PackedArray { scales: self.scales.full_like(56.0)?, ..self.clone() };
        let op = Op::Quant(Quant::Dequantize { packing: self.packing, dtype: Dtype::F32 });
        let values = Array::from_op(op, &values.parts())?;
        let scales = self.scales.from_fp8(Dtype::F32)?.multiply(&unit(&g)?)?.expand_dims(&[-1])?;
        let shape = values.shape().clone();
        let mut grouped: Vec<usize> = self.scales.shape().to_vec();
        grouped.push(self.packing.group());
        values.reshape(&grouped)?.multiply(&scales)?.reshape(&shape)?.astype(dtype)
    }

    /// `x @ w.T` (`transpose`) or `x @ w` without unpacking the weights, in the type of `x`, or for affine ones what
    /// it and the scales promote to. Leading axes broadcast; an `x` of one axis is a row.
    pub fn matmul(&self, x: &Array, transpose: bool) -> Result<Array> {
        const OP: &str = "quantized_matmul";
        let x = self.activations(OP, x)?;
        if self.words.rank() == 2 {
            return self.product(&x, transpose);
        }
        if x.rank() == 1 {
            return self.matmul(&x.expand_dims(&[0])?, transpose)?.squeeze(&[-2]);
        }
        let w = self.shape();
        if w.rank() < 2 || x.rank() < 2 {
            return Err(Error::shape(OP, format!("x {} or weights {w} are no matrices", x.shape())));
        }
        if w.rank() == x.rank() && w[..w.rank() - 2] == x.shape()[..x.rank() - 2] {
            return self.product(&x, transpose);
        }
        // Broadcast weights are not copied.
        let (lhs, rhs) = pairs(OP, (&x, None), (&self.words, None))?;
        self.gathered(&x, lhs, rhs, transpose)
    }

    /// Products of chosen matrices: `x[lhs] @ w[rhs].T`, or `x[lhs] @ w[rhs]`, where the indices count all leading
    /// axes of `x` and of the weights together, broadcast against each other, and stand for all matrices in order
    /// where they are not given. Equal indices of weights need not be neighbours to be unpacked once.
    ///
    /// # Errors
    /// `Index` at evaluation when an index is out of range; negative ones count from the end.
    pub fn gather_matmul(
        &self,
        x: &Array,
        lhs: Option<&Array>,
        rhs: Option<&Array>,
        transpose: bool,
    ) -> Result<Array> {
        const OP: &str = "gather_qmm";
        let x = self.activations(OP, x)?;
        if lhs.is_none() && rhs.is_none() {
            return self.matmul(&x, transpose);
        }
        if x.rank() < 2 || self.words.rank() < 2 {
            let msg = format!("x {} or weights {} are no matrices", x.shape(), self.shape());
            return Err(Error::shape(OP, msg));
        }
        let (lhs, rhs) = pairs(OP, (&x, lhs), (&self.words, rhs))?;
        self.gathered(&x, lhs, rhs, transpose)
    }

    fn activations(&self, op: &'static str, x: &Array) -> Result<Array> {
        let dtype = match self.packing {
            Packing::Affine(_) => x.dtype().promote(self.scales.dtype()),
            Packing::Mxfp4 | Packing::Mxfp8 | Packing::Nvfp4 => x.dtype(),
        };
        if !dtype.is_float() {
            return Err(Error::bad_dtype(op, "real floats", dtype));
        }
        x.astype(dtype)
    }

    fn product(&self, x: &Array, transpose: bool) -> Result<Array> {
        let inputs: Vec<Array> = std::iter::once(x.clone()).chain(self.parts()).collect();
        Array::from_op(Op::Quant(Quant::Matmul { packing: self.packing, transpose }), &inputs)
    }

    fn gathered(&self, x: &Array, lhs: Array, rhs: Array, transpose: bool) -> Result<Array> {
        let inputs: Vec<Array> = std::iter::once(x.clone()).chain(self.parts()).chain([lhs, rhs]).collect();
        Array::from_op(Op::Quant(Quant::GatherMatmul { packing: self.packing, transpose }), &inputs)
    }
}
