//! Products with few rows, and of vectors: `b` is read once, as it lies, at the speed of memory.
//!
//! Where the columns of `b` are contiguous (weights `[n, k]`, transposed), every result is a dot product of
//! two contiguous vectors. Where its rows are contiguous, multiples of them are added up. For a `b` with
//! neither, the blocked product packs.

use super::blocked::{Job, each, part};
use super::kernel::Finish;
use super::kernel::engine::Engine;
use super::kernel::few::{DOT_COLS, DOT_DEPTH, DOT_ROWS, Dot, Line, Rows, line_len};
use super::mat::{Raw, RawMut};
use super::scratch::{Scratch, Shared};
use crate::pool;

/// Bytes of `b` that a second thread pays for,
const PARALLEL_BYTES: usize = 64 << 10;
/// and bytes per task.
const TASK_BYTES: usize = 64 << 10;
/// Bytes of sums that one task of the row form keeps at hand.
const SUM_BYTES: usize = 32 << 10;

/// Whether [`gemm`] takes a `b` with these strides.
pub(super) fn takes<T>(b: &Raw<T>) -> bool {
    b.rs == 1 || b.cs == 1
}

/// `c = alpha * a @ b + beta * c` for a few rows; `m`, `n` and `k` are at least one and [`takes`] is true.
///
/// # Safety
/// As [`super::blocked::gemm`].
pub(super) unsafe fn gemm<V: Engine>(job: &Job, a: Raw<V::Elem>, b: Raw<V::Elem>, c: RawMut<V::Elem>) {
    let Job { m, n, k, .. } = *job;
    let a_stride = line_len::<V>(k);
    let packed = Scratch::new::<V::Packed>(m * a_stride);
    for i in 0..m {
        // SAFETY: row `i` of `a` exists, and so does its place.
        unsafe {
            V::pack_line(&Line {
                src: a.at(i, 0),
                stride: a.cs,
                k,
                dst: packed.ptr::<V::Packed>().add(i * a_stride),
            });
        }
    }
    let bytes = n.saturating_mul(k).saturating_mul(size_of::<V::Elem>());
    let threads = if bytes < PARALLEL_BYTES { 1 } else { pool::threads() };
    let shared = Shared::new(packed.ptr::<V::Packed>());
    // SAFETY: the caller's promise; the rows are packed.
    unsafe {
        if b.rs == 1 {
            dots::<V>(job, shared, a_stride, b, c, threads);
        } else {
            rows::<V>(job, shared, a_stride, b, c, threads);
        }
    }
}

unsafe fn dots<V: Engine>(
    job: &Job,
    a: Shared<V::Packed>,
    a_stride: usize,
    b: Raw<V::Elem>,
    c: RawMut<V::Elem>,
    threads: usize,
) {
    let Job { m, n, k, alpha, beta } = *job;
    let blocks = n.div_ceil(DOT_COLS);
    let block_bytes = DOT_COLS * k * size_of::<V::Elem>() * m.div_ceil(2);
    let run =
        if threads == 1 { blocks } else { (TASK_BYTES / block_bytes).clamp(1, blocks.div_ceil(4 * threads)) };
    let groups = m.div_ceil(DOT_ROWS);
    each(threads > 1, blocks.div_ceil(run), &|task| {
        let sums = Scratch::new::<V::Acc>(m * DOT_COLS * V::LANES);
        let sums = sums.ptr::<V::Acc>();
        for block in task * run..((task + 1) * run).min(blocks) {
            let col = block * DOT_COLS;
            let cols = (n - col).min(DOT_COLS);
            for from in (0..k).step_by(DOT_DEPTH) {
                for group in 0..groups {
                    let (row, rows) = part(m, groups, group);
                    // SAFETY: these rows, columns and steps exist.
                    unsafe {
                        V::dot(&Dot {
                            rows,
                            cols,
                            k: (k - from).min(DOT_DEPTH),
                            a: a.get().add(row * a_stride + from / V::STEP),
                            a_stride,
                            b: b.at(from, col),
                            b_stride: b.cs,
                            sums: sums.add(row * DOT_COLS * V::LANES),
                            first: from == 0,
                        });
                    }
                }
            }
            // SAFETY: no other task has these columns.
            unsafe {
                V::reduce_groups(sums, m * DOT_COLS);
                for r in 0..m {
                    let src = sums.add(r * DOT_COLS);
                    V::finish(&Finish { src, dst: c.at(r, col), stride: c.cs, n: cols, alpha, beta });
                }
            }
        }
    });
}

unsafe fn rows<V: Engine>(
    job: &Job,
    a: Shared<V::Packed>,
    a_stride: usize,
    b: Raw<V::Elem>,
    c: RawMut<V::Elem>,
    threads: usize,
) {
    let Job { m, n, k, alpha, beta } = *job;
    let widest = (SUM_BYTES / (m * size_of::<V::Acc>())).max(V::LANES);
    let parts = n.div_ceil(widest).max(if threads == 1 { 1 } else { threads }).min(n.div_ceil(V::LANES));
    let width = n.div_ceil(parts).next_multiple_of(V::LANES);
    each(threads > 1, n.div_ceil(width), &|task| {
        let col = task * width;
        let cols = (n - col).min(width);
        let sums = Scratch::new::<V::Acc>(m * width);
        // SAFETY: these columns exist, and no other task has them.
        unsafe {
            V::rows(&Rows {
                rows: m,
                cols,
                k,
                a: a.get(),
                a_stride,
                b: b.at(0, col),
                b_stride: b.rs,
                out: sums.ptr(),
                out_stride: width,
            });
            for i in 0..m {
                let src = sums.ptr::<V::Acc>().add(i * width);
                V::finish(&Finish { src, dst: c.at(i, col), stride: c.cs, n: cols, alpha, beta });
            }
        }
    });
}
