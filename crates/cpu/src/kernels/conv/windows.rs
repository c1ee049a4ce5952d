//! Which elements of the input a result meets.

use super::Sizes;
use crate::gemm::Lines;
use std::ops::Range;

/// One weight along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tap {
    /// Which.
    pub weight: usize,
    /// The element of the input that it meets for the first result; may lie outside.
    pub place: i64,
}

/// Results along one axis that meet the same weights: `first`, `first + apart`, …
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Phase {
    pub first: usize,
    pub apart: usize,
    pub count: usize,
    /// Elements of the input from one of these results to the next.
    pub step: i64,
    pub taps: Vec<Tap>,
}

impl Phase {
    /// Of an axis that does not exist.
    pub fn whole() -> Phase {
        Phase { first: 0, apart: 1, count: 1, step: 1, taps: vec![Tap { weight: 0, place: 0 }] }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The phases of an axis of `out` results.
pub(super) fn phases(
    out: usize,
    kernel: usize,
    stride: usize,
    before: i64,
    kernel_dilation: usize,
    input_dilation: usize,
    flip: bool,
) -> Vec<Phase> {
    let common = gcd(input_dilation, stride);
    // Phases beyond the last result have none.
    let apart = (input_dilation / common).min(out);
    let mut phases = Vec::new();
    for first in 0..apart {
        let mut taps = Vec::new();
        for t in 0..kernel {
            // Within the bounds that the rule of the operation keeps.
            let at = (first * stride) as i64 - before + (t * kernel_dilation) as i64;
            if at.rem_euclid(input_dilation as i64) == 0 {
                let weight = if flip { kernel - 1 - t } else { t };
                taps.push(Tap { weight, place: at.div_euclid(input_dilation as i64) });
            }
        }
        phases.push(Phase {
            first,
            apart,
            count: (out - first).div_ceil(apart),
            step: (stride / common) as i64,
            taps,
        });
    }
    phases
}

/// Neighbouring taps of a window whose elements follow one another in the input.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Places along the axes, of the first tap.
    at: [i64; 3],
    /// The first tap of the window, and how many.
    first: usize,
    taps: usize,
}

/// The windows of one group of channels as the rows of a matrix: taps in row-major order, channels inside.
pub(super) struct Windows<'a, T> {
    x: &'a [T],
    input: [usize; 3],
    counts: [usize; 3],
    steps: [i64; 3],
    /// Channels of the input, of the group, and the group's first.
    channels: usize,
    own: usize,
    channel: usize,
    runs: Vec<Run>,
}

impl<'a, T: Copy + Default> Windows<'a, T> {
    pub fn new(sizes: &Sizes, phases: [&Phase; 3], x: &'a [T], channel: usize) -> Self {
        let own = sizes.channels / sizes.groups;
        let mut runs: Vec<Run> = Vec::new();
        let mut first = 0;
        for t0 in &phases[0].taps {
            for t1 in &phases[1].taps {
                for (i, t2) in phases[2].taps.iter().enumerate() {
                    match runs.last_mut() {
                        // All channels of neighbours are one piece of memory.
                        Some(run)
                            if i > 0 && sizes.groups == 1 && run.at[2] + run.taps as i64 == t2.place =>
                        {
                            run.taps += 1;
                        }
                        Some(_) | None => {
                            runs.push(Run { at: [t0.place, t1.place, t2.place], first, taps: 1 })
                        }
                    }
                    first += 1;
                }
            }
        }
        Windows {
            x,
            input: sizes.input,
            counts: phases.map(|p| p.count),
            steps: phases.map(|p| p.step),
            channels: sizes.channels,
            own,
            channel,
            runs,
        }
    }

    /// Elements `ks` of the window of result `at` of image `image`.
    fn window(&self, image: usize, at: [usize; 3], ks: &Range<usize>, line: &mut [T]) {
        let own = self.own;
        let start: [i64; 3] = std::array::from_fn(|d| at[d] as i64 * self.steps[d]);
        // Runs before the range are skipped by a search: windows may have many.
        let skip = self.runs.partition_point(|r| (r.first + r.taps) * own <= ks.start);
        for run in &self.runs[skip..] {
            let begin = run.first * own;
            if begin >= ks.end {
                break;
            }
            let (from, to) = (ks.start.max(begin), ks.end.min(begin + run.taps * own));
            let piece = &mut line[from - ks.start..to - ks.start];
            let place: [i64; 3] = std::array::from_fn(|d| start[d] + run.at[d]);
            let inside = |d: usize| (0..self.input[d] as i64).contains(&place[d]);
            if !inside(0) || !inside(1) {
                piece.fill(T::default());
                continue;
            }
            let row = (image * self.input[0] + place[0] as usize) * self.input[1] + place[1] as usize;
            let row = row * self.input[2];
            if run.taps == 1 {
                if inside(2) {
                    let at = (row + place[2] as usize) * self.channels + self.channel + (from - begin);
                    piece.copy_from_slice(&self.x[at..at + piece.len()]);
                } else {
                    piece.fill(T::default());
                }
                continue;
            }
            // A run of several taps has all channels: element `e` of the line of the input, counted from the
            // first tap's place.
            let n = (self.input[2] * own) as i64;
            let base = place[2] * own as i64;
            let (lo, hi) = (base + (from - begin) as i64, base + (to - begin) as i64);
            let (l, h) = (lo.clamp(0, n), hi.clamp(0, n));
            let (zeros, rest) = piece.split_at_mut((l - lo).clamp(0, hi - lo) as usize);
            let (middle, after) = rest.split_at_mut((h - l) as usize);
            zeros.fill(T::default());
            after.fill(T::default());
            if !middle.is_empty() {
                let at = row * own + l as usize;
                middle.copy_from_slice(&self.x[at..at + middle.len()]);
            }
        }
    }
}

impl<T: Copy + Default + Sync> Lines<T> for Windows<'_, T> {
    fn fill(&self, row: usize, rows: usize, ks: Range<usize>, lines: &mut [T], stride: usize) {
        let [c0, c1, c2] = self.counts;
        let mut at = [row / (c2 * c1) % c0, row / c2 % c1, row % c2];
        let mut image = row / (c2 * c1 * c0);
        for line in lines.chunks_mut(stride).take(rows) {
            self.window(image, at, &ks, &mut line[..ks.len()]);
            at[2] += 1;
            if at[2] == c2 {
                at = [at[0], at[1] + 1, 0];
                if at[1] == c1 {
                    at = [at[0] + 1, 0, 0];
                    if at[0] == c0 {
                        at = [0; 3];
                        image += 1;
                    }
                }
            }
        }
    }
}
