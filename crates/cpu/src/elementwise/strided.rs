//! Walking the elements of a layout in row-major order.

use olivine_core::Layout;
use smallvec::SmallVec;

/// A layout with neighbouring axes merged where they lie without a gap, for copies of runs of its innermost
/// axis. Strides are in elements.
#[derive(Debug, Clone)]
pub(super) struct Strided {
    /// Outer axes, outermost first.
    outer: SmallVec<[(usize, isize); 4]>,
    /// Length and stride of the innermost axis.
    inner: (usize, isize),
    offset: isize,
}

/// Longest innermost axis that counts as short.
const SHORT: usize = 8;

impl Strided {
    /// Of a layout that has elements.
    pub(super) fn of(layout: &Layout) -> Strided {
        let mut axes: SmallVec<[(usize, isize); 4]> = SmallVec::new();
        for (&d, &s) in layout.shape().iter().zip(layout.strides()) {
            if d == 1 {
                continue;
            }
            match axes.last_mut() {
                Some((n, t)) if *t == s * d as isize => {
                    *n *= d;
                    *t = s;
                }
                Some(_) | None => axes.push((d, s)),
            }
        }
        let inner = axes.pop().unwrap_or((1, 1));
        Strided { outer: axes, inner, offset: layout.offset() as isize }
    }

    /// Every element is the same.
    pub(super) fn is_splat(&self) -> bool {
        self.outer.is_empty() && (self.inner.1 == 0 || self.inner.0 == 1)
    }

    /// One run without gaps.
    pub(super) fn is_dense(&self) -> bool {
        self.outer.is_empty() && (self.inner.1 == 1 || self.inner.0 == 1)
    }

    /// Length and stride of the innermost axis.
    pub(super) fn inner(&self) -> (usize, isize) {
        self.inner
    }

    /// Outer axes, outermost first: length and stride.
    pub(super) fn outer(&self) -> &[(usize, isize)] {
        &self.outer
    }

    /// Element at index (0, …, 0).
    pub(super) fn offset(&self) -> isize {
        self.offset
    }

    /// Start of the row that holds element `at` in row-major order, and the element's place in that row.
    fn row(&self, at: usize) -> (SmallVec<[usize; 4]>, isize, usize) {
        let (mut rest, place) = (at / self.inner.0, at % self.inner.0);
        let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, self.outer.len());
        let mut start = self.offset;
        for (i, &(n, s)) in self.outer.iter().enumerate().rev() {
            index[i] = rest % n;
            rest /= n;
            start += index[i] as isize * s;
        }
        (index, start, place)
    }

    /// Where the innermost axis is short: the parts of `range` before its first whole run, of whole runs, and behind
    /// them.
    fn whole_runs(&self, range: &std::ops::Range<usize>) -> Option<[std::ops::Range<usize>; 3]> {
        let (len, _) = self.inner;
        let (first, last) = (range.start.next_multiple_of(len), range.end / len * len);
        let short = (2..=SHORT).contains(&len) && !self.outer.is_empty();
        (short && first < last).then_some([range.start..first, first..last, last..range.end])
    }

    /// Calls `f(first, stride, place, count)` for every run of elements `range` (not empty, in row-major order,
    /// inside the layout): its first element, their distance, its place within the range, and its length.
    #[inline(always)]
    pub(super) fn runs(&self, range: std::ops::Range<usize>, mut f: impl FnMut(isize, isize, usize, usize)) {
        let (len, stride) = self.inner;
        let (mut index, mut start, mut place) = self.row(range.start);
        let total = range.len();
        let mut done = 0;
        loop {
            let count = (len - place).min(total - done);
            f(start + place as isize * stride, stride, done, count);
            done += count;
            if done == total {
                return;
            }
            place = 0;
            for (i, &(n, s)) in self.outer.iter().enumerate().rev() {
                index[i] += 1;
                start += s;
                if index[i] < n {
                    break;
                }
                start -= s * n as isize;
                index[i] = 0;
            }
        }
    }
}

