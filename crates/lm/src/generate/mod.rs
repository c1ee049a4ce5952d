//! Continuing a prompt.
//!
//! A [`Generation`] is an iterator of [`Step`]s. It takes the prompt in by chunks, asks the model for the
//! logits of the last position only, and sends the work for the next token before it reads the current one,
//! so that the device does not wait for the host.

mod options;
mod stop;

pub use options::{FinishReason, GenerateOptions, Stats, Step};

use crate::{KvCache, LanguageModel, Sampler};
use olivine_core::{Array, Error, Result, alloc, async_eval, eval};
use olivine_tokenize::{Detokenizer, Tokenizer};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Instant;
use stop::StopStrings;

/// Caches together with the ids that they have seen, so that a later prompt which begins alike need not be
/// taken in again: the turns of a chat.
#[derive(Clone, Default)]
pub struct PromptCache {
    caches: Vec<KvCache>,
    ids: Vec<u32>,
}

impl PromptCache {
    /// Ids that the caches have seen.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Bytes that the caches take.
    pub fn nbytes(&self) -> usize {
        self.caches.iter().map(KvCache::nbytes).sum()
    }

    /// Forgets what does not begin `prompt`, and at least its last id, whose logits are wanted. Starts anew
    /// where a cache cannot go back.
    fn fit(&mut self, model: &dyn LanguageModel, prompt: &[u32]) -> Result<()> {
        let common = self.ids.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let keep = common.min(prompt.len().saturating_sub(1));
        let surplus = self.ids.len() - keep;
        let fits = keep > 0 && (surplus == 0 || self.caches.iter().all(KvCache::is_trimmable));
        if !fits {
            *self = PromptCache { caches: model.caches(), ids: Vec::new() };
            return Ok(());
        }
        self.caches.iter_mut().try_for_each(|c| c.trim(surplus))?;
        self.ids.truncate(keep);
        Ok(())
    }
}

/// Continues `prompt`; see [`Generation`].
///
/// # Errors
/// `Value` when the prompt is empty, holds ids that the model does not know, or leaves no room in the
/// context, and for options out of range.
pub fn generate<'a>(
    model: &'a dyn LanguageModel,
    tokenizer: &Tokenizer,
    prompt: &[u32],
    options: GenerateOptions<'a>,
) -> Result<Generation<'a>> {
    generate_with_cache(model, tokenizer, prompt, options, PromptCache::default())
}

/// Continues `prompt`, of which `cache` may have seen a beginning already. [`Generation::into_cache`] gives
/// the cache back.
///
/// # Errors
/// As [`generate`].
pub fn generate_with_cache<'a>(
    model: &'a dyn LanguageModel,
    tokenizer: &Tokenizer,
    prompt: &[u32],
    options: GenerateOptions<'a>,
    mut cache: PromptCache,
) -> Result<Generation<'a>> {
    if prompt.is_empty() {
        return Err(Error::value("generate", "the prompt is empty"));
    }
    if options.prefill_chunk == 0 {
        return Err(Error::value("generate", "prefill_chunk is 0"));
    }
    if let Some(context) = options.context_length
        && prompt.len() >= context
    {
        let msg = format!("a prompt of {} tokens leaves no room in a context of {context}", prompt.len());
        return Err(Error::value("generate", msg));
    }
    let vocabulary = tokenizer.vocab_size();
    if let Some(id) = prompt.iter().find(|&&id| id as usize >= vocabulary) {
        let msg = format!("the prompt holds id {id}, the vocabulary has {vocabulary}");
        return Err(Error::value("generate", msg));
    }
    let sampler = Sampler::new(options.sampler.clone())?;
    cache.fit(model, prompt)?;
    let room = options.context_length.map_or(usize::MAX, |c| c - prompt.len());
    let stats = Stats { prompt_tokens: prompt.len(), cached_tokens: cache.ids.len(), ..Stats::default() };
    Ok(Generation {
        model,
        detokenizer: tokenizer.detokenizer(true),
        eos: if options.ignore_eos { Vec::new() } else { tokenizer.eos_ids().to_vec() },
        stops: StopStrings::new(&options.stop),
        limit: options.max_tokens.min(room),
        fed: cache.ids.len(),
        ids: prompt.to_vec(),
        caches: cache.caches,
        options,
        sampler,
        pending: VecDeque::new(),
        sent: 0,
        started: None,
        last: None,
        stats,
        state: State::Prompt,
    })
}

