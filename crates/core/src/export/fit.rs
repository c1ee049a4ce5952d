//! Numbers of a program as functions of sizes, found from traces at several sizes.

use serde::{Deserialize, Serialize};

/// Sizes whose values decide a number; with more of them too many traces would be needed.
pub(super) const MOST: usize = 4;

/// Powers of a size that are looked for.
const EXPONENTS: [f64; 6] = [2.0, 1.0, 0.5, -0.5, -1.0, -2.0];

/// A number that depends on sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Fit {
    /// A sum of products of distances of sizes from those of the example.
    Sum(Vec<Term>),
    /// `factor` times powers of sizes.
    Power {
        /// What the powers are multiplied by.
        factor: f64,
        /// Sizes and their exponents.
        exponents: Vec<(u32, f64)>,
    },
}

/// `numerator / denominator` times the product of `size - size of the example` for each of `sizes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Term {
    numerator: i64,
    denominator: i64,
    sizes: Vec<u32>,
}

/// Sizes, and what the number was there.
pub(super) struct Sample<'a> {
    pub sizes: &'a [usize],
    pub value: f64,
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a.abs().max(1) } else { gcd(b, a % b) }
}

impl Fit {
    /// The number at `sizes`, where the example had `base`.
    pub fn at(&self, base: &[usize], sizes: &[usize]) -> Option<f64> {
        match self {
            Fit::Sum(terms) => {
                // One fraction, so that parts which are not whole may add up to a whole number.
                let (mut n, mut d) = (0i128, 1i128);
                for t in terms {
                    if t.denominator <= 0 {
                        return None;
                    }
                    let mut product = i128::from(t.numerator);
                    for &s in &t.sizes {
                        let (now, then) = (*sizes.get(s as usize)?, *base.get(s as usize)?);
                        product =
                            product.checked_mul(i128::try_from(now).ok()? - i128::try_from(then).ok()?)?;
                    }
                    let td = i128::from(t.denominator);
                    n = n.checked_mul(td)?.checked_add(product.checked_mul(d)?)?;
                    d = d.checked_mul(td)?;
                    let g = gcd(n, d);
                    (n, d) = (n / g, d / g);
                }
                (n % d == 0).then_some((n / d) as f64)
            }
            Fit::Power { factor, exponents } => {
                let mut v = *factor;
                for (s, e) in exponents {
                    v *= (*sizes.get(*s as usize)? as f64).powf(*e);
                }
                Some(v)
            }
        }
    }

