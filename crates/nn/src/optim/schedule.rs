//! Learning rates that change from step to step.

use olivine_core::{Array, Dtype, Error, Result};
use std::f64::consts::PI;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A function of the number of a step, counted from zero.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// Always the same. It may be changed while training goes on: [`Optimizer::set_learning_rate`].
    ///
    /// [`Optimizer::set_learning_rate`]: super::Optimizer::set_learning_rate
    Constant(f64),
    /// `init decay^step`.
    Exponential {
        /// The first value.
        init: f64,
        /// Factor of each step.
        decay: f64,
    },
    /// `init`, multiplied by `decay` after every `steps` steps.
    Step {
        /// The first value.
        init: f64,
        /// Factor.
        decay: f64,
        /// Steps between changes.
        steps: u64,
    },
    /// Half a wave from `init` down to `end` in `steps` steps, then `end`.
    Cosine {
        /// The first value.
        init: f64,
        /// Steps of the wave.
        steps: u64,
        /// The last value.
        end: f64,
    },
    /// A straight line from `init` to `end` in `steps` steps, then `end`.
    Linear {
        /// The first value.
        init: f64,
        /// The last value.
        end: f64,
        /// Steps of the line.
        steps: u64,
    },
    /// A schedule, and others with the step at which each begins. All count their steps from zero.
    Joined(Box<Schedule>, Vec<(u64, Schedule)>),
    /// Any function of the number of the step, a scalar of `u64`.
    Custom(Custom),
}

type OfStep = dyn Fn(&Array) -> Result<Array> + Send + Sync;

/// See [`Schedule::custom`].
#[derive(Clone)]
pub struct Custom {
    /// Tells it from all others that a process makes.
    number: u64,
    f: Arc<OfStep>,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Custom").field(&self.number).finish()
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Custom) -> bool {
        self.number == other.number
    }
}

/// Numbers of what has no other name.
pub(super) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl From<f64> for Schedule {
    fn from(rate: f64) -> Schedule {
        Schedule::Constant(rate)
    }
}

impl Schedule {
    /// A schedule from a function of the number of the step, which is a scalar of `u64`.
    pub fn custom(f: impl Fn(&Array) -> Result<Array> + Send + Sync + 'static) -> Schedule {
        Schedule::Custom(Custom { number: next_number(), f: Arc::new(f) })
    }

    /// An error where steps are missing.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Schedule::Step { steps: 0, .. }
            | Schedule::Cosine { steps: 0, .. }
            | Schedule::Linear { steps: 0, .. } => {
                Err(Error::value("schedule", format!("takes one step or more, got {self:?}")))
            }
            Schedule::Constant(_)
            | Schedule::Exponential { .. }
            | Schedule::Step { .. }
            | Schedule::Cosine { .. }
            | Schedule::Linear { .. }
            | Schedule::Custom(_) => Ok(()),
            Schedule::Joined(first, rest) => {
                first.check()?;
                if rest.is_sorted_by_key(|(at, _)| *at) {
                    rest.iter().try_for_each(|(_, s)| s.check())
                } else {
                    Err(Error::value("schedule", format!("the boundaries are in falling order: {self:?}")))
                }
            }
        }
    }

    /// The value at a step, a scalar of `u64`.
    ///
    /// # Errors
    /// Whatever a function of the user gives.
    pub fn at(&self, step: &Array) -> Result<Array> {
        let float = |a: &Array| a.astype(Dtype::F32);
        let at_most = |n: u64| float(&step.minimum(&Array::from_scalar(n))?);
        match self {
            Schedule::Constant(value) => Ok(Array::from_scalar(*value as f32)),
            Schedule::Exponential { init, decay } => {
                let exponent = float(step)?;
                exponent.scalar_like(*decay).power(&exponent)?.scale(*init)
            }
            Schedule::Step { init, decay, steps } => {
                let exponent = float(&step.floor_divide(&Array::from_scalar(*steps))?)?;
                exponent.scalar_like(*decay).power(&exponent)?.scale(*init)
            }
            Schedule::Cosine { init, steps, end } => {
                let wave = at_most(*steps)?.scale(PI / *steps as f64)?.cos()?;
                let part = wave.add(&wave.scalar_like(1.0))?.scale(0.5)?.scale(init - end)?;
                part.add(&part.scalar_like(*end))
            }
            Schedule::Linear { init, end, steps } => {
                let line = at_most(*steps)?.scale((end - init) / *steps as f64)?;
                line.add(&line.scalar_like(*init))
            }
            Schedule::Joined(first, rest) => {
                let mut value = first.at(step)?;
                for (boundary, later) in rest {
                    let boundary = Array::from_scalar(*boundary);
                    // A later schedule never sees a step before its own first one, which would wrap.
                    let own = step.maximum(&boundary)?.subtract(&boundary)?;
                    value = Array::select(&step.less(&boundary)?, &value, &later.at(&own)?)?;
                }
                Ok(value)
            }
            Schedule::Custom(c) => (c.f)(step)?.astype(Dtype::F32),
        }
    }
}
