//! Sums of products over labelled axes: what `einsum`, `tensordot` and their like come down to.
//!
//! Two arrays are contracted by a matrix product: axes that both have and the result keeps are the batch, those that
//! both have and the result lacks are summed over, and the others are rows and columns.

use crate::dtype::Dtype;
use crate::shape::Shape;
use crate::{Array, Error, Result};

/// Name of an axis.
pub(super) type Label = u32;

/// An array and the names of its axes, each name once.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) array: Array,
    pub(super) labels: Vec<Label>,
}

impl Named {
    fn size(&self, label: Label) -> Option<usize> {
        self.labels.iter().position(|&l| l == label).map(|i| self.array.shape()[i])
    }

    /// Without the axes that are not in `kept`, summed over.
    pub(super) fn keep(self, kept: &[Label]) -> Result<Named> {
        let axes: Vec<i32> =
            (0..self.labels.len()).filter(|&i| !kept.contains(&self.labels[i])).map(|i| i as i32).collect();
        if axes.is_empty() {
            return Ok(self);
        }
        let dtype = self.array.dtype();
        let array = self.array.sum(&axes, false)?.astype(dtype)?;
        Ok(Named { array, labels: self.labels.into_iter().filter(|l| kept.contains(l)).collect() })
    }

    /// With the axes in this order; names that it lacks are new axes of size 1.
    pub(super) fn ordered(&self, labels: &[Label]) -> Result<Array> {
        let have: Vec<Label> = labels.iter().copied().filter(|l| self.labels.contains(l)).collect();
        let order: Vec<i32> =
            have.iter().filter_map(|l| self.labels.iter().position(|m| m == l)).map(|i| i as i32).collect();
        let x = if order.iter().enumerate().all(|(i, &o)| i as i32 == o) {
            self.array.clone()
        } else {
            self.array.transpose(&order)?
        };
        let missing: Vec<i32> =
            (0..labels.len()).filter(|&i| !self.labels.contains(&labels[i])).map(|i| i as i32).collect();
        if missing.is_empty() { Ok(x) } else { x.expand_dims(&missing) }
    }
}

/// The sum of products of two arrays over all names that are not in `kept`. Axes of one name have one size, or 1.
pub(super) fn pair(op: &'static str, a: Named, b: Named, kept: &[Label]) -> Result<Named> {
    let wanted = |other: &Named| -> Vec<Label> { other.labels.iter().chain(kept).copied().collect() };
    let (for_a, for_b) = (wanted(&b), wanted(&a));
    let (mut a, mut b) = (a.keep(&for_a)?, b.keep(&for_b)?);
    // An axis of size 1 beside a longer one is broadcast: it is summed away on its side, and belongs to the other.
    for label in a.labels.clone() {
        match (a.size(label), b.size(label)) {
            (Some(x), Some(y)) if x == y => {}
            (Some(1), Some(_)) => a = drop_label(a, label)?,
            (Some(_), Some(1)) => b = drop_label(b, label)?,
            (Some(x), Some(y)) => {
                return Err(Error::shape(op, format!("axes of sizes {x} and {y} do not fit")));
            }
            (_, _) => {}
        }
    }
    // What is in one only now, and not kept, is summed before.
    let (for_a, for_b) = (wanted(&b), wanted(&a));
    let (a, b) = (a.keep(&for_a)?, b.keep(&for_b)?);
    let shared = |l: &&Label| b.labels.contains(l);
    let batch: Vec<Label> = a.labels.iter().filter(shared).filter(|l| kept.contains(l)).copied().collect();
    let inner: Vec<Label> = a.labels.iter().filter(shared).filter(|l| !kept.contains(l)).copied().collect();
    let rows: Vec<Label> = a.labels.iter().filter(|l| !b.labels.contains(l)).copied().collect();
    let columns: Vec<Label> = b.labels.iter().filter(|l| !a.labels.contains(l)).copied().collect();
    let labels: Vec<Label> = batch.iter().chain(&rows).chain(&columns).copied().collect();
    let dtype = a.array.dtype().promote(b.array.dtype());
    let elements = |l: &[Label]| -> usize { l.iter().filter_map(|&l| a.size(l).or(b.size(l))).product() };
    let thin = rows.is_empty() && columns.is_empty() && !batch.is_empty();
    if inner.is_empty() || thin || !dtype.is_inexact() {
        // Matrix products have no integers, and rows of one element are not worth one.
        let all: Vec<Label> = labels.iter().chain(&inner).copied().collect();
        let wide =
            if dtype.is_inexact() && dtype.size() < 4 && !inner.is_empty() { Dtype::F32 } else { dtype };
        let (x, y) = (a.ordered(&all)?.astype(wide)?, b.ordered(&all)?.astype(wide)?);
        let mut product = x.multiply(&y)?;
        if !inner.is_empty() {
            let axes: Vec<i32> = (labels.len()..all.len()).map(|i| i as i32).collect();
            product = product.sum(&axes, false)?;
        }
        return Ok(Named { array: product.astype(dtype)?, labels });
    }
    let (n, k, r, c) = (elements(&batch), elements(&inner), elements(&rows), elements(&columns));
    let chain = |x: &[Label], y: &[Label], z: &[Label]| [x, y, z].concat();
    let left = a.ordered(&chain(&batch, &rows, &inner))?.reshape(&[n, r, k])?;
    let right = b.ordered(&chain(&batch, &inner, &columns))?.reshape(&[n, k, c])?;
    let product = if batch.is_empty() {
        left.squeeze(&[0])?.matmul(&right.squeeze(&[0])?)?
    } else {
        left.matmul(&right)?
    };
    let shape: Shape = labels.iter().filter_map(|&l| a.size(l).or(b.size(l))).collect();
    Ok(Named { array: product.reshape(&shape)?, labels })
}

