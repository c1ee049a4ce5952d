//! What a module is, and how its parameters are reached.

use crate::{Embedding, Linear, Weight};
use olivine_core::{Array, Result};

/// A part of a model that may hold parameters.
///
/// Derive it; plain data (numbers, flags, text) are modules without parameters.
pub trait Module {
    /// Shows every parameter to `visitor`, under names that begin with `path` (empty for the root).
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()>;
}

/// Something that is done to every parameter of a model.
///
/// Only [`Visitor::param`] has to be written. A visitor that treats a kind of layer as a whole overrides
/// that layer's method; what it leaves alone goes on down to the arrays.
pub trait Visitor {
    /// An array, by its full name.
    fn param(&mut self, path: &str, array: &mut Array) -> Result<()>;

    /// The weight of the layer at `owner`: `owner.weight`, and `owner.scales` and `owner.biases` when it is
    /// packed.
    fn weight(&mut self, owner: &str, weight: &mut Weight) -> Result<()> {
        match weight {
            Weight::Dense(w) => self.param(&join(owner, "weight"), w),
            Weight::Packed(p) => {
                self.param(&join(owner, "weight"), &mut p.words)?;
                self.param(&join(owner, "scales"), &mut p.scales)?;
                self.param(&join(owner, "biases"), &mut p.biases)
            }
        }
    }

    /// A linear layer.
    fn linear(&mut self, path: &str, layer: &mut Linear) -> Result<()> {
        self.weight(path, &mut layer.weight)?;
        match &mut layer.bias {
            Some(bias) => self.param(&join(path, "bias"), bias),
            None => Ok(()),
        }
    }

    /// An embedding.
    fn embedding(&mut self, path: &str, layer: &mut Embedding) -> Result<()> {
        self.weight(path, &mut layer.weight)
    }
}

/// `path.name`, or `name` at the root.
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

impl Module for Array {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.param(path, self)
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        (**self).visit(path, visitor)
    }
}

impl<M: Module> Module for Option<M> {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        self.as_mut().map_or(Ok(()), |m| m.visit(path, visitor))
    }
}

impl<M: Module> Module for Vec<M> {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        self.iter_mut().enumerate().try_for_each(|(i, m)| m.visit(&join(path, &i.to_string()), visitor))
    }
}

macro_rules! plain {
    ($($t:ty),*) => { $(
        impl Module for $t {
            fn visit(&mut self, _: &str, _: &mut dyn Visitor) -> Result<()> {
                Ok(())
            }
        }
    )* };
}
plain!(bool, u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64, String, &'static str);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Module;
    use crate::visitors::parameters;

    #[derive(Module)]
    struct Pair<M>(Array, M);

    #[derive(Module)]
    enum Head {
        Own {
            lm_head: Linear,
            width: usize,
        },
        #[expect(dead_code, reason = "the derive has to take a variant without fields")]
        Tied,
    }

    struct Opaque;

    #[derive(Module)]
    struct Net {
        layers: Vec<Pair<Option<Array>>>,
        head: Head,
        r#type: Array,
        boxed: Box<Array>,
        heads: usize,
        #[module(skip)]
        opaque: Opaque,
    }

    #[test]
    fn paths_are_the_names_of_fields_in_their_order() {
        let a = || Array::zeros(&[2, 3], olivine_core::Dtype::F32).unwrap();
        let mut net = Net {
            layers: vec![Pair(a(), Some(a())), Pair(a(), None)],
            head: Head::Own { lm_head: Linear::new(3, 2, true).unwrap(), width: 2 },
            r#type: a(),
            boxed: Box::new(a()),
            heads: 1,
            opaque: Opaque,
        };
        let names: Vec<String> = parameters(&mut net).unwrap().into_iter().map(|(n, _)| n).collect();
        let expected = [
            "layers.0.0",
            "layers.0.1",
            "layers.1.0",
            "head.lm_head.weight",
            "head.lm_head.bias",
            "type",
            "boxed",
        ];
        assert_eq!(names, expected);
        let Net { opaque: Opaque, heads: 1, head: Head::Own { width: 2, .. }, .. } = net else {
            panic!("visiting changed plain data")
        };
    }
}
