//! Reading and writing at positions that arrays give.

use crate::op::{Index, Op, ScatterMode};
use crate::shape::{Shape, axis};
use crate::{Array, Error, Result};
use smallvec::SmallVec;

impl Array {
    /// Windows of `sizes` at the positions that `indices` give along `axes`. See [`Index::Gather`].
    pub fn gather(&self, indices: &[Array], axes: &[i32], sizes: &[usize]) -> Result<Array> {
        let axes = resolve("gather", axes, self.rank())?;
        let mut inputs = vec![self.clone()];
        inputs.extend(broadcast_all("gather", indices)?);
        Array::from_op(Op::Index(Index::Gather { axes, sizes: Shape::new(sizes) }), &inputs)
    }

    /// This array with `updates` written at the positions that `indices` give along `axes`. See
    /// [`Index::Scatter`].
    pub fn scatter(
        &self,
        indices: &[Array],
        updates: &Array,
        axes: &[i32],
        mode: ScatterMode,
    ) -> Result<Array> {
        let axes = resolve("scatter", axes, self.rank())?;
        let mut inputs = vec![self.clone(), updates.astype(self.dtype())?];
        inputs.extend(broadcast_all("scatter", indices)?);
        Array::from_op(Op::Index(Index::Scatter { axes, mode }), &inputs)
    }

    /// The slices at `indices` along an axis, in whose place the axes of `indices` stand.
    ///
    /// # Errors
    /// `Index` at evaluation when an index is out of range; negative ones count from the end.
    pub fn take(&self, indices: &Array, along: i32) -> Result<Array> {
        let a = axis("take", along, self.rank())?;
        let sizes = self.shape().with(a, 1);
        let g = self.gather(std::slice::from_ref(indices), &[a as i32], &sizes)?;
        // [indices, axes with 1 at `a`] -> [axes before, indices, axes after].
        let k = indices.rank();
        let g = g.squeeze(&[(k + a) as i32])?;
        let perm: Vec<i32> =
            (0..a).map(|i| k + i).chain(0..k).chain(k + a..g.rank()).map(|i| i as i32).collect();
        if a == 0 { Ok(g) } else { g.transpose(&perm) }
    }

    /// `y[i, j, k] = x[i, indices[i, j, k], k]` for axis 1.
    pub fn take_along_axis(&self, indices: &Array, along: i32) -> Result<Array> {
        let a = axis("take_along_axis", along, self.rank())?;
        Array::from_op(Op::Index(Index::TakeAlong { axis: a }), &[self.clone(), indices.clone()])
    }

    /// How many of these numbers, which rise along one axis, come before each of `values` (with `right` also those
    /// that are equal), as `uint32`. NaN comes after all numbers. Types are promoted.
    ///
    /// # Errors
    /// `Shape` unless this array has one axis.
    pub fn searchsorted(&self, values: &Array, right: bool) -> Result<Array> {
        let dtype = self.dtype().promote(values.dtype());
        let op = Op::Index(Index::SearchSorted { right });
        Array::from_op(op, &[self.astype(dtype)?, values.astype(dtype)?])
    }

    /// This array with `values` written where [`Array::take_along_axis`] would read.
    pub fn put_along_axis(&self, indices: &Array, values: &Array, along: i32) -> Result<Array> {
        let a = axis("put_along_axis", along, self.rank())?;
        let values = values.astype(self.dtype())?.broadcast_to(indices.shape())?;
        let op = Op::Index(Index::PutAlong { axis: a, mode: ScatterMode::Set });
        Array::from_op(op, &[self.clone(), indices.clone(), values])
    }
}

fn resolve(op: &'static str, axes: &[i32], rank: usize) -> Result<SmallVec<[u8; 4]>> {
    crate::shape::check_rank(op, rank)?;
    axes.iter().map(|&a| axis(op, a, rank).map(|a| a as u8)).collect()
}

fn broadcast_all(op: &'static str, arrays: &[Array]) -> Result<Vec<Array>> {
    let Some(first) = arrays.first() else { return Err(Error::value(op, "takes at least one index array")) };
    let shape = arrays.iter().try_fold(first.shape().clone(), |s, a| Shape::broadcast(op, &s, a.shape()))?;
    arrays.iter().map(|a| a.broadcast_to(&shape)).collect()
}
