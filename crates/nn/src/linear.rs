//! The linear layer.

use crate::{Module, Visitor, Weight};
use olivine_core::{Array, Dtype, Error, Result};

/// `x @ weight.T + bias`.
#[derive(Debug, Clone)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Weight,
    /// `[out]`.
    pub bias: Option<Array>,
}

impl Linear {
    /// A layer of zeros, to be loaded.
    pub fn new(input: usize, output: usize, bias: bool) -> Result<Linear> {
        let bias = if bias { Some(Array::zeros(&[output], Dtype::F32)?) } else { None };
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
