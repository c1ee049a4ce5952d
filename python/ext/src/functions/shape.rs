//! Shapes: views, joining, parting, padding.

use crate::args::{self, Args};
use crate::fault::{R, type_error, value_error};
use crate::function::table;
use crate::give::{Give, Several};
use olivine_core::ops::{
    Indexing, PadMode, broadcast_arrays, broadcast_shapes, concatenate, depends, meshgrid, stack,
};
use olivine_core::{Array, Dtype};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Numbers that are given one by one or as one list.
fn listed(a: &Args<'_, '_>) -> R<Vec<i64>> {
    let int = |v: &Bound<'_, PyAny>| -> R<i64> {
        args::integer(v)?.ok_or_else(|| type_error(format!("[{}] takes ints, or one list of them", a.op())))
    };
    match &a.rest[..] {
        [one] if args::is_list(one) => one.try_iter()?.map(|v| int(&v?)).collect(),
        all => all.iter().map(int).collect(),
    }
}

fn transpose_method(a: &Args<'_, '_>) -> R<Array> {
    let x = a.array(0)?;
    if a.rest.is_empty() || (a.rest.len() == 1 && a.rest[0].is_none()) {
        return Ok(x.t()?);
    }
    let axes: Vec<i32> = listed(a)?.iter().map(|&i| i as i32).collect();
    Ok(x.transpose(&axes)?)
}

/// Pairs of widths: one number, one pair, or a pair for each axis.
fn widths(a: &Args<'_, '_>) -> R<Vec<(usize, usize)>> {
    let wrong = |v: &Bound<'_, PyAny>| a.wrong("pad_width", "an int, a pair of ints or a list of pairs", v);
    let size = |v: &Bound<'_, PyAny>| -> R<usize> {
        let i = args::integer(v)?.ok_or_else(|| wrong(v))?;
        usize::try_from(i).map_err(|_| value_error(format!("[pad] a width of {i}")))
    };
    let v = a.need("pad_width")?;
    if !args::is_list(v) {
        let w = size(v)?;
        return Ok(vec![(w, w)]);
    }
    let items: Vec<Bound<'_, PyAny>> = v.try_iter()?.collect::<PyResult<_>>()?;
    if !items.iter().any(args::is_list) {
        return match &items[..] {
            [one] => Ok(vec![(size(one)?, size(one)?)]),
            [low, high] => Ok(vec![(size(low)?, size(high)?)]),
            _ => Err(wrong(v)),
        };
    }
    items
        .iter()
        .map(|pair| {
            let ends: Vec<Bound<'_, PyAny>> = if args::is_list(pair) {
                pair.try_iter()?.collect::<PyResult<_>>()?
            } else {
                return Err(wrong(pair));
            };
            match &ends[..] {
                [low, high] => Ok((size(low)?, size(high)?)),
                _ => Err(wrong(pair)),
            }
        })
        .collect()
}

fn pad(a: &Args<'_, '_>) -> R<Array> {
    let x = a.array(0)?;
    let mode = match a.str_or("mode", "constant")?.as_str() {
        "constant" => match a.opt_array_like("constant_values", &x)? {
            Some(v) => PadMode::Constant(v),
            None => PadMode::Zero,
        },
        "edge" => PadMode::Edge,
        "reflect" => PadMode::Reflect,
        "symmetric" => PadMode::Symmetric,
        "wrap" => PadMode::Wrap,
        m => return Err(value_error(format!("[pad] {m:?} is no mode"))),
    };
    Ok(x.pad(&widths(a)?, &mode)?)
}

fn split(a: &Args<'_, '_>) -> R<Vec<Array>> {
    let (x, axis) = (a.array(0)?, a.axis_or("axis", 0)?);
    let v = a.need("indices_or_sections")?;
    if args::is_list(v) {
        return Ok(x.split_at(&a.ints("indices_or_sections")?, axis)?);
    }
    let n = a.int("indices_or_sections")?;
    Ok(x.split(usize::try_from(n).map_err(|_| value_error(format!("[split] {n} parts")))?, axis)?)
}

/// Every array with a number of axes at least: one alone, several in a list.
fn at_least(a: &Args<'_, '_>, rank: usize) -> R<Py<PyAny>> {
    let mut all = a.rest_arrays()?.iter().map(|x| x.at_least(rank)).collect::<Result<Vec<_>, _>>()?;
    if all.len() == 1 { all.remove(0).give(a.py) } else { all.give(a.py) }
}

