//! `cargo xtask develop`: the Python package, built and ready to import in `.venv` at the root of the project.

use crate::Result;
use crate::process::{cargo, command, root, run};
use crate::python;
use std::path::{Path, PathBuf};

/// What tests of the package need beside it. Versions are those that the tests were written for.
const TOOLS: &[&str] = &["mlx[cpu]==0.32.4", "numpy>=2", "pytest", "mypy", "ruff", "einops"];

/// Builds the extension module and puts it beside the Python files of the package, where it is ignored by git.
fn build(options: &[String]) -> Result<()> {
    run(cargo().args(["build", "--package", "olivine-python", "--locked"]).args(options))?;
    let profile = if options.iter().any(|o| o == "--release") { "release" } else { "debug" };
    let built = root().join("target").join(profile).join(if cfg!(windows) {
        "olivine_python.dll"
    } else if cfg!(target_os = "macos") {
        "libolivine_python.dylib"
    } else {
        "libolivine_python.so"
    });
    let place = root().join("python/olivine").join(if cfg!(windows) { "core.pyd" } else { "core.abi3.so" });
    // A process that runs may have the old one mapped: it keeps what it has when another file takes the name.
    let fresh = place.with_extension("new");
    std::fs::copy(&built, &fresh).map_err(|e| format!("copying {}: {e}", built.display()))?;
    std::fs::rename(&fresh, &place).map_err(|e| format!("replacing {}: {e}", place.display()))
}

/// Lets the Python of an environment find the package where it lies.
fn link(python: &Path) -> Result<()> {
    let code = "import sys, sysconfig, pathlib\n\
                pathlib.Path(sysconfig.get_path('purelib'), 'olivine.pth').write_text(sys.argv[1] + '\\n')";
    run(command(python).args(["-c", code]).arg(root().join("python")))
}

/// Builds the package into `.venv`; returns its Python.
pub fn prepare(options: &[String]) -> Result<PathBuf> {
    build(options)?;
    let python = python::virtual_environment(&root().join(".venv"))?;
    link(&python)?;
    Ok(python)
}

/// `cargo xtask develop [--release]`
pub fn develop(options: &[String]) -> Result<()> {
    let python = prepare(options)?;
    run(python::pip(&python).args(["install", "numpy>=2"]))?;
    println!("{} imports olivine", python.display());
    Ok(())
}

/// The stage of the check: the package beside MLX.
pub fn check() -> Result<()> {
    let python = prepare(&[])?;
    run(python::pip(&python).arg("install").args(TOOLS))?;
    let folder = root().join("python");
    let tool = |arguments: &[&str]| -> Result<()> {
        let mut tool = command(&python);
        tool.current_dir(&folder).arg("-m").args(arguments);
        run(tool.env("OMP_NUM_THREADS", "1"))
    };
    tool(&["ruff", "check", "."])?;
    tool(&["ruff", "format", "--check", "."])?;
    tool(&["pytest", "--quiet"])
}
