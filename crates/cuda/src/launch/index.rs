//! Reading and writing at positions that arrays of indices give.

use super::arrays::start_as_first;
use super::elementwise::{Operand, merge, run};
use super::{Args, Launch, MAX_AXES, blocks, operand};
use crate::kernels::{File, Kernel, Value, bits_type};
use olivine_core::eval::EvalCtx;
use olivine_core::expr::{Expr, ScalarOp};
use olivine_core::layout::row_major;
use olivine_core::op::{Index, ScatterMode};
use olivine_core::{Dtype, Error, Result, Shape};
use smallvec::SmallVec;

pub(super) fn index(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, op: &Index) -> Result<()> {
    match op {
        Index::Gather { axes, sizes } => gather(ctx, l, axes, sizes),
        Index::Scatter { axes, mode } => scatter(ctx, l, axes, *mode),
        Index::TakeAlong { axis } => take_along(ctx, l, *axis),
        Index::PutAlong { axis, mode } => put_along(ctx, l, *axis, *mode),
        Index::SearchSorted { .. } => l.unsupported("core replaces it by its composite"),
    }
}

/// Index arrays of one type: as they are, or converted.
fn indices(ctx: &EvalCtx<'_>, l: &mut Launch<'_>, first: usize) -> Result<(Dtype, SmallVec<[Operand; 2]>)> {
    let mut all: SmallVec<[Operand; 2]> = ctx.inputs[first..].iter().map(operand).collect();
    let Some(d) = all.first().map(|o| o.dtype) else { return Ok((Dtype::I32, all)) };
    if all.iter().all(|o| o.dtype == d) {
        return Ok((d, all));
    }
    let shape = ctx.inputs[first].view.layout.shape().clone();
    for o in &mut all {
        let to = l.temporary(shape.elements() * 8)?;
        let target = Operand::dense(to, &shape, Dtype::I64);
        let cast = Expr::single(ScalarOp::Cast, &[o.dtype], Dtype::I64);
        run(l, &cast, &shape, &[o.clone(), target.clone()])?;
        *o = target;
    }
    Ok((Dtype::I64, all))
}

/// The parameter that says where windows begin: `Positions` of `index.cu`.
fn positions(
    l: &Launch<'_>,
    shape: &Shape,
    arrays: &[Operand],
    axes: &[u8],
    of: (&Shape, &[isize]),
    window: &[usize],
) -> Result<SmallVec<[u64; 32]>> {
    let strides: SmallVec<[&[isize]; 2]> = arrays.iter().map(|o| &o.strides[..]).collect();
    let m = merge(shape, &strides);
    if m.sizes.len() > MAX_AXES {
        let msg = format!("indices of shape {shape} have too many axes that do not merge");
        return Err(Error::Unsupported { op: l.op, device: l.gpu.device, msg });
    }
    let mut w: SmallVec<[u64; 32]> = SmallVec::from_elem(0, 1 + MAX_AXES);
    w[0] = m.sizes.len() as u64;
    for (i, &n) in m.sizes.iter().enumerate() {
        w[1 + i] = n as u64;
    }
    for ((o, s), &axis) in arrays.iter().zip(&m.strides).zip(axes) {
        w.push(o.at);
        w.extend((0..MAX_AXES).map(|i| s.get(i).map_or(0, |&s| s as u64)));
        let a = usize::from(axis);
        w.extend([of.0[a] as u64, window[a] as u64, of.1[a] as u64, a as u64]);
    }
    if arrays.is_empty() {
        w.extend([0; 5 + MAX_AXES]);
    }
    Ok(w)
}

fn many(l: &Launch<'_>, what: &str, shape: &[usize]) -> Error {
    let msg = format!("{what} of shape {shape:?} have too many axes that do not merge");
    Error::Unsupported { op: l.op, device: l.gpu.device, msg }
}

