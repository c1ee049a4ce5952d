//! The register-tiled product that attention and the quantized matrix products are made of.

use crate::lanes::{Kernel, Lanes};
use crate::simd::Level;

/// C (+)= A B with A `[rows, k]`, B `[k, cols]` and C `[rows, cols]`, all `f32` with unit stride along
/// their second axis. `cols` is a multiple of the lanes of the level.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub rows: usize,
    pub cols: usize,
    pub k: usize,
    pub a: *const f32,
    /// Floats between rows of A.
    pub lda: usize,
    pub b: *const f32,
    /// Floats between rows of B.
    pub ldb: usize,
    pub c: *mut f32,
    /// Floats between rows of C.
    pub ldc: usize,
    /// Adds to C instead of overwriting it.
    pub accumulate: bool,
}

/// Columns that one register tile covers at most: four registers of AVX-512.
pub(super) const TILE_COLS: usize = 64;

/// Floats that a whole number of registers needs for `n`, at any level.
pub(super) fn padded(n: usize) -> usize {
    n.next_multiple_of(crate::lanes::MAX_LANES)
}

/// A tile of `MR` rows and `NV` registers: `MR * NV` sums stay in registers over all of `k`.
struct Tile<const MR: usize, const NV: usize>(Product);

impl<const MR: usize, const NV: usize> Kernel for Tile<MR, NV> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let p = self.0;
        let mut acc = [[s.splat(0.0); NV]; MR];
        // SAFETY: `multiply` has the caller's promise for `rows x cols` tiles, of which this is a part of
        // `MR` rows and `NV * N` columns.
        unsafe {
            if p.accumulate {
                for (i, row) in acc.iter_mut().enumerate() {
                    for (j, v) in row.iter_mut().enumerate() {
                        *v = s.load(p.c.add(i * p.ldc + j * S::N));
                    }
                }
            }
            let mut b = p.b;
            for kk in 0..p.k {
                let mut bv = [s.splat(0.0); NV];
                for (j, v) in bv.iter_mut().enumerate() {
                    *v = s.load(b.add(j * S::N));
                }
                for (i, row) in acc.iter_mut().enumerate() {
                    let av = s.splat(*p.a.add(i * p.lda + kk));
                    for (j, v) in row.iter_mut().enumerate() {
                        *v = s.mul_acc(av, bv[j], *v);
                    }
                }
                b = b.add(p.ldb);
            }
            for (i, row) in acc.iter().enumerate() {
                for (j, &v) in row.iter().enumerate() {
                    s.store(p.c.add(i * p.ldc + j * S::N), v);
                }
            }
        }
    }
}

/// Calls `Tile<MR, NV>` for the constants that equal `mr` and `nv`.
macro_rules! tiles {
    ($s:ident, $p:ident, $mr:ident, $nv:ident; $($n:literal: $($m:literal)+;)+) => {
        match ($nv, $mr) {
            $($(($n, $m) => $s.call(Tile::<$m, $n>($p)),)+)+
            (nv, mr) => unreachable!("no tile of {mr} rows and {nv} registers"),
        }
    };
}

/// Rows and registers of the largest tile that keeps the sums in registers, for `nv` registers of columns left.
#[inline(always)]
fn shape(level: Level, nv: usize) -> (usize, usize) {
    match level {
        Level::Avx512 | Level::Avx512Bf16 => match nv {
            1 => (12, 1),
            2 => (12, 2),
            3 => (8, 3),
            _ => (6, 4),
        },
        Level::Avx2 => match nv {
            1 => (8, 1),
            _ => (6, 2),
        },
        Level::Portable => (4, 1),
    }
}

