//! Seed D's document of a checkpoint. Its agents are our sorties: input, output, attempts and cost belong to the work,
//! whichever agent did it.

pub mod files;
pub(super) mod import;

use std::collections::BTreeMap;

use flightline_core::agent::Agent;
use flightline_core::checkpoint::Reason;
use flightline_core::dialect::compress::Compression;
use flightline_core::dialect::orchestrator::{TriggerCause, VERSION, analyze, seal, trigger_of};
use flightline_core::dialect::{Dialect, DialectDocument};
use flightline_core::mission::{Mission, MissionStatus};
use flightline_core::note::{Note, NoteKind};
use flightline_core::recovery::analysis::{COMPLETE, agents_of};
use flightline_core::sortie::{FileChange, Sortie, SortieFile, SortieStatus, Subtask};
use flightline_core::text::read_stored;
use flightline_core::{Code, JsonData, Kind, Name, Refusal, Time, file_system};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::checkpoint::files::BackedUpState;
use crate::error::Result;
use crate::mission::PastState;

/// Parts of a document that its checkpoint does not hold.
#[derive(Clone, Debug)]
pub struct DocumentExtras<'a> {
    /// The states the mission's workflow went through, oldest first; later ones than the checkpoint's are
    /// left out.
    pub history: &'a [PastState],
    /// The work tree as it was seen; the sorties' reports of files where there was no look.
    pub file_system: Option<Value>,
    pub compression: Compression,
}

/// The document of a whole checkpoint, complete and sealed.
pub fn orchestrator_document(
    state: &BackedUpState,
    beside: &DocumentExtras<'_>,
) -> Result<DialectDocument> {
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
    let agents = sorties.iter().zip(&names);
    let agents: Vec<Value> = agents.map(|(sortie, name)| agent(sortie, name)).collect();
    let id = checkpoint.id.to_string();
    let id = id.split_once('-').map(|(_, uuid)| uuid);
    let mut document = DialectDocument::new(
        Dialect::Orchestrator,
        json!({
            "id": id,
            "version": VERSION,
            "createdAt": cut.timestamp.to_string(),
            "trigger": trigger_of(cut.reason),
            "triggerReason": reason(state, mission, &sorties, &names, &workflow),
            "status": checkpoint.status.as_str(),
            "context": context(state, mission, &sorties, &registry)?,
            "workflow": workflow,
            "agents": agents,
            "fileSystem": match &beside.file_system {
                Some(found) => found.clone(),
                None => told_files(&values(state, Kind::File)?),
            },
            "metadata": {
                "orchestratorVersion": VERSION,
                "checkpointSize": 0,
                "compressionType": beside.compression.as_str(),
                "checksums": {},
            },
        }),
    );
    document.set("recovery", analyze(&document));
    seal(&mut document);
    Ok(document)
}

