//! From operations of core to kernels: one arm per family, none left out.
#![deny(clippy::wildcard_enum_match_arm)]

mod arrays;
mod attention;
mod create;
pub(crate) mod elementwise;
mod index;
pub(crate) mod matmul;
mod quant;
mod reduce;
mod rows;

use crate::api::Function;
use crate::codegen::{knows, knows_all};
use crate::device::Gpu;
use crate::graph::Call;
use crate::kernels::Kernel;
use crate::stream::GpuStream;
use elementwise::Operand;
use olivine_core::backend::{Input, Limits, Support};
use olivine_core::buffer::Buffer;
use olivine_core::eval::EvalCtx;
use olivine_core::event::Event;
use olivine_core::expr::{Expr, ScalarOp};
use olivine_core::op::{Create, Index, Matmul, Random, ReduceKind, ScanKind, ScatterMode, Update};
use olivine_core::{Dtype, Error, Meta, Op, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// What fusion must respect: all parameters fit into those that every driver takes.
pub const LIMITS: Limits = Limits { max_inputs: 24, max_insts: 96 };

/// How an operation on arguments of these shapes and types runs.
pub fn supports(op: &Op, inputs: &[Meta]) -> Support {
    let complex = inputs.iter().any(|m| m.dtype == Dtype::C64);
    let host_unless = |native| if native { Support::Native } else { Support::Host };
    match op {
        // Rows are computed in `f32`.
        Op::Norm(_) | Op::Softmax(_) if inputs.iter().any(|m| m.dtype == Dtype::F64) => Support::Fallback,
        Op::Rope(_) | Op::Attention(_) if inputs.iter().any(|m| m.dtype == Dtype::F64) => Support::Fallback,
        Op::Attention(o) => attention::supports(o, inputs),
        // Whole numbers have no dense product here.
        Op::Matmul(Matmul::Product) => host_unless(inputs.iter().all(|m| m.dtype.is_inexact())),
        Op::Matmul(Matmul::Add { .. } | Matmul::Gather | Matmul::Segmented) => Support::Fallback,
        Op::Quant(o) => quant::supports(o, inputs),
        Op::Custom(_) => Support::Fallback,
        // Complex numbers have few elementary functions here, and no order.
        Op::Unary(u) => host_unless(inputs.iter().all(|m| knows(ScalarOp::Un(*u), m.dtype))),
        Op::Binary(b) => host_unless(inputs.iter().all(|m| knows(ScalarOp::Bin(*b), m.dtype))),
        Op::Fused(e) if !knows_all(e) => {
            if e.operations() > 1 {
                Support::Fallback
            } else {
                Support::Host
            }
        }
        Op::Sort(_) | Op::Arg(_) => host_unless(!complex),
        Op::Reduce(o) => host_unless(!complex || !matches!(o.kind, ReduceKind::Max | ReduceKind::Min)),
        Op::Scan(o) => host_unless(!complex || matches!(o.kind, ScanKind::Sum | ScanKind::Prod)),
        Op::Index(Index::SearchSorted { .. }) => Support::Fallback,
        Op::Index(Index::Scatter { mode, .. } | Index::PutAlong { mode, .. }) => {
            host_unless(!complex || !matches!(mode, ScatterMode::Max | ScatterMode::Min))
        }
        // Sources are read on the host; these have no kernels here.
        Op::Create(Create::Load(_)) | Op::Conv(_) | Op::Fft(_) | Op::Hadamard(_) | Op::Linalg(_) => {
            Support::Host
        }
        Op::Leaf
        | Op::Placeholder(_)
        | Op::Create(Create::Full { .. } | Create::Arange { .. })
        | Op::Select
        | Op::Cast(_)
        | Op::Fused(_)
        | Op::View(_)
        | Op::Update(_)
        | Op::Index(Index::Gather { .. } | Index::TakeAlong { .. })
        | Op::Random(_)
        | Op::Norm(_)
        | Op::Softmax(_)
        | Op::Rope(_) => Support::Native,
    }
}

/// Sends the kernels of `ctx.op` to a stream and puts the results into `ctx`.
pub(crate) fn launch(ctx: &mut EvalCtx<'_>, gpu: &Gpu, stream: &Arc<GpuStream>) -> Result<()> {
    let op = ctx.op;
    let mut l = Launch { gpu, stream, op: op.name(), temporary: SmallVec::new(), counted: false };
    match op {
        Op::Create(Create::Arange { start, step, len }) => create::arange(ctx, &l, *start, *step, *len)?,
        Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast(_) => {
            let types: SmallVec<[Dtype; 3]> = ctx.inputs.iter().map(Input::dtype).collect();
            let Some(scalar) = Expr::scalar_op(op) else {
                return l.unsupported("it is not elementwise");
            };
            expression(ctx, &l, &Expr::single(scalar, &types, ctx.outs[0].dtype))?;
        }
        Op::Fused(expr) => expression(ctx, &l, expr)?,
        Op::Matmul(Matmul::Product) => matmul::matmul(ctx, &mut l)?,
        Op::Matmul(Matmul::Add { .. } | Matmul::Gather | Matmul::Segmented) => {
            return l.unsupported("core replaces it by its composite");
        }
        Op::Quant(o) => quant::quant(ctx, &mut l, *o)?,
        Op::Attention(o) => attention::attention(ctx, &mut l, *o)?,
        Op::Reduce(o) => reduce::reduce(ctx, &mut l, *o)?,
        Op::Arg(o) => reduce::arg(ctx, &mut l, *o)?,
        Op::Scan(o) => arrays::scan(ctx, &mut l, *o)?,
        Op::Sort(o) => arrays::sort(ctx, &mut l, *o)?,
        Op::Update(Update::Concat { axis }) => arrays::concat(ctx, &l, *axis)?,
        Op::Update(Update::Slice { start, step }) => arrays::slice_update(ctx, &l, start, step)?,
        Op::Index(o) => index::index(ctx, &mut l, o)?,
        Op::Random(Random::Bits { width, .. }) => create::bits(ctx, &l, *width)?,
        Op::Norm(o) => rows::norm(ctx, &mut l, *o)?,
        Op::Softmax(o) => rows::softmax(ctx, &mut l, *o)?,
        Op::Rope(o) => rows::rope(ctx, &mut l, *o)?,
        Op::Leaf | Op::Placeholder(_) | Op::Create(Create::Full { .. } | Create::Load(_)) | Op::View(_) => {
            return l.unsupported("core evaluates it without a kernel");
        }
        Op::Conv(_) | Op::Fft(_) | Op::Hadamard(_) | Op::Linalg(_) => {
            return l.unsupported("core computes it on the CPU");
        }
        Op::Custom(_) => return l.unsupported("it has no kernel of its own for this device"),
    }
    l.finish(ctx);
    Ok(())
}

fn expression(ctx: &mut EvalCtx<'_>, l: &Launch<'_>, expr: &Expr) -> Result<()> {
    let mut operands: SmallVec<[Operand; 6]> = ctx.inputs.iter().map(operand).collect();
    for i in 0..ctx.outs.len() {
        // Only the first result may take over an argument: it is read before anything is written there.
        let mem = if i == 0 { ctx.alloc_or_reuse(0)?.0 } else { ctx.alloc(i)? };
        let meta = &ctx.outs[i];
        operands.push(Operand::dense(mem.ptr, &meta.shape, meta.dtype));
    }
    let shape = ctx.outs[0].shape.clone();
    elementwise::run(l, expr, &shape, &operands)
}

/// An argument as it lies.
fn operand(input: &Input) -> Operand {
    Operand::new(input.mem.ptr, &input.view.layout, input.view.dtype)
}

/// Blocks for a number of threads.
fn blocks(l: &Launch<'_>, threads: usize, block: u32) -> Result<u32> {
    let n = threads.div_ceil(block as usize);
    if n > i32::MAX as usize {
        return Err(Error::shape(l.op, format!("{threads} threads are more than a launch can have")));
    }
    Ok(n as u32)
}

/// Parameters of a kernel, each at a multiple of eight bytes.
#[derive(Default)]
pub(crate) struct Args {
    words: SmallVec<[u64; 64]>,
    starts: SmallVec<[usize; 16]>,
}

impl Args {
    /// A structure of words.
    pub(crate) fn words(&mut self, words: &[u64]) -> &mut Self {
        self.starts.push(self.words.len());
        self.words.extend_from_slice(words);
        self
    }
    /// An address or a count.
    pub(crate) fn u64(&mut self, v: u64) -> &mut Self {
        self.words(&[v])
    }
    /// A count.
    pub(crate) fn size(&mut self, v: usize) -> &mut Self {
        self.words(&[v as u64])
    }
    /// A signed number.
    pub(crate) fn i64(&mut self, v: i64) -> &mut Self {
        self.words(&[v as u64])
    }
    /// A float, given by its bits.
    pub(crate) fn f32(&mut self, bits: u32) -> &mut Self {
        self.words(&[u64::from(bits)])
    }
    /// Axes, as `tools.cuh` lays them out.
    pub(crate) fn axes(&mut self, sizes: &[usize], strides: &[isize]) -> &mut Self {
        let mut w = [0u64; 1 + 2 * MAX_AXES];
        w[0] = sizes.len() as u64;
        for (i, (&n, &s)) in sizes.iter().zip(strides).enumerate() {
            w[1 + i] = n as u64;
            w[1 + MAX_AXES + i] = s as u64;
        }
        self.words(&w)
    }
}

/// Most axes that a kernel walks, as `tools.cuh` says.
pub(crate) const MAX_AXES: usize = 8;

/// Work that is being sent for one operation. Counts as one piece of the stream when it ends, well or not.
pub(crate) struct Launch<'g> {
    pub gpu: &'g Gpu,
    pub stream: &'g Arc<GpuStream>,
    pub op: &'static str,
    temporary: SmallVec<[Arc<Buffer>; 2]>,
    counted: bool,
}

