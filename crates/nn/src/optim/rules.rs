//! The formulas. `g` is the gradient, `p` the parameter and `lr` the learning rate.

use super::{Now, Rule, Slots};
use olivine_core::{Array, Dtype, Error, Result, linalg};

fn check(rule: &'static str, fine: bool, what: &str) -> Result<()> {
    if fine { Ok(()) } else { Err(Error::value(rule, what)) }
}

fn check_betas(rule: &'static str, betas: [f64; 2]) -> Result<()> {
    let fine = betas.iter().all(|b| (0.0..1.0).contains(b));
    check(rule, fine, &format!("betas are in 0..1, got {betas:?}"))
}

fn check_eps(rule: &'static str, eps: f64) -> Result<()> {
    check(rule, eps > 0.0, &format!("eps is greater than 0, got {eps}"))
}

/// One step of a moving average that keeps the part `keep` of the old value.
fn averaged(old: &Array, new: &Array, keep: f64) -> Result<Array> {
    old.scale(keep)?.add(&new.scale(1.0 - keep)?)
}

fn plus(a: &Array, number: f64) -> Result<Array> {
    a.add(&a.scalar_like(number))
}

/// Stochastic gradient descent with momentum: `v = momentum v + (1 - dampening) g`, `p = p - lr v`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sgd {
    /// The part of the average that is kept.
    pub momentum: f64,
    /// How much of the parameter is added to its gradient.
    pub weight_decay: f64,
    /// How much of the gradient stays out of the average.
    pub dampening: f64,
    /// Look ahead: step by `g + momentum v`.
    pub nesterov: bool,
}

impl Rule for Sgd {
    fn check(&self) -> Result<()> {
        let fine = !self.nesterov || (self.momentum > 0.0 && self.dampening == 0.0);
        check("sgd", fine, "Nesterov momentum needs a momentum and no dampening")
    }

    fn slots(&self, p: &Array) -> Result<Slots> {
        Slots::zeros(&["v"], p)
    }

    fn step(&self, g: &Array, p: &Array, slots: &mut Slots, now: &Now<'_>) -> Result<Array> {
        let rate = now.rate(g.dtype())?;
        let g = if self.weight_decay == 0.0 { g.clone() } else { g.add(&p.scale(self.weight_decay)?)? };
        if self.momentum <= 0.0 {
            return p.subtract(&rate.multiply(&g)?);
        }
        let part = if self.dampening > 0.0 { g.scale(1.0 - self.dampening)? } else { g.clone() };
        let v = slots.get("v")?.scale(self.momentum)?.add(&part)?;
        let step = if self.nesterov { g.add(&v.scale(self.momentum)?)? } else { v.clone() };
        slots.set("v", v);
        p.subtract(&rate.multiply(&step)?)
    }
}

/// Gradients divided by the root of their mean square (Tieleman and Hinton 2012): `v = alpha v + (1 - alpha) g^2`,
/// `p = p - lr g / (sqrt(v) + eps)`.
#[derive(Debug, Clone, Copy)]
pub struct RmsProp {
    /// The part of the mean that is kept.
    pub alpha: f64,
    /// Keeps the quotient finite.
    pub eps: f64,
}

impl Default for RmsProp {
    fn default() -> RmsProp {
        RmsProp { alpha: 0.99, eps: 1e-8 }
    }
}

impl Rule for RmsProp {
    fn check(&self) -> Result<()> {
        check("rmsprop", self.alpha >= 0.0, &format!("alpha is at least 0, got {}", self.alpha))?;
        check_eps("rmsprop", self.eps)
    }

    fn slots(&self, p: &Array) -> Result<Slots> {
        Slots::zeros(&["v"], p)
    }

    fn step(&self, g: &Array, p: &Array, slots: &mut Slots, now: &Now<'_>) -> Result<Array> {
        let v = averaged(slots.get("v")?, &g.square()?, self.alpha)?;
        let root = plus(&v.sqrt()?, self.eps)?;
        slots.set("v", v);
        p.subtract(&now.rate(g.dtype())?.multiply(g)?.divide(&root)?)
    }
}

