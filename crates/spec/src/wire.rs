//! Calls and answers as lines of JSON, so that another program can compare.
//!
//! A call is `{"call": NAME, "args": [...], "kwargs": {...}}`; an answer is `{"ok": [ARRAY, ...]}` or
//! `{"error": MESSAGE}`. Numbers, truth values, strings, `null` and lists stand for themselves, a number with
//! a point being a float; `{"float": "nan"}` for floats that JSON lacks, `{"dtype": NAME}` for a type, and for
//! an array `{"dtype": NAME, "shape": [...], "data": HEX, "placement": NAME}`: the bytes of its elements in
//! row-major order, and how they are to lie in memory (see [`Placement`]).

use crate::args::{Args, Given};
use crate::calls;
use crate::draw::{Input, Placement};
use crate::host::Host;
use crate::value::Value;
use olivine_core::{Array, Dtype, Error, Result};
use serde_json::{Map, Value as Json, json};
use std::time::{Duration, Instant};

fn bad(msg: impl Into<String>) -> Error {
    Error::value("call", msg)
}

/// The type of a name.
pub fn dtype(name: &str) -> Result<Dtype> {
    let known = Dtype::ALL.into_iter().find(|d| d.to_string() == name);
    known.ok_or_else(|| bad(format!("no type is called {name}")))
}

