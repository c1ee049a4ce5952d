//! Random programs: the same steps, computed on one CPU stream or spread over streams of several devices.
#![allow(dead_code, reason = "each test file uses a part of this")]

use olivine_core::{Array, Device, Dtype, Result, Stream, async_eval};
use olivine_testdev::{Session, device};
use std::sync::Once;
use std::time::Duration;

pub const SIDE: usize = 8;

/// Longest time that a test may take before it counts as hanging.
pub const LIMIT: Duration = Duration::from_secs(500);

/// A reproducible stream of random numbers.
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
    pub fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
    pub fn float(&mut self) -> f32 {
        self.below(4001) as f32 / 1000.0 - 2.0
    }
}

/// Streams of the CPU and of all test devices.
pub fn streams() -> Vec<Stream> {
    static NAMED: Once = Once::new();
    NAMED.call_once(olivine_testdev::register);
    let on = |device, id| Stream { device, id };
    vec![
        on(Device::CPU, 0),
        on(Device::CPU, 1001),
        on(Device::CPU, 1002),
        on(device(0), 0),
        on(device(0), 1003),
        on(device(1), 0),
        on(device(1), 1004),
        on(device(2), 0),
    ]
}

/// What a step computes; all values are `[SIDE, SIDE]` arrays of `f32` that stay within a few units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sin,
    Sigmoid,
    Half,
    Add,
    Mul,
    Max,
    Select,
    Matmul,
    CenterRows,
    MaxOfColumns,
    Transpose,
    Reverse,
    Reshape,
    SwapHalves,
    SliceUpdate,
    Take,
    Sort,
    CumSum,
    Softmax,
    RmsNorm,
    Constant,
}

use Kind::*;

const KINDS: [Kind; 21] = [
    Sin,
    Sigmoid,
    Half,
    Add,
    Mul,
    Max,
    Select,
    Matmul,
    CenterRows,
    MaxOfColumns,
    Transpose,
    Reverse,
    Reshape,
    SwapHalves,
    SliceUpdate,
    Take,
    Sort,
    CumSum,
    Softmax,
    RmsNorm,
    Constant,
];

/// One step: what, of which earlier values, and which value nobody holds any longer afterwards.
#[derive(Debug, Clone)]
pub struct Step {
    pub kind: Kind,
    pub a: usize,
    pub b: usize,
    pub number: usize,
    pub forget: Option<usize>,
    pub then: Then,
}

/// What happens after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Nothing,
    /// Some value is sent to its stream.
    Send(usize),
    /// Some value is waited for.
    Eval(usize),
}

pub struct Program {
    pub inputs: Vec<Vec<f32>>,
    pub steps: Vec<Step>,
}

impl Program {
    pub fn random(seed: u64, length: usize) -> Program {
        let mut rng = Rng::new(seed);
        let inputs: Vec<Vec<f32>> = (0..3).map(|_| (0..SIDE * SIDE).map(|_| rng.float()).collect()).collect();
        let mut live: Vec<usize> = (0..inputs.len()).collect();
        let mut steps = Vec::new();
        for i in 0..length {
            let pick = |rng: &mut Rng, live: &[usize]| {
                // Mostly recent values, so that graphs are deep as well as wide.
                let reach = if rng.chance(70) { live.len().min(3) } else { live.len() };
                live[live.len() - 1 - rng.below(reach)]
            };
            let (a, b) = (pick(&mut rng, &live), pick(&mut rng, &live));
            let kind = KINDS[rng.below(KINDS.len())];
            let number = rng.below(SIDE);
            live.push(inputs.len() + i);
            let forget = (live.len() > 3 && rng.chance(60)).then(|| live.remove(rng.below(live.len() - 1)));
            let then = match rng.below(12) {
                0 => Then::Eval(pick(&mut rng, &live)),
                1 | 2 => Then::Send(pick(&mut rng, &live)),
                _ => Then::Nothing,
            };
            steps.push(Step { kind, a, b, number, forget, then });
        }
        Program { inputs, steps }
    }

    /// Values of all steps, computed one by one on the default CPU stream.
    pub fn reference(&self) -> Vec<Vec<u8>> {
        streams()[0].scope(|| {
            let mut values: Vec<Array> = self.begin().expect("inputs fit");
            for s in &self.steps {
                let v = apply(s, &values[s.a], &values[s.b]).expect("a valid step");
                v.eval().expect("the CPU computes it");
                values.push(v);
            }
            values.iter().map(|v| v.to_bytes().expect("it is computed")).collect()
        })
    }