impl Launch<'_> {
    /// Memory that only this work uses.
    pub(crate) fn temporary(&mut self, bytes: usize) -> Result<u64> {
        let (buffer, mem) = Buffer::alloc(self.op, self.stream.stream, bytes)?;
        self.temporary.push(buffer);
        Ok(mem.ptr)
    }

    /// An argument lying row-major: itself where it does, else a copy.
    pub(crate) fn dense(&mut self, input: &Input) -> Result<u64> {
        let o = operand(input);
        if input.view.layout.is_contiguous() {
            return Ok(o.at);
        }
        let shape = input.view.layout.shape().clone();
        let to = self.temporary(shape.elements() * o.dtype.size())?;
        self.copy(&o, to, &shape)?;
        Ok(to)
    }

    /// Copies elements to row-major memory.
    pub(crate) fn copy(&self, from: &Operand, to: u64, shape: &[usize]) -> Result<()> {
        let target = Operand::dense(to, shape, from.dtype);
        elementwise::run(self, &Expr::identity(from.dtype), shape, &[from.clone(), target])
    }

    /// A kernel, compiled on first need.
    pub(crate) fn kernel(&self, kernel: Kernel) -> Result<Function> {
        self.gpu.kernel(kernel)
    }

    /// Sends a kernel.
    pub(crate) fn run(
        &self,
        f: Function,
        grid: [u32; 3],
        block: [u32; 2],
        shared: u32,
        args: Args,
    ) -> Result<()> {
        let call = Call { op: self.op, function: f, grid, block, shared };
        // SAFETY: the families of this module pass the parameters that their kernels take, and addresses of
        // arguments, results and temporary memory that core keeps until this piece of work is done.
        unsafe { self.stream.launch(call, &args.words, &args.starts) }
    }

    /// The number that a kernel reports bad indices under, and where.
    pub(crate) fn checked(&self) -> Result<(u64, u64)> {
        let seq = self.stream.next();
        self.stream.checks(seq, self.op)?;
        Ok((self.stream.fault_address(), seq))
    }

    /// Fills memory with a byte.
    pub(crate) fn fill(&self, at: u64, byte: u8, bytes: usize) -> Result<()> {
        // SAFETY: results or temporary memory of this work.
        unsafe { crate::api::fill(self.op, self.gpu.device, at, byte, bytes, self.stream.raw()?) }
    }

    pub(crate) fn unsupported(&self, msg: &str) -> Result<()> {
        Err(Error::Unsupported { op: self.op, device: self.gpu.device, msg: msg.into() })
    }

    fn finish(mut self, ctx: &mut EvalCtx<'_>) {
        self.counted = true;
        ctx.sent(Event::at(self.stream.clone(), self.stream.sent()));
    }
}

impl Drop for Launch<'_> {
    fn drop(&mut self) {
        // Before temporary memory goes back: it may be used again after the last piece of work.
        if !self.counted {
            self.stream.sent();
        }
    }
}
