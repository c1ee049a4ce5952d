//! Chat templates: a conversation to the text that a model was trained on.
//!
//! Templates are Jinja programs that come with models, written for Hugging Face's environment;
//! this one is set up to give the same text: blocks trimmed as there, `tojson` that neither
//! escapes HTML nor sorts keys and spaces like Python's `json.dumps`, values printed as Python
//! prints them, Python's string and mapping methods, `raise_exception` and `strftime_now`.
//! A template is code of unknown origin: it runs with a budget, so it ends and cannot fill memory.

use std::sync::OnceLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value as JinjaValue};
use minijinja::{AutoEscape, Environment};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Result, TokenizeError};

mod functions;
mod python;
#[cfg(test)]
mod tests;

/// A turn of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, `tool`, or what else the template knows.
    pub role: String,
    /// What is said; `null` in messages that only call tools.
    #[serde(default)]
    pub content: Content,
    /// Everything else a template may ask for: `tool_calls`, `name`, `reasoning_content`, ...
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Message {
    /// A message of plain text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: Content::Text(content.into()), extra: Map::new() }
    }
}

/// The content of a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// A list of parts such as `{"type": "text", "text": "..."}`.
    Parts(Vec<Value>),
    /// None.
    #[default]
    Null,
}

/// The texts of the special tokens, which templates insert.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpecialTokens {
    /// `bos_token`.
    pub bos: Option<String>,
    /// `eos_token`.
    pub eos: Option<String>,
    /// `unk_token`.
    pub unknown: Option<String>,
    /// `pad_token`.
    pub padding: Option<String>,
}

/// What a conversation is rendered with.
#[derive(Clone, Debug, Default)]
pub struct RenderOptions<'a> {
    /// Schemas of the functions that the model may call.
    pub tools: Option<&'a [Value]>,
    /// Whether the text ends where the assistant is to speak.
    pub add_generation_prompt: bool,
    /// Further variables of the template, such as `enable_thinking`.
    pub variables: Map<String, Value>,
}

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    has_tool_use: bool,
    specials: SpecialTokens,
    content: OnceLock<ContentForm>,
}

/// Which forms of content a template renders.
#[derive(Clone, Copy, Debug)]
struct ContentForm {
    text: bool,
    parts: bool,
}

/// The engine charges a unit for each instruction and for each 64 bytes made. A long conversation
/// takes some hundred thousand; what a template could build with the whole is about 130 MB.
const FUEL: u64 = 2_000_000;

/// Stack of the thread that renders, in bytes; only what is used of it is ever backed by memory.
/// A template can nest lists as deep as its budget lasts, and dropping them recurses.
#[cfg(target_pointer_width = "64")]
const STACK: usize = 512 << 20;
#[cfg(not(target_pointer_width = "64"))]
const STACK: usize = 64 << 20;

