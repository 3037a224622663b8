//! Settles deadlines that need an action, where no command runs for long. A lapsed lock needs no action: the next
//! agent that wants it takes it, and its holder keeps it with the next sign of life.

use crate::Schema;
use serde::{Deserialize, Serialize};

use crate::checkpoint::clock::forget_requests;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, WhenFull};
use crate::mail::deadline::notice_overdue;
use crate::op_context::OpContext;

/// Settles expired deadlines: reports mail that was to be acknowledged by now, and removes requests that need not be
/// remembered any longer.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct SettleLeases {}

/// The outcome of settling expired deadlines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct SettledLeases {
    /// Number of remembered requests that were removed.
    pub requests: u64,
}

impl Operation for SettleLeases {
    const NAME: &'static str = "settle_leases";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = SettledLeases;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<SettledLeases> {
        notice_overdue(ctx)?;
        Ok(SettledLeases {
            requests: forget_requests(ctx.tx)?,
        })
    }
}
