//! The hand-written kernels: their sources, and how they are specialised.
//!
//! A file of `kernels/` is compiled after what all share and after macros for the types and sizes that it is
//! specialised by. [`Kernel`] names the file, the kernel in it and the macros; `launch/` passes parameters.

use crate::compile::Unit;
use olivine_core::Dtype;
use smallvec::SmallVec;
use std::fmt::Write;

/// Types, conversions, error reports.
pub const PRELUDE: &str = include_str!("kernels/prelude.cuh");
/// Elementwise functions.
pub const SCALAR: &str = include_str!("kernels/scalar.cuh");
/// Loops over axes, and sums over threads.
pub const TOOLS: &str = include_str!("kernels/tools.cuh");

/// A file of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the files'")]
pub enum File {
    Create,
    Copy,
    Gemv,
    Reduce,
    Arg,
    Rows,
    Scan,
    Sort,
    Index,
    Random,
    Quant,
    Rope,
    Attention,
}

impl File {
    /// All of them.
    pub const ALL: [File; 13] = [
        File::Create,
        File::Copy,
        File::Gemv,
        File::Reduce,
        File::Arg,
        File::Rows,
        File::Scan,
        File::Sort,
        File::Index,
        File::Random,
        File::Quant,
        File::Rope,
        File::Attention,
    ];

    fn source(self) -> (&'static str, &'static str) {
        match self {
            File::Create => ("create.cu", include_str!("kernels/create.cu")),
            File::Copy => ("copy.cu", include_str!("kernels/copy.cu")),
            File::Gemv => ("gemv.cu", include_str!("kernels/gemv.cu")),
            File::Reduce => ("reduce.cu", include_str!("kernels/reduce.cu")),
            File::Arg => ("arg.cu", include_str!("kernels/arg.cu")),
            File::Rows => ("rows.cu", include_str!("kernels/rows.cu")),
            File::Scan => ("scan.cu", include_str!("kernels/scan.cu")),
            File::Sort => ("sort.cu", include_str!("kernels/sort.cu")),
            File::Index => ("index.cu", include_str!("kernels/index.cu")),
            File::Random => ("random.cu", include_str!("kernels/random.cu")),
            File::Quant => ("quant.cu", include_str!("kernels/quant.cu")),
            File::Rope => ("rope.cu", include_str!("kernels/rope.cu")),
            File::Attention => ("attention.cu", include_str!("kernels/attention.cu")),
        }
    }
}

/// What a macro stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Value {
    /// A number.
    Int(i64),
    /// Source text, such as a type.
    Text(&'static str),
}

impl From<i64> for Value {
    fn from(v: i64) -> Value {
        Value::Int(v)
    }
}
impl From<bool> for Value {
    fn from(v: bool) -> Value {
        Value::Int(i64::from(v))
    }
}
impl From<&'static str> for Value {
    fn from(v: &'static str) -> Value {
        Value::Text(v)
    }
}
impl From<Dtype> for Value {
    fn from(d: Dtype) -> Value {
        Value::Text(c_type(d))
    }
}

/// A kernel of a file, specialised.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// Where it is.
    pub file: File,
    /// Its name.
    pub entry: &'static str,
    /// Macros and what they stand for.
    pub macros: SmallVec<[(&'static str, Value); 8]>,
}

impl Kernel {
    /// A kernel without macros.
    pub fn new(file: File, entry: &'static str) -> Kernel {
        Kernel { file, entry, macros: SmallVec::new() }
    }

    /// Adds a macro.
    pub fn set(mut self, name: &'static str, value: impl Into<Value>) -> Kernel {
        self.macros.push((name, value.into()));
        self
    }

    /// The unit to compile.
    pub fn unit(&self) -> Unit {
        let (name, text) = self.file.source();
        let mut source = [PRELUDE, SCALAR, TOOLS, ""].join("\n");
        for (name, value) in &self.macros {
            // Writing to a string cannot fail.
            let _ = match value {
                Value::Int(v) => writeln!(source, "#define {name} {v}"),
                Value::Text(t) => writeln!(source, "#define {name} {t}"),
            };
        }
        // Only one kernel of a file is compiled at a time; the others may need macros that are not there.
        let _ = writeln!(source, "#define KERNEL_{}", self.entry);
        source.push_str(text);
        Unit { name: name.into(), source, contract: true }
    }
}

/// The type of `prelude.cuh` that elements are stored as.
pub fn c_type(d: Dtype) -> &'static str {
    match d {
        Dtype::Bool => "b8",
        Dtype::U8 => "u8",
        Dtype::U16 => "u16",
        Dtype::U32 => "u32",
        Dtype::U64 => "u64",
        Dtype::I8 => "i8",
        Dtype::I16 => "i16",
        Dtype::I32 => "i32",
        Dtype::I64 => "i64",
        Dtype::F16 => "f16",
        Dtype::BF16 => "bf16",
        Dtype::F32 => "f32",
        Dtype::F64 => "f64",
        Dtype::C64 => "c64",
    }
}

/// The unsigned type of as many bytes, for kernels that only move elements.
pub fn bits_type(size: usize) -> &'static str {
    match size {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        _ => "u64",
    }
}
