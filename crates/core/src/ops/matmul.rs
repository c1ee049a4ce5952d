//! Products of matrices.

use crate::op::{Matmul, Op};
use crate::shape::Shape;
use crate::{Array, Error, Result};

impl Array {
    /// Matrix product over the last two axes, leading axes broadcast; one axis stands for a row (left) or a
    /// column (right) that the result does not have. Integers become `f32`.
    pub fn matmul(&self, other: &Array) -> Result<Array> {
        if self.rank() == 0 || other.rank() == 0 {
            let msg = format!("takes arrays with axes, got {} and {}", self.shape(), other.shape());
            return Err(Error::shape("matmul", msg));
        }
        let dtype = self.dtype().promote(other.dtype()).to_inexact();
        let (mut a, mut b) = (self.astype(dtype)?, other.astype(dtype)?);
        let (row, column) = (a.rank() == 1, b.rank() == 1);
        if row {
            a = a.expand_dims(&[0])?;
        }
        if column {
            b = b.expand_dims(&[1])?;
        }
        let (r, s) = (a.rank(), b.rank());
        if a.shape()[r - 1] != b.shape()[s - 2] {
            let msg = format!("shapes {} and {} do not fit", self.shape(), other.shape());
            return Err(Error::shape("matmul", msg));
        }
        let mut y = if s == 2 && r > 2 {
            // One matrix for all rows of the batch.
            let rows: usize = a.shape()[..r - 1].iter().product();
            let mut shape = a.shape().clone();
            shape.dims_mut()[r - 1] = b.shape()[1];
            let flat = a.reshape(&[rows, a.shape()[r - 1]])?;
            Array::from_op(Op::Matmul(Matmul), &[flat, b])?.reshape(&shape)?
        } else {
            let lead = Shape::broadcast(
                "matmul",
                &Shape::new(&a.shape()[..r - 2]),
                &Shape::new(&b.shape()[..s - 2]),
            )?;
            let full = |x: &Array| {
                let tail = &x.shape()[x.rank() - 2..];
                x.broadcast_to(&lead.iter().chain(tail).copied().collect::<Shape>())
            };
            Array::from_op(Op::Matmul(Matmul), &[full(&a)?, full(&b)?])?
        };
        if column {
            y = y.squeeze(&[-1])?;
        }
        if row {
            y = y.squeeze(&[if column { -1 } else { -2 }])?;
        }
        Ok(y)
    }
}
