//! `cargo xtask bench`: Olivine side by side with its peers, on the same machine in the same run.

use crate::Result;
use crate::models;
use crate::process::{self, build_olivine, command, root, succeeds};
use crate::python;
use std::path::{Path, PathBuf};

/// llama.cpp as a Python package; pip compiles it for this machine's processor.
const LLAMA: &str = "llama-cpp-python==0.3.36";

/// `cargo xtask bench llm [ARGUMENTS of benches/llm.py]`
pub fn run(arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((name, rest)) if name == "llm" => llm(rest),
        Some((name, _)) => Err(format!("no benchmark '{name}'; there is llm")),
        None => Err("name a benchmark: llm".into()),
    }
}

fn llm(arguments: &[String]) -> Result<()> {
    let mut bench = command(peers()?);
    bench.arg(root().join("benches/llm.py")).arg("--olivine").arg(build_olivine()?);
    for model in models::MODELS {
        let mut named = std::ffi::OsString::from(format!("{}=", model.name));
        named.push(models::fetch(model)?);
        bench.arg("--model").arg(named);
    }
    process::run(bench.args(arguments))
}

/// A Python that has the peers: `$OLIVINE_BENCH_PYTHON`, else an environment in `.cache`, made on first use.
fn peers() -> Result<PathBuf> {
    let has_llama = |python: &Path| succeeds(command(python).args(["-c", "import llama_cpp"]));
    if let Some(named) = std::env::var_os("OLIVINE_BENCH_PYTHON").map(PathBuf::from) {
        if has_llama(&named) {
            return Ok(named);
        }
        return Err(format!("OLIVINE_BENCH_PYTHON names {}, which cannot import llama_cpp", named.display()));
    }
    let python = python::virtual_environment(&root().join(".cache/bench-venv"))?;
    if !has_llama(&python) {
        println!("building {LLAMA} for this processor, once; this takes some minutes");
        let mut pip = python::pip(&python);
        process::run(
            pip.args(["install", "--no-binary", "llama-cpp-python", LLAMA])
                .env("CMAKE_ARGS", "-DGGML_NATIVE=ON"),
        )?;
    }
    Ok(python)
}
