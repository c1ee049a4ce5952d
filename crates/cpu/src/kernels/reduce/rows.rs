//! Reductions whose elements lie closest along a reduced axis.

use super::fold::Fold;
use super::{Job, Target};
use crate::kernels::Shared;
use crate::kernels::strided::{Axis, Walk, count, split_inner};
use crate::kernels::wide::{BLOCK, Wide};
use crate::lanes::{Kernel, Lanes};
use crate::pool::{parallel_for, parallel_ranges};
use std::ops::Range;

/// Elements that one partial result covers. Fixed, so that a result depends on the shape only and not on the
/// number of threads.
const PART: usize = 1 << 16;

/// Accumulators that take turns along a run, to hide the latency of an addition and fill vectors.
pub(super) const TURNS: usize = 32;

/// Blocks after which the turns are added up, so that no accumulator takes in many small elements one by one.
const FLUSH: usize = 8;

/// Runs shorter than this are folded into one accumulator.
const SHORT: usize = 16;

/// Folds positions `part` of the reduced axes for each output of `outputs`.
struct Rows<'a, W: Wide, F: Fold<W>> {
    job: &'a Job<'a, W, F>,
    outputs: Range<usize>,
    part: Range<usize>,
    target: Target<F::Acc>,
}

impl<W: Wide, F: Fold<W>> Kernel for Rows<'_, W, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let job = self.job;
        let (outer, inner) = split_inner(job.reduced);
        let stride = inner.strides[0];
        let mut buf = [W::default(); BLOCK];
        let mut kept = Walk::new(job.kept, [0], self.outputs.start);
        for o in self.outputs {
            let part = self.part.clone();
            let acc = if outer.is_empty() && part.len() < SHORT {
                let mut acc = F::START;
                // SAFETY: positions of kept and reduced axes are elements of the operand.
                for &x in unsafe {
                    job.load(kept.at[0] + part.start as isize * stride, stride, part.len(), &mut buf)
                } {
                    acc = F::push(acc, x);
                }
                acc
            } else {
                fold_part(s, job, kept.at[0], outer, inner, part, &mut buf)
            };
            // SAFETY: each output belongs to one task; `run` checks their number.
            unsafe {
                match self.target {
                    Target::Out => (job.store)(&acc, 1, job.out.get().add(o * job.out_size), 1),
                    Target::Part(place) => *place = acc,
                }
            }
            kept.step();
        }
    }
}

/// Adds neighbouring accumulators up as a tree.
#[inline(always)]
fn tree<W: Wide, F: Fold<W>>(acc: &[F::Acc; TURNS]) -> F::Acc {
    let mut a = *acc;
    let mut half = TURNS / 2;
    while half > 0 {
        for i in 0..half {
            a[i] = F::merge(a[i], a[i + half]);
        }
        half /= 2;
    }
    a[0]
}

/// Folds positions `part` of the axes `outer` and `inner` from `base`, all of them elements of the operand.
#[inline(always)]
fn fold_part<S: Lanes, W: Wide, F: Fold<W>>(
    s: S,
    job: &Job<'_, W, F>,
    base: isize,
    outer: &[Axis<1>],
    inner: Axis<1>,
    part: Range<usize>,
    buf: &mut [W; BLOCK],
) -> F::Acc {
    let stride = inner.strides[0];
    let mut walk = Walk::new(outer, [base], part.start / inner.len);
    let (mut at, mut within) = (part.start, part.start % inner.len);
    let (mut acc, mut total) = ([F::START; TURNS], [F::START; TURNS]);
    let mut blocks = 0;
    while at < part.end {
        let run = (inner.len - within).min(part.end - at);
        let mut done = 0;
        while done < run {
            let n = BLOCK.min(run - done);
            // SAFETY: a run of the reduced axes.
            let xs = unsafe { job.load(walk.at[0] + (within + done) as isize * stride, stride, n, buf) };
            let (turns, rest) = xs.split_at(n / TURNS * TURNS);
            F::push_turns(s, &mut acc, turns);
            for (a, &x) in acc.iter_mut().zip(rest) {
                *a = F::push(*a, x);
            }
            done += n;
            blocks += 1;
            if blocks == FLUSH {
                blocks = 0;
                for i in 0..TURNS {
                    total[i] = F::merge(total[i], acc[i]);
                    acc[i] = F::START;
                }
                if total.iter().any(|&t| F::settled(t)) {
                    return tree::<W, F>(&total);
                }
            }
        }
        at += run;
        within = 0;
        walk.step();
    }
    for i in 0..TURNS {
        total[i] = F::merge(total[i], acc[i]);
    }
    tree::<W, F>(&total)
}

/// Merges partial results as a balanced tree.
pub(super) fn pairwise<W: Wide, F: Fold<W>>(parts: &[F::Acc]) -> F::Acc {
    match parts {
        [] => F::START,
        [a] => *a,
        _ => {
            let (a, b) = parts.split_at(parts.len() / 2);
            F::merge(pairwise::<W, F>(a), pairwise::<W, F>(b))
        }
    }
}

/// Reduces `job`, which has at least one element.
pub(super) fn run<W: Wide, F: Fold<W>>(job: &Job<'_, W, F>) {
    let (n, len) = (count(job.kept), count(job.reduced));
    let parts = len.div_ceil(PART);
    if parts == 1 {
        parallel_ranges(n, (PART / 2 / len).max(1), &|outputs| {
            W::launch(Rows { job, outputs, part: 0..len, target: Target::Out });
        });
        return;
    }
    let mut partial = vec![F::START; n * parts];
    let p = Shared(partial.as_mut_ptr());
    parallel_for(n * parts, &|task| {
        let (o, k) = (task / parts, task % parts);
        // SAFETY: `task` is below the length of `partial`.
        let target = Target::Part(unsafe { p.get().add(task) });
        let part = k * PART..((k + 1) * PART).min(len);
        W::launch(Rows { job, outputs: o..o + 1, part, target });
    });
    let results: Vec<F::Acc> = partial.chunks_exact(parts).map(pairwise::<W, F>).collect();
    // SAFETY: there are `n` results and outputs.
    unsafe { (job.store)(results.as_ptr(), n, job.out.get(), 1) };
}
