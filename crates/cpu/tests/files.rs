//! Files that NumPy and MLX wrote (`data/files`, by `scripts/references/files.py`), and files that Olivine writes.
//! With `OLIVINE_FILES=folder` the latter stay there, for that script to read them with MLX and NumPy.

use olivine_core::io::gguf::{Metadata as GgufMetadata, Value};
use olivine_core::io::npy::Header;
use olivine_core::io::{self, Content, Format, Loaded, Metadata, npz};
use olivine_core::{Array, Complex64, Dtype, Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    olivine_cpu::register();
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/files")
}

/// 0, 1, 2, … of a type.
fn counted(shape: &[usize], dtype: Dtype) -> Result<Array> {
    let n: usize = shape.iter().product();
    Array::arange(0.0, n as f64, 1.0, Dtype::F32)?.reshape(shape)?.astype(dtype)
}

fn assert_counted(what: &str, a: &Array) -> Result<()> {
    let got = if a.dtype() == Dtype::C64 {
        a.to_vec::<Complex64>()?.iter().map(|c| c.re as f64).collect()
    } else {
        a.astype(Dtype::F64)?.to_vec::<f64>()?
    };
    let want: Vec<f64> = match a.dtype() {
        Dtype::Bool => (0..a.size()).map(|i| (i > 0) as u8 as f64).collect(),
        _ => (0..a.size()).map(|i| i as f64).collect(),
    };
    assert_eq!(got, want, "{what} {a:?}");
    Ok(())
}

fn named(l: Loaded) -> BTreeMap<String, Array> {
    match l.content {
        Content::Named(n) => n,
        Content::One(a) => BTreeMap::from([(String::new(), a)]),
    }
}

fn dtype_of(name: &str) -> Option<Dtype> {
    Dtype::ALL.into_iter().find(|d| d.to_string() == name.trim_end_matches('_'))
}

