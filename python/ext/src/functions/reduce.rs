//! Reductions, arg-reductions, scans, sorting.

use crate::args::Args;
use crate::fault::{R, index_error, value_error};
use crate::function::table;
use crate::give::{Give, Several};
use crate::output::blocking;
use olivine_core::{Array, Dtype, Result};
use pyo3::prelude::*;

/// A reduction over the axes that are asked for, all of them where none are.
fn fold(a: &Args<'_, '_>, f: fn(&Array, &[i32], bool) -> Result<Array>) -> R<Array> {
    let (x, keepdims) = (a.array(0)?, a.bool_or("keepdims", false)?);
    match a.opt_axes("axis")? {
        // No axes at all are not all axes.
        Some(axes) if axes.is_empty() => Ok(f(&x.expand_dims(&[0])?, &[0], false)?),
        Some(axes) => Ok(f(&x, &axes, keepdims)?),
        None => Ok(f(&x, &[], keepdims)?),
    }
}

/// The argument and the axis to scan along: all elements in a row when no axis is given.
fn along(a: &Args<'_, '_>, f: fn(&Array, i32, bool, bool) -> Result<Array>) -> R<Array> {
    let mut x = a.array(0)?;
    if let Some(d) = a.opt_dtype("dtype")? {
        x = x.astype(d)?;
    }
    let (reverse, inclusive) = (a.bool_or("reverse", false)?, a.bool_or("inclusive", true)?);
    match a.opt_axis("axis")? {
        Some(axis) => Ok(f(&x, axis, reverse, inclusive)?),
        None => Ok(f(&x.flatten()?, 0, reverse, inclusive)?),
    }
}

fn spread(a: &Args<'_, '_>, f: fn(&Array, &[i32], bool, i64) -> Result<Array>) -> R<Array> {
    let ddof = match a.opt_int("correction")? {
        Some(c) => c,
        None => a.int_or("ddof", 0)?,
    };
    let axes = a.opt_axes("axis")?.unwrap_or_default();
    Ok(f(&a.array(0)?, &axes, a.bool_or("keepdims", false)?, ddof)?)
}

/// An arg-reduction: over all elements in a row when no axis is given.
fn arg(a: &Args<'_, '_>, f: fn(&Array, i32, bool) -> Result<Array>) -> R<Array> {
    let (x, keepdims) = (a.array(0)?, a.bool_or("keepdims", false)?);
    Ok(match a.opt_axis("axis")? {
        Some(axis) => f(&x, axis, keepdims)?,
        None if keepdims => f(&x.flatten()?, 0, false)?.reshape(&vec![1usize; x.rank()])?,
        None => f(&x.flatten()?, 0, false)?,
    })
}

/// The argument and the axis to order along: all elements in a row when the axis is `None`.
fn ordered(a: &Args<'_, '_>) -> R<(Array, i32)> {
    let x = a.array(0)?;
    match a.axis_given("axis", -1)? {
        Some(axis) => Ok((x, axis)),
        None => Ok((x.flatten()?, 0)),
    }
}

/// A position that may count from the end.
fn kth(a: &Args<'_, '_>, x: &Array, axis: i32) -> R<usize> {
    let (k, n) = (a.int("kth")?, x.dim(axis)?);
    let at = if k < 0 { k + n as i64 } else { k };
    match usize::try_from(at) {
        Ok(at) if at < n => Ok(at),
        _ => Err(value_error(format!("[{}] there is no position {k} among {n} elements", a.op()))),
    }
}

fn unique(a: &Args<'_, '_>) -> R<Py<PyAny>> {
    let x = a.array(0)?;
    let u = match a.opt_size("size")? {
        Some(n) => x.unique_sized(n, a.opt_array_like("fill_value", &x)?.as_ref())?,
        None => blocking(a.py, || x.unique_all())?,
    };
    let wanted = [
        (true, u.values),
        (a.bool_or("return_index", false)?, u.index),
        (a.bool_or("return_inverse", false)?, u.inverse),
        (a.bool_or("return_counts", false)?, u.counts),
    ];
    let mut all: Vec<Array> = wanted.into_iter().filter(|w| w.0).map(|w| w.1).collect();
    if all.len() == 1 { all.remove(0).give(a.py) } else { Several(all).give(a.py) }
}

