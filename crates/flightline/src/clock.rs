//! What time it is where the store is, and which journal it keeps.

use flightline_core::Time;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

/// Asks for the store's time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TellTime {}

impl Operation for TellTime {
    const NAME: &'static str = "tell_time";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    type Outcome = Time;

    fn acts_for(&self) -> ActsFor<'_> {
        ActsFor::Caller
    }

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Time> {
        Ok(ctx.now())
    }
}

/// Asks for the name of the journal: another one after a restore or a rebuild.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NameHistory {}

impl Operation for NameHistory {
    const NAME: &'static str = "name_history";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    type Outcome = String;

    fn acts_for(&self) -> ActsFor<'_> {
        ActsFor::Caller
    }

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<String> {
        Ok(ctx.tx.history().to_owned())
    }
}
