//! Files in a briefing: the wrong ones first, many of one folder as one line.

use std::collections::{BTreeMap, BTreeSet};

use super::fence::clean;
use super::share::{Size, cut_front};
use super::{FileFact, FileMark};

/// The author that a list of files is fenced with: no single one.
pub(super) const FILES: &str = "files";

/// The number of lines above which folders are rolled up.
const MOST_LINES: usize = 24;
/// A folder with fewer files is not worth hiding their names.
const FEWEST_IN_FOLDER: usize = 4;
/// Deeper folders are not told apart.
const DEEPEST: usize = 8;
const PATH: Size = Size::new(100, 150);

pub(super) struct Files(Vec<(FileMark, String)>);

pub(super) struct FileLine {
    pub text: String,
    pub files: usize,
    pub cut: bool,
}

pub(super) struct FileListing {
    pub lines: Vec<FileLine>,
    pub rolled_up: bool,
}

impl Files {
    pub fn new(files: &[FileFact], nonce: &str) -> Self {
        let mut ranked: Vec<(FileMark, String)> = files
            .iter()
            .map(|file| (file.mark, clean(&file.path, nonce, 1024)))
            .collect();
        // Stable: within a mark, the caller's order holds.
        ranked.sort_by_key(|(mark, _)| *mark);
        Self(ranked)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The finest listing that fits: every file, or folders, ever higher up. When even the top folders
    /// do not fit, as many of them as do.
    pub fn listing(&self, fits: impl Fn(&[FileLine]) -> bool) -> FileListing {
        let whole: Vec<FileLine> = self
            .0
            .iter()
            .map(|(mark, path)| line(*mark, path, 1))
            .collect();
        if whole.len() <= MOST_LINES && fits(&whole) {
            return FileListing {
                lines: whole,
                rolled_up: false,
            };
        }
        let mut lines = Vec::new();
        for depth in (1..=DEEPEST).rev() {
            lines = self.by_folder(depth);
            if lines.len() <= MOST_LINES && fits(&lines) {
                break;
            }
        }
        lines.truncate(MOST_LINES);
        while !lines.is_empty() && !fits(&lines) {
            lines.pop();
        }
        FileListing {
            rolled_up: lines.iter().any(|line| line.files > 1),
            lines,
        }
    }

    fn by_folder(&self, depth: usize) -> Vec<FileLine> {
        let mut counts: BTreeMap<(FileMark, &str), usize> = BTreeMap::new();
        for (mark, path) in &self.0 {
            *counts.entry((*mark, folder(path, depth))).or_default() += 1;
        }
        let mut told = BTreeSet::new();
        let mut lines = Vec::new();
        for (mark, path) in &self.0 {
            let key = (*mark, folder(path, depth));
            match counts.get(&key) {
                Some(&count) if count >= FEWEST_IN_FOLDER => {
                    if told.insert(key) {
                        lines.push(line(*mark, key.1, count));
                    }
                }
                Some(_) | None => lines.push(line(*mark, path, 1)),
            }
        }
        lines
    }
}

/// The mark comes first, so that no file name can forge it.
fn line(mark: FileMark, path: &str, files: usize) -> FileLine {
    let mark = mark.as_str();
    let shorter = cut_front(path, PATH);
    let shown = shorter.as_deref().unwrap_or(path);
    let text = match (files, path) {
        (1, _) => format!("{mark} {shown}"),
        (_, "") => format!("{mark} ./ ({files} files)"),
        (_, _) => format!("{mark} {shown} ({files} files)"),
    };
    FileLine {
        text,
        files,
        cut: shorter.is_some(),
    }
}

/// The first `depth` folders of a path, with the last `/`.
fn folder(path: &str, depth: usize) -> &str {
    let end = path
        .match_indices('/')
        .take(depth)
        .last()
        .map_or(0, |(index, _)| index + 1);
    &path[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(FileMark, &str, usize)], most: usize, expected: &[&str]) {
        let mut facts = Vec::new();
        for (mark, path, count) in files {
            for n in 1..=*count {
                facts.push(FileFact {
                    path: path.replace('#', &n.to_string()),
                    mark: *mark,
                });
            }
        }
        let listing = Files::new(&facts, "n0nce1").listing(|lines| lines.len() <= most);
        let lines: Vec<&str> = listing
            .lines
            .iter()
            .map(|line| line.text.as_str())
            .collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_is_wrong_comes_first() {
        check(
            &[
                (FileMark::Verified, "a.rs", 1),
                (FileMark::Claimed, "b.rs", 1),
                (FileMark::Missing, "c.rs", 1),
                (FileMark::Changed, "d.rs", 1),
            ],
            9,
            &[
                "missing c.rs",
                "changed d.rs",
                "claimed b.rs",
                "verified a.rs",
            ],
        );
    }

    #[test]
    fn many_files_become_folders_and_few_keep_their_names() {
        let files = [
            (FileMark::Verified, "src/api/v1/#.rs", 20),
            (FileMark::Verified, "src/api/v2/#.rs", 17),
            (FileMark::Verified, "#.md", 5),
            (FileMark::Missing, "src/api/v1/gone-#.rs", 2),
        ];
        check(
            &files,
            5,
            &[
                "missing src/api/v1/gone-1.rs",
                "missing src/api/v1/gone-2.rs",
                "verified src/api/v1/ (20 files)",
                "verified src/api/v2/ (17 files)",
                "verified ./ (5 files)",
            ],
        );
        check(
            &files,
            4,
            &[
                "missing src/api/v1/gone-1.rs",
                "missing src/api/v1/gone-2.rs",
                "verified src/api/ (37 files)",
                "verified ./ (5 files)",
            ],
        );
        check(&files, 1, &["missing src/api/v1/gone-1.rs"]);
    }
}
