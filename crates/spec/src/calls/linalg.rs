//! Linear algebra.

use super::calls;

calls! { "linalg"; }