fn gather(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, axes: &[u8], sizes: &Shape) -> Result<()> {
    let (x, shape) = (operand(&ctx.inputs[0]), ctx.inputs[0].view.layout.shape().clone());
    let (index_type, arrays) = indices(ctx, l, 1)?;
    let lead = ctx.inputs.get(1).map_or_else(Shape::scalar, |i| i.view.layout.shape().clone());
    let window = merge(sizes, &[&x.strides]);
    if window.sizes.len() > MAX_AXES {
        return Err(many(l, "windows", sizes));
    }
    let (mut each, mut total) = (sizes.elements(), ctx.outs[0].elements());
    let out = ctx.alloc(0)?.ptr;
    // Windows that lie dense move in larger units.
    let size = x.dtype.size();
    let mut unit = 1;
    let dense = window.sizes.is_empty() || (window.sizes.len() == 1 && window.strides[0][0] == 1);
    if dense {
        let divides = |u: usize| {
            each.is_multiple_of(u)
                && x.at.is_multiple_of((u * size) as u64)
                && axes.iter().all(|&a| x.strides[usize::from(a)].unsigned_abs().is_multiple_of(u))
        };
        while unit * size < 16 && divides(2 * unit) {
            unit *= 2;
        }
    }
    let strides: SmallVec<[isize; 4]> = x.strides.iter().map(|&s| s / unit as isize).collect();
    each /= unit;
    total /= unit;
    let (window_sizes, window_strides): (SmallVec<[usize; 6]>, SmallVec<[isize; 6]>) = if unit > 1 {
        (SmallVec::from_iter([each]), SmallVec::from_iter([1]))
    } else {
        (window.sizes, window.strides[0].clone())
    };
    let at = positions(l, &lead, &arrays, axes, (&shape, &strides), sizes)?;
    let t = if unit * size == 16 { "uint4" } else { bits_type(unit * size) };
    let k = Kernel::new(File::Index, "gather")
        .set("T", t)
        .set("I", index_type)
        .set("COUNT", arrays.len() as i64)
        .set("SET", true);
    let (fault, seq) = l.checked()?;
    let mut args = Args::default();
    args.u64(x.at).words(&at).axes(&window_sizes, &window_strides).size(each).u64(out).size(total);
    args.u64(fault).u64(seq);
    l.run(l.kernel(k)?, [blocks(l, total, 256)?, 1, 1], [256, 1], 0, args)
}

/// How values meet: the operation, and whether the hardware adds by itself.
fn meeting(mode: ScatterMode, d: Dtype) -> (&'static str, bool) {
    let native = matches!(d, Dtype::F32 | Dtype::F64 | Dtype::U32 | Dtype::I32 | Dtype::U64);
    match mode {
        ScatterMode::Set => ("OpAdd", false),
        ScatterMode::Add => ("OpAdd", native),
        ScatterMode::Prod => ("OpMul", false),
        ScatterMode::Max => ("OpMax", false),
        ScatterMode::Min => ("OpMin", false),
    }
}

/// Kernels of writing, and what the last values are noted in where that matters.
fn writing(k: Kernel, mode: ScatterMode, d: Dtype, index_type: Dtype, count: usize) -> Kernel {
    let (op, native) = meeting(mode, d);
    let set = mode == ScatterMode::Set;
    let k = if set { k.set("T", bits_type(d.size())) } else { k.set("T", d) };
    k.set("I", index_type)
        .set("COUNT", count as i64)
        .set("SET", set)
        .set("OP", Value::Text(op))
        .set("NATIVE_ADD", native)
}

/// Memory in which the last value for each place is noted.
fn notes(l: &mut Launch<'_>, places: usize, updates: usize) -> Result<u64> {
    if updates >= u32::MAX as usize {
        let msg = format!("{updates} values to set are more than can be put in order");
        return Err(Error::Unsupported { op: l.op, device: l.gpu.device, msg });
    }
    let at = l.temporary(places * 4)?;
    l.fill(at, 0, places * 4)?;
    Ok(at)
}

