//! Reading and writing at positions that arrays of indices give.
//!
//! Indices count from the end when negative. One that is out of range is an `Index` error when the
//! operation runs.

use super::{Meta, Metas, arity, one};
use crate::shape::Shape;
use crate::{Array, Dtype, Error, Result};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// How a scattered value meets what is there. With `Set` and a repeated position the last one stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ScatterMode {
    Set,
    Add,
    Prod,
    Max,
    Min,
}

/// Reading and writing at positions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Index {
    /// Arguments: `x`, then one integer array per entry of `axes`, all of one shape `I`. The result has
    /// shape `I + sizes`: at each position of `I` the window of `sizes` that starts at the given indices
    /// of `axes` and at 0 elsewhere.
    Gather {
        /// Axes that are indexed, rising.
        axes: SmallVec<[u8; 4]>,
        /// Size of the window along every axis of `x`.
        sizes: Shape,
    },
    /// Arguments: `x`, `updates`, then the index arrays as above; `updates` has shape `I + sizes`.
    Scatter {
        /// Axes that are indexed, rising.
        axes: SmallVec<[u8; 4]>,
        /// What happens at each position.
        mode: ScatterMode,
    },
    /// Arguments: `x`, `indices` of the same rank: `y[i, j, k] = x[i, indices[i, j, k], k]` for axis 1.
    TakeAlong {
        /// Along which axis.
        axis: usize,
    },
    /// Arguments: rising numbers `s` along one axis, and `v` of the same type: how many of `s` come before each
    /// element of `v`, in the order of sorting. As `u32`.
    SearchSorted {
        /// Count those that are equal, too.
        right: bool,
    },
    /// Arguments: `x`, `indices`, `values`: the reverse of [`Index::TakeAlong`].
    PutAlong {
        /// Along which axis.
        axis: usize,
        /// What happens at each position.
        mode: ScatterMode,
    },
}

impl Index {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Index::Gather { .. } => "gather",
            Index::Scatter { .. } => "scatter",
            Index::TakeAlong { .. } => "take_along_axis",
            Index::SearchSorted { .. } => "searchsorted",
            Index::PutAlong { .. } => "put_along_axis",
        }
    }

    pub(super) fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        let name = self.name();
        match self {
            Index::Gather { axes, sizes } => {
                let (x, indices) = split_first(name, inputs)?;
                let at = check_indices(name, x, axes, indices)?;
                check_sizes(name, x, sizes)?;
                let shape: Vec<usize> = at.iter().chain(sizes.iter()).copied().collect();
                one(Shape::checked(name, &shape)?, x.dtype)
            }
            Index::Scatter { axes, mode: _ } => {
                let (x, rest) = split_first(name, inputs)?;
                let (updates, indices) = split_first(name, rest)?;
                let at = check_indices(name, x, axes, indices)?;
                check_dtypes(name, x, updates)?;
                let fits = updates.shape.rank() == at.rank() + x.shape.rank()
                    && updates.shape[..at.rank()] == at[..];
                if !fits {
                    let msg = format!("updates {} do not fit indices {at} into {}", updates.shape, x.shape);
                    return Err(Error::shape(name, msg));
                }
                check_sizes(name, x, &Shape::new(&updates.shape[at.rank()..]))?;
                one(x.shape.clone(), x.dtype)
            }
            Index::TakeAlong { axis } => {
                let [x, i] = arity(name, inputs)?;
                check_along(name, x, i, *axis)?;
                one(i.shape.clone(), x.dtype)
            }
            Index::SearchSorted { right: _ } => {
                let [s, v] = arity(name, inputs)?;
                check_dtypes(name, s, v)?;
                if s.shape.rank() != 1 || s.elements() > u32::MAX as usize {
                    let msg = format!("takes sorted numbers along one axis, got shape {}", s.shape);
                    return Err(Error::shape(name, msg));
                }
                one(v.shape.clone(), Dtype::U32)
            }
            Index::PutAlong { axis, mode: _ } => {
                let [x, i, v] = arity(name, inputs)?;
                check_along(name, x, i, *axis)?;
                check_dtypes(name, x, v)?;
                if v.shape != i.shape {
                    return Err(Error::shape(
                        name,
                        format!("values {} and indices {} differ", v.shape, i.shape),
                    ));
                }
                one(x.shape.clone(), x.dtype)
            }
        }
    }
}

