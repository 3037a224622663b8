//! Tells the time at the store, and the name of its journal.

use crate::Schema;
use flightline_core::Time;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

/// Returns the time at the store.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct TellTime {}

impl Operation for TellTime {
    const NAME: &'static str = "tell_time";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Time;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Time> {
        Ok(ctx.now())
    }
}

/// Returns the name of the journal: another one after a restore or a rebuild.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct NameHistory {}

impl Operation for NameHistory {
    const NAME: &'static str = "name_history";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = String;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<String> {
        Ok(ctx.tx.history().to_owned())
    }
}
