//! Products for many rows of activations, and products with w itself: blocks of weights are unpacked into
//! cache once and multiplied by every row.

use super::Quantized;
use super::decode::dequantize_span;
use crate::kernels::tile::{Product, TILE_COLS, multiply as tiles, padded, transpose};
use crate::kernels::{Aligned, Scratch, Shared};
use crate::lanes::{Kernel, Lanes, dispatch_at};
use crate::pool::{parallel_for, threads};
use crate::simd::Level;

/// Rows of activations in one strip: two registers of AVX-512.
const STRIP: usize = 32;
/// Rows of weights unpacked together.
const W_ROWS: usize = 48;
/// Depth of a block: a strip of activations and the rows of one tile fit in the first-level cache.
const DEPTH: usize = 256;
/// Rows of activations that share one unpacking, which bounds the working memory.
const X_ROWS: usize = 1024;

/// y = x w^T with x `[m, cols]`, y `[m, rows]`.
///
/// Registers run along the rows of x, which are few, so that unpacked weights are used in the order in
/// which they are stored and only x, and y, are transposed.
pub(super) fn multiply_transposed(at: Level, x: &[f32], w: &Quantized<'_>, y: &mut [f32]) {
    if w.cols == 0 {
        y.fill(0.0);
        return;
    }
    for (x, y) in x.chunks(X_ROWS * w.cols).zip(y.chunks_mut(X_ROWS * w.rows)) {
        let m = x.len() / w.cols;
        let packed = pack(at, x, m, w.cols);
        let y = Shared(y.as_mut_ptr());
        // Smaller tasks when there are few, so that the threads end together.
        let tasks = w.rows.div_ceil(W_ROWS);
        let rows = if tasks < 4 * threads() {
            (w.rows.div_ceil(4 * threads())).next_multiple_of(12)
        } else {
            W_ROWS
        };
        let rows = rows.min(W_ROWS);
        parallel_for(w.rows.div_ceil(rows), &|i| {
            let from = i * rows;
            dispatch_at(at, Rows { x: &packed, w, m, from, rows: rows.min(w.rows - from), y: y.get() });
        });
    }
}

/// Strips of x, each `[cols, lanes]`: `STRIP` lanes, in the last one as many registers as it needs.
fn pack(at: Level, x: &[f32], m: usize, cols: usize) -> Aligned {
    let mut packed = Aligned::zeros(padded(m) * cols);
    let to = Shared(packed.as_mut_ptr());
    let strips = m.div_ceil(STRIP);
    let blocks = cols.div_ceil(DEPTH);
    parallel_for(strips * blocks, &|i| {
        let (strip, c) = (i / blocks, i % blocks * DEPTH);
        let rows = STRIP.min(m - strip * STRIP);
        let (depth, lanes) = (DEPTH.min(cols - c), padded(rows));
        let src = &x[strip * STRIP * cols + c..];
        debug_assert!((rows - 1) * cols + depth <= src.len());
        // SAFETY: the block is inside x by the assertion, and inside the strip of `packed` that starts at
        // `strip * STRIP * cols`; tasks write different blocks.
        let dst = unsafe { to.get().add(strip * STRIP * cols + c * lanes) };
        dispatch_at(at, PackBlock { rows, cols: depth, src: src.as_ptr(), ld_src: cols, dst, ld_dst: lanes });
    });
    packed
}

struct PackBlock {
    rows: usize,
    cols: usize,
    src: *const f32,
    ld_src: usize,
    dst: *mut f32,
    ld_dst: usize,
}

impl Kernel for PackBlock {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        // SAFETY: made by `pack` from extents that it checked.
        unsafe { transpose(s, self.rows, self.cols, self.src, self.ld_src, self.dst, self.ld_dst) }
    }
}

/// Rows `from .. from + rows` of w against all of x.
struct Rows<'a> {
    x: &'a [f32],
    w: &'a Quantized<'a>,
    m: usize,
    from: usize,
    rows: usize,
    /// `[m, w.rows]`
    y: *mut f32,
}

