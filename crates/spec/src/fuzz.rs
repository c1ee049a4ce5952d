//! Random calls of every registered function, most of them absurd: each may succeed or be refused, but nothing
//! may panic, hang, end the process or take more memory than allowed.

use crate::args::{Args, Given, Key, Kind, Source};
use crate::calls::{self, Call};
use crate::draw::{Draw, Profile, Rng};
use crate::value::Value;
use crate::wire::call_json;
use olivine_core::{Array, Dtype};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Functions that are not called: they read and write files at names that they are given.
const LEFT_OUT: &[&str] = &["load", "save", "savez", "savez_compressed", "save_safetensors", "save_gguf"];

/// Makes up arguments that often fit each other.
struct Maker {
    draw: Draw,
    log: Rc<RefCell<Given>>,
    /// Shapes so far, which later arrays like to have.
    shapes: Vec<Vec<usize>>,
    dtype: Dtype,
}

impl Maker {
    fn array(&mut self) -> Option<Array> {
        let d = &mut self.draw;
        d.profile =
            d.rng.pick(&[Profile::Plain, Profile::Plain, Profile::Strided, Profile::Special, Profile::Empty]);
        let shape = match (d.rng.below(10), self.shapes.last()) {
            (0..=3, Some(s)) => s.clone(),
            // What broadcasts, fits a product, or is its last axis.
            (4, Some(s)) => s.iter().map(|&n| if d.rng.chance(50) { 1 } else { n }).collect(),
            (5, Some(s)) => s.iter().rev().copied().collect(),
            (6, Some(s)) => s.last().map(|&n| vec![n]).unwrap_or_default(),
            (7, _) => vec![2],
            (8, _) => {
                let n = d.rng.pick(&[32, 64, 128]);
                vec![1 + d.rng.below(4), n]
            }
            (_, _) => d.shape(0, 4),
        };
        let dtype = match d.rng.below(10) {
            0..=4 => self.dtype,
            5 => Dtype::I32,
            6 => Dtype::U32,
            _ => d.rng.pick(&Dtype::ALL),
        };
        let input = if d.rng.chance(30) { d.integers(&shape, dtype, 0, 3) } else { d.numbers(&shape, dtype) };
        self.shapes.push(shape);
        input.array().ok()
    }

    fn int(&mut self) -> i64 {
        let r = &mut self.draw.rng;
        match r.below(12) {
            0 => r.pick(&[i64::MIN, i64::MAX, i64::from(i32::MIN), i64::from(i32::MAX), 1 << 40, -(1 << 40)]),
            1 => r.within(-100, 100),
            2..=4 => r.within(-3, 0),
            5 => r.pick(&[32, 64, 128]),
            _ => r.within(0, 5),
        }
    }

    fn ints(&mut self, axes: bool) -> Value {
        if self.draw.rng.chance(30) {
            return Value::Int(self.int());
        }
        if !axes
            && self.draw.rng.chance(40)
            && let Some(s) = self.shapes.last()
        {
            return s[..].into();
        }
        let n = self.draw.rng.below(4);
        Value::List((0..n).map(|_| Value::Int(self.int())).collect())
    }

    fn value(&mut self, kind: Kind<'_>) -> Option<Value> {
        Some(match kind {
            Kind::Array => match self.draw.rng.below(12) {
                0 => Value::Int(self.int()),
                1 => Value::Float(self.float()),
                _ => Value::Array(self.array()?),
            },
            Kind::Arrays => {
                let n = self.draw.rng.below(4);
                Value::List((0..n).filter_map(|_| self.array()).map(Value::Array).collect())
            }
            Kind::Bool => Value::Bool(self.draw.rng.chance(50)),
            Kind::Int | Kind::Size | Kind::Axis => Value::Int(self.int()),
            Kind::Axes => self.ints(true),
            Kind::Ints | Kind::Shape => self.ints(false),
            Kind::Float => Value::Float(self.float()),
            Kind::Dtype => Value::Dtype(self.draw.rng.pick(&Dtype::ALL)),
            Kind::Choice(names) if !names.is_empty() && self.draw.rng.chance(90) => {
                Value::Str(self.draw.rng.pick(names).to_owned())
            }
            Kind::Choice(_) | Kind::Str => {
                let texts = [
                    "",
                    "ij,jk->ik",
                    "ii",
                    "i->",
                    "...i,i",
                    "abc,c->b",
                    "->",
                    "é",
                    "causal",
                    "fro",
                    "ij->ji",
                ];
                Value::Str(self.draw.rng.pick(&texts).to_owned())
            }
            Kind::Any => match self.draw.rng.below(6) {
                0 => return None,
                1 => self.ints(false),
                2 => Value::Str("causal".into()),
                3 => Value::Int(self.int()),
                _ => Value::Array(self.array()?),
            },
        })
    }

