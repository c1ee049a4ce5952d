//! Products whose left operand is made row by row when it is needed, as the windows of a convolution are.
//!
//! The right operand is packed once, before the rest: it is the small one here. Then every task makes and packs
//! a group of rows that fits its second-level cache, and runs over all strips. Rows of the result may lie apart
//! in a regular grid.

use super::blocked::part;
use super::kernel::engine::Engine;
use super::kernel::{Finish, Pack, Tile, Vector, WIDE};
use super::mat::{Raw, RawMut};
use super::scheme::Scheme;
use super::scratch::{Scratch, Shared};
use super::{Element, GemmError, MatRef};
use crate::pool;
use std::ops::Range;

/// Bytes of packed rows that a task works on at a time, and of the strips that pass over them.
const GROUP_BYTES: usize = 384 << 10;
/// Nanoseconds of one core below which a second thread does not pay.
const PARALLEL_NS: usize = 20_000;

/// A left operand whose rows are made when they are needed.
pub trait Lines<T>: Sync {
    /// Writes elements `ks` of rows `row..row + rows`, the first of each `stride` elements after that of the row
    /// before; all of `ks` is written, zeros too.
    fn fill(&self, row: usize, rows: usize, ks: Range<usize>, lines: &mut [T], stride: usize);
}

/// Where rows of a result begin: at `base` plus the sum of index times stride, the indices counting through
/// `lens` in row-major order.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    /// Sizes, outermost first.
    pub lens: [usize; 4],
    /// Elements between neighbours.
    pub strides: [usize; 4],
    /// The first row.
    pub base: usize,
}

impl Grid {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.lens.iter().product()
    }

    /// Start of a row.
    fn at(&self, row: usize) -> usize {
        let (mut at, mut rest) = (self.base, row);
        for i in (0..4).rev() {
            at += rest % self.lens[i] * self.strides[i];
            rest /= self.lens[i];
        }
        at
    }

    /// Distance of all neighbouring rows, where it is the same.
    fn uniform(&self) -> Option<usize> {
        let mut run: Option<(usize, usize)> = None;
        for i in (0..4).rev().filter(|&i| self.lens[i] > 1) {
            run = match run {
                None => Some((self.strides[i], self.lens[i])),
                Some((step, count)) if self.strides[i] == step * count => Some((step, count * self.lens[i])),
                Some(_) => return None,
            };
        }
        Some(run.map_or(0, |(step, _)| step))
    }

    /// Whether rows of `cols` elements lie apart from each other and inside `len` elements.
    fn fits(&self, cols: usize, len: usize) -> bool {
        let mut extent = cols;
        for i in (0..4).rev().filter(|&i| self.lens[i] > 1) {
            if self.strides[i] < extent {
                return false;
            }
            let reach = self.strides[i].checked_mul(self.lens[i] - 1);
            match reach.and_then(|r| r.checked_add(extent)) {
                Some(e) => extent = e,
                None => return false,
            }
        }
        self.base.checked_add(extent).is_some_and(|end| end <= len)
    }
}

/// A checked product, on its way to the kernels.
pub struct LinesCall<'a, T> {
    pub(super) isa: super::Isa,
    a: &'a dyn Lines<T>,
    b: Raw<T>,
    c: RawMut<T>,
    k: usize,
    n: usize,
    unit: usize,
    grid: Grid,
}

/// `c[row] = a[row] @ b` for all rows of `grid`. Blocks of k hold whole units of `unit` elements or lie inside
/// one, so that `a` is asked for nothing more ragged.
///
/// # Errors
/// [`GemmError::Overlap`] if rows of the result overlap or leave `c`; [`GemmError::Shape`] if `unit` does not
/// divide the rows of `b`.
pub fn gemm_lines<T: Element + Default>(
    a: &dyn Lines<T>,
    unit: usize,
    b: MatRef<'_, T>,
    c: &mut [T],
    grid: &Grid,
) -> Result<(), GemmError> {
    let (k, n, m) = (b.rows(), b.cols(), grid.rows());
    if m == 0 || n == 0 {
        return Ok(());
    }
    if !grid.fits(n, c.len()) {
        return Err(GemmError::Overlap { row_stride: grid.strides[3], cols: n });
    }
    if k == 0 {
        for row in 0..m {
            let at = grid.at(row);
            c[at..at + n].fill(T::default());
        }
        return Ok(());
    }
    if unit == 0 || !k.is_multiple_of(unit) {
        return Err(GemmError::Shape { a: (m, unit), b: (k, n), c: (m, n) });
    }
    let c = RawMut { ptr: c.as_mut_ptr(), rs: 0, cs: 1 };
    T::run_lines(LinesCall { isa: super::Isa::best(), a, b: b.raw(), c, k, n, unit, grid: *grid });
    Ok(())
}

