//! Reads the type stubs, which are the one place where names, parameters and docstrings stand.
//!
//! The stubs lie in `python/olivine/core/*.pyi` and are part of this library. The parser knows as much of their syntax
//! as they use: functions, methods of classes, parameters with types and defaults, docstrings.

use std::collections::HashMap;

/// How a parameter may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By position only.
    Positional,
    /// Either way.
    Either,
    /// By name only.
    Named,
    /// `*args`.
    Rest,
    /// `**kwargs`.
    More,
}

/// A parameter.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// How it may be given.
    pub kind: Kind,
    /// Its default as it is written.
    pub default: Option<&'static str>,
}

/// A function or method of the stubs.
#[derive(Debug)]
pub struct Signature {
    /// Its name, after that of its class for methods.
    pub name: String,
    /// Its parameters in order; those of kinds `Rest` and `More` too.
    pub parameters: Vec<Parameter>,
    /// Where `stream` stands.
    pub stream: Option<usize>,
    /// Parameters and result as they are written.
    pub text: &'static str,
    /// Docstring.
    pub doc: String,
}

/// All functions of a stub file, by name, and by `class.name` where they are methods.
pub fn parse(text: &'static str) -> HashMap<String, Signature> {
    let mut found = HashMap::new();
    let mut class = None;
    // Attributes are no methods, though they are declared as such.
    let mut attribute = false;
    let mut at = 0;
    while at < text.len() {
        let end = text[at..].find('\n').map_or(text.len(), |n| at + n);
        let line = &text[at..end];
        if let Some(rest) = line.strip_prefix("class ") {
            class = rest.find([':', '(']).map(|n| &rest[..n]);
        } else if !line.is_empty() && !line.starts_with([' ', '#', ')']) && !line.starts_with("@") {
            class = None;
        }
        let body = line.trim_start();
        let indent = line.len() - body.len();
        if body == "@property" || body.ends_with(".setter") {
            attribute = true;
        }
        if let Some(rest) = body.strip_prefix("def ")
            && indent <= 4
            && let Some(open) = rest.find('(')
        {
            let start = at + indent + 4 + open;
            let close = closing(text, start);
            let tail = text[close..].find(":\n").map_or(text.len(), |n| close + n);
            // A body on the line of the definition: `...`.
            let line_end = text[close..].find('\n').map_or(text.len(), |n| close + n);
            let head_end = tail.min(line_end);
            let head = text[start..head_end].trim_end_matches(" ...").trim_end_matches(':');
            let name = match class.filter(|_| indent == 4) {
                Some(c) => format!("{c}.{}", &rest[..open]),
                None => rest[..open].to_owned(),
            };
            let parameters = parameters(&text[start + 1..close]);
            let stream = parameters.iter().position(|p| p.name == "stream");
            let doc = docstring(&text[line_end..]);
            if !std::mem::take(&mut attribute) {
                found.insert(name.clone(), Signature { name, parameters, stream, text: head, doc });
            }
            at = line_end + 1;
            continue;
        }
        at = end + 1;
    }
    found
}

/// Where the bracket that opens at `start` closes.
fn closing(text: &str, start: usize) -> usize {
    let mut depth = 0;
    let mut quote = None;
    for (i, c) in text[start..].char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => {
                depth -= 1;
                if depth == 0 {
                    return start + i;
                }
            }
            (None, _) => {}
        }
    }
    text.len()
}

/// The parts between commas outside brackets and quotes.
fn parts(text: &'static str) -> Vec<&'static str> {
    let (mut depth, mut quote, mut from) = (0, None, 0);
    let mut all = Vec::new();
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                all.push(text[from..i].trim());
                from = i + 1;
            }
            (None, _) => {}
        }
    }
    all.push(text[from..].trim());
    all.retain(|p| !p.is_empty());
    all
}

fn parameters(text: &'static str) -> Vec<Parameter> {
    let mut kind = Kind::Either;
    let mut all: Vec<Parameter> = Vec::new();
    for part in parts(text) {
        match part {
            "/" => all.iter_mut().for_each(|p| p.kind = Kind::Positional),
            "*" => kind = Kind::Named,
            part => {
                let (name, default) = match part.split_once('=') {
                    Some((name, default)) => (name, Some(default.trim())),
                    None => (part, None),
                };
                let name = name.split(':').next().unwrap_or_default().trim();
                let (name, kind) = if let Some(n) = name.strip_prefix("**") {
                    (n, Kind::More)
                } else if let Some(n) = name.strip_prefix('*') {
                    kind = Kind::Named;
                    (n, Kind::Rest)
                } else {
                    (name, kind)
                };
                all.push(Parameter { name, kind, default });
            }
        }
    }
    all
}

/// The docstring at the front of what follows a definition, its indentation taken off.
fn docstring(text: &'static str) -> String {
    let Some(body) = text.trim_start().strip_prefix("\"\"\"") else { return String::new() };
    let body = body.find("\"\"\"").map_or(body, |n| &body[..n]);
    let margin = body
        .lines()
        .skip(1)
        .filter(|l| !l.trim().is_empty())
        .map(|l| l.len() - l.trim_start().len())
        .min()
        .unwrap_or(0);
    let mut lines: Vec<&str> = Vec::new();
    for (i, l) in body.lines().enumerate() {
        lines.push(if i == 0 { l } else { l.get(margin..).unwrap_or("") });
    }
    lines.join("\n").trim_end().to_owned()
}
