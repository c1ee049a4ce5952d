use super::*;

const LEVELS: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

struct Convert<'a, T>(&'a [T], &'a mut [f32], &'a mut [T]);
impl<T: Element> Kernel for Convert<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        widen(s, self.0, self.1);
        narrow(s, self.1, self.2);
    }
}

#[test]
fn every_half_survives_a_round_trip_at_every_level() {
    let f: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let b: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    for at in LEVELS {
        // An odd length exercises the partial registers.
        for n in [65536, 65531] {
            let (mut wide, mut back) = (vec![0.0; n], vec![f16::ZERO; n]);
            dispatch_at(at, Convert(&f[..n], &mut wide, &mut back));
            for i in 0..n {
                assert!(wide[i] == f[i].to_f32() || wide[i].is_nan() && f[i].is_nan(), "{at:?} {:?}", f[i]);
                assert!(back[i] == f[i] || back[i].is_nan() && f[i].is_nan(), "{at:?} {:?}", f[i]);
            }
            let (mut wide, mut back) = (vec![0.0; n], vec![bf16::ZERO; n]);
            dispatch_at(at, Convert(&b[..n], &mut wide, &mut back));
            for i in 0..n {
                assert!(wide[i] == b[i].to_f32() || wide[i].is_nan() && b[i].is_nan(), "{at:?} {:?}", b[i]);
                assert!(back[i] == b[i] || back[i].is_nan() && b[i].is_nan(), "{at:?} {:?}", b[i]);
            }
        }
    }
}

struct Narrow<'a, T>(&'a [f32], &'a mut [T]);
impl<T: Element> Kernel for Narrow<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        narrow(s, self.0, self.1);
    }
}

#[test]
fn rounding_to_halves_is_to_nearest_even_at_every_level() {
    let mut xs: Vec<f32> = (0..200_000u32).map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761))).collect();
    xs.extend(
        (0..=u16::MAX)
            .flat_map(|h| [0x8000u32, 0x7fff, 0x8001].map(|low| f32::from_bits((h as u32) << 16 | low))),
    );
    for at in LEVELS {
        let (mut h, mut b) = (vec![f16::ZERO; xs.len()], vec![bf16::ZERO; xs.len()]);
        dispatch_at(at, Narrow(&xs, &mut h));
        dispatch_at(at, Narrow(&xs, &mut b));
        for (i, &x) in xs.iter().enumerate() {
            assert!(h[i] == f16::from_f32(x) || x.is_nan() && h[i].is_nan(), "{at:?} f16({x:e}) = {}", h[i]);
            assert!(
                b[i] == bf16::from_f32(x) || x.is_nan() && b[i].is_nan(),
                "{at:?} bf16({x:e}) = {}",
                b[i]
            );
        }
    }
}
