//! The state of the fleet at a glance.

mod attention;

use crate::Schema;
use flightline_core::agent::Agent;
use flightline_core::checkpoint::{Checkpoint, CheckpointStatus};
use flightline_core::event::Event;
use flightline_core::mission::{Mission, Progress};
use flightline_core::sortie::{Sortie, Subtask, SubtaskProgress, SubtaskStatus};
use flightline_core::{Subject, Time};
use flightline_store::{EventFilter, Find};
use serde::{Deserialize, Serialize};

use crate::agent::{AgentView, Sighting, views};
use crate::checkpoint::inspect::{CheckpointSummary, summary};
use crate::doctor::disk;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::lock::{ListLocks, LockView};
use crate::op_context::OpContext;
use crate::recovery::detect::{RecoveryCandidate, candidates_among};
use crate::recovery::verdicts_of;
use crate::remote::SyncReport;
use crate::sortie::{SortieSummary, subtask_progress, summaries};

/// Shows the state of the fleet. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ShowStatus {
    /// The mission to show; the current one when none is named.
    pub mission: Option<String>,
    /// Observations of agents' processes.
    #[serde(default)]
    pub sightings: Vec<Sighting>,
}

/// The state of the fleet.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct FleetStatus {
    /// The project's name.
    pub project: String,
    /// The current mission, when there is one.
    pub mission: Option<MissionStatusView>,
    /// The mission's newest checkpoint.
    pub checkpoint: Option<CheckpointSummary>,
    /// Missions that need recovery.
    pub recovery: Vec<RecoveryCandidate>,
    /// Agents that are not retired.
    pub agents: Vec<AgentView>,
    /// Locks that are held.
    pub locks: Vec<LockView>,
    /// Matters that need a person.
    pub attention: Vec<Attention>,
    /// The last event of the journal.
    pub last_event: Option<Event>,
    /// The time at the store.
    pub now: Time,
    /// The last revision of the journal.
    pub rev: u64,
    /// The queue for the server and its last delivery; none where the store is.
    #[serde(default)]
    pub synced: Option<SyncReport>,
}

/// A mission at a glance.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct MissionStatusView {
    /// The mission as it is stored.
    pub mission: Mission,
    /// The progress of the mission.
    pub progress: Progress,
    /// The progress to show, in percent.
    pub progress_percent: u8,
    /// The sorties of the mission, in order.
    pub sorties: Vec<SortieSummary>,
    /// Details of the sorties that agents work on.
    pub active: Vec<ActiveSortie>,
}

/// A sortie that an agent works on.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct ActiveSortie {
    /// The sortie's id.
    pub id: String,
    /// Progress of the sortie, counted in subtasks.
    pub progress: SubtaskProgress,
    /// The subtask that the sortie's owner works on.
    pub subtask: Option<String>,
    /// The owner's last note.
    pub note: Option<String>,
    /// The reason why the sortie is blocked.
    pub blocked_reason: Option<String>,
}

/// A matter that needs a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Attention {
    /// The matter as a sentence.
    pub what: String,
    /// The command that settles the matter, or tells more.
    pub command: String,
    /// The command for the other case, where only a person can tell which it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
}

impl Attention {
    /// Creates a matter with one command that settles it.
    pub fn new(what: impl Into<String>, command: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            command: command.into(),
            otherwise: None,
        }
    }

    /// Adds a command for the other case.
    #[must_use]
    pub fn otherwise(mut self, command: impl Into<String>) -> Self {
        self.otherwise = Some(command.into());
        self
    }
}

impl Operation for ShowStatus {
    const NAME: &'static str = "show_status";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = FleetStatus;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<FleetStatus> {
        let named = self.mission.is_some() || ctx.caller.mission.is_some();
        let mission = if named {
            Some(ctx.mission(self.mission.as_deref())?)
        } else {
            ctx.current_mission()?
        };
        let mission = mission
            .map(|mission| at_a_glance(ctx, mission))
            .transpose()?;
        let (pulses, mut everybody) = (ctx.tx.pulses()?, ctx.tx.find::<Agent>(Find::All)?);
        let verdicts = verdicts_of(ctx, everybody.clone(), &pulses, &self.sightings);
        everybody.retain(|agent| agent.retired_at.is_none());
        let agents = views(ctx, everybody, &pulses, &self.sightings)?;
        let locks = ListLocks { agent: None }.decide(ctx)?;
        let last_taken = match &mission {
            Some(view) => {
                let archived = Some(CheckpointStatus::Archived.as_str());
                let newest = ctx.tx.newest::<Checkpoint>(view.mission.id, archived, 5)?;
                newest.into_iter().next()
            }
            None => None,
        };
        let newest = match last_taken {
            Some(checkpoint) => {
                let backup = ctx.tx.backup_of(checkpoint.id)?;
                Some((checkpoint, backup))
            }
            None => None,
        };
        let candidates = candidates_among(ctx, None, &verdicts)?.into_iter();
        let recovery: Vec<RecoveryCandidate> = candidates.map(|(_, candidate)| candidate).collect();
        let mut attention = attention::of_work(ctx, mission.as_ref(), &agents, &locks)?;
        attention.extend(recovery.iter().flat_map(attention::of_candidate));
        attention.extend(
            newest
                .as_ref()
                .and_then(|(checkpoint, backup)| attention::of_backup(checkpoint, backup)),
        );
        let last = ctx.tx.newest_events(&EventFilter {
            limit: 1,
            ..EventFilter::default()
        })?;
        attention.extend(attention::of_damage(&ctx.tx.take_noticed()));
        attention.extend(ctx.tx.disk()?.iter().flat_map(disk::needs));
        attention.extend(ctx.tx.take_losses().iter().map(attention::of_loss));
        Ok(FleetStatus {
            project: ctx.tx.project_name().to_owned(),
            mission,
            checkpoint: newest.map(|(checkpoint, backup)| summary(checkpoint, &backup)),
            recovery,
            agents,
            locks,
            attention,
            last_event: last.into_iter().next(),
            now: ctx.now(),
            rev: ctx.tx.rev(),
            synced: None,
        })
    }
}

fn at_a_glance(ctx: &mut OpContext<'_, '_>, mission: Mission) -> Result<MissionStatusView> {
    let sorties = summaries(ctx, mission.id)?;
    let mut active = Vec::new();
    for summary in sorties.iter().filter(|sortie| sortie.status.is_held()) {
        let Some(sortie) = ctx.tx.get::<Sortie>(summary.id)? else {
            continue;
        };
        let subtasks = ctx.tx.find::<Subtask>(Find::Parent(&sortie.key()))?;
        let subtask = subtasks
            .into_iter()
            .find(|subtask| subtask.status == SubtaskStatus::InProgress);
        active.push(ActiveSortie {
            id: sortie.key(),
            progress: subtask_progress(ctx, &sortie)?,
            subtask: subtask.map(|subtask| {
                subtask
                    .title
                    .map_or_else(|| subtask.name.to_string(), |title| title.to_string())
            }),
            note: sortie.progress_notes.map(|note| note.to_string()),
            blocked_reason: sortie.blocked_reason.map(|reason| reason.to_string()),
        });
    }
    let progress = ctx.progress(mission.id)?;
    Ok(MissionStatusView {
        progress_percent: progress.percent(),
        mission,
        progress,
        sorties,
        active,
    })
}
