//! What a generation is asked for and what it says.

use crate::SamplerOptions;
use std::sync::atomic::AtomicBool;

/// How a prompt is continued.
pub struct GenerateOptions<'a> {
    /// Most tokens that are generated.
    pub max_tokens: usize,
    /// How tokens are chosen.
    pub sampler: SamplerOptions,
    /// Texts at which generation stops; they are not part of the text that comes out.
    pub stop: Vec<String>,
    /// Whether tokens that end a sequence are ordinary ones.
    pub ignore_eos: bool,
    /// Positions of the prompt that are taken in at once. Bounds memory, and how often progress is reported.
    pub prefill_chunk: usize,
    /// Most positions of prompt and continuation together, where there is a limit.
    pub context_length: Option<usize>,
    /// Called with the positions of the prompt that are taken in, and how many there are.
    pub on_prefill: Option<Box<dyn FnMut(usize, usize) + 'a>>,
    /// Looked at between parts of the prompt and before every token: once it is set, generation ends. What was taken in
    /// stays in the caches.
    pub cancelled: Option<&'a AtomicBool>,
}

impl Default for GenerateOptions<'_> {
    fn default() -> Self {
        GenerateOptions {
            max_tokens: 256,
            sampler: SamplerOptions::default(),
            stop: Vec::new(),
            ignore_eos: false,
            prefill_chunk: 512,
            context_length: None,
            on_prefill: None,
            cancelled: None,
        }
    }
}

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its id.
    pub token: u32,
    /// The text that it completes. May be empty: half a character, what may become a stop text, or the end.
    pub text: String,
    /// Why this is the last step, if it is.
    pub finish_reason: Option<FinishReason>,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended the sequence, or a stop text came.
    Stop,
    /// There were as many tokens as asked for, or the context was full.
    Length,
}

impl FinishReason {
    /// `stop` or `length`, as the protocols of servers have it.
    pub fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
        }
    }
}

/// Figures of a generation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Ids of the prompt.
    pub prompt_tokens: usize,
    /// Of these, how many a cache had seen before.
    pub cached_tokens: usize,
    /// Tokens generated so far.
    pub generation_tokens: usize,
    /// New ids of the prompt per second, until the first token was there.
    pub prompt_tps: f64,
    /// Tokens per second after the first.
    pub generation_tps: f64,
    /// Most bytes that arrays took at once, since the counter was last reset.
    pub peak_memory: usize,
    /// Why it ended, once it has.
    pub finish_reason: Option<FinishReason>,
}
