//! Checks that a caller may make a request. The check runs in the transaction of each request, so that no way of
//! asking can forget it.

use flightline_core::redact::shown;
use flightline_core::token::{Scope, Token};
use flightline_core::{Code, Refusal};
use flightline_store::Tx;

use super::erased::ErasedOperation;
use super::{Caller, StoreJob};
use crate::error::Result;
use crate::op_context::{agent_named, find_agent_by_id};
use crate::token;

/// The agent on whose behalf a request is made. A token that does not coordinate speaks for its own agent alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActsFor<'a> {
    /// The caller, whatever else the request names as looked at, written to or given something.
    Caller,
    /// The named agent, by name or id.
    Agent(&'a str),
    /// The whole fleet: the request is for those who coordinate.
    Fleet,
}

impl<'a> ActsFor<'a> {
    /// The agent's that is named, or else the caller's.
    pub fn named(agent: Option<&'a str>) -> Self {
        agent.map_or(Self::Caller, Self::Agent)
    }
}

/// The scope of the caller for this operation. A caller without a token is on the fleet's own machine, and has all rights.
pub(super) fn check(act: &dyn ErasedOperation, tx: &mut Tx<'_>, caller: &Caller) -> Result<Scope> {
    let spec = act.spec();
    let Some(token) = admitted(tx, caller)? else {
        return Ok(Scope::Admin);
    };
    must_reach(&token, spec.scope)?;
    if token.scope >= Scope::Dispatch {
        return Ok(token.scope);
    }
    // The acting agent is the token's, and none where the token has none.
    match &caller.agent {
        Some(agent) => must_be(tx, &token, agent)?,
        None if token.agent.is_some() && spec.scope > Scope::Read => {
            return Err(not_as(&token, "a person").into());
        }
        None => {}
    }
    match act.acts_for() {
        ActsFor::Caller => {}
        ActsFor::Agent(agent) => must_be(tx, &token, agent)?,
        ActsFor::Fleet => must_reach(&token, Scope::Dispatch)?,
    }
    Ok(token.scope)
}

/// Refuses a store job that the caller's token does not reach.
pub(super) fn check_store_job<E: StoreJob>(tx: &mut Tx<'_>, caller: &Caller) -> Result<()> {
    match admitted(tx, caller)? {
        Some(token) => must_reach(&token, E::SCOPE),
        None => Ok(()),
    }
}

/// The caller's token, if it came with one. Refuses one that opens nothing any more.
fn admitted(tx: &mut Tx<'_>, caller: &Caller) -> Result<Option<Token>> {
    let presented = caller.token.as_ref();
    presented
        .map(|presented| token::admit(tx, presented))
        .transpose()
}

fn must_reach(token: &Token, scope: Scope) -> Result<()> {
    if token.scope >= scope {
        return Ok(());
    }
    Err(token.too_narrow(scope).into())
}

fn must_be(tx: &mut Tx<'_>, token: &Token, agent: &str) -> Result<()> {
    let own = token.agent.as_ref();
    if own.is_some_and(|own| own.as_str() == agent) {
        return Ok(());
    }
    // The agent may be named by its id.
    let named = match agent_named(tx, agent)? {
        Some(named) => Some(named),
        None => find_agent_by_id(tx, agent)?,
    };
    match named {
        Some(named) if Some(&named.name) == own => Ok(()),
        _ => Err(not_as(token, &shown(agent)).into()),
    }
}

fn not_as(token: &Token, other: &str) -> Refusal {
    let own = token.agent.as_ref().map_or("nobody", |own| own.as_str());
    Refusal::new(
        Code::Forbidden,
        format!("the token `{}` acts as {own}, not as {other}", token.name),
    )
    .hint("leave the agent out, or use a token of scope `dispatch`")
}
