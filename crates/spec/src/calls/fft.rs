//! Fourier transforms.

use super::calls;
use crate::args::Args;
use olivine_core::fft::{self, Frames, Norm};
use olivine_core::ops::PadMode;
use olivine_core::{Array, Error, Result};

fn norm(a: &Args) -> Result<Norm> {
    match a.choice("norm", &["backward", "ortho", "forward"])?.as_str() {
        "backward" => Ok(Norm::Backward),
        "ortho" => Ok(Norm::Ortho),
        "forward" => Ok(Norm::Forward),
        other => Err(Error::value("fft", format!("norm {other}"))),
    }
}

fn line(a: &Args, f: fn(&Array, Option<usize>, i32, Norm) -> Result<Array>) -> Result<Array> {
    f(&a.array(0)?, a.opt_size("n")?, a.axis_or("axis", -1)?, norm(a)?)
}

type Many = fn(&Array, Option<&[usize]>, Option<&[i32]>, Norm) -> Result<Array>;

fn many(a: &Args, f: Many) -> Result<Array> {
    f(&a.array(0)?, a.opt_shape("s")?.as_deref(), a.opt_axes("axes")?.as_deref(), norm(a)?)
}

fn plane(a: &Args, f: Many) -> Result<Array> {
    let axes = a.opt_axes("axes")?.unwrap_or(vec![-2, -1]);
    f(&a.array(0)?, a.opt_shape("s")?.as_deref(), Some(&axes), norm(a)?)
}

fn frames(a: &Args) -> Result<Frames> {
    Ok(Frames {
        n_fft: a.opt_size("n_fft")?,
        hop: a.opt_size("hop_length")?,
        win_length: a.opt_size("win_length")?,
        window: a.opt_array("window")?,
        uncentered: !a.bool_or("center", true)?,
        norm: norm(a)?,
        onesided: a.value("onesided").map(|_| a.bool_or("onesided", true)).transpose()?,
    })
}

calls! { "fft";
    "fft.fft" => |a| line(a, fft::fft);
    "fft.ifft" => |a| line(a, fft::ifft);
    "fft.rfft" => |a| line(a, fft::rfft);
    "fft.irfft" => |a| line(a, fft::irfft);
    "fft.fftn" => |a| many(a, fft::fftn);
    "fft.ifftn" => |a| many(a, fft::ifftn);
    "fft.rfftn" => |a| many(a, fft::rfftn);
    "fft.irfftn" => |a| many(a, fft::irfftn);
    "fft.fft2" => |a| plane(a, fft::fftn);
    "fft.ifft2" => |a| plane(a, fft::ifftn);
    "fft.rfft2" => |a| plane(a, fft::rfftn);
    "fft.irfft2" => |a| plane(a, fft::irfftn);
    "fft.fftfreq" => |a| fft::fftfreq(a.size("n")?, a.f64_or("d", 1.0)?);
    "fft.rfftfreq" => |a| fft::rfftfreq(a.size("n")?, a.f64_or("d", 1.0)?);
    "fft.fftshift" => |a| fft::fftshift(&a.array(0)?, a.opt_axes("axes")?.as_deref());
    "fft.ifftshift" => |a| fft::ifftshift(&a.array(0)?, a.opt_axes("axes")?.as_deref());
    "fft.stft" => |a| {
        let mode = match a.choice("pad_mode", &["reflect", "constant", "edge"])?.as_str() {
            "reflect" => PadMode::Reflect,
            "constant" => PadMode::Zero,
            "edge" => PadMode::Edge,
            other => return Err(Error::value("stft", format!("padding {other}"))),
        };
        fft::stft(&a.array(0)?, &frames(a)?, &mode)
    };
    "fft.istft" => |a| fft::istft(&a.array(0)?, &frames(a)?, a.opt_size("length")?);
}
