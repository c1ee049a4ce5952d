//! Packed weights: groups of small integers with a scale and a bias each, or of small floats with a scale.

use super::{Meta, Metas, Op, one};
use crate::shape::Shape;
use crate::{Array, Dtype, Error, Result};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Affine quantization: `w = scale * q + bias` with `q` of `bits` bits, one scale and bias for every
/// `group` neighbours along the last axis. The `q` are packed as a little-endian bit stream into `u32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Affine {
    /// Elements that share a scale.
    pub group: usize,
    /// Bits of an element: 1, 2, 3, 4, 5, 6 or 8.
    pub bits: u8,
}

impl Affine {
    /// `u32` words that a row of `n` elements takes.
    pub fn words(self, n: usize) -> usize {
        n.saturating_mul(self.bits as usize).div_ceil(32)
    }

    fn check(self, op: &'static str, n: usize) -> Result<()> {
        if !matches!(self.bits, 1..=6 | 8) {
            return Err(Error::value(op, format!("bits must be 1, 2, 3, 4, 5, 6 or 8, got {}", self.bits)));
        }
        let whole = |bits: usize| bits.is_multiple_of(32);
        if self.group == 0
            || !n.is_multiple_of(self.group)
            || !n.checked_mul(self.bits as usize).is_some_and(whole)
        {
            let msg = format!("a last axis of {n} is no multiple of group size {} or of a word", self.group);
            return Err(Error::shape(op, msg));
        }
        Ok(())
    }
}

/// How a matrix is packed. Elements lie along the last axis, as a little-endian bit stream in `u32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Packing {
    /// Integers with a scale and a bias for each group.
    Affine(Affine),
    /// E2M1 floats of 4 bits; groups of 32 share a power of two, E8M0 (OCP Microscaling 1.0).
    Mxfp4,
    /// E4M3 floats of 8 bits; groups of 32 share a power of two, E8M0 (OCP Microscaling 1.0).
    Mxfp8,
    /// E2M1 floats of 4 bits; groups of 16 share an E4M3 scale.
    Nvfp4,
}

impl From<Affine> for Packing {
    fn from(a: Affine) -> Packing {
        Packing::Affine(a)
    }
}

impl Packing {
    /// From the name of a mode (`affine`, `mxfp4`, `mxfp8`, `nvfp4`), with its usual group size and bits where
    /// none are given.
    ///
    /// # Errors
    /// `Value` for another name, or a group size or bits that the mode does not have.
    pub fn named(op: &'static str, mode: &str, group: Option<usize>, bits: Option<u8>) -> Result<Packing> {
        let packing = match mode {
            "affine" => Packing::Affine(Affine { group: group.unwrap_or(64), bits: bits.unwrap_or(4) }),
            "mxfp4" => Packing::Mxfp4,
            "mxfp8" => Packing::Mxfp8,
            "nvfp4" => Packing::Nvfp4,
            _ => {
                let msg = format!("the mode is affine, mxfp4, mxfp8 or nvfp4, not {mode:?}");
                return Err(Error::value(op, msg));
            }
        };
        let given = (group.unwrap_or(packing.group()), bits.unwrap_or(packing.bits()));
        if given != (packing.group(), packing.bits()) {
            let msg = format!(
                "{mode} has {} bits in groups of {}, not {} in groups of {}",
                packing.bits(),
                packing.group(),
                given.1,
                given.0
            );
            return Err(Error::value(op, msg));
        }
        Ok(packing)
    }

