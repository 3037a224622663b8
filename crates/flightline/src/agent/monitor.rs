//! The primary's look at the other agents, as seed C has it: at work, slow, likely crashed. Each silence is reported
//! once: to the agent itself, then to the coordinator.

use crate::Schema;
use flightline_core::agent::{Agent, AgentStatus, Role};
use flightline_core::dialect::epic::{
    Escalation, MonitorLevel, PRIMARY, SECONDARY, Thresholds, escalation, is_monitored, judge,
    warning_message, warning_subject,
};
use flightline_core::dialect::{Dialect, DialectDocument};
use flightline_core::event::EventType;
use flightline_core::liveness::{Life, Liveness};
use flightline_core::policy::Preset;
use flightline_core::setting::SilenceWarning;
use flightline_core::{Kind, MissionId, Name, Time};
use flightline_store::{Actor, Find, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::document::{checkpoint_of, last_checkpoint};
use super::{Sighting, liveness};
use crate::checkpoint::trigger::mission_of;
use crate::error::{Error, Result};
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mail::{notice, notice_for};
use crate::op_context::OpContext;

/// Checks every agent that should checkpoint, and warns about those that are silent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct MonitorAgents {
    /// Observations of agents' processes.
    #[serde(default)]
    pub sightings: Vec<Sighting>,
}

/// The liveness of the monitored agents.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Monitored {
    /// The monitored agents, in the order of their names.
    pub agents: Vec<MonitoredAgent>,
    /// Minutes of silence after which an agent is warned.
    pub warning_minutes: u64,
    /// Minutes of silence after which an agent has likely crashed.
    pub failure_minutes: u64,
    /// True when an agent is silent that should not be.
    pub attention: bool,
    /// The preset in whose words the lines are.
    #[serde(default)]
    pub preset: Preset,
}

/// The liveness of a monitored agent.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct MonitoredAgent {
    /// The name of the agent.
    pub agent: Name,
    /// The liveness of the agent, as every other command shows it.
    #[serde(default = "unknown_life")]
    pub life: Life,
    /// The evidence for this verdict.
    #[serde(default)]
    pub evidence: String,
    /// The meaning of the agent's silence, in seed C's words. An agent whose process is gone has crashed, however
    /// recent its last act is.
    pub standing: MonitorLevel,
    /// Whole minutes since the agent's last checkpoint.
    pub minutes: i64,
    /// Time of the agent's last checkpoint: of its own last act.
    pub last_checkpoint: Time,
    /// True when the agent reported its work complete: then its silence is fine.
    pub complete: bool,
    /// The notice about the agent's silence that was sent just now.
    pub told: Option<SilenceNotice>,
    /// The agent's line of the report.
    pub line: String,
}

/// The notice that was sent about a silence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum SilenceNotice {
    /// The agent was warned.
    Warned,
    /// The coordinator was told.
    Escalated {
        /// The recipient of the notice.
        to: Name,
        /// The text of the notice.
        notice: String,
    },
}

/// Servers of before did not say.
fn unknown_life() -> Life {
    Life::Quiet
}

impl Operation for MonitorAgents {
    const NAME: &'static str = "monitor_agents";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Monitored;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Monitored> {
        let thresholds = Thresholds::from(ctx.policy);
        let mut looked_at = ctx.tx.find::<Agent>(Find::All)?;
        looked_at.sort_by(|a, b| a.name.cmp(&b.name));
        let mut agents = Vec::new();
        for agent in looked_at {
            if agent.retired_at.is_none() {
                agents.extend(look(ctx, &agent, &thresholds, &self.sightings)?);
            }
        }
        Ok(Monitored {
            attention: agents
                .iter()
                .any(|agent| !agent.complete && agent.standing != MonitorLevel::Active),
            agents,
            warning_minutes: thresholds.warning_minutes,
            failure_minutes: thresholds.failure_minutes,
            preset: ctx.policy.preset,
        })
    }
}

fn look(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    thresholds: &Thresholds,
    sightings: &[Sighting],
) -> Result<Option<MonitoredAgent>> {
    let checkpoint = checkpoint_of(ctx, agent)?.filter(|_| is_looked_at(agent));
    let (Some(checkpoint), Some(last)) = (checkpoint, last_checkpoint(ctx, agent)?) else {
        return Ok(None);
    };
    let pulse = ctx.tx.pulse(agent.id)?;
    let liveness = liveness(ctx, agent, pulse.as_ref(), sightings);
    let mut verdict = judge(&checkpoint, thresholds, ctx.now());
    // In the seed's fleets its minutes count, as its script counts them; a death counts everywhere.
    if ctx.policy.preset != Preset::Epic || liveness.life == Life::Dead {
        verdict.standing = match liveness.life {
            Life::Active | Life::Quiet => MonitorLevel::Active,
            Life::Warning => MonitorLevel::Warning,
            Life::Stalled | Life::Dead => MonitorLevel::Stale,
        };
    }
    let complete = agent.status == AgentStatus::Complete;
    let looked_at = Look {
        agent,
        checkpoint: &checkpoint,
        since: last,
        standing: verdict.standing,
        liveness: &liveness,
    };
    // A pause proves no silence; that a process is gone needs no proof.
    let paused = ctx.just_woke(last) && liveness.life != Life::Dead;
    let told = match complete || paused {
        true => None,
        false => tell(ctx, &looked_at, thresholds)?,
    };
    let line = match ctx.policy.speaks(Dialect::Epic) {
        true => verdict.to_string(),
        false => format!("{}: {}", agent.name, said(&liveness)),
    };
    Ok(Some(MonitoredAgent {
        agent: agent.name.clone(),
        standing: verdict.standing,
        minutes: verdict.minutes,
        last_checkpoint: last,
        complete,
        told,
        line,
        life: liveness.life,
        evidence: liveness.evidence,
    }))
}