/// Gradients divided by the root of the sum of their squares (Duchi et al. 2011): `v = v + g^2`,
/// `p = p - lr g / (sqrt(v) + eps)`.
#[derive(Debug, Clone, Copy)]
pub struct Adagrad {
    /// Keeps the quotient finite.
    pub eps: f64,
}

impl Default for Adagrad {
    fn default() -> Adagrad {
        Adagrad { eps: 1e-8 }
    }
}

impl Rule for Adagrad {
    fn check(&self) -> Result<()> {
        check_eps("adagrad", self.eps)
    }

    fn slots(&self, p: &Array) -> Result<Slots> {
        Slots::zeros(&["v"], p)
    }

    fn step(&self, g: &Array, p: &Array, slots: &mut Slots, now: &Now<'_>) -> Result<Array> {
        let v = slots.get("v")?.add(&g.square()?)?;
        let root = plus(&v.sqrt()?, self.eps)?;
        slots.set("v", v);
        p.subtract(&now.rate(g.dtype())?.multiply(g)?.divide(&root)?)
    }
}

/// Gradients scaled by the ratio of the mean squares of past steps and past gradients (Zeiler 2012):
/// `v = rho v + (1 - rho) g^2`, `d = sqrt(u + eps) / sqrt(v + eps) g`, `u = rho u + (1 - rho) d^2`, `p = p - lr d`.
#[derive(Debug, Clone, Copy)]
pub struct AdaDelta {
    /// The part of the means that is kept.
    pub rho: f64,
    /// Keeps the quotient finite.
    pub eps: f64,
}

impl Default for AdaDelta {
    fn default() -> AdaDelta {
        AdaDelta { rho: 0.9, eps: 1e-6 }
    }
}

impl Rule for AdaDelta {
    fn check(&self) -> Result<()> {
        check("adadelta", self.rho >= 0.0, &format!("rho is at least 0, got {}", self.rho))?;
        check_eps("adadelta", self.eps)
    }

    fn slots(&self, p: &Array) -> Result<Slots> {
        Slots::zeros(&["v", "u"], p)
    }

    fn step(&self, g: &Array, p: &Array, slots: &mut Slots, now: &Now<'_>) -> Result<Array> {
        let root = |a: &Array| plus(a, self.eps)?.sqrt();
        let v = averaged(slots.get("v")?, &g.square()?, self.rho)?;
        let change = root(slots.get("u")?)?.divide(&root(&v)?)?.multiply(g)?;
        let u = averaged(slots.get("u")?, &change.square()?, self.rho)?;
        slots.set("v", v);
        slots.set("u", u);
        p.subtract(&now.rate(g.dtype())?.multiply(&change)?)
    }
}

/// Moving averages of the gradient, divided by the root of those of its square (Kingma and Ba 2014):
/// `m = beta1 m + (1 - beta1) g`, `v = beta2 v + (1 - beta2) g^2`, `p = p - lr m / (sqrt(v) + eps)`.
#[derive(Debug, Clone, Copy)]
pub struct Adam {
    /// The parts of the averages that are kept.
    pub betas: [f64; 2],
    /// Keeps the quotient finite.
    pub eps: f64,
    /// Divide the averages by `1 - beta^t`, as the paper does.
    pub bias_correction: bool,
}

impl Default for Adam {
    fn default() -> Adam {
        Adam { betas: [0.9, 0.999], eps: 1e-8, bias_correction: false }
    }
}

impl Rule for Adam {
    fn check(&self) -> Result<()> {
        check_betas("adam", self.betas)?;
        check("adam", self.eps >= 0.0, &format!("eps is at least 0, got {}", self.eps))
    }

    fn slots(&self, p: &Array) -> Result<Slots> {
        Slots::zeros(&["m", "v"], p)
    }

    fn step(&self, g: &Array, p: &Array, slots: &mut Slots, now: &Now<'_>) -> Result<Array> {
        let m = averaged(slots.get("m")?, g, self.betas[0])?;
        let v = averaged(slots.get("v")?, &g.square()?, self.betas[1])?;
        let rate = now.rate(g.dtype())?;
        let step = if self.bias_correction {
            let t = now.step.astype(Dtype::F32)?;
            let rest = |beta: f64| t.scalar_like(1.0).subtract(&t.scalar_like(beta).power(&t)?);
            let scale = rate.divide(&rest(self.betas[0])?)?.astype(g.dtype())?;
            let root = rest(self.betas[1])?.rsqrt()?.astype(g.dtype())?;
            scale.multiply(&m)?.divide(&plus(&v.sqrt()?.multiply(&root)?, self.eps)?)?
        } else {
            rate.multiply(&m)?.divide(&plus(&v.sqrt()?, self.eps)?)?
        };
        slots.set("m", m);
        slots.set("v", v);
        p.subtract(&step)
    }
}

