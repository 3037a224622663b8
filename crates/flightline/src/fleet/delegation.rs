//! Delivers requests that were made with a token which has ended meanwhile, under a newer token of the same holder.

use flightline_core::token::Token;
use flightline_core::{Code, Refusal, TokenId};
use flightline_store::{Past, Tx};

use super::Caller;
use crate::error::Result;

/// Returns the outcome that the holder of that token left behind under this key: the write may have been done, and
/// only its answer was lost. Refuses to speak for a token that is still valid, or that belonged to another principal
/// than the caller.
pub(super) fn past(
    tx: &mut Tx<'_>,
    (caller, before): (&Caller, TokenId),
    key: &str,
    request: &str,
) -> Result<Past> {
    let Some(token) = tx.get::<Token>(before)? else {
        return Err(refused("with a token that is not known here".to_owned()));
    };
    let name = &token.name;
    if token.is_valid(tx.now()) {
        return Err(refused(format!(
            "with the token `{name}`, which is still valid"
        )));
    }
    let agent = token.agent.as_ref().map(ToString::to_string);
    if agent != caller.agent {
        return Err(refused(match agent {
            Some(agent) => format!("by {agent}, with its token `{name}`"),
            None => format!("by a person, with the token `{name}`"),
        }));
    }
    let actor = agent.unwrap_or_else(|| {
        let user = name.to_string();
        let person = Caller {
            user,
            ..Caller::default()
        };
        person.person()
    });
    Ok(tx.past(&actor, key, request)?)
}

fn refused(how: String) -> crate::Error {
    Refusal::new(Code::Forbidden, format!("the queued write was made {how}"))
        .hint("log in with that token; or, after it has ended, with a new one for the same agent or person")
        .into()
}
