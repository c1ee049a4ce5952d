//! Packed weights.

use super::calls;
use crate::args::Args;
use olivine_core::op::Packing;
use olivine_core::ops::PackedArray;
use olivine_core::{Array, Dtype, Error, Result};

/// The packing that mode, group size and bits say.
fn packing(a: &Args, usual: &'static str) -> Result<Packing> {
    let mut modes = vec!["affine", "mxfp4", "mxfp8", "nvfp4"];
    modes.retain(|m| *m != usual);
    modes.insert(0, usual);
    let mode = a.choice("mode", &modes)?;
    let bits = match a.opt_size("bits")? {
        None => None,
        Some(b) => Some(u8::try_from(b).map_err(|_| Error::value(a.op(), format!("{b} bits")))?),
    };
    Packing::named(a.op(), &mode, a.opt_size("group_size")?, bits)
}

/// The packed matrix whose words are argument `i`.
fn packed(a: &Args, i: usize) -> Result<PackedArray> {
    let (words, scales, biases) = (a.array(i)?, a.array("scales")?, a.opt_array("biases")?);
    PackedArray::new(&words, &scales, biases.as_ref(), packing(a, "affine")?)
}

/// The second argument, packed if it is not.
fn second(a: &Args) -> Result<PackedArray> {
    let (w, packing, global) = (a.array(1)?, packing(a, "nvfp4")?, a.opt_array("global_scale_w")?);
    match a.opt_array("scales")? {
        Some(scales) => PackedArray::new(&w, &scales, None, packing),
        None => w.pack(packing, global.as_ref()),
    }
}

calls! { "quant";
    "quantize" => |a| {
        let p = a.array(0)?.pack(packing(a, "affine")?, a.opt_array("global_scale")?.as_ref())?;
        let parts: Vec<Array> = [p.words, p.scales].into_iter().chain(p.biases).collect();
        Ok::<_, Error>(parts)
    };
    "dequantize" => |a| packed(a, 0)?.unpack(a.opt_dtype("dtype")?, a.opt_array("global_scale")?.as_ref());
    "quantized_matmul" => |a| {
        // In the order of positions: one that was passed over counts as given.
        let x = a.array(0)?;
        packed(a, 1)?.matmul(&x, a.bool_or("transpose", true)?)
    };
    "gather_qmm" => |a| {
        let (lhs, rhs) = (a.opt_array("lhs_indices")?, a.opt_array("rhs_indices")?);
        let x = a.array(0)?;
        packed(a, 1)?.gather_matmul(&x, lhs.as_ref(), rhs.as_ref(), a.bool_or("transpose", true)?)
    };
    "qqmm" => |a| {
        let (g, gw) = (a.opt_array("global_scale_x")?, a.opt_array("global_scale_w")?);
        a.array(0)?.qqmm(&second(a)?, g.as_ref(), gw.as_ref())
    };
    "gather_qqmm" => |a| {
        let (lhs, rhs) = (a.opt_array("lhs_indices")?, a.opt_array("rhs_indices")?);
        let (g, gw) = (a.opt_array("global_scale_x")?, a.opt_array("global_scale_w")?);
        a.array(0)?.gather_qqmm(&second(a)?, lhs.as_ref(), rhs.as_ref(), g.as_ref(), gw.as_ref())
    };
    "to_fp8" => |a| a.array(0)?.to_fp8();
    "from_fp8" => |a| a.array(0)?.from_fp8(a.dtype_or("dtype", Dtype::BF16)?);
}
