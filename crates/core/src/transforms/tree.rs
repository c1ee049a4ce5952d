//! Trees of arrays: what transformed functions take and give.

use crate::{Array, Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};

/// A value made of arrays: an array, and tuples, vectors, options and maps of such values.
pub trait Tree: Clone {
    /// Calls `f` with every array, always in the same order.
    fn visit(&self, f: &mut dyn FnMut(&Array));
    /// The same tree of other arrays: `f` gives them in the order of [`Tree::visit`].
    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self>;
    /// Writes down what beside the arrays decides what a function of the tree does: lengths, keys, which options are
    /// there, numbers in it. Trees of one type with equal signatures and equal arrays are equal.
    fn sign(&self, signature: &mut Signature);
}

/// What a tree is beside its arrays; see [`Tree::sign`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signature(Vec<u8>);

impl Signature {
    /// From bytes that say it all.
    pub fn from_bytes(bytes: &[u8]) -> Signature {
        Signature(bytes.to_vec())
    }
    /// Adds something that can be hashed.
    pub fn push(&mut self, value: &impl Hash) {
        value.hash(&mut Written(&mut self.0));
    }
}

/// A hasher that keeps what it is given, so that nothing collides.
struct Written<'a>(&'a mut Vec<u8>);

impl Hasher for Written<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    fn finish(&self) -> u64 {
        self.0.len() as u64
    }
}

impl Tree for Array {
    fn visit(&self, f: &mut dyn FnMut(&Array)) {
        f(self);
    }
    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self> {
        f(self)
    }
    fn sign(&self, _: &mut Signature) {}
}

impl<T: Tree> Tree for Vec<T> {
    fn visit(&self, f: &mut dyn FnMut(&Array)) {
        self.iter().for_each(|t| t.visit(f));
    }
    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self> {
        self.iter().map(|t| t.map(f)).collect()
    }
    fn sign(&self, signature: &mut Signature) {
        signature.push(&self.len());
        self.iter().for_each(|t| t.sign(signature));
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn visit(&self, f: &mut dyn FnMut(&Array)) {
        self.iter().for_each(|t| t.visit(f));
    }
    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self> {
        let mut out = self.clone();
        for (o, t) in out.iter_mut().zip(self) {
            *o = t.map(f)?;
        }
        Ok(out)
    }
    fn sign(&self, signature: &mut Signature) {
        self.iter().for_each(|t| t.sign(signature));
    }
}

impl<T: Tree> Tree for Option<T> {
    fn visit(&self, f: &mut dyn FnMut(&Array)) {
        self.iter().for_each(|t| t.visit(f));
    }
    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self> {
        self.as_ref().map(|t| t.map(f)).transpose()
    }
    fn sign(&self, signature: &mut Signature) {
        signature.push(&self.is_some());
        self.iter().for_each(|t| t.sign(signature));
    }
}

impl<K: Clone + Ord + Hash, T: Tree> Tree for BTreeMap<K, T> {
    fn visit(&self, f: &mut dyn FnMut(&Array)) {
        self.values().for_each(|t| t.visit(f));
    }
    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self> {
        self.iter().map(|(k, t)| Ok((k.clone(), t.map(f)?))).collect()
    }
    fn sign(&self, signature: &mut Signature) {
        signature.push(&self.len());
        for (k, t) in self {
            signature.push(k);
            t.sign(signature);
        }
    }
}

/// In the order of the keys.
impl<K: Clone + Ord + Hash, T: Tree> Tree for HashMap<K, T> {
    fn visit(&self, f: &mut dyn FnMut(&Array)) {
        let mut all: Vec<(&K, &T)> = self.iter().collect();
        all.sort_by_key(|(k, _)| *k);
        all.iter().for_each(|(_, t)| t.visit(f));
    }
    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self> {
        let mut all: Vec<(&K, &T)> = self.iter().collect();
        all.sort_by_key(|(k, _)| *k);
        all.into_iter().map(|(k, t)| Ok((k.clone(), t.map(f)?))).collect()
    }
    fn sign(&self, signature: &mut Signature) {
        let mut all: Vec<(&K, &T)> = self.iter().collect();
        all.sort_by_key(|(k, _)| *k);
        signature.push(&all.len());
        for (k, t) in all {
            signature.push(k);
            t.sign(signature);
        }
    }
}

macro_rules! tuple {
    ($($t:ident . $i:tt),*) => {
        impl<$($t: Tree),*> Tree for ($($t,)*) {
            fn visit(&self, f: &mut dyn FnMut(&Array)) {
                let _ = &f;
                $( self.$i.visit(f); )*
            }
            fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self> {
                let _ = &f;
                Ok(($( self.$i.map(f)?, )*))
            }
            fn sign(&self, signature: &mut Signature) {
                let _ = &signature;
                $( self.$i.sign(signature); )*
            }
        }
    };
}
tuple!();
tuple!(A.0);
tuple!(A.0, B.1);
tuple!(A.0, B.1, C.2);
tuple!(A.0, B.1, C.2, D.3);
tuple!(A.0, B.1, C.2, D.3, E.4);
tuple!(A.0, B.1, C.2, D.3, E.4, F.5);

/// Numbers, flags and text are parts of a tree without arrays. Floats count by their bits.
macro_rules! plain {
    ($($t:ty => |$x:ident| $key:expr;)*) => { $(
        impl Tree for $t {
            fn visit(&self, _: &mut dyn FnMut(&Array)) {}
            fn map(&self, _: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self> {
                Ok(self.clone())
            }
            fn sign(&self, signature: &mut Signature) {
                let $x = self;
                signature.push(&$key);
            }
        }
    )* };
}
plain! {
    bool => |x| x;
    i32 => |x| x;
    i64 => |x| x;
    u32 => |x| x;
    u64 => |x| x;
    usize => |x| x;
    f32 => |x| x.to_bits();
    f64 => |x| x.to_bits();
    String => |x| x;
}

/// What a tree is beside its arrays.
pub(super) fn signature<T: Tree>(tree: &T) -> Signature {
    let mut s = Signature::default();
    tree.sign(&mut s);
    s
}

/// All arrays of a tree.
pub(crate) fn leaves<T: Tree>(tree: &T) -> Vec<Array> {
    let mut all = Vec::new();
    tree.visit(&mut |a| all.push(a.clone()));
    all
}

/// The tree with other arrays in its places.
pub(crate) fn rebuild<T: Tree>(tree: &T, arrays: &[Array]) -> Result<T> {
    let mut next = arrays.iter();
    tree.map(&mut |_| next.next().cloned().ok_or_else(|| Error::value("tree", "there are too few arrays")))
}
