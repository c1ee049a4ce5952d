//! The table of embeddings.

use crate::init::Init;
use crate::{Module, Visitor, Weight};
use olivine_core::{Array, Dtype, Error, Result};

/// A vector for each id.
#[derive(Debug, Clone)]
pub struct Embedding {
    /// `[ids, features]`.
    pub weight: Weight,
    /// Type of the vectors that come out, which is the type of a model's activations. That of the weight
    /// where `None`.
    pub dtype: Option<Dtype>,
}

impl Embedding {
    /// A table to be trained: normally distributed vectors of variance `1 / features`, drawn from the default random
    /// key.
    pub fn new(ids: usize, features: usize) -> Result<Embedding> {
        let draw = Init::Normal { mean: 0.0, std: (1.0 / features as f64).sqrt() };
        Ok(Embedding { weight: draw.draw(&[ids, features])?.into(), dtype: None })
    }

    /// A table of zeros, to be loaded.
    pub fn zeros(ids: usize, features: usize) -> Result<Embedding> {
        Ok(Embedding { weight: Weight::zeros(&[ids, features])?, dtype: None })
    }

    /// Integer ids of any shape to vectors: `ids.shape + [features]`. Of packed weights only the rows that
    /// are asked for are unpacked.
    ///
    /// # Errors
    /// `Dtype` when the ids are no integers; `Index`, at evaluation, when one is out of range.
    pub fn forward(&self, ids: &Array) -> Result<Array> {
        if !ids.dtype().is_integer() {
            return Err(Error::bad_dtype("embedding", "integer ids", ids.dtype()));
        }
        self.weight.rows(ids, self.dtype.unwrap_or(self.weight.dtype()))
    }

    /// `x @ weight.T`: the table as the output layer of a model that ties them.
    pub fn as_linear(&self, x: &Array) -> Result<Array> {
        self.weight.apply(x)
    }
}

impl Module for Embedding {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.embedding(path, self)
    }
}
