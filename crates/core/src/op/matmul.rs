//! Products of matrices, batched over leading axes.

use super::{Grad, Meta, Metas, Op, arity, one};
use crate::{Array, Error, Result};

/// Product of matrices: `[batch, m, k] @ [batch, k, n]`, with equal leading axes; ops broadcast before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Matmul;

impl Matmul {
    pub(super) fn name(self) -> &'static str {
        "matmul"
    }

    pub(super) fn infer(self, inputs: &[&Meta]) -> Result<Metas> {
        let [a, b] = arity("matmul", inputs)?;
        if a.dtype != b.dtype || !a.dtype.is_inexact() {
            return Err(Error::dtype(
                "matmul",
                format!("takes floats of one type, got {} and {}", a.dtype, b.dtype),
            ));
        }
        let (r, s) = (a.shape.rank(), b.shape.rank());
        let fits =
            r >= 2 && r == s && a.shape[..r - 2] == b.shape[..r - 2] && a.shape[r - 1] == b.shape[r - 2];
        if !fits {
            return Err(Error::shape("matmul", format!("shapes {} and {} do not fit", a.shape, b.shape)));
        }
        one(a.shape.with(r - 1, b.shape[r - 1]), a.dtype)
    }
}

impl Matmul {
    pub(super) fn grad(self) -> Grad {
        Grad::Multilinear(transpose)
    }
}

fn transpose(op: &Op, inputs: &[Array], cotangents: &[Option<Array>], i: usize) -> Result<Option<Array>> {
    let Some(c) = &cotangents[0] else { return Ok(None) };
    let other = inputs[1 - i].swapaxes(-1, -2)?;
    let other = if other.dtype().is_complex() { other.conjugate()? } else { other };
    let pair = if i == 0 { [c.clone(), other] } else { [other, c.clone()] };
    Array::from_op(op.clone(), &pair).map(Some)
}

/// A batch of left sides for one right side is one product with more rows.
pub(super) fn batched(_: &Op, inputs: &[Array], flags: &[bool], n: usize) -> Result<Vec<Array>> {
    let expand = |i: usize| -> Result<Array> {
        if flags[i] {
            return Ok(inputs[i].clone());
        }
        inputs[i].broadcast_to(&crate::transforms::prefixed(n, inputs[i].shape()))
    };
    if !flags[1] && inputs[1].rank() == 2 {
        return Ok(vec![inputs[0].matmul(&inputs[1])?]);
    }
    Ok(vec![Array::from_op(Op::Matmul(Matmul), &[expand(0)?, expand(1)?])?])
}
