//! Expressions on operands of any layout.

use super::{Launch, MAX_AXES};
use crate::codegen::{BLOCK, Inner, Plan};
use crate::kernels::{File, Kernel, bits_type};
use olivine_core::expr::Expr;
use olivine_core::{Dtype, Error, Layout, Result};
use smallvec::SmallVec;

/// Where the elements of an argument or result are.
#[derive(Debug, Clone)]
pub(crate) struct Operand {
    /// Address of the first element.
    pub at: u64,
    /// Distances in elements, one for each axis of the launch.
    pub strides: SmallVec<[isize; 4]>,
    /// Element type.
    pub dtype: Dtype,
}

impl Operand {
    /// Elements seen through a layout of the buffer at `base`.
    pub(crate) fn new(base: u64, layout: &Layout, dtype: Dtype) -> Operand {
        Operand {
            at: base + (layout.offset() * dtype.size()) as u64,
            strides: SmallVec::from_slice(layout.strides()),
            dtype,
        }
    }

    /// Row-major elements of a shape.
    pub(crate) fn dense(at: u64, shape: &[usize], dtype: Dtype) -> Operand {
        Operand { at, strides: olivine_core::layout::row_major(shape), dtype }
    }
}

/// Axes of several operands without those of size 1, neighbours merged where all operands allow it.
pub(crate) struct Merged {
    pub sizes: SmallVec<[usize; 6]>,
    /// Strides of each operand.
    pub strides: SmallVec<[SmallVec<[isize; 6]>; 4]>,
}

pub(crate) fn merge(shape: &[usize], operands: &[&[isize]]) -> Merged {
    let mut m =
        Merged { sizes: SmallVec::new(), strides: operands.iter().map(|_| SmallVec::new()).collect() };
    for (axis, &n) in shape.iter().enumerate() {
        if n == 1 {
            continue;
        }
        let joins = !m.sizes.is_empty()
            && operands
                .iter()
                .zip(&m.strides)
                .all(|(o, s)| s.last().is_some_and(|&outer| outer == o[axis].wrapping_mul(n as isize)));
        match m.sizes.last_mut() {
            Some(last) if joins => {
                *last *= n;
                for (o, s) in operands.iter().zip(&mut m.strides) {
                    if let Some(outer) = s.last_mut() {
                        *outer = o[axis];
                    }
                }
            }
            Some(_) | None => {
                m.sizes.push(n);
                m.strides.iter_mut().zip(operands).for_each(|(s, o)| s.push(o[axis]));
            }
        }
    }
    m
}

/// Most bytes that a thread reads or writes at once.
const WIDTH: usize = 16;
/// Bytes of parameters that every driver takes.
const PARAMETERS: usize = 4096;

