//! Kernels for a few rows of `a`, which read `b` once and do not pack it.

use super::{Real, Vector};

/// Columns of a block of [`dot`].
pub(in super::super) const DOT_COLS: usize = 8;
/// Rows that [`dot`] takes at a time: with four columns, 24 of 32 registers hold sums.
pub(in super::super) const DOT_ROWS: usize = 6;
/// Elements of k that [`dot`] is best called with at a time: sixteen rows of `a` and eight columns of `b`
/// then fit in the first-level cache together.
pub(in super::super) const DOT_DEPTH: usize = 512;
/// Steps of k that [`rows`] takes per pass over its sums.
const PASS: usize = 8;

/// Arguments of [`pack_line`]: `k` elements at `src`, `stride` apart, to packed values at `dst`, with zeros
/// up to a whole number of vectors.
pub(in super::super) struct Line<E, P> {
    pub src: *const E,
    pub stride: isize,
    pub k: usize,
    pub dst: *mut P,
}

/// Packed values that a line of `k` elements takes.
pub(in super::super) const fn line_len<V: Vector>(k: usize) -> usize {
    k.div_ceil(V::STEP).next_multiple_of(V::LANES)
}

/// # Safety
/// `k` elements are readable, and `line_len(k)` packed values writable.
#[inline(always)]
pub(super) unsafe fn pack_line<V: Vector>(line: &Line<V::Elem, V::Packed>) {
    let &Line { src, stride, k, dst } = line;
    // SAFETY: the caller's promise.
    unsafe {
        if stride == 1 {
            for from in (0..k).step_by(V::LANES * V::STEP) {
                let v = V::load_n(src.add(from), (k - from).min(V::LANES * V::STEP));
                V::store_packed_n(dst.add(from / V::STEP), v, V::LANES);
            }
        } else {
            let steps = k.div_ceil(V::STEP);
            for s in 0..steps {
                let from = s * V::STEP;
                let exist = (k - from).min(V::STEP);
                dst.add(s).write(V::pack_one(src.offset(from as isize * stride), stride, exist));
            }
            for s in steps..line_len::<V>(k) {
                dst.add(s).write(V::packed_zero());
            }
        }
    }
}

/// Arguments of [`dot`]: packed rows of `a`, `a_stride` values apart, times columns of `b` whose elements
/// follow one another, `b_stride` elements from column to column. Each product has `LANES` partial sums, at
/// `sums + (row * DOT_COLS + col) * LANES`, which are added to, or begun at zero if `first`.
pub(in super::super) struct Dot<E, P, A> {
    pub rows: usize,
    pub cols: usize,
    pub k: usize,
    pub a: *const P,
    pub a_stride: usize,
    pub b: *const E,
    pub b_stride: isize,
    pub sums: *mut A,
    pub first: bool,
}

/// Dot products of up to [`DOT_ROWS`] rows with up to [`DOT_COLS`] columns.
///
/// Each product has one register of sums, whichever way the tile is cut, so its bits do not depend on
/// the other rows and columns.
///
/// # Safety
/// What [`Dot`] describes is readable, and its sums are writable. Only the last call for a product may have
/// a `k` that is no multiple of `LANES * STEP`.
#[inline(always)]
pub(super) unsafe fn dot<V: Vector>(d: &Dot<V::Elem, V::Packed, V::Acc>) {
    // SAFETY: the caller's promise.
    unsafe {
        match d.rows {
            1 => dot_cols::<V, 1, 8>(d),
            2 => dot_cols::<V, 2, 8>(d),
            3 => dot_cols::<V, 3, 8>(d),
            4 => dot_cols::<V, 4, 4>(d),
            5 => dot_cols::<V, 5, 4>(d),
            _ => dot_cols::<V, 6, 4>(d),
        }
    }
}

#[inline(always)]
unsafe fn dot_cols<V: Vector, const R: usize, const C: usize>(d: &Dot<V::Elem, V::Packed, V::Acc>) {
    let mut col = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while col + C <= d.cols {
            dot_tile::<V, R, C>(d, col);
            col += C;
        }
        while col < d.cols {
            dot_tile::<V, R, 1>(d, col);
            col += 1;
        }
    }
}

