//! NumPy's indexing: integers, ranges, new axes, arrays of integers and masks, in any mixture.
//!
//! An index is a list of [`IndexItem`]s, which the macro [`index!`](crate::index) writes like Python does. The rules
//! are those of NumPy ("Indexing on ndarrays" in its manual): ranges and new axes first, then all arrays together,
//! broadcast to one shape that stands where they stood, or in front when a range or new axis lies between them; an
//! integer beside an array counts as an array.

use super::shape::resolve_range;
use crate::dtype::Dtype;
use crate::op::{Op, ScatterMode, Update, View};
use crate::shape::{Shape, check_rank};
use crate::{Array, Error, Result};
use smallvec::SmallVec;

/// Part of an index.
#[derive(Debug, Clone)]
pub enum IndexItem {
    /// One element of an axis, which is gone from the result; negative ones count from the end.
    Int(i64),
    /// Elements `start, start + step, …` before `stop` of an axis, by Python's rules for what is left out, negative,
    /// or too large.
    Range {
        /// First element.
        start: Option<i64>,
        /// Where it ends.
        stop: Option<i64>,
        /// Distance; not 0.
        step: i64,
    },
    /// As many whole axes as are left.
    Ellipsis,
    /// A new axis of size 1.
    NewAxis,
    /// Integers that pick elements of an axis, or truth values that pick elements of as many axes as they have.
    Array(Array),
}

/// The whole of an axis.
const WHOLE: IndexItem = IndexItem::Range { start: None, stop: None, step: 1 };

macro_rules! integers {
    ($($t:ty),*) => { $(
        impl From<$t> for IndexItem {
            fn from(i: $t) -> Self { IndexItem::Int(i as i64) }
        }
        impl From<std::ops::Range<$t>> for IndexItem {
            fn from(r: std::ops::Range<$t>) -> Self {
                IndexItem::Range { start: Some(r.start as i64), stop: Some(r.end as i64), step: 1 }
            }
        }
        impl From<std::ops::RangeFrom<$t>> for IndexItem {
            fn from(r: std::ops::RangeFrom<$t>) -> Self {
                IndexItem::Range { start: Some(r.start as i64), stop: None, step: 1 }
            }
        }
        impl From<std::ops::RangeTo<$t>> for IndexItem {
            fn from(r: std::ops::RangeTo<$t>) -> Self {
                IndexItem::Range { start: None, stop: Some(r.end as i64), step: 1 }
            }
        }
    )* };
}
integers!(i32, i64, isize, u32, usize);

impl From<std::ops::RangeFull> for IndexItem {
    fn from(_: std::ops::RangeFull) -> Self {
        WHOLE
    }
}
impl From<Array> for IndexItem {
    fn from(a: Array) -> Self {
        IndexItem::Array(a)
    }
}
impl From<&Array> for IndexItem {
    fn from(a: &Array) -> Self {
        IndexItem::Array(a.clone())
    }
}
impl From<bool> for IndexItem {
    fn from(b: bool) -> Self {
        IndexItem::Array(Array::from_scalar(b))
    }
}

impl IndexItem {
    /// The elements of an item's range, `step` apart.
    ///
    /// A step makes sense for ranges only; another item is returned as it is.
    #[must_use]
    pub fn step_by(self, by: i64) -> IndexItem {
        match self {
            IndexItem::Range { start, stop, .. } => IndexItem::Range { start, stop, step: by },
            IndexItem::Int(_) | IndexItem::Ellipsis | IndexItem::NewAxis | IndexItem::Array(_) => self,
        }
    }
}

/// An index as Python writes it: integers, ranges such as `1..-1` and `..`, ranges with a step such as `..;2`,
/// `newaxis`, `ellipsis`, and references to arrays.
///
/// ```
/// # use olivine_core::{index, ops::IndexItem};
/// let i = index![0, 1..-1, ..;-1, ellipsis, newaxis];
/// assert_eq!(i.len(), 5);
/// assert!(matches!(i[2], IndexItem::Range { start: None, stop: None, step: -1 }));
/// ```
#[macro_export]
macro_rules! index {
    (@items [$($done:expr),*]) => { [$($done),*] };
    (@items [$($done:expr),*] ellipsis $(, $($rest:tt)*)?) => {
        $crate::index!(@items [$($done,)* $crate::ops::IndexItem::Ellipsis] $($($rest)*)?)
    };
    (@items [$($done:expr),*] newaxis $(, $($rest:tt)*)?) => {
        $crate::index!(@items [$($done,)* $crate::ops::IndexItem::NewAxis] $($($rest)*)?)
    };
    (@items [$($done:expr),*] $item:expr ; $step:expr $(, $($rest:tt)*)?) => {
        $crate::index!(@items [$($done,)* $crate::ops::IndexItem::from($item).step_by($step)] $($($rest)*)?)
    };
    (@items [$($done:expr),*] $item:expr $(, $($rest:tt)*)?) => {
        $crate::index!(@items [$($done,)* $crate::ops::IndexItem::from($item)] $($($rest)*)?)
    };
    ($($items:tt)*) => { $crate::index!(@items [] $($items)*) };
}

