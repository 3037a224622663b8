//! Operations on agents.

pub mod context;
pub(crate) mod document;
mod heartbeat;
pub(crate) mod holdings;
pub mod monitor;
pub mod restart;
pub mod resume;
pub(crate) mod session;
mod sighting;
pub mod takeover;
mod update;
mod words;

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::agent::{Agent, Process, Role, Step};
use flightline_core::event::EventType;
use flightline_core::liveness::{self, Evidence, Liveness, judge};
use flightline_core::lock::Lock;
use flightline_core::sortie::SortieStatus;
use flightline_core::text::NoteText;
use flightline_core::{AgentId, Code, Kind, Name, Refusal, RepoPath, Subject, Time, Title};
use flightline_store::{Find, ListOrder, ListScope, Pulse, RowList};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::holdings::{Held, held_by_each};
use self::session::{begin_session, check_process};
use crate::context::receipt::BriefingView;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, WhenFull, listed};
use crate::mission::short;
use crate::op_context::{OpContext, agent_named, check_new_name, new_agent, speak_for};
use crate::recovery::compaction::{CompactionEvidence, lose_context};
use crate::recovery::start::{SessionStart, start_by_itself};

pub use self::heartbeat::{Heartbeat, HeartbeatRecorded};
pub(crate) use self::sighting::sight;
pub use self::sighting::{KnownProcess, ListProcesses, Sighting, look_around};
pub use self::update::UpdateAgent;

/// Registers an agent, or begins a new session of a known one.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct RegisterAgent {
    /// The name of the agent.
    pub name: Name,
    /// The role of the agent: it coordinates or it works. A known agent keeps its role when none is given.
    pub role: Option<Role>,
    /// The kind of agent in the words of its own system.
    pub kind: Option<Name>,
    /// The client's id of the agent's session. A second registration of the same session changes nothing.
    pub session: Option<Title>,
    /// The process in which the agent runs.
    pub process: Option<Process>,
    /// The feature that the agent owns.
    pub feature: Option<Title>,
}

/// Lists the agents of the project.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListAgents {
    /// List retired agents too.
    #[serde(default)]
    pub retired: bool,
    /// Observations of agents' processes on the caller's machine.
    #[serde(default)]
    pub sightings: Vec<Sighting>,
}

/// Shows one agent with its work.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ShowAgent {
    /// The agent by name or id; the acting agent when none is named.
    pub agent: Option<String>,
    /// Observations of the agent's process.
    #[serde(default)]
    pub sightings: Vec<Sighting>,
}

/// Retires an agent; registering it again brings it back.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct RetireAgent {
    /// The agent, by name or id.
    pub agent: String,
    /// The reason for the retirement.
    pub reason: Option<NoteText>,
}

/// An agent with its liveness, its work and its locks.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct AgentView {
    /// The agent as it is stored.
    pub agent: Agent,
    /// The liveness of the agent: active, quiet, warning, stalled or dead.
    pub liveness: Liveness,
    /// Time of the agent's last sign of life.
    pub last_sign: Option<Time>,
    /// The last sign of life in seed B's words, and what its age means; none of an agent that never gave one, or is retired.
    #[serde(default)]
    pub heartbeat: Option<liveness::HeartbeatStatus>,
    /// The agent's report with its last heartbeat.
    pub pulse: Value,
    /// The ids of the sorties that the agent holds.
    pub sorties: Vec<String>,
    /// The paths on which the agent holds locks.
    pub locks: Vec<RepoPath>,
    /// Number of messages that the agent has not acknowledged.
    pub unread: u64,
    /// Steps that the agent has completed, oldest first.
    pub completed_steps: Vec<Step>,
    /// The state of the agent's briefing; none when it needs none.
    #[serde(default)]
    pub briefing: Option<BriefingView>,
    /// The start of the agent's new session, when a checkpoint of its last one was found.
    #[serde(default)]
    pub start: Option<SessionStart>,
}

