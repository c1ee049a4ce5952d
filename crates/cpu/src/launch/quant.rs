//! Packed weights.

use super::args::{Arg, Copies, floats_mut, refused};
use crate::kernels::quant::{self, Format, Quantized, Scales};
use crate::kernels::{Floats, FloatsMut};
use crate::raw;
use olivine_core::buffer::DevMem;
use olivine_core::eval::EvalCtx;
use olivine_core::op::{Packing, Quant};
use olivine_core::queue::HostQueue;
use olivine_core::{Error, Result, Shape};
use std::sync::Arc;

/// The parts of a packed matrix.
struct Packed {
    words: Arg,
    scales: Arg,
    /// Where the packing has them.
    biases: Option<Arg>,
    packing: Packing,
}

impl Packed {
    /// Rows of all matrices together, and columns.
    fn extent(&self) -> (usize, usize) {
        let (groups, lead) = self.scales.layout.shape().split_last().unwrap_or((&0, &[]));
        (lead.iter().product(), groups * self.packing.group())
    }

    /// Rows `start..start + rows` of all matrices.
    ///
    /// # Safety
    /// Called in a task of the launch; the parts lie row-major.
    unsafe fn rows<'a>(&self, start: usize, rows: usize) -> Result<Quantized<'a>> {
        let (_, cols) = self.extent();
        let (bits, group) = (self.packing.bits() as usize, self.packing.group());
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
            let scales = match (self.packing, &self.biases) {
                (Packing::Affine(_), Some(biases)) => Scales::Affine {
                    scales: part(&self.scales, g).floats()?,
                    biases: part(biases, g).floats()?,
                },
                (Packing::Affine(_), None) => return Err(Error::value("quantized_matmul", "no biases")),
                (Packing::Mxfp4 | Packing::Mxfp8, _) => Scales::E8m0(part(&self.scales, g).dense()),
                (Packing::Nvfp4, _) => Scales::E4m3(part(&self.scales, g).dense()),
            };
            Ok(Quantized { words: part(&self.words, w).dense(), scales, rows, cols, group, bits })
        }
    }
}

fn packed(
    ctx: &EvalCtx<'_>,
    queue: &Arc<HostQueue>,
    copies: &mut Copies,
    first: usize,
    packing: Packing,
) -> Result<Packed> {
    Ok(Packed {
        words: copies.dense(ctx, queue, first)?,
        scales: copies.dense(ctx, queue, first + 1)?,
        biases: packing.has_biases().then(|| copies.dense(ctx, queue, first + 2)).transpose()?,
        packing,
    })
}

