//! Sums of `f32` in `f64`, spelt out for each instruction set: left to itself the compiler converts one element
//! at a time.

use super::rows::TURNS;
use crate::lanes::Lanes;
use crate::simd::Level;

/// Adds `xs[i], xs[i + TURNS], …` to `acc[i]`, in this order at every level. `xs` has whole turns.
#[inline(always)]
pub(super) fn add_turns<S: Lanes>(s: S, acc: &mut [f64; TURNS], xs: &[f32]) {
    debug_assert!(xs.len().is_multiple_of(TURNS));
    match s.level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `s` proves the instructions.
        Level::Avx512 | Level::Avx512Bf16 => unsafe { x86::turns_avx512(acc, xs) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86::turns_avx2(acc, xs) },
        _ => {
            for turn in xs.chunks_exact(TURNS) {
                for (a, &x) in acc.iter_mut().zip(turn) {
                    *a += x as f64;
                }
            }
        }
    }
}

/// Adds `xs[i]` to `acc[i]`.
#[inline(always)]
pub(super) fn add_each<S: Lanes>(s: S, acc: &mut [f64], xs: &[f32]) {
    match s.level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `s` proves the instructions.
        Level::Avx512 | Level::Avx512Bf16 => unsafe { x86::each_avx512(acc, xs) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86::each_avx2(acc, xs) },
        _ => {
            for (a, &x) in acc.iter_mut().zip(xs) {
                *a += x as f64;
            }
        }
    }
}

macro_rules! rows {
    ($(#[$doc:meta])* $name:ident, $wide:ident, $narrow:ident, $op:tt) => {
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name<S: Lanes>(s: S, acc: &mut [f64], rows: [&[f32]; 4]) {
            let n = acc.len();
            let rows = rows.map(|row| &row[..n]);
            match s.level() {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `s` proves the instructions.
                Level::Avx512 | Level::Avx512Bf16 => unsafe { x86::$wide(acc, rows) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Level::Avx2 => unsafe { x86::$narrow(acc, rows) },
                _ => {
                    for (i, a) in acc.iter_mut().enumerate() {
                        for row in rows {
                            *a $op row[i] as f64;
                        }
                    }
                }
            }
        }
    };
}
rows!(
    /// Adds element `i` of each row to `acc[i]`, in the order of the rows.
    add_rows, add_rows_avx512, add_rows_avx2, +=
);
rows!(
    /// Multiplies `acc[i]` by element `i` of each row, in the order of the rows.
    multiply_rows, multiply_rows_avx512, multiply_rows_avx2, *=
);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::TURNS;
    use std::arch::x86_64::*;

    macro_rules! rows {
        ($name:ident, $feature:literal, $n:literal, $load:ident, $store:ident, $widen:ident, $narrow:ident,
            $f:ident, $op:tt) => {
            #[target_feature(enable = $feature)]
            pub(super) fn $name(acc: &mut [f64], rows: [&[f32]; 4]) {
                let n = acc.len();
                let mut i = 0;
                while i + $n <= n {
                    // SAFETY: `i + $n` is at most the length of the accumulators; rows are sliced to it.
                    unsafe {
                        let mut sum = $load(acc.as_ptr().add(i));
                        for row in rows {
                            sum = $f(sum, $widen($narrow(row[i..i + $n].as_ptr())));
                        }
                        $store(acc.as_mut_ptr().add(i), sum);
                    }
                    i += $n;
                }
                for (j, a) in acc.iter_mut().enumerate().skip(i) {
                    for row in rows {
                        *a $op row[j] as f64;
                    }
                }
            }
        };
    }
    rows!(add_rows_avx512, "avx512f", 8, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_cvtps_pd, _mm256_loadu_ps,
        _mm512_add_pd, +=);
    rows!(multiply_rows_avx512, "avx512f", 8, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_cvtps_pd, _mm256_loadu_ps,
        _mm512_mul_pd, *=);
    rows!(add_rows_avx2, "avx2", 4, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_cvtps_pd, _mm_loadu_ps,
        _mm256_add_pd, +=);
    rows!(multiply_rows_avx2, "avx2", 4, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_cvtps_pd, _mm_loadu_ps,
        _mm256_mul_pd, *=);

    #[target_feature(enable = "avx512f")]
    pub(super) fn each_avx512(acc: &mut [f64], xs: &[f32]) {
        let (mut sums, mut blocks) = (acc.chunks_exact_mut(8), xs.chunks_exact(8));
        for (a, x) in (&mut sums).zip(&mut blocks) {
            // SAFETY: eight elements each.
            unsafe {
                let sum =
                    _mm512_add_pd(_mm512_loadu_pd(a.as_ptr()), _mm512_cvtps_pd(_mm256_loadu_ps(x.as_ptr())));
                _mm512_storeu_pd(a.as_mut_ptr(), sum);
            }
        }
        for (a, &x) in sums.into_remainder().iter_mut().zip(blocks.remainder()) {
            *a += x as f64;
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn each_avx2(acc: &mut [f64], xs: &[f32]) {
        let (mut sums, mut blocks) = (acc.chunks_exact_mut(4), xs.chunks_exact(4));
        for (a, x) in (&mut sums).zip(&mut blocks) {
            // SAFETY: four elements each.
            unsafe {
                let sum =
                    _mm256_add_pd(_mm256_loadu_pd(a.as_ptr()), _mm256_cvtps_pd(_mm_loadu_ps(x.as_ptr())));
                _mm256_storeu_pd(a.as_mut_ptr(), sum);
            }
        }
        for (a, &x) in sums.into_remainder().iter_mut().zip(blocks.remainder()) {
            *a += x as f64;
        }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn turns_avx512(acc: &mut [f64; TURNS], xs: &[f32]) {
        const N: usize = TURNS / 8;
        let mut sums = [_mm512_setzero_pd(); N];
        // SAFETY: `N` registers of eight are the accumulators, and `N` times eight floats a turn.
        unsafe {
            for (k, s) in sums.iter_mut().enumerate() {
                *s = _mm512_loadu_pd(acc.as_ptr().add(8 * k));
            }
            for turn in xs.chunks_exact(TURNS) {
                for (k, s) in sums.iter_mut().enumerate() {
                    *s = _mm512_add_pd(*s, _mm512_cvtps_pd(_mm256_loadu_ps(turn.as_ptr().add(8 * k))));
                }
            }
            for (k, s) in sums.iter().enumerate() {
                _mm512_storeu_pd(acc.as_mut_ptr().add(8 * k), *s);
            }
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn turns_avx2(acc: &mut [f64; TURNS], xs: &[f32]) {
        const N: usize = TURNS / 4;
        let mut sums = [_mm256_setzero_pd(); N];
        // SAFETY: `N` registers of four are the accumulators, and `N` times four floats a turn.
        unsafe {
            for (k, s) in sums.iter_mut().enumerate() {
                *s = _mm256_loadu_pd(acc.as_ptr().add(4 * k));
            }
            for turn in xs.chunks_exact(TURNS) {
                for (k, s) in sums.iter_mut().enumerate() {
                    *s = _mm256_add_pd(*s, _mm256_cvtps_pd(_mm_loadu_ps(turn.as_ptr().add(4 * k))));
                }
            }
            for (k, s) in sums.iter().enumerate() {
                _mm256_storeu_pd(acc.as_mut_ptr().add(4 * k), *s);
            }
        }
    }
}
