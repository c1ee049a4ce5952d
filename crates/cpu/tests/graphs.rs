//! Evaluation of graphs that are long, wide, shared between threads, or wrong.

use olivine_core::{Array, Device, Dtype, Error, Result, Stream, alloc, async_eval};
use std::sync::{Mutex, MutexGuard};

/// Memory counters belong to the process, so one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn cpu() -> MutexGuard<'static, ()> {
    olivine_cpu::register();
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

#[test]
fn a_million_additions_evaluate_and_drop() -> Result<()> {
    let _alone = cpu();
    let one = Array::from_slice(&[1.0f32; 4], &[4])?;
    let mut x = Array::from_slice(&[0.0f32; 4], &[4])?;
    for _ in 0..1_000_000 {
        x = x.add(&one)?;
    }
    let unused = x.add(&one)?;
    assert_eq!(x.to_vec::<f32>()?, [1e6; 4]);
    drop(unused);
    let mut y = one.clone();
    for _ in 0..1_000_000 {
        y = y.add(&one)?;
    }
    drop(y);
    Ok(())
}

#[test]
fn every_node_of_a_chain_may_be_held() -> Result<()> {
    let _alone = cpu();
    let one = Array::from_slice(&[1i32; 16], &[16])?;
    let mut all = vec![one.clone()];
    for i in 0..10_000 {
        all.push(all[i].add(&one)?);
    }
    assert_eq!(all[10_000].to_vec::<i32>()?, [10_001; 16]);
    // What was computed on the way is there, and was not overwritten.
    for (i, a) in all.iter().enumerate().step_by(997) {
        assert_eq!(a.to_vec::<i32>()?, [i as i32 + 1; 16]);
    }
    Ok(())
}

#[test]
fn memory_is_taken_over_but_never_from_a_holder() -> Result<()> {
    let _alone = cpu();
    let n = 1 << 20;
    let held = Array::full(&[n], 1.0f32)?.add(&Array::arange(0.0, n as f64, 1.0, Dtype::F32)?)?;
    held.eval()?;
    let before = alloc::stats(Device::CPU);
    alloc::reset_peak(Device::CPU);
    let mut x = held.multiply(&Array::from_scalar(2.0f32))?;
    for _ in 0..50 {
        x.eval()?;
        x = x.add(&Array::from_scalar(1.0f32))?;
    }
    x.eval()?;
    let after = alloc::stats(Device::CPU);
    // One new array: every step writes over the one before.
    assert!(after.peak - before.active <= n * 4 + (1 << 16), "{before:?} {after:?}");
    assert_eq!(x.to_vec::<f32>()?[7], 8.0 * 2.0 + 50.0);
    assert_eq!(held.to_vec::<f32>()?[7], 8.0);
    // A view of the argument holds its buffer too.
    let a = Array::arange(0.0, n as f64, 1.0, Dtype::F32)?;
    a.eval()?;
    let tail = a.slice_axis(0, n - 2, n)?;
    tail.eval()?;
    let b = a.negative()?;
    drop(a);
    assert_eq!(b.to_vec::<f32>()?[n - 1], -((n - 1) as f32));
    assert_eq!(tail.to_vec::<f32>()?, [(n - 2) as f32, (n - 1) as f32]);
    Ok(())
}

#[test]
fn memory_stays_flat_over_many_steps() -> Result<()> {
    let _alone = cpu();
    let mut state = Array::from_slice(&vec![0.5f32; 4096], &[64, 64])?;
    let mut level = 0;
    for step in 0..10_000 {
        let t = state.t()?.multiply(&Array::from_scalar(0.25f32))?;
        state = state.multiply(&Array::from_scalar(0.5f32))?.add(&t)?.add(&Array::from_scalar(0.1f32))?;
        if step % 10 == 0 {
            state.eval()?;
        }
        if step == 1000 {
            level = alloc::stats(Device::CPU).active + alloc::stats(Device::CPU).cache;
        }
    }
    state.eval()?;
    let now = alloc::stats(Device::CPU);
    assert!(now.active + now.cache <= level + (1 << 20), "{level} then, {now:?} now");
    Ok(())
}

