//! Describes one step: the changes of a request, and the state after it.

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::agent::{Agent, AgentStatus, Role};
use flightline_core::event::{Event, EventType};
use flightline_core::mission::{Mission, Progress};
use flightline_core::setting::RecoveryKind;
use flightline_core::sortie::SortieStatus;
use flightline_core::text::read_stored;
use flightline_core::{CheckpointId, Code, Kind, MissionId, Refusal, Time};
use flightline_store::{PastValue, ReplayEvent, StoreError, StoredEvent};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkpoint::inspect::{Difference, differences};
use crate::checkpoint::{Contents, LockSnapshot, MessageSnapshot, SortieSnapshot};
use crate::error::Result;
use crate::op_context::OpContext;

/// The changes that one request made to a mission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct ReplayStep {
    /// The first revision of the step, by which it is named.
    pub step: u64,
    /// The last revision of the step that concerns the mission.
    pub rev: u64,
    /// The time of the step.
    pub timestamp: Time,
    /// The author of the step.
    pub actor: String,
    /// The mission's timeline after the step; each rewind raises it. None when retention has removed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<u32>,
    /// The recovery that the step was, when it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<StepRecovery>,
    /// The events of the step, in order.
    pub events: Vec<Event>,
    /// The differences between before and after the step.
    pub changes: Vec<Difference>,
    /// Values that cannot be compared, because they are not there any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// The state after the step, when it was requested and is still known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateAt>,
    /// The reason why the state is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_state: Option<Refusal>,
}

/// A recovery in a mission's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct StepRecovery {
    /// The kind of recovery: forwards, or back to the state that the checkpoint names.
    pub kind: RecoveryKind,
    /// The checkpoint of the recovery.
    pub checkpoint_id: CheckpointId,
    /// True when the step took an earlier rewind back.
    pub undo: bool,
}

/// Values that are not there any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Missing {
    /// The code of the loss: `history_thinned`, or `integrity` when a value is damaged.
    pub code: Code,
    /// The subjects whose values are missing.
    pub values: Vec<MissingValue>,
    /// The checkpoints just before and just after the step, whose values are kept.
    pub checkpoints: Vec<String>,
}

/// A thing whose value before or after a step is not there any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct MissingValue {
    /// The kind of the subject.
    pub kind: Kind,
    /// The id of the subject.
    pub id: String,
    /// The code of the loss: `history_thinned` when retention removed the value, `integrity` when no copy is sound.
    pub code: Code,
}

/// The state of a mission after a step: everything that a checkpoint taken there would name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct StateAt {
    /// The revision of the state.
    pub rev: u64,
    /// The mission at that step.
    pub mission: Mission,
    /// Progress of the mission, in percent.
    pub progress_percent: u8,
    /// The sorties at that step.
    pub sorties: Vec<SortieSnapshot>,
    /// The locks that were held after that step.
    pub active_locks: Vec<LockSnapshot>,
    /// The messages that were not acknowledged after that step.
    pub pending_messages: Vec<MessageSnapshot>,
    /// The agents after that step, but for retired ones.
    pub agents: Vec<AgentAt>,
    /// Revisions up to there whose events are lost or damaged: for the subjects they changed, an older value is shown
    /// above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u64>,
}

/// An agent at a point of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct AgentAt {
    /// The name of the agent.
    pub name: String,
    /// The role of the agent: it coordinated or it worked.
    pub role: Role,
    /// The status that the agent had reported.
    pub status: AgentStatus,
    /// The epoch of the agent's session.
    pub epoch: u64,
    /// The step that the agent was working on.
    pub current_step: Option<String>,
}

type Subject = (Kind, String);

/// Puts events together to steps, and finds what each changed.
pub(super) fn read(
    ctx: &mut OpContext<'_, '_>,
    mission: MissionId,
    happenings: &[ReplayEvent],
    states: bool,
) -> Result<Vec<ReplayStep>> {
    // Values that earlier steps of the page left need not be looked up.
    let mut known: BTreeMap<Subject, PastValue> = BTreeMap::new();
    let mut steps = Vec::new();
    for step in happenings.chunk_by(|a, b| a.event.step == b.event.step) {
        let (Some(first), Some(last)) = (step.first(), step.last()) else {
            continue;
        };
        let (at, rev) = (first.event.step, last.event.rev);
        let (changes, missing) = changes(ctx, step, &mut known)?;
        let missing = match missing.is_empty() {
            true => None,
            false => Some(Missing {
                code: code_of(&missing),
                values: missing,
                checkpoints: ctx.tx.nearest_checkpoints(rev, mission)?,
            }),
        };
        let (state, no_state) = match states {
            false => (None, None),
            true => match state_at(ctx, mission, rev)? {
                Ok(state) => (Some(state), None),
                Err(refusal) => (None, Some(refusal)),
            },
        };
        let by_somebody = step.iter().find(|one| one.event.actor != "flightline");
        steps.push(ReplayStep {
            step: at,
            rev,
            timestamp: first.event.timestamp,
            actor: by_somebody.unwrap_or(first).event.actor.clone(),
            timeline: timeline(ctx, mission, rev, &mut known)?,
            recovery: recovery(step),
            events: step.iter().map(|one| one.event.clone()).collect(),
            changes,
            missing,
            state,
            no_state,
        });
    }
    Ok(steps)
}

