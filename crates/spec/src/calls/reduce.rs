//! Reductions, arg-reductions, scans, softmax.

use super::calls;
use crate::args::Args;
use olivine_core::ops::Interpolation;
use olivine_core::{Array, Error, Result};

/// The argument and the axis to scan along: all elements in a row when no axis is given.
fn along(a: &Args) -> Result<(Array, i32, bool, bool)> {
    let x = a.array(0)?;
    let (reverse, inclusive) = (a.bool_or("reverse", false)?, a.bool_or("inclusive", true)?);
    match a.opt_axis("axis")? {
        Some(axis) => Ok((x, axis, reverse, inclusive)),
        None => Ok((x.flatten()?, 0, reverse, inclusive)),
    }
}

/// The arguments of a variance.
fn spread(a: &Args) -> Result<(Array, Vec<i32>, bool, i64)> {
    Ok((a.array(0)?, a.axes("axis")?, a.bool_or("keepdims", false)?, a.int_or("ddof", 0)?))
}

type Quantile = fn(&Array, &[f64], &[i32], bool, Interpolation) -> Result<Array>;

/// Quantiles at one share.
fn quantile(a: &Args, f: Quantile) -> Result<Array> {
    let method = match a.choice("method", &["linear", "lower", "higher", "midpoint", "nearest"])?.as_str() {
        "linear" => Interpolation::Linear,
        "lower" => Interpolation::Lower,
        "higher" => Interpolation::Higher,
        "midpoint" => Interpolation::Midpoint,
        "nearest" => Interpolation::Nearest,
        m => return Err(Error::value(a.op(), format!("{m:?} is no method"))),
    };
    let keepdims = a.bool_or("keepdims", false)?;
    f(&a.array(0)?, &[a.f64_or("q", 0.5)?], &a.axes("axis")?, keepdims, method)?.squeeze(&[0])
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
    "var" => |a| spread(a).and_then(|(x, i, k, d)| x.var(&i, k, d));
    "std" => |a| spread(a).and_then(|(x, i, k, d)| x.std(&i, k, d));
    "median" => |a| a.array(0)?.median(&a.axes("axis")?, a.bool_or("keepdims", false)?);
    "minmax" => |a| a.array(0)?.minmax(&a.axes("axis")?, a.bool_or("keepdims", false)?);
    "count_nonzero" => |a| a.array(0)?.count_nonzero(&a.axes("axis")?, a.bool_or("keepdims", false)?);
    "softmax" => |a| a.array(0)?.softmax_axes(&a.axes("axis")?);
    "logsumexp" => |a| a.array(0)?.logsumexp_axes(&a.axes("axis")?, a.bool_or("keepdims", false)?);
    "quantile" => |a| quantile(a, Array::quantile);
    "percentile" => |a| quantile(a, Array::percentile);
    "cov" => |a| a.array(0)?.cov(a.bool_or("rowvar", true)?, a.int_or("ddof", 1)?);
    "diff" => |a| a.array(0)?.diff(a.size_or("n", 1)?, a.axis_or("axis", -1)?);
    "trace" => |a| {
        let (axis1, axis2) = (a.axis_or("axis1", 0)?, a.axis_or("axis2", 1)?);
        a.array(0)?.trace(a.int_or("offset", 0)?, axis1, axis2, a.opt_dtype("dtype")?)
    };
    "bincount" => |a| a.array(0)?.bincount(a.opt_array("weights")?.as_ref(), a.size_or("minlength", 0)?);
    "digitize" => |a| a.array(0)?.digitize(&a.array(1)?, a.bool_or("right", false)?);
    "histogram" => |a| a.array(0)?.histogram(&a.array(1)?, a.opt_array("weights")?.as_ref());
    "histogram_edges" => |a| {
        let range = match (a.opt_f64("low")?, a.opt_f64("high")?) {
            (Some(low), Some(high)) => Some((low, high)),
            (_, _) => None,
        };
        a.array(0)?.histogram_edges(a.size_or("bins", 10)?, range)
    };
    "interp" => |a| {
        a.array(0)?.interp(&a.array(1)?, &a.array(2)?, a.opt_f64("left")?, a.opt_f64("right")?)
    };
    "argmax" => |a| arg(a, Array::argmax);
    "argmin" => |a| arg(a, Array::argmin);
    "cumsum", "cumulative_sum" => |a| along(a).and_then(|(x, i, r, n)| x.cumsum(i, r, n));
    "cumprod", "cumulative_prod" => |a| along(a).and_then(|(x, i, r, n)| x.cumprod(i, r, n));
    "cummax" => |a| along(a).and_then(|(x, i, r, n)| x.cummax(i, r, n));
    "cummin" => |a| along(a).and_then(|(x, i, r, n)| x.cummin(i, r, n));
    "logcumsumexp" => |a| along(a).and_then(|(x, i, r, n)| x.logcumsumexp(i, r, n));
}