#[test]
fn threads_may_evaluate_overlapping_graphs() -> Result<()> {
    let _alone = cpu();
    for round in 0..20 {
        let base = Array::arange(0.0, 1000.0, 1.0, Dtype::F32)?;
        let mut shared = vec![base];
        for i in 0..200 {
            let (a, b) = (&shared[i], &shared[i / 2]);
            shared.push(a.add(b)?.multiply(&Array::from_scalar(0.5f32))?);
        }
        let want: f32 = {
            // The same recurrence on one number.
            let mut v = vec![3.0f32];
            for i in 0..200 {
                v.push((v[i] + v[i / 2]) * 0.5);
            }
            v[200]
        };
        std::thread::scope(|s| {
            for t in 0..8 {
                let shared = &shared;
                s.spawn(move || {
                    let at = 200 - (t * 7 + round) % 60;
                    shared[at].eval().unwrap();
                    assert_eq!(shared[200].to_vec::<f32>().unwrap()[3], want);
                });
            }
        });
    }
    Ok(())
}

#[test]
fn an_array_of_one_thread_evaluates_in_another() -> Result<()> {
    let _alone = cpu();
    let a = std::thread::spawn(|| Array::arange(0.0, 100.0, 1.0, Dtype::I32).and_then(|x| x.square()))
        .join()
        .expect("thread")?;
    assert_eq!(a.to_vec::<i32>()?[9], 81);
    Ok(())
}

#[test]
fn streams_depend_on_each_other() -> Result<()> {
    let _alone = cpu();
    let (s, t) = (Stream::new(Device::CPU)?, Stream::new(Device::CPU)?);
    for _ in 0..200 {
        let a = s.scope(|| Array::arange(0.0, 5000.0, 1.0, Dtype::F32)?.add(&Array::from_scalar(1.0f32)))?;
        let b = t.scope(|| a.multiply(&a))?;
        let c = s.scope(|| b.subtract(&a))?;
        let d = c.add(&b)?;
        async_eval(std::slice::from_ref(&d))?;
        drop((a, b, c));
        assert_eq!(d.to_vec::<f32>()?[2], 9.0 - 3.0 + 9.0);
    }
    Ok(())
}

#[test]
fn a_ladder_of_splits_and_joins() -> Result<()> {
    let _alone = cpu();
    let mut x = Array::arange(0.0, 64.0, 1.0, Dtype::F32)?;
    for _ in 0..100 {
        let parts = x.split(4, 0)?;
        let turned: Vec<Array> = parts.iter().rev().cloned().collect();
        x = Array::concatenate(&turned, 0)?;
    }
    assert_eq!(x.to_vec::<f32>()?, (0..64).map(|i| i as f32).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn an_index_out_of_range_is_an_error_and_nothing_more() -> Result<()> {
    let _alone = cpu();
    let x = Array::arange(0.0, 10.0, 1.0, Dtype::F32)?;
    for bad in [10, -11, i32::MAX, i32::MIN] {
        let i = Array::from_slice(&[0, bad], &[2])?;
        let y = x.take(&i, 0)?;
        let after = y.add(&y)?;
        let e = after.eval().unwrap_err();
        assert!(matches!(e, Error::Index { .. }), "{e}");
        assert!(after.to_vec::<f32>().is_err());
        let good = x.take(&Array::from_slice(&[9, -10], &[2])?, 0)?;
        assert_eq!(good.to_vec::<f32>()?, [9.0, 0.0]);
    }
    Ok(())
}

#[test]
fn the_memory_limit_is_an_error() -> Result<()> {
    let _alone = cpu();
    let used = alloc::stats(Device::CPU);
    let old = alloc::set_limit(Device::CPU, used.active + (1 << 20));
    let big = Array::arange(0.0, 1e6, 1.0, Dtype::F32)?;
    let outcome = big.eval();
    alloc::set_limit(Device::CPU, old);
    assert!(matches!(outcome, Err(Error::OutOfMemory { .. })), "{outcome:?}");
    assert_eq!(big.to_vec::<f32>()?[999_999], 999_999.0);
    // More than the machine has.
    let absurd = Array::zeros(&[1 << 45], Dtype::F32)?.add(&Array::arange(0.0, 1.0, 1.0, Dtype::F32)?)?;
    assert!(matches!(absurd.eval(), Err(Error::OutOfMemory { .. })));
    Ok(())
}