    pub fn begin(&self) -> Result<Vec<Array>> {
        self.inputs.iter().map(|v| Array::from_slice(v, &[SIDE, SIDE])).collect()
    }

    /// Runs with a stream chosen for each step. `seen` gets every value that is waited for, with its
    /// number, and whatever evaluation said. Gives what is still held at the end.
    pub fn run(
        &self,
        mut place: impl FnMut(usize) -> Stream,
        mut seen: impl FnMut(usize, &Array, Result<()>),
    ) -> Result<Vec<(usize, Array)>> {
        let mut values: Vec<Option<Array>> = self.begin()?.into_iter().map(Some).collect();
        for (i, s) in self.steps.iter().enumerate() {
            let get = |v: &Option<Array>| v.clone().expect("a step uses what is held");
            let (a, b) = (get(&values[s.a]), get(&values[s.b]));
            values.push(Some(place(i).scope(|| apply(s, &a, &b))?));
            drop((a, b));
            if let Some(f) = s.forget {
                values[f] = None;
            }
            match s.then {
                Then::Nothing => {}
                Then::Send(v) => {
                    let v = get(&values[v]);
                    // A failure shows again when a value is waited for.
                    let _ = async_eval(&[v]);
                }
                Then::Eval(n) => {
                    let v = get(&values[n]);
                    let outcome = v.eval();
                    seen(n, &v, outcome);
                }
            }
        }
        Ok(values.into_iter().enumerate().filter_map(|(i, v)| v.map(|v| (i, v))).collect())
    }
}

fn index(start: usize) -> Result<Array> {
    let at: Vec<i32> = (0..SIDE).map(|i| ((i * 3 + start) % SIDE) as i32).collect();
    Array::from_slice(&at, &[SIDE])
}

pub fn apply(s: &Step, a: &Array, b: &Array) -> Result<Array> {
    let n = SIDE as i64;
    match s.kind {
        Sin => a.sin(),
        Sigmoid => a.sigmoid(),
        Half => a.astype(Dtype::F16)?.scale(0.5)?.astype(Dtype::F32),
        Add => a.add(b)?.scale(0.5),
        Mul => a.multiply(b)?.sin(),
        Max => a.maximum(&b.negative()?),
        Select => Array::select(&a.less(b)?, &a.abs()?, b),
        Matmul => a.matmul(b)?.scale(0.125)?.sin(),
        CenterRows => a.subtract(&a.mean(&[1], true)?)?.sin(),
        MaxOfColumns => a.subtract(&b.max(&[0], true)?)?.sin(),
        Transpose => a.t(),
        Reverse => a.slice(&[(None, None, -1), (Some(0), Some(n), 1)]),
        Reshape => a.t()?.reshape(&[4usize, 16])?.reshape(&[SIDE, SIDE]),
        SwapHalves => {
            let parts = a.split(2, (s.number % 2) as i32)?;
            Array::concatenate(&[parts[1].clone(), parts[0].clone()], (s.number % 2) as i32)
        }
        SliceUpdate => {
            let size = SIDE - s.number.max(1);
            let part = b.slice_axis(0, 0, size)?;
            a.slice_update(&part, &[s.number.max(1), 0])
        }
        Take => a.take(&index(s.number)?, (s.number % 2) as i32),
        Sort => a.sort(1, s.number.is_multiple_of(2)),
        CumSum => a.cumsum(0, s.number.is_multiple_of(2), true)?.sin(),
        Softmax => a.softmax(1),
        RmsNorm => a.rms_norm(None, 1e-5)?.sin(),
        Constant => a.add(&Array::full(&[SIDE, SIDE], s.number as f32)?)?.sin(),
    }
}

/// A random stream for every step, the same for the same seed.
pub fn scattered(seed: u64) -> impl FnMut(usize) -> Stream {
    let streams = streams();
    let mut rng = Rng::new(seed ^ 0x5eed);
    move |_| streams[rng.below(streams.len())]
}

/// Compares counters of memory in use with those of the beginning.
pub fn nothing_leaked(session: &Session, before: &[usize], what: &str) {
    session.settle(&streams());
    assert_eq!(session.active(), before, "{what}: memory is still in use");
}
