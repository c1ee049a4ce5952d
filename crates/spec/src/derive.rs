//! What transforms must make of every operation: derivatives that agree with differences and with each other, batches
//! that are what one call for each element gives, compilation that changes nothing.

use crate::check::Failure;
use crate::draw::{Draw, Profile, Rng};
use crate::host::{Cx, Data, Host};
use crate::rows::{Case, Row, rows};
use olivine_core::ops::stack;
use olivine_core::transforms::{Compile, compile, compile_with, jvp_arrays, vjp_arrays, vmap_arrays};
use olivine_core::{Array, Device, Dtype, Export, Exporter, ImportedFunction, Result, Stream};

/// Kinds whose values jump or whose results are determined only up to signs, with the reason; differences say nothing
/// about them.
pub const WITHOUT_DIFFERENCES: &[(&str, &str)] = &[
    ("eig", "eigenvectors of real matrices may change their order with a small change"),
    ("svd", "vectors beyond the rank are any that fit"),
    ("stop_gradient", "its derivative is zero on purpose"),
    ("fft", "complex results are no wider than complex64"),
    ("ifft", "complex results are no wider than complex64"),
    ("rfft", "complex results are no wider than complex64"),
    ("irfft", "complex results are no wider than complex64"),
];

/// Elements of a batch.
const N: usize = 3;

/// Runs the checks of all kinds, or of one, on a device; `report` gets every failure. Gives how many checks passed and
/// failed.
pub fn run(
    device: Device,
    only: Option<&str>,
    seed: u64,
    mut report: impl FnMut(&Failure),
) -> (usize, usize) {
    let (mut passed, mut failed) = (0, 0);
    for row in rows().iter().filter(|r| only.is_none_or(|n| n == r.key)) {
        let wanted = [Dtype::F64, Dtype::F32, Dtype::C64, Dtype::I32];
        for dtype in wanted.into_iter().filter(|d| row.dtypes.contains(d)) {
            for n in 0..2 {
                let parts = [
                    seed,
                    row.key.bytes().fold(7, |h, b| h * 31 % 1_000_003 + u64::from(b)),
                    dtype as u64,
                    n,
                ];
                let case = (row.draw)(&mut Draw::new(Profile::Plain, &parts), dtype);
                let mut rng = Rng::of(&parts);
                let outcome = Stream::default_of(device).scope(|| one(row, &case, &mut rng));
                match outcome {
                    Ok(()) => passed += 1,
                    Err(message) => {
                        failed += 1;
                        report(&Failure {
                            key: row.key,
                            dtype,
                            profile: Profile::Plain,
                            what: format!("{:?}", case.op),
                            message,
                            again: format!(
                                "olivine selftest --device {device} --op {} --seed {seed}",
                                row.key
                            ),
                        });
                    }
                }
            }
        }
    }
    (passed, failed)
}

fn one(row: &Row, case: &Case, rng: &mut Rng) -> std::result::Result<(), String> {
    let x =
        case.inputs.iter().map(|i| i.array()).collect::<Result<Vec<Array>>>().map_err(|e| e.to_string())?;
    let f = |x: &[Array]| Array::from_op_multi(case.op.clone(), x).map(|y| y.into_vec());
    let plain = f(&x).map_err(|e| e.to_string())?;
    compiled(&f, &x, &plain).map_err(|e| format!("compile: {e}"))?;
    exported(&f, &x, &plain).map_err(|e| format!("export: {e}"))?;
    if x.is_empty() {
        return Ok(());
    }
    batches(&f, &x).map_err(|e| format!("vmap: {e}"))?;
    if plain.iter().any(|y| y.dtype().is_inexact()) && x.iter().any(|a| a.dtype().is_inexact()) {
        let differences = !WITHOUT_DIFFERENCES.iter().any(|(k, _)| *k == row.key);
        derivatives(&f, &x, &plain, differences, rng).map_err(|e| format!("derivatives: {e}"))?;
    }
    Ok(())
}

