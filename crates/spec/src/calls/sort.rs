//! Ordering.

use super::calls;
use crate::args::Args;
use olivine_core::{Array, Error, Result};

/// The argument and the axis to order along: all elements in a row when the axis is explicitly `None`, which
/// the neutral form writes as the string `"all"`.
fn along(a: &Args) -> Result<(Array, i32)> {
    Ok((a.array(0)?, a.axis_or("axis", -1)?))
}

/// A position that may count from the end.
fn kth(a: &Args, x: &Array, axis: i32) -> Result<usize> {
    let (k, n) = (a.int("kth")?, x.dim(axis)?);
    let at = if k < 0 { k + n as i64 } else { k };
    usize::try_from(at).map_err(|_| Error::index(a.op(), format!("position {k} of {n} elements")))
}

calls! { "sort";
    "sort" => |a| along(a).and_then(|(x, i)| x.sort(i, a.bool_or("descending", false)?));
    "argsort" => |a| along(a).and_then(|(x, i)| x.argsort(i, a.bool_or("descending", false)?));
    "partition" => |a| along(a).and_then(|(x, i)| x.partition(kth(a, &x, i)?, i));
    "argpartition" => |a| along(a).and_then(|(x, i)| x.argpartition(kth(a, &x, i)?, i));
    "unique" => |a| {
        let x = a.array(0)?;
        let u = match a.opt_size("size")? {
            Some(n) => x.unique_sized(n, a.opt_array_like("fill_value", &x)?.as_ref())?,
            None => x.unique_all()?,
        };
        let wanted = [
            (true, u.values),
            (a.bool_or("return_index", false)?, u.index),
            (a.bool_or("return_inverse", false)?, u.inverse),
            (a.bool_or("return_counts", false)?, u.counts),
        ];
        Ok::<_, Error>(wanted.into_iter().filter(|w| w.0).map(|w| w.1).collect::<Vec<_>>())
    };
    "isin" => |a| a.pair().and_then(|(x, y)| x.isin(&y));
    "topk" => |a| along(a).and_then(|(x, i)| x.topk(a.size("k")?, i));
}