impl Operation for RegisterAgent {
    const NAME: &'static str = "register_agent";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const FENCED: bool = false;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |op| match op.role {
        Some(Role::Dispatch) => ActsFor::Fleet,
        Some(Role::Specialist) | None => ActsFor::Agent(op.name.as_str()),
    };
    type Outcome = AgentView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<AgentView> {
        check_process(self.process.as_ref())?;
        let known = agent_named(ctx.tx, self.name.as_str())?;
        if known.is_none() {
            check_new_name(ctx.tx, &self.name)?;
        }
        let now = ctx.now();
        let same_session = known.as_ref().is_some_and(|agent| {
            agent.retired_at.is_none() && self.session.is_some() && agent.session_id == self.session
        });
        let is_new = known.is_none();
        let mut agent =
            known.unwrap_or_else(|| new_agent(ctx.tx, self.name.clone(), Role::Specialist));
        if !same_session {
            begin_session(ctx.tx, &mut agent, self.session.clone())?;
        }
        agent.role = self.role.unwrap_or(agent.role);
        agent.kind = self.kind.clone().or(agent.kind);
        agent.feature = self.feature.clone().or(agent.feature);
        agent.process = self.process.clone().or(agent.process);
        agent.retired_at = None;
        agent.updated_at = now;
        // The caller that registers an agent speaks for it from here on.
        speak_for(ctx.tx, &agent);
        let event = match (is_new, same_session) {
            (true, _) => EventType::AgentRegistered,
            (false, true) => EventType::AgentUpdated,
            (false, false) => EventType::AgentSessionStarted,
        };
        ctx.tx.set(
            event,
            &agent,
            &json!({
                "epoch": agent.epoch, "role": agent.role.as_str(), "session": agent.session_id,
            }),
        )?;
        ctx.tx.beat(agent.id, agent.epoch, &json!({}))?;
        let mut start = None;
        if !same_session {
            if !is_new {
                lose_context(ctx, &agent, CompactionEvidence::NewEpoch)?;
            }
            start = start_by_itself(ctx, &mut agent)?;
        }
        let pulses = ctx.tx.pulses()?;
        Ok(AgentView {
            start,
            ..view(ctx, agent, &pulses, &[])?
        })
    }
}

impl Operation for ListAgents {
    const NAME: &'static str = "list_agents";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<AgentView>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<AgentView>> {
        let retired = (!self.retired).then_some(RETIRED);
        let list = RowList::new(Kind::Agent, ListScope::NoMission, retired.as_slice());
        let agents: Vec<Agent> = listed(ctx, list, ListOrder::OLDEST)?;
        if ctx.caller.window.is_none() {
            let pulses = ctx.tx.pulses()?;
            return views(ctx, agents, &pulses, &self.sightings);
        }
        let ids: Vec<AgentId> = agents.iter().map(|agent| agent.id).collect();
        let mut pulses = Vec::new();
        for some in ids.chunks(8) {
            pulses.extend(ctx.tx.pulses_of(some)?);
        }
        pulses.sort_by(|a, b| a.agent.cmp(&b.agent));
        views(ctx, agents, &pulses, &self.sightings)
    }
}

/// The status of an agent's row once it is retired.
const RETIRED: &str = "retired";

impl Operation for ShowAgent {
    const NAME: &'static str = "show_agent";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = AgentView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<AgentView> {
        let agent = named_or_acting(ctx, self.agent.as_deref())?;
        let pulses = ctx.tx.pulses()?;
        let mut view = view(ctx, agent, &pulses, &self.sightings)?;
        view.completed_steps = ctx.tx.find(Find::Parent(&view.agent.key()))?;
        Ok(view)
    }
}

impl Operation for RetireAgent {
    const NAME: &'static str = "retire_agent";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |op| ActsFor::Agent(&op.agent);
    type Outcome = AgentView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<AgentView> {
        let mut agent = ctx.find_agent(&self.agent)?;
        if ctx.agent_id() != Some(agent.id) && !ctx.is_in_charge() {
            return Err(Refusal::new(
                Code::NotYours,
                format!("only {} or dispatch may retire {}", agent.name, agent.name),
            )
            .into());
        }
        if agent.retired_at.is_some() {
            return Err(Refusal::new(
                Code::IllegalTransition,
                format!("{} was retired already", agent.name),
            )
            .into());
        }
        let held = held_sorties(ctx, agent.id)?;
        if let Some(first) = held.first() {
            return Err(Refusal::new(
                Code::Unfinished,
                format!("{} still holds {}", agent.name, held.iter().map(short).collect::<Vec<_>>().join(", ")),
            )
            .hint(format!("give it to another with `fleet sorties reassign {} --to NAME`, or back with `fleet sorties release {}`", short(first), short(first)))
            .into());
        }
        for lock in ctx.tx.find::<Lock>(Find::Agent(agent.id))? {
            ctx.tx.remove(
                EventType::LockReleased,
                &lock,
                &json!({ "file": lock.file, "reason": "holder retired" }),
            )?;
        }
        agent.retired_at = Some(ctx.now());
        agent.updated_at = ctx.now();
        ctx.tx.set(
            EventType::AgentRetired,
            &agent,
            &json!({ "reason": self.reason }),
        )?;
        let pulses = ctx.tx.pulses()?;
        view(ctx, agent, &pulses, &[])
    }
}

