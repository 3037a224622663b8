//! The recovery context: last action, next steps and blockers, computed from the state and its events, never invented.

pub mod analysis;
mod own_context;

use crate::Schema;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::event::{Event, EventType};
use crate::file_system::TreeCheck;
use crate::id::{AgentId, SortieId};
use crate::mission::{Mission, Progress};
use crate::note::{Note, NoteKind};
use crate::sortie::{FileChange, Sortie, SortieError, SortieFile, SortieStatus};
use crate::time::{Millis, Time};

pub use self::analysis::{AnalysedAt, Analysis, Analyzed};
pub use self::own_context::{OwnContext, OwnWork, own_context};

/// The most ready sorties that are named as next steps.
const NEXT_READY: usize = 5;

/// The recovery context: the last action, the next steps and the blockers, in seed A's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct RecoveryContext {
    /// The last action before the checkpoint.
    pub last_action: String,
    /// The steps that should happen next.
    pub next_steps: Vec<String>,
    /// The blockers of the mission.
    pub blockers: Vec<String>,
    /// The files that were touched.
    pub files_modified: Vec<String>,
    /// The mission's objective, or its title where it has none.
    pub mission_summary: String,
    /// Time since the mission began, in milliseconds.
    pub elapsed_time_ms: Millis,
    /// Time of the last activity on the mission.
    pub last_activity_at: Time,
    /// Reports about files, compared with the work tree: in an answer, never in a checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_tree: Option<TreeCheck>,
}

/// The state that a recovery context is computed from.
#[derive(Clone, Debug)]
pub struct RecoveryInput<'a> {
    pub mission: &'a Mission,
    /// The sorties of the mission that matter: held, failed, and the first that wait, in order.
    pub sorties: &'a [&'a Sortie],
    /// The sorties that are completed or left out: nothing waits for them any more.
    pub settled: &'a BTreeSet<SortieId>,
    /// The number of sorties of the mission for which nothing waits any more.
    pub settled_count: u64,
    pub progress: Progress,
    pub files: &'a [SortieFile],
    pub errors: &'a [SortieError],
    pub notes: &'a [Note],
    /// The agents that own one of these sorties, oldest first.
    pub agents: &'a [&'a Agent],
    /// The newest event of the mission that an agent or a person made.
    pub last_event: Option<&'a Event>,
    /// The newest heartbeat of an agent that holds one of its sorties.
    pub last_pulse: Option<Time>,
    /// Further blockers, such as the failure that led to this.
    pub blockers: Vec<String>,
    pub now: Time,
}

pub fn recovery_context(situation: &RecoveryInput<'_>) -> RecoveryContext {
    let mission = situation.mission;
    let began = mission.started_at.unwrap_or(mission.created_at);
    let last_event = situation.last_event.map(Event::happened_at);
    RecoveryContext {
        last_action: last_action(situation),
        next_steps: next_steps(situation),
        blockers: blockers(situation),
        files_modified: files(situation),
        mission_summary: mission
            .objective
            .as_ref()
            .map_or_else(|| mission.title.to_string(), ToString::to_string),
        elapsed_time_ms: situation.now.since(began),
        last_activity_at: last_event
            .max(situation.last_pulse)
            .unwrap_or(mission.created_at),
        work_tree: None,
    }
}

fn name(situation: &RecoveryInput<'_>, id: Option<AgentId>) -> Option<String> {
    let agent = situation.agents.iter().find(|agent| Some(agent.id) == id)?;
    Some(agent.name.to_string())
}

fn last_action(situation: &RecoveryInput<'_>) -> String {
    situation.last_event.map_or_else(
        || "Nothing has happened yet".to_owned(),
        |event| told(event, situation.sorties),
    )
}

pub fn told(event: &Event, sorties: &[&Sortie]) -> String {
    let id = event.subject.split('/').next().unwrap_or_default();
    let sortie = sorties.iter().find(|sortie| sortie.id.to_string() == id);
    let of = sortie.map(|sortie| format!("\"{}\"", sortie.title));
    let of = of.as_deref().unwrap_or("the mission");
    let text = |field: &str| event.data[field].as_str().map(str::to_owned);
    let actor = &event.actor;
    match event.event_type() {
        Some(EventType::SortieClaimed | EventType::SortieStarted | EventType::SortieResumed) => {
            format!("{actor} was working on {of}")
        }
        Some(EventType::SortieCompleted) => format!("{actor} completed {of}"),
        Some(EventType::SortieBlocked) => format!(
            "{actor} was blocked on {of}: {}",
            text("reason").unwrap_or_default()
        ),
        Some(EventType::SortieFailed) => format!(
            "{actor} failed {of}: {}",
            text("reason").unwrap_or_default()
        ),
        Some(EventType::SortieProgress) => match text("note") {
            Some(note) => format!("{actor} on {of}: {note}"),
            None => format!("{actor} was working on {of}"),
        },
        Some(EventType::SortieError) => format!(
            "{actor} met an error in {of}: {}",
            text("message").unwrap_or_default()
        ),
        Some(EventType::FileCreated | EventType::FileModified) => {
            format!("{actor} was editing {}", text("path").unwrap_or_default())
        }
        Some(EventType::LockAcquired | EventType::LockRenewed) => {
            format!("{actor} was editing {}", text("file").unwrap_or_default())
        }
        Some(EventType::SubtaskUpdated) => {
            let part = event.subject.split_once('/').map_or("", |(_, part)| part);
            format!("{actor} was at {part} of {of}")
        }
        Some(EventType::MessageSent) => {
            format!("{actor} wrote: {}", text("subject").unwrap_or_default())
        }
        Some(EventType::MissionCreated) => format!("{actor} created the mission"),
        Some(EventType::MissionTransitioned) => format!(
            "{actor} moved the mission to {}",
            text("to").unwrap_or_default()
        ),
        Some(EventType::EffectBegun | EventType::EffectDone) => {
            let verb = if event.is(EventType::EffectBegun) {
                "began"
            } else {
                "finished"
            };
            format!(
                "{actor} {verb} the effect {}",
                text("key").unwrap_or_default()
            )
        }
        _ => format!("{actor}: {}", event.kind.replace('_', " ")),
    }
}

