//! A device that exists to make things go wrong.
//!
//! It runs the CPU's kernels, but on memory and queues of its own, as a GPU would: arrays have to be copied
//! there and back, work completes later and in another order than on other streams, and on demand pieces of
//! work fail and memory runs out. What holds with this device in the mix, under many random schedules, does
//! not depend on timing.
//!
//! It watches, too. Memory that core gave back is overwritten and must stay so; memory around every block
//! must stay untouched; kernels must get blocks that are alive, both when they are sent and when they run.
//! What is found shows when the [`Session`] ends.

mod arena;
mod device;
mod faults;
mod session;
mod watchdog;

pub use device::{DEVICES, device, register};
pub use session::Session;
pub use watchdog::within;
