//! Transforms of functions: derivatives and batches.
//!
//! A transform runs the user's function once on marked arguments and walks the graph that came of it with
//! one rule per operation (see [`Grad`](crate::op::Grad) and [`Batch`](crate::op::Batch)). The rules emit
//! ordinary operations, so transforms of transforms work to any depth. Nothing here recurses over the graph.
//!
//! Values may be read inside [`vjp`], [`jvp`] and [`grad`]; inside [`vmap`] there are none, and reading one
//! is an error that names the transform. An error or a panic in the function leaves no trace behind.

mod compile;
mod custom;
mod jvp;
mod rules;
mod tape;
mod tree;
mod vjp;
mod vmap;

pub use compile::{Compile, Compiled, compile, compile_step, compile_step_with, compile_with, set_compile};
pub use custom::{CustomFunction, checkpoint, custom_function};
pub use jvp::{jvp, jvp_arrays};
pub use tree::{Signature, Tree};
pub use vjp::{Loss, grad, value_and_grad, vjp, vjp_arrays};
pub use vmap::{Axes, Axis, vmap, vmap_arrays};

pub(crate) use rules::{prefixed, unrolled};
pub(crate) use tape::Tape;
pub(crate) use tree::{leaves, rebuild};
pub(crate) use vmap::batch_function;

use crate::op::Cotangents;
use crate::{Array, Result};

/// Derivatives of a composite, backward.
pub(crate) fn fallback_vjp(
    f: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    inputs: &[Array],
    cotangents: &[Option<Array>],
    wanted: &[bool],
) -> Result<Cotangents> {
    let (_, pulled) = vjp::pull(f, inputs, wanted, |_| Ok(cotangents.to_vec()))?;
    Ok(pulled.into_iter().collect())
}

/// Derivatives of a composite, forward.
pub(crate) fn fallback_jvp(
    f: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    inputs: &[Array],
    tangents: &[Option<Array>],
) -> Result<Cotangents> {
    let (_, pushed) = jvp::push(f, inputs, tangents)?;
    Ok(pushed.into_iter().collect())
}
