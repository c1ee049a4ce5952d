//! Arrays on the host in forms that hold every element exactly: what references compute with.

use half::{bf16, f16};
use olivine_core::{Array, Complex64, Dtype, Kind, Result};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A complex number of two `f64`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cx {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

impl Cx {
    /// From parts.
    pub const fn new(re: f64, im: f64) -> Cx {
        Cx { re, im }
    }
    /// `r * e^(i * angle)`.
    pub fn polar(r: f64, angle: f64) -> Cx {
        Cx::new(r * angle.cos(), r * angle.sin())
    }
    /// Modulus.
    pub fn abs(self) -> f64 {
        self.re.hypot(self.im)
    }
    /// Angle.
    pub fn arg(self) -> f64 {
        self.im.atan2(self.re)
    }
    /// Complex conjugate.
    pub fn conj(self) -> Cx {
        Cx::new(self.re, -self.im)
    }
    /// Exponential.
    pub fn exp(self) -> Cx {
        Cx::polar(self.re.exp(), self.im)
    }
    /// Principal logarithm.
    pub fn ln(self) -> Cx {
        Cx::new(self.abs().ln(), self.arg())
    }
    /// Principal square root.
    pub fn sqrt(self) -> Cx {
        if self.re == 0.0 && self.im == 0.0 {
            return self;
        }
        Cx::polar(self.abs().sqrt(), self.arg() / 2.0)
    }
}
impl Add for Cx {
    type Output = Cx;
    fn add(self, o: Cx) -> Cx {
        Cx::new(self.re + o.re, self.im + o.im)
    }
}
impl Sub for Cx {
    type Output = Cx;
    fn sub(self, o: Cx) -> Cx {
        Cx::new(self.re - o.re, self.im - o.im)
    }
}
impl Mul for Cx {
    type Output = Cx;
    fn mul(self, o: Cx) -> Cx {
        Cx::new(self.re * o.re - self.im * o.im, self.re * o.im + self.im * o.re)
    }
}
impl Div for Cx {
    type Output = Cx;
    fn div(self, o: Cx) -> Cx {
        let n = o.re * o.re + o.im * o.im;
        let p = self * o.conj();
        Cx::new(p.re / n, p.im / n)
    }
}
impl Neg for Cx {
    type Output = Cx;
    fn neg(self) -> Cx {
        Cx::new(-self.re, -self.im)
    }
}

/// Elements, row-major.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Integers and truth values.
    Int(Vec<i128>),
    /// Real floats.
    Real(Vec<f64>),
    /// Complex numbers.
    Complex(Vec<Cx>),
}

/// An array on the host.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Element type.
    pub dtype: Dtype,
    /// Sizes of the axes.
    pub shape: Vec<usize>,
    /// Elements.
    pub data: Data,
    /// Of a reference: how large the numbers are from which each element was summed up, where rounding errors
    /// grow with them rather than with the element itself.
    pub magnitude: Option<Vec<f64>>,
}

/// `x` as an element of a real float type.
pub fn round_to(x: f64, d: Dtype) -> f64 {
    match d {
        Dtype::F16 => f16::from_f64(x).to_f64(),
        Dtype::BF16 => bf16::from_f64(x).to_f64(),
        Dtype::F32 | Dtype::C64 => f64::from(x as f32),
        _ => x,
    }
}

/// The low bits of an integer as an element of an integer type.
pub fn wrap(v: i128, d: Dtype) -> i128 {
    match d {
        Dtype::Bool => i128::from(v != 0),
        Dtype::U8 => i128::from(v as u8),
        Dtype::U16 => i128::from(v as u16),
        Dtype::U32 => i128::from(v as u32),
        Dtype::U64 => i128::from(v as u64),
        Dtype::I8 => i128::from(v as i8),
        Dtype::I16 => i128::from(v as i16),
        Dtype::I32 => i128::from(v as i32),
        Dtype::I64 => i128::from(v as i64),
        Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 | Dtype::C64 => v,
    }
}

