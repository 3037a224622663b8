//! Checks whether the reports about files are still true.

use crate::Schema;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Head, RecordedFiles, SeenFile, SeenKind, TreeNow};
use crate::briefing::FileMark;
use crate::path::RepoPath;
use crate::time::Time;

/// A report about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub path: RepoPath,
    pub said: ReportedFile,
    pub at: Option<Time>,
    pub checksum: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedFile {
    There,
    Gone,
}

/// Claims and recorded files, compared with the work tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct TreeCheck {
    /// The move of HEAD, when it is no longer where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_moved: Option<HeadMove>,
    /// The files, in byte order of their paths.
    pub files: Vec<CheckedFile>,
    /// The number of files that could not be looked at.
    pub left_out: u64,
}

/// A move of HEAD since a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct HeadMove {
    /// The position of HEAD when the checkpoint was taken.
    pub from: Head,
    /// The present position of HEAD.
    pub to: Head,
}

/// A file that was compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct CheckedFile {
    /// The file that was checked.
    pub path: RepoPath,
    /// The mark that says whether the reports and records of the file are true.
    pub mark: FileMark,
}

impl TreeCheck {
    /// Returns the mark of a file; none when nothing is known of it.
    pub fn mark(&self, path: &str) -> Option<FileMark> {
        let found = self
            .files
            .binary_search_by(|file| file.path.as_str().cmp(path));
        found.ok().map(|index| self.files[index].mark)
    }

    pub fn count(&self, mark: FileMark) -> usize {
        self.files.iter().filter(|file| file.mark == mark).count()
    }

    /// Returns true when the check says more than the reports before.
    pub fn is_telling(&self) -> bool {
        let known = self.files.iter().any(|it| it.mark != FileMark::Claimed);
        self.head_moved.is_some() || self.left_out > 0 || known
    }
}

impl HeadMove {
    /// Returns a text for people: `HEAD moved: main at 1a2b3c4d → …`.
    pub fn told(&self) -> String {
        format!(
            "HEAD moved: {} \u{2192} {}",
            self.from.told(),
            self.to.told()
        )
    }
}

/// The earlier knowledge of a file.
#[derive(Default)]
struct Known<'a> {
    claim: Option<&'a Claim>,
    recorded: Option<Recorded<'a>>,
}

enum Recorded<'a> {
    Seen(&'a SeenFile),
    Deleted,
}

/// Compares claims, and the files recorded with a checkpoint, with the work tree. A report from after the checkpoint counts
/// more than the recorded file. A file that was not looked at is only claimed; so is one outside a repository that was never
/// seen here: the work may be done in another folder.
pub fn check(claims: &[Claim], then: Option<&RecordedFiles>, now: &TreeNow) -> TreeCheck {
    let mut known: BTreeMap<&RepoPath, Known<'_>> = BTreeMap::new();
    for claim in claims {
        let slot = &mut known.entry(&claim.path).or_default().claim;
        // Of several, the last one counts.
        if slot.is_none_or(|before| before.at <= claim.at) {
            *slot = Some(claim);
        }
    }
    if let Some(then) = then {
        for seen in then.file_system.seen() {
            known.entry(&seen.path).or_default().recorded = Some(Recorded::Seen(seen));
        }
        for path in &then.file_system.deleted_files {
            known.entry(path).or_default().recorded = Some(Recorded::Deleted);
        }
    }
    let seen: BTreeMap<&RepoPath, &SeenFile> =
        now.files.iter().map(|file| (&file.path, file)).collect();
    let looked = then.and_then(|then| then.file_system.seen_at);
    let files = known.into_iter().filter_map(|(path, known)| {
        let mark = match seen.get(path) {
            Some(seen) => mark(&known, looked, seen, now.head.is_some())?,
            // Recorded, never claimed, and not looked at: it is among those left out.
            None => known.claim.map(|_| FileMark::Claimed)?,
        };
        Some(CheckedFile {
            path: path.clone(),
            mark,
        })
    });
    let heads = then.and_then(|then| then.file_system.head());
    TreeCheck {
        head_moved: heads
            .zip(now.head.clone())
            .filter(|(from, to)| from != to)
            .map(|(from, to)| HeadMove { from, to }),
        files: files.collect(),
        left_out: now.left_out,
    }
}

