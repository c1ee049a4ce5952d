//! Sorting by digits of keys.

use crate::kernels::Shared;
use crate::pool::{parallel_for, threads};
use std::cell::Cell;

/// What is sorted: a key, maybe with the index of its element. The order of `Ord` is that of keys, then indices.
pub(super) trait Item: bytemuck::Pod + Ord + Send + Sync {
    /// Bits of the key from `shift` on, as many as `mask` has.
    fn digit(self, shift: u32, mask: usize) -> usize;
}

impl Item for u32 {
    #[inline(always)]
    fn digit(self, shift: u32, mask: usize) -> usize {
        (self >> shift) as usize & mask
    }
}

impl Item for u64 {
    #[inline(always)]
    fn digit(self, shift: u32, mask: usize) -> usize {
        (self >> shift) as usize & mask
    }
}

/// A key of 32 bits above an index of 32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(super) struct Packed(pub u64);

impl Item for Packed {
    #[inline(always)]
    fn digit(self, shift: u32, mask: usize) -> usize {
        (self.0 >> (32 + shift)) as usize & mask
    }
}

/// A key of 64 bits and an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct Pair {
    pub key: u64,
    pub index: u64,
}

impl Item for Pair {
    #[inline(always)]
    fn digit(self, shift: u32, mask: usize) -> usize {
        (self.key >> shift) as usize & mask
    }
}

/// Below this a comparison sort is faster.
const SMALL: usize = 1 << 10;
/// From this on digits are wider, for fewer passes.
pub(super) const WIDE: usize = 1 << 15;
/// From this on threads share the work.
pub(super) const SHARED: usize = 1 << 17;

pub(super) const MOST_DIGITS: usize = 1 << 11;

/// Two buffers for the items of a row, kept by the thread for the next row: memory fresh from the system costs more
/// than a pass over it.
pub(super) struct Scratch([Vec<u64>; 2]);

thread_local! {
    static SPARE: Cell<[Vec<u64>; 2]> = const { Cell::new([Vec::new(), Vec::new()]) };
}

/// Above this many words a thread does not keep its buffers.
const KEPT: usize = 1 << 21;

impl Scratch {
    /// Room for `bytes` bytes in each buffer.
    pub(super) fn take(bytes: usize) -> Self {
        let mut buffers = SPARE.take();
        for b in &mut buffers {
            // Whole items of every size, whichever use the buffers next.
            if b.len() * 8 < bytes {
                *b = vec![0; bytes.div_ceil(size_of::<Pair>()) * size_of::<Pair>() / 8];
            }
        }
        Scratch(buffers)
    }

    /// Both buffers as `n` items, for which there is room. What is in them is left from before.
    pub(super) fn items<I: Item>(&mut self, n: usize) -> (&mut [I], &mut [I]) {
        let [a, b] = &mut self.0;
        // Whole items only: what was kept from before may end within one.
        let words = (n * size_of::<I>()).div_ceil(8);
        (
            &mut bytemuck::cast_slice_mut(&mut a[..words])[..n],
            &mut bytemuck::cast_slice_mut(&mut b[..words])[..n],
        )
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.0[0].len() <= KEPT {
            SPARE.set(std::mem::take(&mut self.0));
        }
    }
}

/// Sorts items whose keys have `bits` bits; those of one key keep their order, or have indices in that order. Both
/// slices have one length, and the one that is returned has the result.
pub(super) fn sort<'a, I: Item>(
    mut items: &'a mut [I],
    mut spare: &'a mut [I],
    bits: u32,
    share: bool,
) -> &'a mut [I] {
    let n = items.len();
    if n < SMALL || n > u32::MAX as usize {
        // Items of one key that are not told apart by an index are the same.
        items.sort_unstable();
        return items;
    }
    let width = if n < WIDE { 8 } else { 11 };
    let parts = if share && n >= SHARED { threads().min(n / (SHARED / 4)) } else { 1 };
    let step = n.div_ceil(parts);
    let mut counts = vec![[0u32; MOST_DIGITS]; parts];
    let mut shift = 0;
    while shift < bits {
        let width = width.min(bits - shift);
        let (digits, mask) = (1usize << width, (1usize << width) - 1);
        let places = Shared(counts.as_mut_ptr());
        let src = &items[..];
        let part = |k: usize| &src[(k * step).min(n)..((k + 1) * step).min(n)];
        parallel_for(parts, &|k| {
            // SAFETY: each part has a histogram of its own.
            let count = unsafe { &mut *places.get().add(k) };
            count[..digits].fill(0);
            for &x in part(k) {
                count[x.digit(shift, mask)] += 1;
            }
        });
        // From counts to the first place of each digit in each part; parts of one digit follow each other.
        let mut next = 0u32;
        let mut alone = false;
        for d in 0..digits {
            let before = next;
            for count in counts.iter_mut() {
                let c = count[d];
                count[d] = next;
                next += c;
            }
            alone |= (next - before) as usize == n;
        }
        if !alone {
            let places = Shared(counts.as_mut_ptr());
            let dst = Shared(spare.as_mut_ptr());
            parallel_for(parts, &|k| {
                // SAFETY: as above.
                let count = unsafe { &mut *places.get().add(k) };
                for &x in part(k) {
                    let place = &mut count[x.digit(shift, mask)];
                    // SAFETY: the counts of all digits and parts add up to `n`, so that every item has a
                    // place of its own below it.
                    unsafe { *dst.get().add(*place as usize) = x };
                    *place += 1;
                }
            });
            std::mem::swap(&mut items, &mut spare);
        }
        shift += width;
    }
    items
}
