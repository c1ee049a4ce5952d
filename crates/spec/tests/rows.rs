//! Every kind of operation has a row, and every row holds on the CPU and on a second device.

use olivine_core::backend::Limits;
use olivine_core::{Device, Stream};
use olivine_spec::check::{Plan, run};
use olivine_spec::rows::{WITHOUT_ROW, keys, rows};
use olivine_testdev::{Session, device};
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn every_kind_of_operation_has_a_row() {
    let have: BTreeSet<&str> = rows().iter().map(|r| r.key).collect();
    assert_eq!(have.len(), rows().len(), "a kind has two rows");
    let without = |k: &str| WITHOUT_ROW.iter().any(|(n, _)| *n == k);
    let missing: Vec<&str> = keys().into_iter().filter(|k| !have.contains(k) && !without(k)).collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
    for r in rows() {
        assert!(keys().contains(&r.key), "{} is no kind of operation", r.key);
        assert!(!r.dtypes.is_empty(), "{} is tested with no type", r.key);
    }
}

/// Runs a plan and shows the first failures of every row.
fn holds(plan: &Plan) {
    let mut shown: Vec<String> = Vec::new();
    let mut last = ("", 0);
    let summary = run(plan, |f| {
        last = if last.0 == f.key { (f.key, last.1 + 1) } else { (f.key, 1) };
        if last.1 <= 2 {
            shown.push(f.to_string());
        }
    });
    assert!(summary.passed > 1000, "only {summary}");
    assert!(summary.failed == 0, "{summary}\n{}", shown.join("\n"));
}

#[test]
fn rows_hold_on_the_cpu() {
    olivine_cpu::register();
    holds(&Plan { ..Plan::new(Device::CPU) });
}

#[test]
fn every_kind_is_differentiated_batched_and_compiled() {
    olivine_cpu::register();
    let mut shown: Vec<String> = Vec::new();
    let (passed, failed) = olivine_spec::derive::run(Device::CPU, None, 0, |f| shown.push(f.to_string()));
    assert!(passed > 200, "only {passed} passed");
    assert!(failed == 0, "{passed} passed, {failed} failed\n{}", shown.join("\n"));
    for (key, _) in olivine_spec::derive::WITHOUT_DIFFERENCES {
        assert!(keys().contains(key), "{key} is no kind of operation");
    }
}

#[test]
fn rows_hold_on_a_second_device() {
    let session = Session::new();
    session.delay(Duration::from_micros(20), 1);
    holds(&Plan { seed: 1, ..Plan::new(device(0)) });
    session.settle(&[Stream::default_of(device(0))]);
}

#[test]
fn rows_hold_on_a_device_that_lacks_fused_operations() {
    let session = Session::new();
    session.fallbacks(true);
    session.limits(Limits { max_inputs: 2, max_insts: 2 });
    holds(&Plan { seed: 2, ..Plan::new(device(1)) });
    session.settle(&[Stream::default_of(device(1))]);
}

/// `OLIVINE_RANDOM_PROGRAMS` sets how many.
#[test]
fn random_programs_agree_under_all_transforms() {
    olivine_cpu::register();
    let count = std::env::var("OLIVINE_RANDOM_PROGRAMS").ok().and_then(|s| s.parse().ok()).unwrap_or(150);
    let mut shown: Vec<String> = Vec::new();
    let (passed, failed) = olivine_spec::programs::run(Device::CPU, count, 0, |f| shown.push(f.to_string()));
    assert!(failed == 0, "{passed} passed, {failed} failed\n{}", shown[..shown.len().min(20)].join("\n"));
}
