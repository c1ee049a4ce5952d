//! Factors multiply back to the matrix, for every type and shape.

use super::*;

type C = Complex<f64>;

/// Elements as wide complex numbers.
trait Wide: Element + Default {
    fn wide(self) -> C;
    fn from_wide(z: C) -> Self;
}
impl Wide for f64 {
    fn wide(self) -> C {
        C::new(self, 0.0)
    }
    fn from_wide(z: C) -> f64 {
        z.re
    }
}
impl Wide for C {
    fn wide(self) -> C {
        self
    }
    fn from_wide(z: C) -> C {
        z
    }
}

const EPS: f64 = 1e-14;

struct M {
    rows: usize,
    cols: usize,
    data: Vec<C>,
}

impl M {
    fn new(rows: usize, cols: usize, f: impl Fn(usize, usize) -> C) -> M {
        M { rows, cols, data: (0..rows * cols).map(|i| f(i / cols, i % cols)).collect() }
    }
    fn of<T: Wide>(v: &[T], rows: usize, cols: usize) -> M {
        M::new(rows, cols, |i, j| v[i * cols + j].wide())
    }
    fn at(&self, i: usize, j: usize) -> C {
        self.data[i * self.cols + j]
    }
    fn times(&self, o: &M) -> M {
        assert_eq!(self.cols, o.rows);
        M::new(self.rows, o.cols, |i, j| (0..self.cols).map(|k| self.at(i, k) * o.at(k, j)).sum())
    }
    fn adjoint(&self) -> M {
        M::new(self.cols, self.rows, |i, j| self.at(j, i).conj())
    }
    fn near(&self, o: &M, tolerance: f64) {
        assert_eq!((self.rows, self.cols), (o.rows, o.cols));
        for (a, b) in self.data.iter().zip(&o.data) {
            assert!((a - b).norm() <= tolerance, "{a} for {b}");
        }
    }
    fn elements<T: Wide>(&self) -> Vec<T> {
        self.data.iter().map(|&z| T::from_wide(z)).collect()
    }
}

fn identity(n: usize) -> M {
    M::new(n, n, |i, j| C::new(f64::from(u8::from(i == j)), 0.0))
}

fn noise(rows: usize, cols: usize, seed: u64) -> M {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
    };
    let data = (0..rows * cols).map(|_| C::new(next(), next())).collect();
    M { rows, cols, data }
}

