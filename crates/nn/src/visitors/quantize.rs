//! Packing of weights.

use crate::{Embedding, Linear, Module, Visitor};
use olivine_core::op::Affine;
use olivine_core::{Array, Result};

struct Quantize<F> {
    spec: Affine,
    choose: F,
}

impl<F: Fn(&str) -> bool> Visitor for Quantize<F> {
    fn array(&mut self, _: &str, _: &mut Array) -> Result<()> {
        Ok(())
    }

    fn linear(&mut self, path: &str, layer: &mut Linear) -> Result<()> {
        if (self.choose)(path) {
            layer.weight = layer.weight.quantize(self.spec)?;
        }
        Ok(())
    }

    fn embedding(&mut self, path: &str, layer: &mut Embedding) -> Result<()> {
        if (self.choose)(path) {
            layer.weight = layer.weight.quantize(self.spec)?;
        }
        Ok(())
    }
}

/// Packs the weights of linear layers and embeddings whose path `choose` accepts.
///
/// # Errors
/// `Shape` when a row is no multiple of the group size; `Value` when a weight is packed in another form.
pub fn quantize(
    module: &mut (impl Module + ?Sized),
    spec: Affine,
    choose: impl Fn(&str) -> bool,
) -> Result<()> {
    module.visit("", &mut Quantize { spec, choose })
}
