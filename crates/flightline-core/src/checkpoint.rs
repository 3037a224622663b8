//! Checkpoints: a revision of the journal with a name, a hash and a recovery context.

mod digest;

pub use self::digest::{
    Digest, DigestLine, KindDigest, Presence, SectionDigest, section_of, sections,
    sections_of_kinds,
};
use crate::Schema;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::context::AgentContext;
use crate::event::sha256_hex;
use crate::id::{AgentId, CheckpointId, MissionId};
use crate::recovery::RecoveryContext;
use crate::subject::{Keys, Kind, Subject};
use crate::text::NoteText;
use crate::time::Time;

/// The version of the checkpoint document this code writes.
pub const VERSION: &str = "1.0.0";

/// The relation of a checkpoint document's version to ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// The version is ours or an older one: read and written.
    Known,
    /// The version is a newer one of the same line: read, and never written over, because we would drop what we do not
    /// know.
    Newer,
    /// The version is of another line: not read.
    Foreign,
}

pub fn standing(version: &str) -> VersionMatch {
    let parse = |version: &str| {
        let mut parts = version.split('.').map(str::parse::<u32>);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) => {
                Some((major, minor, patch))
            }
            _ => None,
        }
    };
    match (parse(version), parse(VERSION)) {
        (Some(found), Some(ours)) if found.0 == ours.0 => {
            if found > ours {
                VersionMatch::Newer
            } else {
                VersionMatch::Known
            }
        }
        _ => VersionMatch::Foreign,
    }
}

/// The largest size that a checkpoint should have, in bytes.
pub const LARGE: u64 = 1_000_000;

/// Returns the warning about a checkpoint of this size; none unless it is large.
pub fn size_warning(bytes: u64) -> Option<String> {
    (bytes > LARGE).then(|| {
        format!(
            "the checkpoint takes {}.{} MB, and above 1 MB recovery becomes slow: put long texts into files and name the files",
            bytes / LARGE,
            bytes % LARGE / (LARGE / 10)
        )
    })
}

/// A checkpoint. Its cut never changes; its status, pin and note do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Checkpoint {
    /// The checkpoint's id.
    pub id: CheckpointId,
    /// The state that the checkpoint names: fixed for ever, and covered by the hash.
    pub cut: Cut,
    /// The SHA-256 of the cut, over its exact text.
    pub sha256: String,
    /// The status of the checkpoint.
    pub status: CheckpointStatus,
    /// Time at which the checkpoint was pinned: retention leaves it alone.
    pub pinned_at: Option<Time>,
    /// A note that a person or an agent added to it.
    pub note: Option<NoteText>,
    /// The origin of the checkpoint, when its values are not in this journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// Time at which the work that the checkpoint was taken for was completed and everything synced: nothing resumes
    /// from it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed_at: Option<Time>,
    /// The agent whose session went on from the checkpoint, when it was taken for no agent's context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_by: Option<AgentId>,
    /// The journal that the checkpoint was taken in, when the store was rebuilt since: its revision is another one now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_in: Option<RebuiltFrom>,
}

/// The origin of a checkpoint that a rebuild has brought back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct RebuiltFrom {
    /// The history in which the checkpoint was taken: an unbroken journal.
    pub history: String,
    /// The revision that the checkpoint named there.
    pub rev: u64,
}

/// The origin of a checkpoint whose values are not in this journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Imported {
    /// The history in which the checkpoint was taken: an unbroken journal.
    pub history: String,
    /// The revision that the checkpoint names there.
    pub rev: u64,
    /// The SHA-256 of the checkpoint's cut there.
    pub sha256: String,
    /// Time at which the checkpoint was brought in.
    pub at: Time,
}

/// The values of a checkpoint that came from elsewhere, beside the journal to which they do not belong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct ImportedValues {
    /// The checkpoint that the values belong to.
    pub checkpoint_id: CheckpointId,
    /// The values that the checkpoint names.
    pub values: Vec<ImportedValue>,
}

