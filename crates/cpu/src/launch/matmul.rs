//! Products of matrices.

use super::args::{Arg, Copies};
use crate::elementwise::copy_dense;
use crate::gemm::{self, BatchMut, BatchRef, C64, Element, GemmError, MatMut, MatRef, Offsets};
use crate::kernels::intmm;
use crate::raw;
use half::{bf16, f16};
use olivine_core::buffer::DevMem;
use olivine_core::eval::EvalCtx;
use olivine_core::op::Matmul;
use olivine_core::queue::HostQueue;
use olivine_core::{Dtype, Error, Layout, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// Evaluates `$e` with `$T` bound to the element type of a float or complex dtype.
macro_rules! with_inexact {
    ($d:expr, $op:expr, $T:ident => $e:expr) => {
        match $d {
            Dtype::F32 => {
                type $T = f32;
                $e
            }
            Dtype::F64 => {
                type $T = f64;
                $e
            }
            Dtype::F16 => {
                type $T = f16;
                $e
            }
            Dtype::BF16 => {
                type $T = bf16;
                $e
            }
            Dtype::C64 => {
                type $T = C64;
                $e
            }
            Dtype::Bool
            | Dtype::U8
            | Dtype::U16
            | Dtype::U32
            | Dtype::U64
            | Dtype::I8
            | Dtype::I16
            | Dtype::I32
            | Dtype::I64 => return Err(Error::bad_dtype($op, "floats", $d)),
        }
    };
}

pub(super) fn matmul(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: Matmul) -> Result<()> {
    let (a, b) = (Arg::of(&ctx.inputs[0]), Arg::of(&ctx.inputs[1]));
    let d = ctx.outs[0].dtype;
    let name = ctx.op.name();
    let mut copies = Copies::default();
    let refuse = move |e: GemmError| Error::value(name, e.to_string());
    let out;
    let sent = match op {
        Matmul::Product => {
            out = ctx.alloc(0)?;
            queue.send(name, move || {
                // SAFETY: the task of this launch; the types are those of the arguments.
                unsafe {
                    if d.is_integer() {
                        return integers(&a, &b, d, out);
                    }
                    with_inexact!(d, name, T => product::<T>(1.0, &a, &b, 0.0, out)).map_err(refuse)
                }
            })?
        }
        Matmul::Add { alpha, beta } => {
            let (alpha, beta) = (f32::from_bits(alpha), f32::from_bits(beta));
            let c = Arg::of(&ctx.inputs[2]);
            out = ctx.alloc(0)?;
            copy_dense(queue, name, c.mem, &c.layout, d.size(), out)?;
            queue.send(name, move || {
                // SAFETY: as above.
                unsafe { with_inexact!(d, name, T => product::<T>(alpha, &a, &b, beta, out)) }.map_err(refuse)
            })?
        }
        Matmul::Gather => {
            let (lhs, rhs) = (copies.dense(ctx, queue, 2)?, copies.dense(ctx, queue, 3)?);
            out = ctx.alloc(0)?;
            queue.send(name, move || {
                // SAFETY: as above; the indices lie row-major and are `u32`.
                unsafe {
                    let pairs = (lhs.dense::<u32>(), rhs.dense::<u32>());
                    with_inexact!(d, name, T => gather::<T>(&a, &b, pairs, out)?).map_err(refuse)
                }
            })?
        }
        Matmul::Segmented => {
            let limits = copies.dense(ctx, queue, 2)?;
            out = ctx.alloc(0)?;
            queue.send(name, move || {
                // SAFETY: as above; the limits lie row-major and are `u32`.
                unsafe {
                    let limits = limits.dense::<u32>();
                    with_inexact!(d, name, T => segmented::<T>(&a, &b, limits, out)?).map_err(refuse)
                }
            })?
        }
    };
    ctx.sent(sent);
    Ok(())
}

/// Rows and columns of the last two axes, and their strides.
fn matrix(l: &Layout) -> ((usize, usize), (isize, isize)) {
    let r = l.shape().rank();
    ((l.shape()[r - 2], l.shape()[r - 1]), (l.strides()[r - 2], l.strides()[r - 1]))
}

/// Index of the first element of every matrix over the leading axes.
fn starts(l: &Layout) -> Vec<usize> {
    let lead = l.shape().rank() - 2;
    let n: usize = l.shape()[..lead].iter().product();
    let mut starts = Vec::with_capacity(n);
    let mut at: SmallVec<[usize; 6]> = SmallVec::from_elem(0, lead);
    let mut offset = l.offset() as isize;
    for _ in 0..n {
        starts.push(offset as usize);
        for axis in (0..lead).rev() {
            let (stride, size) = (l.strides()[axis], l.shape()[axis]);
            at[axis] += 1;
            offset += stride;
            if at[axis] < size {
                break;
            }
            offset -= stride * size as isize;
            at[axis] = 0;
        }
    }
    starts
}

/// # Safety
/// Called in the task of the launch that arguments and result belong to; `T` is their type.
unsafe fn product<T: Element>(alpha: f32, a: &Arg, b: &Arg, beta: f32, out: DevMem) -> Result<(), GemmError> {
    let (la, lb) = (&a.layout, &b.layout);
    let (((m, k), (ars, acs)), ((_, n), (brs, bcs))) = (matrix(la), matrix(lb));
    let batch: usize = la.shape()[..la.shape().rank() - 2].iter().product();
    // SAFETY: the caller's promise.
    let (x, y) = unsafe { (a.buffer::<T>(), b.buffer::<T>()) };
    // SAFETY: the caller's promise; the result holds `batch * m * n` elements.
    let z = unsafe { raw::slice_mut::<T>(out, batch * m * n) };
    if batch == 1 {
        let x = MatRef::new(x, la.offset(), m, k, ars, acs)?;
        let y = MatRef::new(y, lb.offset(), k, n, brs, bcs)?;
        return gemm::gemm(alpha, x, y, beta, MatMut::row_major(z, m, n)?);
    }
    let offsets: Vec<Offsets> = starts(la)
        .into_iter()
        .zip(starts(lb))
        .enumerate()
        .map(|(i, (a, b))| Offsets { a, b, c: i * m * n })
        .collect();
    let x = BatchRef { data: x, rows: m, cols: k, row_stride: ars, col_stride: acs };
    let y = BatchRef { data: y, rows: k, cols: n, row_stride: brs, col_stride: bcs };
    gemm::gemm_batched(alpha, x, y, beta, BatchMut { data: z, rows: m, cols: n, row_stride: n }, &offsets)
}

/// # Safety
/// As for [`product`].
unsafe fn gather<T: Element>(
    a: &Arg,
    b: &Arg,
    (lhs, rhs): (&[u32], &[u32]),
    out: DevMem,
) -> Result<Result<(), GemmError>> {
    let (((m, k), (ars, acs)), ((_, n), (brs, bcs))) = (matrix(&a.layout), matrix(&b.layout));
    let (ofs_a, ofs_b) = (starts(&a.layout), starts(&b.layout));
    let find = |what: &str, starts: &[usize], i: u32| {
        starts.get(i as usize).copied().ok_or_else(|| {
            let msg = format!("{what} index {i} is out of range for {} matrices", starts.len());
            Error::index("gather_mm", msg)
        })
    };
    let mut offsets = Vec::with_capacity(lhs.len());
    for (i, (&l, &r)) in lhs.iter().zip(rhs).enumerate() {
        let (a, b) = (find("left", &ofs_a, l)?, find("right", &ofs_b, r)?);
        offsets.push(Offsets { a, b, c: i * m * n });
    }
    // SAFETY: the caller's promise; the result holds one product for each pair.
    let (x, y, z) =
        unsafe { (a.buffer::<T>(), b.buffer::<T>(), raw::slice_mut::<T>(out, lhs.len() * m * n)) };
    let x = BatchRef { data: x, rows: m, cols: k, row_stride: ars, col_stride: acs };
    let y = BatchRef { data: y, rows: k, cols: n, row_stride: brs, col_stride: bcs };
    let z = BatchMut { data: z, rows: m, cols: n, row_stride: n };
    Ok(gemm::gemm_batched(1.0, x, y, 0.0, z, &offsets))
}

/// # Safety
/// As for [`product`].
unsafe fn segmented<T: Element>(
    a: &Arg,
    b: &Arg,
    limits: &[u32],
    out: DevMem,
) -> Result<Result<(), GemmError>> {
    let (((m, k), (ars, acs)), ((_, n), (brs, bcs))) = (matrix(&a.layout), matrix(&b.layout));
    // SAFETY: the caller's promise; the result holds one product for each pair of limits.
    let (x, y, z) =
        unsafe { (a.buffer::<T>(), b.buffer::<T>(), raw::slice_mut::<T>(out, limits.len() / 2 * m * n)) };
    for (i, limits) in limits.chunks_exact(2).enumerate() {
        let (from, to) = (limits[0] as usize, limits[1] as usize);
        if from.max(to) > k {
            let msg = format!("segment {i}, {from} to {to}, is out of range for an inner axis of {k}");
            return Err(Error::index("segmented_mm", msg));
        }
        let depth = to.saturating_sub(from);
        // An empty segment has no first element.
        let from = if depth == 0 { 0 } else { from };
        let at = |l: &Layout, stride: isize| (l.offset() as isize + from as isize * stride) as usize;
        let done = MatRef::new(x, at(&a.layout, acs), m, depth, ars, acs).and_then(|x| {
            let y = MatRef::new(y, at(&b.layout, brs), depth, n, brs, bcs)?;
            gemm::gemm(1.0, x, y, 0.0, MatMut::row_major(&mut z[i * m * n..(i + 1) * m * n], m, n)?)
        });
        if done.is_err() {
            return Ok(done);
        }
    }
    Ok(Ok(()))
}

/// # Safety
/// Called in the task of the launch that arguments and result belong to; `d` is their type.
unsafe fn integers(a: &Arg, b: &Arg, d: Dtype, out: DevMem) -> Result<()> {
    let (((m, k), (ars, acs)), ((_, n), (brs, bcs))) = (matrix(&a.layout), matrix(&b.layout));
    let batch: Vec<(usize, usize)> = starts(&a.layout).into_iter().zip(starts(&b.layout)).collect();
    let shape = intmm::Shape { m, k, n, a: (ars, acs), b: (brs, bcs) };
    macro_rules! run {
        ($T:ty) => {{
            // SAFETY: the caller's promise; wrapping products of signed and unsigned numbers have the same bits.
            let (x, y, z) = unsafe {
                (a.buffer::<$T>(), b.buffer::<$T>(), raw::slice_mut::<$T>(out, batch.len() * m * n))
            };
            intmm::multiply(&shape, x, y, &batch, z)
        }};
    }
    match d.size() {
        1 => run!(u8),
        2 => run!(u16),
        4 => run!(u32),
        _ => run!(u64),
    }
}
