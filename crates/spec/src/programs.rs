//! Random programs: hundreds of operations with shared subexpressions, views, reductions and several results. Fusion,
//! compilation, derivatives and batches of each must agree with each other and with a reference in plain `f64` loops.

use crate::draw::Rng;
use olivine_core::ops::{concatenate, stack};
use olivine_core::transforms::{compile, jvp_arrays, vjp_arrays, vmap_arrays};
use olivine_core::{Array, Device, Dtype, Result, Stream, eval};

/// One operation on values with smaller numbers. All keep numbers of moderate size moderate.
#[derive(Debug, Clone)]
enum Step {
    Sin(usize),
    Tanh(usize),
    Sigmoid(usize),
    /// `exp(-x * x)`, three operations.
    Bell(usize),
    Scale(usize, f64),
    Offset(usize, f64),
    Add(usize, usize),
    Sub(usize, usize),
    /// `tanh(a) * b`.
    Gate(usize, usize),
    /// `a / (1 + b * b)`.
    Ratio(usize, usize),
    Max(usize, usize),
    /// `a` where `c < d`, else `b`.
    Choose(usize, usize, usize, usize),
    Mean(usize, usize, bool),
    /// Sum over an axis, divided by its size.
    Share(usize, usize),
    Most(usize, usize),
    Softmax(usize, usize),
    LogSumExp(usize, usize),
    /// The running sum, divided by the size.
    Running(usize, usize, bool),
    Sorted(usize, usize),
    Flat(usize, Vec<usize>),
    Swap(usize, Vec<usize>),
    /// Every `step`-th element from `start`, along an axis; backwards when `step` is negative.
    Part(usize, usize, usize, isize, usize),
    Repeat(usize, usize),
    Join(usize, usize, usize),
    Pick(usize, usize, Vec<usize>),
    /// `a @ b`, divided by the inner size.
    Product(usize, usize),
    /// Rows of `b` added to rows of `a` at the indices.
    Spread(usize, usize, Vec<usize>),
}

/// A function of `inputs` arrays.
#[derive(Debug, Clone)]
pub struct Program {
    inputs: Vec<Vec<usize>>,
    steps: Vec<Step>,
    shapes: Vec<Vec<usize>>,
    outputs: Vec<usize>,
}

const MOST_ELEMENTS: usize = 120;

impl Program {
    /// A program of about `length` operations.
    pub fn random(length: usize, rng: &mut Rng) -> Program {
        let inputs: Vec<Vec<usize>> = (0..1 + rng.below(3))
            .map(|_| (0..1 + rng.below(3)).map(|_| 1 + rng.below(4)).collect())
            .collect();
        let mut p = Program { shapes: inputs.clone(), inputs, steps: Vec::new(), outputs: Vec::new() };
        while p.steps.len() < length {
            if let Some((step, shape)) = p.draw(rng)
                && shape.iter().product::<usize>() <= MOST_ELEMENTS
                && shape.len() <= 4
            {
                p.steps.push(step);
                p.shapes.push(shape);
            }
        }
        let n = p.shapes.len();
        p.outputs = (0..1 + rng.below(4)).map(|_| n - 1 - rng.below(length.min(12))).collect();
        // What is an argument as it is has no operation to look at.
        p.outputs.push(n - 1);
        p
    }

