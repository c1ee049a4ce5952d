//! Products of matrices.

use super::args::Arg;
use crate::gemm::{self, BatchMut, BatchRef, C64, Element, GemmError, MatMut, MatRef, Offsets};
use crate::raw;
use half::{bf16, f16};
use olivine_core::buffer::DevMem;
use olivine_core::eval::EvalCtx;
use olivine_core::queue::HostQueue;
use olivine_core::{Dtype, Error, Layout, Result};
use smallvec::SmallVec;
use std::sync::Arc;

pub(super) fn matmul(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>) -> Result<()> {
    let (a, b) = (Arg::of(&ctx.inputs[0]), Arg::of(&ctx.inputs[1]));
    let d = ctx.outs[0].dtype;
    let out = ctx.alloc(0)?;
    let sent = queue.send("matmul", move || {
        // SAFETY: the task of this launch; the types are those of the arguments.
        let done = unsafe {
            match d {
                Dtype::F32 => product::<f32>(&a, &b, out),
                Dtype::F64 => product::<f64>(&a, &b, out),
                Dtype::F16 => product::<f16>(&a, &b, out),
                Dtype::BF16 => product::<bf16>(&a, &b, out),
                Dtype::C64 => product::<C64>(&a, &b, out),
                Dtype::Bool
                | Dtype::U8
                | Dtype::U16
                | Dtype::U32
                | Dtype::U64
                | Dtype::I8
                | Dtype::I16
                | Dtype::I32
                | Dtype::I64 => return Err(Error::bad_dtype("matmul", "floats", d)),
            }
        };
        done.map_err(|e| Error::value("matmul", e.to_string()))
    })?;
    ctx.sent(sent);
    Ok(())
}

/// # Safety
/// Called in the task of the launch that arguments and result belong to; `T` is their type.
unsafe fn product<T: Element>(a: &Arg, b: &Arg, out: DevMem) -> Result<(), GemmError> {
    let (la, lb) = (&a.layout, &b.layout);
    let r = la.shape().rank();
    let lead = &la.shape()[..r - 2];
    let (m, k, n) = (la.shape()[r - 2], la.shape()[r - 1], lb.shape()[r - 1]);
    let batch: usize = lead.iter().product();
    // SAFETY: the caller's promise.
    let (x, y) = unsafe { (a.buffer::<T>(), b.buffer::<T>()) };
    // SAFETY: the caller's promise; the result holds `batch * m * n` elements.
    let z = unsafe { raw::slice_mut::<T>(out, batch * m * n) };
    let strides = |l: &Layout| (l.strides()[r - 2], l.strides()[r - 1]);
    let ((ars, acs), (brs, bcs)) = (strides(la), strides(lb));
    if batch == 1 {
        let x = MatRef::new(x, la.offset(), m, k, ars, acs)?;
        let y = MatRef::new(y, lb.offset(), k, n, brs, bcs)?;
        return gemm::gemm(1.0, x, y, 0.0, MatMut::row_major(z, m, n)?);
    }
    let mut offsets = Vec::with_capacity(batch);
    let mut at: SmallVec<[usize; 6]> = SmallVec::from_elem(0, lead.len());
    let (mut oa, mut ob) = (la.offset() as isize, lb.offset() as isize);
    for i in 0..batch {
        offsets.push(Offsets { a: oa as usize, b: ob as usize, c: i * m * n });
        for axis in (0..lead.len()).rev() {
            let (sa, sb) = (la.strides()[axis], lb.strides()[axis]);
            at[axis] += 1;
            (oa, ob) = (oa + sa, ob + sb);
            if at[axis] < lead[axis] {
                break;
            }
            (oa, ob) = (oa - sa * lead[axis] as isize, ob - sb * lead[axis] as isize);
            at[axis] = 0;
        }
    }
    let x = BatchRef { data: x, rows: m, cols: k, row_stride: ars, col_stride: acs };
    let y = BatchRef { data: y, rows: k, cols: n, row_stride: brs, col_stride: bcs };
    gemm::gemm_batched(1.0, x, y, 0.0, BatchMut { data: z, rows: m, cols: n, row_stride: n }, &offsets)
}
