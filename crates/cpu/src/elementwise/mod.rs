//! Elementwise computation: an interpreter of [`Expr`] over tiles that stay in the first-level cache.
//!
//! An expression becomes a [`Program`](program::Program): a list of loops over a tile, chosen once per
//! launch, with the places that they read and write. A tile passes through all loops before the next one is
//! begun, so that memory is read and written once however long the expression is. Every instruction rounds
//! to its own type, so the result does not depend on what was fused.

mod copy;
mod program;
mod scalar;
mod strided;
mod table;

use crate::raw::Ptr;
use olivine_core::eval::EvalCtx;
use olivine_core::expr::Expr;
use olivine_core::queue::HostQueue;
use olivine_core::{Dtype, Error, Result};
use program::Program;
use smallvec::SmallVec;
use std::sync::Arc;
use strided::Strided;

/// Sends the only instruction of an elementwise operation.
pub(crate) fn launch_single(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>) -> Result<()> {
    let Some(op) = Expr::scalar_op(ctx.op) else {
        return Err(Error::value(ctx.op.name(), "is not an elementwise operation"));
    };
    let inputs: SmallVec<[Dtype; 4]> = ctx.inputs.iter().map(|i| i.dtype()).collect();
    let expr = Expr::single(op, &inputs, ctx.outs[0].dtype);
    launch(ctx, queue, &expr)
}

/// Sends an expression.
pub(crate) fn launch(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, expr: &Expr) -> Result<()> {
    let n = ctx.outs[0].elements();
    if let ([], [0]) = (&expr.insts[..], &expr.outputs[..]) {
        let input = &ctx.inputs[0];
        let (src, layout) = (Ptr::of(input.mem), Strided::of(&input.view.layout));
        let size = input.dtype().size();
        let dst = Ptr::of(ctx.alloc(0)?);
        let sent = queue.send(ctx.op.name(), move || {
            // SAFETY: the task of this launch; the layout lies inside the argument's buffer and the result
            // holds as many elements.
            unsafe { copy::copy(src, &layout, size, dst, n) };
            Ok(())
        })?;
        ctx.sent(sent);
        return Ok(());
    }
    let sources: SmallVec<[(Ptr, Strided); 4]> =
        ctx.inputs.iter().map(|i| (Ptr::of(i.mem), Strided::of(&i.view.layout))).collect();
    let mut results: SmallVec<[Ptr; 1]> = SmallVec::new();
    let (first, donor) = ctx.alloc_or_reuse(0)?;
    results.push(Ptr::of(first));
    // Only the first result takes over memory: an argument has only one to give.
    for i in 1..ctx.outs.len() {
        results.push(Ptr::of(ctx.alloc(i)?));
    }
    let program = Program::new(ctx.op.name(), expr, sources, results, donor.is_some())?;
    let sent = queue.send(ctx.op.name(), move || {
        // SAFETY: the task of this launch: arguments are complete, results are nobody else's, and all of
        // them hold `n` elements.
        unsafe { program.run(n) };
        Ok(())
    })?;
    ctx.sent(sent);
    Ok(())
}
