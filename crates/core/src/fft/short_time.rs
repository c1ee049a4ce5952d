//! The short-time Fourier transform and its inverse.

use super::{Norm, fft, ifft, irfft, rfft};
use crate::ops::PadMode;
use crate::{Array, Dtype, Error, Kind, Result};

/// Parameters of [`stft`] and [`istft`].
#[derive(Debug, Clone, Default)]
pub struct Frames {
    /// Length of the transform. For [`stft`] 2048 unless given; for [`istft`] what the number of frequencies
    /// says, which is even for one-sided spectra.
    pub n_fft: Option<usize>,
    /// Samples from one frame to the next; a quarter of the length, at least one.
    pub hop: Option<usize>,
    /// Samples of the window when none is given; the length.
    pub win_length: Option<usize>,
    /// Factors of the samples of a frame, put into its middle; ones.
    pub window: Option<Array>,
    /// Frames do not stand around their samples but begin at them.
    pub uncentered: bool,
    /// See [`Norm`].
    pub norm: Norm,
    /// Only frequencies that are not negative; by default for real input, and for [`istft`].
    pub onesided: Option<bool>,
}

impl Frames {
    /// Samples from one frame to the next, and the window in the middle of `n_fft` zeros.
    fn resolve(&self, op: &'static str, n_fft: usize) -> Result<(usize, Array)> {
        let hop = self.hop.unwrap_or((n_fft / 4).max(1));
        if n_fft == 0 || hop == 0 {
            return Err(Error::value(op, format!("frames of {n_fft} samples, {hop} apart")));
        }
        let window = match &self.window {
            Some(w) if w.rank() != 1 || w.dtype().kind() == Kind::Complex => {
                let msg =
                    format!("a window is a line of real numbers, got {} of shape {}", w.dtype(), w.shape());
                return Err(Error::shape(op, msg));
            }
            Some(w) => w.astype(w.dtype().to_inexact())?,
            None => {
                let n = self.win_length.unwrap_or(n_fft);
                if n > n_fft {
                    return Err(Error::value(op, format!("a window of {n} samples for frames of {n_fft}")));
                }
                Array::ones(&[n], Dtype::F32)?
            }
        };
        let n = window.size();
        if n > n_fft {
            return Err(Error::value(op, format!("a window of {n} samples for frames of {n_fft}")));
        }
        let before = (n_fft - n) / 2;
        Ok((hop, window.pad(&[(before, n_fft - n - before)], &PadMode::Zero)?))
    }
}

/// Short-time Fourier transform of the last axis: frames of `n_fft` samples, `hop` apart, times a window,
/// transformed each: `(…, frequencies, frames)`. Unless `uncentered`, half a frame is added at both ends as
/// `pad_mode` says.
pub fn stft(x: &Array, frames: &Frames, pad_mode: &PadMode) -> Result<Array> {
    let op = "stft";
    if x.rank() == 0 {
        return Err(Error::shape(op, "takes an array with axes"));
    }
    let n_fft = frames.n_fft.unwrap_or(2048);
    let (hop, window) = frames.resolve(op, n_fft)?;
    let complex = x.dtype().kind() == Kind::Complex;
    let mut x = x.astype(x.dtype().to_inexact())?;
    let lead = x.shape()[..x.rank() - 1].to_vec();
    if !frames.uncentered {
        let mut widths = vec![(0, 0); x.rank()];
        widths[lead.len()] = (n_fft / 2, n_fft / 2);
        x = x.pad(&widths, pad_mode)?;
    }
    let len = x.shape()[lead.len()];
    if len < n_fft {
        return Err(Error::value(op, format!("{len} samples are fewer than a frame of {n_fft}")));
    }
    let count = (len - n_fft) / hop + 1;
    let batch: usize = lead.iter().product();
    let strides = [len as isize, hop.min(len) as isize, 1];
    let pieces = x.as_strided(&[batch, count, n_fft], Some(&strides), 0)?.multiply(&window)?;
    let y = if frames.onesided.unwrap_or(!complex) {
        rfft(&pieces, None, -1, frames.norm)?
    } else {
        fft(&pieces, None, -1, frames.norm)?
    };
    let dims: Vec<usize> = lead.iter().copied().chain([y.shape()[2], count]).collect();
    y.swapaxes(-1, -2)?.reshape(&dims)
}

