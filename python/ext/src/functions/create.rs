//! Constants, ranges, diagonals, windows.

use crate::args::Args;
use crate::fault::{R, type_error, value_error};
use crate::function::table;
use crate::{dlpack, input};
use olivine_core::{Array, Dtype};
use pyo3::prelude::*;
use pyo3::types::PyFloat;

/// A range of integers, or of floats where any argument is one.
fn arange(a: &Args<'_, '_>) -> R<Array> {
    let (mut start, mut stop, step) = (a.opt("start"), a.opt("stop"), a.opt("step"));
    if stop.is_none() {
        (start, stop) = (None, start);
    }
    let Some(stop) = stop else { return Err(type_error("[arange] takes at least one number")) };
    let dtype = a.opt_dtype("dtype")?;
    let float = [start, Some(stop), step].into_iter().flatten().any(|v| v.is_instance_of::<PyFloat>());
    let number = |v: Option<&Bound<'_, PyAny>>, default: f64| -> R<f64> {
        match v {
            None => Ok(default),
            Some(v) => v.extract().map_err(|_| a.wrong("start", "a number", v)),
        }
    };
    let whole = |v: Option<&Bound<'_, PyAny>>, default: i64| -> R<Option<i64>> {
        v.map_or(Ok(Some(default)), crate::args::integer)
    };
    if !float
        && let (Some(start), Some(stop), Some(step)) =
            (whole(start, 0)?, whole(Some(stop), 0)?, whole(step, 1)?)
    {
        let large = |i: i64| i32::try_from(i).is_err();
        let own = if large(start) || large(stop) || large(step) { Dtype::I64 } else { Dtype::I32 };
        return Ok(Array::arange_int(start, stop, step, dtype.unwrap_or(own))?);
    }
    let (start, stop, step) = (number(start, 0.0)?, number(Some(stop), 0.0)?, number(step, 1.0)?);
    Ok(Array::arange(start, stop, step, dtype.unwrap_or(Dtype::F32))?)
}

/// Rows, columns, diagonal, type.
fn matrix(a: &Args<'_, '_>) -> R<(usize, usize, i64, Dtype)> {
    let n = a.size("n")?;
    Ok((n, a.size_or("m", n)?, a.int_or("k", 0)?, a.dtype_or("dtype", Dtype::F32)?))
}

fn asarray(a: &Args<'_, '_>) -> R<Array> {
    let (v, dtype) = (a.need("a")?, a.opt_dtype("dtype")?);
    let copy = a.opt("copy").map(|_| a.bool_or("copy", false)).transpose()?;
    if copy == Some(false) && v.cast::<crate::array::PyArray>().is_err() {
        return match dlpack_or_none(v)? {
            Some(x) if dtype.is_none_or(|d| d == x.dtype()) => Ok(x),
            _ => Err(value_error("[asarray] this value becomes an array by a copy alone")),
        };
    }
    input::make(v, dtype)
}

fn dlpack_or_none(v: &Bound<'_, PyAny>) -> R<Option<Array>> {
    if v.hasattr("__dlpack__")? { dlpack::import(v, Some(false)).map(Some) } else { Ok(None) }
}

table! {
    /// Functions that make arrays.
    TABLE;
    "zeros", "empty" => |a| Array::zeros(&a.shape("shape")?, a.dtype_or("dtype", Dtype::F32)?);
    "ones" => |a| Array::ones(&a.shape("shape")?, a.dtype_or("dtype", Dtype::F32)?);
    "full" => |a| {
        let value = a.array("vals")?;
        value.astype(a.opt_dtype("dtype")?.unwrap_or(value.dtype()))?.broadcast_to(&a.shape("shape")?)
    };
    "full_like" => |a| {
        let x = a.array(0)?;
        let dtype = a.opt_dtype("dtype")?.unwrap_or(x.dtype());
        a.array("vals")?.astype(dtype)?.broadcast_to(x.shape())
    };
    "zeros_like", "empty_like" => |a| {
        let x = a.array(0)?;
        Array::zeros(x.shape(), a.opt_dtype("dtype")?.unwrap_or(x.dtype()))
    };
    "ones_like" => |a| {
        let x = a.array(0)?;
        Array::ones(x.shape(), a.opt_dtype("dtype")?.unwrap_or(x.dtype()))
    };
    "arange" => |a| arange(a);
    "linspace" => |a| {
        let (start, stop, num) = (a.f64("start")?, a.f64("stop")?, a.size_or("num", 50)?);
        let dtype = a.dtype_or("dtype", Dtype::F32)?;
        Array::linspace(start, stop, num, a.bool_or("endpoint", true)?, dtype)
    };
    "eye" => |a| matrix(a).map(|(n, m, k, d)| Array::eye(n, m, k, d))?;
    "identity" => |a| Array::identity(a.size("n")?, a.dtype_or("dtype", Dtype::F32)?);
    "tri" => |a| matrix(a).map(|(n, m, k, d)| Array::tri(n, m, k, d))?;
    "tril" => |a| a.array(0)?.tril(a.int_or("k", 0)?);
    "triu" => |a| a.array(0)?.triu(a.int_or("k", 0)?);
    "diag" => |a| a.array(0)?.diag(a.int_or("k", 0)?);
    "diagonal" => |a| {
        let (axis1, axis2) = (a.axis_or("axis1", 0)?, a.axis_or("axis2", 1)?);
        a.array(0)?.diagonal(a.int_or("offset", 0)?, axis1, axis2)
    };
    "hanning" => |a| Array::hanning(a.size("M")?);
    "hamming" => |a| Array::hamming(a.size("M")?);
    "bartlett" => |a| Array::bartlett(a.size("M")?);
    "blackman" => |a| Array::blackman(a.size("M")?);
    "asarray" => |a| asarray(a);
    "from_dlpack" => |a| {
        let copy = a.opt("copy").map(|_| a.bool_or("copy", false)).transpose()?;
        dlpack::import(a.need(0)?, copy)
    };
}
