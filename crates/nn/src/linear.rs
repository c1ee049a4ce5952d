//! Linear layers.

use crate::init::uniform_fan;
use crate::{Module, Param, Visitor, Weight};
use olivine_core::{Array, Dtype, Error, Result};

/// `x @ weight.T + bias`.
#[derive(Debug, Clone)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Weight,
    /// `[out]`.
    pub bias: Option<Param>,
}

impl Linear {
    /// A layer to be trained: weight and then bias are drawn uniformly within `1 / sqrt(input)`, from the default
    /// random key.
    pub fn new(input: usize, output: usize, bias: bool) -> Result<Linear> {
        let draw = uniform_fan(input);
        let weight = Weight::from(draw.draw(&[output, input])?);
        let bias = if bias { Some(draw.draw(&[output])?.into()) } else { None };
        Ok(Linear { weight, bias })
    }

    /// A layer of zeros, to be loaded.
    pub fn zeros(input: usize, output: usize, bias: bool) -> Result<Linear> {
        let bias = if bias { Some(Array::zeros(&[output], Dtype::F32)?.into()) } else { None };
        Ok(Linear { weight: Weight::zeros(&[output, input])?, bias })
    }

    /// Features that go in and come out.
    pub fn dims(&self) -> (usize, usize) {
        match self.weight.shape()[..] {
            [output, input] => (input, output),
            _ => (0, 0),
        }
    }

    /// `[..., in]` to `[..., out]`, in the type of `x`.
    ///
    /// # Errors
    /// `Shape` when the last axis of `x` is not `in`.
    pub fn forward(&self, x: &Array) -> Result<Array> {
        let (input, output) = self.dims();
        if x.shape().last() != Some(&input) {
            let msg = format!("takes {input} features and gives {output}, got x of shape {}", x.shape());
            return Err(Error::shape("linear", msg));
        }
        let y = self.weight.apply(x)?;
        match &self.bias {
            Some(b) => y.add(&b.astype(y.dtype())?),
            None => Ok(y),
        }
    }
}

impl Module for Linear {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.linear(path, self)
    }
}

/// `y_k = sum_ij x1_i weight_kji x2_j + bias_k` of the last axes of two inputs.
#[derive(Debug, Clone, Module)]
pub struct Bilinear {
    /// `[out, in2, in1]`.
    pub weight: Param,
    /// `[out]`.
    pub bias: Option<Param>,
}

impl Bilinear {
    /// Weight and then bias are drawn uniformly within `1 / sqrt(input1)`.
    pub fn new(input1: usize, input2: usize, output: usize, bias: bool) -> Result<Bilinear> {
        let draw = uniform_fan(input1);
        let weight = draw.draw(&[output, input2, input1])?.into();
        let bias = if bias { Some(draw.draw(&[output])?.into()) } else { None };
        Ok(Bilinear { weight, bias })
    }

    /// `[..., in1]` and `[..., in2]` to `[..., out]`.
    ///
    /// # Errors
    /// `Shape` when the inputs do not fit.
    pub fn forward(&self, x1: &Array, x2: &Array) -> Result<Array> {
        let [out, second, first] = self.weight.shape()[..] else {
            return Err(Error::shape("bilinear", format!("a weight of shape {}", self.weight.shape())));
        };
        let fits = |x: &Array, n: usize| x.shape().last() == Some(&n);
        let outer = |x: &Array| x.shape()[..x.rank().saturating_sub(1)].to_vec();
        if !fits(x1, first) || !fits(x2, second) || outer(x1) != outer(x2) {
            let msg = format!("takes {first} and {second} features, got {} and {}", x1.shape(), x2.shape());
            return Err(Error::shape("bilinear", msg));
        }
        let mut shape = outer(x1);
        let rows: usize = shape.iter().product();
        // One product with all matrices at once; what it gives is a matrix per row, to be met by x2.
        let weight = self.weight.reshape(&[out * second, first])?.t()?;
        let partial = x1.reshape(&[rows, first])?.matmul(&weight)?.reshape(&[rows, out, second])?;
        shape.push(out);
        let y = partial.matmul(&x2.reshape(&[rows, second, 1])?)?.reshape(&shape)?;
        match &self.bias {
            Some(b) => y.add(b),
            None => Ok(y),
        }
    }
}