    /// Name of the mode.
    pub fn mode(self) -> &'static str {
        match self {
            Packing::Affine(_) => "affine",
            Packing::Mxfp4 => "mxfp4",
            Packing::Mxfp8 => "mxfp8",
            Packing::Nvfp4 => "nvfp4",
        }
    }

    /// Elements that share a scale.
    pub fn group(self) -> usize {
        match self {
            Packing::Affine(a) => a.group,
            Packing::Mxfp4 | Packing::Mxfp8 => 32,
            Packing::Nvfp4 => 16,
        }
    }

    /// Bits of an element.
    pub fn bits(self) -> u8 {
        match self {
            Packing::Affine(a) => a.bits,
            Packing::Mxfp4 | Packing::Nvfp4 => 4,
            Packing::Mxfp8 => 8,
        }
    }

    /// Whether groups have a bias.
    pub fn has_biases(self) -> bool {
        matches!(self, Packing::Affine(_))
    }

    /// Arrays that a packed matrix consists of: words, scales, and biases.
    pub fn parts(self) -> usize {
        if self.has_biases() { 3 } else { 2 }
    }

    /// The same numbers as parameters of a bit stream.
    fn stream(self) -> Affine {
        Affine { group: self.group(), bits: self.bits() }
    }

    /// Checks the parts of a packed matrix against each other; gives the unpacked shape.
    fn check_packed(self, op: &'static str, parts: &[&Meta]) -> Result<Shape> {
        let (&[w, scales], biases) =
            parts.split_first_chunk::<2>().filter(|_| parts.len() == self.parts()).ok_or_else(|| {
                let msg = format!("{} takes {} arrays, got {}", self.mode(), self.parts(), parts.len());
                Error::value(op, msg)
            })?;
        if w.dtype != Dtype::U32 {
            return Err(Error::bad_dtype(op, "weights packed in uint32", w.dtype));
        }
        if let [biases] = biases {
            if !scales.dtype.is_float() || scales.dtype == Dtype::F64 || biases.dtype != scales.dtype {
                let msg = format!(
                    "scales are {} and biases {}, one of the small floats expected",
                    scales.dtype, biases.dtype
                );
                return Err(Error::dtype(op, msg));
            }
        } else if scales.dtype != Dtype::U8 {
            return Err(Error::bad_dtype(op, "scales in uint8", scales.dtype));
        }
        let Some((&groups, lead)) = scales.shape.split_last() else {
            return Err(Error::shape(op, "scales have no axis"));
        };
        let (spec, n) = (self.stream(), groups.saturating_mul(self.group()));
        spec.check(op, n)?;
        let fits = biases.iter().all(|b| b.shape == scales.shape)
            && w.shape.rank() == scales.shape.rank()
            && w.shape[..w.shape.rank() - 1] == *lead
            && w.shape[w.shape.rank() - 1] == spec.words(n);
        if !fits {
            let biases: String = biases.iter().map(|b| format!(", biases {}", b.shape)).collect();
            let msg = format!(
                "weights {}, scales {}{biases} do not fit for {} bits in groups of {}",
                w.shape, scales.shape, spec.bits, spec.group
            );
            return Err(Error::shape(op, msg));
        }
        Ok(w.shape.with(w.shape.rank() - 1, n))
    }
}

/// Packing, unpacking, and products with packed weights. A packed matrix is given as its parts: words,
/// scales, and biases for [`Packing::Affine`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Quant {
    /// Gives the parts of a packed float array. For [`Packing::Nvfp4`] a second argument, one `f32`, may be the
    /// largest magnitude of the whole array: scales are then stored relative to it over 2688, the largest number
    /// of the format.
    Quantize(Packing),
    /// Arguments: the parts. Gives floats.
    Dequantize {
        /// How they are packed.
        packing: Packing,
        /// Type of the result.
        dtype: Dtype,
    },
    /// Arguments: `x` and the parts. `x @ w.T` when `transpose`, else `x @ w`, without unpacking the weights.
    /// The weights have two axes, or the leading axes of `x`.
    Matmul {
        /// How they are packed.
        packing: Packing,
        /// Whether the last axis of the weights is summed over.
        transpose: bool,
    },
    /// Arguments: `x`, the parts, and two `u32` arrays of one shape, which count the matrices of `x` and of the
    /// weights over all leading axes. The product, as above, of each pair.
    GatherMatmul {
        /// How they are packed.
        packing: Packing,
        /// Whether the last axis of the weights is summed over.
        transpose: bool,
    },
}

fn small_float(op: &'static str, d: Dtype) -> Result<()> {
    if !d.is_float() || d == Dtype::F64 {
        return Err(Error::bad_dtype(op, "float16, bfloat16 or float32", d));
    }
    Ok(())
}

/// Inner and outer size of a product with a matrix of shape `full`.
fn inner_outer(full: &Shape, transpose: bool) -> (usize, usize) {
    let f = full.rank();
    if transpose { (full[f - 1], full[f - 2]) } else { (full[f - 2], full[f - 1]) }
}

