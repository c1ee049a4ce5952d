//! Trees of arrays: what transformed functions take and give.

use crate::{Array, Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// A value made of arrays: an array, and tuples, vectors, options and maps of such values.
pub trait Tree: Clone {
    /// Calls `f` with every array, always in the same order.
    fn visit(&self, f: &mut dyn FnMut(&Array));
    /// The same tree of other arrays: `f` gives them in the order of [`Tree::visit`].
    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self>;
}

impl Tree for Array {
    fn visit(&self, f: &mut dyn FnMut(&Array)) {
        f(self);
    }
    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self> {
        f(self)
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn visit(&self, f: &mut dyn FnMut(&Array)) {
        self.iter().for_each(|t| t.visit(f));
    }
    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self> {
        self.iter().map(|t| t.map(f)).collect()
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
}

impl<T: Tree> Tree for Option<T> {
    fn visit(&self, f: &mut dyn FnMut(&Array)) {
        self.iter().for_each(|t| t.visit(f));
    }
    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self> {
        self.as_ref().map(|t| t.map(f)).transpose()
    }
}

impl<K: Clone + Ord, T: Tree> Tree for BTreeMap<K, T> {
    fn visit(&self, f: &mut dyn FnMut(&Array)) {
        self.values().for_each(|t| t.visit(f));
    }
    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Self> {
        self.iter().map(|(k, t)| Ok((k.clone(), t.map(f)?))).collect()
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

/// All arrays of a tree.
pub(super) fn leaves<T: Tree>(tree: &T) -> Vec<Array> {
    let mut all = Vec::new();
    tree.visit(&mut |a| all.push(a.clone()));
    all
}

/// The tree with other arrays in its places.
pub(super) fn rebuild<T: Tree>(tree: &T, arrays: &[Array]) -> Result<T> {
    let mut next = arrays.iter();
    tree.map(&mut |_| next.next().cloned().ok_or_else(|| Error::value("tree", "there are too few arrays")))
}
