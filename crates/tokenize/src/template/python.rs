//! Values as Python writes them.

use std::fmt::Write;

use serde_json::{Number, Value};

#[derive(Default)]
pub(super) struct JsonStyle {
    /// Spaces for each level; everything on one line without it.
    pub(super) indent: Option<usize>,
    /// Between items, and between key and value.
    pub(super) separators: Option<(String, String)>,
    /// Escapes all that is not ASCII.
    pub(super) ascii: bool,
    pub(super) sort_keys: bool,
}

/// `json.dumps(value)`.
pub(super) fn to_json(value: &Value, style: &JsonStyle) -> String {
    let mut out = String::new();
    let default = if style.indent.is_some() { (",", ": ") } else { (", ", ": ") };
    let separators = style.separators.as_ref().map_or(default, |(item, key)| (item, key));
    json(&mut out, value, style, separators, 0);
    out
}

fn json(out: &mut String, value: &Value, style: &JsonStyle, separators: (&str, &str), depth: usize) {
    let line = |out: &mut String, depth: usize| {
        if let Some(indent) = style.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    };
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => out.push_str(&number(n)),
        Value::String(s) => json_string(out, s, style.ascii),
        Value::Array(items) if items.is_empty() => out.push_str("[]"),
        Value::Object(fields) if fields.is_empty() => out.push_str("{}"),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(separators.0);
                }
                line(out, depth + 1);
                json(out, item, style, separators, depth + 1);
            }
            line(out, depth);
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            let mut fields: Vec<_> = fields.iter().collect();
            if style.sort_keys {
                fields.sort_by_key(|(key, _)| *key);
            }
            for (i, (key, item)) in fields.into_iter().enumerate() {
                if i > 0 {
                    out.push_str(separators.0);
                }
                line(out, depth + 1);
                json_string(out, key, style.ascii);
                out.push_str(separators.1);
                json(out, item, style, separators, depth + 1);
            }
            line(out, depth);
            out.push('}');
        }
    }
}

fn json_string(out: &mut String, text: &str, ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || (ascii && !c.is_ascii()) || (ascii && c == '\u{7f}') => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// `repr(value)`, for other values than texts also `str(value)`.
pub(super) fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

fn write_repr(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(b) => out.push_str(if *b { "True" } else { "False" }),
        Value::Number(n) => out.push_str(&number(n)),
        Value::String(s) => repr_string(out, s),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_repr(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (i, (key, item)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                repr_string(out, key);
                out.push_str(": ");
                write_repr(out, item);
            }
            out.push('}');
        }
    }
}

fn repr_string(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if (c as u32) < 0x20 || c == '\u{7f}' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// `text.title()`: a letter that follows a letter is lower case, any other upper case.
pub(super) fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase())
        } else {
            out.extend(c.to_uppercase())
        }
        inside = c.is_alphabetic();
    }
    out
}

/// Integers in full; floats by the shortest digits that read back, with Python's choice between
/// positional and scientific notation.
fn number(n: &Number) -> String {
    let Some(x) = n.as_f64().filter(|_| n.is_f64()) else { return n.to_string() };
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x != 0.0 && !(-4..16).contains(&exponent) {
        return format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
    let plain = x.to_string();
    if plain.contains('.') { plain } else { plain + ".0" }
}
