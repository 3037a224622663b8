//! A checkpoint before something that cannot be undone.

use crate::Schema;
use flightline_core::checkpoint::Reason;
use flightline_core::dialect::orchestrator::TriggerCause;
use flightline_core::text::NoteText;
use flightline_core::{Name, Title};
use serde::{Deserialize, Serialize};

use super::CheckpointDocument;
use super::take::NewCheckpoint;
use super::trigger::try_take;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mail::deadline::notice_overdue;
use crate::op_context::OpContext;

/// Takes a checkpoint before an operation, if the operation is destructive. The caller may go on in any case.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct BeforeDestructive {
    /// The mission of which the checkpoint is taken; the current one when none is named.
    pub mission: Option<String>,
    /// The operation that is about to run, such as `git_push`.
    pub operation: Name,
    /// The target of the operation, in the caller's words.
    pub target: Option<Title>,
    /// A note to keep with the checkpoint.
    pub note: Option<NoteText>,
}

/// The result of preparing a destructive operation, and the checkpoint that was taken before it.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Prepared {
    /// The operation that is about to run.
    pub operation: Name,
    /// The target of the operation, as it was given.
    pub target: Option<Title>,
    /// True when a checkpoint was taken to come back to.
    pub taken: bool,
    /// The reason why no checkpoint was taken.
    pub why: Option<String>,
    /// The checkpoint that was taken, if one was.
    pub checkpoint: Option<CheckpointDocument>,
}

impl Operation for BeforeDestructive {
    const NAME: &'static str = "before_destructive";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Prepared;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Prepared> {
        notice_overdue(ctx)?;
        let mission = ctx.mission(self.mission.as_deref())?;
        let mut prepared = Prepared {
            operation: self.operation.clone(),
            target: self.target.clone(),
            taken: false,
            why: ctx.policy.unguarded(&self.operation),
            checkpoint: None,
        };
        if prepared.why.is_some() {
            return Ok(prepared);
        }
        let operation = self.operation.as_str();
        let details = match &self.target {
            Some(target) => TriggerCause::Destructive { operation, target }.reason(),
            None => format!("Before {operation}"),
        };
        let taking = NewCheckpoint {
            mission: &mission,
            reason: Reason::BeforeDestructive,
            details: Some(details),
            note: self.note.clone(),
            blockers: Vec::new(),
        };
        match try_take(ctx, &taking)? {
            Ok(checkpoint) => {
                prepared.taken = true;
                prepared.checkpoint = Some(super::document(ctx, &checkpoint)?);
            }
            Err(why) => prepared.why = Some(format!("no checkpoint could be taken: {why}")),
        }
        Ok(prepared)
    }
}
