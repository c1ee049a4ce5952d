//! Runs rows on a device and says what is wrong.

use crate::draw::{Draw, Profile};
use crate::host::{Data, Host, round_to, unit};
use crate::rows::{Case, Row, key, reference, rows};
use olivine_core::{Array, Device, DeviceKind, Dtype, Stream};
use std::fmt;

/// Which cases are run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where.
    pub device: Device,
    /// Only kinds with this name.
    pub only: Option<String>,
    /// Only arguments of this type.
    pub dtype: Option<Dtype>,
    /// Cases for every type and profile.
    pub repeat: usize,
    /// What all choices follow from.
    pub seed: u64,
    /// Only the case of this number within its type and profile, to see a failure again.
    pub case: Option<u64>,
}

impl Plan {
    /// Everything, twice.
    pub fn new(device: Device) -> Plan {
        Plan { device, only: None, dtype: None, repeat: 2, seed: 0, case: None }
    }
}

/// A case that went wrong.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Kind of the operation.
    pub key: &'static str,
    /// Type of the arguments.
    pub dtype: Dtype,
    /// What the case was about.
    pub profile: Profile,
    /// The operation with its parameters, and the arguments.
    pub what: String,
    /// What is wrong.
    pub message: String,
    /// How to see it again.
    pub again: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {:?}: {}\n  {}\n  {}",
            self.key, self.dtype, self.profile, self.message, self.what, self.again
        )
    }
}

/// How a run went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Cases that gave what they must.
    pub passed: usize,
    /// Cases that did not.
    pub failed: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Runs the rows of a plan; `report` gets every failure.
pub fn run(plan: &Plan, mut report: impl FnMut(&Failure)) -> Summary {
    let mut summary = Summary::default();
    let wanted = |r: &&Row| plan.only.as_deref().is_none_or(|n| n == r.key);
    for row in rows().iter().filter(wanted) {
        for &dtype in row.dtypes.iter().filter(|d| plan.dtype.is_none_or(|p| p == **d)) {
            for profile in Profile::ALL {
                // One large case is enough of them.
                let repeat = if profile == Profile::Big { plan.repeat.div_ceil(4) } else { plan.repeat };
                for n in 0..repeat as u64 {
                    if plan.case.is_some_and(|c| c != n) {
                        continue;
                    }
                    match one(row, dtype, profile, plan, n) {
                        Ok(()) => summary.passed += 1,
                        Err(f) => {
                            summary.failed += 1;
                            report(&f);
                        }
                    }
                }
            }
        }
    }
    summary
}

/// A number that stands for a name.
fn hash(s: &str) -> u64 {
    s.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

fn one(row: &Row, dtype: Dtype, profile: Profile, plan: &Plan, n: u64) -> Result<(), Failure> {
    let seed = [plan.seed, hash(row.key), dtype as u64, profile as u64, n];
    let mut draw = Draw::new(profile, &seed);
    let case = (row.draw)(&mut draw, dtype);
    judge(row, &case, plan.device).map_err(|message| {
        let inputs: Vec<String> = case
            .inputs
            .iter()
            .map(|i| format!("{} {:?} {:?}", i.host.dtype, i.host.shape, i.placement))
            .collect();
        let again = format!(
            "olivine selftest --device {} --op {} --dtype {dtype} --seed {} --case {n}",
            plan.device, row.key, plan.seed
        );
        Failure {
            key: row.key,
            dtype,
            profile,
            what: format!("{:?} of {}", case.op, inputs.join("; ")),
            message,
            again,
        }
    })
}

/// Computes a case on a device and compares.
pub fn judge(row: &Row, case: &Case, device: Device) -> Result<(), String> {
    if key(&case.op) != row.key {
        return Err(format!("the row draws an operation of kind {}", key(&case.op)));
    }
    let got = compute(case, device).map_err(|e| format!("an error: {e}"))?;
    if let Some(judge) = row.judge {
        return judge(case, &got);
    }
    let inputs: Vec<Host> = case.inputs.iter().map(|i| i.host.clone()).collect();
    let want = reference(&case.op, &inputs);
    if got.len() != want.len() {
        return Err(format!("{} results, not {}", got.len(), want.len()));
    }
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        let units = tolerance(row, w.dtype, device);
        compare(g, w, units, device)
            .map_err(|m| if want.len() > 1 { format!("result {i}: {m}") } else { m })?;
    }
    Ok(())
}

