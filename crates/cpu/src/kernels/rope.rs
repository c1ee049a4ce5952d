//! Rotary position embedding (Su and others, arXiv:2104.09864).

use super::{Floats, FloatsMut, Result, Scratch, Shared, ensure, through_f32, with_same_floats};
use crate::lanes::{Element, Kernel, Lanes, dispatch_at};
use crate::pool::parallel_for;
use crate::simd::{Level, level};
use std::cell::RefCell;
use std::f32::consts::FRAC_2_PI;
use std::rc::Rc;

/// The frequencies of the pairs.
#[derive(Debug, Clone, Copy)]
pub enum Frequencies<'a> {
    /// Pair i turns by base^(-2i / dims) radians a position.
    Base(f32),
    /// Radians a position of each of the `dims / 2` pairs.
    Explicit(&'a [f32]),
}

/// Extents and options of a rotation of `[batch, heads, len, dim]`.
#[derive(Debug, Clone, Copy)]
pub struct Rope<'a> {
    /// Batch.
    pub batch: usize,
    /// Heads.
    pub heads: usize,
    /// Positions.
    pub len: usize,
    /// Width of a head.
    pub dim: usize,
    /// Leading elements of each head that are rotated; even. The others are copied.
    pub dims: usize,
    /// Pairs are neighbours (`2i`, `2i + 1`); otherwise the two halves (`i`, `i + dims / 2`).
    pub traditional: bool,
    /// The frequencies.
    pub frequencies: Frequencies<'a>,
    /// Factor of the positions.
    pub scale: f32,
    /// Position of the first element of each batch row, or one for all.
    pub offsets: &'a [i64],
}

const OP: &str = "rope";

/// Rotates `x`, whose batch, head and length axes have `strides` and whose last axis has unit stride, into the
/// contiguous `out`.
///
/// Angles are position * scale * frequency in `f32`, like those of MLX and transformers; their sines and
/// cosines are good to 1e-7 for any angle.
///
/// # Errors
/// When extents, strides and lengths do not fit together.
pub fn rope(x: Floats<'_>, strides: [usize; 3], r: &Rope<'_>, out: FloatsMut<'_>) -> Result<()> {
    rope_at(level(), x, strides, r, out)
}

thread_local! {
    /// The last frequencies made from a base: every layer of a model asks for the same ones.
    static LAST: RefCell<Option<Made>> = const { RefCell::new(None) };
}

/// Frequencies and what they were made from.
struct Made {
    base: f32,
    dims: usize,
    frequencies: Rc<[f32]>,
}

fn from_base(base: f32, dims: usize) -> Rc<[f32]> {
    LAST.with_borrow_mut(|last| match last {
        Some(made) if made.base.to_bits() == base.to_bits() && made.dims == dims => made.frequencies.clone(),
        _ => {
            let f = |i| (base as f64).powf(-2.0 * i as f64 / dims as f64) as f32;
            let frequencies: Rc<[f32]> = (0..dims / 2).map(f).collect();
            *last = Some(Made { base, dims, frequencies: frequencies.clone() });
            frequencies
        }
    })
}

