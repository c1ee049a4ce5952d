//! The first few positions and the newest ones, in bounded memory.

use super::{grow, position, write};
use olivine_core::ops::Mask;
use olivine_core::{Array, Result};

/// Slots `0..keep` hold the first positions for good. The others are a ring once `window` positions were
/// seen: slot `next` holds the oldest and is written next.
///
/// A single position is written in place. Several at once are put after the others in the order of
/// positions, so that each of the new queries finds its whole window; then the oldest are let go.
#[derive(Debug, Clone)]
pub(super) struct Rotating {
    window: usize,
    keep: usize,
    pair: Option<(Array, Array)>,
    /// Slots in use.
    used: usize,
    /// Slot of the oldest position after `keep`, once `used` is `window`.
    next: usize,
}

impl Rotating {
    pub(super) fn new(window: usize, keep: usize) -> Rotating {
        Rotating { window, keep, pair: None, used: 0, next: keep }
    }

    pub(super) fn window(&self) -> usize {
        self.window
    }

    pub(super) fn keep(&self) -> usize {
        self.keep
    }

    /// Newest positions that a query sees, itself among them.
    pub(super) fn recent(&self) -> usize {
        self.window - self.keep
    }

    pub(super) fn pair(&self) -> Option<(&Array, &Array)> {
        self.pair.as_ref().map(|(k, v)| (k, v))
    }

    /// The oldest position that any coming query sees.
    pub(super) fn oldest_seen(&self, seen: usize) -> usize {
        if self.keep > 0 { 0 } else { (seen + 1).saturating_sub(self.window) }
    }

    /// The mask where it needs no positions.
    pub(super) fn plain_mask(&self, seen: usize, length: usize) -> Option<Mask> {
        match length {
            1 => Some(Mask::None),
            _ if seen + length <= self.window => Some(Mask::Causal),
            _ if self.keep == 0 => Some(Mask::Window(self.window)),
            _ => None,
        }
    }

    /// Slots in the order of positions, as ranges.
    fn ordered(&self) -> [(usize, usize); 3] {
        let keep = self.keep.min(self.used);
        let next = self.next.clamp(keep, self.used);
        [(0, keep), (next, self.used), (keep, next)]
    }

    /// Of the positions in order, how many to leave out after the kept ones so that `room` stay.
    fn surplus(&self, count: usize, room: usize) -> usize {
        count.saturating_sub(room.max(self.keep))
    }

    /// Positions in the order of the arrays that an update by `length` positions gives.
    pub(super) fn positions(&self, seen: usize, length: usize) -> Result<Vec<i32>> {
        let keep = self.keep.min(self.used);
        let ring = self.used - keep;
        // In order: the kept ones, then the newest.
        let old = (0..keep).chain(seen - ring..seen);
        let new = seen..seen + length;
        let all: Vec<usize> = if length > 1 {
            let drop = self.surplus(self.used, self.window - 1);
            let old: Vec<usize> = old.collect();
            old[..keep].iter().chain(&old[keep + drop..]).copied().chain(new).collect()
        } else if self.used < self.window {
            old.chain(new).collect()
        } else {
            let mut slots: Vec<usize> = (0..self.used).collect();
            for (slot, at) in self.ordered().into_iter().flat_map(|(a, b)| a..b).zip(old) {
                slots[slot] = at;
            }
            slots[self.next] = seen;
            slots
        };
        all.into_iter().map(position).collect()
    }

    pub(super) fn update(&mut self, keys: Array, values: Array) -> Result<(Array, Array)> {
        if keys.dim(2)? == 1 { self.step(keys, values) } else { self.append(keys, values) }
    }

    /// One position, in place.
    fn step(&mut self, keys: Array, values: Array) -> Result<(Array, Array)> {
        let wraps = self.used == self.window;
        let slot = if wraps { self.next } else { self.used };
        let used = if wraps { self.used } else { self.used + 1 };
        let fit = |old: Option<&Array>, new: &Array| match old {
            Some(x) if x.dim(2)? >= used => Ok(x.clone()),
            Some(x) => grow(x, self.used, used, self.window),
            None => grow(new, 0, used, self.window),
        };
        let k = fit(self.pair.as_ref().map(|p| &p.0), &keys)?;
        let v = fit(self.pair.as_ref().map(|p| &p.1), &values)?;
        self.pair = None;
        let (k, v) = (write(k, &keys, slot)?, write(v, &values, slot)?);
        self.pair = Some((k.clone(), v.clone()));
        self.used = used;
        if wraps {
            self.next = if slot + 1 == self.window { self.keep } else { slot + 1 };
        }
        Ok((k.slice_axis(2, 0, used)?, v.slice_axis(2, 0, used)?))
    }

    /// Several positions, after the others in order.
    fn append(&mut self, keys: Array, values: Array) -> Result<(Array, Array)> {
        // Beside itself the first new query sees at most this many.
        let drop = self.surplus(self.used, self.window - 1);
        let join = |old: Option<&Array>, new: &Array| {
            let mut parts = Vec::new();
            if let Some(x) = old {
                let [kept, older, newer] = self.ordered();
                let skip = drop.min(older.1 - older.0);
                let older = (older.0 + skip, older.1);
                let newer = (newer.0 + drop - skip, newer.1);
                for (start, stop) in [kept, older, newer] {
                    if start < stop {
                        parts.push(x.slice_axis(2, start, stop)?);
                    }
                }
            }
            parts.push(new.clone());
            Array::concatenate(&parts, 2)
        };
        let k = join(self.pair.as_ref().map(|p| &p.0), &keys)?;
        let v = join(self.pair.as_ref().map(|p| &p.1), &values)?;
        let count = k.dim(2)?;
        let surplus = self.surplus(count, self.window);
        let cut = |x: &Array| {
            if surplus == 0 {
                return Ok(x.clone());
            }
            let newest = x.slice_axis(2, self.keep + surplus, count)?;
            if self.keep == 0 {
                return Ok(newest);
            }
            Array::concatenate(&[x.slice_axis(2, 0, self.keep)?, newest], 2)
        };
        self.pair = Some((cut(&k)?, cut(&v)?));
        self.used = count - surplus;
        self.next = self.keep;
        Ok((k, v))
    }

    /// Keeps the first `seen` positions; nothing was let go yet.
    pub(super) fn trim_to(&mut self, seen: usize) {
        self.used = seen;
        self.next = self.keep;
    }
}
