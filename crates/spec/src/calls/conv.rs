//! Convolutions.

use super::calls;

calls! { "conv"; }
