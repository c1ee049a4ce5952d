//! Factorizations, judged by what they multiply back to: most are unique only up to signs.

use super::{Case, Row};
use crate::draw::{Draw, Input, Placement, Profile};
use crate::host::{Cx, Data, Host, round_to};
use olivine_core::op::Linalg;
use olivine_core::{Dtype, Op};

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F64, Dtype::C64];

fn size(d: &mut Draw) -> usize {
    match d.profile {
        Profile::Big => 30 + d.rng.below(20),
        Profile::Empty if d.rng.chance(50) => 0,
        _ => 1 + d.rng.below(7),
    }
}

fn lead(d: &mut Draw) -> Vec<usize> {
    let least = usize::from(d.profile != Profile::Empty);
    (0..d.rng.below(3)).map(|_| least + d.rng.below(3)).collect()
}

/// Square matrices far from singular: twice the size is added to a real diagonal.
fn strong(d: &mut Draw, lead: &[usize], n: usize, t: Dtype) -> Input {
    let mut a = d.between(&[lead, &[n, n]].concat(), t, -1.0, 1.0);
    for i in (0..a.host.len()).filter(|i| i / n % n == i % n) {
        match &mut a.host.data {
            Data::Real(v) => v[i] = round_to(v[i] + 2.0 * n as f64, t),
            Data::Complex(v) => v[i] = Cx::new(round_to(v[i].re + 2.0 * n as f64, t), 0.0),
            Data::Int(_) => {}
        }
    }
    // As the elements are no longer those that were laid out.
    a.placement = Placement::Rows;
    a
}

pub(super) fn rows() -> Vec<Row> {
    let square = |key: &'static str, op: fn(&mut Draw) -> Linalg| {
        Row::new(key, DTYPES, move |d, t| {
            let (lead, n, op) = (lead(d), size(d), op(d));
            Case::new(Op::Linalg(op), vec![strong(d, &lead, n, t)])
        })
        .judge(judge)
    };
    let system = |key: &'static str, op: fn(&mut Draw) -> Linalg| {
        Row::new(key, DTYPES, move |d, t| {
            let (lead, n, k, op) = (lead(d), size(d), size(d), op(d));
            let a = strong(d, &lead, n, t);
            Case::new(Op::Linalg(op), vec![a, d.between(&[&lead[..], &[n, k]].concat(), t, -1.0, 1.0)])
        })
        .judge(judge)
    };
    let any = |key: &'static str, op: fn(&mut Draw) -> Linalg| {
        Row::new(key, DTYPES, move |d, t| {
            let (lead, m, n, op) = (lead(d), size(d), size(d), op(d));
            Case::new(Op::Linalg(op), vec![d.between(&[&lead[..], &[m, n]].concat(), t, -1.0, 1.0)])
        })
        .judge(judge)
    };
    vec![
        square("inv", |_| Linalg::Inverse),
        square("tri_inv", |d| Linalg::TriangularInverse { upper: d.rng.chance(50) }),
        system("solve", |_| Linalg::Solve),
        system("solve_triangular", |d| Linalg::SolveTriangular { upper: d.rng.chance(50) }),
        square("cholesky", |d| Linalg::Cholesky { upper: d.rng.chance(50) }),
        any("lu", |_| Linalg::Lu),
        square("det", |_| Linalg::Det),
        square("slogdet", |_| Linalg::SlogDet),
        any("qr", |_| Linalg::Qr),
        any("svd", |d| Linalg::Svd { vectors: d.rng.chance(50) }),
        square("eigh", |d| Linalg::Eigh { upper: d.rng.chance(50), vectors: d.rng.chance(50) }),
        square("eig", |d| Linalg::Eig { vectors: d.rng.chance(50) }),
    ]
}

/// A matrix.
struct M {
    rows: usize,
    cols: usize,
    v: Vec<Cx>,
}

