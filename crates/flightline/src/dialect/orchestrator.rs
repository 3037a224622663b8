//! Seed D's document of a checkpoint. Its agents are our sorties: input, output, attempts and cost belong to the work,
//! whichever agent did it.

pub mod files;
pub(super) mod import;

use std::collections::BTreeMap;

use flightline_core::agent::Agent;
use flightline_core::checkpoint::Reason;
use flightline_core::dialect::Json;
use flightline_core::dialect::compress::Compression;
use flightline_core::dialect::field::{Extra, Named, Stamp};
use flightline_core::dialect::orchestrator::{
    self, AgentStatus, Artifact, Checksums, Context, Decision, FileSystem, GitStatus, Happening,
    Id, Metadata, ModifiedFile, StateEntry, TokenUsage, Trigger, VERSION, Workflow, analyze,
};
use flightline_core::mission::{Mission, MissionStatus};
use flightline_core::note::{Note, NoteKind};
use flightline_core::recovery::analysis::{COMPLETE, agents_of};
use flightline_core::sortie::{FileChange, Sortie, SortieFile, SortieStatus, Subtask};
use flightline_core::text::read_stored;
use flightline_core::{Code, Kind, Refusal, RepoPath, Time, file_system};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::checkpoint::files::State;
use crate::error::Result;
use crate::mission::PastState;

/// What a document says that its checkpoint does not hold.
#[derive(Clone, Debug)]
pub struct Beside<'a> {
    /// The states the mission's workflow went through, oldest first; later ones than the checkpoint's are
    /// left out.
    pub history: &'a [PastState],
    /// The work tree as it was seen; the sorties' reports of files where there was no look.
    pub file_system: Option<FileSystem>,
    /// How the document's file is compressed.
    pub compression: Compression,
}

/// The document of a whole checkpoint, complete and sealed.
///
/// # Errors
/// When a value of the checkpoint cannot be read, or its mission is not in it.
pub fn orchestrator_document(
    state: &State,
    beside: &Beside<'_>,
) -> Result<orchestrator::Checkpoint> {
    let (checkpoint, cut) = (&state.checkpoint, &state.checkpoint.cut);
    let missions: Vec<Mission> = values(state, Kind::Mission)?;
    let mission = missions.first().ok_or_else(|| {
        let text = format!("{} does not hold its mission", checkpoint.id);
        Refusal::new(Code::Integrity, text)
    })?;
    let registry: Vec<Agent> = values(state, Kind::Agent)?;
    let mut sorties: Vec<Sortie> = values(state, Kind::Sortie)?;
    sorties.sort_by_key(|sortie| sortie.position);
    let names = agents_of(&sorties, &registry);
    let workflow = workflow(mission, beside.history);
    let agents: Vec<orchestrator::Agent> = sorties
        .iter()
        .zip(&names)
        .map(|(sortie, name)| agent(sortie, name))
        .collect();
    let recovery = analyze(&workflow, &agents);
    let id = checkpoint.id.to_string();
    let id = id.split_once('-').and_then(|(_, uuid)| Id::parse(uuid));
    let mut document = orchestrator::Checkpoint {
        id: id.ok_or_else(|| Refusal::invalid("a checkpoint has an id that is no UUID"))?,
        version: VERSION.to_owned(),
        created_at: Stamp::millis(cut.timestamp),
        trigger: Trigger::nearest(cut.reason),
        trigger_reason: reason(state, mission, &sorties, &names, &workflow),
        status: checkpoint.status,
        context: context(state, mission, &sorties, &registry)?,
        workflow,
        agents,
        file_system: match &beside.file_system {
            Some(found) => found.clone(),
            None => told_files(&values(state, Kind::File)?),
        },
        metadata: Metadata {
            orchestrator_version: VERSION.to_owned(),
            checkpoint_size: 0.into(),
            compression_type: beside.compression,
            checksums: Checksums::default(),
            extra: Extra::default(),
        },
        recovery,
        extra: Extra::default(),
    };
    document.seal();
    Ok(document)
}

fn values<T: DeserializeOwned>(state: &State, kind: Kind) -> Result<Vec<T>> {
    let of_kind = state.values.iter().filter(|value| value.kind == kind);
    of_kind
        .map(|value| {
            read_stored(&value.text).map_err(|error| {
                let text = format!("the {kind} {} cannot be read: {error}", value.id);
                Refusal::new(Code::Integrity, text).into()
            })
        })
        .collect()
}

