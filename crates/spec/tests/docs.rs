//! The pages that are written from tables are those of today's tables.

use std::path::Path;

#[test]
fn generated_pages_are_fresh() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let coverage = olivine_spec::coverage::page().expect("the list of names can be read");
    for (name, page) in [
        ("coverage.md", coverage),
        ("ops.md", olivine_spec::table::page(olivine_cpu::launch::supports, olivine_cuda::launch::supports)),
    ] {
        let kept = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
        assert!(kept == page, "docs/{name} is stale; run `cargo xtask docs`");
    }
}
