//! Any operation by its name: what `fleet` itself uses when it talks to a server.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use flightline::core::Refusal;
use flightline::registry::{Ask, Company, Entry};
use flightline::remote::{self, ANSWER_TYPE};
use flightline::{Access, Caller};
use serde_json::json;
use serde_json::value::RawValue;

use super::{Done, Outcome, Shared};
use crate::door::{Body, Guest, Named};
use crate::pretend::Pretence;
use crate::problem::Problem;

/// What was said on the way to an outcome or a refusal.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    pub(super) warnings: Vec<String>,
    noticed: Vec<String>,
    next_id: Option<u64>,
}

/// An operation to be run, as a request asked for it.
pub(super) struct Order {
    pub(super) entry: Entry,
    pub(super) caller: Caller,
    /// Its request, in JSON.
    pub(super) request: String,
    /// Whether it is only to be shown what it would do.
    pub(super) rehearse: bool,
    /// In tests: what is pretended.
    pub(super) pretence: Option<Pretence>,
}

/// Runs an operation by its entry. What was said on the way is beside the outcome: a refusal is said with it too.
pub(super) async fn run(
    shared: &Shared,
    guest: &Guest,
    order: Order,
) -> (Result<Outcome<Box<RawValue>>, Refusal>, Said) {
    let Order {
        entry,
        caller,
        request,
        rehearse,
        pretence,
    } = order;
    // A rehearsal writes, and drops what it wrote.
    let access = if rehearse {
        Access::Write
    } else {
        entry.access
    };
    let folder = shared.projects.state_of(&guest.project().id);
    let company = match rehearse || pretence.is_some() {
        true => Company::Alone,
        false => entry.company,
    };
    let said = Arc::new(Mutex::new(Said::default()));
    let on_the_way = Arc::clone(&said);
    let done = shared
        .with(guest.project(), access, company, move |fleet| {
            let ids = pretence
                .as_ref()
                .map(|pretence| pretence.begin(fleet))
                .transpose()?;
            let ask = Ask {
                request: &request,
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
    (done, said)
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
    let order = Order {
        entry,
        caller: guest.caller(&headers)?,
        request: body.text,
        rehearse: headers.contains_key(remote::header::REHEARSE),
        pretence: shared
            .pretend
            .as_ref()
            .map(|_| Pretence::of(&headers))
            .transpose()?,
    };
    let (done, said) = run(&shared, &guest, order).await;
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
