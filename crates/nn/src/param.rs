//! Arrays that are learnt, and the mode of a module.

use crate::{Module, Visitor};
use olivine_core::{Array, Result};
use std::ops::Deref;

/// An array that training changes, unless it is frozen.
///
/// It can be used wherever an [`Array`] is read. A field of a module that is an [`Array`] itself is kept with the
/// module, saved and loaded, and never trained: running statistics, say.
#[derive(Debug, Clone)]
pub struct Param {
    value: Array,
    frozen: bool,
}

impl Param {
    /// A parameter that is trained.
    pub fn new(value: Array) -> Param {
        Param { value, frozen: false }
    }

    /// Puts another array in its place.
    pub fn set(&mut self, value: Array) {
        self.value = value;
    }

    /// The array, to be replaced.
    pub fn array_mut(&mut self) -> &mut Array {
        &mut self.value
    }

    /// Whether training leaves it alone.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Whether it has gradients: it is not frozen, and of floats.
    pub fn is_trainable(&self) -> bool {
        !self.frozen && self.value.dtype().is_inexact()
    }

    /// Takes it out of training, or puts it back.
    pub fn set_frozen(&mut self, frozen: bool) {
        self.frozen = frozen;
    }
}

impl Deref for Param {
    type Target = Array;
    fn deref(&self) -> &Array {
        &self.value
    }
}

impl From<Array> for Param {
    fn from(value: Array) -> Param {
        Param::new(value)
    }
}

impl Module for Param {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.param(path, self)
    }
}

/// Whether a module is in training, which decides what dropout and batch normalisation do.
///
/// A field of this type makes a module one that [`visitors::set_training`](crate::visitors::set_training) reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Training(pub bool);

/// In training.
impl Default for Training {
    fn default() -> Training {
        Training(true)
    }
}

impl Module for Training {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.training(path, self)
    }
}