fn compute(case: &Case, device: Device) -> olivine_core::Result<Vec<Host>> {
    let arrays = case.inputs.iter().map(|i| i.array()).collect::<olivine_core::Result<Vec<Array>>>()?;
    let got = Stream::default_of(device).scope(|| Array::from_op_multi(case.op.clone(), &arrays))?;
    olivine_core::eval(&got)?;
    got.iter().map(Host::from_array).collect()
}

/// Units in the last place that a device may be off.
fn tolerance(row: &Row, dtype: Dtype, device: Device) -> f64 {
    let cpu = (row.units)(dtype);
    match device.kind {
        DeviceKind::Cpu | DeviceKind::Test => cpu,
        // Their own mathematics: a few units where the CPU has one or two, in another order of summation.
        DeviceKind::Cuda | DeviceKind::Wgpu => cpu * 4.0,
    }
}

/// Compares a result with its reference.
pub fn compare(got: &Host, want: &Host, units: f64, device: Device) -> Result<(), String> {
    if got.dtype != want.dtype {
        return Err(format!("type {}, not {}", got.dtype, want.dtype));
    }
    if got.shape != want.shape {
        return Err(format!("shape {:?}, not {:?}", got.shape, want.shape));
    }
    let d = want.dtype;
    let flush = match (device.kind, d) {
        (DeviceKind::Cuda | DeviceKind::Wgpu, Dtype::F32 | Dtype::C64 | Dtype::BF16) => {
            f64::from(f32::MIN_POSITIVE)
        }
        _ => 0.0,
    };
    let allowed = |i: usize, size: f64| {
        let size = want.magnitude.as_ref().map_or(size, |m| m[i].max(size));
        units * unit(size, d) + flush
    };
    let part = |g: f64, w: f64, allowed: f64| {
        let near = round_to(w, d);
        g == near || (w.is_nan() && g.is_nan()) || (g - w).abs() <= allowed
            // One step from the largest number is infinity.
            || (units > 0.0 && g.is_infinite() && near.is_finite() && g.signum() == w.signum() && round_to(w * (1.0 + 4.0 * unit(1.0, d)), d).is_infinite())
            || (units > 0.0 && near.is_infinite() && g.is_finite() && g.signum() == w.signum() && round_to(g * (1.0 + 4.0 * unit(1.0, d)), d).is_infinite())
    };
    let fail = |i: usize, g: &dyn fmt::Debug, w: &dyn fmt::Debug, off: f64| {
        let at = index(i, &want.shape);
        Err(format!("element {at:?} is {g:?}, not {w:?} ({off:.3} units off, {units} allowed)"))
    };
    match (&got.data, &want.data) {
        (Data::Int(g), Data::Int(w)) => match g.iter().zip(w).position(|(g, w)| g != w) {
            Some(i) => fail(i, &g[i], &w[i], f64::INFINITY),
            None => Ok(()),
        },
        (Data::Real(g), Data::Real(w)) => {
            match (0..w.len()).find(|&i| !part(g[i], w[i], allowed(i, w[i].abs()))) {
                Some(i) => fail(i, &g[i], &w[i], (g[i] - w[i]).abs() / unit(round_to(w[i], d), d)),
                None => Ok(()),
            }
        }
        (Data::Complex(g), Data::Complex(w)) => {
            let bad = |i: &usize| {
                let a = allowed(*i, w[*i].abs());
                !part(g[*i].re, w[*i].re, a) || !part(g[*i].im, w[*i].im, a)
            };
            match (0..w.len()).find(bad) {
                Some(i) => fail(i, &g[i], &w[i], (g[i] - w[i]).abs() / unit(w[i].abs(), Dtype::F32)),
                None => Ok(()),
            }
        }
        (_, _) => Err("another sort of number".into()),
    }
}

/// Index of the element at a place in row-major order.
fn index(mut place: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (i, &n) in shape.iter().enumerate().rev() {
        at[i] = place % n;
        place /= n;
    }
    at
}
