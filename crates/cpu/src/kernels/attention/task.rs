//! One key-value head and a block of queries.

use super::{ArrayMask, Attention, Operand};
use crate::kernels::tile::{Product, multiply, padded, transpose};
use crate::kernels::{Aligned, Floats, Scratch, Shared};
use crate::lanes::{Element, Kernel, Lanes, MAX_LANES, dispatch_at};
use crate::simd::Level;
use crate::vecmath::exp2_weight;
use std::f32::consts::LOG2_E;

/// Keys in a block: their transpose, and the values, stay in the first-level cache.
const KEYS: usize = 64;
/// Query rows whose scores are held at once.
const STRIP: usize = 12;

/// The queries `first .. first + queries` of the heads that share `kv_head`, as `rows` rows with the queries
/// of one head next to each other.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub q: Operand<'a>,
    pub k: Operand<'a>,
    pub v: Operand<'a>,
    pub a: &'a Attention<'a>,
    pub b: usize,
    pub kv_head: usize,
    pub first: usize,
    pub queries: usize,
}

/// Partial results of tasks whose keys are split.
pub(super) struct Partials {
    buf: Aligned,
    rows: usize,
    wide: usize,
}

/// Where the parts of [`Partials`] go; each part is written by one task.
#[derive(Clone, Copy)]
pub(super) struct Room {
    base: Shared<f32>,
    rows: usize,
    wide: usize,
}

/// State of the online softmax of some rows: weighted sum of values `[rows, wide]`, sum of weights, spread
/// over lanes, and largest score of each row. Scores are in units of ln 2, so that weights are powers of 2.
struct State<'a> {
    sums: &'a mut [f32],
    most: &'a mut [f32],
    total: &'a mut [f32],
    wide: usize,
}

impl Partials {
    /// Room for `parts` parts of at most `rows` rows of `v_dim` values.
    pub fn new(parts: usize, rows: usize, v_dim: usize) -> Self {
        let wide = padded(v_dim);
        Partials { buf: Aligned::zeros(parts * State::len(rows, wide)), rows, wide }
    }

    pub fn room(&mut self) -> Room {
        Room { base: Shared(self.buf.as_mut_ptr()), rows: self.rows, wide: self.wide }
    }
}

impl Room {
    /// Part `i`.
    pub fn at(self, i: usize) -> Shared<f32> {
        // SAFETY: parts are this long, and the caller counts them as `Partials::new` did.
        Shared(unsafe { self.base.get().add(i * State::len(self.rows, self.wide)) })
    }
}

impl<'a> State<'a> {
    /// Floats of the state of `rows` rows: whole cache lines.
    fn len(rows: usize, wide: usize) -> usize {
        padded(rows * (wide + MAX_LANES + 1))
    }

    /// Cuts the state of `rows` rows out of `buf`.
    fn new(buf: &'a mut [f32], rows: usize, wide: usize) -> Self {
        let (sums, rest) = buf.split_at_mut(rows * wide);
        let (total, most) = rest.split_at_mut(rows * MAX_LANES);
        State { sums, most: &mut most[..rows], total, wide }
    }

    /// Sum of the weights of a row.
    fn total(&self, row: usize) -> f32 {
        self.total[row * MAX_LANES..(row + 1) * MAX_LANES].iter().sum()
    }

    fn clear(&mut self) {
        self.sums.fill(0.0);
        self.most.fill(f32::NEG_INFINITY);
        self.total.fill(0.0);
    }
}

