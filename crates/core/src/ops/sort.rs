//! Ordering.

use crate::op::{Op, Sort};
use crate::shape::axis;
use crate::{Array, Error, Result};

impl Array {
    fn sort_op(&self, along: i32, indices: bool, descending: bool, kth: Option<usize>) -> Result<Array> {
        let along = axis("sort", along, self.rank())?;
        Array::from_op(Op::Sort(Sort { axis: along, indices, descending, kth }), std::slice::from_ref(self))
    }

    /// Elements in order along an axis; equal ones keep theirs, NaN comes last.
    pub fn sort(&self, along: i32, descending: bool) -> Result<Array> {
        self.sort_op(along, false, descending, None)
    }

    /// Indices that order the elements along an axis, as `u32`.
    pub fn argsort(&self, along: i32, descending: bool) -> Result<Array> {
        self.sort_op(along, true, descending, None)
    }

    /// Elements with position `kth` as if sorted, nothing larger before it and nothing smaller after it.
    pub fn partition(&self, kth: usize, along: i32) -> Result<Array> {
        self.sort_op(along, false, false, Some(kth))
    }

    /// Indices for [`Array::partition`].
    pub fn argpartition(&self, kth: usize, along: i32) -> Result<Array> {
        self.sort_op(along, true, false, Some(kth))
    }

    /// The `k` largest along an axis, in no promised order.
    ///
    /// # Errors
    /// `Value` when the axis has fewer elements.
    pub fn topk(&self, k: usize, along: i32) -> Result<Array> {
        let n = self.dim(along)?;
        if k > n {
            return Err(Error::value("topk", format!("{k} elements of an axis of {n}")));
        }
        if k == 0 || k == n {
            return self.slice_axis(along, 0, k);
        }
        self.partition(n - k, along)?.slice_axis(along, n - k, n)
    }
}
