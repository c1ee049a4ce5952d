//! Values do not depend on which streams compute them, nor on when.

mod common;

use common::{LIMIT, Program, Rng, nothing_leaked, scattered, streams};
use olivine_core::backend::Limits;
use olivine_core::{Array, Result, async_eval};
use olivine_testdev::{Session, within};
use std::time::Duration;

fn expect(program: u64, step: usize, got: &Array, expected: &[Vec<u8>]) {
    let got = got.to_bytes().expect("nothing fails here");
    assert!(got == expected[step], "program {program}: value {step} differs");
}

/// Runs programs `seeds`, each under several schedules.
fn schedules(name: &str, seeds: std::ops::Range<u64>, each: u64, prepare: impl Fn(&Session, u64)) {
    within(name, LIMIT, || {
        let session = Session::new();
        for seed in seeds {
            let program = Program::random(seed, 24);
            let expected = program.reference();
            let before = session.active();
            for schedule in 0..each {
                let seed = seed * 1000 + schedule;
                prepare(&session, seed);
                let check = |n: usize, v: &Array, outcome: Result<()>| {
                    outcome.expect("nothing fails here");
                    expect(seed, n, v, &expected);
                };
                let held = program.run(scattered(seed), check).unwrap();
                let mut arrays: Vec<Array> = held.iter().map(|(_, a)| a.clone()).collect();
                if schedule.is_multiple_of(2) {
                    arrays.reverse();
                    async_eval(&arrays).unwrap();
                }
                for (n, v) in &held {
                    expect(seed, *n, v, &expected);
                }
                drop((held, arrays));
                nothing_leaked(&session, &before, "after a program");
            }
        }
    });
}

#[test]
fn a_thousand_random_schedules_give_the_values_of_one_stream() {
    schedules("random schedules", 0..100, 10, |s, seed| {
        s.delay(Duration::from_micros(if seed.is_multiple_of(4) { 0 } else { 200 }), seed);
        s.caching(seed.is_multiple_of(2));
    });
}

#[test]
fn composites_in_place_of_fused_operations_work_on_every_schedule() {
    // The softmax of a composite may round otherwise, so the comparison is with the same composites.
    within("composites", LIMIT, || {
        let session = Session::new();
        session.fallbacks(true);
        for seed in 200..230 {
            let program = Program::random(seed, 24);
            let one = streams()[3];
            let held = program.run(|_| one, |_, _, r| r.unwrap()).unwrap();
            let expected: Vec<Vec<u8>> = held.iter().map(|(_, v)| v.to_bytes().unwrap()).collect();
            session.delay(Duration::from_micros(100), seed);
            let test: Vec<_> = streams().into_iter().skip(3).collect();
            let mut rng = Rng::new(seed);
            let held = program.run(|_| test[rng.below(test.len())], |_, _, r| r.unwrap()).unwrap();
            for ((n, v), e) in held.iter().zip(&expected) {
                assert!(v.to_bytes().unwrap() == *e, "program {seed}: value {n} differs");
            }
        }
    });
}

#[test]
fn narrow_limits_on_fusion_change_nothing() {
    schedules("narrow limits", 300..340, 3, |s, seed| {
        s.limits(Limits { max_inputs: 1 + seed as usize % 3, max_insts: seed as usize % 5 });
    });
}

/// One step of a toy decoder: writes a row of the cache, attends to all rows, gives the next row.
fn step(
    x: &Array,
    cache: &Array,
    at: usize,
    mut place: impl FnMut() -> olivine_core::Stream,
) -> Result<(Array, Array)> {
    let k = place().scope(|| x.sin())?;
    let cache = place().scope(|| cache.slice_update(&k, &[at, 0]))?;
    let scores = place().scope(|| x.matmul(&cache.t()?))?;
    let weights = place().scope(|| scores.softmax(-1))?;
    let mixed = place().scope(|| weights.matmul(&cache))?;
    let next = place().scope(|| mixed.add(x)?.scale(0.7)?.sin())?;
    Ok((next, cache))
}

#[test]
fn a_generation_loop_with_a_cache_mixed_op_by_op_equals_one_stream() {
    within("generation loop", LIMIT, || {
        let session = Session::new();
        let (rows, width, steps) = (64, 16, 60);
        let start: Vec<f32> = (0..width).map(|i| i as f32 / 7.0 - 1.0).collect();
        let generate = |mut place: Box<dyn FnMut() -> olivine_core::Stream>| -> Vec<Vec<f32>> {
            let mut x = Array::from_slice(&start, &[1, width]).unwrap();
            let mut cache = Array::zeros(&[rows, width], olivine_core::Dtype::F32).unwrap();
            let mut out = Vec::new();
            for at in 0..steps {
                let (next, filled) = step(&x, &cache, at, &mut place).unwrap();
                // The next step is sent before the last one's value is read.
                async_eval(&[next.clone(), filled.clone()]).unwrap();
                out.push(x.to_vec::<f32>().unwrap());
                (x, cache) = (next, filled);
            }
            out
        };
        let cpu = streams()[0];
        let expected = generate(Box::new(move || cpu));
        for seed in 0..30 {
            session.delay(Duration::from_micros(100), seed);
            session.caching(seed.is_multiple_of(2));
            let before = session.active();
            let mut scatter = scattered(seed);
            let got = generate(Box::new(move || scatter(0)));
            assert!(got == expected, "schedule {seed}");
            nothing_leaked(&session, &before, "after a generation");
        }
    });
}

#[test]
fn a_replica_is_read_on_every_device_and_given_up_on_each() {
    within("replicas", LIMIT, || {
        let session = Session::new();
        session.caching(false);
        let before = session.active();
        for seed in 0..200 {
            session.delay(Duration::from_micros(50), seed);
            let mut rng = Rng::new(seed);
            let streams = streams();
            let mut pick = || streams[rng.below(streams.len())];
            let x = pick().scope(|| Array::from_slice(&[1f32, 2.0, 3.0], &[3])?.scale(2.0)).unwrap();
            // Read on several devices, while the first reader may not have begun.
            let readers: Vec<Array> =
                (0..6).map(|i| pick().scope(|| x.scale(f64::from(i)).unwrap())).collect();
            async_eval(&readers).unwrap();
            let y = pick().scope(|| x.scale(-1.0)).unwrap();
            // Now `y` is the last to read `x`, and may take over its memory where that is sound.
            drop(x);
            async_eval(std::slice::from_ref(&y)).unwrap();
            let z = pick().scope(|| y.scale(3.0)).unwrap();
            drop(y);
            assert_eq!(z.to_vec::<f32>().unwrap(), [-6.0, -12.0, -18.0]);
            for (i, r) in readers.iter().enumerate() {
                let i = i as f32;
                assert_eq!(
                    r.to_vec::<f32>().unwrap(),
                    [2.0 * i, 4.0 * i, 6.0 * i],
                    "seed {seed}, reader {i}"
                );
            }
        }
        nothing_leaked(&session, &before, "after the replicas");
    });
}
