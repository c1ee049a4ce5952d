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
        Some((name, rest)) if name == "ops" => crate::spec::bench(rest),
        Some((name, rest)) if name == "train" => crate::spec::bench_train(rest),
        Some((name, _)) => Err(format!("no benchmark '{name}'; there are llm, ops and train")),
        None => Err("name a benchmark: llm, ops or train".into()),
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
    if has_llama(&python) {
        return Ok(python);
    }
    println!("building {LLAMA} for this processor, once; this takes some minutes");
    build_llama(&python, "")?;
    if !llama_runs(&python)? {
        // Some virtual machines announce AMX and fault on its first instruction.
        println!("that build does not run on this machine; building again without AMX");
        build_llama(&python, "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16")?;
        if !llama_runs(&python)? {
            return Err(format!("{LLAMA} does not run on this machine, with or without AMX"));
        }
    }
    Ok(python)
}

fn build_llama(python: &Path, flags: &str) -> Result<()> {
    let mut pip = python::pip(python);
    // No cache: pip would hand out an earlier build, whatever the flags.
    pip.args(["install", "--no-cache-dir", "--force-reinstall", "--no-binary", "llama-cpp-python", LLAMA]);
    process::run(pip.env("CMAKE_ARGS", "-DGGML_NATIVE=ON").env("CFLAGS", flags).env("CXXFLAGS", flags))
}

/// Whether the peer evaluates a prompt without crashing.
fn llama_runs(python: &Path) -> Result<bool> {
    let mut probe = command(python);
    probe.arg(root().join("benches/llm.py")).arg("--llama-child").arg(models::fetch(models::DEFAULT)?);
    Ok(succeeds(probe.args(["--prompt-tokens", "32", "--gen-tokens", "1", "--repetitions", "1"])))
}
