//! Products of matrices.

use crate::dtype::{Dtype, Kind};
use crate::op::{Matmul, Op};
use crate::shape::Shape;
use crate::{Array, Error, Result};

/// `self` as `u32` counts of `n` things, negative ones counting from the end. What is out of range stays so.
pub(super) fn counts(op: &'static str, index: &Array, n: usize) -> Result<Array> {
    if !index.dtype().is_integer() {
        return Err(Error::bad_dtype(op, "integer indices", index.dtype()));
    }
    if index.dtype().kind() == Kind::Unsigned && index.dtype() != Dtype::U64 {
        return index.astype(Dtype::U32);
    }
    let top = Array::from_scalar(u32::MAX as i64);
    if index.dtype() == Dtype::U64 {
        return index.minimum(&Array::from_scalar(u32::MAX as u64))?.astype(Dtype::U32);
    }
    let i = index.astype(Dtype::I64)?;
    let zero = Array::from_scalar(0i64);
    let i = Array::select(&i.less(&zero)?, &i.add(&Array::from_scalar(n as i64))?, &i)?;
    Array::select(&i.less(&zero)?, &top, &i.minimum(&top)?)?.astype(Dtype::U32)
}

/// The counts `0, 1, …` of the matrices of `x`, in the shape of its leading axes.
fn all_matrices(op: &'static str, x: &Array) -> Result<Array> {
    let lead = &x.shape()[..x.rank() - 2];
    let n: usize = lead.iter().product();
    if u32::try_from(n).is_err() {
        return Err(Error::shape(op, format!("{n} matrices are more than uint32 can count")));
    }
    Array::arange(0.0, n as f64, 1.0, Dtype::U32)?.reshape(lead)
}

/// Which matrix of `a` meets which of `b`, as [`Matmul::Gather`] takes them: all in order where none are given.
pub(super) fn pairs(
    op: &'static str,
    (a, lhs): (&Array, Option<&Array>),
    (b, rhs): (&Array, Option<&Array>),
) -> Result<(Array, Array)> {
    let one = |x: &Array, i: Option<&Array>| match i {
        Some(i) => counts(op, i, x.shape()[..x.rank() - 2].iter().product()),
        None => all_matrices(op, x),
    };
    let (lhs, rhs) = (one(a, lhs)?, one(b, rhs)?);
    let shape = Shape::broadcast(op, lhs.shape(), rhs.shape())?;
    Ok((lhs.broadcast_to(&shape)?, rhs.broadcast_to(&shape)?))
}

