//! The small language that every elementwise computation is written in.
//!
//! An [`Expr`] is a list of scalar instructions over some inputs, in order of use, each result used by
//! number. It has no shapes, strides or names: those belong to the launch, so one expression serves every
//! layout. Each instruction rounds to its own type, so a fused chain gives the same bits as its parts.

use crate::op::{Binary, Meta, Metas, Op, Unary};
use crate::{Array, Dtype, Error, Result, Scalar, Shape};
use smallvec::SmallVec;

/// One scalar operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScalarOp {
    /// Function of one argument.
    Un(Unary),
    /// Function of two arguments of one type.
    Bin(Binary),
    /// Argument 0 (`bool`) chooses between arguments 1 and 2.
    Select,
    /// Conversion to the instruction's type.
    Cast,
    /// The bits of a constant.
    Imm(u64),
}

/// One instruction: its operation, the type of its result, and the numbers of its arguments (inputs come
/// first, then instructions). Unused arguments are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inst {
    /// What it computes.
    pub op: ScalarOp,
    /// Type of the result.
    pub dtype: Dtype,
    /// Values that it takes.
    pub args: [u16; 3],
}

impl Inst {
    /// The arguments that are used.
    pub fn args(&self) -> &[u16] {
        let n = match self.op {
            ScalarOp::Imm(_) => 0,
            ScalarOp::Un(_) | ScalarOp::Cast => 1,
            ScalarOp::Bin(_) => 2,
            ScalarOp::Select => 3,
        };
        &self.args[..n]
    }

    /// The operation, for prints.
    pub fn describe(&self) -> String {
        match self.op {
            ScalarOp::Un(u) => u.name().to_string(),
            ScalarOp::Bin(b) => b.name().to_string(),
            ScalarOp::Select => "where".to_string(),
            ScalarOp::Cast => self.dtype.to_string(),
            ScalarOp::Imm(bits) => format!("{:?}", Scalar::from_bits(bits, self.dtype)),
        }
    }
}

/// An elementwise computation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Expr {
    /// Types of the inputs: values `0..inputs.len()`.
    pub inputs: SmallVec<[Dtype; 4]>,
    /// Instructions, each using earlier values only.
    pub insts: SmallVec<[Inst; 4]>,
    /// Values that are results.
    pub outputs: SmallVec<[u16; 1]>,
}

impl Expr {
    /// The scalar form of an elementwise operation, without arguments filled in; `None` for others.
    pub fn scalar_op(op: &Op) -> Option<ScalarOp> {
        use crate::op::Create;
        match op {
            Op::Unary(u) => Some(ScalarOp::Un(*u)),
            Op::Binary(b) => Some(ScalarOp::Bin(*b)),
            Op::Select => Some(ScalarOp::Select),
            Op::Cast(_) => Some(ScalarOp::Cast),
            Op::Create(Create::Full { value, .. }) => Some(ScalarOp::Imm(value.bits())),
            Op::Create(Create::Arange { .. } | Create::Load(_))
            | Op::Leaf
            | Op::Placeholder(_)
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
            | Op::Custom(_) => None,
        }
    }

    /// The expression of one elementwise operation on arguments of these types.
    pub fn single(op: ScalarOp, inputs: &[Dtype], output: Dtype) -> Expr {
        let mut args = [0; 3];
        for (i, a) in args.iter_mut().enumerate().take(inputs.len()) {
            *a = i as u16;
        }
        Expr {
            inputs: SmallVec::from_slice(inputs),
            insts: SmallVec::from_iter([Inst { op, dtype: output, args }]),
            outputs: SmallVec::from_iter([inputs.len() as u16]),
        }
    }

    /// The expression that gives its input: a copy.
    pub fn identity(dtype: Dtype) -> Expr {
        Expr {
            inputs: SmallVec::from_iter([dtype]),
            insts: SmallVec::new(),
            outputs: SmallVec::from_iter([0]),
        }
    }

    /// Number of instructions that compute, constants not among them.
    pub fn operations(&self) -> usize {
        self.insts.iter().filter(|i| !matches!(i.op, ScalarOp::Imm(_))).count()
    }

    /// Type of a value.
    pub fn dtype(&self, value: u16) -> Dtype {
        let v = value as usize;
        if v < self.inputs.len() { self.inputs[v] } else { self.insts[v - self.inputs.len()].dtype }
    }

