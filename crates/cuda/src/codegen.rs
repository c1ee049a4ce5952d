//! CUDA C++ for elementwise expressions.
//!
//! A [`Plan`] is an expression together with what its launch has in common with others: how many axes are left
//! after neighbouring ones are merged, how many elements a thread does, and whether the innermost axis of each
//! operand is dense, repeated or strided. Sizes and strides themselves are parameters of the kernel, so one
//! kernel serves every shape of its class.
//!
//! Each instruction rounds to its own type, and products are not contracted with sums, so a fused chain gives
//! the bits of its parts.

use crate::compile::Unit;
use crate::kernels::{PRELUDE, SCALAR, c_type};
use half::{bf16, f16};
use olivine_core::expr::{Expr, Inst, ScalarOp};
use olivine_core::op::{Binary, Unary};
use olivine_core::{Dtype, Scalar};
use smallvec::SmallVec;
use std::fmt::Write;

/// Name of the kernel in its source.
pub(crate) const ENTRY: &str = "expr";

/// Threads of a block.
pub(crate) const BLOCK: u32 = 256;

/// The innermost axis of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inner {
    /// Elements lie next to each other.
    Dense,
    /// One element is repeated.
    Repeated,
    /// Elements lie apart.
    Strided,
}

/// A kernel: what is computed, and the class of its launches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// What is computed.
    pub expr: Expr,
    /// Axes, at least one.
    pub rank: u8,
    /// Elements along the innermost axis that a thread does.
    pub lanes: u8,
    /// Whether more than 2^32 threads or elements are counted.
    pub wide: bool,
    /// The innermost axes of inputs and then results.
    pub inner: SmallVec<[Inner; 6]>,
}

impl Plan {
    /// Operands: inputs, then results.
    fn operands(&self) -> impl Iterator<Item = (usize, Dtype, Inner)> {
        let e = &self.expr;
        let dtypes = e.inputs.iter().copied().chain(e.outputs.iter().map(|&o| e.dtype(o)));
        dtypes.zip(&self.inner).enumerate().map(|(i, (d, &n))| (i, d, n))
    }

    /// The unit to compile.
    pub fn unit(&self) -> Unit {
        Unit {
            name: "expr.cu".into(),
            source: format!("{PRELUDE}\n{SCALAR}\n{}", self.kernel()),
            contract: false,
        }
    }

