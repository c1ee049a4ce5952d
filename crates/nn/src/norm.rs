//! Normalisation.

use crate::{Module, Param, Training, Visitor, join};
use olivine_core::{Array, Dtype, Error, Result};

fn check_eps(layer: &'static str, eps: f32) -> Result<()> {
    if eps.is_finite() && eps >= 0.0 {
        return Ok(());
    }
    Err(Error::value(layer, format!("eps is finite and 0 or more, got {eps}")))
}

fn ones(n: usize) -> Result<Param> {
    Array::ones(&[n], Dtype::F32).map(Param::new)
}

fn zeros(n: usize) -> Result<Param> {
    Array::zeros(&[n], Dtype::F32).map(Param::new)
}

/// `x * weight + bias` as far as there are any.
fn affine(x: Array, weight: Option<&Param>, bias: Option<&Param>) -> Result<Array> {
    let x = match weight {
        Some(w) => w.multiply(&x)?,
        None => x,
    };
    match bias {
        Some(b) => x.add(b),
        None => Ok(x),
    }
}

/// `x / sqrt(mean(x^2) + eps) * weight` over the last axis (Zhang and Sennrich 2019).
///
/// `weight` is the factor itself. Checkpoints that store the factor minus one are set right when they are
/// loaded, once, rather than at each step.
#[derive(Debug, Clone)]
pub struct RmsNorm {
    /// `[features]`.
    pub weight: Param,
    /// Added to the mean square.
    pub eps: f32,
}

impl RmsNorm {
    /// A factor of one.
    ///
    /// # Errors
    /// `Value` when `eps` is negative or not finite.
    pub fn new(features: usize, eps: f32) -> Result<RmsNorm> {
        check_eps("rms_norm", eps)?;
        Ok(RmsNorm { weight: ones(features)?, eps })
    }

    /// `[..., features]` to the same, in the type of `x`.
    pub fn forward(&self, x: &Array) -> Result<Array> {
        x.rms_norm(Some(&self.weight), self.eps)
    }
}

impl Module for RmsNorm {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.setting(path, &self.eps.to_le_bytes())?;
        visitor.param(&join(path, "weight"), &mut self.weight)
    }
}

/// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis (Ba et al. 2016).
#[derive(Debug, Clone, Module)]
pub struct LayerNorm {
    /// `[features]`.
    pub weight: Option<Param>,
    /// `[features]`.
    pub bias: Option<Param>,
    /// Added to the variance.
    pub eps: f32,
}

impl LayerNorm {
    /// A factor of one and a shift of zero, both learnt.
    ///
    /// # Errors
    /// `Value` when `eps` is negative or not finite.
    pub fn new(features: usize, eps: f32) -> Result<LayerNorm> {
        let norm = LayerNorm::plain(eps)?;
        Ok(LayerNorm { weight: Some(ones(features)?), bias: Some(zeros(features)?), ..norm })
    }

    /// Nothing learnt.
    ///
    /// # Errors
    /// `Value` when `eps` is negative or not finite.
    pub fn plain(eps: f32) -> Result<LayerNorm> {
        check_eps("layer_norm", eps)?;
        Ok(LayerNorm { weight: None, bias: None, eps })
    }

    /// `[..., features]` to the same, in the type of `x`.
    pub fn forward(&self, x: &Array) -> Result<Array> {
        x.layer_norm(self.weight.as_deref(), self.bias.as_deref(), self.eps)
    }
}

/// Normalises each channel of each sample over its positions (Ulyanov et al. 2016).
#[derive(Debug, Clone, Module)]
pub struct InstanceNorm {
    /// `[channels]`.
    pub weight: Option<Param>,
    /// `[channels]`.
    pub bias: Option<Param>,
    /// Added to the variance.
    pub eps: f32,
}

impl InstanceNorm {
    /// With a factor and a shift of each channel that are learnt, or without.
    ///
    /// # Errors
    /// `Value` when `eps` is negative or not finite.
    pub fn new(channels: usize, eps: f32, learnt: bool) -> Result<InstanceNorm> {
        check_eps("instance_norm", eps)?;
        let (weight, bias) =
            if learnt { (Some(ones(channels)?), Some(zeros(channels)?)) } else { (None, None) };
        Ok(InstanceNorm { weight, bias, eps })
    }

    /// `[batch, positions…, channels]` to the same.
    ///
    /// # Errors
    /// `Shape` for fewer than three axes.
    pub fn forward(&self, x: &Array) -> Result<Array> {
        let [samples, positions @ .., channels] = &x.shape()[..] else {
            return Err(Error::shape("instance_norm", format!("takes 3 axes or more, got {}", x.shape())));
        };
        if positions.is_empty() {
            return Err(Error::shape("instance_norm", format!("takes 3 axes or more, got {}", x.shape())));
        }
        let count: usize = positions.iter().product();
        let rows =
            x.reshape(&[*samples, count, *channels])?.swapaxes(1, 2)?.layer_norm(None, None, self.eps)?;
        affine(rows.swapaxes(1, 2)?.reshape(x.shape())?, self.weight.as_ref(), self.bias.as_ref())
    }
}

fn check_groups(groups: usize, channels: usize) -> Result<()> {
    if groups > 0 && channels > 0 && channels.is_multiple_of(groups) {
        return Ok(());
    }
    Err(Error::value("group_norm", format!("{groups} groups do not divide {channels} channels")))
}

/// Normalises groups of channels over all positions of a sample (Wu and He 2018).
#[derive(Debug, Clone, Module)]
pub struct GroupNorm {
    /// `[channels]`.
    pub bias: Option<Param>,
    /// `[channels]`.
    pub weight: Option<Param>,
    /// Number of groups.
    pub groups: usize,
    /// Added to the variance.
    pub eps: f32,
    /// A group is a run of neighbouring channels, as in PyTorch. Otherwise channels are dealt out to the groups in
    /// turn, as MLX does by default.
    pub neighbours: bool,
    /// Number of channels.
    pub channels: usize,
}

