//! Selecting by digits of keys: what belongs before and behind a rank is told apart by the highest digit and moved
//! once; only the elements that share the digit of the rank are looked at further.

use super::keys::Keyed;
use super::radix::{Item, MOST_DIGITS, SHARED, WIDE};
use crate::kernels::Shared;
use crate::pool::{parallel_for, threads};
use std::ops::Range;

/// Bits of a digit.
const WIDTH: u32 = MOST_DIGITS.trailing_zeros();
/// Elements that are told apart in buffers on the stack before they move.
const BLOCK: usize = 512;

/// A row of elements, some number of places apart.
#[derive(Clone, Copy)]
pub(super) struct Row<'a, T> {
    pub xs: &'a [T],
    pub first: isize,
    pub stride: isize,
    pub len: usize,
    pub descending: bool,
}

impl<T: Keyed> Row<'_, T> {
    /// Element `j`.
    #[inline(always)]
    pub(super) fn at(&self, j: usize) -> T {
        self.xs[(self.first + j as isize * self.stride) as usize]
    }

    /// Calls `f` with the place of a block and its elements, for all blocks of `range`.
    #[inline(always)]
    fn blocks(&self, range: Range<usize>, mut f: impl FnMut(usize, &[T])) {
        let mut apart = [T::element(0); BLOCK];
        for start in range.clone().step_by(BLOCK) {
            let n = BLOCK.min(range.end - start);
            if self.stride == 1 {
                let at = self.first as usize + start;
                f(start, &self.xs[at..at + n]);
            } else {
                for (k, x) in apart[..n].iter_mut().enumerate() {
                    *x = self.at(start + k);
                }
                f(start, &apart[..n]);
            }
        }
    }
}

/// What a selection moves: elements, or their indices.
pub(super) trait Move<T>: Sync {
    /// What is written.
    type Out: Copy + Send + Sync;
    /// What is looked at further when the highest digit does not decide.
    type Item: Item;
    /// Of an element, its key, and its place in the row.
    fn out(x: T, place: usize) -> Self::Out;
    /// Likewise.
    fn item(key: u64, place: usize) -> Self::Item;
    /// Of an item.
    fn of_item(item: Self::Item, descending: bool) -> Self::Out;
}

/// A span of the result.
#[derive(Clone, Copy)]
struct Spans {
    below: usize,
    middle: usize,
    above: usize,
}

