//! Keys and values of the positions that a model has seen.
//!
//! A cache belongs to one layer and knows nothing of models. It holds a batch of sequences that end at the
//! same place; a shorter one begins later, after padding on its left that no query sees. A single sequence
//! is a batch of one without padding.

mod full;
mod rotating;
#[cfg(test)]
mod tests;

use full::Full;
use olivine_core::ops::Mask;
use olivine_core::{Array, Dtype, Error, Result, Shape};
use rotating::Rotating;

/// Positions by which the memory of a cache grows at the least, and at the most. In between it grows by half,
/// so that a short answer after a prompt needs no copy and a long one wastes little.
const GROWTH: (usize, usize) = (64, 256);

/// Keys and values of one layer.
#[derive(Debug, Clone)]
pub struct KvCache {
    store: Store,
    /// Positions seen so far, padding included.
    seen: usize,
    /// Positions of padding at the left of each sequence; empty when there is none.
    padding: Vec<usize>,
}

#[derive(Debug, Clone)]
enum Store {
    Full(Full),
    Rotating(Rotating),
}

impl KvCache {
    /// A cache that keeps every position.
    pub fn full() -> KvCache {
        KvCache { store: Store::Full(Full::default()), seen: 0, padding: Vec::new() }
    }

    /// A cache that keeps the newest `window` positions, which is all that a query of a sliding window sees.
    pub fn rotating(window: usize) -> KvCache {
        KvCache::rotating_with_sinks(window, 0)
    }

    /// A cache of `window` positions: always the first `keep`, and the newest of the others. `window` is at
    /// least one more than `keep`.
    pub fn rotating_with_sinks(window: usize, keep: usize) -> KvCache {
        let window = window.max(keep.saturating_add(1));
        KvCache { store: Store::Rotating(Rotating::new(window, keep)), seen: 0, padding: Vec::new() }
    }

    /// Says how many positions at the left of each sequence are padding. Before the first update.
    ///
    /// # Errors
    /// `Value` when positions were seen already.
    pub fn set_left_padding(&mut self, padding: &[usize]) -> Result<()> {
        if self.seen > 0 {
            return Err(Error::value(
                "kv_cache",
                format!("{} positions were seen before padding", self.seen),
            ));
        }
        self.padding = if padding.iter().all(|&p| p == 0) { Vec::new() } else { padding.to_vec() };
        Ok(())
    }

    /// Positions seen so far, padding included.
    pub fn len(&self) -> usize {
        self.seen
    }

    /// Whether none was seen.
    pub fn is_empty(&self) -> bool {
        self.seen == 0
    }

    /// Position of the next key in its sequence, for rotary embedding: an `i32` scalar, or one for each
    /// sequence, negative inside padding.
    pub fn offset(&self) -> Result<Array> {
        let at = position(self.seen)?;
        if self.padding.is_empty() {
            return Ok(Array::from_scalar(at));
        }
        let each = self.padding.iter().map(|&p| Ok(at - position(p)?)).collect::<Result<Vec<i32>>>()?;
        Array::from_slice(&each, &[each.len()])
    }

    /// Which keys the next `length` queries see, of those that [`KvCache::update`] will give.
    pub fn mask(&self, length: usize) -> Result<Mask> {
        let plain = match &self.store {
            Store::Full(_) => Some(if length == 1 { Mask::None } else { Mask::Causal }),
            Store::Rotating(r) => r.plain_mask(self.seen, length),
        };
        // Padding that has left the window cannot be seen anyway.
        let oldest = match &self.store {
            Store::Full(_) => 0,
            Store::Rotating(r) => r.oldest_seen(self.seen),
        };
        match plain {
            Some(mask) if self.padding.iter().all(|&p| p <= oldest) => Ok(mask),
            Some(_) | None => self.position_mask(length).map(Mask::Array),
        }
    }

    /// The mask `[batch or 1, 1, length, keys]` from the positions of keys and queries.
    fn position_mask(&self, length: usize) -> Result<Array> {
        let keys: Vec<i32> = match &self.store {
            Store::Full(_) => (0..position(self.seen + length)?).collect(),
            Store::Rotating(r) => r.positions(self.seen, length)?,
        };
        let queries: Vec<i32> = (position(self.seen)?..position(self.seen + length)?).collect();
        let keys = Array::from_slice(&keys, &[1, 1, 1, keys.len()])?;
        let queries = Array::from_slice(&queries, &[1, 1, length, 1])?;
        let mut seen = keys.less_equal(&queries)?;
        if let Store::Rotating(r) = &self.store {
            let newest = queries.subtract(&Array::from_scalar(position(r.recent())?))?;
            let recent = keys.greater(&newest)?;
            let kept = keys.less(&Array::from_scalar(position(r.keep())?))?;
            seen = seen.logical_and(&recent.logical_or(&kept)?)?;
        }
        if self.padding.is_empty() {
            return Ok(seen);
        }
        let padding = self.padding.iter().map(|&p| position(p)).collect::<Result<Vec<i32>>>()?;
        let padding = Array::from_slice(&padding, &[padding.len(), 1, 1, 1])?;
        seen.logical_and(&keys.greater_equal(&padding)?)
    }

