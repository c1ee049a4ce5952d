//! The Walsh-Hadamard transform of rows.

use crate::pool;
use half::{bf16, f16};
use olivine_core::op::Hadamard;
use olivine_core::{Error, Result};

/// Element types of the transform, computed in `Wide`.
pub trait Number: Copy + Send + Sync + 'static {
    /// What is added up.
    type Wide: Copy + Default + std::ops::Add<Output = Self::Wide> + std::ops::Sub<Output = Self::Wide>;
    /// Exactly.
    fn widen(self) -> Self::Wide;
    /// Rounded, after a factor.
    fn narrow(x: Self::Wide, scale: f32) -> Self;
}

macro_rules! number {
    ($($t:ty, $wide:ty, $widen:expr, $narrow:expr);*) => { $(
        impl Number for $t {
            type Wide = $wide;
            fn widen(self) -> $wide {
                $widen(self)
            }
            fn narrow(x: $wide, scale: f32) -> $t {
                $narrow(x * <$wide>::from(scale))
            }
        }
    )* };
}
number!(f32, f32, |x| x, |x| x; f64, f64, |x| x, |x| x; f16, f32, f16::to_f32, f16::from_f32;
    bf16, f32, bf16::to_f32, bf16::from_f32);

/// Rows of a Hadamard matrix of order `m`, as bits that say where -1 is; 1, 12, 20 or 28.
///
/// By Paley's constructions ("On orthogonal matrices", 1933): the first for orders 12 and 20, from the squares
/// modulo 11 and 19; the second for 28, from those modulo 13.
fn matrix(m: usize) -> Vec<u32> {
    let square = |a: usize, q: usize| (1..q).any(|x| x * x % q == a);
    match m {
        12 | 20 => {
            let q = m - 1;
            // The identity plus a skew matrix that is bordered by ones and the character of the field.
            let minus = |i: usize, j: usize| match (i, j) {
                (i, j) if i == j => false,
                (0, _) => false,
                (_, 0) => true,
                (i, j) => !square((q + i - j) % q, q),
            };
            (0..m).map(|i| (0..m).filter(|&j| minus(i, j)).fold(0, |bits, j| bits | 1 << j)).collect()
        }
        28 => {
            let q = 13;
            let half = q + 1;
            // A symmetric conference matrix; its zeros become [[1, -1], [-1, -1]], its ones [[1, 1], [1, -1]].
            let conference = |i: usize, j: usize| match (i, j) {
                (i, j) if i == j => 0,
                (0, _) | (_, 0) => 1,
                (i, j) if square((q + i - j) % q, q) => 1,
                (_, _) => -1,
            };
            let minus = |r: usize, s: usize| {
                let (i, j) = (r / 2, s / 2);
                let zero = [[1, -1], [-1, -1]][r % 2][s % 2];
                let one = [[1, 1], [1, -1]][r % 2][s % 2];
                (if i == j { zero } else { conference(i, j) * one }) < 0
            };
            (0..2 * half)
                .map(|r| (0..2 * half).filter(|&s| minus(r, s)).fold(0, |bits, s| bits | 1 << s))
                .collect()
        }
        _ => vec![0],
    }
}

/// Transforms rows of `n` elements.
///
/// # Errors
/// `Value` when there is no transform of this size or the slices are no whole rows.
pub fn rows<T: Number>(x: &[T], n: usize, scale: f32, y: &mut [T]) -> Result<()> {
    let Some((m, power)) = Hadamard::split(n).filter(|_| x.len() == y.len() && x.len().is_multiple_of(n))
    else {
        let msg = format!("rows of {n} elements in {} into {}", x.len(), y.len());
        return Err(Error::value("hadamard_transform", msg));
    };
    let signs = matrix(m);
    let out = crate::raw::Ptr::new(y.as_mut_ptr().cast());
    let per_task = (1usize << 15).div_ceil(n);
    pool::parallel_for((x.len() / n).div_ceil(per_task), &|task| {
        let mut row = vec![T::Wide::default(); n];
        let from = task * per_task * n;
        for (r, source) in x[from..].chunks(n).take(per_task).enumerate() {
            for (w, &v) in row.iter_mut().zip(source) {
                *w = v.widen();
            }
            for part in row.chunks_mut(power) {
                let mut half = 1;
                while half < power {
                    for pair in part.chunks_mut(2 * half) {
                        let (a, b) = pair.split_at_mut(half);
                        for (p, q) in a.iter_mut().zip(b) {
                            (*p, *q) = (*p + *q, *p - *q);
                        }
                    }
                    half *= 2;
                }
            }
            if m > 1 {
                for j in 0..power {
                    let mut column = [T::Wide::default(); 28];
                    for (i, c) in column.iter_mut().enumerate().take(m) {
                        *c = row[i * power + j];
                    }
                    for (i, bits) in signs.iter().enumerate() {
                        let start = T::Wide::default();
                        row[i * power + j] = column[..m]
                            .iter()
                            .enumerate()
                            .fold(start, |sum, (c, &v)| if bits >> c & 1 == 1 { sum - v } else { sum + v });
                    }
                }
            }
            for (c, &v) in row.iter().enumerate() {
                // SAFETY: the row lies inside the output, which is as long as the input, and no other task has it.
                unsafe { out.get().cast::<T>().add(from + r * n + c).write(T::narrow(v, scale)) }
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_orthogonal() {
        for m in [1, 12, 20, 28] {
            let rows = matrix(m);
            assert_eq!(rows.len(), m);
            for (i, a) in rows.iter().enumerate() {
                for (j, b) in rows.iter().enumerate() {
                    let differ = (a ^ b).count_ones() as usize;
                    assert_eq!(differ, if i == j { 0 } else { m / 2 }, "order {m}, rows {i} and {j}");
                }
            }
        }
    }

    #[test]
    fn transforms_keep_length_and_orthogonality() {
        for n in [1usize, 2, 4, 8, 12, 20, 24, 28, 40, 56, 64, 112, 1024] {
            let x: Vec<f64> = (0..3 * n).map(|i| ((i * 37 + 5) % 23) as f64 - 11.0).collect();
            let mut y = vec![0.0; 3 * n];
            rows(&x, n, 1.0, &mut y).unwrap();
            for (a, b) in x.chunks(n).zip(y.chunks(n)) {
                let square = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>();
                assert_eq!(square(a) * n as f64, square(b), "{n}");
            }
        }
        assert!(rows(&[0.0f32; 6], 6, 1.0, &mut [0.0; 6]).is_err());
        assert!(rows(&[0.0f32; 6], 4, 1.0, &mut [0.0; 6]).is_err());
        let mut y = [f16::ZERO; 4];
        rows(&[1.0, 2.0, 3.0, 4.0].map(f16::from_f32), 4, 0.5, &mut y).unwrap();
        assert_eq!(y.map(f16::to_f32), [5.0, -1.0, -2.0, 0.0]);
    }
}
