//! Scans, sorts, joining, and writing part of an array.

use super::elementwise::{Operand, merge, run};
use super::reduce::{least, most};
use super::{Args, Launch, MAX_AXES, blocks, operand};
use crate::kernels::{File, Kernel, Value};
use olivine_core::eval::EvalCtx;
use olivine_core::expr::Expr;
use olivine_core::layout::row_major;
use olivine_core::op::{Scan, ScanKind, Sort};
use olivine_core::{Dtype, Kind, Result};
use smallvec::SmallVec;

/// The lines of an argument along an axis, and those of a row-major result of its shape.
struct Lines {
    at: u64,
    n: usize,
    count: usize,
    sizes: SmallVec<[usize; 6]>,
    strides: SmallVec<[isize; 6]>,
    outs: SmallVec<[isize; 6]>,
    stride: isize,
    out: isize,
}

fn lines(ctx: &EvalCtx<'_>, l: &mut Launch<'_>, axis: usize) -> Result<Lines> {
    let shape = ctx.inputs[0].view.layout.shape().clone();
    let mut o = operand(&ctx.inputs[0]);
    let out = row_major(&shape);
    let part = |o: &Operand| {
        let rest = |s: &[isize]| -> SmallVec<[isize; 6]> {
            s.iter().enumerate().filter(|&(a, _)| a != axis).map(|(_, &s)| s).collect()
        };
        let sizes = shape.without(axis);
        merge(&sizes, &[&rest(&o.strides), &rest(&out)])
    };
    let mut m = part(&o);
    if m.sizes.len() > MAX_AXES {
        o = Operand::dense(l.dense(&ctx.inputs[0])?, &shape, o.dtype);
        m = part(&o);
    }
    Ok(Lines {
        at: o.at,
        n: shape[axis],
        count: m.sizes.iter().product(),
        outs: m.strides[1].clone(),
        strides: m.strides[0].clone(),
        sizes: m.sizes,
        stride: o.strides[axis],
        out: out[axis],
    })
}

pub(super) fn scan(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, op: Scan) -> Result<()> {
    let s = lines(ctx, l, op.axis)?;
    let (d, out_type) = (ctx.inputs[0].view.dtype, ctx.outs[0].dtype);
    let out = ctx.alloc(0)?.ptr;
    let acc = if matches!(out_type, Dtype::F16 | Dtype::BF16) { Dtype::F32 } else { out_type };
    let complex = acc.kind() == Kind::Complex;
    let (f, init) = match op.kind {
        ScanKind::Sum if complex => ("OpAdd", "(c64{0.0f, 0.0f})"),
        ScanKind::Sum => ("OpAdd", "((A)0)"),
        ScanKind::Prod if complex => ("OpMul", "(c64{1.0f, 0.0f})"),
        ScanKind::Prod => ("OpMul", "((A)1)"),
        ScanKind::Max => ("OpMax", least(d)),
        ScanKind::Min => ("OpMin", most(d)),
        ScanKind::LogSumExp => ("OpLse", "((A)-INF)"),
    };
    let serial = (s.stride != 1 && s.count >= 1024) || s.n <= 16;
    let kernel = |entry| {
        Kernel::new(File::Scan, entry)
            .set("T", d)
            .set("ACC", acc)
            .set("OUT", out_type)
            .set("OP", f)
            .set("INIT", Value::Text(init))
            .set("REVERSE", op.reverse)
            .set("INCLUSIVE", op.inclusive)
    };
    let from = |args: &mut Args| {
        args.u64(s.at).axes(&s.sizes, &s.strides).i64(s.stride as i64);
    };
    let mut args = Args::default();
    from(&mut args);
    args.u64(out).axes(&s.sizes, &s.outs).i64(s.out as i64).size(s.n);
    if serial {
        args.size(s.count);
        return l.run(l.kernel(kernel("serial"))?, [blocks(l, s.count, 256)?, 1, 1], [256, 1], 0, args);
    }
    // Too few lines to fill the device: each is divided into parts, whose totals are found first.
    let wanted = (l.gpu.properties.processors as usize * 4).div_ceil(s.count.max(1));
    let parts = wanted.min(s.n / SCAN_PART).max(1);
    let chunk = s.n.div_ceil(parts).next_multiple_of(1024);
    let parts = s.n.div_ceil(chunk).max(1);
    let totals = if parts > 1 { l.temporary(s.count * parts * acc.size())? } else { 0 };
    let grid = [blocks(l, s.count * parts, 1)?, 1, 1];
    if parts > 1 {
        let mut args = Args::default();
        from(&mut args);
        args.size(s.n).size(chunk).size(parts).u64(totals);
        l.run(l.kernel(kernel("totals"))?, grid, [256, 1], 0, args)?;
    }
    args.size(chunk).size(parts).u64(totals);
    l.run(l.kernel(kernel("block"))?, grid, [256, 1], 0, args)
}

/// Elements that a part of a divided scan has at least.
const SCAN_PART: usize = 2048;

