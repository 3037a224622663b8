//! The pages for those who change the code: which they are, and the words, links and headings in them.

use std::fs;
use std::path::PathBuf;

use crate::source::crates;

/// Where the tests are that a page names: `it::rewind::notes_are_kept`.
pub(super) const RINGS: [(&str, &str); 9] = [
    ("it", "flightline/tests/it"),
    ("cli", "fleet/tests/it/cli"),
    ("crash", "fleet/tests/it/crash"),
    ("chaos", "fleet/tests/it/chaos"),
    ("shell", "fleet/tests/it/seed_c_shell.rs"),
    ("http", "flightline-server/tests/http"),
    ("store", "flightline-store/tests/it"),
    ("tree", "flightline-workspace/tests/tree"),
    ("house", "flightline-testkit/tests/architecture.rs"),
];

/// The pages for those who change the code, and everything below docs/design.
pub(super) fn pages() -> Vec<PathBuf> {
    let root = crates().parent().unwrap().to_path_buf();
    let named = [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "STYLE.md",
        "README.md",
        "docs/glossary.md",
        "docs/concepts.md",
    ];
    let mut pages: Vec<PathBuf> = named.iter().map(|name| root.join(name)).collect();
    for folder in ["docs/design", "docs/design/decisions"] {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    pages
}

/// What stands between backticks in a page, without its blocks of code.
pub(super) fn quoted(page: &str) -> Vec<String> {
    let mut in_block = false;
    let mut words = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            words.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    words
}

/// The name by which a link leads to a heading.
pub(super) fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    });
    kept.collect()
}

/// A file of a fleet's own work, in an example.
pub(super) fn is_an_example(path: &str) -> bool {
    path.starts_with("src/")
}
