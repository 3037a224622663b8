//! Signs of life, and the consequences of a context that fills up.

use crate::Schema;
use flightline_core::agent::Agent;
use flightline_core::checkpoint::Reason;
use flightline_core::context::{
    ContextGauge, ContextMode, ContextUsage, remaining_steps, task_label,
};
use flightline_core::dialect::Dialect;
use flightline_core::dialect::recovery::resume_instructions;
use flightline_core::event::EventType;
use flightline_core::redact::shown;
use flightline_core::sortie::Subtask;
use flightline_core::{CheckpointId, Code, Name, Refusal, SortieId, Subject, Time, Title};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::context::{Save, current_sortie, missions_to_save, save, set_mode};
use super::words;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, WhenFull};
use crate::mission::short;
use crate::op_context::{OpContext, retired};
use crate::remote::Offline;

/// Records a sign of life of the acting agent. If it reports that its context has become too full, a checkpoint is
/// taken, once per context and threshold.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The current step of the agent.
    pub step: Option<Title>,
    /// Usage of the agent's context, in percent.
    pub context_percent: Option<u8>,
    /// Tokens used, and the size of the context in tokens.
    pub tokens: Option<(u64, u64)>,
}

/// The outcome of a heartbeat.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct HeartbeatRecorded {
    /// The agent that gave the sign of life.
    pub agent: Name,
    /// The epoch of the agent's session.
    pub epoch: u64,
    /// The time at which the sign of life was recorded.
    pub at: Time,
    /// Usage of the agent's context in percent, when it was reported.
    #[serde(default)]
    pub context_percent: Option<u8>,
    /// The thresholds that the context has just crossed, the lower one first: `token_warning`, `token_critical`.
    #[serde(default)]
    pub crossed: Vec<Reason>,
    /// The agent's mode from now on: how much its briefings hold.
    #[serde(default)]
    pub mode: ContextMode,
    /// True when the agent must stop after this operation: its context is about to be lost.
    #[serde(default)]
    pub stop: bool,
    /// The sortie that the agent worked on when it had to stop.
    #[serde(default)]
    pub sortie_id: Option<SortieId>,
    /// The remaining steps of that sortie.
    #[serde(default)]
    pub remaining: Vec<String>,
    /// Instructions to the person for resuming: in seed E's words under its preset, else in ours.
    #[serde(default)]
    pub instructions: Option<String>,
    /// The checkpoint that was taken.
    #[serde(default)]
    pub checkpoint_id: Option<CheckpointId>,
    /// The reason why no checkpoint could be taken; it is tried again with the next heartbeat.
    #[serde(default)]
    pub problem: Option<String>,
}

impl Operation for Heartbeat {
    const NAME: &'static str = "heartbeat";
    const ACCESS: Access = Access::Pulse;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const OFFLINE: Offline = Offline::Dropped;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = HeartbeatRecorded;

    fn note(&self, ctx: &mut OpContext<'_, '_>) -> Result<Option<HeartbeatRecorded>> {
        let (agent, figures) = self.beat(ctx)?;
        if let Some(figures) = figures
            && leads_to(&gauge(ctx, &agent, figures)?, figures, ctx).is_some()
        {
            return Ok(None);
        }
        Ok(Some(heartbeat_recorded(ctx, &agent, figures)))
    }

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<HeartbeatRecorded> {
        let (agent, figures) = self.beat(ctx)?;
        let Some(figures) = figures else {
            return Ok(heartbeat_recorded(ctx, &agent, None));
        };
        let gauge = gauge(ctx, &agent, figures)?;
        match leads_to(&gauge, figures, ctx) {
            // Another heartbeat was quicker.
            None => Ok(heartbeat_recorded(ctx, &agent, Some(figures))),
            Some(reason) => cross(ctx, agent, gauge, figures, reason),
        }
    }
}

impl Heartbeat {
    /// Notes the sign of life, and reads the figures that came with it.
    fn beat(&self, ctx: &mut OpContext<'_, '_>) -> Result<(Agent, Option<ContextUsage>)> {
        let agent = match (&ctx.caller.agent, &ctx.agent) {
            (Some(name), None) => {
                let name = shown(name);
                return Err(Refusal::new(
                    Code::NotFound,
                    format!("there is no agent `{name}` to send a heartbeat for"),
                )
                .hint(format!("register it with `fleet agents register {name}`"))
                .into());
            }
            _ => ctx.acting()?.clone(),
        };
        if agent.retired_at.is_some() {
            return Err(retired(&agent));
        }
        let figures = ContextUsage::read(self.context_percent, self.tokens)?;
        let mut data = serde_json::Map::new();
        if let Some(step) = &self.step {
            data.insert("step".to_owned(), json!(step));
        }
        if let Some(figures) = figures {
            data.insert("context_percent".to_owned(), json!(figures.percent));
            if agent.context > 0 {
                data.insert("context".to_owned(), json!(agent.context));
            }
        }
        if let Some((used, total)) = self.tokens {
            data.insert("tokens".to_owned(), json!({ "used": used, "total": total }));
        }
        // A mailbox that speaks for the first time has no epoch yet; its first write gives it one.
        ctx.tx.beat(agent.id, agent.epoch, &Value::Object(data))?;
        Ok((agent, figures))
    }
}

