//! Types of parameters and of activations.

use crate::{Embedding, Module, Visitor, Weight};
use olivine_core::{Array, Dtype, Error, Result};

struct Cast(Dtype);

impl Visitor for Cast {
    fn array(&mut self, _: &str, array: &mut Array) -> Result<()> {
        if array.dtype().is_float() {
            *array = array.astype(self.0)?;
        }
        Ok(())
    }

    fn weight(&mut self, _: &str, weight: &mut Weight) -> Result<()> {
        match weight {
            Weight::Dense(w) => self.param("", w),
            // Scales belong to their integers; another type would change the weight.
            Weight::Packed(_) => Ok(()),
        }
    }
}

/// Dense floats become `dtype`; packed weights stay.
///
/// # Errors
/// `Dtype` when `dtype` is no float.
pub fn cast(module: &mut (impl Module + ?Sized), dtype: Dtype) -> Result<()> {
    if !dtype.is_float() {
        return Err(Error::bad_dtype("cast", "a float type", dtype));
    }
    module.visit("", &mut Cast(dtype))
}

struct Activations(Dtype);

impl Visitor for Activations {
    fn array(&mut self, _: &str, _: &mut Array) -> Result<()> {
        Ok(())
    }

    fn embedding(&mut self, _: &str, layer: &mut Embedding) -> Result<()> {
        layer.dtype = Some(self.0);
        Ok(())
    }
}

/// Embeddings give vectors of `dtype`, and what follows computes in it.
///
/// # Errors
/// `Dtype` when `dtype` is no float.
pub fn set_activation_dtype(module: &mut (impl Module + ?Sized), dtype: Dtype) -> Result<()> {
    if !dtype.is_float() {
        return Err(Error::bad_dtype("set_activation_dtype", "a float type", dtype));
    }
    module.visit("", &mut Activations(dtype))
}
