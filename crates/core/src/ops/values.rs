//! Operations whose result has a shape that depends on values.
//!
//! A graph knows the shape of every array before anything is computed. An operation such as `nonzero` cannot say how
//! long its result is without looking at its argument, so it evaluates that argument when it is called. While a
//! function is traced its arguments have no values yet, and the operation refuses: what it would record holds for one
//! set of values only. All such operations come through [`known`].

use crate::dtype::{Dtype, HostElement};
use crate::shape::Shape;
use crate::{Array, Error, Result};

/// The values of an array that decides a shape.
///
/// # Errors
/// `InTrace` for arguments of a traced function and what depends on them; whatever evaluation gives.
pub(super) fn known<T: HostElement>(op: &'static str, a: &Array) -> Result<Vec<T>> {
    match a.awaits() {
        Some(transform) => Err(Error::InTrace { op, transform }),
        None => a.to_vec(),
    }
}

/// Integer type of positions among `n` elements.
pub(super) fn position_type(n: usize) -> Dtype {
    if i32::try_from(n).is_ok() { Dtype::I32 } else { Dtype::I64 }
}

/// The distinct elements of an array, and how they lie in it.
#[derive(Debug, Clone)]
pub struct Unique {
    /// The distinct elements in rising order, NaN (as one) last.
    pub values: Array,
    /// Where each stands first in the flattened array; as the inverse in `uint32` where that counts far enough.
    pub index: Array,
    /// For each element of the array, of its shape, which of the values it is.
    pub inverse: Array,
    /// How often each occurs.
    pub counts: Array,
}

impl Array {
    /// Number of true elements, read at once.
    fn count_now(&self, op: &'static str) -> Result<usize> {
        let n = self.astype(Dtype::Bool)?.astype(Dtype::I64)?.sum(&[], false)?;
        Ok(known::<i64>(op, &n)?[0] as usize)
    }

    /// Positions of true elements in the flattened array, in rising order. Evaluates the array.
    pub fn flatnonzero(&self) -> Result<Array> {
        self.positions("flatnonzero")
    }

    fn positions(&self, op: &'static str) -> Result<Array> {
        // The values are on the host anyway, to count them.
        let truth = known::<bool>(op, &self.astype(Dtype::Bool)?)?;
        let true_places = truth.iter().enumerate().filter(|&(_, &t)| t).map(|(i, _)| i);
        if position_type(truth.len()) == Dtype::I32 {
            let at: Vec<i32> = true_places.map(|i| i as i32).collect();
            return Array::from_slice(&at, &[at.len()]);
        }
        let at: Vec<i64> = true_places.map(|i| i as i64).collect();
        Array::from_slice(&at, &[at.len()])
    }

    /// Indices of true elements, one array for each axis, in row-major order; NumPy's `nonzero`. Evaluates the array.
    ///
    /// # Errors
    /// `Shape` for a scalar.
    pub fn nonzero(&self) -> Result<Vec<Array>> {
        if self.rank() == 0 {
            return Err(Error::shape("nonzero", "a scalar has no axis to index"));
        }
        self.mask_indices("nonzero")
    }

    /// The same for any rank, in the name of another operation.
    pub(super) fn mask_indices(&self, op: &'static str) -> Result<Vec<Array>> {
        let mut left = self.positions(op)?;
        let mut out = Vec::new();
        for &d in self.shape().iter().skip(1).rev() {
            let size = Array::from_scalar(d.max(1) as i64).astype(left.dtype())?;
            out.push(left.remainder(&size)?);
            left = left.floor_divide(&size)?;
        }
        if self.rank() > 0 {
            out.push(left);
        }
        out.reverse();
        Ok(out)
    }

    /// Indices of true elements as rows of a matrix; NumPy's `argwhere`. Evaluates the array.
    pub fn argwhere(&self) -> Result<Array> {
        if self.rank() == 0 {
            return Array::zeros(&[self.count_now("argwhere")?, 0], Dtype::I32);
        }
        super::stack(&self.mask_indices("argwhere")?, 1)
    }