    /// Checks order, numbers and types; names the first instruction that is wrong.
    pub fn verify(&self) -> Result<()> {
        let bad = |msg: String| Err(Error::value("fused", msg));
        for (i, inst) in self.insts.iter().enumerate() {
            let known = self.inputs.len() + i;
            if let Some(a) = inst.args().iter().find(|&&a| a as usize >= known) {
                return bad(format!("instruction {i} uses value {a} before it exists"));
            }
            let d = |k: usize| self.dtype(inst.args[k]);
            let want = match inst.op {
                ScalarOp::Imm(_) | ScalarOp::Cast => inst.dtype,
                ScalarOp::Un(u) => u.output(d(0))?,
                ScalarOp::Bin(b) if d(0) == d(1) => b.output(d(0))?,
                ScalarOp::Select if d(0) == Dtype::Bool && d(1) == d(2) => d(1),
                ScalarOp::Bin(_) | ScalarOp::Select => {
                    return bad(format!("instruction {i} ({:?}) mixes types", inst.op));
                }
            };
            if want != inst.dtype {
                return bad(format!("instruction {i} ({:?}) gives {want}, not {}", inst.op, inst.dtype));
            }
        }
        let values = self.inputs.len() + self.insts.len();
        match self.outputs.iter().find(|&&o| o as usize >= values) {
            Some(o) => bad(format!("output {o} does not exist")),
            None if self.outputs.is_empty() => bad("no output".into()),
            None => Ok(()),
        }
    }

    /// Shapes and types of the results for arguments of one shape.
    pub fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        self.verify()?;
        let types_fit =
            inputs.len() == self.inputs.len() && inputs.iter().zip(&self.inputs).all(|(m, d)| m.dtype == *d);
        let Some(first) = inputs.first() else {
            return Err(Error::value("fused", "an expression without inputs has no shape"));
        };
        if !types_fit || inputs.iter().any(|m| m.shape != first.shape) {
            return Err(Error::shape("fused", "arguments differ from the expression's inputs"));
        }
        Ok(self.outputs.iter().map(|&o| Meta::new(first.shape.clone(), self.dtype(o))).collect())
    }

    /// The same values, one operation at a time.
    pub fn unfused(&self, inputs: &[Array]) -> Result<Vec<Array>> {
        let Some(shape) = inputs.first().map(|a| a.shape().clone()) else {
            return Err(Error::value("fused", "an expression without inputs has no shape"));
        };
        let values = self.values(inputs, &shape)?;
        Ok(self.outputs.iter().map(|&o| values[o as usize].clone()).collect())
    }

    /// Arguments of the last instruction, computed from values of the inputs.
    pub(crate) fn last_arguments(&self, inputs: &[Array], shape: &Shape) -> crate::array::Inputs {
        let Some((last, rest)) = self.insts.split_last() else { return inputs.iter().cloned().collect() };
        let head = Expr { insts: rest.into(), ..self.clone() };
        match head.values(inputs, shape) {
            Ok(values) => last.args().iter().map(|&a| values[a as usize].clone()).collect(),
            // Cannot be: the same instructions were inferred when the graph was built.
            Err(_) => inputs.iter().cloned().collect(),
        }
    }

    /// All values, of a given shape, one operation at a time.
    fn values(&self, inputs: &[Array], shape: &Shape) -> Result<Vec<Array>> {
        let mut values: Vec<Array> = inputs.to_vec();
        for inst in &self.insts {
            let args: Vec<Array> = inst.args().iter().map(|&a| values[a as usize].clone()).collect();
            let op = match inst.op {
                ScalarOp::Un(u) => Op::Unary(u),
                ScalarOp::Bin(b) => Op::Binary(b),
                ScalarOp::Select => Op::Select,
                ScalarOp::Cast => Op::Cast(inst.dtype),
                ScalarOp::Imm(bits) => Op::Create(crate::op::Create::Full {
                    value: Scalar::from_bits(bits, inst.dtype),
                    shape: shape.clone(),
                }),
            };
            values.push(Array::from_op(op, &args)?);
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verify_finds_what_is_wrong() {
        let ok = Expr::single(ScalarOp::Bin(Binary::Add), &[Dtype::F32, Dtype::F32], Dtype::F32);
        assert!(ok.verify().is_ok());
        assert!(
            Expr::single(ScalarOp::Bin(Binary::Add), &[Dtype::F32, Dtype::I32], Dtype::F32).verify().is_err()
        );
        assert!(
            Expr::single(ScalarOp::Bin(Binary::Lt), &[Dtype::F32, Dtype::F32], Dtype::F32).verify().is_err()
        );
        let mut early = ok.clone();
        early.insts[0].args[1] = 2;
        assert!(early.verify().is_err());
        let mut out = ok;
        out.outputs[0] = 9;
        assert!(out.verify().is_err());
    }
}
