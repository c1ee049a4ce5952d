//! Finding and opening the model that a command names.

use crate::output::note;
use crate::{Failure, Outcome};
use clap::Args;
use olivine::lm::{self, Loaded};
use std::path::{Path, PathBuf};

/// Where the model is.
#[derive(Args)]
pub struct ModelArgument {
    /// A GGUF file, or a folder with config.json, safetensors and tokenizer.json; a small default model when
    /// it is not given
    #[arg(long, value_name = "PATH")]
    model: Option<PathBuf>,
}

impl ModelArgument {
    /// Opens the model, saying where the default one was found.
    pub fn open(&self) -> Outcome<Loaded> {
        let path = match &self.model {
            Some(path) => path.clone(),
            None => {
                let path = default_model()?;
                note(&format!("model: {}", path.display()));
                path
            }
        };
        Ok(lm::load(path)?)
    }
}

/// Name of the default model in every folder of models.
const DEFAULT: &str = "smollm2.gguf";

/// The default model: what `OLIVINE_MODEL` names, or the one that the demo fetches, in the folder above the
/// program or the current folder, or in the user's cache.
fn default_model() -> Outcome<PathBuf> {
    if let Some(path) = std::env::var_os("OLIVINE_MODEL") {
        return Ok(path.into());
    }
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let beside = starts.iter().flatten().flat_map(|p| p.ancestors()).map(|dir| dir.join(".cache/models"));
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
        .map(|dir| dir.join("olivine/models"));
    beside.chain(cache).map(|dir| dir.join(DEFAULT)).find(|path| path.is_file()).ok_or_else(|| {
        Failure::Message(
            "no model is given and the default one is not on this machine: name one with --model PATH, set \
                 OLIVINE_MODEL, or run `cargo xtask fetch` in a checkout of Olivine"
                .into(),
        )
    })
}

/// A number of bytes with an optional unit: K, M, G, T (powers of 1000) or KiB, MiB, GiB, TiB.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let refuse = || format!("'{text}' is not a number of bytes such as 500000000, 500M, 1.5G or 4GiB");
    let t = text.trim();
    let digits = t.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(t.len());
    let (number, unit) = t.split_at(digits);
    let unit = unit.trim().to_ascii_uppercase();
    let power = |base: u64| match unit.chars().next() {
        Some('K') => Some(base),
        Some('M') => base.checked_pow(2),
        Some('G') => base.checked_pow(3),
        Some('T') => base.checked_pow(4),
        Some(_) | None => None,
    };
    let factor = match unit.as_str() {
        "" | "B" => 1,
        "K" | "KB" | "M" | "MB" | "G" | "GB" | "T" | "TB" => power(1000).ok_or_else(refuse)?,
        "KIB" | "MIB" | "GIB" | "TIB" => power(1024).ok_or_else(refuse)?,
        _ => return Err(refuse()),
    };
    // In whole numbers: 1.1K is 1100 bytes, not what is left of 1.1 in binary.
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 12 {
        return Err(refuse());
    }
    let parse = |s: &str| if s.is_empty() { Ok(0u128) } else { s.parse::<u128>().map_err(|_| refuse()) };
    let scale = 10u128.pow(fraction.len() as u32);
    let total = parse(whole)?
        .checked_mul(scale)
        .and_then(|w| w.checked_add(parse(fraction).ok()?))
        .and_then(|n| n.checked_mul(u128::from(factor)))
        .map(|n| n / scale);
    total.and_then(|n| usize::try_from(n).ok()).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn sizes_are_exact() {
        assert_eq!(parse_bytes("1.1KB"), Ok(1100));
        assert_eq!(parse_bytes("4GiB"), Ok(4 << 30));
        assert_eq!(parse_bytes(" 500 m "), Ok(500_000_000));
        assert_eq!(parse_bytes("0.5kib"), Ok(512));
        for bad in ["", ".", "-1", "1X", "1.2.3", "M", "99999999999999999999T", "1e3"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }
}
