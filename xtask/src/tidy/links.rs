//! Links between the Markdown pages of the repository.

use std::collections::{BTreeSet, HashMap};

/// Broken links of a page, as (line from 1, message). `tracked` are the repository's files and `read` gives
/// the text of one of them.
pub fn broken(
    page: &str,
    text: &str,
    tracked: &BTreeSet<String>,
    read: impl Fn(&str) -> Option<String>,
) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, target) in links(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').map_or((target.as_str(), None), |(p, a)| (p, Some(a)));
        let resolved = if path.is_empty() { Some(page.to_owned()) } else { resolve(page, path) };
        let Some(resolved) = resolved else {
            found.push((line, format!("link to {target} leaves the repository")));
            continue;
        };
        let folder = format!("{resolved}/");
        let is_folder = resolved.is_empty() || tracked.iter().any(|file| file.starts_with(&folder));
        if !path.is_empty() && !tracked.contains(&resolved) && !is_folder {
            found.push((line, format!("link to {target}: no file {resolved}")));
            continue;
        }
        let Some(anchor) = anchor.filter(|_| resolved.ends_with(".md")) else { continue };
        let destination = if resolved == page { Some(text.to_owned()) } else { read(&resolved) };
        if !destination.is_some_and(|text| anchors(&text).contains(anchor)) {
            found.push((line, format!("link to {target}: no such heading in {resolved}")));
        }
    }
    found
}

/// `path` as seen from the folder of `page`, or nothing when it climbs out of the repository.
fn resolve(page: &str, path: &str) -> Option<String> {
    let (folder, path) = match path.strip_prefix('/') {
        Some(path) => ("", path),
        None => (page.rsplit_once('/').map_or("", |(folder, _)| folder), path),
    };
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The page's lines outside fenced code, with inline code blanked.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!is_fence && !fenced).then(|| {
            let outside =
                line.split('`').enumerate().map(|(part, text)| if part % 2 == 0 { text } else { "code" });
            (index + 1, outside.collect())
        })
    })
}

fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for (start, _) in line.match_indices("](") {
            let rest = &line[start + 2..];
            let Some(end) = rest.find(')') else { continue };
            // A title may follow the target after a space.
            let target = rest[..end].split_whitespace().next().unwrap_or("");
            found.push((number, target.to_owned()));
        }
    }
    found
}

/// The anchors of a page's headings: lower case, spaces to hyphens, other punctuation dropped, and a number
/// behind the second of the same name.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut fenced = false;
    let mut all = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let slug: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter_map(|character| match character {
                ' ' => Some('-'),
                character if character.is_alphanumeric() || "-_".contains(character) => Some(character),
                _ => None,
            })
            .collect();
        let count = seen.entry(slug.clone()).or_default();
        all.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(page: &str, text: &str) -> Vec<usize> {
        let tracked = ["README.md", "docs/ops.md", "docs/pictures/a.png"].map(str::to_owned).into();
        let read =
            |path: &str| (path == "docs/ops.md").then(|| "# Ops\n\n## `add` and co.\n## Ops\n".to_owned());
        broken(page, text, &tracked, read).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn files_folders_and_headings_resolve() {
        let text = "[a](docs/ops.md) ![b](docs/pictures/a.png) [c](docs)\n[d](docs/ops.md#add-and-co)\n[e](#here)\n# Here\n[f](docs/ops.md#ops-1)";
        assert!(messages("README.md", text).is_empty());
        assert!(messages("docs/ops.md", "[up](../README.md \"title\") [root](/README.md)").is_empty());
        assert!(
            messages("README.md", "[web](https://example.org/x) [mail](mailto:a@example.org)").is_empty()
        );
    }

    #[test]
    fn what_is_missing_is_found() {
        assert_eq!(messages("README.md", "ok\n[a](docs/missing.md)"), [2]);
        assert_eq!(messages("README.md", "[a](docs/ops.md#missing)"), [1]);
        assert_eq!(messages("README.md", "[a](#missing)"), [1]);
        assert_eq!(messages("README.md", "[a](../outside.md)"), [1]);
    }

    #[test]
    fn code_holds_no_links() {
        assert!(messages("README.md", "`[a](missing)`\n```\n[a](missing)\n```\n").is_empty());
    }
}
