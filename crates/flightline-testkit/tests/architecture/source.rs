//! The crates as texts: their files, their dependencies and the types that they declare.

use std::fs;
use std::path::{Path, PathBuf};

pub(super) fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_path_buf()
}

/// Every Rust file below a folder.
pub(super) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// A file's text up to its unit tests: up to a module of theirs that stands in the file.
pub(super) fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let begins_tests = |(at, _): &(usize, &str)| {
        let mut lines = text[*at..].lines();
        let item = lines.find(|line| !line.is_empty() && !line.starts_with(['#', ' ', ')']));
        item.is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let end = text.match_indices("#[cfg(test)]").find(begins_tests);
    text[..end.map_or(text.len(), |(at, _)| at)].to_owned()
}

/// The dependencies a crate's manifest names under `[dependencies]`.
pub(super) fn dependencies(name: &str) -> Vec<String> {
    let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
    let section = manifest
        .split("[dependencies]")
        .nth(1)
        .unwrap_or_default()
        .split("\n[")
        .next()
        .unwrap();
    let names = section
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next());
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

pub(super) fn ours(name: &str) -> Vec<String> {
    let mut found = dependencies(name);
    found.retain(|name| name.starts_with("flightline") || name == "fleet");
    found.sort();
    found
}

/// The type that a line declares, and true when it is public: `pub(crate) struct Name`, `enum Name`. A type inside an `impl`
/// has the name that its trait gives it.
pub(super) fn declared_type(line: &str) -> Option<(&str, bool)> {
    let text = line.trim_start();
    let (public, rest) = match text.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => (true, rest.split_once(')')?.1.trim_start()),
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    let (keyword, rest) = rest.split_once(' ')?;
    let inherited = keyword == "type" && !public && text != line;
    let is_type = ["struct", "enum", "trait", "type"].contains(&keyword) && !inherited;
    let name = rest.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    (is_type && name.starts_with(|c: char| c.is_ascii_uppercase())).then_some((name, public))
}
