//! Programs of everything that is pending, and programs that other processes can run.

use super::program::{Program, Step, Value};
use super::toposort::{NodeMap, toposort};
use crate::array::Inputs;
use crate::op::{Create, Op};
use crate::trace::Trace;
use crate::transforms::Tape;
use crate::{Array, Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

impl Program {
    /// All pending operations that `outputs` depend on; arrays that have their value are constants.
    pub fn pending(outputs: &[Array]) -> Program {
        let tape = toposort(outputs);
        let mut capture = Capture::default();
        for node in tape.nodes.iter().flatten() {
            capture.step(node);
        }
        capture.finish(Vec::new(), outputs)
    }

    /// What `outputs` are made of, down to `inputs`, which are placeholders of `trace`; arrays that are made of
    /// numbers, ranges and tiny arrays alone are steps, so that their sizes can follow those of the inputs.
    pub fn exportable(inputs: &[Array], outputs: &[Array], trace: &Trace) -> Program {
        let mut capture = Capture::default();
        for (i, a) in inputs.iter().enumerate() {
            capture.at.insert(Arc::as_ptr(a.node()), Value::Input(i as u32));
        }
        for node in &Tape::of(outputs, trace).nodes {
            if capture.at.contains_key(&Arc::as_ptr(node)) {
                continue;
            }
            let beside: Vec<Array> = node.inputs().iter().cloned().collect();
            capture.made_of_numbers(&beside);
            capture.step(node);
        }
        capture.made_of_numbers(outputs);
        capture.finish(inputs.iter().map(|a| a.meta().clone()).collect(), outputs).tidied()
    }

    /// With the composites in the place of fused and custom operations, which mean nothing elsewhere.
    ///
    /// # Errors
    /// `Value` for an operation that has no composite and cannot be stored.
    pub fn decomposed(self) -> Result<Program> {
        let mut program = self;
        while program.steps.iter().any(|s| !is_plain(&s.op)) {
            let guard = Trace::begin();
            let stand_in = |m: &crate::op::Meta| Array::placeholder("export", m.clone(), guard.trace());
            let inputs: Vec<Array> = program.inputs.iter().map(stand_in).collect();
            let outputs = program.emit_with(&inputs, |step, args| {
                if is_plain(&step.op) {
                    return Ok(None);
                }
                let parts = step.stream.scope(|| step.op.fallback(args)).unwrap_or_else(|| {
                    Err(Error::value(
                        "export",
                        format!("{:?} has no composite that a file can hold", step.op),
                    ))
                })?;
                Ok(Some(parts))
            })?;
            program = Program::exportable(&inputs, &outputs, guard.trace());
        }
        Ok(program)
    }

    /// [`Program::emit`], where `instead` may give the results of a step.
    fn emit_with(
        &self,
        inputs: &[Array],
        instead: impl Fn(&Step, &[Array]) -> Result<Option<Vec<Array>>>,
    ) -> Result<Vec<Array>> {
        let mut results: Vec<Vec<Array>> = Vec::with_capacity(self.steps.len());
        let at = |results: &[Vec<Array>], v: &Value| match *v {
            Value::Input(i) => inputs[i as usize].clone(),
            Value::Constant(i) => self.constants[i as usize].clone(),
            Value::Result(s, o) => results[s as usize][o as usize].clone(),
        };
        for step in &self.steps {
            let args: Inputs = step.inputs.iter().map(|v| at(&results, v)).collect();
            results.push(match instead(step, &args)? {
                Some(parts) => parts,
                None => {
                    Array::from_inferred(step.op.clone(), args, step.outs.clone(), step.stream).into_vec()
                }
            });
        }
        Ok(self.outputs.iter().map(|v| at(&results, v)).collect())
    }

    /// With the steps that depend on no input done: their results are constants, not computed yet.
    pub fn folded(mut self) -> Program {
        let mut known: Vec<Option<Vec<Array>>> = Vec::with_capacity(self.steps.len());
        let mut place: Vec<u32> = Vec::with_capacity(self.steps.len());
        let mut steps: Vec<Step> = Vec::new();
        let mut constants = std::mem::take(&mut self.constants);
        let mut added: HashMap<(u32, u32), u32> = HashMap::new();
        let mut moved =
            |v: &Value, known: &[Option<Vec<Array>>], place: &[u32], constants: &mut Vec<Array>| match *v {
                Value::Result(s, o) => match &known[s as usize] {
                    None => Value::Result(place[s as usize], o),
                    Some(results) => Value::Constant(*added.entry((s, o)).or_insert_with(|| {
                        constants.push(results[o as usize].clone());
                        constants.len() as u32 - 1
                    })),
                },
                other => other,
            };
        for mut step in std::mem::take(&mut self.steps) {
            let args: Option<Inputs> = step
                .inputs
                .iter()
                .map(|v| match *v {
                    Value::Input(_) => None,
                    Value::Constant(c) => Some(constants[c as usize].clone()),
                    Value::Result(s, o) => known[s as usize].as_ref().map(|r| r[o as usize].clone()),
                })
                .collect();
            place.push(steps.len() as u32);
            match args {
                Some(args) => {
                    known.push(Some(Array::from_inferred(step.op, args, step.outs, step.stream).into_vec()))
                }
                None => {
                    known.push(None);
                    step.inputs.iter_mut().for_each(|v| *v = moved(v, &known, &place, &mut constants));
                    steps.push(step);
                }
            }
        }
        let mut outputs = std::mem::take(&mut self.outputs);
        outputs.iter_mut().for_each(|v| *v = moved(v, &known, &place, &mut constants));
        (self.outputs, self.steps, self.constants) = (outputs, steps, constants);
        self
    }
}

/// Whether a file can hold it.
fn is_plain(op: &Op) -> bool {
    !matches!(op, Op::Fused(_) | Op::Custom(_))
}

/// Whether it makes something of nothing but its parameters.
fn is_number(op: &Op) -> bool {
    matches!(op, Op::Create(Create::Full { .. } | Create::Arange { .. }))
}

/// A program under construction.
#[derive(Default)]
struct Capture {
    at: NodeMap<Value>,
    program: Program,
    known: HashMap<(usize, usize), u32>,
    /// Arrays that turned out to be made of more than numbers.
    tried: NodeMap<()>,
}

impl Capture {
    fn value(&mut self, a: &Array) -> Value {
        match self.at.get(&Arc::as_ptr(a.node())) {
            Some(Value::Result(step, _)) => Value::Result(*step, a.out() as u32),
            Some(v) => *v,
            None => {
                let key = (Arc::as_ptr(a.node()).addr(), a.out());
                let constants = &mut self.program.constants;
                Value::Constant(*self.known.entry(key).or_insert_with(|| {
                    constants.push(a.clone());
                    constants.len() as u32 - 1
                }))
            }
        }
    }

    fn step(&mut self, node: &Arc<crate::array::Node>) {
        let args: Vec<Array> = node.inputs().iter().cloned().collect();
        let inputs = args.iter().map(|a| self.value(a)).collect();
        self.at.insert(Arc::as_ptr(node), Value::Result(self.program.steps.len() as u32, 0));
        let (op, outs) = (node.op().clone(), node.outs().clone());
        self.program.steps.push(Step { op, stream: node.stream(), inputs, outs });
    }

    /// Makes steps of what `arrays` are made of where that leads to numbers, ranges and tiny arrays alone.
    fn made_of_numbers(&mut self, arrays: &[Array]) {
        let mut fresh: Vec<Array> = Vec::new();
        for a in arrays.iter().filter(|a| !self.at.contains_key(&Arc::as_ptr(a.node()))) {
            if self.tried.insert(Arc::as_ptr(a.node()), ()).is_none() {
                fresh.push(a.clone());
            }
        }
        if fresh.is_empty() {
            return;
        }
        let tape = toposort(&fresh);
        for node in tape.nodes.iter().flatten() {
            if self.at.contains_key(&Arc::as_ptr(node)) {
                continue;
            }
            let known = |a: &Array| matches!(self.at.get(&Arc::as_ptr(a.node())), Some(Value::Result(..)));
            // Such as the key of random numbers.
            let small = |a: &Array| a.node().is_scheduled() && a.size() <= 8;
            let pure = is_number(node.op()) || {
                let inputs = node.inputs();
                !inputs.is_empty() && is_plain(node.op()) && inputs.iter().all(|a| known(a) || small(a))
            };
            if pure {
                self.step(node);
            }
        }
    }

    fn finish(mut self, inputs: Vec<crate::op::Meta>, outputs: &[Array]) -> Program {
        self.program.inputs = inputs;
        self.program.outputs = outputs.iter().map(|a| self.value(a)).collect();
        self.program
    }
}