    /// The kernel itself, without what all kernels share.
    pub fn kernel(&self) -> String {
        let mut s = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut s);
        s
    }

    fn write(&self, s: &mut String) -> std::fmt::Result {
        let (rank, lanes) = (usize::from(self.rank), self.lanes);
        let inputs = self.expr.inputs.len();
        let count = inputs + self.expr.outputs.len();
        let index = if self.wide { "u64" } else { "u32" };
        writeln!(s, "struct Params {{")?;
        writeln!(s, "  u64 threads; u64 elements; u64 size[{rank}];")?;
        writeln!(s, "  void* at[{count}]; i64 stride[{count}][{rank}];\n}};")?;
        // The computation of one element.
        write!(s, "DEV void one(")?;
        let values = self.operands().map(|(i, d, _)| {
            let r = register(d);
            if i < inputs { format!("{r} v{i}") } else { format!("{r}& out{}", i - inputs) }
        });
        writeln!(s, "{}) {{", values.collect::<Vec<_>>().join(", "))?;
        for (i, inst) in self.expr.insts.iter().enumerate() {
            let types: SmallVec<[Dtype; 3]> = inst.args().iter().map(|&a| self.expr.dtype(a)).collect();
            writeln!(s, "  {} v{} = {};", register(inst.dtype), inputs + i, instruction(inst, &types))?;
        }
        for (k, o) in self.expr.outputs.iter().enumerate() {
            writeln!(s, "  out{k} = v{o};")?;
        }
        writeln!(s, "}}")?;
        writeln!(s, "extern \"C\" __global__ void __launch_bounds__({BLOCK}) {ENTRY}(const Params p) {{")?;
        writeln!(s, "  BEGIN;")?;
        writeln!(s, "  {index} t = ({index})blockIdx.x * {BLOCK} + threadIdx.x;")?;
        writeln!(s, "  if (t >= p.threads) return;")?;
        // Coordinates, the innermost counted in groups of lanes.
        let last = rank - 1;
        if rank == 1 {
            writeln!(s, "  i64 c0 = (i64)t * {lanes};")?;
        } else {
            writeln!(s, "  {index} r = t, q, n = ({index})(p.size[{last}] / {lanes});")?;
            writeln!(s, "  q = r / n; i64 c{last} = (i64)(r - q * n) * {lanes}; r = q;")?;
            for d in (1..last).rev() {
                writeln!(s, "  n = ({index})p.size[{d}]; q = r / n; i64 c{d} = (i64)(r - q * n); r = q;")?;
            }
            writeln!(s, "  i64 c0 = (i64)r;")?;
        }
        for (i, d, n) in self.operands() {
            let t = c_type(d);
            let mut terms: Vec<String> = (0..last).map(|a| format!("c{a} * p.stride[{i}][{a}]")).collect();
            match n {
                Inner::Dense => terms.push(format!("c{last}")),
                Inner::Strided => terms.push(format!("c{last} * p.stride[{i}][{last}]")),
                Inner::Repeated => {}
            }
            let sum = if terms.is_empty() { "0".into() } else { terms.join(" + ") };
            let konst = if i < inputs { "const " } else { "" };
            writeln!(s, "  {konst}{t}* a{i} = ({konst}{t}*)p.at[{i}] + ({sum});")?;
        }
        // A group that the end cuts, only where all axes are merged into one.
        if rank == 1 && lanes > 1 {
            writeln!(s, "  if (c0 + {lanes} > (i64)p.elements) {{")?;
            writeln!(s, "    for (int j = 0; j < (int)(p.elements - c0); j++) {{")?;
            self.element(s, "      ", false)?;
            writeln!(s, "    }}\n    return;\n  }}")?;
        }
        for (i, d, n) in self.operands() {
            let t = c_type(d);
            match n {
                Inner::Dense if i < inputs => {
                    writeln!(s, "  Vec<{t}, {lanes}> x{i} = *(const Vec<{t}, {lanes}>*)a{i};")?;
                }
                Inner::Dense => writeln!(s, "  Vec<{t}, {lanes}> x{i};")?,
                Inner::Repeated | Inner::Strided => {}
            }
        }
        writeln!(s, "#pragma unroll\n  for (int j = 0; j < {lanes}; j++) {{")?;
        self.element(s, "    ", true)?;
        writeln!(s, "  }}")?;
        for (i, d, n) in self.operands().skip(inputs) {
            if n == Inner::Dense {
                writeln!(s, "  *(Vec<{}, {lanes}>*)a{i} = x{i};", c_type(d))?;
            }
        }
        writeln!(s, "}}")
    }

    /// Element `j` of a group, through registers where the operand is dense and `grouped`.
    fn element(&self, s: &mut String, indent: &str, grouped: bool) -> std::fmt::Result {
        let (inputs, last) = (self.expr.inputs.len(), self.rank - 1);
        let place = |i: usize, n: Inner| match n {
            Inner::Dense if grouped => format!("x{i}.v[j]"),
            Inner::Dense => format!("a{i}[j]"),
            Inner::Repeated => format!("a{i}[0]"),
            Inner::Strided => format!("a{i}[j * p.stride[{i}][{last}]]"),
        };
        let mut args = Vec::new();
        for (i, d, n) in self.operands() {
            if i < inputs {
                args.push(format!("get<{}>({})", c_type(d), place(i, n)));
            } else {
                let k = i - inputs;
                writeln!(s, "{indent}{} o{k};", register(d))?;
                args.push(format!("o{k}"));
            }
        }
        writeln!(s, "{indent}one({});", args.join(", "))?;
        for (i, d, n) in self.operands().skip(inputs) {
            writeln!(s, "{indent}{} = put<{}>(o{});", place(i, n), c_type(d), i - inputs)?;
        }
        Ok(())
    }
}

/// Whether `scalar.cuh` has an operation on arguments of a type: all of them on real numbers, those that need no
/// elaborate function or order on complex ones.
pub fn knows(op: ScalarOp, d: Dtype) -> bool {
    if d != Dtype::C64 {
        return true;
    }
    match op {
        ScalarOp::Un(u) => matches!(
            u,
            Unary::Abs
                | Unary::Neg
                | Unary::Square
                | Unary::Sqrt
                | Unary::Exp
                | Unary::LogicalNot
                | Unary::Real
                | Unary::Imag
                | Unary::Conj
        ),
        ScalarOp::Bin(b) => matches!(
            b,
            Binary::Add
                | Binary::Sub
                | Binary::Mul
                | Binary::Div
                | Binary::Eq
                | Binary::Ne
                | Binary::LogicalAnd
                | Binary::LogicalOr
        ),
        ScalarOp::Select | ScalarOp::Cast | ScalarOp::Imm(_) => true,
    }
}

/// Whether all instructions of an expression are known.
pub fn knows_all(e: &Expr) -> bool {
    e.insts.iter().all(|i| match i.op {
        ScalarOp::Un(_) | ScalarOp::Bin(_) => knows(i.op, e.dtype(i.args[0])),
        ScalarOp::Select | ScalarOp::Cast | ScalarOp::Imm(_) => true,
    })
}

/// Type that values are computed in.
fn register(d: Dtype) -> &'static str {
    match d {
        Dtype::Bool => "bool",
        Dtype::F16 | Dtype::BF16 => "f32",
        Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64
        | Dtype::F32
        | Dtype::F64
        | Dtype::C64 => c_type(d),
    }
}

