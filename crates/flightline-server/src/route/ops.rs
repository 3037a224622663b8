//! Any operation by its name: what `fleet` itself uses when it talks to a server.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, StatusCode, header};
use flightline::core::{Code, Refusal};
use flightline::registry::{CallContext, Commit, ErasedRequest, OperationEntry};
use flightline::remote::{self, ANSWER_TYPE};
use flightline::{Access, Caller, ErasedOutcome};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{HandlerOutcome, HandlerResult, Shared};
use crate::middleware::{JsonBody, PathNames, Principal};
use crate::problem::Problem;
use crate::test_mode::TestHeaders;

#[derive(Clone, Debug, Default)]
pub(super) struct OutcomeWarnings {
    pub(super) warnings: Vec<String>,
    noticed: Vec<String>,
    next_id: Option<u64>,
}

/// An operation to be run, as a request asked for it.
pub(super) struct OperationCall {
    pub(super) entry: OperationEntry,
    pub(super) caller: Caller,
    pub(super) request: Box<dyn ErasedRequest>,
    pub(super) rehearse: bool,
    /// In tests, the time and ids of the request.
    pub(super) test_headers: Option<TestHeaders>,
}

/// Runs an operation by its entry. Warnings are beside the outcome or the refusal.
pub(super) async fn run(
    shared: &Shared,
    principal: &Principal,
    order: OperationCall,
) -> (
    Result<HandlerOutcome<Box<dyn ErasedOutcome>>, Refusal>,
    OutcomeWarnings,
) {
    let OperationCall {
        entry,
        caller,
        request,
        rehearse,
        test_headers,
    } = order;
    // A rehearsal writes, and drops what it wrote.
    let access = if rehearse {
        Access::Write
    } else {
        entry.access
    };
    let folder = shared.projects.state_of(&principal.project().id);
    let commit = match rehearse || test_headers.is_some() {
        true => Commit::Own,
        false => entry.commit,
    };
    let said = Arc::new(Mutex::new(OutcomeWarnings::default()));
    let on_the_way = Arc::clone(&said);
    let done = shared
        .with(principal.project(), access, commit, move |fleet| {
            let ids = test_headers
                .as_ref()
                .map(|test_headers| test_headers.begin(fleet))
                .transpose()?;
            let ask = CallContext {
                caller: &caller,
                folder: &folder,
                rehearse,
            };
            // Those of an earlier request, which had no place for them, are not this caller's.
            drop(fleet.take_warnings());
            let called = request.run(fleet, &ask);
            *on_the_way.lock().unwrap_or_else(PoisonError::into_inner) = OutcomeWarnings {
                // The warnings of the engine belong here as well: that an answer could not be recorded on a
                // full disk.
                warnings: [called.warnings, fleet.take_warnings()].concat(),
                noticed: fleet.take_noticed(),
                next_id: ids.and_then(|ids| ids.upcoming()),
            };
            called.outcome?.now()
        })
        .await;
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (done, said)
}

pub(crate) async fn call(
    State(shared): State<Arc<Shared>>,
    PathNames(name): PathNames<String>,
    principal: Principal,
    request: HttpRequest,
) -> HandlerResult {
    let entry = principal.may_call(&name)?;
    let headers = request.headers().clone();
    let body = JsonBody::within(request, entry.largest, shared.limits.body).await?;
    let order = OperationCall {
        entry,
        caller: principal.caller(&headers)?,
        request: read(entry, body.text).await?,
        rehearse: headers.contains_key(remote::header::REHEARSE),
        test_headers: shared
            .test_mode
            .as_ref()
            .map(|_| TestHeaders::of(&headers))
            .transpose()?,
    };
    let (done, said) = run(&shared, &principal, order).await;
    let done = match done {
        Err(refusal) => Err(Problem::from(refusal).saying(&said.warnings, &said.noticed)),
        Ok(outcome) => {
            let outcome = outcome.and_then(|outcome| outcome.text())?;
            match wants_answer(&headers) {
                true => outcome
                    .map(|outcome| Whole {
                        outcome,
                        warnings: said.warnings,
                        noticed: said.noticed,
                    })
                    .answer(StatusCode::OK),
                false => outcome.answer(StatusCode::OK),
            }
        }
    };
    match said.next_id {
        Some(next) => TestHeaders::end(done, next),
        None => done,
    }
}

/// An outcome with its warnings.
#[derive(Serialize)]
struct Whole {
    outcome: Box<RawValue>,
    warnings: Vec<String>,
    noticed: Vec<String>,
}

/// The length in bytes above which a body is read on a thread that may be kept busy.
const LONG: usize = 64 * 1024;

/// Reads a request, once, before it waits for its turn.
async fn read(entry: OperationEntry, body: String) -> Result<Box<dyn ErasedRequest>, Refusal> {
    if body.len() <= LONG {
        return entry.read(&body);
    }
    let reading = tokio::task::spawn_blocking(move || entry.read(&body));
    reading.await.map_err(|_| {
        Refusal::new(Code::Failed, "the request failed inside the server")
            .hint("nothing was done: send it again")
    })?
}

/// Returns true when the client wants the warnings with the outcome, and false when it wants the outcome alone.
fn wants_answer(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    accepted
        .filter_map(|accepted| accepted.to_str().ok())
        .any(|accepted| accepted.trim() == ANSWER_TYPE)
}
