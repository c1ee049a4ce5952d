//! Fourier transforms.

use super::calls;

calls! { "fft"; }
