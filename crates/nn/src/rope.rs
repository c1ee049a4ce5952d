//! Rotary position embedding and the ways to stretch it to longer contexts.

use crate::{Module, Visitor};
use olivine_core::{Array, Error, Result};
use std::f64::consts::PI;

/// How the frequencies of a rotary embedding depart from `base^(-2i / dims)`.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum RopeScaling {
    /// They do not.
    #[default]
    None,
    /// All are divided (Chen et al. 2023).
    Linear {
        /// By this.
        factor: f32,
    },
    /// Llama 3.1: long waves are divided, short ones kept, those between blended.
    Llama3 {
        /// Divisor of the long waves.
        factor: f32,
        /// Waves longer than the original context over this are long.
        low_freq_factor: f32,
        /// Waves shorter than the original context over this are short.
        high_freq_factor: f32,
        /// Positions that the model was first trained with.
        original_context: usize,
    },
    /// YaRN (Peng et al. 2023): a ramp between kept and divided frequencies, and longer vectors.
    Yarn {
        /// Divisor of slow rotations.
        factor: f32,
        /// Rotations within the original context from which on a frequency is kept.
        beta_fast: f32,
        /// Rotations within the original context up to which a frequency is divided.
        beta_slow: f32,
        /// Positions that the model was first trained with.
        original_context: usize,
        /// Factor on rotated features; `0.1 ln(factor) + 1` when `None`.
        attention_factor: Option<f32>,
        /// Whether the ends of the ramp are rounded to whole features.
        truncate: bool,
    },
    /// Each frequency is divided by a number of its own, as some files list them.
    Divided(Vec<f32>),
}

/// Rotation of pairs of features by `position * frequency` (Su et al. 2021, "RoFormer").
#[derive(Debug, Clone)]
pub struct Rope {
    dims: usize,
    traditional: bool,
    base: f32,
    /// Factor on positions.
    scale: f32,
    /// Frequencies that `base` does not give, radians per position.
    freqs: Option<Array>,
    /// Factor on the rotated features.
    amplitude: f32,
}

/// More features than any head has; settings beyond are damaged, and tables for them fill memory.
const MOST_FEATURES: usize = 1 << 20;

impl Rope {
    /// Rotation of the first `dims` features, by halves (`i` with `i + dims / 2`) or, when `traditional`, by
    /// neighbours (`2i` with `2i + 1`).
    ///
    /// # Errors
    /// `Value` when `dims` is odd, zero or absurd, or a factor or the base is not a positive number.
    pub fn new(dims: usize, base: f32, traditional: bool, scaling: &RopeScaling) -> Result<Rope> {
        if dims == 0 || !dims.is_multiple_of(2) {
            return Err(Error::value("rope", format!("rotates pairs of features, got {dims} features")));
        }
        if dims > MOST_FEATURES {
            return Err(Error::value("rope", format!("{dims} features are more than {MOST_FEATURES}")));
        }
        positive("base", base)?;
        let mut rope = Rope { dims, traditional, base, scale: 1.0, freqs: None, amplitude: 1.0 };
        match scaling {
            RopeScaling::None => return Ok(rope),
            RopeScaling::Linear { factor } => {
                rope.scale = 1.0 / positive("factor", *factor)?;
                return Ok(rope);
            }
            RopeScaling::Yarn { factor, attention_factor, .. } => {
                rope.amplitude = match attention_factor {
                    Some(a) => positive("attention_factor", *a)?,
                    None => 0.1 * factor.max(1.0).ln() + 1.0,
                };
            }
            RopeScaling::Llama3 { .. } | RopeScaling::Divided(_) => {}
        }
        let freqs = frequencies(dims, base, scaling)?;
        let freqs: Vec<f32> = freqs.into_iter().map(|f| f as f32).collect();
        rope.freqs = Some(Array::from_slice(&freqs, &[freqs.len()])?);
        Ok(rope)
    }

    /// `x` of shape `[batch, heads, length, features]` rotated; row `i` stands at position `offset + i`.
    /// `offset` is an integer scalar, or one for each of the batch.
    pub fn forward(&self, x: &Array, offset: &Array) -> Result<Array> {
        let y = x.rope(self.dims, self.traditional, self.base, self.scale, offset, self.freqs.as_ref())?;
        if self.amplitude == 1.0 {
            return Ok(y);
        }
        let features = x.dim(-1)?;
        let rotated = y.slice_axis(-1, 0, self.dims)?.scale(self.amplitude as f64)?;
        if self.dims == features {
            return Ok(rotated);
        }
        Array::concatenate(&[rotated, y.slice_axis(-1, self.dims, features)?], -1)
    }
}

/// The frequencies follow from a model's settings; they are no parameters.
impl Module for Rope {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.setting(path, &self.dims.to_le_bytes())?;
        visitor.setting(path, &[u8::from(self.traditional)])?;
        for factor in [self.base, self.scale, self.amplitude] {
            visitor.setting(path, &factor.to_le_bytes())?;
        }
        match &self.freqs {
            Some(freqs) => visitor.setting(path, &freqs.to_bytes()?),
            None => Ok(()),
        }
    }
}

