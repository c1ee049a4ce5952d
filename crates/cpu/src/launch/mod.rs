//! From operations of core to kernels: one arm per family, none left out.
//!
//! A launch decides on the calling thread (which memory, which kernel), and sends a closure to the stream's
//! queue. Kernels reach memory only through the addresses that the context gives, so any device whose memory
//! is the host's can run them ([`launch`] with a queue of its own).
#![deny(clippy::wildcard_enum_match_arm)]

mod args;
mod arrays;
mod attention;
mod create;
mod dense;
mod matmul;
mod quant;
mod rows;

use crate::elementwise;
use olivine_core::backend::Support;
use olivine_core::eval::EvalCtx;
use olivine_core::op::Create;
use olivine_core::queue::HostQueue;
use olivine_core::{Dtype, Error, Meta, Op, Result};
use std::sync::Arc;

/// Whether there is a kernel for an operation on arguments of these shapes and types.
pub fn supports(op: &Op, inputs: &[Meta]) -> Support {
    match op {
        // Rows are computed in `f32`.
        Op::Norm(_) | Op::Softmax(_) | Op::Rope(_) | Op::Attention(_)
            if inputs.iter().any(|m| m.dtype == Dtype::F64) =>
        {
            Support::Fallback
        }
        Op::Custom(_) => Support::Fallback,
        Op::Leaf
        | Op::Placeholder(_)
        | Op::Create(_)
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Select
        | Op::Cast(_)
        | Op::Fused(_)
        | Op::Reduce(_)
        | Op::Arg(_)
        | Op::Scan(_)
        | Op::Sort(_)
        | Op::View(_)
        | Op::Update(_)
        | Op::Index(_)
        | Op::Matmul(_)
        | Op::Conv(_)
        | Op::Fft(_)
        | Op::Hadamard(_)
        | Op::Linalg(_)
        | Op::Random(_)
        | Op::Quant(_)
        | Op::Norm(_)
        | Op::Softmax(_)
        | Op::Rope(_)
        | Op::Attention(_) => Support::Native,
    }
}

/// Sends the kernel of `ctx.op` to `queue`, whose memory is that of the host, and puts the results into
/// `ctx`.
///
/// # Errors
/// `OutOfMemory` for the results; `Unsupported` for what no kernel exists for.
pub fn launch(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>) -> Result<()> {
    let op = ctx.op;
    match op {
        Op::Create(Create::Arange { start, step, len }) => create::arange(ctx, queue, *start, *step, *len),
        Op::Create(Create::Load(source)) => create::load(ctx, queue, source.clone()),
        Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast(_) => elementwise::launch_single(ctx, queue),
        Op::Fused(expr) => elementwise::launch(ctx, queue, expr),
        Op::Matmul(o) => matmul::matmul(ctx, queue, *o),
        Op::Conv(o) => dense::conv(ctx, queue, o),
        Op::Fft(o) => dense::fft(ctx, queue, *o),
        Op::Hadamard(o) => dense::hadamard(ctx, queue, *o),
        Op::Linalg(o) => dense::linalg(ctx, queue, *o),
        Op::Quant(o) => quant::quant(ctx, queue, *o),
        Op::Attention(o) => attention::attention(ctx, queue, *o),
        Op::Reduce(o) => arrays::reduce(ctx, queue, *o),
        Op::Arg(o) => arrays::arg(ctx, queue, *o),
        Op::Scan(o) => arrays::scan(ctx, queue, *o),
        Op::Sort(o) => arrays::sort(ctx, queue, *o),
        Op::Update(o) => arrays::update(ctx, queue, o),
        Op::Index(o) => arrays::index(ctx, queue, o),
        Op::Random(o) => arrays::random(ctx, queue, o),
        Op::Norm(o) => rows::norm(ctx, queue, *o),
        Op::Softmax(o) => rows::softmax(ctx, queue, *o),
        Op::Rope(o) => rows::rope(ctx, queue, *o),
        Op::Leaf | Op::Placeholder(_) | Op::Create(Create::Full { .. }) | Op::View(_) => {
            unsupported(ctx, "core evaluates it without a kernel")
        }
        Op::Custom(_) => unsupported(ctx, "it has no kernel of its own for this device"),
    }
}

fn unsupported(ctx: &EvalCtx<'_>, msg: &str) -> Result<()> {
    Err(Error::Unsupported { op: ctx.op.name(), device: ctx.stream.device, msg: msg.into() })
}