/// A value of a checkpoint that came from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct ImportedValue {
    /// The kind of the subject.
    pub kind: Kind,
    /// The id of the subject.
    pub id: String,
    /// The revision that gave the value, in its own journal.
    pub rev: u64,
    /// The SHA-256 of the value's text.
    pub sha: String,
    /// The exact text of the value.
    pub text: String,
}

impl Subject for ImportedValues {
    const KIND: Kind = Kind::Import;

    fn key(&self) -> String {
        self.checkpoint_id.to_string()
    }

    fn keys(&self) -> Keys {
        // Of no mission on purpose: an import is no work on the mission.
        Keys {
            parent: Some(self.checkpoint_id.to_string()),
            status: "kept",
            ..Keys::default()
        }
    }
}

/// The part of a checkpoint that never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Cut {
    /// The mission whose state the cut is.
    pub mission_id: MissionId,
    /// The revision that the cut names: the state just before the checkpoint's own events.
    pub rev: u64,
    /// The mission's timeline at that revision.
    pub timeline: u32,
    /// Time at which the checkpoint was taken.
    pub timestamp: Time,
    /// The class of the checkpoint's reason, in one of four words.
    pub trigger: Trigger,
    /// The exact reason for the checkpoint.
    pub reason: Reason,
    /// Further details of the reason.
    pub trigger_details: Option<String>,
    /// The mission's progress in percent at that moment.
    pub progress_percent: u8,
    /// The number of sorties of each status.
    pub sorties: BTreeMap<String, u64>,
    /// The number of locks that were held.
    pub locks: u64,
    /// The number of messages that were not acknowledged.
    pub messages: u64,
    /// The sections of the cut, each with its hash and the number of its values.
    pub sections: BTreeMap<String, SectionDigest>,
    /// The last action, the next steps and the blockers at that moment.
    pub recovery_context: RecoveryContext,
    /// The author of the checkpoint: an agent's name, `user:NAME`, or `flightline`.
    pub created_by: String,
    /// The version of this document.
    pub version: String,
    /// The agent's context that the checkpoint was taken for, when it was for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_context: Option<AgentContext>,
    /// The way in which the sections are hashed. The first cuts do not say it.
    #[serde(default, skip_serializing_if = "Digest::is_first")]
    pub digest: Digest,
}

impl Cut {
    pub fn sha256(&self) -> String {
        // Our own types always serialise; a cut that did not would match no hash.
        sha256_hex(&serde_json::to_string(self).unwrap_or_default())
    }

    /// The number of sorties, whatever their status.
    pub fn sortie_count(&self) -> u64 {
        self.sorties.values().sum()
    }
}

words! {
    /// The class of a checkpoint's reason, in seed A's four words.
    pub enum Trigger {
        /// Work went on.
        Progress = "progress",
        /// An operation, a sortie or a delivery failed.
        Error = "error",
        /// A person or an agent asked for it.
        Manual = "manual",
        /// A context is, or is about to be, lost.
        Compaction = "compaction",
    }
}

macro_rules! reasons {
    ($($name:ident $word:literal $trigger:ident $meaning:literal;)*) => {
        words! {
            /// The exact reason for a checkpoint.
            pub enum Reason { $(#[doc = concat!("When ", $meaning, ".")] $name = $word,)* }
        }

        impl Reason {
            /// Returns the setting that switches the reason.
            pub const fn setting(self) -> &'static str {
                match self { $(Self::$name => concat!("triggers.", $word),)* }
            }

            /// Returns a phrase that says when a checkpoint is taken for this reason.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!("a checkpoint when ", $meaning),)* }
            }

            /// Returns the trigger that the reason belongs to.
            pub const fn trigger(self) -> Trigger {
                match self { $(Self::$name => Trigger::$trigger,)* }
            }
        }
    };
}

