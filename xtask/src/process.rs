//! Running other programs, with errors that name the command.

use crate::Result;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the repository.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// `program` with the repository root as its working directory.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// The cargo that runs this task, so that a pinned toolchain stays pinned.
pub fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The command as a person would type it, for messages.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut text = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        text.push(' ');
        if argument.is_empty() || argument.contains(char::is_whitespace) {
            text.push_str(&format!("{argument:?}"));
        } else {
            text.push_str(&argument);
        }
    }
    text
}

/// Runs to the end with the terminal attached; a status other than zero is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = command.status().map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` ended with {status}")) }
}

/// Runs to the end and returns standard output; what it wrote to standard error is part of the error.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command.output().map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(|_| format!("`{shown}` printed invalid UTF-8"));
    }
    let detail = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{shown}` ended with {}\n{}", output.status, detail.trim_end()))
}

/// Whether the command starts and ends with status zero; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Builds the command line in release mode and returns its path.
pub fn build_olivine() -> Result<PathBuf> {
    run(cargo().args(["build", "--release", "--locked", "--package", "olivine", "--bin", "olivine"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let binary = target.join("release").join(format!("olivine{}", std::env::consts::EXE_SUFFIX));
    if binary.is_file() { Ok(binary) } else { Err(format!("no {} after the build", binary.display())) }
}
