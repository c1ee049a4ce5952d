//! Arguments for tests, made up from a seed.

use crate::host::{Cx, Data, Host, each, limits, place, round_to, strides};
use olivine_core::{Array, Dtype, Kind, Result};

/// A reproducible stream of random numbers (splitmix64; Steele, Lea and Flood 2014).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }
    /// The stream of several numbers together.
    pub fn of(parts: &[u64]) -> Rng {
        let mut r = Rng(0x006f_6c69_7669_6e65);
        for &p in parts {
            r.0 ^= p;
            r.bits();
        }
        r
    }
    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    /// An integer below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }
    /// An integer of `low..=high`.
    pub fn within(&mut self, low: i64, high: i64) -> i64 {
        low + (self.bits() % ((high - low) as u64 + 1)) as i64
    }
    /// True with this probability, in percent.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
    /// A float of `0..1`.
    pub fn float(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// One of them.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// What a case is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Small arrays of ordinary numbers.
    Plain,
    /// Ends of the type: NaN, infinities, subnormals, the largest and smallest.
    Special,
    /// Arrays that are not row-major: transposed, reversed, stepped, part of others, broadcast.
    Strided,
    /// Scalars.
    Scalar,
    /// At least one axis of size 0.
    Empty,
    /// Sizes around those of vectors and tiles.
    Tail,
    /// Enough elements for several threads.
    Big,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 7] = [
        Profile::Plain,
        Profile::Special,
        Profile::Strided,
        Profile::Scalar,
        Profile::Empty,
        Profile::Tail,
        Profile::Big,
    ];
}

/// How an argument lies in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// Row-major.
    Rows,
    /// Axes in reverse order.
    Columns,
    /// Every axis walked backwards.
    Reversed,
    /// Every second element along every axis.
    Stepped,
    /// Part of an array that is larger along every axis.
    Part,
    /// One element repeated along these axes.
    Broadcast(Vec<usize>),
}

/// One argument.
#[derive(Debug, Clone)]
pub struct Input {
    /// Its elements.
    pub host: Host,
    /// How they lie in memory.
    pub placement: Placement,
}

impl Input {
    /// Row-major.
    pub fn rows(host: Host) -> Input {
        Input { host, placement: Placement::Rows }
    }

    /// The array.
    pub fn array(&self) -> Result<Array> {
        let h = &self.host;
        let rank = h.shape.len();
        let st = strides(&h.shape);
        match &self.placement {
            Placement::Rows => h.to_array(),
            Placement::Columns => {
                let shape: Vec<usize> = h.shape.iter().rev().copied().collect();
                let mut at = Vec::with_capacity(h.len());
                each(&shape, |i| at.push(i.iter().rev().zip(&st).map(|(a, s)| a * s).sum()));
                h.pick(&shape, &at).to_array()?.t()
            }
            Placement::Reversed => {
                let mut at: Vec<usize> = (0..h.len()).collect();
                at.reverse();
                h.pick(&h.shape, &at).to_array()?.slice(&vec![(None, None, -1); rank])
            }
            Placement::Stepped | Placement::Part => {
                let stepped = self.placement == Placement::Stepped;
                let shape: Vec<usize> =
                    h.shape.iter().map(|&n| if stepped { 2 * n + 1 } else { n + 2 }).collect();
                // What lies in between is another element, so that reading it shows.
                let mut at = Vec::new();
                each(&shape, |i| {
                    let inside = |(&a, &n): (&usize, &usize)| {
                        if stepped {
                            (a.saturating_sub(1) / 2).min(n - 1)
                        } else {
                            a.saturating_sub(1).min(n - 1)
                        }
                    };
                    let j: Vec<usize> = i.iter().zip(&h.shape).map(inside).collect();
                    at.push(place(&j, &st));
                });
                let mut base = h.pick(&shape, &at);
                let mut n = 0;
                let mut edge = Vec::new();
                each(&shape, |i| {
                    let within = i
                        .iter()
                        .zip(&h.shape)
                        .all(|(&a, &n)| if stepped { a % 2 == 1 } else { a >= 1 && a <= n });
                    if !within {
                        edge.push(n);
                    }
                    n += 1;
                });
                poison(&mut base, &edge);
                let range = |&n: &usize| {
                    let step = if stepped { 2 } else { 1 };
                    (Some(1), Some(1 + step * n as i64), step)
                };
                base.to_array()?.slice(&h.shape.iter().map(range).collect::<Vec<_>>())
            }
            Placement::Broadcast(axes) => {
                let mut shape = h.shape.clone();
                for &a in axes {
                    shape[a] = 1;
                }
                let mut at = Vec::new();
                each(&shape, |i| at.push(place(i, &st)));
                h.pick(&shape, &at).to_array()?.broadcast_to(&h.shape)
            }
        }
    }
}

/// Overwrites elements that no kernel may read.
fn poison(h: &mut Host, at: &[usize]) {
    let high = limits(h.dtype).1;
    for &i in at {
        match &mut h.data {
            Data::Int(v) => v[i] = high,
            Data::Real(v) => v[i] = f64::NAN,
            Data::Complex(v) => v[i] = Cx::new(f64::NAN, f64::NAN),
        }
    }
}

/// Makes up the arguments of one case.
pub struct Draw {
    /// Where all choices come from.
    pub rng: Rng,
    /// What the case is about.
    pub profile: Profile,
}

impl Draw {
    /// From a seed.
    pub fn new(profile: Profile, seed: &[u64]) -> Draw {
        Draw { rng: Rng::of(seed), profile }
    }