/// An index against the shape of an array: first a basic view, then arrays along some of its axes.
struct Plan {
    /// Of every axis of the array: first element, step, number.
    start: SmallVec<[usize; 4]>,
    step: SmallVec<[isize; 4]>,
    size: Shape,
    /// Shape of the basic view: without the axes of integers, with new ones.
    view: Shape,
    /// Axes of the view that arrays index, rising, and the arrays.
    axes: Vec<i32>,
    arrays: Vec<Array>,
    /// Shape of the arrays together.
    at: Shape,
    /// Where that shape stands among the axes that are left.
    place: usize,
    /// An array has no elements, so nothing is picked.
    nothing: bool,
}

/// A part of an index that belongs to axes of the array.
enum Part {
    Range {
        start: usize,
        step: isize,
        count: usize,
    },
    Int(i64),
    New,
    Pick(Array),
    /// A truth value for no axis: a new axis of size 1 or 0.
    Truth(Array),
}

fn plan(op: &'static str, x: &Array, items: &[IndexItem]) -> Result<Plan> {
    let used = |i: &IndexItem| match i {
        IndexItem::Int(_) | IndexItem::Range { .. } => 1,
        IndexItem::Ellipsis | IndexItem::NewAxis => 0,
        IndexItem::Array(a) if a.dtype() == Dtype::Bool => a.rank(),
        IndexItem::Array(_) => 1,
    };
    let total: usize = items.iter().map(used).sum();
    let rank = x.rank();
    if total > rank {
        let msg = format!("an index of {total} axes for an array of shape {}", x.shape());
        return Err(Error::shape(op, msg));
    }
    if items.iter().filter(|i| matches!(i, IndexItem::Ellipsis)).count() > 1 {
        return Err(Error::index(op, "more than one ellipsis"));
    }
    let mut parts: Vec<Part> = Vec::new();
    let mut axis = 0;
    let whole = |axis: &mut usize| {
        let count = x.shape()[*axis];
        *axis += 1;
        Part::Range { start: 0, step: 1, count }
    };
    for item in items {
        match item {
            IndexItem::Ellipsis => (0..rank - total).for_each(|_| parts.push(whole(&mut axis))),
            IndexItem::NewAxis => parts.push(Part::New),
            &IndexItem::Int(i) => {
                let n = x.shape()[axis] as i64;
                let at = if i < 0 { i.saturating_add(n) } else { i };
                if at < 0 || at >= n {
                    let msg = format!("index {i} is out of range for axis {axis} of size {n}");
                    return Err(Error::index(op, msg));
                }
                parts.push(Part::Int(at));
                axis += 1;
            }
            &IndexItem::Range { start, stop, step } => {
                let (start, count) = resolve_range(x.shape()[axis], start, stop, step)?;
                parts.push(Part::Range { start, step: if count == 0 { 1 } else { step as isize }, count });
                axis += 1;
            }
            IndexItem::Array(a) if a.dtype() == Dtype::Bool && a.rank() == 0 => {
                parts.push(Part::Truth(a.clone()));
            }
            IndexItem::Array(a) if a.dtype() == Dtype::Bool => {
                let covered = &x.shape()[axis..axis + a.rank()];
                if a.shape()[..] != *covered {
                    let msg =
                        format!("a mask of shape {} for axes of shape {}", a.shape(), Shape::new(covered));
                    return Err(Error::index(op, msg));
                }
                parts.extend(a.mask_indices(op)?.into_iter().map(Part::Pick));
                axis += a.rank();
            }
            IndexItem::Array(a) => {
                if !a.dtype().is_integer() {
                    return Err(Error::bad_dtype(op, "integers or bool as index", a.dtype()));
                }
                parts.push(Part::Pick(a.clone()));
                axis += 1;
            }
        }
    }
    while axis < rank {
        parts.push(whole(&mut axis));
    }
    resolve(op, parts)
}