/// Returns the mark of a file; none when no report and no look says anything that could be wrong.
fn mark(
    known: &Known<'_>,
    looked: Option<Time>,
    seen: &SeenFile,
    in_repository: bool,
) -> Option<FileMark> {
    let there = seen.kind != SeenKind::Missing;
    let newer = known.claim.filter(|claim| claim.at > looked);
    let gone = |there: bool| match there {
        true => FileMark::Changed,
        false => FileMark::Verified,
    };
    match (newer, &known.recorded) {
        (None, Some(Recorded::Deleted)) => Some(gone(there)),
        (None, Some(Recorded::Seen(before))) if before.kind != SeenKind::Missing => {
            Some(compared(before, seen))
        }
        (newer, recorded) => {
            let claim = newer.or(known.claim)?;
            match (claim.said, there) {
                (_, false) if recorded.is_none() && !in_repository => Some(FileMark::Claimed),
                (ReportedFile::Gone, there) => Some(gone(there)),
                (ReportedFile::There, false) => Some(FileMark::Missing),
                (ReportedFile::There, true) => Some(match (&claim.checksum, recorded) {
                    (Some(said), _) => by_hash(said, seen),
                    (None, Some(Recorded::Seen(before)))
                        if compared(before, seen) == FileMark::Verified =>
                    {
                        FileMark::Verified
                    }
                    (None, _) => FileMark::Claimed,
                }),
            }
        }
    }
}

fn by_hash(said: &str, seen: &SeenFile) -> FileMark {
    match &seen.checksum {
        Some(found) if found == said => FileMark::Verified,
        Some(_) => FileMark::Changed,
        None => FileMark::Claimed,
    }
}