impl Kernel for Rows<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Rows { x, w, m, from, rows, y } = self;
        let wide = padded(m);
        let mut scratch = Scratch::take(rows * (DEPTH + wide));
        let (weights, sums) = scratch.split_at_mut(rows * DEPTH);
        let mut start = 0;
        while start < w.cols {
            let depth = DEPTH.min(w.cols - start);
            for (r, out) in weights.chunks_exact_mut(DEPTH).enumerate() {
                dequantize_span(s, w, from + r, start, &mut out[..depth]);
            }
            let mut strip = 0;
            while strip * STRIP < m {
                let lanes = padded(STRIP.min(m - strip * STRIP));
                // SAFETY: A is `[rows, DEPTH]`, B the block of a strip that `pack` wrote, `[depth, lanes]`,
                // and C a part of `[rows, wide]`.
                unsafe {
                    tiles(
                        s,
                        Product {
                            rows,
                            cols: lanes,
                            k: depth,
                            a: weights.as_ptr(),
                            lda: DEPTH,
                            b: x.as_ptr().add(strip * STRIP * w.cols + start * lanes),
                            ldb: lanes,
                            c: sums.as_mut_ptr().add(strip * STRIP),
                            ldc: wide,
                            accumulate: start > 0,
                        },
                    );
                }
                strip += 1;
            }
            start += depth;
        }
        // SAFETY: `sums` is `[rows, wide]` with m <= wide, and columns `from .. from + rows` of y belong to
        // this task alone.
        unsafe { transpose(s, rows, m, sums.as_ptr(), wide, y.add(from), w.rows) };
    }
}

/// y = x w with x `[m, rows]`, y `[m, cols]`.
pub(super) fn multiply(at: Level, x: &[f32], w: &Quantized<'_>, m: usize, y: &mut [f32]) {
    debug_assert_eq!((m * w.rows, m * w.cols), (x.len(), y.len()));
    if w.rows == 0 {
        y.fill(0.0);
        return;
    }
    let y = Shared(y.as_mut_ptr());
    // Wide blocks unpack faster; narrower ones keep the threads busy.
    let cols = w.cols.div_ceil(4 * threads()).next_multiple_of(TILE_COLS).min(4 * TILE_COLS);
    parallel_for(w.cols.div_ceil(cols), &|block| {
        let from = block * cols;
        dispatch_at(at, Columns { x, w, from, cols: cols.min(w.cols - from), y: y.get() });
    });
}

/// Rows of weights that [`Columns`] unpacks together.
const SHALLOW: usize = 64;

/// Columns `from .. from + cols` of w against all of x.
struct Columns<'a> {
    x: &'a [f32],
    w: &'a Quantized<'a>,
    from: usize,
    cols: usize,
    /// `[m, w.cols]`
    y: *mut f32,
}

impl Kernel for Columns<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Columns { x, w, from, cols, y } = self;
        let wide = padded(cols);
        for (part, x) in x.chunks(X_ROWS * w.rows).enumerate() {
            let m = x.len() / w.rows;
            let mut scratch = Scratch::take((SHALLOW + m) * wide);
            scratch.fill(0.0);
            let (weights, sums) = scratch.split_at_mut(SHALLOW * wide);
            let mut start = 0;
            while start < w.rows {
                let depth = SHALLOW.min(w.rows - start);
                for (r, out) in weights.chunks_exact_mut(wide).take(depth).enumerate() {
                    dequantize_span(s, w, start + r, from, &mut out[..cols]);
                }
                // SAFETY: A is `[m, depth]` inside x, B `[depth, wide]`, C `[m, wide]`.
                unsafe {
                    tiles(
                        s,
                        Product {
                            rows: m,
                            cols: wide,
                            k: depth,
                            a: x.as_ptr().add(start),
                            lda: w.rows,
                            b: weights.as_ptr(),
                            ldb: wide,
                            c: sums.as_mut_ptr(),
                            ldc: wide,
                            accumulate: true,
                        },
                    );
                }
                start += depth;
            }
            for (r, sums) in sums.chunks_exact(wide).enumerate() {
                // SAFETY: row `part * X_ROWS + r` of y, of which this task alone writes these columns.
                unsafe {
                    let to = y.add((part * X_ROWS + r) * w.cols + from);
                    std::ptr::copy_nonoverlapping(sums.as_ptr(), to, cols);
                }
            }
        }
    }
}
