//! Derivatives and batches of functions, against numeric differentiation and against one call per element.

mod cases;
mod compiled;
mod compose;
mod custom;
mod dense;
mod exported;
mod known;

use olivine_core::ops::stack;
use olivine_core::random;
use olivine_core::transforms::{jvp_arrays, vjp_arrays, vmap_arrays};
use olivine_core::{Array, Dtype, Result};

fn setup() {
    olivine_cpu::register();
}

/// A module of two tests for every case.
macro_rules! each_case {
    ($($name:ident: $dtype:expr, $shapes:expr, $range:expr, $f:expr;)*) => {
        $(
            mod $name {
                use super::*;
                const CASE: Case = Case { name: stringify!($name), shapes: $shapes, range: $range, dtype: $dtype, f: $f };
                #[test]
                fn derivatives() {
                    setup();
                    check_derivatives(&CASE);
                }
                #[test]
                fn batches() {
                    setup();
                    check_batches(&CASE);
                }
            }
        )*
    };
}
use each_case;

const F64: Dtype = Dtype::F64;

fn one(a: Result<Array>) -> Result<Vec<Array>> {
    a.map(|a| vec![a])
}

type Function = fn(&[Array]) -> Result<Vec<Array>>;

/// A function of some arrays, and shapes of its arguments.
struct Case {
    name: &'static str,
    shapes: &'static [&'static [usize]],
    /// Arguments lie between these.
    range: (f64, f64),
    dtype: Dtype,
    f: Function,
}

impl Case {
    fn arguments(&self, seed: u64) -> Vec<Array> {
        let (lo, hi) = self.range;
        self.shapes
            .iter()
            .enumerate()
            .map(|(i, s)| {
                let key = random::key(1000 * seed + i as u64).unwrap();
                random::uniform(lo, hi, s, Dtype::F32, Some(&key)).unwrap().astype(self.dtype).unwrap()
            })
            .collect()
    }

    fn directions(&self, seed: u64) -> Vec<Array> {
        Case { range: (-1.0, 1.0), ..*self }.arguments(seed)
    }
}

fn values(a: &Array) -> Vec<f64> {
    a.astype(Dtype::F64).unwrap().to_vec::<f64>().unwrap()
}

fn dot(a: &[Array], b: &[Array]) -> f64 {
    a.iter()
        .zip(b)
        .filter(|(a, _)| a.dtype().is_inexact())
        .map(|(a, b)| values(a).iter().zip(values(b)).map(|(x, y)| x * y).sum::<f64>())
        .sum()
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs()))
}

fn assert_close(what: &str, a: &Array, b: &Array, tolerance: f64) {
    assert_eq!(a.shape(), b.shape(), "{what}");
    assert_eq!(a.dtype(), b.dtype(), "{what}");
    for (i, (x, y)) in values(a).into_iter().zip(values(b)).enumerate() {
        assert!(x == y || close(x, y, tolerance), "{what}: element {i}: {x} and {y}");
    }
}

fn along(x: &[Array], t: &[Array], h: f64) -> Vec<Array> {
    x.iter().zip(t).map(|(x, t)| x.add(&t.scale(h).unwrap()).unwrap()).collect()
}

/// The derivative along `t` by differences.
fn numeric(f: &dyn Fn(&[Array]) -> Result<Vec<Array>>, x: &[Array], t: &[Array], h: f64) -> Vec<Array> {
    let (plus, minus) = (f(&along(x, t, h)).unwrap(), f(&along(x, t, -h)).unwrap());
    plus.iter()
        .zip(minus)
        .map(|(p, m)| {
            let wide =
                |a: &Array| a.astype(if a.dtype().is_inexact() { Dtype::F64 } else { Dtype::F32 }).unwrap();
            wide(p).subtract(&wide(&m)).unwrap().scale(0.5 / h).unwrap().astype(p.dtype()).unwrap()
        })
        .collect()
}

/// Steps and tolerances that suit a type.
fn precision(dtype: Dtype) -> (f64, f64) {
    if dtype == Dtype::F64 { (1e-5, 1e-6) } else { (2e-2, 2e-2) }
}

