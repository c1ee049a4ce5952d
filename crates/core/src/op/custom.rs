//! Operations that are defined outside core.

use super::{Meta, Metas};
use crate::eval::EvalCtx;
use crate::{Array, Result};
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
