//! Lets each request to a server in test mode bring its own time and ids, so that commands give the same answers with a
//! server as without.

use axum::http::{HeaderMap, HeaderValue};
use flightline::Fleet;
use flightline::core::token::{Presented, Scope};
use flightline::core::{Name, Refusal, Time, TokenId};
use flightline::remote::header;
use flightline::store::clock::{Clock, IdSource};
use flightline::token::TokenView;

use crate::route::HandlerResult;

/// Asks for a server in test mode. Only builds for tests have it.
#[derive(Clone, Debug)]
pub struct TestMode {
    /// The token that is accepted without being in the store, where a token in the store would show in the answers.
    pub token: String,
    /// The token's name: the acting user.
    pub user: String,
}

impl TestMode {
    /// Returns the rights of the tests' token, if it is this one.
    pub(crate) fn admits(&self, presented: &Presented) -> Result<Option<TokenView>, Refusal> {
        if Presented::parse(&self.token)? != *presented {
            return Ok(None);
        }
        Ok(Some(TokenView {
            id: TokenId::new(IdSource::Random.next()),
            project: presented.project.clone(),
            name: Name::parse("name", &self.user)?,
            scope: Scope::Admin,
            agent: None,
            created_at: Time::from_millis(0),
            created_by: "tests".to_owned(),
            expires_at: None,
            revoked_at: None,
            valid: true,
        }))
    }
}

/// The time and ids that a request brings, in tests.
#[derive(Clone, Debug)]
pub(crate) struct TestHeaders {
    now: Option<Time>,
    next_id: Option<u64>,
}

impl TestHeaders {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let now = text(header::TEST_NOW).map(str::parse::<Time>).transpose();
        let next_id = text(header::TEST_IDS).map(str::parse::<u64>).transpose();
        Ok(Self {
            now: now.map_err(|error| Refusal::invalid(error.to_string()))?,
            next_id: next_id.map_err(|error| Refusal::invalid(error.to_string()))?,
        })
    }

    /// Sets the clock and the ids of this connection.
    pub(crate) fn begin(&self, fleet: &mut Fleet) -> Result<IdSource, Refusal> {
        let clock = self.now.map_or(Clock::System, Clock::fixed);
        let ids = self.next_id.map_or(IdSource::Random, IdSource::counting);
        fleet.store()?.use_clock_and_ids(clock, ids.clone());
        Ok(ids)
    }

    /// Adds the number of the next id to the answer.
    pub(crate) fn end(done: HandlerResult, next: u64) -> HandlerResult {
        let value = HeaderValue::from(next);
        match done {
            Ok(mut response) => {
                response.headers_mut().insert(header::TEST_IDS, value);
                Ok(response)
            }
            Err(problem) => Err(problem.counting(value)),
        }
    }
}