impl Array {
    /// Matrix product over the last two axes, leading axes broadcast; one axis stands for a row (left) or a
    /// column (right) that the result does not have. Integers give integers and wrap, `bool` says whether any
    /// pair of factors is true.
    pub fn matmul(&self, other: &Array) -> Result<Array> {
        if self.rank() == 0 || other.rank() == 0 {
            let msg = format!("takes arrays with axes, got {} and {}", self.shape(), other.shape());
            return Err(Error::shape("matmul", msg));
        }
        let dtype = self.dtype().promote(other.dtype());
        if dtype == Dtype::Bool {
            // The number of pairs of true factors.
            let count = self.astype(Dtype::I64)?.matmul(&other.astype(Dtype::I64)?)?;
            return count.astype(Dtype::Bool);
        }
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
            Array::from_op(Op::Matmul(Matmul::Product), &[flat, b])?.reshape(&shape)?
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
            Array::from_op(Op::Matmul(Matmul::Product), &[full(&a)?, full(&b)?])?
        };
        if column {
            y = y.squeeze(&[-1])?;
        }
        if row {
            y = y.squeeze(&[if column { -1 } else { -2 }])?;
        }
        Ok(y)
    }

    /// `beta * self + alpha * a @ b`, rounded once; `self` broadcasts to the product. See [`Array::matmul`].
    pub fn addmm(&self, a: &Array, b: &Array, alpha: f32, beta: f32) -> Result<Array> {
        const OP: &str = "addmm";
        let dtype = self.dtype().promote(a.dtype()).promote(b.dtype());
        if !dtype.is_inexact() {
            return Err(Error::bad_dtype(OP, "floats or complex numbers", dtype));
        }
        if a.rank() == 0 || b.rank() == 0 {
            let msg = format!("takes arrays with axes, got {} and {}", a.shape(), b.shape());
            return Err(Error::shape(OP, msg));
        }
        let (a, b) = (a.astype(dtype)?, b.astype(dtype)?);
        let (row, column) = (a.rank() == 1, b.rank() == 1);
        let a = if row { a.expand_dims(&[0])? } else { a };
        let b = if column { b.expand_dims(&[1])? } else { b };
        let (r, s) = (a.rank(), b.rank());
        let lead = Shape::broadcast(OP, &Shape::new(&a.shape()[..r - 2]), &Shape::new(&b.shape()[..s - 2]))?;
        let full =
            |x: &Array, tail: &[usize]| x.broadcast_to(&lead.iter().chain(tail).copied().collect::<Shape>());
        let (m, n) = (a.shape()[r - 2], b.shape()[s - 1]);
        // The axes of the result, before those of size 1 are taken out.
        let mut c = self.astype(dtype)?;
        let visible: Shape =
            lead.iter().copied().chain((!row).then_some(m)).chain((!column).then_some(n)).collect();
        c = c.broadcast_to(&visible)?;
        if row {
            c = c.expand_dims(&[if column { -1 } else { -2 }])?;
        }
        if column {
            c = c.expand_dims(&[-1])?;
        }
        let inputs = [full(&a, &a.shape()[r - 2..])?, full(&b, &b.shape()[s - 2..])?, c];
        let op = Matmul::Add { alpha: alpha.to_bits(), beta: beta.to_bits() };
        Array::from_op(Op::Matmul(op), &inputs)?.reshape(&visible)
    }

    /// Products of chosen matrices, without copying them: `self[lhs] @ b[rhs]`, where the indices count all
    /// leading axes of `self [.., m, k]` and `b [.., k, n]` together, broadcast against each other, and stand
    /// for all matrices in order where they are not given. Arguments of one axis are a row, and a column, as
    /// for [`Array::matmul`]. `sorted` says that equal indices are neighbours, which is found out anyway.
    ///
    /// # Errors
    /// `Index` at evaluation when an index is out of range; negative ones count from the end.
    pub fn gather_mm(
        &self,
        b: &Array,
        lhs: Option<&Array>,
        rhs: Option<&Array>,
        sorted: bool,
    ) -> Result<Array> {
        const OP: &str = "gather_mm";
        let _ = sorted;
        if lhs.is_none() && rhs.is_none() {
            return self.matmul(b);
        }
        if self.rank() == 0 || b.rank() == 0 {
            let msg = format!("takes arrays with axes, got {} and {}", self.shape(), b.shape());
            return Err(Error::shape(OP, msg));
        }
        let dtype = self.dtype().promote(b.dtype());
        if !dtype.is_inexact() {
            return Err(Error::bad_dtype(OP, "floats or complex numbers", dtype));
        }
        let (mut a, mut b) = (self.astype(dtype)?, b.astype(dtype)?);
        let (row, column) = (a.rank() == 1, b.rank() == 1);
        if row {
            a = a.expand_dims(&[0])?;
        }
        if column {
            b = b.expand_dims(&[1])?;
        }
        let (lhs, rhs) = pairs(OP, (&a, lhs), (&b, rhs))?;
        let y = Array::from_op(Op::Matmul(Matmul::Gather), &[a, b, lhs, rhs])?;
        let y = if column { y.squeeze(&[-1])? } else { y };
        if row { y.squeeze(&[if column { -1 } else { -2 }]) } else { Ok(y) }
    }

    /// `self @ b` of which blocks of `block x block` elements are masked: those of the product by `out`, those
    /// of the arguments by `lhs` and `rhs`. A mask has one element for each block; `bool` ones let a block
    /// through or count it as zero, whatever it holds, others are factors.
    ///
    /// # Errors
    /// `Value` when `block` is 0; `Shape` when a mask has not one element for each block.
    pub fn block_masked_mm(
        &self,
        b: &Array,
        block: usize,
        out: Option<&Array>,
        lhs: Option<&Array>,
        rhs: Option<&Array>,
    ) -> Result<Array> {
        const OP: &str = "block_masked_mm";
        if block == 0 {
            return Err(Error::value(OP, "blocks of 0 elements"));
        }
        if self.rank() < 2 || b.rank() < 2 {
            let msg = format!("takes matrices, got {} and {}", self.shape(), b.shape());
            return Err(Error::shape(OP, msg));
        }
        let apply = |x: &Array, mask: Option<&Array>, what: &str| {
            let Some(mask) = mask else { return Ok(x.clone()) };
            let (m, n) = (x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]);
            let (rows, cols) = (m.div_ceil(block), n.div_ceil(block));
            let r = mask.rank();
            if r < 2 || mask.shape()[r - 2..] != [rows, cols] {
                let msg = format!(
                    "the mask of {what}, {}, has not {rows} x {cols} elements for blocks of {block}",
                    mask.shape()
                );
                return Err(Error::shape(OP, msg));
            }
            let lead = &mask.shape()[..r - 2];
            let dims = |tail: &[usize]| lead.iter().chain(tail).copied().collect::<Vec<usize>>();
            let mask = mask
                .reshape(&dims(&[rows, 1, cols, 1]))?
                .broadcast_to(&dims(&[rows, block, cols, block]))?
                .reshape(&dims(&[rows * block, cols * block]))?
                .slice_axis(-2, 0, m)?
                .slice_axis(-1, 0, n)?;
            if mask.dtype() == Dtype::Bool {
                Array::select(&mask, x, &x.scalar_like(0.0))
            } else {
                x.multiply(&mask.astype(x.dtype())?)
            }
        };
        let dtype = self.dtype().promote(b.dtype());
        if !dtype.is_float() {
            return Err(Error::bad_dtype(OP, "real floats", dtype));
        }
        let x = apply(&self.astype(dtype)?, lhs, "the left matrix")?;
        let y = apply(&b.astype(dtype)?, rhs, "the right matrix")?;
        apply(&x.matmul(&y)?, out, "the product")
    }

    /// Products over parts of the inner axis: for each pair of limits in `segments [.., 2]`, shape
    /// `segments.shape[..-1] + [m, n]`: `self[:, from..to] @ b[from..to, :]`.
    ///
    /// # Errors
    /// `Index` at evaluation when a limit is beyond the inner axis; a segment that ends before it begins is
    /// empty.
    pub fn segmented_mm(&self, b: &Array, segments: &Array) -> Result<Array> {
        const OP: &str = "segmented_mm";
        let dtype = self.dtype().promote(b.dtype());
        if !dtype.is_inexact() {
            return Err(Error::bad_dtype(OP, "floats or complex numbers", dtype));
        }
        if self.rank() != 2 || b.rank() != 2 {
            let msg = format!("takes two matrices, got {} and {}", self.shape(), b.shape());
            return Err(Error::shape(OP, msg));
        }
        let limits = counts(OP, segments, self.shape()[1])?;
        let inputs = [self.astype(dtype)?, b.astype(dtype)?, limits];
        Array::from_op(Op::Matmul(Matmul::Segmented), &inputs)
    }
}
