//! Language models whose operations are spread over devices.

mod common;

use common::{LIMIT, nothing_leaked, scattered};
use olivine_core::{Array, Device, Stream, set_default_device};
use olivine_lm::{GenerateOptions, Loaded, generate, load};
use olivine_testdev::{Session, device, within};
use std::path::PathBuf;
use std::time::Duration;

const MODELS: [&str; 2] = ["tiny_llama", "tiny_gemma3"];

fn open(name: &str) -> Loaded {
    load(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../lm/tests/data").join(name)).unwrap()
}

fn prompt() -> Vec<u32> {
    (0..30).map(|i| 6 + (i * 37) % 300).collect()
}

/// The tokens of a generation, and the error that ended it.
fn tokens(loaded: &Loaded, n: usize) -> (Vec<u32>, Option<olivine_core::Error>) {
    // Several chunks, so that the caches are written in more than one way.
    let options =
        GenerateOptions { max_tokens: n, ignore_eos: true, prefill_chunk: 13, ..Default::default() };
    let steps = match generate(&*loaded.model, &loaded.tokenizer, &prompt(), options) {
        Ok(steps) => steps,
        Err(e) => return (Vec::new(), Some(e)),
    };
    let mut out = Vec::new();
    for s in steps {
        match s {
            Ok(s) => out.push(s.token),
            Err(e) => return (out, Some(e)),
        }
    }
    (out, None)
}

fn logits(loaded: &Loaded) -> Vec<f32> {
    let ids = prompt();
    let row = Array::from_slice(&ids, &[1, ids.len()]).unwrap();
    loaded.model.forward(&row, &mut loaded.model.caches()).unwrap().to_vec().unwrap()
}

/// Operations go to a device while this lives.
struct DefaultDevice;

impl DefaultDevice {
    fn set(device: Device) -> DefaultDevice {
        set_default_device(device).unwrap();
        DefaultDevice
    }
}

impl Drop for DefaultDevice {
    fn drop(&mut self) {
        set_default_device(Device::CPU).unwrap();
    }
}

/// Runs `f` with every operation on a random stream.
fn moving_about<T>(seed: u64, f: impl FnOnce() -> T) -> T {
    let mut next = scattered(seed);
    Stream::scatter(move || next(0), f)
}

#[test]
fn a_model_on_the_second_device_generates_what_it_does_on_the_cpu() {
    within("generation on the device", LIMIT, || {
        let session = Session::new();
        for name in MODELS {
            let loaded = open(name);
            let (expected, none) = tokens(&loaded, 24);
            assert!(none.is_none() && expected.len() == 24, "{none:?}");
            let on_cpu = logits(&loaded);
            let was = session.tasks();
            let _device = DefaultDevice::set(device(1));
            session.delay(Duration::from_micros(20), 1);
            assert_eq!(tokens(&loaded, 24).0, expected, "{name}");
            assert!(session.tasks() > was + 1000, "{} tasks on the device", session.tasks() - was);
            // Norms, rotations and attention from simpler operations round otherwise.
            session.fallbacks(true);
            let composite = logits(&loaded);
            session.fallbacks(false);
            let worst = on_cpu.iter().zip(&composite).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-4, "{name}: composites differ by {worst}");
        }
    });
}

#[test]
fn a_model_spread_over_devices_op_by_op_generates_what_it_does_on_the_cpu() {
    within("scattered generation", LIMIT, || {
        let session = Session::new();
        for name in MODELS {
            let loaded = open(name);
            let (expected, _) = tokens(&loaded, 24);
            let on_cpu = logits(&loaded);
            session.settle(&common::streams());
            for seed in 0..12 {
                session.delay(Duration::from_micros(if seed == 0 { 0 } else { 30 }), seed);
                session.caching(seed.is_multiple_of(2));
                let was = session.tasks();
                let (got, scattered) = moving_about(seed, || (tokens(&loaded, 24), logits(&loaded)));
                assert!(got.1.is_none(), "{:?}", got.1);
                assert_eq!(got.0, expected, "{name}, schedule {seed}");
                assert!(scattered == on_cpu, "{name}, schedule {seed}: logits differ");
                assert!(session.tasks() > was + 500, "{} tasks on devices", session.tasks() - was);
            }
        }
    });
}

#[test]
fn failures_in_the_middle_of_a_generation_end_it_with_an_error_and_the_next_one_is_right() {
    within("failing generation", LIMIT, || {
        let session = Session::new();
        let loaded = open("tiny_llama");
        let (expected, _) = tokens(&loaded, 12);
        // What the model keeps on the devices is there before memory is compared.
        for d in 0..3 {
            let _device = DefaultDevice::set(device(d));
            assert_eq!(tokens(&loaded, 12).0, expected);
        }
        session.settle(&common::streams());
        let before = session.active();
        let mut failures = 0;
        for seed in 0..12 {
            session.fail_randomly(0.01, seed);
            let (got, error) = moving_about(seed, || tokens(&loaded, 12));
            assert!(expected.starts_with(&got), "seed {seed}: {got:?} is no beginning of {expected:?}");
            match &error {
                Some(e) => assert!(e.to_string().contains("injected failure"), "{e}"),
                None => assert_eq!(got, expected),
            }
            failures += usize::from(error.is_some());
            session.heal();
            session.settle(&common::streams());
            let (again, error) = moving_about(seed, || tokens(&loaded, 12));
            assert!(error.is_none() && again == expected, "seed {seed}: {error:?}");
            nothing_leaked(&session, &before, "after a failed generation");
        }
        assert!(failures >= 3, "{failures}");
    });
}