/// Computes `expr` for every element of `shape`; `operands` are the inputs, then the results.
pub(crate) fn run(l: &Launch<'_>, expr: &Expr, shape: &[usize], operands: &[Operand]) -> Result<()> {
    let elements: usize = shape.iter().product();
    if elements == 0 {
        return Ok(());
    }
    let strides: SmallVec<[&[isize]; 6]> = operands.iter().map(|o| &o.strides[..]).collect();
    let mut m = merge(shape, &strides);
    if m.sizes.is_empty() {
        m.sizes.push(1);
        m.strides.iter_mut().for_each(|s| s.push(0));
    }
    if let ([from, to], [_, _]) = (operands, &m.strides[..])
        && expr.insts.is_empty()
        && turn(l, &m, from, to)?
    {
        return Ok(());
    }
    let rank = m.sizes.len();
    let row = m.sizes[rank - 1];
    let inner: SmallVec<[Inner; 6]> = m
        .strides
        .iter()
        .map(|s| match s[rank - 1] {
            _ if row == 1 => Inner::Repeated,
            0 => Inner::Repeated,
            1 => Inner::Dense,
            _ => Inner::Strided,
        })
        .collect();
    // As many lanes as the widest dense operand fills a register with, and as its alignment allows.
    let dense = || operands.iter().zip(&m.strides).zip(&inner).filter(|(_, i)| **i == Inner::Dense);
    let widest = dense().map(|((o, _), _)| o.dtype.size()).max().unwrap_or(WIDTH);
    let mut lanes = WIDTH / widest;
    let fits = |lanes: usize| {
        (rank == 1 || row.is_multiple_of(lanes))
            && dense().all(|((o, s), _)| {
                let bytes = (lanes * o.dtype.size()) as u64;
                let outer = s[..rank - 1].iter().all(|&s| s.unsigned_abs().is_multiple_of(lanes));
                o.at.is_multiple_of(bytes) && outer
            })
    };
    while lanes > 1 && !fits(lanes) {
        lanes /= 2;
    }
    let threads = if rank == 1 { elements.div_ceil(lanes) } else { elements / lanes };
    let wide = threads > u32::MAX as usize - BLOCK as usize || row > u32::MAX as usize;
    let plan = Plan { expr: expr.clone(), rank: rank as u8, lanes: lanes as u8, wide, inner };
    let mut words: SmallVec<[u64; 64]> = SmallVec::new();
    words.extend([threads as u64, elements as u64]);
    words.extend(m.sizes.iter().map(|&n| n as u64));
    words.extend(operands.iter().map(|o| o.at));
    words.extend(m.strides.iter().flatten().map(|&s| s as u64));
    if words.len() * 8 > PARAMETERS {
        let msg = format!("{} operands of {rank} axes that do not merge are too many", operands.len());
        return Err(Error::Unsupported { op: l.op, device: l.gpu.device, msg });
    }
    let f = l.gpu.expression(plan)?;
    let mut args = super::Args::default();
    args.words(&words);
    l.run(f, [super::blocks(l, threads, BLOCK)?, 1, 1], [BLOCK, 1], 0, args)
}

/// Elements of an axis from which on turning it around through tiles pays.
const TURN: usize = 16;

/// Copies between a source and a result that are dense along different axes; false when they are not that.
fn turn(l: &Launch<'_>, m: &Merged, from: &Operand, to: &Operand) -> Result<bool> {
    let (rank, size) = (m.sizes.len(), from.dtype.size());
    let (source, result) = (&m.strides[0], &m.strides[1]);
    let Some(b) = source.iter().position(|&s| s == 1) else { return Ok(false) };
    let a = rank - 1;
    if a == b || result[a] != 1 || rank > MAX_AXES + 2 || m.sizes[a] < TURN || m.sizes[b] < TURN {
        return Ok(false);
    }
    let mut vec = (4 / size).max(1);
    let fits = |o: &Operand, strides: &[isize], dense: usize, vec: usize| {
        let others = strides.iter().enumerate().filter(|&(i, _)| i != dense);
        o.at.is_multiple_of((vec * size) as u64)
            && others.map(|(_, s)| s.unsigned_abs()).all(|s| s.is_multiple_of(vec))
    };
    while vec > 1 && !(fits(from, source, b, vec) && fits(to, result, a, vec)) {
        vec /= 2;
    }
    let rest = |v: &[isize]| -> SmallVec<[isize; 6]> {
        v.iter().enumerate().filter(|&(i, _)| i != a && i != b).map(|(_, &v)| v).collect()
    };
    let sizes: SmallVec<[usize; 6]> =
        m.sizes.iter().enumerate().filter(|&(i, _)| i != a && i != b).map(|(_, &n)| n).collect();
    let side = 32 * vec;
    let (tiles_a, tiles_b) = (m.sizes[a].div_ceil(side), m.sizes[b].div_ceil(side));
    let blocks = super::blocks(l, tiles_a * tiles_b * sizes.iter().product::<usize>(), 1)?;
    let k = Kernel::new(File::Copy, "turn").set("T", bits_type(size)).set("V", vec as i64);
    let mut args = super::Args::default();
    args.u64(from.at).u64(to.at).size(m.sizes[a]).i64(source[a] as i64);
    args.size(m.sizes[b]).i64(result[b] as i64).size(tiles_a).size(tiles_b);
    args.axes(&sizes, &rest(source)).axes(&sizes, &rest(result));
    l.run(l.kernel(k)?, [blocks, 1, 1], [32, 8], 0, args)?;
    Ok(true)
}
