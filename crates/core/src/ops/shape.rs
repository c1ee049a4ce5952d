//! Shapes: reshaping, reordering, slicing, joining and parting.

use crate::dtype::Dtype;
use crate::op::{Create, Op, Update, View};
use crate::shape::{AxisSet, Dim, Shape, axis, check_rank};
use crate::{Array, Error, Result};
use smallvec::SmallVec;

/// Arrays one after the other along an existing axis; types are promoted.
///
/// # Errors
/// `Value` when there is none; `Shape` when they differ beside that axis.
pub fn concatenate(arrays: &[Array], along: i32) -> Result<Array> {
    let Some(first) = arrays.first() else {
        return Err(Error::value("concatenate", "takes at least one array"));
    };
    let along = axis("concatenate", along, first.rank())?;
    if arrays.len() == 1 {
        return Ok(first.clone());
    }
    let dtype = arrays.iter().fold(first.dtype(), |d, a| d.promote(a.dtype()));
    let arrays: Vec<Array> = arrays.iter().map(|a| a.astype(dtype)).collect::<Result<_>>()?;
    Array::from_op(Op::Update(Update::Concat { axis: along }), &arrays)
}

/// Arrays of one shape side by side along a new axis.
///
/// # Errors
/// `Value` when there is none; `Shape` when shapes differ.
pub fn stack(arrays: &[Array], along: i32) -> Result<Array> {
    let parts: Vec<Array> = arrays.iter().map(|a| a.expand_dims(&[along])).collect::<Result<_>>()?;
    concatenate(&parts, along).map_err(|e| match e {
        Error::Value { msg, .. } => Error::value("stack", msg),
        Error::Shape { msg, .. } => Error::shape("stack", msg),
        Error::Index { msg, .. } => Error::index("stack", msg),
        e => e,
    })
}

impl Array {
    /// See [`concatenate`].
    pub fn concatenate(arrays: &[Array], along: i32) -> Result<Array> {
        concatenate(arrays, along)
    }

    fn view_op(&self, v: View) -> Result<Array> {
        Array::from_op(Op::View(v), std::slice::from_ref(self))
    }

    /// The same value, which derivatives treat as a constant.
    pub fn stop_gradient(&self) -> Result<Array> {
        self.view_op(View::StopGradient)
    }

