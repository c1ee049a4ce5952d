//! Fused and separate evaluation give the same bits, for any expression, types and layouts.

use olivine_core::eval::set_fusion;
use olivine_core::op::{Binary, Op, Unary};
use olivine_core::{Array, Dtype, Result, Shape};
use proptest::prelude::*;
use std::sync::Mutex;

/// Fusion is switched for the whole process, so one test at a time.
static SWITCH: Mutex<()> = Mutex::new(());

/// What random programs are made of.
#[derive(Debug, Clone)]
enum Step {
    Unary(usize, usize),
    Binary(usize, usize, usize),
    Select(usize, usize, usize),
    Cast(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let i = || any::<usize>();
    prop_oneof![
        3 => (i(), i()).prop_map(|(a, b)| Step::Unary(a, b)),
        4 => (i(), i(), i()).prop_map(|(a, b, c)| Step::Binary(a, b, c)),
        1 => (i(), i(), i()).prop_map(|(a, b, c)| Step::Select(a, b, c)),
        2 => (i(), i()).prop_map(|(a, b)| Step::Cast(a, b)),
    ]
}

/// Bits that hold every sort of number: small and large, equal pairs, infinities and NaN for floats.
fn leaf(dims: &[usize], dtype: Dtype, seed: u64) -> Result<Array> {
    let n: usize = dims.iter().product();
    let mut s = seed | 1;
    let mut next = || {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        s
    };
    if dtype.is_inexact() {
        let v: Vec<f32> = (0..n)
            .map(|_| match next() % 16 {
                0 => f32::INFINITY,
                1 => f32::NAN,
                2 => 0.0,
                3 => -0.0,
                4 => f32::from_bits(next() as u32),
                _ => (next() % 2001) as f32 / 100.0 - 10.0,
            })
            .collect();
        return Array::from_slice(&v, dims)?.astype(dtype);
    }
    let v: Vec<i64> =
        (0..n).map(|_| if next() % 3 == 0 { next() as i64 } else { (next() % 9) as i64 - 4 }).collect();
    Array::from_slice(&v, dims)?.astype(dtype)
}

/// The same array seen through some layout: as it is, by columns, every other element, reversed, or
/// broadcast.
fn seen(shape: [usize; 2], dtype: Dtype, seed: u64) -> Result<Array> {
    let [r, c] = shape;
    let a = match seed % 7 {
        0 => leaf(&[c, r], dtype, seed)?.transpose(&[1, 0])?,
        1 => leaf(&[r, 2 * c], dtype, seed)?.slice(&[(None, None, 1), (None, None, 2)])?,
        2 => leaf(&[r, c], dtype, seed)?.slice(&[(None, None, -1), (None, None, 1)])?,
        3 => leaf(&[1, c], dtype, seed)?.broadcast_to(&Shape::new(&shape))?,
        4 => leaf(&[r, 1], dtype, seed)?.broadcast_to(&Shape::new(&shape))?,
        5 => leaf(&[], dtype, seed)?.broadcast_to(&Shape::new(&shape))?,
        _ => leaf(&[r, c], dtype, seed)?,
    };
    // Evaluated, so that both ways start from the same bits.
    a.eval()?;
    Ok(a)
}

/// Applies steps to leaves; those that the types refuse are left out. Gives the last value.
fn build(leaves: &[Array], steps: &[Step]) -> Result<Array> {
    let mut values = leaves.to_vec();
    for s in steps {
        let v = |i: usize| values[values.len() - 1 - i % values.len().min(4)].clone();
        let next = match *s {
            Step::Unary(u, a) => Array::from_op(Op::Unary(Unary::ALL[u % Unary::ALL.len()]), &[v(a)]),
            Step::Binary(b, x, y) => {
                let x = v(x);
                let y = v(y).astype(x.dtype())?;
                Array::from_op(Op::Binary(Binary::ALL[b % Binary::ALL.len()]), &[x, y])
            }
            Step::Select(c, x, y) => {
                let x = v(x);
                let y = v(y).astype(x.dtype())?;
                Array::from_op(Op::Select, &[v(c).astype(Dtype::Bool)?, x, y])
            }
            Step::Cast(d, x) => v(x).astype(Dtype::ALL[d % Dtype::ALL.len()]),
        };
        if let Ok(a) = next {
            values.push(a);
        }
    }
    Ok(values[values.len() - 1].clone())
}

/// Bytes with every NaN made the same one.
fn bytes(a: &Array) -> Result<Vec<u8>> {
    fn clean<const N: usize>(b: &mut [u8], nan: impl Fn([u8; N]) -> bool) {
        for c in b.chunks_exact_mut(N) {
            let mut v = [0; N];
            v.copy_from_slice(c);
            if nan(v) {
                c.fill(0xff);
            }
        }
    }
    let mut b = a.to_bytes()?;
    match a.dtype() {
        Dtype::F16 => clean(&mut b, |v| half::f16::from_le_bytes(v).is_nan()),
        Dtype::BF16 => clean(&mut b, |v| half::bf16::from_le_bytes(v).is_nan()),
        Dtype::F32 | Dtype::C64 => clean(&mut b, |v| f32::from_le_bytes(v).is_nan()),
        Dtype::F64 => clean(&mut b, |v| f64::from_le_bytes(v).is_nan()),
        _ => {}
    }
    Ok(b)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn fused_equals_separate(
        steps in prop::collection::vec(step(), 1..20),
        dtypes in prop::array::uniform3(0usize..14),
        seeds in prop::array::uniform3(1u64..1_000_000),
        rows in 1usize..40,
        cols in 1usize..60,
    ) {
        olivine_cpu::register();
        let _one = SWITCH.lock().unwrap_or_else(|e| e.into_inner());
        let run = |fused: bool| -> Result<(Dtype, Vec<u8>)> {
            let leaves: Vec<Array> = dtypes
                .iter()
                .zip(&seeds)
                .map(|(&d, &s)| seen([rows, cols], Dtype::ALL[d], s))
                .collect::<Result<_>>()?;
            let y = build(&leaves, &steps)?;
            let old = set_fusion(fused);
            let b = bytes(&y);
            set_fusion(old);
            Ok((y.dtype(), b?))
        };
        let (d, fused) = run(true).unwrap();
        let (_, separate) = run(false).unwrap();
        prop_assert_eq!(fused.len(), separate.len());
        let at = fused.chunks(d.size()).zip(separate.chunks(d.size())).position(|(a, b)| a != b);
        prop_assert!(at.is_none(), "{} element {:?}: {:?}", d, at, at.map(|i| {
            let r = i * d.size()..(i + 1) * d.size();
            (fused[r.clone()].to_vec(), separate[r].to_vec())
        }));
    }
}

/// Large enough for several tasks, and arguments whose memory the result takes over.
#[test]
fn fused_equals_separate_over_many_tiles() {
    olivine_cpu::register();
    let _one = SWITCH.lock().unwrap_or_else(|e| e.into_inner());
    for d in [Dtype::F32, Dtype::BF16, Dtype::I32, Dtype::F64] {
        let run = |fused: bool| -> Result<Vec<u8>> {
            let n = 300_001;
            let x = leaf(&[n], d, 5)?;
            let t = leaf(&[3, n / 3], d, 9)?.reshape(&[n / 3 * 3])?.slice_axis(0, 0, n / 3 * 3)?;
            let x = x.slice_axis(0, 1, 1 + n / 3 * 3)?;
            let y = x.add(&t)?.multiply(&x)?.subtract(&t.square()?)?.maximum(&x)?;
            let old = set_fusion(fused);
            let b = bytes(&y);
            set_fusion(old);
            b
        };
        assert!(run(true).unwrap() == run(false).unwrap(), "{d}");
    }
}
