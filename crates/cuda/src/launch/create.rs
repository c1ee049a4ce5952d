//! Ranges and random bits.

use super::elementwise::merge;
use super::{Args, Launch, MAX_AXES, blocks, operand};
use crate::kernels::{File, Kernel};
use olivine_core::eval::EvalCtx;
use olivine_core::{Dtype, Error, Result, Scalar};

pub(super) fn arange(
    ctx: &mut EvalCtx<'_>,
    l: &Launch<'_>,
    start: Scalar,
    step: Scalar,
    len: usize,
) -> Result<()> {
    let (d, out) = (start.dtype(), ctx.alloc(0)?);
    let whole = d.is_integer();
    let make = match d {
        Dtype::F16 => "put<f16>(before_half(v))",
        Dtype::BF16 => "put<bf16>(before_half(v))",
        Dtype::Bool => "put<b8>(v != 0.0)",
        Dtype::C64 => "To<c64>::f(v)",
        Dtype::F32 => "(f32)v",
        Dtype::F64
        | Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64 => "v",
    };
    let kernel = Kernel::new(File::Create, "arange").set("OUT", d).set("WHOLE", whole).set("MAKE(v)", make);
    let word = |s: Scalar| if whole { s.bits() } else { s.to_f64().to_bits() };
    let mut args = Args::default();
    args.u64(out.ptr).size(len).u64(word(start)).u64(word(step));
    l.run(l.kernel(kernel)?, [blocks(l, len, 256)?, 1, 1], [256, 1], 0, args)
}

pub(super) fn bits(ctx: &mut EvalCtx<'_>, l: &Launch<'_>, width: u8) -> Result<()> {
    let keys = operand(&ctx.inputs[0]);
    let shape = ctx.inputs[0].view.layout.shape().clone();
    let lead = shape.rank() - 1;
    let m = merge(&shape[..lead], &[&keys.strides[..lead]]);
    let count: usize = m.sizes.iter().product();
    if m.sizes.len() > MAX_AXES {
        return Err(Error::shape(
            l.op,
            format!("keys of shape {shape} have too many axes that do not merge"),
        ));
    }
    let each = ctx.outs[0].elements() / count * usize::from(width);
    let out = ctx.alloc(0)?;
    let counters = each.div_ceil(4).div_ceil(2);
    let mut args = Args::default();
    args.u64(keys.at).axes(&m.sizes, &m.strides[0]).i64(keys.strides[lead] as i64);
    args.u64(out.ptr).size(each).size(count);
    let grid = [blocks(l, counters, 256)?, count.min(32_768) as u32, 1];
    l.run(l.kernel(Kernel::new(File::Random, "bits"))?, grid, [256, 1], 0, args)
}
