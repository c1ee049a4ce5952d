//! Which line of a program built an operation.

use crate::Error;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Says where the caller's program is, for programs that are not in Rust.
pub type SourceHook = fn() -> Option<String>;

static HOOK: OnceLock<SourceHook> = OnceLock::new();

/// Sets what is asked for the current line before the stack is looked at, such as an interpreter. The first one stays.
pub fn set_source_hook(hook: SourceHook) {
    let _ = HOOK.set(hook);
}

/// The place that built a node. The stack is taken as addresses; names are looked up only when somebody reads them.
#[derive(Clone)]
pub(crate) enum Source {
    Text(Arc<str>),
    Stack(Arc<Backtrace>),
}

thread_local! {
    /// The place of the operation whose composite is being built.
    static WITHIN: RefCell<Option<Source>> = const { RefCell::new(None) };
}

/// Runs `f`; what it builds counts as built at `source`.
pub(crate) fn within<T>(source: Option<Source>, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Source>);
    impl Drop for Restore {
        fn drop(&mut self) {
            WITHIN.set(self.0.take());
        }
    }
    if source.is_none() {
        return f();
    }
    let _restore = Restore(WITHIN.replace(source));
    f()
}

/// Whether the operation that is evaluated knows where it was built.
pub(super) fn known() -> bool {
    WITHIN.with_borrow(Option::is_some)
}

impl Source {
    /// Of the caller, when operations remember such things.
    pub fn here() -> Option<Source> {
        if !super::remembers() {
            return None;
        }
        if let Some(outer) = WITHIN.with_borrow(Clone::clone) {
            return Some(outer);
        }
        match HOOK.get().and_then(|hook| hook()) {
            Some(text) => Some(Source::Text(text.into())),
            None => Some(Source::Stack(Arc::new(Backtrace::force_capture()))),
        }
    }

    /// The error with the place in its text.
    pub fn locate(&self, error: Error) -> Error {
        const MARK: &str = "; built at ";
        let mut error = error;
        let msg = match &mut error {
            Error::Shape { msg, .. }
            | Error::Dtype { msg, .. }
            | Error::Index { msg, .. }
            | Error::Value { msg, .. }
            | Error::Unsupported { msg, .. }
            | Error::Device { msg, .. }
            | Error::Io { msg, .. } => msg,
            Error::NoBackend(_) | Error::InTrace { .. } | Error::OutOfMemory { .. } => return error,
        };
        if !msg.contains(MARK) {
            *msg += &format!("{MARK}{self}");
        }
        error
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Text(text) => f.write_str(text),
            Source::Stack(stack) => f.write_str(&caller(&stack.to_string())),
        }
    }
}

/// Where this crate's files are, as the debug information knows them.
const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/");

/// Of a printed stack the innermost function that is neither of this crate nor of the standard library.
fn caller(stack: &str) -> String {
    let folder = std::env::current_dir().unwrap_or_default();
    let mut lines = stack.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let Some((_, function)) = line.split_once(": ") else { continue };
        let at = lines.next_if(|l| l.starts_with("at ")).map(|l| &l[3..]);
        // Functions that were inlined have a place, but not always a full name.
        let ours = match at {
            Some(place) => {
                let whole = folder.join(place.strip_prefix("./").unwrap_or(place)).display().to_string();
                whole.starts_with(HERE) || place.starts_with("/rustc/") || place.contains("/lib/rustlib/")
            }
            None => {
                let plain = function.trim_start_matches(['<', '&', '[']);
                ["olivine_core::", "std::", "core::", "alloc::", "dyn core::"]
                    .iter()
                    .any(|c| plain.starts_with(c))
            }
        };
        if ours {
            continue;
        }
        return match at {
            Some(place) => format!("{place} in {function}"),
            None => function.to_string(),
        };
    }
    "an unknown place".to_string()
}

#[cfg(test)]
mod tests {
    use super::{HERE, caller};

    #[test]
    fn the_innermost_foreign_function_is_the_caller() {
        let stack = format!(
            "   0: here\n             at {HERE}array.rs:1:2\n   1: <olivine_core::Array as X>::f\n   \
             2: core::iter::fold\n             at /rustc/12/x.rs:3:3\n   \
             3: model::forward\n             at ./model.rs:7:9\n   4: main\n"
        );
        assert_eq!(caller(&stack), "./model.rs:7:9 in model::forward");
        assert_eq!(caller("   0: olivine_core::a\n   1: model::g\n"), "model::g");
        assert_eq!(caller(""), "an unknown place");
    }
}
