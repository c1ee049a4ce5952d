//! Elements as unsigned integers in the order of sorting.
//!
//! NaN is the highest key in either direction, and the two zeros have one key. A descending order turns all
//! other keys round, so that one ascending sort serves both and equal elements keep their order.

use half::{bf16, f16};
use olivine_core::{Bool8, Complex64, Element};

/// A type with an order.
pub(in crate::kernels) trait Keyed: Element {
    /// Width of the key in bits, 32 or fewer where the element has no more.
    const BITS: u32;
    /// The key for ascending order; the NaNs are `nans` and above.
    fn key(self) -> u64;
    /// Lowest key of what is not a number, if there is any.
    const NANS: u64 = u64::MAX;
    /// The element of a key; zero for both zeros.
    fn element(key: u64) -> Self;
    /// The zero that has the key of zero but not its bits.
    #[inline(always)]
    fn is_negative_zero(self) -> bool {
        false
    }
    /// That zero.
    fn negative_zero() -> Self {
        Self::element(0)
    }

    /// The key in a direction.
    #[inline(always)]
    fn key_in(self, descending: bool) -> u64 {
        turned::<Self>(self.key(), descending)
    }

    /// The element of a key in a direction.
    #[inline(always)]
    fn element_in(key: u64, descending: bool) -> Self {
        Self::element(turned::<Self>(key, descending))
    }
}

/// Turns keys of numbers round within their range when descending; its own inverse.
#[inline(always)]
fn turned<T: Keyed>(key: u64, descending: bool) -> u64 {
    if descending && key < T::NANS {
        let top = if T::NANS == u64::MAX { u64::MAX >> (64 - T::BITS) } else { T::NANS - 1 };
        top - key
    } else {
        key
    }
}