pub(super) fn quant(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: Quant) -> Result<()> {
    let mut copies = Copies::default();
    let sent = match op {
        Quant::Quantize(Packing::Affine(spec)) => {
            let x = copies.dense(ctx, queue, 0)?;
            let (words, scales, biases) = (ctx.alloc(0)?, ctx.alloc(1)?, ctx.alloc(2)?);
            let (n, groups) = (ctx.outs[0].elements(), ctx.outs[1].elements());
            let cols = x.layout.shape().last().copied().unwrap_or(0);
            queue.send("quantize", move || {
                // SAFETY: the task of this launch; the argument lies row-major, results have these sizes.
                unsafe {
                    let (x, words) = (x.floats()?, (raw::slice_mut(words, n), x.dtype));
                    let (s, b) = (floats_mut(scales, words.1, groups)?, floats_mut(biases, words.1, groups)?);
                    if n == 0 {
                        return Ok(());
                    }
                    quant::quantize(x, cols, spec.group, spec.bits as usize, words.0, s, b).map_err(refused)
                }
            })?
        }
        Quant::Quantize(packing) => {
            let x = copies.dense(ctx, queue, 0)?;
            let global = if ctx.inputs.len() > 1 { Some(copies.dense(ctx, queue, 1)?) } else { None };
            let (words, scales) = (ctx.alloc(0)?, ctx.alloc(1)?);
            let (n, groups) = (ctx.outs[0].elements(), ctx.outs[1].elements());
            let cols = x.layout.shape().last().copied().unwrap_or(0);
            queue.send("quantize", move || {
                if n == 0 {
                    return Ok(());
                }
                // SAFETY: the task of this launch; arguments lie row-major, results have these sizes.
                unsafe {
                    let format = match packing {
                        Packing::Mxfp4 => Format::Mxfp4,
                        Packing::Mxfp8 => Format::Mxfp8,
                        Packing::Nvfp4 | Packing::Affine(_) => Format::Nvfp4 {
                            global: global.as_ref().and_then(|g| g.dense::<f32>().first().copied()),
                        },
                    };
                    let (words, scales) = (raw::slice_mut(words, n), raw::slice_mut(scales, groups));
                    quant::quantize_floats(x.floats()?, cols, packing.group(), format, words, scales)
                        .map_err(refused)
                }
            })?
        }
        Quant::Dequantize { packing, dtype } => {
            let w = packed(ctx, queue, &mut copies, 0, packing)?;
            let (out, n) = (ctx.alloc(0)?, ctx.outs[0].elements());
            queue.send("dequantize", move || {
                // SAFETY: the task of this launch; the parts lie row-major.
                unsafe {
                    let rows = w.extent().0;
                    quant::dequantize(&w.rows(0, rows)?, floats_mut(out, dtype, n)?).map_err(refused)
                }
            })?
        }
        Quant::Matmul { packing, transpose } => {
            let x = copies.dense(ctx, queue, 0)?;
            let w = packed(ctx, queue, &mut copies, 1, packing)?;
            let out = ctx.alloc(0)?;
            let n = ctx.outs[0].elements();
            queue.send("quantized_matmul", move || {
                let shape = x.layout.shape();
                let cols = w.extent().1;
                let packed = w.scales.layout.shape();
                let rows = packed[packed.rank() - 2];
                let inner = shape[shape.rank() - 1];
                // One matrix for all rows of x, or one for each matrix of x.
                let batch: usize = packed[..packed.rank() - 2].iter().product();
                let per = shape.elements() / batch.max(1);
                let outer = if transpose { rows } else { cols };
                if n == 0 {
                    return Ok(());
                }
                // Rows of x, of which there are some also where they have no elements.
                let m = per.checked_div(inner).unwrap_or_else(|| n / batch.max(1) / outer);
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
        Quant::GatherMatmul { packing, transpose } => {
            let x = copies.dense(ctx, queue, 0)?;
            let w = packed(ctx, queue, &mut copies, 1, packing)?;
            let at = 1 + packing.parts();
            let (lhs, rhs) = (copies.dense(ctx, queue, at)?, copies.dense(ctx, queue, at + 1)?);
            let out = ctx.alloc(0)?;
            queue.send("gather_qmm", move || {
                // SAFETY: the task of this launch; arguments lie row-major.
                unsafe { gather(&x, &w, (lhs.dense(), rhs.dense()), transpose, out) }
            })?
        }
    };
    ctx.sent(sent);
    Ok(())
}

/// Products of pairs of matrices. Rows of `x` that meet the same weights are brought together, so that these
/// are unpacked once.
///
/// # Safety
/// Called in the task of the launch; arguments lie row-major; the result holds one product for each pair.
unsafe fn gather(
    x: &Arg,
    w: &Packed,
    (lhs, rhs): (&[u32], &[u32]),
    transpose: bool,
    out: DevMem,
) -> Result<()> {
    const OP: &str = "gather_qmm";
    let (xs, ws) = (x.layout.shape(), w.scales.layout.shape());
    let (m, inner) = (xs[xs.rank() - 2], xs[xs.rank() - 1]);
    let (all, cols) = w.extent();
    let rows = ws[ws.rank() - 2];
    let outer = if transpose { rows } else { cols };
    let counts: (usize, usize) = (xs[..xs.rank() - 2].iter().product(), ws[..ws.rank() - 2].iter().product());
    debug_assert_eq!(all, counts.1 * rows);
    for (what, indices, n) in [("left", lhs, counts.0), ("right", rhs, counts.1)] {
        if let Some(i) = indices.iter().find(|&&i| i as usize >= n) {
            let msg = format!("{what} index {i} is out of range for {n} matrices");
            return Err(Error::index(OP, msg));
        }
    }
    if m == 0 || outer == 0 {
        return Ok(());
    }
    let mut order: Vec<usize> = (0..rhs.len()).collect();
    if !rhs.is_sorted() {
        order.sort_by_key(|&i| rhs[i]);
    }
    let sizes = (m, inner, outer, rows);
    // SAFETY: the caller's promise.
    unsafe {
        match x.floats()? {
            Floats::F32(x) => runs(x, w, &order, (lhs, rhs), sizes, transpose, out),
            Floats::F16(x) => runs(x, w, &order, (lhs, rhs), sizes, transpose, out),
            Floats::Bf16(x) => runs(x, w, &order, (lhs, rhs), sizes, transpose, out),
        }
    }
}

/// # Safety
/// As for [`gather`], which has checked the indices; `T` is the type of `x`.
unsafe fn runs<T: Copy + Default>(
    x: &[T],
    w: &Packed,
    order: &[usize],
    (lhs, rhs): (&[u32], &[u32]),
    (m, inner, outer, rows): (usize, usize, usize, usize),
    transpose: bool,
    out: DevMem,
) -> Result<()>
where
    for<'a> Floats<'a>: From<&'a [T]>,
    for<'a> FloatsMut<'a>: From<&'a mut [T]>,
{
    // SAFETY: the caller's promise.
    let y = unsafe { raw::slice_mut::<T>(out, lhs.len() * m * outer) };
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for run in order.chunk_by(|&a, &b| rhs[a] == rhs[b]) {
        from.clear();
        for &i in run {
            let at = lhs[i] as usize * m * inner;
            from.extend_from_slice(&x[at..at + m * inner]);
        }
        to.clear();
        to.resize(run.len() * m * outer, T::default());
        // SAFETY: the caller's promise.
        let matrix = unsafe { w.rows(rhs[run[0]] as usize * rows, rows)? };
        quant::quantized_matmul(
            from.as_slice().into(),
            &matrix,
            run.len() * m,
            transpose,
            to.as_mut_slice().into(),
        )
        .map_err(refused)?;
        for (&i, part) in run.iter().zip(to.chunks_exact(m * outer)) {
            y[i * m * outer..(i + 1) * m * outer].copy_from_slice(part);
        }
    }
    Ok(())
}