type Outcome = std::result::Result<(), String>;

fn text(e: olivine_core::Error) -> String {
    e.to_string()
}

fn same(what: &str, a: &Array, b: &Array, tolerance: f64) -> Outcome {
    if a.shape() != b.shape() || a.dtype() != b.dtype() {
        return Err(format!("{what}: {} {} and {} {}", a.dtype(), a.shape(), b.dtype(), b.shape()));
    }
    let (a, b) = (Host::from_array(a).map_err(text)?, Host::from_array(b).map_err(text)?);
    let near = |x: f64, y: f64, size: f64| {
        x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * (1.0 + size)
    };
    let bad = match (&a.data, &b.data) {
        (Data::Int(x), Data::Int(y)) => x.iter().zip(y).position(|(x, y)| x != y),
        (Data::Real(x), Data::Real(y)) => {
            // What belongs together is judged by its largest element: parts of it may cancel out.
            let size = y.iter().filter(|v| v.is_finite()).fold(0.0f64, |m, v| m.max(v.abs()));
            x.iter().zip(y).position(|(x, y)| !near(*x, *y, size))
        }
        (Data::Complex(x), Data::Complex(y)) => {
            let size = y.iter().map(|z| z.abs()).filter(|v| v.is_finite()).fold(0.0f64, f64::max);
            x.iter().zip(y).position(|(x, y)| !near(x.re, y.re, size) || !near(x.im, y.im, size))
        }
        (_, _) => Some(0),
    };
    match bad {
        None => Ok(()),
        Some(i) => {
            let show = |h: &Host| match &h.data {
                Data::Int(v) => v[i].to_string(),
                Data::Real(v) => v[i].to_string(),
                Data::Complex(v) => format!("{}+{}i", v[i].re, v[i].im),
            };
            Err(format!("{what}: element {i} is {}, not {}", show(&a), show(&b)))
        }
    }
}

fn compiled(f: &dyn Fn(&[Array]) -> Result<Vec<Array>>, x: &[Array], plain: &[Array]) -> Outcome {
    let g = compile(|x: &Vec<Array>| f(x));
    for call in ["first", "second"] {
        let y = g(&x.to_vec()).map_err(text)?;
        for (k, (a, b)) in y.iter().zip(plain).enumerate() {
            same(&format!("{call} call, result {k}"), a, b, 0.0)?;
        }
    }
    Ok(())
}

/// Through a file and back; then the same, and shapeless compilation, at other sizes where the function has any.
fn exported(f: &dyn Fn(&[Array]) -> Result<Vec<Array>>, x: &[Array], plain: &[Array]) -> Outcome {
    let mut exporter = Exporter::new(Export { shapeless: true });
    exporter.trace(x, &[], f).map_err(text)?;
    let g = ImportedFunction::from_bytes(&exporter.to_bytes().map_err(text)?).map_err(text)?;
    for (k, (a, b)) in g.call(x).map_err(text)?.iter().zip(plain).enumerate() {
        same(&format!("result {k}"), a, b, 0.0)?;
    }
    let free = g.free_sizes(0).unwrap_or_default();
    let sizes = free.iter().flatten().flatten().max().map_or(0, |&k| k + 1);
    let shapeless = compile_with(Compile { shapeless: true, ..Compile::default() }, |x: &Vec<Array>| f(x));
    shapeless(&x.to_vec()).map_err(|e| format!("shapeless: {e}"))?;
    for k in 0..sizes {
        let larger = |a: &Array, axes: &[Option<usize>]| -> Result<Array> {
            let mut a = a.clone();
            for (axis, _) in axes.iter().enumerate().filter(|(_, s)| **s == Some(k)) {
                // What is there once more: in the domain of the function as what is there already.
                a = olivine_core::ops::concatenate(&[a.clone(), a], axis as i32)?;
            }
            Ok(a)
        };
        let y =
            x.iter().zip(&free).map(|(a, axes)| larger(a, axes)).collect::<Result<Vec<_>>>().map_err(text)?;
        let want = f(&y).and_then(|want| {
            olivine_core::eval(&want)?;
            Ok(want)
        });
        // Such as a matrix that is not positive definite any more.
        let Ok(want) = want else { continue };
        let other = shapeless(&y).map_err(|e| format!("shapeless: {e}"))?;
        for (i, ((a, b), c)) in g.call(&y).map_err(text)?.iter().zip(&want).zip(&other).enumerate() {
            same(&format!("result {i} with twice the size n{k}"), a, b, 0.0)?;
            same(&format!("shapeless, result {i} with twice the size n{k}"), c, b, 0.0)?;
        }
    }
    Ok(())
}

