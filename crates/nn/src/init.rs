//! First values of parameters.
//!
//! The draws come from the default random key, one for each array, so that a seed gives the weights that it gives in
//! MLX.

use olivine_core::{Array, Dtype, Error, Result, linalg, random};

/// How an array gets its first values.
///
/// The fans of a weight `[out, positions…, in]` are the inputs that an output sees and the outputs that an input
/// reaches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// The same everywhere.
    Constant(f64),
    /// Normally distributed.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        std: f64,
    },
    /// Uniform in `low..high`.
    Uniform {
        /// The least value.
        low: f64,
        /// The bound that is not reached.
        high: f64,
    },
    /// The identity matrix.
    Identity,
    /// Normal, of deviation `gain sqrt(2 / (fan_in + fan_out))` (Glorot and Bengio 2010).
    GlorotNormal {
        /// Factor.
        gain: f64,
    },
    /// Uniform within `gain sqrt(6 / (fan_in + fan_out))`.
    GlorotUniform {
        /// Factor.
        gain: f64,
    },
    /// Normal, of deviation `gain / sqrt(fan)` (He et al. 2015).
    HeNormal {
        /// Which fan.
        mode: Fan,
        /// Factor.
        gain: f64,
    },
    /// Uniform within `gain sqrt(3 / fan)`.
    HeUniform {
        /// Which fan.
        mode: Fan,
        /// Factor.
        gain: f64,
    },
    /// A matrix, normal but for the part `sparsity` of each row, rounded up, that is zero.
    Sparse {
        /// The part that is zero.
        sparsity: f64,
        /// Mean of the others.
        mean: f64,
        /// Standard deviation of the others.
        std: f64,
    },
    /// A matrix whose rows, or columns if there are fewer, are orthogonal and of length `gain` (Saxe et al. 2013).
    Orthogonal {
        /// Their length.
        gain: f64,
    },
}

/// Which sizes of a weight decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fan {
    /// Inputs that an output sees.
    #[default]
    In,
    /// Outputs that an input reaches.
    Out,
}

fn matrix(what: &str, shape: &[usize]) -> Result<(usize, usize)> {
    match *shape {
        [rows, columns] => Ok((rows, columns)),
        _ => Err(Error::shape("init", format!("{what} values are for matrices, got shape {shape:?}"))),
    }
}

fn fans(shape: &[usize]) -> Result<(f64, f64)> {
    let [out, window @ .., input] = shape else {
        return Err(Error::shape("init", format!("fans need at least two axes, got shape {shape:?}")));
    };
    let window: usize = window.iter().product();
    Ok(((input * window) as f64, (out * window) as f64))
}

/// What keeps the variance of sums of `fan` terms: uniform within `1 / sqrt(fan)`.
pub(crate) fn uniform_fan(fan: usize) -> Init {
    let bound = (1.0 / fan as f64).sqrt();
    Init::Uniform { low: -bound, high: bound }
}

impl Init {
    /// An `f32` array.
    ///
    /// # Errors
    /// As [`Init::draw_as`].
    pub fn draw(&self, shape: &[usize]) -> Result<Array> {
        self.draw_as(shape, Dtype::F32)
    }

    /// An array of a float type.
    ///
    /// # Errors
    /// `Shape` for shapes that the kind is not defined for, `Value` for bounds that are not, `Dtype` for other types.
    pub fn draw_as(&self, shape: &[usize], dtype: Dtype) -> Result<Array> {
        let normal = |mean: f64, std: f64| random::normal(shape, dtype, mean, std, None);
        let within = |limit: f64| random::uniform(-limit, limit, shape, dtype, None);
        let fan = |mode: Fan| fans(shape).map(|(i, o)| if mode == Fan::In { i } else { o });
        match *self {
            Init::Constant(value) => Array::full(shape, value)?.astype(dtype),
            Init::Normal { mean, std } => normal(mean, std),
            Init::Uniform { low, high } => random::uniform(low, high, shape, dtype, None),
            Init::Identity => match matrix("identity", shape)? {
                (n, m) if n == m => Array::identity(n, dtype),
                _ => Err(Error::shape("init", format!("the identity is square, got shape {shape:?}"))),
            },
            Init::GlorotNormal { gain } => {
                let (i, o) = fans(shape)?;
                normal(0.0, gain * (2.0 / (i + o)).sqrt())
            }
            Init::GlorotUniform { gain } => {
                let (i, o) = fans(shape)?;
                within(gain * (6.0 / (i + o)).sqrt())
            }
            Init::HeNormal { mode, gain } => normal(0.0, gain / fan(mode)?.sqrt()),
            Init::HeUniform { mode, gain } => within(gain * (3.0 / fan(mode)?).sqrt()),
            Init::Sparse { sparsity, mean, std } => {
                let (_, columns) = matrix("sparse", shape)?;
                if !(0.0..=1.0).contains(&sparsity) {
                    return Err(Error::value("init", format!("sparsity is in 0..=1, got {sparsity}")));
                }
                let zeros = (sparsity * columns as f64).ceil() as usize;
                let order = random::uniform(0.0, 1.0, shape, Dtype::F32, None)?.argsort(1, false)?;
                let values = normal(mean, std)?;
                values.put_along_axis(&order.slice_axis(1, 0, zeros)?, &values.scalar_like(0.0), 1)
            }
            Init::Orthogonal { gain } => {
                let (rows, columns) = matrix("orthogonal", shape)?;
                let size = rows.max(columns);
                let (q, r) = linalg::qr(&random::normal(&[size, size], Dtype::F32, 0.0, 1.0, None)?)?;
                // The signs make the distribution uniform over all orthogonal matrices.
                let q = q.multiply(&r.diagonal(0, 0, 1)?.sign()?)?;
                q.slice_axis(0, 0, rows)?.slice_axis(1, 0, columns)?.scale(gain)?.astype(dtype)
            }
        }
    }
}
