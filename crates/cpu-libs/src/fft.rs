//! Fourier transforms of rows.
//!
//! A [`Plan`] holds what a length and a direction need; plans are kept and shared. Transforms are not
//! normalized in either direction.

use crate::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftDirection, FftNum, FftPlanner};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

/// Sign of the exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// `exp(-2 pi i k n / len)`.
    Forward,
    /// `exp(2 pi i k n / len)`.
    Inverse,
}

/// Complex to complex.
pub struct Plan<T>(Arc<dyn Fft<T>>);
/// Real to the first half of the complex spectrum, `len / 2 + 1` numbers.
pub struct RealForward<T>(Arc<dyn RealToComplex<T>>);
/// Real to the first half of the complex spectrum for an even length: a complex transform of half the length, over
/// pairs of neighbours, and the factors that take the spectra of even and odd places apart.
pub struct HalfLength<T> {
    plan: Arc<dyn Fft<T>>,
    factors: Arc<[Complex<T>]>,
}
/// From the first half of a spectrum to real numbers.
pub struct RealInverse<T>(Arc<dyn ComplexToReal<T>>);

/// `f32` and `f64`.
pub trait Real: FftNum + Default {
    /// Plan of a length of at least one.
    fn plan(len: usize, direction: Direction) -> Plan<Self>;
    /// Plan of a length of at least one.
    fn real_forward(len: usize) -> RealForward<Self>;
    /// Plan of an even length of at least two.
    fn half_length(len: usize) -> HalfLength<Self>;
    /// Plan of a length of at least one.
    fn real_inverse(len: usize) -> RealInverse<Self>;
}

/// Planners of one type; they keep every plan that they made.
struct Planners<T: FftNum> {
    complex: FftPlanner<T>,
    real: RealFftPlanner<T>,
    factors: HashMap<usize, Arc<[Complex<T>]>>,
    plans: usize,
}

impl<T: FftNum> Planners<T> {
    fn new() -> Self {
        Planners {
            complex: FftPlanner::new(),
            real: RealFftPlanner::new(),
            factors: HashMap::new(),
            plans: 0,
        }
    }

    /// Counts a request; after many, starts anew so that a program with ever new lengths does not grow.
    fn count(&mut self) {
        self.plans += 1;
        if self.plans > MOST_REQUESTS {
            *self = Planners::new();
        }
    }
}

/// Requests for plans after which those that were made are forgotten.
const MOST_REQUESTS: usize = 4096;

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

macro_rules! real {
    ($t:ty, $planners:ident) => {
        static $planners: LazyLock<Mutex<Planners<$t>>> = LazyLock::new(|| Mutex::new(Planners::new()));

        impl Real for $t {
            fn plan(len: usize, direction: Direction) -> Plan<$t> {
                let direction = match direction {
                    Direction::Forward => FftDirection::Forward,
                    Direction::Inverse => FftDirection::Inverse,
                };
                with_planners(&$planners, |p| Plan(p.complex.plan_fft(len, direction)))
            }
            fn real_forward(len: usize) -> RealForward<$t> {
                with_planners(&$planners, |p| RealForward(p.real.plan_fft_forward(len)))
            }
            fn half_length(len: usize) -> HalfLength<$t> {
                let half = (len / 2).max(1);
                with_planners(&$planners, |p| {
                    let plan = p.complex.plan_fft(half, FftDirection::Forward);
                    let factor = |k: usize| {
                        let (sin, cos) = (-std::f64::consts::PI * k as f64 / half as f64).sin_cos();
                        Complex::new(cos as $t, sin as $t)
                    };
                    let make = || (0..=half / 2).map(factor).collect();
                    HalfLength { plan, factors: p.factors.entry(half).or_insert_with(make).clone() }
                })
            }
            fn real_inverse(len: usize) -> RealInverse<$t> {
                with_planners(&$planners, |p| RealInverse(p.real.plan_fft_inverse(len)))
            }
        }
        impl Plan<$t> {
            /// Transforms whole rows of the plan's length in place. A rest shorter than a row stays.
            pub fn run(&self, rows: &mut [Complex<$t>], scratch: &mut Vec<Complex<$t>>) {
                let n = self.0.len().max(1);
                scratch.resize(self.0.get_inplace_scratch_len(), Complex::default());
                let whole = rows.len() / n * n;
                self.0.process_with_scratch(&mut rows[..whole], scratch);
            }
        }
        impl RealForward<$t> {
            /// One row. `x`, of the plan's length, is used up; `y` has `len / 2 + 1` elements. False, without
            /// a result, when the lengths are others.
            pub fn run(&self, x: &mut [$t], y: &mut [Complex<$t>], scratch: &mut Vec<Complex<$t>>) -> bool {
                scratch.resize(self.0.get_scratch_len(), Complex::default());
                self.0.process_with_scratch(x, y, scratch).is_ok()
            }
        }
        impl HalfLength<$t> {
            /// `exp(-2 pi i k / len)` for `k` up to a quarter of the length.
            pub fn factors(&self) -> &[Complex<$t>] {
                &self.factors
            }
            /// The complex transform of half the length, in place.
            pub fn run(&self, pairs: &mut [Complex<$t>], scratch: &mut Vec<Complex<$t>>) {
                scratch.resize(self.plan.get_inplace_scratch_len(), Complex::default());
                self.plan.process_with_scratch(pairs, scratch);
            }
        }
        impl RealInverse<$t> {
            /// One row. `x`, of `len / 2 + 1` elements, is used up; `y` has the plan's length. Imaginary parts
            /// that the spectrum of real numbers cannot have count as zero. False, without a result, when the
            /// lengths are others.
            pub fn run(&self, x: &mut [Complex<$t>], y: &mut [$t], scratch: &mut Vec<Complex<$t>>) -> bool {
                scratch.resize(self.0.get_scratch_len(), Complex::default());
                if let Some(first) = x.first_mut() {
                    first.im = 0.0;
                }
                if y.len() % 2 == 0
                    && let Some(last) = x.last_mut()
                {
                    last.im = 0.0;
                }
                self.0.process_with_scratch(x, y, scratch).is_ok()
            }
        }
    };
}

