//! The blocked product for matrices of any size and stride.
//!
//! The loops follow Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008),
//! turned by a quarter for row-major results: all rows of a block of `a` are packed first, in panels as high
//! as a tile. Then every task packs a few strips of `b`, as wide as a tile, into its second-level cache and
//! runs over the panels; a panel stays in the first-level cache while the strips pass by, so that the task
//! writes `c` row by row and not in columns of small tiles, which would touch a new page with every row.
//! Each element of `b` (the weights, usually much larger than `a`) is read from memory once per block of
//! rows.
//!
//! Rows are cut into panels of nearly equal height, not into full ones and a rest, because a short panel
//! takes nearly as long as a full one.

use super::kernel::engine::Engine;
use super::kernel::{Finish, Pack, Real, Tile, Vector, WIDE};
use super::mat::{Raw, RawMut};
use super::scheme::Scheme;
use super::scratch::{Scratch, Shared};
use crate::pool;

/// Bytes of the strips of `b` that a task keeps in its second-level cache (2 MiB on current cores, 1 on
/// older).
const GROUP_BYTES: usize = 512 << 10;
/// Rows of a block of `a`.
const BLOCK_ROWS: usize = 2048;
/// Columns per block where sums of narrower elements wait in working memory for the rest of k.
const WAITING_COLS: usize = 2048;
/// Nanoseconds of one core below which a second thread does not pay.
const PARALLEL_NS: usize = 6_000;
/// Nanoseconds of one task, at least.
const TASK_NS: usize = 10_000;

/// Sizes and factors of a product.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: f32,
    pub beta: f32,
}

/// Start and length of part `i` of `parts` nearly equal parts of `len`.
pub(super) fn part(len: usize, parts: usize, i: usize) -> (usize, usize) {
    let (each, rest) = (len / parts, len % parts);
    (each * i + i.min(rest), each + usize::from(i < rest))
}

/// `f(0), …, f(n - 1)`, on several threads if `parallel`.
pub(super) fn each(parallel: bool, n: usize, f: &(dyn Fn(usize) + Sync)) {
    if parallel { pool::parallel_for(n, f) } else { (0..n).for_each(f) }
}

type Packed<S> = <<S as Scheme>::V as Vector>::Packed;
type Acc<S> = <<S as Scheme>::V as Vector>::Acc;
type Elem<S> = <<S as Scheme>::V as Vector>::Elem;

/// One block of the product: rows, columns and a range of k.
struct Block<'a, S: Scheme> {
    /// Packed panels of `a`.
    panels: Shared<Packed<S>>,
    b: Raw<S::Elem>,
    /// `c` as elements of the vector type.
    c: RawMut<Elem<S>>,
    job: &'a Job,
    rows: (usize, usize),
    cols: (usize, usize),
    ks: (usize, usize),
    first: bool,
    last: bool,
    /// Sums of the block that wait for later k, with their row stride.
    waiting: Option<(Shared<Acc<S>>, usize)>,
}

