//! Keeps the briefings that were offered to an agent, and which of them arrived.

use crate::Schema;
use flightline_core::agent::Agent;
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::setting::{Briefing, Receipt};
use flightline_core::{MissionId, Time};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::checkpoint::readable;
use crate::error::Result;
use crate::op_context::OpContext;
use crate::recovery::compaction::missions_of;

/// The state of an agent's briefing, in its present session and since its last compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct BriefingView {
    /// The state of the briefing: `pending`, `offered`, `acknowledged` or `expired`.
    pub status: String,
    /// The time at which the briefing came to that status; none while it is pending.
    pub at: Option<Time>,
    /// Number of times the briefing was given in full without being asked for.
    pub deliveries: u32,
    /// The mission that the briefing is about.
    pub mission_id: Option<MissionId>,
    /// Number of earlier briefings that expired since one was last acknowledged: each was offered to a context that
    /// is gone.
    #[serde(default, skip_serializing_if = "is_none")]
    pub expired: u32,
}

/// Returns true for zero, in the form that serde calls.
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// Returns the briefings that an agent was given in its present session and since its last compaction, oldest first.
pub(super) fn given(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    mission: &Mission,
) -> Result<Vec<Briefing>> {
    let mut given = present(ctx, agent)?;
    given.retain(|briefing| briefing.mission_id == mission.id);
    Ok(given)
}

fn present(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<Vec<Briefing>> {
    let (mut given, _) = readable::<Briefing>(ctx.tx, Find::Agent(agent.id))?;
    given.retain(|it| is_present(it, agent));
    Ok(given)
}

/// Returns true when a briefing is of an agent's present session, and was given since its last compaction.
fn is_present(briefing: &Briefing, agent: &Agent) -> bool {
    (briefing.epoch, briefing.context) == (agent.epoch, agent.context)
}

/// Records that a briefing was offered; `deliveries` are how often without being asked for.
pub(super) fn offer(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    mission: &Mission,
    nonce: &str,
    deliveries: u32,
) -> Result<Receipt> {
    let known = ctx.tx.find::<Briefing>(Find::Agent(agent.id))?;
    let data = json!({ "agent": agent.name });
    if let Some(same) = known.iter().find(|briefing| briefing.nonce == nonce) {
        if deliveries > 0 {
            let again = Briefing {
                deliveries: same.deliveries + deliveries,
                ..same.clone()
            };
            ctx.tx.set(EventType::BriefingRepeated, &again, &data)?;
        }
        return Ok(same.receipt);
    }
    // An older briefing that was never acknowledged will not be any more.
    let older = known.into_iter().filter(|it| it.mission_id == mission.id);
    expire(ctx, agent, older.collect())?;
    let receipt = Receipt::Offered { at: ctx.now() };
    let briefing = Briefing {
        agent_id: agent.id,
        mission_id: mission.id,
        context: agent.context,
        epoch: agent.epoch,
        nonce: nonce.to_owned(),
        receipt,
        deliveries,
    };
    ctx.tx.set(EventType::BriefingOffered, &briefing, &data)?;
    Ok(receipt)
}

fn expire(ctx: &mut OpContext<'_, '_>, agent: &Agent, briefings: Vec<Briefing>) -> Result<()> {
    for mut old in briefings {
        if matches!(old.receipt, Receipt::Offered { .. } | Receipt::Pending) {
            old.receipt = Receipt::Expired { at: ctx.now() };
            let data = json!({ "agent": agent.name });
            ctx.tx.set(EventType::BriefingExpired, &old, &data)?;
        }
    }
    Ok(())
}

/// Ends the briefings that an agent was offered and never acknowledged: the context they were offered to is gone.
pub(crate) fn expire_all(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<()> {
    let (open, _) = readable::<Briefing>(ctx.tx, Find::Agent(agent.id))?;
    expire(ctx, agent, open)
}

/// Returns the state of an agent's briefing; none when it needs none: it works in its first context or on nothing,
/// and asked for none.
pub(crate) fn standing(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<Option<BriefingView>> {
    let (all, _) = readable::<Briefing>(ctx.tx, Find::Agent(agent.id))?;
    standing_among(agent, &all, || Ok(!missions_of(ctx, agent)?.is_empty()))
}

/// Returns the state of an agent's briefing, among all that it was ever offered, oldest first. Calls `works` only
/// where it counts whether the agent works on anything.
pub(crate) fn standing_among(
    agent: &Agent,
    all: &[Briefing],
    works: impl FnOnce() -> Result<bool>,
) -> Result<Option<BriefingView>> {
    let expired = all.iter().fold(0, |count, it| match it.receipt {
        Receipt::Expired { .. } => count + 1,
        Receipt::Acknowledged { .. } => 0,
        Receipt::Pending | Receipt::Offered { .. } => count,
    });
    let given = || all.iter().filter(|it| is_present(it, agent));
    let deliveries = given().map(|briefing| briefing.deliveries).sum();
    if let Some(last) = given().next_back() {
        return Ok(Some(BriefingView {
            status: last.receipt.as_str().to_owned(),
            at: last.receipt.at(),
            deliveries,
            mission_id: Some(last.mission_id),
            expired,
        }));
    }
    let lost = agent.epoch > 1 || agent.context > 0;
    if !lost || agent.retired_at.is_some() || !works()? {
        return Ok(None);
    }
    Ok(Some(BriefingView {
        status: Receipt::Pending.as_str().to_owned(),
        at: None,
        deliveries: 0,
        mission_id: None,
        expired,
    }))
}
