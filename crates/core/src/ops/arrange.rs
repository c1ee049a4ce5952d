//! Order and arrangement: flipping, rolling, repeating, laying out, taking apart.

use super::shape::{concatenate, stack};
use crate::op::{Op, View};
use crate::shape::{AxisSet, Dim, Shape, axis, check_rank};
use crate::{Array, Error, Result};
use smallvec::SmallVec;

/// How [`meshgrid`] orders its axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Indexing {
    /// Cartesian: the second array runs along the first axis.
    #[default]
    Xy,
    /// Matrices: array `i` runs along axis `i`.
    Ij,
}

/// Shape that all of these broadcast to; that of a scalar when there is none.
pub fn broadcast_shapes(shapes: &[&[usize]]) -> Result<Shape> {
    shapes.iter().try_fold(Shape::scalar(), |s, t| Shape::broadcast("broadcast_shapes", &s, &Shape::new(t)))
}

/// All arrays broadcast to their common shape.
pub fn broadcast_arrays(arrays: &[Array]) -> Result<Vec<Array>> {
    let shape = arrays
        .iter()
        .try_fold(Shape::scalar(), |s, a| Shape::broadcast("broadcast_arrays", &s, a.shape()))?;
    arrays.iter().map(|a| a.broadcast_to(&shape)).collect()
}

/// Coordinates of a grid, one array for each of `arrays`, which have at most one axis. With `sparse` the others' axes
/// have size 1.
///
/// # Errors
/// `Shape` for an array with more than one axis.
pub fn meshgrid(arrays: &[Array], sparse: bool, indexing: Indexing) -> Result<Vec<Array>> {
    let n = arrays.len();
    check_rank("meshgrid", n)?;
    let place = |i: usize| match (indexing, i) {
        (Indexing::Xy, 0 | 1) if n > 1 => 1 - i,
        (Indexing::Xy | Indexing::Ij, i) => i,
    };
    let mut full = vec![1usize; n];
    for (i, a) in arrays.iter().enumerate() {
        if a.rank() > 1 {
            return Err(Error::shape("meshgrid", format!("array {i} has shape {}", a.shape())));
        }
        full[place(i)] = a.size();
    }
    let whole = Shape::checked("meshgrid", &full)?;
    let along = |(i, a): (usize, &Array)| {
        let mut shape = vec![1usize; n];
        shape[place(i)] = a.size();
        let line = a.reshape(&shape)?;
        if sparse { Ok(line) } else { line.broadcast_to(&whole) }
    };
    arrays.iter().enumerate().map(along).collect()
}

/// The arrays themselves, which are evaluated only after `on` has been sent for evaluation too.
pub fn depends(arrays: &[Array], on: &[Array]) -> Result<Vec<Array>> {
    let all: Vec<Array> = arrays.iter().chain(on).cloned().collect();
    Ok(Array::from_op_multi(Op::View(View::Depends(arrays.len())), &all)?.into_vec())
}

impl Array {
    /// All axes, or those in the set, as a set.
    pub(super) fn axes_or_all(&self, op: &'static str, axes: &[i32]) -> Result<AxisSet> {
        if axes.is_empty() {
            check_rank(op, self.rank())?;
            return Ok(AxisSet::all(self.rank()));
        }
        AxisSet::resolve(op, axes, self.rank())
    }

    /// Elements in reverse order along `axes` (all when empty).
    pub fn flip(&self, axes: &[i32]) -> Result<Array> {
        let set = self.axes_or_all("flip", axes)?;
        let step = |i: usize| if set.contains(i) { -1 } else { 1 };
        let ranges: Vec<_> = (0..self.rank()).map(|i| (None, None, step(i))).collect();
        self.slice(&ranges)
    }

    /// Elements moved by `shifts` along `axes`, those that leave at one end coming in at the other. A single shift
    /// serves all axes, and several along one axis add up. Without axes the elements move as one row.
    ///
    /// # Errors
    /// `Value` when the numbers of shifts and axes differ.
    pub fn roll(&self, shifts: &[i64], axes: &[i32]) -> Result<Array> {
        if axes.is_empty() {
            let total = shifts.iter().fold(0i64, |a, &s| a.wrapping_add(s));
            return self.flatten()?.roll_axis(total, 0)?.reshape(self.shape());
        }
        if shifts.len() != axes.len() && shifts.len() != 1 {
            let msg = format!("{} shifts for {} axes", shifts.len(), axes.len());
            return Err(Error::value("roll", msg));
        }
        let mut x = self.clone();
        for (i, &a) in axes.iter().enumerate() {
            x = x.roll_axis(shifts[i % shifts.len()], axis("roll", a, self.rank())?)?;
        }
        Ok(x)
    }

