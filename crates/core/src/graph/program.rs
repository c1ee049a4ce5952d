//! A traced function as a list of operations: captured once, simplified, fused, and emitted again for other
//! arguments.

use super::toposort::NodeMap;
use crate::array::Inputs;
use crate::backend::{self, Limits};
use crate::device::Stream;
use crate::expr::{Expr, Inst, ScalarOp};
use crate::op::{Create, Meta, Metas, Op, View};
use crate::trace::Trace;
use crate::transforms::Tape;
use crate::{Array, Error, Result, Scalar};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// What an operation of a [`Program`] takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    /// An argument of the function.
    Input(u32),
    /// An array that the function has captured, or made without its arguments.
    Constant(u32),
    /// Result `.1` of step `.0`.
    Result(u32, u32),
}

/// One operation.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub op: Op,
    pub stream: Stream,
    pub inputs: SmallVec<[Value; 3]>,
    pub outs: Metas,
}

/// A function of arrays, its steps in the order of their dependence.
#[derive(Clone, Default)]
pub(crate) struct Program {
    pub inputs: Vec<Meta>,
    pub constants: Vec<Array>,
    pub steps: Vec<Step>,
    pub outputs: Vec<Value>,
}

impl Program {
    /// What `outputs` are made of, down to the `inputs`, which are placeholders of `trace`.
    pub fn capture(inputs: &[Array], outputs: &[Array], trace: &Trace) -> Program {
        let tape = Tape::of(outputs, trace);
        let mut at: NodeMap<Value> = NodeMap::default();
        for (i, a) in inputs.iter().enumerate() {
            at.insert(Arc::as_ptr(a.node()), Value::Input(i as u32));
        }
        let mut program =
            Program { inputs: inputs.iter().map(|a| a.meta().clone()).collect(), ..Program::default() };
        let mut known: HashMap<(usize, usize), u32> = HashMap::new();
        let mut value =
            |program: &mut Program, at: &NodeMap<Value>, a: &Array| match at.get(&Arc::as_ptr(a.node())) {
                Some(Value::Result(step, _)) => Value::Result(*step, a.out() as u32),
                Some(v) => *v,
                None => {
                    let key = (Arc::as_ptr(a.node()).addr(), a.out());
                    Value::Constant(*known.entry(key).or_insert_with(|| {
                        program.constants.push(a.clone());
                        program.constants.len() as u32 - 1
                    }))
                }
            };
        for node in &tape.nodes {
            if at.contains_key(&Arc::as_ptr(node)) {
                continue;
            }
            let inputs = node.inputs().iter().map(|a| value(&mut program, &at, a)).collect();
            at.insert(Arc::as_ptr(node), Value::Result(program.steps.len() as u32, 0));
            let (op, outs) = (node.op().clone(), node.outs().clone());
            program.steps.push(Step { op, stream: node.stream(), inputs, outs });
        }
        program.outputs = outputs.iter().map(|a| value(&mut program, &at, a)).collect();
        program
    }

    /// The same function with fewer steps: equal ones are done once, what does nothing and what nobody needs
    /// goes, elementwise steps become passes.
    pub fn optimised(self) -> Result<Program> {
        let mut program = self.merged().pruned();
        program.verify()?;
        program = super::passes::fused(program)?;
        program.verify()?;
        if std::env::var_os("DUMP").is_some() {
            for (i, s) in program.steps.iter().enumerate() {
                let what = match &s.op { Op::Fused(e) => format!("fused {} insts {:?}", e.insts.len(), e.insts.iter().map(|i| format!("{:?}", i.op).chars().take(12).collect::<String>()).collect::<Vec<_>>()), o => format!("{o:?}").chars().take(60).collect() };
                eprintln!("{i}: {what} {:?} -> {:?}", s.inputs, s.outs.iter().map(|m| m.shape.to_string()).collect::<Vec<_>>());
            }
        }
        Ok(program)
    }

    /// Equal operations on equal arguments once, identities not at all.
    fn merged(mut self) -> Program {
        let mut seen: HashMap<(Op, Stream, SmallVec<[Value; 3]>), u32> = HashMap::new();
        let mut place: Vec<u32> = Vec::with_capacity(self.steps.len());
        let mut same_as: Vec<Option<Value>> = Vec::with_capacity(self.steps.len());
        let mut steps: Vec<Step> = Vec::with_capacity(self.steps.len());
        let now = |v: Value, place: &[u32], same_as: &[Option<Value>]| match v {
            Value::Result(s, o) => same_as[s as usize].unwrap_or(Value::Result(place[s as usize], o)),
            Value::Input(_) | Value::Constant(_) => v,
        };
        for mut step in std::mem::take(&mut self.steps) {
            step.inputs.iter_mut().for_each(|v| *v = now(*v, &place, &same_as));
            if matches!(step.op, Op::View(View::Identity)) {
                place.push(0);
                same_as.push(Some(step.inputs[0]));
                continue;
            }
            same_as.push(None);
            let key = (step.op.clone(), step.stream, step.inputs.clone());
            place.push(*seen.entry(key).or_insert_with(|| {
                steps.push(step);
                steps.len() as u32 - 1
            }));
        }
        self.outputs.iter_mut().for_each(|v| *v = now(*v, &place, &same_as));
        self.steps = steps;
        self
    }

