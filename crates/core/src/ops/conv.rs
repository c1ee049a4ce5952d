//! Convolutions.

use crate::op::{Conv, Op};
use crate::{Array, Error, Result};
use smallvec::SmallVec;

/// Parameters of [`Array::conv_general`]. An empty list stands for the neutral value along every spatial axis,
/// a list of one for the same value along all of them.
#[derive(Debug, Clone, Default)]
pub struct ConvParams {
    /// Distance between neighbouring windows; 1.
    pub stride: Vec<usize>,
    /// Zeros before and after; negative numbers cut elements off; 0.
    pub padding: Vec<(i64, i64)>,
    /// Distance between the elements that neighbouring weights meet; 1.
    pub kernel_dilation: Vec<usize>,
    /// Distance between neighbours of the input, zeros between them; 1.
    pub input_dilation: Vec<usize>,
    /// Parts that channels and features fall into. `None` for one.
    pub groups: Option<usize>,
    /// The weights run backwards: convolution in the mathematical sense.
    pub flip: bool,
}

/// Which part of a convolution of two lines [`convolve`] gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConvolveMode {
    /// Wherever they touch.
    #[default]
    Full,
    /// As long as the longer one, from the middle.
    Same,
    /// Where they overlap wholly.
    Valid,
}

/// One entry for each of `axes` spatial axes.
fn spread<T: Copy>(what: &str, given: &[T], neutral: T, axes: usize) -> Result<SmallVec<[T; 3]>>
where
    [T; 3]: smallvec::Array<Item = T>,
{
    match given {
        [] => Ok(SmallVec::from_elem(neutral, axes)),
        [v] => Ok(SmallVec::from_elem(*v, axes)),
        all if all.len() == axes => Ok(SmallVec::from_slice(all)),
        all => {
            let msg = format!("{} values of {what} for {axes} spatial axes", all.len());
            Err(Error::value("conv", msg))
        }
    }
}

/// Padding as the operation takes it.
fn signed(padding: &[usize]) -> Result<Vec<(i64, i64)>> {
    padding
        .iter()
        .map(|&p| match i64::try_from(p) {
            Ok(p) => Ok((p, p)),
            Err(_) => Err(Error::value("conv", format!("padding {p}"))),
        })
        .collect()
}

impl Array {
    /// Convolution of this `[batch, spatial…, channels]` with `weight[features, kernel…, channels / groups]`;
    /// see [`Conv`] for the formula. Types are promoted; integers are refused.
    ///
    /// # Errors
    /// `Value` for zero groups, strides or dilations; `Shape` where sizes do not fit, or the weights span more
    /// than the padded input; `Dtype` for integers.
    pub fn conv_general(&self, weight: &Array, params: &ConvParams) -> Result<Array> {
        let dtype = self.dtype().promote(weight.dtype());
        if !self.dtype().is_inexact() || !dtype.is_inexact() {
            return Err(Error::bad_dtype("conv", "floats", self.dtype()));
        }
        let axes = self.rank().saturating_sub(2);
        let op = Conv {
            stride: spread("stride", &params.stride, 1, axes)?,
            padding: spread("padding", &params.padding, (0, 0), axes)?,
            kernel_dilation: spread("kernel dilation", &params.kernel_dilation, 1, axes)?,
            input_dilation: spread("input dilation", &params.input_dilation, 1, axes)?,
            groups: params.groups.unwrap_or(1),
            flip: params.flip,
        };
        Array::from_op(Op::Conv(op), &[self.astype(dtype)?, weight.astype(dtype)?])
    }

    fn conv_over(
        &self,
        axes: usize,
        weight: &Array,
        stride: &[usize],
        padding: &[usize],
        dilation: &[usize],
        groups: usize,
    ) -> Result<Array> {
        self.check_spatial(axes)?;
        let params = ConvParams {
            stride: stride.to_vec(),
            padding: signed(padding)?,
            kernel_dilation: dilation.to_vec(),
            groups: Some(groups),
            ..ConvParams::default()
        };
        self.conv_general(weight, &params)
    }

    fn check_spatial(&self, axes: usize) -> Result<()> {
        if self.rank() == axes + 2 {
            return Ok(());
        }
        let msg = format!("takes (batch, {axes} spatial axes, channels), got shape {}", self.shape());
        Err(Error::shape("conv", msg))
    }

    /// [`Array::conv_general`] over one spatial axis: `[batch, length, channels]` with
    /// `[features, kernel, channels / groups]`.
    pub fn conv1d(
        &self,
        weight: &Array,
        stride: usize,
        padding: usize,
        dilation: usize,
        groups: usize,
    ) -> Result<Array> {
        self.conv_over(1, weight, &[stride], &[padding], &[dilation], groups)
    }