/// Computes the product.
///
/// # Safety
/// A and B are readable and C is writable over the extents that the fields name, C does not overlap A or B,
/// and `cols` is a multiple of `S::N`.
#[inline(always)]
pub(super) unsafe fn multiply<S: Lanes>(s: S, p: Product) {
    debug_assert_eq!(p.cols % S::N, 0);
    let mut col = 0;
    while col < p.cols {
        let (most, nv) = shape(s.level(), (p.cols - col) / S::N);
        let mut row = 0;
        while row < p.rows {
            let mr = most.min(p.rows - row);
            // SAFETY: offsets stay inside the extents that the caller promises.
            let q = unsafe {
                Product { a: p.a.add(row * p.lda), b: p.b.add(col), c: p.c.add(row * p.ldc + col), ..p }
            };
            match s.level() {
                Level::Avx512 | Level::Avx512Bf16 => tiles!(s, q, mr, nv;
                    1: 1 2 3 4 5 6 7 8 9 10 11 12;
                    2: 1 2 3 4 5 6 7 8 9 10 11 12;
                    3: 1 2 3 4 5 6 7 8;
                    4: 1 2 3 4 5 6;),
                Level::Avx2 => tiles!(s, q, mr, nv; 1: 1 2 3 4 5 6 7 8; 2: 1 2 3 4 5 6;),
                Level::Portable => tiles!(s, q, mr, nv; 1: 1 2 3 4;),
            }
            row += mr;
        }
        col += nv * S::N;
    }
}

/// Writes the transpose of `rows` rows of `cols` floats: `dst[c * ld_dst + r] = src[r * ld_src + c]`.
///
/// # Safety
/// `src` is readable and `dst` writable over those extents, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn transpose<S: Lanes>(
    s: S,
    rows: usize,
    cols: usize,
    src: *const f32,
    ld_src: usize,
    dst: *mut f32,
    ld_dst: usize,
) {
    let mut r = 0;
    #[cfg(target_arch = "x86_64")]
    if s.level() >= Level::Avx512 {
        while r + 16 <= rows {
            let mut c = 0;
            while c + 16 <= cols {
                // SAFETY: a whole 16 x 16 block of the extents, and the level has the instructions.
                unsafe { transpose16(src.add(r * ld_src + c), ld_src, dst.add(c * ld_dst + r), ld_dst) };
                c += 16;
            }
            for c in c..cols {
                for i in r..r + 16 {
                    // SAFETY: inside the extents.
                    unsafe { *dst.add(c * ld_dst + i) = *src.add(i * ld_src + c) };
                }
            }
            r += 16;
        }
    }
    // Blocks keep the lines that the strided side touches in the first-level cache.
    while r < rows {
        let end = (r + 16).min(rows);
        for c in 0..cols {
            for i in r..end {
                // SAFETY: inside the extents.
                unsafe { *dst.add(c * ld_dst + i) = *src.add(i * ld_src + c) };
            }
        }
        r = end;
    }
}

