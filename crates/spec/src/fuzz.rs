//! Random calls of every registered function, most of them absurd: each may succeed or be refused, but nothing
//! may panic, hang, end the process or take more memory than allowed.

use crate::args::{Args, Given, Key, Kind, Source};
use crate::calls::{self, Call};
use crate::draw::{Draw, Profile, Rng};
use crate::value::Value;
use crate::wire::call_json;
use olivine_core::op::Packing;
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
    /// Arguments that fit each other, of functions that hardly take any others.
    fitting: Given,
}

impl Maker {
    /// Arguments that fit, for functions whose shapes depend on each other in ways that chance does not find.
    fn fit(&mut self, name: &str) -> olivine_core::Result<()> {
        match name {
            "dequantize" | "quantized_matmul" | "gather_qmm" | "qqmm" | "gather_qqmm" => {
                self.fit_packed(name)
            }
            "fast.gated_delta_update" => self.fit_delta(),
            "conv_general" => self.fit_conv(1, name),
            n if n.starts_with("conv") && n.ends_with('d') => {
                // `conv2d`: the number of axes is the last character but one.
                let axes = n.chars().rev().nth(1).and_then(|c| c.to_digit(10)).unwrap_or(1);
                self.fit_conv(axes as usize, name)
            }
            _ => Ok(()),
        }
    }

    fn some(&mut self, shape: &[usize], dtype: Dtype) -> olivine_core::Result<Array> {
        self.draw.profile = self.draw.rng.pick(&[Profile::Plain, Profile::Strided, Profile::Special]);
        self.draw.numbers(shape, dtype).array()
    }

    fn fit_packed(&mut self, name: &str) -> olivine_core::Result<()> {
        let modes: [(&str, &[usize], &[u8]); 4] = [
            ("affine", &[32, 64, 128], &[2, 3, 4, 5, 6, 8]),
            ("mxfp4", &[32], &[4]),
            ("mxfp8", &[32], &[8]),
            ("nvfp4", &[16], &[4]),
        ];
        let (mode, groups, widths) = self.draw.rng.pick(&modes);
        let (group, bits) = (self.draw.rng.pick(groups), self.draw.rng.pick(widths));
        let (rows, many) = (1 + self.draw.rng.below(70), 1 + self.draw.rng.below(4));
        let inner = 128 * (1 + self.draw.rng.below(2));
        let gather = name.starts_with("gather");
        let shape = if gather { vec![many, rows, inner] } else { vec![rows, inner] };
        let dtype = self.draw.rng.pick(&[Dtype::F32, Dtype::F16, Dtype::BF16]);
        let packing = Packing::named("quantize", mode, Some(group), Some(bits))?;
        let w = self.some(&shape, dtype)?.pack(packing, None)?;
        let leads = [&[][..], &[1], &[3], &[9], &[40], &[2, 3]];
        let mut x: Vec<usize> = if gather { vec![many] } else { Vec::new() };
        x.extend(self.draw.rng.pick(&leads));
        if gather && x.len() == 1 {
            x.push(1);
        }
        x.push(inner);
        let x = self.some(&x, dtype)?;
        let at = usize::from(name != "dequantize");
        let set = &mut self.fitting;
        if at == 1 {
            set.set(Key::At(0), x.into());
        }
        set.set(Key::At(at), w.words.into());
        set.set(Key::Named("scales"), w.scales.into());
        set.set(Key::Named("biases"), w.biases.map_or(Value::None, Value::Array));
        set.set(Key::Named("mode"), mode.into());
        set.set(Key::Named("group_size"), group.into());
        set.set(Key::Named("bits"), usize::from(bits).into());
        set.set(Key::Named("transpose"), true.into());
        for key in ["global_scale", "global_scale_x", "global_scale_w", "lhs_indices", "dtype"] {
            set.set(Key::Named(key), Value::None);
        }
        if gather {
            let n = 1 + self.draw.rng.below(5);
            // Sometimes one beyond the end.
            let end = many as i64 - i64::from(self.draw.rng.chance(90));
            let i = self.draw.integers(&[n], Dtype::U32, 0, end).array()?;
            self.fitting.set(Key::Named("rhs_indices"), i.into());
        }
        Ok(())
    }

    fn fit_conv(&mut self, axes: usize, name: &str) -> olivine_core::Result<()> {
        let r = &mut self.draw.rng;
        let groups = r.pick(&[1, 1, 2, 3]);
        let (batch, own, features) = (1 + r.below(2), 1 + r.below(4), groups * (1 + r.below(3)));
        let mut sizes = |low: usize, high: usize| -> Vec<usize> {
            (0..axes).map(|_| low + r.below(high - low + 1)).collect()
        };
        let xs = [vec![batch], sizes(3, 9), vec![groups * own]].concat();
        let ws = [vec![features], sizes(1, 3), vec![own]].concat();
        let (stride, padding, dilation) = (sizes(1, 3), sizes(0, 2), sizes(1, 2));
        let dtype = r.pick(&[Dtype::F32, Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64, Dtype::C64]);
        let (x, w) = (self.some(&xs, dtype)?, self.some(&ws, dtype)?);
        let set = &mut self.fitting;
        set.set(Key::At(0), x.into());
        set.set(Key::At(1), w.into());
        let of = |v: &[usize]| Value::List(v.iter().map(|&n| n.into()).collect());
        set.set(Key::Named("stride"), of(&stride));
        set.set(Key::Named("padding"), of(&padding));
        set.set(Key::Named("dilation"), of(&dilation));
        set.set(Key::Named("output_padding"), Value::None);
        set.set(Key::Named("groups"), groups.into());
        if name == "conv_general" {
            set.set(Key::Named("kernel_dilation"), of(&dilation));
        }
        Ok(())
    }

    fn fit_delta(&mut self) -> olivine_core::Result<()> {
        let [b, t, heads, more] = [(); 4].map(|()| 1 + self.draw.rng.below(3));
        let (keys, values) = (self.draw.rng.pick(&[8, 32, 64]), self.draw.rng.pick(&[4, 16, 32]));
        let all = heads * more;
        let shapes = [
            vec![b, t, heads, keys],
            vec![b, t, heads, keys],
            vec![b, t, all, values],
            vec![b, t, all],
            vec![b, t, all],
        ];
        let dtype = self.draw.rng.pick(&[Dtype::F32, Dtype::F16, Dtype::BF16]);
        for (i, shape) in shapes.iter().enumerate() {
            let x = self.some(shape, dtype)?;
            self.fitting.set(Key::At(i), x.into());
        }
        let state = self.some(&[b, all, values, keys], dtype)?;
        let state = if self.draw.rng.chance(50) { Value::Array(state) } else { Value::None };
        self.fitting.set(Key::Named("initial_state"), state);
        self.fitting.set(Key::Named("mask"), Value::None);
        Ok(())
    }
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
        // One in eight is replaced all the same.
        let fitting = self.fitting.get(key).filter(|_| !self.draw.rng.chance(12)).cloned();
        let value = match fitting {
            Some(Value::None) => None,
            Some(v) => Some(v),
            None if optional && self.draw.rng.chance(50) => None,
            None => self.value(kind),
        };
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
    let mut maker = Maker { draw, log: log.clone(), shapes: Vec::new(), dtype, fitting: Given::default() };
    let start = Instant::now();
    let run = || {
        if maker.draw.rng.chance(80) {
            maker.fit(call.name)?;
        }
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
