//! Which vector instructions this machine has, found once at run time.

use std::sync::OnceLock;

/// Instruction-set levels that kernels are written for, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Code that the compiler vectorises for the baseline of the target.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ, VL, VBMI and VNNI.
    Avx512,
    /// The same with the bfloat16 dot product.
    Avx512Bf16,
}

/// The level that kernels run at. `OLIVINE_SIMD=portable|avx2|avx512|avx512bf16` lowers it, never raises it.
pub fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        let found = detect();
        match std::env::var("OLIVINE_SIMD").as_deref() {
            Ok("portable") => Level::Portable,
            Ok("avx2") => found.min(Level::Avx2),
            Ok("avx512") => found.min(Level::Avx512),
            _ => found,
        }
    })
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vnni");
    match (avx2, avx512, is_x86_feature_detected!("avx512bf16")) {
        (_, true, true) => Level::Avx512Bf16,
        (_, true, false) => Level::Avx512,
        (true, false, _) => Level::Avx2,
        (false, false, _) => Level::Portable,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Level {
    Level::Portable
}
