//! What a module is, and how its parameters are reached.

use crate::{Embedding, Linear, Param, Training, Weight};
use olivine_core::{Array, Result};
use std::collections::BTreeMap;

/// A part of a model that may hold parameters.
///
/// Derive it, together with `Clone`; plain data (numbers, flags, text) are modules without parameters. The derive also
/// makes the module a [`Tree`](crate::Tree) of its arrays, so that transforms take it: as state of
/// [`compile_step`](olivine_core::transforms::compile_step), or as an argument of
/// [`vmap`](olivine_core::transforms::vmap).
///
/// ```
/// use olivine_nn::{Dropout, Linear, Module, Result, activations};
/// use olivine_core::Array;
///
/// #[derive(Clone, Module)]
/// struct Classifier {
///     l1: Linear,
///     drop: Dropout,
///     l2: Linear,
/// }
///
/// impl Classifier {
///     fn forward(&self, x: &Array) -> Result<Array> {
///         let hidden = activations::gelu(&self.l1.forward(x)?)?;
///         self.l2.forward(&self.drop.forward(&hidden)?)
///     }
/// }
/// ```
///
/// `#[module(skip)]` leaves a field out, `#[module(name = "…")]` names it as a checkpoint does. What is skipped is
/// not seen by `compile` either: a trace is used again when only such a field has changed.
pub trait Module {
    /// Shows everything that it is made of to `visitor`, under names that begin with `path` (empty for the root).
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()>;
}

/// Something that is done to all parts of a model.
///
/// Only [`Visitor::array`] has to be written. A visitor that treats a kind of layer as a whole overrides
/// that layer's method; what it leaves alone goes on down to the arrays.
pub trait Visitor {
    /// An array, by its full name, whether it is learnt or only kept.
    fn array(&mut self, path: &str, array: &mut Array) -> Result<()>;

    /// An array that may be learnt.
    fn param(&mut self, path: &str, param: &mut Param) -> Result<()> {
        self.array(path, param.array_mut())
    }

    /// The mode of a module.
    fn training(&mut self, path: &str, training: &mut Training) -> Result<()> {
        self.setting(path, &[u8::from(training.0)])
    }

    /// Plain data, as bytes, or which variant or how many elements there are: what decides, beside the arrays, what
    /// the module does.
    fn setting(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        let _ = (path, bytes);
        Ok(())
    }

    /// The weight of the layer at `owner`: `owner.weight`, and `owner.scales` and `owner.biases` when it is
    /// packed.
    fn weight(&mut self, owner: &str, weight: &mut Weight) -> Result<()> {
        match weight {
            Weight::Dense(w) => self.param(&join(owner, "weight"), w),
            Weight::Packed(p) => {
                let form = [p.spec.group as u64, u64::from(p.spec.bits)].map(u64::to_le_bytes);
                self.setting(owner, form.as_flattened())?;
                self.array(&join(owner, "weight"), &mut p.words)?;
                self.array(&join(owner, "scales"), &mut p.scales)?;
                self.array(&join(owner, "biases"), &mut p.biases)
            }
        }
    }

    /// A linear layer.
    fn linear(&mut self, path: &str, layer: &mut Linear) -> Result<()> {
        self.weight(path, &mut layer.weight)?;
        self.setting(path, &[u8::from(layer.bias.is_some())])?;
        match &mut layer.bias {
            Some(bias) => self.param(&join(path, "bias"), bias),
            None => Ok(()),
        }
    }

    /// An embedding.
    fn embedding(&mut self, path: &str, layer: &mut Embedding) -> Result<()> {
        self.setting(path, &[layer.dtype.map_or(u8::MAX, |d| d as u8)])?;
        self.weight(path, &mut layer.weight)
    }
}

/// `path.name`, or `name` at the root.
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

impl Module for Array {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.array(path, self)
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        (**self).visit(path, visitor)
    }
}

impl<M: Module> Module for Option<M> {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.setting(path, &[u8::from(self.is_some())])?;
        self.as_mut().map_or(Ok(()), |m| m.visit(path, visitor))
    }
}

impl<M: Module> Module for [M] {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.setting(path, &self.len().to_le_bytes())?;
        self.iter_mut().enumerate().try_for_each(|(i, m)| m.visit(&join(path, &i.to_string()), visitor))
    }
}

impl<M: Module> Module for Vec<M> {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        self.as_mut_slice().visit(path, visitor)
    }
}

impl<M: Module, const N: usize> Module for [M; N] {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        self.as_mut_slice().visit(path, visitor)
    }
}

impl<M: Module> Module for BTreeMap<String, M> {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.setting(path, &self.len().to_le_bytes())?;
        for (name, m) in self {
            visitor.setting(path, name.as_bytes())?;
            m.visit(&join(path, name), visitor)?;
        }
        Ok(())
    }
}

macro_rules! tuple {
    ($($t:ident . $i:tt),*) => {
        impl<$($t: Module),*> Module for ($($t,)*) {
            fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
                $( self.$i.visit(&join(path, stringify!($i)), visitor)?; )*
                Ok(())
            }
        }
    };
}
tuple!(A.0);
tuple!(A.0, B.1);
tuple!(A.0, B.1, C.2);
tuple!(A.0, B.1, C.2, D.3);

macro_rules! numbers {
    ($($t:ty),*) => { $(
        impl Module for $t {
            fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
                visitor.setting(path, &self.to_le_bytes())
            }
        }
    )* };
}
numbers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64);

impl Module for bool {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.setting(path, &[u8::from(*self)])
    }
}

impl Module for String {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.setting(path, self.as_bytes())
    }
}

impl Module for &'static str {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.setting(path, self.as_bytes())
    }
}

/// A function of one array, such as those of [`activations`](crate::activations).
pub type Activation = fn(&Array) -> Result<Array>;

impl Module for Activation {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.setting(path, &(*self as usize).to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Module;
    use crate::visitors::parameters;

    #[derive(Clone, Module)]
    struct Pair<M>(Array, M);

    #[derive(Clone, Module)]
    enum Head {
        Own {
            lm_head: Linear,
            width: usize,
        },
        #[expect(dead_code, reason = "the derive has to take a variant without fields")]
        Tied,
    }

    #[derive(Clone)]
    struct Opaque;

    #[derive(Clone, Module)]
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
            head: Head::Own { lm_head: Linear::zeros(3, 2, true).unwrap(), width: 2 },
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
