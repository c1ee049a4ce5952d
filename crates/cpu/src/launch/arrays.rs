//! Reductions, scans, sorts, indexing, joining and random bits: kernels that take strided operands.

use super::args::Arg;
use crate::elementwise::copy_dense;
use crate::kernels::operand::Operand;
use crate::kernels::{arg, index, random, reduce, scan, sort, update};
use crate::raw;
use olivine_core::buffer::DevMem;
use olivine_core::eval::EvalCtx;
use olivine_core::op::{Arg as ArgOp, Index, Random, Reduce, Scan, Sort, Update};
use olivine_core::queue::HostQueue;
use olivine_core::{Result, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

type Args = SmallVec<[Arg; 3]>;

impl Arg {
    /// The argument as kernels take it.
    ///
    /// # Safety
    /// Called in a task of the launch.
    unsafe fn operand(&self) -> Operand<'_> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { raw::slice(self.mem, 0, self.mem.bytes) };
        Operand { bytes, layout: &self.layout, dtype: self.dtype }
    }
}

fn args(ctx: &EvalCtx<'_>) -> Args {
    ctx.inputs.iter().map(Arg::of).collect()
}

/// Sends a kernel that turns operands into one result.
fn send(
    ctx: &mut EvalCtx<'_>,
    queue: &Arc<HostQueue>,
    kernel: impl FnOnce(&[Operand<'_>], &mut [u8]) -> Result<()> + Send + 'static,
) -> Result<()> {
    let args = args(ctx);
    let (out, bytes) = (ctx.alloc(0)?, ctx.outs[0].bytes());
    let sent = queue.send(ctx.op.name(), move || {
        // SAFETY: the task of this launch; the result has this many bytes.
        unsafe {
            let operands: SmallVec<[Operand<'_>; 3]> = args.iter().map(|a| a.operand()).collect();
            kernel(&operands, raw::slice_mut(out, bytes))
        }
    })?;
    ctx.sent(sent);
    Ok(())
}

/// Sends a kernel that changes part of its first operand. The result takes over that operand's memory when
/// nobody else holds it, else it starts as a copy.
fn send_in_place(
    ctx: &mut EvalCtx<'_>,
    queue: &Arc<HostQueue>,
    kernel: impl FnOnce(&Shape, &[Operand<'_>], &mut [u8]) -> Result<()> + Send + 'static,
) -> Result<()> {
    let bytes = ctx.outs[0].bytes();
    let x = Arg::of(&ctx.inputs[0]);
    let reusable = ctx.inputs[0].unique && x.layout.is_contiguous() && x.layout.offset() == 0;
    let out: DevMem = if reusable {
        ctx.reuse(0, 0)
    } else {
        let out = ctx.alloc(0)?;
        copy_dense(queue, ctx.op.name(), x.mem, &x.layout, x.dtype.size(), out)?;
        out
    };
    let rest: Args = ctx.inputs[1..].iter().map(Arg::of).collect();
    let sent = queue.send(ctx.op.name(), move || {
        // SAFETY: the task of this launch. Where the result is the first operand's memory, no other argument
        // shares it: core says that nobody else holds that buffer.
        unsafe {
            let operands: SmallVec<[Operand<'_>; 3]> = rest.iter().map(|a| a.operand()).collect();
            kernel(x.layout.shape(), &operands, raw::slice_mut(out, bytes))
        }
    })?;
    ctx.sent(sent);
    Ok(())
}

pub(super) fn reduce(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: Reduce) -> Result<()> {
    send(ctx, queue, move |x, out| reduce::run(op.kind, op.axes, &x[0], out))
}

pub(super) fn arg(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: ArgOp) -> Result<()> {
    send(ctx, queue, move |x, out| arg::run(op.kind, op.axis, &x[0], out))
}

pub(super) fn scan(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: Scan) -> Result<()> {
    send(ctx, queue, move |x, out| scan::run(&op, &x[0], out))
}

pub(super) fn sort(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: Sort) -> Result<()> {
    send(ctx, queue, move |x, out| sort::run(&op, &x[0], out))
}

pub(super) fn random(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: &Random) -> Result<()> {
    let Random::Bits { width, .. } = *op;
    send(ctx, queue, move |x, out| random::bits(width, &x[0], out))
}

pub(super) fn update(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: &Update) -> Result<()> {
    match op {
        Update::Concat { axis } => {
            let axis = *axis;
            send(ctx, queue, move |x, out| update::concat(axis, x, out))
        }
        Update::Slice { start, step } => {
            let (start, step) = (start.clone(), step.clone());
            send_in_place(ctx, queue, move |shape, x, out| {
                update::slice_update(shape, &start, &step, &x[0], out)
            })
        }
    }
}

pub(super) fn index(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: &Index) -> Result<()> {
    match op {
        Index::Gather { axes, sizes } => {
            let (axes, sizes) = (axes.clone(), sizes.clone());
            send(ctx, queue, move |x, out| index::gather(&axes, &sizes, &x[0], &x[1..], out))
        }
        Index::Scatter { axes, mode } => {
            let (axes, mode) = (axes.clone(), *mode);
            send_in_place(ctx, queue, move |shape, x, out| {
                index::scatter(&axes, mode, shape, &x[0], &x[1..], out)
            })
        }
        Index::TakeAlong { axis } => {
            let axis = *axis;
            send(ctx, queue, move |x, out| index::take_along(axis, &x[0], &x[1], out))
        }
        Index::SearchSorted { right } => {
            let right = *right;
            send(ctx, queue, move |x, out| index::search_sorted(right, &x[0], &x[1], out))
        }
        Index::PutAlong { axis, mode } => {
            let (axis, mode) = (*axis, *mode);
            send_in_place(ctx, queue, move |shape, x, out| {
                index::put_along(axis, mode, shape, &x[0], &x[1], out)
            })
        }
    }
}
