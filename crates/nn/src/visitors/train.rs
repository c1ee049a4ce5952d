//! What is trained, and whether it is.

use crate::{Module, Param, Training, Visitor};
use olivine_core::{Array, Error, Result};
use std::collections::BTreeMap;

struct Freeze<F> {
    choose: F,
    frozen: bool,
}

impl<F: Fn(&str) -> bool> Visitor for Freeze<F> {
    fn array(&mut self, _: &str, _: &mut Array) -> Result<()> {
        Ok(())
    }
    fn param(&mut self, path: &str, param: &mut Param) -> Result<()> {
        if (self.choose)(path) {
            param.set_frozen(self.frozen);
        }
        Ok(())
    }
}

/// Takes the parameters whose names `choose` accepts out of training.
pub fn freeze(module: &mut (impl Module + ?Sized), choose: impl Fn(&str) -> bool) -> Result<()> {
    module.visit("", &mut Freeze { choose, frozen: true })
}

/// Puts the parameters whose names `choose` accepts back into training.
pub fn unfreeze(module: &mut (impl Module + ?Sized), choose: impl Fn(&str) -> bool) -> Result<()> {
    module.visit("", &mut Freeze { choose, frozen: false })
}

struct SetTraining(bool);

impl Visitor for SetTraining {
    fn array(&mut self, _: &str, _: &mut Array) -> Result<()> {
        Ok(())
    }
    fn training(&mut self, _: &str, training: &mut Training) -> Result<()> {
        training.0 = self.0;
        Ok(())
    }
}

/// Puts a model into training mode, or out of it: dropout does nothing then, and batch normalisation uses its running
/// statistics. Models begin in training mode.
pub fn set_training(module: &mut (impl Module + ?Sized), training: bool) -> Result<()> {
    module.visit("", &mut SetTraining(training))
}

struct Trainable(BTreeMap<String, Array>);

impl Visitor for Trainable {
    fn array(&mut self, _: &str, _: &mut Array) -> Result<()> {
        Ok(())
    }
    fn param(&mut self, path: &str, param: &mut Param) -> Result<()> {
        if param.is_trainable() {
            self.0.insert(path.to_owned(), Array::clone(param));
        }
        Ok(())
    }
}

/// The parameters that have gradients, by name.
pub fn trainable_parameters(module: &mut (impl Module + ?Sized)) -> Result<BTreeMap<String, Array>> {
    let mut trainable = Trainable(BTreeMap::new());
    module.visit("", &mut trainable)?;
    Ok(trainable.0)
}

struct SetParameters<'a> {
    new: &'a BTreeMap<String, Array>,
    used: usize,
}

impl Visitor for SetParameters<'_> {
    fn array(&mut self, _: &str, _: &mut Array) -> Result<()> {
        Ok(())
    }
    fn param(&mut self, path: &str, param: &mut Param) -> Result<()> {
        let Some(new) = self.new.get(path) else { return Ok(()) };
        if new.shape() != param.shape() {
            let msg = format!("{path} is of shape {}, got {}", param.shape(), new.shape());
            return Err(Error::shape("set_parameters", msg));
        }
        param.set(new.clone());
        self.used += 1;
        Ok(())
    }
}

/// Replaces the parameters that `new` names.
///
/// # Errors
/// `Value` when the model has no parameter of a name, `Shape` when one is of another shape.
pub fn set_parameters(module: &mut (impl Module + ?Sized), new: &BTreeMap<String, Array>) -> Result<()> {
    let mut set = SetParameters { new, used: 0 };
    module.visit("", &mut set)?;
    if set.used == new.len() {
        return Ok(());
    }
    let known = trainable_parameters(module)?;
    let strange = new.keys().find(|k| !known.contains_key(*k)).cloned().unwrap_or_default();
    Err(Error::value("set_parameters", format!("the model has no parameter {strange}")))
}