fn values<T: DeserializeOwned>(state: &BackedUpState, kind: Kind) -> Result<Vec<T>> {
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

fn workflow(mission: &Mission, history: &[PastState]) -> Value {
    let workflow = &mission.workflow;
    let current = workflow.current.as_ref().map(ToString::to_string);
    // States after the checkpoint are not in it: the last one in it is where the workflow was.
    let here = |past: &PastState| {
        Some(&past.state) == current.as_ref() && Some(past.entered_at) == workflow.entered_at
    };
    let known = history.iter().rposition(here).map_or(0, |last| last + 1);
    let entries = history[..known].iter().zip(1..).map(|(past, number)| {
        let exited = past.exited_at.filter(|_| number < known);
        json!({
            "state": past.state,
            "enteredAt": past.entered_at.to_string(),
            "exitedAt": exited.map(|at| at.to_string()),
            "trigger": past.trigger,
        })
    });
    json!({
        "stateHistory": entries.collect::<Vec<_>>(),
        "currentState": current.unwrap_or_else(|| match mission.status {
            MissionStatus::Completed => COMPLETE.to_owned(),
            status => status.as_str().to_owned(),
        }),
        "previousState": workflow.previous,
        "pendingTransitions": workflow.pending,
    })
}

fn agent(sortie: &Sortie, name: &str) -> Value {
    let usage = sortie.token_usage;
    let failure = sortie.failure.as_ref().or(sortie.blocked_reason.as_ref());
    json!({
        "agentId": name,
        "status": match sortie.status {
            SortieStatus::Pending | SortieStatus::Assigned | SortieStatus::Blocked => "pending",
            SortieStatus::InProgress => "running",
            SortieStatus::Completed => "completed",
            SortieStatus::Failed => "failed",
            SortieStatus::Skipped => "skipped",
        },
        "startedAt": sortie.started_at.map(|at| at.to_string()),
        "completedAt": sortie.completed_at.map(|at| at.to_string()),
        "input": sortie.input.as_ref().map(record),
        "output": sortie.output.as_ref().map(record),
        "error": failure,
        "attempts": sortie.attempts,
        "tokenUsage": (usage.input > 0 || usage.output > 0)
            .then(|| json!({ "input": usage.input, "output": usage.output })),
    })
}

/// The seed wants named values: anything else becomes the one named `value`.
fn record(data: &JsonData) -> Value {
    match json!(data) {
        fields @ Value::Object(_) => fields,
        other => json!({ "value": other }),
    }
}

fn context(
    state: &BackedUpState,
    mission: &Mission,
    sorties: &[Sortie],
    agents: &[Agent],
) -> Result<Value> {
    let mut notes: Vec<Note> = values(state, Kind::Note)?;
    notes.retain(Note::holds);
    notes.sort_by_key(|note| (note.at, note.id));
    let of = |kind: NoteKind| notes.iter().filter(move |note| note.kind == kind);
    let dispatch = agents.iter().find(|it| Some(it.id) == mission.dispatch);
    let session = dispatch.and_then(|agent| agent.session_id.as_ref());
    let artifacts = of(NoteKind::Artifact).map(|note| {
        json!({
            "id": note.id,
            "type": note.artifact_type.as_ref().map_or("file", Name::as_str),
            "path": note.path.as_ref().map_or_else(String::new, ToString::to_string),
            "checksum": note.checksum.as_deref().unwrap_or_default(),
        })
    });
    let decisions = of(NoteKind::Decision).map(|note| {
        json!({
            "id": note.id,
            "decision": note.text,
            "rationale": note.rationale.as_deref().unwrap_or_default(),
            "madeAt": note.at.to_string(),
        })
    });
    // A dead end is a lesson, too.
    let lessons = notes
        .iter()
        .filter(|note| matches!(note.kind, NoteKind::Lesson | NoteKind::DeadEnd));
    Ok(json!({
        "projectId": state.project,
        "sessionId": session.map_or(state.history.as_str(), |session| session.as_str()),
        "taskDescription": match &mission.objective {
            Some(objective) => objective.as_str(),
            None => mission.title.as_str(),
        },
        "workBreakdown": breakdown(state, mission, sorties)?,
        "artifacts": artifacts.collect::<Vec<_>>(),
        "lessons": lessons.map(|note| &note.text).collect::<Vec<_>>(),
        "decisions": decisions.collect::<Vec<_>>(),
    }))
}

/// The parts of the mission: each sortie, its dependencies, and its own parts.
fn breakdown(state: &BackedUpState, mission: &Mission, sorties: &[Sortie]) -> Result<Value> {
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
    Ok(json!({
        "mission": mission.id,
        "title": mission.title,
        "sorties": sorties.collect::<Vec<_>>(),
    }))
}

/// Returns the sorties' reports on files. The seed wants a checksum and a size of each changed file, which only a
/// look at the file can tell.
fn told_files(files: &[SortieFile]) -> Value {
    let of = |change: FileChange| {
        let same = files.iter().filter(|file| file.change == change);
        let mut paths: Vec<String> = same.map(|file| file.path.to_string()).collect();
        paths.sort();
        paths.dedup();
        paths
    };
    json!({
        "modifiedFiles": [],
        "createdFiles": of(FileChange::Created),
        "deletedFiles": of(FileChange::Deleted),
    })
}

/// The work tree in the seed's words. Outside a git work tree there is no status; where HEAD is on no branch, the branch
/// says so.
fn seen_files(seen: &file_system::FileSystem) -> Value {
    let modified = seen.modified_files.iter().map(|file| {
        let at = file.modified_at.or(seen.seen_at);
        json!({
            "path": file.path,
            "checksum": file.checksum.as_deref().unwrap_or_default(),
            "size": file.size.unwrap_or_default(),
            "modifiedAt": at.unwrap_or(Time::from_millis(0)).to_string(),
        })
    });
    let created = seen.created_files.iter().map(|file| &file.path);
    let git = seen.git_status.as_ref().map(|git| {
        let commit = git.commit_hash.as_ref();
        json!({
            "branch": git.branch.as_ref().map_or("HEAD", |branch| branch.as_str()),
            "commitHash": commit.map_or("", |commit| commit.as_str()),
            "isDirty": git.is_dirty.unwrap_or(true),
            "stagedFiles": git.staged_files,
            "unstagedFiles": git.unstaged_files,
        })
    });
    json!({
        "modifiedFiles": modified.collect::<Vec<_>>(),
        "createdFiles": created.collect::<Vec<_>>(),
        "deletedFiles": seen.deleted_files,
        "gitStatus": git,
    })
}

/// Returns the reason for the checkpoint, in the seed's words where it has some.
fn reason(
    state: &BackedUpState,
    mission: &Mission,
    sorties: &[Sortie],
    names: &[String],
    workflow: &Value,
) -> String {
    let cut = &state.checkpoint.cut;
    let details = cut
        .trigger_details
        .as_deref()
        .unwrap_or(cut.reason.as_str());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let last = workflow["stateHistory"].as_array().and_then(|it| it.last());
    match cut.reason {
        Reason::StateTransition => TriggerCause::StateTransition {
            from: &text(&workflow["previousState"]),
            to: &text(&workflow["currentState"]),
            trigger: &last.map(|it| text(&it["trigger"])).unwrap_or_default(),
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
                    TriggerCause::AgentFailed { agent }.reason()
                }
                Some((_, agent)) => TriggerCause::AgentCompleted { agent }.reason(),
                None => details.to_owned(),
            }
        }
        Reason::SortieFailed
        | Reason::ApiError
        | Reason::LockTimeout
        | Reason::DeliveryFailed
        | Reason::Blocker => TriggerCause::Error {
            context: &mission.title,
            message: details,
        }
        .reason(),
        Reason::Interval => TriggerCause::Interval.reason(),
        Reason::Shutdown => TriggerCause::Shutdown.reason(),
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