fn softmax(a: &Args<'_, '_>) -> R<Array> {
    let (x, axes) = (a.array(0)?, a.opt_axes("axis")?.unwrap_or_default());
    if a.bool_or("precise", false)? && matches!(x.dtype(), Dtype::F16 | Dtype::BF16) {
        return Ok(x.astype(Dtype::F32)?.softmax_axes(&axes)?.astype(x.dtype())?);
    }
    Ok(x.softmax_axes(&axes)?)
}

fn search(a: &Args<'_, '_>) -> R<Array> {
    let right = match a.str_or("side", "left")?.as_str() {
        "left" => false,
        "right" => true,
        s => return Err(value_error(format!("[searchsorted] {s:?} is no side"))),
    };
    Ok(a.array(0)?.searchsorted(&a.array(1)?, right)?)
}

fn topk(a: &Args<'_, '_>) -> R<Array> {
    let (x, axis) = ordered(a)?;
    let (k, n) = (a.int("k")?, x.dim(axis)?);
    match usize::try_from(k) {
        Ok(k) if k <= n => Ok(x.topk(k, axis)?),
        _ => Err(value_error(format!("[topk] {k} of {n} elements"))),
    }
}

fn diff(a: &Args<'_, '_>) -> R<Array> {
    let (x, n, axis) = (a.array(0)?, a.int_or("n", 1)?, a.axis_or("axis", -1)?);
    if x.rank() == 0 {
        return Err(index_error("[diff] takes an array of at least one axis"));
    }
    let n = usize::try_from(n).map_err(|_| value_error(format!("[diff] {n} times")))?;
    Ok(x.diff(n, axis)?)
}

table! {
    /// Functions that bring many elements together.
    TABLE;
    "sum" => |a| fold(a, Array::sum);
    "prod" => |a| fold(a, Array::prod);
    "max" => |a| fold(a, Array::max);
    "min" => |a| fold(a, Array::min);
    "all" => |a| fold(a, Array::all);
    "any" => |a| fold(a, Array::any);
    "mean" => |a| fold(a, Array::mean);
    "var" => |a| spread(a, Array::var);
    "std" => |a| spread(a, Array::std);
    "median" => |a| fold(a, Array::median);
    "minmax" => |a| {
        let axes = a.opt_axes("axis")?.unwrap_or_default();
        a.array(0)?.minmax(&axes, a.bool_or("keepdims", false)?)
    };
    "count_nonzero" => |a| fold(a, Array::count_nonzero);
    "softmax" => |a| softmax(a);
    "logsumexp" => |a| fold(a, Array::logsumexp_axes);
    "diff" => |a| diff(a);
    "trace" => |a| {
        let (axis1, axis2) = (a.axis_or("axis1", 0)?, a.axis_or("axis2", 1)?);
        a.array(0)?.trace(a.int_or("offset", 0)?, axis1, axis2, a.opt_dtype("dtype")?)
    };
    "argmax" => |a| arg(a, Array::argmax);
    "argmin" => |a| arg(a, Array::argmin);
    "cumsum", "cumulative_sum" => |a| along(a, Array::cumsum);
    "cumprod", "cumulative_prod" => |a| along(a, Array::cumprod);
    "cummax" => |a| along(a, Array::cummax);
    "cummin" => |a| along(a, Array::cummin);
    "logcumsumexp" => |a| along(a, Array::logcumsumexp);
    "sort" => |a| ordered(a).map(|(x, i)| x.sort(i, false))?;
    "argsort" => |a| ordered(a).map(|(x, i)| x.argsort(i, false))?;
    "partition" => |a| {
        let (x, i) = ordered(a)?;
        x.partition(kth(a, &x, i)?, i)
    };
    "argpartition" => |a| {
        let (x, i) = ordered(a)?;
        x.argpartition(kth(a, &x, i)?, i)
    };
    "topk" => |a| topk(a);
    "unique" => |a| unique(a);
    "searchsorted" => |a| search(a);
}
