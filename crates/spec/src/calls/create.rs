//! Constants, ranges, diagonals, windows.

use super::calls;
use crate::args::Args;
use crate::value::Value;
use olivine_core::{Array, Dtype, Error, Result};

/// A range of integers, or of floats where any argument is one.
fn arange(a: &Args) -> Result<Array> {
    let (mut start, mut stop) = (a.value(0), a.value(1));
    if stop.is_none() {
        (start, stop) = (Some(Value::Int(0)), start);
    }
    let step = a.value(2).unwrap_or(Value::Int(1));
    match (start, stop, step, a.opt_dtype("dtype")?) {
        (Some(Value::Int(start)), Some(Value::Int(stop)), Value::Int(step), dtype) => {
            Array::arange_int(start, stop, step, dtype.unwrap_or(Dtype::I32))
        }
        (Some(start), Some(stop), step, dtype) => {
            let number = |v: Value| match v {
                Value::Int(i) => Ok(i as f64),
                Value::Float(x) => Ok(x),
                v => Err(Error::value("arange", format!("takes numbers, got {}", v.kind()))),
            };
            Array::arange(number(start)?, number(stop)?, number(step)?, dtype.unwrap_or(Dtype::F32))
        }
        (_, _, _, _) => Err(Error::value("arange", "takes at least one number")),
    }
}

/// A constant of one of the arguments' types, or of the one that is asked for.
fn full(a: &Args) -> Result<Array> {
    let value = a.array(1)?;
    let dtype = a.opt_dtype("dtype")?.unwrap_or(value.dtype());
    value.astype(dtype)?.broadcast_to(&a.shape("shape")?)
}

/// Rows, columns, diagonal, type.
fn matrix(a: &Args) -> Result<(usize, usize, i64, Dtype)> {
    let n = a.size("n")?;
    Ok((n, a.size_or("m", n)?, a.int_or("k", 0)?, a.dtype_or("dtype", Dtype::F32)?))
}

/// Ends, number, whether the last belongs to it, type.
fn ends(a: &Args) -> Result<(f64, f64, usize, bool, Dtype)> {
    let (start, stop, num) = (a.f64("start")?, a.f64("stop")?, a.size_or("num", 50)?);
    Ok((start, stop, num, a.bool_or("endpoint", true)?, a.dtype_or("dtype", Dtype::F32)?))
}

calls! { "create";
    "zeros" => |a| Array::zeros(&a.shape("shape")?, a.dtype_or("dtype", Dtype::F32)?);
    "empty" => |a| Array::zeros(&a.shape("shape")?, a.dtype_or("dtype", Dtype::F32)?);
    "ones" => |a| Array::ones(&a.shape("shape")?, a.dtype_or("dtype", Dtype::F32)?);
    "full" => |a| full(a);
    "full_like" => |a| {
        let x = a.array(0)?;
        let dtype = a.opt_dtype("dtype")?.unwrap_or(x.dtype());
        a.array(1)?.astype(dtype)?.broadcast_to(x.shape())
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
    "linspace" => |a| ends(a).and_then(|(s, t, n, e, d)| Array::linspace(s, t, n, e, d));
    "logspace" => |a| {
        let base = a.f64_or("base", 10.0)?;
        ends(a).and_then(|(s, t, n, e, d)| Array::logspace(s, t, n, e, base, d))
    };
    "eye" => |a| matrix(a).and_then(|(n, m, k, d)| Array::eye(n, m, k, d));
    "identity" => |a| Array::identity(a.size("n")?, a.dtype_or("dtype", Dtype::F32)?);
    "tri" => |a| matrix(a).and_then(|(n, m, k, d)| Array::tri(n, m, k, d));
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
}
