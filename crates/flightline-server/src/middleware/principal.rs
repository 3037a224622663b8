//! The caller of a request: a token and its rights. The acting agent comes from the token; only a coordinator's token
//! may name another.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use flightline::core::Kind;
use flightline::core::redact::shown;
use flightline::core::token::{Presented, Scope, too_narrow, unknown};
use flightline::core::{Code, Name, Refusal};
use flightline::registry::{self, OperationEntry};
use flightline::remote::header::{AGENT, EPOCH, IDEMPOTENCY_KEY, INSTEAD_OF, MISSION, SESSION};
use flightline::token::TokenView;
use flightline::{Caller, Target};

use super::etag;
use crate::problem::Problem;
use crate::projects::ServedProject;
use crate::request_log;

/// The caller of a request, known by its token.
#[derive(Clone, Debug)]
pub(crate) struct Principal {
    token: Arc<TokenView>,
    /// The presented token; none for a token of tests that is in no store.
    presented: Option<Presented>,
    project: Arc<ServedProject>,
}

impl Principal {
    pub(crate) fn new(
        token: Arc<TokenView>,
        presented: Option<Presented>,
        project: Arc<ServedProject>,
    ) -> Self {
        Self {
            token,
            presented,
            project,
        }
    }

    /// The project that the token opens, and no other.
    pub(crate) fn project(&self) -> &Arc<ServedProject> {
        &self.project
    }

    pub(crate) fn must_have(&self, scope: Scope) -> Result<(), Refusal> {
        if self.token.scope >= scope {
            return Ok(());
        }
        Err(too_narrow(&self.token.name, self.token.scope, scope))
    }

    /// Returns the operation of this name, unless the token is too narrow for it, and notes it in the request's log.
    pub(crate) fn may_call(&self, name: &str) -> Result<OperationEntry, Refusal> {
        let entry = registry::find(name)?;
        request_log::operation(entry.name);
        self.must_have(entry.scope)?;
        Ok(entry)
    }

    /// Refuses to act as, or on, an agent that is not the token's, unless it coordinates.
    pub(crate) fn must_be(&self, agent: &str) -> Result<(), Refusal> {
        let own = self.token.agent.as_ref();
        if self.token.scope >= Scope::Dispatch || own.is_some_and(|own| own.as_str() == agent) {
            return Ok(());
        }
        let own = own.map_or("nobody", |own| own.as_str());
        Err(Refusal::new(
            Code::Forbidden,
            format!(
                "the token `{}` acts as {own}, not as {}",
                self.token.name,
                shown(agent)
            ),
        )
        .hint("leave the agent out, or use a token of scope `dispatch`"))
    }

    pub(crate) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        self.caller_of(headers, None, None)
    }

    fn who(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let agent = match text(headers, AGENT)? {
            Some(agent) => {
                Name::parse("agent name", &agent)?;
                self.must_be(&agent)?;
                Some(agent)
            }
            None => self.token.agent.as_ref().map(ToString::to_string),
        };
        let epoch = match text(headers, EPOCH)? {
            Some(text) => Some(text.parse().map_err(|_| {
                Refusal::invalid(format!(
                    "`{EPOCH}` is `{}`, which is not a number",
                    shown(&text)
                ))
            })?),
            None => None,
        };
        Ok(Caller {
            agent,
            epoch,
            session: text(headers, SESSION)?,
            user: self.token.name.to_string(),
            mission: text(headers, MISSION)?,
            idempotency_key: match text(headers, IDEMPOTENCY_KEY)? {
                Some(key) if key.is_empty() || key.len() > 255 => {
                    return Err(Refusal::invalid("an idempotency key has 1 to 255 bytes"));
                }
                key => key,
            },
            target: None,
            place: None,
            window: None,
            token: self.presented.clone(),
            on_behalf_of_token: match text(headers, INSTEAD_OF)? {
                Some(token) => Some(token.parse()?),
                None => None,
            },
        })
    }

    /// Returns the caller, acting as the agent or person that a body of seed A or an address names. `target` is the
    /// subject that must not have changed, if the caller says so.
    pub(crate) fn caller_of(
        &self,
        headers: &HeaderMap,
        named: Option<&str>,
        target: Option<(Kind, String)>,
    ) -> Result<Caller, Refusal> {
        let mut caller = self.who(headers)?;
        let if_unchanged = etag::if_unchanged(headers);
        caller.target = match (target, if_unchanged) {
            (None, None) => None,
            (None, Some(_)) => {
                return Err(Refusal::invalid("`If-Match` is not supported here")
                    .hint("this request is not about a single record"));
            }
            (Some((kind, reference)), if_unchanged) => Some(Target {
                kind,
                reference,
                if_unchanged: if_unchanged.unwrap_or_default(),
            }),
        };
        match named {
            None => {}
            Some(person) if caller.agent.is_none() && person == caller.person() => {}
            Some(agent) => {
                self.must_be(agent)?;
                caller.agent = Some(agent.to_owned());
            }
        }
        if let Some(agent) = &caller.agent {
            request_log::agent(agent);
        }
        Ok(caller)
    }
}

fn text(headers: &HeaderMap, name: &str) -> Result<Option<String>, Refusal> {
    let mut given = headers.get_all(name).iter();
    match (given.next(), given.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match std::str::from_utf8(value.as_bytes()) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(Refusal::invalid(format!("`{name}` is not UTF-8"))),
        },
        (Some(_), Some(_)) => Err(Refusal::invalid(format!("`{name}` is there twice"))),
    }
}

impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // The middleware puts it there; paths that are open to all have no principal.
        parts
            .extensions
            .get::<Self>()
            .cloned()
            .ok_or_else(|| unknown().into())
    }
}