fn precision(d: Dtype) -> f64 {
    if d == Dtype::F64 { 1e-9 } else { 2e-4 }
}

/// Each argument alone has the batch, along each axis, with the batch of the results along each axis; and all together.
fn batches(f: &dyn Fn(&[Array]) -> Result<Vec<Array>>, x: &[Array]) -> Outcome {
    let mut choices: Vec<Vec<bool>> = (0..x.len()).map(|i| (0..x.len()).map(|j| i == j).collect()).collect();
    choices.push(vec![true; x.len()]);
    for flags in choices {
        // Elements of floats differ by a factor, which keeps matrices regular and signs as they are.
        let element = |i: usize| -> Result<Vec<Array>> {
            x.iter()
                .zip(&flags)
                .map(|(a, &b)| match b && a.dtype().is_inexact() {
                    true => a.scale([1.0, 0.75, 0.5][i])?.astype(a.dtype()),
                    false => Ok(a.clone()),
                })
                .collect()
        };
        let elements = (0..N).map(element).collect::<Result<Vec<_>>>().map_err(text)?;
        let singles = elements.iter().map(|e| f(e)).collect::<Result<Vec<_>>>().map_err(text)?;
        let alone = flags.iter().filter(|b| **b).count() == 1;
        let rank_in = x.iter().zip(&flags).filter(|(_, b)| **b).map(|(a, _)| a.rank()).max().unwrap_or(0);
        let rank_out = singles[0].iter().map(Array::rank).max().unwrap_or(0);
        for at in 0..=rank_in {
            let mut axes = Vec::new();
            let mut joined = Vec::new();
            for (k, &b) in flags.iter().enumerate() {
                // Every second argument counts from the end.
                let rank = x[k].rank() as i32;
                let axis = (at as i32).min(rank) - if k % 2 == 1 { rank + 1 } else { 0 };
                axes.push(b.then_some(axis));
                let all: Vec<Array> = elements.iter().map(|e| e[k].clone()).collect();
                joined.push(if b { stack(&all, axis).map_err(text)? } else { x[k].clone() });
            }
            for out in 0..=rank_out {
                if !alone && out != at.min(rank_out) {
                    continue;
                }
                let place = |k: usize| (out as i32).min(singles[0][k].rank() as i32);
                let ys =
                    vmap_arrays(|x| f(x), &joined, &axes, |n| Ok((0..n).map(|k| Some(place(k))).collect()))
                        .map_err(|e| format!("{axes:?}: {e}"))?;
                for (k, y) in ys.iter().enumerate() {
                    let all: Vec<Array> = singles.iter().map(|s| s[k].clone()).collect();
                    let want = stack(&all, place(k)).map_err(text)?;
                    let exact = if want.dtype().is_inexact() { precision(want.dtype()) } else { 0.0 };
                    same(&format!("{axes:?} to {}, result {k}", place(k)), y, &want, exact)?;
                }
            }
        }
    }
    Ok(())
}

