//! Elementwise choice: `where(condition, a, b)`.

use super::{Grad, Meta, Metas, Op, arity, one};
use crate::{Array, Dtype, Error, Result};

pub(super) fn infer(inputs: &[&Meta]) -> Result<Metas> {
    let [c, a, b] = arity("where", inputs)?;
    if c.dtype != Dtype::Bool {
        return Err(Error::bad_dtype("where", "a bool condition", c.dtype));
    }
    if a.dtype != b.dtype {
        return Err(Error::dtype("where", format!("types {} and {} differ", a.dtype, b.dtype)));
    }
    if c.shape != a.shape || a.shape != b.shape {
        return Err(Error::shape("where", format!("shapes {}, {} and {} differ", c.shape, a.shape, b.shape)));
    }
    one(a.shape.clone(), a.dtype)
}

pub(super) fn grad() -> Grad {
    Grad::Pointwise(partial)
}

fn partial(_op: &Op, inputs: &[Array], y: &Array, i: usize) -> Result<Option<Array>> {
    let chosen = inputs[0].astype(y.dtype());
    match i {
        1 => chosen.map(Some),
        2 => inputs[0].logical_not()?.astype(y.dtype()).map(Some),
        _ => Ok(None),
    }
}
