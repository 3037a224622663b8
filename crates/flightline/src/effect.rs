//! Operations on effects: so that nothing is done to the world twice.

use flightline_core::effect::{Effect, EffectState};
use flightline_core::text::Note;
use flightline_core::{Code, EffectId, Name, Refusal};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::desk::Desk;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, WhenFull};
use crate::remote::Offline;

/// Sets out to do something to the world. Refused when it was done, or may have been.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginEffect {
    /// What it is called; one per mission.
    pub key: Name,
    /// For which mission; the current one when none is named.
    pub mission: Option<String>,
    /// For which sortie.
    pub sortie: Option<String>,
    /// What it does.
    pub what: Option<Note>,
    /// Somebody looked, and it did not happen: do it again.
    #[serde(default)]
    pub again: bool,
}

/// Says that it happened.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishEffect {
    /// What it is called.
    pub key: Name,
    /// For which mission; the current one when none is named.
    pub mission: Option<String>,
    /// What came of it.
    pub result: Option<Note>,
}

/// Lists effects, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListEffects {
    /// Of which mission; the current one when none is named.
    pub mission: Option<String>,
    /// Only those not known to have happened.
    #[serde(default)]
    pub in_doubt: bool,
}

impl Operation for BeginEffect {
    const NAME: &'static str = "begin_effect";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    type Outcome = Effect;

    fn acts_for(&self) -> ActsFor<'_> {
        ActsFor::Caller
    }

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<Effect> {
        let mission = desk.mission(self.mission.as_deref())?;
        let sortie_id = match &self.sortie {
            Some(reference) => {
                let sortie = desk.sortie(reference)?;
                if sortie.mission_id != mission.id {
                    return Err(Refusal::invalid(format!(
                        "{reference} belongs to another mission"
                    ))
                    .into());
                }
                Some(sortie.id)
            }
            None => None,
        };
        let before = desk
            .tx
            .find::<Effect>(Find::EffectKey(mission.id, self.key.as_str()))?
            .pop();
        let (now, by, agent_id) = (desk.now(), desk.actor(), desk.agent_id());
        let epoch = desk.agent.as_ref().map(|agent| agent.epoch);
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
                .hint("do not repeat it; see what came of it with `fleet effect list`")
                .into());
            }
            Some(before) if !self.again => {
                return Err(Refusal::new(
                    Code::EffectInDoubt,
                    format!("`{}` was begun by {} and never reported done", self.key, before.by),
                )
                .hint(format!(
                    "look whether it happened; if it did: `fleet effect done {0}`, if not: `fleet effect begin {0} --again`",
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
                id: EffectId::new(desk.tx.uuid()),
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
        desk.tx.set(
            "effect_begun",
            &effect,
            &json!({ "key": effect.key, "attempt": effect.attempts }),
        )?;
        Ok(effect)
    }
}

impl Operation for FinishEffect {
    const NAME: &'static str = "finish_effect";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const OFFLINE: Offline = Offline::Kept;
    type Outcome = Effect;

    fn acts_for(&self) -> ActsFor<'_> {
        ActsFor::Caller
    }

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<Effect> {
        let mission = desk.mission(self.mission.as_deref())?;
        let found = desk
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
            at: desk.now(),
            result: self.result.clone(),
        };
        desk.tx
            .set("effect_done", &effect, &json!({ "key": effect.key }))?;
        Ok(effect)
    }
}

impl Operation for ListEffects {
    const NAME: &'static str = "list_effects";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    type Outcome = Vec<Effect>;

    fn acts_for(&self) -> ActsFor<'_> {
        ActsFor::Caller
    }

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<Vec<Effect>> {
        let mission = desk.mission(self.mission.as_deref())?;
        let mut effects = desk.tx.find::<Effect>(Find::Mission(mission.id))?;
        effects
            .retain(|effect| !self.in_doubt || matches!(effect.state, EffectState::Intent { .. }));
        Ok(effects)
    }
}