/// Radians per position of each pair of features.
fn frequencies(dims: usize, base: f32, scaling: &RopeScaling) -> Result<Vec<f64>> {
    let base = base as f64;
    let plain = (0..dims / 2).map(|i| base.powf(-2.0 * i as f64 / dims as f64));
    Ok(match *scaling {
        RopeScaling::None => plain.collect(),
        RopeScaling::Linear { factor } => {
            let factor = positive("factor", factor)? as f64;
            plain.map(|f| f / factor).collect()
        }
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
            let factor = positive("factor", factor)? as f64;
            let low = positive("low_freq_factor", low_freq_factor)? as f64;
            let high = positive("high_freq_factor", high_freq_factor)? as f64;
            if high <= low {
                let msg = format!("high_freq_factor {high} is not above low_freq_factor {low}");
                return Err(Error::value("rope", msg));
            }
            plain
                .map(|f| {
                    let turns = original_context as f64 * f / (2.0 * PI);
                    // 0 for long waves, 1 for short ones.
                    let keep = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    f * keep + f / factor * (1.0 - keep)
                })
                .collect()
        }
        RopeScaling::Yarn { factor, beta_fast, beta_slow, original_context, truncate, .. } => {
            let factor = positive("factor", factor)? as f64;
            // Index of the feature that turns so often within the original context.
            let feature = |turns: f32| -> Result<f64> {
                let wave = original_context as f64 / (positive("beta", turns)? as f64 * 2.0 * PI);
                Ok(dims as f64 * wave.ln() / (2.0 * base.ln()))
            };
            let (mut low, mut high) = (feature(beta_fast)?, feature(beta_slow)?);
            if truncate {
                (low, high) = (low.floor(), high.ceil());
            }
            let (low, mut high) = (low.max(0.0), high.min(dims as f64 - 1.0));
            if low == high {
                high += 0.001;
            }
            plain
                .enumerate()
                .map(|(i, f)| {
                    let divided = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    f / factor * divided + f * (1.0 - divided)
                })
                .collect()
        }
        RopeScaling::Divided(ref by) => {
            if by.len() != dims / 2 {
                let msg = format!("{} frequency factors for {} frequencies", by.len(), dims / 2);
                return Err(Error::value("rope", msg));
            }
            plain
                .zip(by)
                .map(|(f, &by)| Ok(f / positive("frequency factor", by)? as f64))
                .collect::<Result<_>>()?
        }
    })
}

fn positive(name: &str, value: f32) -> Result<f32> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(Error::value("rope", format!("{name} is a positive number, got {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_frequencies(base: f32, scaling: &RopeScaling, expected: [f64; 8]) {
        let found = frequencies(16, base, scaling).unwrap();
        for (f, e) in found.iter().zip(expected) {
            assert!((f / e - 1.0).abs() < 1e-6, "{found:?}");
        }
    }

    /// Numbers that transformers 5.24 gives (in float32) for heads of 16 features.
    #[test]
    fn frequencies_are_those_of_transformers() {
        let llama3 = RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_context: 8192,
        };
        let expected = [
            1.0,
            0.19392276,
            0.037606031,
            0.0072926651,
            0.00052484602,
            3.4281024e-05,
            6.6478697e-06,
            1.2891732e-06,
        ];
        assert_frequencies(500_000.0, &llama3, expected);

        let yarn = |beta_fast, beta_slow, truncate| RopeScaling::Yarn {
            factor: 4.0,
            beta_fast,
            beta_slow,
            original_context: 1024,
            attention_factor: None,
            truncate,
        };
        let ends = [0.00079056947, 0.00025000001, 7.9056947e-05];
        let expected = [1.0, 0.31622776, 0.081250004, 0.019764237, 0.004375, ends[0], ends[1], ends[2]];
        assert_frequencies(10_000.0, &yarn(32.0, 1.0, true), expected);
        let expected = [1.0, 0.31622776, 0.1, 0.018701805, 0.0024999999, ends[0], ends[1], ends[2]];
        assert_frequencies(10_000.0, &yarn(16.0, 2.0, false), expected);

        let linear = frequencies(4, 100.0, &RopeScaling::Linear { factor: 4.0 }).unwrap();
        assert_eq!(linear[0], 0.25);
        assert_eq!(frequencies(4, 4.0, &RopeScaling::Divided(vec![2.0, 4.0])).unwrap(), [0.5, 0.125]);
    }

    #[test]
    fn what_makes_no_rotation_is_an_error() {
        let refused = |dims, base, scaling: RopeScaling| Rope::new(dims, base, false, &scaling).unwrap_err();
        let e = refused(5, 1e4, RopeScaling::None);
        assert_eq!(e.to_string(), "[rope] rotates pairs of features, got 5 features");
        let e = refused(1 << 40, 1e4, RopeScaling::Divided(Vec::new()));
        assert_eq!(e.to_string(), "[rope] 1099511627776 features are more than 1048576");
        let e = refused(4, f32::NAN, RopeScaling::None);
        assert_eq!(e.to_string(), "[rope] base is a positive number, got NaN");
        let e = refused(4, 1e4, RopeScaling::Linear { factor: 0.0 });
        assert_eq!(e.to_string(), "[rope] factor is a positive number, got 0");
        let e = refused(4, 1e4, RopeScaling::Divided(vec![1.0]));
        assert_eq!(e.to_string(), "[rope] 1 frequency factors for 2 frequencies");
        let llama3 = RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 4.0,
            high_freq_factor: 4.0,
            original_context: 64,
        };
        let e = refused(4, 1e4, llama3);
        assert_eq!(e.to_string(), "[rope] high_freq_factor 4 is not above low_freq_factor 4");
    }
}