macro_rules! unsigned {
    ($($t:ty: $bits:literal),*) => { $(
        impl Keyed for $t {
            const BITS: u32 = $bits;
            #[inline(always)]
            fn key(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn element(key: u64) -> $t {
                key as $t
            }
        }
    )* };
}
unsigned!(u8: 8, u16: 16, u32: 32);

macro_rules! signed {
    ($($t:ty: $u:ty, $bits:literal),*) => { $(
        impl Keyed for $t {
            const BITS: u32 = $bits;
            #[inline(always)]
            fn key(self) -> u64 {
                (self as $u ^ (1 << ($bits - 1))) as u64
            }
            #[inline(always)]
            fn element(key: u64) -> $t {
                (key as $u ^ (1 << ($bits - 1))) as $t
            }
        }
    )* };
}
signed!(i8: u8, 8, i16: u16, 16, i32: u32, 32);

// The widest integers use every key, so the highest must not be taken for NaN.
impl Keyed for u64 {
    const BITS: u32 = 64;
    #[inline(always)]
    fn key(self) -> u64 {
        self
    }
    #[inline(always)]
    fn element(key: u64) -> u64 {
        key
    }
    #[inline(always)]
    fn key_in(self, descending: bool) -> u64 {
        if descending { !self } else { self }
    }
    #[inline(always)]
    fn element_in(key: u64, descending: bool) -> u64 {
        key.key_in(descending)
    }
}
impl Keyed for i64 {
    const BITS: u32 = 64;
    #[inline(always)]
    fn key(self) -> u64 {
        self as u64 ^ (1 << 63)
    }
    #[inline(always)]
    fn element(key: u64) -> i64 {
        (key ^ (1 << 63)) as i64
    }
    #[inline(always)]
    fn key_in(self, descending: bool) -> u64 {
        self.key().key_in(descending)
    }
    #[inline(always)]
    fn element_in(key: u64, descending: bool) -> i64 {
        i64::element(key.key_in(descending))
    }
}

impl Keyed for Bool8 {
    const BITS: u32 = 8;
    #[inline(always)]
    fn key(self) -> u64 {
        (self.0 != 0) as u64
    }
    #[inline(always)]
    fn element(key: u64) -> Bool8 {
        Bool8((key != 0) as u8)
    }
    #[inline(always)]
    fn key_in(self, descending: bool) -> u64 {
        self.key() ^ descending as u64
    }
    #[inline(always)]
    fn element_in(key: u64, descending: bool) -> Bool8 {
        Bool8::element(key ^ descending as u64)
    }
}

macro_rules! floats {
    ($($t:ty: $u:ty, $i:ty, $bits:literal),*) => { $(
        impl Keyed for $t {
            const BITS: u32 = $bits;
            const NANS: u64 = (u64::MAX >> (64 - $bits));
            #[inline(always)]
            fn key(self) -> u64 {
                const SIGN: $u = 1 << ($bits - 1);
                let bits = self.to_bits();
                // Magnitudes of negative numbers count downwards from the sign bit, which is both zeros. All bits are
                // set for these numbers: signs are not to be foreseen, so nothing branches.
                let negative = (bits as $i >> ($bits - 1)) as $u;
                let key = (bits ^ negative).wrapping_sub(negative) ^ (SIGN & !negative);
                (if self.is_nan() { <$u>::MAX } else { key }) as u64
            }
            #[inline(always)]
            fn element(key: u64) -> $t {
                const SIGN: $u = 1 << ($bits - 1);
                let key = key as $u;
                if key == <$u>::MAX {
                    return <$t>::NAN;
                }
                let negative = ((key ^ SIGN) as $i >> ($bits - 1)) as $u;
                <$t>::from_bits((key ^ negative).wrapping_sub(negative) ^ (SIGN & !negative))
            }
            #[inline(always)]
            fn is_negative_zero(self) -> bool {
                self.to_bits() == 1 << ($bits - 1)
            }
            fn negative_zero() -> $t {
                <$t>::from_bits(1 << ($bits - 1))
            }
        }
    )* };
}
floats!(f16: u16, i16, 16, bf16: u16, i16, 16, f32: u32, i32, 32, f64: u64, i64, 64);

/// Lowest upper half of a key of a complex number with a NaN: above those of all numbers.
const PART_NAN: u64 = 0xffff_fffd;

// Real parts first, then imaginary ones. Behind all numbers, as NumPy has them: a NaN imaginary part, a NaN real
// part, both.
impl Keyed for Complex64 {
    const BITS: u32 = 64;
    const NANS: u64 = PART_NAN << 32;
    #[inline(always)]
    fn key(self) -> u64 {
        let (re, im) = (self.re.key(), self.im.key());
        match (self.re.is_nan(), self.im.is_nan()) {
            (false, false) => re << 32 | im,
            (false, true) => PART_NAN << 32 | re,
            (true, false) => (PART_NAN + 1) << 32 | im,
            (true, true) => u64::MAX,
        }
    }
    /// Complex numbers are moved by their indices instead: zeros of either sign in either part have one key.
    fn element(key: u64) -> Complex64 {
        Complex64 { re: f32::element(key >> 32), im: f32::element(key & 0xffff_ffff) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_numbers_do() {
        let sorted = [f32::NEG_INFINITY, -2.0, -1e-40, 0.0, 1e-40, 1.0, f32::MAX, f32::INFINITY, f32::NAN];
        for w in sorted.windows(2) {
            assert!(w[0].key() < w[1].key(), "{w:?}");
            if !w[1].is_nan() {
                assert!(w[0].key_in(true) > w[1].key_in(true), "{w:?}");
                assert!(w[0].key_in(true) < f32::NAN.key_in(true));
            }
        }
        assert_eq!(0f32.key(), (-0f32).key());
        for x in sorted {
            for d in [false, true] {
                let y = f32::element_in(x.key_in(d), d);
                assert!(x == y || (x.is_nan() && y.is_nan()));
            }
        }
        for x in [i64::MIN, -1, 0, i64::MAX] {
            assert_eq!(i64::element_in(x.key_in(true), true), x);
            assert_eq!(i64::element_in(x.key_in(false), false), x);
        }
        assert!(i64::MIN.key_in(true) > i64::MAX.key_in(true));
        for x in [i8::MIN, -1, 0, i8::MAX] {
            assert_eq!(i8::element_in(x.key_in(true), true), x);
        }
        for x in 0..=u16::MAX {
            let h = f16::from_bits(x);
            let y = f16::element_in(h.key_in(true), true);
            assert!(h == y || (h.is_nan() && y.is_nan()));
        }
    }
}
