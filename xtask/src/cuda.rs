//! Compiling the GPU's kernels on machines without a GPU, through NVIDIA's compiler from PyPI.

use crate::Result;
use crate::process::{self, cargo, root};
use crate::python;
use std::ffi::OsString;
use std::path::PathBuf;

/// The compiler as a Python package: 90 MB, fetched once. The line of the oldest driver that is tested.
const NVRTC: &str = "nvidia-cuda-nvrtc==13.0.88";

/// Ampere, Hopper and Blackwell data-centre GPUs.
const ARCHITECTURES: [&str; 3] = ["80", "90", "100"];

/// Compiles every kernel and a fixed set of generated ones.
pub fn check() -> Result<()> {
    if cfg!(target_os = "macos") {
        println!("NVIDIA's compiler does not exist for this system: nothing is compiled");
        return Ok(());
    }
    let mut path = OsString::from(nvrtc()?);
    if let Some(rest) = std::env::var_os("LD_LIBRARY_PATH") {
        path.push(":");
        path.push(rest);
    }
    let mut compile = cargo();
    compile.args(["run", "--quiet", "--locked", "-p", "olivine-cuda", "--example", "compile_kernels", "--"]);
    process::run(compile.args(ARCHITECTURES).env("LD_LIBRARY_PATH", path))
}

/// The folder of the compiler's library, fetched first unless it is there.
fn nvrtc() -> Result<PathBuf> {
    let target = root().join(".cache").join(NVRTC.replace("==", "-"));
    let library = target.join("nvidia/cu13/lib");
    if library.join("libnvrtc.so.13").is_file() {
        return Ok(library);
    }
    println!("fetching {NVRTC} from PyPI, once");
    let python = python::with_pip()?;
    let mut pip = python::pip(&python);
    pip.args(["install", "--no-deps", "--only-binary=:all:", "--upgrade", "--target"])
        .arg(&target)
        .arg(NVRTC);
    process::run(&mut pip)?;
    if library.join("libnvrtc.so.13").is_file() {
        return Ok(library);
    }
    Err(format!("{NVRTC} holds no libnvrtc.so.13 in {}", library.display()))
}