    /// The distinct elements in rising order, NaN (as one) last. Evaluates the array.
    pub fn unique(&self) -> Result<Array> {
        Ok(self.unique_all()?.values)
    }

    /// The distinct elements, where they stand first, which of them each element is, and how often they occur.
    /// Evaluates the array; [`Array::unique_sized`] does not.
    pub fn unique_all(&self) -> Result<Unique> {
        let groups = self.groups()?;
        let n = match self.size() {
            0 => 0,
            n => {
                known::<i64>("unique", &groups.id.slice_axis(0, n - 1, n)?.astype(Dtype::I64)?)?[0] as usize
                    + 1
            }
        };
        groups.take_first(self, n, None)
    }

    /// The first `size` of the distinct elements. Where there are fewer, `fill` (the first of them by default) takes
    /// the places that are left, with the index of the first of them and a count of 0. Does not evaluate the array.
    ///
    /// # Errors
    /// `Value` when an empty array has nothing to fill `size` places with.
    pub fn unique_sized(&self, size: usize, fill: Option<&Array>) -> Result<Unique> {
        if self.size() == 0 && size > 0 && fill.is_none() {
            return Err(Error::value("unique", format!("{size} elements of an empty array")));
        }
        self.groups()?.take_first(self, size, fill)
    }

    /// Sorts the elements and numbers the groups of equal ones.
    fn groups(&self) -> Result<Groups> {
        let flat = self.flatten()?;
        let n = flat.size();
        let order = flat.argsort(0, false)?;
        let dtype = position_type(n);
        if n == 0 {
            return Ok(Groups { order, sorted: flat, id: Array::zeros(&[0], dtype)? });
        }
        let sorted = flat.take(&order, 0)?;
        let (next, last) = (sorted.slice_axis(0, 1, n)?, sorted.slice_axis(0, 0, n - 1)?);
        let mut fresh = next.not_equal(&last)?;
        if self.dtype().is_inexact() {
            fresh = fresh.logical_and(&next.isnan()?.logical_and(&last.isnan()?)?.logical_not()?)?;
        }
        let first = Array::zeros(&[1], dtype)?;
        let id = super::concatenate(&[first, fresh.astype(dtype)?], 0)?.cumsum(0, false, true)?;
        Ok(Groups { order, sorted, id })
    }

    /// Whether each element equals one of `test`. NaN equals nothing.
    pub fn isin(&self, test: &Array) -> Result<Array> {
        if test.size() == 0 {
            return Array::zeros(self.shape(), Dtype::Bool);
        }
        let dtype = self.dtype().promote(test.dtype());
        let x = self.astype(dtype)?;
        let sorted = test.astype(dtype)?.flatten()?.sort(0, false)?;
        let last = Array::from_scalar(sorted.size() as i64 - 1);
        let at = sorted.searchsorted(&x, false)?.astype(Dtype::I64)?.minimum(&last)?;
        sorted.take(&at, 0)?.equal(&x)
    }

    /// How often each of `0, 1, …` occurs, at least `least` counts, as `int32`; with weights their sums, added up in
    /// `float64` and given in their float type. Evaluates the array.
    ///
    /// # Errors
    /// `Dtype` unless integers or `bool`; `Shape` for more than one axis or weights of another shape; `Value` for a
    /// negative number.
    pub fn bincount(&self, weights: Option<&Array>, least: usize) -> Result<Array> {
        let op = "bincount";
        if self.dtype().is_inexact() {
            return Err(Error::bad_dtype(op, "integers", self.dtype()));
        }
        if self.rank() != 1 {
            return Err(Error::shape(op, format!("takes one axis, got {}", self.shape())));
        }
        if let Some(w) = weights
            && w.shape() != self.shape()
        {
            return Err(Error::shape(op, format!("{} numbers and {} weights", self.shape(), w.shape())));
        }
        let x = self.astype(Dtype::I64)?;
        let mut n = least;
        if self.size() > 0 {
            let low = known::<i64>(op, &x.min(&[], false)?)?[0];
            let high = known::<i64>(op, &x.max(&[], false)?)?[0];
            if low < 0 {
                return Err(Error::value(op, format!("{low} is negative")));
            }
            n = n.max((high as usize).saturating_add(1));
        }
        let shape = Shape::checked(op, &[n])?;
        x.tally(&shape, weights)
    }

