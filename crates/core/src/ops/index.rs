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

    /// The window of `sizes` that starts at `start[i]` along `axes[i]` and at 0 along other axes. `start` has one
    /// element for each of `axes`; a scalar serves one axis.
    ///
    /// # Errors
    /// `Index` at evaluation when the window leaves the array, `Shape` for starts or sizes of another number.
    pub fn slice_from(&self, start: &Array, axes: &[i32], sizes: &[usize]) -> Result<Array> {
        let (axes, starts) = self.starts("slice", start, axes)?;
        if sizes.len() != self.rank() {
            let msg = format!("{} sizes for an array of shape {}", sizes.len(), self.shape());
            return Err(Error::shape("slice", msg));
        }
        if axes.is_empty() {
            let ranges: Vec<_> = sizes.iter().map(|&n| (Some(0), Some(n as i64), 1)).collect();
            return self.slice(&ranges);
        }
        self.gather(&starts, &axes, sizes)
    }

    /// This array with the window of the size of `update` that starts as for [`Array::slice_from`] replaced by it.
    ///
    /// # Errors
    /// `Index` at evaluation when the window leaves the array, `Shape` for arguments that do not fit.
    pub fn slice_update_from(&self, update: &Array, start: &Array, axes: &[i32]) -> Result<Array> {
        let op = "slice_update";
        let (axes, starts) = self.starts(op, start, axes)?;
        // Leading axes of the update that are missing have size 1.
        if update.rank() > self.rank() {
            let msg = format!("an update of shape {} for shape {}", update.shape(), self.shape());
            return Err(Error::shape(op, msg));
        }
        let lead = self.rank() - update.rank();
        let shape: Shape = std::iter::repeat_n(1, lead).chain(update.shape().iter().copied()).collect();
        let update = update.reshape(&shape)?;
        if axes.is_empty() {
            return self.slice_update(&update, &vec![0; self.rank()]);
        }
        self.scatter(&starts, &update, &axes, ScatterMode::Set)
    }

    /// Axes in rising order, and a scalar start for each.
    fn starts(&self, op: &'static str, start: &Array, axes: &[i32]) -> Result<(Vec<i32>, Vec<Array>)> {
        if start.rank() > 1 || start.size() != axes.len() {
            let msg = format!("starts of shape {} for {} axes", start.shape(), axes.len());
            return Err(Error::shape(op, msg));
        }
        crate::shape::AxisSet::resolve(op, axes, self.rank())?;
        let mut order: Vec<(i32, usize)> = axes
            .iter()
            .enumerate()
            .map(|(k, &a)| Ok((axis(op, a, self.rank())? as i32, k)))
            .collect::<Result<_>>()?;
        order.sort_unstable();
        let flat = start.flatten()?;
        let starts = order
            .iter()
            .map(|&(_, k)| flat.slice_axis(0, k, k + 1)?.reshape::<usize>(&[]))
            .collect::<Result<_>>()?;
        Ok((order.into_iter().map(|(a, _)| a).collect(), starts))
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
