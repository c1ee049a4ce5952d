//! Shapes: views, joining, parting, padding.

use super::calls;
use crate::args::Args;
use crate::value::Value;
use olivine_core::ops::{
    Indexing, PadMode, broadcast_arrays, broadcast_shapes, concatenate, depends, meshgrid, stack,
};
use olivine_core::{Array, Error, Result};

/// Pairs of widths: one number, one pair, or a pair for each axis.
fn widths(a: &Args) -> Result<Vec<(usize, usize)>> {
    let wrong = || Error::value("pad", "widths are a number, a pair, or a list of pairs");
    let size = |v: &Value| match v {
        Value::Int(i) => usize::try_from(*i).map_err(|_| Error::value("pad", format!("a width of {i}"))),
        _ => Err(wrong()),
    };
    match a.value("pad_width") {
        Some(Value::List(v)) if v.iter().any(|v| matches!(v, Value::List(_))) => v
            .iter()
            .map(|p| match p {
                Value::List(p) if p.len() == 2 => Ok((size(&p[0])?, size(&p[1])?)),
                _ => Err(wrong()),
            })
            .collect(),
        Some(Value::List(v)) if v.len() == 2 => Ok(vec![(size(&v[0])?, size(&v[1])?)]),
        Some(Value::List(v)) if v.len() == 1 => Ok(vec![(size(&v[0])?, size(&v[0])?)]),
        Some(v) => Ok(vec![(size(&v)?, size(&v)?)]),
        None => Err(wrong()),
    }
}

fn pad(a: &Args) -> Result<Array> {
    let x = a.array(0)?;
    let mode = a.choice("mode", &["constant", "edge", "reflect", "symmetric", "wrap"])?;
    let mode = match mode.as_str() {
        "constant" => match a.opt_array_like("constant_values", &x)? {
            Some(v) => PadMode::Constant(v),
            None => PadMode::Zero,
        },
        "edge" => PadMode::Edge,
        "reflect" => PadMode::Reflect,
        "symmetric" => PadMode::Symmetric,
        "wrap" => PadMode::Wrap,
        m => return Err(Error::value("pad", format!("{m:?} is no mode"))),
    };
    x.pad(&widths(a)?, &mode)
}

/// Numbers, one or several, at a key.
fn split(a: &Args) -> Result<Vec<Array>> {
    let (x, axis) = (a.array(0)?, a.axis_or("axis", 0)?);
    match a.value("indices_or_sections") {
        Some(Value::Int(n)) => {
            x.split(usize::try_from(n).map_err(|_| Error::value("split", format!("{n} parts")))?, axis)
        }
        _ => x.split_at(&a.ints("indices_or_sections")?, axis),
    }
}

/// Every array with a number of axes at least.
fn at_least(a: &Args, rank: usize) -> Result<Vec<Array>> {
    a.rest(0)?.iter().map(|x| x.at_least(rank)).collect()
}

calls! { "shape";
    "reshape" => |a| a.array(0)?.reshape(&a.ints("shape")?);
    "transpose", "permute_dims" => |a| match a.opt_axes("axes")? {
        Some(axes) => a.array(0)?.transpose(&axes),
        None => a.array(0)?.t(),
    };
    "matrix_transpose" => |a| a.array(0)?.matrix_transpose();
    "swapaxes" => |a| a.array(0)?.swapaxes(a.axis("axis1")?, a.axis("axis2")?);
    "moveaxis" => |a| a.array(0)?.moveaxis(a.axis("source")?, a.axis("destination")?);
    "expand_dims" => |a| a.array(0)?.expand_dims(&a.axes("axis")?);
    "squeeze" => |a| match a.opt_axes("axis")? {
        Some(axes) => a.array(0)?.squeeze(&axes),
        None => a.array(0)?.squeeze_all(),
    };
    "flatten" => |a| a.array(0)?.flatten_axes(a.axis_or("start_axis", 0)?, a.axis_or("end_axis", -1)?);
    "unflatten" => |a| a.array(0)?.unflatten(a.axis("axis")?, &a.ints("shape")?);
    "broadcast_to" => |a| a.array(0)?.broadcast_to(&a.shape("shape")?);
    "broadcast_arrays" => |a| broadcast_arrays(&a.rest(0)?);
    "broadcast_shapes" => |a| {
        let shapes: Vec<Vec<usize>> = a.rest(0)?.iter().map(|x| x.shape().to_vec()).collect();
        let shape = broadcast_shapes(&shapes.iter().map(|s| &s[..]).collect::<Vec<_>>())?;
        Array::from_slice(&shape.iter().map(|&d| d as i64).collect::<Vec<_>>(), &[shape.rank()])
    };
    "meshgrid" => |a| {
        let indexing = match a.choice("indexing", &["xy", "ij"])?.as_str() {
            "xy" => Indexing::Xy,
            "ij" => Indexing::Ij,
            i => return Err(Error::value("meshgrid", format!("{i:?} is no indexing"))),
        };
        meshgrid(&a.rest(0)?, a.bool_or("sparse", false)?, indexing)
    };
    "atleast_1d" => |a| at_least(a, 1);
    "atleast_2d" => |a| at_least(a, 2);
    "atleast_3d" => |a| at_least(a, 3);
    "concatenate", "concat" => |a| concatenate(&a.arrays(0)?, a.axis_or("axis", 0)?);
    "stack" => |a| stack(&a.arrays(0)?, a.axis_or("axis", 0)?);
    "split" => |a| split(a);
    "unstack" => |a| a.array(0)?.unstack(a.axis_or("axis", 0)?);
    "flip" => |a| a.array(0)?.flip(&a.axes("axis")?);
    "roll" => |a| a.array(0)?.roll(&a.ints("shift")?, &a.axes("axis")?);
    "repeat" => |a| match a.opt_axis("axis")? {
        Some(axis) => a.array(0)?.repeat(a.size("repeats")?, axis),
        None => a.array(0)?.flatten()?.repeat(a.size("repeats")?, 0),
    };
    "tile" => |a| a.array(0)?.tile(&a.shape("reps")?);
    "pad" => |a| pad(a);
    "as_strided" => |a| {
        let x = a.array(0)?;
        let shape = a.opt_shape("shape")?.unwrap_or_else(|| x.shape().to_vec());
        let strides = a.opt_ints("strides")?;
        let strides: Option<Vec<isize>> = strides.map(|s| s.iter().map(|&d| d as isize).collect());
        x.as_strided(&shape, strides.as_deref(), a.size_or("offset", 0)?)
    };
    "contiguous" => |a| a.array(0)?.contiguous();
    "depends" => |a| depends(&a.arrays(0)?, &a.arrays(1)?);
    "view" => |a| a.array(0)?.view_as(a.dtype("dtype")?);
}
