//! What the tests of this folder share.

use std::path::PathBuf;

/// A folder of golden data.
pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}
