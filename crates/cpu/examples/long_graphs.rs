//! How the time of evaluation, transforms and export grows with the length of a graph: chains of elementwise nodes, and
//! ladders of splits and joins, in a stack of 2 MiB.
//!
//! `cargo run --release -p olivine-cpu --example long_graphs`

use olivine_core::ops::concatenate;
use olivine_core::transforms::{compile, jvp_arrays, vjp_arrays, vmap_arrays};
use olivine_core::{Array, Export, Exporter, ImportedFunction, Result, graph_dot, graph_text};
use std::time::Instant;

fn chain(x: &Array, n: usize) -> Result<Array> {
    (0..n).try_fold(x.clone(), |y, i| if i % 2 == 0 { y.add(x) } else { y.multiply(x) })
}

fn ladder(x: &Array, n: usize) -> Result<Array> {
    (0..n).try_fold(x.clone(), |y, _| {
        let parts = y.split(2, 0)?;
        concatenate(&[parts[1].clone(), parts[0].clone()], 0)
    })
}

type Build = fn(&Array, usize) -> Result<Array>;
type Work = fn(&dyn Fn(&Array) -> Result<Array>, &Array) -> Result<()>;

const WORK: &[(&str, Work)] = &[
    ("build and drop", |f, x| f(x).map(drop)),
    ("eval", |f, x| f(x)?.eval()),
    ("vjp", |f, x| {
        let (_, g) = vjp_arrays(|x| Ok(vec![f(&x[0])?]), std::slice::from_ref(x), &[x.full_like(1.0)?])?;
        g[0].eval()
    }),
    ("jvp", |f, x| {
        let (_, t) = jvp_arrays(|x| Ok(vec![f(&x[0])?]), std::slice::from_ref(x), &[x.full_like(1.0)?])?;
        t[0].eval()
    }),
    ("vmap", |f, x| {
        let batch = x.reshape(&[1, 2])?;
        let y = vmap_arrays(|x| Ok(vec![f(&x[0])?]), &[batch], &[Some(0)], |n| Ok(vec![Some(0); n]))?;
        y[0].eval()
    }),
    ("compile", |f, x| {
        let g = compile(|x: &Array| f(x));
        g(x)?.eval()?;
        g(x)?.eval()
    }),
    ("export, import, call", |f, x| {
        let mut exporter = Exporter::new(Export::default());
        exporter.trace(std::slice::from_ref(x), &[], |x| Ok(vec![f(&x[0])?]))?;
        let g = ImportedFunction::from_bytes(&exporter.to_bytes()?)?;
        g.call(std::slice::from_ref(x))?[0].eval()
    }),
    ("print", |f, x| {
        let y = f(x)?;
        let length = graph_text(std::slice::from_ref(&y)).len() + graph_dot(&[("y", y)]).len();
        assert!(length > 0);
        Ok(())
    }),
];

fn measure() -> Result<()> {
    olivine_cpu::register();
    let x = Array::from_slice(&[1f32, 0.5], &[2])?;
    let sets: [(&str, Build, &[usize]); 2] = [
        ("chain of elementwise nodes", chain, &[10_000, 100_000, 1_000_000]),
        ("ladder of splits and joins", ladder, &[3_000, 30_000, 300_000]),
    ];
    for (what, build, sizes) in sets {
        for (name, work) in WORK {
            for &n in sizes {
                let start = Instant::now();
                work(&|x| build(x, n), &x)?;
                let t = start.elapsed().as_secs_f64();
                println!(
                    "{what}, {name:<22} {n:>8}: {:>9.1} ms, {:>7.3} us a step",
                    t * 1e3,
                    t * 1e6 / n as f64
                );
            }
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(measure);
    thread.expect("a thread").join().expect("no panic")
}