fn drop_label(x: Named, label: Label) -> Result<Named> {
    let kept: Vec<Label> = x.labels.iter().copied().filter(|&l| l != label).collect();
    x.keep(&kept)
}

/// Names `0, 1, …` for the axes of an array.
fn numbered(x: &Array) -> Named {
    Named { array: x.clone(), labels: (0..x.rank() as Label).collect() }
}

/// Sum of products over pairs of axes, `axes_a[i]` with `axes_b[i]`; the other axes of `a` come before those of `b`.
/// Types are promoted; integers stay integers.
///
/// # Errors
/// `Shape` when the numbers or sizes of paired axes differ.
pub fn tensordot(a: &Array, b: &Array, axes_a: &[i32], axes_b: &[i32]) -> Result<Array> {
    let op = "tensordot";
    if axes_a.len() != axes_b.len() {
        let msg = format!("{} axes of the first array and {} of the second", axes_a.len(), axes_b.len());
        return Err(Error::shape(op, msg));
    }
    crate::shape::AxisSet::resolve(op, axes_a, a.rank())?;
    crate::shape::AxisSet::resolve(op, axes_b, b.rank())?;
    let x = numbered(a);
    let mut y = numbered(b);
    y.labels.iter_mut().for_each(|l| *l += a.rank() as Label);
    let mut kept: Vec<Label> = x.labels.iter().chain(&y.labels).copied().collect();
    for (&i, &j) in axes_a.iter().zip(axes_b) {
        let (i, j) = (crate::shape::axis(op, i, a.rank())?, crate::shape::axis(op, j, b.rank())?);
        if a.shape()[i] != b.shape()[j] {
            let msg = format!("axis {i} of {} and axis {j} of {} differ", a.shape(), b.shape());
            return Err(Error::shape(op, msg));
        }
        kept.retain(|&l| l != x.labels[i] && l != y.labels[j]);
        y.labels[j] = x.labels[i];
    }
    crate::shape::check_rank(op, kept.len())?;
    pair(op, x, y, &kept)?.ordered(&kept)
}

/// [`tensordot`] over the last `count` axes of `a` and the first of `b`.
pub fn tensordot_last(a: &Array, b: &Array, count: usize) -> Result<Array> {
    if count > a.rank().min(b.rank()) {
        let msg = format!("{count} axes of shapes {} and {}", a.shape(), b.shape());
        return Err(Error::shape("tensordot", msg));
    }
    let first: Vec<i32> = (a.rank() - count..a.rank()).map(|i| i as i32).collect();
    let second: Vec<i32> = (0..count as i32).collect();
    tensordot(a, b, &first, &second)
}

/// Sum of products over the last axis of both; with a scalar the product.
pub fn inner(a: &Array, b: &Array) -> Result<Array> {
    if a.rank() == 0 || b.rank() == 0 {
        return a.multiply(b);
    }
    tensordot(a, b, &[-1], &[-1]).map_err(|e| match e {
        Error::Shape { msg, .. } => Error::shape("inner", msg),
        Error::Index { msg, .. } => Error::index("inner", msg),
        e => e,
    })
}

/// Products of every element of `a` with every element of `b`, both flattened.
pub fn outer(a: &Array, b: &Array) -> Result<Array> {
    a.reshape(&[a.size(), 1])?.multiply(&b.reshape(&[1, b.size()])?)
}

/// Sum of products along an axis of both, the first conjugated; other axes broadcast. Summed in `float32` at least.
///
/// # Errors
/// `Shape` when the axis has two sizes.
pub fn vecdot(a: &Array, b: &Array, along: i32) -> Result<Array> {
    let op = "vecdot";
    let (n, m) = (a.dim(along), b.dim(along));
    let (Ok(n), Ok(m)) = (n, m) else {
        return Err(Error::shape(op, format!("axis {along} of shapes {} and {}", a.shape(), b.shape())));
    };
    if n != m {
        return Err(Error::shape(op, format!("axis {along} of {} and {} differs", a.shape(), b.shape())));
    }
    let dtype = a.dtype().promote(b.dtype());
    let wide = if dtype.is_inexact() && dtype.size() < 4 { Dtype::F32 } else { dtype };
    let (x, y) = (a.astype(wide)?.moveaxis(along, -1)?, b.astype(wide)?.moveaxis(along, -1)?);
    x.conjugate()?.multiply(&y)?.sum(&[-1], false)?.astype(dtype)
}

/// Kronecker product: each element of `a` times the whole of `b`; the one with fewer axes gets leading ones.
pub fn kron(a: &Array, b: &Array) -> Result<Array> {
    let rank = a.rank().max(b.rank());
    crate::shape::check_rank("kron", 2 * rank)?;
    let spread = |x: &Array, first: bool| {
        let lead = rank - x.rank();
        let dim = |i: usize| if i < lead { 1 } else { x.shape()[i - lead] };
        let pair = |i: usize| if first { [dim(i), 1] } else { [1, dim(i)] };
        x.reshape(&(0..rank).flat_map(pair).collect::<Vec<usize>>())
    };
    let y = spread(a, true)?.multiply(&spread(b, false)?)?;
    let shape: Vec<usize> = y.shape().chunks_exact(2).map(|p| p[0] * p[1]).collect();
    y.reshape(&shape)
}
