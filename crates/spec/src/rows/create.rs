//! Constants and ranges.

use super::{Case, Row};
use crate::host::{Host, wrap};
use olivine_core::op::{Create, Source, SourceRef};
use olivine_core::shape::Shape;
use olivine_core::{Dtype, Meta, Op, Result, Scalar};
use std::sync::Arc;

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("full", Dtype::ALL, |d, t| {
            let shape = d.shape(0, 4);
            let value = Scalar::from_f64(d.rng.within(0, 100) as f64, t);
            Case::new(Op::Create(Create::Full { value, shape: Shape::new(&shape) }), Vec::new())
        }),
        Row::new("arange", Dtype::ALL.into_iter().filter(|d| *d != Dtype::Bool), |d, t| {
            let len = d.shape(1, 1)[0];
            // Numbers that half types hold exactly, also at the end of a range of moderate length.
            let low = if t.kind() == olivine_core::Kind::Unsigned { 0 } else { -8 };
            let (start, step) = (d.rng.within(low, 8) as f64, d.rng.within(1, 2) as f64);
            let start = Scalar::from_f64(start, t);
            Case::new(Op::Create(Create::Arange { start, step: Scalar::from_f64(step, t), len }), Vec::new())
        }),
        Row::new("load", Dtype::ALL, |d, t| {
            let shape = d.shape(0, 3);
            let host = d.numbers(&shape, t).host;
            Case::new(Op::Create(Create::Load(SourceRef(Arc::new(Bytes(host))))), Vec::new())
        }),
    ]
}

/// A source that gives the elements that it holds.
struct Bytes(Host);

impl Source for Bytes {
    fn describe(&self) -> String {
        format!("{} {:?}", self.0.dtype, self.0.shape)
    }
    fn metas(&self) -> olivine_core::op::Metas {
        std::iter::once(Meta::new(Shape::new(&self.0.shape), self.0.dtype)).collect()
    }
    fn read(&self, outputs: &mut [&mut [u8]]) -> Result<()> {
        outputs[0].copy_from_slice(&self.0.to_bytes());
        Ok(())
    }
}

pub(super) fn reference(op: &Create) -> Vec<Host> {
    let out = match op {
        Create::Full { value, shape } => {
            Host::numbers(value.dtype(), shape, &vec![value.to_f64(); shape.elements()])
        }
        Create::Arange { start, step, len } => {
            let (d, a, s) = (start.dtype(), start.to_f64(), step.to_f64());
            if d.is_inexact() {
                Host::numbers(d, &[*len], &(0..*len).map(|i| a + i as f64 * s).collect::<Vec<_>>())
            } else {
                let at = |i: usize| wrap(a as i128 + i as i128 * s as i128, d);
                Host::int(d, &[*len], (0..*len).map(at).collect())
            }
        }
        Create::Load(source) => {
            let m = source.0.metas().remove(0);
            let mut bytes = vec![0; m.bytes()];
            let read = source.0.read(&mut [&mut bytes]);
            debug_assert!(read.is_ok(), "sources of these rows always read");
            Host::from_bytes(m.dtype, &m.shape, &bytes)
        }
    };
    vec![out]
}
