//! The fixed set of expressions whose sources are kept and compiled.

use olivine_core::expr::{Expr, Inst, ScalarOp};
use olivine_core::op::{Binary, Unary};
use olivine_core::{Dtype, Scalar};
use olivine_cuda::codegen::{Inner, Plan, knows};
use smallvec::{SmallVec, smallvec};

fn plan(expr: Expr, rank: u8, lanes: u8, inner: &[Inner]) -> Plan {
    expr.verify().expect("the expression is well formed");
    Plan { expr, rank, lanes, wide: false, inner: SmallVec::from_slice(inner) }
}

fn inst(op: ScalarOp, dtype: Dtype, args: [u16; 3]) -> Inst {
    Inst { op, dtype, args }
}

/// Name and plan of each.
pub fn plans() -> Vec<(&'static str, Plan)> {
    use Inner::{Dense, Repeated, Strided};
    let add = |d| Expr::single(ScalarOp::Bin(Binary::Add), &[d, d], d);
    // silu(x) * y, as feed-forward layers of language models have it.
    let d = Dtype::BF16;
    let gate = Expr {
        inputs: smallvec![d, d],
        insts: smallvec![
            inst(ScalarOp::Un(Unary::Sigmoid), d, [0, 0, 0]),
            inst(ScalarOp::Bin(Binary::Mul), d, [0, 2, 0]),
            inst(ScalarOp::Bin(Binary::Mul), d, [3, 1, 0]),
        ],
        outputs: smallvec![4],
    };
    // where(x < 3, x ** 2, float(i)), with two results.
    let mixed = Expr {
        inputs: smallvec![Dtype::F32, Dtype::I64],
        insts: smallvec![
            inst(ScalarOp::Imm(Scalar::new(3.0f32).bits()), Dtype::F32, [0, 0, 0]),
            inst(ScalarOp::Bin(Binary::Lt), Dtype::Bool, [0, 2, 0]),
            inst(ScalarOp::Un(Unary::Square), Dtype::F32, [0, 0, 0]),
            inst(ScalarOp::Cast, Dtype::F32, [1, 0, 0]),
            inst(ScalarOp::Select, Dtype::F32, [3, 4, 5]),
        ],
        outputs: smallvec![6, 3],
    };
    vec![
        ("add_f32", plan(add(Dtype::F32), 1, 4, &[Dense, Dense, Dense])),
        ("add_bf16_row", plan(add(Dtype::BF16), 2, 8, &[Dense, Repeated, Dense])),
        ("copy_u8_transposed", plan(Expr::identity(Dtype::U8), 3, 1, &[Strided, Dense])),
        ("gate_bf16", plan(gate, 1, 8, &[Dense, Dense, Dense])),
        ("mixed", plan(mixed, 2, 2, &[Dense, Strided, Dense, Dense])),
        (
            "cast_f64_f16",
            plan(Expr::single(ScalarOp::Cast, &[Dtype::F64], Dtype::F16), 1, 2, &[Dense, Dense]),
        ),
    ]
}

/// Every operation on every type that takes it, so that the compiler sees all of them.
#[allow(dead_code, reason = "each user of this file takes a part")]
pub fn all_operations() -> Vec<Plan> {
    let mut all = Vec::new();
    for d in Dtype::ALL {
        let mut e = Expr { inputs: smallvec![d, d, Dtype::Bool], ..Expr::default() };
        let mut push = |op, dtype, args| {
            e.insts.push(inst(op, dtype, args));
            e.outputs.push((e.inputs.len() + e.insts.len() - 1) as u16);
        };
        for u in Unary::ALL {
            if let Ok(out) = u.output(d)
                && knows(ScalarOp::Un(u), d)
            {
                push(ScalarOp::Un(u), out, [0, 0, 0]);
            }
        }
        for b in Binary::ALL {
            if let Ok(out) = b.output(d)
                && knows(ScalarOp::Bin(b), d)
            {
                push(ScalarOp::Bin(b), out, [0, 1, 0]);
            }
        }
        for to in Dtype::ALL {
            push(ScalarOp::Cast, to, [0, 0, 0]);
        }
        push(ScalarOp::Select, d, [2, 0, 1]);
        push(ScalarOp::Imm(Scalar::from_f64(1.0, d).bits()), d, [0, 0, 0]);
        let operands = e.inputs.len() + e.outputs.len();
        all.push(plan(e, 1, 1, &vec![Inner::Dense; operands]));
    }
    all
}