    /// A step and the shape of its result; `None` where the draw does not fit.
    fn draw(&self, rng: &mut Rng) -> Option<(Step, Vec<usize>)> {
        let n = self.shapes.len();
        // Mostly what is new, so that programs are deep; sometimes what is old, so that it is shared.
        let a = if rng.chance(60) { n - 1 - rng.below(n.min(4)) } else { rng.below(n) };
        let s = self.shapes[a].clone();
        let alike: Vec<usize> = (0..n).filter(|&i| self.shapes[i] == s).collect();
        let other = |rng: &mut Rng| alike[rng.below(alike.len())];
        let b = other(rng);
        let axis = if s.is_empty() { 0 } else { rng.below(s.len()) };
        let with = |axis: usize, size: usize| {
            let mut t = s.clone();
            t[axis] = size;
            t
        };
        let without = |axis: usize| {
            let mut t = s.clone();
            t.remove(axis);
            t
        };
        let kind = rng.below(28);
        if s.is_empty() && kind >= 12 && kind != 22 {
            return None;
        }
        let step = match kind {
            0 => Step::Sin(a),
            1 => Step::Tanh(a),
            2 => Step::Sigmoid(a),
            3 => Step::Bell(a),
            4 => Step::Scale(a, rng.pick(&[0.5, -0.75, 0.9])),
            5 => Step::Offset(a, rng.pick(&[0.25, -0.5, 1.0])),
            6 => Step::Add(a, b),
            7 => Step::Sub(a, b),
            8 => Step::Gate(a, b),
            9 => Step::Ratio(a, b),
            10 => Step::Max(a, b),
            11 => Step::Choose(a, b, other(rng), other(rng)),
            12 => {
                let keep = rng.chance(50);
                return Some((Step::Mean(a, axis, keep), if keep { with(axis, 1) } else { without(axis) }));
            }
            13 => return Some((Step::Share(a, axis), without(axis))),
            14 => return Some((Step::Most(a, axis), without(axis))),
            15 => Step::Softmax(a, axis),
            16 => return Some((Step::LogSumExp(a, axis), without(axis))),
            17 => Step::Running(a, axis, rng.chance(50)),
            18 => Step::Sorted(a, axis),
            19 => {
                let total: usize = s.iter().product();
                let divisors: Vec<usize> = (1..=total).filter(|d| total.is_multiple_of(*d)).collect();
                let d = divisors[rng.below(divisors.len())];
                let to = if rng.chance(30) { vec![total] } else { vec![d, total / d] };
                return Some((Step::Flat(a, to.clone()), to));
            }
            20 => {
                let mut perm: Vec<usize> = (0..s.len()).collect();
                (1..s.len()).for_each(|i| perm.swap(i, rng.below(i + 1)));
                let to = perm.iter().map(|&p| s[p]).collect();
                return Some((Step::Swap(a, perm), to));
            }
            21 => {
                let (start, step) = (rng.below(s[axis]), rng.pick(&[1isize, 2, -1, -2]));
                let room = if step > 0 { s[axis] - 1 - start } else { start };
                let size = 1 + room / step.unsigned_abs();
                return Some((Step::Part(a, axis, start, step, size), with(axis, size)));
            }
            22 => {
                let times = 1 + rng.below(3);
                return Some((Step::Repeat(a, times), [&[times], &s[..]].concat()));
            }
            23 => return Some((Step::Join(a, b, axis), with(axis, 2 * s[axis]))),
            24 => {
                let of: Vec<usize> = (0..1 + rng.below(4)).map(|_| rng.below(s[axis])).collect();
                return Some((Step::Pick(a, axis, of.clone()), with(axis, of.len())));
            }
            25 | 26 => {
                let fits = |i: &usize| {
                    let t = &self.shapes[*i];
                    s.len() == 2 && t.len() == 2 && t[0] == s[1]
                };
                let all: Vec<usize> = (0..n).filter(fits).collect();
                let b = *all.get(rng.below(all.len().max(1)))?;
                return Some((Step::Product(a, b), vec![s[0], self.shapes[b][1]]));
            }
            _ => {
                let of: Vec<usize> = (0..s[0]).map(|_| rng.below(s[0])).collect();
                Step::Spread(a, b, of)
            }
        };
        Some((step, s))
    }

    /// The program on arrays.
    pub fn run(&self, inputs: &[Array]) -> Result<Vec<Array>> {
        let mut v: Vec<Array> = inputs.to_vec();
        for step in &self.steps {
            let y = array_step(step, &v)?;
            v.push(y);
        }
        Ok(self.outputs.iter().map(|&o| v[o].clone()).collect())
    }

    /// The program on numbers.
    fn reference(&self, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mut v: Vec<Vec<f64>> = inputs.to_vec();
        for step in &self.steps {
            let y = reference_step(step, &v, &self.shapes);
            v.push(y);
        }
        self.outputs.iter().map(|&o| v[o].clone()).collect()
    }
}

