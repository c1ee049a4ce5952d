//! Conversion of elements to another type.
//!
//! Floats round to nearest even; a float outside an integer type saturates and NaN becomes 0; integers
//! wrap; complex numbers give their real part; everything but zero is true.

use super::{Grad, Meta, Metas, Op, arity, one};
use crate::{Array, Dtype, Result};

pub(super) fn infer(to: Dtype, inputs: &[&Meta]) -> Result<Metas> {
    let [x] = arity("astype", inputs)?;
    one(x.shape.clone(), to)
}

pub(super) fn grad(to: Dtype) -> Grad {
    if to.is_inexact() { Grad::Linear(transpose) } else { Grad::NonDiff }
}

fn transpose(_op: &Op, inputs: &[Array], _y: &Array, cotangents: &[Array]) -> Result<Vec<Option<Array>>> {
    if !inputs[0].dtype().is_inexact() {
        return Ok(vec![None]);
    }
    Ok(vec![Some(cotangents[0].astype(inputs[0].dtype())?)])
}
