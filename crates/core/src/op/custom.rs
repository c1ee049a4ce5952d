//! Operations that are defined outside core.

use super::{Cotangents, Grad, Meta, Metas, Op};
use crate::eval::EvalCtx;
use crate::transforms::{batch_function, fallback_jvp, fallback_vjp};
use crate::{Array, Error, Result};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// An operation of a user's own.
pub trait CustomOp: Send + Sync {
    /// Name that errors, prints and profiles use.
    fn name(&self) -> &'static str;
    /// Shapes and types of the results, or why the arguments do not fit.
    fn infer(&self, inputs: &[&Meta]) -> Result<Metas>;
    /// Sends the work to the stream of `ctx` and puts the results into it; `None` when this operation has
    /// nothing for that device, so that [`CustomOp::fallback`] serves.
    fn eval(&self, ctx: &mut EvalCtx<'_>) -> Option<Result<()>>;
    /// The same values from other operations; also what derivatives and batching go through.
    fn fallback(&self, inputs: &[Array]) -> Option<Result<Vec<Array>>> {
        let _ = inputs;
        None
    }
    /// Tangents of the results; `None` differentiates the composite.
    fn jvp(
        &self,
        inputs: &[Array],
        outputs: &[Array],
        tangents: &[Option<Array>],
    ) -> Option<Result<Cotangents>> {
        let _ = (inputs, outputs, tangents);
        None
    }
    /// Cotangents of the arguments; `None` differentiates the composite.
    fn vjp(
        &self,
        inputs: &[Array],
        outputs: &[Array],
        cotangents: &[Option<Array>],
        wanted: &[bool],
    ) -> Option<Result<Cotangents>> {
        let _ = (inputs, outputs, cotangents, wanted);
        None
    }
    /// Results for a batch of `n`, whose axis is in front of the flagged inputs and of all results; `None`
    /// batches the composite.
    fn batch(&self, inputs: &[Array], flags: &[bool], n: usize) -> Option<Result<Vec<Array>>> {
        let _ = (inputs, flags, n);
        None
    }
}

impl CustomRef {
    pub(super) fn grad(&self) -> Grad {
        Grad::Explicit { jvp, vjp }
    }
}

fn jvp(op: &Op, inputs: &[Array], outputs: &[Array], tangents: &[Option<Array>]) -> Result<Cotangents> {
    let Op::Custom(c) = op else { return Ok(Cotangents::new()) };
    c.0.jvp(inputs, outputs, tangents).unwrap_or_else(|| fallback_jvp(|x| composite(c, x), inputs, tangents))
}

fn vjp(
    op: &Op,
    inputs: &[Array],
    outputs: &[Array],
    cotangents: &[Option<Array>],
    wanted: &[bool],
) -> Result<Cotangents> {
    let Op::Custom(c) = op else { return Ok(Cotangents::new()) };
    c.0.vjp(inputs, outputs, cotangents, wanted)
        .unwrap_or_else(|| fallback_vjp(|x| composite(c, x), inputs, cotangents, wanted))
}

pub(super) fn batched(op: &Op, inputs: &[Array], flags: &[bool], n: usize) -> Result<Vec<Array>> {
    let Op::Custom(c) = op else { return Ok(Vec::new()) };
    c.0.batch(inputs, flags, n).unwrap_or_else(|| batch_function(|x| composite(c, x), inputs, flags, n))
}

fn composite(c: &CustomRef, inputs: &[Array]) -> Result<Vec<Array>> {
    c.0.fallback(inputs).unwrap_or_else(|| {
        Err(Error::value(c.0.name(), "it has neither a rule of its own nor a composite for this transform"))
    })
}

/// A shared [`CustomOp`]; two are equal when they are the same object.
#[derive(Clone)]
pub struct CustomRef(pub Arc<dyn CustomOp>);

impl std::fmt::Debug for CustomRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}
impl PartialEq for CustomRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for CustomRef {}
impl Hash for CustomRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).cast::<()>().hash(state);
    }
}
