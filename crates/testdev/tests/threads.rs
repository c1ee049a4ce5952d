//! Several threads, full queues, and large graphs.

mod common;

use common::{LIMIT, Program, Rng, nothing_leaked, scattered, streams};
use olivine_core::alloc::stats;
use olivine_core::backend::Limits;
use olivine_core::op::{Meta, Source};
use olivine_core::{Array, Device, Dtype, Result, Shape, async_eval, eval};
use olivine_testdev::{Session, within};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

#[test]
fn eight_threads_that_evaluate_overlapping_graphs_finish_with_right_values() {
    within("eight threads", LIMIT, || {
        let session = Session::new();
        for seed in 0..60u64 {
            let program = Program::random(seed, 40);
            let expected = program.reference();
            let before = session.active();
            session.delay(Duration::from_micros(if seed.is_multiple_of(2) { 0 } else { 50 }), seed);
            // On one stream of the CPU every thread may become the one that executes.
            let mut scatter = scattered(seed);
            let cpu = streams()[0];
            let mut values = program.begin().unwrap();
            for (i, s) in program.steps.iter().enumerate() {
                let place = if seed.is_multiple_of(3) { cpu } else { scatter(i) };
                values.push(place.scope(|| common::apply(s, &values[s.a], &values[s.b])).unwrap());
            }
            let barrier = Barrier::new(8);
            std::thread::scope(|scope| {
                for t in 0..8u64 {
                    let (values, expected, barrier) = (values.clone(), &expected, &barrier);
                    scope.spawn(move || {
                        let mut rng = Rng::new(seed * 8 + t);
                        barrier.wait();
                        for _ in 0..12 {
                            let n = rng.below(values.len());
                            match rng.below(3) {
                                0 => async_eval(&values[n..]).unwrap(),
                                1 => eval(&values[..n]).unwrap(),
                                _ => {
                                    assert!(values[n].to_bytes().unwrap() == expected[n], "seed {seed}, {n}")
                                }
                            }
                        }
                        for (n, v) in values.iter().enumerate() {
                            assert!(v.to_bytes().unwrap() == expected[n], "seed {seed}, value {n}");
                        }
                    });
                }
            });
            drop(values);
            nothing_leaked(&session, &before, "after eight threads");
        }
    });
}