fn checks<T: Wide>() {
    for n in [0, 1, 2, 3, 7, 20, 65] {
        let tolerance = EPS * 40.0 * (n.max(1) as f64);
        let a: Vec<T> = noise(n, n, 3 + n as u64).elements();
        let m = M::of(&a, n, n);
        let mut out = vec![T::default(); n * n];

        T::inverse(&a, n, &mut out).unwrap();
        m.times(&M::of(&out, n, n)).near(&identity(n), tolerance * 100.0);

        let b: Vec<T> = noise(n, 3, 9).elements();
        let mut x = vec![T::default(); n * 3];
        T::solve(&a, n, &b, 3, &mut x).unwrap();
        m.times(&M::of(&x, n, 3)).near(&M::of(&b, n, 3), tolerance * 100.0);

        // Diagonally dominant triangles.
        for part in [Triangle::Lower, Triangle::Upper] {
            let keep = |i: usize, j: usize| if part == Triangle::Lower { j <= i } else { j >= i };
            let full = M::new(n, n, |i, j| m.at(i, j) / (n as f64) + identity(n).at(i, j));
            let t = M::new(n, n, |i, j| if keep(i, j) { full.at(i, j) } else { C::new(0.0, 0.0) });
            let given: Vec<T> = full.elements();
            T::triangular_inverse(&given, n, part, &mut out).unwrap();
            t.times(&M::of(&out, n, n)).near(&identity(n), tolerance);
            T::solve_triangular(&given, n, part, &b, 3, &mut x).unwrap();
            t.times(&M::of(&x, n, 3)).near(&M::of(&b, n, 3), tolerance);
        }

        // A positive definite matrix; only one triangle is right in what the functions get.
        let p = m.times(&m.adjoint());
        let p = M::new(n, n, |i, j| p.at(i, j) + identity(n).at(i, j));
        for part in [Triangle::Lower, Triangle::Upper] {
            let keep = |i: usize, j: usize| if part == Triangle::Lower { j <= i } else { j >= i };
            let given: Vec<T> =
                M::new(n, n, |i, j| if keep(i, j) { p.at(i, j) } else { C::new(99.0, 0.0) }).elements();
            T::cholesky(&given, n, part, &mut out).unwrap();
            let l = M::of(&out, n, n);
            let back = if part == Triangle::Lower { l.times(&l.adjoint()) } else { l.adjoint().times(&l) };
            back.near(&p, tolerance * n as f64);

            let mut w = vec![f64::NAN; n];
            let mut alone = w.clone();
            T::eigen_hermitian(&given, n, part, &mut w, &mut out).unwrap();
            T::eigenvalues_hermitian(&given, n, part, &mut alone).unwrap();
            let v = M::of(&out, n, n);
            let vd = M::new(n, n, |i, j| v.at(i, j) * w[j]);
            p.times(&v).near(&vd, tolerance * n as f64);
            v.adjoint().times(&v).near(&identity(n), tolerance);
            for i in 0..n {
                assert!((w[i] - alone[i]).abs() < tolerance * n as f64);
                assert!(i == 0 || w[i] >= w[i - 1]);
            }
        }

        let (mut w, mut v) = (vec![Complex::default(); n], vec![Complex::default(); n * n]);
        T::eigen(&a, n, &mut w, &mut v).unwrap();
        let vm = M::of(&v, n, n);
        let vd = M::new(n, n, |i, j| vm.at(i, j) * w[j].wide());
        m.times(&vm).near(&vd, 1e-10 * n.max(1) as f64);
        for j in 0..n {
            let column: f64 = (0..n).map(|i| vm.at(i, j).norm_sqr()).sum();
            assert!((column - 1.0).abs() < 1e-12);
        }
        let mut alone = w.clone();
        T::eigenvalues(&a, n, &mut alone).unwrap();
        for x in &w {
            let nearest = alone.iter().map(|y| (x - y).norm()).fold(f64::MAX, f64::min);
            assert!(nearest < 1e-10 * n as f64, "{x} is not among {alone:?}");
        }
    }

    for (m, n) in [(0, 3), (3, 0), (1, 1), (1, 4), (5, 2), (2, 5), (17, 9), (9, 17), (40, 33)] {
        let tolerance = EPS * 40.0 * (m.max(n) as f64);
        let a: Vec<T> = noise(m, n, 5).elements();
        let (am, k) = (M::of(&a, m, n), m.min(n));

        let (mut lu, mut swaps, mut rows) = (vec![T::default(); m * n], vec![9; k], vec![9; m]);
        T::lu(&a, m, n, &mut lu, &mut swaps, &mut rows).unwrap();
        let lum = M::of(&lu, m, n);
        let l = M::new(m, k, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => C::new(0.0, 0.0),
            std::cmp::Ordering::Equal => C::new(1.0, 0.0),
            std::cmp::Ordering::Greater => lum.at(i, j),
        });
        let u = M::new(k, n, |i, j| if j >= i { lum.at(i, j) } else { C::new(0.0, 0.0) });
        let permuted = M::new(m, n, |i, j| am.at(rows[i] as usize, j));
        l.times(&u).near(&permuted, tolerance);
        assert!(
            l.data.iter().all(|z| z.re.abs() + z.im.abs() <= 2.0 + 1e-12),
            "pivots are the largest, by the sum of their parts"
        );
        let mut order: Vec<u32> = (0..m as u32).collect();
        for (i, &s) in swaps.iter().enumerate() {
            assert!(s as usize >= i);
            order.swap(i, s as usize);
        }
        assert_eq!(order, rows);

        let (mut q, mut r) = (vec![T::default(); m * k], vec![T::default(); k * n]);
        T::qr(&a, m, n, &mut q, &mut r).unwrap();
        let (q, r) = (M::of(&q, m, k), M::of(&r, k, n));
        q.times(&r).near(&am, tolerance);
        q.adjoint().times(&q).near(&identity(k), tolerance);
        assert!((0..k).all(|i| (0..i.min(n)).all(|j| r.at(i, j).norm() == 0.0)));

        let (mut uu, mut vh) = (vec![T::default(); m * m], vec![T::default(); n * n]);
        let mut s = vec![f64::NAN; k];
        T::svd(&a, m, n, &mut uu, &mut s, &mut vh).unwrap();
        let (uu, vh) = (M::of(&uu, m, m), M::of(&vh, n, n));
        let us = M::new(m, n, |i, j| if j < k { uu.at(i, j) * s[j] } else { C::new(0.0, 0.0) });
        us.times(&vh).near(&am, tolerance);
        uu.adjoint().times(&uu).near(&identity(m), tolerance);
        vh.adjoint().times(&vh).near(&identity(n), tolerance);
        let mut alone = vec![f64::NAN; k];
        T::singular_values(&a, m, n, &mut alone).unwrap();
        for i in 0..k {
            assert!((s[i] - alone[i]).abs() < tolerance);
            assert!(s[i] >= 0.0 && (i == 0 || s[i] <= s[i - 1]));
        }
    }
}