    fn float(&mut self) -> f64 {
        let r = &mut self.draw.rng;
        match r.below(8) {
            0 => r.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 5e-324]),
            1 => 0.0,
            _ => (r.float() - 0.3) * 4.0,
        }
    }
}

impl Source for Maker {
    fn draw(&mut self, key: Key<'_>, kind: Kind<'_>, optional: bool, _so_far: &Given) -> Option<Value> {
        let value = if optional && self.draw.rng.chance(50) { None } else { self.value(kind) };
        self.log.borrow_mut().set(key, value.clone().unwrap_or(Value::None));
        value
    }
}

/// What went wrong in a call.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The function.
    pub name: &'static str,
    /// The panic's message, or that the call took too long.
    pub message: String,
    /// The call as a line for the driver, where arrays are small.
    pub call: String,
    /// The number of the call, from which everything follows.
    pub seed: u64,
}

/// How a run went.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Calls that gave a value.
    pub succeeded: usize,
    /// Calls that were refused.
    pub refused: usize,
    /// Names of the functions that never succeeded.
    pub never: Vec<&'static str>,
    /// What went wrong.
    pub findings: Vec<Finding>,
}

/// Longest time for a call on a few elements.
const LIMIT: Duration = Duration::from_secs(20);

/// One call; whether it succeeded.
fn one(call: &'static Call, seed: u64) -> Result<bool, Finding> {
    let log = Rc::new(RefCell::new(Given::default()));
    let mut draw = Draw::new(Profile::Plain, &[seed]);
    let floats = [Dtype::F32, Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64, Dtype::C64, Dtype::I32];
    let dtype = draw.rng.pick(&floats);
    let maker = Maker { draw, log: log.clone(), shapes: Vec::new(), dtype };
    let start = Instant::now();
    let run = || {
        let args = Args::drawn(call.name, Box::new(maker));
        let out = (call.run)(&args)?;
        olivine_core::eval(&out)
    };
    let outcome = catch_unwind(AssertUnwindSafe(run));
    let finding = |message: String| Finding {
        name: call.name,
        message,
        call: call_json(call.name, &log.borrow(), 40).to_string(),
        seed,
    };
    if start.elapsed() > LIMIT {
        return Err(finding(format!("took {:?}", start.elapsed())));
    }
    match outcome {
        Ok(Ok(())) => Ok(true),
        // A kernel that panics on a thread of its own is reported as a failure of the device.
        Ok(Err(e)) if e.to_string().contains("panicked") => Err(finding(e.to_string())),
        Ok(Err(olivine_core::Error::Device { msg, .. })) => Err(finding(msg)),
        Ok(Err(_)) => Ok(false),
        Err(p) => {
            let text = p.downcast_ref::<String>().cloned();
            Err(finding(text.or(p.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()))
        }
    }
}

/// Calls functions at random until the time is over; `only` one of them if named.
pub fn run(time: Duration, first: u64, only: Option<&str>, mut report: impl FnMut(&Finding)) -> Outcome {
    let wanted = |c: &&Call| !LEFT_OUT.contains(&c.name) && only.is_none_or(|n| n == c.name);
    let functions: Vec<&'static Call> = calls::all().filter(wanted).collect();
    let mut succeeded = vec![0usize; functions.len()];
    let mut outcome = Outcome::default();
    let start = Instant::now();
    let mut seed = first;
    while start.elapsed() < time && !functions.is_empty() {
        let i = Rng::of(&[seed, 1]).below(functions.len());
        match one(functions[i], seed) {
            Ok(true) => {
                succeeded[i] += 1;
                outcome.succeeded += 1;
            }
            Ok(false) => outcome.refused += 1,
            Err(f) => {
                report(&f);
                outcome.findings.push(f);
            }
        }
        seed += 1;
    }
    outcome.never = functions.iter().zip(&succeeded).filter(|(_, n)| **n == 0).map(|(c, _)| c.name).collect();
    outcome
}
