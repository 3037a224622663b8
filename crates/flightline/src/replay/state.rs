//! Shows a mission as it stood at a revision, at a time, or at a checkpoint.

use crate::Schema;
use flightline_core::{Code, Kind, Refusal, Time};
use flightline_store::Find;
use serde::{Deserialize, Serialize};

use super::step::{StateAt, state_at};
use crate::checkpoint;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mission::short;
use crate::op_context::OpContext;

/// Shows a mission as it stood at some point of its history.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ShowState {
    /// The mission to show; the current one when none is named.
    pub mission: Option<String>,
    /// A revision, a time (RFC 3339), or a checkpoint; now when none is given. A revision in the middle of
    /// a request counts as the one before the request.
    pub at: Option<String>,
}

impl Operation for ShowState {
    const NAME: &'static str = "show_state";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = StateAt;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<StateAt> {
        let mission = ctx.mission(self.mission.as_deref())?;
        let newest = ctx.tx.rev();
        let rev = match &self.at {
            None => newest,
            Some(at) if !at.is_empty() && at.bytes().all(|byte| byte.is_ascii_digit()) => {
                let rev = at.parse::<u64>().ok().filter(|rev| *rev <= newest);
                let rev = rev.ok_or_else(|| {
                    Refusal::new(
                        Code::NotFound,
                        format!("there is no such revision: the newest is {newest}"),
                    )
                    .hint("list them with `fleet events list`")
                })?;
                whole(ctx, rev)?
            }
            // To look is no harm: any time will do, also one that nothing is written under.
            Some(at) => match serde_json::from_value::<Time>(at.as_str().into()) {
                Ok(time) => {
                    let rev = ctx.tx.rev_at(time)?;
                    whole(ctx, rev)?
                }
                Err(_) => {
                    let checkpoint = checkpoint::find(ctx, at)?;
                    if checkpoint.cut.mission_id != mission.id {
                        return Err(Refusal::invalid(format!(
                            "that checkpoint is of another mission, {}",
                            short(checkpoint.cut.mission_id)
                        ))
                        .into());
                    }
                    checkpoint.cut.rev
                }
            },
        };
        let row = ctx.tx.rows(Kind::Mission, Find::Mission(mission.id))?;
        if row.first().is_some_and(|row| row.born > rev) {
            return Err(Refusal::new(
                Code::NotFound,
                format!("{} did not exist yet at revision {rev}", short(mission.id)),
            )
            .into());
        }
        Ok(state_at(ctx, mission.id, rev)??)
    }
}

/// A revision in the middle of a request counts as the one before it.
fn whole(ctx: &mut OpContext<'_, '_>, rev: u64) -> Result<u64> {
    match ctx.tx.step_of(rev.saturating_add(1))? {
        Some(step) if step <= rev => Ok(step.saturating_sub(1)),
        _ => Ok(rev),
    }
}