fn scatter(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, axes: &[u8], mode: ScatterMode) -> Result<()> {
    let shape = ctx.outs[0].shape.clone();
    let d = ctx.outs[0].dtype;
    let (index_type, arrays) = indices(ctx, l, 2)?;
    let lead = ctx.inputs.get(2).map_or_else(Shape::scalar, |i| i.view.layout.shape().clone());
    let updates = operand(&ctx.inputs[1]);
    let have = ctx.inputs[1].view.layout.shape().clone();
    let out = start_as_first(ctx, l)?;
    let total = have.elements();
    if total == 0 {
        return Ok(());
    }
    let sizes = &have[lead.rank()..];
    let full = row_major(&shape);
    let (from, window) = (merge(&have, &[&updates.strides]), merge(sizes, &[&full]));
    if from.sizes.len() > MAX_AXES || window.sizes.len() > MAX_AXES {
        return Err(many(l, "updates", &have));
    }
    let each: usize = sizes.iter().product();
    let at = positions(l, &lead, &arrays, axes, (&shape, &full), sizes)?;
    // One window has no place twice.
    let noted = mode == ScatterMode::Set && total > each;
    let last = if noted { notes(l, shape.elements(), total)? } else { 0 };
    let (fault, seq) = l.checked()?;
    let entries: &[&'static str] = if noted { &["claim", "scatter"] } else { &["scatter"] };
    for &entry in entries {
        let k = writing(Kernel::new(File::Index, entry), mode, d, index_type, arrays.len());
        let mut args = Args::default();
        args.u64(updates.at).axes(&from.sizes, &from.strides[0]).words(&at);
        args.axes(&window.sizes, &window.strides[0]).size(each).u64(out).u64(last).size(total);
        args.u64(fault).u64(seq);
        l.run(l.kernel(k)?, [blocks(l, total, 256)?, 1, 1], [256, 1], 0, args)?;
    }
    Ok(())
}

/// Strides without the one along an axis.
fn without(strides: &[isize], axis: usize) -> SmallVec<[isize; 4]> {
    strides.iter().enumerate().map(|(a, &s)| if a == axis { 0 } else { s }).collect()
}

fn take_along(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, axis: usize) -> Result<()> {
    let (x, i) = (operand(&ctx.inputs[0]), operand(&ctx.inputs[1]));
    let size = ctx.inputs[0].view.layout.shape()[axis];
    let (shape, total) = (ctx.outs[0].shape.clone(), ctx.outs[0].elements());
    let others = without(&x.strides, axis);
    let m = merge(&shape, &[&i.strides, &others]);
    if m.sizes.len() > MAX_AXES {
        return Err(many(l, "indices", &shape));
    }
    let out = ctx.alloc(0)?.ptr;
    let k = Kernel::new(File::Index, "take")
        .set("T", bits_type(x.dtype.size()))
        .set("I", i.dtype)
        .set("COUNT", 1)
        .set("SET", true);
    let (fault, seq) = l.checked()?;
    let mut args = Args::default();
    args.u64(x.at).u64(i.at).axes(&m.sizes, &m.strides[0]).axes(&m.sizes, &m.strides[1]);
    args.i64(x.strides[axis] as i64).size(size).size(axis).u64(out).size(total).u64(fault).u64(seq);
    l.run(l.kernel(k)?, [blocks(l, total, 256)?, 1, 1], [256, 1], 0, args)
}

fn put_along(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, axis: usize, mode: ScatterMode) -> Result<()> {
    let (i, v) = (operand(&ctx.inputs[1]), operand(&ctx.inputs[2]));
    let have = ctx.inputs[1].view.layout.shape().clone();
    let (shape, d) = (ctx.outs[0].shape.clone(), ctx.outs[0].dtype);
    let out = start_as_first(ctx, l)?;
    let total = have.elements();
    if total == 0 {
        return Ok(());
    }
    let full = row_major(&shape);
    let others = without(&full, axis);
    let m = merge(&have, &[&v.strides, &i.strides, &others]);
    if m.sizes.len() > MAX_AXES {
        return Err(many(l, "indices", &have));
    }
    let set = mode == ScatterMode::Set;
    let last = if set { notes(l, shape.elements(), total)? } else { 0 };
    let (fault, seq) = l.checked()?;
    let entries: &[&'static str] = if set { &["claim_along", "put_along"] } else { &["put_along"] };
    for &entry in entries {
        let k = writing(Kernel::new(File::Index, entry), mode, d, i.dtype, 1);
        let mut args = Args::default();
        args.u64(v.at).axes(&m.sizes, &m.strides[0]).u64(i.at).axes(&m.sizes, &m.strides[1]);
        args.axes(&m.sizes, &m.strides[2]).i64(full[axis] as i64).size(shape[axis]).size(axis);
        args.u64(out).u64(last).size(total).u64(fault).u64(seq);
        l.run(l.kernel(k)?, [blocks(l, total, 256)?, 1, 1], [256, 1], 0, args)?;
    }
    Ok(())
}
