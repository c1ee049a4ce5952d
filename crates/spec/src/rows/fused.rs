//! Several elementwise operations in one pass: each rounds to its own type, so the result is that of the
//! operations one by one.

use super::{Case, Row, binary, cast, unary};
use crate::draw::Draw;
use crate::host::{Cx, Data, Host, round_to};
use olivine_core::expr::{Expr, Inst, ScalarOp};
use olivine_core::op::{Binary, Unary};
use olivine_core::{Dtype, Op, Scalar};
use std::sync::Arc;

/// Operations that are exact, or rounded correctly, so that a chain of them has one right result.
const ONE: [Unary; 6] = [Unary::Neg, Unary::Abs, Unary::Floor, Unary::Square, Unary::Sqrt, Unary::Sign];
const TWO: [Binary; 6] = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min, Binary::Div];

pub(super) fn rows() -> Vec<Row> {
    vec![Row::new("fused", super::FLOATS, |d, t| {
        let shape = d.shape(0, 3);
        let count = 1 + d.rng.below(4);
        let expr = expression(d, t, count);
        let inputs = (0..count).map(|_| d.numbers(&shape, t)).collect();
        Case::new(Op::Fused(Arc::new(expr)), inputs)
    })]
}

fn expression(d: &mut Draw, t: Dtype, inputs: usize) -> Expr {
    let mut e = Expr { inputs: std::iter::repeat_n(t, inputs).collect(), ..Expr::default() };
    let length = 2 + d.rng.below(10);
    for i in 0..length {
        let known = inputs + i;
        // Values of type `t`; tests and constants come with their users below.
        let of_type = |v: usize, e: &Expr| e.dtype(v as u16) == t;
        let mut pick = |e: &Expr| loop {
            let v = d.rng.below(known);
            if of_type(v, e) {
                return v as u16;
            }
        };
        let (a, b, c) = (pick(&e), pick(&e), pick(&e));
        let tests: Vec<u16> =
            (0..known).filter(|&v| e.dtype(v as u16) == Dtype::Bool).map(|v| v as u16).collect();
        let inst = match d.rng.below(8) {
            0 | 1 => Inst { op: ScalarOp::Un(d.rng.pick(&ONE)), dtype: t, args: [a, 0, 0] },
            2 => Inst { op: ScalarOp::Bin(Binary::Lt), dtype: Dtype::Bool, args: [a, b, 0] },
            3 if !tests.is_empty() => {
                Inst { op: ScalarOp::Select, dtype: t, args: [d.rng.pick(&tests), b, c] }
            }
            4 => {
                let bits = Scalar::from_f64(d.rng.within(-3, 3) as f64, t).bits();
                Inst { op: ScalarOp::Imm(bits), dtype: t, args: [0; 3] }
            }
            _ => Inst { op: ScalarOp::Bin(d.rng.pick(&TWO)), dtype: t, args: [a, b, 0] },
        };
        e.insts.push(inst);
    }
    let last = (inputs + length - 1) as u16;
    e.outputs.push(last);
    if d.rng.chance(30) {
        e.outputs.push(d.rng.below(inputs + length) as u16);
    }
    e
}

/// Rounds a reference to its type, as each instruction does.
fn rounded(mut h: Host) -> Host {
    match &mut h.data {
        Data::Real(v) => v.iter_mut().for_each(|x| *x = round_to(*x, h.dtype)),
        Data::Complex(v) => {
            v.iter_mut().for_each(|z| *z = Cx::new(round_to(z.re, Dtype::F32), round_to(z.im, Dtype::F32)));
        }
        Data::Int(_) => {}
    }
    h
}

pub(super) fn reference(e: &Expr, inputs: &[Host]) -> Vec<Host> {
    let mut values = inputs.to_vec();
    let shape = inputs.first().map(|h| h.shape.clone()).unwrap_or_default();
    let n: usize = shape.iter().product();
    for i in &e.insts {
        let a = |k: usize| &values[i.args[k] as usize];
        let v = match i.op {
            ScalarOp::Un(u) => unary::reference(u, a(0)),
            ScalarOp::Bin(b) => binary::reference(b, a(0), a(1)),
            ScalarOp::Select => super::arrange::select(&[a(0).clone(), a(1).clone(), a(2).clone()]),
            ScalarOp::Cast => cast::reference(i.dtype, a(0)),
            ScalarOp::Imm(bits) => {
                let bytes = Scalar::from_bits(bits, i.dtype).bytes()[..i.dtype.size()].repeat(n);
                Host::from_bytes(i.dtype, &shape, &bytes)
            }
        };
        values.push(rounded(v));
    }
    e.outputs.iter().map(|&o| values[o as usize].clone()).collect()
}
