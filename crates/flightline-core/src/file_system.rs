//! The work tree as it was seen: the answer of git, and the files. `flightline-workspace` looks; this module holds what it
//! saw, and decides whether reports about files are still true.

mod check;

use serde::{Deserialize, Serialize};

use crate::id::CheckpointId;
use crate::path::RepoPath;
use crate::subject::{Keys, Kind, Subject};
use crate::text::Title;
use crate::time::Time;

pub use self::check::{CheckedFile, Claim, HeadMove, ReportedFile, TreeCheck, check};

/// What a work tree looked like: seed D's file system section. Lists are in byte order of their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileSystem {
    /// When it was looked at, by the store's clock.
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
    /// What git said; none outside a repository, and without git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_status: Option<GitStatus>,
    /// Whether there is more than these lists hold.
    pub truncated: bool,
    /// How many files are in none of these lists, as far as they were counted.
    pub left_out: u64,
    /// What could not be looked at, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Title>,
}

/// What git said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GitStatus {
    /// The branch; none when HEAD is detached.
    pub branch: Option<Title>,
    /// The commit; none before the first one.
    pub commit_hash: Option<CommitHash>,
    /// Whether anything is not as it was committed; none when git could not say.
    pub is_dirty: Option<bool>,
    /// Changes that are staged.
    pub staged_files: Vec<RepoPath>,
    /// Changes that are not.
    pub unstaged_files: Vec<RepoPath>,
}

/// Where HEAD is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Head {
    /// The branch; none when it is detached.
    pub branch: Option<Title>,
    /// The commit; none before the first one.
    pub commit_hash: Option<CommitHash>,
}

/// A commit's id: 40 or 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CommitHash(String);

impl CommitHash {
    /// The id, when `text` is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (digits && matches!(text.len(), 40 | 64)).then(|| Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As people write it.
    #[must_use]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeenFile {
    /// The path of the file in the repository.
    pub path: RepoPath,
    /// The kind of thing at the path.
    pub kind: SeenKind,
    /// The SHA-256 of its bytes; of a link, of the text it points with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// The file's size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// When it was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_at: Option<Time>,
    /// Why there is no checksum, where there could be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<Title>,
}

/// The kind of thing at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SeenKind {
    /// A plain file.
    File,
    /// A link, which is never followed.
    Link,
    /// A folder.
    Folder,
    /// A socket, a device, something behind a link.
    Other,
    /// There is nothing at the path.
    Missing,
}

/// What a work tree is now, as far as claims are about it. Comes in with a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeNow {
    /// Where HEAD is; none outside a repository, and without git.
    pub head: Option<Head>,
    /// The files that were looked at.
    pub files: Vec<SeenFile>,
    /// How many were not, because there were too many or time was up.
    pub left_out: u64,
}

impl FileSystem {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    #[must_use]
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
    /// As people read it: `main at 1a2b3c4d`.
    #[must_use]
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

/// What a checkpoint's work tree looked like. It is a subject of its own, because it is looked at after
/// the checkpoint was decided: what is decided touches nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