/// Inverse of [`stft`]: transforms every frame back, times the window, adds them up where they overlap, and
/// divides by the sum of the squares of the windows, as real numbers. The result is cut or filled with zeros to
/// `length` samples.
pub fn istft(y: &Array, frames: &Frames, length: Option<usize>) -> Result<Array> {
    let op = "istft";
    let (frequencies, count) = match y.shape()[..] {
        [.., f, c] if f > 0 && c > 0 => (f, c),
        _ => {
            return Err(Error::shape(op, format!("takes (…, frequencies, frames), got shape {}", y.shape())));
        }
    };
    let onesided = frames.onesided.unwrap_or(true);
    let n_fft = frames.n_fft.unwrap_or(if onesided { 2 * (frequencies - 1) } else { frequencies });
    let (hop, window) = frames.resolve(op, n_fft)?;
    if frequencies != if onesided { n_fft / 2 + 1 } else { n_fft } {
        let msg = format!("{frequencies} frequencies do not belong to frames of {n_fft} samples");
        return Err(Error::value(op, msg));
    }
    let reach = count.checked_add(n_fft).and_then(|n| n.checked_mul(hop)).filter(|&n| n < 1 << 60);
    if reach.is_none() {
        return Err(Error::value(op, format!("{count} frames {hop} apart reach too far")));
    }
    let lead = y.shape()[..y.rank() - 2].to_vec();
    let batch: usize = lead.iter().product();
    let spectra = y.reshape(&[batch, frequencies, count])?.swapaxes(-1, -2)?;
    let pieces = if onesided {
        irfft(&spectra, Some(n_fft), -1, frames.norm)?
    } else {
        ifft(&spectra, None, -1, frames.norm)?.real()?
    };
    let total = overlap_add(&pieces.multiply(&window)?, hop)?;
    let squares = window.square()?.reshape(&[1, 1, n_fft])?.broadcast_to(&[1, count, n_fft])?;
    let weight = overlap_add(&squares.astype(total.dtype())?, hop)?;
    // Where no window reaches there is nothing to divide.
    let reached = weight.greater(&weight.scalar_like(1e-11))?;
    let mut x = total.divide(&Array::select(&reached, &weight, &weight.scalar_like(1.0))?)?;
    let end = (count - 1) * hop + n_fft;
    let (from, to) = if frames.uncentered { (0, end) } else { (n_fft / 2, end - n_fft / 2) };
    let to = match length {
        // What lies beyond the last centre may be asked for.
        Some(n) => from.saturating_add(n).min(end),
        None => to.max(from),
    };
    x = x.slice_axis(-1, from, to)?;
    if let Some(n) = length
        && n > to - from
    {
        x = x.pad(&[(0, 0), (0, n - (to - from))], &PadMode::Zero)?;
    }
    let dims: Vec<usize> = lead.iter().copied().chain([x.shape()[1]]).collect();
    x.reshape(&dims)
}

/// Sum of `[batch, count, n]` with entry `i` moved by `i * hop`: `[batch, (count - 1) * hop + n]`.
///
/// Cut into pieces of `hop`, piece `r` of all entries is a line of its own that is moved by `r * hop`.
fn overlap_add(pieces: &Array, hop: usize) -> Result<Array> {
    let &[batch, count, n] = &pieces.shape()[..] else {
        return Err(Error::shape("istft", format!("frames of shape {}", pieces.shape())));
    };
    let parts = n.div_ceil(hop);
    let pieces = pieces.pad(&[(0, 0), (0, 0), (0, parts * hop - n)], &PadMode::Zero)?;
    let mut sum: Option<Array> = None;
    for r in 0..parts {
        let part = pieces.slice_axis(-1, r * hop, (r + 1) * hop)?.reshape(&[batch, count * hop])?;
        let part = part.pad(&[(0, 0), (r * hop, (parts - 1 - r) * hop)], &PadMode::Zero)?;
        sum = Some(match sum {
            None => part,
            Some(s) => s.add(&part)?,
        });
    }
    let sum = sum.ok_or_else(|| Error::value("istft", "frames without samples"))?;
    sum.slice_axis(-1, 0, (count - 1) * hop + n)
}
