//! Operations on effects: so that nothing is done to the world twice.

use crate::Schema;
use flightline_core::agent::Agent;
use flightline_core::effect::{Effect, EffectState};
use flightline_core::event::EventType;
use flightline_core::liveness::{Life, Liveness};
use flightline_core::shell::shell_text;
use flightline_core::text::NoteText;
use flightline_core::{Code, EffectId, Kind, Name, Refusal};
use flightline_store::{Find, ListOrder, ListScope, RowList};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::agent::{Sighting, liveness};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, WhenFull, listed, to_json};
use crate::op_context::OpContext;
use crate::recovery::locked_verdict;
use crate::remote::Offline;

/// Begins an action on an external system. Refused when it was done, or may have been done.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct BeginEffect {
    /// The name of the effect, unique in its mission.
    pub key: Name,
    /// The mission of the effect; the current one when none is named.
    pub mission: Option<String>,
    /// The sortie for which the action is done.
    pub sortie: Option<String>,
    /// A description of the action.
    pub what: Option<NoteText>,
    /// Begin again, after a check that the action did not happen. Refused while the agent that began it is alive.
    #[serde(default)]
    pub again: bool,
    /// Observations of agents' processes on the caller's machine.
    #[serde(default)]
    pub sightings: Vec<Sighting>,
}

/// Records that an action on an external system was done.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct FinishEffect {
    /// The name of the effect, as it was begun.
    pub key: Name,
    /// The mission of the effect; the current one when none is named.
    pub mission: Option<String>,
    /// The result of the action.
    pub result: Option<NoteText>,
}

/// Lists effects, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListEffects {
    /// The mission whose effects are listed; the current one when none is named.
    pub mission: Option<String>,
    /// List only effects that are not known to have happened.
    #[serde(default)]
    pub in_doubt: bool,
}

impl Operation for BeginEffect {
    const NAME: &'static str = "begin_effect";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Effect;

    fn asked(&self) -> Result<String> {
        to_json(&Self {
            sightings: Vec::new(),
            ..self.clone()
        })
    }

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Effect> {
        let mission = ctx.mission(self.mission.as_deref())?;
        let sortie_id = match &self.sortie {
            Some(reference) => Some(ctx.sortie_in(mission.id, reference)?.id),
            None => None,
        };
        let before = ctx
            .tx
            .find::<Effect>(Find::EffectKey(mission.id, self.key.as_str()))?
            .pop();
        if let Some(begun) = before.as_ref().filter(|before| !before.is_done())
            && let Some(agent) = session_of(ctx, begun)?
            && ctx.agent_id() != Some(agent.id)
        {
            let verdict = locked_verdict(ctx, &agent, &self.sightings)?;
            if !verdict.is_gone() {
                return Err(under_way(&self.key, &agent, &verdict.liveness).into());
            }
        }
        let (now, by, agent_id) = (ctx.now(), ctx.actor(), ctx.agent_id());
        let epoch = ctx.agent.as_ref().map(|agent| agent.epoch);
        let effect = match before {
            Some(Effect {
                state: EffectState::Done { at, .. },
                by,
                ..
            }) => {
                return Err(Refusal::new(
                    Code::EffectDone,
                    format!("`{}` was already done by {by} at {at}", self.key),
                )
                .hint("do not repeat it; see its result with `fleet effect list`")
                .into());
            }
            Some(before) if !self.again => {
                return Err(Refusal::new(
                    Code::EffectInDoubt,
                    format!("`{}` was begun by {} and never reported done", self.key, before.by),
                )
                .hint(format!(
                    "check whether it happened; if it did: `fleet effect done {0}`, if not: `fleet effect begin {0} --again`",
                    self.key
                ))
                .into());
            }
            Some(before) => Effect {
                by,
                agent_id,
                epoch,
                state: EffectState::Intent { at: now },
                attempts: before.attempts + 1,
                what: self.what.clone().or(before.what),
                ..before
            },
            None => Effect {
                id: EffectId::new(ctx.tx.uuid()),
                key: self.key.clone(),
                mission_id: mission.id,
                sortie_id,
                what: self.what.clone(),
                by,
                agent_id,
                epoch,
                state: EffectState::Intent { at: now },
                attempts: 1,
            },
        };
        ctx.tx.set(
            EventType::EffectBegun,
            &effect,
            &json!({ "key": effect.key, "attempt": effect.attempts }),
        )?;
        Ok(effect)
    }
}

/// Returns true when the agent that began an effect is at work on it: then the agent answers for it. Every other
/// effect that is not done may have happened, and is worth a look, though not yet another attempt.
pub(crate) fn is_under_way(ctx: &mut OpContext<'_, '_>, effect: &Effect) -> Result<bool> {
    let Some(agent) = session_of(ctx, effect)? else {
        return Ok(false);
    };
    let pulse = ctx.tx.pulse(agent.id)?;
    let life = liveness(ctx, &agent, pulse.as_ref(), &[]).life;
    Ok(life == Life::Active)
}

/// The agent that began an effect, when it is in the session in which it did: no other knows whether it happened.
fn session_of(ctx: &mut OpContext<'_, '_>, effect: &Effect) -> Result<Option<Agent>> {
    let Some(id) = effect.agent_id else {
        return Ok(None);
    };
    let agent = ctx.tx.get::<Agent>(id)?;
    Ok(agent.filter(|agent| Some(agent.epoch) == effect.epoch && agent.session_ended_at.is_none()))
}

fn under_way(key: &Name, agent: &Agent, liveness: &Liveness) -> Refusal {
    let (name, life) = (&agent.name, liveness.life.as_str());
    let refusal = Refusal::new(
        Code::AlreadyTaken,
        format!("`{key}`: {name} is doing it now ({life}, {})", liveness.evidence),
    )
    .hint(format!(
        "wait until it is done, see `fleet effect list`; or ask with `fleet mail send --to {name} --subject {}`",
        shell_text(&format!("Is {key} done?"))
    ))
    .details(json!({ "key": key, "agent": name, "life": liveness.life }));
    Refusal {
        retryable: true,
        ..refusal
    }
}

impl Operation for FinishEffect {
    const NAME: &'static str = "finish_effect";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const OFFLINE: Offline = Offline::Kept;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Effect;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Effect> {
        let mission = ctx.mission(self.mission.as_deref())?;
        let found = ctx
            .tx
            .find::<Effect>(Find::EffectKey(mission.id, self.key.as_str()))?
            .pop();
        let Some(mut effect) = found else {
            return Err(Refusal::new(
                Code::NotFound,
                format!("no effect `{}` was begun", self.key),
            )
            .hint(format!(
                "begin it before you do it: `fleet effect begin {}`",
                self.key
            ))
            .into());
        };
        if matches!(effect.state, EffectState::Done { .. }) {
            // Saying so twice is harmless.
            return Ok(effect);
        }
        effect.state = EffectState::Done {
            at: ctx.now(),
            result: self.result.clone(),
        };
        ctx.tx.set(
            EventType::EffectDone,
            &effect,
            &json!({ "key": effect.key }),
        )?;
        Ok(effect)
    }
}

impl Operation for ListEffects {
    const NAME: &'static str = "list_effects";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<Effect>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<Effect>> {
        let mission = ctx.mission(self.mission.as_deref())?;
        let done = self.in_doubt.then_some(EffectState::DONE);
        let list = RowList::new(
            Kind::Effect,
            ListScope::Mission(mission.id),
            done.as_slice(),
        );
        listed(ctx, list, ListOrder::OLDEST)
    }
}