/// Numbers of -1 to 1 like `a`; zeros for what has no derivative.
fn direction(a: &Array, rng: &mut Rng) -> Result<Array> {
    let mut h = Host::numbers(a.dtype(), a.shape(), &vec![0.0; a.size()]);
    match &mut h.data {
        Data::Real(v) => {
            v.iter_mut().for_each(|v| *v = crate::host::round_to(2.0 * rng.float() - 1.0, a.dtype()))
        }
        Data::Complex(v) => {
            let part = |rng: &mut Rng| crate::host::round_to(2.0 * rng.float() - 1.0, Dtype::F32);
            v.iter_mut().for_each(|z| *z = Cx::new(part(rng), part(rng)));
        }
        Data::Int(_) => {}
    }
    h.to_array()
}

/// `Re(conj(a) * b)`, summed.
fn dot(a: &[Array], b: &[Array]) -> Result<f64> {
    let mut total = 0.0;
    for (a, b) in a.iter().zip(b).filter(|(a, _)| a.dtype().is_inexact()) {
        let (a, b) = (Host::from_array(a)?, Host::from_array(b)?);
        total += match (&a.data, &b.data) {
            (Data::Real(x), Data::Real(y)) => x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>(),
            (Data::Complex(x), Data::Complex(y)) => {
                x.iter().zip(y).map(|(x, y)| x.re * y.re + x.im * y.im).sum()
            }
            (_, _) => f64::NAN,
        };
    }
    Ok(total)
}

fn derivatives(
    f: &dyn Fn(&[Array]) -> Result<Vec<Array>>,
    x: &[Array],
    plain: &[Array],
    differences: bool,
    rng: &mut Rng,
) -> Outcome {
    // Transforms take floats only; the others are captured.
    let floats: Vec<usize> = (0..x.len()).filter(|&i| x[i].dtype().is_inexact()).collect();
    let whole = |some: &[Array]| -> Vec<Array> {
        let mut all = x.to_vec();
        floats.iter().zip(some).for_each(|(&i, a)| all[i] = a.clone());
        all
    };
    let kept: Vec<usize> = (0..plain.len()).filter(|&k| plain[k].dtype().is_inexact()).collect();
    let g = |some: &[Array]| -> Result<Vec<Array>> {
        let y = f(&whole(some))?;
        Ok(kept.iter().map(|&k| y[k].clone()).collect())
    };
    let p: Vec<Array> = floats.iter().map(|&i| x[i].clone()).collect();
    let t = p.iter().map(|a| direction(a, rng)).collect::<Result<Vec<_>>>().map_err(text)?;
    let (y, dy) = jvp_arrays(g, &p, &t).map_err(|e| format!("jvp: {e}"))?;
    let c = y.iter().map(|a| direction(a, rng)).collect::<Result<Vec<_>>>().map_err(text)?;
    let (_, dx) = vjp_arrays(g, &p, &c).map_err(|e| format!("vjp: {e}"))?;
    let (forward, backward) = (dot(&c, &dy).map_err(text)?, dot(&t, &dx).map_err(text)?);
    let wide = p.iter().chain(&y).all(|a| a.dtype() == Dtype::F64);
    let sizes =
        dy.iter().zip(&c).map(|(a, b)| dot(&[a.abs()?], &[b.abs()?])).sum::<Result<f64>>().map_err(text)?;
    let near = |a: f64, b: f64| (a - b).abs() <= if wide { 1e-8 } else { 2e-3 } * (1.0 + sizes);
    if !(near(forward, backward) || forward == backward || (forward.is_nan() && backward.is_nan())) {
        return Err(format!("{forward} forward, {backward} backward"));
    }
    second_order(&g, &p, &t, &c, differences, rng).map_err(|e| format!("second order: {e}"))?;
    if !wide || !differences {
        return Ok(());
    }
    let slopes = Slopes::of(&g, &p, &t, &y, 1e-6).map_err(text)?;
    slopes.agree(&dy, 2e-6, 1e-5)
}

/// Differences of a function along a direction.
struct Slopes {
    /// To both sides, far and near; to one side, ahead and behind.
    sides: [Vec<Array>; 4],
    values: Vec<Array>,
}