impl M {
    fn new(rows: usize, cols: usize, f: impl Fn(usize, usize) -> Cx) -> M {
        M { rows, cols, v: (0..rows * cols).map(|i| f(i / cols, i % cols)).collect() }
    }
    /// Matrix `b` of a batch.
    fn of(h: &Host, b: usize) -> M {
        let r = h.shape.len();
        let (rows, cols) = (h.shape[r - 2], h.shape[r - 1]);
        let all = h.to_cx();
        M { rows, cols, v: all[b * rows * cols..(b + 1) * rows * cols].to_vec() }
    }
    fn at(&self, i: usize, j: usize) -> Cx {
        self.v[i * self.cols + j]
    }
    fn times(&self, o: &M) -> M {
        M::new(self.rows, o.cols, |i, j| {
            (0..self.cols).fold(Cx::default(), |s, k| s + self.at(i, k) * o.at(k, j))
        })
    }
    fn adjoint(&self) -> M {
        M::new(self.cols, self.rows, |i, j| self.at(j, i).conj())
    }
    fn identity(n: usize) -> M {
        M::new(n, n, |i, j| Cx::new(f64::from(u8::from(i == j)), 0.0))
    }
    /// Elements of a triangle, zero elsewhere.
    fn triangle(&self, upper: bool) -> M {
        M::new(self.rows, self.cols, |i, j| {
            if (upper && j >= i) || (!upper && j <= i) { self.at(i, j) } else { Cx::default() }
        })
    }
    /// The Hermitian matrix that a triangle gives.
    fn hermitian(&self, upper: bool) -> M {
        M::new(self.rows, self.cols, |i, j| {
            if (upper && j >= i) || (!upper && j <= i) { self.at(i, j) } else { self.at(j, i).conj() }
        })
    }
    /// Columns times factors.
    fn columns(&self, w: &[Cx]) -> M {
        M::new(self.rows, self.cols, |i, j| self.at(i, j) * w[j])
    }
    fn near(&self, o: &M, eps: f64, what: &str) -> Result<(), String> {
        if (self.rows, self.cols) != (o.rows, o.cols) {
            return Err(format!("{what}: {} x {} for {} x {}", self.rows, self.cols, o.rows, o.cols));
        }
        let largest = o.v.iter().map(|z| z.abs()).fold(1.0, f64::max);
        let n = self.rows.max(self.cols) as f64;
        for (i, (a, b)) in self.v.iter().zip(&o.v).enumerate() {
            let off = (*a - *b).abs();
            if off.is_nan() || off > 40.0 * eps * n * largest {
                return Err(format!("{what}: element {i} is {a:?}, not {b:?}"));
            }
        }
        Ok(())
    }
}

/// By elimination with the largest pivots.
fn determinant(a: &M) -> Cx {
    let (n, mut v, mut d) = (a.rows, a.v.clone(), Cx::new(1.0, 0.0));
    for c in 0..n {
        let pivot = (c..n).max_by(|&i, &j| v[i * n + c].abs().total_cmp(&v[j * n + c].abs())).unwrap_or(c);
        if pivot != c {
            (0..n).for_each(|j| v.swap(c * n + j, pivot * n + j));
            d = -d;
        }
        let p = v[c * n + c];
        d = d * p;
        for i in c + 1..n {
            let f = v[i * n + c] / p;
            for j in c..n {
                v[i * n + j] = v[i * n + j] - f * v[c * n + j];
            }
        }
    }
    d
}

fn judge(case: &Case, got: &[Host]) -> Result<(), String> {
    let Op::Linalg(op) = &case.op else { return Err("no factorization".into()) };
    let a = &case.inputs[0].host;
    let eps = if a.dtype == Dtype::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let r = a.shape.len();
    let count: usize = a.shape[..r - 2].iter().product();
    for b in 0..count {
        one(*op, case, b, got, eps).map_err(|e| format!("matrix {b} of {count}: {e}"))?;
    }
    Ok(())
}