#[test]
fn threads_that_meet_inside_a_fused_chain_do_not_wait_for_each_other_for_ever() {
    within("fused chains", LIMIT, || {
        let session = Session::new();
        let streams = streams();
        for round in 0..3000usize {
            let place = streams[round % 4];
            let ends = place.scope(|| {
                let x = Array::from_slice(&[0.5f32; 16], &[16]).unwrap();
                // Only the last link is held, so a thread may plan to compute all of them in one pass while
                // another one has taken some for itself.
                let mut chain = x;
                for _ in 0..12 {
                    chain = chain.add(&chain.sin().unwrap()).unwrap();
                }
                vec![chain.cos().unwrap(), chain.negative().unwrap(), chain]
            });
            let barrier = Barrier::new(3);
            let got: Vec<Vec<f32>> = std::thread::scope(|scope| {
                let threads: Vec<_> = ends
                    .into_iter()
                    .map(|a| {
                        let barrier = &barrier;
                        scope.spawn(move || {
                            barrier.wait();
                            a.to_vec::<f32>().unwrap()
                        })
                    })
                    .collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            let [cos, negative, chain] = [0, 1, 2].map(|k| &got[k]);
            for ((c, n), x) in cos.iter().zip(negative).zip(chain) {
                assert!((c - x.cos()).abs() < 1e-5 && *n == -x, "round {round}: {c} {n} {x}");
            }
        }
        drop(session);
    });
}

#[test]
fn an_array_made_in_one_thread_evaluates_in_another() {
    within("other thread", LIMIT, || {
        let _session = Session::new();
        let s = streams()[3];
        let a = std::thread::spawn(move || s.scope(|| Array::arange(0.0, 5.0, 1.0, Dtype::F32)?.exp()));
        let a = a.join().unwrap().unwrap();
        let sum = std::thread::spawn(move || a.to_vec::<f32>().unwrap().len()).join().unwrap();
        assert_eq!(sum, 5);
    });
}

/// Data that is there when somebody says so.
struct Gate(Mutex<Receiver<()>>);

impl Gate {
    fn closed() -> (Sender<()>, Array) {
        let (open, gate) = channel();
        let a = Array::load(Arc::new(Gate(Mutex::new(gate)))).unwrap().remove(0);
        (open, a)
    }
}

impl Source for Gate {
    fn describe(&self) -> String {
        "a gate".into()
    }
    fn metas(&self) -> olivine_core::op::Metas {
        olivine_core::op::Metas::from_iter([Meta::new(Shape::new(&[4]), Dtype::F32)])
    }
    fn read(&self, outputs: &mut [&mut [u8]]) -> Result<()> {
        self.0.lock().unwrap().recv().unwrap();
        outputs[0].fill(0);
        Ok(())
    }
}

#[test]
fn a_full_queue_holds_the_sender_back_until_there_is_room() {
    within("back-pressure", LIMIT, || {
        let session = Session::new();
        // Every operation is a task of its own.
        session.limits(Limits { max_inputs: 0, max_insts: 0 });
        let before = session.active();
        let place = streams()[3];
        let (open, gate) = Gate::closed();
        async_eval(std::slice::from_ref(&gate)).unwrap();
        let (tell, told) = channel();
        let sender = std::thread::spawn(move || {
            place.scope(|| {
                let mut x = gate;
                for i in 0..12_000 {
                    x = x.scale(1.0).unwrap().negative().unwrap();
                    if i % 100 == 99 {
                        async_eval(std::slice::from_ref(&x)).unwrap();
                        tell.send(i).unwrap();
                    }
                }
                x
            })
        });
        // The sender stops by itself, long before its end, while nothing can run.
        let mut last = 0;
        while let Ok(i) = told.recv_timeout(Duration::from_secs(2)) {
            last = i;
        }
        assert!(last > 500 && last < 6000, "{last} operations were sent");
        open.send(()).unwrap();
        assert_eq!(sender.join().unwrap().to_vec::<f32>().unwrap(), [0.0; 4]);
        drop(told);
        nothing_leaked(&session, &before, "after back-pressure");
    });
}

/// Runs on a stack of 2 MiB, as a thread of most programs has.
fn on_small_stack(f: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(f).unwrap().join().unwrap();
}

#[test]
fn a_chain_of_a_million_nodes_is_built_evaluated_and_dropped() {
    within("a million nodes", LIMIT, || {
        let _session = Session::new();
        on_small_stack(|| {
            let one = Array::full(&[2], 1f32).unwrap();
            one.eval().unwrap();
            let chain = |n: usize| {
                let mut x = Array::from_slice(&[0f32, 0.5], &[2]).unwrap();
                for _ in 0..n {
                    x = x.add(&one).unwrap();
                }
                x
            };
            let x = chain(1_000_000);
            assert_eq!(x.to_vec::<f32>().unwrap(), [1e6, 1_000_000.5]);
            drop(x);
            drop(chain(1_000_000));
        });
    });
}

#[test]
fn a_ladder_of_two_million_splits_and_joins_is_built_evaluated_and_dropped() {
    within("the ladder", LIMIT, || {
        let _session = Session::new();
        on_small_stack(|| {
            let ladder = |rungs: usize| {
                let mut x = Array::from_slice(&[1f32, 2.0], &[2]).unwrap();
                for _ in 0..rungs {
                    let parts = x.split(2, 0).unwrap();
                    x = Array::concatenate(&[parts[1].clone(), parts[0].clone()], 0).unwrap();
                }
                x
            };
            assert_eq!(ladder(1_000_000).to_vec::<f32>().unwrap(), [1.0, 2.0]);
            drop(ladder(1_000_000));
        });
    });
}

/// Memory of this process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|v| v.parse::<usize>().ok()).unwrap_or(0) * 4096
}

#[test]
fn memory_is_flat_over_ten_thousand_steps() {
    within("flat memory", LIMIT, || {
        let session = Session::new();
        for place in [streams()[0], streams()[3]] {
            let before = session.active();
            let mut x = Array::from_slice(&vec![1f32; 4096], &[4096]).unwrap();
            let mut at_start = (0, 0, 0);
            for i in 0..10_000 {
                x = place.scope(|| x.scale(0.5)?.add(&x.sin()?)?.scale(0.3)).unwrap();
                x.eval().unwrap();
                if i == 1000 {
                    let s = stats(place.device);
                    at_start = (s.active, s.cache, resident());
                }
            }
            let s = stats(place.device);
            assert_eq!((s.active, s.cache), (at_start.0, at_start.1), "{place}");
            assert!(resident() <= at_start.2 + (4 << 20), "{place}: {} grew to {}", at_start.2, resident());
            drop(x);
            nothing_leaked(&session, &before, "after many steps");
        }
        assert!(stats(Device::CPU).peak > 0);
    });
}