#[inline(always)]
unsafe fn dot_tile<V: Vector, const R: usize, const C: usize>(
    d: &Dot<V::Elem, V::Packed, V::Acc>,
    col: usize,
) {
    let stride = V::LANES * V::STEP;
    // SAFETY: the caller's promise; the rest of k, shorter than a register, is loaded as such, and the
    // packed rows have zeros there.
    unsafe {
        let b = d.b.offset(col as isize * d.b_stride);
        let mut sums = [[V::zero(); C]; R];
        if !d.first {
            for (r, row) in sums.iter_mut().enumerate() {
                for (j, sum) in row.iter_mut().enumerate() {
                    *sum = V::load_sum_n(d.sums.add((r * DOT_COLS + col + j) * V::LANES), V::LANES);
                }
            }
        }
        let whole = d.k / stride;
        for v in 0..whole {
            for j in 0..C {
                let right = V::load(b.offset(j as isize * d.b_stride).add(v * stride));
                for (r, row) in sums.iter_mut().enumerate() {
                    let left = V::load_packed(d.a.add(r * d.a_stride + v * V::LANES));
                    row[j] = V::fma(left, right, row[j]);
                }
            }
        }
        let rest = d.k - whole * stride;
        if rest > 0 {
            for j in 0..C {
                let right = V::load_n(b.offset(j as isize * d.b_stride).add(whole * stride), rest);
                for (r, row) in sums.iter_mut().enumerate() {
                    let left = V::load_packed(d.a.add(r * d.a_stride + whole * V::LANES));
                    row[j] = V::fma(left, right, row[j]);
                }
            }
        }
        for (r, row) in sums.iter().enumerate() {
            for (j, &sum) in row.iter().enumerate() {
                V::store_sum_n(d.sums.add((r * DOT_COLS + col + j) * V::LANES), sum, V::LANES);
            }
        }
    }
}

/// Adds up `n` groups of `LANES` partial sums at `sums`, and leaves the results one after the other there.
///
/// # Safety
/// The sums are readable and writable.
#[inline(always)]
pub(super) unsafe fn reduce<V: Vector>(sums: *mut V::Acc, n: usize) {
    for i in 0..n {
        // SAFETY: the caller's promise; result `i` overwrites groups that have been read.
        unsafe { sums.add(i).write(V::reduce(V::load_sum_n(sums.add(i * V::LANES), V::LANES))) }
    }
}

/// Arguments of [`rows`]: packed rows of `a`, `a_stride` values apart, times `cols` neighbouring columns of
/// `b`, whose rows are `b_stride` elements apart; sums go to `out`, rows `out_stride` apart.
pub(in super::super) struct Rows<E, P, A> {
    pub rows: usize,
    pub cols: usize,
    pub k: usize,
    pub a: *const P,
    pub a_stride: usize,
    pub b: *const E,
    pub b_stride: isize,
    pub out: *mut A,
    pub out_stride: usize,
}

/// Adds multiples of the rows of `b`, several rows per pass over the sums. Every sum takes its products in
/// the order of k.
///
/// # Safety
/// What [`Rows`] describes is readable, and `rows` times `cols` sums are writable.
#[inline(always)]
pub(super) unsafe fn rows<V: Vector>(d: &Rows<V::Elem, V::Packed, V::Acc>) {
    let steps = d.k.div_ceil(V::STEP);
    // SAFETY: the caller's promise.
    unsafe {
        for r in 0..d.rows {
            for c in 0..d.cols {
                d.out.add(r * d.out_stride + c).write(V::Acc::ZERO);
            }
        }
        // Steps that are whole, in passes, then what is left one by one.
        let whole = d.k / V::STEP;
        let mut s = 0;
        while s + PASS <= whole {
            rows_pass::<V, PASS>(d, s, V::STEP);
            s += PASS;
        }
        while s < steps {
            rows_pass::<V, 1>(d, s, (d.k - s * V::STEP).min(V::STEP));
            s += 1;
        }
    }
}

#[inline(always)]
unsafe fn rows_pass<V: Vector, const P: usize>(d: &Rows<V::Elem, V::Packed, V::Acc>, s: usize, exist: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let b = d.b.offset((s * V::STEP) as isize * d.b_stride);
        let mut c = 0;
        while c + V::LANES <= d.cols {
            rows_vector::<V, P>(d, s, exist, b, c, V::LANES);
            c += V::LANES;
        }
        if c < d.cols {
            rows_vector::<V, P>(d, s, exist, b, c, d.cols - c);
        }
    }
}

#[inline(always)]
unsafe fn rows_vector<V: Vector, const P: usize>(
    d: &Rows<V::Elem, V::Packed, V::Acc>,
    s: usize,
    exist: usize,
    b: *const V::Elem,
    c: usize,
    n: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut right = [V::splat(V::packed_zero()); P];
        for (i, reg) in right.iter_mut().enumerate() {
            *reg = V::load_lines(b.offset((i * V::STEP) as isize * d.b_stride).add(c), d.b_stride, n, exist);
        }
        for r in 0..d.rows {
            let at = d.out.add(r * d.out_stride + c);
            let mut sum = V::load_sum_n(at, n);
            for (i, &reg) in right.iter().enumerate() {
                sum = V::fma(V::splat(*d.a.add(r * d.a_stride + s + i)), reg, sum);
            }
            V::store_sum_n(at, sum, n);
        }
    }
}
