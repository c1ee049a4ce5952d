//! Random bits by Threefry-2x32 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), laid out
//! as MLX lays them out, so that a key gives the same numbers.
//!
//! The elements of one key are a run of 32-bit words, the last one cut short when the bytes do not divide by
//! four. Word `i` of the first half and word `i` of the second half are the two results of one counter; an odd
//! word in the middle takes the first result of a counter of its own.

use super::Shared;
use super::operand::Operand;
use super::strided::{Walk, collapse_shape, count};
use crate::lanes::{Kernel, Lanes, dispatch};
use crate::pool::parallel_ranges;
use olivine_core::{Dtype, Error, Result};
use std::ops::Range;

/// Counters that are hashed together: enough for the compiler to fill vectors, few enough for the cache.
const BATCH: usize = 128;

/// The rounds of Threefry-2x32-20 on counters `(a[i], b[i])`, in place.
#[inline(always)]
fn threefry(key: [u32; 2], a: &mut [u32; BATCH], b: &mut [u32; BATCH]) {
    let keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1bd1_1bda];
    for i in 0..BATCH {
        let (mut x, mut y) = (a[i].wrapping_add(keys[0]), b[i].wrapping_add(keys[1]));
        let mut group = 0;
        while group < 5 {
            let turns = if group % 2 == 0 { [13, 15, 26, 6] } else { [17, 29, 16, 24] };
            let mut j = 0;
            while j < 4 {
                x = x.wrapping_add(y);
                y = y.rotate_left(turns[j]) ^ x;
                j += 1;
            }
            x = x.wrapping_add(keys[(group + 1) % 3]);
            y = y.wrapping_add(keys[(group + 2) % 3]).wrapping_add(group as u32 + 1);
            group += 1;
        }
        (a[i], b[i]) = (x, y);
    }
}

/// Hashes counters `(i, second + i)` for `i` in `range` and writes the results of each to words `i` and
/// `second + i` of `out`, whose `len` bytes may end within the last word.
struct Fill {
    key: [u32; 2],
    second: usize,
    range: Range<usize>,
    out: *mut u8,
    len: usize,
}

impl Kernel for Fill {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, _s: S) {
        let mut start = self.range.start;
        while start < self.range.end {
            let n = BATCH.min(self.range.end - start);
            let (mut a, mut b) = ([0u32; BATCH], [0u32; BATCH]);
            for i in 0..BATCH {
                a[i] = (start + i) as u32;
                b[i] = (self.second + start + i) as u32;
            }
            threefry(self.key, &mut a, &mut b);
            for (words, first) in [(&a, start), (&b, self.second + start)] {
                let bytes = (4 * n).min(self.len - 4 * first);
                // SAFETY: `4 * first + bytes <= len`, the extent of `out`; ranges of different calls, and
                // the two halves, do not overlap.
                unsafe {
                    std::ptr::copy_nonoverlapping(words.as_ptr().cast(), self.out.add(4 * first), bytes);
                }
            }
            start += n;
        }
    }
}

/// Fills `out` with the bits of one key.
fn fill(key: [u32; 2], out: &mut [u8]) {
    let words = out.len().div_ceil(4);
    let (half, odd) = (words / 2, words % 2);
    let (p, len) = (Shared(out.as_mut_ptr()), out.len());
    parallel_ranges(half, 1 << 13, &|range| {
        dispatch(Fill { key, second: half + odd, range, out: p.get(), len });
    });
    if odd == 1 {
        let (mut a, mut b) = ([0u32; BATCH], [0u32; BATCH]);
        a[0] = half as u32;
        threefry(key, &mut a, &mut b);
        let middle = &mut out[4 * half..];
        let bytes = middle.len().min(4);
        middle[..bytes].copy_from_slice(&a[0].to_le_bytes()[..bytes]);
    }
}

