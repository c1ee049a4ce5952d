//! Temporary folders, for tests that change files.

use crate::common::data;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder that goes away with the test.
pub struct TempDir(pub PathBuf);

impl TempDir {
    pub fn new() -> TempDir {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("olivine-lm-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        TempDir(path)
    }

    /// A copy of a folder of golden data.
    pub fn copy_of(name: &str) -> TempDir {
        let copy = TempDir::new();
        for entry in std::fs::read_dir(data(name)).expect("golden data") {
            let from = entry.expect("an entry").path();
            let to = copy.0.join(from.file_name().expect("a name"));
            std::fs::copy(&from, to).expect("a copy");
        }
        copy
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