    /// Takes in keys and values `[batch, heads, length, features]` and gives those that the new queries
    /// attend to, in the order that [`KvCache::mask`] assumes.
    ///
    /// # Errors
    /// `Shape` or `Dtype` when they do not go on from what is there.
    pub fn update(&mut self, keys: Array, values: Array) -> Result<(Array, Array)> {
        let (&[batch, heads, length, _], &[vb, vh, vl, _]) = (&keys.shape()[..], &values.shape()[..]) else {
            let msg = format!("keys {} and values {} have four axes", keys.shape(), values.shape());
            return Err(Error::shape("kv_cache", msg));
        };
        if (batch, heads, length) != (vb, vh, vl) || length == 0 {
            let msg = format!("keys {} and values {} do not fit", keys.shape(), values.shape());
            return Err(Error::shape("kv_cache", msg));
        }
        if !self.padding.is_empty() && self.padding.len() != batch {
            let msg = format!("padding of {} sequences for a batch of {batch}", self.padding.len());
            return Err(Error::shape("kv_cache", msg));
        }
        let stored = match &self.store {
            Store::Full(f) => f.pair(),
            Store::Rotating(r) => r.pair(),
        };
        if let Some((k, v)) = stored {
            continues("keys", k, &keys)?;
            continues("values", v, &values)?;
        }
        let all = match &mut self.store {
            Store::Full(f) => f.update(self.seen, keys, values),
            Store::Rotating(r) => r.update(keys, values),
        }?;
        self.seen += length;
        Ok(all)
    }

    /// Whether [`KvCache::trim`] can forget the newest positions. A rotating cache that has let old
    /// positions go cannot: it would have to bring them back.
    pub fn is_trimmable(&self) -> bool {
        match &self.store {
            Store::Full(_) => true,
            Store::Rotating(r) => self.seen <= r.window(),
        }
    }

    /// Forgets the newest `n` positions.
    ///
    /// # Errors
    /// `Value`, with the cache unchanged, when it is not trimmable or has fewer positions.
    pub fn trim(&mut self, n: usize) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        if n > self.seen {
            return Err(Error::value("trim", format!("{n} positions of a cache of {}", self.seen)));
        }
        if !self.is_trimmable() {
            let msg = format!("a rotating cache that has seen {} positions has let the oldest go", self.seen);
            return Err(Error::value("trim", msg));
        }
        self.seen -= n;
        match &mut self.store {
            Store::Full(_) => {}
            Store::Rotating(r) => r.trim_to(self.seen),
        }
        Ok(())
    }

    /// The arrays that hold its state, to evaluate it without anything else.
    pub fn arrays(&self) -> Vec<Array> {
        let pair = match &self.store {
            Store::Full(f) => f.pair(),
            Store::Rotating(r) => r.pair(),
        };
        pair.map_or_else(Vec::new, |(k, v)| vec![k.clone(), v.clone()])
    }

    /// Bytes that its arrays take.
    pub fn nbytes(&self) -> usize {
        self.arrays().iter().map(Array::nbytes).sum()
    }
}

/// Positions are `i32` on devices.
fn position(n: usize) -> Result<i32> {
    i32::try_from(n).map_err(|_| Error::value("kv_cache", format!("{n} positions are too many")))
}

/// Checks that `new` differs from `old` along the axis of positions only.
fn continues(what: &str, old: &Array, new: &Array) -> Result<()> {
    let same = old.shape().with(2, 0) == new.shape().with(2, 0);
    if !same || old.dtype() != new.dtype() {
        let msg = format!(
            "{what} {} {} do not go on from {} {}",
            new.dtype(),
            new.shape(),
            old.dtype(),
            old.shape()
        );
        return Err(Error::shape("kv_cache", msg));
    }
    Ok(())
}

/// Zeros beside `x [batch, heads, _, features]` for `capacity` positions.
fn room(x: &Shape, capacity: usize, dtype: Dtype) -> Result<Array> {
    Array::zeros(&x.with(2, capacity), dtype)
}

/// `x` with its first `used` positions in memory for at least `needed` and at most `limit`.
fn grow(x: &Array, used: usize, needed: usize, limit: usize) -> Result<Array> {
    let spare = (needed / 2).clamp(GROWTH.0, GROWTH.1);
    let capacity = (needed + spare).next_multiple_of(GROWTH.0).min(limit.max(needed));
    let rest = room(x.shape(), capacity - used, x.dtype())?;
    if used == 0 {
        return Ok(rest);
    }
    Array::concatenate(&[x.slice_axis(2, 0, used)?, rest], 2)
}

/// `into` with `x` written from position `at` on; without a copy when nobody else holds `into`.
fn write(into: Array, x: &Array, at: usize) -> Result<Array> {
    into.slice_update(x, &[0, 0, at, 0])
}