fn compared(before: &SeenFile, seen: &SeenFile) -> FileMark {
    if seen.kind == SeenKind::Missing {
        return FileMark::Missing;
    }
    if before.kind != seen.kind {
        return FileMark::Changed;
    }
    match (&before.checksum, &seen.checksum) {
        (Some(was), Some(is)) if was == is => FileMark::Verified,
        (Some(_), Some(_)) => FileMark::Changed,
        // Without hashes only another size proves something.
        _ if before.size != seen.size => FileMark::Changed,
        _ => FileMark::Claimed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_system::{CommitHash, FileSystem, GitStatus};
    use crate::text::Title;

    const HEAD: Head = Head {
        branch: None,
        commit_hash: None,
    };

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text).unwrap()
    }

    fn seen(text: &str, checksum: &str) -> SeenFile {
        SeenFile {
            path: path(text),
            kind: SeenKind::File,
            checksum: Some(checksum.to_owned()),
            size: Some(1),
            modified_at: None,
            unread: None,
        }
    }

    fn nothing(text: &str) -> SeenFile {
        SeenFile {
            kind: SeenKind::Missing,
            checksum: None,
            size: None,
            ..seen(text, "")
        }
    }

    fn claim(text: &str, said: ReportedFile, at: i64) -> Claim {
        Claim {
            path: path(text),
            said,
            at: Some(Time::from_millis(at)),
            checksum: None,
        }
    }

    fn recorded(file_system: FileSystem) -> RecordedFiles {
        RecordedFiles {
            checkpoint_id: "chk-00000000-0000-4000-8000-000000000001".parse().unwrap(),
            file_system: FileSystem {
                seen_at: Some(Time::from_millis(10)),
                ..file_system
            },
        }
    }

    fn marks(check: &TreeCheck) -> Vec<String> {
        let files = check.files.iter();
        files
            .map(|file| format!("{} {}", file.path, file.mark.as_str()))
            .collect()
    }

    #[test]
    fn claims_are_compared_with_what_was_recorded_and_with_what_is_there() {
        let then = recorded(FileSystem {
            modified_files: vec![
                seen("a", "1"),
                seen("b", "1"),
                seen("c", "1"),
                seen("e", "1"),
            ],
            deleted_files: vec![path("d"), path("d2")],
            named_files: vec![nothing("g"), nothing("h")],
            ..FileSystem::default()
        });
        let now = TreeNow {
            files: vec![
                seen("a", "1"),
                seen("b", "2"),
                nothing("c"),
                nothing("d"),
                seen("d2", "9"),
                seen("e", "2"),
                seen("f", "1"),
                nothing("g"),
                seen("h", "1"),
                nothing("i"),
            ],
            head: Some(HEAD),
            ..TreeNow::default()
        };
        let claims = [
            claim("a", ReportedFile::There, 5),
            claim("c", ReportedFile::There, 5),
            // Said after the checkpoint, so of course it is another file by now.
            claim("e", ReportedFile::There, 20),
            claim("f", ReportedFile::There, 5),
            claim("h", ReportedFile::There, 5),
            claim("i", ReportedFile::Gone, 20),
            claim("unseen", ReportedFile::There, 5),
        ];
        assert_eq!(
            marks(&check(&claims, Some(&then), &now)),
            [
                "a verified",
                "b changed",
                "c missing",
                "d verified",
                "d2 changed",
                "e claimed",
                "f claimed",
                "h claimed",
                "i verified",
                "unseen claimed",
            ]
        );
    }

    #[test]
    fn the_last_claim_counts_and_a_hash_that_was_said_decides() {
        let now = TreeNow {
            files: vec![seen("a", "1"), seen("b", "1"), seen("c", "1")],
            ..TreeNow::default()
        };
        let hashed = |text: &str, checksum: &str| Claim {
            checksum: Some(checksum.to_owned()),
            ..claim(text, ReportedFile::There, 5)
        };
        let claims = [
            claim("a", ReportedFile::There, 5),
            claim("a", ReportedFile::Gone, 6),
            hashed("b", "1"),
            hashed("c", "2"),
        ];
        assert_eq!(
            marks(&check(&claims, None, &now)),
            ["a changed", "b verified", "c changed"]
        );
    }

    #[test]
    fn without_hashes_only_another_size_proves_something() {
        let large = |text: &str, size: u64| SeenFile {
            checksum: None,
            size: Some(size),
            ..seen(text, "")
        };
        let then = recorded(FileSystem {
            created_files: vec![large("same", 1), large("other", 1)],
            ..FileSystem::default()
        });
        let now = TreeNow {
            files: vec![large("same", 1), large("other", 2)],
            ..TreeNow::default()
        };
        assert_eq!(
            marks(&check(&[], Some(&then), &now)),
            ["other changed", "same claimed"]
        );
    }

    #[test]
    fn what_nobody_ever_saw_here_is_missing_only_in_a_repository() {
        let claims = [
            claim("a", ReportedFile::There, 5),
            claim("b", ReportedFile::Gone, 5),
        ];
        let mut now = TreeNow {
            files: vec![nothing("a"), nothing("b")],
            ..TreeNow::default()
        };
        let outside = check(&claims, None, &now);
        assert_eq!(marks(&outside), ["a claimed", "b claimed"]);
        assert!(!outside.is_telling());
        now.head = Some(HEAD);
        let inside = check(&claims, None, &now);
        assert_eq!(marks(&inside), ["a missing", "b verified"]);
        assert!(inside.is_telling());
    }

    #[test]
    fn a_head_that_moved_is_named() {
        let head = |branch: Option<&str>, digit: &str| Head {
            branch: branch.map(|branch| Title::parse("branch", branch).unwrap()),
            commit_hash: CommitHash::parse(&digit.repeat(40)),
        };
        let moved = |from: Head, to: Head| {
            let then = recorded(FileSystem {
                git_status: Some(GitStatus {
                    branch: from.branch,
                    commit_hash: from.commit_hash,
                    is_dirty: Some(false),
                    staged_files: vec![],
                    unstaged_files: vec![],
                }),
                ..FileSystem::default()
            });
            let now = TreeNow {
                head: Some(to),
                ..TreeNow::default()
            };
            let check = check(&[], Some(&then), &now);
            check.head_moved.map(|moved| moved.told())
        };
        let told = |from, to| moved(from, to).unwrap();
        assert_eq!(
            moved(head(Some("main"), "a"), head(Some("main"), "a")),
            None
        );
        assert_eq!(
            told(head(Some("main"), "a"), head(Some("main"), "b")),
            "HEAD moved: main at aaaaaaaa \u{2192} main at bbbbbbbb"
        );
        assert_eq!(
            told(head(Some("main"), ""), head(None, "b")),
            "HEAD moved: main, no commit yet \u{2192} no branch, at bbbbbbbb"
        );
    }
}
