//! Convolutions, Fourier and Hadamard transforms, factorizations.

use super::args::{Arg, Copies};
use crate::gemm::C64;
use crate::kernels::{conv, fft, hadamard, linalg};
use crate::raw;
use half::{bf16, f16};
use olivine_core::buffer::DevMem;
use olivine_core::eval::EvalCtx;
use olivine_core::op::{Conv, Fft, Hadamard, Linalg};
use olivine_core::queue::HostQueue;
use olivine_core::{Dtype, Error, Meta, Result, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

pub(super) fn conv(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: &Conv) -> Result<()> {
    let mut copies = Copies::default();
    let (x, w) = (copies.dense(ctx, queue, 0)?, copies.dense(ctx, queue, 1)?);
    let (out, shape, op) = (ctx.alloc(0)?, ctx.outs[0].shape.clone(), op.clone());
    let sent = queue.send("conv", move || {
        // SAFETY: the task of this launch; arguments lie row-major, and the type is that of all three.
        unsafe {
            match x.dtype {
                Dtype::F32 => convolve::<f32>(&op, &x, &w, out, &shape),
                Dtype::F64 => convolve::<f64>(&op, &x, &w, out, &shape),
                Dtype::F16 => convolve::<f16>(&op, &x, &w, out, &shape),
                Dtype::BF16 => convolve::<bf16>(&op, &x, &w, out, &shape),
                Dtype::C64 => convolve::<C64>(&op, &x, &w, out, &shape),
                Dtype::Bool
                | Dtype::U8
                | Dtype::U16
                | Dtype::U32
                | Dtype::U64
                | Dtype::I8
                | Dtype::I16
                | Dtype::I32
                | Dtype::I64 => Err(Error::bad_dtype("conv", "floats", x.dtype)),
            }
        }
    })?;
    ctx.sent(sent);
    Ok(())
}

/// # Safety
/// Called in the task of the launch that arguments and result belong to; arguments lie row-major, and `T` is
/// their type.
unsafe fn convolve<T: conv::Number>(op: &Conv, x: &Arg, w: &Arg, out: DevMem, shape: &Shape) -> Result<()> {
    // SAFETY: the caller's promise.
    let (xs, ws, y) = unsafe { (x.dense::<T>(), w.dense::<T>(), raw::slice_mut(out, shape.elements())) };
    conv::conv(op, (xs, x.layout.shape()), (ws, w.layout.shape()), (y, shape))
}

pub(super) fn fft(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: Fft) -> Result<()> {
    let mut copies = Copies::default();
    let x = copies.dense(ctx, queue, 0)?;
    let (out, meta) = (ctx.alloc(0)?, ctx.outs[0].clone());
    let sent = queue.send(ctx.op.name(), move || {
        // SAFETY: the task of this launch; the argument lies row-major.
        let (bytes, y) = unsafe { (dense_bytes(&x), raw::slice_mut::<u8>(out, meta.bytes())) };
        fft::run(&op, bytes, x.dtype, x.layout.shape(), y)
    })?;
    ctx.sent(sent);
    Ok(())
}

/// # Safety
/// As for [`Arg::dense`].
unsafe fn dense_bytes<'a>(a: &Arg) -> &'a [u8] {
    let size = a.dtype.size();
    // SAFETY: the layout lies inside the memory.
    unsafe { raw::slice(a.mem, a.layout.offset() * size, a.layout.elements() * size) }
}

pub(super) fn hadamard(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: Hadamard) -> Result<()> {
    let mut copies = Copies::default();
    let x = copies.dense(ctx, queue, 0)?;
    let (out, n) = (ctx.alloc(0)?, ctx.outs[0].elements());
    let sent = queue.send("hadamard_transform", move || {
        let len = x.layout.shape().last().copied().unwrap_or(1);
        let scale = f32::from_bits(op.scale);
        // SAFETY: the task of this launch; the argument lies row-major, and the result is of its type and size.
        unsafe {
            match x.dtype {
                Dtype::F32 => hadamard::rows::<f32>(x.dense(), len, scale, raw::slice_mut(out, n)),
                Dtype::F64 => hadamard::rows::<f64>(x.dense(), len, scale, raw::slice_mut(out, n)),
                Dtype::F16 => hadamard::rows::<f16>(x.dense(), len, scale, raw::slice_mut(out, n)),
                Dtype::BF16 => hadamard::rows::<bf16>(x.dense(), len, scale, raw::slice_mut(out, n)),
                Dtype::Bool
                | Dtype::U8
                | Dtype::U16
                | Dtype::U32
                | Dtype::U64
                | Dtype::I8
                | Dtype::I16
                | Dtype::I32
                | Dtype::I64
                | Dtype::C64 => Err(Error::bad_dtype("hadamard_transform", "real floats", x.dtype)),
            }
        }
    })?;
    ctx.sent(sent);
    Ok(())
}

pub(super) fn linalg(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: Linalg) -> Result<()> {
    let mut copies = Copies::default();
    let args: SmallVec<[Arg; 2]> =
        (0..ctx.inputs.len()).map(|k| copies.dense(ctx, queue, k)).collect::<Result<_>>()?;
    let metas: SmallVec<[Meta; 3]> = ctx.outs.iter().cloned().collect();
    let outs: SmallVec<[DevMem; 3]> = (0..metas.len()).map(|i| ctx.alloc(i)).collect::<Result<_>>()?;
    let sent = queue.send(ctx.op.name(), move || {
        // SAFETY: the task of this launch; arguments lie row-major.
        let inputs: SmallVec<[&[u8]; 2]> = args.iter().map(|a| unsafe { dense_bytes(a) }).collect();
        let mut results: SmallVec<[&mut [u8]; 3]> = SmallVec::new();
        for (&mem, meta) in outs.iter().zip(&metas) {
            // SAFETY: the task of this launch; results are different pieces of memory of these sizes.
            results.push(unsafe { raw::slice_mut::<u8>(mem, meta.bytes()) });
        }
        let last = args.last().map(|a| a.layout.shape().clone()).unwrap_or_default();
        linalg::run(op, args[0].dtype, args[0].layout.shape(), &last, &inputs, &mut results)
    })?;
    ctx.sent(sent);
    Ok(())
}
