//! The bfloat16 tile of AMX: 32 x 32 sums in four tile registers.
//!
//! The standard library has no stable intrinsics for tiles, so the loop is written in assembly. Packed rows
//! of `a` lie in chunks of 32 elements (64 bytes, one row of a tile register); columns of `b` are packed as
//! pairs, as for the vector instruction, and sixteen steps of them fill a register.
//!
//! Intel, "Intel Architecture Instruction Set Extensions Programming Reference", chapter 3. Products are
//! added in pairs, rounded to nearest even; subnormal inputs count as zero, subnormal sums are flushed.

use std::arch::asm;
use std::arch::x86_64::*;

use half::bf16;

use super::avx512::Pair16;
use super::{Micro, Pack, Table, Tile, Vector, WIDE};

/// Packed pairs in a row of a tile register, and steps in one.
pub(in super::super) const CHUNK: usize = 16;
/// Rows of a tile register.
const ROWS: usize = 16;

#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static CONFIG: Config = {
    let mut config =
        Config { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
    let mut i = 0;
    while i < 8 {
        config.row_bytes[i] = 64;
        config.rows[i] = ROWS as u8;
        i += 1;
    }
    config
};

/// Shapes the tile registers of this thread, until [`leave`].
///
/// # Safety
/// The system has granted AMX ([`crate::simd::amx`]).
pub(in super::super) unsafe fn enter() {
    // SAFETY: the configuration is one of palette 1, which every AMX has.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &CONFIG, options(nostack, readonly, preserves_flags)) }
}

/// Gives the tile registers back, so that a context switch need not save them.
///
/// # Safety
/// As [`enter`].
pub(in super::super) unsafe fn leave() {
    // SAFETY: the caller's promise.
    unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) }
}

/// Micro-kernels for 1 to 32 rows; up to 16 take one register of rows.
pub(in super::super) const TABLE: Table<u32, f32> = {
    const ONE: [Micro<u32, f32>; WIDE] = [micro::<1, 1>, micro::<1, 2>];
    const TWO: [Micro<u32, f32>; WIDE] = [micro::<2, 1>, micro::<2, 2>];
    &[
        ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE, //
        TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO, TWO,
    ]
};

