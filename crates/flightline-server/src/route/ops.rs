//! Any operation by its name: what `fleet` itself uses when it talks to a server.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use flightline::Access;
use flightline::registry::{Ask, Company};
use flightline::remote::{self, ANSWER_TYPE};
use serde_json::json;

use super::{Done, Shared};
use crate::door::{Body, Guest, Named};
use crate::pretend::Pretence;
use crate::problem::Problem;

/// What was said on the way to an outcome or a refusal.
#[derive(Clone, Debug, Default)]
struct Said {
    warnings: Vec<String>,
    noticed: Vec<String>,
    next_id: Option<u64>,
}

pub(crate) async fn call(
    State(shared): State<Arc<Shared>>,
    Named(name): Named<String>,
    guest: Guest,
    request: Request,
) -> Done {
    let entry = guest.may_call(&name)?;
    let headers = request.headers().clone();
    let body = Body::within(request, entry.largest, shared.limits.body).await?;
    let caller = guest.caller(&headers)?;
    let rehearse = headers.contains_key(remote::header::REHEARSE);
    // A rehearsal writes, and drops what it wrote.
    let access = if rehearse {
        Access::Write
    } else {
        entry.access
    };
    let folder = shared.projects.state_of(&guest.project().id);
    let pretence = shared
        .pretend
        .as_ref()
        .map(|_| Pretence::of(&headers))
        .transpose()?;
    let company = match rehearse || pretence.is_some() {
        true => Company::Alone,
        false => entry.company,
    };
    // Beside the outcome: a refusal is said with it too.
    let said = Arc::new(Mutex::new(Said::default()));
    let on_the_way = Arc::clone(&said);
    let done = shared
        .with(guest.project(), access, company, move |fleet| {
            let ids = pretence
                .as_ref()
                .map(|pretence| pretence.begin(fleet))
                .transpose()?;
            let ask = Ask {
                request: &body.text,
                caller: &caller,
                folder: &folder,
                rehearse,
            };
            let called = entry.run(fleet, &ask);
            *on_the_way.lock().unwrap_or_else(PoisonError::into_inner) = Said {
                warnings: called.warnings,
                noticed: fleet.take_noticed(),
                next_id: ids.and_then(|ids| ids.upcoming()),
            };
            called.outcome
        })
        .await;
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let done = match done {
        Err(refusal) => Err(Problem::from(refusal).saying(&said.warnings, &said.noticed)),
        Ok(outcome) if wants_answer(&headers) => outcome
            .map(|outcome| {
                json!({
                    "outcome": outcome,
                    "warnings": said.warnings,
                    "noticed": said.noticed,
                })
            })
            .answer(StatusCode::OK),
        Ok(outcome) => outcome.answer(StatusCode::OK),
    };
    match said.next_id {
        Some(next) => Pretence::end(done, next),
        None => done,
    }
}

/// Whether an answer is wanted with what was said on the way, or the outcome alone.
fn wants_answer(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    accepted
        .filter_map(|accepted| accepted.to_str().ok())
        .any(|accepted| accepted.trim() == ANSWER_TYPE)
}