/// Returns the differences between before and after a step, and the values that cannot be compared.
fn changes(
    ctx: &mut OpContext<'_, '_>,
    step: &[ReplayEvent],
    known: &mut BTreeMap<Subject, PastValue>,
) -> Result<(Vec<Difference>, Vec<MissingValue>)> {
    let mut ends: BTreeMap<Subject, (PastValue, PastValue)> = BTreeMap::new();
    for ReplayEvent { event, after } in step {
        let Some(after) = after else { continue };
        let subject = (event.subject_kind, event.subject.clone());
        match ends.get_mut(&subject) {
            Some((_, is)) => *is = after.clone(),
            None => {
                let was = match known.remove(&subject) {
                    Some(was) => was,
                    None => ctx.tx.was_before(subject.0, &subject.1, event.step)?,
                };
                ends.insert(subject, (was, after.clone()));
            }
        }
    }
    let (mut before, mut after, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for ((kind, id), (was, is)) in &ends {
        let lost = |code| MissingValue {
            kind: *kind,
            id: id.clone(),
            code,
        };
        match (was, is) {
            (PastValue::Damaged, _) | (_, PastValue::Damaged) => {
                missing.push(lost(Code::Integrity))
            }
            (PastValue::Thinned, _) | (_, PastValue::Thinned) => {
                missing.push(lost(Code::HistoryThinned))
            }
            (was, is) => {
                before.extend(value(was));
                after.extend(value(is));
            }
        }
    }
    known.extend(ends.into_iter().map(|(subject, (_, is))| (subject, is)));
    Ok((differences(&before, &after), missing))
}

fn value(was: &PastValue) -> Option<StoredEvent> {
    match was {
        PastValue::There(value) => Some(value.clone()),
        PastValue::NotThere | PastValue::Thinned | PastValue::Damaged => None,
    }
}

fn code_of(missing: &[MissingValue]) -> Code {
    match missing.iter().any(|value| value.code == Code::Integrity) {
        true => Code::Integrity,
        false => Code::HistoryThinned,
    }
}

/// The mission's timeline after a step, as far as it is known.
fn timeline(
    ctx: &mut OpContext<'_, '_>,
    mission: MissionId,
    rev: u64,
    known: &mut BTreeMap<Subject, PastValue>,
) -> Result<Option<u32>> {
    let subject = (Kind::Mission, mission.to_string());
    if !known.contains_key(&subject) {
        let was = ctx
            .tx
            .was_before(subject.0, &subject.1, rev.saturating_add(1))?;
        known.insert(subject.clone(), was);
    }
    let text = known.get(&subject).and_then(value).map(|value| value.text);
    let mission = text.and_then(|text| read_stored::<Mission>(&text).ok());
    Ok(mission.map(|mission| mission.timeline))
}

fn recovery(step: &[ReplayEvent]) -> Option<StepRecovery> {
    let of_kind = |kind| step.iter().find(|one| one.event.is(kind));
    let told = of_kind(EventType::FleetRecovered)?;
    let id = told.event.data.get("checkpoint_id").and_then(Value::as_str);
    Some(StepRecovery {
        kind: match of_kind(EventType::MissionRestored) {
            Some(_) => RecoveryKind::Rewind,
            None => RecoveryKind::RollForward,
        },
        checkpoint_id: id?.parse().ok()?,
        undo: of_kind(EventType::RecoveryUndone).is_some(),
    })
}

/// Returns the state at a revision, or the refusal when it is not known any more.
pub(super) fn state_at(
    ctx: &mut OpContext<'_, '_>,
    mission: MissionId,
    rev: u64,
) -> Result<std::result::Result<StateAt, Refusal>> {
    let (values, lost) = match ctx.tx.values_and_losses_at(rev, mission) {
        Err(StoreError::Thinned { subject, rev, .. }) => {
            let nearest = ctx.tx.nearest_checkpoints(rev, mission)?;
            let thinned = StoreError::Thinned {
                subject,
                rev,
                nearest,
            };
            return Ok(Err(thinned.into()));
        }
        Err(error @ StoreError::Corrupt(_)) => return Ok(Err(error.into())),
        values => values?,
    };
    let contents = Contents::new(values);
    let views = contents.views()?;
    let Some(mission) = contents.of::<Mission>()?.into_iter().next() else {
        let lost = StoreError::Corrupt(format!("the mission is not there at revision {rev}"));
        return Ok(Err(lost.into()));
    };
    let completed = views.sorties.iter();
    let completed = completed.filter(|sortie| sortie.status == SortieStatus::Completed);
    let progress = Progress {
        completed: completed.count() as u64,
        total: views.sorties.len() as u64,
    };
    let agents = views.agents.iter();
    Ok(Ok(StateAt {
        rev,
        mission,
        progress_percent: progress.percent(),
        sorties: views.sorties,
        active_locks: views.active_locks,
        pending_messages: views.pending_messages,
        agents: agents
            .filter(|agent| agent.retired_at.is_none())
            .map(|agent| agent_at(agent))
            .collect(),
        lost,
    }))
}

fn agent_at(agent: &Agent) -> AgentAt {
    AgentAt {
        name: agent.name.to_string(),
        role: agent.role,
        status: agent.status,
        epoch: agent.epoch,
        current_step: agent.current_step.as_ref().map(ToString::to_string),
    }
}
