//! Memory of models, caches and generation. The counters belong to the process, so these tests have one of
//! their own and run one after the other.

mod common;

use common::data;
use olivine_core::{Array, Device, Dtype, Error, alloc};
use olivine_lm::{GenerateOptions, KvCache, generate, load};
use std::sync::{Mutex, MutexGuard};

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    olivine_cpu::register();
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

#[test]
fn a_model_beyond_the_memory_limit_is_refused_before_it_is_read() {
    let _alone = alone();
    let old = alloc::set_limit(Device::CPU, 100_000);
    let outcome = load(data("tiny_llama"));
    alloc::set_limit(Device::CPU, old);
    let Err(Error::OutOfMemory { op: "load", requested, limit: 100_000, .. }) = outcome.map(|_| ()) else {
        panic!("the model was loaded, or another error came")
    };
    assert!(requested > 100_000);
}

#[test]
fn caches_write_in_place() {
    let _alone = alone();
    for mut cache in [KvCache::full(), KvCache::rotating(300)] {
        let take = |cache: &mut KvCache, n: usize| {
            let k = Array::ones(&[1, 4, n, 64], Dtype::F32).unwrap();
            let (k, v) = cache.update(k.clone(), k).unwrap();
            olivine_core::eval(&[k, v]).unwrap();
        };
        // From then on there is memory for half as many again.
        take(&mut cache, 200);
        take(&mut cache, 1);
        let stats = || alloc::stats(Device::CPU);
        alloc::reset_peak(Device::CPU);
        let before = stats().active;
        (0..80).for_each(|_| take(&mut cache, 1));
        // A copy of one of the two arrays would show.
        let one = 4 * 290 * 64 * 4;
        assert!(stats().peak < before + one / 2, "{} over {before}", stats().peak);
    }
}

#[test]
fn generation_takes_no_more_than_its_cache_grows() {
    let _alone = alone();
    let loaded = load(data("tiny_gemma3")).unwrap();
    let active = || alloc::stats(Device::CPU).active;
    let options = GenerateOptions { max_tokens: 2000, ignore_eos: true, ..Default::default() };
    let mut g = generate(&*loaded.model, &loaded.tokenizer, &[1, 20, 300, 77], options).unwrap();
    for _ in 0..100 {
        g.next().unwrap().unwrap();
    }
    let before = active();
    // The windows are full; one layer of four keeps every position.
    for _ in 0..1800 {
        g.next().unwrap().unwrap();
    }
    let per_position = 2 * 2 * 16 * 4;
    let grown = active().saturating_sub(before);
    assert!(grown <= 2048 * per_position + (64 << 10), "{grown} bytes more after 1,800 steps");
}