#[derive(PartialEq, Eq)]
enum State {
    /// The prompt is to be taken in.
    Prompt,
    /// Tokens come.
    Running,
    /// Nothing comes any more.
    Finished,
}

/// The tokens that continue a prompt, one [`Step`] after the other.
///
/// The last step says why it is the last. After an error nothing more comes.
pub struct Generation<'a> {
    model: &'a dyn LanguageModel,
    options: GenerateOptions<'a>,
    detokenizer: Detokenizer,
    eos: Vec<u32>,
    stops: StopStrings,
    sampler: Sampler,
    caches: Vec<KvCache>,
    /// The prompt, and the tokens that were read.
    ids: Vec<u32>,
    /// How many ids the caches have seen; those beyond `ids` are pending.
    fed: usize,
    /// Tokens that were sent and not read yet, oldest first.
    pending: VecDeque<Array>,
    /// Number of tokens that were sent.
    sent: usize,
    /// Most tokens that come.
    limit: usize,
    started: Option<Instant>,
    last: Option<Instant>,
    stats: Stats,
    state: State,
}

impl Generation<'_> {
    /// Figures so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The caches, for a prompt that goes on from here. Waits for work that was sent ahead.
    ///
    /// # Errors
    /// Whatever that work gives.
    pub fn into_cache(mut self) -> Result<PromptCache> {
        while self.ids.len() < self.fed {
            let Some(token) = self.pending.pop_front() else { break };
            self.ids.push(token.item::<u32>()?);
        }
        self.ids.truncate(self.fed);
        Ok(PromptCache { caches: self.caches, ids: self.ids })
    }

    fn is_cancelled(&self) -> bool {
        self.options.cancelled.is_some_and(|c| c.load(Ordering::Relaxed))
    }

    /// Takes the prompt in and sends the first token; false when that was cancelled.
    fn prefill(&mut self) -> Result<bool> {
        self.started = Some(Instant::now());
        let total = self.ids.len();
        self.report();
        while total - self.fed > self.options.prefill_chunk {
            if self.is_cancelled() {
                return Ok(false);
            }
            let chunk = row(&self.ids[self.fed..self.fed + self.options.prefill_chunk])?;
            // Nobody asks for these vectors: what the last layer would do with them is never computed.
            self.model.hidden(&chunk, &mut self.caches)?;
            eval(&self.caches.iter().flat_map(KvCache::arrays).collect::<Vec<_>>())?;
            self.fed += self.options.prefill_chunk;
            self.report();
        }
        let rest = row(&self.ids[self.fed..])?;
        self.fed = total;
        let token = self.step(&rest)?;
        self.pending.push_back(token);
        self.sent += 1;
        Ok(true)
    }

    fn report(&mut self) {
        let done = self.fed.min(self.stats.prompt_tokens);
        if let Some(f) = self.options.on_prefill.as_mut() {
            f(done, self.stats.prompt_tokens);
        }
    }

    /// The token that follows `ids [1, length]`, which the caches take in.
    fn step(&mut self, ids: &Array) -> Result<Array> {
        let hidden = self.model.hidden(ids, &mut self.caches)?;
        let length = hidden.dim(1)?;
        let logits = self.model.logits(&hidden.slice_axis(1, length - 1, length)?)?.squeeze(&[1])?;
        let history = if self.sampler.needs_history() { Some(self.history()?) } else { None };
        let token = self.sampler.sample(&logits, history.as_ref())?;
        async_eval(std::slice::from_ref(&token))?;
        Ok(token)
    }

    /// The newest tokens `[1, n]`, with those that were not read yet.
    fn history(&self) -> Result<Array> {
        let wanted = self.sampler.options().repetition_context;
        let known = self.ids.len().saturating_sub(wanted);
        let mut parts = vec![row(&self.ids[known..])?];
        for token in &self.pending {
            parts.push(token.reshape(&[1, 1])?);
        }
        Array::concatenate(&parts, 1)
    }

    /// Sends the next token ahead, unless the one before it is the last.
    fn send_ahead(&mut self) -> Result<()> {
        if self.sent >= self.limit {
            return Ok(());
        }
        let Some(before) = self.pending.back() else { return Ok(()) };
        let ids = before.reshape(&[1, 1])?;
        let token = self.step(&ids)?;
        self.fed += 1;
        self.pending.push_back(token);
        self.sent += 1;
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<Step>> {
        if self.state == State::Finished {
            return Ok(None);
        }
        if self.limit == 0 {
            self.state = State::Finished;
            return Ok(None);
        }
        let first = self.state == State::Prompt;
        if first {
            if !self.prefill()? {
                self.state = State::Finished;
                return Ok(None);
            }
            self.state = State::Running;
        } else if self.is_cancelled() {
            self.state = State::Finished;
            return Ok(None);
        }
        self.send_ahead()?;
        let Some(token) = self.pending.pop_front() else {
            self.state = State::Finished;
            return Ok(None);
        };
        let id = token.item::<u32>()?;
        if first {
            self.report();
        }
        self.ids.push(id);
        self.stats.generation_tokens += 1;
        let text = self.read(id)?;
        self.count(first);
        Ok(Some(text))
    }

    /// Text and end of a token.
    fn read(&mut self, id: u32) -> Result<Step> {
        let finish = if self.eos.contains(&id) {
            Some(FinishReason::Stop)
        } else if self.stats.generation_tokens >= self.limit {
            Some(FinishReason::Length)
        } else {
            None
        };
        let fail = |e: olivine_tokenize::TokenizeError| Error::value("detokenize", e.to_string());
        let mut piece = String::new();
        if finish != Some(FinishReason::Stop) {
            self.detokenizer.push_into(id, &mut piece).map_err(fail)?;
        }
        if finish.is_some() {
            piece.push_str(&self.detokenizer.finish());
        }
        let (mut text, stopped) = self.stops.push(&piece);
        let finish = if stopped { Some(FinishReason::Stop) } else { finish };
        if finish.is_some() && !stopped {
            text.push_str(&self.stops.finish());
        }
        if finish.is_some() {
            self.state = State::Finished;
        }
        self.stats.finish_reason = finish;
        Ok(Step { token: id, text, finish_reason: finish })
    }

    fn count(&mut self, first: bool) {
        let now = Instant::now();
        self.stats.peak_memory = alloc::stats(olivine_core::default_device()).peak;
        if first {
            let seconds = self.started.map_or(0.0, |s| (now - s).as_secs_f64());
            let read = self.stats.prompt_tokens - self.stats.cached_tokens;
            self.stats.prompt_tps = per_second(read, seconds);
            self.last = Some(now);
        } else if let Some(last) = self.last {
            let tokens = self.stats.generation_tokens - 1;
            self.stats.generation_tps = per_second(tokens, (now - last).as_secs_f64());
        }
    }
}

impl Iterator for Generation<'_> {
    type Item = Result<Step>;

    fn next(&mut self) -> Option<Result<Step>> {
        let step = self.advance().transpose();
        if let Some(Err(_)) = step {
            self.state = State::Finished;
        }
        step
    }
}

fn per_second(n: usize, seconds: f64) -> f64 {
    if seconds > 0.0 { n as f64 / seconds } else { 0.0 }
}

/// Ids as a batch of one.
fn row(ids: &[u32]) -> Result<Array> {
    Array::from_slice(ids, &[1, ids.len()])
}