/// Rounds to a half; other types are what they are.
fn rounded(d: Dtype, value: String) -> String {
    match d {
        Dtype::F16 => format!("round_f16({value})"),
        Dtype::BF16 => format!("round_bf16({value})"),
        Dtype::Bool
        | Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64
        | Dtype::F32
        | Dtype::F64
        | Dtype::C64 => value,
    }
}

fn instruction(inst: &Inst, types: &[Dtype]) -> String {
    let [a, b, c] = inst.args;
    match inst.op {
        ScalarOp::Imm(bits) => constant(Scalar::from_bits(bits, inst.dtype)),
        ScalarOp::Un(u) => rounded(inst.dtype, format!("{}(v{a})", unary(u))),
        ScalarOp::Bin(op) => rounded(inst.dtype, format!("{}(v{a}, v{b})", binary(op))),
        ScalarOp::Select => format!("v{a} ? v{b} : v{c}"),
        ScalarOp::Cast if types.first() == Some(&inst.dtype) => format!("v{a}"),
        ScalarOp::Cast if matches!(inst.dtype, Dtype::F16 | Dtype::BF16) => {
            rounded(inst.dtype, format!("before_half(v{a})"))
        }
        ScalarOp::Cast => format!("To<{}>::f(v{a})", register(inst.dtype)),
    }
}

fn constant(v: Scalar) -> String {
    let float = |bits: u32| format!("__uint_as_float(0x{bits:08x}u)");
    let bits = v.bits();
    match v.dtype() {
        Dtype::Bool => if bits & 0xff == 0 { "false" } else { "true" }.into(),
        Dtype::F16 => float(f16::from_bits(bits as u16).to_f32().to_bits()),
        Dtype::BF16 => float(bf16::from_bits(bits as u16).to_f32().to_bits()),
        Dtype::F32 => float(bits as u32),
        Dtype::F64 => format!("__longlong_as_double(0x{bits:016x}ll)"),
        Dtype::C64 => format!("c64{{{}, {}}}", float(bits as u32), float((bits >> 32) as u32)),
        d @ (Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64) => format!("({})0x{bits:x}ull", c_type(d)),
    }
}

fn unary(u: Unary) -> &'static str {
    match u {
        Unary::Abs => "absolute",
        Unary::Neg => "neg",
        Unary::Sign => "sign",
        Unary::Ceil => "ceil_",
        Unary::Floor => "floor_",
        Unary::Round => "round_",
        Unary::Trunc => "trunc_",
        Unary::Sqrt => "sqrt_",
        Unary::Rsqrt => "rsqrt_",
        Unary::Square => "square",
        Unary::Exp => "exp_",
        Unary::Expm1 => "expm1_",
        Unary::Log => "log_",
        Unary::Log2 => "log2_",
        Unary::Log10 => "log10_",
        Unary::Log1p => "log1p_",
        Unary::Sin => "sin_",
        Unary::Cos => "cos_",
        Unary::Tan => "tan_",
        Unary::Asin => "asin_",
        Unary::Acos => "acos_",
        Unary::Atan => "atan_",
        Unary::Sinh => "sinh_",
        Unary::Cosh => "cosh_",
        Unary::Tanh => "tanh_",
        Unary::Asinh => "asinh_",
        Unary::Acosh => "acosh_",
        Unary::Atanh => "atanh_",
        Unary::Erf => "erf_",
        Unary::ErfInv => "erfinv_",
        Unary::Lgamma => "lgamma_",
        Unary::Digamma => "digamma_",
        Unary::Sigmoid => "sigmoid",
        Unary::LogicalNot => "logical_not",
        Unary::BitNot => "bit_not",
        Unary::Real => "real_",
        Unary::Imag => "imag_",
        Unary::Conj => "conj_",
    }
}

fn binary(b: Binary) -> &'static str {
    match b {
        Binary::Add => "add",
        Binary::Sub => "sub",
        Binary::Mul => "mul",
        Binary::Div => "divide",
        Binary::FloorDiv => "floor_divide",
        Binary::Rem => "remainder_",
        Binary::Pow => "power",
        Binary::Max => "maximum",
        Binary::Min => "minimum",
        Binary::Atan2 => "atan2_",
        Binary::LogAddExp => "log_add_exp",
        Binary::Hypot => "hypot_",
        Binary::Copysign => "copysign_",
        Binary::LogicalAnd => "logical_and",
        Binary::LogicalOr => "logical_or",
        Binary::BitAnd => "bit_and",
        Binary::BitOr => "bit_or",
        Binary::BitXor => "bit_xor",
        Binary::Shl => "left_shift",
        Binary::Shr => "right_shift",
        Binary::Eq => "equal",
        Binary::Ne => "not_equal",
        Binary::Lt => "less",
        Binary::Le => "less_equal",
        Binary::Gt => "greater",
        Binary::Ge => "greater_equal",
    }
}
