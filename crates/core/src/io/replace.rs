//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that takes the place of another when it is complete, and leaves nothing behind otherwise.
pub(super) struct Replacement<'a> {
    pub(super) file: BufWriter<File>,
    temporary: PathBuf,
    place: &'a Path,
    done: bool,
}

impl<'a> Replacement<'a> {
    pub(super) fn create(place: &'a Path) -> std::io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let Some(name) = place.file_name() else {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "the path names no file"));
        };
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}-{n}.tmp", std::process::id()));
        let temporary = place.with_file_name(temporary);
        let file = BufWriter::new(OpenOptions::new().write(true).create_new(true).open(&temporary)?);
        Ok(Replacement { file, temporary, place, done: false })
    }

    pub(super) fn finish(mut self) -> std::io::Result<()> {
        self.file.flush()?;
        // The content reaches the disk before the name does, so that a crash cannot leave an empty file.
        self.file.get_ref().sync_all()?;
        fs::rename(&self.temporary, self.place)?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        if !self.done {
            // Nothing can be done about a failure here; the error that led here is the one to tell.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