/// Gives every place of a row to `put`, which takes a place and what belongs there: at `kth` the element of that rank,
/// before it none above and behind it none below. Both buffers hold as many items as the row is long. Returns the
/// places whose elements were made from keys.
pub(super) fn select_row<T: Keyed, M: Move<T>>(
    row: Row<'_, T>,
    kth: usize,
    share: bool,
    (items, spare): (&mut [M::Item], &mut [M::Item]),
    put: &(impl Fn(usize, M::Out) + Sync),
) -> Range<usize> {
    let n = row.len;
    let shift = T::BITS.saturating_sub(WIDTH);
    let digit_of = |key: u64| (key >> shift) as usize & (MOST_DIGITS - 1);
    let parts = if share && n >= SHARED { threads().min(n / (SHARED / 4)) } else { 1 };
    let step = n.div_ceil(parts);
    let part = |k: usize| (k * step).min(n)..((k + 1) * step).min(n);
    let mut counts = vec![[0u32; MOST_DIGITS]; parts];
    let places = Shared(counts.as_mut_ptr());
    parallel_for(parts, &|k| {
        // SAFETY: each part has counts of its own.
        let count = unsafe { &mut *places.get().add(k) };
        // Two tables take turns: equal digits in sequence wait for each other.
        let mut other = [0u32; MOST_DIGITS];
        row.blocks(part(k), |_, xs| {
            let pairs = xs.chunks_exact(2);
            if let [x] = pairs.remainder() {
                count[digit_of(x.key_in(row.descending))] += 1;
            }
            for pair in pairs {
                count[digit_of(pair[0].key_in(row.descending))] += 1;
                other[digit_of(pair[1].key_in(row.descending))] += 1;
            }
        });
        for (c, o) in count.iter_mut().zip(other) {
            *c += o;
        }
    });
    let total = |d: usize| counts.iter().map(|c| c[d] as usize).sum::<usize>();
    let (mut digit, mut below) = (0, 0);
    while below + total(digit) <= kth {
        below += total(digit);
        digit += 1;
    }
    let middle = total(digit);
    let mut next = Spans { below: 0, middle: 0, above: below + middle };
    let mut starts = Vec::with_capacity(parts);
    for (k, count) in counts.iter().enumerate() {
        starts.push(next);
        let (lower, same) =
            (count[..digit].iter().map(|&c| c as usize).sum::<usize>(), count[digit] as usize);
        next.below += lower;
        next.middle += same;
        next.above += part(k).len() - lower - same;
    }
    let middle_items = Shared(items.as_mut_ptr());
    parallel_for(parts, &|k| {
        let mut to = starts[k];
        // What does not count is written behind the last that does, and overwritten.
        let blank = M::out(T::element(0), 0);
        let (mut low, mut high, mut same) = ([blank; BLOCK], [blank; BLOCK], [M::item(0, 0); BLOCK]);
        row.blocks(part(k), |start, xs| {
            let (mut l, mut s, mut h) = (0, 0, 0);
            for (j, &x) in xs[..xs.len().min(BLOCK)].iter().enumerate() {
                let key = x.key_in(row.descending);
                let d = digit_of(key);
                // No branch: which class an element has is not to be foreseen. Each count is at most `j`.
                let out = M::out(x, start + j);
                (low[l & (BLOCK - 1)], high[h & (BLOCK - 1)]) = (out, out);
                same[s & (BLOCK - 1)] = M::item(key, start + j);
                l += (d < digit) as usize;
                s += (d == digit) as usize;
                h += (d > digit) as usize;
            }
            for (j, &out) in low[..l].iter().enumerate() {
                put(to.below + j, out);
            }
            for (j, &out) in high[..h].iter().enumerate() {
                put(to.above + j, out);
            }
            for (j, &item) in same[..s].iter().enumerate() {
                // SAFETY: the counts of the parts add up to the items of the middle, of which there are no more than
                // elements of the row; each has a place of its own.
                unsafe { *middle_items.get().add(to.middle + j) = item };
            }
            to.below += l;
            to.middle += s;
            to.above += h;
        });
    });
    let chosen = select(&mut items[..middle], &mut spare[..middle], shift, kth - below);
    for (j, &item) in chosen.iter().enumerate() {
        put(below + j, M::of_item(item, row.descending));
    }
    below..below + middle
}

/// Puts the item of rank `kth` at that place, with none above it before and none below it after; only the lowest `bits`
/// bits of keys differ. Both slices have one length, and the one that is returned has the result.
pub(super) fn select<'a, I: Item>(
    items: &'a mut [I],
    spare: &'a mut [I],
    bits: u32,
    kth: usize,
) -> &'a mut [I] {
    let n = items.len();
    if n < WIDE || bits == 0 {
        items.select_nth_unstable(kth);
        return items;
    }
    let shift = bits.saturating_sub(WIDTH);
    let mask = (1usize << (bits - shift)) - 1;
    let mut counts = [0usize; MOST_DIGITS];
    for &x in items.iter() {
        counts[x.digit(shift, mask)] += 1;
    }
    let (mut digit, mut below) = (0, 0);
    while below + counts[digit] <= kth {
        below += counts[digit];
        digit += 1;
    }
    let middle = below + counts[digit];
    let mut next = [0, below, middle];
    for &x in items.iter() {
        let d = x.digit(shift, mask);
        let class = (d >= digit) as usize + (d > digit) as usize;
        spare[next[class]] = x;
        next[class] += 1;
    }
    let there = spare[below..].as_ptr();
    let chosen = select(&mut spare[below..middle], &mut items[below..middle], shift, kth - below).as_ptr();
    if chosen != there {
        spare[below..middle].copy_from_slice(&items[below..middle]);
    }
    spare
}
