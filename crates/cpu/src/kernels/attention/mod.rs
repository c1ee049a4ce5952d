//! Scaled dot-product attention with online softmax (Milakov and Gimelshein, arXiv:1805.02867), in tiles that
//! stay in cache (Dao and others, arXiv:2205.14135).
//!
//! Query heads that share a key-value head are handled together, so that keys and values are read, and keys
//! transposed, once for all of them. With few queries the keys are split over the threads and the partial
//! results combined (flash decoding).

mod task;
#[cfg(test)]
mod tests;

use super::{Floats, FloatsMut, Result, Shared, ensure, with_floats};
use crate::pool::{parallel_for, threads};
use crate::simd::{Level, level};
use task::{Partials, Task, combine};

/// An operand `[batch, heads, length, dim]` with unit stride along `dim`.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a> {
    /// The elements.
    pub data: Floats<'a>,
    /// Elements between neighbours along batch, head and length.
    pub strides: [usize; 3],
}

/// An array that hides keys, broadcast to `[batch, query heads, query length, key length]`.
#[derive(Debug, Clone, Copy)]
pub enum ArrayMask<'a> {
    /// Added to the scaled scores.
    Additive {
        /// The elements.
        data: &'a [f32],
        /// Elements between neighbours along each axis, 0 where it is broadcast.
        strides: [usize; 4],
    },
    /// Zero hides a key.
    Boolean {
        /// The elements.
        data: &'a [u8],
        /// Elements between neighbours along each axis, 0 where it is broadcast.
        strides: [usize; 4],
    },
}

/// Extents and options of an attention.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Batch.
    pub batch: usize,
    /// Heads of the queries, a multiple of `kv_heads`; neighbours share a key-value head.
    pub q_heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Number of queries.
    pub q_len: usize,
    /// Number of keys.
    pub k_len: usize,
    /// Width of queries and keys.
    pub dim: usize,
    /// Width of values and of the result.
    pub v_dim: usize,
    /// Factor of the scores, usually 1 / sqrt(dim).
    pub scale: f32,
    /// Query i sees keys up to `end - q_len + i`, where `end` is the end of the keys of its batch row.
    pub causal: bool,
    /// With `causal`: the number of keys that a query sees at most, its own included.
    pub window: Option<usize>,
    /// A mask on top.
    pub mask: Option<ArrayMask<'a>>,
    /// One logit per query head that takes part in the softmax and has no value (attention sinks).
    pub sinks: Option<&'a [f32]>,
    /// The keys `start..end` of each batch row that exist, for padded batches; all of them if `None`.
    pub key_ranges: Option<&'a [(usize, usize)]>,
}

const OP: &str = "scaled_dot_product_attention";

/// Fails unless `strides` keep `extents` inside `len` elements; nothing to reach if an extent is zero.
fn check_reach(name: &str, len: usize, extents: &[usize], strides: &[usize]) -> Result<()> {
    if extents.contains(&0) {
        return Ok(());
    }
    let last =
        extents.iter().zip(strides).try_fold(0usize, |at, (&n, &s)| at.checked_add((n - 1).checked_mul(s)?));
    ensure!(
        last.is_some_and(|last| last < len),
        OP,
        "{name} has {len} elements, too few for extents {extents:?} with strides {strides:?}"
    );
    Ok(())
}

