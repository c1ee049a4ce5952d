//! Fused operations and kernels from source: `olivine.core.fast`.

use crate::args::Args;
use crate::device;
use crate::fault::{Fault, R, value_error};
use crate::function::table;
use olivine_core::ops::Mask;
use olivine_core::{Array, fast};
use pyo3::prelude::*;
use pyo3::types::PyString;

fn rope(a: &Args<'_, '_>) -> R<Array> {
    let (dims, traditional) = (a.size("dims")?, a.bool_or("traditional", false)?);
    let (base, scale) = (a.opt_f64("base")?.map(|b| b as f32), a.f32_or("scale", 1.0)?);
    let (offset, freqs) = (a.array("offset")?, a.opt_array("freqs")?);
    Ok(fast::rope(&a.array(0)?, dims, traditional, base, scale, &offset, freqs.as_ref())?)
}

fn attention(a: &Args<'_, '_>) -> R<Array> {
    let mask = match a.opt("mask") {
        None => Mask::None,
        Some(v) if v.is_instance_of::<PyString>() => match a.str("mask")?.as_str() {
            "causal" => Mask::Causal,
            "" => Mask::None,
            other => {
                return Err(value_error(format!(
                    "[scaled_dot_product_attention] {other:?} is no mask: 'causal' is"
                )));
            }
        },
        Some(_) => Mask::Array(a.strict_array("mask")?),
    };
    let (q, k, v) = (a.array(0)?, a.array(1)?, a.array(2)?);
    let (scale, sinks) = (a.f32_or("scale", 1.0)?, a.opt_array("sinks")?);
    Ok(fast::scaled_dot_product_attention(&q, &k, &v, scale, &mask, sinks.as_ref())?)
}

fn gated(a: &Args<'_, '_>) -> R<Vec<Array>> {
    let (q, k, v, gamma, beta) = (a.array(0)?, a.array(1)?, a.array(2)?, a.array(3)?, a.array(4)?);
    let (state, mask) = (a.opt_array("initial_state")?, a.opt_array("mask")?);
    let (out, state) = fast::gated_delta_update(&q, &k, &v, &gamma, &beta, state.as_ref(), mask.as_ref())?;
    Ok(vec![out, state])
}

fn no_kernel(op: &'static str, what: &str) -> R<Py<PyAny>> {
    Err::<_, Fault>(device::missing(op, what))
}

table! {
    /// Functions of `fast`.
    TABLE;
    "rms_norm" => |a| a.array(0)?.rms_norm(a.opt_array("weight")?.as_ref(), a.f32_or("eps", 1e-5)?);
    "layer_norm" => |a| {
        let (w, b) = (a.opt_array("weight")?, a.opt_array("bias")?);
        a.array(0)?.layer_norm(w.as_ref(), b.as_ref(), a.f32_or("eps", 1e-5)?)
    };
    "rope" => |a| rope(a);
    "scaled_dot_product_attention" => |a| attention(a);
    "cross_entropy" => |a| fast::cross_entropy(&a.array(0)?, &a.array(1)?);
    "gated_delta_update" => |a| gated(a);
    "metal_kernel" => |_a| no_kernel("metal_kernel", "kernels in Metal's language need a Metal device");
    "cuda_kernel" => |_a| no_kernel("cuda_kernel", "kernels in CUDA C++ are not supported yet");
    "precompiled_cuda_kernel" => |_a| no_kernel("precompiled_cuda_kernel", "compiled CUDA kernels are not supported yet");
}
