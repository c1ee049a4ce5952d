//! Losses. All are computed elementwise or along an axis, and then reduced.

use olivine_core::{Array, Error, Kind, Result, fast, linalg};
use std::f64::consts::{LN_2, TAU};

/// How the losses of elements become the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reduction {
    /// They stay.
    None,
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
}

impl Reduction {
    fn of(self, loss: &Array) -> Result<Array> {
        match self {
            Reduction::None => Ok(loss.clone()),
            Reduction::Mean => loss.mean(&[], false),
            Reduction::Sum => loss.sum(&[], false),
        }
    }
}

/// An error unless all arrays have the shape of the first.
fn alike(loss: &'static str, arrays: &[(&str, &Array)]) -> Result<()> {
    if arrays.windows(2).all(|w| w[0].1.shape() == w[1].1.shape()) {
        return Ok(());
    }
    let shapes: Vec<String> = arrays.iter().map(|(n, a)| format!("{n} {}", a.shape())).collect();
    Err(Error::shape(loss, format!("shapes do not match: {}", shapes.join(", "))))
}

/// How [`cross_entropy`] is computed.
#[derive(Debug, Clone)]
pub struct CrossEntropy {
    /// Factors of the loss before it is reduced.
    pub weights: Option<Array>,
    /// The axis of the classes.
    pub axis: i32,
    /// The part of the probability that is spread over all classes, at least 0 and below 1.
    pub label_smoothing: f64,
    /// Of the result.
    pub reduction: Reduction,
}

impl Default for CrossEntropy {
    fn default() -> CrossEntropy {
        CrossEntropy { weights: None, axis: -1, label_smoothing: 0.0, reduction: Reduction::Mean }
    }
}

impl CrossEntropy {
    /// `log(sum(exp(x))) - x[target]`, or `-sum(p log(softmax(x)))`.
    ///
    /// `targets` are the numbers of the classes, with the shape of `logits` without the axis, or probabilities, with
    /// the shape of `logits`. Of half-precision logits along the last axis sums are taken in `f32`.
    ///
    /// # Errors
    /// `Shape` and `Value` when shapes or the smoothing do not fit; `Index`, at evaluation, for a class out of range.
    pub fn loss(&self, logits: &Array, targets: &Array) -> Result<Array> {
        const OP: &str = "cross_entropy";
        let (axis, smoothing) = (self.axis, self.label_smoothing);
        if !(0.0..1.0).contains(&smoothing) {
            return Err(Error::value(OP, format!("label smoothing is in 0..1, got {smoothing}")));
        }
        let at = olivine_core::shape::axis(OP, axis, logits.rank())?;
        let probabilities = targets.rank() == logits.rank();
        let expected = if probabilities { logits.shape().clone() } else { logits.shape().without(at) };
        if *targets.shape() != expected {
            let msg = format!("targets {} for logits {} along axis {axis}", targets.shape(), logits.shape());
            return Err(Error::shape(OP, msg));
        }
        let plain = !probabilities && smoothing == 0.0 && at + 1 == logits.rank();
        let loss = if plain && logits.dtype().is_float() && targets.dtype().is_integer() {
            let targets = if targets.dtype().kind() == Kind::Signed {
                // Programs mark padding by -1 and mask the loss.
                let n = targets.scalar_like(logits.shape()[at] as f64);
                Array::select(&targets.less(&targets.scalar_like(0.0))?, &targets.add(&n)?, targets)?
            } else {
                targets.clone()
            };
            fast::cross_entropy(logits, &targets)?.astype(logits.dtype())?
        } else {
            // Neither the maximum nor its gradient changes the result; without it exponentials overflow.
            let logits = logits.subtract(&logits.max(&[axis], true)?.stop_gradient()?)?;
            let mut score = if probabilities {
                logits.multiply(targets)?.sum(&[axis], false)?
            } else {
                let chosen = logits.take_along_axis(&targets.expand_dims(&[axis])?, axis)?;
                chosen.squeeze(&[axis])?
            };
            if smoothing > 0.0 {
                score = score.scale(1.0 - smoothing)?.add(&logits.mean(&[axis], false)?.scale(smoothing)?)?;
            }
            logits.logsumexp(axis, false)?.subtract(&score)?
        };
        self.reduction.of(&weighed(OP, loss, self.weights.as_ref())?)
    }
}

fn weighed(op: &'static str, loss: Array, weights: Option<&Array>) -> Result<Array> {
    match weights {
        None => Ok(loss),
        Some(w) => {
            alike(op, &[("weights", w), ("loss", &loss)])?;
            loss.multiply(w)
        }
    }
}

/// The cross entropy of classes along the last axis; see [`CrossEntropy::loss`].
///
/// # Errors
/// As [`CrossEntropy::loss`].
pub fn cross_entropy(logits: &Array, targets: &Array, reduction: Reduction) -> Result<Array> {
    CrossEntropy { reduction, ..CrossEntropy::default() }.loss(logits, targets)
}

