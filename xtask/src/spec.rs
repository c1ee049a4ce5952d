//! What is written from, and run through, the table of operations and the registry of functions.

use crate::Result;
use crate::process::{self, cargo, command, root, succeeds};
use crate::python;
use std::path::PathBuf;

fn example(name: &str, release: bool) -> std::process::Command {
    let mut run = cargo();
    run.args(["run", "--quiet", "--locked", "--package", "olivine-spec", "--example", name]);
    if release {
        run.arg("--release");
    }
    run.arg("--");
    run
}

/// `cargo xtask docs`: writes the pages that come from tables.
pub fn docs(arguments: &[String]) -> Result<()> {
    if !arguments.is_empty() {
        return Err("docs takes no arguments".into());
    }
    process::run(example("docs", false).arg(root().join("docs")))
}

/// `cargo xtask fuzz-api [--minutes N] [--seed N] [--only NAME]`
pub fn fuzz(arguments: &[String]) -> Result<()> {
    process::run(example("fuzz_api", true).args(arguments))
}

/// The driver that answers calls, built.
fn driver(release: bool) -> Result<PathBuf> {
    built("olivine-spec", "driver", release)
}

/// An example of a package, built.
fn built(package: &str, example: &str, release: bool) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--locked", "--package", package, "--example", example]);
    if release {
        build.arg("--release");
    }
    process::run(&mut build)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = target.join(if release { "release/examples" } else { "debug/examples" });
    Ok(folder.join(format!("{example}{}", std::env::consts::EXE_SUFFIX)))
}

/// A Python with MLX, NumPy and SciPy: `$OLIVINE_DIFFERENTIAL_PYTHON`, else an environment in `.cache`, made on
/// first use.
fn peers() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("OLIVINE_DIFFERENTIAL_PYTHON") {
        return Ok(named.into());
    }
    let python = python::virtual_environment(&root().join(".cache/differential-venv"))?;
    if !succeeds(command(&python).args(["-c", "import mlx.core, numpy, scipy"])) {
        let list = root().join("scripts/differential/requirements.txt");
        process::run(python::pip(&python).args(["install", "-r"]).arg(list))?;
    }
    Ok(python)
}

/// `cargo xtask bench ops [--rounds N]`
pub fn bench(arguments: &[String]) -> Result<()> {
    let mut run = command(peers()?);
    run.arg(root().join("benches/ops.py")).arg("--driver").arg(driver(true)?);
    process::run(run.arg("--markdown").arg(root().join("docs/benchmarks/ops.md")).args(arguments))
}

/// `cargo xtask bench train [--rounds N]`. `$OLIVINE_BENCH_PYTHON` names a Python that has PyTorch too.
pub fn bench_train(arguments: &[String]) -> Result<()> {
    let python = match std::env::var_os("OLIVINE_BENCH_PYTHON") {
        Some(named) => named.into(),
        None => peers()?,
    };
    let mut run = command(python);
    run.arg(root().join("benches/train.py")).arg("--binary").arg(built("olivine-nn", "train_bench", true)?);
    process::run(run.arg("--markdown").arg(root().join("docs/benchmarks/train.md")).args(arguments))
}

/// A short differential run, for the check of a change.
pub fn differential_short() -> Result<()> {
    differential(&["--calls".into(), "200".into()])
}

/// `cargo xtask differential [--calls N] [--family NAME] [--seed N]`
pub fn differential(arguments: &[String]) -> Result<()> {
    let (driver, python) = (driver(false)?, peers()?);
    let script = root().join("scripts/differential/run.py");
    process::run(command(python).arg(script).arg("--driver").arg(driver).args(arguments))
}