fn rope_at(at: Level, x: Floats<'_>, strides: [usize; 3], r: &Rope<'_>, out: FloatsMut<'_>) -> Result<()> {
    let Rope { batch, heads, len, dim, dims, offsets, .. } = *r;
    ensure!(dims.is_multiple_of(2) && dims <= dim, OP, "cannot rotate {dims} of {dim} elements");
    let needed = [batch, heads, len, dim].iter().try_fold(1usize, |n, &e| n.checked_mul(e));
    ensure!(
        needed == Some(out.len()),
        OP,
        "the result has {} elements, not {batch} x {heads} x {len} x {dim}",
        out.len()
    );
    ensure!(
        offsets.len() == 1 || offsets.len() == batch,
        OP,
        "{} offsets for a batch of {batch}",
        offsets.len()
    );
    if out.is_empty() {
        return Ok(());
    }
    let last = [(batch, strides[0]), (heads, strides[1]), (len, strides[2]), (dim, 1)]
        .iter()
        .try_fold(0usize, |at, &(n, s)| at.checked_add((n - 1).checked_mul(s)?));
    ensure!(
        last.is_some_and(|last| last < x.len()),
        OP,
        "x has {} elements, too few for [{batch}, {heads}, {len}, {dim}] with strides {strides:?}",
        x.len()
    );
    let made;
    let frequencies = match r.frequencies {
        Frequencies::Base(base) => {
            made = from_base(base, dims);
            &made[..]
        }
        Frequencies::Explicit(f) => f,
    };
    ensure!(
        frequencies.len() == dims / 2,
        OP,
        "{} frequencies for {dims} rotated elements",
        frequencies.len()
    );
    // The table of a position serves all heads.
    let per_block = ((1 << 13) / (heads * dim)).clamp(1, len);
    let blocks = len.div_ceil(per_block);
    with_same_floats!(x, out, (x, out) => {
        let to = Shared(out.as_mut_ptr());
        parallel_for(batch * blocks, &|i| {
            let (b, first) = (i / blocks, i % blocks * per_block);
            let positions = first..(first + per_block).min(len);
            dispatch_at(at, Block { x, strides, r, frequencies, b, positions, out: to.get() });
        });
    }, out => return through_f32(at, x, out, |x, out| rope_at(at, x, strides, r, out)));
    Ok(())
}

struct Block<'a, T> {
    x: &'a [T],
    strides: [usize; 3],
    r: &'a Rope<'a>,
    frequencies: &'a [f32],
    b: usize,
    positions: std::ops::Range<usize>,
    out: *mut T,
}

impl<T: Element> Kernel for Block<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Block { x, strides, r, frequencies, b, positions, out } = self;
        let half = r.dims / 2;
        let offset = r.offsets[if r.offsets.len() == 1 { 0 } else { b }];
        let mut scratch = Scratch::take(6 * half);
        let (cos, rest) = scratch.split_at_mut(half);
        let (sin, rest) = rest.split_at_mut(half);
        let (cos2, sin2) = rest.split_at_mut(2 * half);
        for l in positions {
            let position = offset.saturating_add(l as i64) as f32 * r.scale;
            angles(s, position, frequencies, cos, sin);
            if r.traditional {
                // Cosine for both of a pair, and the sine with the sign of its place.
                for i in 0..half {
                    cos2[2 * i..2 * i + 2].fill(cos[i]);
                    sin2[2 * i..2 * i + 2].copy_from_slice(&[-sin[i], sin[i]]);
                }
            }
            for h in 0..r.heads {
                let from = b * strides[0] + h * strides[1] + l * strides[2];
                let to = ((b * r.heads + h) * r.len + l) * r.dim;
                let x = &x[from..from + r.dim];
                // SAFETY: `out` is `[batch, heads, len, dim]`, and this task alone writes this row.
                let out = unsafe { std::slice::from_raw_parts_mut(out.add(to), r.dim) };
                if r.traditional {
                    turn_pairs(s, &x[..r.dims], cos2, sin2, &mut out[..r.dims]);
                } else {
                    turn_halves(s, &x[..r.dims], cos, sin, &mut out[..r.dims]);
                }
                out[r.dims..].copy_from_slice(&x[r.dims..]);
            }
        }
    }
}

/// Loads `n` lanes, whole registers without a detour.
///
/// # Safety
/// `p` is valid for reading `n.min(N)` values.
#[inline(always)]
unsafe fn load<S: Lanes, T: Element>(s: S, p: *const T, n: usize) -> S::F {
    // SAFETY: the caller's promise.
    unsafe { if n >= S::N { T::load(s, p) } else { T::load_part(s, p, n) } }
}

/// Stores `n` lanes, whole registers without a detour.
///
/// # Safety
/// `p` is valid for writing `n.min(N)` values.
#[inline(always)]
unsafe fn store<S: Lanes, T: Element>(s: S, p: *mut T, n: usize, v: S::F) {
    // SAFETY: the caller's promise.
    unsafe { if n >= S::N { T::store(s, p, v) } else { T::store_part(s, p, n, v) } }
}

