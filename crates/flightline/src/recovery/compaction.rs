//! An agent whose context is known to be lost: its client said so, or another session took its name.

use crate::Schema;
use std::collections::BTreeSet;

use flightline_core::agent::Agent;
use flightline_core::event::EventType;
use flightline_core::mission::{Mission, MissionStatus};
use flightline_core::{Code, Kind, MissionId, Name, Refusal};
use flightline_store::{Actor, Find, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::newest_sound;
use crate::agent::{held_sorties, named_or_acting};
use crate::checkpoint::recovery_context::last_act;
use crate::context::receipt::expire_all;
use crate::error::{Error, Result};
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

flightline_core::words! {
    /// The evidence that an agent lost its context.
    pub enum CompactionEvidence {
        /// The agent's client reported it.
        Hook = "hook",
        /// A new session took the agent's name while it had work.
        NewEpoch = "new_epoch",
    }
}

/// Reports that an agent's context was compacted: its knowledge is gone, its session continues.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ReportCompaction {
    /// The agent by name or id; the acting agent when none is named.
    pub agent: Option<String>,
    /// The evidence of the loss.
    pub evidence: CompactionEvidence,
}

/// The outcome of reporting a compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Compacted {
    /// The agent whose context was compacted.
    pub agent: Name,
    /// The number of the context that begins.
    pub context: u64,
    /// The missions that the agent works in; each got a report.
    pub missions: Vec<MissionId>,
}

impl Operation for ReportCompaction {
    const NAME: &'static str = "report_compaction";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |op| ActsFor::named(op.agent.as_deref());
    type Outcome = Compacted;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Compacted> {
        let mut agent = named_or_acting(ctx, self.agent.as_deref())?;
        if ctx.agent_id() != Some(agent.id) && !ctx.is_in_charge() {
            return Err(Refusal::new(
                Code::NotYours,
                format!(
                    "only {} or dispatch may say that {} lost its context",
                    agent.name, agent.name
                ),
            )
            .into());
        }
        agent.context += 1;
        agent.updated_at = ctx.now();
        let data = json!({ "context": agent.context, "evidence": self.evidence });
        ctx.tx.set(EventType::AgentCompacted, &agent, &data)?;
        let missions = lose_context(ctx, &agent, self.evidence)?;
        Ok(Compacted {
            agent: agent.name,
            context: agent.context,
            missions,
        })
    }
}

/// Records that an agent lost its context, for each mission it works in. Briefings that were offered to
/// the lost context no longer count.
pub(crate) fn lose_context(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    evidence: CompactionEvidence,
) -> Result<Vec<MissionId>> {
    let who = ctx.tx.actor().clone();
    ctx.tx.act_as(Actor::flightline());
    expire_all(ctx, agent)?;
    let mut told = Vec::new();
    for id in missions_of(ctx, agent)? {
        // One mission's damage stops no agent from coming back.
        match tell(ctx, &id, agent, evidence) {
            Ok(mission) => told.extend(mission),
            Err(Error::Store(StoreError::Corrupt(_))) => {}
            Err(error) => return Err(error),
        }
    }
    ctx.tx.act_as(who);
    Ok(told)
}

/// The missions in which an agent holds work, and those under way that it coordinates.
pub(crate) fn missions_of(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<BTreeSet<String>> {
    let held = held_sorties(ctx, agent.id)?;
    let rows = ctx.tx.rows(Kind::Sortie, Find::Agent(agent.id))?;
    let working = rows
        .into_iter()
        .filter(|row| held.contains(&row.id))
        .filter_map(|row| row.mission);
    let mut missions: BTreeSet<String> = working.collect();
    let under_way = MissionStatus::InProgress.as_str();
    let coordinated = Find::AgentStatus(agent.id, under_way);
    let rows = ctx.tx.rows(Kind::Mission, coordinated)?.into_iter();
    missions.extend(rows.map(|row| row.id));
    Ok(missions)
}

fn tell(
    ctx: &mut OpContext<'_, '_>,
    id: &str,
    agent: &Agent,
    evidence: CompactionEvidence,
) -> Result<Option<MissionId>> {
    let Some(mission) = ctx.tx.get::<Mission>(id)? else {
        return Ok(None);
    };
    if mission.status != MissionStatus::InProgress {
        return Ok(None);
    }
    let last = last_act(ctx, &mission)?.map_or(mission.created_at, |event| event.happened_at());
    let (checkpoint, _) = newest_sound(ctx, &mission)?;
    let checkpoint = checkpoint.filter(|checkpoint| checkpoint.cut.progress_percent < 100);
    let data = json!({
        "mission_id": mission.id,
        "last_activity_at": last,
        "inactivity_duration_ms": ctx.now().since(last),
        "checkpoint_available": checkpoint.is_some(),
        "checkpoint_id": checkpoint.map(|checkpoint| checkpoint.id),
        "evidence": evidence,
        "agent": agent.name,
    });
    ctx.tx.note(EventType::ContextCompacted, &mission, &data)?;
    Ok(Some(mission.id))
}