fn one(op: Linalg, case: &Case, b: usize, got: &[Host], eps: f64) -> Result<(), String> {
    let a = M::of(&case.inputs[0].host, b);
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    // Part `b` of a result of lines or numbers.
    let line = |h: &Host, len: usize| h.to_cx()[b * len..(b + 1) * len].to_vec();
    match op {
        Linalg::Inverse => a.times(&M::of(&got[0], b)).near(&M::identity(n), eps, "a x"),
        Linalg::TriangularInverse { upper } => {
            let x = M::of(&got[0], b);
            x.triangle(upper).near(&x, 0.0, "the other triangle")?;
            a.triangle(upper).times(&x).near(&M::identity(n), eps, "a x")
        }
        Linalg::Solve => a.times(&M::of(&got[0], b)).near(&M::of(&case.inputs[1].host, b), eps, "a x"),
        Linalg::SolveTriangular { upper } => {
            let x = M::of(&got[0], b);
            a.triangle(upper).times(&x).near(&M::of(&case.inputs[1].host, b), eps, "a x")
        }
        Linalg::Cholesky { upper } => {
            let l = M::of(&got[0], b);
            l.triangle(upper).near(&l, 0.0, "the other triangle")?;
            let product = if upper { l.adjoint().times(&l) } else { l.times(&l.adjoint()) };
            product.near(&a.hermitian(upper), eps, "l l^H")
        }
        Linalg::Lu => {
            let packed = M::of(&got[0], b);
            let l = M::new(m, k, |i, j| match i.cmp(&j) {
                std::cmp::Ordering::Less => Cx::default(),
                std::cmp::Ordering::Equal => Cx::new(1.0, 0.0),
                std::cmp::Ordering::Greater => packed.at(i, j),
            });
            let u = M::new(k, n, |i, j| if j >= i { packed.at(i, j) } else { Cx::default() });
            let rows = line(&got[2], m);
            let mut order: Vec<usize> = (0..m).collect();
            for (i, s) in line(&got[1], k).iter().enumerate() {
                order.swap(i, s.re as usize);
            }
            if rows.iter().map(|z| z.re as usize).ne(order.iter().copied()) {
                return Err(format!("exchanges lead to {order:?}, not {rows:?}"));
            }
            l.times(&u).near(&M::new(m, n, |i, j| a.at(order[i], j)), eps, "l u")
        }
        Linalg::Det => {
            let (d, want) = (line(&got[0], 1)[0], determinant(&a));
            let fits = (d - want).abs() <= 40.0 * eps * (n.max(1) as f64) * want.abs();
            // Large matrices have determinants that a type does not hold.
            if fits || round_to(want.abs(), got[0].dtype).is_infinite() {
                return Ok(());
            }
            Err(format!("{d:?}, not {want:?}"))
        }
        Linalg::SlogDet => {
            let (sign, log, want) = (line(&got[0], 1)[0], line(&got[1], 1)[0].re, determinant(&a));
            let unit = Cx::new(want.re / want.abs(), want.im / want.abs());
            let off = (sign - unit).abs() + (log - want.abs().ln()).abs() / (1.0 + log.abs());
            if off <= 40.0 * eps * n.max(1) as f64 {
                Ok(())
            } else {
                Err(format!("{sign:?} and {log} for {want:?}"))
            }
        }
        Linalg::Qr => {
            let (q, r) = (M::of(&got[0], b), M::of(&got[1], b));
            r.triangle(true).near(&r, 0.0, "below the diagonal")?;
            q.adjoint().times(&q).near(&M::identity(k), eps, "q^H q")?;
            q.times(&r).near(&a, eps, "q r")
        }
        Linalg::Svd { vectors } => {
            let s = line(&got[usize::from(vectors)], k);
            falling(&s.iter().map(|z| z.re).collect::<Vec<_>>())?;
            let squares: f64 = s.iter().map(|z| z.re * z.re).sum();
            let want: f64 = a.v.iter().map(|z| z.abs() * z.abs()).sum();
            if (squares - want).abs() > 40.0 * eps * (m.max(n) as f64) * (1.0 + want) {
                return Err(format!("squares add up to {squares}, not {want}"));
            }
            if !vectors {
                return Ok(());
            }
            let (u, vh) = (M::of(&got[0], b), M::of(&got[2], b));
            u.adjoint().times(&u).near(&M::identity(m), eps, "u^H u")?;
            vh.times(&vh.adjoint()).near(&M::identity(n), eps, "v^H v")?;
            let us = M::new(m, n, |i, j| if j < k { u.at(i, j) * s[j] } else { Cx::default() });
            us.times(&vh).near(&a, eps, "u s v^H")
        }
        Linalg::Eigh { upper, vectors } => {
            let (a, w) = (a.hermitian(upper), line(&got[0], n));
            falling(&w.iter().rev().map(|z| z.re + 4.0 * n as f64).collect::<Vec<_>>())?;
            trace(&a, &w, eps)?;
            if !vectors {
                return Ok(());
            }
            let v = M::of(&got[1], b);
            v.adjoint().times(&v).near(&M::identity(n), eps, "v^H v")?;
            a.times(&v).near(&v.columns(&w), eps, "a v")
        }
        Linalg::Eig { vectors } => {
            let w = line(&got[0], n);
            // Results are single precision whatever the matrix.
            let eps = f64::from(f32::EPSILON);
            trace(&a, &w, eps)?;
            if !vectors {
                return Ok(());
            }
            let v = M::of(&got[1], b);
            let lengths =
                M::new(1, n, |_, j| Cx::new((0..n).map(|i| v.at(i, j).abs().powi(2)).sum::<f64>(), 0.0));
            lengths.near(&M::new(1, n, |_, _| Cx::new(1.0, 0.0)), eps, "lengths")?;
            a.times(&v).near(&v.columns(&w), eps, "a v")
        }
    }
}

fn falling(s: &[f64]) -> Result<(), String> {
    let fine = s.iter().all(|&x| x >= 0.0) && s.windows(2).all(|w| w[0] >= w[1]);
    if fine { Ok(()) } else { Err(format!("{s:?} are not in order")) }
}

/// Eigenvalues add up to the trace.
fn trace(a: &M, w: &[Cx], eps: f64) -> Result<(), String> {
    let want = (0..a.rows).fold(Cx::default(), |s, i| s + a.at(i, i));
    let sum = w.iter().fold(Cx::default(), |s, &z| s + z);
    let fits = (sum - want).abs() <= 40.0 * eps * (1.0 + want.abs()) * a.rows.max(1) as f64;
    if fits { Ok(()) } else { Err(format!("eigenvalues add up to {sum:?}, not {want:?}")) }
}
