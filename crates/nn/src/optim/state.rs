//! A rule with its learning rate and what it keeps.

use super::{Now, Rule, Schedule, Slots};
use crate::visitors::{set_parameters, trainable_parameters};
use crate::{Gradients, Module};
use olivine_core::transforms::{Signature, Tree};
use olivine_core::{Array, Dtype, Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A rule, its learning rate, and its state: the number of steps, and slots for each parameter.
///
/// The slots of a parameter come into being in the first step that changes it, or by [`Optimizer::init`], which saves
/// a compiled training step the second trace. Steps are computed in `f32` at least: in `float16` the square of a
/// gradient below 2e-4, and constants such as 1e-8, are zero, and a step divides by them. Slots of `float16` parameters
/// are `f32`, those of `bfloat16` parameters, which have the range of `f32`, are `bfloat16`.
#[derive(Debug, Clone)]
pub struct Optimizer {
    rule: Arc<dyn Rule>,
    schedule: Option<Schedule>,
    /// All that decides what it does beside its arrays.
    description: Arc<str>,
    step: Array,
    learning_rate: Option<Array>,
    slots: BTreeMap<Arc<str>, Slots>,
}

const STEP: &str = "step";
const LEARNING_RATE: &str = "learning_rate";
const OP: &str = "optimizer";

impl Optimizer {
    /// With a learning rate: a number or a [`Schedule`].
    ///
    /// # Errors
    /// `Value` for numbers that make no sense.
    pub fn new(rule: impl Rule + 'static, learning_rate: impl Into<Schedule>) -> Result<Optimizer> {
        Optimizer::made(Arc::new(rule), Some(learning_rate.into()))
    }

    /// For rules that find their learning rate themselves: [`Adafactor`](super::Adafactor).
    ///
    /// # Errors
    /// `Value` for numbers that make no sense.
    pub fn without_rate(rule: impl Rule + 'static) -> Result<Optimizer> {
        Optimizer::made(Arc::new(rule), None)
    }

    fn made(rule: Arc<dyn Rule>, schedule: Option<Schedule>) -> Result<Optimizer> {
        rule.check()?;
        let step = Array::from_scalar(0u64);
        let learning_rate = match &schedule {
            Some(s) => {
                s.check()?;
                Some(s.at(&step)?)
            }
            None => None,
        };
        // A constant rate is an array of the state: changing it changes no trace.
        let moving = schedule.as_ref().filter(|s| !matches!(s, Schedule::Constant(_)));
        let description = format!("{rule:?} {moving:?}").into();
        Ok(Optimizer { rule, schedule, description, step, learning_rate, slots: BTreeMap::new() })
    }

    /// Makes the slots of all trainable parameters that have none.
    ///
    /// # Errors
    /// Whatever the rule gives.
    pub fn init(&mut self, model: &mut (impl Module + ?Sized)) -> Result<()> {
        for (name, parameter) in trainable_parameters(model)? {
            self.init_single(&name, &parameter)?;
        }
        Ok(())
    }

    pub(super) fn init_single(&mut self, name: &str, parameter: &Array) -> Result<()> {
        if !self.slots.contains_key(name) {
            let slots = self.rule.slots(&parameter.astype(slot_dtype(parameter))?)?;
            self.slots.insert(name.into(), slots);
        }
        Ok(())
    }

    /// Replaces the parameters of a model by those after a step.
    ///
    /// # Errors
    /// `Value` for gradients of what the model does not have.
    pub fn update(&mut self, model: &mut (impl Module + ?Sized), gradients: &Gradients) -> Result<()> {
        let parameters = trainable_parameters(model)?;
        let new = self.apply(gradients, &parameters)?;
        set_parameters(model, &new)
    }

    /// The parameters after a step; the state moves on.
    ///
    /// # Errors
    /// `Value` when `parameters` lack one of `gradients`.
    pub fn apply(&mut self, gradients: &Gradients, parameters: &Gradients) -> Result<Gradients> {
        if let Some(moving) = self.schedule.as_ref().filter(|s| !matches!(s, Schedule::Constant(_))) {
            self.learning_rate = Some(moving.at(&self.step)?);
        }
        self.step = self.step.add(&Array::from_scalar(1u64))?;
        let mut new = Gradients::new();
        for (name, gradient) in gradients {
            let parameter = parameters
                .get(name)
                .ok_or_else(|| Error::value(OP, format!("a gradient of {name}, which is no parameter")))?;
            if gradient.shape() != parameter.shape() {
                let msg = format!("{name} is {}, its gradient is {}", parameter.shape(), gradient.shape());
                return Err(Error::shape(OP, msg));
            }
            self.init_single(name, parameter)?;
            new.insert(name.clone(), self.single(name, gradient, parameter)?);
        }
        Ok(new)
    }

    fn single(&mut self, name: &str, gradient: &Array, parameter: &Array) -> Result<Array> {
        let now = Now { step: &self.step, learning_rate: self.learning_rate.as_ref() };
        let slots =
            self.slots.get_mut(name).ok_or_else(|| Error::value(OP, format!("{name} has no slots")))?;
        if !is_half(parameter) && !is_half(gradient) {
            return self.rule.step(gradient, parameter, slots, &now);
        }
        let kept = slot_dtype(parameter);
        for (_, slot) in &mut slots.0 {
            *slot = widened(slot)?;
        }
        let new = self.rule.step(&widened(gradient)?, &widened(parameter)?, slots, &now)?;
        for (_, slot) in &mut slots.0 {
            *slot = slot.astype(kept)?;
        }
        new.astype(parameter.dtype())
    }

    /// How many steps were made, a scalar of `u64`.
    pub fn step(&self) -> &Array {
        &self.step
    }

    /// The learning rate of the last step, a scalar; that of the first before it. `None` for rules that find theirs.
    pub fn learning_rate(&self) -> Option<&Array> {
        self.learning_rate.as_ref()
    }

    /// Another constant learning rate, from the next step on. A compiled training step is not traced again.
    ///
    /// # Errors
    /// `Value` when the rate follows a schedule, or the rule finds its own.
    pub fn set_learning_rate(&mut self, rate: f64) -> Result<()> {
        if !matches!(self.schedule, Some(Schedule::Constant(_))) {
            return Err(Error::value(OP, format!("the rate {rate}, where it is {:?}", self.schedule)));
        }
        self.schedule = Some(Schedule::Constant(rate));
        self.learning_rate = Some(Array::from_scalar(rate as f32));
        Ok(())
    }

    /// All arrays of the state by name: `step`, `learning_rate`, and `parameter.slot`.
    pub fn state(&self) -> BTreeMap<String, Array> {
        let mut all = BTreeMap::from([(STEP.to_owned(), self.step.clone())]);
        if let Some(rate) = &self.learning_rate {
            all.insert(LEARNING_RATE.to_owned(), rate.clone());
        }
        for (name, slots) in &self.slots {
            for (slot, array) in &slots.0 {
                all.insert(format!("{name}.{slot}"), array.clone());
            }
        }
        all
    }

    /// Takes up the state of another optimizer of the same rule, such as one that was saved, for a model.
    ///
    /// # Errors
    /// `Value` that names what is missing or too much, `Shape` for slots of other shapes; the state stays as it was.
    pub fn load_state(
        &mut self,
        state: BTreeMap<String, Array>,
        model: &mut (impl Module + ?Sized),
    ) -> Result<()> {
        let parameters = trainable_parameters(model)?;
        self.load_state_of(state, &parameters)
    }

    /// [`Optimizer::load_state`] for the parameters that it changes.
    pub(super) fn load_state_of(
        &mut self,
        mut state: BTreeMap<String, Array>,
        parameters: &Gradients,
    ) -> Result<()> {
        let mut loaded = self.clone();
        let mut take = |name: &str| {
            state.remove(name).ok_or_else(|| Error::value(OP, format!("the state has no {name}")))
        };
        let scalar = |name: &str, a: Array, dtype: Dtype| {
            if a.shape().elements() != 1 {
                return Err(Error::shape(OP, format!("{name} is a scalar, got shape {}", a.shape())));
            }
            a.reshape::<usize>(&[])?.astype(dtype)
        };
        loaded.step = scalar(STEP, take(STEP)?, Dtype::U64)?;
        if loaded.learning_rate.is_some() {
            loaded.learning_rate = Some(scalar(LEARNING_RATE, take(LEARNING_RATE)?, Dtype::F32)?);
        }
        loaded.slots.clear();
        for (name, parameter) in parameters {
            loaded.init_single(name, parameter)?;
        }
        for (name, slots) in &mut loaded.slots {
            for (slot, array) in &mut slots.0 {
                let full = format!("{name}.{slot}");
                let new = take(&full)?;
                if new.shape() != array.shape() {
                    let msg = format!("{full} is of shape {}, got {}", array.shape(), new.shape());
                    return Err(Error::shape(OP, msg));
                }
                *array = new.astype(array.dtype())?;
            }
        }
        if let Some(more) = state.keys().next() {
            return Err(Error::value(OP, format!("the state has {more}, which belongs to nothing")));
        }
        *self = loaded;
        Ok(())
    }

    pub(super) fn description(&self) -> &str {
        &self.description
    }
}

impl Tree for Optimizer {
    fn visit(&self, f: &mut dyn FnMut(&Array)) {
        f(&self.step);
        self.learning_rate.visit(f);
        self.slots.values().flat_map(|s| &s.0).for_each(|(_, a)| f(a));
    }

    fn map(&self, f: &mut dyn FnMut(&Array) -> Result<Array>) -> Result<Optimizer> {
        let mut mapped = self.clone();
        mapped.step = f(&self.step)?;
        mapped.learning_rate = Tree::map(&self.learning_rate, f)?;
        for (_, a) in mapped.slots.values_mut().flat_map(|s| &mut s.0) {
            *a = f(a)?;
        }
        Ok(mapped)
    }

    fn sign(&self, signature: &mut Signature) {
        signature.push(&self.description);
        self.learning_rate.sign(signature);
        signature.push(&self.slots.len());
        for (name, slots) in &self.slots {
            signature.push(name);
            signature.push(&slots.0.len());
            slots.0.iter().for_each(|(slot, _)| signature.push(slot));
        }
    }
}

fn is_half(a: &Array) -> bool {
    matches!(a.dtype(), Dtype::F16 | Dtype::BF16)
}

/// Half-precision numbers as `f32`, others as they are.
pub(super) fn widened(a: &Array) -> Result<Array> {
    if is_half(a) { a.astype(Dtype::F32) } else { Ok(a.clone()) }
}

fn slot_dtype(parameter: &Array) -> Dtype {
    if parameter.dtype() == Dtype::F16 { Dtype::F32 } else { parameter.dtype() }
}