/// # Safety
/// Between [`enter`] and [`leave`]; as [`super::micro`], and sixteen rows must be readable from any packed
/// row on (what follows the last row is multiplied, and not stored).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn micro<const R: usize, const W: usize>(t: &Tile<u32, f32>) {
    let mut buffer = std::mem::MaybeUninit::<[f32; 2 * ROWS * WIDE * 16]>::uninit();
    let whole = !t.add && t.rows == R * ROWS && t.cols == W * 16;
    let (out, out_stride) =
        if whole { (t.c, t.c_stride) } else { (buffer.as_mut_ptr().cast::<f32>(), WIDE * 16) };
    let (a_step, b_row) = (t.rows * 64, t.b_stride * 4);
    let chunks = t.k / CHUNK;
    // SAFETY: registers 0 to 3 hold sums, 4 and 5 rows of `a`, 6 and 7 columns of `b`; loads and stores
    // are of what the caller promised, and of the buffer.
    unsafe {
        match (R, W) {
            (1, 1) => asm!(
                "tilezero tmm0",
                "2:",
                "tileloadd tmm4, [{a} + {s}]",
                "tileloadd tmm6, [{b} + {bs}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "add {a}, {astep}",
                "add {b}, {bstep}",
                "dec {n}",
                "jnz 2b",
                "tilestored [{c} + {cs}], tmm0",
                a = inout(reg) t.a => _, b = inout(reg) t.b => _, n = inout(reg) chunks => _,
                s = in(reg) 64usize, bs = in(reg) b_row, astep = in(reg) a_step, bstep = in(reg) CHUNK * b_row,
                c = in(reg) out, cs = in(reg) out_stride * 4,
                out("tmm0") _, out("tmm4") _, out("tmm6") _, options(nostack)
            ),
            (1, _) => asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "2:",
                "tileloadd tmm4, [{a} + {s}]",
                "tileloadd tmm6, [{b} + {bs}]",
                "tileloadd tmm7, [{b} + {bs} + 64]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "add {a}, {astep}",
                "add {b}, {bstep}",
                "dec {n}",
                "jnz 2b",
                "tilestored [{c} + {cs}], tmm0",
                "tilestored [{c} + {cs} + 64], tmm1",
                a = inout(reg) t.a => _, b = inout(reg) t.b => _, n = inout(reg) chunks => _,
                s = in(reg) 64usize, bs = in(reg) b_row, astep = in(reg) a_step, bstep = in(reg) CHUNK * b_row,
                c = in(reg) out, cs = in(reg) out_stride * 4,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _, options(nostack)
            ),
            (_, 1) => asm!(
                "tilezero tmm0",
                "tilezero tmm2",
                "2:",
                "tileloadd tmm6, [{b} + {bs}]",
                "tileloadd tmm4, [{a} + {s}]",
                "tileloadd tmm5, [{a} + {s} + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "add {a}, {astep}",
                "add {b}, {bstep}",
                "dec {n}",
                "jnz 2b",
                "tilestored [{c} + {cs}], tmm0",
                "tilestored [{c2} + {cs}], tmm2",
                a = inout(reg) t.a => _, b = inout(reg) t.b => _, n = inout(reg) chunks => _,
                s = in(reg) 64usize, bs = in(reg) b_row, astep = in(reg) a_step, bstep = in(reg) CHUNK * b_row,
                c = in(reg) out, c2 = in(reg) out.wrapping_add(ROWS * out_stride), cs = in(reg) out_stride * 4,
                out("tmm0") _, out("tmm2") _, out("tmm4") _, out("tmm5") _, out("tmm6") _, options(nostack)
            ),
            _ => asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:",
                "tileloadd tmm4, [{a} + {s}]",
                "tileloadd tmm6, [{b} + {bs}]",
                "tileloadd tmm7, [{b} + {bs} + 64]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm5, [{a} + {s} + 1024]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, {astep}",
                "add {b}, {bstep}",
                "dec {n}",
                "jnz 2b",
                "tilestored [{c} + {cs}], tmm0",
                "tilestored [{c} + {cs} + 64], tmm1",
                "tilestored [{c2} + {cs}], tmm2",
                "tilestored [{c2} + {cs} + 64], tmm3",
                a = inout(reg) t.a => _, b = inout(reg) t.b => _, n = inout(reg) chunks => _,
                s = in(reg) 64usize, bs = in(reg) b_row, astep = in(reg) a_step, bstep = in(reg) CHUNK * b_row,
                c = in(reg) out, c2 = in(reg) out.wrapping_add(ROWS * out_stride), cs = in(reg) out_stride * 4,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm4") _, out("tmm5") _,
                out("tmm6") _, out("tmm7") _, options(nostack)
            ),
        }
        if whole {
            return;
        }
        for i in 0..t.rows {
            for j in 0..W {
                let n = (t.cols - j * 16).min(16);
                let to = t.c.add(i * t.c_stride + j * 16);
                let mut sum = Pair16::load_sum_n(out.add(i * out_stride + j * 16), n);
                if t.add {
                    sum = Pair16::add(Pair16::load_sum_n(to, n), sum);
                }
                Pair16::store_sum_n(to, sum, n);
            }
        }
    }
}

/// Packs rows of `a`: chunk after chunk of k, the rows of a chunk together, zeros after the last k.
///
/// # Safety
/// As [`super::pack`], with room for whole chunks.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(in super::super) unsafe fn pack_a(p: &Pack<bf16, u32>) {
    let mut dst = p.dst;
    for from in (0..p.k).step_by(2 * CHUNK) {
        let here = (p.k - from).min(2 * CHUNK);
        for line in 0..p.lines {
            // SAFETY: these elements exist, and the chunk has room for every line.
            unsafe {
                let src = p.src.offset(line as isize * p.line_stride + from as isize * p.k_stride);
                let row = if p.k_stride == 1 {
                    Pair16::load_n(src, here)
                } else {
                    let mut pairs = [0u32; CHUNK];
                    for (i, pair) in pairs.iter_mut().enumerate().take(here.div_ceil(2)) {
                        let at = src.offset(2 * i as isize * p.k_stride);
                        *pair = Pair16::pack_one(at, p.k_stride, (here - 2 * i).min(2));
                    }
                    _mm512_loadu_si512(pairs.as_ptr().cast())
                };
                _mm512_store_si512(dst.cast(), row);
                dst = dst.add(CHUNK);
            }
        }
    }
}
