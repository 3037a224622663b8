//! Looks for the processes that agents run in, and decides which caller is believed about them.

use crate::Schema;
use flightline_core::AgentId;
use flightline_core::agent::{Agent, Process};
use flightline_core::liveness::ProcessSight;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::fleet::{Access, ActsFor, Caller, Fleet, Operation, Scope};
use crate::op_context::OpContext;

/// The caller's observation of an agent's process. Read through `sight` alone, which decides whom to believe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Sighting {
    /// The agent whose process it is.
    agent: AgentId,
    /// The process that was looked for.
    process: Process,
    /// True when the process is running.
    alive: bool,
}

impl Sighting {
    /// An agent's process was looked for, and was running or not.
    pub fn new(agent: AgentId, process: Process, alive: bool) -> Self {
        Self {
            agent,
            process,
            alive,
        }
    }
}

/// The observation of an agent's process. Only the very process that it registered with counts, and only a sighting of this
/// machine or of a coordinator: a token of scope `agent` could otherwise have any other agent declared dead.
pub(crate) fn sight(
    ctx: &OpContext<'_, '_>,
    agent: &Agent,
    sightings: &[Sighting],
) -> ProcessSight {
    let Some(process) = agent.process.as_ref().filter(|_| ctx.coordinates()) else {
        return ProcessSight::Unknown;
    };
    let is_it = |seen: &&Sighting| seen.agent == agent.id && seen.process == *process;
    match sightings.iter().find(is_it) {
        Some(Sighting { alive: true, .. }) => ProcessSight::Alive { pid: process.pid },
        Some(_) => ProcessSight::Gone { pid: process.pid },
        None => ProcessSight::Unknown,
    }
}

/// Looks for the processes of agents that run on this machine. The caller's part of every judgement.
pub fn look_around(fleet: &mut Fleet) -> Result<Vec<Sighting>> {
    let processes = fleet.run(&ListProcesses {}, &Caller::default())?;
    let sightings = processes.into_iter().filter_map(|known| {
        let alive = flightline_workspace::is_running(&known.process)?;
        Some(Sighting {
            agent: known.agent,
            process: known.process,
            alive,
        })
    });
    Ok(sightings.collect())
}

/// Lists the processes in which agents run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListProcesses {}

/// The process in which an agent runs.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct KnownProcess {
    /// The agent whose process it is.
    pub agent: AgentId,
    /// The process that the agent registered with.
    pub process: Process,
}

/// The part of an agent's stored text that says that its process is not known.
const NO_PROCESS: &str = "\"process\":null";

impl Operation for ListProcesses {
    const NAME: &'static str = "list_processes";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<KnownProcess>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<KnownProcess>> {
        let is_there = |agent: &Agent| agent.retired_at.is_none();
        let agents = ctx.tx.find_without(NO_PROCESS, is_there)?.into_iter();
        let known = agents.filter_map(|agent| {
            Some(KnownProcess {
                agent: agent.id,
                process: agent.process?,
            })
        });
        Ok(known.collect())
    }
}
