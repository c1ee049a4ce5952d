//! Laws of sampling.

use super::{Sampler, SamplerOptions};
use olivine_core::{Array, Error};
use proptest::prelude::*;

fn logits(rows: &[&[f32]]) -> Array {
    olivine_cpu::register();
    let n = rows[0].len();
    Array::from_slice(&rows.concat(), &[rows.len(), n]).unwrap()
}

/// Tokens of many draws from one row, counted.
fn counts(row: &[f32], options: SamplerOptions, draws: usize) -> Vec<usize> {
    // Rows of a batch are independent draws.
    let x = logits(&vec![row; draws]);
    let tokens: Vec<u32> = Sampler::new(options).unwrap().sample(&x, None).unwrap().to_vec().unwrap();
    let mut counts = vec![0; row.len()];
    tokens.iter().for_each(|&t| counts[t as usize] += 1);
    counts
}

fn drawing() -> SamplerOptions {
    SamplerOptions { temperature: 1.0, seed: Some(1), ..Default::default() }
}

fn logs(probabilities: &[f32]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln()).collect()
}

#[test]
fn draws_follow_the_probabilities() {
    let p = [0.1, 0.5, 0.05, 0.35];
    let n = 20_000;
    let assert_like = |found: &[usize], expected: &[f32]| {
        for (c, e) in found.iter().zip(expected) {
            // Five standard deviations.
            let tolerance = 5.0 * (e * (1.0 - e) / n as f32).sqrt();
            assert!((*c as f32 / n as f32 - e).abs() <= tolerance, "{found:?} for {expected:?}");
        }
    };
    assert_like(&counts(&logs(&p), drawing(), n), &p);
    // At temperature 1/2 probabilities are squared.
    let squared: Vec<f32> = p.iter().map(|p| p * p / 0.385).collect();
    assert_like(&counts(&logs(&p), SamplerOptions { temperature: 0.5, ..drawing() }, n), &squared);
    // Two best of four.
    let two = [0.0, 0.5 / 0.85, 0.0, 0.35 / 0.85];
    assert_like(&counts(&logs(&p), SamplerOptions { top_k: 2, ..drawing() }, n), &two);
    // 0.5 does not reach 0.6, with 0.35 it does.
    assert_like(&counts(&logs(&p), SamplerOptions { top_p: 0.6, ..drawing() }, n), &two);
    // At least 0.3 of the best's 0.5.
    assert_like(&counts(&logs(&p), SamplerOptions { min_p: 0.3, ..drawing() }, n), &two);
    // A bias multiplies odds.
    let biased = SamplerOptions { logit_bias: vec![(0, 5f32.ln()), (2, f32::NEG_INFINITY)], ..drawing() };
    assert_like(&counts(&logs(&p), biased, n), &[0.5 / 1.35, 0.5 / 1.35, 0.0, 0.35 / 1.35]);
}

#[test]
fn filters_in_a_row_leave_the_best_token() {
    let p = logs(&[0.2, 0.5, 0.3]);
    let o = SamplerOptions { top_k: 1, top_p: 0.8, temperature: 0.01, ..drawing() };
    assert_eq!(counts(&p, o, 500), [0, 500, 0]);
    let o = SamplerOptions { top_p: 0.0, min_p: 1.0, ..drawing() };
    assert_eq!(counts(&p, o, 500), [0, 500, 0]);
}

#[test]
fn top_k_beyond_the_vocabulary_is_all_of_it() {
    let p = logs(&[0.2, 0.5, 0.3]);
    let all = counts(&p, drawing(), 1000);
    for top_k in [3, 4, usize::MAX] {
        assert_eq!(counts(&p, SamplerOptions { top_k, ..drawing() }, 1000), all);
    }
}

