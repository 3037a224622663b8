//! Lists recoveries, and takes one of them back by its id.

use crate::Schema;
use flightline_core::setting::Recovery;
use flightline_core::{Code, Kind, RecoveryId, Refusal};
use flightline_store::{ListOrder, ListScope, RowList};
use serde::{Deserialize, Serialize};

use super::before_last_rewind;
use super::resume::Resumed;
use super::undo::Undo;
use crate::agent::Sighting;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, listed};
use crate::mission::short;
use crate::op_context::OpContext;

/// Lists recoveries, newest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListRecoveries {
    /// List only recoveries of this mission.
    pub mission: Option<String>,
}

/// Takes exactly this recovery back. It must be the last rewind of its mission: later work would be lost with it.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct UndoRecovery {
    /// The recovery to take back.
    pub recovery: String,
    /// Roll back finished work even of agents that are alive.
    #[serde(default)]
    pub force: bool,
    /// Observations of agents' processes.
    #[serde(default)]
    pub sightings: Vec<Sighting>,
}

impl Operation for ListRecoveries {
    const NAME: &'static str = "list_recoveries";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<Recovery>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<Recovery>> {
        let scope = match &self.mission {
            Some(reference) => ListScope::Mission(ctx.mission(Some(reference))?.id),
            None => ListScope::All,
        };
        let list = RowList::new(Kind::Recovery, scope, &[]);
        listed(ctx, list, ListOrder::NEWEST)
    }
}

impl Operation for UndoRecovery {
    const NAME: &'static str = "undo_recovery";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Resumed;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Resumed> {
        let recovery = ctx.by_id::<Recovery>(&self.recovery, RecoveryId::PREFIX)?;
        let refuse = |why: &str| {
            let message = format!("{} cannot be undone: {why}", short(recovery.id));
            Refusal::new(Code::IllegalTransition, message)
        };
        if recovery.undone_at.is_some() {
            return Err(refuse("it was already undone").into());
        }
        if recovery.before.is_none() {
            return Err(
                refuse("it was no rewind, and changed nothing that a mission holds").into(),
            );
        }
        let mission = ctx.mission_of(recovery.mission_id)?;
        let last = before_last_rewind(ctx, &mission)?;
        if let Some((last, _)) = last.filter(|(last, _)| last.id != recovery.id) {
            return Err(refuse("there was another rewind after it")
                .hint(format!("undo that one first: `{}`", short(last.id)))
                .into());
        }
        let undo = Undo {
            mission: Some(mission.id.to_string()),
            force: self.force,
            sightings: self.sightings.clone(),
        };
        undo.decide(ctx)
    }
}
