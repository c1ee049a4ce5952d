//! Writes `docs/coverage.md` and `docs/ops.md`; the folder is the argument.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("name the folder to write to")?;
    std::fs::write(Path::new(&folder).join("coverage.md"), olivine_spec::coverage::page()?)?;
    std::fs::write(
        Path::new(&folder).join("ops.md"),
        olivine_spec::table::page(olivine_cpu::launch::supports, olivine_cuda::launch::supports),
    )?;
    Ok(())
}