/// [`Adam`] whose parameters also shrink by the part `lr weight_decay` in each step (Loshchilov and Hutter 2017).
#[derive(Debug, Clone, Copy)]
pub struct AdamW {
    /// The parts of the averages that are kept.
    pub betas: [f64; 2],
    /// Keeps the quotient finite.
    pub eps: f64,
    /// How fast parameters shrink.
    pub weight_decay: f64,
    /// Divide the averages by `1 - beta^t`.
    pub bias_correction: bool,
}

impl Default for AdamW {
    fn default() -> AdamW {
        let Adam { betas, eps, bias_correction } = Adam::default();
        AdamW { betas, eps, weight_decay: 0.01, bias_correction }
    }
}

impl AdamW {
    fn adam(&self) -> Adam {
        Adam { betas: self.betas, eps: self.eps, bias_correction: self.bias_correction }
    }
}

impl Rule for AdamW {
    fn check(&self) -> Result<()> {
        self.adam().check()
    }

    fn slots(&self, p: &Array) -> Result<Slots> {
        self.adam().slots(p)
    }

    fn step(&self, g: &Array, p: &Array, slots: &mut Slots, now: &Now<'_>) -> Result<Array> {
        let shrink = now.rate(g.dtype())?.scale(self.weight_decay)?;
        let decayed = p.multiply(&shrink.scalar_like(1.0).subtract(&shrink)?)?;
        self.adam().step(g, &decayed, slots, now)
    }
}

/// [`Adam`] with a decaying maximum in place of the mean square: `v = max(beta2 v, |g|)`, `p = p - lr m / (v + eps)`.
#[derive(Debug, Clone, Copy)]
pub struct Adamax {
    /// The kept parts.
    pub betas: [f64; 2],
    /// Keeps the quotient finite.
    pub eps: f64,
}

impl Default for Adamax {
    fn default() -> Adamax {
        Adamax { betas: [0.9, 0.999], eps: 1e-8 }
    }
}

impl Rule for Adamax {
    fn check(&self) -> Result<()> {
        check_betas("adamax", self.betas)?;
        check("adamax", self.eps >= 0.0, &format!("eps is at least 0, got {}", self.eps))
    }

    fn slots(&self, p: &Array) -> Result<Slots> {
        Slots::zeros(&["m", "v"], p)
    }

    fn step(&self, g: &Array, p: &Array, slots: &mut Slots, now: &Now<'_>) -> Result<Array> {
        let m = averaged(slots.get("m")?, g, self.betas[0])?;
        let v = slots.get("v")?.scale(self.betas[1])?.maximum(&g.abs()?)?;
        let step = now.rate(g.dtype())?.multiply(&m)?.divide(&plus(&v, self.eps)?)?;
        slots.set("m", m);
        slots.set("v", v);
        p.subtract(&step)
    }
}

/// Steps by the sign of an average (Chen et al. 2023): `c = beta1 m + (1 - beta1) g`, `m = beta2 m + (1 - beta2) g`,
/// `p = (1 - lr weight_decay) p - lr sign(c)`.
#[derive(Debug, Clone, Copy)]
pub struct Lion {
    /// The parts of the averages that are kept.
    pub betas: [f64; 2],
    /// How fast parameters shrink.
    pub weight_decay: f64,
}

impl Default for Lion {
    fn default() -> Lion {
        Lion { betas: [0.9, 0.99], weight_decay: 0.0 }
    }
}

impl Rule for Lion {
    fn check(&self) -> Result<()> {
        check_betas("lion", self.betas)
    }

    fn slots(&self, p: &Array) -> Result<Slots> {
        Slots::zeros(&["m"], p)
    }