/// The logarithm of a probability, at least -100, with a finite gradient at zero.
fn clamped_log(p: &Array) -> Result<Array> {
    let zero = p.equal(&p.scalar_like(0.0))?;
    let least = p.scalar_like(-100.0);
    let log = Array::select(&zero, &p.scalar_like(1.0), p)?.log()?;
    Array::select(&zero, &least, &log.maximum(&least)?)
}

/// The cross entropy of events, `-t log(p) - (1 - t) log(1 - p)`, of logits of the probabilities `p` if `with_logits`,
/// of themselves otherwise. `weights` are factors before the reduction. Logarithms of probabilities are at least -100,
/// so that a wrong certainty has a finite loss.
///
/// # Errors
/// `Shape` when the shapes differ.
pub fn binary_cross_entropy(
    inputs: &Array,
    targets: &Array,
    weights: Option<&Array>,
    with_logits: bool,
    reduction: Reduction,
) -> Result<Array> {
    const OP: &str = "binary_cross_entropy";
    alike(OP, &[("inputs", inputs), ("targets", targets)])?;
    let loss = if with_logits {
        inputs.scalar_like(0.0).logaddexp(inputs)?.subtract(&inputs.multiply(targets)?)?
    } else {
        let rest = |a: &Array| a.scalar_like(1.0).subtract(a);
        let happens = targets.multiply(&clamped_log(inputs)?)?;
        happens.add(&rest(targets)?.multiply(&clamped_log(&rest(inputs)?)?)?)?.negative()?
    };
    reduction.of(&weighed(OP, loss, weights)?)
}

/// The absolute difference.
///
/// # Errors
/// `Shape` when the shapes differ.
pub fn l1_loss(predictions: &Array, targets: &Array, reduction: Reduction) -> Result<Array> {
    alike("l1_loss", &[("predictions", predictions), ("targets", targets)])?;
    reduction.of(&predictions.subtract(targets)?.abs()?)
}

/// The squared difference.
///
/// # Errors
/// `Shape` when the shapes differ.
pub fn mse_loss(predictions: &Array, targets: &Array, reduction: Reduction) -> Result<Array> {
    alike("mse_loss", &[("predictions", predictions), ("targets", targets)])?;
    reduction.of(&predictions.subtract(targets)?.square()?)
}

/// Minus the logarithm of the probability of the true class, from logarithms of probabilities and numbers of classes,
/// with the shape of `inputs` without the axis.
///
/// # Errors
/// `Shape` when the shapes do not fit.
pub fn nll_loss(inputs: &Array, targets: &Array, axis: i32, reduction: Reduction) -> Result<Array> {
    let chosen = inputs.take_along_axis(&targets.expand_dims(&[axis])?, axis)?;
    reduction.of(&chosen.squeeze(&[axis])?.negative()?)
}

/// Minus the logarithm of a normal density of means `inputs` and variances `vars` at `targets`:
/// `(log(v) + (t - x)^2 / v) / 2` for `v = max(vars, eps)`, and `log(2 pi) / 2` more if `full`.
///
/// # Errors
/// `Shape` when the shapes differ.
pub fn gaussian_nll_loss(
    inputs: &Array,
    targets: &Array,
    vars: &Array,
    full: bool,
    eps: f64,
    reduction: Reduction,
) -> Result<Array> {
    alike("gaussian_nll_loss", &[("inputs", inputs), ("targets", targets), ("vars", vars)])?;
    let v = vars.maximum(&vars.scalar_like(eps))?;
    let mut loss = v.log()?.add(&targets.subtract(inputs)?.square()?.divide(&v)?)?.scale(0.5)?;
    if full {
        loss = loss.add(&loss.scalar_like(0.5 * TAU.ln()))?;
    }
    reduction.of(&loss)
}

/// The divergence of Kullback and Leibler, `sum(exp(t) (t - x))` along an axis, of logarithms of the predicted and of
/// the true probabilities.
pub fn kl_div_loss(inputs: &Array, targets: &Array, axis: i32, reduction: Reduction) -> Result<Array> {
    reduction.of(&targets.exp()?.multiply(&targets.subtract(inputs)?)?.sum(&[axis], false)?)
}

/// The absolute difference less `beta / 2`, with a parabola where it is below `beta`.
///
/// # Errors
/// `Shape` when the shapes differ.
pub fn smooth_l1_loss(
    predictions: &Array,
    targets: &Array,
    beta: f64,
    reduction: Reduction,
) -> Result<Array> {
    alike("smooth_l1_loss", &[("predictions", predictions), ("targets", targets)])?;
    let distance = predictions.subtract(targets)?.abs()?;
    if beta == 0.0 {
        return reduction.of(&distance);
    }
    let parabola = distance.square()?.scale(0.5)?.divide(&distance.scalar_like(beta))?;
    let line = distance.subtract(&distance.scalar_like(0.5 * beta))?;
    reduction.of(&Array::select(&distance.less(&distance.scalar_like(beta))?, &parabola, &line)?)
}

