//! Gradients by the parameters of a model.

use crate::visitors::{set_parameters, trainable_parameters};
use crate::{Module, Param, Visitor};
use olivine_core::transforms::{self, Loss};
use olivine_core::{Array, Error, Result};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Gradients, or other arrays that stand for the trainable parameters of a model, by their names.
pub type Gradients = BTreeMap<String, Array>;

/// Arrays that are not differentiated, in the order of their fields.
#[derive(Default)]
struct Kept {
    found: Vec<Array>,
}

impl Visitor for Kept {
    fn array(&mut self, _: &str, array: &mut Array) -> Result<()> {
        self.found.push(array.clone());
        Ok(())
    }
    fn param(&mut self, path: &str, param: &mut Param) -> Result<()> {
        if param.is_trainable() { Ok(()) } else { self.array(path, param.array_mut()) }
    }
}

struct PutBack {
    arrays: std::vec::IntoIter<Array>,
}

impl Visitor for PutBack {
    fn array(&mut self, path: &str, array: &mut Array) -> Result<()> {
        let msg = || format!("the function took the array {path} away from the model");
        *array = self.arrays.next().ok_or_else(|| Error::value("value_and_grad", msg()))?;
        Ok(())
    }
    fn param(&mut self, path: &str, param: &mut Param) -> Result<()> {
        if param.is_trainable() { Ok(()) } else { self.array(path, param.array_mut()) }
    }
}

/// What `f` gives for a model (a real scalar, or a pair of one and further arrays), and the gradient of the scalar by
/// the model's trainable parameters.
///
/// `f` works on a copy of the model, whose parameters transforms follow. Arrays of it that are no parameters, such as
/// running statistics, come back into the model; other changes that `f` makes do not.
///
/// ```
/// use olivine_core::{Array, Dtype};
/// use olivine_nn::{Linear, Result, value_and_grad};
///
/// # fn gradient() -> Result<()> {
/// let mut model = Linear::new(2, 1, false)?;
/// let x = Array::from_slice(&[1.0f32, 2.0], &[1, 2])?;
/// let (loss, gradients) = value_and_grad(&mut model, |m| m.forward(&x)?.sum(&[], false))?;
/// assert_eq!(gradients["weight"].to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Dtype` when nothing is trainable; `Shape` when the loss is not a scalar; whatever `f` gives.
pub fn value_and_grad<M: Module + Clone, L: Loss>(
    model: &mut M,
    f: impl FnOnce(&mut M) -> Result<L>,
) -> Result<(L, Gradients)> {
    let parameters = trainable_parameters(model)?;
    if parameters.is_empty() {
        return Err(Error::dtype("value_and_grad", "the model has no trainable parameter"));
    }
    let once = Cell::new(Some(f));
    let both = transforms::value_and_grad(|parameters: &Gradients| {
        let f = once.take().ok_or_else(|| Error::value("value_and_grad", "the function was called twice"))?;
        let mut traced = model.clone();
        set_parameters(&mut traced, parameters)?;
        let loss = f(&mut traced)?;
        let mut kept = Kept::default();
        traced.visit("", &mut kept)?;
        Ok((loss.loss().clone(), (loss, kept.found)))
    });
    let ((_, (loss, kept)), gradients) = both(&parameters)?;
    drop(both);
    model.visit("", &mut PutBack { arrays: kept.into_iter() })?;
    Ok((loss, gradients))
}
