//! CUDA C++ to machine code through NVRTC, kept on disk.
//!
//! The name of a kept file is the hash of everything that decides its content: source, options, architecture
//! and compiler version. Files are written under another name and renamed, so readers see whole ones only.

use cudarc::nvrtc::sys as nv;
use std::ffi::{CStr, CString};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// How to get NVRTC, for messages.
const NO_NVRTC: &str = "NVRTC (libnvrtc.so), which compiles kernels, cannot be loaded: install the CUDA toolkit \
                        (https://developer.nvidia.com/cuda-downloads) or `pip install nvidia-cuda-nvrtc`, and put \
                        its folder on LD_LIBRARY_PATH";

/// Why something does not compile, in the compiler's words.
#[derive(Debug, Clone)]
pub struct CompileError(pub String);

impl std::fmt::Display for CompileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What to compile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unit {
    /// Name that messages use.
    pub name: String,
    /// The whole source.
    pub source: String,
    /// Whether `a * b + c` may be computed with one rounding.
    pub contract: bool,
}

/// What NVRTC can do.
#[derive(Debug, Clone)]
pub struct Compiler {
    /// Major and minor version.
    pub version: (i32, i32),
    /// Architectures that it makes machine code for: 90 for 9.0.
    pub archs: Vec<i32>,
}

/// The compiler of this machine.
///
/// # Errors
/// Names the library that cannot be loaded and how to install it.
pub fn compiler() -> Result<&'static Compiler, CompileError> {
    static COMPILER: OnceLock<Result<Compiler, CompileError>> = OnceLock::new();
    COMPILER.get_or_init(open).as_ref().map_err(Clone::clone)
}

fn open() -> Result<Compiler, CompileError> {
    // SAFETY: asks the system's loader for a library by its name.
    if !unsafe { nv::is_culib_present() } {
        return Err(CompileError(NO_NVRTC.into()));
    }
    let ask = || {
        let (mut major, mut minor, mut n) = (0, 0, 0);
        // SAFETY: the functions write to the given integers, the last one as many as it announced.
        unsafe {
            check("version", nv::nvrtcVersion(&mut major, &mut minor))?;
            check("architectures", nv::nvrtcGetNumSupportedArchs(&mut n))?;
            let mut archs = vec![0; n.max(0) as usize];
            check("architectures", nv::nvrtcGetSupportedArchs(archs.as_mut_ptr()))?;
            Ok(Compiler { version: (major, minor), archs })
        }
    };
    // A library too old to have a function makes the loader panic.
    catch_unwind(AssertUnwindSafe(ask))
        .unwrap_or_else(|_| Err(CompileError("NVRTC is older than CUDA 12; install a newer one".into())))
}

fn check(what: &str, r: nv::nvrtcResult) -> Result<(), CompileError> {
    match r {
        nv::nvrtcResult::NVRTC_SUCCESS => Ok(()),
        e => Err(CompileError(format!("NVRTC: {what}: {e:?}"))),
    }
}

/// Machine code of a unit for an architecture; PTX, which the driver translates, where the compiler does not
/// know the architecture yet. Kept on disk.
///
/// # Errors
/// The compiler's messages, or that there is none.
pub fn compile(unit: &Unit, arch: i32) -> Result<Vec<u8>, CompileError> {
    // Only the compiler's version is needed of it when the code is there already.
    let c = compiler()?;
    let key = key(unit, arch, c.version);
    let file = folder().map(|f| f.join(format!("{key:032x}.bin")));
    if let Some(image) = file.as_deref().and_then(read) {
        return Ok(image);
    }
    let image = compile_now(unit, arch, c)?;
    if let Some(file) = file {
        // A cache that cannot be written costs time, not correctness.
        let _ = write(&file, &image);
    }
    Ok(image)
}