reasons! {
    Milestone "milestone" Progress "a mission first reaches a milestone";
    StateTransition "state_transition" Progress "the workflow moves to another state";
    AgentComplete "agent_complete" Progress "an agent finishes its work";
    UserApproval "user_approval" Progress "work is approved or rejected";
    Interval "interval" Progress "time has passed since the last one";
    Heartbeat "heartbeat" Progress "a heartbeat comes, and time has passed";
    PhaseComplete "phase_complete" Progress "an agent completes a phase";
    SyncPoint "sync_point" Progress "an agent reaches or leaves a sync point";
    SubtaskDone "subtask_done" Progress "a subtask is done";
    FileCreated "file_created" Progress "a file is created";
    FileModified "file_modified" Progress "a file changes significantly";
    ReviewDone "review_done" Progress "a review is given";
    TaskComplete "task_complete" Progress "a sortie is completed";
    MissionEnded "mission_ended" Progress "a mission is completed, given up or archived";
    SortieFailed "sortie_failed" Error "a sortie fails";
    ApiError "api_error" Error "an API answers with an error";
    LockTimeout "lock_timeout" Error "a lock cannot be acquired in time";
    DeliveryFailed "delivery_failed" Error "a message cannot be delivered";
    Blocker "blocker" Error "a blocker appears";
    Manual "manual" Manual "it is requested";
    BeforeDestructive "before_destructive" Manual "a destructive operation is about to run";
    BeforeRestore "before_restore" Manual "a rewind is about to be done";
    AfterRestore "after_restore" Manual "a rewind, a restore or a rebuild is done";
    Shutdown "shutdown" Manual "a server is about to stop";
    PreCompact "pre_compact" Compaction "a context is about to be compacted";
    TokenWarning "token_warning" Compaction "a context is 75 % full";
    TokenCritical "token_critical" Compaction "a context is 90 % full";
    SessionEnd "session_end" Compaction "a session ends";
}

impl Reason {
    /// Returns true when the reason is a context that is full or ends, so that a session resumes from the checkpoint in
    /// recovery mode.
    pub const fn ends_context(self) -> bool {
        matches!(
            self,
            Self::TokenWarning | Self::TokenCritical | Self::SessionEnd
        )
    }

    /// Returns true when the reason comes so often that several checkpoints share one backup file.
    pub const fn is_frequent(self) -> bool {
        matches!(
            self,
            Self::FileCreated | Self::SubtaskDone | Self::Heartbeat | Self::Interval
        )
    }
}

words! {
    /// The status of a checkpoint.
    pub enum CheckpointStatus {
        /// The checkpoint's backup is not settled yet.
        Creating = "creating",
        /// All hashes of the checkpoint fit.
        Valid = "valid",
        /// The checkpoint failed its verification, and is kept.
        Corrupted = "corrupted",
        /// The checkpoint is kept only because a guard forbids deleting it.
        Expired = "expired",
        /// The checkpoint is out of lists, counts and limits unless asked for.
        Archived = "archived",
    }
}

impl CheckpointStatus {
    /// Returns the status to show: a checkpoint is being created until its copy in a file is settled.
    #[must_use]
    pub fn shown(self, backup: &Backup) -> Self {
        match self {
            Self::Creating | Self::Valid if backup.is_unsettled() => Self::Creating,
            Self::Creating => Self::Valid,
            status => status,
        }
    }
}

/// The state of a checkpoint's copy in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Backup {
    /// The file is still to be written.
    Pending,
    /// The file was written and read back.
    Written {
        /// Time at which the file was written.
        at: Time,
        /// The file's size in bytes.
        bytes: u64,
        /// The SHA-256 of the file.
        sha256: String,
        /// The node whose state folder the file is in, where several share a store.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
    },
    /// The file could not be written, and will be tried again.
    Failed {
        /// Time of the last failed attempt.
        at: Time,
        /// The error of the last failed attempt.
        why: String,
    },
    /// The checkpoint has no file of its own: a checkpoint of the same seconds has one, or it came from another
    /// journal.
    Shared,
}