fn from_hex(text: &str) -> Result<Vec<u8>> {
    let digit =
        |c: u8| (c as char).to_digit(16).map(|d| d as u8).ok_or_else(|| bad("data is not hexadecimal"));
    text.as_bytes().chunks(2).map(|p| Ok(digit(p[0])? << 4 | digit(*p.get(1).unwrap_or(&b'?'))?)).collect()
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    let digit = |d: u8| char::from_digit(d.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

/// A placement and its name.
pub fn placement(name: &str, host: &Host) -> Result<Placement> {
    Ok(match name {
        "rows" => Placement::Rows,
        "columns" => Placement::Columns,
        "reversed" => Placement::Reversed,
        "stepped" if !host.is_empty() => Placement::Stepped,
        "part" if !host.is_empty() => Placement::Part,
        "stepped" | "part" => Placement::Rows,
        _ => return Err(bad(format!("no placement is called {name}"))),
    })
}

fn array(o: &Map<String, Json>) -> Result<Array> {
    let text = |k: &str| o.get(k).and_then(Json::as_str).ok_or_else(|| bad(format!("an array lacks {k}")));
    let d = dtype(text("dtype")?)?;
    let shape = o.get("shape").and_then(Json::as_array).ok_or_else(|| bad("an array lacks shape"))?;
    let shape =
        shape.iter().map(|n| n.as_u64().map(|n| n as usize).ok_or_else(|| bad("a size is no number")));
    let shape = shape.collect::<Result<Vec<usize>>>()?;
    let bytes = from_hex(text("data")?)?;
    match o.get("placement").and_then(Json::as_str) {
        None | Some("rows") => Array::from_bytes(&bytes, &shape, d),
        Some(name) => {
            // Checks the number of bytes.
            let _ = Array::from_bytes(&bytes, &shape, d)?;
            let host = Host::from_bytes(d, &shape, &bytes);
            Input { placement: placement(name, &host)?, host }.array()
        }
    }
}

/// An array of `{"random": [LOW, HIGH], "dtype": NAME, "shape": [...]}`, for measurements; with `"made":
/// "sorted"` in order, with `"made": "definite"` a product with its transpose, the diagonal raised.
fn random(o: &Map<String, Json>) -> Result<Array> {
    let list = |k: &str| o.get(k).and_then(Json::as_array).ok_or_else(|| bad(format!("an array lacks {k}")));
    let ends: Vec<f64> = list("random")?.iter().filter_map(Json::as_f64).collect();
    let shape: Vec<usize> = list("shape")?.iter().filter_map(Json::as_u64).map(|n| n as usize).collect();
    let [low, high] = ends[..] else { return Err(bad("random takes two ends")) };
    let d = dtype(o.get("dtype").and_then(Json::as_str).unwrap_or_default())?;
    let u =
        olivine_core::random::uniform(low, high, &shape, Dtype::F32, Some(&olivine_core::random::key(0)?))?;
    let mut a = u.astype(d)?;
    match o.get("made").and_then(Json::as_str) {
        Some("sorted") => a = a.sort(-1, false)?,
        Some("definite") => {
            let n = a.dim(-1)?;
            a = a
                .matmul(&a.swapaxes(-1, -2)?)?
                .add(&Array::identity(n, d)?.multiply(&a.scalar_like(n as f64))?)?;
        }
        Some(other) => return Err(bad(format!("no array is made {other}"))),
        None => {}
    }
    a.eval()?;
    Ok(a)
}

/// A parameter from its JSON form.
pub fn value(j: &Json) -> Result<Value> {
    Ok(match j {
        Json::Null => Value::None,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => match n.as_i64() {
            Some(i) => Value::Int(i),
            None => Value::Float(n.as_f64().ok_or_else(|| bad("a number is out of range"))?),
        },
        Json::String(s) => Value::Str(s.clone()),
        Json::Array(v) => Value::List(v.iter().map(value).collect::<Result<_>>()?),
        Json::Object(o) if o.contains_key("random") => Value::Array(random(o)?),
        Json::Object(o) if o.contains_key("data") => Value::Array(array(o)?),
        Json::Object(o) => match (o.get("dtype"), o.get("float")) {
            (Some(Json::String(d)), _) => Value::Dtype(dtype(d)?),
            (_, Some(Json::String(f))) => {
                Value::Float(f.parse().map_err(|_| bad(format!("{f} is no float")))?)
            }
            (_, _) => return Err(bad("an object is neither array, dtype nor float")),
        },
    })
}

/// The JSON form of an array, which is evaluated.
pub fn array_json(a: &Array) -> Result<Json> {
    Ok(json!({
        "dtype": a.dtype().to_string(),
        "shape": a.shape().to_vec(),
        "data": to_hex(&a.to_bytes()?),
    }))
}

/// The JSON form of a parameter; arrays of more than `most` elements by their type and shape alone.
pub fn value_json(v: &Value, most: usize) -> Json {
    match v {
        Value::None => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Int(i) => json!(i),
        Value::Float(x) if x.is_finite() => json!(x),
        Value::Float(x) => json!({ "float": x.to_string().to_lowercase() }),
        Value::Str(s) => json!(s),
        Value::Dtype(d) => json!({ "dtype": d.to_string() }),
        Value::List(v) => Json::Array(v.iter().map(|v| value_json(v, most)).collect()),
        Value::Array(a) => match array_json(a) {
            Ok(j) if a.size() <= most => j,
            Ok(_) => json!({ "dtype": a.dtype().to_string(), "shape": a.shape().to_vec() }),
            Err(e) => {
                json!({ "dtype": a.dtype().to_string(), "shape": a.shape().to_vec(), "error": e.to_string() })
            }
        },
    }
}

/// The JSON form of a call.
pub fn call_json(name: &str, given: &Given, most: usize) -> Json {
    let args: Vec<Json> = given.positional.iter().map(|v| value_json(v, most)).collect();
    let named = given.named.iter().filter(|(_, v)| !matches!(v, Value::None));
    let kwargs: Map<String, Json> = named.map(|(k, v)| (k.clone(), value_json(v, most))).collect();
    json!({ "call": name, "args": args, "kwargs": kwargs })
}

/// Parses a call.
pub fn parse(line: &str) -> Result<(&'static calls::Call, Given)> {
    let j: Json = serde_json::from_str(line).map_err(|e| bad(format!("not JSON: {e}")))?;
    let name = j.get("call").and_then(Json::as_str).ok_or_else(|| bad("a line without call"))?;
    let call = calls::find(name).ok_or_else(|| bad(format!("no function is called {name}")))?;
    let mut given = Given::default();
    for v in j.get("args").and_then(Json::as_array).into_iter().flatten() {
        given.positional.push(value(v)?);
    }
    for (k, v) in j.get("kwargs").and_then(Json::as_object).into_iter().flatten() {
        given.named.insert(k.clone(), value(v)?);
    }
    Ok((call, given))
}

/// Calls and evaluates some times; the seconds of each. A line `{"repeat": N, ...}` asks for `N` times, or fewer, at
/// least two, that together take [`ENOUGH`].
pub fn time(line: &str, repeat: u64) -> Result<Vec<f64>> {
    let (call, given) = parse(line)?;
    let args = Args::new(call.name, given);
    let begin = Instant::now();
    let mut seconds = Vec::new();
    while seconds.len() < repeat as usize && (seconds.len() < 2 || begin.elapsed() < ENOUGH) {
        let start = Instant::now();
        let out = (call.run)(&args)?;
        olivine_core::eval(&out)?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(seconds)
}

/// After this long, calls are not repeated for a measurement.
const ENOUGH: Duration = Duration::from_millis(50);

/// How often a line asks to be measured; `None` for lines that ask for values.
pub fn repeat(line: &str) -> Option<u64> {
    serde_json::from_str::<Json>(line).ok()?.get("repeat")?.as_u64()
}

/// Calls and evaluates.
pub fn answer(line: &str) -> Result<Vec<Json>> {
    let (call, given) = parse(line)?;
    let out = (call.run)(&Args::new(call.name, given))?;
    olivine_core::eval(&out)?;
    out.iter().map(array_json).collect()
}