/// How [`TripletLoss::loss`] is computed.
#[derive(Debug, Clone, Copy)]
pub struct TripletLoss {
    /// The axis of the vectors.
    pub axis: i32,
    /// The degree of the norm that is the distance.
    pub p: f64,
    /// The difference of distances that is enough.
    pub margin: f64,
    /// Added before the root is taken, so that its gradient is finite.
    pub eps: f64,
    /// Of the result.
    pub reduction: Reduction,
}

impl Default for TripletLoss {
    fn default() -> TripletLoss {
        TripletLoss { axis: -1, p: 2.0, margin: 1.0, eps: 1e-6, reduction: Reduction::Mean }
    }
}

impl TripletLoss {
    /// By how much the distance to the negative fails to exceed that to the positive by the margin:
    /// `max(d(a, p) - d(a, n) + margin, 0)`.
    pub fn loss(&self, anchors: &Array, positives: &Array, negatives: &Array) -> Result<Array> {
        let distance = |others: &Array| {
            let powers = anchors.subtract(others)?.abs()?;
            let sum = powers.power(&powers.scalar_like(self.p))?.sum(&[self.axis], false)?;
            sum.add(&sum.scalar_like(self.eps))?.power(&sum.scalar_like(1.0 / self.p))
        };
        let less = distance(positives)?.subtract(&distance(negatives)?)?;
        let loss = less.add(&less.scalar_like(self.margin))?;
        self.reduction.of(&loss.maximum(&loss.scalar_like(0.0))?)
    }
}

/// `max(1 - x t, 0)` for targets of -1 and 1.
pub fn hinge_loss(inputs: &Array, targets: &Array, reduction: Reduction) -> Result<Array> {
    let product = inputs.multiply(targets)?;
    let short = product.scalar_like(1.0).subtract(&product)?;
    reduction.of(&short.maximum(&short.scalar_like(0.0))?)
}

/// Half the squared difference up to `delta`, and linear beyond.
pub fn huber_loss(inputs: &Array, targets: &Array, delta: f64, reduction: Reduction) -> Result<Array> {
    let distance = inputs.subtract(targets)?.abs()?;
    let within = distance.minimum(&distance.scalar_like(delta))?;
    reduction.of(&within.square()?.scale(0.5)?.add(&distance.subtract(&within)?.scale(delta)?)?)
}

/// The logarithm of the hyperbolic cosine of the difference: a parabola near zero and linear far away.
pub fn log_cosh_loss(inputs: &Array, targets: &Array, reduction: Reduction) -> Result<Array> {
    let error = inputs.subtract(targets)?;
    let both = error.logaddexp(&error.negative()?)?;
    reduction.of(&both.subtract(&both.scalar_like(LN_2))?)
}

/// The length of vectors along an axis, with the gradient zero of a zero vector.
fn length(x: &Array, axis: i32) -> Result<Array> {
    let zero = x.equal(&x.scalar_like(0.0))?.all(&[axis], true)?;
    let length = linalg::norm(&Array::select(&zero, &x.scalar_like(1.0), x)?, None, Some(&[axis]), false)?;
    Array::select(&zero.squeeze(&[axis])?, &length.scalar_like(0.0), &length)
}

/// The cosine of the angle between vectors along an axis, `x1 . x2 / max(|x1| |x2|, eps)`. It grows with similarity:
/// it is meant to be maximised, or subtracted from one.
pub fn cosine_similarity_loss(
    x1: &Array,
    x2: &Array,
    axis: i32,
    eps: f64,
    reduction: Reduction,
) -> Result<Array> {
    let lengths = length(x1, axis)?.multiply(&length(x2, axis)?)?;
    let product = x1.multiply(x2)?.sum(&[axis], false)?;
    reduction.of(&product.divide(&lengths.maximum(&lengths.scalar_like(eps))?)?)
}

/// How far a pair of scores is from the right order: `max(-t (x1 - x2) + margin, 0)`, `t` being 1 where the first
/// should be greater and -1 where the second should.
///
/// # Errors
/// `Shape` when the shapes differ.
pub fn margin_ranking_loss(
    inputs1: &Array,
    inputs2: &Array,
    targets: &Array,
    margin: f64,
    reduction: Reduction,
) -> Result<Array> {
    alike("margin_ranking_loss", &[("inputs1", inputs1), ("inputs2", inputs2), ("targets", targets)])?;
    let wrong = targets.negative()?.multiply(&inputs1.subtract(inputs2)?)?;
    let loss = wrong.add(&wrong.scalar_like(margin))?;
    reduction.of(&loss.maximum(&loss.scalar_like(0.0))?)
}
