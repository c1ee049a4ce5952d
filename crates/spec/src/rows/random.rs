//! Random bits: Threefry-2x32 with 20 rounds (Salmon et al. 2011), one call for every pair of words.

use super::{Case, Row};
use crate::host::Host;
use olivine_core::op::Random;
use olivine_core::shape::Shape;
use olivine_core::{Dtype, Op};

pub(super) fn rows() -> Vec<Row> {
    vec![Row::new("bits", [Dtype::U32], |d, t| {
        let shape = d.shape(0, 3);
        let keys: Vec<usize> = (0..d.rng.below(3)).map(|_| 1 + d.rng.below(3)).chain([2]).collect();
        let width = d.rng.pick(&[1, 2, 4]);
        let key = d.fill(&keys, t, |d| (d.rng.bits() >> 32) as f64);
        Case::new(Op::Random(Random::Bits { shape: Shape::new(&shape), width }), vec![key])
    })]
}

/// The two words for a counter under a key.
fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], 0x1bd1_1bda ^ key[0] ^ key[1]];
    let mut x = [counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1])];
    for block in 0..5 {
        for r in ROTATIONS[block % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(r) ^ x[0];
        }
        x[0] = x[0].wrapping_add(keys[(block + 1) % 3]);
        x[1] = x[1].wrapping_add(keys[(block + 2) % 3]).wrapping_add(block as u32 + 1);
    }
    x
}

/// All bytes for one key. The words in order are split into two halves, an odd one in the middle apart:
/// counter `(i, half + i)` gives word `i` and word `half + i`, and the odd one is the first word of the
/// counter `(half, 0)`.
fn bytes(key: [u32; 2], n: usize) -> Vec<u8> {
    let words = n.div_ceil(4);
    let half = words / 2;
    let odd = words % 2;
    let mut out = vec![0u32; words];
    for i in 0..half {
        let [a, b] = threefry(key, [i as u32, (half + odd + i) as u32]);
        (out[i], out[half + odd + i]) = (a, b);
    }
    if odd == 1 {
        out[half] = threefry(key, [half as u32, 0])[0];
    }
    out.iter().flat_map(|w| w.to_le_bytes()).take(n).collect()
}

pub(super) fn reference(op: &Random, key: &Host) -> Host {
    let Random::Bits { shape, width } = op;
    let per_key = shape.elements() * *width as usize;
    let keys = key.to_int();
    let all: Vec<u8> =
        keys.chunks_exact(2).flat_map(|k| bytes([k[0] as u32, k[1] as u32], per_key)).collect();
    let dtype = match width {
        1 => Dtype::U8,
        2 => Dtype::U16,
        _ => Dtype::U32,
    };
    let lead = &key.shape[..key.shape.len() - 1];
    Host::from_bytes(dtype, &[lead, shape].concat(), &all)
}
