//! What is written from, and run through, the table of operations and the registry of functions.

use crate::Result;
use crate::process::{self, cargo, command, root, succeeds};
use crate::python;

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

/// `cargo xtask differential [--calls N] [--family NAME] [--seed N]`
pub fn differential(arguments: &[String]) -> Result<()> {
    process::run(cargo().args(["build", "--locked", "--package", "olivine-spec", "--example", "driver"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let driver = target.join("debug/examples").join(format!("driver{}", std::env::consts::EXE_SUFFIX));
    let python = match std::env::var_os("OLIVINE_DIFFERENTIAL_PYTHON") {
        Some(named) => named.into(),
        None => {
            let python = python::virtual_environment(&root().join(".cache/differential-venv"))?;
            if !succeeds(command(&python).args(["-c", "import mlx.core, numpy, scipy"])) {
                let list = root().join("scripts/differential/requirements.txt");
                process::run(python::pip(&python).args(["install", "-r"]).arg(list))?;
            }
            python
        }
    };
    let script = root().join("scripts/differential/run.py");
    process::run(command(python).arg(script).arg("--driver").arg(driver).args(arguments))
}