/// Copies elements `range` of a strided array of `T` to `out`, row-major.
///
/// # Safety
/// `base` is the address of the buffer that the layout lies in; `out` is valid for writing `range.len()`
/// elements and does not overlap them.
pub(super) unsafe fn gather<T: Copy>(
    base: *const T,
    layout: &Strided,
    range: std::ops::Range<usize>,
    out: *mut T,
) {
    if let Some([before, whole, after]) = layout.whole_runs(&range) {
        let start = range.start;
        // SAFETY: the caller's promise for parts of the range, at their places in `out`.
        unsafe {
            if !before.is_empty() {
                gather(base, layout, before.clone(), out);
            }
            let to = out.add(whole.start - start);
            match layout.inner {
                (2, 0) => gather_short::<T, 2>(base, layout, whole, to),
                (3, 0) => gather_short::<T, 3>(base, layout, whole, to),
                (4, 0) => gather_short::<T, 4>(base, layout, whole, to),
                _ => gather_short::<T, 0>(base, layout, whole, to),
            }
            if !after.is_empty() {
                gather(base, layout, after.clone(), out.add(after.start - start));
            }
        }
        return;
    }
    layout.runs(range, |first, stride, place, count| {
        // SAFETY: `first + i * stride` for `i < count` are elements of the layout; `place + count` is at most the
        // length of the range.
        unsafe {
            let (src, dst) = (base.offset(first), out.add(place));
            match stride {
                // Rows of heads and the like: shorter than a call takes.
                0 | 1 if [16, 32, 64].contains(&count) => {
                    for i in (0..count).step_by(16) {
                        let part = if stride == 0 { [*src; 16] } else { *src.add(i).cast::<[T; 16]>() };
                        *dst.add(i).cast::<[T; 16]>() = part;
                    }
                }
                1 => std::ptr::copy_nonoverlapping(src, dst, count),
                0 => {
                    let v = *src;
                    for i in 0..count {
                        *dst.add(i) = v;
                    }
                }
                // Known strides become vector code.
                -1 => {
                    for i in 0..count {
                        *dst.add(i) = *src.sub(i);
                    }
                }
                2 => {
                    for i in 0..count {
                        *dst.add(i) = *src.add(2 * i);
                    }
                }
                _ => {
                    for i in 0..count {
                        *dst.add(i) = *src.offset(i as isize * stride);
                    }
                }
            }
        }
    });
}

/// [`gather`] of whole runs, not none, of a layout with a short innermost axis: `N` times one element, or any when `N`
/// is 0.
///
/// # Safety
/// As for [`gather`].
unsafe fn gather_short<T: Copy, const N: usize>(
    base: *const T,
    layout: &Strided,
    range: std::ops::Range<usize>,
    out: *mut T,
) {
    let (len, stride) = layout.inner;
    let rows = Strided {
        outer: layout.outer[..layout.outer.len() - 1].into(),
        inner: layout.outer[layout.outer.len() - 1],
        offset: layout.offset,
    };
    rows.runs(range.start / len..range.end / len, |first, step, place, count| {
        for r in 0..count {
            // SAFETY: `first + r * step` starts a run of the layout, whose elements lie `stride` apart; runs follow
            // each other in `out`, which has room for all of the range.
            unsafe {
                let (src, dst) = (base.offset(first + r as isize * step), out.add((place + r) * len));
                if N > 0 {
                    *dst.cast::<[T; N]>() = [*src; N];
                } else {
                    for i in 0..len {
                        *dst.add(i) = *src.offset(i as isize * stride);
                    }
                }
            }
        }
    });
}

/// [`gather`] of elements of `size` bytes.
///
/// # Safety
/// As for [`gather`], with pointers aligned to `size`.
pub(super) unsafe fn gather_bytes(
    base: *const u8,
    size: usize,
    layout: &Strided,
    range: std::ops::Range<usize>,
    out: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => gather(base, layout, range, out),
            2 => gather::<u16>(base.cast(), layout, range, out.cast()),
            4 => gather::<u32>(base.cast(), layout, range, out.cast()),
            _ => gather::<u64>(base.cast(), layout, range, out.cast()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use olivine_core::Shape;

    #[test]
    fn ranges_of_any_layout_come_in_row_major_order() {
        let base: Vec<u32> = (0..240).collect();
        let dense = Layout::contiguous(Shape::new(&[2, 3, 4, 5]));
        let narrow = dense.slice(&[0, 1, 0, 4], &[1, 1, 2, -2], &Shape::new(&[2, 2, 2, 3]));
        let wide = Layout::contiguous(Shape::new(&[3, 1])).broadcast(&Shape::new(&[2, 3, 4]));
        for layout in [
            dense.clone(),
            dense.transpose(&[3, 1, 0, 2]),
            narrow,
            wide,
            Layout::splat(Shape::new(&[4, 2])),
            // Rows that are copied in blocks.
            Layout::contiguous(Shape::new(&[3, 80])).slice(&[0, 8], &[1, 1], &Shape::new(&[3, 16])),
            Layout::contiguous(Shape::new(&[3, 1])).broadcast(&Shape::new(&[3, 64])),
            Layout::contiguous(Shape::scalar()),
        ] {
            let n = layout.elements();
            let mut want = Vec::new();
            for at in 0..n {
                let (mut rest, mut o) = (at, layout.offset() as isize);
                for (&d, &s) in layout.shape().iter().zip(layout.strides()).rev() {
                    o += (rest % d) as isize * s;
                    rest /= d;
                }
                want.push(base[o as usize]);
            }
            let strided = Strided::of(&layout);
            for start in 0..n {
                for end in start + 1..=n {
                    let mut got = vec![0u32; end - start];
                    // SAFETY: the layouts lie inside `base`, and `got` has the length of the range.
                    unsafe { gather(base.as_ptr(), &strided, start..end, got.as_mut_ptr()) };
                    assert_eq!(got, want[start..end], "{layout:?} {start}..{end}");
                }
            }
        }
    }
}
