//! Elementwise steps of a program become passes over memory.

use super::program::{Builder, Program, Step, Value, limits, uniform};
use crate::backend::Limits;
use crate::device::Device;
use crate::expr::Expr;
use crate::op::{Create, Op};
use crate::{Error, Result};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Steps with one number, shape and stream run in one pass.
///
/// Every step has a level: not below that of its arguments, and above it unless both are elementwise and of one shape
/// and stream. A way from one step of a level to another of the same level therefore never leaves the steps that may
/// join them, so passes made of one level cannot wait for each other. Elementwise steps sink to the level of those that
/// use them first, where what they read is read anyway.
pub(super) fn fused(program: Program) -> Result<Program> {
    let n = program.steps.len();
    let fusible: Vec<bool> = program
        .steps
        .iter()
        .map(|s| {
            s.op.is_elementwise() && !matches!(s.op, Op::Create(Create::Full { .. })) && s.outs.len() == 1
        })
        .collect();
    let joins = |a: usize, b: usize| {
        let (s, t) = (&program.steps[a], &program.steps[b]);
        fusible[a] && fusible[b] && s.stream == t.stream && s.outs[0].shape == t.outs[0].shape
    };
    let mut level = vec![0u32; n];
    for i in 0..n {
        for v in &program.steps[i].inputs {
            if let Value::Result(s, _) = v {
                let s = *s as usize;
                level[i] = level[i].max(level[s] + u32::from(!joins(s, i)));
            }
        }
    }
    let mut latest = vec![u32::MAX; n];
    for i in (0..n).rev() {
        if fusible[i] && latest[i] != u32::MAX {
            level[i] = level[i].max(latest[i]);
        }
        for v in &program.steps[i].inputs {
            if let Value::Result(s, _) = v {
                let s = *s as usize;
                latest[s] = latest[s].min(level[i] - u32::from(!joins(s, i)));
            }
        }
    }
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.sort_by_key(|&i| level[i as usize]);
    let units = units(&program, &fusible, &level, &order);
    assemble(program, &units)
}

