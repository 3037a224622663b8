//! The acts and failures that make an operation take a checkpoint.

use crate::Schema;
use flightline_core::checkpoint::{Checkpoint, Reason, Trigger};
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::note::Failure;
use flightline_core::text::NoteText;
use flightline_core::time::Millis;
use flightline_core::{AgentId, CheckpointId, Code, NoteId, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::take::{NewCheckpoint, take, take_as};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Caller, Fleet, Operation, Scope};
use crate::note::failure::{FailureAuthor, note_failure};
use crate::op_context::OpContext;

/// Time in which an API error with the same details leads to one checkpoint only, in milliseconds.
const API_ERROR_PAUSE: Millis = 60_000;

/// Takes a checkpoint because of what this transaction did. Its failure cannot fail the work: it is
/// undone alone, and noted.
pub(crate) fn trigger(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    reason: Reason,
    details: String,
    blockers: Vec<String>,
) -> Result<Option<CheckpointId>> {
    if !ctx.policy.triggers.has(reason) {
        return Ok(None);
    }
    let taking = NewCheckpoint {
        mission,
        reason,
        details: Some(details),
        note: None,
        blockers,
    };
    Ok(try_take(ctx, &taking)?.ok().map(|taken| taken.id))
}

/// Takes a checkpoint if that can be done. If not, that alone is undone and noted, and said why.
pub(crate) fn try_take(
    ctx: &mut OpContext<'_, '_>,
    taking: &NewCheckpoint<'_>,
) -> Result<std::result::Result<Checkpoint, String>> {
    attempt(ctx, taking, take)
}

/// Takes a checkpoint of its own if that can be done, whether or not another holds the same: its file says that things
/// went on from here.
pub(crate) fn try_take_anew(
    ctx: &mut OpContext<'_, '_>,
    taking: &NewCheckpoint<'_>,
) -> Result<std::result::Result<Checkpoint, String>> {
    attempt(ctx, taking, |ctx, taking| {
        let id = CheckpointId::new(ctx.tx.uuid());
        take_as(ctx, taking, id)
    })
}

fn attempt(
    ctx: &mut OpContext<'_, '_>,
    taking: &NewCheckpoint<'_>,
    take: impl FnOnce(&mut OpContext<'_, '_>, &NewCheckpoint<'_>) -> Result<Checkpoint>,
) -> Result<std::result::Result<Checkpoint, String>> {
    let taken = ctx.attempt(|ctx| take(ctx, taking))?;
    match taken {
        Ok(checkpoint) => Ok(Ok(checkpoint)),
        Err(error) => {
            let why = error.to_string();
            let data = json!({ "reason": taking.reason, "error": why });
            ctx.tx
                .note(EventType::CheckpointFailed, taking.mission, &data)?;
            Ok(Err(why))
        }
    }
}

/// Takes one checkpoint for the first of these reasons that is switched on.
pub(crate) fn first_of(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    reasons: Vec<(Reason, String)>,
) -> Result<Option<CheckpointId>> {
    for (reason, details) in reasons {
        if ctx.policy.triggers.has(reason) {
            return trigger(ctx, mission, reason, details, Vec::new());
        }
    }
    Ok(None)
}

/// Takes a checkpoint of an error that was reported, at most one per cause and minute.
pub(crate) fn error(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    reason: Reason,
    details: String,
) -> Result<()> {
    if !ctx.policy.triggers.has(reason) {
        return Ok(());
    }
    let recent = super::newest_first(ctx, mission)?
        .into_iter()
        .any(|checkpoint| {
            checkpoint.cut.reason == reason
                && checkpoint.cut.trigger_details.as_deref() == Some(&details)
                && ctx.now().since(checkpoint.cut.timestamp) < API_ERROR_PAUSE
        });
    if recent {
        return Ok(());
    }
    trigger(ctx, mission, reason, details.clone(), vec![details]).map(drop)
}

/// Records a failure that refused its own operation, such as a lock that could not be granted in time.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct RecordFailure {
    /// The mission that the failure concerns; the current one when none is named.
    pub mission: Option<String>,
    /// The kind of the failure.
    pub reason: Reason,
    /// The details of the failure.
    pub details: NoteText,
    /// The condition that must work before the blocker ends; without it, a person or an agent has to close it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// The outcome of recording a failure.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct FailureRecorded {
    /// The id of the blocker that stands until the failure is dealt with; none where there is no mission.
    pub note_id: Option<NoteId>,
}

impl Operation for RecordFailure {
    const NAME: &'static str = "record_failure";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = FailureRecorded;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<FailureRecorded> {
        if self.reason.trigger() != Trigger::Error {
            return Err(Refusal::new(
                Code::InvalidInput,
                format!("`{}` is not a failure", self.reason.as_str()),
            )
            .into());
        }
        let named = self.mission.is_some() || ctx.caller.mission.is_some();
        let mission = if named {
            Some(ctx.mission(self.mission.as_deref())?)
        } else {
            match own_mission(ctx)? {
                Some(mission) => Some(mission),
                None => ctx.current_mission()?,
            }
        };
        let Some(mission) = mission else {
            return Ok(FailureRecorded { note_id: None });
        };
        let whose = FailureAuthor {
            author: ctx.actor(),
            id: ctx.agent_id(),
        };
        let note = note_failure(ctx, &mission, whose, &self.details, self.failure.clone())?;
        error(ctx, &mission, self.reason, self.details.to_string())?;
        Ok(FailureRecorded {
            note_id: Some(note),
        })
    }
}

/// The mission of the work that the acting agent holds.
pub(crate) fn own_mission(ctx: &mut OpContext<'_, '_>) -> Result<Option<Mission>> {
    match ctx.agent_id() {
        Some(me) => mission_of(ctx, me),
        None => Ok(None),
    }
}

pub(crate) fn mission_of(ctx: &mut OpContext<'_, '_>, me: AgentId) -> Result<Option<Mission>> {
    let held = crate::agent::held_sorties(ctx, me)?;
    let Some(sortie) = held.last().map(|id| ctx.sortie(id)).transpose()? else {
        return Ok(None);
    };
    ctx.mission_of(sortie.mission_id).map(Some)
}

/// Takes an error checkpoint for an operation that was refused. Nothing that goes wrong here may hide
/// the refusal itself.
pub(crate) fn record_failure(
    fleet: &mut Fleet,
    caller: &Caller,
    mission: Option<String>,
    reason: Reason,
    (details, failure): (NoteText, Failure),
) {
    let caller = Caller {
        idempotency_key: None,
        ..caller.clone()
    };
    let _ = fleet.run(
        &RecordFailure {
            mission,
            reason,
            details,
            failure: Some(failure),
        },
        &caller,
    );
}
