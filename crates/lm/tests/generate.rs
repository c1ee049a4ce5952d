//! Generation, on a tiny model.

mod common;

use common::data;
use olivine_lm::{
    FinishReason, GenerateOptions, Loaded, PromptCache, SamplerOptions, generate, generate_with_cache, load,
};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

fn open(name: &str) -> Loaded {
    olivine_cpu::register();
    load(data(name)).unwrap()
}

fn prompt(n: u32) -> Vec<u32> {
    (0..n).map(|i| 6 + (i * 37) % 300).collect()
}

fn options(max_tokens: usize) -> GenerateOptions<'static> {
    GenerateOptions { max_tokens, ignore_eos: true, ..Default::default() }
}

fn tokens(loaded: &Loaded, ids: &[u32], options: GenerateOptions<'_>) -> Vec<u32> {
    generate(&*loaded.model, &loaded.tokenizer, ids, options).unwrap().map(|s| s.unwrap().token).collect()
}

#[test]
fn the_size_of_chunks_changes_nothing_and_progress_is_told() {
    let loaded = open("tiny_gemma3");
    let ids = prompt(60);
    let expected = tokens(&loaded, &ids, options(30));
    assert_eq!(expected.len(), 30);
    for (chunk, steps) in [(1, 60), (7, 9), (20, 3), (59, 2), (60, 1), (1000, 1)] {
        let seen = RefCell::new(Vec::new());
        let o = GenerateOptions {
            prefill_chunk: chunk,
            on_prefill: Some(Box::new(|done, total| seen.borrow_mut().push((done, total)))),
            ..options(30)
        };
        assert_eq!(tokens(&loaded, &ids, o), expected, "chunks of {chunk}");
        let seen = seen.into_inner();
        assert_eq!(seen.len(), steps + 1, "{seen:?}");
        assert_eq!((seen[0], seen[steps]), ((0, 60), (60, 60)));
        assert!(seen.windows(2).all(|w| w[0].0 < w[1].0));
    }
}

#[test]
fn what_is_cancelled_ends_between_parts_of_the_prompt_and_between_tokens() {
    let loaded = open("tiny_llama");
    let ids = prompt(60);
    let stop = AtomicBool::new(false);
    let o = GenerateOptions {
        prefill_chunk: 10,
        cancelled: Some(&stop),
        on_prefill: Some(Box::new(|done, _| stop.store(done == 30, Ordering::Relaxed))),
        ..options(30)
    };
    let mut generation = generate(&*loaded.model, &loaded.tokenizer, &ids, o).unwrap();
    assert!(generation.next().is_none());
    // Three parts are in the caches and can be gone on from.
    let cache = generation.into_cache().unwrap();
    stop.store(false, Ordering::Relaxed);
    let o = GenerateOptions { cancelled: Some(&stop), ..options(30) };
    let mut rest = generate_with_cache(&*loaded.model, &loaded.tokenizer, &ids, o, cache).unwrap();
    let expected = tokens(&loaded, &ids, options(30));
    let first: Vec<u32> = rest.by_ref().take(5).map(|s| s.unwrap().token).collect();
    assert_eq!(first, expected[..5]);
    stop.store(true, Ordering::Relaxed);
    assert!(rest.next().is_none());
}

#[test]
fn stop_texts_end_the_text_and_limits_the_tokens() {
    let loaded = open("tiny_llama");
    let ids = prompt(10);
    let steps: Vec<_> =
        generate(&*loaded.model, &loaded.tokenizer, &ids, options(20)).unwrap().map(Result::unwrap).collect();
    assert_eq!(steps.len(), 20);
    assert!(steps[..19].iter().all(|s| s.finish_reason.is_none()));
    assert_eq!(steps[19].finish_reason, Some(FinishReason::Length));
    let text: String = steps.iter().map(|s| s.text.as_str()).collect();

    let middle = text.char_indices().nth(text.chars().count() / 2).unwrap().0;
    let stop: String = text[middle..].chars().take(3).collect();
    let o = GenerateOptions { stop: vec!["never\u{1}".into(), stop.clone()], ..options(20) };
    let mut generation = generate(&*loaded.model, &loaded.tokenizer, &ids, o).unwrap();
    let cut: String = generation.by_ref().map(|s| s.unwrap().text).collect();
    assert_eq!(cut, text[..text.find(&stop).unwrap()]);
    assert_eq!(generation.stats().finish_reason, Some(FinishReason::Stop));
    assert!(generation.next().is_none());

    assert!(tokens(&loaded, &ids, options(0)).is_empty());
    // A context of 14 has room for four tokens after ten.
    let o = GenerateOptions { context_length: Some(14), ..options(20) };
    assert_eq!(tokens(&loaded, &ids, o).len(), 4);
}