fn array_step(step: &Step, v: &[Array]) -> Result<Array> {
    let axis = |a: usize| a as i32;
    let indices = |of: &[usize]| {
        let of: Vec<i32> = of.iter().map(|&i| i as i32).collect();
        Array::from_slice(&of, &[of.len()])
    };
    Ok(match step {
        Step::Sin(a) => v[*a].sin()?,
        Step::Tanh(a) => v[*a].tanh()?,
        Step::Sigmoid(a) => v[*a].sigmoid()?,
        Step::Bell(a) => v[*a].square()?.negative()?.exp()?,
        Step::Scale(a, c) => v[*a].scale(*c)?,
        Step::Offset(a, c) => v[*a].add(&v[*a].scalar_like(*c))?,
        Step::Add(a, b) => v[*a].add(&v[*b])?,
        Step::Sub(a, b) => v[*a].subtract(&v[*b])?,
        Step::Gate(a, b) => v[*a].tanh()?.multiply(&v[*b])?,
        Step::Ratio(a, b) => v[*a].divide(&v[*b].square()?.add(&v[*b].scalar_like(1.0))?)?,
        Step::Max(a, b) => v[*a].maximum(&v[*b])?,
        Step::Choose(a, b, c, d) => Array::select(&v[*c].less(&v[*d])?, &v[*a], &v[*b])?,
        Step::Mean(a, x, keep) => v[*a].mean(&[axis(*x)], *keep)?,
        Step::Share(a, x) => v[*a].sum(&[axis(*x)], false)?.scale(1.0 / v[*a].shape()[*x] as f64)?,
        Step::Most(a, x) => v[*a].max(&[axis(*x)], false)?,
        Step::Softmax(a, x) => v[*a].softmax(axis(*x))?,
        Step::LogSumExp(a, x) => v[*a].logsumexp(axis(*x), false)?,
        Step::Running(a, x, back) => {
            v[*a].cumsum(axis(*x), *back, true)?.scale(1.0 / v[*a].shape()[*x] as f64)?
        }
        Step::Sorted(a, x) => v[*a].sort(axis(*x), false)?,
        Step::Flat(a, to) => v[*a].reshape(to)?,
        Step::Swap(a, perm) => v[*a].transpose(&perm.iter().map(|&p| p as i32).collect::<Vec<_>>())?,
        Step::Part(a, x, start, step, size) => {
            let last = *start as i64 + (*size as i64 - 1) * *step as i64 + step.signum() as i64;
            let stop = (last >= 0).then_some(last);
            let mut ranges = vec![(None, None, 1); v[*a].rank()];
            ranges[*x] = (Some(*start as i64), stop, *step as i64);
            v[*a].slice(&ranges)?
        }
        Step::Repeat(a, times) => v[*a].broadcast_to(&[&[*times], &v[*a].shape()[..]].concat())?,
        Step::Join(a, b, x) => concatenate(&[v[*a].clone(), v[*b].clone()], axis(*x))?,
        Step::Pick(a, x, of) => v[*a].take(&indices(of)?, axis(*x))?,
        Step::Product(a, b) => v[*a].matmul(&v[*b])?.scale(1.0 / v[*a].shape()[1] as f64)?,
        Step::Spread(a, b, of) => v[*a].at(&[indices(of)?.into()]).add(&v[*b])?,
    })
}

/// Index of an element from its place.
fn flat(shape: &[usize], at: &[usize]) -> usize {
    shape.iter().zip(at).fold(0, |i, (n, k)| i * n + k)
}

/// Calls `f` with the place of every element of a shape, in order, and gathers what it gives.
fn filled(shape: &[usize], mut f: impl FnMut(&[usize]) -> f64) -> Vec<f64> {
    let mut at = vec![0; shape.len()];
    let mut out = Vec::new();
    for _ in 0..shape.iter().product() {
        out.push(f(&at));
        for k in (0..shape.len()).rev() {
            at[k] += 1;
            if at[k] < shape[k] {
                break;
            }
            at[k] = 0;
        }
    }
    out
}

