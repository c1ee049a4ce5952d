//! Reading and writing at positions.

use super::calls;
use crate::args::Args;
use crate::value::Value;
use olivine_core::ops::IndexItem;
use olivine_core::{Array, Error, Result};

/// An index: a list of integers, arrays, truth values, `None` for a new axis, `"..."`, and ranges such as `"1:-1:2"`.
fn index(a: &Args) -> Result<Vec<IndexItem>> {
    let items = match a.value("index") {
        Some(Value::List(v)) => v,
        Some(v) => vec![v],
        None => return Err(Error::value(a.op(), "index is missing")),
    };
    items.iter().map(|v| item(a.op(), v)).collect()
}

fn item(op: &'static str, v: &Value) -> Result<IndexItem> {
    let wrong = |v: &str| Error::value(op, format!("{v:?} is no index"));
    match v {
        Value::None => Ok(IndexItem::NewAxis),
        Value::Bool(b) => Ok(IndexItem::from(*b)),
        Value::Int(i) => Ok(IndexItem::Int(*i)),
        Value::Array(a) => Ok(IndexItem::Array(a.clone())),
        Value::Str(s) if s == "..." => Ok(IndexItem::Ellipsis),
        Value::Str(s) => {
            let part = |p: &str| match p {
                "" => Ok(None),
                p => p.parse().map(Some).map_err(|_| wrong(s)),
            };
            let parts: Vec<Option<i64>> = s.split(':').map(part).collect::<Result<_>>()?;
            match parts[..] {
                [start, stop] => Ok(IndexItem::Range { start, stop, step: 1 }),
                [start, stop, step] => Ok(IndexItem::Range { start, stop, step: step.unwrap_or(1) }),
                _ => Err(wrong(s)),
            }
        }
        Value::Float(_) | Value::Dtype(_) | Value::List(_) => Err(wrong(v.kind())),
    }
}

fn at(a: &Args) -> Result<Array> {
    let (x, index) = (a.array(0)?, index(a)?);
    let (spot, values) = (x.at(&index), a.array_like(1, &x)?);
    let names = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "set"];
    match a.choice("mode", &names)?.as_str() {
        "add" => spot.add(&values),
        "subtract" => spot.subtract(&values),
        "multiply" => spot.multiply(&values),
        "divide" => spot.divide(&values),
        "maximum" => spot.maximum(&values),
        "minimum" => spot.minimum(&values),
        "set" => spot.set(&values),
        m => Err(Error::value("at", format!("{m:?} is no update"))),
    }
}

/// The axis at "axis", or all elements of the given arrays in a row.
fn along(a: &Args, arrays: &mut [Array]) -> Result<i32> {
    match a.opt_axis("axis")? {
        Some(axis) => Ok(axis),
        None => {
            for x in arrays {
                *x = x.flatten()?;
            }
            Ok(0)
        }
    }
}

calls! { "index";
    "take" => |a| match a.opt_axis("axis")? {
        Some(axis) => a.array(0)?.take(&a.array(1)?, axis),
        None => a.array(0)?.flatten()?.take(&a.array(1)?, 0),
    };
    "take_along_axis" => |a| {
        let mut v = [a.array(0)?, a.array(1)?];
        let axis = along(a, &mut v)?;
        v[0].take_along_axis(&v[1], axis)
    };
    "put_along_axis" => |a| {
        let x = a.array(0)?;
        let mut v = [x.clone(), a.array(1)?, a.array_like(2, &x)?];
        let axis = along(a, &mut v)?;
        v[0].put_along_axis(&v[1], &v[2], axis)?.reshape(x.shape())
    };
    "slice" => |a| a.array(0)?.slice_from(&a.array(1)?, &a.axes("axes")?, &a.shape("slice_size")?);
    "slice_update" => |a| a.array(0)?.slice_update_from(&a.array(1)?, &a.array(2)?, &a.axes("axes")?);
    "searchsorted" => |a| {
        let right = match a.choice("side", &["left", "right"])?.as_str() {
            "left" => false,
            "right" => true,
            s => return Err(Error::value("searchsorted", format!("{s:?} is no side"))),
        };
        a.array(0)?.searchsorted(&a.array(1)?, right)
    };
    "array.__getitem__" => |a| a.array(0)?.get(&index(a)?);
    "array.__setitem__" => |a| {
        let x = a.array(0)?;
        x.set(&index(a)?, &a.array_like(1, &x)?)
    };
    "array.at" => |a| at(a);
    "nonzero" => |a| a.array(0)?.nonzero();
    "flatnonzero" => |a| a.array(0)?.flatnonzero();
    "argwhere" => |a| a.array(0)?.argwhere();
}