/// Rotates pairs (i, i + half).
#[inline(always)]
fn turn_halves<S: Lanes, T: Element>(s: S, x: &[T], cos: &[f32], sin: &[f32], out: &mut [T]) {
    let half = cos.len();
    assert!(sin.len() == half && x.len() == 2 * half && out.len() == 2 * half);
    let mut i = 0;
    while i < half {
        let n = half - i;
        // SAFETY: both halves have `half` elements, of which `n` are left.
        unsafe {
            let (c, d) = (load(s, cos.as_ptr().add(i), n), load(s, sin.as_ptr().add(i), n));
            let (a, b) = (load(s, x.as_ptr().add(i), n), load(s, x.as_ptr().add(half + i), n));
            store(s, out.as_mut_ptr().add(i), n, s.sub(s.mul(a, c), s.mul(b, d)));
            store(s, out.as_mut_ptr().add(half + i), n, s.add(s.mul(a, d), s.mul(b, c)));
        }
        i += S::N;
    }
}

/// Rotates neighbours, with the tables spread over both and the sine signed.
#[inline(always)]
fn turn_pairs<S: Lanes, T: Element>(s: S, x: &[T], cos: &[f32], sin: &[f32], out: &mut [T]) {
    let dims = x.len();
    assert!(cos.len() == dims && sin.len() == dims && out.len() == dims);
    let mut i = 0;
    while i < dims {
        let n = dims - i;
        // SAFETY: all have `dims` elements, of which `n` are left.
        unsafe {
            let (c, d) = (load(s, cos.as_ptr().add(i), n), load(s, sin.as_ptr().add(i), n));
            let v = load(s, x.as_ptr().add(i), n);
            store(s, out.as_mut_ptr().add(i), n, s.add(s.mul(v, c), s.mul(s.swap_pairs(v), d)));
        }
        i += S::N;
    }
}

/// Largest angle that [`cos_sin`] reduces exactly.
const EXACT: f32 = 1.5e6;

/// Cosines and sines of position * frequency.
#[inline(always)]
fn angles<S: Lanes>(s: S, position: f32, frequencies: &[f32], cos: &mut [f32], sin: &mut [f32]) {
    let n = frequencies.len();
    assert!(cos.len() == n && sin.len() == n);
    if !frequencies.iter().all(|f| (position * f).abs() <= EXACT) {
        for (i, f) in frequencies.iter().enumerate() {
            let (sine, cosine) = ((position * f) as f64).sin_cos();
            (cos[i], sin[i]) = (cosine as f32, sine as f32);
        }
        return;
    }
    let position = s.splat(position);
    let mut i = 0;
    while i < n {
        // SAFETY: all have n elements.
        unsafe {
            let (c, d) = cos_sin(s, s.mul(position, s.load_part(frequencies.as_ptr().add(i), n - i)));
            s.store_part(cos.as_mut_ptr().add(i), n - i, c);
            s.store_part(sin.as_mut_ptr().add(i), n - i, d);
        }
        i += S::N;
    }
}

