//! Random numbers.

use super::calls;
use crate::value::Value;
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
    "random.permutation" => |a| {
        let key = a.opt_array("key")?;
        match a.value(0) {
            Some(Value::Array(x)) => random::permutation_of(&x, a.axis_or("axis", 0)?, key.as_ref()),
            _ => random::permutation(a.size(0)?, key.as_ref()),
        }
    };
    "random.multivariate_normal" => |a| {
        let (mean, cov, shape) = (a.array(0)?, a.array(1)?, a.opt_shape("shape")?.unwrap_or_default());
        let (dtype, key) = (a.dtype_or("dtype", Dtype::F32)?, a.opt_array("key")?);
        random::multivariate_normal(&mean, &cov, &shape, dtype, key.as_ref())
    };
    "random.exponential" => |a| {
        let (scale, shape, key) = (a.array(0)?, a.shape("shape")?, a.opt_array("key")?);
        random::exponential(&scale, &shape, a.dtype_or("dtype", Dtype::F32)?, key.as_ref())
    };
    "random.gamma" => |a| {
        let (x, scale, shape) = (a.array(0)?, a.array(1)?, a.shape("shape")?);
        random::gamma(&x, &scale, &shape, a.dtype_or("dtype", Dtype::F32)?, a.opt_array("key")?.as_ref())
    };
    "random.beta" => |a| {
        let (x, y, shape) = (a.array(0)?, a.array(1)?, a.shape("shape")?);
        random::beta(&x, &y, &shape, a.dtype_or("dtype", Dtype::F32)?, a.opt_array("key")?.as_ref())
    };
    "random.poisson" => |a| {
        let (rate, shape) = (a.array(0)?, a.shape("shape")?);
        random::poisson(&rate, &shape, a.dtype_or("dtype", Dtype::I32)?, a.opt_array("key")?.as_ref())
    };
    "random.choice" => |a| {
        let (x, shape, replace) = (a.array(0)?, a.shape("shape")?, a.bool_or("replace", true)?);
        let (p, key) = (a.opt_array("p")?, a.opt_array("key")?);
        random::choice(&x, &shape, replace, p.as_ref(), a.axis_or("axis", 0)?, key.as_ref())
    };
}
