//! Graphs as text and in the language of Graphviz.

use super::program::{Program, Value};
use crate::op::{Meta, Op};
use crate::{Array, Expr};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What is still to be computed for `outputs`, one operation a line: names, types and shapes of the results, the
/// operation with its parameters, its arguments. Arrays that have their value begin with `%`.
///
/// Reads and changes nothing; works for arguments of functions being traced, too.
pub fn graph_text(outputs: &[Array]) -> String {
    let program = Program::pending(outputs);
    let mut text = String::new();
    for (i, a) in program.constants.iter().enumerate() {
        line(&mut text, format_args!("%{i}: {} = {}", kind(a.meta()), a.op().name()));
    }
    for (i, step) in program.steps.iter().enumerate() {
        let results: Vec<String> =
            step.outs.iter().enumerate().map(|(o, m)| format!("{}: {}", name(i, o), kind(m))).collect();
        let takes: Vec<String> = step.inputs.iter().map(value).collect();
        let called = format!("{}({})", step.op.name(), takes.join(", "));
        let more = parameters(&step.op).map(|p| format!(" {p}")).unwrap_or_default();
        line(&mut text, format_args!("{} = {called}{more}", results.join(", ")));
    }
    let given: Vec<String> = program.outputs.iter().map(value).collect();
    line(&mut text, format_args!("return {}", given.join(", ")));
    text
}

/// The graph of [`graph_text`] in the DOT language, results called by the given names.
pub fn graph_dot(outputs: &[(&str, Array)]) -> String {
    let arrays: Vec<Array> = outputs.iter().map(|(_, a)| a.clone()).collect();
    let program = Program::pending(&arrays);
    let mut text = String::from("digraph olivine {\n");
    let node = |v: &Value| match v {
        Value::Constant(i) | Value::Input(i) => format!("a{i}"),
        Value::Result(s, _) => format!("s{s}"),
    };
    for (i, a) in program.constants.iter().enumerate() {
        line(&mut text, format_args!("  a{i} [shape=ellipse, label=\"{}\"];", kind(a.meta())));
    }
    for (i, step) in program.steps.iter().enumerate() {
        let mut label = step.op.name().to_string();
        if let Some(p) = parameters(&step.op) {
            label += &format!("\\n{}", escaped(&p));
        }
        step.outs.iter().for_each(|m| label += &format!("\\n{}", kind(m)));
        line(&mut text, format_args!("  s{i} [shape=box, label=\"{label}\"];"));
        for v in &step.inputs {
            line(&mut text, format_args!("  {} -> s{i};", node(v)));
        }
    }
    for (k, (v, (name, _))) in program.outputs.iter().zip(outputs).enumerate() {
        line(&mut text, format_args!("  o{k} [shape=plaintext, label=\"{}\"];", escaped(name)));
        line(&mut text, format_args!("  {} -> o{k};", node(v)));
    }
    text.push_str("}\n");
    text
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{content}");
}

fn kind(m: &Meta) -> String {
    format!("{}{}", m.dtype, m.shape)
}

fn name(step: usize, out: usize) -> String {
    if out == 0 { format!("v{step}") } else { format!("v{step}.{out}") }
}

fn value(v: &Value) -> String {
    match *v {
        Value::Input(i) | Value::Constant(i) => format!("%{i}"),
        Value::Result(s, o) => name(s as usize, o as usize),
    }
}

fn escaped(s: &str) -> String {
    s.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Parameters of an operation, where its name does not say it all.
fn parameters(op: &Op) -> Option<String> {
    if let Op::Fused(e) = op {
        return Some(instructions(e));
    }
    let stored = serde_json::to_value(op).ok()?;
    // The family and the operation in it are the name already.
    let mut inner = stored.as_object()?.values().next()?;
    while let Some(o) = inner.as_object()
        && o.len() == 1
        && o.keys().all(|k| k.starts_with(char::is_uppercase))
    {
        inner = o.values().next()?;
    }
    let silent = inner.as_str().is_some_and(|s| s.starts_with(char::is_uppercase)) || inner.is_null();
    (!silent).then(|| brief(inner))
}

/// JSON without quotation marks, keys in order whatever map the JSON library was built with.
fn brief(j: &Json) -> String {
    let joined = |parts: Vec<String>| parts.join(",");
    match j {
        Json::Object(all) => {
            let sorted: BTreeMap<&String, &Json> = all.iter().collect();
            format!("{{{}}}", joined(sorted.iter().map(|(k, v)| format!("{k}:{}", brief(v))).collect()))
        }
        Json::Array(all) => format!("[{}]", joined(all.iter().map(brief).collect())),
        Json::String(s) => s.clone(),
        Json::Null | Json::Bool(_) | Json::Number(_) => j.to_string(),
    }
}

/// A fused expression: one instruction after the other, arguments as `x0`, `x1`, …
fn instructions(e: &Expr) -> String {
    let n = e.inputs.len();
    let named = |v: u16| if (v as usize) < n { format!("x{v}") } else { format!("t{}", v as usize - n) };
    let mut parts: Vec<String> = Vec::new();
    for (i, inst) in e.insts.iter().enumerate() {
        let args: Vec<String> = inst.args().iter().map(|&a| named(a)).collect();
        parts.push(format!("t{i} = {}({})", inst.describe(), args.join(", ")));
    }
    let outs: Vec<String> = e.outputs.iter().map(|&o| named(o)).collect();
    format!("{{ {}; {} }}", parts.join("; "), outs.join(", "))
}
