//! The heart of Olivine: lazy arrays, the operations that make them, and what evaluates them.
//!
//! An [`Array`] is the promise of a value: one output of a [`Node`](array::Node) in a graph of operations
//! ([`op::Op`]). Nothing is computed until values are asked for ([`eval`], [`Array::to_vec`], …); then the
//! graph is ordered, elementwise chains are fused, and kernels are sent to streams of devices. Core knows
//! no kernel: a [`backend::Backend`] brings them and is registered at start-up.
//!
//! Arrays carry no type, rank or device parameter, are immutable, and may be used from any thread. Every
//! function returns a [`Result`]; the infix operators panic with the same message instead.

#![warn(missing_docs)]

pub mod alloc;
pub mod array;
pub mod backend;
pub mod buffer;
pub mod device;
pub mod dtype;
mod error;
pub mod eval;
pub mod event;
pub mod export;
pub mod expr;
pub mod fast;
pub mod fft;
mod graph;
pub mod inspect;
pub mod io;
pub mod layout;
pub mod linalg;
pub mod op;
pub mod ops;
pub mod queue;
pub mod random;
pub mod shape;
mod trace;
pub mod transforms;

pub use array::Array;
pub use device::{Device, DeviceKind, Stream, current_stream, default_device, set_default_device};
pub use dtype::{Bool8, Complex64, Dtype, Element, HostElement, Kind, Scalar};
pub use error::{Error, Result};
pub use eval::{async_eval, eval};
pub use export::{Export, Exporter, ImportedFunction, export_function, import_function};
pub use expr::Expr;
pub use graph::print::{graph_dot, graph_text};
pub use layout::Layout;
pub use op::{Meta, Op};
pub use shape::Shape;