fn reference_step(step: &Step, v: &[Vec<f64>], shapes: &[Vec<usize>]) -> Vec<f64> {
    let one = |a: &usize, f: &dyn Fn(f64) -> f64| v[*a].iter().map(|&x| f(x)).collect::<Vec<f64>>();
    let two = |a: &usize, b: &usize, f: &dyn Fn(f64, f64) -> f64| {
        v[*a].iter().zip(&v[*b]).map(|(&x, &y)| f(x, y)).collect::<Vec<f64>>()
    };
    // The line through a place along an axis.
    let line = |a: usize, axis: usize, at: &[usize]| -> Vec<f64> {
        let mut at = at.to_vec();
        (0..shapes[a][axis])
            .map(|i| {
                at[axis] = i;
                v[a][flat(&shapes[a], &at)]
            })
            .collect()
    };
    let along = |a: usize, axis: usize, f: &dyn Fn(&[f64], usize) -> f64| {
        filled(&shapes[a], |at| f(&line(a, axis, at), at[axis]))
    };
    let over = |a: usize, axis: usize, f: &dyn Fn(&[f64]) -> f64| {
        let mut to = shapes[a].clone();
        to[axis] = 1;
        filled(&to, |at| f(&line(a, axis, at)))
    };
    let mean = |l: &[f64]| l.iter().sum::<f64>() / l.len() as f64;
    let most = |l: &[f64]| l.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match step {
        Step::Sin(a) => one(a, &f64::sin),
        Step::Tanh(a) => one(a, &f64::tanh),
        Step::Sigmoid(a) => one(a, &|x| 1.0 / (1.0 + (-x).exp())),
        Step::Bell(a) => one(a, &|x| (-x * x).exp()),
        Step::Scale(a, c) => one(a, &|x| x * c),
        Step::Offset(a, c) => one(a, &|x| x + c),
        Step::Add(a, b) => two(a, b, &|x, y| x + y),
        Step::Sub(a, b) => two(a, b, &|x, y| x - y),
        Step::Gate(a, b) => two(a, b, &|x, y| x.tanh() * y),
        Step::Ratio(a, b) => two(a, b, &|x, y| x / (1.0 + y * y)),
        Step::Max(a, b) => two(a, b, &f64::max),
        Step::Choose(a, b, c, d) => {
            (0..v[*a].len()).map(|i| if v[*c][i] < v[*d][i] { v[*a][i] } else { v[*b][i] }).collect()
        }
        Step::Mean(a, x, _) | Step::Share(a, x) => over(*a, *x, &mean),
        Step::Most(a, x) => over(*a, *x, &most),
        Step::Softmax(a, x) => along(*a, *x, &|l, i| {
            let m = most(l);
            (l[i] - m).exp() / l.iter().map(|y| (y - m).exp()).sum::<f64>()
        }),
        Step::LogSumExp(a, x) => over(*a, *x, &|l| {
            let m = most(l);
            m + l.iter().map(|y| (y - m).exp()).sum::<f64>().ln()
        }),
        Step::Running(a, x, back) => along(*a, *x, &|l, i| {
            let part = if *back { &l[i..] } else { &l[..=i] };
            part.iter().sum::<f64>() / l.len() as f64
        }),
        Step::Sorted(a, x) => along(*a, *x, &|l, i| {
            let mut l = l.to_vec();
            l.sort_by(f64::total_cmp);
            l[i]
        }),
        Step::Flat(a, _) => v[*a].clone(),
        Step::Swap(a, perm) => {
            let s = &shapes[*a];
            let to: Vec<usize> = perm.iter().map(|&p| s[p]).collect();
            filled(&to, |at| {
                let mut from = vec![0; s.len()];
                perm.iter().zip(at).for_each(|(&p, &i)| from[p] = i);
                v[*a][flat(s, &from)]
            })
        }
        Step::Part(a, x, start, step, size) => {
            let mut to = shapes[*a].clone();
            to[*x] = *size;
            filled(&to, |at| {
                let mut from = at.to_vec();
                from[*x] = (*start as isize + at[*x] as isize * step) as usize;
                v[*a][flat(&shapes[*a], &from)]
            })
        }
        Step::Repeat(a, times) => v[*a].repeat(*times),
        Step::Join(a, b, x) => {
            let n = shapes[*a][*x];
            let mut to = shapes[*a].clone();
            to[*x] = 2 * n;
            filled(&to, |at| {
                let mut from = at.to_vec();
                from[*x] %= n;
                v[if at[*x] < n { *a } else { *b }][flat(&shapes[*a], &from)]
            })
        }
        Step::Pick(a, x, of) => {
            let mut to = shapes[*a].clone();
            to[*x] = of.len();
            filled(&to, |at| {
                let mut from = at.to_vec();
                from[*x] = of[at[*x]];
                v[*a][flat(&shapes[*a], &from)]
            })
        }
        Step::Product(a, b) => {
            let (s, t) = (&shapes[*a], &shapes[*b]);
            filled(&[s[0], t[1]], |at| {
                (0..s[1]).map(|k| v[*a][at[0] * s[1] + k] * v[*b][k * t[1] + at[1]]).sum::<f64>()
                    / s[1] as f64
            })
        }
        Step::Spread(a, b, of) => {
            let mut out = v[*a].clone();
            let row = out.len() / shapes[*a][0];
            for (from, &to) in of.iter().enumerate() {
                (0..row).for_each(|k| out[to * row + k] += v[*b][from * row + k]);
            }
            out
        }
    }
}

