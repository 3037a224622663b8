//! Seed D: an orchestrator's checkpoints, in `<base>/<uuid>.json[.gz]`, with an `index.json`.
//!
//! The seed's schema refuses `null` where a field is optional, and words it does not know; so do we.
//! Fields it does not know it drops; we keep them.

mod checksum;
mod recover;
mod store;
mod trigger;

use super::compress::Compression;
use super::field::{Keep, Named, Stamp, Value, document, word, words};
use super::json::{Json, Number};
use super::unreadable::{Fault, Path, Unreadable, check_version};
use crate::checkpoint::CheckpointStatus;

pub use self::checksum::Section;
pub use self::recover::analyze;
pub use self::store::{
    ARCHIVE, FOLDER, INDEX_FILE, IndexEntry, drift, file_name, id_of, is_document, read_index,
    write_index,
};
pub use self::trigger::{DESTRUCTIVE_OPERATIONS, Happening};

/// The version of the documents this code writes.
pub const VERSION: &str = "1.0.0";
/// An agent that failed so often is not tried again.
pub const RETRY_LIMIT: u64 = 3;

document! {
    /// A checkpoint.
    pub struct Checkpoint {
        /// The checkpoint's id.
        id "id": Id,
        /// The version of this document.
        version "version": String,
        /// When it was taken.
        created_at "createdAt": Stamp,
        /// Why it was taken.
        trigger "trigger": Trigger,
        /// The trigger in words for people.
        trigger_reason "triggerReason": String,
        /// Where it stands.
        status "status": CheckpointStatus,
        /// Where the workflow was.
        workflow "workflow": Workflow,
        /// What the agents were at.
        agents "agents": Vec<Agent>,
        /// What they knew.
        context "context": Context,
        /// What had become of files.
        file_system "fileSystem": FileSystem,
        /// About the document itself.
        metadata "metadata": Metadata,
        /// Whether work can go on from here.
        recovery "recovery": Recovery,
    }

    /// Where the workflow was.
    pub struct Workflow {
        /// The state it was in.
        current_state "currentState": String,
        /// The one before.
        previous_state "previousState": Option<String>,
        /// All of them, in order.
        state_history "stateHistory": Vec<StateEntry>,
        /// Where it could have gone.
        pending_transitions "pendingTransitions": Vec<String>,
    }

    /// A state the workflow was in.
    pub struct StateEntry {
        /// The name of the state.
        state "state": String,
        /// When it was entered.
        entered_at "enteredAt": Stamp,
        /// When it was left.
        exited_at "exitedAt": Option<Stamp>,
        /// What led to it.
        trigger "trigger": String,
    }

    /// What an agent was at.
    pub struct Agent {
        /// The agent whose state it is.
        agent_id "agentId": String,
        /// Where it stood.
        status "status": AgentStatus,
        /// When it began.
        started_at "startedAt": Option<Stamp>,
        /// When it finished.
        completed_at "completedAt": Option<Stamp>,
        /// What it was given.
        input "input": Option<Named<Json>>,
        /// The agent's output.
        output "output": Option<Named<Json>>,
        /// What went wrong.
        error "error": Option<String>,
        /// How often it was tried.
        attempts "attempts": u64,
        /// What it cost.
        token_usage "tokenUsage": Option<TokenUsage>,
    }

    /// Tokens in and out.
    pub struct TokenUsage {
        /// The number of tokens read.
        input "input": Number,
        /// The number of tokens written.
        output "output": Number,
    }

    /// What the agents knew.
    pub struct Context {
        /// The id of the project.
        project_id "projectId": String,
        /// The id of the session.
        session_id "sessionId": String,
        /// The task of the project.
        task_description "taskDescription": String,
        /// The parts of the task.
        work_breakdown "workBreakdown": Option<Named<Json>>,
        /// The artifacts that were made.
        artifacts "artifacts": Vec<Artifact>,
        /// The lessons that were learned.
        lessons "lessons": Vec<String>,
        /// The decisions that were made.
        decisions "decisions": Vec<Decision>,
    }

    /// Something that was made.
    pub struct Artifact {
        /// The artifact's id.
        id "id": String,
        /// What it is.
        kind "type": String,
        /// Where it is.
        path "path": String,
        /// What it hashes to.
        checksum "checksum": String,
    }

    /// Something that was decided.
    pub struct Decision {
        /// The decision's id.
        id "id": String,
        /// The text of the decision.
        decision "decision": String,
        /// Why it was decided so.
        rationale "rationale": String,
        /// When it was decided.
        made_at "madeAt": Stamp,
    }

    /// What had become of files.
    #[derive(Default)]
    pub struct FileSystem {
        /// Files that were changed.
        modified_files "modifiedFiles": Vec<ModifiedFile>,
        /// Files that were new.
        created_files "createdFiles": Vec<String>,
        /// Files that were gone.
        deleted_files "deletedFiles": Vec<String>,
        /// What git said.
        git_status "gitStatus": Option<GitStatus>,
    }

    /// A file that was changed.
    pub struct ModifiedFile {
        /// Where it is.
        path "path": String,
        /// What it hashed to.
        checksum "checksum": String,
        /// How large it was.
        size "size": Number,
        /// When it was changed.
        modified_at "modifiedAt": Stamp,
    }

    /// What git said.
    pub struct GitStatus {
        /// The branch that is checked out.
        branch "branch": String,
        /// The commit that HEAD points to.
        commit_hash "commitHash": String,
        /// Whether there were changes.
        is_dirty "isDirty": bool,
        /// Changes that were staged.
        staged_files "stagedFiles": Vec<String>,
        /// Changes that were not.
        unstaged_files "unstagedFiles": Vec<String>,
    }

    /// About the document itself.
    pub struct Metadata {
        /// The version of what wrote it.
        orchestrator_version "orchestratorVersion": String,
        /// Its size. The seed writes 0; we write the length of the text before it is compressed.
        checkpoint_size "checkpointSize": Number,
        /// How its file is compressed; what the file's bytes say counts.
        compression_type "compressionType": Compression,
        /// What its sections hash to.
        checksums "checksums": Checksums,
    }

    /// What a checkpoint's sections hash to: the first 16 digits of SHA-256 over JavaScript's text.
    #[derive(Default)]
    pub struct Checksums {
        /// Of the workflow.
        workflow "workflow": String,
        /// Of the agents.
        agents "agents": String,
        /// Of the context.
        context "context": String,
        /// Of the files.
        file_system "fileSystem": String,
        /// Of the four above.
        overall "overall": String,
    }

    /// Whether work can go on from a checkpoint.
    pub struct Recovery {
        /// Whether it can.
        can_resume "canResume": bool,
        /// With which agent.
        resume_from_agent "resumeFromAgent": Option<String>,
        /// In which state.
        resume_from_state "resumeFromState": Option<String>,
        /// The blockers of a recovery.
        blockers "blockers": Vec<String>,
    }
}

