//! Pinned memory that uploads go through: a ring of chunks, each free again when the copy out of it is done.

use crate::api::{self, Pinned};
use crate::stream::GpuStream;
use olivine_core::event::Timeline;
use olivine_core::{Device, Result};
use std::sync::{Arc, Mutex};

/// Bytes of a chunk: large enough for the full speed of the bus.
const CHUNK: usize = 4 << 20;
const CHUNKS: usize = 4;
/// Small uploads share a chunk; each begins at a multiple of this.
const ALIGN: usize = 256;

struct Ring {
    memory: Pinned,
    /// Who last copied out of each chunk, and the number of that work.
    used: [Option<(Arc<GpuStream>, u64)>; CHUNKS],
    chunk: usize,
    /// Bytes of the current chunk that are taken.
    at: usize,
}

/// The uploads of one device.
pub(crate) struct Staging {
    device: Device,
    ring: Mutex<Option<Ring>>,
}

impl Staging {
    pub(crate) fn new(device: Device) -> Staging {
        Staging { device, ring: Mutex::new(None) }
    }

    /// Copies host memory to the device in the order of a stream. The source has been read when this returns.
    ///
    /// # Safety
    /// Both sides hold `bytes` bytes; the target until the copy is done.
    pub(crate) unsafe fn upload(
        &self,
        src: *const u8,
        dst: u64,
        bytes: usize,
        s: &Arc<GpuStream>,
    ) -> Result<()> {
        s.enter("upload")?;
        let mut ring = self.ring.lock().unwrap_or_else(|e| e.into_inner());
        if ring.is_none() {
            let memory = api::pinned(self.device, CHUNK * CHUNKS)?;
            *ring = Some(Ring { memory, used: Default::default(), chunk: 0, at: 0 });
        }
        let Some(r) = ring.as_mut() else { return Ok(()) };
        let mut from = 0;
        while from < bytes {
            if r.at == CHUNK || (bytes <= CHUNK && r.at + bytes > CHUNK) {
                r.chunk = (r.chunk + 1) % CHUNKS;
                r.at = 0;
                if let Some((user, seq)) = r.used[r.chunk].take() {
                    // An error of that stream is for those who wait for its results.
                    if user.poll(seq).is_none() {
                        let _ = user.settle(seq);
                    }
                }
            }
            let n = (bytes - from).min(CHUNK - r.at);
            // SAFETY: inside the chunk, whose earlier copies are done or lie before `at`; the source is the
            // caller's promise.
            unsafe {
                let place = r.memory.host.add(r.chunk * CHUNK + r.at);
                std::ptr::copy_nonoverlapping(src.add(from), place, n);
                api::upload("upload", self.device, place, dst + from as u64, n, s.raw()?)?;
            }
            from += n;
            r.at = (r.at + n).next_multiple_of(ALIGN).min(CHUNK);
            let seq = s.sent();
            // Another stream may have used the chunk, too: its copy must be done as well.
            match r.used[r.chunk].replace((s.clone(), seq)) {
                Some((other, seq)) if !Arc::ptr_eq(&other, s) => other.settle(seq)?,
                Some(_) | None => {}
            }
        }
        Ok(())
    }
}
