//! Which elementwise nodes become one pass.

use super::toposort::Tape;
use crate::Array;
use crate::array::Node;
use crate::backend::Limits;
use crate::device::Device;
use crate::expr::{Expr, Inst, ScalarOp};
use crate::op::{Create, Op};
use smallvec::SmallVec;
use std::sync::Arc;

/// What happens to a node of the tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Scheduled by itself.
    Single,
    /// Last node of a group, which is scheduled in its place.
    Root,
    /// Computed inside the group of the root at this place of the tape, and by nobody else.
    Member(u32),
    /// A constant that is written into every expression that uses it.
    Inlined,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Users {
    None,
    Group(u32),
    Mixed,
}

/// Plan for a tape: the role of every node, and the members of every group in tape order.
pub(crate) struct Plan {
    pub roles: Vec<Role>,
    /// First member of the group whose root is at the index.
    first: Vec<u32>,
    /// Member of the same group that comes after.
    next: Vec<u32>,
}

const END: u32 = u32::MAX;

impl Plan {
    /// Members of a group in tape order, the root last.
    pub fn members(&self, root: usize) -> impl Iterator<Item = usize> {
        let mut at = self.first[root];
        std::iter::from_fn(move || {
            let here = at;
            (here != END).then(|| {
                at = self.next[here as usize];
                here as usize
            })
        })
    }
}

/// Groups elementwise nodes that have one shape and stream, as far as nobody else can see what is between
/// them and the device's limits allow.
///
/// Runs backwards, so that all users of a node are known when it is looked at: a node joins a group when
/// all its users are in it and no other reference to it exists.
pub(crate) fn plan(tape: &Tape, roots: &[Array], limits: &mut dyn FnMut(Device) -> Limits) -> Plan {
    let n = tape.nodes.len();
    let mut roles = vec![Role::Single; n];
    let mut users = vec![Users::None; n];
    let mut uses = vec![0u32; n];
    let mut needed = vec![false; n];
    let (mut first, mut next) = (vec![END; n], vec![END; n]);
    // Arrays and instructions that a group has so far; a bound from above.
    let mut size = vec![(1usize, 0usize); n];
    for r in roots {
        if let Some(&i) = tape.index.get(&Arc::as_ptr(r.node())) {
            needed[i as usize] = true;
        }
    }
    for i in (0..n).rev() {
        let Some(node) = &tape.nodes[i] else { continue };
        let inputs = node.inputs();
        let arity = inputs.len();
        let mut group = None;
        if matches!(node.op(), Op::Create(Create::Full { .. })) {
            roles[i] = if needed[i] || users[i] == Users::Mixed { Role::Single } else { Role::Inlined };
        } else if node.op().is_elementwise() {
            let hidden = !needed[i] && Arc::strong_count(node) == 1 + uses[i] as usize;
            let join = match users[i] {
                Users::Group(g) if hidden => {
                    let fits = tape.nodes[g as usize].as_ref().is_some_and(|root| {
                        root.stream() == node.stream() && root.outs()[0].shape == node.outs()[0].shape
                    });
                    let (arrays, insts) = size[g as usize];
                    let l = limits(node.stream().device);
                    (fits && arrays + arity <= l.max_inputs + 1 && insts < l.max_insts).then_some(g)
                }
                Users::Group(_) | Users::None | Users::Mixed => None,
            };
            let g = join.unwrap_or(i as u32);
            roles[i] = if join.is_some() { Role::Member(g) } else { Role::Root };
            // The node itself stops being an array of the group; its inputs start to be. Each may turn out
            // to be a constant, which is an instruction.
            let s = &mut size[g as usize];
            *s = (s.0 + arity - 1, s.1 + 1 + arity);
            // Walking backwards, so whatever comes is first.
            next[i] = std::mem::replace(&mut first[g as usize], i as u32);
            group = Some(g);
        }
        for a in inputs.iter() {
            if let Some(&j) = tape.index.get(&Arc::as_ptr(a.node())) {
                let j = j as usize;
                uses[j] += 1;
                users[j] = match (group, users[j]) {
                    (Some(g), Users::None) => Users::Group(g),
                    (Some(g), Users::Group(h)) if g == h => Users::Group(g),
                    // A constant may be written into several groups.
                    (Some(g), Users::Group(_)) if matches!(a.op(), Op::Create(Create::Full { .. })) => {
                        Users::Group(g)
                    }
                    (_, _) => Users::Mixed,
                };
            }
        }
    }
    Plan { roles, first, next }
}

/// The expression of a group and the arrays that it reads.
pub(crate) fn build(nodes: &[Arc<Node>]) -> (Expr, SmallVec<[Array; 4]>) {
    #[derive(Clone, Copy, PartialEq)]
    enum Value {
        Input(u16),
        Inst(u16),
    }
    let mut inputs: SmallVec<[Array; 4]> = SmallVec::new();
    let mut insts: SmallVec<[(Inst, [Value; 3]); 8]> = SmallVec::new();
    let mut made: SmallVec<[(*const Node, u16); 8]> = SmallVec::new();
    for node in nodes {
        let mut args = [Value::Input(0); 3];
        for (slot, a) in args.iter_mut().zip(node.inputs().iter()) {
            let ptr = Arc::as_ptr(a.node());
            *slot = if let Some(&(_, at)) = made.iter().find(|(p, _)| *p == ptr) {
                Value::Inst(at)
            } else if let Op::Create(Create::Full { value, .. }) = a.op() {
                let inst = Inst { op: ScalarOp::Imm(value.bits()), dtype: value.dtype(), args: [0; 3] };
                let at = insts.iter().position(|(i, _)| *i == inst).unwrap_or_else(|| {
                    insts.push((inst, [Value::Input(0); 3]));
                    insts.len() - 1
                });
                Value::Inst(at as u16)
            } else {
                let same = |b: &Array| Arc::ptr_eq(b.node(), a.node()) && b.out() == a.out();
                let at = inputs.iter().position(same).unwrap_or_else(|| {
                    inputs.push(a.clone());
                    inputs.len() - 1
                });
                Value::Input(at as u16)
            };
        }
        if let Some(op) = Expr::scalar_op(node.op()) {
            let inst = Inst { op, dtype: node.outs()[0].dtype, args: [0; 3] };
            made.push((Arc::as_ptr(node), insts.len() as u16));
            insts.push((inst, args));
        }
    }
    let base = inputs.len() as u16;
    let number = |v: Value| match v {
        Value::Input(i) => i,
        Value::Inst(i) => base + i,
    };
    let mut expr = Expr { inputs: inputs.iter().map(Array::dtype).collect(), ..Expr::default() };
    for (inst, args) in insts {
        let used = inst.args().len();
        let mut numbered = inst;
        for (slot, &v) in numbered.args.iter_mut().zip(&args).take(used) {
            *slot = number(v);
        }
        expr.insts.push(numbered);
    }
    expr.outputs.push(base + expr.insts.len() as u16 - 1);
    debug_assert!(expr.verify().is_ok(), "{:?}", expr.verify());
    (expr, inputs)
}
