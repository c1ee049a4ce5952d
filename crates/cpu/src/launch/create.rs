//! Ranges, and data that is read when it is first needed.

use crate::lanes::{Kernel, Lanes, dispatch};
use crate::{pool, raw};
use bytemuck::Pod;
use half::{bf16, f16};
use olivine_core::buffer::DevMem;
use olivine_core::eval::EvalCtx;
use olivine_core::op::SourceRef;
use olivine_core::queue::HostQueue;
use olivine_core::{Complex64, Dtype, Result, Scalar};
use smallvec::SmallVec;
use std::sync::Arc;

/// Elements that are worth a task of their own.
const GRAIN: usize = 1 << 15;

/// Elements `range` of a result, each made from its number.
struct Fill<'a, T, F> {
    out: &'a mut [T],
    start: usize,
    /// By value, so that nothing that is written can change what it holds.
    f: F,
}

impl<T: Pod, F: Fn(usize) -> T> Kernel for Fill<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, _s: S) {
        let Fill { out, start, f } = self;
        for (j, y) in out.iter_mut().enumerate() {
            *y = f(start + j);
        }
    }
}

fn fill<T: Pod + Send + Sync>(out: DevMem, n: usize, f: impl Fn(usize) -> T + Copy + Sync) {
    // SAFETY: called by the task of the launch that `out` is the result of.
    let out = raw::Ptr::new(unsafe { raw::slice_mut::<T>(out, n) }.as_mut_ptr().cast());
    pool::parallel_ranges(n, GRAIN, &|range| {
        // SAFETY: `range` is below `n`, and ranges are disjoint.
        let out =
            unsafe { std::slice::from_raw_parts_mut(out.get().cast::<T>().add(range.start), range.len()) };
        dispatch(Fill { out, start: range.start, f });
    });
}

/// `start + i * step`: integers wrap, floats are computed in `f64` and rounded once.
pub(super) fn arange(
    ctx: &mut EvalCtx<'_>,
    queue: &Arc<HostQueue>,
    start: Scalar,
    step: Scalar,
    len: usize,
) -> Result<()> {
    let out = ctx.alloc(0)?;
    let sent = queue.send("arange", move || {
        let (a, s) = (start.to_f64(), step.to_f64());
        let (ia, is) = (start.bits(), step.bits());
        // The low bytes of wrapping arithmetic do not depend on the width.
        let int = move |i: usize| ia.wrapping_add(is.wrapping_mul(i as u64));
        let real = move |i: usize| a + s * i as f64;
        match start.dtype() {
            Dtype::Bool => fill(out, len, move |i| (real(i) != 0.0) as u8),
            Dtype::U8 | Dtype::I8 => fill(out, len, move |i| int(i) as u8),
            Dtype::U16 | Dtype::I16 => fill(out, len, move |i| int(i) as u16),
            Dtype::U32 | Dtype::I32 => fill(out, len, move |i| int(i) as u32),
            Dtype::U64 | Dtype::I64 => fill(out, len, int),
            Dtype::F16 => fill(out, len, move |i| f16::from_f64(real(i))),
            Dtype::BF16 => fill(out, len, move |i| bf16::from_f64(real(i))),
            Dtype::F32 => fill(out, len, move |i| real(i) as f32),
            Dtype::F64 => fill(out, len, real),
            Dtype::C64 => fill(out, len, move |i| Complex64 { re: real(i) as f32, im: 0.0 }),
        }
        Ok(())
    })?;
    ctx.sent(sent);
    Ok(())
}

/// Whatever the source gives, read straight into the results' memory.
pub(super) fn load(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, source: SourceRef) -> Result<()> {
    let mut parts: SmallVec<[(DevMem, usize); 4]> = SmallVec::new();
    for i in 0..ctx.outs.len() {
        parts.push((ctx.alloc(i)?, ctx.outs[i].bytes()));
    }
    let sent = queue.send("load", move || {
        // SAFETY: the task of the launch that these are the results of; each has memory of its own.
        let mut outs: SmallVec<[&mut [u8]; 4]> =
            parts.iter().map(|&(mem, bytes)| unsafe { raw::slice_mut(mem, bytes) }).collect();
        source.0.read(&mut outs)
    })?;
    ctx.sent(sent);
    Ok(())
}
