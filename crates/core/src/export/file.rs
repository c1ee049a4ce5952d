//! What a file of a function holds: a safetensors file whose tensor `program` is JSON and whose others are constants.

use super::fit::Fit;
use super::sizes;
use crate::device::Stream;
use crate::graph::program::{Program, Step as ProgramStep, Value};
use crate::op::{Meta, Metas, Op};
use crate::{Array, Dtype, Error, Result, Scalar, Shape};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value as Json;
use smallvec::SmallVec;

/// What this version writes; newer files are refused.
pub(super) const VERSION: u32 = 1;

/// All traces of a function.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredFunction {
    pub version: u32,
    pub traces: Vec<StoredTrace>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredTrace {
    pub inputs: Vec<StoredInput>,
    /// Free sizes: as they were in the example, and by multiples of what they may differ from that.
    pub sizes: Vec<(usize, usize)>,
    /// Which of the file's constants.
    pub constants: Vec<u32>,
    pub steps: Vec<Step>,
    pub outputs: Vec<Value>,
    /// The default random key is the last argument and the last result.
    pub draws: bool,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredInput {
    pub name: Option<String>,
    pub dtype: Dtype,
    pub shape: Vec<Dim>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum Dim {
    /// The size.
    Fixed(usize),
    /// A free size, by number.
    Size(u32),
}

/// One operation: as it is, or as JSON with numbers that depend on the free sizes.
#[derive(Serialize, Deserialize)]
pub(super) struct Step {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    op: Option<Op>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open: Option<Open>,
    takes: SmallVec<[Value; 3]>,
}

#[derive(Serialize, Deserialize)]
struct Open {
    template: Json,
    /// JSON pointers into the template.
    fits: Vec<(String, Fit)>,
}

impl Step {
    pub fn plain(op: Op, takes: &[Value]) -> Step {
        Step { op: Some(op), open: None, takes: takes.into() }
    }

    pub fn open(template: Json, fits: Vec<(String, Fit)>, takes: &[Value]) -> Step {
        Step { op: None, open: Some(Open { template, fits }), takes: takes.into() }
    }

    fn op_at(&self, base: &[usize], sizes: &[usize]) -> Result<Op, String> {
        let open = match (&self.op, &self.open) {
            (Some(op), None) => return Ok(op.clone()),
            (None, Some(open)) => open,
            (Some(_), Some(_)) | (None, None) => return Err("a step holds no operation, or two".into()),
        };
        let mut filled = open.template.clone();
        for (path, fit) in &open.fits {
            let v =
                fit.at(base, sizes).ok_or("a size that depends on those of the arguments is not whole")?;
            let slot =
                filled.pointer_mut(path).ok_or_else(|| format!("there is no {path:?} in a template"))?;
            *slot = match sizes::scalar(Some(slot)) {
                Some(s) => serde_json::to_value(Scalar::from_f64(v, s.dtype())).map_err(|e| e.to_string())?,
                None if v.fract() == 0.0 && v.abs() < 9e15 => Json::from(v as i64),
                None => return Err(format!("{v} is not a size")),
            };
        }
        serde_json::from_value(filled).map_err(|e| e.to_string())
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Input(i) => s.collect_str(&format_args!("i{i}")),
            Value::Constant(c) => s.collect_str(&format_args!("c{c}")),
            Value::Result(step, 0) => s.collect_str(step),
            Value::Result(step, out) => s.collect_str(&format_args!("{step}.{out}")),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Value, D::Error> {
        let text = String::deserialize(d)?;
        let number = |s: &str| s.parse::<u32>().ok();
        let value = match text.split_at_checked(1) {
            Some(("i", n)) => number(n).map(Value::Input),
            Some(("c", n)) => number(n).map(Value::Constant),
            _ => match text.split_once('.') {
                Some((step, out)) => number(step).zip(number(out)).map(|(s, o)| Value::Result(s, o)),
                None => number(&text).map(|s| Value::Result(s, 0)),
            },
        };
        value.ok_or_else(|| de::Error::custom(format_args!("{text:?} names no value")))
    }
}

impl StoredTrace {
    /// The free sizes that arguments of these shapes have, or why the trace is not for them.
    pub fn sizes_of(&self, metas: &[Meta]) -> Result<Vec<usize>, String> {
        if metas.len() != self.inputs.len() {
            return Err(format!("it takes {} arrays, not {}", self.inputs.len(), metas.len()));
        }
        let mut sizes: Vec<Option<usize>> = vec![None; self.sizes.len()];
        for (i, (input, meta)) in self.inputs.iter().zip(metas).enumerate() {
            let fits = input.dtype == meta.dtype && input.shape.len() == meta.shape.rank();
            let mut whole = fits;
            for (dim, &size) in input.shape.iter().zip(meta.shape.iter()) {
                whole &= match *dim {
                    Dim::Fixed(d) => d == size,
                    Dim::Size(k) => match sizes.get_mut(k as usize) {
                        Some(slot) => *slot.get_or_insert(size) == size,
                        None => false,
                    },
                };
            }
            if !whole {
                return Err(format!("array {i} is {} of {}, not {}", meta.shape, meta.dtype, input));
            }
        }
        let mut found = Vec::with_capacity(sizes.len());
        for (k, (size, &(base, step))) in sizes.iter().zip(&self.sizes).enumerate() {
            let size = size.unwrap_or(base);
            if !size.abs_diff(base).is_multiple_of(step.max(1)) {
                return Err(format!(
                    "the size n{k} may be {base} and what differs by multiples of {step}, not {size}"
                ));
            }
            found.push(size);
        }
        Ok(found)
    }

    /// The program for arguments of these shapes, with `constants` of the file.
    pub fn program(&self, metas: &[Meta], constants: &[Array], stream: Stream) -> Result<Program> {
        let bad = |msg: String| Error::value("import_function", msg);
        let sizes = self.sizes_of(metas).map_err(bad)?;
        let base: Vec<usize> = self.sizes.iter().map(|s| s.0).collect();
        let mut inputs = metas.to_vec();
        if self.draws {
            inputs.push(Meta::new(Shape::new(&[2]), Dtype::U32));
        }
        let mut program = Program { inputs, ..Program::default() };
        for &c in &self.constants {
            let constant =
                constants.get(c as usize).ok_or_else(|| bad(format!("there is no constant {c}")))?;
            program.constants.push(constant.clone());
        }
        for (i, step) in self.steps.iter().enumerate() {
            let op = step.op_at(&base, &sizes).map_err(|e| bad(format!("step {i}: {e}")))?;
            let metas: Option<SmallVec<[Meta; 4]>> = step.takes.iter().map(|v| program.meta(v)).collect();
            let metas =
                metas.ok_or_else(|| bad(format!("step {i} ({}) takes what is not there", op.name())))?;
            let outs: Metas = op.infer(&metas.iter().collect::<SmallVec<[&Meta; 4]>>())?;
            program.steps.push(ProgramStep { op, stream, inputs: step.takes.clone(), outs });
        }
        program.outputs = self.outputs.clone();
        if self.draws
            && program.outputs.last().and_then(|v| program.meta(v)).as_ref() != program.inputs.last()
        {
            return Err(bad("the function draws numbers, but gives no next key".into()));
        }
        program.check("import_function")?;
        Ok(program)
    }
}

impl std::fmt::Display for StoredInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.shape.iter().enumerate() {
            let gap = if i > 0 { ", " } else { "" };
            match d {
                Dim::Fixed(d) => write!(f, "{gap}{d}")?,
                Dim::Size(k) => write!(f, "{gap}n{k}")?,
            }
        }
        write!(f, "] of {}", self.dtype)
    }
}
