//! Seed D: an orchestrator's checkpoints, in `<base>/<uuid>.json[.gz]`, with an `index.json`.
//!
//! The seed's schema refuses `null` where a field is optional, and words it does not know; so do we.
//! Fields it does not know it drops; we keep them.

mod checksum;
mod recover;
mod store;
mod trigger;

use super::json::Json;
use super::shape::FieldForm::{
    self, Any, Bool, List, Named, Number, Object, Text, Time, Uuid, Whole, Word,
};
use super::shape::Need::{May, Must};

pub use self::checksum::{seal, verify};
pub use self::recover::analyze;
pub use self::store::{
    ARCHIVE, FOLDER, INDEX_FILE, drift, file_name, id_of, index_entry, is_document, names_its_file,
    read_index, write_index,
};
pub use self::trigger::{DESTRUCTIVE_OPERATIONS, TriggerCause, reason_of, trigger_of};

pub const VERSION: &str = "1.0.0";
/// An agent that failed so often is not tried again.
pub const RETRY_LIMIT: u64 = 3;

pub(super) const CHECKPOINT: FieldForm = Object(&[
    ("id", Must, Uuid),
    ("version", Must, Text),
    ("createdAt", Must, Time),
    ("trigger", Must, Word(trigger::TRIGGERS)),
    ("triggerReason", Must, Text),
    ("status", Must, Word(STATUSES)),
    ("workflow", Must, WORKFLOW),
    ("agents", Must, AGENTS),
    ("context", Must, CONTEXT),
    ("fileSystem", Must, FILE_SYSTEM),
    ("metadata", Must, METADATA),
    ("recovery", Must, RECOVERY),
]);

const STATUSES: &[&str] = &["creating", "valid", "corrupted", "expired", "archived"];

const WORKFLOW: FieldForm = Object(&[
    ("currentState", Must, Text),
    ("previousState", May, Text),
    ("stateHistory", Must, List(&STATE_ENTRY)),
    ("pendingTransitions", Must, List(&Text)),
]);

/// A state the workflow was in, and what led to it.
const STATE_ENTRY: FieldForm = Object(&[
    ("state", Must, Text),
    ("enteredAt", Must, Time),
    ("exitedAt", May, Time),
    ("trigger", Must, Text),
]);

const AGENTS: FieldForm = List(&Object(&[
    ("agentId", Must, Text),
    (
        "status",
        Must,
        Word(&["pending", "running", "completed", "failed", "skipped"]),
    ),
    ("startedAt", May, Time),
    ("completedAt", May, Time),
    ("input", May, Named(&Any)),
    ("output", May, Named(&Any)),
    ("error", May, Text),
    ("attempts", Must, Whole),
    (
        "tokenUsage",
        May,
        Object(&[("input", Must, Number), ("output", Must, Number)]),
    ),
]));

const CONTEXT: FieldForm = Object(&[
    ("projectId", Must, Text),
    ("sessionId", Must, Text),
    ("taskDescription", Must, Text),
    ("workBreakdown", May, Named(&Any)),
    ("artifacts", Must, List(&ARTIFACT)),
    ("lessons", Must, List(&Text)),
    ("decisions", Must, List(&DECISION)),
]);

const ARTIFACT: FieldForm = Object(&[
    ("id", Must, Text),
    ("type", Must, Text),
    ("path", Must, Text),
    ("checksum", Must, Text),
]);

const DECISION: FieldForm = Object(&[
    ("id", Must, Text),
    ("decision", Must, Text),
    ("rationale", Must, Text),
    ("madeAt", Must, Time),
]);

const FILE_SYSTEM: FieldForm = Object(&[
    ("modifiedFiles", Must, List(&MODIFIED_FILE)),
    ("createdFiles", Must, List(&Text)),
    ("deletedFiles", Must, List(&Text)),
    ("gitStatus", May, GIT_STATUS),
]);

const MODIFIED_FILE: FieldForm = Object(&[
    ("path", Must, Text),
    ("checksum", Must, Text),
    ("size", Must, Number),
    ("modifiedAt", Must, Time),
]);

const GIT_STATUS: FieldForm = Object(&[
    ("branch", Must, Text),
    ("commitHash", Must, Text),
    ("isDirty", Must, Bool),
    ("stagedFiles", Must, List(&Text)),
    ("unstagedFiles", Must, List(&Text)),
]);

const METADATA: FieldForm = Object(&[
    ("orchestratorVersion", Must, Text),
    // The seed writes 0; we write the length of the text before it is compressed.
    ("checkpointSize", Must, Number),
    // The bytes of the file decide, not this field.
    (
        "compressionType",
        Must,
        Word(&["none", "gzip", "lz4", "zstd"]),
    ),
    ("checksums", Must, CHECKSUMS),
]);

const CHECKSUMS: FieldForm = Object(&[
    ("workflow", Must, Text),
    ("agents", Must, Text),
    ("context", Must, Text),
    ("fileSystem", Must, Text),
    ("overall", Must, Text),
]);

/// The answer to whether work can go on from a checkpoint, with which agent and in which state.
const RECOVERY: FieldForm = Object(&[
    ("canResume", Must, Bool),
    ("resumeFromAgent", May, Text),
    ("resumeFromState", May, Text),
    ("blockers", Must, List(&Text)),
]);

pub fn is_archived(checkpoint: &Json) -> bool {
    checkpoint.word("status") == "archived"
}
