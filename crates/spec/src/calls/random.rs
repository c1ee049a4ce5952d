//! Random numbers.

use super::calls;
use olivine_core::{Dtype, random};

calls! { "random";
    "random.key" => |a| random::key(a.int("seed")? as u64);
    "random.split" => |a| random::split(&a.array(0)?, a.size_or("num", 2)?);
    "random.uniform" => |a| {
        let (low, high) = (a.f64_or("low", 0.0)?, a.f64_or("high", 1.0)?);
        let (shape, dtype) = (a.opt_shape("shape")?.unwrap_or_default(), a.dtype_or("dtype", Dtype::F32)?);
        random::uniform(low, high, &shape, dtype, a.opt_array("key")?.as_ref())
    };
    "random.normal" => |a| {
        let (shape, dtype) = (a.opt_shape("shape")?.unwrap_or_default(), a.dtype_or("dtype", Dtype::F32)?);
        let (loc, scale) = (a.f64_or("loc", 0.0)?, a.f64_or("scale", 1.0)?);
        random::normal(&shape, dtype, loc, scale, a.opt_array("key")?.as_ref())
    };
    "random.truncated_normal" => |a| {
        let (low, high, dtype) = (a.array(0)?, a.array(1)?, a.dtype_or("dtype", Dtype::F32)?);
        random::truncated_normal(&low, &high, &a.shape("shape")?, dtype, a.opt_array("key")?.as_ref())
    };
    "random.gumbel" => |a| {
        let (shape, dtype) = (a.opt_shape("shape")?.unwrap_or_default(), a.dtype_or("dtype", Dtype::F32)?);
        random::gumbel(&shape, dtype, a.opt_array("key")?.as_ref())
    };
    "random.laplace" => |a| {
        let (shape, dtype) = (a.opt_shape("shape")?.unwrap_or_default(), a.dtype_or("dtype", Dtype::F32)?);
        let (loc, scale) = (a.f64_or("loc", 0.0)?, a.f64_or("scale", 1.0)?);
        random::laplace(&shape, dtype, loc, scale, a.opt_array("key")?.as_ref())
    };
    "random.bernoulli" => |a| {
        let p = a.array(0)?;
        let shape = a.opt_shape("shape")?.unwrap_or_else(|| p.shape().to_vec());
        random::bernoulli(&p, &shape, a.opt_array("key")?.as_ref())
    };
    "random.randint" => |a| {
        let (low, high, shape) = (a.int(0)?, a.int(1)?, a.opt_shape("shape")?.unwrap_or_default());
        random::randint(low, high, &shape, a.dtype_or("dtype", Dtype::I32)?, a.opt_array("key")?.as_ref())
    };
    "random.categorical" => |a| {
        let (logits, axis, key) = (a.array(0)?, a.axis_or("axis", -1)?, a.opt_array("key")?);
        match (a.opt_shape("shape")?, a.opt_size("num_samples")?) {
            (Some(shape), _) => random::categorical_shaped(&logits, axis, &shape, key.as_ref()),
            (None, Some(n)) => random::categorical_many(&logits, axis, n, key.as_ref()),
            (None, None) if axis == -1 => random::categorical(&logits, key.as_ref()),
            (None, None) => {
                let rest = olivine_core::shape::axis(a.op(), axis, logits.rank())?;
                random::categorical_shaped(&logits, axis, &logits.shape().without(rest), key.as_ref())
            }
        }
    };
}
