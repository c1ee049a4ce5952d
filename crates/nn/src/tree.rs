//! Modules as trees of arrays. The derive macro calls these functions.

use crate::{Module, Param, Visitor};
use olivine_core::transforms::Signature;
use olivine_core::{Array, Result};

struct Each<'a>(&'a mut dyn FnMut(&Array));

impl Visitor for Each<'_> {
    fn array(&mut self, _: &str, array: &mut Array) -> Result<()> {
        (self.0)(array);
        Ok(())
    }
}

/// [`Tree::visit`](crate::Tree::visit) of a module.
///
/// A module that cannot be visited shows the arrays before its error here, and the error in [`map`].
pub fn visit<M: Module + Clone>(module: &M, f: &mut dyn FnMut(&Array)) {
    let _ = module.clone().visit("", &mut Each(f));
}

struct Map<'a>(&'a mut dyn FnMut(&Array) -> Result<Array>);

impl Visitor for Map<'_> {
    fn array(&mut self, _: &str, array: &mut Array) -> Result<()> {
        *array = (self.0)(array)?;
        Ok(())
    }
}

/// [`Tree::map`](crate::Tree::map) of a module.
///
/// # Errors
/// Whatever `f` gives.
pub fn map<M: Module + Clone>(module: &M, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<M> {
    let mut mapped = module.clone();
    mapped.visit("", &mut Map(f))?;
    Ok(mapped)
}

struct Sign<'a>(&'a mut Signature);

/// What the parts of a signature are.
const ARRAY: u8 = 0;
const SETTING: u8 = 1;
const LEARNT: u8 = 2;
const FROZEN: u8 = 3;

impl Visitor for Sign<'_> {
    fn array(&mut self, _: &str, _: &mut Array) -> Result<()> {
        self.0.push(&ARRAY);
        Ok(())
    }
    fn param(&mut self, path: &str, param: &mut Param) -> Result<()> {
        self.0.push(&if param.is_frozen() { FROZEN } else { LEARNT });
        self.array(path, param.array_mut())
    }
    fn setting(&mut self, _: &str, bytes: &[u8]) -> Result<()> {
        self.0.push(&SETTING);
        self.0.push(&bytes);
        Ok(())
    }
}

/// [`Tree::sign`](crate::Tree::sign) of a module.
pub fn sign<M: Module + Clone>(module: &M, signature: &mut Signature) {
    let _ = module.clone().visit("", &mut Sign(signature));
}

/// Makes a hand-written module a tree of its arrays, as the derive macro does with derived ones.
#[macro_export]
macro_rules! module_tree {
    ($($t:ty),* $(,)?) => { $(
        impl $crate::Tree for $t {
            fn visit(&self, f: &mut dyn FnMut(&$crate::Array)) {
                $crate::tree::visit(self, f);
            }
            fn map(
                &self,
                f: &mut dyn FnMut(&$crate::Array) -> $crate::Result<$crate::Array>,
            ) -> $crate::Result<Self> {
                $crate::tree::map(self, f)
            }
            fn sign(&self, signature: &mut $crate::Signature) {
                $crate::tree::sign(self, signature);
            }
        }
    )* };
}

module_tree!(crate::Embedding, crate::Linear, crate::Param, crate::RmsNorm, crate::Rope);
