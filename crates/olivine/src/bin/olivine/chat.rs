//! `olivine chat`: a conversation at the terminal.

use crate::model::ModelArgument;
use crate::output::{bytes, note, print};
use crate::{Failure, Outcome, Sampling};
use clap::Args;
use olivine::lm::{self, GenerateOptions, Loaded, PromptCache};
use olivine::tokenize::{Message, RenderOptions};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArgument,
    /// Instructions that come before the conversation
    #[arg(long)]
    system_prompt: Option<String>,
    /// Most tokens of an answer
    #[arg(long, short, default_value_t = 1024)]
    max_tokens: usize,
    #[command(flatten)]
    sampling: Sampling,
}

const HELP: &str = "\
/reset  forget the conversation
/stats  speed and memory of the last answer
/help   this
/exit   leave, as Ctrl-D does
Ctrl-C stops an answer. A line that ends in \\ goes on in the next.";

/// A conversation and what the model remembers of it.
struct Chat<'a> {
    loaded: &'a Loaded,
    arguments: &'a Arguments,
    messages: Vec<Message>,
    cache: PromptCache,
    last: Option<lm::Stats>,
    interrupted: Arc<AtomicBool>,
    /// Lines that were not answered.
    failures: usize,
}

pub fn run(a: &Arguments) -> Outcome {
    let loaded = a.model.open()?;
    if loaded.tokenizer.chat_template().is_none() {
        let msg = "this model has no chat template: it continues text but does not converse. \
                   `olivine generate` can use it";
        return Err(msg.to_owned().into());
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .map_err(|e| Failure::Message(format!("cannot handle Ctrl-C: {e}")))?;
    let mut chat = Chat {
        loaded: &loaded,
        arguments: a,
        messages: Vec::new(),
        cache: PromptCache::default(),
        last: None,
        interrupted,
        failures: 0,
    };
    chat.reset();
    // A wrong option shows now rather than after the first question.
    lm::Sampler::new(a.sampling.options())?;
    let mut editor = DefaultEditor::new().map_err(|e| Failure::Message(format!("terminal: {e}")))?;
    let history = history_file();
    if let Some(path) = &history {
        // There is none the first time.
        let _ = editor.load_history(path);
    }
    note("/help lists the commands; Ctrl-D leaves.");
    let outcome = converse(&mut chat, &mut editor);
    if let Some(path) = &history {
        let saved = path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(|e| e.to_string());
        if let Err(e) = saved.and_then(|()| editor.save_history(path).map_err(|e| e.to_string())) {
            note(&format!("the history was not saved to {}: {e}", path.display()));
        }
    }
    outcome?;
    // At a terminal the messages were seen; a script learns it from the exit code.
    if chat.failures > 0 && !std::io::stdin().is_terminal() {
        return Err(Failure::Message(format!("{} lines were not answered", chat.failures)));
    }
    Ok(())
}

fn converse(chat: &mut Chat<'_>, editor: &mut DefaultEditor) -> Outcome {
    loop {
        let input = match read(editor)? {
            Input::Line(line) => line,
            Input::NotText => {
                note("error: that line is not UTF-8 text and was left out");
                chat.failures += 1;
                continue;
            }
            Input::End => return Ok(()),
        };
        match input.trim() {
            "" => {}
            "/exit" | "/quit" => return Ok(()),
            "/help" => note(HELP),
            "/reset" => {
                chat.reset();
                note("The conversation starts anew.");
            }
            "/stats" => note(&chat.stats()),
            command if command.starts_with('/') && !command.contains(char::is_whitespace) => {
                note(&format!("{command} is not a command; /help lists them."));
            }
            question => match chat.answer(question) {
                // The conversation goes on without the question that could not be answered.
                Err(Failure::Message(m)) => {
                    note(&format!("error: {m}"));
                    chat.failures += 1;
                }
                other => other?,
            },
        }
    }
}

enum Input {
    Line(String),
    /// Bytes that are no UTF-8.
    NotText,
    End,
}

/// The next input.
fn read(editor: &mut DefaultEditor) -> Outcome<Input> {
    let mut input = String::new();
    loop {
        match editor.readline(if input.is_empty() { "> " } else { "… " }) {
            Ok(line) => {
                if let Some(part) = line.strip_suffix('\\') {
                    input.push_str(part);
                    input.push('\n');
                    continue;
                }
                input.push_str(&line);
                if !input.trim().is_empty() {
                    // A history that cannot grow is no reason to stop.
                    let _ = editor.add_history_entry(&input);
                }
                return Ok(Input::Line(input));
            }
            Err(ReadlineError::Interrupted) => {
                note("(Ctrl-D leaves)");
                input.clear();
            }
            Err(ReadlineError::Eof) => return Ok(Input::End),
            Err(ReadlineError::Io(e)) if e.kind() == std::io::ErrorKind::InvalidData => {
                return Ok(Input::NotText);
            }
            Err(e) => return Err(Failure::Message(format!("reading input: {e}"))),
        }
    }
}

impl Chat<'_> {
    fn reset(&mut self) {
        self.messages.clear();
        self.messages.extend(self.arguments.system_prompt.as_deref().map(|s| Message::new("system", s)));
        self.cache = PromptCache::default();
        self.last = None;
    }

    fn stats(&self) -> String {
        match &self.last {
            None => "Nothing was answered yet.".into(),
            Some(s) => format!(
                "prompt: {} tokens, {} of them known before, {:.1} tokens/s; answer: {} tokens, {:.1} tokens/s; \
                 memory of the conversation {}; peak memory {}",
                s.prompt_tokens,
                s.cached_tokens,
                s.prompt_tps,
                s.generation_tokens,
                s.generation_tps,
                bytes(self.cache.nbytes()),
                bytes(s.peak_memory)
            ),
        }
    }

    fn answer(&mut self, question: &str) -> Outcome {
        self.messages.push(Message::new("user", question));
        match self.generate() {
            Ok(text) => {
                self.messages.push(Message::new("assistant", text));
                Ok(())
            }
            Err(e) => {
                self.messages.pop();
                Err(e)
            }
        }
    }

    fn generate(&mut self) -> Outcome<String> {
        let render = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
        let tokenizer = &self.loaded.tokenizer;
        let ids =
            tokenizer.encode_chat(&self.messages, &render).map_err(|e| Failure::Message(e.to_string()))?;
        let context = self.loaded.info.context_length;
        if ids.len() >= context {
            let msg = format!(
                "the conversation has {} tokens and the model's context {context}; /reset starts anew",
                ids.len()
            );
            return Err(Failure::Message(msg));
        }
        let options = GenerateOptions {
            max_tokens: self.arguments.max_tokens,
            sampler: self.arguments.sampling.options(),
            context_length: Some(context),
            cancelled: Some(&*self.interrupted),
            ..GenerateOptions::default()
        };
        self.interrupted.store(false, Ordering::Relaxed);
        let cache = std::mem::take(&mut self.cache);
        let mut generation = lm::generate_with_cache(&*self.loaded.model, tokenizer, &ids, options, cache)?;
        let mut text = String::new();
        for step in &mut generation {
            let step = step?;
            text.push_str(&step.text);
            print(&step.text)?;
        }
        if self.interrupted.load(Ordering::Relaxed) {
            print(" [stopped]")?;
        }
        print("\n")?;
        self.last = Some(generation.stats().clone());
        self.cache = generation.into_cache()?;
        Ok(text)
    }
}

/// Where lines typed before are kept.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")))?;
    Some(state.join("olivine/history"))
}
