//! The work tree as it was seen: the answer of git, and the files. `flightline-workspace` looks; this module holds the
//! result, and decides whether reports about files are still true.

mod check;

use crate::Schema;
use serde::{Deserialize, Serialize};

use crate::id::CheckpointId;
use crate::path::RepoPath;
use crate::subject::{Keys, Kind, Subject};
use crate::text::Title;
use crate::time::Time;

pub use self::check::{CheckedFile, Claim, HeadMove, ReportedFile, TreeCheck, check};

/// The state of a work tree: seed D's file system section. Lists are in byte order of their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct FileSystem {
    /// Time at which the work tree was looked at, by the store's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Time>,
    /// Files that are not as they were committed.
    pub modified_files: Vec<SeenFile>,
    /// Files that were never committed, and are not ignored.
    pub created_files: Vec<SeenFile>,
    /// Files that were committed, and are gone.
    pub deleted_files: Vec<RepoPath>,
    /// Files that sorties, agents and locks name, as far as they are in no other list.
    pub named_files: Vec<SeenFile>,
    /// The answer of git; none outside a repository, and without git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_status: Option<GitStatus>,
    /// True when there is more than these lists hold.
    pub truncated: bool,
    /// The number of files that are in none of these lists, as far as they were counted.
    pub left_out: u64,
    /// The things that could not be looked at, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Title>,
}

/// The answer of git about a work tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct GitStatus {
    /// The branch; none when HEAD is detached.
    pub branch: Option<Title>,
    /// The commit; none before the first one.
    pub commit_hash: Option<CommitHash>,
    /// True when anything is not as it was committed; none when git could not say.
    pub is_dirty: Option<bool>,
    /// Files with changes that are staged.
    pub staged_files: Vec<RepoPath>,
    /// Files with changes that are not staged.
    pub unstaged_files: Vec<RepoPath>,
}

/// The branch and the commit that HEAD points to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Head {
    /// The branch; none when it is detached.
    pub branch: Option<Title>,
    /// The commit; none before the first one.
    pub commit_hash: Option<CommitHash>,
}

/// A commit's id: 40 or 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Schema)]
#[serde(transparent)]
pub struct CommitHash(String);

impl CommitHash {
    /// The id, when `text` is one.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (digits && matches!(text.len(), 40 | 64)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id's first eight digits, as people write it.
    pub fn short(&self) -> &str {
        &self.0[..8]
    }
}

impl<'de> Deserialize<'de> for CommitHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("it is no commit's id"))
    }
}

/// A file as it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct SeenFile {
    /// The path of the file in the repository.
    pub path: RepoPath,
    /// The kind of thing at the path.
    pub kind: SeenKind,
    /// The SHA-256 of the file's bytes; of a link, of the text it points with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// The file's size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Time of the file's last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_at: Option<Time>,
    /// The reason why there is no checksum, where there could be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<Title>,
}

/// The kind of thing at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum SeenKind {
    /// A plain file.
    File,
    /// A link, which is never followed.
    Link,
    /// A folder, whatever it holds.
    Folder,
    /// A socket, a device, something behind a link.
    Other,
    /// There is nothing at the path.
    Missing,
}

/// The present state of a work tree, as far as claims are about it. The caller sends it with a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct TreeNow {
    /// The branch and the commit of HEAD; none outside a repository, and without git.
    pub head: Option<Head>,
    /// The files that were looked at.
    pub files: Vec<SeenFile>,
    /// The number of files that were not looked at, because there were too many or time was up.
    pub left_out: u64,
}

impl FileSystem {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn head(&self) -> Option<Head> {
        self.git_status.as_ref().map(|git| Head {
            branch: git.branch.clone(),
            commit_hash: git.commit_hash.clone(),
        })
    }

    pub fn seen(&self) -> impl Iterator<Item = &SeenFile> {
        let lists = [&self.modified_files, &self.created_files, &self.named_files];
        lists.into_iter().flatten()
    }
}

impl Head {
    /// Returns a text for people: `main at 1a2b3c4d`.
    pub fn told(&self) -> String {
        let commit = self.commit_hash.as_ref().map(CommitHash::short);
        match (&self.branch, commit) {
            (Some(branch), Some(commit)) => format!("{branch} at {commit}"),
            (Some(branch), None) => format!("{branch}, no commit yet"),
            (None, Some(commit)) => format!("no branch, at {commit}"),
            (None, None) => "no branch, no commit yet".to_owned(),
        }
    }
}

/// The state of a checkpoint's work tree. It is a subject of its own, because the work tree is looked at after the
/// checkpoint was decided: a decision touches no files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct RecordedFiles {
    /// The checkpoint that the section belongs to.
    pub checkpoint_id: CheckpointId,
    /// The work tree as it was seen.
    pub file_system: FileSystem,
}

impl Subject for RecordedFiles {
    const KIND: Kind = Kind::FileSystem;

    fn key(&self) -> String {
        self.checkpoint_id.to_string()
    }

    fn keys(&self) -> Keys {
        // Of no mission on purpose: a look is no work on the mission.
        Keys {
            parent: Some(self.checkpoint_id.to_string()),
            status: "kept",
            ..Keys::default()
        }
    }
}