    fn roll_axis(&self, shift: i64, along: usize) -> Result<Array> {
        let n = self.shape()[along];
        if n == 0 {
            return Ok(self.clone());
        }
        let cut = n - shift.rem_euclid(n as i64) as usize;
        if cut == n {
            return Ok(self.clone());
        }
        let a = along as i32;
        concatenate(&[self.slice_axis(a, cut, n)?, self.slice_axis(a, 0, cut)?], a)
    }

    /// Each element `count` times in a row along an axis.
    pub fn repeat(&self, count: usize, along: i32) -> Result<Array> {
        let a = axis("repeat", along, self.rank())?;
        let mut wide: Vec<usize> = self.shape().to_vec();
        wide.insert(a + 1, count);
        let n = self.shape()[a]
            .checked_mul(count)
            .ok_or_else(|| Error::shape("repeat", format!("{count} times shape {}", self.shape())))?;
        let shape = Shape::checked("repeat", &self.shape().with(a, n))?;
        self.expand_dims(&[a as i32 + 1])?.broadcast_to(&wide)?.reshape(&shape)
    }

    /// The whole array `counts[i]` times along axis `i`, after new leading axes where there are more counts; fewer
    /// counts belong to the last axes.
    pub fn tile(&self, counts: &[usize]) -> Result<Array> {
        let rank = self.rank().max(counts.len());
        check_rank("tile", 2 * rank)?;
        let mut shape = vec![1usize; rank - self.rank()];
        shape.extend_from_slice(self.shape());
        let count = |i: usize| if i + counts.len() >= rank { counts[i + counts.len() - rank] } else { 1 };
        let size = |i: usize| {
            let n = shape[i].checked_mul(count(i));
            n.ok_or_else(|| Error::shape("tile", format!("{counts:?} times shape {}", self.shape())))
        };
        let out = Shape::checked("tile", &(0..rank).map(size).collect::<Result<Vec<_>>>()?)?;
        let narrow: Vec<usize> = shape.iter().flat_map(|&d| [1, d]).collect();
        let wide: Vec<usize> = (0..rank).flat_map(|i| [count(i), shape[i]]).collect();
        self.reshape(&narrow)?.broadcast_to(&wide)?.reshape(&out)
    }

    /// With at least `rank` axes, by the rule of NumPy's `atleast_1d`, `atleast_2d` and `atleast_3d`: new axes come
    /// first, but the third comes last.
    pub fn at_least(&self, rank: usize) -> Result<Array> {
        let mut shape: SmallVec<[usize; 4]> = SmallVec::from_slice(self.shape());
        while shape.len() < rank.min(2) {
            shape.insert(0, 1);
        }
        while shape.len() < rank {
            shape.push(1);
        }
        self.reshape(&shape)
    }

    /// Axes `start..=end` as one; a scalar gets an axis.
    ///
    /// # Errors
    /// `Shape` when an axis does not exist or `start` comes after `end`.
    pub fn flatten_axes(&self, start: i32, end: i32) -> Result<Array> {
        if self.rank() == 0 {
            return self.reshape(&[1]);
        }
        let (a, b) = (axis("flatten", start, self.rank())?, axis("flatten", end, self.rank())?);
        if a > b {
            return Err(Error::shape("flatten", format!("axis {start} comes after axis {end}")));
        }
        let s = self.shape();
        let merged: usize = s[a..=b].iter().product();
        let shape: Shape = s[..a].iter().copied().chain([merged]).chain(s[b + 1..].iter().copied()).collect();
        self.reshape(&shape)
    }