/// Smallest and largest element of an integer type.
pub fn limits(d: Dtype) -> (i128, i128) {
    let bits = 8 * d.size() as u32;
    match d.kind() {
        Kind::Bool => (0, 1),
        Kind::Unsigned => (0, (1 << bits) - 1),
        Kind::Signed | Kind::Float | Kind::Complex => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// Distance between neighbouring elements of a real float type at `x`.
pub fn unit(x: f64, d: Dtype) -> f64 {
    let (digits, least) = match d {
        Dtype::F16 => (10, -24),
        Dtype::BF16 => (7, -133),
        Dtype::F64 => (52, -1074),
        _ => (23, -149),
    };
    let x = x.abs();
    let e = if x == 0.0 || !x.is_finite() { least } else { x.log2().floor() as i32 - digits };
    libm::ldexp(1.0, e.max(least))
}

impl Host {
    /// Real floats, as they are: a reference keeps what the type cannot hold.
    pub fn real(dtype: Dtype, shape: &[usize], v: Vec<f64>) -> Host {
        Host { dtype, shape: shape.to_vec(), data: Data::Real(v), magnitude: None }
    }

    /// Integers or truth values.
    pub fn int(dtype: Dtype, shape: &[usize], v: Vec<i128>) -> Host {
        Host { dtype, shape: shape.to_vec(), data: Data::Int(v), magnitude: None }
    }

    /// Complex numbers.
    pub fn complex(shape: &[usize], v: Vec<Cx>) -> Host {
        Host { dtype: Dtype::C64, shape: shape.to_vec(), data: Data::Complex(v), magnitude: None }
    }

    /// Truth values.
    pub fn bools(shape: &[usize], v: impl IntoIterator<Item = bool>) -> Host {
        Host::int(Dtype::Bool, shape, v.into_iter().map(i128::from).collect())
    }

    /// With how large the numbers behind each element are.
    pub fn with_magnitude(mut self, m: Vec<f64>) -> Host {
        self.magnitude = Some(m);
        self
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// No elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers of a type: rounded, wrapped, or true unless zero.
    pub fn numbers(dtype: Dtype, shape: &[usize], v: &[f64]) -> Host {
        match dtype.kind() {
            Kind::Bool => Host::bools(shape, v.iter().map(|&x| x != 0.0)),
            Kind::Unsigned | Kind::Signed => {
                Host::int(dtype, shape, v.iter().map(|&x| wrap(x as i128, dtype)).collect())
            }
            Kind::Float => Host::real(dtype, shape, v.iter().map(|&x| round_to(x, dtype)).collect()),
            Kind::Complex => {
                Host::complex(shape, v.iter().map(|&x| Cx::new(round_to(x, Dtype::F32), 0.0)).collect())
            }
        }
    }

    /// Elements as `f64`: the real part of complex ones, and large integers rounded.
    pub fn to_f64(&self) -> Vec<f64> {
        match &self.data {
            Data::Int(v) => v.iter().map(|&x| x as f64).collect(),
            Data::Real(v) => v.clone(),
            Data::Complex(v) => v.iter().map(|z| z.re).collect(),
        }
    }

    /// Elements as integers: floats lose their fraction.
    pub fn to_int(&self) -> Vec<i128> {
        match &self.data {
            Data::Int(v) => v.clone(),
            Data::Real(v) => v.iter().map(|&x| x as i128).collect(),
            Data::Complex(v) => v.iter().map(|z| z.re as i128).collect(),
        }
    }

    /// Elements as complex numbers.
    pub fn to_cx(&self) -> Vec<Cx> {
        match &self.data {
            Data::Complex(v) => v.clone(),
            Data::Int(_) | Data::Real(_) => self.to_f64().into_iter().map(|x| Cx::new(x, 0.0)).collect(),
        }
    }

    /// The elements at these places, under another shape.
    pub fn pick(&self, shape: &[usize], at: &[usize]) -> Host {
        let data = match &self.data {
            Data::Int(v) => Data::Int(at.iter().map(|&i| v[i]).collect()),
            Data::Real(v) => Data::Real(at.iter().map(|&i| v[i]).collect()),
            Data::Complex(v) => Data::Complex(at.iter().map(|&i| v[i]).collect()),
        };
        Host { dtype: self.dtype, shape: shape.to_vec(), data, magnitude: None }
    }

    /// The bytes of all elements.
    pub fn to_bytes(&self) -> Vec<u8> {
        let d = self.dtype;
        match &self.data {
            Data::Int(v) => v.iter().flat_map(|x| x.to_le_bytes()[..d.size()].to_vec()).collect(),
            Data::Real(v) => v
                .iter()
                .flat_map(|&x| match d {
                    Dtype::F16 => f16::from_f64(x).to_le_bytes().to_vec(),
                    Dtype::BF16 => bf16::from_f64(x).to_le_bytes().to_vec(),
                    Dtype::F64 => x.to_le_bytes().to_vec(),
                    _ => (x as f32).to_le_bytes().to_vec(),
                })
                .collect(),
            Data::Complex(v) => v
                .iter()
                .flat_map(|z| [(z.re as f32).to_le_bytes(), (z.im as f32).to_le_bytes()].concat())
                .collect(),
        }
    }

    /// From the bytes of all elements.
    pub fn from_bytes(dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Host {
        let word = |c: &[u8]| c.iter().rev().fold(0u64, |w, &b| w << 8 | u64::from(b));
        let single = |c: &[u8]| f64::from(f32::from_bits(word(c) as u32));
        let chunks = bytes.chunks_exact(dtype.size());
        match dtype {
            Dtype::F16 => {
                Host::real(dtype, shape, chunks.map(|c| f16::from_bits(word(c) as u16).to_f64()).collect())
            }
            Dtype::BF16 => {
                Host::real(dtype, shape, chunks.map(|c| bf16::from_bits(word(c) as u16).to_f64()).collect())
            }
            Dtype::F32 => Host::real(dtype, shape, chunks.map(single).collect()),
            Dtype::F64 => Host::real(dtype, shape, chunks.map(|c| f64::from_bits(word(c))).collect()),
            Dtype::C64 => {
                Host::complex(shape, chunks.map(|c| Cx::new(single(&c[..4]), single(&c[4..]))).collect())
            }
            _ => Host::int(dtype, shape, chunks.map(|c| wrap(i128::from(word(c)), dtype)).collect()),
        }
    }

    /// An array of these elements, in row-major order.
    pub fn to_array(&self) -> Result<Array> {
        Array::from_bytes(&self.to_bytes(), &self.shape, self.dtype)
    }

    /// From an array, which is evaluated.
    pub fn from_array(a: &Array) -> Result<Host> {
        fn ints<T: Into<i128>>(v: Vec<T>) -> Data {
            Data::Int(v.into_iter().map(Into::into).collect())
        }
        let data = match a.dtype() {
            Dtype::Bool => Data::Int(a.to_vec::<bool>()?.into_iter().map(i128::from).collect()),
            Dtype::U8 => ints(a.to_vec::<u8>()?),
            Dtype::U16 => ints(a.to_vec::<u16>()?),
            Dtype::U32 => ints(a.to_vec::<u32>()?),
            Dtype::U64 => ints(a.to_vec::<u64>()?),
            Dtype::I8 => ints(a.to_vec::<i8>()?),
            Dtype::I16 => ints(a.to_vec::<i16>()?),
            Dtype::I32 => ints(a.to_vec::<i32>()?),
            Dtype::I64 => ints(a.to_vec::<i64>()?),
            Dtype::F16 => Data::Real(a.to_vec::<f16>()?.into_iter().map(f64::from).collect()),
            Dtype::BF16 => Data::Real(a.to_vec::<bf16>()?.into_iter().map(f64::from).collect()),
            Dtype::F32 => Data::Real(a.to_vec::<f32>()?.into_iter().map(f64::from).collect()),
            Dtype::F64 => Data::Real(a.to_vec()?),
            Dtype::C64 => {
                let v: Vec<Complex64> = a.to_vec()?;
                Data::Complex(v.into_iter().map(|z| Cx::new(z.re.into(), z.im.into())).collect())
            }
        };
        Ok(Host { dtype: a.dtype(), shape: a.shape().to_vec(), data, magnitude: None })
    }
}

/// Distance in elements between neighbours along each axis, row-major.
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut s = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        s[i - 1] = s[i] * shape[i];
    }
    s
}

/// Calls `f` with every index of a shape, row-major.
pub fn each(shape: &[usize], mut f: impl FnMut(&[usize])) {
    let n: usize = shape.iter().product();
    let mut at = vec![0; shape.len()];
    for _ in 0..n {
        f(&at);
        for i in (0..shape.len()).rev() {
            at[i] += 1;
            if at[i] < shape[i] {
                break;
            }
            at[i] = 0;
        }
    }
}

/// Place of an index in row-major order.
pub fn place(at: &[usize], strides: &[usize]) -> usize {
    at.iter().zip(strides).map(|(a, s)| a * s).sum()
}