    fn step(&self, g: &Array, p: &Array, slots: &mut Slots, now: &Now<'_>) -> Result<Array> {
        let rate = now.rate(g.dtype())?;
        let before = slots.get("m")?.clone();
        let direction = averaged(&before, g, self.betas[0])?.sign()?;
        slots.set("m", averaged(&before, g, self.betas[1])?);
        let mut p = p.clone();
        if self.weight_decay > 0.0 {
            let shrink = rate.scale(self.weight_decay)?;
            p = shrink.scalar_like(1.0).subtract(&shrink)?.multiply(&p)?;
        }
        p.subtract(&rate.multiply(&direction)?)
    }
}

/// Adam's mean squares, kept only as sums over the rows and columns of matrices (Shazeer and Stern 2018).
#[derive(Debug, Clone, Copy)]
pub struct Adafactor {
    /// Added to squared gradients, and the least scale of a parameter.
    pub eps: [f64; 2],
    /// The greatest root mean square of an update.
    pub clip_threshold: f64,
    /// The exponent with which the kept part of the means grows.
    pub decay_rate: f64,
    /// If given, the kept part of an average of the updates.
    pub beta_1: Option<f64>,
    /// How fast parameters shrink, relative to the learning rate.
    pub weight_decay: f64,
    /// Scale the learning rate by the root mean square of the parameter.
    pub scale_parameter: bool,
    /// Derive the learning rate from the number of steps.
    pub relative_step: bool,
    /// Let the derived learning rate grow from zero.
    pub warmup_init: bool,
}

impl Default for Adafactor {
    fn default() -> Adafactor {
        Adafactor {
            eps: [1e-30, 1e-3],
            clip_threshold: 1.0,
            decay_rate: -0.8,
            beta_1: None,
            weight_decay: 0.0,
            scale_parameter: true,
            relative_step: true,
            warmup_init: false,
        }
    }
}

fn root_mean_square(x: &Array) -> Result<Array> {
    x.square()?.mean(&[], false)?.sqrt()
}

/// [`averaged`] with a part that is computed.
fn mixed(old: &Array, new: &Array, keep: &Array) -> Result<Array> {
    keep.multiply(old)?.add(&keep.scalar_like(1.0).subtract(keep)?.multiply(new)?)
}

impl Adafactor {
    fn rate(&self, p: &Array, now: &Now<'_>) -> Result<Array> {
        let mut rate = if self.relative_step {
            let t = now.step.astype(Dtype::F32)?;
            let longest = if self.warmup_init { t.scale(1e-6)? } else { t.scalar_like(1e-2) };
            longest.minimum(&t.rsqrt()?)?.astype(p.dtype())?
        } else {
            now.rate(p.dtype())?
        };
        if self.scale_parameter {
            let size = root_mean_square(p)?;
            rate = size.scalar_like(self.eps[1]).maximum(&size)?.multiply(&rate)?;
        }
        Ok(rate)
    }
}

impl Rule for Adafactor {
    fn slots(&self, p: &Array) -> Result<Slots> {
        let zeros = |shape: &[usize]| Array::zeros(shape, p.dtype());
        let mut slots = Slots::default();
        match &p.shape()[..] {
            [outer @ .., rows, columns] => {
                slots.set("exp_avg_sq_row", zeros(&[outer, &[*rows]].concat())?);
                slots.set("exp_avg_sq_col", zeros(&[outer, &[*columns]].concat())?);
            }
            all => slots.set("exp_avg_sq", zeros(all)?),
        }
        if self.beta_1.is_some() {
            slots.set("exp_avg", zeros(p.shape())?);
        }
        Ok(slots)
    }