impl Task<'_> {
    /// Query heads per key-value head.
    fn shared(&self) -> usize {
        self.a.q_heads / self.a.kv_heads
    }

    fn rows(&self) -> usize {
        self.shared() * self.queries
    }

    /// Head and query of a row.
    #[inline(always)]
    fn place(&self, row: usize) -> (usize, usize) {
        (self.kv_head * self.shared() + row / self.queries, self.first + row % self.queries)
    }

    /// The keys that any of the queries sees.
    fn range(&self) -> (usize, usize) {
        let (from, _) = self.a.visible(self.b, self.first);
        let (_, to) = self.a.visible(self.b, self.first + self.queries - 1);
        (from.min(to), to)
    }

    /// Runs over all keys and writes the results.
    pub fn finish<T: Element>(self, at: Level, out: Shared<T>) {
        dispatch_at(at, Whole { task: self, out: out.get() });
    }

    /// Runs over part `i` of `n` of the keys and leaves the state in `room`.
    pub fn part(self, at: Level, i: usize, n: usize, room: Shared<f32>) {
        let (from, to) = self.range();
        let step = (to - from).div_ceil(n).next_multiple_of(KEYS);
        let keys = ((from + i * step).min(to), (from + (i + 1) * step).min(to));
        dispatch_at(at, Part { task: self, keys, room: room.get() });
    }
}

struct Whole<'a, T> {
    task: Task<'a>,
    out: *mut T,
}

impl<T: Element> Kernel for Whole<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let rows = self.task.rows();
        let wide = padded(self.task.a.v_dim);
        let mut scratch = Scratch::take(State::len(rows, wide) + self.task.working());
        let (state, work) = scratch.split_at_mut(State::len(rows, wide));
        let mut state = State::new(state, rows, wide);
        s.call(Scan { task: self.task, keys: self.task.range(), state: &mut state, work });
        // SAFETY: `out` is the whole result, in which these rows belong to this task.
        unsafe { self.task.write(s, &mut state, self.out) };
    }
}

struct Part<'a> {
    task: Task<'a>,
    keys: (usize, usize),
    room: *mut f32,
}

impl Kernel for Part<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let rows = self.task.rows();
        let wide = padded(self.task.a.v_dim);
        // SAFETY: a part of `Partials` holds at least this many rows and belongs to this call.
        let room = unsafe { std::slice::from_raw_parts_mut(self.room, State::len(rows, wide)) };
        let mut state = State::new(room, rows, wide);
        let mut work = Scratch::take(self.task.working());
        s.call(Scan { task: self.task, keys: self.keys, state: &mut state, work: &mut work });
    }
}

/// Joins the states of `parts` into the result of `task`.
pub(super) fn combine<T: Element>(
    at: Level,
    task: &Task<'_>,
    room: Room,
    parts: std::ops::Range<usize>,
    out: Shared<T>,
) {
    dispatch_at(at, Combine { task, room, parts, out: out.get() });
}

struct Combine<'a, T> {
    task: &'a Task<'a>,
    room: Room,
    parts: std::ops::Range<usize>,
    out: *mut T,
}

impl<T: Element> Kernel for Combine<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let rows = self.task.rows();
        let wide = self.room.wide;
        let mut parts = self.parts;
        let Some(first) = parts.next() else { return };
        // SAFETY: parts hold at least this many floats, and no task uses them any more but this one.
        let part =
            |i| unsafe { std::slice::from_raw_parts_mut(self.room.at(i).get(), State::len(rows, wide)) };
        let mut state = State::new(part(first), rows, wide);
        for i in parts {
            let other = State::new(part(i), rows, wide);
            for r in 0..rows {
                let most = state.most[r].max(other.most[r]);
                if most == f32::NEG_INFINITY && !other.total(r).is_nan() {
                    continue;
                }
                let (a, b) = ((state.most[r] - most).exp2(), (other.most[r] - most).exp2());
                state.most[r] = most;
                let lanes = r * MAX_LANES..(r + 1) * MAX_LANES;
                for (x, y) in state.total[lanes.clone()].iter_mut().zip(&other.total[lanes]) {
                    *x = *x * a + *y * b;
                }
                for (x, y) in
                    state.sums[r * wide..(r + 1) * wide].iter_mut().zip(&other.sums[r * wide..(r + 1) * wide])
                {
                    *x = *x * a + *y * b;
                }
            }
        }
        // SAFETY: `out` is the whole result, in which these rows belong to this task.
        unsafe { self.task.write(s, &mut state, self.out) };
    }
}

