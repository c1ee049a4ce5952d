//! The command line with bad input: a message, exit code 1, nothing that hangs or ends by a signal.
#![cfg(feature = "cli")]

use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A tiny Llama with scaled rotary frequencies.
fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lm/tests/data/tiny_llama_scaled")
}

fn olivine(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_olivine"))
        .args(arguments)
        .env("HOME", env!("CARGO_TARGET_TMPDIR"))
        .env_remove("XDG_STATE_HOME")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that fails early does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn refused(arguments: &[&str], message: &str) {
    let out = olivine(arguments, b"");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{arguments:?}: {said}");
    assert!(said.contains(message), "{arguments:?}: {said}");
}

/// A copy of the tiny model with one setting changed.
fn changed(name: &str, key: &str, value: Value) -> String {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&to).unwrap();
    for file in fs::read_dir(tiny()).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    let config = to.join("config.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    settings[key] = value;
    fs::write(config, settings.to_string()).unwrap();
    to.to_str().unwrap().to_owned()
}

#[test]
fn models_that_are_none() {
    refused(&["info", "/nonexistent"], "no such file");
    refused(&["generate", "--model", env!("CARGO_TARGET_TMPDIR"), "-p", "x"], "config.json");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("short.gguf");
    fs::write(&file, b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f").unwrap();
    refused(&["info", file.to_str().unwrap()], "short.gguf");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_no_model_and_nobody_waits_for_it() {
    let pipe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pipe.gguf");
    let _ = fs::remove_file(&pipe);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refused(&["info", pipe.to_str().unwrap()], "not a regular file");
}

#[test]
fn settings_that_are_damaged() {
    for (i, features) in [1u64 << 31, 1 << 40, 1 << 63].into_iter().enumerate() {
        refused(&["info", &changed(&format!("head{i}"), "head_dim", json!(features))], "features");
    }
    refused(&["info", &changed("eps", "rms_norm_eps", json!(-1.0))], "eps is finite and 0 or more, got -1");
    refused(
        &["info", &changed("architecture", "model_type", json!("no\u{1b}[31msuch"))],
        "no\\u{1b}[31msuch",
    );
}

#[test]
fn more_tokens_than_a_context_has() {
    let model = tiny();
    let model = model.to_str().unwrap();
    for n in ["100000", "4000000000", "18446744073709551615"] {
        refused(&["bench", "model", "--model", model, "--prompt-tokens", n], "do not fit the context");
    }
    let long = "a ".repeat(20_000);
    refused(&["generate", "--model", model, "--ignore-chat-template", "-p", &long], "context");
    refused(
        &["generate", "--model", model, "-p", "a", "--temp", "inf"],
        "temperature is finite and 0 or more",
    );
    refused(&["generate", "--model", model, "-p", "a", "--memory-limit", "1000"], "out of memory");
}

#[test]
fn a_chat_goes_on_after_a_line_that_is_not_text_and_says_so_at_the_end() {
    let model = tiny();
    let arguments = ["chat", "--model", model.to_str().unwrap(), "-m", "2"];
    let out = olivine(&arguments, b"\xff\xfe\n/stats\n");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("that line is not UTF-8 text"), "{said}");
    assert!(said.contains("Nothing was answered yet."), "{said}");
    assert!(said.contains("1 lines were not answered"), "{said}");
    assert_eq!(olivine(&arguments, b"/help\n").status.code(), Some(0));
}

#[test]
fn the_operations_of_a_device_that_is_named() {
    let out = olivine(&["selftest", "--device", "cpu", "--op", "logsumexp"], b"");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("cpu:0") && text.ends_with(" 0 failed\n"), "{text}");
}
