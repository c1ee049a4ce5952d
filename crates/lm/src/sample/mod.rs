//! Choosing the next token from logits: functions of arrays, and a [`Sampler`] that applies them in order.
//!
//! Order: logit bias and repetition penalty change logits; then top-k, top-p and min-p leave candidates out,
//! each looking at what the one before left, and at probabilities before the temperature; the temperature
//! comes last and only decides how evenly the candidates are drawn. (transformers divides by the temperature
//! first, so that a high one lets more tokens through top-p; here, as in llama.cpp and mlx-lm, the candidates
//! do not depend on it.) The best token is always a candidate, so something is left to draw from.

#[cfg(test)]
mod tests;

use olivine_core::{Array, Dtype, Error, Result, random};

/// How tokens are chosen. The default is greedy.
#[derive(Debug, Clone)]
pub struct SamplerOptions {
    /// Divisor of the logits; 0 always takes the best token.
    pub temperature: f32,
    /// Number of best tokens that are candidates; 0 for all.
    pub top_k: usize,
    /// The candidates are the fewest best tokens whose probabilities reach this sum; 1 for all.
    pub top_p: f32,
    /// Least probability of a candidate, as part of the best one's; 0 for all.
    pub min_p: f32,
    /// Logits of tokens that occurred are divided by this when positive and multiplied when negative (Keskar
    /// et al. 2019); 1 for none.
    pub repetition_penalty: f32,
    /// Number of newest tokens that count as having occurred.
    pub repetition_context: usize,
    /// Added to the logits of tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of the draws; a fresh one from the default generator when `None`.
    pub seed: Option<u64>,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        SamplerOptions {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            repetition_context: 64,
            logit_bias: Vec::new(),
            seed: None,
        }
    }
}

/// Chooses tokens, one call after the other.
#[derive(Debug, Clone)]
pub struct Sampler {
    options: SamplerOptions,
    key: Option<Array>,
    /// The bias of every token, once the size of the vocabulary is known.
    bias: Option<Array>,
}

impl Sampler {
    /// Checks the options.
    ///
    /// # Errors
    /// `Value` that names the option out of range.
    pub fn new(options: SamplerOptions) -> Result<Sampler> {
        let o = &options;
        let refuse = |name: &str, range: &str, value: f32| {
            Err(Error::value("sampler", format!("{name} is {range}, got {value}")))
        };
        if !(o.temperature.is_finite() && o.temperature >= 0.0) {
            return refuse("temperature", "finite and 0 or more", o.temperature);
        }
        if !(0.0..=1.0).contains(&o.top_p) {
            return refuse("top_p", "between 0 and 1", o.top_p);
        }
        if !(0.0..=1.0).contains(&o.min_p) {
            return refuse("min_p", "between 0 and 1", o.min_p);
        }
        if !(o.repetition_penalty.is_finite() && o.repetition_penalty > 0.0) {
            return refuse("repetition_penalty", "finite and more than 0", o.repetition_penalty);
        }
        if let Some((id, b)) = o.logit_bias.iter().find(|(_, b)| b.is_nan()) {
            return Err(Error::value("sampler", format!("the logit bias of token {id} is {b}")));
        }
        let key = match o.seed {
            _ if is_greedy(o.temperature) => None,
            Some(seed) => Some(random::key(seed)?),
            None => Some(random::next_key()?),
        };
        Ok(Sampler { options, key, bias: None })
    }

    /// The options.
    pub fn options(&self) -> &SamplerOptions {
        &self.options
    }

    /// Whether [`Sampler::sample`] looks at the tokens so far.
    pub fn needs_history(&self) -> bool {
        self.options.repetition_penalty != 1.0 && self.options.repetition_context > 0
    }

    /// One token for each row of logits `[batch, vocabulary]`, as `u32[batch]`. `history [batch, n]` are the
    /// tokens so far, oldest first.
    ///
    /// # Errors
    /// `Shape` when the logits are no matrix; `Index` when a bias is for a token beyond the vocabulary.
    pub fn sample(&mut self, logits: &Array, history: Option<&Array>) -> Result<Array> {
        let vocabulary = match logits.shape()[..] {
            [_, vocabulary] if vocabulary > 0 => vocabulary,
            _ => {
                let msg = format!("logits are [batch, vocabulary], got shape {}", logits.shape());
                return Err(Error::shape("sampler", msg));
            }
        };
        let mut x = logits.astype(Dtype::F32)?;
        if !self.options.logit_bias.is_empty() {
            if self.bias.as_ref().is_none_or(|b| b.size() != vocabulary) {
                self.bias = Some(dense_bias(&self.options.logit_bias, vocabulary)?);
            }
            if let Some(b) = &self.bias {
                x = x.add(b)?;
            }
        }
        if let (Some(h), true) = (history, self.needs_history()) {
            let n = h.dim(-1)?;
            let newest = h.slice_axis(-1, n.saturating_sub(self.options.repetition_context), n)?;
            x = repetition_penalty(&x, &newest, self.options.repetition_penalty)?;
        }
        let Some(key) = &self.key else { return x.argmax(-1, false) };
        let keys = random::split(key, 2)?;
        let row = |i| keys.slice_axis(0, i, i + 1)?.reshape(&[2]);
        let draw = row(1)?;
        self.key = Some(row(0)?);
        let o = &self.options;
        draw_filtered(&x, o.temperature, o.top_k, o.top_p, o.min_p, &draw)
    }
}

