//! Takes the last rewind of a mission back.

use crate::Schema;
use flightline_core::checkpoint::Checkpoint;
use flightline_core::event::EventType;
use flightline_core::{Code, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::options::Chosen;
use super::resume::{RecoveryFinish, Resumed, settle};
use super::rewind::rewind;
use super::{before_last_rewind, locked_verdicts};
use crate::agent::Sighting;
use crate::checkpoint::load;
use crate::checkpoint::mend::heal;
use crate::checkpoint::recovery_context::context;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mission::short;
use crate::op_context::OpContext;

/// Takes the last rewind of a mission back.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Undo {
    /// The mission whose rewind is taken back; the current one when none is named.
    pub mission: Option<String>,
    /// Roll back finished work even of agents that are alive.
    pub force: bool,
    /// Observations of agents' processes.
    pub sightings: Vec<Sighting>,
}

impl Operation for Undo {
    const NAME: &'static str = "undo";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Resumed;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Resumed> {
        let since = ctx.tx.rev();
        let mission = ctx.mission(self.mission.as_deref())?;
        let Some((mut recovery, before)) = before_last_rewind(ctx, &mission)? else {
            return Err(Refusal::new(
                Code::NotFound,
                format!("there is nothing to undo in {} (\"{}\")", short(mission.id), mission.title),
            )
            .hint("only a rewind (`fleet resume --checkpoint ID`) can be undone, and this mission has none")
            .into());
        };
        let checkpoint = ctx.tx.get::<Checkpoint>(before)?.ok_or_else(|| {
            Refusal::new(
                Code::NotFound,
                format!("{} is gone, so the rewind cannot be undone", short(before)),
            )
        })?;
        let contents = load(ctx, &checkpoint)?;
        let mut warnings = heal(ctx)?;
        let verdicts = locked_verdicts(ctx, &self.sightings)?;
        let found = context(ctx, &mission, Vec::new())?;
        let rewound = rewind(ctx, &mission, &checkpoint, &contents, &verdicts, self.force)?;
        warnings.extend(rewound.warnings);
        recovery.undone_at = Some(ctx.now());
        ctx.tx.set(
            EventType::RecoveryUndone,
            &recovery,
            &json!({ "recovery_id": recovery.id }),
        )?;
        settle(
            ctx,
            RecoveryFinish {
                mission: rewound.mission,
                checkpoint,
                contents,
                verdicts,
                before: Some(rewound.before),
                lost: rewound.lost,
                warnings,
                found,
                chosen: Chosen::default(),
                tree: None,
                since,
            },
        )
    }
}
