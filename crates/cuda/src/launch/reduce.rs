//! Reductions and the places of extremes.

use super::elementwise::{Operand, merge};
use super::{Args, Launch, MAX_AXES, operand};
use crate::kernels::{File, Kernel, Value};
use olivine_core::eval::EvalCtx;
use olivine_core::op::{Arg, ArgKind, Reduce, ReduceKind};
use olivine_core::shape::AxisSet;
use olivine_core::{Dtype, Result, Shape};
use smallvec::SmallVec;

/// Elements of a kernel that walks some axes for every place of the others.
pub(super) struct Split {
    pub at: u64,
    /// Axes that stay, merged: sizes and strides.
    pub kept: (SmallVec<[usize; 6]>, SmallVec<[isize; 6]>),
    /// Axes that are walked, the densest last.
    pub along: (SmallVec<[usize; 6]>, SmallVec<[isize; 6]>),
}

impl Split {
    pub(super) fn outs(&self) -> usize {
        self.kept.0.iter().product()
    }
    pub(super) fn n(&self) -> usize {
        self.along.0.iter().product()
    }
}

/// Divides the axes of argument `k`; copies it first when too many are left.
pub(super) fn split(ctx: &EvalCtx<'_>, l: &mut Launch<'_>, k: usize, axes: AxisSet) -> Result<Split> {
    let (mut o, shape) = (operand(&ctx.inputs[k]), ctx.inputs[k].view.layout.shape().clone());
    let parts = |o: &Operand| {
        let pick = |walked: bool| {
            let mut list: SmallVec<[(usize, isize); 6]> = (0..shape.rank())
                .filter(|&a| axes.contains(a) == walked)
                .map(|a| (shape[a], o.strides[a]))
                .collect();
            if walked {
                // The order of what is combined is free.
                list.sort_by_key(|&(_, s)| std::cmp::Reverse(s.unsigned_abs()));
            }
            let (sizes, strides): (SmallVec<[usize; 6]>, SmallVec<[isize; 6]>) = list.into_iter().unzip();
            let mut m = merge(&sizes, &[&strides]);
            (m.sizes, m.strides.pop().unwrap_or_default())
        };
        Split { at: o.at, kept: pick(false), along: pick(true) }
    };
    let mut s = parts(&o);
    if s.kept.0.len() > MAX_AXES || s.along.0.len() > MAX_AXES {
        let at = l.dense(&ctx.inputs[k])?;
        o = Operand::dense(at, &shape, o.dtype);
        s = parts(&o);
    }
    Ok(s)
}

/// What is accumulated, as stored; the operation; its start.
fn rule(kind: ReduceKind, d: Dtype) -> (Dtype, &'static str, &'static str) {
    let out = Reduce::output(kind, d);
    let wide = match out {
        Dtype::F16 | Dtype::BF16 => Dtype::F32,
        Dtype::Bool
        | Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64
        | Dtype::F32
        | Dtype::F64
        | Dtype::C64 => out,
    };
    match kind {
        ReduceKind::Sum if d == Dtype::C64 => (wide, "OpAdd", "(c64{0.0f, 0.0f})"),
        ReduceKind::Sum => (wide, "OpAdd", "((A)0)"),
        ReduceKind::Prod if d == Dtype::C64 => (wide, "OpMul", "(c64{1.0f, 0.0f})"),
        ReduceKind::Prod => (wide, "OpMul", "((A)1)"),
        ReduceKind::Max => (wide, "OpMax", least(d)),
        ReduceKind::Min => (wide, "OpMin", most(d)),
        ReduceKind::All => (Dtype::Bool, "OpMin", "true"),
        ReduceKind::Any => (Dtype::Bool, "OpMax", "false"),
    }
}

/// What no element is smaller than.
pub(super) fn least(d: Dtype) -> &'static str {
    match d {
        Dtype::Bool => "false",
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => "((A)0)",
        Dtype::I8 => "((i8)-128)",
        Dtype::I16 => "((i16)-32768)",
        Dtype::I32 => "((i32)0x80000000u)",
        Dtype::I64 => "((i64)0x8000000000000000ull)",
        Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 | Dtype::C64 => "((A)-INF)",
    }
}

/// What no element is larger than.
pub(super) fn most(d: Dtype) -> &'static str {
    match d {
        Dtype::Bool => "true",
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => "((A)~0ull)",
        Dtype::I8 => "((i8)127)",
        Dtype::I16 => "((i16)32767)",
        Dtype::I32 => "((i32)0x7fffffff)",
        Dtype::I64 => "((i64)0x7fffffffffffffffll)",
        Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 | Dtype::C64 => "((A)INF)",
    }
}

/// A kernel of the file for these types.
fn kernel(
    entry: &'static str,
    t: Dtype,
    acc: Dtype,
    result: Dtype,
    op: &'static str,
    init: &'static str,
) -> Kernel {
    Kernel::new(File::Reduce, entry)
        .set("T", t)
        .set("ACC", acc)
        .set("RESULT", result)
        .set("OP", op)
        .set("INIT", Value::Text(init))
}

/// Elements that a part of a divided reduction has at least.
const PART: usize = 4096;

