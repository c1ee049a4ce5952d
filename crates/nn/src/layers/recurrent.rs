//! Recurrent layers. Sequences are `[…, length, features]`; states are given and returned.

use crate::init::Init;
use crate::{Activation, Module, Param, activations};
use olivine_core::{Array, Error, Result};

/// Draws uniformly within `1 / sqrt(hidden)`.
fn draw(hidden: usize, shape: &[usize]) -> Result<Param> {
    let bound = 1.0 / (hidden as f64).sqrt();
    Init::Uniform { low: -bound, high: bound }.draw(shape).map(Param::new)
}

/// The part of all steps that depends on the input only, as one product; and how many steps there are.
fn project(layer: &'static str, x: &Array, weight: &Array, bias: Option<&Param>) -> Result<(Array, usize)> {
    let input = weight.shape().last().copied().unwrap_or(0);
    if x.rank() < 2 || x.shape().last() != Some(&input) {
        let msg = format!("takes [..., length, {input}], got {}", x.shape());
        return Err(Error::shape(layer, msg));
    }
    let length = x.dim(-2)?;
    if length == 0 {
        return Err(Error::shape(layer, format!("there are no steps in {}", x.shape())));
    }
    let y = x.matmul(&weight.t()?)?;
    Ok((if let Some(b) = bias { y.add(b)? } else { y }, length))
}

/// Step `t` of `[…, length, features]`.
fn at(x: &Array, t: usize) -> Result<Array> {
    x.slice_axis(-2, t, t + 1)?.squeeze(&[-2])
}

/// Elman's network: `h_t = f(Wxh x_t + Whh h_(t-1) + b)`.
#[derive(Debug, Clone, Module)]
pub struct Rnn {
    /// `[hidden, input]`.
    #[module(name = "Wxh")]
    pub wxh: Param,
    /// `[hidden, hidden]`.
    #[module(name = "Whh")]
    pub whh: Param,
    /// `[hidden]`.
    pub bias: Option<Param>,
    /// The function `f`.
    pub nonlinearity: Activation,
}

impl Rnn {
    /// With the hyperbolic tangent. Weights are drawn in the order of the fields.
    pub fn new(input: usize, hidden: usize, bias: bool) -> Result<Rnn> {
        Ok(Rnn {
            wxh: draw(hidden, &[hidden, input])?,
            whh: draw(hidden, &[hidden, hidden])?,
            bias: if bias { Some(draw(hidden, &[hidden])?) } else { None },
            nonlinearity: activations::tanh,
        })
    }

    /// The states after every step, `[…, length, hidden]`, from `state`, `[…, hidden]`, zero if there is none.
    ///
    /// # Errors
    /// `Shape` when `x` does not fit.
    pub fn forward(&self, x: &Array, state: Option<&Array>) -> Result<Array> {
        let (inputs, length) = project("rnn", x, &self.wxh, self.bias.as_ref())?;
        let mut state = state.cloned();
        let mut states = Vec::with_capacity(length);
        for t in 0..length {
            let mut now = at(&inputs, t)?;
            if let Some(h) = &state {
                now = now.add(&h.matmul(&self.whh.t()?)?)?;
            }
            let h = (self.nonlinearity)(&now)?;
            states.push(h.clone());
            state = Some(h);
        }
        Array::stack(&states, -2)
    }
}

/// Gated recurrent units (Cho et al. 2014):
///
/// ```text
/// r = sigmoid(W_xr x + W_hr h + b_r);  z = sigmoid(W_xz x + W_hz h + b_z)
/// n = tanh(W_xn x + b_n + r (W_hn h + b_hn));  h = (1 - z) n + z h
/// ```
#[derive(Debug, Clone, Module)]
pub struct Gru {
    /// `[3 hidden, input]`, for r, z and n from top to bottom.
    #[module(name = "Wx")]
    pub wx: Param,
    /// `[3 hidden, hidden]`.
    #[module(name = "Wh")]
    pub wh: Param,
    /// `[3 hidden]`.
    pub b: Option<Param>,
    /// `[hidden]`.
    pub bhn: Option<Param>,
}

impl Gru {
    /// Weights are drawn in the order of the fields.
    pub fn new(input: usize, hidden: usize, bias: bool) -> Result<Gru> {
        Ok(Gru {
            wx: draw(hidden, &[3 * hidden, input])?,
            wh: draw(hidden, &[3 * hidden, hidden])?,
            b: if bias { Some(draw(hidden, &[3 * hidden])?) } else { None },
            bhn: if bias { Some(draw(hidden, &[hidden])?) } else { None },
        })
    }