    /// A function of the sizes that gives all samples, where `same` says what counts as equal.
    ///
    /// `value_at` gives samples with the masked sizes moved (bit `k` is size `k`), the first at mask 0; `more` are
    /// there to confirm.
    pub fn find(
        dims: usize,
        value_at: &mut dyn FnMut(u64) -> Option<(Vec<usize>, f64)>,
        more: &[Sample<'_>],
        same: &dyn Fn(f64, f64) -> bool,
    ) -> Option<Fit> {
        let (base, first) = value_at(0)?;
        let mut alone = Vec::new();
        for k in 0..dims {
            let (sizes, value) = value_at(1 << k)?;
            if value.to_bits() != first.to_bits() {
                alone.push((k, sizes[k], value));
            }
        }
        if alone.is_empty() || alone.len() > MOST {
            return None;
        }
        let confirmed = |fit: Fit| {
            let gives = |sizes: &[usize], v: f64| fit.at(&base, sizes).is_some_and(|w| same(v, w));
            let all = gives(&base, first) && more.iter().all(|s| gives(s.sizes, s.value));
            all.then_some(fit)
        };
        Fit::sum(&base, &alone, value_at).and_then(&confirmed).or_else(|| {
            let mut exponents = Vec::new();
            for &(k, size, value) in &alone {
                let ratio = size as f64 / base[k] as f64;
                // The samples are rounded, so this only tells the candidates apart.
                let e = EXPONENTS.iter().find(|&&e| (first * ratio.powf(e) / value - 1.0).abs() < 1e-2)?;
                exponents.push((k as u32, *e));
            }
            let whole: f64 = exponents.iter().map(|&(k, e)| (base[k as usize] as f64).powf(e)).product();
            let measured = first / whole;
            // The number that was written in the program is more likely a short one than the quotient of rounded ones.
            let short = (1..=12).map(|d| (measured * f64::from(d)).round() / f64::from(d));
            let mut factors = short.chain([measured]).filter(|f| (f / measured - 1.0).abs() < 1e-2);
            factors.find_map(|factor| confirmed(Fit::Power { factor, exponents: exponents.clone() }))
        })
    }

    /// Linear in each size, by finite differences over all subsets of the sizes that matter.
    fn sum(
        base: &[usize],
        alone: &[(usize, usize, f64)],
        value_at: &mut dyn FnMut(u64) -> Option<(Vec<usize>, f64)>,
    ) -> Option<Fit> {
        let n = alone.len();
        let mut values = Vec::with_capacity(1 << n);
        for subset in 0..1u64 << n {
            let mask = (0..n).filter(|i| subset >> i & 1 == 1).map(|i| 1u64 << alone[i].0).sum();
            let (_, v) = value_at(mask)?;
            if v.fract() != 0.0 || v.abs() > 9e15 {
                return None;
            }
            values.push(v as i128);
        }
        // Moebius transform: the difference that belongs to exactly this subset.
        for i in 0..n {
            for s in (0..1usize << n).filter(|s| s >> i & 1 == 1) {
                values[s] -= values[s ^ (1 << i)];
            }
        }
        let mut terms = Vec::new();
        for (subset, &v) in values.iter().enumerate().filter(|&(_, &v)| v != 0) {
            let members: Vec<usize> = (0..n).filter(|i| subset >> i & 1 == 1).collect();
            let steps: i128 =
                members.iter().map(|&i| alone[i].1 as i128 - base[alone[i].0] as i128).product();
            let (v, steps) = if steps < 0 { (-v, -steps) } else { (v, steps) };
            let g = gcd(v, steps);
            terms.push(Term {
                numerator: i64::try_from(v / g).ok()?,
                denominator: i64::try_from(steps / g).ok()?,
                sizes: members.iter().map(|&i| alone[i].0 as u32).collect(),
            });
        }
        Some(Fit::Sum(terms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(base: &[usize], f: impl Fn(&[usize]) -> f64) -> Option<Fit> {
        let moved = |mask: u64| -> Vec<usize> {
            base.iter().enumerate().map(|(k, &b)| if mask >> k & 1 == 1 { b + 1 + k } else { b }).collect()
        };
        let far: Vec<usize> = base.iter().map(|b| 3 * b + 1).collect();
        let more = [Sample { sizes: &far, value: f(&far) }];
        let mut at = |mask| {
            let sizes = moved(mask);
            let v = f(&sizes);
            Some((sizes, v))
        };
        Fit::find(base.len(), &mut at, &more, &|a, b| (a as f32) == (b as f32))
    }

    #[test]
    fn sums_and_products_of_sizes_are_found() {
        let base = [4, 6, 10];
        for f in [
            (|s: &[usize]| s[0] as f64 - 1.0) as fn(&[usize]) -> f64,
            |s| (s[0] * s[1]) as f64,
            |s| (s[0] * (s[1] + 1)) as f64 - 3.0,
            |s| (s[0] * s[1] * s[2]) as f64,
            |s| -((s[2] + 2 * s[0]) as f64),
            |s| 1.0 / s[1] as f64,
            |s| 1.0 / (s[0] as f64).sqrt(),
            |s| 2.5 / s[2] as f64,
            |s| (s[0] * s[0]) as f64,
        ] {
            let fit = found(&base, f).expect("a fit");
            let sizes = [7, 11, 5];
            assert_eq!(fit.at(&base, &sizes).map(|v| v as f32), Some(f(&sizes) as f32), "{fit:?}");
        }
    }

    #[test]
    fn what_is_no_sum_or_power_is_not_found() {
        assert_eq!(found(&[4], |s| (s[0] / 2) as f64 + (s[0] % 3) as f64), None);
        assert_eq!(found(&[4], |s| (s[0] as f64).log2().floor() + 0.5), None);
    }

    #[test]
    fn halves_must_be_whole() {
        let fit = Fit::Sum(vec![
            Term { numerator: 2, denominator: 1, sizes: vec![] },
            Term { numerator: 1, denominator: 2, sizes: vec![0] },
        ]);
        assert_eq!(fit.at(&[4], &[6]), Some(3.0));
        assert_eq!(fit.at(&[4], &[7]), None);
    }
}