impl Task<'_> {
    /// Floats of working memory that [`Scan`] needs.
    fn working(&self) -> usize {
        let (dim, wide) = (self.a.dim, padded(self.a.v_dim));
        padded(self.rows() * dim) + KEYS * (2 * dim + wide) + STRIP * KEYS
    }

    /// Divides by the sums and writes the rows.
    ///
    /// # Safety
    /// `out` is `[batch, q_heads, q_len, v_dim]`, of which nobody else uses these rows.
    #[inline(always)]
    unsafe fn write<S: Lanes, T: Element>(&self, s: S, state: &mut State<'_>, out: *mut T) {
        let a = self.a;
        for row in 0..self.rows() {
            let (head, query) = self.place(row);
            let (mut total, mut factor) = (state.total(row), 1.0);
            if let Some(sinks) = a.sinks {
                let sink = sinks[head] * LOG2_E;
                let most = state.most[row].max(sink);
                if most > f32::NEG_INFINITY {
                    factor = (state.most[row] - most).exp2();
                    total = total * factor + (sink - most).exp2();
                }
            }
            // No key is visible: zeros, whatever the hidden values are.
            let hidden = total == 0.0;
            let factor = s.splat(factor / total);
            let at = ((self.b * a.q_heads + head) * a.q_len + query) * a.v_dim;
            let mut i = 0;
            while i < a.v_dim {
                // SAFETY: rows of sums are padded to whole registers; the rest is the caller's promise.
                unsafe {
                    let sums = s.load(state.sums.as_ptr().add(row * state.wide + i));
                    let v = if hidden { s.splat(0.0) } else { s.mul(sums, factor) };
                    if i + S::N <= a.v_dim {
                        T::store(s, out.add(at + i), v);
                    } else {
                        T::store_part(s, out.add(at + i), a.v_dim - i, v);
                    }
                }
                i += S::N;
            }
        }
    }
}

/// The online softmax of the rows of a task over the keys `keys.0 .. keys.1`.
struct Scan<'a, 'b> {
    task: Task<'a>,
    keys: (usize, usize),
    state: &'a mut State<'b>,
    work: &'a mut [f32],
}

