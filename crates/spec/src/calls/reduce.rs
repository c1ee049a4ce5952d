//! Reductions, arg-reductions, scans, softmax.

use super::calls;
use crate::args::Args;
use olivine_core::{Array, Result};

/// The argument and the axis to scan along: all elements in a row when no axis is given.
fn along(a: &Args) -> Result<(Array, i32, bool, bool)> {
    let x = a.array(0)?;
    let (reverse, inclusive) = (a.bool_or("reverse", false)?, a.bool_or("inclusive", true)?);
    match a.opt_axis("axis")? {
        Some(axis) => Ok((x, axis, reverse, inclusive)),
        None => Ok((x.flatten()?, 0, reverse, inclusive)),
    }
}

/// An arg-reduction: over all elements in a row when no axis is given.
fn arg(a: &Args, f: fn(&Array, i32, bool) -> Result<Array>) -> Result<Array> {
    let (x, keepdims) = (a.array(0)?, a.bool_or("keepdims", false)?);
    match a.opt_axis("axis")? {
        Some(axis) => f(&x, axis, keepdims),
        None if keepdims => f(&x.flatten()?, 0, false)?.reshape(&vec![1usize; x.rank()]),
        None => f(&x.flatten()?, 0, false),
    }
}

calls! { "reduce";
    "sum" => |a| a.array(0)?.sum(&a.axes("axis")?, a.bool_or("keepdims", false)?);
    "prod" => |a| a.array(0)?.prod(&a.axes("axis")?, a.bool_or("keepdims", false)?);
    "max" => |a| a.array(0)?.max(&a.axes("axis")?, a.bool_or("keepdims", false)?);
    "min" => |a| a.array(0)?.min(&a.axes("axis")?, a.bool_or("keepdims", false)?);
    "all" => |a| a.array(0)?.all(&a.axes("axis")?, a.bool_or("keepdims", false)?);
    "any" => |a| a.array(0)?.any(&a.axes("axis")?, a.bool_or("keepdims", false)?);
    "mean" => |a| a.array(0)?.mean(&a.axes("axis")?, a.bool_or("keepdims", false)?);
    "argmax" => |a| arg(a, Array::argmax);
    "argmin" => |a| arg(a, Array::argmin);
    "cumsum", "cumulative_sum" => |a| along(a).and_then(|(x, i, r, n)| x.cumsum(i, r, n));
    "cumprod", "cumulative_prod" => |a| along(a).and_then(|(x, i, r, n)| x.cumprod(i, r, n));
    "cummax" => |a| along(a).and_then(|(x, i, r, n)| x.cummax(i, r, n));
    "cummin" => |a| along(a).and_then(|(x, i, r, n)| x.cummin(i, r, n));
    "logcumsumexp" => |a| along(a).and_then(|(x, i, r, n)| x.logcumsumexp(i, r, n));
}
