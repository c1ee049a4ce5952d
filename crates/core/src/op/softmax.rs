//! Softmax and logsumexp over the last axis, accumulated in `f32` at least.

use super::{Cotangents, Grad, Meta, Metas, Op, arity, one};
use crate::{Array, Error, Result};
use serde::{Deserialize, Serialize};

/// Softmax and logsumexp over the last axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Softmax {
    /// `exp(x - max) / sum(exp(x - max))`.
    Softmax,
    /// `max + log(sum(exp(x - max)))`; the axis stays with size 1.
    LogSumExp,
}

impl Softmax {
    pub(super) fn name(self) -> &'static str {
        match self {
            Softmax::Softmax => "softmax",
            Softmax::LogSumExp => "logsumexp",
        }
    }

    pub(super) fn infer(self, inputs: &[&Meta]) -> Result<Metas> {
        let [x] = arity(self.name(), inputs)?;
        if !x.dtype.is_float() {
            return Err(Error::bad_dtype(self.name(), "real floats", x.dtype));
        }
        let rank = x.shape.rank();
        if rank == 0 {
            return Err(Error::shape(self.name(), "a scalar has no last axis"));
        }
        match self {
            Softmax::Softmax => one(x.shape.clone(), x.dtype),
            Softmax::LogSumExp => one(x.shape.with(rank - 1, 1), x.dtype),
        }
    }

    pub(super) fn fallback(self, inputs: &[Array]) -> Result<Vec<Array>> {
        let x = &inputs[0];
        let h = if x.dtype().size() < 4 { x.astype(crate::Dtype::F32)? } else { x.clone() };
        let max = h.max(&[-1], true)?;
        let shift = match self {
            // Rows with an infinite maximum have no softmax: inf - inf makes them NaN.
            Softmax::Softmax => max,
            Softmax::LogSumExp => {
                let finite = max.abs()?.less(&max.scalar_like(f64::INFINITY))?;
                Array::select(&finite, &max, &max.full_like(0.0)?)?
            }
        };
        let e = h.subtract(&shift)?.exp()?;
        let sum = e.sum(&[-1], true)?;
        let y = match self {
            Softmax::Softmax => e.divide(&sum)?,
            Softmax::LogSumExp => sum.log()?.add(&shift)?,
        };
        Ok(vec![y.astype(x.dtype())?])
    }
}

impl Softmax {
    pub(super) fn grad(self) -> Grad {
        Grad::Explicit { jvp, vjp }
    }
}

/// The Jacobian of softmax is symmetric: `y * (v - sum(y * v))`.
fn symmetric(y: &Array, v: &Array) -> Result<Array> {
    let yv = y.multiply(v)?;
    yv.subtract(&y.multiply(&yv.sum(&[-1], true)?)?)
}

fn jvp(op: &Op, inputs: &[Array], outputs: &[Array], tangents: &[Option<Array>]) -> Result<Cotangents> {
    let (Op::Softmax(o), Some(t)) = (op, &tangents[0]) else { return Ok(Cotangents::from_iter([None])) };
    let y = match o {
        Softmax::Softmax => symmetric(&outputs[0], t)?,
        Softmax::LogSumExp => inputs[0].softmax(-1)?.multiply(t)?.sum(&[-1], true)?,
    };
    Ok(Cotangents::from_iter([Some(y)]))
}

fn vjp(
    op: &Op,
    inputs: &[Array],
    outputs: &[Array],
    cotangents: &[Option<Array>],
    _: &[bool],
) -> Result<Cotangents> {
    let (Op::Softmax(o), Some(c)) = (op, &cotangents[0]) else { return Ok(Cotangents::from_iter([None])) };
    let back = match o {
        Softmax::Softmax => symmetric(&outputs[0], c)?,
        Softmax::LogSumExp => inputs[0].softmax(-1)?.multiply(c)?,
    };
    Ok(Cotangents::from_iter([Some(back)]))
}