    /// Without what no output needs.
    fn pruned(mut self) -> Program {
        let mut needed = vec![false; self.steps.len()];
        let mark = |needed: &mut [bool], v: &Value| {
            if let Value::Result(s, _) = v {
                needed[*s as usize] = true;
            }
        };
        self.outputs.iter().for_each(|v| mark(&mut needed, v));
        for i in (0..self.steps.len()).rev() {
            if needed[i] {
                self.steps[i].inputs.iter().for_each(|v| mark(&mut needed, v));
            }
        }
        let mut place: Vec<u32> = Vec::with_capacity(needed.len());
        let mut kept = 0;
        for &n in &needed {
            place.push(kept);
            kept += u32::from(n);
        }
        let mut steps = std::mem::take(&mut self.steps);
        let mut flags = needed.iter();
        steps.retain(|_| flags.next() == Some(&true));
        let renumber = |v: &mut Value| {
            if let Value::Result(s, _) = v {
                *s = place[*s as usize];
            }
        };
        steps.iter_mut().for_each(|s| s.inputs.iter_mut().for_each(renumber));
        self.outputs.iter_mut().for_each(renumber);
        self.steps = steps;
        self
    }

    /// Checks, in debug builds, that steps use what came before them and that their results are what the rules say.
    pub fn verify(&self) -> Result<()> {
        if !cfg!(debug_assertions) {
            return Ok(());
        }
        let bad = |msg: String| Err(Error::value("compile", msg));
        let fits = |v: &Value, steps: usize| match *v {
            Value::Input(i) => (i as usize) < self.inputs.len(),
            Value::Constant(i) => (i as usize) < self.constants.len(),
            Value::Result(s, o) => (s as usize) < steps && (o as usize) < self.steps[s as usize].outs.len(),
        };
        for (i, step) in self.steps.iter().enumerate() {
            if let Some(v) = step.inputs.iter().find(|v| !fits(v, i)) {
                return bad(format!("step {i} ({}) takes {v:?}, which is not there", step.op.name()));
            }
        }
        match self.outputs.iter().find(|v| !fits(v, self.steps.len())) {
            Some(v) => bad(format!("the function gives {v:?}, which is not there")),
            None => Ok(()),
        }
    }

    /// The function's results for arguments of the shapes and types that it was captured with, as lazy arrays.
    pub fn emit(&self, inputs: &[Array]) -> Vec<Array> {
        let mut results: Vec<SmallVec<[Array; 1]>> = Vec::with_capacity(self.steps.len());
        let at = |results: &[SmallVec<[Array; 1]>], v: &Value| match *v {
            Value::Input(i) => inputs[i as usize].clone(),
            Value::Constant(i) => self.constants[i as usize].clone(),
            Value::Result(s, o) => results[s as usize][o as usize].clone(),
        };
        for step in &self.steps {
            let args: Inputs = step.inputs.iter().map(|v| at(&results, v)).collect();
            results.push(Array::from_inferred(step.op.clone(), args, step.outs.clone(), step.stream));
        }
        self.outputs.iter().map(|v| at(&results, v)).collect()
    }

    /// Makes arguments, after the others, of the constants that `which` picks; gives those.
    pub fn open(&mut self, which: impl Fn(&Array) -> bool) -> Vec<Array> {
        let mut picked = Vec::new();
        let mut place: Vec<Value> = Vec::with_capacity(self.constants.len());
        let mut kept = Vec::new();
        for a in std::mem::take(&mut self.constants) {
            if which(&a) {
                place.push(Value::Input(self.inputs.len() as u32));
                self.inputs.push(a.meta().clone());
                picked.push(a);
            } else {
                place.push(Value::Constant(kept.len() as u32));
                kept.push(a);
            }
        }
        self.constants = kept;
        let all = self.steps.iter_mut().flat_map(|s| s.inputs.iter_mut()).chain(self.outputs.iter_mut());
        for v in all {
            if let Value::Constant(c) = *v {
                *v = place[c as usize];
            }
        }
        picked
    }

    /// Whether the constants are the same whenever the function is called: none is an argument of another one that is
    /// being traced.
    pub fn is_closed(&self) -> bool {
        self.constants.iter().all(|a| a.awaits().is_none() && !a.node().is_traced())
    }
}