    /// Adds ones, or weights, up at the positions of this array.
    pub(super) fn tally(&self, shape: &Shape, weights: Option<&Array>) -> Result<Array> {
        let (zeros, add, out) = match weights {
            None => {
                let ones = Array::ones(self.shape(), Dtype::I32)?;
                (Array::zeros(shape, Dtype::I32)?, ones, Dtype::I32)
            }
            Some(w) if w.dtype() == Dtype::C64 => (Array::zeros(shape, Dtype::C64)?, w.clone(), Dtype::C64),
            Some(w) => (Array::zeros(shape, Dtype::F64)?, w.astype(Dtype::F64)?, w.dtype().to_inexact()),
        };
        if self.size() == 0 {
            return zeros.astype(out);
        }
        let updates = add.reshape(&[self.size(), 1])?;
        let at = self.flatten()?;
        zeros.scatter(&[at], &updates, &[0], crate::op::ScatterMode::Add)?.astype(out)
    }
}

/// The elements of an array in order, and which group of equal ones each belongs to.
struct Groups {
    order: Array,
    sorted: Array,
    id: Array,
}

impl Groups {
    fn take_first(&self, x: &Array, size: usize, fill: Option<&Array>) -> Result<Unique> {
        let n = x.size();
        let dtype = position_type(n.max(size));
        Shape::checked("unique", &[size])?;
        if n == 0 {
            let values = match fill {
                Some(f) => f.astype(x.dtype())?.reshape::<usize>(&[])?.broadcast_to(&[size])?,
                None => Array::zeros(&[size], x.dtype())?,
            };
            let small = if dtype == Dtype::I32 { Dtype::U32 } else { dtype };
            let zeros = |s: &[usize], d| Array::zeros(s, d);
            return Ok(Unique {
                values,
                index: zeros(&[size], small)?,
                inverse: zeros(x.shape(), small)?,
                counts: zeros(&[size], dtype)?,
            });
        }
        let number = |v: usize| Array::from_scalar(v as i64).astype(dtype);
        let id = self.id.astype(dtype)?;
        // Where each group begins in sorted order, and where the one after it does; n for groups that do not exist.
        let starts =
            id.searchsorted(&Array::arange_int(0, size as i64 + 1, 1, dtype)?, false)?.astype(dtype)?;
        let (first, next) = (starts.slice_axis(0, 0, size)?, starts.slice_axis(0, 1, size + 1)?);
        let exists = first.less(&number(n)?)?;
        let safe = first.minimum(&number(n - 1)?)?;
        let fill = match fill {
            Some(f) => f.astype(x.dtype())?.reshape::<usize>(&[])?,
            None => self.sorted.slice_axis(0, 0, 1)?.reshape::<usize>(&[])?,
        };
        let values = Array::select(&exists, &self.sorted.take(&safe, 0)?, &fill)?;
        let index = self.order.take(&safe, 0)?.astype(dtype)?;
        let index = Array::select(&exists, &index, &index.slice_axis(0, 0, size.min(1))?)?;
        let counts = next.subtract(&first)?;
        let group = id.minimum(&number(size.saturating_sub(1))?)?;
        let inverse =
            Array::zeros(&[n], dtype)?.put_along_axis(&self.order, &group, 0)?.reshape(x.shape())?;
        let small = if dtype == Dtype::I32 { Dtype::U32 } else { dtype };
        Ok(Unique { values, index: index.astype(small)?, inverse: inverse.astype(small)?, counts })
    }
}