fn resolve(op: &'static str, parts: Vec<Part>) -> Result<Plan> {
    let advanced = |p: &Part| matches!(p, Part::Pick(_) | Part::Truth(_));
    let any = parts.iter().any(advanced);
    let joins = |p: &Part| advanced(p) || (any && matches!(p, Part::Int(_)));
    // Side by side, they stand where they are; apart, in front.
    let first = parts.iter().position(joins);
    let last = parts.iter().rposition(joins);
    let together = match (first, last) {
        (Some(a), Some(b)) => parts[a..=b].iter().all(joins),
        (_, _) => true,
    };
    let mut p = Plan {
        start: SmallVec::new(),
        step: SmallVec::new(),
        size: Shape::scalar(),
        view: Shape::scalar(),
        axes: Vec::new(),
        arrays: Vec::new(),
        at: Shape::scalar(),
        place: 0,
        nothing: false,
    };
    let mut kept = 0;
    for (i, part) in parts.iter().enumerate() {
        if together && first == Some(i) {
            p.place = kept;
        }
        match part {
            &Part::Range { start, step, count } => {
                p.axis(start, step, count, true);
                kept += 1;
            }
            &Part::Int(i) => p.axis(i as usize, 1, 1, false),
            Part::New => {
                p.view.dims_mut().push(1);
                kept += 1;
            }
            Part::Pick(a) => {
                // The size of the axis is filled in by the caller, who knows the array.
                p.axes.push(p.view.rank() as i32);
                p.axis(0, 1, usize::MAX, true);
                p.arrays.push(a.clone());
            }
            Part::Truth(a) => {
                let n = a.mask_indices_of_scalar(op)?;
                p.axes.push(p.view.rank() as i32);
                p.view.dims_mut().push(1);
                p.arrays.push(Array::zeros(&[n], Dtype::I32)?);
            }
        }
    }
    for a in &p.arrays {
        p.at = Shape::broadcast(op, &p.at, a.shape()).map_err(|_| {
            Error::index(op, format!("index shapes {} and {} do not broadcast", p.at, a.shape()))
        })?;
    }
    p.nothing = !p.arrays.is_empty() && p.at.elements() == 0;
    Ok(p)
}

impl Plan {
    /// Takes elements of the next axis of the array, which stays in the view or not.
    fn axis(&mut self, start: usize, step: isize, count: usize, stays: bool) {
        self.start.push(start);
        self.step.push(step);
        self.size.dims_mut().push(count);
        if stays {
            self.view.dims_mut().push(count);
        }
    }

    fn new(op: &'static str, x: &Array, items: &[IndexItem]) -> Result<Plan> {
        let mut p = plan(op, x, items)?;
        // Axes that arrays index are taken whole.
        let mut v = 0;
        let picked: Vec<usize> =
            p.size.iter().enumerate().filter(|&(_, &n)| n == usize::MAX).map(|(i, _)| i).collect();
        for i in picked {
            let n = x.shape()[i];
            p.size.dims_mut()[i] = n;
            while p.view[v] != usize::MAX {
                v += 1;
            }
            p.view.dims_mut()[v] = n;
        }
        check_rank(op, p.view.rank() + p.at.rank())?;
        Ok(p)
    }

    /// Whether the basic part takes the whole array.
    fn takes_all(&self, x: &Array) -> bool {
        self.size == *x.shape() && self.step.iter().all(|&s| s == 1)
    }

    /// The basic part.
    fn view(&self, x: &Array) -> Result<Array> {
        let v = if self.takes_all(x) {
            x.clone()
        } else {
            let (start, step) = (self.start.clone(), self.step.clone());
            let op = View::Slice { start, step, size: self.size.clone() };
            Array::from_op(Op::View(op), std::slice::from_ref(x))?
        };
        v.reshape(&self.view)
    }

    /// The array with the basic part replaced.
    fn replace(&self, x: &Array, part: &Array) -> Result<Array> {
        let part = part.reshape(&self.size)?;
        if self.takes_all(x) {
            return Ok(part);
        }
        let op = Update::Slice { start: self.start.clone(), step: self.step.clone() };
        Array::from_op(Op::Update(op), &[x.clone(), part])
    }

