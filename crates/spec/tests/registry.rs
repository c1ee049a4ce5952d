//! The registry covers the public names of MLX.

use olivine_spec::coverage;

#[test]
fn every_name_of_mlx_has_a_counterpart_or_a_reason() {
    let problems = coverage::problems().expect("the list of names can be read");
    assert!(problems.is_empty(), "{}:\n{}", problems.len(), problems.join("\n"));
}
