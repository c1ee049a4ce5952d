//! Finding `unsafe` blocks and implementations that nobody explains. Clippy checks them too, but only in
//! the code that the current platform's `cfg` keeps: kernels for other processors are out of its sight.

/// Lines (from 1) with an `unsafe` block or implementation that no `SAFETY:` comment stands above.
pub fn undocumented_unsafe(text: &str) -> Vec<usize> {
    let code = code_only(text);
    let code: Vec<&str> = code.lines().collect();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in code.iter().enumerate() {
        if opens_unsafe(line, code.get(index + 1)) && !explained(&lines, &code, index) {
            found.push(index + 1);
        }
    }
    found
}

/// Whether the line starts an `unsafe` block or implementation. A function states what its caller owes in
/// its documentation, which the trait holds for an implementation's functions; that is clippy's to check.
fn opens_unsafe(line: &str, next: Option<&&str>) -> bool {
    let mut rest = line;
    while let Some(start) = rest.find("unsafe") {
        let before = rest[..start].chars().next_back();
        let after = rest[start + "unsafe".len()..].trim_start();
        rest = &rest[start + "unsafe".len()..];
        if before.is_some_and(|character| character.is_alphanumeric() || "_\"(".contains(character)) {
            continue;
        }
        let after = if after.is_empty() { next.map_or("", |next| next.trim_start()) } else { after };
        if after.starts_with('{') || after.starts_with("impl") {
            return true;
        }
    }
    false
}

/// Whether the line's own comment, or the comments and attributes above its statement, give the reason.
fn explained(lines: &[&str], code: &[&str], index: usize) -> bool {
    let gives_reason = |line: &str| line.contains("SAFETY:");
    if gives_reason(lines[index]) {
        return true;
    }
    for above in (0..index).rev() {
        if gives_reason(lines[above]) {
            return true;
        }
        let code = code[above].trim();
        let comment_or_attribute =
            code.is_empty() && !lines[above].trim().is_empty() || code.starts_with("#[");
        let statement_goes_on = !code.is_empty() && !code.ends_with([';', '{', '}', ',']);
        if !comment_or_attribute && !statement_goes_on {
            return false;
        }
    }
    false
}

/// The text with comments dropped and the insides of literals blanked, line for line.
fn code_only(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut index = 0;
    while index < characters.len() {
        let end = match characters[index] {
            '/' if characters.get(index + 1) == Some(&'/') => line_end(&characters, index),
            '/' if characters.get(index + 1) == Some(&'*') => block_comment_end(&characters, index),
            '"' => string_end(&characters, index),
            'r' if !follows_name(&characters, index) => raw_string_end(&characters, index),
            '\'' => character_end(&characters, index),
            _ => index,
        };
        if end > index {
            let is_text = characters[index] != '/';
            code.push_str(if is_text { "\"" } else { "" });
            code.extend(characters[index..end].iter().filter(|character| **character == '\n'));
            code.push_str(if is_text { "\"" } else { "" });
            index = end;
        } else {
            code.push(characters[index]);
            index += 1;
        }
    }
    code
}

fn follows_name(characters: &[char], index: usize) -> bool {
    index > 0 && (characters[index - 1].is_alphanumeric() || characters[index - 1] == '_')
}

fn line_end(characters: &[char], start: usize) -> usize {
    characters[start..]
        .iter()
        .position(|character| *character == '\n')
        .map_or(characters.len(), |at| start + at)
}

fn block_comment_end(characters: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut index = start;
    while index + 1 < characters.len() {
        match (characters[index], characters[index + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                index += 1;
                continue;
            }
        }
        index += 2;
        if depth == 0 {
            return index;
        }
    }
    characters.len()
}

fn string_end(characters: &[char], start: usize) -> usize {
    let mut index = start + 1;
    while index < characters.len() {
        match characters[index] {
            '\\' => index += 2,
            '"' => return index + 1,
            _ => index += 1,
        }
    }
    characters.len()
}

/// The end of `r"..."` or `r#"..."#`, or `start` when this `r` opens no raw string.
fn raw_string_end(characters: &[char], start: usize) -> usize {
    let hashes = characters[start + 1..].iter().take_while(|character| **character == '#').count();
    let open = start + 1 + hashes;
    if characters.get(open) != Some(&'"') {
        return start;
    }
    let closes = |at: usize| {
        characters[at] == '"'
            && characters[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    (open + 1..characters.len()).find(|at| closes(*at)).map_or(characters.len(), |at| at + 1 + hashes)
}

/// The end of a character literal, or `start` for a lifetime.
fn character_end(characters: &[char], start: usize) -> usize {
    match (characters.get(start + 1), characters.get(start + 2)) {
        (Some('\\'), _) => {
            let close = characters.iter().skip(start + 3).position(|character| *character == '\'');
            close.map_or(characters.len(), |at| start + 4 + at)
        }
        (Some(_), Some('\'')) => start + 3,
        _ => start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_blocks_and_implementations() {
        assert_eq!(undocumented_unsafe("fn f() {\n    unsafe { g() }\n}\n"), [2]);
        assert_eq!(undocumented_unsafe("unsafe impl Send for A {}\n"), [1]);
        assert!(undocumented_unsafe("pub unsafe fn f() {}\n").is_empty());
        assert_eq!(undocumented_unsafe("let a =\n    unsafe\n{ g() };\n"), [2]);
    }

    #[test]
    fn accepts_reasons_above_and_beside() {
        let above = "// SAFETY: the pointer is valid for the whole\n// of the call.\n#[inline]\nunsafe impl Send for A {}\n";
        assert!(undocumented_unsafe(above).is_empty());
        assert!(undocumented_unsafe("// SAFETY: in bounds.\nlet value =\n    unsafe { g() };\n").is_empty());
        assert!(undocumented_unsafe("unsafe { g() } // SAFETY: in bounds.\n").is_empty());
    }

    #[test]
    fn a_reason_further_up_explains_nothing() {
        assert_eq!(undocumented_unsafe("// SAFETY: in bounds.\nunsafe { g() };\nunsafe { h() };\n"), [3]);
        assert_eq!(undocumented_unsafe("// SAFETY: in bounds.\n\nunsafe { g() };\n"), [3]);
    }

    #[test]
    fn literals_comments_and_types_are_no_code() {
        assert!(undocumented_unsafe("let a = \"unsafe { }\"; // unsafe { }\n/* unsafe { } */\n").is_empty());
        assert!(undocumented_unsafe("let a = r#\"\nunsafe { \"quoted\" }\n\"#;\n").is_empty());
        assert!(undocumented_unsafe("type F = unsafe fn(*const u8);\nlet unsafe_name = 'u';\n").is_empty());
        assert_eq!(undocumented_unsafe("let a = '\"';\nunsafe { g() }\nlet b = '\\'';\n"), [2]);
        assert_eq!(undocumented_unsafe("fn f<'a>(x: &'a str) {\n    unsafe { g() }\n}\n"), [2]);
    }
}