impl Backup {
    /// Returns true when a file is still to be written.
    pub const fn is_unsettled(&self) -> bool {
        matches!(self, Self::Pending | Self::Failed { .. })
    }
}

impl Checkpoint {
    /// Returns the revision that the checkpoint names in the journal it was taken in, and the hash of its cut there.
    /// Both together identify the checkpoint wherever it is.
    pub fn origin(&self) -> (u64, &str) {
        match &self.imported {
            Some(imported) => (imported.rev, &imported.sha256),
            None => (self.cut.rev, &self.sha256),
        }
    }

    /// Returns true when a session can resume from the checkpoint: it was taken for a context, and nothing has consumed
    /// it.
    pub const fn is_resumable_context(&self) -> bool {
        self.cut.reason.ends_context() && self.consumed_at.is_none()
    }

    /// Returns true when the checkpoint is the agent's: taken for its context, or its session went on from it.
    pub fn is_of(&self, agent: AgentId) -> bool {
        let of = self.cut.agent_context.as_ref().map(|of| of.agent_id);
        of.or(self.resumed_by) == Some(agent)
    }

    /// Returns the status to show to people: a checkpoint is being created until its copy in a file is settled.
    pub fn shown_status(&self, backup: &Backup) -> CheckpointStatus {
        self.status.shown(backup)
    }
}

impl Subject for Checkpoint {
    const KIND: Kind = Kind::Checkpoint;

    fn key(&self) -> String {
        self.id.to_string()
    }

    fn keys(&self) -> Keys {
        Keys {
            mission: Some(self.cut.mission_id),
            name: Some(self.cut.trigger.as_str().to_owned()),
            status: self.status.as_str(),
            percent: Some(self.cut.progress_percent),
            ..Keys::default()
        }
    }
}

/// A milestone that a mission has reached on a timeline: unique, in the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Milestone {
    /// The mission that reached the milestone.
    pub mission_id: MissionId,
    /// The mission's timeline at that time.
    pub timeline: u32,
    /// The percentage of the mission that was reached.
    pub percent: u8,
    /// Time at which the milestone was reached.
    pub at: Time,
    /// True when the milestone's checkpoint could not be taken yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owed: bool,
}

impl Milestone {
    /// The status of milestones whose checkpoint could not be taken yet.
    pub const OWED: &'static str = "owed";
}

impl Subject for Milestone {
    const KIND: Kind = Kind::Milestone;

    fn key(&self) -> String {
        format!("{}/{}/{}", self.mission_id, self.timeline, self.percent)
    }

    fn keys(&self) -> Keys {
        // Not found by mission on purpose: a rewind starts a new timeline instead of taking them back.
        Keys {
            parent: Some(self.mission_id.to_string()),
            status: if self.owed { Self::OWED } else { "reached" },
            ..Keys::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_word_and_a_trigger() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_word(reason.as_str()), Some(reason));
            assert_eq!(
                serde_json::to_string(&reason).unwrap(),
                format!("\"{}\"", reason.as_str())
            );
        }
        assert_eq!(Reason::TokenCritical.trigger(), Trigger::Compaction);
        assert_eq!(Reason::LockTimeout.trigger(), Trigger::Error);
    }

    #[test]
    fn a_newer_version_is_read_and_not_written_and_a_foreign_one_neither() {
        for (version, expected) in [
            (VERSION, VersionMatch::Known),
            ("1.7.0", VersionMatch::Newer),
            ("2.0.0", VersionMatch::Foreign),
            ("0.9.0", VersionMatch::Foreign),
            ("1", VersionMatch::Foreign),
            ("1.0.0.0", VersionMatch::Foreign),
            ("one", VersionMatch::Foreign),
        ] {
            assert_eq!(standing(version), expected, "{version}");
        }
    }
}
