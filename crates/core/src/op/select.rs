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
    Grad::Linear(transpose)
}

/// A choice rather than a product, so that nothing of the other branch comes through.
fn transpose(_: &Op, inputs: &[Array], cotangents: &[Option<Array>], i: usize) -> Result<Option<Array>> {
    let Some(c) = &cotangents[0] else { return Ok(None) };
    let zero = c.scalar_like(0.0);
    match i {
        1 => Array::select(&inputs[0], c, &zero).map(Some),
        2 => Array::select(&inputs[0], &zero, c).map(Some),
        _ => Ok(None),
    }
}
