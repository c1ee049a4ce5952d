//! Different optimizers for different parameters.

use super::Optimizer;
use super::schedule::next_number;
use crate::visitors::{set_parameters, trainable_parameters};
use crate::{Gradients, Module};
use olivine_core::transforms::{Signature, Tree};
use olivine_core::{Array, Error, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

type Accepts = Arc<dyn Fn(&str, &Array) -> bool + Send + Sync>;

/// Optimizers that share the parameters of a model. The first whose filter accepts a parameter's name and gradient
/// gets it, the last one the rest.
#[derive(Clone)]
pub struct MultiOptimizer {
    chosen: Vec<(Accepts, Optimizer)>,
    rest: Optimizer,
    /// Tells its filters from all others that a process makes.
    number: u64,
}

impl fmt::Debug for MultiOptimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all().map(Optimizer::description)).finish()
    }
}

impl MultiOptimizer {
    /// Everything to one optimizer, as long as no other is added.
    pub fn new(rest: Optimizer) -> MultiOptimizer {
        MultiOptimizer { chosen: Vec::new(), rest, number: next_number() }
    }

    /// Another optimizer for what `accepts` picks by name and gradient, of what those before it leave.
    pub fn with(
        mut self,
        optimizer: Optimizer,
        accepts: impl Fn(&str, &Array) -> bool + Send + Sync + 'static,
    ) -> MultiOptimizer {
        self.chosen.push((Arc::new(accepts), optimizer));
        self.number = next_number();
        self
    }

    fn all(&self) -> impl Iterator<Item = &Optimizer> {
        self.chosen.iter().map(|(_, o)| o).chain([&self.rest])
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Optimizer> {
        self.chosen.iter_mut().map(|(_, o)| o).chain([&mut self.rest])
    }

    fn place(&self, name: &str, gradient: &Array) -> usize {
        let first = self.chosen.iter().position(|(accepts, _)| accepts(name, gradient));
        first.unwrap_or(self.chosen.len())
    }

    /// As [`Optimizer::init`]. Filters see the parameters in the place of gradients.
    ///
    /// # Errors
    /// Whatever the rules give.
    pub fn init(&mut self, model: &mut (impl Module + ?Sized)) -> Result<()> {
        for (name, parameter) in trainable_parameters(model)? {
            let place = self.place(&name, &parameter);
            if let Some(optimizer) = self.all_mut().nth(place) {
                optimizer.init_single(&name, &parameter)?;
            }
        }
        Ok(())
    }

    /// As [`Optimizer::update`].
    ///
    /// # Errors
    /// As [`Optimizer::update`].
    pub fn update(&mut self, model: &mut (impl Module + ?Sized), gradients: &Gradients) -> Result<()> {
        let parameters = trainable_parameters(model)?;
        let new = self.apply(gradients, &parameters)?;
        set_parameters(model, &new)
    }

    /// As [`Optimizer::apply`].
    ///
    /// # Errors
    /// As [`Optimizer::apply`].
    pub fn apply(&mut self, gradients: &Gradients, parameters: &Gradients) -> Result<Gradients> {
        let mut shares = vec![Gradients::new(); self.chosen.len() + 1];
        for (name, gradient) in gradients {
            shares[self.place(name, gradient)].insert(name.clone(), gradient.clone());
        }
        let mut new = Gradients::new();
        for (optimizer, share) in self.all_mut().zip(&shares) {
            new.extend(optimizer.apply(share, parameters)?);
        }
        Ok(new)
    }

    /// The optimizers, in the order in which they were added, that for the rest last.
    pub fn optimizers(&mut self) -> Vec<&mut Optimizer> {
        self.all_mut().collect()
    }

    /// All arrays of the states by name: `states.0.step` and so on.
    pub fn state(&self) -> BTreeMap<String, Array> {
        let named = |(i, o): (usize, &Optimizer)| {
            o.state().into_iter().map(move |(name, a)| (format!("states.{i}.{name}"), a)).collect::<Vec<_>>()
        };
        self.all().enumerate().flat_map(named).collect()
    }

    /// As [`Optimizer::load_state`]. Filters see the parameters in the place of gradients.
    ///
    /// # Errors
    /// As [`Optimizer::load_state`]; the state stays as it was.
    pub fn load_state(
        &mut self,
        state: BTreeMap<String, Array>,
        model: &mut (impl Module + ?Sized),
    ) -> Result<()> {
        let mut loaded = self.clone();
        let mut shares = vec![Gradients::new(); self.chosen.len() + 1];
        for (name, parameter) in trainable_parameters(model)? {
            shares[self.place(&name, &parameter)].insert(name, parameter);
        }
        let mut parts = vec![BTreeMap::new(); shares.len()];
        for (full, array) in state {
            let place = full.strip_prefix("states.").and_then(|rest| {
                let (number, name) = rest.split_once('.')?;
                let number = number.parse::<usize>().ok().filter(|n| *n < parts.len())?;
                Some((number, name.to_owned()))
            });
            let Some((number, name)) = place else {
                let msg = format!("the state of {} optimizers has {full}", parts.len());
                return Err(Error::value("multi_optimizer", msg));
            };
            parts[number].insert(name, array);
        }
        for ((optimizer, part), share) in loaded.all_mut().zip(parts).zip(&shares) {
            optimizer.load_state_of(part, share)?;
        }
        *self = loaded;
        Ok(())
    }
}

impl Tree for MultiOptimizer {
    fn visit(&self, f: &mut dyn FnMut(&Array)) {
        self.all().for_each(|o| o.visit(f));
    }

    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<MultiOptimizer> {
        let mut mapped = self.clone();
        for optimizer in mapped.all_mut() {
            *optimizer = optimizer.map(f)?;
        }
        Ok(mapped)
    }

    fn sign(&self, signature: &mut Signature) {
        signature.push(&self.number);
        self.all().for_each(|o| o.sign(signature));
    }
}
