//! Collects agents' holdings: one by one for a few agents, in common queries for many.

use std::collections::{BTreeMap, BTreeSet};

use flightline_core::agent::Agent;
use flightline_core::lock::Lock;
use flightline_core::setting::Briefing;
use flightline_core::sortie::SortieStatus;
use flightline_core::{AgentId, Kind, MissionId, RepoPath};
use flightline_store::{Find, SubjectRow};

use super::{held_sorties, unread};
use crate::checkpoint::readable;
use crate::context::receipt::{BriefingView, standing, standing_among};
use crate::error::Result;
use crate::op_context::OpContext;

/// Number of agents up to which each is queried by itself.
const FEW: usize = 16;

#[derive(Default)]
pub(super) struct Held {
    pub(super) sorties: Vec<String>,
    pub(super) locks: Vec<RepoPath>,
    pub(super) unread: u64,
    pub(super) briefing: Option<BriefingView>,
}

impl Held {
    pub(super) fn by(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<Self> {
        let locks = ctx.tx.find::<Lock>(Find::Agent(agent.id))?.into_iter();
        Ok(Self {
            sorties: held_sorties(ctx, agent.id)?,
            locks: locks.map(|lock| lock.file).collect(),
            unread: unread(ctx, agent.id)?,
            briefing: standing(ctx, agent)?,
        })
    }
}

/// Returns the holdings of each of these agents, in their order. It takes a few queries, however many agents there
/// are.
pub(super) fn held_by_each(ctx: &mut OpContext<'_, '_>, agents: &[Agent]) -> Result<Vec<Held>> {
    if agents.len() <= FEW {
        return agents.iter().map(|agent| Held::by(ctx, agent)).collect();
    }
    let mut sorties: BTreeMap<AgentId, Vec<String>> = BTreeMap::new();
    let mut locks: BTreeMap<AgentId, Vec<RepoPath>> = BTreeMap::new();
    let mut briefings: BTreeMap<AgentId, Vec<Briefing>> = BTreeMap::new();
    let mut coordinating: BTreeSet<AgentId> = BTreeSet::new();
    let id = |text: Option<&str>| text.and_then(|text| text.parse::<AgentId>().ok());
    for row in ctx.tx.sorties_in_hand()? {
        let is_held = SortieStatus::from_word(&row.status).is_some_and(SortieStatus::is_held);
        if let Some(owner) = id(row.agent.as_deref()).filter(|_| is_held) {
            sorties.entry(owner).or_default().push(row.id);
        }
    }
    for lock in ctx.tx.find::<Lock>(Find::All)? {
        locks.entry(lock.held_by).or_default().push(lock.file);
    }
    for briefing in readable::<Briefing>(ctx.tx, Find::All)?.0 {
        let of = briefings.entry(briefing.agent_id).or_default();
        of.push(briefing);
    }
    for row in ctx.tx.missions_under_way()? {
        coordinating.extend(id(row.agent.as_deref()));
    }
    let unread = ctx.tx.unread_by_agent()?;
    let held = agents.iter().map(|agent| {
        let sorties = sorties.remove(&agent.id).unwrap_or_default();
        let works = !sorties.is_empty() || coordinating.contains(&agent.id);
        let briefings = briefings.remove(&agent.id).unwrap_or_default();
        Held {
            sorties,
            locks: locks.remove(&agent.id).unwrap_or_default(),
            unread: unread.get(&agent.id.to_string()).copied().unwrap_or(0),
            briefing: standing_among(agent, &briefings, || Ok(works)).unwrap_or_default(),
        }
    });
    Ok(held.collect())
}

/// The locks of each agent, and the sorties that agents hold of each mission.
#[derive(Default)]
pub(crate) struct HoldingsByAgent {
    pub(crate) locks: BTreeMap<AgentId, Vec<Lock>>,
    pub(crate) sorties: BTreeMap<String, Vec<(AgentId, String)>>,
}

impl HoldingsByAgent {
    pub(crate) fn of_all(ctx: &mut OpContext<'_, '_>) -> Result<Self> {
        let rows = ctx.tx.sorties_in_hand()?;
        Self::of_rows(ctx, rows)
    }

    pub(crate) fn of_mission(ctx: &mut OpContext<'_, '_>, mission: MissionId) -> Result<Self> {
        let rows = ctx.tx.rows(Kind::Sortie, Find::Mission(mission))?;
        Self::of_rows(ctx, rows)
    }

    fn of_rows(ctx: &mut OpContext<'_, '_>, rows: Vec<SubjectRow>) -> Result<Self> {
        let mut all = Self::default();
        for lock in ctx.tx.find::<Lock>(Find::All)? {
            all.locks.entry(lock.held_by).or_default().push(lock);
        }
        for row in rows {
            let owner = row.agent.as_deref().and_then(|id| id.parse().ok());
            let is_held = SortieStatus::from_word(&row.status).is_some_and(SortieStatus::is_held);
            if let (Some(owner), Some(mission), true) = (owner, row.mission, is_held) {
                let held = all.sorties.entry(mission).or_default();
                held.push((owner, row.id));
            }
        }
        Ok(all)
    }
}
