//! Sums of products over named axes.

use super::calls;
use crate::args::Args;
use crate::value::Value;
use olivine_core::ops::{einsum, einsum_path, inner, kron, outer, tensordot, tensordot_last, vecdot};
use olivine_core::{Array, Error, Result};

/// A number of axes, or a list of axes for each of the arrays.
fn dots(a: &Args) -> Result<Array> {
    let (x, y) = (a.array(0)?, a.array(1)?);
    let axis = |v: &Value| match v {
        Value::Int(i) => i32::try_from(*i).map_err(|_| Error::shape("tensordot", format!("axis {i}"))),
        v => Err(Error::value("tensordot", format!("an axis is an int, not {}", v.kind()))),
    };
    let axes = |v: &Value| match v {
        Value::List(v) => v.iter().map(axis).collect::<Result<Vec<i32>>>(),
        v => Ok(vec![axis(v)?]),
    };
    match a.value("axes") {
        Some(Value::List(v)) if v.len() == 2 => tensordot(&x, &y, &axes(&v[0])?, &axes(&v[1])?),
        Some(Value::Int(n)) => {
            let count = usize::try_from(n).map_err(|_| Error::value("tensordot", format!("{n} axes")))?;
            tensordot_last(&x, &y, count)
        }
        None => tensordot_last(&x, &y, 2),
        Some(_) => Err(Error::value("tensordot", "axes are a number or two lists")),
    }
}

calls! { "contract";
    "einsum" => |a| einsum(&a.str("subscripts")?, &a.rest(0)?);
    "einsum_path" => |a| {
        let steps = einsum_path(&a.str("subscripts")?, &a.rest(0)?)?.steps;
        let width = steps.first().map_or(0, Vec::len);
        let flat: Vec<i64> = steps.iter().flatten().map(|&i| i as i64).collect();
        Array::from_slice(&flat, &[steps.len(), width])
    };
    "tensordot" => |a| dots(a);
    "inner" => |a| a.pair().and_then(|(x, y)| inner(&x, &y));
    "outer" => |a| a.pair().and_then(|(x, y)| outer(&x, &y));
    "vecdot" => |a| a.pair().and_then(|(x, y)| vecdot(&x, &y, a.axis_or("axis", -1)?));
    "kron" => |a| a.pair().and_then(|(x, y)| kron(&x, &y));
}
