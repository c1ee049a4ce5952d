//! Convolutions: products of a matrix of windows, which is never stored, with the weights.
//!
//! A dilated input is not filled up with zeros: along every axis results fall into phases that meet the same
//! weights, and every combination of phases is an ordinary convolution with those weights alone, whose results
//! lie some elements apart. Convolutions of one channel per group have a kernel of their own (`depthwise`).

mod depthwise;
#[cfg(test)]
mod tests;
mod windows;

use crate::gemm::{self, C64, Grid, MatMut, MatRef};
use depthwise::Depthwise;
use half::{bf16, f16};
use olivine_core::op::Conv;
use olivine_core::{Error, Result, Shape};
use windows::{Phase, Windows};

/// Element types that can be convolved.
pub trait Number: gemm::Element + Depthwise + Default {}
impl Number for f32 {}
impl Number for f64 {}
impl Number for f16 {}
impl Number for bf16 {}
impl Number for C64 {}

/// A convolution over three spatial axes; missing ones have size one.
#[derive(Debug, Clone)]
pub(super) struct Sizes {
    pub batch: usize,
    pub input: [usize; 3],
    pub kernel: [usize; 3],
    pub output: [usize; 3],
    pub channels: usize,
    pub features: usize,
    pub groups: usize,
}

impl Sizes {
    /// Channels and features of a group.
    fn per_group(&self) -> (usize, usize) {
        (self.channels / self.groups, self.features / self.groups)
    }
}

/// Convolution of row-major arrays `x` and `w` of the given shapes into `y`, as [`Conv`] says.
///
/// # Errors
/// `Value` when a slice does not have the length of its shape, or the shapes do not fit.
pub fn conv<T: Number>(op: &Conv, x: (&[T], &Shape), w: (&[T], &Shape), y: (&mut [T], &Shape)) -> Result<()> {
    let ((x, xs), (w, ws), (y, ys)) = (x, w, y);
    let axes = op.stride.len();
    let fits = (1..=3).contains(&axes)
        && [xs.rank(), ws.rank(), ys.rank()] == [axes + 2; 3]
        && [op.padding.len(), op.kernel_dilation.len(), op.input_dilation.len()] == [axes; 3]
        && [x.len(), w.len(), y.len()] == [xs.elements(), ws.elements(), ys.elements()]
        && op.groups > 0
        && ws[axes + 1] * op.groups == xs[axes + 1]
        && ws[0].is_multiple_of(op.groups)
        && (xs[0], ws[0]) == (ys[0], ys[axes + 1]);
    if !fits {
        return Err(Error::value("conv", format!("{xs} with {ws} into {ys} by {op:?}")));
    }
    if y.is_empty() {
        return Ok(());
    }
    let lead = 3 - axes;
    let three =
        |s: &Shape| -> [usize; 3] { std::array::from_fn(|d| if d < lead { 1 } else { s[d - lead + 1] }) };
    let sizes = Sizes {
        batch: xs[0],
        input: three(xs),
        kernel: three(ws),
        output: three(ys),
        channels: xs[axes + 1],
        features: ws[0],
        groups: op.groups,
    };
    let phases: [Vec<Phase>; 3] = std::array::from_fn(|d| match d.checked_sub(lead) {
        None => vec![Phase::whole()],
        Some(i) => windows::phases(
            sizes.output[d],
            sizes.kernel[d],
            op.stride[i],
            op.padding[i].0,
            op.kernel_dilation[i],
            op.input_dilation[i],
            op.flip,
        ),
    });
    for p0 in &phases[0] {
        for p1 in &phases[1] {
            for p2 in &phases[2] {
                phase(&sizes, [p0, p1, p2], x, w, y)?;
            }
        }
    }
    Ok(())
}

/// The results of one combination of phases.
fn phase<T: Number>(sizes: &Sizes, phases: [&Phase; 3], x: &[T], w: &[T], y: &mut [T]) -> Result<()> {
    let counts = phases.map(|p| p.count);
    if counts.contains(&0) {
        return Ok(());
    }
    let (cg, fg) = sizes.per_group();
    let taps: usize = phases.iter().map(|p| p.taps.len()).product();
    let [_, h, v] = sizes.output;
    let f = sizes.features;
    let around = [h * v * f, v * f, f];
    let grid = Grid {
        lens: [sizes.batch, counts[0], counts[1], counts[2]],
        strides: [
            sizes.output[0] * around[0],
            phases[0].apart * around[0],
            phases[1].apart * around[1],
            phases[2].apart * around[2],
        ],
        base: (0..3).map(|d| phases[d].first * around[d]).sum(),
    };
    // The weights that this phase meets, in the order in which it meets them.
    let whole = phases.iter().zip(sizes.kernel).all(|(p, k)| p.taps.iter().map(|t| t.weight).eq(0..k));
    let chosen: Vec<T>;
    let w = if whole {
        w
    } else {
        let [_, k1, k2] = sizes.kernel;
        let all = sizes.kernel.iter().product::<usize>() * cg;
        let mut some = Vec::with_capacity(f * taps * cg);
        for feature in 0..f {
            for t0 in &phases[0].taps {
                for t1 in &phases[1].taps {
                    for t2 in &phases[2].taps {
                        let at = feature * all + ((t0.weight * k1 + t1.weight) * k2 + t2.weight) * cg;
                        some.extend_from_slice(&w[at..at + cg]);
                    }
                }
            }
        }
        chosen = some;
        &chosen
    };
    if cg == 1 && sizes.groups > 1 && fg <= 4 && taps > 0 {
        return depthwise::run(sizes, phases, &grid, x, w, y);
    }
    let k = taps * cg;
    let failed = |e: gemm::GemmError| Error::value("conv", e.to_string());
    // Windows of one element at the places of the input are the input.
    let plain = taps == 1
        && phases
            .iter()
            .zip(sizes.input)
            .all(|(p, n)| (p.first, p.apart, p.step, p.count) == (0, 1, 1, n) && p.taps[0].place == 0);
    for g in 0..sizes.groups {
        let b = MatRef::new(w, g * fg * k, k, fg, 1, k as isize).map_err(failed)?;
        if plain {
            let rows = sizes.batch * counts.iter().product::<usize>();
            let a = MatRef::new(x, g * cg, rows, cg, sizes.channels as isize, 1).map_err(failed)?;
            let c = MatMut::new(y, g * fg, rows, fg, f).map_err(failed)?;
            gemm::gemm(1.0, a, b, 0.0, c).map_err(failed)?;
            continue;
        }
        let a = Windows::new(sizes, phases, x, g * cg);
        let grid = Grid { base: grid.base + g * fg, ..grid };
        gemm::gemm_lines(&a, cg.max(1), b, y, &grid).map_err(failed)?;
    }
    Ok(())
}
