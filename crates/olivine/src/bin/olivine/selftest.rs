//! `olivine selftest`: every operation on this machine against its reference.

use crate::device::Named;
use crate::output::line;
use crate::{Failure, Outcome};
use clap::Args;
use olivine::{Device, DeviceKind, Dtype, backend};
use olivine_spec::check::{Failure as Failed, Plan, run as run_plan};
use olivine_spec::rows::rows;
use olivine_spec::{derive, programs};

#[derive(Args)]
pub struct Arguments {
    /// Only this operation
    #[arg(long)]
    op: Option<String>,
    /// Only arguments of this type, such as float16
    #[arg(long)]
    dtype: Option<String>,
    /// What the made-up arguments follow from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only the case of this number, to see a failure again
    #[arg(long)]
    case: Option<u64>,
    /// Also this many random programs, each evaluated, compiled, differentiated and batched
    #[arg(long, default_value_t = 0)]
    programs: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn all_devices() -> Vec<Device> {
    let of = |kind| {
        let count = backend::get(Device::new(kind, 0)).map_or(0, |b| b.device_count());
        (0..count as u16).map(move |i| Device::new(kind, i))
    };
    backend::registered().into_iter().flat_map(of).collect()
}

/// Tests the device that was named; all that are there when none was.
pub fn run(a: &Arguments, named: Option<Named>) -> Outcome {
    let devices = match named {
        Some(Named::Cpu) => vec![Device::CPU],
        Some(Named::Gpu(index)) => vec![Device::new(DeviceKind::Cuda, index)],
        None => all_devices(),
    };
    if let Some(op) = &a.op
        && !rows().iter().any(|r| r.key == op)
    {
        let names: Vec<&str> = rows().iter().map(|r| r.key).collect();
        return Err(format!("no operation is called {op}; there are {}", names.join(", ")).into());
    }
    let dtype = match &a.dtype {
        Some(name) => Some(
            Dtype::ALL
                .into_iter()
                .find(|d| d.to_string() == *name)
                .ok_or_else(|| format!("no type is called {name}"))?,
        ),
        None => None,
    };
    let (mut passed, mut failed, mut failures) = (0, 0, Vec::new());
    for device in devices {
        let plan = Plan { only: a.op.clone(), dtype, seed: a.seed, case: a.case, ..Plan::new(device) };
        let mut outcome: Outcome = Ok(());
        let mut tell = |f: &Failed| {
            if a.json {
                failures.push(serde_json::json!({
                    "device": device.to_string(), "op": f.key, "dtype": f.dtype.to_string(),
                    "about": format!("{:?}", f.profile), "message": f.message, "call": f.what, "again": f.again,
                }));
            } else if outcome.is_ok() {
                outcome = line(&f.to_string()).map_err(Failure::from);
            }
        };
        let summary = run_plan(&plan, &mut tell);
        // A case by its number is a case of values.
        let transforms = match a.case {
            Some(_) => (0, 0),
            None => derive::run(device, a.op.as_deref(), a.seed, &mut tell),
        };
        outcome?;
        let mut messages = Vec::new();
        let programs = programs::run(device, a.programs, a.seed, |m| messages.push(m.to_string()));
        for message in messages {
            if a.json {
                failures.push(serde_json::json!({ "device": device.to_string(), "message": message }));
            } else {
                line(&message)?;
            }
        }
        passed += summary.passed + transforms.0 + programs.0;
        failed += summary.failed + transforms.1 + programs.1;
        if !a.json {
            line(&format!(
                "{device}: {summary}; transforms: {} passed, {} failed; programs: {} passed, {} failed",
                transforms.0, transforms.1, programs.0, programs.1
            ))?;
        }
    }
    if a.json {
        line(&serde_json::json!({ "passed": passed, "failed": failed, "failures": failures }).to_string())?;
    } else {
        line(&format!("{passed} passed, {failed} failed"))?;
    }
    if failed == 0 { Ok(()) } else { Err(Failure::Message(format!("{failed} cases failed"))) }
}