fn with_planners<T: FftNum, R>(planners: &Mutex<Planners<T>>, f: impl FnOnce(&mut Planners<T>) -> R) -> R {
    let mut p = lock(planners);
    p.count();
    f(&mut p)
}

real!(f32, SINGLE);
real!(f64, DOUBLE);

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(x: &[Complex<f64>], sign: f64) -> Vec<Complex<f64>> {
        let n = x.len();
        (0..n)
            .map(|k| {
                let turn = |j: usize| {
                    let angle = sign * 2.0 * std::f64::consts::PI * ((k * j) % n) as f64 / n as f64;
                    Complex::new(angle.cos(), angle.sin())
                };
                x.iter().enumerate().map(|(j, &v)| v * turn(j)).sum()
            })
            .collect()
    }

    fn signal(n: usize) -> Vec<Complex<f64>> {
        (0..n).map(|i| Complex::new((i as f64 * 0.7).sin(), (i as f64 * 1.3 + 0.2).cos())).collect()
    }

    #[test]
    fn lengths_of_every_kind_follow_the_definition() {
        for n in [1, 2, 3, 4, 5, 7, 8, 12, 17, 31, 64, 97, 100, 127, 1009] {
            let x = signal(n);
            for (direction, sign) in [(Direction::Forward, -1.0), (Direction::Inverse, 1.0)] {
                let mut y = [x.clone(), x.clone()].concat();
                f64::plan(n, direction).run(&mut y, &mut Vec::new());
                let want = direct(&x, sign);
                for (i, v) in y.iter().enumerate() {
                    assert!((v - want[i % n]).norm() < 1e-12 * n as f64, "{n} {direction:?}");
                }
            }
        }
    }

    #[test]
    fn real_transforms_are_halves_of_complex_ones() {
        for n in [1, 2, 3, 6, 7, 15, 16, 101] {
            let x: Vec<f64> = signal(n).iter().map(|z| z.re).collect();
            let full = direct(&x.iter().map(|&r| Complex::new(r, 0.0)).collect::<Vec<_>>(), -1.0);
            let mut y = vec![Complex::default(); n / 2 + 1];
            assert!(f64::real_forward(n).run(&mut x.clone(), &mut y, &mut Vec::new()));
            for (a, b) in y.iter().zip(&full) {
                assert!((a - b).norm() < 1e-12 * n as f64);
            }
            let mut back = vec![0.0; n];
            // An imaginary part where none can be.
            y[0].im += 5.0;
            assert!(f64::real_inverse(n).run(&mut y, &mut back, &mut Vec::new()));
            for (a, b) in back.iter().zip(&x) {
                assert!((a / n as f64 - b).abs() < 1e-13);
            }
            assert!(!f64::real_inverse(n).run(&mut [], &mut back, &mut Vec::new()));
        }
    }
}
