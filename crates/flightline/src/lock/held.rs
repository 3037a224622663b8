//! Takes a lock from its holder by the lock's id.

use crate::Schema;
use flightline_core::LockId;
use flightline_core::lock::Lock;
use flightline_core::text::NoteText;
use serde::{Deserialize, Serialize};

use super::{LockView, StealLock};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

/// Takes exactly this lock from its holder: one that was granted anew since is another lock.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct StealHeldLock {
    /// The lock's id.
    pub lock: String,
    /// The reason for the steal; the holder is told.
    pub reason: NoteText,
}

impl Operation for StealHeldLock {
    const NAME: &'static str = "steal_held_lock";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<LockView>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<LockView>> {
        let lock = ctx.by_id::<Lock>(&self.lock, LockId::PREFIX)?;
        let steal = StealLock {
            path: lock.file,
            reason: self.reason.clone(),
        };
        steal.decide(ctx)
    }
}
