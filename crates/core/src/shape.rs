//! Shapes, axes and broadcasting.

use crate::{Error, Result};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// Most elements that an array may have; keeps every byte offset within `isize`.
const MAX_ELEMENTS: usize = isize::MAX as usize / 16;

/// Sizes of the axes of an array, outermost first. A scalar has none.
#[derive(Clone, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Shape(SmallVec<[usize; 4]>);

impl Shape {
    /// From sizes. The caller answers for the number of elements; see [`Shape::checked`].
    pub fn new(dims: &[usize]) -> Shape {
        Shape(SmallVec::from_slice(dims))
    }

    /// From sizes given by a user: an error when the number of elements is beyond what memory can hold.
    pub fn checked(op: &'static str, dims: &[usize]) -> Result<Shape> {
        let n = dims.iter().filter(|&&d| d != 0).try_fold(1usize, |n, &d| n.checked_mul(d));
        match n {
            Some(n) if n <= MAX_ELEMENTS => Ok(Shape::new(dims)),
            Some(_) | None => {
                Err(Error::shape(op, format!("shape {dims:?} has more elements than memory can hold")))
            }
        }
    }

    /// Shape of a scalar.
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.0.iter().product()
    }

    /// The sizes, to change in place.
    pub fn dims_mut(&mut self) -> &mut SmallVec<[usize; 4]> {
        &mut self.0
    }

    /// The same shape with the size of `axis` replaced.
    pub fn with(&self, axis: usize, size: usize) -> Shape {
        let mut s = self.clone();
        s.0[axis] = size;
        s
    }

    /// The same shape without `axis`.
    pub fn without(&self, axis: usize) -> Shape {
        let mut s = self.clone();
        s.0.remove(axis);
        s
    }

    /// Shape that both broadcast to, by NumPy's rule: aligned at the last axis, sizes equal or 1.
    pub fn broadcast(op: &'static str, a: &Shape, b: &Shape) -> Result<Shape> {
        if a == b {
            return Ok(a.clone());
        }
        let rank = a.rank().max(b.rank());
        let mut out: SmallVec<[usize; 4]> = SmallVec::from_elem(1, rank);
        for i in 0..rank {
            let x = if i + a.rank() >= rank { a[i + a.rank() - rank] } else { 1 };
            let y = if i + b.rank() >= rank { b[i + b.rank() - rank] } else { 1 };
            out[i] = match (x, y) {
                (x, y) if x == y => x,
                (1, y) => y,
                (x, 1) => x,
                (_, _) => {
                    return Err(Error::shape(op, format!("shapes {a} and {b} do not broadcast")));
                }
            };
        }
        Shape::checked(op, &out)
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl From<&[usize]> for Shape {
    fn from(v: &[usize]) -> Self {
        Shape::new(v)
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(iter: I) -> Self {
        Shape(iter.into_iter().collect())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str(if self.0.len() == 1 { ",)" } else { ")" })
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Resolves an axis that may count from the end.
///
/// # Errors
/// `Index` when there is no such axis.
pub fn axis(op: &'static str, axis: i32, rank: usize) -> Result<usize> {
    let a = if axis < 0 { axis as i64 + rank as i64 } else { axis as i64 };
    if a < 0 || a >= rank as i64 {
        return Err(Error::index(op, format!("axis {axis} is out of range for an array of {rank} axes")));
    }
    Ok(a as usize)
}

/// Axes as a bit set; an array has at most 64 of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct AxisSet(u64);

impl AxisSet {
    /// Resolves axes that may count from the end; a repeated one is an error.
    pub fn resolve(op: &'static str, axes: &[i32], rank: usize) -> Result<AxisSet> {
        check_rank(op, rank)?;
        let mut set = AxisSet(0);
        for &a in axes {
            let a = axis(op, a, rank)?;
            if set.contains(a) {
                return Err(Error::shape(op, format!("axis {a} is given twice in {axes:?}")));
            }
            set.0 |= 1 << a;
        }
        Ok(set)
    }

    /// All axes of an array of this rank (at most 64).
    pub fn all(rank: usize) -> AxisSet {
        AxisSet(if rank >= 64 { u64::MAX } else { (1 << rank) - 1 })
    }

    /// One axis.
    pub fn one(axis: usize) -> AxisSet {
        AxisSet(1 << axis)
    }

    /// Every axis one further, for an axis that was put in front of an array that now has `rank`.
    pub(crate) fn shifted(self, rank: usize) -> Result<AxisSet> {
        check_rank("vmap", rank)?;
        Ok(AxisSet(self.0 << 1))
    }

    /// Whether `axis` is a member.
    pub fn contains(self, axis: usize) -> bool {
        axis < 64 && self.0 >> axis & 1 == 1
    }

    /// Number of members.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// No members.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Members in rising order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |&a| self.contains(a))
    }
}

/// Arrays have at most 64 axes, as NumPy's do.
pub fn check_rank(op: &'static str, rank: usize) -> Result<()> {
    if rank > 64 {
        return Err(Error::shape(op, format!("{rank} axes, at most 64 are allowed")));
    }
    Ok(())
}

/// Integer types that users may give sizes in, `-1` standing for "whatever is left".
pub trait Dim: Copy {
    /// As `i64`; sizes beyond it saturate and are refused later.
    fn dim(self) -> i64;
}
macro_rules! dim { ($($t:ty),*) => { $( impl Dim for $t { fn dim(self) -> i64 { i64::try_from(self).unwrap_or(i64::MAX) } } )* } }
dim!(usize, u32, i32, i64, isize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_follows_numpy() {
        let s = |d: &[usize]| Shape::new(d);
        assert_eq!(Shape::broadcast("t", &s(&[3, 1]), &s(&[4])).unwrap(), s(&[3, 4]));
        assert_eq!(Shape::broadcast("t", &s(&[0, 1]), &s(&[1, 5])).unwrap(), s(&[0, 5]));
        assert_eq!(Shape::broadcast("t", &s(&[]), &s(&[2])).unwrap(), s(&[2]));
        let e = Shape::broadcast("add", &s(&[2]), &s(&[3])).unwrap_err();
        assert_eq!(e.to_string(), "[add] shapes (2,) and (3,) do not broadcast");
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert!(Shape::checked("zeros", &[usize::MAX, 2]).is_err());
        assert!(Shape::checked("zeros", &[usize::MAX, 0]).is_err());
        assert!(Shape::checked("zeros", &[1 << 40, 1 << 40]).is_err());
    }

    #[test]
    fn axes_resolve() {
        assert_eq!(axis("t", -1, 3).unwrap(), 2);
        assert!(axis("t", 3, 3).is_err());
        assert!(axis("t", -4, 3).is_err());
        assert!(AxisSet::resolve("sum", &[0, -2], 2).is_err());
        assert_eq!(AxisSet::resolve("sum", &[0, -1], 3).unwrap().iter().collect::<Vec<_>>(), [0, 2]);
    }
}