impl Slopes {
    fn of(
        g: &dyn Fn(&[Array]) -> Result<Vec<Array>>,
        p: &[Array],
        t: &[Array],
        values: &[Array],
        h: f64,
    ) -> Result<Slopes> {
        let moved = |h: f64| -> Result<Vec<Array>> {
            let at = p.iter().zip(t).map(|(p, t)| p.add(&t.scale(h)?)).collect::<Result<Vec<_>>>()?;
            g(&at)
        };
        let between = |a: &[Array], b: &[Array], h: f64| -> Result<Vec<Array>> {
            a.iter().zip(b).map(|(a, b)| a.subtract(b)?.scale(1.0 / h)).collect()
        };
        let (near, far) = ((moved(0.3 * h)?, moved(-0.3 * h)?), (moved(h)?, moved(-h)?));
        Ok(Slopes {
            sides: [
                between(&far.0, &far.1, 2.0 * h)?,
                between(&near.0, &near.1, 0.6 * h)?,
                between(&far.0, values, h)?,
                between(values, &far.1, h)?,
            ],
            values: values.to_vec(),
        })
    }

    /// Whether derivatives are the slopes, where those say something: where the function jumps, bends, ends or has a
    /// pole, differences do not settle or differ between the sides.
    fn agree(&self, derivatives: &[Array], settles: f64, tolerance: f64) -> Outcome {
        let [far, near, ahead, behind] = &self.sides;
        for (k, d) in derivatives.iter().enumerate() {
            let settled = || {
                far[k]
                    .isclose(&near[k], settles, settles, false)?
                    .logical_and(&ahead[k].isclose(&behind[k], 1e-3, 1e-3, false)?)?
                    .logical_and(&self.values[k].isfinite()?)
            };
            let slope = Array::select(&settled().map_err(text)?, &far[k], d).map_err(text)?;
            same(&format!("jvp and differences of result {k}"), d, &slope, tolerance)?;
        }
        Ok(())
    }
}

/// Derivatives of the gradient of `dot(c, g)`: forward over backward along `t`, backward over backward along another
/// direction, and differences of the gradient agree.
fn second_order(
    g: &dyn Fn(&[Array]) -> Result<Vec<Array>>,
    p: &[Array],
    t: &[Array],
    c: &[Array],
    differences: bool,
    rng: &mut Rng,
) -> Outcome {
    let gradient = |p: &[Array]| vjp_arrays(|x| g(x), p, c).map(|(_, dx)| dx);
    let (first, ht) = jvp_arrays(gradient, p, t).map_err(|e| format!("jvp: {e}"))?;
    // At a pole there is no second derivative.
    for a in first.iter().filter(|a| a.dtype().is_inexact()) {
        if !a.isfinite().and_then(|f| f.all(&[], false)?.item::<bool>()).map_err(text)? {
            return Ok(());
        }
    }
    let u = p.iter().map(|a| direction(a, rng)).collect::<Result<Vec<_>>>().map_err(text)?;
    let (_, hu) = vjp_arrays(gradient, p, &u).map_err(|e| format!("vjp: {e}"))?;
    let (forward, backward) = (dot(&u, &ht).map_err(text)?, dot(t, &hu).map_err(text)?);
    let sizes =
        ht.iter().zip(&u).map(|(a, b)| dot(&[a.abs()?], &[b.abs()?])).sum::<Result<f64>>().map_err(text)?;
    let wide = p.iter().chain(&first).chain(c).all(|a| a.dtype() == Dtype::F64);
    let near = |a: f64, b: f64| (a - b).abs() <= if wide { 1e-7 } else { 5e-3 } * (1.0 + sizes);
    if !(near(forward, backward) || forward == backward || (forward.is_nan() && backward.is_nan())) {
        return Err(format!("{forward} forward, {backward} backward"));
    }
    if !wide || !differences {
        return Ok(());
    }
    let slopes = Slopes::of(&gradient, p, t, &first, 1e-5).map_err(text)?;
    slopes.agree(&ht, 1e-5, 1e-3)
}