fn joined(a: &Args<'_, '_>, f: fn(&[Array], i32) -> olivine_core::Result<Array>) -> R<Array> {
    let arrays = a.arrays("arrays")?;
    match a.axis_given("axis", 0)? {
        Some(axis) => Ok(f(&arrays, axis)?),
        None => {
            let flat = arrays.iter().map(Array::flatten).collect::<Result<Vec<_>, _>>()?;
            Ok(f(&flat, 0)?)
        }
    }
}

fn shapes(a: &Args<'_, '_>) -> R<Py<PyAny>> {
    let shapes: Vec<Vec<usize>> = a
        .rest
        .iter()
        .map(|v| v.extract().map_err(|_| type_error("[broadcast_shapes] a shape is a list of sizes")))
        .collect::<R<_>>()?;
    let shape = broadcast_shapes(&shapes.iter().map(|s| &s[..]).collect::<Vec<_>>())?;
    Ok(PyTuple::new(a.py, shape.iter())?.into_any().unbind())
}

fn roll(a: &Args<'_, '_>) -> R<Array> {
    let (x, shift) = (a.array(0)?, a.ints("shift")?);
    match a.opt_axes("axis")? {
        Some(axes) => Ok(x.roll(&shift, &axes)?),
        None => Ok(x.flatten()?.roll(&[shift.iter().sum()], &[0])?.reshape(x.shape())?),
    }
}

fn grid(a: &Args<'_, '_>) -> R<Several> {
    let indexing = match a.str_or("indexing", "xy")?.as_str() {
        "xy" => Indexing::Xy,
        "ij" => Indexing::Ij,
        i => return Err(value_error(format!("[meshgrid] {i:?} is no indexing"))),
    };
    Ok(Several(meshgrid(&a.rest_arrays()?, a.bool_or("sparse", false)?, indexing)?))
}

fn dependent(a: &Args<'_, '_>) -> R<Py<PyAny>> {
    let alone = a.need(0)?.cast::<crate::array::PyArray>().is_ok();
    let mut all = depends(&a.arrays(0)?, &a.arrays(1)?)?;
    if alone { all.remove(0).give(a.py) } else { all.give(a.py) }
}

table! {
    /// Functions of shapes.
    TABLE;
    "reshape" => |a| a.array(0)?.reshape(&a.int_list("shape")?);
    "array.reshape" => |a| a.array(0)?.reshape(&listed(a)?);
    "transpose", "permute_dims" => |a| match a.opt_axes("axes")? {
        Some(axes) => a.array(0)?.transpose(&axes),
        None => a.array(0)?.t(),
    };
    "array.transpose" => |a| transpose_method(a);
    "matrix_transpose" => |a| a.array(0)?.matrix_transpose();
    "swapaxes" => |a| a.array(0)?.swapaxes(a.axis("axis1")?, a.axis("axis2")?);
    "moveaxis" => |a| a.array(0)?.moveaxis(a.axis("source")?, a.axis("destination")?);
    "expand_dims" => |a| {
        a.need("axis")?;
        a.array(0)?.expand_dims(&a.opt_axes("axis")?.unwrap_or_default())
    };
    "squeeze" => |a| match a.opt_axes("axis")? {
        Some(axes) => a.array(0)?.squeeze(&axes),
        None => a.array(0)?.squeeze_all(),
    };
    "flatten" => |a| a.array(0)?.flatten_axes(a.axis_or("start_axis", 0)?, a.axis_or("end_axis", -1)?);
    "unflatten" => |a| a.array(0)?.unflatten(a.axis("axis")?, &a.int_list("shape")?);
    "broadcast_to" => |a| a.array(0)?.broadcast_to(&a.sequence("shape")?);
    "broadcast_arrays" => |a| a.rest_arrays().map(|all| broadcast_arrays(&all).map(Several))?;
    "broadcast_shapes" => |a| shapes(a);
    "meshgrid" => |a| grid(a);
    "atleast_1d" => |a| at_least(a, 1);
    "atleast_2d" => |a| at_least(a, 2);
    "atleast_3d" => |a| at_least(a, 3);
    "concatenate", "concat" => |a| joined(a, concatenate);
    "stack" => |a| joined(a, stack);
    "split" => |a| split(a);
    "unstack" => |a| a.array(0)?.unstack(a.axis_or("axis", 0)?).map(Several);
    "flip" => |a| a.array(0)?.flip(&a.opt_axes("axis")?.unwrap_or_default());
    "roll" => |a| roll(a);
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
    "depends" => |a| dependent(a);
    "from_fp8" => |a| a.array(0)?.from_fp8(a.dtype_or("dtype", Dtype::BF16)?);
    "to_fp8" => |a| a.array(0)?.to_fp8();
}
