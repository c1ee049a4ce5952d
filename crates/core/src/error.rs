//! One error type, with variants chosen by what a caller can do about them.

use crate::{Device, Dtype};
use std::sync::Arc;

/// What can go wrong in Olivine. Every message names the operation and the values at hand.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Shapes, ranks or axes do not fit the operation.
    #[error("[{op}] {msg}")]
    Shape {
        /// Operation that refused.
        op: &'static str,
        /// What was expected and what came.
        msg: String,
    },
    /// The operation is not defined for this element type.
    #[error("[{op}] {msg}")]
    Dtype {
        /// Operation that refused.
        op: &'static str,
        /// What was expected and what came.
        msg: String,
    },
    /// An index lies outside the axis that it selects from.
    #[error("[{op}] {msg}")]
    Index {
        /// Operation that refused.
        op: &'static str,
        /// The index and the size of the axis.
        msg: String,
    },
    /// A parameter has a value that the operation does not allow.
    #[error("[{op}] {msg}")]
    Value {
        /// Operation that refused.
        op: &'static str,
        /// The parameter and its value.
        msg: String,
    },
    /// The device has no kernel for this, and no fallback exists.
    #[error("[{op}] is not available on {device}: {msg}")]
    Unsupported {
        /// Operation that refused.
        op: &'static str,
        /// Device it was sent to.
        device: Device,
        /// What exactly is missing.
        msg: String,
    },
    /// No backend is registered for the device.
    #[error("no backend is registered for {0}; this build or machine lacks it")]
    NoBackend(Device),
    /// The value of an array was asked for that stands for an argument of a function being traced, or was taken
    /// out of one.
    #[error(
        "[{op}] needs the value of an array that has none: it depends on an argument of a function that {transform} \
         traces; read it outside, or use a form whose result has a fixed shape"
    )]
    InTrace {
        /// What asked for the value.
        op: &'static str,
        /// The transform.
        transform: &'static str,
    },
    /// An allocation exceeds the device or the memory limit.
    #[error(
        "[{op}] out of memory on {device}: {requested} bytes asked for, {active} in use, limit {limit} bytes"
    )]
    OutOfMemory {
        /// Operation that needed the memory.
        op: &'static str,
        /// Device that ran out.
        device: Device,
        /// Bytes asked for.
        requested: usize,
        /// Bytes in use at the time.
        active: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// A device or one of its kernels failed.
    #[error("[{op}] {device} failed: {msg}")]
    Device {
        /// Operation that failed.
        op: &'static str,
        /// Device that failed.
        device: Device,
        /// What the device says.
        msg: String,
    },
    /// A file cannot be read or written, or its content is not what it claims to be.
    #[error("[{op}] {path}: {msg}")]
    Io {
        /// Operation that failed.
        op: &'static str,
        /// File at fault.
        path: Arc<str>,
        /// What is wrong with it.
        msg: String,
    },
}

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A [`Error::Shape`].
    pub fn shape(op: &'static str, msg: impl Into<String>) -> Self {
        Error::Shape { op, msg: msg.into() }
    }
    /// A [`Error::Dtype`].
    pub fn dtype(op: &'static str, msg: impl Into<String>) -> Self {
        Error::Dtype { op, msg: msg.into() }
    }
    /// A [`Error::Dtype`] for an element type that the operation does not take.
    pub fn bad_dtype(op: &'static str, wanted: &str, got: Dtype) -> Self {
        Error::Dtype { op, msg: format!("takes {wanted}, got {got}") }
    }
    /// A [`Error::Index`].
    pub fn index(op: &'static str, msg: impl Into<String>) -> Self {
        Error::Index { op, msg: msg.into() }
    }
    /// A [`Error::Value`].
    pub fn value(op: &'static str, msg: impl Into<String>) -> Self {
        Error::Value { op, msg: msg.into() }
    }
    /// A [`Error::Io`] about a file.
    pub fn io(op: &'static str, path: impl AsRef<std::path::Path>, msg: impl std::fmt::Display) -> Self {
        Error::Io { op, path: path.as_ref().display().to_string().into(), msg: msg.to_string() }
    }
}
