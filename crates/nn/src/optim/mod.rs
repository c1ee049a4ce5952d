//! Optimizers, schedules of their learning rates, and clipping of gradients.
//!
//! A [`Rule`] is the formula of an optimizer, plain data such as [`AdamW`]; an [`Optimizer`] is a rule with a learning
//! rate and the arrays that it keeps for each parameter. It is a tree of arrays, so
//! [`compile_step`](olivine_core::transforms::compile_step) takes it as state.
//!
//! ```
//! use olivine_core::Array;
//! use olivine_nn::optim::{AdamW, Optimizer};
//! use olivine_nn::{Linear, Result, losses, value_and_grad};
//!
//! # fn train(x: Array, y: Array) -> Result<()> {
//! let mut model = Linear::new(2, 1, true)?;
//! let mut optimizer = Optimizer::new(AdamW { weight_decay: 0.1, ..AdamW::default() }, 1e-3)?;
//! for _ in 0..10 {
//!     let loss = |m: &mut Linear| losses::mse_loss(&m.forward(&x)?, &y, losses::Reduction::Mean);
//!     let (loss, gradients) = value_and_grad(&mut model, loss)?;
//!     optimizer.update(&mut model, &gradients)?;
//!     println!("{}", loss.item::<f32>()?);
//! }
//! # Ok(())
//! # }
//! ```

mod clip;
mod multi;
mod rules;
mod schedule;
mod state;

pub use clip::clip_grad_norm;
pub use multi::MultiOptimizer;
pub use rules::{AdaDelta, Adafactor, Adagrad, Adam, AdamW, Adamax, Lion, Muon, RmsProp, Sgd};
pub use schedule::{Custom, Schedule};
pub use state::Optimizer;

use olivine_core::{Array, Dtype, Error, Result};
use std::fmt::Debug;

/// The formula of an optimizer: what a step does to one parameter.
///
/// Its `Debug` form has to show everything that decides what it does, since compiled functions tell rules apart by it.
pub trait Rule: Debug + Send + Sync {
    /// An error unless its numbers make sense.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// The arrays that it keeps for a parameter, as they are before the first step.
    fn slots(&self, parameter: &Array) -> Result<Slots>;

    /// The parameter after a step; the slots move on. Half-precision arguments come as `f32`.
    fn step(&self, gradient: &Array, parameter: &Array, slots: &mut Slots, now: &Now<'_>) -> Result<Array>;
}

/// What all parameters share in a step.
#[derive(Debug, Clone, Copy)]
pub struct Now<'a> {
    /// The number of this step, counted from one, a scalar of `u64`.
    pub step: &'a Array,
    learning_rate: Option<&'a Array>,
}

impl Now<'_> {
    /// The learning rate in a type.
    ///
    /// # Errors
    /// `Value` when the optimizer has none.
    pub fn rate(&self, dtype: Dtype) -> Result<Array> {
        match self.learning_rate {
            Some(rate) => rate.astype(dtype),
            None => Err(Error::value("optimizer", "this rule needs a learning rate")),
        }
    }
}

/// Arrays that are kept for a parameter, by name.
#[derive(Debug, Clone, Default)]
pub struct Slots(Vec<(&'static str, Array)>);

impl Slots {
    /// Slots of these names that are like an array, filled with zeros.
    ///
    /// # Errors
    /// Those of [`Array::zeros`].
    pub fn zeros(names: &[&'static str], like: &Array) -> Result<Slots> {
        names
            .iter()
            .map(|n| Ok((*n, Array::zeros(like.shape(), like.dtype())?)))
            .collect::<Result<_>>()
            .map(Slots)
    }

    /// The array of a name.
    ///
    /// # Errors
    /// `Value` when there is none.
    pub fn get(&self, name: &str) -> Result<&Array> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, a)| a).ok_or_else(|| {
            let known: Vec<&str> = self.0.iter().map(|(n, _)| *n).collect();
            Error::value("optimizer", format!("there is no slot {name} among {}", known.join(", ")))
        })
    }

    /// Puts an array under a name.
    pub fn set(&mut self, name: &'static str, array: Array) {
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some((_, a)) => *a = array,
            None => self.0.push((name, array)),
        }
    }
}