#[test]
fn files_of_numpy_and_mlx_load_from_paths_and_streams() -> Result<()> {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder()).expect("the folder") {
        let path = entry.expect("an entry").path();
        let what = path.display().to_string();
        let format = Format::of(&path)?;
        let mut stream = std::fs::File::open(&path).expect("the file");
        for l in [io::load(&path, None)?, io::load_from(&mut stream, "stream", format)?] {
            for (name, a) in named(l) {
                assert_counted(&format!("{what} {name}"), &a)?;
                let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                if let Some(d) = dtype_of(&name).or_else(|| dtype_of(stem.trim_start_matches("mlx_"))) {
                    assert_eq!(a.dtype(), d, "{what} {name}");
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 2 * 70, "{seen}");
    let shape = |name: &str| io::load_npy(folder().join(name)).map(|a| a.shape().to_vec());
    assert_eq!(shape("fortran.npy")?, [2, 3, 4]);
    assert_eq!(shape("big_fortran.npy")?, [2, 3, 4]);
    assert_eq!(shape("numpy_scalar.npy")?, [0usize; 0]);
    assert_eq!(shape("numpy_empty.npy")?, [2, 0, 3]);
    let Metadata::Text(text) = io::load(folder().join("mlx.safetensors"), None)?.metadata else {
        panic!("safetensors have text")
    };
    assert_eq!(text["format"], "mlx");
    let Metadata::Gguf(meta) = io::load(folder().join("mlx.gguf"), None)?.metadata else {
        panic!("GGUF has typed values")
    };
    assert_eq!(meta.get("general.name"), Some(&Value::String("counted".into())));
    Ok(())
}

/// A folder that goes when it is dropped, unless the environment names one.
struct Folder(PathBuf, bool);

impl Folder {
    fn new(name: &str) -> Folder {
        olivine_cpu::register();
        let kept = std::env::var_os("OLIVINE_FILES").filter(|_| name == "kept");
        let path = kept.clone().map_or_else(
            || std::env::temp_dir().join(format!("olivine-files-{name}-{}", std::process::id())),
            PathBuf::from,
        );
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path, kept.is_some())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.1 {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

#[test]
fn what_is_written_comes_back() -> Result<()> {
    let dir = Folder::new("kept");
    let at = |name: &str| dir.0.join(name);
    let mut arrays = BTreeMap::new();
    for d in Dtype::ALL {
        let a = counted(&[3, 2], d)?;
        io::save(at(&format!("ours_{d}")), &a)?;
        let back = io::load_npy(at(&format!("ours_{d}.npy")))?;
        assert_eq!((back.dtype(), back.shape()), (d, a.shape()));
        assert_counted("npy", &back)?;
        arrays.insert(d.to_string(), a);
    }
    // A view that does not lie row-major, a scalar, an empty array, many axes.
    arrays.insert("view".into(), counted(&[5, 4], Dtype::F32)?.t()?.t()?);
    arrays.insert("scalar".into(), counted(&[], Dtype::F32)?);
    arrays.insert("empty".into(), counted(&[0, 3], Dtype::F16)?);
    arrays.insert("axes".into(), counted(&[1, 2, 1, 3, 1, 2, 1], Dtype::I32)?);
    io::savez(at("ours"), &arrays)?;
    io::savez_compressed(at("ours_compressed.npz"), &arrays)?;
    io::save_safetensors(
        at("ours.safetensors"),
        &arrays,
        &BTreeMap::from([("format".to_owned(), "olivine".to_owned())]),
    )?;
    for file in ["ours.npz", "ours_compressed.npz", "ours.safetensors"] {
        let back = named(io::load(at(file), None)?);
        assert_eq!(back.len(), arrays.len());
        for (name, a) in &arrays {
            assert_eq!((back[name].dtype(), back[name].shape()), (a.dtype(), a.shape()), "{file} {name}");
            assert_counted(&format!("{file} {name}"), &back[name])?;
        }
    }
    let mut meta = GgufMetadata::default();
    meta.insert("general.name", Value::String("counted".into())).expect("a new key");
    meta.insert("number", Value::I32(7)).expect("a new key");
    let fit = |d: Dtype| matches!(d, Dtype::F32 | Dtype::F16 | Dtype::I8 | Dtype::I16 | Dtype::I32);
    let few: BTreeMap<String, Array> = arrays
        .iter()
        .filter(|(_, a)| fit(a.dtype()) && a.size() > 0 && (1..=4).contains(&a.rank()))
        .map(|(n, a)| (n.clone(), a.clone()))
        .collect();
    io::save_gguf(at("ours.gguf"), &few, &meta)?;
    let back = io::load(at("ours.gguf"), None)?;
    for (name, a) in named(back) {
        assert_eq!((a.dtype(), a.shape()), (few[&name].dtype(), few[&name].shape()));
        assert_counted(&name, &a)?;
    }
    let bad = BTreeMap::from([("b".to_owned(), arrays["bool"].clone())]);
    let e = io::save_gguf(at("bad.gguf"), &bad, &meta);
    assert!(matches!(e, Err(Error::Dtype { op: "save_gguf", .. })), "{e:?}");
    let bad = BTreeMap::from([("a".to_owned(), arrays["axes"].clone())]);
    let e = io::save_gguf(at("bad.gguf"), &bad, &meta);
    assert!(matches!(e, Err(Error::Io { op: "save_gguf", .. })), "{e:?}");
    assert!(!at("bad.gguf").exists());
    // Streams.
    let mut bytes = std::io::Cursor::new(Vec::new());
    io::write_npz(&mut bytes, "stream", &arrays, true)?;
    bytes.set_position(0);
    assert_eq!(named(io::load_from(&mut bytes, "stream", Format::Npz)?).len(), arrays.len());
    let mut bytes = Vec::new();
    io::write_npy(&mut bytes, "stream", &arrays["view"])?;
    assert_eq!(Header::parse(&bytes).expect("our header").data % 64, 0);
    let names = npz::named(&[arrays["view"].clone()], &[("x", arrays["scalar"].clone())])?;
    assert!(names.contains_key("arr_0") && names.contains_key("x"));
    assert!(npz::named(&[arrays["view"].clone()], &[("arr_0", arrays["view"].clone())]).is_err());
    Ok(())
}

/// An npy file with this header text.
fn npy(text: &str, data: usize) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((text.len() as u16).to_le_bytes());
    file.extend(text.as_bytes());
    file.resize(file.len() + data, 0);
    file
}

#[test]
fn broken_npy_files_are_errors_that_say_what_is_wrong() -> Result<()> {
    olivine_cpu::register();
    let head = |descr: &str, shape: &str| {
        format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}")
    };
    let huge = head("'<f8'", "(9223372036854775807, 9223372036854775807)");
    let overflow = head("'<f8'", "(99999999999999999999999,)");
    let many = head("'<f8'", &format!("({})", "1,".repeat(65)));
    for (file, part) in [
        (b"PK".to_vec(), "magic"),
        (b"\x93NUMPY".to_vec(), "cut short"),
        (b"\x93NUMPY\x09\x00\x00\x00".to_vec(), "version 9"),
        (b"\x93NUMPY\x01\x00\xff\xff{".to_vec(), "65535 bytes"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{".to_vec(), "are allowed"),
        (npy(&head("'<f4'", "(3,)"), 11), "takes 12 bytes, but 11"),
        (npy(&huge, 0), "memory"),
        (npy(&overflow, 0), "a size"),
        (npy(&many, 8), "more than 64 axes"),
        (npy(&head("'<f4'", "(-3,)"), 12), "a size"),
        (npy(&head("'|O'", "(1,)"), 8), "\"|O\""),
        (npy(&head("'<c16'", "(1,)"), 16), "\"<c16\""),
        (npy(&head("[('a', '<f4')]", "(1,)"), 4), "records"),
        (npy("{'descr': '<f4', 'shape': (1,)}", 4), "lacks"),
        (npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4), "twice"),
        (npy("{'x': 1}", 4), "unknown key"),
        (npy(&(head("'<f4'", "(1,)") + "x"), 4), "follows"),
        (npy("{'descr': '<f4", 4), "end of a string"),
        (npy("{'descr': '\u{fffd}", 4), "end of a string"),
    ] {
        let e = io::load_from(&mut &file[..], "bad.npy", Format::Npy).expect_err(part).to_string();
        assert!(e.starts_with("[load_npy] bad.npy: ") && e.contains(part), "{e}");
    }
    // What lies behind the elements belongs to somebody else, and double quotes are as good.
    let text = "{\"descr\":\"<i4\",\"fortran_order\":False,\"shape\":(2L,)}";
    let two = named(io::load_from(&mut &npy(text, 20)[..], "two", Format::Npy)?);
    assert_eq!(two[""].to_vec::<i32>()?, [0, 0]);
    assert!(matches!(io::load("x.bin", None), Err(Error::Value { op: "load", .. })));
    assert!(matches!(io::load("/no/such/file.npy", None), Err(Error::Io { .. })));
    Ok(())
}

#[test]
fn broken_npz_files_are_errors_that_say_what_is_wrong() -> Result<()> {
    olivine_cpu::register();
    let arrays = BTreeMap::from([("a".to_owned(), counted(&[300], Dtype::F32)?)]);
    for compressed in [false, true] {
        let mut out = std::io::Cursor::new(Vec::new());
        io::write_npz(&mut out, "x", &arrays, compressed)?;
        let good = out.into_inner();
        let read = |bytes: &[u8]| -> Result<()> {
            for a in named(io::load_from(&mut &bytes[..], "bad.npz", Format::Npz)?).values() {
                a.eval()?;
            }
            Ok(())
        };
        read(&good)?;
        for end in 0..good.len() {
            assert!(matches!(read(&good[..end]), Err(Error::Io { .. })), "{end}");
        }
        // Any byte may change: an error or an array, and no more.
        for i in 0..good.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[i] ^= flip;
                if let Err(e) = read(&bad) {
                    assert!(matches!(e, Error::Io { .. } | Error::OutOfMemory { .. }), "{i}: {e}");
                }
            }
        }
        if compressed {
            let mut bad = good.clone();
            // Inside the deflated elements.
            bad[150] ^= 0x10;
            assert!(read(&bad).is_err(), "a checksum");
        }
    }
    Ok(())
}