/// Elements that a block sorts by itself, as `sort.cu` says.
const TILE: usize = 1024;

pub(super) fn sort(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, op: Sort) -> Result<()> {
    let s = lines(ctx, l, op.axis)?;
    let d = ctx.inputs[0].view.dtype;
    let out = ctx.alloc(0)?.ptr;
    let total = s.n * s.count;
    let (key, width) = match d {
        Dtype::F64 | Dtype::U64 | Dtype::I64 => ("u64", 8),
        Dtype::Bool | Dtype::U8 | Dtype::I8 => ("u8", 1),
        Dtype::U16 | Dtype::I16 => ("u16", 2),
        Dtype::U32 | Dtype::I32 | Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::C64 => ("u32", 4),
    };
    let set = |k: Kernel| k.set("T", d).set("K", key);
    let mut keys = [l.temporary(total * width)?, 0];
    let mut places = [l.temporary(total * 4)?, 0];
    if s.n > TILE {
        keys[1] = l.temporary(total * width)?;
        places[1] = l.temporary(total * 4)?;
    }
    let tiles = set(Kernel::new(File::Sort, "tiles"))
        .set("DESCENDING", op.descending)
        .set("IS_FLOAT", d.is_float())
        .set("IS_DOUBLE", d == Dtype::F64)
        .set("IS_SIGNED", d.kind() == Kind::Signed);
    let per_line = s.n.div_ceil(TILE);
    let mut args = Args::default();
    args.u64(s.at).axes(&s.sizes, &s.strides).i64(s.stride as i64);
    args.size(s.n).size(per_line).u64(keys[0]).u64(places[0]);
    l.run(l.kernel(tiles)?, [blocks(l, s.count * per_line, 1)?, 1, 1], [512, 1], 0, args)?;
    let mut length = TILE;
    while length < s.n {
        let mut args = Args::default();
        args.u64(keys[0]).u64(places[0]).u64(keys[1]).u64(places[1]).size(s.n).size(length).size(total);
        let k = l.kernel(set(Kernel::new(File::Sort, "merge")))?;
        l.run(k, [blocks(l, total, 256)?, 1, 1], [256, 1], 0, args)?;
        keys.swap(0, 1);
        places.swap(0, 1);
        length *= 2;
    }
    let mut args = Args::default();
    args.u64(places[0]);
    let entry = if op.indices {
        "indices"
    } else {
        args.u64(s.at).axes(&s.sizes, &s.strides).i64(s.stride as i64);
        "elements"
    };
    args.u64(out).axes(&s.sizes, &s.outs).i64(s.out as i64).size(s.n).size(total);
    let k = l.kernel(set(Kernel::new(File::Sort, entry)))?;
    l.run(k, [blocks(l, total, 256)?, 1, 1], [256, 1], 0, args)
}

pub(super) fn concat(ctx: &mut EvalCtx<'_>, l: &Launch<'_>, axis: usize) -> Result<()> {
    let (out, d) = (ctx.alloc(0)?.ptr, ctx.outs[0].dtype);
    let strides = row_major(&ctx.outs[0].shape);
    let mut at = out;
    for input in &ctx.inputs {
        let shape = input.view.layout.shape();
        let to = Operand { at, strides: strides.clone(), dtype: d };
        run(l, &Expr::identity(d), shape, &[operand(input), to])?;
        at += (shape[axis] * strides[axis] as usize * d.size()) as u64;
    }
    Ok(())
}

/// Memory for a result that starts as the first argument: that argument's own where nobody else holds it.
pub(super) fn start_as_first(ctx: &mut EvalCtx<'_>, l: &Launch<'_>) -> Result<u64> {
    let layout = &ctx.inputs[0].view.layout;
    if ctx.inputs[0].unique && layout.is_contiguous() && layout.offset() == 0 {
        return Ok(ctx.reuse(0, 0).ptr);
    }
    let (from, shape) = (operand(&ctx.inputs[0]), layout.shape().clone());
    let out = ctx.alloc(0)?.ptr;
    l.copy(&from, out, &shape)?;
    Ok(out)
}

pub(super) fn slice_update(
    ctx: &mut EvalCtx<'_>,
    l: &Launch<'_>,
    start: &[usize],
    step: &[isize],
) -> Result<()> {
    let d = ctx.outs[0].dtype;
    let out = start_as_first(ctx, l)?;
    let update = operand(&ctx.inputs[1]);
    let shape = ctx.inputs[1].view.layout.shape().clone();
    if shape.elements() == 0 {
        return Ok(());
    }
    let full = row_major(&ctx.outs[0].shape);
    let offset: isize = start.iter().zip(&full).map(|(&b, &s)| b as isize * s).sum();
    let to = Operand {
        at: out + (offset as usize * d.size()) as u64,
        strides: full.iter().zip(step).map(|(&s, &k)| s * k).collect(),
        dtype: d,
    };
    run(l, &Expr::identity(d), &shape, &[update, to])
}
