//! What the tests of the kernels share: aligned bytes, odd layouts, and elements as numbers.

use super::operand::Operand;
use olivine_core::{Dtype, Layout, Scalar, Shape};

/// A fixed sequence of numbers that look random (xorshift).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }

    /// In 0..1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Bytes aligned to eight.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Bytes {
    words: Vec<u64>,
    len: usize,
}

impl Bytes {
    pub(crate) fn zeros(len: usize) -> Self {
        Bytes { words: vec![0; len.div_ceil(8)], len }
    }

    /// Elements of `dtype` nearest to `values`.
    pub(crate) fn of(dtype: Dtype, values: impl IntoIterator<Item = f64>) -> Self {
        let size = dtype.size();
        let raw: Vec<u8> = values
            .into_iter()
            .flat_map(|v| Scalar::from_f64(v, dtype).bytes().into_iter().take(size))
            .collect();
        let mut b = Bytes::zeros(raw.len());
        b.mut_slice().copy_from_slice(&raw);
        b
    }

    /// The bytes of `xs`.
    pub(crate) fn from<T: bytemuck::Pod>(xs: &[T]) -> Self {
        let raw: &[u8] = bytemuck::cast_slice(xs);
        let mut b = Bytes::zeros(raw.len());
        b.mut_slice().copy_from_slice(raw);
        b
    }

    pub(crate) fn slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    pub(crate) fn mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }

    pub(crate) fn typed<T: bytemuck::Pod>(&self) -> &[T] {
        bytemuck::cast_slice(self.slice())
    }

    /// Element `i` as a number.
    pub(crate) fn get(&self, dtype: Dtype, i: usize) -> f64 {
        let mut bits = [0u8; 8];
        let size = dtype.size();
        bits[..size].copy_from_slice(&self.slice()[i * size..(i + 1) * size]);
        Scalar::from_bits(u64::from_le_bytes(bits), dtype).to_f64()
    }

    pub(crate) fn operand<'a>(&'a self, layout: &'a Layout, dtype: Dtype) -> Operand<'a> {
        Operand { bytes: self.slice(), layout, dtype }
    }
}

/// Layouts of `shape` of many kinds, each with the number of elements of its buffer.
pub(crate) fn layouts(shape: &[usize], numbers: &mut Numbers) -> Vec<(Layout, usize)> {
    let shape = Shape::new(shape);
    let rank = shape.rank();
    let mut all = vec![(Layout::contiguous(shape.clone()), shape.elements())];
    for _ in 0..3 {
        // A larger array with its axes shuffled, of which every axis keeps some elements, maybe backwards.
        let mut perm: Vec<usize> = (0..rank).collect();
        for i in (1..rank).rev() {
            perm.swap(i, numbers.below(i + 1));
        }
        let step: Vec<isize> = (0..rank).map(|_| [1, 1, -1, 2, -2][numbers.below(5)]).collect();
        let whole: Vec<usize> =
            (0..rank).map(|i| shape[i] * step[i].unsigned_abs() + numbers.below(2)).collect();
        let start: Vec<usize> = (0..rank)
            .map(|i| if step[i] < 0 { (shape[i] * step[i].unsigned_abs()).saturating_sub(1) } else { 0 })
            .collect();
        let mut memory = vec![0; rank];
        for (i, &p) in perm.iter().enumerate() {
            memory[p] = whole[i];
        }
        let big = Layout::contiguous(Shape::new(&memory));
        let len = big.elements();
        all.push((big.transpose(&perm).slice(&start, &step, &shape), len));
    }
    if rank > 0 {
        let thin = shape.with(numbers.below(rank), 1);
        all.push((Layout::contiguous(thin.clone()).broadcast(&shape), thin.elements()));
        all.push((Layout::splat(shape), 1));
    }
    all
}

/// Place in the buffer of every element, in row-major order.
pub(crate) fn places(layout: &Layout) -> Vec<usize> {
    (0..layout.elements())
        .map(|mut i| {
            let mut at = layout.offset() as isize;
            for (&n, &s) in layout.shape().iter().zip(layout.strides()).rev() {
                at += (i % n) as isize * s;
                i /= n;
            }
            at as usize
        })
        .collect()
}

/// Coordinates of position `i` of a shape.
pub(crate) fn coordinates(shape: &[usize], mut i: usize) -> Vec<usize> {
    let mut c = vec![0; shape.len()];
    for (c, &n) in c.iter_mut().zip(shape).rev() {
        *c = i % n;
        i /= n;
    }
    c
}

/// Row-major position of coordinates.
pub(crate) fn position(shape: &[usize], c: &[usize]) -> usize {
    shape.iter().zip(c).fold(0, |at, (&n, &c)| at * n + c)
}

/// Equal, or both NaN.
pub(crate) fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}
