//! Files.

use super::calls;

calls! { "io"; }