/// The number that every element of an array is, where that is known without computing anything.
pub(super) fn uniform(a: &Array) -> Option<Scalar> {
    let mut a = a.clone();
    loop {
        let next = match a.op() {
            Op::Create(Create::Full { value, .. }) => return Some(*value),
            Op::View(View::Broadcast(_) | View::Reshape(_)) if !a.node().is_scheduled() => {
                a.node().inputs().first().cloned()?
            }
            Op::Leaf
            | Op::Placeholder(_)
            | Op::Create(_)
            | Op::Unary(_)
            | Op::Binary(_)
            | Op::Select
            | Op::Cast(_)
            | Op::Fused(_)
            | Op::Reduce(_)
            | Op::Arg(_)
            | Op::Scan(_)
            | Op::Sort(_)
            | Op::View(_)
            | Op::Update(_)
            | Op::Index(_)
            | Op::Matmul(_)
            | Op::Conv(_)
            | Op::Fft(_)
            | Op::Hadamard(_)
            | Op::Linalg(_)
            | Op::Random(_)
            | Op::Quant(_)
            | Op::Norm(_)
            | Op::Softmax(_)
            | Op::Rope(_)
            | Op::Attention(_)
            | Op::Custom(_) => return None,
        };
        a = next;
    }
}

/// Limits of a device; none fuses nothing.
pub(super) fn limits(stream: Stream) -> Limits {
    match backend::get(stream.device) {
        Ok(b) => b.limits(stream.device),
        Err(_) => Limits { max_inputs: 0, max_insts: 0 },
    }
}

/// An expression under construction: steps of one shape in one pass.
pub(super) struct Builder {
    inputs: Vec<Value>,
    types: Vec<crate::Dtype>,
    insts: Vec<(Inst, [Operand; 3])>,
    /// Where results of steps are.
    made: HashMap<u32, u16>,
}

#[derive(Clone, Copy, PartialEq)]
enum Operand {
    Input(u16),
    Inst(u16),
}

impl Builder {
    pub fn new() -> Builder {
        Builder { inputs: Vec::new(), types: Vec::new(), insts: Vec::new(), made: HashMap::new() }
    }

    /// Adds step `number`, whose scalar form is `op`.
    pub fn push(&mut self, program: &Program, number: u32, op: ScalarOp) {
        let step = &program.steps[number as usize];
        let mut args = [Operand::Input(0); 3];
        for (slot, v) in args.iter_mut().zip(&step.inputs) {
            *slot = self.operand(program, v);
        }
        self.made.insert(number, self.insts.len() as u16);
        self.insts.push((Inst { op, dtype: step.outs[0].dtype, args: [0; 3] }, args));
    }

    fn operand(&mut self, program: &Program, v: &Value) -> Operand {
        if let Value::Result(s, _) = v
            && let Some(&at) = self.made.get(s)
        {
            return Operand::Inst(at);
        }
        if let Value::Constant(c) = v
            && let Some(value) = uniform(&program.constants[*c as usize])
        {
            let inst = Inst { op: ScalarOp::Imm(value.bits()), dtype: value.dtype(), args: [0; 3] };
            let at = self.insts.iter().position(|(i, _)| *i == inst).unwrap_or_else(|| {
                self.insts.push((inst, [Operand::Input(0); 3]));
                self.insts.len() - 1
            });
            return Operand::Inst(at as u16);
        }
        let at = self.inputs.iter().position(|i| i == v).unwrap_or_else(|| {
            self.inputs.push(*v);
            self.types.push(program.dtype(v));
            self.inputs.len() - 1
        });
        Operand::Input(at as u16)
    }

    /// Arrays and instructions so far.
    pub fn size(&self) -> (usize, usize) {
        (self.inputs.len(), self.insts.len())
    }

    /// The expression that gives the results of `outputs`, and what it reads.
    pub fn finish(self, outputs: &[u32]) -> (Expr, SmallVec<[Value; 3]>) {
        let base = self.inputs.len() as u16;
        let number = |o: Operand| match o {
            Operand::Input(i) => i,
            Operand::Inst(i) => base + i,
        };
        let mut expr = Expr { inputs: self.types.into(), ..Expr::default() };
        for (mut inst, args) in self.insts {
            let used = inst.args().len();
            for (slot, &a) in inst.args.iter_mut().zip(&args).take(used) {
                *slot = number(a);
            }
            expr.insts.push(inst);
        }
        expr.outputs = outputs.iter().filter_map(|o| self.made.get(o)).map(|&at| base + at).collect();
        (expr, self.inputs.into())
    }
}

impl Program {
    pub(super) fn dtype(&self, v: &Value) -> crate::Dtype {
        match *v {
            Value::Input(i) => self.inputs[i as usize].dtype,
            Value::Constant(i) => self.constants[i as usize].dtype(),
            Value::Result(s, o) => self.steps[s as usize].outs[o as usize].dtype,
        }
    }
}