#[test]
fn double() {
    checks::<f64>();
}

#[test]
fn complex() {
    checks::<C>();
}

#[test]
fn determinants() {
    // By hand: 1 * 4 - 2 * 3; a permutation of three rows.
    assert!((f64::determinant(&[1.0, 2.0, 3.0, 4.0], 2).unwrap() + 2.0).abs() < 1e-14);
    assert_eq!(f64::determinant(&[0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0], 3).unwrap(), 1.0);
    assert_eq!(f64::determinant(&[0.0, 1.0, 1.0, 0.0], 2).unwrap(), -1.0);
    assert_eq!(f64::determinant(&[], 0).unwrap(), 1.0);
    let s = f64::sign_log_determinant(&[1.0, 2.0, 3.0, 4.0], 2).unwrap();
    assert_eq!(s.sign, -1.0);
    assert!((s.log - 2f64.ln()).abs() < 1e-14);
    let s = f64::sign_log_determinant(&[1.0, 2.0, 2.0, 4.0], 2).unwrap();
    assert_eq!((s.sign, s.log), (0.0, f64::NEG_INFINITY));
    let i = Complex::new(0.0f64, 1.0);
    let s = Complex::sign_log_determinant(&[i * 2.0, Complex::default(), Complex::default(), i], 2).unwrap();
    assert!((s.sign + 1.0).norm() < 1e-6 && (s.log - 2f64.ln()).abs() < 1e-6);
}

#[test]
fn matrices_of_lower_rank_have_factors() {
    // Of a column of zeros, of equal rows, of nothing but zeros.
    for a in [
        [0.0, 1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 5.0, 7.0],
        [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 2.0, 4.0, 6.0],
        [0.0; 9],
    ] {
        let (mut lu, mut swaps, mut rows) = ([0.0; 9], [0; 3], [0; 3]);
        f64::lu(&a, 3, 3, &mut lu, &mut swaps, &mut rows).unwrap();
        for i in 0..3 {
            for j in 0..3 {
                let l = |k: usize| if k == i { 1.0 } else { lu[i * 3 + k] };
                let product: f64 = (0..=i.min(j)).map(|k| l(k) * lu[k * 3 + j]).sum();
                assert!((product - a[rows[i] as usize * 3 + j]).abs() < 1e-14, "{a:?} {lu:?} {rows:?}");
            }
        }
        assert_eq!(f64::determinant(&a, 3).unwrap(), 0.0);
    }
}

#[test]
fn what_has_no_result_says_so() {
    let mut out = [0.0f64; 4];
    let mut w = [0.0f64; 2];
    let singular = [1.0, 2.0, 2.0, 4.0];
    assert_eq!(f64::inverse(&singular, 2, &mut out), Err(Failure::Singular));
    assert_eq!(f64::solve(&singular, 2, &[1.0, 1.0], 1, &mut w), Err(Failure::Singular));
    assert_eq!(f64::triangular_inverse(&[0.0; 4], 2, Triangle::Lower, &mut out), Err(Failure::Singular));
    let negative = [1.0, 0.0, 0.0, -1.0];
    assert_eq!(f64::cholesky(&negative, 2, Triangle::Lower, &mut out), Err(Failure::NotPositiveDefinite));
    assert_eq!(f64::inverse(&singular, 3, &mut out), Err(Failure::Length));
    for bad in [f64::NAN, f64::INFINITY] {
        let a = [bad, 1.0, 1.0, 1.0];
        assert_eq!(f64::singular_values(&a, 2, 2, &mut w), Err(Failure::NoConvergence));
        let e = f64::eigenvalues_hermitian(&a, 2, Triangle::Lower, &mut w);
        assert_eq!(e, Err(Failure::NoConvergence));
        let mut z = [Complex::default(); 2];
        assert_eq!(f64::eigenvalues(&a, 2, &mut z), Err(Failure::NoConvergence));
        // These end, whatever they say.
        let _ = f64::inverse(&a, 2, &mut out);
        let _ = f64::cholesky(&a, 2, Triangle::Upper, &mut out);
        let _ = f64::determinant(&a, 2);
        let (mut q, mut r) = ([0.0; 4], [0.0; 4]);
        f64::qr(&a, 2, 2, &mut q, &mut r).unwrap();
    }
}