fn workflow(mission: &Mission, history: &[PastState]) -> Workflow {
    let workflow = &mission.workflow;
    let current = workflow.current.as_ref().map(ToString::to_string);
    // States after the checkpoint are not in it: the last one in it is where the workflow was.
    let here = |past: &PastState| {
        Some(&past.state) == current.as_ref() && Some(past.entered_at) == workflow.entered_at
    };
    let known = history.iter().rposition(here).map_or(0, |last| last + 1);
    let mut entries: Vec<StateEntry> = history[..known]
        .iter()
        .map(|past| StateEntry {
            state: past.state.clone(),
            entered_at: Stamp::millis(past.entered_at),
            exited_at: past.exited_at.map(Stamp::millis),
            trigger: past.trigger.clone(),
            extra: Extra::default(),
        })
        .collect();
    if let Some(last) = entries.last_mut() {
        last.exited_at = None;
    }
    Workflow {
        current_state: current.unwrap_or_else(|| match mission.status {
            MissionStatus::Completed => COMPLETE.to_owned(),
            status => status.as_str().to_owned(),
        }),
        previous_state: workflow.previous.as_ref().map(ToString::to_string),
        state_history: entries,
        pending_transitions: workflow.pending.iter().map(ToString::to_string).collect(),
        extra: Extra::default(),
    }
}

fn agent(sortie: &Sortie, name: &str) -> orchestrator::Agent {
    let usage = sortie.token_usage;
    let failure = sortie.failure.as_ref().or(sortie.blocked_reason.as_ref());
    orchestrator::Agent {
        agent_id: name.to_owned(),
        status: match sortie.status {
            SortieStatus::Pending | SortieStatus::Assigned | SortieStatus::Blocked => {
                AgentStatus::Pending
            }
            SortieStatus::InProgress => AgentStatus::Running,
            SortieStatus::Completed => AgentStatus::Completed,
            SortieStatus::Failed => AgentStatus::Failed,
            SortieStatus::Skipped => AgentStatus::Skipped,
        },
        started_at: sortie.started_at.map(Stamp::millis),
        completed_at: sortie.completed_at.map(Stamp::millis),
        input: sortie.input.as_ref().map(record),
        output: sortie.output.as_ref().map(record),
        error: failure.map(ToString::to_string),
        attempts: sortie.attempts.into(),
        token_usage: (usage.input > 0 || usage.output > 0)
            .then(|| TokenUsage::new(usage.input, usage.output)),
        extra: Extra::default(),
    }
}

/// The seed wants named values: anything else becomes the one named `value`.
fn record(data: &impl Serialize) -> Named<Json> {
    match serde_json::to_value(data).unwrap_or(Value::Null) {
        Value::Object(fields) => Named(fields.into_iter().map(|(k, v)| (k, v.into())).collect()),
        other => Named(vec![("value".to_owned(), other.into())]),
    }
}

fn context(
    state: &State,
    mission: &Mission,
    sorties: &[Sortie],
    agents: &[Agent],
) -> Result<Context> {
    let mut notes: Vec<Note> = values(state, Kind::Note)?;
    notes.retain(Note::holds);
    notes.sort_by_key(|note| (note.at, note.id));
    let of = |kind: NoteKind| notes.iter().filter(move |note| note.kind == kind);
    let dispatch = agents.iter().find(|it| Some(it.id) == mission.dispatch);
    let session = dispatch.and_then(|agent| agent.session_id.as_ref());
    Ok(Context {
        project_id: state.project.clone(),
        session_id: session.map_or_else(|| state.history.clone(), ToString::to_string),
        task_description: match &mission.objective {
            Some(objective) => objective.to_string(),
            None => mission.title.to_string(),
        },
        work_breakdown: Some(breakdown(state, mission, sorties)?),
        artifacts: of(NoteKind::Artifact)
            .map(|note| Artifact {
                id: note.id.to_string(),
                kind: match &note.artifact_type {
                    Some(kind) => kind.to_string(),
                    None => "file".to_owned(),
                },
                path: note
                    .path
                    .as_ref()
                    .map_or_else(String::new, ToString::to_string),
                checksum: note.checksum.clone().unwrap_or_default(),
                extra: Extra::default(),
            })
            .collect(),
        // A dead end is a lesson, too.
        lessons: notes
            .iter()
            .filter(|note| matches!(note.kind, NoteKind::Lesson | NoteKind::DeadEnd))
            .map(|note| note.text.to_string())
            .collect(),
        decisions: of(NoteKind::Decision)
            .map(|note| Decision {
                id: note.id.to_string(),
                decision: note.text.to_string(),
                rationale: note
                    .rationale
                    .as_ref()
                    .map_or_else(String::new, ToString::to_string),
                made_at: Stamp::millis(note.at),
                extra: Extra::default(),
            })
            .collect(),
        extra: Extra::default(),
    })
}

