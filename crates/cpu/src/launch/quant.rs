//! Packed weights.

use super::args::{Arg, Copies, floats_mut, refused};
use crate::kernels::quant::{self, Quantized};
use crate::raw;
use olivine_core::eval::EvalCtx;
use olivine_core::op::{Affine, Quant};
use olivine_core::queue::HostQueue;
use olivine_core::{Result, Shape};
use std::sync::Arc;

/// The parts of a packed matrix.
struct Packed {
    words: Arg,
    scales: Arg,
    biases: Arg,
    spec: Affine,
}

impl Packed {
    /// Rows of all matrices together, and columns.
    fn extent(&self) -> (usize, usize) {
        let (groups, lead) = self.scales.layout.shape().split_last().unwrap_or((&0, &[]));
        (lead.iter().product(), groups * self.spec.group)
    }

    /// Rows `start..start + rows` of all matrices.
    ///
    /// # Safety
    /// Called in a task of the launch; the parts lie row-major.
    unsafe fn rows<'a>(&self, start: usize, rows: usize) -> Result<Quantized<'a>> {
        let (_, cols) = self.extent();
        let (bits, group) = (self.spec.bits as usize, self.spec.group);
        let (w, g) = (cols * bits / 32, cols / group);
        let part = |a: &Arg, width: usize| {
            let shape = Shape::new(&[rows, width]);
            let mut p = a.clone();
            // A window of the rows, inside the matrix by `check_packed` of the operation.
            let dense = olivine_core::Layout::strided(
                shape,
                &[width as isize, 1],
                a.layout.offset() + start * width,
                a.mem.bytes / a.dtype.size(),
            );
            if let Some(l) = dense {
                p.layout = l;
            }
            p
        };
        // SAFETY: the caller's promise.
        unsafe {
            Ok(Quantized {
                words: part(&self.words, w).dense(),
                scales: part(&self.scales, g).floats()?,
                biases: part(&self.biases, g).floats()?,
                rows,
                cols,
                group,
                bits,
            })
        }
    }
}

fn packed(
    ctx: &EvalCtx<'_>,
    queue: &Arc<HostQueue>,
    copies: &mut Copies,
    first: usize,
    spec: Affine,
) -> Result<Packed> {
    Ok(Packed {
        words: copies.dense(ctx, queue, first)?,
        scales: copies.dense(ctx, queue, first + 1)?,
        biases: copies.dense(ctx, queue, first + 2)?,
        spec,
    })
}

pub(super) fn quant(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: Quant) -> Result<()> {
    let mut copies = Copies::default();
    let sent = match op {
        Quant::Quantize(spec) => {
            let x = copies.dense(ctx, queue, 0)?;
            let (words, scales, biases) = (ctx.alloc(0)?, ctx.alloc(1)?, ctx.alloc(2)?);
            let (n, groups) = (ctx.outs[0].elements(), ctx.outs[1].elements());
            let cols = x.layout.shape().last().copied().unwrap_or(0);
            queue.send("quantize", move || {
                // SAFETY: the task of this launch; the argument lies row-major, results have these sizes.
                unsafe {
                    let (x, words) = (x.floats()?, (raw::slice_mut(words, n), x.dtype));
                    let (s, b) = (floats_mut(scales, words.1, groups)?, floats_mut(biases, words.1, groups)?);
                    quant::quantize(x, cols, spec.group, spec.bits as usize, words.0, s, b).map_err(refused)
                }
            })?
        }
        Quant::Dequantize { spec, dtype } => {
            let w = packed(ctx, queue, &mut copies, 0, spec)?;
            let (out, n) = (ctx.alloc(0)?, ctx.outs[0].elements());
            queue.send("dequantize", move || {
                // SAFETY: the task of this launch; the parts lie row-major.
                unsafe {
                    let rows = w.extent().0;
                    quant::dequantize(&w.rows(0, rows)?, floats_mut(out, dtype, n)?).map_err(refused)
                }
            })?
        }
        Quant::Matmul { spec, transpose } => {
            let x = copies.dense(ctx, queue, 0)?;
            let w = packed(ctx, queue, &mut copies, 1, spec)?;
            let out = ctx.alloc(0)?;
            let n = ctx.outs[0].elements();
            queue.send("quantized_matmul", move || {
                let shape = x.layout.shape();
                let (all, cols) = w.extent();
                let packed = w.scales.layout.shape();
                let rows = packed[packed.rank() - 2];
                let inner = shape[shape.rank() - 1];
                // One matrix for all rows of x, or one for each matrix of x.
                let batch = if packed.rank() == 2 { 1 } else { all / rows.max(1) };
                let per = shape.elements() / batch.max(1);
                let (m, outer) = (per / inner.max(1), if transpose { rows } else { cols });
                for i in 0..batch {
                    let part = |a: &Arg, at: usize, len: usize| {
                        let mut p = a.clone();
                        let whole = a.mem.bytes / a.dtype.size();
                        let l = olivine_core::Layout::strided(Shape::new(&[len]), &[1], at, whole);
                        if let Some(l) = l {
                            p.layout = l;
                        }
                        p
                    };
                    let xs = part(&x, x.layout.offset() + i * per, per);
                    let (size, len) = (x.dtype.size(), m * outer);
                    let mut ys = out;
                    ys.ptr += (i * len * size) as u64;
                    ys.bytes = (n - i * len) * size;
                    // SAFETY: the task of this launch; argument and weights lie row-major, and the `batch` parts
                    // of the result have `len` elements each.
                    unsafe {
                        let y = floats_mut(ys, x.dtype, len)?;
                        quant::quantized_matmul(xs.floats()?, &w.rows(i * rows, rows)?, m, transpose, y)
                            .map_err(refused)?;
                    }
                }
                Ok(())
            })?
        }
    };
    ctx.sent(sent);
    Ok(())
}