/// `c = alpha * a @ b + beta * c`, with `m`, `n` and `k` at least one.
///
/// # Safety
/// The machine has the instructions of `S`; the matrices have the elements that `job` says, and no other
/// thread touches those of `c`.
pub(super) unsafe fn gemm<S: Scheme>(job: &Job, a: Raw<S::Elem>, b: Raw<S::Elem>, c: RawMut<S::Elem>) {
    let Job { m, n, k, .. } = *job;
    let mr = S::TABLE.len();
    let strip = WIDE * S::V::LANES / S::SUMS;
    let parallel = pool::threads() > 1 && m.saturating_mul(n).saturating_mul(k) / S::SPEED >= PARALLEL_NS;

    // Equal blocks of k, each of whole steps.
    let depth = S::STRIP_BYTES / (WIDE * S::V::LANES * size_of::<Packed<S>>()) * S::V::STEP / S::SUMS;
    let k_blocks = k.div_ceil(depth);
    let depth = k.div_ceil(k_blocks).next_multiple_of(S::V::STEP);
    let row_blocks = m.div_ceil(BLOCK_ROWS);
    let waits = !S::IN_PLACE && k > depth;
    let col_blocks = if waits { n.div_ceil(WAITING_COLS) } else { 1 };

    let most_rows = m.div_ceil(row_blocks);
    let panels = Scratch::new::<Packed<S>>(most_rows * S::steps(depth) + S::OVERRUN);
    // An odd number of cache lines from row to row keeps a tile's rows out of each other's cache sets.
    let waiting_stride = if waits { n.div_ceil(col_blocks).next_multiple_of(32) + 16 } else { 0 };
    let waiting = waits.then(|| Scratch::new::<Acc<S>>(most_rows * waiting_stride));

    for row_block in 0..row_blocks {
        let rows = part(m, row_blocks, row_block);
        for col_block in 0..col_blocks {
            let cols = part(n, col_blocks, col_block);
            for from in (0..k).step_by(depth) {
                let ks = (from, depth.min(k - from));
                let block = Block::<S> {
                    panels: Shared::new(panels.ptr()),
                    b,
                    c: RawMut { ptr: c.ptr.cast(), rs: c.rs * S::SUMS as isize, cs: c.cs },
                    job,
                    rows,
                    cols,
                    ks,
                    first: from == 0,
                    last: from + ks.1 == k,
                    waiting: waiting.as_ref().map(|w| (Shared::new(w.ptr()), waiting_stride)),
                };
                let count = rows.1.div_ceil(mr);
                let group = (1usize << 14).div_ceil(mr * ks.1);
                let groups = count.div_ceil(group);
                each(parallel && groups > 1, groups, &|g| {
                    for p in g * group..((g + 1) * group).min(count) {
                        let (row, height) = part(rows.1, count, p);
                        let src = a.at(rows.0 + row, ks.0);
                        // SAFETY: the panel's elements exist, and its place in the buffer is its own.
                        unsafe {
                            S::pack_a(&Pack {
                                src,
                                line_stride: a.rs,
                                k_stride: a.cs,
                                lines: height,
                                width: height,
                                k: ks.1,
                                dst: block.panels.get().add(row * S::steps(ks.1)),
                            })
                        }
                    }
                });

                let strips = cols.1.div_ceil(strip);
                let strip_work = rows.1 * strip * ks.1;
                let threads = if parallel { pool::threads() } else { 1 };
                // Without enough strips to go round, rows are shared out too; each part packs the strip
                // again, which its height has to pay for.
                let row_parts = (4 * threads).div_ceil(strips).min(rows.1 / 256).max(1).min(threads * 4);
                let row_parts = if threads == 1 || strips >= 4 * threads { 1 } else { row_parts };
                let strip_len = S::steps(ks.1) * WIDE * S::V::LANES;
                let most = (GROUP_BYTES / (strip_len * size_of::<Packed<S>>())).max(1);
                let least = (TASK_NS * S::SPEED / strip_work.max(1)).clamp(1, most);
                let group = if threads == 1 { most } else { (strips / (4 * threads)).clamp(least, most) };
                let group = group.min(strips.div_ceil(threads));
                let groups = strips.div_ceil(group);
                each(parallel, groups * row_parts, &|task| {
                    let packed = Scratch::new::<Packed<S>>(strip_len * group);
                    let (group_index, row_part) = (task / row_parts, task % row_parts);
                    let mine = group_index * group..((group_index + 1) * group).min(strips);
                    let at = |s: usize| packed.ptr::<Packed<S>>().wrapping_add((s - mine.start) * strip_len);
                    // SAFETY: the machine has the instructions; strips and panels exist and are packed before
                    // they are used; tasks write disjoint parts of `c`.
                    unsafe {
                        for s in mine.clone() {
                            block.pack_strip(at(s), s * strip);
                        }
                        S::enter();
                        let (p0, ps) = part(count, row_parts, row_part);
                        for p in p0..p0 + ps {
                            for s in mine.clone() {
                                block.tile(at(s), s * strip, p, count);
                            }
                        }
                        S::leave();
                    }
                });
            }
        }
    }
}

