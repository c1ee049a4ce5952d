//! Fused operations of neural networks.

use super::calls;
use crate::value::Value;
use olivine_core::ops::Mask;
use olivine_core::{Error, fast};

calls! { "fast";
    "fast.rms_norm" => |a| a.array(0)?.rms_norm(a.opt_array("weight")?.as_ref(), a.f32_or("eps", 1e-5)?);
    "fast.layer_norm" => |a| {
        let (w, b) = (a.opt_array("weight")?, a.opt_array("bias")?);
        a.array(0)?.layer_norm(w.as_ref(), b.as_ref(), a.f32_or("eps", 1e-5)?)
    };
    "fast.rope" => |a| {
        let (dims, traditional) = (a.size("dims")?, a.bool_or("traditional", false)?);
        let (base, scale) = (a.opt_f64("base")?.map(|b| b as f32), a.f32_or("scale", 1.0)?);
        let (offset, freqs) = (a.array("offset")?, a.opt_array("freqs")?);
        fast::rope(&a.array(0)?, dims, traditional, base, scale, &offset, freqs.as_ref())
    };
    "fast.scaled_dot_product_attention" => |a| {
        let mask = match a.value("mask") {
            None | Some(Value::None) => Mask::None,
            Some(Value::Str(s)) if s == "causal" => Mask::Causal,
            Some(Value::Array(m)) => Mask::Array(m),
            Some(v) => return Err(Error::value(a.op(), format!("mask is {}", v.kind()))),
        };
        let (q, k, v) = (a.array(0)?, a.array(1)?, a.array(2)?);
        let (scale, sinks) = (a.f32_or("scale", 1.0)?, a.opt_array("sinks")?);
        fast::scaled_dot_product_attention(&q, &k, &v, scale, &mask, sinks.as_ref())
    };
    "fast.cross_entropy" => |a| fast::cross_entropy(&a.array(0)?, &a.array(1)?);
    "fast.gated_delta_update" => |a| {
        let (q, k, v, gamma, beta) = (a.array(0)?, a.array(1)?, a.array(2)?, a.array(3)?, a.array(4)?);
        let (state, mask) = (a.opt_array("initial_state")?, a.opt_array("mask")?);
        fast::gated_delta_update(&q, &k, &v, &gamma, &beta, state.as_ref(), mask.as_ref())
    };
}