/// Cosine and sine of |x| <= [`EXACT`], good to 1e-7.
///
/// x = n pi/2 + r with |r| <= pi/4 and pi/2 in three parts, of which fused multiply-adds take the first off
/// exactly; then polynomials that are minimax on that interval.
#[inline(always)]
fn cos_sin<S: Lanes>(s: S, x: S::F) -> (S::F, S::F) {
    // Adding 1.5 * 2^23 rounds to an integer, which is then also in the low bits.
    let magic = s.splat(12_582_912.0);
    let t = s.fma(x, s.splat(FRAC_2_PI), magic);
    let n = s.sub(t, magic);
    let r = s.fma(n, s.splat(-std::f32::consts::FRAC_PI_2), x);
    let r = s.fma(n, s.splat(4.371_139e-8), r);
    let r = s.fma(n, s.splat(1.715_124_5e-15), r);
    let z = s.mul(r, r);
    let p = s.fma(s.splat(-1.951_521_8e-4), z, s.splat(8.332_16e-3));
    let p = s.fma(p, z, s.splat(-1.666_665_5e-1));
    let sine = s.fma(s.mul(p, z), r, r);
    let p = s.fma(s.splat(2.443_308_2e-5), z, s.splat(-1.388_731_5e-3));
    let p = s.fma(p, z, s.splat(4.166_664_6e-2));
    let cosine = s.fma(s.mul(z, z), p, s.fma(z, s.splat(-0.5), s.splat(1.0)));
    // Quarter turns exchange the two and flip signs.
    let quarter = s.sub_i(s.bits(t), s.bits(magic));
    let one = s.splat_i(1);
    let even = s.eq_i(s.and_i(quarter, one), s.splat_i(0));
    let two = s.splat_i(2);
    let sin_sign = s.shl::<30>(s.and_i(quarter, two));
    let cos_sign = s.shl::<30>(s.and_i(s.add_i(quarter, one), two));
    let sin = s.float_of(s.xor_i(s.bits(s.select(even, sine, cosine)), sin_sign));
    let cos = s.float_of(s.xor_i(s.bits(s.select(even, cosine, sine)), cos_sign));
    (cos, sin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    const LEVELS: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

    struct CosSin<'a>(&'a [f32], &'a mut [f32], &'a mut [f32]);
    impl Kernel for CosSin<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Lanes>(self, s: S) {
            for i in 0..self.0.len() {
                angles(s, self.0[i], &[1.0], &mut self.1[i..i + 1], &mut self.2[i..i + 1]);
            }
        }
    }

    #[test]
    fn sines_are_good_for_any_angle() {
        let xs: Vec<f32> = (0..400_000u32)
            .map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761)))
            .filter(|x| x.is_finite())
            .chain((0..200_000).map(|i| i as f32 * 14.7 - 1.47e6))
            .chain((0..2000).map(|i| i as f32 * std::f32::consts::FRAC_PI_4))
            .collect();
        for at in LEVELS {
            let (mut c, mut d) = (vec![0.0; xs.len()], vec![0.0; xs.len()]);
            dispatch_at(at, CosSin(&xs, &mut c, &mut d));
            for (i, &x) in xs.iter().enumerate() {
                let (sin, cos) = (x as f64).sin_cos();
                let worst = (c[i] as f64 - cos).abs().max((d[i] as f64 - sin).abs());
                assert!(worst <= 1.2e-7, "{at:?} {x}: {} {}, off by {worst}", c[i], d[i]);
            }
        }
    }

    fn check<T: Element>(r: &Rope<'_>, transposed: bool, unit: f64)
    where
        for<'a> Floats<'a>: From<&'a [T]>,
        for<'a> FloatsMut<'a>: From<&'a mut [T]>,
    {
        let Rope { batch, heads, len, dim, dims, .. } = *r;
        let strides = if transposed {
            [heads * len * dim, dim, heads * dim]
        } else {
            [heads * len * dim, len * dim, dim]
        };
        let x: Vec<T> = (0..(batch * heads * len * dim) as u32)
            .map(|i| T::from_f32((i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1u32 << 23) as f32 - 1.0))
            .collect();
        for at in LEVELS {
            let mut out = vec![T::default(); x.len()];
            rope_at(at, x.as_slice().into(), strides, r, out.as_mut_slice().into()).unwrap();
            for b in 0..batch {
                for h in 0..heads {
                    for l in 0..len {
                        let x = |d: usize| {
                            x[b * strides[0] + h * strides[1] + l * strides[2] + d].to_f32() as f64
                        };
                        for d in 0..dim {
                            let want = if d >= dims {
                                x(d)
                            } else {
                                let half = dims / 2;
                                let (i, first) =
                                    if r.traditional { (d / 2, d % 2 == 0) } else { (d % half, d < half) };
                                let (p, q) = if r.traditional { (2 * i, 2 * i + 1) } else { (i, i + half) };
                                let f = match r.frequencies {
                                    Frequencies::Base(base) => {
                                        (base as f64).powf(-2.0 * i as f64 / dims as f64) as f32
                                    }
                                    Frequencies::Explicit(f) => f[i],
                                };
                                let offset = r.offsets[b % r.offsets.len()];
                                let angle = (offset + l as i64) as f32 * r.scale * f;
                                let (sin, cos) = (angle as f64).sin_cos();
                                if first { x(p) * cos - x(q) * sin } else { x(p) * sin + x(q) * cos }
                            };
                            let got = out[((b * heads + h) * len + l) * dim + d].to_f32() as f64;
                            assert!(
                                (got - want).abs() <= 4e-7 + unit * want.abs(),
                                "{at:?} {r:?} at {b},{h},{l},{d}: {got}, not {want}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rotations() {
        let explicit: Vec<f32> = (0..32).map(|i| 1.0 / (i + 1) as f32).collect();
        for (dim, dims) in [(64, 64), (64, 32), (80, 20), (6, 2), (96, 64), (5, 0)] {
            for traditional in [false, true] {
                for frequencies in [
                    Frequencies::Base(10_000.0),
                    Frequencies::Base(1e6),
                    Frequencies::Explicit(&explicit[..dims / 2]),
                ] {
                    for offsets in [&[0i64][..], &[1_000_000], &[7, 3, -2]] {
                        let r = Rope {
                            batch: 3,
                            heads: 2,
                            len: 5,
                            dim,
                            dims,
                            traditional,
                            frequencies,
                            scale: 0.75,
                            offsets,
                        };
                        check::<f32>(&r, true, 0.0);
                        check::<f32>(&r, false, 0.0);
                    }
                }
            }
        }
    }

    #[test]
    fn many_positions_and_types() {
        let r = Rope {
            batch: 1,
            heads: 3,
            len: 300,
            dim: 64,
            dims: 64,
            traditional: false,
            frequencies: Frequencies::Base(1e4),
            scale: 1.0,
            offsets: &[12],
        };
        check::<f32>(&r, true, 0.0);
        check::<f16>(&r, false, 1e-3);
        check::<bf16>(&r, true, 8e-3);
        check::<bf16>(&Rope { traditional: true, ..r }, true, 8e-3);
    }

    #[test]
    fn wrong_sizes_are_errors() {
        let x = [0.0f32; 64];
        let r = Rope {
            batch: 2,
            heads: 2,
            len: 2,
            dim: 8,
            dims: 8,
            traditional: false,
            frequencies: Frequencies::Base(1e4),
            scale: 1.0,
            offsets: &[0],
        };
        let run = |r: &Rope<'_>, strides, n: usize| {
            let mut out = [0.0f32; 64];
            rope(Floats::F32(&x), strides, r, FloatsMut::F32(&mut out[..n])).map_err(|e| e.to_string())
        };
        assert_eq!(run(&r, [32, 16, 8], 64), Ok(()));
        for (result, part) in [
            (run(&r, [33, 16, 8], 64), "too few"),
            (run(&r, [usize::MAX, 16, 8], 64), "too few"),
            (run(&r, [32, 16, 8], 63), "63 elements"),
            (run(&Rope { dims: 7, ..r }, [32, 16, 8], 64), "7 of 8"),
            (run(&Rope { dims: 10, ..r }, [32, 16, 8], 64), "10 of 8"),
            (run(&Rope { offsets: &[0, 0, 0], ..r }, [32, 16, 8], 64), "3 offsets"),
            (
                run(&Rope { frequencies: Frequencies::Explicit(&[1.0]), ..r }, [32, 16, 8], 64),
                "1 frequencies",
            ),
        ] {
            let e = result.unwrap_err();
            assert!(e.starts_with("[rope]") && e.contains(part), "{e}");
        }
    }
}
