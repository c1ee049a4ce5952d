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

fn transpose(_: &Op, inputs: &[Array], cotangents: &[Option<Array>], _: usize) -> Result<Option<Array>> {
    cotangents[0].as_ref().map(|c| c.astype(inputs[0].dtype())).transpose()
}
