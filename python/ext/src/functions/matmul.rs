//! Products: of matrices, of packed matrices, contractions.

use crate::args::{self, Args};
use crate::fault::{R, type_error, value_error};
use crate::function::table;
use crate::give::Several;
use olivine_core::Array;
use olivine_core::op::Packing;
use olivine_core::ops::{
    PackedArray, einsum, einsum_path, inner, kron, outer, tensordot, tensordot_last, vecdot,
};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// The packing that mode, group size and bits say.
fn packing(a: &Args<'_, '_>, usual: &str) -> R<Packing> {
    let bits = match a.opt_size("bits")? {
        None => None,
        Some(b) => Some(u8::try_from(b).map_err(|_| value_error(format!("[{}] {b} bits", a.op())))?),
    };
    Ok(Packing::named("quantize", &a.str_or("mode", usual)?, a.opt_size("group_size")?, bits)?)
}

/// The packed matrix whose words are argument `i`.
fn packed(a: &Args<'_, '_>, i: usize) -> R<PackedArray> {
    let (words, scales, biases) = (a.array(i)?, a.array("scales")?, a.opt_array("biases")?);
    Ok(PackedArray::new(&words, &scales, biases.as_ref(), packing(a, "affine")?)?)
}

/// The second argument, packed if it is not.
fn second(a: &Args<'_, '_>) -> R<PackedArray> {
    let (w, packing, global) = (a.array(1)?, packing(a, "nvfp4")?, a.opt_array("global_scale_w")?);
    Ok(match a.opt_array("scales")? {
        Some(scales) => PackedArray::new(&w, &scales, None, packing)?,
        None => w.pack(packing, global.as_ref())?,
    })
}

fn quantize(a: &Args<'_, '_>) -> R<Several> {
    let p = a.array(0)?.pack(packing(a, "affine")?, a.opt_array("global_scale")?.as_ref())?;
    Ok(Several([p.words, p.scales].into_iter().chain(p.biases).collect()))
}

fn dots(a: &Args<'_, '_>) -> R<Array> {
    let (x, y) = (a.array(0)?, a.array(1)?);
    let Some(v) = a.opt("axes") else { return Ok(tensordot_last(&x, &y, 2)?) };
    if !args::is_list(v) {
        return Ok(tensordot_last(&x, &y, a.size("axes")?)?);
    }
    let lists: Vec<Bound<'_, PyAny>> = v.try_iter()?.collect::<PyResult<_>>()?;
    let [first, second] = &lists[..] else {
        return Err(value_error("[tensordot] axes are a number, or two lists of axes"));
    };
    let ints = |v: &Bound<'_, PyAny>| -> R<Vec<i32>> {
        match args::integer(v)? {
            Some(i) => Ok(vec![i as i32]),
            None => {
                v.extract().map_err(|_| type_error("[tensordot] axes are a number, or two lists of axes"))
            }
        }
    };
    Ok(tensordot(&x, &y, &ints(first)?, &ints(second)?)?)
}

fn path(a: &Args<'_, '_>) -> R<Py<PyAny>> {
    let p = einsum_path(&a.str("subscripts")?, &a.rest_arrays()?)?;
    let steps = p.steps.iter().map(|s| PyTuple::new(a.py, s)).collect::<PyResult<Vec<_>>>()?;
    let text = p.to_string();
    Ok(PyTuple::new(a.py, [PyList::new(a.py, steps)?.into_any(), text.into_pyobject(a.py)?.into_any()])?
        .into_any()
        .unbind())
}

table! {
    /// Products.
    TABLE;
    "matmul" => |a| a.array(0)?.matmul(&a.array(1)?);
    "addmm" => |a| {
        let (alpha, beta) = (a.f32_or("alpha", 1.0)?, a.f32_or("beta", 1.0)?);
        a.array(0)?.addmm(&a.array(1)?, &a.array(2)?, alpha, beta)
    };
    "gather_mm" => |a| {
        let (lhs, rhs) = (a.opt_array("lhs_indices")?, a.opt_array("rhs_indices")?);
        let sorted = a.bool_or("sorted_indices", false)?;
        a.array(0)?.gather_mm(&a.array(1)?, lhs.as_ref(), rhs.as_ref(), sorted)
    };
    "block_masked_mm" => |a| {
        let (out, lhs) = (a.opt_array("mask_out")?, a.opt_array("mask_lhs")?);
        let (rhs, block) = (a.opt_array("mask_rhs")?, a.size_or("block_size", 64)?);
        a.array(0)?.block_masked_mm(&a.array(1)?, block, out.as_ref(), lhs.as_ref(), rhs.as_ref())
    };
    "segmented_mm" => |a| a.array(0)?.segmented_mm(&a.array(1)?, &a.array("segments")?);
    "quantize" => |a| quantize(a);
    "dequantize" => |a| packed(a, 0)?.unpack(a.opt_dtype("dtype")?, a.opt_array("global_scale")?.as_ref());
    "quantized_matmul" => |a| packed(a, 1)?.matmul(&a.array(0)?, a.bool_or("transpose", true)?);
    "gather_qmm" => |a| {
        let (lhs, rhs) = (a.opt_array("lhs_indices")?, a.opt_array("rhs_indices")?);
        let transpose = a.bool_or("transpose", true)?;
        packed(a, 1)?.gather_matmul(&a.array(0)?, lhs.as_ref(), rhs.as_ref(), transpose)
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
    "einsum" => |a| einsum(&a.str("subscripts")?, &a.rest_arrays()?);
    "einsum_path" => |a| path(a);
    "tensordot" => |a| dots(a);
    "inner" => |a| a.pair().map(|(x, y)| inner(&x, &y))?;
    "outer" => |a| a.pair().map(|(x, y)| outer(&x, &y))?;
    "vecdot" => |a| {
        let axis = a.axis_or("axis", -1)?;
        a.pair().map(|(x, y)| vecdot(&x, &y, axis))?
    };
    "kron" => |a| a.pair().map(|(x, y)| kron(&x, &y))?;
    "hadamard_transform" => |a| a.array(0)?.hadamard_transform(a.opt_f64("scale")?.map(|s| s as f32));
}