/// A temperature so small that dividing by it means nothing.
fn is_greedy(temperature: f32) -> bool {
    temperature < f32::MIN_POSITIVE
}

fn dense_bias(entries: &[(u32, f32)], vocabulary: usize) -> Result<Array> {
    let mut bias = vec![0f32; vocabulary];
    for &(id, b) in entries {
        let Some(slot) = bias.get_mut(id as usize) else {
            let msg = format!("a bias for token {id} of a vocabulary of {vocabulary}");
            return Err(Error::index("logit_bias", msg));
        };
        *slot += b;
    }
    Array::from_slice(&bias, &[vocabulary])
}

/// Logits `[batch, vocabulary]` with those of tokens in `history [batch, n]` divided by `penalty` when
/// positive, multiplied when negative.
pub fn repetition_penalty(logits: &Array, history: &Array, penalty: f32) -> Result<Array> {
    if history.size() == 0 {
        return Ok(logits.clone());
    }
    let of_seen = logits.take_along_axis(history, -1)?;
    let factor = of_seen.scalar_like(penalty as f64);
    let negative = of_seen.less(&of_seen.scalar_like(0.0))?;
    let lowered = Array::select(&negative, &of_seen.multiply(&factor)?, &of_seen.divide(&factor)?)?;
    logits.put_along_axis(history, &lowered, -1)
}

/// Draws a token for each row among the candidates that top-k, top-p and min-p leave, with probabilities
/// `softmax(logits / temperature)`; `u32[batch]`.
pub fn draw_filtered(
    logits: &Array,
    temperature: f32,
    top_k: usize,
    top_p: f32,
    min_p: f32,
    key: &Array,
) -> Result<Array> {
    let vocabulary = logits.dim(-1)?;
    let k = if top_k == 0 { vocabulary } else { top_k.min(vocabulary) };
    if k == vocabulary && top_p >= 1.0 {
        // Needs no order.
        return gumbel_max(&keep_min_p(logits, min_p)?, temperature, key);
    }
    let candidates = if k < vocabulary {
        // Only the candidates are put in order.
        Some(logits.argpartition(vocabulary - k, -1)?.slice_axis(-1, vocabulary - k, vocabulary)?)
    } else {
        None
    };
    let x = match &candidates {
        Some(c) => logits.take_along_axis(c, -1)?,
        None => logits.clone(),
    };
    let order = x.argsort(-1, true)?;
    let sorted = x.take_along_axis(&order, -1)?;
    let sorted = keep_min_p(&keep_top_p(&sorted, top_p)?, min_p)?;
    let rank = gumbel_max(&sorted, temperature, key)?.expand_dims(&[-1])?;
    let at = order.take_along_axis(&rank, -1)?;
    let token = match &candidates {
        Some(c) => c.take_along_axis(&at, -1)?,
        None => at,
    };
    token.squeeze(&[-1])
}

/// Logits in falling order with those that [`SamplerOptions::top_p`] leaves out at minus infinity.
fn keep_top_p(sorted: &Array, top_p: f32) -> Result<Array> {
    if top_p >= 1.0 {
        return Ok(sorted.clone());
    }
    let before = sorted.softmax(-1)?.cumsum(-1, false, false)?;
    let keep = before.less(&before.scalar_like(top_p as f64))?;
    // Also when top_p is 0.
    let best = Array::arange_i32(sorted.dim(-1)?)?.equal(&Array::from_scalar(0i32))?;
    Array::select(&keep.logical_or(&best)?, sorted, &sorted.scalar_like(f64::NEG_INFINITY))
}

/// Logits with those that [`SamplerOptions::min_p`] leaves out at minus infinity.
fn keep_min_p(logits: &Array, min_p: f32) -> Result<Array> {
    if min_p <= 0.0 {
        return Ok(logits.clone());
    }
    // p >= min_p * p_best, by logarithms: no softmax is needed.
    let least = logits.max(&[-1], true)?;
    let least = least.add(&least.scalar_like((min_p as f64).ln()))?;
    let keep = logits.greater_equal(&least)?;
    Array::select(&keep, logits, &logits.scalar_like(f64::NEG_INFINITY))
}

/// Draws from `softmax(logits / temperature)` by the Gumbel-max trick.
fn gumbel_max(logits: &Array, temperature: f32, key: &Array) -> Result<Array> {
    if is_greedy(temperature) {
        return logits.argmax(-1, false);
    }
    // The best is 0, so a small temperature cannot overflow.
    let x = logits.subtract(&logits.max(&[-1], true)?)?;
    let x = x.divide(&x.scalar_like(temperature as f64))?;
    let noise = random::gumbel(x.shape(), Dtype::F32, Some(key))?;
    // The generator's lowest draw is minus infinity, which would make a candidate equal to what is left out.
    let noise = noise.maximum(&noise.scalar_like(-1e30))?;
    x.add(&noise)?.argmax(-1, false)
}