/// Compiles without looking at the disk.
///
/// # Errors
/// The compiler's messages.
pub fn compile_now(unit: &Unit, arch: i32, c: &Compiler) -> Result<Vec<u8>, CompileError> {
    let known = c.archs.contains(&arch);
    let newest = c.archs.iter().copied().filter(|&a| a <= arch).max();
    let target = match newest {
        _ if known => format!("--gpu-architecture=sm_{arch}"),
        Some(a) => format!("--gpu-architecture=compute_{a}"),
        None => return Err(CompileError(format!("NVRTC knows no architecture up to {arch}"))),
    };
    let contract = format!("--fmad={}", unit.contract);
    let options =
        [target.as_str(), contract.as_str(), "--std=c++17", "-default-device", "--disable-warnings"];
    let text = |s: &str| CString::new(s).map_err(|e| CompileError(e.to_string()));
    let (source, name) = (text(&unit.source)?, text(&unit.name)?);
    let options = options.iter().map(|o| text(o)).collect::<Result<Vec<_>, _>>()?;
    let pointers: Vec<_> = options.iter().map(|o| o.as_ptr()).collect();
    let mut program = std::ptr::null_mut();
    // SAFETY: source, name and options outlive the program, which is destroyed below.
    let r = unsafe {
        nv::nvrtcCreateProgram(
            &mut program,
            source.as_ptr(),
            name.as_ptr(),
            0,
            std::ptr::null(),
            std::ptr::null(),
        )
    };
    check("create", r)?;
    let run = || {
        // SAFETY: a program that was just made; buffers have the sizes that the library announced.
        unsafe {
            let r = nv::nvrtcCompileProgram(program, pointers.len() as i32, pointers.as_ptr());
            if r != nv::nvrtcResult::NVRTC_SUCCESS {
                let mut n = 0;
                check("log", nv::nvrtcGetProgramLogSize(program, &mut n))?;
                let mut log = vec![0u8; n.max(1)];
                check("log", nv::nvrtcGetProgramLog(program, log.as_mut_ptr().cast()))?;
                let log = CStr::from_bytes_until_nul(&log).map_or("".into(), CStr::to_string_lossy);
                return Err(CompileError(format!("{} does not compile: {log}", unit.name)));
            }
            let mut n = 0;
            let size = |n: &mut usize| {
                if known { nv::nvrtcGetCUBINSize(program, n) } else { nv::nvrtcGetPTXSize(program, n) }
            };
            check("size", size(&mut n))?;
            // A zero more, which ends PTX in any case.
            let mut image = vec![0u8; n + 1];
            let p = image.as_mut_ptr().cast();
            check("code", if known { nv::nvrtcGetCUBIN(program, p) } else { nv::nvrtcGetPTX(program, p) })?;
            Ok(image)
        }
    };
    let image = run();
    // SAFETY: made above and not used again.
    unsafe { nv::nvrtcDestroyProgram(&mut program) };
    image
}

/// FNV-1a of 128 bits (Fowler, Noll, Vo).
fn hash(state: u128, bytes: &[u8]) -> u128 {
    bytes
        .iter()
        .fold(state, |h, &b| (h ^ u128::from(b)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b))
}

const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;

fn key(unit: &Unit, arch: i32, version: (i32, i32)) -> u128 {
    let head = format!("{} {} {} {} {}\n", FORMAT, arch, version.0, version.1, unit.contract);
    hash(hash(BASIS, head.as_bytes()), unit.source.as_bytes())
}

/// Changes when options or the layout of the files do.
const FORMAT: u32 = 1;

/// Where code is kept: `OLIVINE_KERNEL_CACHE`, else in the user's cache. `None` when there is no place.
fn folder() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("OLIVINE_KERNEL_CACHE") {
        return (!named.is_empty()).then(|| named.into());
    }
    std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
        .map(|dir| dir.join("olivine/kernels"))
}

/// A kept image; `None` when there is none or it is damaged.
fn read(file: &Path) -> Option<Vec<u8>> {
    let mut all = std::fs::read(file).ok()?;
    let at = all.len().checked_sub(16)?;
    let sum = u128::from_le_bytes(all[at..].try_into().ok()?);
    all.truncate(at);
    (hash(BASIS, &all) == sum).then_some(all)
}

fn write(file: &Path, image: &[u8]) -> std::io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Some(dir) = file.parent() else { return Ok(()) };
    std::fs::create_dir_all(dir)?;
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let scratch = file.with_extension(format!("{}-{n}.part", std::process::id()));
    let written = std::fs::File::create(&scratch).and_then(|mut f| {
        f.write_all(image)?;
        f.write_all(&hash(BASIS, image).to_le_bytes())
    });
    let renamed = written.and_then(|()| std::fs::rename(&scratch, file));
    if renamed.is_err() {
        let _ = std::fs::remove_file(&scratch);
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_holds_all_that_decides() {
        let unit = |s: &str, contract| Unit { name: "k".into(), source: s.into(), contract };
        let a = key(&unit("x", true), 90, (13, 0));
        for other in [
            key(&unit("y", true), 90, (13, 0)),
            key(&unit("x", false), 90, (13, 0)),
            key(&unit("x", true), 80, (13, 0)),
            key(&unit("x", true), 90, (13, 1)),
        ] {
            assert_ne!(a, other);
        }
        let renamed = Unit { name: "other".into(), ..unit("x", true) };
        assert_eq!(a, key(&renamed, 90, (13, 0)), "the name decides nothing");
    }

    #[test]
    fn damaged_files_are_not_used() {
        let dir = std::env::temp_dir().join(format!("olivine-kernels-{}", std::process::id()));
        let file = dir.join("k.bin");
        write(&file, b"machine code").unwrap();
        assert_eq!(read(&file).unwrap(), b"machine code");
        let mut all = std::fs::read(&file).unwrap();
        all[3] ^= 1;
        std::fs::write(&file, &all).unwrap();
        assert!(read(&file).is_none());
        std::fs::write(&file, b"short").unwrap();
        assert!(read(&file).is_none());
        assert!(read(&dir.join("none.bin")).is_none());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
