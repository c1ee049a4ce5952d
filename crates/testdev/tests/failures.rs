//! Whatever fails is an error at `eval`, never a wrong value; and everything works again afterwards.

mod common;

use common::{LIMIT, Program, Rng, nothing_leaked, scattered, streams};
use olivine_core::alloc::{set_limit, stats};
use olivine_core::{Array, Device, Error, async_eval};
use olivine_testdev::{Session, within};
use std::time::Duration;

/// Every value is right or an error; gives the number of errors.
fn right_or_failed(program: &Program, expected: &[Vec<u8>], seed: u64, known: fn(&Error) -> bool) -> usize {
    let mut errors = 0;
    let mut judge = |n: usize, value: olivine_core::Result<Vec<u8>>| match value {
        Ok(v) => assert!(v == expected[n], "seed {seed}: value {n} is wrong instead of an error"),
        Err(e) => {
            assert!(known(&e), "seed {seed}: value {n}: {e}");
            errors += 1;
        }
    };
    let held = program.run(scattered(seed), |n, v, r| judge(n, r.and_then(|()| v.to_bytes()))).unwrap();
    for (n, v) in &held {
        judge(*n, v.to_bytes());
        // Once more: a failed value stays failed, and a right one right.
        judge(*n, v.to_bytes());
    }
    errors
}

fn injected(e: &Error) -> bool {
    e.to_string().contains("injected failure")
}

#[test]
fn random_failures_are_errors_and_never_wrong_values() {
    within("random failures", LIMIT, || {
        let session = Session::new();
        let (mut runs_with_failures, mut errors) = (0, 0);
        for seed in 0..300 {
            let program = Program::random(1000 + seed, 24);
            let expected = program.reference();
            let before = session.active();
            session.delay(Duration::from_micros(if seed.is_multiple_of(3) { 0 } else { 100 }), seed);
            session.caching(seed.is_multiple_of(2));
            session.fail_randomly(0.01 + 0.01 * (seed % 5) as f64, seed);
            let (was, failed) = (session.injected(), right_or_failed(&program, &expected, seed, injected));
            runs_with_failures += usize::from(session.injected() > was);
            errors += failed;
            session.heal();
            session.settle(&streams());
            assert_eq!(right_or_failed(&program, &expected, seed, |_| false), 0, "all is well again");
            nothing_leaked(&session, &before, "after failures");
        }
        assert!(runs_with_failures > 50 && errors > 50, "{runs_with_failures} runs, {errors} errors");
    });
}

#[test]
fn every_single_task_that_fails_surfaces() {
    within("every task", LIMIT, || {
        let session = Session::new();
        let program = Program::random(77, 16);
        let expected = program.reference();
        let before = session.active();
        let mut n = 0;
        loop {
            session.fail_task(n);
            let was = session.injected();
            let held = program.run(scattered(5), |_, _, _| {}).unwrap();
            let values: Vec<_> = held.iter().map(|(n, v)| (*n, v.to_bytes())).collect();
            let hit = session.injected() > was;
            for (n, v) in &values {
                assert!(v.as_ref().map_or_else(injected, |v| *v == expected[*n]));
            }
            drop((held, values));
            session.heal();
            nothing_leaked(&session, &before, "after a failed task");
            if !hit {
                break;
            }
            n += 1;
        }
        assert!(n > 10, "{n} tasks");
    });
}

#[test]
fn memory_that_runs_out_at_any_request_is_an_error_and_the_same_arrays_evaluate_later() {
    within("out of memory", LIMIT, || {
        let session = Session::new();
        session.caching(false);
        let mut hits = 0;
        for seed in [3, 4, 5, 6] {
            let program = Program::random(seed, 16);
            let expected = program.reference();
            let before = session.active();
            for n in 0u64.. {
                session.delay(Duration::from_micros(if n.is_multiple_of(2) { 0 } else { 50 }), n);
                session.full_from(n);
                let was = session.injected();
                let held = program.run(scattered(seed), |_, _, _| {}).unwrap();
                for (step, v) in &held {
                    match v.to_bytes() {
                        Ok(v) => assert!(v == expected[*step]),
                        Err(e) => assert!(matches!(e, Error::OutOfMemory { .. }), "{e}"),
                    }
                }
                session.heal();
                for (step, v) in &held {
                    assert!(v.to_bytes().unwrap() == expected[*step], "request {n}, value {step}");
                }
                drop(held);
                nothing_leaked(&session, &before, "after running out of memory");
                if session.injected() == was {
                    break;
                }
                hits += 1;
            }
        }
        assert!(hits > 20, "{hits}");
    });
}