fn check_derivatives(c: &Case) {
    let (h, tolerance) = precision(c.dtype);
    let (x, t) = (c.arguments(1), c.directions(2));
    let (y, dy) = jvp_arrays(c.f, &x, &t).unwrap_or_else(|e| panic!("{}: jvp: {e}", c.name));
    let plain = (c.f)(&x).unwrap();
    for (a, b) in y.iter().zip(&plain) {
        assert_close(&format!("{}: value", c.name), a, b, 0.0);
    }
    let expected = numeric(&c.f, &x, &t, h);
    for (k, (a, b)) in dy.iter().zip(&expected).enumerate() {
        if a.dtype().is_inexact() {
            assert_close(&format!("{}: jvp of result {k}", c.name), a, b, tolerance);
        }
    }
    // Cotangents of results that are no floats do not count.
    let w: Vec<Array> = y
        .iter()
        .enumerate()
        .map(|(i, y)| {
            let key = random::key(10 + i as u64).unwrap();
            let w = random::uniform(-1.0, 1.0, y.shape(), Dtype::F32, Some(&key)).unwrap();
            if y.dtype().is_inexact() { w.astype(y.dtype()) } else { y.full_like(0.0) }.unwrap()
        })
        .collect();
    let (_, dx) = vjp_arrays(c.f, &x, &w).unwrap_or_else(|e| panic!("{}: vjp: {e}", c.name));
    let (forward, backward) = (dot(&dy, &w), dot(&t, &dx));
    let exact = if c.dtype == Dtype::F64 { 1e-10 } else { 1e-4 };
    assert!(close(forward, backward, exact), "{}: {forward} forward, {backward} backward", c.name);
    // The derivative of the gradient, both ways.
    let gradient = |x: &[Array]| vjp_arrays(c.f, x, &w).map(|(_, g)| g);
    let (_, second) = jvp_arrays(gradient, &x, &t).unwrap_or_else(|e| panic!("{}: second: {e}", c.name));
    let expected = numeric(&gradient, &x, &t, h);
    for (k, (a, b)) in second.iter().zip(&expected).enumerate() {
        assert_close(&format!("{}: second derivative by {k}", c.name), a, b, 5.0 * tolerance);
    }
    let v = c.directions(3);
    let (_, back) = vjp_arrays(gradient, &x, &v).unwrap_or_else(|e| panic!("{}: vjp of vjp: {e}", c.name));
    let (forward, backward) = (dot(&second, &v), dot(&t, &back));
    assert!(close(forward, backward, 10.0 * exact), "{}: second: {forward}, {backward}", c.name);
}

/// Every choice of a batch axis, or of none, for every argument.
fn check_batches(c: &Case) {
    const N: usize = 3;
    let ranks: Vec<usize> = c.shapes.iter().map(|s| s.len()).collect();
    let mut choices: Vec<Vec<Option<i32>>> = vec![vec![]];
    for &r in &ranks {
        choices = choices
            .into_iter()
            .flat_map(|c| {
                std::iter::once(None)
                    .chain((0..=r as i32).map(Some))
                    .map(move |a| [c.clone(), vec![a]].concat())
            })
            .collect();
    }
    for axes in choices.into_iter().filter(|a| a.iter().any(Option::is_some)) {
        let what = format!("{}: vmap {axes:?}", c.name);
        // Elements differ, so that mixing them up shows.
        let elements: Vec<Vec<Array>> = (0..N as u64).map(|i| c.arguments(20 + i)).collect();
        let joined: Vec<Array> = axes
            .iter()
            .enumerate()
            .map(|(k, a)| match a {
                None => elements[0][k].clone(),
                Some(a) => {
                    let all: Vec<Array> = elements.iter().map(|e| e[k].clone()).collect();
                    stack(&all, *a).unwrap()
                }
            })
            .collect();
        let single = |i: usize| {
            let args: Vec<Array> = axes
                .iter()
                .enumerate()
                .map(|(k, a)| elements[if a.is_some() { i } else { 0 }][k].clone())
                .collect();
            (c.f)(&args).unwrap()
        };
        let singles: Vec<Vec<Array>> = (0..N).map(single).collect();
        for out in 0..=1 {
            let to = |n: usize| -> Result<Vec<Option<i32>>> {
                Ok((0..n).map(|k| Some(if singles[0][k].rank() >= 1 { out } else { 0 })).collect())
            };
            let ys = vmap_arrays(c.f, &joined, &axes, to).unwrap_or_else(|e| panic!("{what}: {e}"));
            for (k, y) in ys.iter().enumerate() {
                let all: Vec<Array> = singles.iter().map(|s| s[k].clone()).collect();
                let along = if all[0].rank() >= 1 { out } else { 0 };
                let expected = stack(&all, along).unwrap();
                let tolerance = if c.dtype == Dtype::F64 { 1e-12 } else { 1e-5 };
                assert_close(&what, y, &expected, tolerance);
            }
        }
    }
}
