//! How the elements of an array lie in its buffer.

use crate::shape::Shape;
use smallvec::SmallVec;

/// Shape, strides and offset, all counted in elements.
///
/// Every reachable element lies inside the buffer: layouts are only made from a whole buffer
/// ([`Layout::contiguous`]) and by the methods here, which keep that true.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Shape,
    strides: SmallVec<[isize; 4]>,
    offset: usize,
}

impl Layout {
    /// Row-major from the start of a buffer.
    pub fn contiguous(shape: Shape) -> Layout {
        let strides = row_major(&shape);
        Layout { shape, strides, offset: 0 }
    }

    /// Every element is the first of the buffer.
    pub fn splat(shape: Shape) -> Layout {
        let strides = SmallVec::from_elem(0, shape.rank());
        Layout { shape, strides, offset: 0 }
    }

    /// From parts, when every element lies within `len` elements of the buffer.
    pub fn strided(shape: Shape, strides: &[isize], offset: usize, len: usize) -> Option<Layout> {
        if strides.len() != shape.rank() {
            return None;
        }
        let l = Layout { shape, strides: SmallVec::from_slice(strides), offset };
        let (lo, hi) = l.bounds()?;
        (l.shape.elements() == 0 || (lo >= 0 && hi < len as i128)).then_some(l)
    }

    /// Lowest and highest element that is reached, before any bounds check.
    fn bounds(&self) -> Option<(i128, i128)> {
        let (mut lo, mut hi) = (self.offset as i128, self.offset as i128);
        for (&d, &s) in self.shape.iter().zip(&self.strides) {
            let reach = (d.max(1) as i128 - 1).checked_mul(s as i128)?;
            if reach < 0 { lo += reach } else { hi += reach }
        }
        Some((lo, hi))
    }

    /// Number of elements from the first to the last that is reached, inclusive.
    pub fn span(&self) -> usize {
        if self.shape.elements() == 0 {
            return 0;
        }
        match self.bounds() {
            Some((lo, hi)) => (hi - lo + 1) as usize,
            None => 0,
        }
    }

    /// Sizes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Distance in elements between neighbours along each axis.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Element of the buffer at index (0, …, 0).
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.elements()
    }

    /// Row-major without gaps (axes of size 1 may have any stride).
    pub fn is_contiguous(&self) -> bool {
        let mut expect = 1isize;
        for (&d, &s) in self.shape.iter().zip(&self.strides).rev() {
            if d == 0 {
                return true;
            }
            if d != 1 {
                if s != expect {
                    return false;
                }
                expect *= d as isize;
            }
        }
        true
    }

    /// Axes reordered: axis `i` of the result is axis `perm[i]` of this. `perm` is a permutation.
    pub fn transpose(&self, perm: &[usize]) -> Layout {
        Layout {
            shape: perm.iter().map(|&p| self.shape[p]).collect(),
            strides: perm.iter().map(|&p| self.strides[p]).collect(),
            offset: self.offset,
        }
    }

    /// Broadcast to `shape`, which this shape must broadcast to.
    pub fn broadcast(&self, shape: &Shape) -> Layout {
        let lead = shape.rank() - self.shape.rank();
        let strides = (0..shape.rank())
            .map(|i| {
                if i < lead || (self.shape[i - lead] == 1 && shape[i] != 1) {
                    0
                } else {
                    self.strides[i - lead]
                }
            })
            .collect();
        Layout { shape: shape.clone(), strides, offset: self.offset }
    }

    /// Elements `start[i] + j * step[i]` for `j < size[i]` along each axis; all must exist.
    pub fn slice(&self, start: &[usize], step: &[isize], size: &Shape) -> Layout {
        let mut offset = self.offset as isize;
        if size.elements() > 0 {
            for (&b, &s) in start.iter().zip(&self.strides) {
                offset += b as isize * s;
            }
        }
        Layout {
            shape: size.clone(),
            // The distance to a neighbour that does not exist may be anything, and too large to compute.
            strides: (0..size.rank())
                .map(|i| if size[i] > 1 { self.strides[i] * step[i] } else { self.strides[i] })
                .collect(),
            offset: offset as usize,
        }
    }

    /// The same elements in row-major order under another shape of as many elements, without a copy;
    /// `None` when strides do not allow that.
    pub fn reshape(&self, shape: &Shape) -> Option<Layout> {
        if self.is_contiguous() {
            let mut l = Layout::contiguous(shape.clone());
            l.offset = self.offset;
            return Some(l);
        }
        // Merge axes that lie next to each other without a gap, then split the runs anew.
        let mut runs: SmallVec<[(usize, isize); 6]> = SmallVec::new();
        for (&d, &s) in self.shape.iter().zip(&self.strides) {
            if d == 1 {
                continue;
            }
            match runs.last_mut() {
                Some((n, t)) if *t == s * d as isize => {
                    *n *= d;
                    *t = s;
                }
                Some(_) | None => runs.push((d, s)),
            }
        }
        let mut strides: SmallVec<[isize; 4]> = SmallVec::from_elem(0, shape.rank());
        let mut i = shape.rank();
        for &(n, s) in runs.iter().rev() {
            let (mut left, mut stride) = (n, s);
            while left > 1 {
                if i == 0 {
                    return None;
                }
                i -= 1;
                let d = shape[i];
                if d == 0 || left % d != 0 {
                    return None;
                }
                strides[i] = stride;
                stride *= d as isize;
                left /= d;
            }
        }
        shape[..i].iter().all(|&d| d == 1).then(|| Layout {
            shape: shape.clone(),
            strides,
            offset: self.offset,
        })
    }

    /// The same bytes seen as elements of another size: the last axis is scaled by `from / to`.
    /// `None` when the last axis is not dense or offsets do not divide.
    pub fn reinterpret(&self, from: usize, to: usize, shape: &Shape) -> Option<Layout> {
        if from == to {
            return Some(self.clone());
        }
        let last = *self.strides.last()?;
        if last != 1 && *self.shape.last()? != 1 {
            return None;
        }
        let mut l = self.clone();
        for s in l.strides.iter_mut() {
            let bytes = *s * from as isize;
            if bytes % to as isize != 0 && *s != last {
                return None;
            }
            *s = bytes / to as isize;
        }
        *l.strides.last_mut()? = 1;
        let bytes = self.offset * from;
        if !bytes.is_multiple_of(to) {
            return None;
        }
        l.offset = bytes / to;
        l.shape = shape.clone();
        Some(l)
    }
}

