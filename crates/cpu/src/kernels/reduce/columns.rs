//! Reductions whose elements lie closest along an axis that stays: rows are added onto a block of columns.

use super::fold::Fold;
use super::rows::pairwise;
use super::{Job, Target};
use crate::kernels::Shared;
use crate::kernels::strided::{Axis, Walk, count, split_inner};
use crate::kernels::wide::{BLOCK, Wide};
use crate::lanes::{Kernel, Lanes};
use crate::pool::{parallel_for, parallel_ranges};
use std::ops::Range;

/// Elements that one partial result covers, about; fixed as in the rows.
const PART: usize = 1 << 17;

/// Rows after which the block is added up, for the sake of accuracy.
const FLUSH: usize = 128;

/// Columns that are summed side by side: long enough runs of each row for the prefetcher, accumulators that stay
/// in the first two levels of the cache.
const COLUMNS: usize = 2048;

/// Narrow dense columns are taken several rows at a time, up to this width.
const NARROW: usize = 64;

/// The reduction as the kernel sees it: `rows` steps along `reduced`, each a row of `width` elements `stride`
/// apart. When `group > 1`, a row holds `group` rows of the array and the last one may be cut short.
#[derive(Clone, Copy)]
struct Plan<'a> {
    outer: &'a [Axis<1>],
    reduced: &'a [Axis<1>],
    width: usize,
    stride: isize,
    rows: usize,
    group: usize,
    /// Width of the last row.
    last: usize,
    /// Blocks that a row is cut into.
    blocks: usize,
    rows_per_part: usize,
}

/// Blocks of columns, over the rows of one part.
struct Columns<'a, W: Wide, F: Fold<W>> {
    job: &'a Job<'a, W, F>,
    plan: Plan<'a>,
    /// Numbers of (outer position, block).
    items: Range<usize>,
    rows: Range<usize>,
    target: Target<F::Acc>,
}

impl<W: Wide, F: Fold<W>> Kernel for Columns<'_, W, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let (job, plan) = (self.job, self.plan);
        let mut bufs = [[W::default(); BLOCK]; 4];
        let (mut acc, mut total) = ([F::START; COLUMNS], [F::START; COLUMNS]);
        for item in self.items {
            let (o, b) = (item / plan.blocks, item % plan.blocks);
            let from = b * COLUMNS;
            let width = COLUMNS.min(plan.width - from);
            let base = Walk::new(plan.outer, [0], o).at[0] + from as isize * plan.stride;
            acc[..width].fill(F::START);
            total[..width].fill(F::START);
            let mut since = 0;
            let mut flush = |acc: &mut [F::Acc; COLUMNS]| {
                for (t, a) in total[..width].iter_mut().zip(&mut acc[..width]) {
                    *t = F::merge(*t, *a);
                    *a = F::START;
                }
            };
            let mut next = self.rows.start;
            // Rows at one distance four at a time: accumulators are read and written once for four elements.
            if let [only] = plan.reduced
                && plan.group == 1
            {
                while next + 4 <= self.rows.end {
                    for (b, acc) in acc[..width].chunks_mut(BLOCK).enumerate() {
                        let at = |k: usize| {
                            base + (next + k) as isize * only.strides[0] + (b * BLOCK) as isize * plan.stride
                        };
                        let n = acc.len();
                        let [b0, b1, b2, b3] = &mut bufs;
                        // SAFETY: positions of kept and reduced axes are elements of the operand.
                        let rows = unsafe {
                            [
                                job.load(at(0), plan.stride, n, b0),
                                job.load(at(1), plan.stride, n, b1),
                                job.load(at(2), plan.stride, n, b2),
                                job.load(at(3), plan.stride, n, b3),
                            ]
                        };
                        F::push_rows(s, acc, rows);
                    }
                    next += 4;
                    since += 4;
                    if since >= FLUSH {
                        since = 0;
                        flush(&mut acc);
                    }
                }
            }
            let mut walk = Walk::new(plan.reduced, [base], next);
            for row in next..self.rows.end {
                let n = if row + 1 == plan.rows { width.min(plan.last - from.min(plan.last)) } else { width };
                for (b, acc) in acc[..n].chunks_mut(BLOCK).enumerate() {
                    let at = walk.at[0] + (b * BLOCK) as isize * plan.stride;
                    // SAFETY: positions of kept and reduced axes are elements of the operand.
                    let xs = unsafe { job.load(at, plan.stride, acc.len(), &mut bufs[0]) };
                    F::push_each(s, acc, xs);
                }
                walk.step();
                since += 1;
                if since == FLUSH {
                    since = 0;
                    flush(&mut acc);
                }
            }
            flush(&mut acc);
            let columns = width / plan.group;
            for g in 1..plan.group {
                for c in 0..columns {
                    total[c] = F::merge(total[c], total[g * columns + c]);
                }
            }
            // SAFETY: each item writes columns of its own, or at most `COLUMNS` places of its part.
            unsafe {
                match self.target {
                    Target::Out => {
                        let first = o * (plan.width / plan.group) + from;
                        (job.store)(total.as_ptr(), columns, job.out.get().add(first * job.out_size), 1);
                    }
                    Target::Part(place) => std::ptr::copy_nonoverlapping(total.as_ptr(), place, columns),
                }
            }
        }
    }
}