fn next_steps(situation: &RecoveryInput<'_>) -> Vec<String> {
    let mut steps = Vec::new();
    for sortie in situation
        .sorties
        .iter()
        .filter(|sortie| sortie.status.is_held())
    {
        let owner = name(situation, sortie.assigned_to)
            .map_or_else(String::new, |owner| format!(" ({owner})"));
        steps.push(match &sortie.cursor.next_to_process {
            Some(next) => format!("Continue \"{}\"{owner} with {next}", sortie.title),
            None => format!("Complete \"{}\"{owner}", sortie.title),
        });
    }
    let noted = situation
        .notes
        .iter()
        .filter(|note| note.kind == NoteKind::NextStep);
    steps.extend(noted.map(Note::told));
    for agent in situation
        .agents
        .iter()
        .filter(|agent| owns_work(situation, agent.id))
    {
        steps.extend(
            agent
                .next_steps
                .iter()
                .map(|step| format!("{} ({})", step, agent.name)),
        );
    }
    let ready = situation.sorties.iter().filter(|sortie| {
        sortie.status == SortieStatus::Pending
            && sortie
                .depends_on
                .iter()
                .all(|id| situation.settled.contains(id))
    });
    steps.extend(
        ready
            .take(NEXT_READY)
            .map(|sortie| format!("Start \"{}\"", sortie.title)),
    );
    let failed = situation
        .sorties
        .iter()
        .filter(|sortie| sortie.status == SortieStatus::Failed);
    steps.extend(failed.map(|sortie| format!("Decide about \"{}\", which failed", sortie.title)));
    let progress = situation.progress;
    if steps.is_empty() && progress.percent() == 100 {
        steps.push("Complete the mission: every sortie is completed".to_owned());
    } else if steps.is_empty() && progress.total > 0 && situation.settled_count == progress.total {
        steps.push("Complete the mission: every sortie is completed or left out".to_owned());
    }
    steps
}

fn owns_work(situation: &RecoveryInput<'_>, agent: AgentId) -> bool {
    situation
        .sorties
        .iter()
        .any(|sortie| sortie.assigned_to == Some(agent) && sortie.status.is_held())
}

fn blockers(situation: &RecoveryInput<'_>) -> Vec<String> {
    let mut found = situation.blockers.clone();
    for sortie in situation
        .sorties
        .iter()
        .filter(|sortie| sortie.status == SortieStatus::Blocked)
    {
        let reason = sortie
            .blocked_reason
            .as_deref()
            .unwrap_or("no reason given");
        let line = format!("\"{}\" is blocked: {reason}", sortie.title);
        if !found.contains(&line) {
            found.push(line);
        }
    }
    let failed = situation
        .sorties
        .iter()
        .filter(|sortie| sortie.status == SortieStatus::Failed);
    for sortie in failed {
        let reason = sortie.failure.as_deref().unwrap_or("no reason given");
        let line = format!("\"{}\" failed: {reason}", sortie.title);
        if !found.contains(&line) {
            found.push(line);
        }
    }
    for error in situation
        .errors
        .iter()
        .filter(|error| error.cleared_at.is_none())
    {
        let status = error
            .status
            .map_or_else(String::new, |status| format!(" {status}"));
        let line = format!("{}{status}: {}", error.kind, error.message);
        if !found
            .iter()
            .any(|known| known.ends_with(error.message.as_str()))
        {
            found.push(line);
        }
    }
    let noted = situation
        .notes
        .iter()
        .filter(|note| note.kind == NoteKind::Blocker);
    for blocker in noted.map(Note::told) {
        if !found.contains(&blocker) {
            found.push(blocker);
        }
    }
    for agent in situation
        .agents
        .iter()
        .filter(|agent| owns_work(situation, agent.id))
    {
        found.extend(
            agent
                .blockers
                .iter()
                .map(|blocker| format!("{} ({})", blocker, agent.name)),
        );
    }
    found
}

fn files(situation: &RecoveryInput<'_>) -> Vec<String> {
    let changed = situation
        .files
        .iter()
        .filter(|file| file.change != FileChange::Deleted)
        .map(|file| file.path.to_string());
    let claimed = situation
        .agents
        .iter()
        .filter(|agent| owns_work(situation, agent.id))
        .flat_map(|agent| agent.files_modified.iter().map(ToString::to_string));
    let mut files: Vec<String> = changed.chain(claimed).collect();
    files.sort();
    files.dedup();
    files
}
