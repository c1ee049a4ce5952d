//! What queries see, for every kind of cache and every way to feed it.

use super::KvCache;
use olivine_core::ops::Mask;
use olivine_core::{Array, Dtype};
use proptest::prelude::*;

/// Keys whose only feature is their position.
fn keys(batch: usize, from: usize, length: usize) -> Array {
    let row: Vec<f32> = (from..from + length).map(|p| p as f32).collect();
    let all: Vec<f32> = std::iter::repeat_n(row, batch).flatten().collect();
    Array::from_slice(&all, &[batch, 1, length, 1]).unwrap()
}

/// The positions that each query of each sequence sees, in order.
fn seen(mask: &Mask, keys: &Array, batch: usize, length: usize) -> Vec<Vec<Vec<usize>>> {
    let positions: Vec<f32> = keys.to_vec().unwrap();
    let n = keys.dim(2).unwrap();
    let visible: Box<dyn Fn(usize, usize, usize) -> bool> = match mask {
        Mask::None => Box::new(|_, _, _| true),
        Mask::Causal => Box::new(move |_, i, j| j + length <= n + i),
        Mask::Window(w) => {
            let w = *w;
            Box::new(move |_, i, j| j + length <= n + i && j + length + w > n + i)
        }
        Mask::Array(m) => {
            let m = m.broadcast_to(&[batch, 1, length, n]).unwrap();
            let m: Vec<bool> = m.to_vec().unwrap();
            Box::new(move |b, i, j| m[(b * length + i) * n + j])
        }
    };
    (0..batch)
        .map(|b| {
            (0..length)
                .map(|i| {
                    let mut all: Vec<usize> =
                        (0..n).filter(|&j| visible(b, i, j)).map(|j| positions[b * n + j] as usize).collect();
                    all.sort_unstable();
                    all
                })
                .collect()
        })
        .collect()
}

fn feed(cache: &mut KvCache, batch: usize, length: usize) -> Vec<Vec<Vec<usize>>> {
    let k = keys(batch, cache.len(), length);
    let mask = cache.mask(length).unwrap();
    let (k, v) = cache.update(k.clone(), k).unwrap();
    assert_eq!(k.to_vec::<f32>().unwrap(), v.to_vec::<f32>().unwrap());
    seen(&mask, &k, batch, length)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn queries_see_what_they_should(
        window in prop::option::of(1usize..9),
        keep in 0usize..4,
        padding in prop::collection::vec(0usize..12, 1..3),
        lengths in prop::collection::vec(prop_oneof![3 => Just(1usize), 1 => 2usize..14], 1..14),
    ) {
        olivine_cpu::register();
        let window = window.map(|w| w.max(keep + 1));
        let mut cache = window.map_or_else(KvCache::full, |w| KvCache::rotating_with_sinks(w, keep));
        cache.set_left_padding(&padding).unwrap();
        for length in lengths {
            let from = cache.len();
            let found = feed(&mut cache, padding.len(), length);
            for (b, &pad) in padding.iter().enumerate() {
                for (i, visible) in found[b].iter().enumerate() {
                    let at = from + i;
                    let in_window = |p: usize| window.is_none_or(|w| p < keep || p + w - keep > at);
                    let expected: Vec<usize> = (pad..=at).filter(|&p| in_window(p)).collect();
                    // Queries inside padding see what they like: nobody looks at them.
                    if at >= pad {
                        prop_assert_eq!(visible, &expected, "row {}, position {}", b, at);
                    }
                }
            }
        }
    }
}

#[test]
fn a_ring_that_has_wrapped_refuses_to_trim_and_is_unchanged() {
    olivine_cpu::register();
    let mut cache = KvCache::rotating(4);
    for _ in 0..10 {
        feed(&mut cache, 1, 1);
    }
    assert!(!cache.is_trimmable());
    let e = cache.trim(2).unwrap_err();
    assert_eq!(e.to_string(), "[trim] a rotating cache that has seen 10 positions has let the oldest go");
    assert_eq!(cache.len(), 10);
    assert_eq!(feed(&mut cache, 1, 1), [[[7, 8, 9, 10]]]);
}

#[test]
fn trimming_forgets_the_newest() {
    olivine_cpu::register();
    for mut cache in [KvCache::full(), KvCache::rotating(6)] {
        feed(&mut cache, 1, 5);
        assert!(cache.is_trimmable());
        cache.trim(2).unwrap();
        assert_eq!(cache.len(), 3);
        assert_eq!(feed(&mut cache, 1, 1), [[[0, 1, 2, 3]]]);
        assert_eq!(cache.trim(5).unwrap_err().to_string(), "[trim] 5 positions of a cache of 4");
        cache.trim(4).unwrap();
        assert_eq!(feed(&mut cache, 1, 2), [[[0].to_vec(), [0, 1].to_vec()]]);
    }
}

#[test]
fn offsets_count_from_the_first_real_position() {
    olivine_cpu::register();
    let mut cache = KvCache::full();
    assert_eq!(cache.offset().unwrap().item::<i32>().unwrap(), 0);
    cache.set_left_padding(&[0, 3]).unwrap();
    feed(&mut cache, 2, 5);
    assert_eq!(cache.offset().unwrap().to_vec::<i32>().unwrap(), [5, 2]);
    assert!(cache.set_left_padding(&[0, 0]).is_err());
}

#[test]
fn what_does_not_go_on_is_an_error_and_changes_nothing() {
    olivine_cpu::register();
    let mut cache = KvCache::full();
    feed(&mut cache, 1, 3);
    let wrong = |shape: &[usize], dtype| Array::zeros(shape, dtype).unwrap();
    for k in [
        wrong(&[2, 1, 1, 1], Dtype::F32),
        wrong(&[1, 2, 1, 1], Dtype::F32),
        wrong(&[1, 1, 1, 2], Dtype::F32),
        wrong(&[1, 1, 1, 1], Dtype::F16),
        wrong(&[1, 1, 0, 1], Dtype::F32),
        wrong(&[1, 1, 1], Dtype::F32),
    ] {
        assert!(cache.update(k.clone(), k).is_err());
    }
    assert_eq!(feed(&mut cache, 1, 1), [[[0, 1, 2, 3]]]);
}
