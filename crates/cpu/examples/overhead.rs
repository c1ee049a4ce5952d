//! What an operation costs beside its arithmetic: building, evaluating and dropping chains of tiny ones.

use olivine_core::{Array, Dtype, Result, eval};
use std::time::Instant;

fn best(runs: usize, mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..runs {
        let start = Instant::now();
        f()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn main() -> Result<()> {
    olivine_cpu::register();
    const N: usize = 1000;
    let x = Array::ones(&[16], Dtype::F32)?;
    x.eval()?;
    let chain = |x: &Array| {
        let mut y = x.clone();
        for _ in 0..N {
            y = y.add(x)?;
        }
        Ok(y)
    };
    let report = |what: &str, t: f64, n: usize| println!("{what:<52} {:>8.3} us an op", t * 1e6 / n as f64);
    report("build and drop 1,000 adds", best(200, || chain(&x).map(drop))?, N);
    report("build, fuse, evaluate, drop 1,000 adds of 16", best(200, || chain(&x)?.eval())?, N);
    let was = eval::set_fusion(false);
    report("the same without fusion", best(200, || chain(&x)?.eval())?, N);
    let queued = || {
        let y = chain(&x)?;
        eval::async_eval(std::slice::from_ref(&y))?;
        y.eval()
    };
    report("the same on the worker thread", best(200, queued)?, N);
    eval::set_fusion(was);
    let views = || {
        let mut y = x.clone();
        for _ in 0..N {
            y = y.reshape(&[4, 4])?.reshape(&[16])?;
        }
        y.eval()
    };
    report("views", best(200, views)?, 2 * N);
    for n in [10_000, 100_000, 1_000_000] {
        let long = || {
            let mut y = x.clone();
            for _ in 0..n {
                y = y.add(&x)?;
            }
            y.eval()
        };
        report(&format!("chain of {n}"), best(3, long)?, n);
    }
    Ok(())
}