words! {
    /// Why a checkpoint was taken.
    pub enum Trigger {
        /// The workflow moved.
        StateTransition "state_transition",
        /// An agent finished.
        AgentComplete "agent_complete",
        /// A person approved or rejected.
        UserApproval "user_approval",
        /// Something went wrong.
        ErrorOccurred "error_occurred",
        /// A person asked for it.
        Manual "manual",
        /// Time has passed since the last checkpoint.
        TimeInterval "time_interval",
        /// Something destructive is about to be done.
        BeforeDestructive "before_destructive",
    }
}

words! {
    /// Where an agent stands.
    pub enum AgentStatus {
        /// The agent has not begun.
        Pending "pending",
        /// The agent is at work.
        Running "running",
        /// The agent's work is done.
        Completed "completed",
        /// The agent's work failed.
        Failed "failed",
        /// The agent's work was left out.
        Skipped "skipped",
    }
}

impl Value for CheckpointStatus {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        const ALL: [CheckpointStatus; 5] = [
            CheckpointStatus::Creating,
            CheckpointStatus::Valid,
            CheckpointStatus::Corrupted,
            CheckpointStatus::Expired,
            CheckpointStatus::Archived,
        ];
        word(json, at, &ALL, Self::as_str)
    }

    fn write(&self, _: Keep) -> Json {
        self.as_str().into()
    }
}

/// A checkpoint's id: a bare UUID, as it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(String);

impl Id {
    /// The id, from a UUID.
    #[must_use]
    pub fn new(uuid: uuid::Uuid) -> Self {
        Self(uuid.to_string())
    }

    /// The id in this text, if it is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // With hyphens and nothing around it, or it would be no file's name.
        let is_id = text.len() == 36 && uuid::Uuid::try_parse(text).is_ok();
        is_id.then(|| Self(text.to_owned()))
    }

    /// How it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Value for Id {
    fn read(json: Json, at: &Path<'_>) -> Result<Self, Unreadable> {
        let text = String::read(json, at)?;
        Self::parse(&text).ok_or_else(|| {
            at.wrong(Fault::Malformed {
                text,
                expected: "a UUID",
            })
        })
    }

    fn write(&self, _: Keep) -> Json {
        self.as_str().into()
    }
}

/// Reads a checkpoint. Whether its checksums are right is for [`Checkpoint::verify`] to say.
///
/// # Errors
/// When the text is not one, or of a newer version; the error says why and where.
pub fn read(text: &str) -> Result<Checkpoint, Unreadable> {
    let json = Json::parse(text)?;
    check_version(&json, "1")?;
    Checkpoint::read(json, &Path::ROOT)
}

/// Writes a checkpoint, as `JSON.stringify(checkpoint, null, 2)` does.
#[must_use]
pub fn write(checkpoint: &Checkpoint) -> String {
    checkpoint.write(Keep::All).pretty(&[])
}
