//! Functions about types and shapes rather than values.

use super::calls;

calls! { "types"; }
