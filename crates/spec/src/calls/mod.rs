//! The public functions of `mlx.core` and their counterparts in Olivine, callable by name.
//!
//! An entry is a name and a closure that reads its arguments with accessors and calls the Rust function, so
//! that the registry cannot name what does not exist. Names are MLX's without `mlx.core`: `"abs"`,
//! `"fft.rfft"`, `"random.normal"`; `"array.NAME"` where a method has no function of its name. Functions
//! that MLX lacks stand here under Olivine's name.
//!
//! To add a function, add a line to the file of its topic:
//!
//! ```text
//! "sum" => |a| a.array(0)?.sum(&a.axes("axis")?, a.bool_or("keepdims", false)?);
//! ```
//!
//! The closure gives `Result` of an array, of several, or of a tuple of them. Arrays are positional
//! arguments, all others go by MLX's names; see [`Args`] for the accessors.

mod contract;
mod conv;
mod create;
mod elementwise;
mod fast;
mod fft;
mod index;
mod io;
mod linalg;
mod matmul;
mod quant;
mod random;
mod reduce;
mod shape;
mod sort;
mod types;

use crate::args::Args;
use olivine_core::{Array, Result};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// One function.
#[derive(Clone, Copy)]
pub struct Call {
    /// Name of the function in MLX, without `mlx.core`.
    pub name: &'static str,
    /// Topic, which is the file that it stands in.
    pub topic: &'static str,
    /// Calls it.
    pub run: fn(&Args) -> Result<Vec<Array>>,
}

/// What an entry's closure may give.
pub trait IntoArrays {
    /// As a list.
    fn into_arrays(self) -> Vec<Array>;
}
impl IntoArrays for Array {
    fn into_arrays(self) -> Vec<Array> {
        vec![self]
    }
}
impl IntoArrays for Vec<Array> {
    fn into_arrays(self) -> Vec<Array> {
        self
    }
}
impl IntoArrays for (Array, Array) {
    fn into_arrays(self) -> Vec<Array> {
        vec![self.0, self.1]
    }
}
impl IntoArrays for (Array, Array, Array) {
    fn into_arrays(self) -> Vec<Array> {
        vec![self.0, self.1, self.2]
    }
}
impl IntoArrays for bool {
    fn into_arrays(self) -> Vec<Array> {
        vec![Array::from_scalar(self)]
    }
}

/// Entries, one `"name", "other name" => |a| result;` each, as a constant `CALLS`.
macro_rules! calls {
    ($topic:literal; $($($name:literal),+ => |$a:ident| $body:expr;)*) => {
        /// The functions of this topic.
        pub const CALLS: &[$crate::calls::Call] = &[$($(
            $crate::calls::Call {
                name: $name,
                topic: $topic,
                run: |$a: &$crate::args::Args| -> olivine_core::Result<Vec<olivine_core::Array>> {
                    Ok($crate::calls::IntoArrays::into_arrays($body?))
                },
            },
        )+)*];
    };
}
pub(crate) use calls;

/// All functions, by topic.
pub fn all() -> impl Iterator<Item = &'static Call> {
    [
        elementwise::CALLS,
        create::CALLS,
        shape::CALLS,
        reduce::CALLS,
        sort::CALLS,
        index::CALLS,
        contract::CALLS,
        matmul::CALLS,
        linalg::CALLS,
        fft::CALLS,
        conv::CALLS,
        quant::CALLS,
        random::CALLS,
        fast::CALLS,
        types::CALLS,
        io::CALLS,
    ]
    .into_iter()
    .flatten()
}

/// The function of a name.
pub fn find(name: &str) -> Option<&'static Call> {
    static BY_NAME: OnceLock<BTreeMap<&'static str, &'static Call>> = OnceLock::new();
    BY_NAME.get_or_init(|| all().map(|c| (c.name, c)).collect()).get(name).copied()
}
