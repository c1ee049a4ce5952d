//! Finding a Python that can download packages.

use crate::Result;
use crate::process::{command, root, run, succeeds};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python to start from: `$PYTHON`, else `python3`, else `python`.
fn system_python() -> Result<PathBuf> {
    let named = std::env::var_os("PYTHON").map(PathBuf::from);
    let candidates = named.clone().map_or_else(|| vec!["python3".into(), "python".into()], |path| vec![path]);
    for candidate in &candidates {
        let version = "import sys; sys.exit(sys.version_info < (3, 8))";
        if succeeds(command(candidate).args(["-c", version])) {
            return Ok(candidate.clone());
        }
    }
    Err(match named {
        Some(path) => {
            format!("PYTHON names {}, which is not a Python of version 3.8 or later", path.display())
        }
        None => "no python3 of version 3.8 or later on PATH; install one or name it in PYTHON".into(),
    })
}

fn has_pip(python: &Path) -> bool {
    succeeds(command(python).args(["-m", "pip", "--version"]))
}

/// Creates a virtual environment at `folder` unless a usable one is there, and returns its Python.
pub fn virtual_environment(folder: &Path) -> Result<PathBuf> {
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if has_pip(&python) {
        return Ok(python);
    }
    let system = system_python()?;
    eprintln!("creating a virtual environment in {}", folder.display());
    run(command(&system).args(["-m", "venv", "--clear"]).arg(folder)).map_err(|error| {
        format!("{error}\nthis Python lacks pip and venv; on Debian: apt-get install python3-venv")
    })?;
    Ok(python)
}

/// A Python with pip: the system's own where it has pip, else the one of `.venv`, made when missing.
pub fn with_pip() -> Result<PathBuf> {
    let system = system_python()?;
    if has_pip(&system) { Ok(system) } else { virtual_environment(&root().join(".venv")) }
}

/// `python -m pip` without its own chatter.
pub fn pip(python: &Path) -> Command {
    let mut pip = command(python);
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
    pip
}