impl<S: Scheme> Block<'_, S> {
    /// Columns of the strip that starts at column `col` of the block, and its vectors.
    fn strip(&self, col: usize) -> (usize, usize) {
        let cols = (self.cols.1 - col).min(WIDE * S::V::LANES / S::SUMS);
        (cols, (cols * S::SUMS).div_ceil(S::V::LANES))
    }

    /// Packs the strip that starts at column `col` of the block.
    ///
    /// # Safety
    /// As [`gemm`]; `packed` has room for a strip.
    unsafe fn pack_strip(&self, packed: *mut Packed<S>, col: usize) {
        let (lines, vectors) = self.strip(col);
        // SAFETY: the strip's elements exist.
        unsafe {
            S::pack_b(&Pack {
                src: self.b.at(self.ks.0, self.cols.0 + col),
                line_stride: self.b.cs,
                k_stride: self.b.rs,
                lines,
                width: vectors * S::V::LANES,
                k: self.ks.1,
                dst: packed,
            });
        }
    }

    /// Panel `p` of `count`, times the packed strip of column `col`.
    ///
    /// # Safety
    /// As [`gemm`]; panel and strip are packed, and no other task has this part of `c`.
    unsafe fn tile(&self, packed: *const Packed<S>, col: usize, p: usize, count: usize) {
        let Job { alpha, beta, .. } = *self.job;
        let (cols, vectors) = self.strip(col);
        let (width, sums) = (vectors * S::V::LANES, cols * S::SUMS);
        let steps = S::steps(self.ks.1);
        let (row, height) = part(self.rows.1, count, p);
        let out = self.c.at(self.rows.0 + row, (self.cols.0 + col) * S::SUMS);
        // `c` takes the sums as they come if nothing is to be done to them.
        let direct =
            S::IN_PLACE && self.c.cs == 1 && alpha == 1.0 && (!self.first || beta == 0.0 || beta == 1.0);
        let mut tile = std::mem::MaybeUninit::<[Acc<S>; 16 * 64]>::uninit();
        let (to, to_stride, add) = if direct {
            (out.cast::<Acc<S>>(), self.c.rs as usize, !self.first || beta == 1.0)
        } else if let Some((waiting, stride)) = self.waiting {
            (waiting.get().wrapping_add(row * stride + col), stride, !self.first)
        } else {
            (tile.as_mut_ptr().cast::<Acc<S>>(), width, false)
        };
        // SAFETY: the panel and the strip are packed, and the target has `height` rows of `sums`.
        unsafe {
            S::TABLE[height - 1][vectors - 1](&Tile {
                rows: height,
                k: steps,
                a: self.panels.get().add(row * steps),
                b: packed,
                b_stride: width,
                c: to,
                c_stride: to_stride,
                cols: sums,
                add,
            });
            if direct || (self.waiting.is_some() && !self.last) {
                return;
            }
            // Later blocks of k add to what the first has scaled.
            let beta = if self.waiting.is_some() || self.first { beta } else { 1.0 };
            for i in 0..height {
                S::V::finish(&Finish {
                    src: to.add(i * to_stride),
                    dst: out.offset(i as isize * self.c.rs),
                    stride: self.c.cs,
                    n: sums,
                    alpha,
                    beta,
                });
            }
        }
    }
}

/// `c = beta * c`: the product over an empty k.
///
/// # Safety
/// As [`gemm`].
pub(super) unsafe fn scale<S: Scheme>(job: &Job, c: RawMut<S::Elem>) {
    let n = job.n * S::SUMS;
    let zeros = vec![Acc::<S>::ZERO; n];
    for i in 0..job.m {
        // SAFETY: row `i` of `c` has `n` sums.
        unsafe {
            S::V::finish(&Finish {
                src: zeros.as_ptr(),
                dst: c.at(i, 0).cast::<Elem<S>>(),
                stride: c.cs,
                n,
                alpha: 1.0,
                beta: job.beta,
            });
        }
    }
}