    fn is_picked(&self, axis: usize) -> bool {
        self.axes.contains(&(axis as i32))
    }

    /// Axes of the view that no array indexes.
    fn kept(&self) -> Vec<usize> {
        (0..self.view.rank()).filter(|&i| !self.is_picked(i)).collect()
    }

    /// Shape of the result.
    fn result(&self) -> Shape {
        if self.axes.is_empty() {
            return self.view.clone();
        }
        let kept = self.kept();
        let dims = |axes: &[usize]| axes.iter().map(|&i| self.view[i]).collect::<Vec<_>>();
        let (before, after) = kept.split_at(self.place.min(kept.len()));
        dims(before).into_iter().chain(self.at.iter().copied()).chain(dims(after)).collect()
    }

    /// Sizes of the window that is moved for each position.
    fn window(&self) -> Shape {
        (0..self.view.rank()).map(|i| if self.is_picked(i) { 1 } else { self.view[i] }).collect()
    }

    fn get(&self, x: &Array) -> Result<Array> {
        let v = self.view(x)?;
        if self.axes.is_empty() {
            return Ok(v);
        }
        if self.nothing {
            return Array::zeros(&self.result(), x.dtype());
        }
        let g = v.gather(&self.arrays, &self.axes, &self.window())?;
        // [positions, window] -> [positions, kept axes] -> [before, positions, after].
        let (k, kept) = (self.at.rank(), self.kept());
        let flat: Shape = self.at.iter().copied().chain(kept.iter().map(|&i| self.view[i])).collect();
        let g = g.reshape(&flat)?;
        let place = self.place.min(kept.len());
        if place == 0 {
            return Ok(g);
        }
        let order: Vec<i32> =
            (k..k + place).chain(0..k).chain(k + place..k + kept.len()).map(|i| i as i32).collect();
        g.transpose(&order)
    }

    /// Values of the shape of the result as updates of a scatter: `[positions, window]`.
    fn updates(&self, values: &Array) -> Result<Array> {
        let (k, n) = (self.at.rank(), self.kept().len());
        let place = self.place.min(n);
        let values = if place == 0 {
            values.clone()
        } else {
            let order: Vec<i32> =
                (place..place + k).chain(0..place).chain(place + k..k + n).map(|i| i as i32).collect();
            values.transpose(&order)?
        };
        let shape: Shape = self.at.iter().copied().chain(self.window().iter().copied()).collect();
        values.reshape(&shape)
    }

    fn update(&self, op: &'static str, x: &Array, values: &Array, mode: ScatterMode) -> Result<Array> {
        let shape = self.result();
        let values = fit(op, values, &shape)?.astype(x.dtype())?;
        if shape.elements() == 0 {
            return Ok(x.clone());
        }
        if self.axes.is_empty() {
            let part = match mode {
                ScatterMode::Set => values,
                ScatterMode::Add => self.view(x)?.add(&values)?,
                ScatterMode::Prod => self.view(x)?.multiply(&values)?,
                ScatterMode::Max => self.view(x)?.maximum(&values)?,
                ScatterMode::Min => self.view(x)?.minimum(&values)?,
            };
            return self.replace(x, &part);
        }
        let updates = self.updates(&values)?;
        let v = self.view(x)?.scatter(&self.arrays, &updates, &self.axes, mode)?;
        self.replace(x, &v)
    }
}

/// Values broadcast to the shape that is written; leading axes of size 1 may be left over, as in NumPy.
fn fit(op: &'static str, values: &Array, shape: &Shape) -> Result<Array> {
    let mut v = values.clone();
    if v.rank() > shape.rank() {
        let extra = v.rank() - shape.rank();
        if v.shape()[..extra].iter().all(|&d| d == 1) {
            v = v.reshape(&Shape::new(&v.shape()[extra..]))?;
        }
    }
    v.broadcast_to(shape)
        .map_err(|_| Error::shape(op, format!("values of shape {} do not fit shape {shape}", values.shape())))
}

impl Array {
    fn mask_indices_of_scalar(&self, op: &'static str) -> Result<usize> {
        Ok(super::values::known::<bool>(op, self)?[0] as usize)
    }

