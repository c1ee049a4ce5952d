//! Elementwise computation: an interpreter of [`Expr`] over tiles that stay in the first-level cache.
//!
//! An expression becomes a [`Program`](program::Program): a list of loops over a tile, chosen once per
//! launch, with the places that they read and write. A tile passes through all loops before the next one is
//! begun, so that memory is read and written once however long the expression is. Every instruction rounds
//! to its own type, so the result does not depend on what was fused.

mod complex;
mod convert;
mod copy;
mod loops;
mod program;
mod scalar;
mod strided;
mod table;
mod wide;

use crate::raw::Ptr;
use copy::Transposed;
use olivine_core::buffer::{Buffer, DevMem};
use olivine_core::eval::EvalCtx;
use olivine_core::event::Event;
use olivine_core::expr::Expr;
use olivine_core::queue::HostQueue;
use olivine_core::{Dtype, Error, Layout, Result};
use program::Program;
use smallvec::SmallVec;
use std::sync::Arc;
use strided::Strided;

/// Elements from which an argument that is stored by columns is transposed as a whole first.
const TRANSPOSE: usize = 1 << 14;

/// Sends a row-major copy of the elements of a layout, of `size` bytes each, to `dst`.
pub(crate) fn copy_dense(
    queue: &Arc<HostQueue>,
    op: &'static str,
    src: DevMem,
    layout: &Layout,
    size: usize,
    dst: DevMem,
) -> Result<Event> {
    let n = layout.elements();
    let (src, layout, dst) = (Ptr::of(src), Strided::of(layout), Ptr::of(dst));
    queue.send(op, move || {
        if n > 0 {
            // SAFETY: a task of the launch that the memory belongs to; the layout lies inside its buffer, and
            // `dst` holds as many elements.
            unsafe { copy::copy(src, &layout, size, dst, n) };
        }
        Ok(())
    })
}

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
        let (src, layout, size) =
            (ctx.inputs[0].mem, ctx.inputs[0].view.layout.clone(), ctx.inputs[0].dtype().size());
        let dst = ctx.alloc(0)?;
        let sent = copy_dense(queue, ctx.op.name(), src, &layout, size, dst)?;
        ctx.sent(sent);
        return Ok(());
    }
    let mut copies: SmallVec<[Arc<Buffer>; 1]> = SmallVec::new();
    let mut sources: SmallVec<[(Ptr, Strided); 4]> = SmallVec::new();
    for i in &ctx.inputs {
        let (mut mem, mut layout) = (i.mem, Strided::of(&i.view.layout));
        if n >= TRANSPOSE && Transposed::of(&layout).is_some() {
            // Collecting tiles from columns would touch a line of memory for every element.
            let size = i.dtype().size();
            let (buffer, dense) = Buffer::alloc(ctx.op.name(), ctx.stream, n * size)?;
            copies.push(buffer);
            copy_dense(queue, ctx.op.name(), mem, &i.view.layout, size, dense)?;
            (mem, layout) = (dense, Strided::of(&Layout::contiguous(i.view.layout.shape().clone())));
        }
        sources.push((Ptr::of(mem), layout));
    }
    let mut results: SmallVec<[Ptr; 1]> = SmallVec::new();
    let mut donors: SmallVec<[Option<usize>; 1]> = SmallVec::new();
    for i in 0..ctx.outs.len() {
        // An argument has its memory to give once, and not when it is a result itself.
        let free = |k: usize| !donors.contains(&Some(k)) && !expr.outputs.contains(&(k as u16));
        let (memory, donor) = ctx.alloc_or_reuse_of(i, free)?;
        results.push(Ptr::of(memory));
        donors.push(donor);
    }
    let program = Program::new(ctx.op.name(), expr, sources, results, &donors, n)?;
    let sent = queue.send(ctx.op.name(), move || {
        // SAFETY: the task of this launch: arguments are complete, results are nobody else's, and all of
        // them hold `n` elements.
        unsafe { program.run(n) };
        Ok(())
    })?;
    ctx.sent(sent);
    Ok(())
}
