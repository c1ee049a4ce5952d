//! Fourier transforms: `olivine.core.fft`.

use crate::args::Args;
use crate::fault::{R, value_error};
use crate::function::table;
use olivine_core::fft::{self, Frames, Norm};
use olivine_core::ops::PadMode;
use olivine_core::{Array, Result};

fn norm(a: &Args<'_, '_>) -> R<Norm> {
    match a.str_or("norm", "backward")?.as_str() {
        "backward" => Ok(Norm::Backward),
        "ortho" => Ok(Norm::Ortho),
        "forward" => Ok(Norm::Forward),
        other => Err(value_error(format!("[{}] {other:?} is no norm", a.op()))),
    }
}

fn line(a: &Args<'_, '_>, f: fn(&Array, Option<usize>, i32, Norm) -> Result<Array>) -> R<Array> {
    let n = match a.opt_int("n")? {
        None => None,
        Some(n) => match usize::try_from(n) {
            Ok(n) if n > 0 => Some(n),
            _ => return Err(value_error(format!("[{}] a length of {n}", a.op()))),
        },
    };
    Ok(f(&a.array(0)?, n, a.axis_or("axis", -1)?, norm(a)?)?)
}

type Many = fn(&Array, Option<&[usize]>, Option<&[i32]>, Norm) -> Result<Array>;

fn many(a: &Args<'_, '_>, f: Many) -> R<Array> {
    Ok(f(&a.array(0)?, a.opt_shape("s")?.as_deref(), a.opt_axes("axes")?.as_deref(), norm(a)?)?)
}

fn plane(a: &Args<'_, '_>, f: Many) -> R<Array> {
    let axes = a.opt_axes("axes")?.unwrap_or(vec![-2, -1]);
    Ok(f(&a.array(0)?, a.opt_shape("s")?.as_deref(), Some(&axes), norm(a)?)?)
}

fn frames(a: &Args<'_, '_>, n_fft: Option<usize>) -> R<Frames> {
    Ok(Frames {
        n_fft: a.opt_size("n_fft")?.or(n_fft),
        hop: a.opt_size("hop_length")?,
        win_length: a.opt_size("win_length")?,
        window: a.opt_array("window")?,
        uncentered: !a.bool_or("center", true)?,
        norm: norm(a)?,
        onesided: a.opt("onesided").map(|_| a.bool_or("onesided", true)).transpose()?,
    })
}

fn stft(a: &Args<'_, '_>) -> R<Array> {
    let mode = match a.str_or("pad_mode", "reflect")?.as_str() {
        "reflect" => PadMode::Reflect,
        "constant" => PadMode::Zero,
        "edge" => PadMode::Edge,
        other => return Err(value_error(format!("[stft] {other:?} is no padding"))),
    };
    Ok(fft::stft(&a.array(0)?, &frames(a, Some(2048))?, &mode)?)
}

table! {
    /// Functions of `fft`.
    TABLE;
    "fft" => |a| line(a, fft::fft);
    "ifft" => |a| line(a, fft::ifft);
    "rfft" => |a| line(a, fft::rfft);
    "irfft" => |a| line(a, fft::irfft);
    "fftn" => |a| many(a, fft::fftn);
    "ifftn" => |a| many(a, fft::ifftn);
    "rfftn" => |a| many(a, fft::rfftn);
    "irfftn" => |a| many(a, fft::irfftn);
    "fft2" => |a| plane(a, fft::fftn);
    "ifft2" => |a| plane(a, fft::ifftn);
    "rfft2" => |a| plane(a, fft::rfftn);
    "irfft2" => |a| plane(a, fft::irfftn);
    "fftfreq" => |a| fft::fftfreq(a.size("n")?, a.f64_or("d", 1.0)?);
    "rfftfreq" => |a| fft::rfftfreq(a.size("n")?, a.f64_or("d", 1.0)?);
    "fftshift" => |a| fft::fftshift(&a.array(0)?, a.opt_axes("axes")?.as_deref());
    "ifftshift" => |a| fft::ifftshift(&a.array(0)?, a.opt_axes("axes")?.as_deref());
    "stft" => |a| stft(a);
    "istft" => |a| fft::istft(&a.array(0)?, &frames(a, None)?, a.opt_size("length")?);
}
