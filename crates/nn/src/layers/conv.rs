//! Convolutions over one, two and three axes of positions. Channels are the last axis.

use crate::init::uniform_fan;
use crate::{Module, Param};
use olivine_core::ops::ConvParams;
use olivine_core::{Array, Dtype, Error, Result};

/// Weight `[out, kernel…, in]`, drawn uniformly within the root of its fan, and a bias of zeros.
fn first_values(input: usize, output: usize, kernel: &[usize]) -> Result<(Param, Option<Param>)> {
    let window: usize = kernel.iter().product();
    let shape = [&[output], kernel, &[input]].concat();
    let weight = uniform_fan(input * window).draw(&shape)?.into();
    Ok((weight, Some(Array::zeros(&[output], Dtype::F32)?.into())))
}

fn biased(y: Array, bias: Option<&Param>) -> Result<Array> {
    match bias {
        Some(b) => y.add(b),
        None => Ok(y),
    }
}

/// A convolution over `N` axes of positions, with a bias that is learnt.
///
/// ```
/// # use olivine_nn::{Conv2d, Result};
/// # fn layer() -> Result<Conv2d> {
/// Ok(Conv2d { padding: [1, 1], ..Conv2d::new(3, 8, [3, 3])? })
/// # }
/// ```
#[derive(Debug, Clone, Module)]
pub struct Conv<const N: usize> {
    /// `[out, kernel…, in / groups]`.
    pub weight: Param,
    /// `[out]`.
    pub bias: Option<Param>,
    /// Distance of the windows of neighbouring outputs.
    pub stride: [usize; N],
    /// Zeros on each side of the input.
    pub padding: [usize; N],
    /// Distance of the positions within a window.
    pub dilation: [usize; N],
    /// Independent parts that the channels fall into; the shape of the weight follows from it.
    pub groups: usize,
}

/// A convolution over sequences.
pub type Conv1d = Conv<1>;
/// A convolution over images.
pub type Conv2d = Conv<2>;
/// A convolution over volumes.
pub type Conv3d = Conv<3>;

impl<const N: usize> Conv<N> {
    /// Strides and dilations of one, no padding.
    pub fn new(input: usize, output: usize, kernel: [usize; N]) -> Result<Conv<N>> {
        Conv::grouped(input, output, kernel, 1)
    }

    /// The channels fall into independent parts.
    ///
    /// # Errors
    /// `Value` when the groups do not divide the channels.
    pub fn grouped(input: usize, output: usize, kernel: [usize; N], groups: usize) -> Result<Conv<N>> {
        if groups == 0 || !input.is_multiple_of(groups) {
            return Err(Error::value("conv", format!("{groups} groups do not divide {input} channels")));
        }
        let (weight, bias) = first_values(input / groups, output, &kernel)?;
        Ok(Conv { weight, bias, stride: [1; N], padding: [0; N], dilation: [1; N], groups })
    }

    /// `[batch, positions…, in]` to `[batch, positions…, out]`.
    ///
    /// # Errors
    /// As [`Array::conv_general`].
    pub fn forward(&self, x: &Array) -> Result<Array> {
        if x.rank() != N + 2 {
            return Err(Error::shape("conv", format!("takes {} axes, got {}", N + 2, x.shape())));
        }
        let mut padding = Vec::with_capacity(N);
        for p in self.padding {
            let p = i64::try_from(p).map_err(|_| Error::value("conv", format!("padding {p}")))?;
            padding.push((p, p));
        }
        let params = ConvParams {
            stride: self.stride.to_vec(),
            padding,
            kernel_dilation: self.dilation.to_vec(),
            groups: Some(self.groups),
            ..ConvParams::default()
        };
        biased(x.conv_general(&self.weight, &params)?, self.bias.as_ref())
    }
}

/// A transposed convolution over `N` axes of positions: the shapes of a convolution the other way round.
#[derive(Debug, Clone, Module)]
pub struct ConvTranspose<const N: usize> {
    /// `[out, kernel…, in]`.
    pub weight: Param,
    /// `[out]`.
    pub bias: Option<Param>,
    /// Distance of the windows of neighbouring inputs.
    pub stride: [usize; N],
    /// Positions cut off on each side of the output.
    pub padding: [usize; N],
    /// Distance of the positions within a window.
    pub dilation: [usize; N],
    /// Further positions at the end of each axis of the output.
    pub output_padding: [usize; N],
}

/// A transposed convolution over sequences.
pub type ConvTranspose1d = ConvTranspose<1>;
/// A transposed convolution over images.
pub type ConvTranspose2d = ConvTranspose<2>;
/// A transposed convolution over volumes.
pub type ConvTranspose3d = ConvTranspose<3>;

impl<const N: usize> ConvTranspose<N> {
    /// Strides and dilations of one, no padding.
    pub fn new(input: usize, output: usize, kernel: [usize; N]) -> Result<ConvTranspose<N>> {
        let (weight, bias) = first_values(input, output, &kernel)?;
        let (stride, padding) = ([1; N], [0; N]);
        Ok(ConvTranspose { weight, bias, stride, padding, dilation: [1; N], output_padding: [0; N] })
    }

    /// `[batch, positions…, in]` to `[batch, positions…, out]`.
    ///
    /// # Errors
    /// As [`Array::conv_general`].
    pub fn forward(&self, x: &Array) -> Result<Array> {
        let w = &self.weight;
        let (s, p, d, o) =
            (&self.stride[..], &self.padding[..], &self.dilation[..], &self.output_padding[..]);
        let y = match (s, p, d, o) {
            (&[s], &[p], &[d], &[o]) => x.conv_transpose1d(w, s, p, d, o, 1)?,
            (&[s, t], &[p, q], &[d, e], &[o, u]) => {
                x.conv_transpose2d(w, [s, t], [p, q], [d, e], [o, u], 1)?
            }
            (&[s, t, r], &[p, q, a], &[d, e, f], &[o, u, v]) => {
                x.conv_transpose3d(w, [s, t, r], [p, q, a], [d, e, f], [o, u, v], 1)?
            }
            _ => {
                return Err(Error::value(
                    "conv_transpose",
                    format!("{N} axes of positions; 1 to 3 are known"),
                ));
            }
        };
        biased(y, self.bias.as_ref())
    }
}