    /// Sizes of a rank in `low..=high`.
    pub fn shape(&mut self, low: usize, high: usize) -> Vec<usize> {
        let rank = match self.profile {
            Profile::Scalar => low,
            Profile::Tail => low.max(1),
            Profile::Big => low.max(self.rng.within(1, 2) as usize),
            _ => low.max(self.rng.within(low as i64, high as i64) as usize),
        };
        let mut shape: Vec<usize> = (0..rank).map(|_| self.rng.within(1, 5) as usize).collect();
        match self.profile {
            Profile::Empty if rank > 0 => {
                let i = self.rng.below(rank);
                shape[i] = 0;
            }
            Profile::Tail => {
                let edges = [7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 255, 511, 513, 1023, 1025];
                let i = self.rng.below(rank.max(1)).min(rank.saturating_sub(1));
                shape.iter_mut().for_each(|d| *d = (*d).min(2));
                if rank > 0 {
                    shape[i] = self.rng.pick(&edges);
                }
            }
            Profile::Big => {
                let n = 40_000 + self.rng.below(30_000);
                shape.iter_mut().for_each(|d| *d = (*d).min(2));
                match rank {
                    0 => {}
                    1 => shape[0] = n,
                    _ => {
                        let (i, j) = (self.rng.below(rank), self.rng.below(rank - 1));
                        let j = if j >= i { j + 1 } else { j };
                        shape[i] = 3 + self.rng.below(300);
                        shape[j] = n / shape[i];
                    }
                }
            }
            _ => {}
        }
        shape
    }

    /// A number for an element: of ordinary size, and sometimes an end of the type.
    fn element(&mut self, d: Dtype) -> f64 {
        let special = self.profile == Profile::Special && self.rng.chance(40);
        if special && d.is_inexact() {
            let (least, most) = match d {
                Dtype::F16 => (2f64.powi(-24), 65504.0),
                Dtype::BF16 => (2f64.powi(-133), 3.389_531_389_251_535_5e38),
                Dtype::F64 => (f64::from_bits(1), f64::MAX),
                _ => (2f64.powi(-149), f64::from(f32::MAX)),
            };
            let normal = match d {
                Dtype::F16 => 2f64.powi(-14),
                Dtype::F64 => f64::MIN_POSITIVE,
                _ => 2f64.powi(-126),
            };
            let v = [f64::NAN, f64::INFINITY, 0.0, least, 3.0 * least, normal, most, 1.0, 0.5, 2.5];
            let x = self.rng.pick(&v);
            return if self.rng.chance(50) { -x } else { x };
        }
        match d.kind() {
            Kind::Bool => self.rng.below(2) as f64,
            Kind::Unsigned => self.rng.below(40) as f64,
            Kind::Signed => self.rng.within(-20, 20) as f64,
            Kind::Float | Kind::Complex => {
                let x = (self.rng.float() - 0.5) * 8.0;
                // Now and then far away, or a whole number.
                match self.rng.below(12) {
                    0 => x * 20.0,
                    1 => x.round(),
                    2 => x * 1e-3,
                    _ => x,
                }
            }
        }
    }

    /// Elements that `f` gives, laid out as the profile wants.
    pub fn fill(&mut self, shape: &[usize], dtype: Dtype, mut f: impl FnMut(&mut Draw) -> f64) -> Input {
        let n: usize = shape.iter().product();
        let v: Vec<f64> = (0..n).map(|_| f(self)).collect();
        let mut host = Host::numbers(dtype, shape, &v);
        if let Data::Complex(z) = &mut host.data {
            z.iter_mut().for_each(|z| z.im = round_to(f(self), Dtype::F32));
        }
        self.place(host)
    }

    /// Ordinary and special numbers, as the profile wants them.
    pub fn numbers(&mut self, shape: &[usize], dtype: Dtype) -> Input {
        let mut input = self.fill(shape, dtype, |d| d.element(dtype));
        if self.profile == Profile::Special {
            // Integers whose ends `f64` cannot name.
            if let Data::Int(v) = &mut input.host.data {
                let (low, high) = limits(dtype);
                for x in v.iter_mut() {
                    if self.rng.chance(40) {
                        *x = self.rng.pick(&[low, high, high - 1, 0, 1, low + 1, high / 2]);
                    }
                }
            }
        }
        input
    }

    /// Numbers of `low..high`, whatever the profile.
    pub fn between(&mut self, shape: &[usize], dtype: Dtype, low: f64, high: f64) -> Input {
        self.fill(shape, dtype, |d| low + d.rng.float() * (high - low))
    }

    /// Integers of `low..=high`, whatever the profile.
    pub fn integers(&mut self, shape: &[usize], dtype: Dtype, low: i64, high: i64) -> Input {
        self.fill(shape, dtype, |d| d.rng.within(low, high) as f64)
    }

    /// Lays elements out as the profile wants.
    pub fn place(&mut self, host: Host) -> Input {
        let rank = host.shape.len();
        if self.profile != Profile::Strided || rank == 0 || host.is_empty() {
            return Input::rows(host);
        }
        let placement = match self.rng.below(5) {
            0 => Placement::Columns,
            1 => Placement::Reversed,
            2 => Placement::Stepped,
            3 => Placement::Part,
            _ => {
                let axes: Vec<usize> = (0..rank).filter(|_| self.rng.chance(50)).collect();
                return repeat(host, axes);
            }
        };
        Input { host, placement }
    }
}

/// Makes the elements along `axes` equal, which are then one element in memory.
fn repeat(host: Host, axes: Vec<usize>) -> Input {
    let st = strides(&host.shape);
    let mut at = Vec::with_capacity(host.len());
    each(&host.shape, |i| {
        let j: Vec<usize> =
            i.iter().enumerate().map(|(a, &x)| if axes.contains(&a) { 0 } else { x }).collect();
        at.push(place(&j, &st));
    });
    let host = host.pick(&host.shape, &at);
    Input { host, placement: Placement::Broadcast(axes) }
}