pub(super) fn reduce(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, op: Reduce) -> Result<()> {
    let s = split(ctx, l, 0, op.axes)?;
    let (d, out_type) = (ctx.inputs[0].view.dtype, ctx.outs[0].dtype);
    let out = ctx.alloc(0)?.ptr;
    let (acc, f, init) = rule(op.kind, d);
    let (outs, n) = (s.outs(), s.n());
    let dense = s.along.1.last().is_none_or(|&t| t == 1) && s.along.0.len() <= 1;
    let processors = l.gpu.properties.processors as usize;
    let columns = !dense && outs >= 32;
    // Too few results to fill the device: each is divided into parts, which are reduced in turn.
    let beside = if columns { beside(&s, d) } else { 1 };
    let groups = if columns { outs.div_ceil(32 * beside) } else { outs };
    let wanted = (processors * 8).div_ceil(groups.max(1));
    let least_part = if columns { 64 } else { PART };
    let parts = wanted.min(n / least_part).clamp(1, 32_768);
    let chunk = n.div_ceil(parts).next_multiple_of(16).max(1);
    let parts = n.div_ceil(chunk).max(1);
    let (to, result) =
        if parts == 1 { (out, out_type) } else { (l.temporary(outs * parts * acc.size())?, acc) };
    let mut args = Args::default();
    args.u64(s.at).axes(&s.kept.0, &s.kept.1).axes(&s.along.0, &s.along.1);
    args.size(n).u64(to).size(outs).size(chunk).size(parts);
    if columns && beside > 1 {
        let mut args = Args::default();
        args.u64(s.at).axes(&s.kept.0, &s.kept.1).i64(s.along.1[0] as i64);
        args.size(n).u64(to).size(outs).size(chunk).size(parts);
        let k = l.kernel(kernel("wide_columns", d, acc, result, f, init).set("VEC", beside as i64))?;
        let grid = [super::blocks(l, outs.div_ceil(beside), 32)?, parts as u32, 1];
        l.run(k, grid, [32, 8], 0, args)?;
    } else if columns {
        let k = l.kernel(kernel("columns", d, acc, result, f, init))?;
        let grid = [super::blocks(l, outs, 32)?, parts as u32, 1];
        l.run(k, grid, [32, 8], 0, args)?;
    } else {
        let aligned = |v: usize| {
            s.at.is_multiple_of((v * d.size()) as u64)
                && s.kept.1.iter().all(|t| t.unsigned_abs().is_multiple_of(v))
        };
        let mut vec = if dense { 16 / d.size() } else { 1 };
        while vec > 1 && !aligned(vec) {
            vec /= 2;
        }
        rows(l, kernel("rows", d, acc, result, f, init), dense, vec, n.min(chunk), outs, parts, args)?;
    }
    if parts > 1 {
        let mut args = Args::default();
        args.u64(to).axes(&[outs], &[parts as isize]).axes(&[parts], &[1]);
        args.size(parts).u64(out).size(outs).size(parts).size(1);
        rows(l, kernel("rows", acc, acc, out_type, f, init), true, 1, parts, outs, 1, args)?;
    }
    Ok(())
}

/// How many neighbouring results have their elements side by side, so that one load serves them; at most 16
/// bytes of them.
fn beside(s: &Split, d: Dtype) -> usize {
    let (Some(&row), Some(&1), [along]) = (s.kept.0.last(), s.kept.1.last(), &s.along.1[..]) else {
        return 1;
    };
    let outer = &s.kept.1[..s.kept.1.len() - 1];
    let mut vec = (16 / d.size()).min(8);
    let fits = |v: usize| {
        row.is_multiple_of(v)
            && s.at.is_multiple_of((v * d.size()) as u64)
            && outer.iter().chain([along]).all(|t| t.unsigned_abs().is_multiple_of(v))
    };
    while vec > 1 && !fits(vec) {
        vec /= 2;
    }
    vec
}

#[allow(clippy::too_many_arguments, reason = "the parts of one launch")]
fn rows(
    l: &Launch<'_>,
    k: Kernel,
    dense: bool,
    vec: usize,
    n: usize,
    outs: usize,
    parts: usize,
    args: Args,
) -> Result<()> {
    let threads: u32 = if n <= 32 * 4 * vec { 32 } else { 256 };
    let k = k.set("DENSE", dense).set("VEC", vec as i64).set("THREADS", i64::from(threads));
    let per_block = 256 / threads;
    let grid = [super::blocks(l, outs, per_block)?, parts as u32, 1];
    l.run(l.kernel(k)?, grid, [threads, per_block], 0, args)
}

pub(super) fn arg(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, op: Arg) -> Result<()> {
    let s = split(ctx, l, 0, AxisSet::one(op.axis))?;
    let (d, out) = (ctx.inputs[0].view.dtype, ctx.alloc(0)?.ptr);
    let (outs, n) = (s.outs(), s.n());
    let stride = s.along.1.last().copied().unwrap_or(0);
    // Results whose elements lie apart but beside those of their neighbours: a thread for each.
    let (threads, block) = match n {
        _ if stride != 1 && outs >= 4096 => (1, [256, 1]),
        0..=256 => (32, [32, 8]),
        257..=8192 => (256, [256, 1]),
        _ => (1024, [1024, 1]),
    };
    let k = Kernel::new(File::Arg, "extreme")
        .set("T", d)
        .set("LARGEST", op.kind == ArgKind::Max)
        .set("THREADS", threads);
    let mut args = Args::default();
    args.u64(s.at).axes(&s.kept.0, &s.kept.1).size(n).i64(stride as i64).u64(out).size(outs);
    let per_block = if threads == 1 { 256 } else { block[1] };
    l.run(l.kernel(k)?, [super::blocks(l, outs, per_block)?, 1, 1], block, 0, args)
}

/// The shape without its last axis, as a number, and the last axis.
pub(super) fn rows_of(shape: &Shape) -> (usize, usize) {
    let n = shape.last().copied().unwrap_or(1);
    (shape.elements() / n.max(1), n)
}