type Outcome = std::result::Result<(), String>;

fn text(e: olivine_core::Error) -> String {
    e.to_string()
}

fn near(what: &str, a: &Array, b: &[f64], tolerance: f64) -> Outcome {
    let a = a.astype(Dtype::F64).and_then(|a| a.to_vec::<f64>()).map_err(text)?;
    if a.len() != b.len() {
        return Err(format!("{what}: {} and {} elements", a.len(), b.len()));
    }
    let size = b.iter().fold(1.0f64, |m, v| m.max(v.abs()));
    match a.iter().zip(b).position(|(x, y)| (x - y).abs() > tolerance * size || x.is_nan() != y.is_nan()) {
        Some(i) => Err(format!("{what}: element {i} is {}, not {}", a[i], b[i])),
        None => Ok(()),
    }
}

fn equal(what: &str, a: &[Array], b: &[Array]) -> Outcome {
    for (k, (a, b)) in a.iter().zip(b).enumerate() {
        let same = a.shape() == b.shape() && a.to_bytes().map_err(text)? == b.to_bytes().map_err(text)?;
        if !same {
            let show = |a: &Array| a.astype(Dtype::F64).and_then(|a| a.to_vec::<f64>()).map_err(text);
            return Err(format!("{what}: result {k} is {:?}, not {:?}", show(a)?, show(b)?));
        }
    }
    Ok(())
}

fn alike(what: &str, a: &[Array], b: &[Array], tolerance: f64) -> Outcome {
    for (k, (a, b)) in a.iter().zip(b).enumerate() {
        if a.shape() != b.shape() {
            return Err(format!("{what}: result {k} has shape {}, not {}", a.shape(), b.shape()));
        }
        let b = b.astype(Dtype::F64).and_then(|b| b.to_vec::<f64>()).map_err(text)?;
        near(&format!("{what}, result {k}"), a, &b, tolerance)?;
    }
    Ok(())
}