impl Index {
    /// The composite where there is one: a search by halves, one comparison a step for all elements together.
    pub(super) fn fallback(&self, inputs: &[Array]) -> Option<Result<Vec<Array>>> {
        match self {
            Index::SearchSorted { right } => Some(search(&inputs[0], &inputs[1], *right).map(|a| vec![a])),
            Index::Gather { .. }
            | Index::Scatter { .. }
            | Index::TakeAlong { .. }
            | Index::PutAlong { .. } => None,
        }
    }
}

fn search(s: &Array, v: &Array, right: bool) -> Result<Array> {
    let n = s.size() as i64;
    let number = |i: i64| Array::from_scalar(i);
    // NaN comes after all numbers.
    let before = |a: &Array, b: &Array| -> Result<Array> {
        let less = a.less(b)?;
        if !a.dtype().is_inexact() {
            return Ok(less);
        }
        less.logical_or(&b.isnan()?.logical_and(&a.isnan()?.logical_not()?)?)
    };
    let mut at = Array::zeros(v.shape(), Dtype::I64)?;
    if n == 0 {
        return at.astype(Dtype::U32);
    }
    for bit in (0..64 - n.leading_zeros()).rev() {
        let next = at.add(&number(1 << bit))?;
        let here = s.take(&next.minimum(&number(n))?.subtract(&number(1))?, 0)?;
        let passed = if right { before(v, &here)?.logical_not()? } else { before(&here, v)? };
        let take = passed.logical_and(&next.less_equal(&number(n))?)?;
        at = Array::select(&take, &next, &at)?;
    }
    at.astype(Dtype::U32)
}

fn split_first<'a, 'b>(op: &'static str, inputs: &'b [&'a Meta]) -> Result<(&'a Meta, &'b [&'a Meta])> {
    inputs.split_first().map(|(a, b)| (*a, b)).ok_or_else(|| Error::value(op, "an argument is missing"))
}

fn check_dtypes(op: &'static str, x: &Meta, v: &Meta) -> Result<()> {
    if x.dtype != v.dtype {
        return Err(Error::dtype(op, format!("types {} and {} differ", x.dtype, v.dtype)));
    }
    Ok(())
}

fn check_indices(op: &'static str, x: &Meta, axes: &[u8], indices: &[&Meta]) -> Result<Shape> {
    let rising = axes.windows(2).all(|w| w[0] < w[1]) && axes.iter().all(|&a| (a as usize) < x.shape.rank());
    if !rising || axes.len() != indices.len() {
        let msg = format!("{} index arrays for axes {axes:?} of shape {}", indices.len(), x.shape);
        return Err(Error::shape(op, msg));
    }
    let at = indices.first().map_or_else(Shape::scalar, |i| i.shape.clone());
    for i in indices {
        if !i.dtype.is_integer() {
            return Err(Error::bad_dtype(op, "integer indices", i.dtype));
        }
        if i.shape != at {
            return Err(Error::shape(op, format!("index shapes {at} and {} differ", i.shape)));
        }
    }
    Ok(at)
}

fn check_sizes(op: &'static str, x: &Meta, sizes: &Shape) -> Result<()> {
    if sizes.rank() != x.shape.rank() || sizes.iter().zip(x.shape.iter()).any(|(&s, &n)| s > n) {
        return Err(Error::shape(op, format!("a window of {sizes} does not lie within shape {}", x.shape)));
    }
    Ok(())
}

fn check_along(op: &'static str, x: &Meta, i: &Meta, axis: usize) -> Result<()> {
    if !i.dtype.is_integer() {
        return Err(Error::bad_dtype(op, "integer indices", i.dtype));
    }
    let fits = axis < x.shape.rank()
        && x.shape.rank() == i.shape.rank()
        && (0..x.shape.rank()).all(|a| a == axis || x.shape[a] == i.shape[a]);
    if !fits {
        return Err(Error::shape(
            op,
            format!("indices {} do not fit shape {} at axis {axis}", i.shape, x.shape),
        ));
    }
    Ok(())
}