/// Judges an agent's life from what the store and the caller know.
pub(crate) fn liveness(
    ctx: &OpContext<'_, '_>,
    agent: &Agent,
    pulse: Option<&Pulse>,
    sightings: &[Sighting],
) -> Liveness {
    let heard_since = |ended: &Time| pulse.is_some_and(|pulse| pulse.at > *ended);
    let evidence = Evidence {
        last_sign: last_sign(ctx, agent, pulse),
        process: sight(ctx, agent, sightings),
        session_ended: agent.session_ended_at.filter(|ended| !heard_since(ended)),
        // People are shown the plain silence; the grace after a downtime is for locks alone.
        awake_since: Time::from_millis(0),
        retired: agent.retired_at.is_some(),
    };
    judge(&evidence, ctx.policy, ctx.now())
}

pub(crate) fn last_sign(
    ctx: &OpContext<'_, '_>,
    agent: &Agent,
    pulse: Option<&Pulse>,
) -> Option<Time> {
    let newest = match pulse {
        // The pulse came after its session began, whatever the clock said then.
        Some(pulse) if pulse.epoch == agent.epoch => pulse.at,
        _ => agent.session_started_at.max(pulse.map(|pulse| pulse.at))?,
    };
    Some(ctx.credible(newest))
}

pub(crate) fn held_sorties(ctx: &mut OpContext<'_, '_>, agent: AgentId) -> Result<Vec<String>> {
    let rows = ctx.tx.rows(Kind::Sortie, Find::Agent(agent))?;
    let held = rows
        .into_iter()
        .filter(|row| SortieStatus::from_word(&row.status).is_some_and(SortieStatus::is_held));
    Ok(held.map(|row| row.id).collect())
}

pub(crate) fn unread(ctx: &mut OpContext<'_, '_>, agent: AgentId) -> Result<u64> {
    let counts: BTreeMap<String, u64> = ctx
        .tx
        .counts(Kind::Delivery, Find::Agent(agent))?
        .into_iter()
        .collect();
    Ok(counts.get("pending").unwrap_or(&0) + counts.get("delivered").unwrap_or(&0))
}

pub(crate) fn named_or_acting(
    ctx: &mut OpContext<'_, '_>,
    reference: Option<&str>,
) -> Result<Agent> {
    match reference {
        Some(reference) => ctx.find_agent(reference),
        None => Ok(ctx.acting()?.clone()),
    }
}

/// The sign of life of an agent, of all of them by their ids.
pub(crate) fn pulse_of(pulses: &[Pulse], agent: AgentId) -> Option<&Pulse> {
    let id = agent.to_string();
    let found = pulses.binary_search_by(|pulse| pulse.agent.as_str().cmp(&id));
    found.ok().and_then(|at| pulses.get(at))
}

/// Agents, and how alive each is.
pub(crate) fn views(
    ctx: &mut OpContext<'_, '_>,
    agents: Vec<Agent>,
    pulses: &[Pulse],
    sightings: &[Sighting],
) -> Result<Vec<AgentView>> {
    let held = held_by_each(ctx, &agents)?;
    let views = agents.into_iter().zip(held);
    Ok(views
        .map(|(agent, held)| view_of(ctx, agent, held, pulses, sightings))
        .collect())
}

fn view(
    ctx: &mut OpContext<'_, '_>,
    agent: Agent,
    pulses: &[Pulse],
    sightings: &[Sighting],
) -> Result<AgentView> {
    let held = Held::by(ctx, &agent)?;
    Ok(view_of(ctx, agent, held, pulses, sightings))
}

fn view_of(
    ctx: &OpContext<'_, '_>,
    agent: Agent,
    held: Held,
    pulses: &[Pulse],
    sightings: &[Sighting],
) -> AgentView {
    let pulse = pulse_of(pulses, agent.id);
    let liveness = liveness(ctx, &agent, pulse, sightings);
    let last_sign = last_sign(ctx, &agent, pulse);
    let beat = last_sign.filter(|_| agent.retired_at.is_none());
    AgentView {
        briefing: held.briefing,
        heartbeat: liveness::HeartbeatStatus::of(beat, liveness.life, ctx.policy),
        liveness,
        last_sign,
        start: None,
        pulse: pulse.map_or(Value::Null, |pulse| context::said(&agent, pulse)),
        sorties: held.sorties,
        locks: held.locks,
        unread: held.unread,
        completed_steps: Vec::new(),
        agent,
    }
}