fn heartbeat_recorded(
    ctx: &OpContext<'_, '_>,
    agent: &Agent,
    figures: Option<ContextUsage>,
) -> HeartbeatRecorded {
    let full = figures.is_some_and(|it| it.percent >= ctx.policy.token_critical);
    HeartbeatRecorded {
        agent: agent.name.clone(),
        epoch: agent.epoch,
        at: ctx.now(),
        context_percent: figures.map(|it| it.percent),
        crossed: Vec::new(),
        mode: agent.mode,
        stop: full && ctx.policy.saves_context_for(Reason::TokenCritical),
        sortie_id: None,
        remaining: Vec::new(),
        instructions: None,
        checkpoint_id: None,
        problem: None,
    }
}

/// The gauge of the agent's present context. Of one that is far from full nothing has to be looked up.
fn gauge(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    figures: ContextUsage,
) -> Result<ContextGauge> {
    let known = match figures.percent < ctx.policy.token_warning {
        true => None,
        false => ctx
            .tx
            .get::<ContextGauge>(&ContextGauge::key_of(agent.id))?,
    };
    Ok(ContextGauge::present(agent, known))
}

/// Returns the reason for a checkpoint at this usage: the highest threshold that it crosses, or a checkpoint that is
/// still owed.
fn leads_to(
    gauge: &ContextGauge,
    figures: ContextUsage,
    ctx: &OpContext<'_, '_>,
) -> Option<Reason> {
    let crossed = gauge.crosses(figures.percent, ctx.policy);
    crossed.last().copied().or(gauge.owed)
}

/// A context has become too full: its agent reads less from now on, and its work is saved. That the
/// checkpoint fails does not keep it from being told.
fn cross(
    ctx: &mut OpContext<'_, '_>,
    mut agent: Agent,
    mut gauge: ContextGauge,
    figures: ContextUsage,
    reason: Reason,
) -> Result<HeartbeatRecorded> {
    let crossed = gauge.crosses(figures.percent, ctx.policy);
    let mode = agent.mode.after(reason, ctx.policy);
    set_mode(ctx, &mut agent, mode, reason.as_str())?;
    let missions = missions_to_save(ctx, &agent, true)?;
    let saved = save(
        ctx,
        &Save {
            agent: &agent,
            missions: &missions,
            reason,
            tokens: Some(figures),
            // A failure that goes on is no news.
            tell_failure: !crossed.is_empty(),
        },
    )?;
    let before = gauge.clone();
    gauge.cross(&crossed, ctx.now());
    gauge.owed = saved.problem.as_ref().map(|_| reason);
    if gauge != before {
        let data = json!({
            "agent": agent.name,
            "percent": figures.percent,
            "crossed": crossed,
            "checkpoint_id": saved.checkpoints.first(),
        });
        ctx.tx.set(EventType::ContextFilled, &gauge, &data)?;
    }
    let mut recorded = HeartbeatRecorded {
        crossed,
        checkpoint_id: saved.checkpoints.first().copied(),
        problem: saved.problem,
        ..heartbeat_recorded(ctx, &agent, Some(figures))
    };
    if reason == Reason::TokenCritical {
        let sortie = current_sortie(ctx, agent.id, None)?;
        let mut task = None;
        if let Some(sortie) = sortie {
            let subtasks = ctx.tx.find::<Subtask>(Find::Parent(&sortie.key()))?;
            recorded.sortie_id = Some(sortie.id);
            recorded.remaining = remaining_steps(&sortie, &subtasks, Some(&agent));
            task = Some(match sortie.task_id {
                Some(_) => task_label(&sortie),
                None => short(sortie.id),
            });
        }
        recorded.instructions = Some(match ctx.policy.speaks(Dialect::Recovery) {
            true => resume_instructions(task.as_deref()),
            false => words::begin_anew(&agent, task.as_deref()),
        });
    }
    Ok(recorded)
}