    fn step(&self, g: &Array, p: &Array, slots: &mut Slots, now: &Now<'_>) -> Result<Array> {
        let rate = self.rate(p, now)?;
        let t = now.step.astype(Dtype::F32)?;
        let decay = t.power(&t.scalar_like(self.decay_rate))?.astype(p.dtype())?;
        let keep = decay.scalar_like(1.0).subtract(&decay)?;
        let square = plus(&g.square()?, self.eps[0])?;
        let update = if g.rank() >= 2 {
            let row = mixed(slots.get("exp_avg_sq_row")?, &square.mean(&[-1], false)?, &keep)?;
            let column = mixed(slots.get("exp_avg_sq_col")?, &square.mean(&[-2], false)?, &keep)?;
            let of_row = row.divide(&row.mean(&[-1], true)?)?.rsqrt()?.expand_dims(&[-1])?;
            let of_column = column.rsqrt()?.expand_dims(&[-2])?;
            slots.set("exp_avg_sq_row", row);
            slots.set("exp_avg_sq_col", column);
            of_row.multiply(&of_column)?.multiply(g)?
        } else {
            let all = mixed(slots.get("exp_avg_sq")?, &square, &keep)?;
            let update = all.rsqrt()?.multiply(g)?;
            slots.set("exp_avg_sq", all);
            update
        };
        let size = root_mean_square(&update)?;
        let excess = size.divide(&size.scalar_like(self.clip_threshold))?;
        let mut update = rate.multiply(&update.divide(&excess.scalar_like(1.0).maximum(&excess)?)?)?;
        if let Some(beta) = self.beta_1 {
            update = averaged(slots.get("exp_avg")?, &update, beta)?;
            slots.set("exp_avg", update.clone());
        }
        let mut p = p.clone();
        if self.weight_decay != 0.0 {
            let shrink = rate.scale(-self.weight_decay)?;
            p = p.multiply(&plus(&shrink, 1.0)?)?;
        }
        p.subtract(&update)
    }
}

/// Momentum whose matrices are replaced by nearly orthogonal ones: all singular values become about 1 (Jordan 2024).
///
/// It is meant for the matrices inside a network: use another optimizer, by [`MultiOptimizer`], for embeddings, the
/// output layer, and everything with one axis. Of arrays with more than two axes all but the first are taken as one.
///
/// [`MultiOptimizer`]: super::MultiOptimizer
#[derive(Debug, Clone, Copy)]
pub struct Muon {
    /// The part of the average of gradients that is kept.
    pub momentum: f64,
    /// How much of the parameter is added to its gradient.
    pub weight_decay: f64,
    /// Look ahead by one more averaging.
    pub nesterov: bool,
    /// Iterations of Newton and Schulz.
    pub ns_steps: usize,
}

impl Default for Muon {
    fn default() -> Muon {
        Muon { momentum: 0.95, weight_decay: 0.01, nesterov: true, ns_steps: 5 }
    }
}

impl Muon {
    /// An odd polynomial of a matrix, applied again and again: it drives singular values towards 1.
    fn orthogonal(&self, x: &Array) -> Result<Array> {
        let (linear, cubic, quintic) = (3.4445, -4.7750, 2.0315);
        let tall = x.shape()[0] > x.shape()[1];
        let x = if tall { x.t()? } else { x.clone() };
        let norm = linalg::norm(&x, None, None, true)?;
        let mut x = x.divide(&plus(&norm, 1e-7)?)?;
        for _ in 0..self.ns_steps {
            let square = x.matmul(&x.t()?)?;
            let factor = square.scale(cubic)?.addmm(&square, &square, quintic, 1.0)?;
            x = x.scale(linear)?.addmm(&factor, &x, 1.0, 1.0)?;
        }
        if tall { x.t() } else { Ok(x) }
    }
}

impl Rule for Muon {
    fn slots(&self, p: &Array) -> Result<Slots> {
        Slots::zeros(&["v"], p)
    }

    fn step(&self, g: &Array, p: &Array, slots: &mut Slots, now: &Now<'_>) -> Result<Array> {
        let g = if self.weight_decay == 0.0 { g.clone() } else { g.add(&p.scale(self.weight_decay)?)? };
        let v = averaged(slots.get("v")?, &g, self.momentum)?;
        let mut update = if self.nesterov { averaged(&v, &g, self.momentum)? } else { v.clone() };
        slots.set("v", v);
        let mut rate = now.rate(g.dtype())?;
        if let [first, rest @ ..] = &update.shape().to_vec()[..]
            && let [.., rows, columns] = update.shape()[..]
        {
            let flat = update.reshape(&[*first, rest.iter().product()])?;
            update = self.orthogonal(&flat)?.reshape(update.shape())?;
            rate = rate.scale((rows as f64 / columns as f64).max(1.0).sqrt())?;
        }
        p.subtract(&rate.multiply(&update)?)
    }
}
