//! Operations along the last axis: normalisation, softmax, rotary positions.

use super::reduce::rows_of;
use super::{Args, Launch, blocks};
use crate::kernels::{File, Kernel};
use olivine_core::eval::EvalCtx;
use olivine_core::op::{Norm, Rope, Softmax};
use olivine_core::{Dtype, Error, Result};

/// How a row is divided: threads, elements of a load, loads of a thread (0: the row is read again instead).
struct Division {
    threads: u32,
    vec: usize,
    iters: usize,
}

/// Loads of a thread that still fit its registers.
const MOST_ITERS: usize = 8;

fn divide(n: usize, d: Dtype, aligned: impl Fn(u64) -> bool) -> Division {
    let mut vec = 16 / d.size();
    while vec > 1 && !(n.is_multiple_of(vec) && aligned((vec * d.size()) as u64)) {
        vec /= 2;
    }
    let loads = n.div_ceil(vec);
    for threads in [32, 128, 256, 512, 1024] {
        let iters = loads.div_ceil(threads);
        let most = if threads == 1024 { MOST_ITERS } else { 4 };
        // Registers: wide loads count more.
        if iters <= most && iters * vec <= 64 {
            return Division { threads: threads as u32, vec, iters: iters.next_power_of_two() };
        }
    }
    Division { threads: 1024, vec, iters: 0 }
}

impl Division {
    fn set(&self, k: Kernel, d: Dtype) -> Kernel {
        k.set("T", d)
            .set("THREADS", i64::from(self.threads))
            .set("VEC", self.vec as i64)
            .set("ITERS", self.iters as i64)
    }

    fn run(&self, l: &Launch<'_>, k: Kernel, rows: usize, args: Args) -> Result<()> {
        let per_block = if self.threads == 32 { 8 } else { 1 };
        l.run(l.kernel(k)?, [blocks(l, rows, per_block)?, 1, 1], [self.threads, per_block], 0, args)
    }
}

pub(super) fn softmax(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, op: Softmax) -> Result<()> {
    let (x, d) = (l.dense(&ctx.inputs[0])?, ctx.outs[0].dtype);
    let (rows, n) = rows_of(ctx.inputs[0].view.layout.shape());
    let out = ctx.alloc(0)?.ptr;
    let v = divide(n, d, |bytes| x.is_multiple_of(bytes));
    let entry = match op {
        Softmax::Softmax => "softmax",
        Softmax::LogSumExp => "logsumexp",
    };
    let mut args = Args::default();
    args.u64(x).u64(out).size(n).size(rows);
    v.run(l, v.set(Kernel::new(File::Rows, entry), d), rows, args)
}

pub(super) fn norm(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, op: Norm) -> Result<()> {
    let (x, d) = (l.dense(&ctx.inputs[0])?, ctx.outs[0].dtype);
    let (rows, n) = rows_of(ctx.inputs[0].view.layout.shape());
    let (entry, eps, weight, bias) = match op {
        Norm::Rms { eps } => ("rms_norm", eps, ctx.inputs.len() > 1, false),
        Norm::Layer { eps, weight, bias } => ("layer_norm", eps, weight, bias),
    };
    let given = |l: &mut Launch<'_>, has: bool, k: usize| -> Result<(u64, Dtype)> {
        if has { Ok((l.dense(&ctx.inputs[k])?, ctx.inputs[k].view.dtype)) } else { Ok((0, Dtype::F32)) }
    };
    let w = given(l, weight, 1)?;
    let b = given(l, bias, 1 + usize::from(weight))?;
    let out = ctx.alloc(0)?.ptr;
    let v = divide(n, d, |bytes| x.is_multiple_of(bytes));
    let k = v
        .set(Kernel::new(File::Rows, entry), d)
        .set("HAS_W", weight)
        .set("HAS_B", bias)
        .set("W", w.1)
        .set("B", b.1);
    let mut args = Args::default();
    args.u64(x).u64(out).size(n).size(rows).f32(eps).u64(w.0).u64(b.0);
    v.run(l, k, rows, args)
}

pub(super) fn rope(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, op: Rope) -> Result<()> {
    let layout = ctx.inputs[0].view.layout.clone();
    let (shape, d) = (layout.shape().clone(), ctx.outs[0].dtype);
    let rank = shape.rank();
    let (len, dim) = (shape[rank - 2], shape[rank - 1]);
    let batch = if rank > 2 { shape[0] } else { 1 };
    let heads: usize = shape[..rank - 2].iter().skip(1).product();
    // Axes between batch and length count as heads; more than one has to lie dense.
    let s = layout.strides();
    let in_place = (2..=4).contains(&rank) && (s[rank - 1] == 1 || dim == 1);
    let (x, strides) = if in_place {
        let at = ctx.inputs[0].mem.ptr + (layout.offset() * d.size()) as u64;
        match rank {
            2 => (at, [0, 0, s[0]]),
            3 => (at, [s[0], 0, s[1]]),
            _ => (at, [s[0], s[1], s[2]]),
        }
    } else {
        let (row, head) = (dim as isize, (len * dim) as isize);
        (l.dense(&ctx.inputs[0])?, [heads as isize * head, head, row])
    };
    let offsets = l.dense(&ctx.inputs[1])?;
    let per_batch = ctx.inputs[1].view.layout.elements() > 1;
    let frequencies = if ctx.inputs.len() > 2 { l.dense(&ctx.inputs[2])? } else { 0 };
    let out = ctx.alloc(0)?.ptr;
    let shared = op.dims * size_of::<f32>();
    if batch > 65_535 || shared > 48 << 10 {
        let msg = format!("a batch of {batch} and {} rotated features are more than a launch takes", op.dims);
        return Err(Error::Unsupported { op: l.op, device: l.gpu.device, msg });
    }
    let k = Kernel::new(File::Rope, "rope")
        .set("T", d)
        .set("TRADITIONAL", op.traditional)
        .set("EXPLICIT", ctx.inputs.len() > 2);
    let mut args = Args::default();
    args.u64(x).i64(strides[0] as i64).i64(strides[1] as i64).i64(strides[2] as i64).u64(out);
    args.size(heads).size(len).size(dim).size(op.dims).u64(offsets).u64(u64::from(per_batch));
    args.u64(frequencies).f32(op.base).f32(op.scale);
    l.run(l.kernel(k)?, [blocks(l, len, 1)?, batch as u32, 1], [256, 1], shared as u32, args)
}
