//! Activation functions. All are elementwise unless they take an axis, and keep the type of floats.

use olivine_core::{Array, Dtype, Error, Result};
use std::f64::consts::FRAC_1_SQRT_2;

/// `1 / (1 + exp(-x))`.
pub fn sigmoid(x: &Array) -> Result<Array> {
    x.sigmoid()
}

/// The hyperbolic tangent.
pub fn tanh(x: &Array) -> Result<Array> {
    x.tanh()
}

/// `max(x, 0)`.
pub fn relu(x: &Array) -> Result<Array> {
    x.maximum(&x.scalar_like(0.0))
}

/// `max(x, 0)^2` (So et al. 2021).
pub fn relu2(x: &Array) -> Result<Array> {
    relu(x)?.square()
}

/// `min(max(x, 0), 6)`.
pub fn relu6(x: &Array) -> Result<Array> {
    relu(x)?.minimum(&x.scalar_like(6.0))
}

/// `x` where positive, `slope x` elsewhere, for slopes up to 1.
pub fn leaky_relu(x: &Array, slope: f64) -> Result<Array> {
    x.scale(slope)?.maximum(x)
}

/// `x - log(sum(exp(x)))` along an axis, without overflow.
pub fn log_softmax(x: &Array, axis: i32) -> Result<Array> {
    let shifted = x.subtract(&x.max(&[axis], true)?.stop_gradient()?)?;
    shifted.subtract(&shifted.logsumexp(axis, true)?)
}

/// `exp(x) / sum(exp(x))` along an axis.
pub fn softmax(x: &Array, axis: i32) -> Result<Array> {
    x.softmax(axis)
}

/// `exp(-x) / sum(exp(-x))` along an axis.
pub fn softmin(x: &Array, axis: i32) -> Result<Array> {
    x.negative()?.softmax(axis)
}

/// `x` where positive, `alpha (exp(x) - 1)` elsewhere (Clevert et al. 2015).
pub fn elu(x: &Array, alpha: f64) -> Result<Array> {
    // The minimum keeps the branch that is not taken, and its gradient, from overflowing.
    let zero = x.scalar_like(0.0);
    Array::select(&x.greater(&zero)?, x, &x.minimum(&zero)?.expm1()?.scale(alpha)?)
}

/// `max(x, 0) + alpha (exp(min(x, 0) / alpha) - 1)` (Barron 2017).
pub fn celu(x: &Array, alpha: f64) -> Result<Array> {
    let zero = x.scalar_like(0.0);
    let below = x.minimum(&zero)?.divide(&x.scalar_like(alpha))?.expm1()?.scale(alpha)?;
    x.maximum(&zero)?.add(&below)
}

/// [`elu`] with the two constants that keep mean and variance (Klambauer et al. 2017).
pub fn selu(x: &Array) -> Result<Array> {
    elu(x, 1.67326)?.scale(1.0507)
}

/// `log(1 + exp(x))`, without overflow.
pub fn softplus(x: &Array) -> Result<Array> {
    x.logaddexp(&x.scalar_like(0.0))
}

/// `x / (1 + |x|)`.
pub fn softsign(x: &Array) -> Result<Array> {
    x.divide(&x.abs()?.add(&x.scalar_like(1.0))?)
}

/// `x` moved towards zero by `lambda`, zero within that distance.
pub fn softshrink(x: &Array, lambda: f64) -> Result<Array> {
    let far = x.abs()?.greater(&x.scalar_like(lambda))?;
    Array::select(&far, &x.subtract(&x.sign()?.scale(lambda)?)?, &x.scalar_like(0.0))
}

/// `x`, but zero within `lambda` of zero.
pub fn hard_shrink(x: &Array, lambda: f64) -> Result<Array> {
    Array::select(&x.abs()?.greater(&x.scalar_like(lambda))?, x, &x.scalar_like(0.0))
}

/// `x sigmoid(x)`, also called Swish.
pub fn silu(x: &Array) -> Result<Array> {
    x.silu()
}

/// `log(1 / (1 + exp(-x)))`, without overflow.
pub fn log_sigmoid(x: &Array) -> Result<Array> {
    softplus(&x.negative()?)?.negative()
}

/// `x` times the probability that a standard normal number is below it (Hendrycks and Gimpel 2016).
pub fn gelu(x: &Array) -> Result<Array> {
    let twice = x.multiply(&x.scale(FRAC_1_SQRT_2)?.erf()?.add(&x.scalar_like(1.0))?)?;
    twice.scale(0.5)
}

/// GELU by its approximation with `tanh`; the error is below 0.0005.
pub fn gelu_approx(x: &Array) -> Result<Array> {
    x.gelu_tanh()
}

/// `x sigmoid(1.702 x)`; the difference from GELU is below 0.021.
pub fn gelu_fast_approx(x: &Array) -> Result<Array> {
    x.multiply(&x.scale(1.702)?.sigmoid()?)
}

/// The first half along an axis times the sigmoid of the second half (Dauphin et al. 2016).
///
/// # Errors
/// `Value` when the axis cannot be halved.
pub fn glu(x: &Array, axis: i32) -> Result<Array> {
    match &x.split(2, axis)?[..] {
        [values, gates] => values.multiply(&gates.sigmoid()?),
        _ => Err(Error::shape("glu", format!("shape {} has no two halves", x.shape()))),
    }
}

/// 1 where `x` reaches the threshold and 0 elsewhere, as `i32`.
pub fn step(x: &Array, threshold: f64) -> Result<Array> {
    x.greater_equal(&x.scalar_like(threshold))?.astype(Dtype::I32)
}

/// `x` where positive, `alpha x` elsewhere; `alpha` is broadcast.
pub fn prelu(x: &Array, alpha: &Array) -> Result<Array> {
    let zero = x.scalar_like(0.0);
    x.maximum(&zero)?.add(&alpha.multiply(&x.minimum(&zero)?)?)
}

/// `x tanh(log(1 + exp(x)))` (Misra 2019).
pub fn mish(x: &Array) -> Result<Array> {
    x.multiply(&softplus(x)?.tanh()?)
}

/// `x min(max(x + 3, 0), 6) / 6` (Howard et al. 2019).
pub fn hardswish(x: &Array) -> Result<Array> {
    let gate = relu6(&x.add(&x.scalar_like(3.0))?)?;
    x.multiply(&gate)?.divide(&x.scalar_like(6.0))
}

/// `x` within bounds.
pub fn hard_tanh(x: &Array, low: f64, high: f64) -> Result<Array> {
    x.clip(Some(&x.scalar_like(low)), Some(&x.scalar_like(high)))
}
