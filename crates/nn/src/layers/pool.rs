//! Maximum and average over windows. Channels are the last axis.

use crate::Module;
use olivine_core::dtype::IntInfo;
use olivine_core::ops::PadMode;
use olivine_core::{Array, Dtype, Error, Kind, Result};

/// What is done with a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reduction {
    Max,
    Mean,
}

/// Windows over `N` axes of positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Module)]
struct Windows<const N: usize> {
    size: [usize; N],
    stride: [usize; N],
    padding: [usize; N],
}

impl<const N: usize> Windows<N> {
    fn new(layer: &'static str, size: [usize; N]) -> Result<Windows<N>> {
        Windows { size, stride: size, padding: [0; N] }.checked(layer)
    }

    fn checked(self, layer: &'static str) -> Result<Windows<N>> {
        if self.size.contains(&0) || self.stride.contains(&0) {
            let msg = format!("windows {:?} and strides {:?} are positive", self.size, self.stride);
            return Err(Error::value(layer, msg));
        }
        Ok(self)
    }

    /// `[batch, positions…, channels]` to `[batch, windows…, channels]`.
    fn reduce(&self, layer: &'static str, x: &Array, how: Reduction) -> Result<Array> {
        if x.rank() != N + 2 {
            return Err(Error::shape(layer, format!("takes {} axes, got {}", N + 2, x.shape())));
        }
        let mut x = x.clone();
        if self.padding != [0; N] {
            let mut widths = vec![(0, 0); N + 2];
            for (w, &p) in widths[1..=N].iter_mut().zip(&self.padding) {
                *w = (p, p);
            }
            x = match how {
                Reduction::Mean => x.pad(&widths, &PadMode::Zero)?,
                Reduction::Max => x.pad(&widths, &PadMode::Constant(least(x.dtype())))?,
            };
        }
        let positions: Vec<usize> = x.shape()[1..=N].to_vec();
        let mut counts = [0; N];
        for i in 0..N {
            let room = positions[i].checked_sub(self.size[i]).ok_or_else(|| {
                let msg = format!("windows {:?} do not fit into positions {positions:?}", self.size);
                Error::value(layer, msg)
            })?;
            counts[i] = room / self.stride[i] + 1;
        }
        let windows = self.of(&x, &positions, &counts)?;
        let axes: Vec<i32> = (0..N as i32).map(|i| N as i32 + 1 + i).collect();
        match how {
            Reduction::Max => windows.max(&axes, false),
            Reduction::Mean => windows.mean(&axes, false),
        }
    }

    /// All windows, `[batch, windows…, size…, channels]`.
    fn of(&self, x: &Array, positions: &[usize], counts: &[usize; N]) -> Result<Array> {
        let (samples, channels) = (x.shape()[0], x.shape()[N + 1]);
        let tiles =
            (0..N).all(|i| self.size[i] == self.stride[i] && positions[i].is_multiple_of(self.size[i]));
        if tiles {
            // Only another way to look at the input, and cheaper to differentiate.
            let pairs = (0..N).flat_map(|i| [counts[i], self.size[i]]);
            let split: Vec<usize> = std::iter::once(samples).chain(pairs).chain([channels]).collect();
            let n = N as i32;
            let order: Vec<i32> = std::iter::once(0)
                .chain((0..n).map(|i| 2 * i + 1))
                .chain((0..n).map(|i| 2 * i + 2))
                .chain([2 * n + 1])
                .collect();
            return x.reshape(&split)?.transpose(&order);
        }
        let steps: Vec<isize> =
            (0..N + 2).map(|axis| x.shape()[axis + 1..].iter().product::<usize>() as isize).collect();
        let moved = (0..N).map(|i| steps[i + 1] * self.stride[i] as isize);
        let strides: Vec<isize> =
            std::iter::once(steps[0]).chain(moved).chain(steps[1..].iter().copied()).collect();
        let shape = [&[samples], &counts[..], &self.size[..], &[channels]].concat();
        x.as_strided(&shape, Some(&strides), 0)
    }
}

/// What a maximum ignores.
fn least(dtype: Dtype) -> Array {
    let value = match dtype.kind() {
        Kind::Signed => IntInfo::of(dtype).map_or(0.0, |i| i.min as f64),
        Kind::Bool | Kind::Unsigned => 0.0,
        Kind::Float | Kind::Complex => f64::NEG_INFINITY,
    };
    Array::full(&[], value).and_then(|a| a.astype(dtype)).unwrap_or_else(|_| Array::from_scalar(0.0f32))
}

macro_rules! pool {
    ($layer:ident $one:ident $two:ident $three:ident $name:literal $how:ident $doc:literal $padded:literal) => {
        #[doc = $doc]
        ///
        /// Without further settings the windows tile the input.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Module)]
        pub struct $layer<const N: usize> {
            windows: Windows<N>,
        }

        #[doc = concat!("[`", stringify!($layer), "`] over sequences.")]
        pub type $one = $layer<1>;
        #[doc = concat!("[`", stringify!($layer), "`] over images.")]
        pub type $two = $layer<2>;
        #[doc = concat!("[`", stringify!($layer), "`] over volumes.")]
        pub type $three = $layer<3>;

        impl<const N: usize> $layer<N> {
            /// Windows of this size, one beside the other.
            ///
            /// # Errors
            /// `Value` for a size of zero.
            pub fn new(size: [usize; N]) -> Result<$layer<N>> {
                Ok($layer { windows: Windows::new($name, size)? })
            }

            /// With another distance of the windows.
            ///
            /// # Errors
            /// `Value` for a distance of zero.
            pub fn stride(self, stride: [usize; N]) -> Result<$layer<N>> {
                Ok($layer { windows: Windows { stride, ..self.windows }.checked($name)? })
            }

            #[doc = $padded]
            pub fn padding(self, padding: [usize; N]) -> $layer<N> {
                $layer { windows: Windows { padding, ..self.windows } }
            }

            /// `[batch, positions…, channels]` to `[batch, windows…, channels]`.
            ///
            /// # Errors
            /// `Shape` for another number of axes, `Value` when no window fits.
            pub fn forward(&self, x: &Array) -> Result<Array> {
                self.windows.reduce($name, x, Reduction::$how)
            }
        }
    };
}
pool!(MaxPool MaxPool1d MaxPool2d MaxPool3d "max_pool" Max
    "The maximum of each window over `N` axes of positions."
    "With positions added on each side that never are the maximum.");
pool!(AvgPool AvgPool1d AvgPool2d AvgPool3d "avg_pool" Mean
    "The mean of each window over `N` axes of positions."
    "With zeros added on each side, which count in the mean.");