/// The observation of an agent.
struct Look<'a> {
    agent: &'a Agent,
    checkpoint: &'a DialectDocument,
    /// Time of the agent's own last act.
    since: Time,
    standing: MonitorLevel,
    liveness: &'a Liveness,
}

fn said(liveness: &Liveness) -> String {
    format!("{} ({})", liveness.life.as_str(), liveness.evidence)
}

/// Returns true when an agent is monitored. The coordinator is the primary, unless its kind says that it is
/// secondary.
fn is_looked_at(agent: &Agent) -> bool {
    let is_primary = match agent.kind.as_ref().map(Name::as_str) {
        Some(PRIMARY) => true,
        Some(SECONDARY) => false,
        Some(_) | None => agent.role == Role::Dispatch,
    };
    is_monitored(agent.name.as_str(), is_primary)
}

/// Warns of an agent's silence, unless that was done already. Writers take turns, so of two
/// monitors one speaks.
fn tell(
    ctx: &mut OpContext<'_, '_>,
    seen: &Look<'_>,
    thresholds: &Thresholds,
) -> Result<Option<SilenceNotice>> {
    let Look {
        agent,
        since,
        standing,
        ..
    } = *seen;
    let known = ctx
        .tx
        .get::<SilenceWarning>(&SilenceWarning::key_of(agent.id))?;
    let who = ctx.tx.actor().clone();
    ctx.tx.act_as(Actor::flightline());
    if let Some(over) = known.as_ref().filter(|_| standing == MonitorLevel::Active) {
        let data = json!({ "agent": agent.name, "last_checkpoint": since });
        ctx.tx.remove(EventType::AgentSpoke, over, &data)?;
    }
    let same = known.filter(|silence| silence.since == since);
    let before = same.unwrap_or_else(|| SilenceWarning::new(agent.id, since));
    let now = Some(ctx.now());
    let told = match standing {
        MonitorLevel::Warning if before.warned_at.is_none() => {
            let silence = SilenceWarning {
                warned_at: now,
                ..before
            };
            warn(ctx, seen, &silence, thresholds)?;
            Some(SilenceNotice::Warned)
        }
        MonitorLevel::Stale if before.escalated_at.is_none() => {
            let silence = SilenceWarning {
                escalated_at: now,
                ..before
            };
            Some(escalate(ctx, seen, &silence)?)
        }
        MonitorLevel::Active | MonitorLevel::Warning | MonitorLevel::Stale => None,
    };
    ctx.tx.act_as(who);
    Ok(told)
}

fn warn(
    ctx: &mut OpContext<'_, '_>,
    seen: &Look<'_>,
    silence: &SilenceWarning,
    thresholds: &Thresholds,
) -> Result<()> {
    let agent = seen.agent;
    let (subject, body) = if ctx.policy.speaks(Dialect::Epic) {
        let inbox = ctx.tx.rows(Kind::Delivery, Find::Agent(agent.id))?.len();
        let number = (inbox + 1).to_string();
        let body = warning_message(seen.checkpoint, &number, thresholds, ctx.now());
        (warning_subject(thresholds), body)
    } else {
        let body = format!(
            "You are silent: {}. Report with `fleet heartbeat --agent {}`.",
            seen.liveness.evidence, agent.name
        );
        ("Still working?".to_owned(), body)
    };
    // As the seed has it: the primary writes, and gets the answer.
    let (mission, primary) = coordinated(ctx, agent)?;
    let from = Some(&primary).filter(|primary| primary.id != agent.id);
    notice_for(ctx, from, agent.clone(), (&subject, &body), mission)?;
    let data = json!({ "agent": agent.name, "last_checkpoint": silence.since });
    ctx.tx.set(EventType::AgentWarned, silence, &data)?;
    Ok(())
}

fn escalate(
    ctx: &mut OpContext<'_, '_>,
    seen: &Look<'_>,
    silence: &SilenceWarning,
) -> Result<SilenceNotice> {
    let (agent, name) = (seen.agent, &seen.agent.name);
    let found = format!("{name} is {}", said(seen.liveness));
    let said = if !ctx.policy.speaks(Dialect::Epic) {
        Escalation {
            status: format!("{name} is {}", seen.liveness.life.as_str()),
            notice: found,
        }
    } else if seen.liveness.life == Life::Dead {
        Escalation {
            notice: found,
            ..escalation(seen.checkpoint, ctx.now())
        }
    } else {
        escalation(seen.checkpoint, ctx.now())
    };
    let (mission, primary) = coordinated(ctx, agent)?;
    let body = format!(
        "{}\n\n\
         Resume the same agent: fleet agents resume {name}\n\
         Let another take over: fleet agents takeover {name} NEW\n\
         Restart from scratch: fleet agents restart {name}",
        said.notice
    );
    notice(ctx, primary.clone(), &said.status, &body, mission)?;
    let data = json!({ "agent": name, "to": primary.name, "last_checkpoint": silence.since });
    ctx.tx.set(EventType::AgentEscalated, silence, &data)?;
    Ok(SilenceNotice::Escalated {
        to: primary.name,
        notice: said.notice,
    })
}

/// The mission an agent works on, and its coordinator; without a mission, any coordinator. A mission that cannot be
/// read is no reason to keep silent.
fn coordinated(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<(Option<MissionId>, Agent)> {
    let mission = match mission_of(ctx, agent.id) {
        Err(Error::Store(StoreError::Corrupt(_))) => None,
        mission => mission?,
    };
    let primary = match &mission {
        Some(mission) => ctx.dispatch_of(mission)?,
        None => ctx.any_dispatch()?,
    };
    Ok((mission.map(|mission| mission.id), primary))
}