type Packed<S> = <<S as Scheme>::V as Vector>::Packed;
type Acc<S> = <<S as Scheme>::V as Vector>::Acc;
type Elem<S> = <<S as Scheme>::V as Vector>::Elem;

/// Ranges of k that are packed together.
fn blocks(k: usize, unit: usize, depth: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    if unit <= depth {
        let (units, most) = (k / unit, depth / unit);
        let count = units.div_ceil(most);
        for i in 0..count {
            let (from, len) = part(units, count, i);
            ranges.push(from * unit..(from + len) * unit);
        }
    } else {
        let count = unit.div_ceil(depth);
        for u in 0..k / unit {
            for i in 0..count {
                let (from, len) = part(unit, count, i);
                ranges.push(u * unit + from..u * unit + from + len);
            }
        }
    }
    ranges
}

/// What all tasks of a product share.
struct Work<'a, S: Scheme> {
    call: &'a LinesCall<'a, S::Elem>,
    /// Packed strips, those of one block of k together.
    packed: Shared<Packed<S>>,
    ks: &'a [Range<usize>],
    /// Start of the strips of each block.
    starts: Vec<usize>,
    uniform: Option<usize>,
}

/// # Safety
/// The machine has the instructions of `S`.
pub(super) unsafe fn run<S: Scheme>(call: &LinesCall<'_, S::Elem>)
where
    S::Elem: Default,
{
    let &LinesCall { b, k, n, unit, grid, .. } = call;
    let m = grid.rows();
    let wide = WIDE * S::V::LANES;
    let strip = wide / S::SUMS;
    let mr = S::TABLE.len();
    let depth = S::STRIP_BYTES / (wide * size_of::<Packed<S>>()) * S::V::STEP / S::SUMS;
    let ks = blocks(k, unit, depth);
    let strips = n.div_ceil(strip);
    let mut starts = Vec::with_capacity(ks.len());
    let mut total = 0;
    for r in &ks {
        starts.push(total);
        total += S::steps(r.len()) * wide * strips;
    }
    let packed = Scratch::new::<Packed<S>>(total);
    let work =
        Work::<S> { call, packed: Shared::new(packed.ptr()), ks: &ks, starts, uniform: grid.uniform() };
    let parallel = pool::threads() > 1 && m.saturating_mul(n).saturating_mul(k) / S::SPEED >= PARALLEL_NS;
    let each = |count: usize, f: &(dyn Fn(usize) + Sync)| {
        if parallel { pool::parallel_for(count, f) } else { (0..count).for_each(f) }
    };
    each(ks.len() * strips, &|task| {
        let (block, s) = (task / strips, task % strips);
        let (r, col) = (&ks[block], s * strip);
        let cols = (n - col).min(strip);
        // SAFETY: these columns and steps of `b` exist; every strip has a place of its own.
        unsafe {
            S::pack_b(&Pack {
                src: b.at(r.start, col),
                line_stride: b.cs,
                k_stride: b.rs,
                lines: cols,
                width: (cols * S::SUMS).div_ceil(S::V::LANES) * S::V::LANES,
                k: r.len(),
                dst: work.strip(block, s),
            });
        }
    });
    let threads = if parallel { pool::threads() } else { 1 };
    let panels = m.div_ceil(mr);
    let deepest = ks.iter().map(|r| S::steps(r.len())).max().unwrap_or(0);
    let most = (GROUP_BYTES / (mr * deepest * size_of::<Packed<S>>()).max(1)).max(1);
    let group = if threads == 1 { most } else { most.min(panels.div_ceil(4 * threads)).max(1) };
    let groups = panels.div_ceil(group);
    // With few rows the columns are shared out too, and every part makes the rows again.
    let col_parts = if groups >= 2 * threads { 1 } else { (2 * threads).div_ceil(groups).min(strips) };
    each(groups * col_parts, &|task| {
        let (g, col_part) = (task / col_parts, task % col_parts);
        // SAFETY: the strips are packed; tasks differ in rows or columns.
        unsafe {
            work.group(g * group..((g + 1) * group).min(panels), panels, part(strips, col_parts, col_part))
        }
    });
}

impl<S: Scheme> Work<'_, S>
where
    S::Elem: Default,
{
    fn strip(&self, block: usize, s: usize) -> *mut Packed<S> {
        let len = S::steps(self.ks[block].len()) * WIDE * S::V::LANES;
        self.packed.get().wrapping_add(self.starts[block] + s * len)
    }

    /// Panels `mine` of `panels` times strips `cols.0..cols.0 + cols.1`.
    ///
    /// # Safety
    /// The machine has the instructions, the strips are packed, and no other task has this part of the result.
    unsafe fn group(&self, mine: Range<usize>, panels: usize, cols: (usize, usize)) {
        let LinesCall { a, n, .. } = self.call;
        let (m, mr) = (self.call.grid.rows(), S::TABLE.len());
        let wide = WIDE * S::V::LANES;
        let deepest = self.ks.iter().map(Range::len).max().unwrap_or(0);
        // An odd number of cache lines from row to row keeps rows out of each other's cache sets.
        let stride = deepest.next_multiple_of(64) + 16;
        let mut lines = vec![S::Elem::default(); mr * stride];
        let first_row = part(m, panels, mine.start).0;
        let last = part(m, panels, mine.end - 1);
        let rows = last.0 + last.1 - first_row;
        let steps_most = self.ks.iter().map(|r| S::steps(r.len())).max().unwrap_or(0);
        let packed = Scratch::new::<Packed<S>>(rows * steps_most + S::OVERRUN);
        let waits = !S::IN_PLACE && self.ks.len() > 1;
        let wait_stride = cols.1 * wide + 16;
        let waiting = waits.then(|| Scratch::new::<Acc<S>>(rows * wait_stride));
        for (block, r) in self.ks.iter().enumerate() {
            let steps = S::steps(r.len());
            for p in mine.clone() {
                let (row, height) = part(m, panels, p);
                a.fill(row, height, r.clone(), &mut lines, stride);
                // SAFETY: the lines are there, and the panel has a place of its own.
                unsafe {
                    S::pack_a(&Pack {
                        src: lines.as_ptr(),
                        line_stride: stride as isize,
                        k_stride: 1,
                        lines: height,
                        width: height,
                        k: r.len(),
                        dst: packed.ptr::<Packed<S>>().add((row - first_row) * steps),
                    });
                }
            }
            let per_pass = (GROUP_BYTES / (steps * wide * size_of::<Packed<S>>()).max(1)).max(1);
            // SAFETY: the caller's promise; panels and strips are packed.
            unsafe {
                S::enter();
                let mut from = cols.0;
                while from < cols.0 + cols.1 {
                    let to = (from + per_pass).min(cols.0 + cols.1);
                    for p in mine.clone() {
                        let (row, height) = part(m, panels, p);
                        for s in from..to {
                            let wait = waiting.as_ref().map(|w| {
                                let at = (row - first_row) * wait_stride + (s - cols.0) * wide;
                                (w.ptr::<Acc<S>>().wrapping_add(at), wait_stride)
                            });
                            let panel = packed.ptr::<Packed<S>>().add((row - first_row) * steps);
                            self.tile(panel, block, s, (row, height), *n, wait);
                        }
                    }
                    from = to;
                }
                S::leave();
            }
        }
    }

    /// One panel times one strip.
    ///
    /// # Safety
    /// As [`Work::group`].
    unsafe fn tile(
        &self,
        panel: *const Packed<S>,
        block: usize,
        s: usize,
        (row, height): (usize, usize),
        n: usize,
        waiting: Option<(*mut Acc<S>, usize)>,
    ) {
        let strip = WIDE * S::V::LANES / S::SUMS;
        let col = s * strip;
        let cols = (n - col).min(strip);
        let sums = cols * S::SUMS;
        let vectors = sums.div_ceil(S::V::LANES);
        let width = vectors * S::V::LANES;
        let (first, last) = (block == 0, block + 1 == self.ks.len());
        let base = self.call.c.ptr.cast::<Elem<S>>();
        let out = |row: usize| base.wrapping_add((self.call.grid.at(row) + col) * S::SUMS);
        let mut tile = std::mem::MaybeUninit::<[Acc<S>; 16 * 64]>::uninit();
        let direct = self.uniform.filter(|_| S::IN_PLACE);
        let (to, to_stride, add) = match (direct, waiting) {
            (Some(step), _) => (out(row).cast::<Acc<S>>(), step * S::SUMS, !first),
            (None, Some((at, stride))) => (at, stride, !first),
            (None, None) => (tile.as_mut_ptr().cast::<Acc<S>>(), width, false),
        };
        // SAFETY: panel and strip are packed, and the target has `height` rows of `sums`.
        unsafe {
            S::TABLE[height - 1][vectors - 1](&Tile {
                rows: height,
                k: S::steps(self.ks[block].len()),
                a: panel,
                b: self.strip(block, s),
                b_stride: width,
                c: to,
                c_stride: to_stride,
                cols: sums,
                add,
            });
            if direct.is_some() || (waiting.is_some() && !last) {
                return;
            }
            let beta = if waiting.is_some() || first { 0.0 } else { 1.0 };
            for i in 0..height {
                S::V::finish(&Finish {
                    src: to.add(i * to_stride),
                    dst: out(row + i),
                    stride: 1,
                    n: sums,
                    alpha: 1.0,
                    beta,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row `i` of this is `i + k`, and remembers nothing.
    struct Counting;
    impl Lines<f32> for Counting {
        fn fill(&self, row: usize, rows: usize, ks: Range<usize>, lines: &mut [f32], stride: usize) {
            for i in 0..rows {
                for (j, k) in ks.clone().enumerate() {
                    lines[i * stride + j] = ((row + i) % 7 + k % 5) as f32;
                }
            }
        }
    }

    #[test]
    fn rows_in_a_grid_that_is_no_matrix() {
        // Rows lie apart along every axis; what is between them stays.
        for (k, unit, n) in [(6, 3, 5), (2000, 4, 33), (3000, 1500, 2), (1, 1, 70)] {
            let b: Vec<f32> = (0..k * n).map(|i| (i % 3) as f32 - 1.0).collect();
            let grid = Grid { lens: [2, 3, 2, 5], strides: [900 * 5, 1000, 450, 2 * n.min(40)], base: 3 };
            let grid = if n > 40 { Grid { strides: [20_000, 5000, 2000, 150], ..grid } } else { grid };
            let mut c = vec![7.0; 50_000];
            gemm_lines(&Counting, unit, MatRef::row_major(&b, k, n).unwrap(), &mut c, &grid).unwrap();
            let mut written = vec![false; c.len()];
            for row in 0..grid.rows() {
                for j in 0..n {
                    let want: f32 = (0..k).map(|p| (row % 7 + p % 5) as f32 * b[p * n + j]).sum();
                    let at = grid.at(row) + j;
                    assert_eq!(c[at], want, "{k} {n} row {row} column {j}");
                    written[at] = true;
                }
            }
            assert!(c.iter().zip(&written).all(|(&v, &w)| w || v == 7.0));
        }
    }

    #[test]
    fn grids_that_overlap_or_leave_the_result_are_refused() {
        let b = [1.0f32; 4];
        let b = MatRef::row_major(&b, 1, 4).unwrap();
        let grid = |strides, base| Grid { lens: [1, 2, 1, 3], strides, base };
        let mut c = vec![0.0; 24];
        assert!(gemm_lines(&Counting, 1, b, &mut c, &grid([0, 12, 0, 4], 0)).is_ok());
        assert!(gemm_lines(&Counting, 1, b, &mut c, &grid([0, 12, 0, 3], 0)).is_err());
        assert!(gemm_lines(&Counting, 1, b, &mut c, &grid([0, 11, 0, 4], 0)).is_err());
        assert!(gemm_lines(&Counting, 1, b, &mut c, &grid([0, 12, 0, 4], 1)).is_err());
        assert!(gemm_lines(&Counting, 2, b, &mut c, &grid([0, 12, 0, 4], 0)).is_err());
    }
}
