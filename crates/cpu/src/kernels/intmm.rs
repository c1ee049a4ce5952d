//! Products of matrices of integers, which wrap.

use super::Shared;
use crate::lanes::{Kernel, Lanes, dispatch};
use crate::pool::parallel_ranges;
use bytemuck::Pod;
use olivine_core::{Error, Result};
use std::ops::Range;

/// An unsigned integer; the bits of wrapping sums and products are those of the signed one too.
pub trait Word: Pod + Send + Sync {
    /// Zero.
    const ZERO: Self;
    /// `self + a * b`.
    fn add_product(self, a: Self, b: Self) -> Self;
}

macro_rules! word {
    ($($t:ty),*) => { $(
        impl Word for $t {
            const ZERO: $t = 0;
            #[inline(always)]
            fn add_product(self, a: $t, b: $t) -> $t {
                self.wrapping_add(a.wrapping_mul(b))
            }
        }
    )* };
}
word!(u8, u16, u32, u64);

/// Sizes of `[m, k] @ [k, n]`, and the strides of rows and columns.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Rows of the product.
    pub m: usize,
    /// Inner size.
    pub k: usize,
    /// Columns of the product.
    pub n: usize,
    /// Strides of the left matrix.
    pub a: (isize, isize),
    /// Strides of the right matrix.
    pub b: (isize, isize),
}

/// Products for every pair of first elements in `batch`, one after the other in `out`.
///
/// # Errors
/// `Value` when a matrix leaves its slice or the output has another size.
pub fn multiply<T: Word>(s: &Shape, a: &[T], b: &[T], batch: &[(usize, usize)], out: &mut [T]) -> Result<()> {
    let inside = |len: usize, first: usize, sizes: [usize; 2], strides: (isize, isize)| {
        let (mut low, mut high) = (first as i128, first as i128);
        for (size, stride) in sizes.into_iter().zip([strides.0, strides.1]) {
            let reach = (size as i128 - 1) * stride as i128;
            if reach < 0 { low += reach } else { high += reach }
        }
        sizes.contains(&0) || (low >= 0 && high < len as i128)
    };
    for &(x, y) in batch {
        if !inside(a.len(), x, [s.m, s.k], s.a) || !inside(b.len(), y, [s.k, s.n], s.b) {
            return Err(Error::value("matmul", format!("{s:?} leaves its operands at {x} and {y}")));
        }
    }
    if out.len() != batch.len() * s.m * s.n {
        return Err(Error::value("matmul", format!("{} elements for the result of {s:?}", out.len())));
    }
    if out.is_empty() {
        return Ok(());
    }
    // The right matrix with rows one after the other, so that registers run along them.
    let mut dense = Vec::new();
    for (i, &(x, y)) in batch.iter().enumerate() {
        let b: &[T] = if s.b.1 == 1 || s.n == 1 {
            b
        } else {
            dense.clear();
            for row in 0..s.k as isize {
                let at = |col: isize| b[(y as isize + row * s.b.0 + col * s.b.1) as usize];
                dense.extend((0..s.n as isize).map(at));
            }
            &dense
        };
        let (first, stride) = if dense.is_empty() { (y, s.b.0) } else { (0, s.n as isize) };
        let to = Shared(out[i * s.m * s.n..(i + 1) * s.m * s.n].as_mut_ptr());
        let grain = (1usize << 16).div_ceil(s.k.saturating_mul(s.n).max(1));
        parallel_ranges(s.m, grain, &|rows| {
            dispatch(Rows { s, a, x, b, first, stride, rows, out: to.get() });
        });
    }
    Ok(())
}

struct Rows<'a, T> {
    s: &'a Shape,
    a: &'a [T],
    x: usize,
    b: &'a [T],
    first: usize,
    stride: isize,
    rows: Range<usize>,
    out: *mut T,
}

impl<T: Word> Kernel for Rows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, _s: S) {
        let n = self.s.n;
        for row in self.rows {
            // SAFETY: the output has `m` rows of `n` elements, and each row belongs to one task.
            let out = unsafe { std::slice::from_raw_parts_mut(self.out.add(row * n), n) };
            out.fill(T::ZERO);
            let left = self.x as isize + row as isize * self.s.a.0;
            for k in 0..self.s.k as isize {
                let a = self.a[(left + k * self.s.a.1) as usize];
                let from = (self.first as isize + k * self.stride) as usize;
                for (y, &b) in out.iter_mut().zip(&self.b[from..from + n]) {
                    *y = y.add_product(a, b);
                }
            }
        }
    }
}
