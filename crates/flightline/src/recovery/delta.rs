//! Changes that another system wrote down and had not applied, made to our own state.

use crate::Schema;
use flightline_core::context::{DeltaDecision, decide};
use flightline_core::dialect::Json;
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::redact::redact;
use flightline_core::sortie::{Sortie, SortieStatus};
use flightline_core::text::NoteText;
use flightline_core::{Refusal, SortieId};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::context::synced_by;
use crate::checkpoint::milestone::milestones;
use crate::error::{Error, Result};
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mission::begin_if_pending;
use crate::op_context::OpContext;
use crate::sortie::change::check_owner;

/// Maximum number of changes that are taken at once.
const MOST: usize = 1_000;

/// Applies changes of seed E's documents to a mission. Applying them twice changes nothing the second time.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ApplyDeltas {
    /// The mission to change; the current one when none is named.
    pub mission: Option<String>,
    /// The changes, as the seed writes them.
    pub changes: Vec<Value>,
}

/// The outcome of one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct DeltaOutcome {
    /// The position of the change in the request, from 0.
    pub index: usize,
    /// The decision on the change.
    pub result: DeltaResult,
    /// The sortie that was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sortie_id: Option<SortieId>,
    /// The reason why the change was not made, when the sortie is kept as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The decision on a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum DeltaResult {
    /// The change was made.
    Made,
    /// The change had been made before.
    Already,
    /// The change was not made, and the sortie keeps its owner.
    Kept,
}

impl Operation for ApplyDeltas {
    const NAME: &'static str = "apply_deltas";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<DeltaOutcome>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<DeltaOutcome>> {
        if self.changes.len() > MOST {
            return Err(Refusal::invalid(format!(
                "{} changes are too many: at most {MOST} are applied at once",
                self.changes.len()
            ))
            .into());
        }
        let mission = ctx.mission(self.mission.as_deref())?;
        let changes = self.changes.iter().cloned();
        let deltas: Vec<Json> = changes.map(Json::from).collect();
        apply(ctx, &mission, &deltas)
    }
}

/// Applies changes, one after the other. One that cannot be made is kept, and keeps no other from being made.
pub(crate) fn apply(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    deltas: &[Json],
) -> Result<Vec<DeltaOutcome>> {
    let mut outcomes = Vec::with_capacity(deltas.len());
    for (index, delta) in deltas.iter().enumerate() {
        let sorties = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
        let (result, sortie_id, why) = match decide(delta, &sorties) {
            DeltaDecision::Already => (DeltaResult::Already, None, None),
            DeltaDecision::Kept { why } => (DeltaResult::Kept, None, Some(why)),
            DeltaDecision::Move { sortie, to } => {
                match ctx.attempt(|ctx| move_to(ctx, sortie.clone(), to))? {
                    Ok(()) => (DeltaResult::Made, Some(sortie.id), None),
                    Err(error) => (DeltaResult::Kept, None, Some(error.to_string())),
                }
            }
        };
        outcomes.push(DeltaOutcome {
            index,
            result,
            sortie_id,
            why: why.map(|why| redact(&why).into_owned()),
        });
    }
    if outcomes.iter().any(|it| it.result == DeltaResult::Made) {
        milestones(ctx, mission)?;
    }
    Ok(outcomes)
}

fn move_to(ctx: &mut OpContext<'_, '_>, mut sortie: Sortie, to: SortieStatus) -> Result<()> {
    check_owner(ctx, &sortie, "move")?;
    let (now, from) = (ctx.now(), sortie.status);
    sortie.status = to;
    sortie.updated_at = now;
    sortie.blocked_reason = None;
    sortie.failure = None;
    match to {
        SortieStatus::Pending => {
            sortie.unassign();
            sortie.completed_at = None;
        }
        SortieStatus::InProgress => {
            begin_if_pending(ctx, sortie.mission_id)?;
            if sortie.assigned_to.is_none() {
                let owner = ctx.agent.as_ref().ok_or_else(|| {
                    Error::from(Refusal::invalid(
                        "it does not name the agent that works on it",
                    ))
                })?;
                sortie.assigned_to = Some(owner.id);
                sortie.assigned_epoch = Some(owner.epoch);
                sortie.assigned_at = Some(now);
            }
            sortie.started_at.get_or_insert(now);
            sortie.completed_at = None;
            sortie.attempts += 1;
        }
        SortieStatus::Completed => {
            sortie.completed_at = Some(now);
            sortie.interrupted = None;
        }
        SortieStatus::Failed => {
            sortie.failure = Some(NoteText::parse("reason", "moved to `failed` on the board")?);
        }
        // Left out; of the others no column of the board means one.
        SortieStatus::Skipped | SortieStatus::Assigned | SortieStatus::Blocked => {}
    }
    let data = json!({ "from": from.as_str(), "to": to.as_str(), "reason": "delta" });
    ctx.tx.set(EventType::SortieMoved, &sortie, &data)?;
    if to == SortieStatus::Completed {
        synced_by(ctx, &sortie)?;
    }
    Ok(())
}