/// The mission in parts: each sortie, what it waits for, and its own parts.
fn breakdown(state: &State, mission: &Mission, sorties: &[Sortie]) -> Result<Named<Json>> {
    let mut parts: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for part in values::<Subtask>(state, Kind::Subtask)? {
        parts
            .entry(part.sortie_id.to_string())
            .or_default()
            .push(json!({
                "name": part.name,
                "title": part.title,
                "status": part.status.as_str(),
                "output": part.output,
            }));
    }
    let sorties = sorties.iter().map(|sortie| {
        json!({
            "id": sortie.id,
            "title": sortie.title,
            "status": sortie.status.as_str(),
            "dependsOn": sortie.depends_on,
            "files": sortie.files,
            "subtasks": parts.remove(&sortie.id.to_string()).unwrap_or_default(),
        })
    });
    Ok(record(&json!({
        "mission": mission.id,
        "title": mission.title,
        "sorties": sorties.collect::<Vec<_>>(),
    })))
}

/// What the sorties say of files. Of those that were changed the seed wants a checksum and a size, which
/// only who looks can tell.
fn told_files(files: &[SortieFile]) -> FileSystem {
    let of = |change: FileChange| {
        let same = files.iter().filter(|file| file.change == change);
        let mut paths: Vec<String> = same.map(|file| file.path.to_string()).collect();
        paths.sort();
        paths.dedup();
        paths
    };
    FileSystem {
        created_files: of(FileChange::Created),
        deleted_files: of(FileChange::Deleted),
        ..FileSystem::default()
    }
}

/// The work tree in the seed's words. Outside a git work tree there is no status; where HEAD is on no branch, the branch
/// says so.
fn seen_files(seen: &file_system::FileSystem) -> FileSystem {
    let paths = |paths: &[RepoPath]| paths.iter().map(ToString::to_string).collect();
    let modified = seen.modified_files.iter().map(|file| ModifiedFile {
        path: file.path.to_string(),
        checksum: file.checksum.clone().unwrap_or_default(),
        size: file.size.unwrap_or_default().into(),
        modified_at: Stamp::millis(
            file.modified_at
                .or(seen.seen_at)
                .unwrap_or(Time::from_millis(0)),
        ),
        extra: Extra::default(),
    });
    FileSystem {
        modified_files: modified.collect(),
        created_files: seen
            .created_files
            .iter()
            .map(|file| file.path.to_string())
            .collect(),
        deleted_files: paths(&seen.deleted_files),
        git_status: seen.git_status.as_ref().map(|git| GitStatus {
            branch: git
                .branch
                .as_ref()
                .map_or_else(|| "HEAD".to_owned(), ToString::to_string),
            commit_hash: git
                .commit_hash
                .as_ref()
                .map(|commit| commit.as_str().to_owned())
                .unwrap_or_default(),
            is_dirty: git.is_dirty.unwrap_or(true),
            staged_files: paths(&git.staged_files),
            unstaged_files: paths(&git.unstaged_files),
            extra: Extra::default(),
        }),
        ..FileSystem::default()
    }
}

/// Why the checkpoint was taken, in the seed's words where it has some.
fn reason(
    state: &State,
    mission: &Mission,
    sorties: &[Sortie],
    names: &[String],
    workflow: &Workflow,
) -> String {
    let cut = &state.checkpoint.cut;
    let details = cut
        .trigger_details
        .as_deref()
        .unwrap_or(cut.reason.as_str());
    match cut.reason {
        Reason::StateTransition => Happening::StateTransition {
            from: workflow.previous_state.as_deref().unwrap_or_default(),
            to: &workflow.current_state,
            trigger: workflow.state_history.last().map_or("", |it| &it.trigger),
        }
        .reason(),
        Reason::AgentComplete | Reason::TaskComplete => {
            // The one that came to its end last.
            let ended = sorties.iter().zip(names).filter(|(sortie, _)| {
                matches!(
                    sortie.status,
                    SortieStatus::Completed | SortieStatus::Failed
                )
            });
            match ended.max_by_key(|(sortie, _)| sortie.updated_at) {
                Some((sortie, agent)) if sortie.status == SortieStatus::Failed => {
                    Happening::AgentFailed { agent }.reason()
                }
                Some((_, agent)) => Happening::AgentCompleted { agent }.reason(),
                None => details.to_owned(),
            }
        }
        Reason::SortieFailed
        | Reason::ApiError
        | Reason::LockTimeout
        | Reason::DeliveryFailed
        | Reason::Blocker => Happening::Error {
            context: &mission.title,
            message: details,
        }
        .reason(),
        Reason::Interval => Happening::Interval.reason(),
        Reason::Shutdown => Happening::Shutdown.reason(),
        Reason::Milestone
        | Reason::UserApproval
        | Reason::Heartbeat
        | Reason::PhaseComplete
        | Reason::SyncPoint
        | Reason::SubtaskDone
        | Reason::FileCreated
        | Reason::FileModified
        | Reason::ReviewDone
        | Reason::Manual
        | Reason::BeforeDestructive
        | Reason::BeforeRestore
        | Reason::AfterRestore
        | Reason::MissionEnded
        | Reason::PreCompact
        | Reason::TokenWarning
        | Reason::TokenCritical
        | Reason::SessionEnd => details.to_owned(),
    }
}