/// Writes random bits: for each key of `keys`, `uint32[..., 2]`, as many elements of `width` bytes as the
/// output has room for when shared evenly.
///
/// # Errors
/// `Value` for a width other than 1, 2 or 4 or an output that the keys do not divide, `Shape` for anything that
/// is no key.
pub fn bits(width: u8, keys: &Operand<'_>, out: &mut [u8]) -> Result<()> {
    let shape = keys.layout.shape();
    if keys.dtype != Dtype::U32 || shape.last() != Some(&2) {
        let msg = format!("a key is uint32 of shape (..., 2), got {} of shape {shape}", keys.dtype);
        return Err(Error::shape("bits", msg));
    }
    if !matches!(width, 1 | 2 | 4) {
        return Err(Error::value("bits", format!("width must be 1, 2 or 4 bytes, got {width}")));
    }
    let x = keys.elements::<u32>("bits")?;
    let (lead, strides) = (shape.rank() - 1, keys.layout.strides());
    let axes = collapse_shape(&shape[..lead], [&strides[..lead]]);
    let n = count(&axes);
    let words = out.len();
    if n == 0 || !words.is_multiple_of(n * width as usize) {
        if words == 0 {
            return Ok(());
        }
        return Err(Error::value("bits", format!("{words} bytes of {width} for {n} keys")));
    }
    let each = words / n;
    if each == 0 {
        return Ok(());
    }
    let mut walk = Walk::new(&axes, [keys.layout.offset() as isize], 0);
    let mut parts = out.chunks_exact_mut(each);
    for part in &mut parts {
        let at = walk.at[0];
        fill([x[at as usize], x[(at + strides[lead]) as usize]], part);
        walk.step();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::Bytes;
    use olivine_core::{Layout, Shape};

    fn words(key: [u32; 2], bytes: usize, width: u8) -> Vec<u8> {
        let (layout, keys) = (Layout::contiguous(Shape::new(&[2])), Bytes::from(&key));
        let mut out = Bytes::zeros(bytes);
        bits(width, &keys.operand(&layout, Dtype::U32), out.mut_slice()).unwrap();
        out.slice().to_vec()
    }

    #[test]
    fn the_published_vectors_of_threefry_2x32_20() {
        // Known answers of Random123 1.09: counter, key, result.
        let cases = [
            ([0, 0], [0, 0], [0x6b20_0159, 0x99ba_4efe]),
            ([u32::MAX; 2], [u32::MAX; 2], [0x1cb9_96fc, 0xbb00_2be7]),
            ([0x243f_6a88, 0x85a3_08d3], [0x1319_8a2e, 0x0370_7344], [0xc492_3a9c, 0x483d_f7a0]),
        ];
        for (counter, key, want) in cases {
            let (mut a, mut b) = ([counter[0]; BATCH], [counter[1]; BATCH]);
            threefry(key, &mut a, &mut b);
            assert_eq!((a[0], b[BATCH - 1]), (want[0], want[1]));
        }
    }

    #[test]
    fn sizes_that_do_not_divide_cut_the_last_word_only() {
        for n in [1usize, 2, 3, 4, 5, 7, 8, 9, 1023, 1024, 1025, 70_001] {
            let whole = words([3, 4], n.next_multiple_of(4), 4);
            for width in [1, 2] {
                if n % width == 0 {
                    assert_eq!(words([3, 4], n, width as u8), whole[..n], "{n}");
                }
            }
        }
    }

    #[test]
    fn every_key_of_a_batch_has_its_own_numbers() {
        let keys: Vec<u32> = (0..12).collect();
        let bytes = Bytes::from(&keys);
        // Columns of a [2, 6] array, backwards.
        let layout = Layout::contiguous(Shape::new(&[2, 6])).transpose(&[1, 0]).slice(
            &[5, 0],
            &[-1, 1],
            &Shape::new(&[6, 2]),
        );
        let mut out = Bytes::zeros(6 * 7);
        bits(1, &bytes.operand(&layout, Dtype::U32), out.mut_slice()).unwrap();
        for (i, part) in out.slice().chunks(7).enumerate() {
            let c = 5 - i as u32;
            assert_eq!(part, words([c, c + 6], 7, 1));
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let (layout, three) = (Layout::contiguous(Shape::new(&[2])), Layout::contiguous(Shape::new(&[3])));
        let bytes = Bytes::zeros(12);
        let mut out = Bytes::zeros(8);
        let e = bits(4, &bytes.operand(&three, Dtype::U32), out.mut_slice());
        assert!(matches!(e, Err(Error::Shape { op: "bits", .. })));
        let e = bits(4, &bytes.operand(&layout, Dtype::I32), out.mut_slice());
        assert!(matches!(e, Err(Error::Shape { op: "bits", .. })));
        let e = bits(3, &bytes.operand(&layout, Dtype::U32), out.mut_slice());
        assert!(matches!(e, Err(Error::Value { op: "bits", .. })));
    }
}
