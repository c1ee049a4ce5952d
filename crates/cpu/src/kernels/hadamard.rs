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

/// Rows of a Hadamard matrix of order `m`, as bits that say where -1 is; 1, 12, 20 or 28. There are several of each
/// order; these are the ones that MLX has. Those of orders 20 and 28 are Williamson's ("Hadamard's determinant theorem
/// and the sum of four squares", 1944): four by four blocks, each of which turns by one place from row to row.
fn matrix(m: usize) -> Vec<u32> {
    match m {
        12 => vec![0x002, 0xaab, 0x3c8, 0x96e, 0xf20, 0x5ba, 0xc8c, 0x6e6, 0x23c, 0xb96, 0x8f0, 0xe5a],
        20 => turning(
            5,
            [
                ["+----", "+----", "++--+", "+-++-"],
                ["-++++", "+----", "-+--+", "++--+"],
                ["--++-", "+-++-", "+----", "-++++"],
                ["-+--+", "--++-", "+----", "+----"],
            ],
        ),
        28 => turning(
            7,
            [
                ["+------", "++----+", "+-+--+-", "+--++--"],
                ["--++++-", "+------", "-++--++", "+-+--+-"],
                ["-+-++-+", "+--++--", "+------", "--++++-"],
                ["-++--++", "-+-++-+", "++----+", "+------"],
            ],
        ),
        _ => vec![0],
    }
}

/// The matrix of blocks of order `q` with these first rows.
fn turning(q: usize, blocks: [[&str; 4]; 4]) -> Vec<u32> {
    let minus = |i: usize, j: usize| blocks[i / q][j / q].as_bytes()[(j % q + q - i % q) % q] == b'-';
    (0..4 * q).map(|i| (0..4 * q).filter(|&j| minus(i, j)).fold(0, |bits, j| bits | 1 << j)).collect()
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

    /// Row 13 of order 20 and row 1 of order 28 as `mlx.core.hadamard_transform` of the identity gives them.
    #[test]
    fn matrices_are_those_of_mlx() {
        assert_eq!(matrix(20)[13], 0x45e9c);
        assert_eq!(matrix(28)[1], 0x9ad7c7d);
        let mut y = [0.0f32; 12];
        rows(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0], 12, 1.0, &mut y).unwrap();
        assert_eq!(y, [64.0, -6.0, 0.0, -6.0, -20.0, -10.0, 0.0, -14.0, 20.0, -18.0, 0.0, -22.0]);
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