/// Reduces `job`, which has at least one element and one reduced axis.
pub(super) fn run<W: Wide, F: Fold<W>>(job: &Job<'_, W, F>) {
    let (outer, inner) = split_inner(job.kept);
    let (columns, stride) = (inner.len, inner.strides[0]);
    let rows = count(job.reduced);
    let dense = stride == 1 && matches!(job.reduced, [a] if a.strides[0] == columns as isize);
    let group = if dense && columns <= NARROW { (BLOCK / columns).min(rows) } else { 1 };
    let grouped = [Axis { len: rows.div_ceil(group), strides: [(group * columns) as isize] }];
    let width = columns * group;
    let plan = Plan {
        outer,
        reduced: if group > 1 { &grouped } else { job.reduced },
        width,
        stride,
        rows: rows.div_ceil(group),
        group,
        last: ((rows - 1) % group + 1) * columns,
        blocks: width.div_ceil(COLUMNS),
        rows_per_part: (PART / width.min(COLUMNS)).next_multiple_of(FLUSH),
    };
    let items = count(outer) * plan.blocks;
    let parts = plan.rows.div_ceil(plan.rows_per_part);
    if parts == 1 {
        let each = plan.rows * width.min(COLUMNS);
        parallel_ranges(items, (PART / 4 / each).max(1), &|items| {
            W::launch(Columns { job, plan, items, rows: 0..plan.rows, target: Target::Out });
        });
        return;
    }
    let block = COLUMNS.min(columns);
    let mut partial = vec![F::START; items * parts * block];
    let p = Shared(partial.as_mut_ptr());
    parallel_for(items * parts, &|task| {
        let (item, k) = (task / parts, task % parts);
        // SAFETY: `task * block` is within `partial`.
        let target = Target::Part(unsafe { p.get().add(task * block) });
        let rows = k * plan.rows_per_part..((k + 1) * plan.rows_per_part).min(plan.rows);
        W::launch(Columns { job, plan, items: item..item + 1, rows, target });
    });
    let mut column = vec![F::START; parts];
    let results: Vec<F::Acc> = (0..count(outer) * columns)
        .map(|i| {
            let (row, c) = (i / columns, i % columns);
            let item = row * plan.blocks + c / COLUMNS;
            for (k, a) in column.iter_mut().enumerate() {
                *a = partial[(item * parts + k) * block + c % COLUMNS];
            }
            pairwise::<W, F>(&column)
        })
        .collect();
    // SAFETY: there are as many results as outputs.
    unsafe { (job.store)(results.as_ptr(), results.len(), job.out.get(), 1) };
}