const DEFAULT: &str = "chat_template";
const TOOL_USE: &str = "tool_use";

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// # Errors
    /// [`TokenizeError::Template`] with the line at fault.
    pub fn new(source: &str, specials: SpecialTokens) -> Result<Self> {
        Self::with_tool_use(source, None, specials)
    }

    /// Compiles a template and the one that takes its place when there are tools.
    ///
    /// # Errors
    /// As [`ChatTemplate::new`].
    pub fn with_tool_use(source: &str, tool_use: Option<&str>, specials: SpecialTokens) -> Result<Self> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(|e| TokenizeError::Template(e.to_string()))?;
        environment.set_syntax(syntax);
        environment.set_fuel(Some(FUEL));
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_unknown_method_callback(functions::method);
        functions::register(&mut environment);
        let named = [(DEFAULT, Some(source)), (TOOL_USE, tool_use)];
        for (name, source) in named.into_iter().filter_map(|(name, source)| Some((name, source?))) {
            environment.add_template_owned(name, without_generation_blocks(source)).map_err(failed)?;
        }
        Ok(Self { environment, has_tool_use: tool_use.is_some(), specials, content: OnceLock::new() })
    }

    /// Renders a conversation.
    ///
    /// A content of text parts becomes a text for templates that take only text, and the other
    /// way round.
    ///
    /// # Errors
    /// [`TokenizeError::Template`] where the template refuses the conversation (its
    /// `raise_exception` message), fails, exceeds its budget, or cannot take a content.
    pub fn render(&self, messages: &[Message], options: &RenderOptions<'_>) -> Result<String> {
        let form = self.content_form();
        let adapt = |m: &Message| adapted(m, form);
        let adapted = messages.iter().map(adapt).collect::<Result<Vec<_>>>()?;
        self.render_values(&adapted, options)
    }

    /// Found out once, with two short renderings.
    fn content_form(&self) -> ContentForm {
        *self.content.get_or_init(|| {
            const NEEDLE: &str = "olivine needle";
            let shows = |content: Value| {
                let message = json!({"role": "user", "content": content});
                let text = self.render_values(&[message], &RenderOptions::default());
                text.is_ok_and(|t| t.contains(NEEDLE) && !t.contains("'type'") && !t.contains("\"type\""))
            };
            ContentForm {
                text: shows(json!(NEEDLE)),
                parts: shows(json!([{"type": "text", "text": NEEDLE}])),
            }
        })
    }

    fn render_values(&self, messages: &[Value], options: &RenderOptions<'_>) -> Result<String> {
        let tools = options.tools.filter(|t| !t.is_empty());
        let name = if tools.is_some() && self.has_tool_use { TOOL_USE } else { DEFAULT };
        let template = self.environment.get_template(name).map_err(failed)?;
        let mut variables: Vec<(&str, JinjaValue)> = vec![
            ("messages", JinjaValue::from(Serde(messages))),
            ("tools", JinjaValue::from(Serde(tools))),
            ("documents", JinjaValue::from(())),
            ("add_generation_prompt", options.add_generation_prompt.into()),
        ];
        let specials = &self.specials;
        for (name, token) in [
            ("bos_token", &specials.bos),
            ("eos_token", &specials.eos),
            ("unk_token", &specials.unknown),
            ("pad_token", &specials.padding),
        ] {
            variables.extend(token.as_ref().map(|t| (name, t.as_str().into())));
        }
        variables.extend(options.variables.iter().map(|(k, v)| (k.as_str(), JinjaValue::from(Serde(v)))));
        let context = JinjaValue::from_pairs(variables);
        render_on_deep_stack(&template, context)
    }
}

fn render_on_deep_stack(template: &minijinja::Template<'_, '_>, context: JinjaValue) -> Result<String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("chat template".into()).stack_size(STACK);
        let rendering = thread
            .spawn_scoped(scope, || template.render(context).map_err(failed))
            .map_err(|e| TokenizeError::Template(format!("cannot start a thread to render in: {e}")))?;
        rendering
            .join()
            .unwrap_or_else(|_| Err(TokenizeError::Template("the template engine panicked".into())))
    })
}

/// The message as a value whose content has a form that the template takes.
fn adapted(message: &Message, form: ContentForm) -> Result<Value> {
    let refuse = |what: &str| Err(TokenizeError::Template(format!("the template does not take {what}")));
    let content = match &message.content {
        Content::Null => Value::Null,
        Content::Text(text) if form.text || !form.parts => json!(text),
        Content::Text(text) => json!([{"type": "text", "text": text}]),
        Content::Parts(parts) => {
            let texts: Option<Vec<&str>> = parts.iter().map(part_text).collect();
            match texts {
                Some(texts) if form.text => json!(texts.concat()),
                _ if form.parts => json!(parts),
                Some(texts) => json!(texts.concat()),
                None => return refuse("parts other than text"),
            }
        }
    };
    // Role and content come first, as callers of other libraries write them, for templates that
    // print whole messages.
    let mut value = Map::new();
    value.insert("role".into(), json!(message.role));
    value.insert("content".into(), content);
    value.extend(message.extra.iter().map(|(k, v)| (k.clone(), v.clone())));
    Ok(Value::Object(value))
}

/// The text of a part that is one.
fn part_text(part: &Value) -> Option<&str> {
    match part {
        Value::String(text) => Some(text),
        Value::Object(fields) if fields.get("type").is_none_or(|t| t == "text") => {
            fields.get("text").and_then(Value::as_str)
        }
        _ => None,
    }
}

/// Hugging Face's `{% generation %}` blocks mark what the assistant says for training masks and
/// do not change the text. They become plain blocks, with the whitespace control of their tags.
fn without_generation_blocks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(end + 2);
        let inner = &tag[2..end];
        let word = inner.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        match word {
            "generation" => out.push_str(&tag.replacen(word, "if true", 1)),
            "endgeneration" => out.push_str(&tag.replacen(word, "endif", 1)),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn failed(error: minijinja::Error) -> TokenizeError {
    let line = error.line().map(|line| format!(" (line {line})")).unwrap_or_default();
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    TokenizeError::Template(format!("{detail}{line}"))
}