    /// The states after every step, `[…, length, hidden]`, from `state`, `[…, hidden]`, zero if there is none.
    ///
    /// # Errors
    /// `Shape` when `x` does not fit.
    pub fn forward(&self, x: &Array, state: Option<&Array>) -> Result<Array> {
        let (inputs, length) = project("gru", x, &self.wx, self.b.as_ref())?;
        let hidden = self.wh.dim(1)?;
        let mut state = state.cloned();
        let mut states = Vec::with_capacity(length);
        for t in 0..length {
            let now = at(&inputs, t)?.split_sizes(&[2 * hidden, hidden], -1)?;
            let (mut gates, mut candidate) = (now[0].clone(), now[1].clone());
            let mut recurrent = self.bhn.as_deref().cloned();
            if let Some(h) = &state {
                let parts = h.matmul(&self.wh.t()?)?.split_sizes(&[2 * hidden, hidden], -1)?;
                gates = gates.add(&parts[0])?;
                recurrent = Some(match recurrent {
                    Some(b) => parts[1].add(&b)?,
                    None => parts[1].clone(),
                });
            }
            let gates = gates.sigmoid()?.split(2, -1)?;
            let (reset, keep) = (&gates[0], &gates[1]);
            if let Some(r) = recurrent {
                candidate = candidate.add(&reset.multiply(&r)?)?;
            }
            let mut h = keep.scalar_like(1.0).subtract(keep)?.multiply(&candidate.tanh()?)?;
            if let Some(before) = &state {
                h = h.add(&keep.multiply(before)?)?;
            }
            states.push(h.clone());
            state = Some(h);
        }
        Array::stack(&states, -2)
    }
}

/// Long short-term memory (Hochreiter and Schmidhuber 1997):
///
/// ```text
/// i = sigmoid(W_xi x + W_hi h + b_i);  f = sigmoid(W_xf x + W_hf h + b_f)
/// g = tanh(W_xg x + W_hg h + b_g);  o = sigmoid(W_xo x + W_ho h + b_o)
/// c = f c + i g;  h = o tanh(c)
/// ```
#[derive(Debug, Clone, Module)]
pub struct Lstm {
    /// `[4 hidden, input]`, for i, f, g and o from top to bottom.
    #[module(name = "Wx")]
    pub wx: Param,
    /// `[4 hidden, hidden]`.
    #[module(name = "Wh")]
    pub wh: Param,
    /// `[4 hidden]`.
    pub bias: Option<Param>,
}

impl Lstm {
    /// Weights are drawn in the order of the fields.
    pub fn new(input: usize, hidden: usize, bias: bool) -> Result<Lstm> {
        Ok(Lstm {
            wx: draw(hidden, &[4 * hidden, input])?,
            wh: draw(hidden, &[4 * hidden, hidden])?,
            bias: if bias { Some(draw(hidden, &[4 * hidden])?) } else { None },
        })
    }

    /// The hidden and the cell states after every step, `[…, length, hidden]`. `hidden` and `cell` are those before
    /// the first step, `[…, hidden]`, zero if there are none.
    ///
    /// # Errors
    /// `Shape` when `x` does not fit.
    pub fn forward(&self, x: &Array, hidden: Option<&Array>, cell: Option<&Array>) -> Result<(Array, Array)> {
        let (inputs, length) = project("lstm", x, &self.wx, self.bias.as_ref())?;
        let (mut hidden, mut cell) = (hidden.cloned(), cell.cloned());
        let (mut outputs, mut cells) = (Vec::with_capacity(length), Vec::with_capacity(length));
        for t in 0..length {
            let mut gates = at(&inputs, t)?;
            if let Some(h) = &hidden {
                gates = gates.add(&h.matmul(&self.wh.t()?)?)?;
            }
            let gates = gates.split(4, -1)?;
            let entering = gates[0].sigmoid()?.multiply(&gates[2].tanh()?)?;
            let c = match &cell {
                Some(before) => gates[1].sigmoid()?.multiply(before)?.add(&entering)?,
                None => entering,
            };
            let h = gates[3].sigmoid()?.multiply(&c.tanh()?)?;
            outputs.push(h.clone());
            cells.push(c.clone());
            (hidden, cell) = (Some(h), Some(c));
        }
        Ok((Array::stack(&outputs, -2)?, Array::stack(&cells, -2)?))
    }
}