/// Checks one program with arguments of this type.
///
/// # Errors
/// What disagrees.
pub fn check(program: &Program, dtype: Dtype, rng: &mut Rng) -> Outcome {
    let noise = |rng: &mut Rng, n: usize| -> Vec<f64> {
        // Numbers that `f32` holds, so that the reference has the same ones.
        (0..n).map(|_| f64::from((2.0 * rng.float() - 1.0) as f32)).collect()
    };
    let (exact, loose) = if dtype == Dtype::F64 { (1e-9, 1e-7) } else { (2e-4, 5e-3) };
    let array =
        |v: &[f64], shape: &[usize]| Array::from_slice(v, shape).and_then(|a| a.astype(dtype)).map_err(text);
    let draw = |rng: &mut Rng| -> std::result::Result<(Vec<Vec<f64>>, Vec<Array>), String> {
        let numbers: Vec<Vec<f64>> = program.inputs.iter().map(|s| noise(rng, s.iter().product())).collect();
        let arrays = numbers
            .iter()
            .zip(&program.inputs)
            .map(|(v, s)| array(v, s))
            .collect::<std::result::Result<_, _>>()?;
        Ok((numbers, arrays))
    };
    let (numbers, x) = draw(rng)?;
    let f = |x: &[Array]| program.run(x);
    let y = f(&x).map_err(text)?;
    for (k, (a, b)) in y.iter().zip(program.reference(&numbers)).enumerate() {
        near(&format!("value {k}"), a, &b, exact)?;
    }
    let was = eval::set_fusion(false);
    let plain = f(&x).and_then(|y| eval::eval(&y).map(|()| y));
    eval::set_fusion(was);
    equal("unfused and fused", &y, &plain.map_err(text)?)?;
    let compiled = compile(|x: &Vec<Array>| f(x));
    let again = compiled(&x).map_err(text)?;
    if dtype_is_exact(&x) {
        equal("compiled", &again, &y)?;
    } else {
        alike("compiled", &again, &y, exact)?;
    }

    // Derivatives along a direction, of a weighted sum of the results.
    let (_, t) = draw(rng)?;
    let c: Vec<Array> =
        y.iter().map(|a| array(&noise(rng, a.size()), a.shape())).collect::<std::result::Result<_, _>>()?;
    let (_, dy) = jvp_arrays(f, &x, &t).map_err(text)?;
    let gradient = |x: &[Array]| vjp_arrays(f, x, &c).map(|(_, g)| g);
    let g = gradient(&x).map_err(text)?;
    let dot = |a: &[Array], b: &[Array]| -> std::result::Result<(f64, f64), String> {
        let mut sums = (0.0, 0.0);
        for (a, b) in a.iter().zip(b) {
            let numbers = |a: &Array| a.astype(Dtype::F64).and_then(|a| a.to_vec::<f64>()).map_err(text);
            for (x, y) in numbers(a)?.iter().zip(numbers(b)?) {
                sums = (sums.0 + x * y, sums.1 + (x * y).abs());
            }
        }
        Ok(sums)
    };
    let ((forward, size), (backward, _)) = (dot(&c, &dy)?, dot(&t, &g)?);
    if (forward - backward).abs() > loose * (1.0 + size) || forward.is_nan() != backward.is_nan() {
        return Err(format!("derivatives: {forward} forward, {backward} backward"));
    }
    let compiled = compile(|x: &Vec<Array>| gradient(x))(&x).map_err(text)?;
    alike("compiled gradient", &compiled, &g, exact)?;
    let pushed = compile(|x: &Vec<Array>| jvp_arrays(f, x, &t).map(|(_, t)| t))(&x).map_err(text)?;
    alike("compiled jvp", &pushed, &dy, exact)?;

    // A batch of three.
    let batch: Vec<Vec<Array>> =
        (0..3).map(|_| draw(rng).map(|(_, x)| x)).collect::<std::result::Result<_, _>>()?;
    let joined: Vec<Array> = (0..x.len())
        .map(|i| stack(&batch.iter().map(|b| b[i].clone()).collect::<Vec<_>>(), 0).map_err(text))
        .collect::<std::result::Result<_, _>>()?;
    let axes = vec![Some(0); x.len()];
    let mapped = |f: &dyn Fn(&[Array]) -> Result<Vec<Array>>, x: &[Array]| {
        vmap_arrays(|x| f(x), x, &axes, |n| Ok(vec![Some(0); n]))
    };
    for (what, h) in
        [("vmap", &f as &dyn Fn(&[Array]) -> Result<Vec<Array>>), ("vmap of gradient", &gradient)]
    {
        let singles = batch.iter().map(|b| h(b)).collect::<Result<Vec<_>>>().map_err(text)?;
        let want: Vec<Array> = (0..singles[0].len())
            .map(|k| stack(&singles.iter().map(|s| s[k].clone()).collect::<Vec<_>>(), 0).map_err(text))
            .collect::<std::result::Result<_, _>>()?;
        alike(what, &mapped(h, &joined).map_err(text)?, &want, loose)?;
        let compiled = compile(|x: &Vec<Array>| mapped(h, x))(&joined).map_err(text)?;
        alike(&format!("compiled {what}"), &compiled, &want, loose)?;
    }
    Ok(())
}

/// Whether compilation gives the same bits there, as it does on the CPU.
fn dtype_is_exact(x: &[Array]) -> bool {
    x.iter().all(|a| a.stream().device == Device::CPU)
}

/// Checks `count` programs on a device; `report` gets what failed. Gives how many passed and failed.
pub fn run(device: Device, count: usize, seed: u64, mut report: impl FnMut(&str)) -> (usize, usize) {
    let mut failed = 0;
    for n in 0..count {
        let mut rng = Rng::of(&[seed, n as u64, 0x70_72_6f_67]);
        let length = [12, 40, 120, 300][rng.below(4)];
        let program = Program::random(length, &mut rng);
        let dtype = if n % 4 == 3 { Dtype::F32 } else { Dtype::F64 };
        let outcome = Stream::default_of(device).scope(|| check(&program, dtype, &mut rng));
        if let Err(message) = outcome {
            failed += 1;
            report(&format!("program {n} of seed {seed}, {length} operations, {dtype}: {message}"));
        }
    }
    (count - failed, failed)
}