impl Kernel for Scan<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Scan { task, keys, state, work } = self;
        let Task { k, v, a, .. } = task;
        let (dim, wide, rows) = (a.dim, state.wide, task.rows());
        state.clear();
        let (queries, work) = work.split_at_mut(padded(rows * dim));
        let (keys_t, work) = work.split_at_mut(dim * KEYS);
        let (plain, work) = work.split_at_mut(KEYS * dim);
        let (values, scores) = work.split_at_mut(KEYS * wide);
        for (row, out) in queries.chunks_exact_mut(dim.max(1)).take(rows).enumerate() {
            let (head, query) = task.place(row);
            let at = offset(&task.q, task.b, head, query);
            task.q.data.widen(s, at..at + dim, out);
            for x in out.iter_mut() {
                *x *= a.scale * LOG2_E;
            }
        }
        let mut from = keys.0;
        while from < keys.1 {
            let n = KEYS.min(keys.1 - from);
            // SAFETY: `keys_t` is `[dim, KEYS]` and n at most KEYS; the strided operand was checked.
            unsafe {
                let src = match k.data {
                    Floats::F32(x) => (x.as_ptr().add(offset(&k, task.b, task.kv_head, from)), k.strides[2]),
                    _ => {
                        widen_rows(s, &k, &task, from, n, dim, plain, dim);
                        (plain.as_ptr(), dim)
                    }
                };
                transpose(s, n, dim, src.0, src.1, keys_t.as_mut_ptr(), KEYS);
            }
            let (values, ld_values) = match v.data {
                // SAFETY: the strided operand was checked.
                Floats::F32(x) if a.v_dim == wide => unsafe {
                    (x.as_ptr().add(offset(&v, task.b, task.kv_head, from)), v.strides[2])
                },
                _ => {
                    widen_rows(s, &v, &task, from, n, a.v_dim, values, wide);
                    (values.as_ptr(), wide)
                }
            };
            let mut row = 0;
            while row < rows {
                let height = STRIP.min(rows - row);
                let mut strip = Strip { task: &task, row, height, from, n, limits: [(0, 0); STRIP] };
                let (low, high) = strip.limit();
                if low < high {
                    // SAFETY: A is rows of `queries`, B `keys_t`, C `scores`; registers past `high` columns
                    // are within KEYS and hold whatever an earlier block left, which `weigh` replaces.
                    unsafe {
                        multiply(
                            s,
                            Product {
                                rows: height,
                                cols: padded(high),
                                k: dim,
                                a: queries.as_ptr().add(row * dim),
                                lda: dim,
                                b: keys_t.as_ptr(),
                                ldb: KEYS,
                                c: scores.as_mut_ptr(),
                                ldc: KEYS,
                                accumulate: false,
                            },
                        );
                    }
                    strip.weigh(s, padded(high), scores, state);
                    // SAFETY: A is rows of `scores`, B the values of keys `low .. high`, C rows of the state.
                    unsafe {
                        multiply(
                            s,
                            Product {
                                rows: height,
                                cols: wide,
                                k: high - low,
                                a: scores.as_ptr().add(low),
                                lda: KEYS,
                                b: values.add(low * ld_values),
                                ldb: ld_values,
                                c: state.sums.as_mut_ptr().add(row * wide),
                                ldc: wide,
                                accumulate: true,
                            },
                        );
                    }
                }
                row += height;
            }
            from += n;
        }
    }
}

/// Element at which a row of an operand starts.
#[inline(always)]
fn offset(x: &Operand<'_>, b: usize, head: usize, row: usize) -> usize {
    b * x.strides[0] + head * x.strides[1] + row * x.strides[2]
}

/// Widens rows `from .. from + n` of the key-value head into `out`, `ld` apart.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "a block of rows, where it is and where it goes")]
fn widen_rows<S: Lanes>(
    s: S,
    x: &Operand<'_>,
    task: &Task<'_>,
    from: usize,
    n: usize,
    width: usize,
    out: &mut [f32],
    ld: usize,
) {
    for i in 0..n {
        let at = offset(x, task.b, task.kv_head, from + i);
        x.data.widen(s, at..at + width, &mut out[i * ld..i * ld + width]);
    }
}

/// Rows `row .. row + height` of a task against the keys `from .. from + n`.
struct Strip<'a> {
    task: &'a Task<'a>,
    row: usize,
    height: usize,
    from: usize,
    n: usize,
    /// Columns of the block that each row sees, from [`Strip::limit`].
    limits: [(usize, usize); STRIP],
}