/// One 16 x 16 block of [`transpose`].
///
/// # Safety
/// 16 rows of 16 floats are readable at `src` and writable at `dst` with those strides.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
unsafe fn transpose16(src: *const f32, ld_src: usize, dst: *mut f32, ld_dst: usize) {
    use std::arch::x86_64::*;
    let mut t = [_mm512_setzero_ps(); 16];
    for (i, v) in t.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *v = unsafe { _mm512_loadu_ps(src.add(i * ld_src)) };
    }
    // Pairs, quads, then 128-bit lanes twice.
    let mut u = [_mm512_setzero_ps(); 16];
    for i in 0..8 {
        u[2 * i] = _mm512_unpacklo_ps(t[2 * i], t[2 * i + 1]);
        u[2 * i + 1] = _mm512_unpackhi_ps(t[2 * i], t[2 * i + 1]);
    }
    for i in 0..4 {
        let [a, b, c, d] = [4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3].map(|j| _mm512_castps_pd(u[j]));
        t[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        t[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        t[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        t[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    for j in 0..4 {
        let lo0 = _mm512_shuffle_f32x4::<0x88>(t[j], t[4 + j]);
        let hi0 = _mm512_shuffle_f32x4::<0xdd>(t[j], t[4 + j]);
        let lo1 = _mm512_shuffle_f32x4::<0x88>(t[8 + j], t[12 + j]);
        let hi1 = _mm512_shuffle_f32x4::<0xdd>(t[8 + j], t[12 + j]);
        u[j] = _mm512_shuffle_f32x4::<0x88>(lo0, lo1);
        u[4 + j] = _mm512_shuffle_f32x4::<0x88>(hi0, hi1);
        u[8 + j] = _mm512_shuffle_f32x4::<0xdd>(lo0, lo1);
        u[12 + j] = _mm512_shuffle_f32x4::<0xdd>(hi0, hi1);
    }
    for (i, v) in u.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_ps(dst.add(i * ld_dst), *v) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::dispatch_at;

    const LEVELS: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

    struct Multiply(Product);
    impl Kernel for Multiply {
        type Output = ();
        #[inline(always)]
        fn run<S: Lanes>(self, s: S) {
            // SAFETY: the test passes whole arrays.
            unsafe { multiply(s, self.0) }
        }
    }

    #[test]
    fn product_of_every_tile_shape() {
        let num = |i: usize| ((i * 7 + 3) % 17) as f32 - 8.0;
        for at in LEVELS {
            for rows in 1..=26 {
                for cols in [16, 32, 48, 64, 80, 144] {
                    for k in [0, 1, 5, 33] {
                        let a: Vec<f32> = (0..rows * (k + 1)).map(num).collect();
                        let b: Vec<f32> = (0..k.max(1) * (cols + 3)).map(|i| num(i + 5)).collect();
                        let mut c: Vec<f32> = (0..rows * (cols + 1)).map(|i| num(i + 2)).collect();
                        let before = c.clone();
                        for accumulate in [true, false] {
                            let (a, b) = (a.as_ptr(), b.as_ptr());
                            let (lda, ldb, ldc) = (k + 1, cols + 3, cols + 1);
                            let p =
                                Product { rows, cols, k, a, lda, b, ldb, c: c.as_mut_ptr(), ldc, accumulate };
                            dispatch_at(at, Multiply(p));
                            for i in 0..rows {
                                for j in 0..cols {
                                    let dot: f32 =
                                        (0..k).map(|t| num(i * lda + t) * num(t * ldb + j + 5)).sum();
                                    let start = if accumulate { before[i * ldc + j] } else { 0.0 };
                                    assert_eq!(
                                        c[i * ldc + j],
                                        start + dot,
                                        "{at:?} {rows}x{cols}x{k} at {i},{j}"
                                    );
                                }
                                assert_eq!(c[i * ldc + cols], before[i * ldc + cols], "wrote past a row");
                            }
                        }
                    }
                }
            }
        }
    }

    struct Transpose<'a>(usize, usize, &'a [f32], usize, &'a mut [f32], usize);
    impl Kernel for Transpose<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Lanes>(self, s: S) {
            // SAFETY: the test passes whole arrays.
            unsafe { transpose(s, self.0, self.1, self.2.as_ptr(), self.3, self.4.as_mut_ptr(), self.5) }
        }
    }

    #[test]
    fn transpose_of_odd_and_even_extents() {
        for at in LEVELS {
            for (rows, cols) in [(1, 1), (16, 16), (17, 33), (5, 64), (48, 7), (31, 15), (64, 128)] {
                let (ls, ld) = (cols + 2, rows + 1);
                let src: Vec<f32> = (0..rows * ls).map(|i| i as f32).collect();
                let mut dst = vec![-1.0; cols * ld];
                dispatch_at(at, Transpose(rows, cols, &src, ls, &mut dst, ld));
                for c in 0..cols {
                    for r in 0..rows {
                        assert_eq!(dst[c * ld + r], src[r * ls + c], "{at:?} {rows}x{cols} at {r},{c}");
                    }
                    assert_eq!(dst[c * ld + rows], -1.0);
                }
            }
        }
    }
}