    /// [`Array::conv_general`] over two spatial axes.
    pub fn conv2d(
        &self,
        weight: &Array,
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        groups: usize,
    ) -> Result<Array> {
        self.conv_over(2, weight, &stride, &padding, &dilation, groups)
    }

    /// [`Array::conv_general`] over three spatial axes.
    pub fn conv3d(
        &self,
        weight: &Array,
        stride: [usize; 3],
        padding: [usize; 3],
        dilation: [usize; 3],
        groups: usize,
    ) -> Result<Array> {
        self.conv_over(3, weight, &stride, &padding, &dilation, groups)
    }

    /// The transposed convolution: what carries a cotangent of the convolution with these parameters back,
    /// here with `weight[features, kernel…, channels / groups]`. Along an axis the result has
    /// `(n - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1 + output_padding` elements.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parameters of the operation as MLX and PyTorch have them"
    )]
    fn conv_transpose(
        &self,
        axes: usize,
        weight: &Array,
        stride: &[usize],
        padding: &[usize],
        dilation: &[usize],
        output_padding: &[usize],
        groups: usize,
    ) -> Result<Array> {
        self.check_spatial(axes)?;
        if weight.rank() != self.rank() {
            let msg = format!("weights of shape {} for an input of shape {}", weight.shape(), self.shape());
            return Err(Error::shape("conv_transpose", msg));
        }
        let mut ends = Vec::with_capacity(axes);
        for i in 0..axes {
            let reach = (weight.shape()[i + 1] as i128 - 1) * dilation[i] as i128;
            let before = reach - padding[i] as i128;
            let ends_of = (i64::try_from(before), i64::try_from(before + output_padding[i] as i128));
            let (Ok(before), Ok(after)) = ends_of else {
                let msg = format!("padding {} and dilation {} reach too far", padding[i], dilation[i]);
                return Err(Error::value("conv_transpose", msg));
            };
            ends.push((before, after));
        }
        let params = ConvParams {
            padding: ends,
            kernel_dilation: dilation.to_vec(),
            input_dilation: stride.to_vec(),
            groups: Some(groups),
            flip: true,
            ..ConvParams::default()
        };
        self.conv_general(weight, &params)
    }

    /// Transposed convolution over one spatial axis: `[batch, length, channels]` with
    /// `[features, kernel, channels / groups]` to
    /// `(length - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1 + output_padding` elements.
    pub fn conv_transpose1d(
        &self,
        weight: &Array,
        stride: usize,
        padding: usize,
        dilation: usize,
        output_padding: usize,
        groups: usize,
    ) -> Result<Array> {
        self.conv_transpose(1, weight, &[stride], &[padding], &[dilation], &[output_padding], groups)
    }

    /// [`Array::conv_transpose1d`] over two spatial axes.
    pub fn conv_transpose2d(
        &self,
        weight: &Array,
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        output_padding: [usize; 2],
        groups: usize,
    ) -> Result<Array> {
        self.conv_transpose(2, weight, &stride, &padding, &dilation, &output_padding, groups)
    }

    /// [`Array::conv_transpose1d`] over three spatial axes.
    pub fn conv_transpose3d(
        &self,
        weight: &Array,
        stride: [usize; 3],
        padding: [usize; 3],
        dilation: [usize; 3],
        output_padding: [usize; 3],
        groups: usize,
    ) -> Result<Array> {
        self.conv_transpose(3, weight, &stride, &padding, &dilation, &output_padding, groups)
    }
}

/// Convolution of two lines, `y[i] = sum over j of a[j] v[i - j]`, as in NumPy. Integers become `float32`.
///
/// # Errors
/// `Shape` unless both have one axis and at least one element.
pub fn convolve(a: &Array, v: &Array, mode: ConvolveMode) -> Result<Array> {
    if a.rank() != 1 || v.rank() != 1 || a.size() == 0 || v.size() == 0 {
        let msg = format!("takes lines that are not empty, got shapes {} and {}", a.shape(), v.shape());
        return Err(Error::shape("convolve", msg));
    }
    let (a, v) = if a.size() < v.size() { (v, a) } else { (a, v) };
    let dtype = a.dtype().promote(v.dtype()).to_inexact();
    let (n, k) = (a.size(), v.size());
    let whole = (k - 1) as i64;
    let padding = match mode {
        ConvolveMode::Full => (whole, whole),
        // From the middle, the odd element off the end.
        ConvolveMode::Same => (whole - (whole / 2), whole / 2),
        ConvolveMode::Valid => (0, 0),
    };
    let params = ConvParams { padding: vec![padding], flip: true, ..ConvParams::default() };
    let (x, w) = (a.astype(dtype)?.reshape(&[1, n, 1])?, v.astype(dtype)?.reshape(&[1, k, 1])?);
    x.conv_general(&w, &params)?.flatten()
}