/// Strides of a row-major array.
pub fn row_major(shape: &[usize]) -> SmallVec<[isize; 4]> {
    let mut strides: SmallVec<[isize; 4]> = SmallVec::from_elem(1isize, shape.len());
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].wrapping_mul(shape[i].max(1) as isize);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(d: &[usize]) -> Shape {
        Shape::new(d)
    }

    #[test]
    fn reshape_keeps_views_where_it_can() {
        let l = Layout::contiguous(shape(&[2, 3, 4]));
        assert_eq!(l.reshape(&shape(&[6, 4])).unwrap().strides(), [4, 1]);
        let t = l.transpose(&[1, 0, 2]);
        assert!(t.reshape(&shape(&[6, 4])).is_none());
        assert_eq!(t.reshape(&shape(&[3, 2, 2, 2])).unwrap().strides(), [4, 12, 2, 1]);
        assert_eq!(t.reshape(&shape(&[3, 1, 2, 4, 1])).unwrap().shape(), &shape(&[3, 1, 2, 4, 1]));
        let b = Layout::contiguous(shape(&[3, 1])).broadcast(&shape(&[3, 5]));
        assert!(b.reshape(&shape(&[15])).is_none());
        let s = Layout::splat(shape(&[3, 5])).reshape(&shape(&[15])).unwrap();
        assert_eq!(s.strides(), [0]);
    }

    #[test]
    fn strided_refuses_what_leaves_the_buffer() {
        assert!(Layout::strided(shape(&[2, 3]), &[3, 1], 0, 6).is_some());
        assert!(Layout::strided(shape(&[2, 3]), &[3, 1], 1, 6).is_none());
        assert!(Layout::strided(shape(&[3]), &[-1], 2, 3).is_some());
        assert!(Layout::strided(shape(&[3]), &[-1], 1, 3).is_none());
        assert!(Layout::strided(shape(&[usize::MAX]), &[isize::MAX], 0, 3).is_none());
        assert!(Layout::strided(shape(&[0]), &[100], 7, 0).is_some());
    }

    #[test]
    fn slices_reverse() {
        let l = Layout::contiguous(shape(&[4])).slice(&[3], &[-1], &shape(&[4]));
        assert_eq!((l.offset(), l.strides()), (3, &[-1isize][..]));
        assert_eq!(l.span(), 4);
        assert!(!l.is_contiguous());
    }
}