impl Quant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Quant::Quantize(_) => "quantize",
            Quant::Dequantize { .. } => "dequantize",
            Quant::Matmul { .. } => "quantized_matmul",
            Quant::GatherMatmul { .. } => "gather_qmm",
        }
    }

    pub(super) fn infer(self, inputs: &[&Meta]) -> Result<Metas> {
        let name = self.name();
        match self {
            Quant::Quantize(packing) => {
                let w = match inputs {
                    [w] => w,
                    [w, g] if packing == Packing::Nvfp4 && g.dtype == Dtype::F32 && g.elements() == 1 => w,
                    _ => {
                        let msg = "takes one array, and for nvfp4 a scale of one float32";
                        return Err(Error::value(name, format!("{msg}; got {} arrays", inputs.len())));
                    }
                };
                small_float(name, w.dtype)?;
                let rank = w.shape.rank();
                if rank == 0 {
                    return Err(Error::shape(name, "a scalar has no axis to group"));
                }
                let (spec, n) = (packing.stream(), w.shape[rank - 1]);
                spec.check(name, n)?;
                let groups = w.shape.with(rank - 1, n / spec.group);
                let words = Meta::new(w.shape.with(rank - 1, spec.words(n)), Dtype::U32);
                Ok(if packing.has_biases() {
                    let scales = Meta::new(groups, w.dtype);
                    SmallVec::from_iter([words, scales.clone(), scales])
                } else {
                    SmallVec::from_iter([words, Meta::new(groups, Dtype::U8)])
                })
            }
            Quant::Dequantize { packing, dtype } => {
                small_float(name, dtype)?;
                one(packing.check_packed(name, inputs)?, dtype)
            }
            Quant::Matmul { packing, transpose } => {
                let [x, parts @ ..] = inputs else { return Err(Error::value(name, "takes x and weights")) };
                small_float(name, x.dtype)?;
                let full = packing.check_packed(name, parts)?;
                let (r, f) = (x.shape.rank(), full.rank());
                let lead_fits = f == 2 || (f == r && full[..f - 2] == x.shape[..r - 2]);
                if r == 0 || f < 2 || !lead_fits {
                    return Err(Error::shape(name, format!("x {} and weights {full} do not fit", x.shape)));
                }
                let (inner, outer) = inner_outer(&full, transpose);
                if x.shape[r - 1] != inner {
                    let msg = format!("last axis of x {} is not {inner}, as weights {full} need", x.shape);
                    return Err(Error::shape(name, msg));
                }
                one(Shape::checked(name, &x.shape.with(r - 1, outer))?, x.dtype)
            }
            Quant::GatherMatmul { packing, transpose } => {
                let [x, rest @ ..] = inputs else { return Err(Error::value(name, "takes x and weights")) };
                let Some((parts, [lhs, rhs])) = rest.split_last_chunk::<2>() else {
                    return Err(Error::value(name, "takes x, weights and two arrays of indices"));
                };
                small_float(name, x.dtype)?;
                let full = packing.check_packed(name, parts)?;
                if lhs.dtype != Dtype::U32 || rhs.dtype != Dtype::U32 || lhs.shape != rhs.shape {
                    let msg = format!(
                        "indices are uint32 of one shape, got {} {} and {} {}",
                        lhs.dtype, lhs.shape, rhs.dtype, rhs.shape
                    );
                    return Err(Error::shape(name, msg));
                }
                let r = x.shape.rank();
                if r < 2 || full.rank() < 2 {
                    return Err(Error::shape(
                        name,
                        format!("x {} or weights {full} are no matrices", x.shape),
                    ));
                }
                let (inner, outer) = inner_outer(&full, transpose);
                if x.shape[r - 1] != inner {
                    let msg = format!("last axis of x {} is not {inner}, as weights {full} need", x.shape);
                    return Err(Error::shape(name, msg));
                }
                let shape: Vec<usize> = lhs.shape.iter().copied().chain([x.shape[r - 2], outer]).collect();
                one(Shape::checked(name, &shape)?, x.dtype)
            }
        }
    }

    pub(super) fn fallback(self, inputs: &[Array]) -> Option<Result<Vec<Array>>> {
        let unpack = |packing: Packing, parts: &[Array], transpose: bool, dtype| {
            let w = Array::from_op(Op::Quant(Quant::Dequantize { packing, dtype }), parts)?;
            if transpose { w.swapaxes(-1, -2) } else { Ok(w) }
        };
        match self {
            Quant::Quantize(_) | Quant::Dequantize { .. } => None,
            Quant::Matmul { packing, transpose } => {
                let (x, parts) = inputs.split_first()?;
                Some(unpack(packing, parts, transpose, x.dtype()).and_then(|w| x.matmul(&w)).map(|y| vec![y]))
            }
            Quant::GatherMatmul { packing, transpose } => {
                let (x, rest) = inputs.split_first()?;
                let (parts, [lhs, rhs]) = rest.split_last_chunk::<2>()?;
                Some(
                    unpack(packing, parts, transpose, x.dtype())
                        .and_then(|w| x.gather_mm(&w, Some(lhs), Some(rhs), false))
                        .map(|y| vec![y]),
                )
            }
        }
    }
}
