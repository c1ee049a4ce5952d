//! Walking over elements that lie at strides, for several operands of one shape at once.

use smallvec::SmallVec;

/// One axis as `K` operands see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis<const K: usize> {
    pub len: usize,
    /// Distance in elements between neighbours, for each operand.
    pub strides: [isize; K],
}

pub(super) type Axes<const K: usize> = SmallVec<[Axis<K>; 6]>;

/// Axes without those of size 1, neighbours that form one run in every operand merged. Empty for one element.
pub(super) fn collapse<const K: usize>(axes: impl IntoIterator<Item = Axis<K>>) -> Axes<K> {
    let mut merged: Axes<K> = SmallVec::new();
    for axis in axes {
        if axis.len == 1 {
            continue;
        }
        match merged.last_mut() {
            Some(outer) if (0..K).all(|k| outer.strides[k] == axis.strides[k] * axis.len as isize) => {
                outer.len *= axis.len;
                outer.strides = axis.strides;
            }
            Some(_) | None => merged.push(axis),
        }
    }
    merged
}

/// [`collapse`] of a shape with the strides of each operand.
pub(super) fn collapse_shape<const K: usize>(shape: &[usize], strides: [&[isize]; K]) -> Axes<K> {
    collapse(
        shape
            .iter()
            .enumerate()
            .map(|(i, &len)| Axis { len, strides: std::array::from_fn(|k| strides[k][i]) }),
    )
}

/// Number of positions of some axes.
pub(super) fn count<const K: usize>(axes: &[Axis<K>]) -> usize {
    axes.iter().map(|a| a.len).product()
}

/// Takes the innermost axis off; a single element is an axis of one.
pub(super) fn split_inner<const K: usize>(axes: &[Axis<K>]) -> (&[Axis<K>], Axis<K>) {
    match axes.split_last() {
        Some((inner, outer)) => (outer, *inner),
        None => (&[], Axis { len: 1, strides: [0; K] }),
    }
}

/// Offsets of the positions of some axes, in row-major order.
pub(super) struct Walk<'a, const K: usize> {
    axes: &'a [Axis<K>],
    index: SmallVec<[usize; 6]>,
    /// Offset of the current position in each operand.
    pub at: [isize; K],
}

impl<'a, const K: usize> Walk<'a, K> {
    /// At `position` of the axes, none of which is empty, from offsets `base`.
    pub fn new(axes: &'a [Axis<K>], base: [isize; K], position: usize) -> Self {
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, axes.len());
        let (mut at, mut rest) = (base, position);
        for (i, axis) in index.iter_mut().zip(axes).rev() {
            *i = rest % axis.len;
            rest /= axis.len;
            for (a, s) in at.iter_mut().zip(axis.strides) {
                *a += *i as isize * s;
            }
        }
        Walk { axes, index, at }
    }

    /// To the next position; from the last to the first.
    #[inline(always)]
    pub fn step(&mut self) {
        for (i, axis) in self.index.iter_mut().zip(self.axes).rev() {
            *i += 1;
            for (a, s) in self.at.iter_mut().zip(axis.strides) {
                *a += s;
            }
            if *i < axis.len {
                return;
            }
            *i = 0;
            for (a, s) in self.at.iter_mut().zip(axis.strides) {
                *a -= axis.len as isize * s;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_merge_only_where_all_operands_agree() {
        let one = collapse_shape(&[2, 1, 3, 4], [&[12, 99, 4, 1]]);
        assert_eq!(one[..], [Axis { len: 24, strides: [1] }]);
        let two = collapse_shape(&[2, 3, 4], [&[12, 4, 1], &[0, 4, 1]]);
        assert_eq!(two[..], [Axis { len: 2, strides: [12, 0] }, Axis { len: 12, strides: [1, 1] }]);
        assert!(collapse_shape(&[1, 1], [&[5, 5]]).is_empty());
    }

    #[test]
    fn walks_visit_positions_in_order() {
        let axes = [Axis { len: 2, strides: [10] }, Axis { len: 3, strides: [-1] }];
        let mut walk = Walk::new(&axes, [7], 0);
        let mut seen = Vec::new();
        for i in 0..6 {
            assert_eq!(Walk::new(&axes, [7], i).at, walk.at);
            seen.push(walk.at[0]);
            walk.step();
        }
        assert_eq!(seen, [7, 6, 5, 17, 16, 15]);
        assert_eq!(walk.at, [7]);
    }
}
