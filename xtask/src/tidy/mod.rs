//! `cargo xtask tidy`: the rules that no compiler checks, over every tracked file.

mod links;
mod rust;

use crate::Result;
use crate::process::{command, output, root};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;

/// The length that a source file may have. Beyond it, it holds more than one thing.
const MAX_LINES: usize = 800;

/// Files that may be longer, each for a reason that stands here.
const LONG_FILES: &[&str] = &[];

/// Kinds of file that the length rule is for.
const SOURCES: &[&str] = &["rs", "py", "cu", "wgsl"];

/// Texts that no file of the project holds: marks of unfinished work and paths of one machine. They are
/// written in halves, or this table would find itself.
const BANNED: &[(&str, &str)] = &[
    (concat!("to", "do!("), "unfinished work"),
    (concat!("unimplemen", "ted!("), "unfinished work"),
    (concat!("TO", "DO"), "unfinished work"),
    (concat!("FIX", "ME"), "unfinished work"),
    (concat!("#[ign", "ore"), "a test that never runs"),
    (concat!("allow(dead_", "code)"), "code that nothing uses"),
    (concat!("dbg", "!("), "debugging left behind"),
    (concat!("breakpoint", "()"), "debugging left behind"),
    (concat!("/wor", "k/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/far", "m/"), "a path of one machine"),
    (concat!(".libra", "ry/"), "a path of one machine"),
];

/// One broken rule; `line` counts from 1.
#[derive(Debug, PartialEq, Eq)]
struct Offence {
    path: String,
    line: usize,
    message: String,
}

impl fmt::Display for Offence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// `cargo xtask tidy`
pub fn run(arguments: &[String]) -> Result<()> {
    if arguments.is_empty() { check() } else { Err("tidy takes no arguments".into()) }
}

/// Prints every offence; any is an error.
pub fn check() -> Result<()> {
    let listing = output(command("git").args(["ls-files", "-z"]))?;
    let tracked: BTreeSet<String> =
        listing.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    let mut offences = Vec::new();
    for path in &tracked {
        // A tracked file may be deleted in the working tree, and a binary file has no lines.
        let Ok(text) = fs::read_to_string(root().join(path)) else { continue };
        check_file(path, &text, &tracked, &mut offences);
    }
    for path in LONG_FILES.iter().filter(|path| !tracked.contains(**path)) {
        let message = "listed as a long file, but not there".into();
        offences.push(Offence { path: (*path).into(), line: 1, message });
    }
    for offence in &offences {
        println!("{offence}");
    }
    if offences.is_empty() {
        println!("{} files are tidy", tracked.len());
        return Ok(());
    }
    Err(format!("{} offences in {} files", offences.len(), tracked.len()))
}

fn check_file(path: &str, text: &str, tracked: &BTreeSet<String>, offences: &mut Vec<Offence>) {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    let mut report =
        |line: usize, message: String| offences.push(Offence { path: path.into(), line, message });
    let lines = text.lines().count();
    if SOURCES.contains(&extension) && lines > MAX_LINES && !LONG_FILES.contains(&path) {
        report(MAX_LINES + 1, format!("{lines} lines; a file may have {MAX_LINES}"));
    }
    if extension != "lock" && extension != "json" {
        for (index, line) in text.lines().enumerate() {
            for (banned, reason) in BANNED.iter().filter(|(banned, _)| contains_word(line, banned)) {
                report(index + 1, format!("`{banned}`: {reason}"));
            }
        }
    }
    if extension == "rs" {
        for line in rust::undocumented_unsafe(text) {
            report(line, "unsafe without a `SAFETY:` comment just above".into());
        }
    }
    if extension == "md" {
        let read = |target: &str| fs::read_to_string(root().join(target)).ok();
        for (line, message) in links::broken(path, text, tracked, read) {
            report(line, message);
        }
    }
}

/// Whether `word` stands in `line` and is not the inside of a longer word.
fn contains_word(line: &str, word: &str) -> bool {
    let part_of_word = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(start, _)| {
        let joins_before = word.starts_with(part_of_word) && line[..start].ends_with(part_of_word);
        let joins_after =
            word.ends_with(part_of_word) && line[start + word.len()..].starts_with(part_of_word);
        !joins_before && !joins_after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offences(path: &str, text: &str) -> Vec<usize> {
        let mut found = Vec::new();
        check_file(path, text, &BTreeSet::new(), &mut found);
        found.into_iter().map(|offence| offence.line).collect()
    }

    #[test]
    fn long_sources_are_found_and_long_data_is_not() {
        let text = "x\n".repeat(MAX_LINES + 1);
        assert_eq!(offences("a.rs", &text), [MAX_LINES + 1]);
        assert_eq!(offences("a.py", &text), [MAX_LINES + 1]);
        assert!(offences("a.csv", &text).is_empty());
        assert!(offences("a.rs", &"x\n".repeat(MAX_LINES)).is_empty());
    }

    #[test]
    fn banned_texts_are_found_as_words() {
        let mark = concat!("TO", "DO");
        assert_eq!(offences("a.py", &format!("a\n# {mark}: b\n")), [2]);
        assert!(offences("a.py", &format!("{mark}S = 1\n")).is_empty());
        assert_eq!(offences("a.toml", concat!("path = \"/ro", "ot/x\"\n")), [1]);
    }

    #[test]
    fn words_end_where_names_end() {
        assert!(contains_word("a (b)", "b"));
        assert!(!contains_word("a_b", "b"));
        assert!(contains_word("x/y/z", "/y/"));
    }
}
