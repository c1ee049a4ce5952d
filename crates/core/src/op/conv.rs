//! Convolutions over channels-last arrays.
//!
//! One form holds them all: strided, dilated, grouped, transposed (a dilated input) and their derivatives.
//! The derivative with respect to the input is the convolution of the cotangent with the flipped weights,
//! whose input dilation is the stride; the one with respect to the weights is a convolution whose batch and
//! feature axes have changed places, whose dilation is the stride. Both may need uneven and negative padding,
//! which is why padding has a sign and two ends.

use super::{Meta, Metas, arity, one};
use crate::shape::Shape;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Convolution of `x[batch, spatial…, channels]` with `w[features, kernel…, channels / groups]` to
/// `[batch, out…, features]`, over one to three spatial axes:
///
/// `y[b, o…, f] = sum over kernel positions k…, channels c of the group of f:
/// z[b, o * stride + k * kernel_dilation…, c] * w[f, k…, c]`,
///
/// where `z` is `x` with `input_dilation - 1` zeros between neighbours and `padding` zeros at the ends (a
/// negative number cuts elements off), and `k` runs backwards through the weights when `flip` is set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Conv {
    /// Distance between neighbouring windows, for each spatial axis.
    pub stride: SmallVec<[usize; 3]>,
    /// Zeros before and after each spatial axis; negative ones cut.
    pub padding: SmallVec<[(i64, i64); 3]>,
    /// Distance between the elements that neighbouring weights meet.
    pub kernel_dilation: SmallVec<[usize; 3]>,
    /// Distance between neighbours of the input.
    pub input_dilation: SmallVec<[usize; 3]>,
    /// Parts that channels and features fall into; a feature sees the channels of its own part.
    pub groups: usize,
    /// Convolution in the mathematical sense rather than correlation.
    pub flip: bool,
}

/// Positions beyond this are refused, so that arithmetic on them cannot overflow.
const FAR: i128 = 1 << 60;

impl Conv {
    pub(super) fn name(&self) -> &'static str {
        "conv"
    }

    pub(super) fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        let [x, w] = arity("conv", inputs)?;
        if x.dtype != w.dtype || !x.dtype.is_inexact() {
            let msg = format!("takes floats of one type, got {} and {}", x.dtype, w.dtype);
            return Err(Error::dtype("conv", msg));
        }
        let axes = x.shape.rank().wrapping_sub(2);
        if !(1..=3).contains(&axes) || w.shape.rank() != x.shape.rank() {
            let msg = format!(
                "takes an input (batch, 1 to 3 spatial axes, channels) and weights of as many axes, got {} and {}",
                x.shape, w.shape
            );
            return Err(Error::shape("conv", msg));
        }
        let lengths =
            [self.stride.len(), self.padding.len(), self.kernel_dilation.len(), self.input_dilation.len()];
        if lengths.iter().any(|&l| l != axes) {
            let msg = format!("{axes} spatial axes, but parameters for {lengths:?}");
            return Err(Error::value("conv", msg));
        }
        let (channels, per_group, features) = (x.shape[axes + 1], w.shape[axes + 1], w.shape[0]);
        if self.groups == 0 {
            return Err(Error::value("conv", "0 groups; there must be at least one"));
        }
        if per_group.checked_mul(self.groups) != Some(channels) || !features.is_multiple_of(self.groups) {
            let msg = format!(
                "{} groups do not fit an input of shape {} and weights of shape {}",
                self.groups, x.shape, w.shape
            );
            return Err(Error::shape("conv", msg));
        }
        let mut shape = x.shape.with(axes + 1, features);
        for i in 0..axes {
            shape = shape.with(i + 1, self.out_size(i, x.shape[i + 1], w.shape[i + 1])?);
        }
        one(Shape::checked("conv", &shape)?, x.dtype)
    }

    /// Windows along spatial axis `i` of size `n`, for `k` weights.
    fn out_size(&self, i: usize, n: usize, k: usize) -> Result<usize> {
        let (stride, kd, id) = (self.stride[i], self.kernel_dilation[i], self.input_dilation[i]);
        let (before, after) = self.padding[i];
        for (what, v) in [("stride", stride), ("kernel dilation", kd), ("input dilation", id)] {
            if v == 0 {
                return Err(Error::value("conv", format!("{what} 0 along spatial axis {i}")));
            }
        }
        if k == 0 {
            return Err(Error::shape("conv", format!("no weights along spatial axis {i}")));
        }
        let spread = |n: usize, d: usize| if n == 0 { 0 } else { (n as i128 - 1) * d as i128 + 1 };
        let (window, inner) = (spread(k, kd), spread(n, id));
        let whole = inner + i128::from(before) + i128::from(after);
        let far = [window, inner, whole, i128::from(before), stride as i128, id as i128];
        if far.iter().any(|v| v.abs() > FAR) {
            let msg = format!(
                "spatial axis {i}: {n} elements with padding {before} and {after}, {k} weights, stride {stride}, \
                 dilations {kd} and {id} reach too far"
            );
            return Err(Error::value("conv", msg));
        }
        if whole < window {
            let msg = format!(
                "spatial axis {i}: {whole} elements after padding and dilation are fewer than the {window} that the \
                 weights span"
            );
            return Err(Error::shape("conv", msg));
        }
        Ok(((whole - window) / stride as i128) as usize + 1)
    }
}