impl GroupNorm {
    /// Groups of neighbouring channels; a factor and a shift of each channel are learnt.
    ///
    /// # Errors
    /// `Value` when the groups do not divide the channels, or `eps` is negative or not finite.
    pub fn new(groups: usize, channels: usize, eps: f32) -> Result<GroupNorm> {
        check_eps("group_norm", eps)?;
        check_groups(groups, channels)?;
        let (bias, weight) = (Some(zeros(channels)?), Some(ones(channels)?));
        Ok(GroupNorm { bias, weight, groups, eps, neighbours: true, channels })
    }

    /// `[batch, positions…, channels]` to the same.
    ///
    /// # Errors
    /// `Shape` when the last axis is not that of the channels.
    pub fn forward(&self, x: &Array) -> Result<Array> {
        check_groups(self.groups, self.channels)?;
        let (samples, positions) = match &x.shape()[..] {
            [samples, positions @ .., channels] if *channels == self.channels => {
                (*samples, positions.iter().product::<usize>())
            }
            _ => {
                let msg = format!("takes [batch, positions…, {}], got {}", self.channels, x.shape());
                return Err(Error::shape("group_norm", msg));
            }
        };
        let each = self.channels / self.groups;
        let y = if self.neighbours {
            let split = x.reshape(&[samples, positions, self.groups, each])?.swapaxes(1, 2)?;
            let rows = split.reshape(&[samples, self.groups, positions * each])?;
            rows.layer_norm(None, None, self.eps)?.reshape(split.shape())?.swapaxes(1, 2)?
        } else {
            normal(&x.reshape(&[samples, positions * each, self.groups])?, &[1], true, self.eps)?.0
        };
        affine(y.reshape(x.shape())?, self.weight.as_ref(), self.bias.as_ref())
    }
}

/// `(x - mean) / sqrt(var + eps)` over axes, and the mean.
fn normal(x: &Array, axes: &[i32], keepdims: bool, eps: f32) -> Result<(Array, Array)> {
    let mean = x.mean(axes, keepdims)?;
    let variance = x.var(axes, keepdims, 0)?;
    Ok((scaled(x, &mean, &variance, eps)?, mean))
}

fn scaled(x: &Array, mean: &Array, variance: &Array, eps: f32) -> Result<Array> {
    let eps = variance.scalar_like(f64::from(eps));
    x.subtract(mean)?.multiply(&variance.add(&eps)?.rsqrt()?)
}

/// Normalises each feature over batch and positions (Ioffe and Szegedy 2015).
///
/// In training mean and variance are those of the batch; otherwise, if they are kept, the running ones.
#[derive(Debug, Clone, Module)]
pub struct BatchNorm {
    /// `[features]`.
    pub weight: Option<Param>,
    /// `[features]`.
    pub bias: Option<Param>,
    /// `[features]`, kept and never trained.
    pub running_mean: Option<Array>,
    /// `[features]`, of the unbiased variance, kept and never trained.
    pub running_var: Option<Array>,
    /// Added to the variance.
    pub eps: f32,
    /// The weight of a new batch in the running mean and variance.
    pub momentum: f64,
    /// Whether statistics are those of the batch, and the running ones move.
    pub training: Training,
}

impl BatchNorm {
    /// A factor and a shift that are learnt, and running statistics.
    ///
    /// # Errors
    /// `Value` when `eps` is negative or not finite.
    pub fn new(features: usize, eps: f32, momentum: f64) -> Result<BatchNorm> {
        check_eps("batch_norm", eps)?;
        Ok(BatchNorm {
            weight: Some(ones(features)?),
            bias: Some(zeros(features)?),
            running_mean: Some(Array::zeros(&[features], Dtype::F32)?),
            running_var: Some(Array::ones(&[features], Dtype::F32)?),
            eps,
            momentum,
            training: Training::default(),
        })
    }

    /// `[batch, positions…, features]` to the same; in training the running statistics move.
    ///
    /// # Errors
    /// `Shape` for other than 2 to 4 axes; `Value` for a batch to train on that has one value per feature.
    pub fn forward(&mut self, x: &Array) -> Result<Array> {
        if !(2..=4).contains(&x.rank()) {
            return Err(Error::shape("batch_norm", format!("takes 2 to 4 axes, got {}", x.shape())));
        }
        if let (false, Some(mean), Some(variance)) = (self.training.0, &self.running_mean, &self.running_var)
        {
            return affine(scaled(x, mean, variance, self.eps)?, self.weight.as_ref(), self.bias.as_ref());
        }
        let axes: Vec<i32> = (0..x.rank() as i32 - 1).collect();
        let count: usize = x.shape()[..x.rank() - 1].iter().product();
        if self.training.0 && count == 1 {
            let msg = format!("training needs more than one value per feature, got {}", x.shape());
            return Err(Error::value("batch_norm", msg));
        }
        let (y, mean) = normal(x, &axes, false, self.eps)?;
        if self.training.0 {
            let moved =
                |old: &Array, new: &Array| old.scale(1.0 - self.momentum)?.add(&new.scale(self.momentum)?);
            if let Some(running) = &self.running_mean {
                self.running_mean = Some(moved(running, &mean)?);
            }
            if let Some(running) = &self.running_var {
                self.running_var = Some(moved(running, &x.var(&axes, false, 1)?)?);
            }
        }
        affine(y, self.weight.as_ref(), self.bias.as_ref())
    }
}