#[test]
fn the_limit_of_host_memory_is_an_error_and_the_same_arrays_evaluate_later() {
    within("host limit", LIMIT, || {
        let session = Session::new();
        session.caching(false);
        let program = Program::random(9, 20);
        let expected = program.reference();
        let before = session.active();
        let (mut failed, mut enough) = (0, false);
        for k in 0..200 {
            let held = program.run(scattered(2), |_, _, _| {});
            let held = held.unwrap();
            let limit = set_limit(Device::CPU, stats(Device::CPU).active + k * 64);
            let values: Vec<_> = held.iter().map(|(n, v)| (*n, v.to_bytes())).collect();
            set_limit(Device::CPU, limit);
            enough = true;
            for (n, v) in values {
                match v {
                    Ok(v) => assert!(v == expected[n]),
                    Err(e) => {
                        assert!(matches!(e, Error::OutOfMemory { .. }), "{e}");
                        (failed, enough) = (failed + 1, false);
                    }
                }
            }
            for (n, v) in &held {
                assert!(v.to_bytes().unwrap() == expected[*n], "limit {k}, value {n}");
            }
            drop(held);
            nothing_leaked(&session, &before, "after the limit");
            if enough {
                break;
            }
        }
        assert!(failed > 0 && enough, "{failed} {enough}");
    });
}

#[test]
fn an_error_travels_through_streams_of_other_devices() {
    within("travelling errors", LIMIT, || {
        let session = Session::new();
        let streams = streams();
        let before = session.active();
        for (i, &first) in streams.iter().enumerate().skip(3) {
            for seed in 0..8 {
                session.delay(Duration::from_micros(80), seed);
                let mut rng = Rng::new(seed * 100 + i as u64);
                let x = first.scope(|| Array::from_slice(&[1f32, 2.0], &[2]).unwrap().sin()).unwrap();
                session.fail_op("fused", 0);
                async_eval(std::slice::from_ref(&x)).unwrap();
                let mut y = x;
                for _ in 0..5 {
                    let place = streams[rng.below(streams.len())];
                    y = place.scope(|| y.exp()).unwrap();
                    if rng.chance(50) {
                        // Refused already when the failure is known by now.
                        let _ = async_eval(std::slice::from_ref(&y));
                    }
                }
                let e = y.eval().expect_err("it depends on what failed");
                assert!(injected(&e), "{e}");
                assert!(y.eval().is_err(), "and stays so");
                session.heal();
                session.settle(&streams);
                for &s in &streams {
                    let a = s.scope(|| Array::from_slice(&[4f32], &[1]).unwrap().sqrt()).unwrap();
                    assert_eq!(a.to_vec::<f32>().unwrap(), [2.0], "{s} works again");
                }
            }
        }
        nothing_leaked(&session, &before, "after travelling errors");
    });
}

#[test]
fn a_copy_that_failed_is_made_anew() {
    within("failed copies", LIMIT, || {
        let session = Session::new();
        session.caching(false);
        let streams = streams();
        let before = session.active();
        let x = streams[0].scope(|| Array::from_slice(&[1f32, 2.0], &[2]).unwrap().scale(1.0)).unwrap();
        x.eval().unwrap();
        session.fail_op("upload", 0);
        let y = streams[3].scope(|| x.scale(2.0)).unwrap();
        assert!(injected(&y.eval().unwrap_err()));
        // Another value of the same array on the same device.
        let z = streams[3].scope(|| x.scale(3.0)).unwrap();
        assert_eq!(z.to_vec::<f32>().unwrap(), [3.0, 6.0]);
        session.fail_op("download", 0);
        let w = streams[5].scope(|| x.scale(4.0)).unwrap();
        w.eval().unwrap();
        assert!(injected(&w.to_vec::<f32>().unwrap_err()));
        assert_eq!(w.to_vec::<f32>().unwrap(), [4.0, 8.0]);
        drop((x, y, z, w));
        nothing_leaked(&session, &before, "after failed copies");
    });
}
