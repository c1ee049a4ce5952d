//! Compiles every kernel for several architectures; needs NVRTC, but no GPU.
//!
//! `cargo run -p olivine-cuda --example compile_kernels -- 80 90 100`

#[path = "../tests/common/catalogue.rs"]
mod catalogue;
#[path = "../tests/common/plans.rs"]
mod plans;

use olivine_cuda::compile::{Unit, compile_now, compiler};
use olivine_cuda::kernels::File;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

fn main() -> ExitCode {
    let archs: Vec<i32> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let compiler = match compiler() {
        Ok(c) => c,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(unknown) = archs.iter().find(|a| !compiler.archs.contains(a)) {
        eprintln!("this NVRTC does not know sm_{unknown}");
        return ExitCode::FAILURE;
    }
    let kernels = catalogue::kernels();
    let seen: BTreeSet<File> = kernels.iter().map(|k| k.file).collect();
    if let Some(left_out) = File::ALL.iter().find(|f| !seen.contains(f)) {
        eprintln!("no kernel of {left_out:?} is listed");
        return ExitCode::FAILURE;
    }
    let mut units: Vec<Unit> = kernels.iter().map(|k| k.unit()).collect();
    units.extend(plans::plans().iter().map(|(_, p)| p.unit()));
    units.extend(plans::all_operations().iter().map(|p| p.unit()));
    let jobs: Vec<(i32, &Unit)> = archs.iter().flat_map(|&a| units.iter().map(move |u| (a, u))).collect();
    let (next, errors, start) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Instant::now());
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            s.spawn(|| {
                while let Some((arch, unit)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(e) = compile_now(unit, *arch, compiler) {
                        let defines = unit.source.lines().filter(|l| l.starts_with("#define"));
                        let head: String = defines.map(|l| format!("{l}\n")).collect();
                        let mut all = errors.lock().unwrap_or_else(|e| e.into_inner());
                        all.push(format!("sm_{arch}: {e}\n{head}"));
                    }
                }
            });
        }
    });
    let errors = errors.into_inner().unwrap_or_else(|e| e.into_inner());
    for e in errors.iter().take(5) {
        eprintln!("{e}");
    }
    println!(
        "{} units for {} architectures in {:.1} s: {} do not compile",
        units.len(),
        archs.len(),
        start.elapsed().as_secs_f64(),
        errors.len()
    );
    if errors.is_empty() && !jobs.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