    /// What an index picks. Ranges, integers and new axes give views; a mask is evaluated, since the shape of the
    /// result depends on it.
    ///
    /// # Errors
    /// `Index` for an index that does not fit, an integer out of range, and, at evaluation, an integer of an array out
    /// of range.
    pub fn get(&self, index: &[IndexItem]) -> Result<Array> {
        Plan::new("get", self, index)?.get(self)
    }

    /// This array with `values`, which broadcast, at what an index picks. Repeated positions keep the last value. The
    /// array's own memory is used when nobody else holds it. A mask is evaluated unless one value serves all its
    /// positions.
    ///
    /// # Errors
    /// As [`Array::get`]; `Shape` for values that do not broadcast.
    pub fn set(&self, index: &[IndexItem], values: &Array) -> Result<Array> {
        if let Some(done) = self.set_masked(index, values)? {
            return Ok(done);
        }
        Plan::new("set", self, index)?.update("set", self, values, ScatterMode::Set)
    }

    /// The choice that a mask makes between the array and values, where those are the same for all its positions.
    fn set_masked(&self, index: &[IndexItem], values: &Array) -> Result<Option<Array>> {
        let [IndexItem::Array(mask)] = index else { return Ok(None) };
        let m = mask.rank();
        let covers = mask.dtype() == Dtype::Bool && m <= self.rank() && self.shape()[..m] == mask.shape()[..];
        if !covers {
            return Ok(None);
        }
        // Values of the shape of one position: axes of the rest of the array, perhaps behind a 1 for the positions.
        let rest = self.rank() - m;
        let extra = values.rank().saturating_sub(rest);
        if extra > 1 || values.shape()[..extra].iter().any(|&d| d != 1) {
            return Ok(None);
        }
        let v = values.reshape(&Shape::new(&values.shape()[extra..]))?;
        let Ok(v) = v.broadcast_to(&Shape::new(&self.shape()[m..])) else { return Ok(None) };
        let shape: Shape = mask.shape().iter().copied().chain(std::iter::repeat_n(1, rest)).collect();
        Array::select(&mask.reshape(&shape)?, &v.astype(self.dtype())?, self).map(Some)
    }

    /// What an index picks, to be changed: every value counts, also at repeated positions.
    pub fn at<'a>(&'a self, index: &'a [IndexItem]) -> At<'a> {
        At { x: self, index }
    }
}

/// A part of an array that is to be changed; see [`Array::at`].
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    x: &'a Array,
    index: &'a [IndexItem],
}

impl At<'_> {
    fn update(&self, op: &'static str, values: &Array, mode: ScatterMode) -> Result<Array> {
        Plan::new(op, self.x, self.index)?.update(op, self.x, values, mode)
    }

    /// What is picked.
    pub fn get(&self) -> Result<Array> {
        self.x.get(self.index)
    }

    /// The array with `values` there; of repeated positions the last stays.
    pub fn set(&self, values: &Array) -> Result<Array> {
        self.x.set(self.index, values)
    }

    /// The array with `values` added there.
    pub fn add(&self, values: &Array) -> Result<Array> {
        self.update("at.add", values, ScatterMode::Add)
    }

    /// The array with `values` taken off there.
    pub fn subtract(&self, values: &Array) -> Result<Array> {
        let values = values.astype(self.x.dtype())?.negative()?;
        self.update("at.subtract", &values, ScatterMode::Add)
    }

    /// The array multiplied by `values` there.
    pub fn multiply(&self, values: &Array) -> Result<Array> {
        self.update("at.multiply", values, ScatterMode::Prod)
    }

    /// The array divided by the product of `values` there.
    ///
    /// # Errors
    /// `Dtype` for integers, whose quotients are none.
    pub fn divide(&self, values: &Array) -> Result<Array> {
        if !self.x.dtype().is_inexact() {
            return Err(Error::bad_dtype("at.divide", "floats", self.x.dtype()));
        }
        let ones = self.x.ones_like()?;
        let by = Plan::new("at.divide", self.x, self.index)?;
        self.x.divide(&by.update("at.divide", &ones, values, ScatterMode::Prod)?)
    }

    /// The array with the larger of itself and `values` there; NaN when either is.
    pub fn maximum(&self, values: &Array) -> Result<Array> {
        self.update("at.maximum", values, ScatterMode::Max)
    }

    /// The array with the smaller of itself and `values` there; NaN when either is.
    pub fn minimum(&self, values: &Array) -> Result<Array> {
        self.update("at.minimum", values, ScatterMode::Min)
    }
}