    /// Repeated along axes of size 1 and new leading axes, without a copy.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Array> {
        if self.shape()[..] == *shape {
            return Ok(self.clone());
        }
        let shape = Shape::new(shape);
        if let Op::Create(Create::Full { value, .. }) = self.op() {
            // A constant of the new shape, which fusion writes into the kernel.
            View::Broadcast(shape.clone()).infer_one(self)?;
            return Ok(Array::constant(*value, shape));
        }
        self.view_op(View::Broadcast(shape))
    }

    /// Other sizes for the same elements; one of them may be -1 and is found out.
    pub fn reshape<D: Dim>(&self, dims: &[D]) -> Result<Array> {
        let dims: SmallVec<[i64; 6]> = dims.iter().map(|d| d.dim()).collect();
        let refuse = || {
            let msg =
                format!("{} elements of shape {} do not fill {:?}", self.size(), self.shape(), &dims[..]);
            Err(Error::shape("reshape", msg))
        };
        check_rank("reshape", dims.len())?;
        let mut known = 1i64;
        let mut free = None;
        for (i, &d) in dims.iter().enumerate() {
            match d {
                -1 if free.is_none() => free = Some(i),
                -1 => {
                    let msg = format!("only one size may be -1, got {:?}", &dims[..]);
                    return Err(Error::shape("reshape", msg));
                }
                0.. => match known.checked_mul(d) {
                    Some(k) => known = k,
                    None => return refuse(),
                },
                _ => return refuse(),
            }
        }
        let mut shape: Shape = dims.iter().map(|&d| d.max(0) as usize).collect();
        if let Some(i) = free {
            if known == 0 || !self.size().is_multiple_of(known as usize) {
                return refuse();
            }
            shape.dims_mut()[i] = self.size() / known as usize;
        } else if known != self.size() as i64 {
            return refuse();
        }
        if shape == *self.shape() {
            return Ok(self.clone());
        }
        self.view_op(View::Reshape(shape))
    }

    /// All elements along one axis.
    pub fn flatten(&self) -> Result<Array> {
        self.reshape(&[self.size()])
    }

    /// Axes reordered: axis `i` of the result is axis `axes[i]` of this.
    pub fn transpose(&self, axes: &[i32]) -> Result<Array> {
        check_rank("transpose", self.rank())?;
        let perm = axes
            .iter()
            .map(|&a| axis("transpose", a, self.rank()).map(|a| a as u8))
            .collect::<Result<SmallVec<[u8; 8]>>>()?;
        self.view_op(View::Transpose(perm))
    }

    /// Axes in reverse order.
    pub fn t(&self) -> Result<Array> {
        check_rank("transpose", self.rank())?;
        self.view_op(View::Transpose((0..self.rank() as u8).rev().collect()))
    }

    /// Two axes exchanged.
    pub fn swapaxes(&self, a: i32, b: i32) -> Result<Array> {
        check_rank("swapaxes", self.rank())?;
        let (a, b) = (axis("swapaxes", a, self.rank())?, axis("swapaxes", b, self.rank())?);
        let mut perm: SmallVec<[u8; 8]> = (0..self.rank() as u8).collect();
        perm.swap(a, b);
        self.view_op(View::Transpose(perm))
    }

    /// An axis taken out and put elsewhere.
    pub fn moveaxis(&self, from: i32, to: i32) -> Result<Array> {
        check_rank("moveaxis", self.rank())?;
        let (from, to) = (axis("moveaxis", from, self.rank())?, axis("moveaxis", to, self.rank())?);
        let mut perm: SmallVec<[u8; 8]> = (0..self.rank() as u8).collect();
        let a = perm.remove(from);
        perm.insert(to, a);
        self.view_op(View::Transpose(perm))
    }

    /// New axes of size 1 at these places of the result.
    pub fn expand_dims(&self, axes: &[i32]) -> Result<Array> {
        let rank = self.rank() + axes.len();
        let set = AxisSet::resolve("expand_dims", axes, rank)?;
        let mut old = self.shape().iter();
        let shape: Shape =
            (0..rank).map(|i| if set.contains(i) { 1 } else { old.next().copied().unwrap_or(1) }).collect();
        self.view_op(View::Reshape(shape))
    }

    /// Without these axes, which have size 1.
    pub fn squeeze(&self, axes: &[i32]) -> Result<Array> {
        let set = AxisSet::resolve("squeeze", axes, self.rank())?;
        if let Some(a) = set.iter().find(|&a| self.shape()[a] != 1) {
            let msg = format!("axis {a} of shape {} has size {}, not 1", self.shape(), self.shape()[a]);
            return Err(Error::shape("squeeze", msg));
        }
        let shape: Shape = (0..self.rank()).filter(|&i| !set.contains(i)).map(|i| self.shape()[i]).collect();
        self.view_op(View::Reshape(shape))
    }

    /// Elements `start..stop` along one axis; both limits count from 0 and are cut at its end.
    pub fn slice_axis(&self, along: i32, start: usize, stop: usize) -> Result<Array> {
        let a = axis("slice", along, self.rank())?;
        let n = self.shape()[a];
        let (start, stop) = (start.min(n), stop.min(n));
        let mut starts: SmallVec<[usize; 4]> = SmallVec::from_elem(0, self.rank());
        starts[a] = start;
        let size = self.shape().with(a, stop.saturating_sub(start));
        if size == *self.shape() {
            return Ok(self.clone());
        }
        self.view_op(View::Slice { start: starts, step: SmallVec::from_elem(1, self.rank()), size })
    }

    /// Elements `start, start + step, …` before `stop` along every axis, by Python's rules: negative numbers
    /// count from the end, `None` means as far as it goes, limits are cut.
    ///
    /// # Errors
    /// `Value` when a step is 0; `Shape` when there are more entries than axes.
    pub fn slice(&self, ranges: &[(Option<i64>, Option<i64>, i64)]) -> Result<Array> {
        let rank = self.rank();
        if ranges.len() > rank {
            let msg = format!("{} ranges for an array of shape {}", ranges.len(), self.shape());
            return Err(Error::shape("slice", msg));
        }
        let mut start: SmallVec<[usize; 4]> = SmallVec::from_elem(0, rank);
        let mut step: SmallVec<[isize; 4]> = SmallVec::from_elem(1, rank);
        let mut size = self.shape().clone();
        for (i, &(lo, hi, by)) in ranges.iter().enumerate() {
            let (first, count) = resolve_range(self.shape()[i], lo, hi, by)?;
            start[i] = first;
            step[i] = if count == 0 { 1 } else { by as isize };
            size.dims_mut()[i] = count;
        }
        self.view_op(View::Slice { start, step, size })
    }

    /// This array with the elements from `start` on, as many as `update` has along each axis, replaced.
    /// Without a copy when nobody else holds this array.
    pub fn slice_update(&self, update: &Array, start: &[usize]) -> Result<Array> {
        let step: SmallVec<[isize; 4]> = SmallVec::from_elem(1, start.len());
        let op = Op::Update(Update::Slice { start: SmallVec::from_slice(start), step });
        Array::from_op(op, &[self.clone(), update.astype(self.dtype())?])
    }

    /// Parts of the given sizes along an axis.
    pub fn split_sizes(&self, sizes: &[usize], along: i32) -> Result<Vec<Array>> {
        let a = axis("split", along, self.rank())?;
        let op = Op::View(View::Split { axis: a, sizes: SmallVec::from_slice(sizes) });
        Ok(Array::from_op_multi(op, std::slice::from_ref(self))?.into_vec())
    }

    /// `parts` equal parts along an axis.
    pub fn split(&self, parts: usize, along: i32) -> Result<Vec<Array>> {
        let a = axis("split", along, self.rank())?;
        let n = self.shape()[a];
        // An empty axis has any number of empty parts, as far as they are worth counting.
        if parts == 0 || !n.is_multiple_of(parts) || parts > n.max(1 << 16) {
            return Err(Error::value(
                "split",
                format!("an axis of {n} does not split into {parts} equal parts"),
            ));
        }
        self.split_sizes(&vec![n / parts; parts], along)
    }

    /// The bytes read as another type; the last axis scales with the size of the elements.
    pub fn view_as(&self, dtype: Dtype) -> Result<Array> {
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        self.view_op(View::Bitcast(dtype))
    }

    /// `[batch, length, heads * d]` as `[batch, heads, length, d]`.
    pub fn split_heads(&self, heads: usize) -> Result<Array> {
        let &[b, l, d] = &self.shape()[..] else {
            return Err(Error::shape("split_heads", format!("takes three axes, got {}", self.shape())));
        };
        if heads == 0 || d % heads != 0 {
            return Err(Error::shape("split_heads", format!("{d} features do not split into {heads} heads")));
        }
        self.reshape(&[b, l, heads, d / heads])?.transpose(&[0, 2, 1, 3])
    }

    /// `[batch, heads, length, d]` as `[batch, length, heads * d]`.
    pub fn merge_heads(&self) -> Result<Array> {
        let &[b, h, l, d] = &self.shape()[..] else {
            return Err(Error::shape("merge_heads", format!("takes four axes, got {}", self.shape())));
        };
        self.transpose(&[0, 2, 1, 3])?.reshape(&[b, l, h * d])
    }
}