#[test]
fn options_out_of_range_are_errors() {
    let refused = |o: SamplerOptions| Sampler::new(o).unwrap_err().to_string();
    let d = SamplerOptions::default;
    assert_eq!(
        refused(SamplerOptions { temperature: -0.1, ..d() }),
        "[sampler] temperature is finite and 0 or more, got -0.1"
    );
    assert_eq!(
        refused(SamplerOptions { temperature: f32::NAN, ..d() }),
        "[sampler] temperature is finite and 0 or more, got NaN"
    );
    assert_eq!(refused(SamplerOptions { top_p: 1.5, ..d() }), "[sampler] top_p is between 0 and 1, got 1.5");
    assert_eq!(refused(SamplerOptions { min_p: -1.0, ..d() }), "[sampler] min_p is between 0 and 1, got -1");
    assert_eq!(
        refused(SamplerOptions { repetition_penalty: 0.0, ..d() }),
        "[sampler] repetition_penalty is finite and more than 0, got 0"
    );
    assert_eq!(
        refused(SamplerOptions { logit_bias: vec![(3, f32::NAN)], ..d() }),
        "[sampler] the logit bias of token 3 is NaN"
    );
    let mut s = Sampler::new(SamplerOptions { logit_bias: vec![(3, 1.0)], ..d() }).unwrap();
    let e = s.sample(&logits(&[&[0.0, 1.0, 2.0]]), None).unwrap_err();
    assert!(matches!(e, Error::Index { .. }));
    assert_eq!(e.to_string(), "[logit_bias] a bias for token 3 of a vocabulary of 3");
    let e = s.sample(&Array::zeros(&[3], olivine_core::Dtype::F32).unwrap(), None).unwrap_err();
    assert_eq!(e.to_string(), "[sampler] logits are [batch, vocabulary], got shape (3,)");
}

#[test]
fn a_penalty_lowers_what_occurred_lately() {
    let x = logits(&[&[2.0, 1.9, -1.0, -1.1], &[2.0, 1.9, -1.0, -1.1]]);
    let history = Array::from_slice(&[0u32, 0, 2, 1, 3, 3], &[2, 3]).unwrap();
    let pick = |penalty, context| -> Vec<u32> {
        let o = SamplerOptions {
            repetition_penalty: penalty,
            repetition_context: context,
            ..SamplerOptions::default()
        };
        Sampler::new(o).unwrap().sample(&x, Some(&history)).unwrap().to_vec().unwrap()
    };
    assert_eq!(pick(1.2, 3), [1, 0]);
    // The newest token alone.
    assert_eq!(pick(1.2, 1), [0, 0]);
    assert_eq!(pick(1.0, 3), [0, 0]);
    let lowered = super::repetition_penalty(&x, &history, 2.0).unwrap();
    assert_eq!(lowered.to_vec::<f32>().unwrap(), [1.0, 1.9, -2.0, -1.1, 2.0, 0.95, -1.0, -2.2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_drawn_token_is_a_candidate(
        row in prop::collection::vec(-30f32..30.0, 1..40),
        top_k in 0usize..45,
        top_p in 0f32..=1.0,
        min_p in 0f32..=1.0,
        temperature in prop_oneof![Just(1e-30f32), 0.01f32..4.0, Just(1e30f32)],
        seed in any::<u64>(),
    ) {
        let o = SamplerOptions { temperature, top_k, top_p, min_p, seed: Some(seed), ..Default::default() };
        let found = counts(&row, o, 8);
        prop_assert_eq!(found.iter().sum::<usize>(), 8);

        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
        let best = row[order[0]];
        let k = if top_k == 0 { row.len() } else { top_k.min(row.len()) };
        let weight = |i: usize| (row[i] - best).exp() as f64;
        let total: f64 = order[..k].iter().map(|&i| weight(i)).sum();
        let mut before = 0.0;
        for (rank, &i) in order.iter().enumerate() {
            // With some slack where float32 decides.
            let mass = before / total <= top_p as f64 + 1e-5;
            let share = weight(i) >= min_p as f64 * (1.0 - 1e-5);
            let candidate = rank == 0 || (rank < k && mass && share);
            prop_assert!(candidate || found[i] == 0 || row[i] == row[order[k - 1]], "token {} was drawn", i);
            before += weight(i);
        }
    }

    #[test]
    fn small_temperatures_and_zero_are_greedy(
        row in prop::collection::vec(-1e30f32..1e30, 2..40),
        temperature in prop_oneof![Just(0f32), Just(1e-40), Just(1e-38), Just(1e-20)],
    ) {
        let found = counts(&row, SamplerOptions { temperature, ..drawing() }, 4);
        let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0))).unwrap().0;
        prop_assert_eq!(found[best], 4);
    }

    #[test]
    fn equal_seeds_draw_equal_tokens(row in prop::collection::vec(-5f32..5.0, 1..40), seed in any::<u64>()) {
        let o = || SamplerOptions { seed: Some(seed), ..drawing() };
        prop_assert_eq!(counts(&row, o(), 16), counts(&row, o(), 16));
    }
}
