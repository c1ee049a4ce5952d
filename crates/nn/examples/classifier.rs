//! A two-layer classifier, trained by a compiled step whose state is the model and the optimizer.
//!
//! ```sh
//! cargo run --release -p olivine-nn --example classifier    # 784 - 512 - 10, batches of 128
//! ```
//!
//! The data are made up: ten random patterns, each seen through noise.

use olivine_core::transforms::{Tree, compile_step};
use olivine_core::{Array, Dtype, Result, eval, random};
use olivine_nn::losses::{Reduction, cross_entropy};
use olivine_nn::optim::{AdamW, Optimizer};
use olivine_nn::{Dropout, Linear, Module, activations, value_and_grad};

/// Two layers with dropout between them.
#[derive(Clone, Module)]
pub struct Classifier {
    l1: Linear,
    drop: Dropout,
    l2: Linear,
}

impl Classifier {
    fn new(input: usize, hidden: usize, classes: usize) -> Result<Classifier> {
        Ok(Classifier {
            l1: Linear::new(input, hidden, true)?,
            drop: Dropout::new(0.1)?,
            l2: Linear::new(hidden, classes, true)?,
        })
    }

    fn forward(&self, x: &Array) -> Result<Array> {
        let hidden = activations::gelu(&self.l1.forward(x)?)?;
        self.l2.forward(&self.drop.forward(&hidden)?)
    }
}

/// What a step changes.
pub type State = (Classifier, Optimizer);
/// Examples `[size, input]` and their classes `[size]`.
pub type Batch = (Array, Array);

/// What one step does, compiled or not.
pub fn step(state: &mut State, (x, y): &Batch) -> Result<Array> {
    let (model, optimizer) = state;
    let (loss, gradients) = value_and_grad(model, |m| cross_entropy(&m.forward(x)?, y, Reduction::Mean))?;
    optimizer.update(model, &gradients)?;
    Ok(loss)
}

/// The model and its optimizer as they are before the first step.
pub fn begin(input: usize, hidden: usize) -> Result<State> {
    random::seed(0)?;
    let mut model = Classifier::new(input, hidden, 10)?;
    let mut optimizer = Optimizer::new(AdamW { weight_decay: 0.01, ..AdamW::default() }, 3e-4)?;
    optimizer.init(&mut model)?;
    Ok((model, optimizer))
}

/// Batch number `i`: patterns of ten classes under noise, drawn from keys of their own.
pub fn batch(i: u64, size: usize, input: usize) -> Result<Batch> {
    let patterns = random::normal(&[10, input], Dtype::F32, 0.0, 1.0, Some(&random::key(1)?))?;
    let keys = random::split(&random::key(2 + i)?, 2)?;
    let key = |row| keys.slice_axis(0, row, row + 1)?.reshape(&[2]);
    let y = random::randint(0, 10, &[size], Dtype::I32, Some(&key(0)?))?;
    let noise = random::normal(&[size, input], Dtype::F32, 0.0, 2.0, Some(&key(1)?))?;
    Ok((patterns.take(&y, 0)?.add(&noise)?, y))
}

/// Everything that a step leaves behind, computed.
pub fn finish(loss: &Array, state: &State) -> Result<()> {
    let mut all = vec![loss.clone()];
    Tree::visit(state, &mut |a| all.push(a.clone()));
    eval(&all)
}

fn main() -> Result<()> {
    olivine_cpu::register();
    let (input, hidden, size) = (784, 512, 128);
    let mut state = begin(input, hidden)?;
    let compiled = compile_step(step);
    for i in 0..300 {
        let loss = compiled(&mut state, &batch(i, size, input)?)?;
        finish(&loss, &state)?;
        if i % 50 == 0 || i == 299 {
            println!("step {i:3}: loss {:.4}", loss.item::<f32>()?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(step: impl Fn(&mut State, &Batch) -> Result<Array>) -> Result<Vec<f32>> {
        olivine_cpu::register();
        let mut state = begin(48, 32)?;
        (0..200)
            .map(|i| {
                let loss = step(&mut state, &batch(i, 16, 48)?)?;
                finish(&loss, &state)?;
                loss.item()
            })
            .collect()
    }

    #[test]
    fn compiled_and_plain_losses_agree_for_200_steps() {
        let (plain, compiled) = (losses(step).unwrap(), losses(compile_step(step)).unwrap());
        assert_eq!(plain, compiled, "the same bits");
        assert!(plain[199] < 0.5 * plain[0], "{} to {}", plain[0], plain[199]);
    }
}
