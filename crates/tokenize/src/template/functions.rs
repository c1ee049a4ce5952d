//! The functions and filters that Hugging Face's environment gives to templates.

use std::fmt::Write;

use chrono::format::{Item, StrftimeItems};
use minijinja::Output;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use serde::Deserialize;

use super::python;

pub(super) fn register(environment: &mut Environment<'_>) {
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", tojson);
    environment.set_formatter(print);
}

/// Methods of Python's types.
pub(super) fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    match (value.as_str(), name, arguments) {
        (Some(text), "title", []) => Ok(python::title(text).into()),
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, arguments),
    }
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// The local time in a format of `strftime`.
fn strftime_now(format: String) -> Result<String, Error> {
    let refuse = || Error::new(ErrorKind::InvalidOperation, format!("strftime_now: bad format {format:?}"));
    let items: Vec<Item<'_>> = StrftimeItems::new(&format).collect();
    if items.contains(&Item::Error) {
        return Err(refuse());
    }
    let mut out = String::new();
    write!(out, "{}", chrono::Local::now().format_with_items(items.iter())).map_err(|_| refuse())?;
    Ok(out)
}

/// JSON as Python's `json.dumps` writes it; keywords `indent`, `ensure_ascii`, `sort_keys` and
/// `separators` as there.
fn tojson(value: Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<(String, String)> = match options.get::<Option<Value>>("separators")? {
        Some(pair) if !pair.is_none() => {
            Some((pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string()))
        }
        _ => None,
    };
    let style = python::JsonStyle {
        indent,
        separators,
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "tojson of an undefined value"));
    }
    Ok(python::to_json(&to_value(value)?, &style))
}

/// Prints like Python's `str`.
fn print(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if value.is_undefined() || value.as_str().is_some() {
        return minijinja::escape_formatter(out, state, value);
    }
    let text = python::repr(&to_value(value.clone())?);
    out.write_str(&text).map_err(Error::from)
}

/// How deep a value that is written out may nest; what is deeper was built to do harm.
const MAX_DEPTH: usize = 200;

fn to_value(value: Value) -> Result<serde_json::Value, Error> {
    if !nests_within(&value, MAX_DEPTH) {
        let message = format!("a value that nests deeper than {MAX_DEPTH} cannot be written out");
        return Err(Error::new(ErrorKind::BadSerialization, message));
    }
    serde_json::Value::deserialize(value)
        .map_err(|e| Error::new(ErrorKind::BadSerialization, format!("cannot convert to JSON: {e}")))
}

fn nests_within(value: &Value, depth: usize) -> bool {
    let inner = |value: Value| depth > 0 && nests_within(&value, depth - 1);
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => value.try_iter().is_ok_and(|mut items| items.all(inner)),
        ValueKind::Map => {
            value.try_iter().is_ok_and(|mut keys| keys.all(|key| value.get_item(&key).is_ok_and(inner)))
        }
        _ => true,
    }
}