impl Attention<'_> {
    fn check(&self, q: &Operand<'_>, k: &Operand<'_>, v: &Operand<'_>, out: usize) -> Result<()> {
        let Attention { batch, q_heads, kv_heads, q_len, k_len, dim, v_dim, .. } = *self;
        ensure!(
            kv_heads > 0 && q_heads.is_multiple_of(kv_heads),
            OP,
            "{q_heads} query heads are not a multiple of {kv_heads} key-value heads"
        );
        for (name, x, heads, len, width) in
            [("q", q, q_heads, q_len, dim), ("k", k, kv_heads, k_len, dim), ("v", v, kv_heads, k_len, v_dim)]
        {
            let [sb, sh, sl] = x.strides;
            check_reach(name, x.data.len(), &[batch, heads, len, width], &[sb, sh, sl, 1])?;
        }
        let needed = [batch, q_heads, q_len, v_dim].iter().try_fold(1usize, |n, &e| n.checked_mul(e));
        ensure!(
            needed == Some(out),
            OP,
            "the result has {out} elements, not {batch} x {q_heads} x {q_len} x {v_dim}"
        );
        ensure!(self.causal || self.window.is_none(), OP, "a window needs a causal mask");
        ensure!(self.window != Some(0), OP, "a window of no keys");
        let extents = [batch, q_heads, q_len, k_len];
        match self.mask {
            Some(ArrayMask::Additive { data, strides }) => {
                check_reach("mask", data.len(), &extents, &strides)?
            }
            Some(ArrayMask::Boolean { data, strides }) => {
                check_reach("mask", data.len(), &extents, &strides)?
            }
            None => {}
        }
        if let Some(sinks) = self.sinks {
            ensure!(sinks.len() == q_heads, OP, "{} sinks for {q_heads} query heads", sinks.len());
        }
        if let Some(ranges) = self.key_ranges {
            ensure!(ranges.len() == batch, OP, "{} key ranges for a batch of {batch}", ranges.len());
            for &(start, end) in ranges {
                ensure!(start <= end && end <= k_len, OP, "key range {start}..{end} of {k_len} keys");
            }
        }
        Ok(())
    }

    /// Keys of batch row `b` that exist.
    fn keys(&self, b: usize) -> (usize, usize) {
        self.key_ranges.map_or((0, self.k_len), |r| r[b])
    }

    /// Keys that query `i` of batch row `b` sees, as far as causality and padding go; `start..start` if none.
    fn visible(&self, b: usize, i: usize) -> (usize, usize) {
        let (start, end) = self.keys(b);
        if !self.causal {
            return (start, end);
        }
        // One past the query's own position, `end - q_len + i + 1`, which a short row can put before its start.
        let to = (end + i + 1).saturating_sub(self.q_len).min(end);
        let from = self.window.map_or(start, |w| start.max(to.saturating_sub(w)));
        if from < to { (from, to) } else { (start, start) }
    }
}

/// Query rows, over the heads that share keys, in one task: amortises the transposition of keys.
const TASK_ROWS: usize = 96;
/// Keys for which splitting a row of queries over threads begins to pay.
const SPLIT_KEYS: usize = 256;

/// Writes softmax(scale q k^T + mask) v, `[batch, q_heads, q_len, v_dim]` contiguous, to `out`.
///
/// Everything is computed in `f32`. A query that sees no key gives zeros, also where an additive mask is -inf
/// throughout (MLX gives NaN there, and the mean of all values under a boolean mask; neither means anything).
///
/// # Errors
/// When extents, strides and lengths do not fit together.
pub fn scaled_dot_product_attention(
    q: Operand<'_>,
    k: Operand<'_>,
    v: Operand<'_>,
    a: &Attention<'_>,
    out: FloatsMut<'_>,
) -> Result<()> {
    attention_at(level(), q, k, v, a, out)
}

/// [`scaled_dot_product_attention`] at an instruction-set level no higher than `at`.
fn attention_at(
    at: Level,
    q: Operand<'_>,
    k: Operand<'_>,
    v: Operand<'_>,
    a: &Attention<'_>,
    out: FloatsMut<'_>,
) -> Result<()> {
    a.check(&q, &k, &v, out.len())?;
    if out.is_empty() {
        return Ok(());
    }
    let shared = a.q_heads / a.kv_heads;
    // Whole tasks when there are enough of them; fewer queries a task, then split keys, when there are not.
    let pairs = a.batch * a.kv_heads;
    let wanted = 3 * threads();
    let mut queries = (TASK_ROWS / shared).clamp(1, a.q_len);
    if pairs * a.q_len.div_ceil(queries) < wanted {
        let enough = a.q_len.div_ceil(wanted.div_ceil(pairs));
        queries = enough.max((24 / shared).clamp(1, queries)).min(queries);
    }
    let blocks = a.q_len.div_ceil(queries);
    let tasks = pairs * blocks;
    let splits = if tasks < wanted { wanted.div_ceil(tasks).min(a.k_len / SPLIT_KEYS).max(1) } else { 1 };
    let rows = queries * shared;
    let mut partials = Partials::new(if splits > 1 { tasks * splits } else { 0 }, rows, a.v_dim);
    let room = partials.room();
    with_floats!(FloatsMut, out, out => {
        let out = Shared(out.as_mut_ptr());
        let task = |i: usize| {
            // Late queries, which see most keys, come first, so that the threads end together.
            let (block, pair) = (blocks - 1 - i / pairs, i % pairs);
            let first = block * queries;
            let (b, kv_head) = (pair / a.kv_heads, pair % a.kv_heads);
            Task { q, k, v, a, b, kv_head, first, queries: queries.min(a.q_len - first) }
        };
        if splits == 1 {
            parallel_for(tasks, &|i| task(i).finish(at, out));
        } else {
            parallel_for(tasks * splits, &|i| task(i / splits).part(at, i % splits, splits, room.at(i)));
            parallel_for(tasks, &|i| combine(at, &task(i), room, i * splits..(i + 1) * splits, out));
        }
    });
    Ok(())
}