impl View {
    /// Checks the rule without building a node.
    fn infer_one(self, x: &Array) -> Result<()> {
        Op::View(self).infer(&[x.meta()]).map(|_| ())
    }
}

/// First element and number of elements of a Python range over an axis of `n`.
pub(super) fn resolve_range(n: usize, lo: Option<i64>, hi: Option<i64>, step: i64) -> Result<(usize, usize)> {
    if step == 0 {
        return Err(Error::value("slice", "a step of 0"));
    }
    let n = n as i64;
    let (min, max) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let limit = |v: i64| (if v < 0 { v.saturating_add(n) } else { v }).clamp(min, max);
    let first = lo.map_or(if step > 0 { 0 } else { n - 1 }, limit);
    let stop = hi.map_or(if step > 0 { n } else { -1 }, limit);
    let span = if step > 0 { stop - first } else { first - stop };
    let count = if span <= 0 { 0 } else { ((span - 1) as u64 / step.unsigned_abs()) as usize + 1 };
    Ok((if count == 0 { 0 } else { first as usize }, count))
}

#[cfg(test)]
mod tests {
    use super::resolve_range;

    #[test]
    fn ranges_follow_python() {
        let r = |n, lo, hi, step| resolve_range(n, lo, hi, step).unwrap();
        assert_eq!(r(5, None, None, 1), (0, 5));
        assert_eq!(r(5, Some(-100), Some(4), 1), (0, 4));
        assert_eq!(r(5, None, None, -1), (4, 5));
        assert_eq!(r(5, Some(3), Some(0), -2), (3, 2));
        assert_eq!(r(5, Some(4), Some(2), 1).1, 0);
        assert_eq!(r(0, None, None, -1).1, 0);
        assert_eq!(r(5, Some(i64::MIN), Some(i64::MAX), 2), (0, 3));
        assert_eq!(r(5, None, None, i64::MIN), (4, 1));
        assert!(resolve_range(5, None, None, 0).is_err());
    }
}
