//! The page `docs/ops.md`: which kinds of operation there are, and what serves them.

use crate::draw::{Draw, Profile};
use crate::rows::{Row, rows};
use olivine_core::backend::Support;
use olivine_core::op::{Batch, Grad};
use olivine_core::{Dtype, Meta, Op, Shape};
use std::fmt::Write;

/// What a backend says about an operation on arguments of these shapes and types.
pub type Supports = fn(&Op, &[Meta]) -> Support;

/// One case of a row for a type, as an operation and what it takes.
fn sample(row: &Row, dtype: Dtype) -> (Op, Vec<Meta>) {
    let case = (row.draw)(&mut Draw::new(Profile::Plain, &[0]), dtype);
    let metas = case.inputs.iter().map(|i| Meta::new(Shape::new(&i.host.shape), i.host.dtype)).collect();
    (case.op, metas)
}

/// How a backend runs the operation, over all types.
fn support(row: &Row, supports: Option<Supports>) -> String {
    let Some(supports) = supports else { return "no".into() };
    let of = |d: &Dtype| {
        let (op, metas) = sample(row, *d);
        match op {
            // Core serves views and constants on every device, and reads data on the host.
            Op::View(_) | Op::Create(_) => Support::Native,
            op => supports(&op, &metas),
        }
    };
    let which = |s: Support| row.dtypes.iter().copied().filter(|d| of(d) == s).collect::<Vec<Dtype>>();
    let mut parts = Vec::new();
    for (s, word) in
        [(Support::Native, "yes"), (Support::Fallback, "composite"), (Support::Host, "on the CPU")]
    {
        let types = which(s);
        if types.len() == row.dtypes.len() {
            return word.into();
        }
        match s {
            _ if types.is_empty() => {}
            Support::Native => parts.push(word.to_owned()),
            Support::Fallback | Support::Host => {
                let names: Vec<String> = types.iter().map(Dtype::to_string).collect();
                parts.push(format!("{word} for {}", names.join(", ")));
            }
        }
    }
    parts.join("; ")
}

/// Types in words.
fn types(row: &Row) -> String {
    let all = |f: fn(Dtype) -> bool| Dtype::ALL.into_iter().filter(|d| f(*d)).collect::<Vec<_>>();
    let named: [(&str, Vec<Dtype>); 6] = [
        ("all", Dtype::ALL.to_vec()),
        ("all but bool", all(|d| d != Dtype::Bool)),
        ("all but complex", all(|d| d != Dtype::C64)),
        ("floats and complex", all(Dtype::is_inexact)),
        ("real floats", all(Dtype::is_float)),
        ("integers", all(Dtype::is_integer)),
    ];
    match named.iter().find(|(_, d)| *d == row.dtypes) {
        Some((name, _)) => (*name).into(),
        None => row.dtypes.iter().map(Dtype::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// The page, from the rows and what the backends say.
pub fn page(cpu: Supports, cuda: Supports) -> String {
    let mut out = String::from(
        "# Operations\n\nWritten by `cargo xtask docs` from the rows in `crates/spec/src/rows` and what the backends \
         say; do not edit. Every\noperation is tested with these types. A composite is made of other operations; \
         views and constants need no kernel.\n\n| operation | types | CPU | CUDA | portable GPU | derivative | \
         batching |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows() {
        let Some(dtype) =
            row.dtypes.iter().copied().find(|d| *d == Dtype::F32).or(row.dtypes.first().copied())
        else {
            continue;
        };
        let (op, _) = sample(row, dtype);
        let grad = match op.grad() {
            Grad::NonDiff => "has none",
            Grad::ViaFallback => "of its composite",
            Grad::Pointwise(_)
            | Grad::Linear(_)
            | Grad::Multilinear(_)
            | Grad::Forward(_)
            | Grad::Explicit { .. } => "yes",
        };
        let batch = match op.batch() {
            Batch::ViaFallback => "of its composite",
            Batch::Unrolled => "one call for each",
            Batch::Pointwise | Batch::ShiftAxes(_) | Batch::LeadingDims | Batch::Explicit(_) => "yes",
        };
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} | {grad} | {batch} |",
            row.key,
            types(row),
            support(row, Some(cpu)),
            support(row, Some(cuda)),
            support(row, None),
        );
    }
    out
}