    /// One axis as several; one of their sizes may be -1 and is found out.
    pub fn unflatten<D: Dim>(&self, along: i32, dims: &[D]) -> Result<Array> {
        let a = axis("unflatten", along, self.rank())?;
        if dims.is_empty() {
            return Err(Error::value("unflatten", "takes at least one size"));
        }
        let parts: Vec<i64> = dims.iter().map(|d| d.dim()).collect();
        let n = self.shape()[a];
        let known = parts.iter().filter(|&&d| d != -1).try_fold(1i64, |k, &d| k.checked_mul(d));
        let refuse = || Err(Error::shape("unflatten", format!("an axis of {n} does not become {parts:?}")));
        let Some(known) = known.filter(|&k| k >= 0) else { return refuse() };
        let free = parts.iter().filter(|&&d| d == -1).count();
        let fits = match free {
            0 => known == n as i64,
            1 => known != 0 && n as i64 % known == 0,
            _ => false,
        };
        if !fits || parts.iter().any(|&d| d < -1) {
            return refuse();
        }
        let part = |&d: &i64| if d == -1 { n / known as usize } else { d as usize };
        let s = self.shape();
        let shape: Shape =
            s[..a].iter().copied().chain(parts.iter().map(part)).chain(s[a + 1..].iter().copied()).collect();
        check_rank("unflatten", shape.rank())?;
        self.reshape(&shape)
    }

    /// Without all axes of size 1.
    pub fn squeeze_all(&self) -> Result<Array> {
        self.reshape(&self.shape().iter().copied().filter(|&d| d != 1).collect::<Shape>())
    }

    /// The last two axes exchanged.
    ///
    /// # Errors
    /// `Shape` when there are fewer.
    pub fn matrix_transpose(&self) -> Result<Array> {
        if self.rank() < 2 {
            let msg = format!("takes an array of at least two axes, got {}", self.shape());
            return Err(Error::shape("matrix_transpose", msg));
        }
        self.swapaxes(-1, -2)
    }

    /// The parts of an axis, each without it.
    pub fn unstack(&self, along: i32) -> Result<Vec<Array>> {
        let a = axis("unstack", along, self.rank())?;
        match self.shape()[a] {
            0 => Ok(Vec::new()),
            n => self.split(n, along)?.iter().map(|p| p.squeeze(&[a as i32])).collect(),
        }
    }

    /// Parts that begin at 0 and at each of `at`, by the rules of slices: places count from the end when negative, and
    /// a part whose end does not come after its start is empty.
    pub fn split_at(&self, at: &[i64], along: i32) -> Result<Vec<Array>> {
        let a = axis("split", along, self.rank())?;
        let n = self.shape()[a];
        let place = |i: i64| {
            let i = if i < 0 { i.saturating_add(n as i64) } else { i };
            i.clamp(0, n as i64) as usize
        };
        let starts = std::iter::once(0).chain(at.iter().map(|&i| place(i)));
        let ends = at.iter().map(|&i| place(i)).chain([n]);
        starts.zip(ends).map(|(s, e)| self.slice_axis(a as i32, s, e)).collect()
    }

    /// Elements `offset + i * strides[0] + j * strides[1] + …` of this array in row-major order, whatever its own
    /// layout. Without strides those of a row-major array of that shape.
    ///
    /// # Errors
    /// `Index` when that reaches beyond the array.
    pub fn as_strided(&self, shape: &[usize], strides: Option<&[isize]>, offset: usize) -> Result<Array> {
        check_rank("as_strided", shape.len())?;
        let shape = Shape::checked("as_strided", shape)?;
        let strides = match strides {
            Some(s) if s.len() != shape.rank() => {
                let msg = format!("{} strides for shape {shape}", s.len());
                return Err(Error::shape("as_strided", msg));
            }
            Some(s) => SmallVec::from_slice(s),
            None => crate::layout::row_major(&shape),
        };
        Array::from_op(Op::View(View::Strided { shape, strides, offset }), std::slice::from_ref(self))
    }

    /// Row-major in memory, copied where it is not.
    pub fn contiguous(&self) -> Result<Array> {
        Array::from_op(Op::View(View::Contiguous), std::slice::from_ref(self))
    }

    /// Arrays of one shape side by side along a new axis; see [`stack`].
    pub fn stack(arrays: &[Array], along: i32) -> Result<Array> {
        stack(arrays, along)
    }
}