#[test]
fn a_cache_goes_on_where_a_prompt_begins_alike() {
    for name in ["tiny_llama", "tiny_gemma3"] {
        let loaded = open(name);
        let run = |ids: &[u32], cache: PromptCache, read: usize| {
            let mut g =
                generate_with_cache(&*loaded.model, &loaded.tokenizer, ids, options(12), cache).unwrap();
            let tokens: Vec<u32> = g.by_ref().take(read).map(|s| s.unwrap().token).collect();
            let cached = g.stats().cached_tokens;
            (tokens, cached, g.into_cache().unwrap())
        };
        // A turn that is broken off, its answer, and a second turn.
        let mut ids = prompt(6);
        let (answer, _, cache) = run(&ids, PromptCache::default(), 3);
        assert_eq!(&cache.ids()[..6], &ids[..]);
        ids.extend(&answer);
        ids.extend(prompt(4));
        let cold = run(&ids, PromptCache::default(), 12).0;
        let (warm, cached, cache) = run(&ids, cache, 12);
        assert_eq!(warm, cold, "{name}");
        assert!(cached >= 8, "{name} used {cached} cached positions");
        // The same prompt again: its last id at least is taken in anew. Gemma's ring has wrapped by now and
        // cannot go back, so it starts over; the text stays the same.
        let (again, cached, cache) = run(&ids, cache, 12);
        assert_eq!(again, cold, "{name}");
        assert_eq!(cached, if name == "tiny_llama" { ids.len() - 1 } else { 0 });
        // Another prompt shares nothing.
        let other = [7u32, 8, 9];
        let (found, cached, _) = run(&other, cache, 12);
        assert_eq!((found, cached), (run(&other, PromptCache::default(), 12).0, 0));
    }
}

#[test]
fn a_seed_decides_the_tokens() {
    let loaded = open("tiny_llama");
    let draw = |seed| {
        let sampler = SamplerOptions { temperature: 1.0, top_k: 50, top_p: 0.9, seed, ..Default::default() };
        tokens(&loaded, &prompt(5), GenerateOptions { sampler, ..options(16) })
    };
    assert_eq!(draw(Some(7)), draw(Some(7)));
    assert_ne!(draw(Some(7)), draw(Some(8)));
    assert_ne!(draw(None), draw(None));
}

#[test]
fn a_penalty_sees_tokens_that_were_sent_but_not_read() {
    let loaded = open("tiny_llama");
    // So large a penalty that no token of the context comes twice.
    let sampler = SamplerOptions { repetition_penalty: 1e6, repetition_context: 64, ..Default::default() };
    let ids = prompt(8);
    let found = tokens(&loaded, &ids, GenerateOptions { sampler, ..options(40) });
    let mut all: Vec<u32> = ids.iter().chain(&found).copied().collect();
    let n = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), n, "{found:?}");
}

#[test]
fn what_cannot_be_generated_is_an_error() {
    let loaded = open("tiny_llama");
    let fails = |ids: &[u32], o: GenerateOptions<'static>| match generate(
        &*loaded.model,
        &loaded.tokenizer,
        ids,
        o,
    ) {
        Err(e) => e.to_string(),
        Ok(_) => panic!("generation began"),
    };
    assert_eq!(fails(&[], options(1)), "[generate] the prompt is empty");
    assert_eq!(fails(&[1, 320], options(1)), "[generate] the prompt holds id 320, the vocabulary has 320");
    let o = GenerateOptions { context_length: Some(256), ..options(1) };
    assert_eq!(
        fails(&vec![7; 256], o),
        "[generate] a prompt of 256 tokens leaves no room in a context of 256"
    );
    let o = GenerateOptions { prefill_chunk: 0, ..options(1) };
    assert_eq!(fails(&[1], o), "[generate] prefill_chunk is 0");
    let sampler = SamplerOptions { temperature: -1.0, ..Default::default() };
    let o = GenerateOptions { sampler, ..options(1) };
    assert_eq!(fails(&[1], o), "[sampler] temperature is finite and 0 or more, got -1");
}
