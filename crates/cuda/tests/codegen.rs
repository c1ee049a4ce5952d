//! The sources of a fixed set of expressions, word for word. `OLIVINE_UPDATE_SNAPSHOTS=1` writes them anew.

#[path = "common/catalogue.rs"]
mod catalogue;
#[path = "common/plans.rs"]
mod plans;

use std::path::Path;

#[test]
fn sources_are_the_kept_ones() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let update = std::env::var_os("OLIVINE_UPDATE_SNAPSHOTS").is_some();
    for (name, plan) in plans::plans() {
        let (file, got) = (folder.join(format!("{name}.cu")), plan.kernel());
        if update {
            std::fs::write(&file, &got).unwrap();
        }
        let want = std::fs::read_to_string(&file).unwrap();
        assert_eq!(got, want, "{} is out of date", file.display());
    }
}

#[test]
fn a_plan_differs_where_its_source_does() {
    let mut seen = std::collections::HashMap::new();
    for (name, plan) in plans::plans() {
        if let Some(other) = seen.insert(plan.kernel(), name) {
            panic!("{name} and {other} have one source");
        }
    }
}

/// A kernel without it would run beside the one whose results it reads.
#[test]
fn every_kernel_waits_for_the_one_before() {
    for k in catalogue::kernels() {
        let source = k.unit().source;
        let kernels = source.matches("extern \"C\" __global__").count();
        assert_eq!(source.matches("  BEGIN;\n").count(), kernels, "{:?}", k.file);
    }
    for (name, plan) in plans::plans() {
        assert!(plan.kernel().contains("const Params p) {\n  BEGIN;\n"), "{name}");
    }
}
