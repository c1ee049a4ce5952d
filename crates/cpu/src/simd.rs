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

/// Whether the AMX tile registers with their bfloat16 product may be used: the processor has them, the
/// system has granted them to this process, and `OLIVINE_SIMD` does not hold them back (any value but
/// `amx` does).
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub fn amx() -> bool {
    static AMX: OnceLock<bool> = OnceLock::new();
    *AMX.get_or_init(|| {
        let held = std::env::var("OLIVINE_SIMD").is_ok_and(|v| v != "amx");
        !held && level() == Level::Avx512Bf16 && has_tiles() && tiles_granted()
    })
}

/// CPUID leaf 7: bits 22 and 24 of EDX are AMX-BF16 and AMX-TILE.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn has_tiles() -> bool {
    let edx = std::arch::x86_64::__cpuid_count(7, 0).edx;
    edx & (1 << 22) != 0 && edx & (1 << 24) != 0
}

/// Asks Linux for the tile state, which a process does not have before it asks (`arch_prctl(2)`,
/// `ARCH_REQ_XCOMP_PERM`); a kernel that does not know the state refuses.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn tiles_granted() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
    const TILE_DATA: u64 = 18;
    let result: i64;
    // SAFETY: the call takes two numbers, changes no memory, and clobbers what `syscall` does.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// Whether the processor is Intel's.
#[cfg(target_arch = "x86_64")]
pub(crate) fn intel() -> bool {
    let id = std::arch::x86_64::__cpuid(0);
    [id.ebx, id.edx, id.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
}