/// The steps of every pass, in an order in which they can run.
fn units(program: &Program, fusible: &[bool], level: &[u32], order: &[u32]) -> Vec<Vec<u32>> {
    let mut units: Vec<Vec<u32>> = Vec::new();
    // Of every step, and of what steps of a level read: the pass where more may join.
    let mut unit_of: HashMap<u32, usize> = HashMap::new();
    let mut readers: HashMap<(u32, Value), SmallVec<[usize; 2]>> = HashMap::new();
    let mut sizes: Vec<(Builder, Limits)> = Vec::new();
    let mut known: HashMap<Device, Limits> = HashMap::new();
    for &i in order {
        let step = &program.steps[i as usize];
        let l = level[i as usize];
        if !fusible[i as usize] {
            unit_of.insert(i, units.len());
            units.push(vec![i]);
            sizes.push((Builder::new(), Limits { max_inputs: 0, max_insts: 0 }));
            continue;
        }
        let limit = *known.entry(step.stream.device).or_insert_with(|| limits(step.stream));
        // Candidates: passes of this level that make or read one of the arguments.
        let mut candidates: SmallVec<[usize; 4]> = SmallVec::new();
        let mut after = 0;
        for v in &step.inputs {
            if let Value::Result(s, _) = v
                && level[*s as usize] == l
            {
                // What a step of this level gives is there only when its pass, or an earlier part of it, has run.
                let u = unit_of[s];
                after = after.max(u);
                candidates.push(u);
            }
            if let Some(all) = readers.get(&(l, *v)) {
                candidates.extend(all.iter().copied());
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        let fits = |u: usize| {
            let first = &program.steps[units[u][0] as usize];
            let (inputs, insts) = sizes[u].0.size();
            let outputs = units[u].len() + 1;
            u >= after
                && fusible[units[u][0] as usize]
                && first.stream == step.stream
                && first.outs[0].shape == step.outs[0].shape
                && inputs + step.inputs.len() + outputs.min(MOST_OUTPUTS) <= limit.max_inputs + 1
                && insts + 1 + step.inputs.len() <= limit.max_insts
        };
        let unit = candidates.into_iter().rev().find(|&u| fits(u)).unwrap_or_else(|| {
            units.push(Vec::new());
            sizes.push((Builder::new(), limit));
            units.len() - 1
        });
        units[unit].push(i);
        unit_of.insert(i, unit);
        if let Some(op) = Expr::scalar_op(&step.op) {
            sizes[unit].0.push(program, i, op);
        }
        for v in step.inputs.iter().filter(|v| !is_number(program, v)) {
            let all = readers.entry((l, *v)).or_default();
            if !all.contains(&unit) {
                // Full passes take no more; without a bound, what thousands of them read costs each step all of them.
                if all.len() == MOST_READERS {
                    all.remove(0);
                }
                all.push(unit);
            }
        }
    }
    units
}

/// Passes that are looked at for a step because they read what it reads.
const MOST_READERS: usize = 8;

/// Results of a pass that count against the arrays a device can address in a kernel.
const MOST_OUTPUTS: usize = 8;

fn is_number(program: &Program, v: &Value) -> bool {
    matches!(v, Value::Constant(c) if uniform(&program.constants[*c as usize]).is_some())
}

/// The program with a step for every unit.
fn assemble(mut program: Program, units: &[Vec<u32>]) -> Result<Program> {
    let n = program.steps.len();
    let mut unit_of = vec![0usize; n];
    for (u, members) in units.iter().enumerate() {
        members.iter().for_each(|&m| unit_of[m as usize] = u);
    }
    // Steps whose result is seen outside their unit.
    let mut seen = vec![false; n];
    for (i, step) in program.steps.iter().enumerate() {
        for v in &step.inputs {
            if let Value::Result(s, _) = v
                && unit_of[*s as usize] != unit_of[i]
            {
                seen[*s as usize] = true;
            }
        }
    }
    for v in &program.outputs {
        if let Value::Result(s, _) = v {
            seen[*s as usize] = true;
        }
    }
    let mut place: Vec<Value> = vec![Value::Input(0); n];
    let mut steps: Vec<Step> = Vec::with_capacity(units.len());
    let moved = |place: &[Value], v: &Value| match *v {
        Value::Result(s, o) => match place[s as usize] {
            Value::Result(t, p) => Value::Result(t, p + o),
            other => other,
        },
        other => other,
    };
    for members in units {
        let at = steps.len() as u32;
        if let [only] = members[..] {
            let mut step = program.steps[only as usize].clone();
            step.inputs.iter_mut().for_each(|v| *v = moved(&place, v));
            place[only as usize] = Value::Result(at, 0);
            steps.push(step);
            continue;
        }
        let mut builder = Builder::new();
        for &m in members {
            let Some(op) = Expr::scalar_op(&program.steps[m as usize].op) else {
                return Err(Error::value("compile", "a pass of what is not elementwise"));
            };
            builder.push(&program, m, op);
        }
        let outputs: Vec<u32> = members.iter().copied().filter(|&m| seen[m as usize]).collect();
        let (expr, reads) = builder.finish(&outputs);
        expr.verify()?;
        let first = &program.steps[members[0] as usize];
        let step = Step {
            op: Op::Fused(Arc::new(expr)),
            stream: first.stream,
            inputs: reads.iter().map(|v| moved(&place, v)).collect(),
            outs: outputs.iter().map(|&o| program.steps[o as usize].outs[0].clone()).collect(),
        };
        for (k, &o) in outputs.iter().enumerate() {
            place[o as usize] = Value::Result(at, k as u32);
        }
        steps.push(step);
    }
    program.outputs = program.outputs.iter().map(|v| moved(&place, v)).collect();
    program.steps = steps;
    Ok(program)
}