impl Strip<'_> {
    /// Columns of the block that any row sees.
    #[inline(always)]
    fn limit(&mut self) -> (usize, usize) {
        let (mut low, mut high) = (KEYS, 0);
        for i in 0..self.height {
            let (_, query) = self.task.place(self.row + i);
            let (a, b) = self.task.a.visible(self.task.b, query);
            let (a, b) = (a.clamp(self.from, self.from + self.n), b.clamp(self.from, self.from + self.n));
            self.limits[i] = (a - self.from, b - self.from);
            if a < b {
                low = low.min(a - self.from);
                high = high.max(b - self.from);
            }
        }
        (low, high)
    }

    /// Turns scores into weights relative to the largest score so far, and brings the state to that score.
    #[inline(always)]
    fn weigh<S: Lanes>(&self, s: S, cols: usize, scores: &mut [f32], state: &mut State<'_>) {
        let mut old = [f32::NEG_INFINITY; MAX_LANES];
        let mut new = [f32::NEG_INFINITY; MAX_LANES];
        for i in 0..self.height {
            let scores = &mut scores[i * KEYS..i * KEYS + cols];
            let (low, high) = self.limits[i];
            scores[..low].fill(f32::NEG_INFINITY);
            scores[high..].fill(f32::NEG_INFINITY);
            self.mask(i, &mut scores[low..high]);
            let mut most = s.splat(f32::NEG_INFINITY);
            for c in scores.chunks_exact(S::N) {
                // SAFETY: a chunk is a register.
                most = s.max(unsafe { s.load(c.as_ptr()) }, most);
            }
            old[i] = state.most[self.row + i];
            new[i] = old[i].max(s.reduce_max(most));
            state.most[self.row + i] = new[i];
        }
        let mut fade = [0.0; MAX_LANES];
        for i in (0..STRIP).step_by(S::N) {
            // SAFETY: the arrays hold MAX_LANES floats, and N divides MAX_LANES.
            unsafe {
                let d = s.sub(s.load(old.as_ptr().add(i)), s.load(new.as_ptr().add(i)));
                s.store(fade.as_mut_ptr().add(i), exp2_weight(s, d));
            }
        }
        for i in 0..self.height {
            let scores = &mut scores[i * KEYS..i * KEYS + cols];
            let row = self.row + i;
            // With every key so far hidden there is nothing to be relative to: the weights are zero, unless a
            // score is NaN, which stays.
            let hidden = new[i] == f32::NEG_INFINITY;
            let most = s.splat(if hidden { 0.0 } else { new[i] });
            let total = state.total[row * MAX_LANES..(row + 1) * MAX_LANES].as_mut_ptr();
            let same = old[i] == new[i];
            // SAFETY: a row of totals holds MAX_LANES floats.
            let mut sum = unsafe { s.load(total) };
            if !same {
                sum = s.mul(sum, s.splat(fade[i]));
            }
            for c in scores.chunks_exact_mut(S::N) {
                // SAFETY: a chunk is a register.
                unsafe {
                    let w = exp2_weight(s, s.sub(s.load(c.as_ptr()), most));
                    s.store(c.as_mut_ptr(), w);
                    sum = s.add(sum, w);
                }
            }
            // SAFETY: as above.
            unsafe { s.store(total, sum) };
            if same {
                continue;
            }
            let factor = s.splat(fade[i]);
            for c in state.sums[row * state.wide..(row + 1) * state.wide].chunks_exact_mut(S::N) {
                // SAFETY: a chunk is a register.
                unsafe { s.store(c.as_mut_ptr(), s.mul(s.load(c.as_ptr()), factor)) };
            }
        }
    }

    /// Applies the array mask to the scores of row `i` that start at its first visible column.
    #[inline(always)]
    fn mask(&self, i: usize, scores: &mut [f32]) {
        let Some(mask) = self.task.a.mask else { return };
        if scores.is_empty() {
            return;
        }
        let (head, query) = self.task.place(self.row + i);
        let first = self.from + self.limits[i].0;
        let at = |s: [usize; 4]| (self.task.b * s[0] + head * s[1] + query * s[2] + first * s[3], s[3]);
        match mask {
            ArrayMask::Additive { data, strides } => {
                let (at, step) = at(strides);
                if step == 1 {
                    for (x, m) in scores.iter_mut().zip(&data[at..]) {
                        *x += m * LOG2_E;
                    }
                } else {
                    for (j, x) in scores.iter_mut().enumerate() {
                        *x += data[at + j * step] * LOG2_E;
                    }
                }
            }
            ArrayMask::Boolean { data, strides } => {
                let (at, step) = at(strides);
                for (j, x) in scores.iter_mut().enumerate() {
                    if data[at + j * step] == 0 {
                        *x = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }
}
