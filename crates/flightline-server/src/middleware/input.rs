//! The input of a request: its body, its query, and the names in its path, each with limits, and each with a problem
//! that says what is wrong.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body as RawBody, Bytes, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, Path, Query as AxumQuery, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use flightline::core::Refusal;
use flightline::registry::{LARGEST, misfit};
use serde::de::DeserializeOwned;

use crate::problem::Problem;
use crate::route::Shared;

const MIB: usize = 1024 * 1024;
/// The most bytes of a body that is too large that are read and dropped.
const MOST_DROPPED: usize = 64 * MIB;
/// The silence after which a client counts as done, or as waiting for the answer.
const SILENCE: Duration = Duration::from_millis(500);

pub(crate) struct JsonBody {
    /// The text of the body; `{}` when there is none.
    pub(crate) text: String,
    is_there: bool,
}

impl JsonBody {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        misfit::read("the body", &self.text)
    }

    /// Reads the body of a route where it decides what is done: a missing body is refused.
    pub(crate) fn read_there<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        if !self.is_there {
            return Err(
                Refusal::invalid("the body is missing, and it is required here")
                    .hint("send `{}` for the defaults, or `{\"dry_run\": true}` to look first"),
            );
        }
        self.read()
    }
}

impl FromRequest<Arc<Shared>> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Problem> {
        Self::within(request, LARGEST, shared.limits.body).await
    }
}

impl JsonBody {
    /// Reads the body of a request, if it has at most `largest` bytes and comes in time.
    pub(crate) async fn within(
        request: Request,
        largest: usize,
        slowest: Duration,
    ) -> Result<Self, Problem> {
        let headers = request.headers().clone();
        let announced = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok())
            .and_then(|length| length.parse::<usize>().ok());
        let mut body = request.into_body();
        let fits = announced.is_none_or(|length| length <= largest);
        let bytes = match fits {
            true => tokio::time::timeout(slowest, collect(&mut body, largest)).await,
            false => Ok(Err(Unread::TooLarge)),
        };
        let bytes = match bytes {
            Err(_) => {
                return Err(Problem::of_transport(
                    StatusCode::REQUEST_TIMEOUT,
                    "too_slow",
                    "the body did not arrive in time",
                    "nothing was done: send it again",
                ));
            }
            Ok(Err(Unread::TooLarge)) => {
                // Time is all that this can take too much of.
                let _ = tokio::time::timeout(slowest, drop_rest(&mut body)).await;
                return Err(too_large(largest));
            }
            Ok(Err(Unread::Broken)) => {
                return Err(Refusal::invalid("the body cannot be read to its end").into());
            }
            Ok(Ok(bytes)) => bytes,
        };
        if bytes.is_empty() {
            return Ok(Self {
                text: "{}".to_owned(),
                is_there: false,
            });
        }
        if headers.contains_key(header::CONTENT_ENCODING) {
            return Err(unsupported("a body may not be compressed"));
        }
        if !is_json(&headers) {
            return Err(unsupported(
                "the body has to be JSON, with the content type of JSON",
            ));
        }
        let text =
            String::from_utf8(bytes).map_err(|_| Refusal::invalid("the body is not UTF-8"))?;
        Ok(Self {
            text,
            is_there: true,
        })
    }
}

enum Unread {
    TooLarge,
    Broken,
}

async fn next(body: &mut RawBody) -> Option<Result<Bytes, Unread>> {
    loop {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await? {
            // Trailers say nothing to us.
            Ok(frame) => match frame.into_data() {
                Ok(piece) => return Some(Ok(piece)),
                Err(_) => continue,
            },
            Err(_) => return Some(Err(Unread::Broken)),
        }
    }
}

/// Reads a body to its end, if it has at most `largest` bytes.
async fn collect(body: &mut RawBody, largest: usize) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    while let Some(piece) = next(body).await {
        let piece = piece?;
        if bytes.len() + piece.len() > largest {
            return Err(Unread::TooLarge);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Reads on for a while, and keeps nothing. Without this, a client that sends everything before it reads the answer would
/// see only a broken connection.
async fn drop_rest(body: &mut RawBody) {
    let mut dropped = 0;
    while dropped < MOST_DROPPED
        && let Ok(Some(Ok(piece))) = tokio::time::timeout(SILENCE, next(body)).await
    {
        dropped += piece.len();
    }
}

/// Returns true when the body says that it is JSON. A type that a browser sends without asking the server first never
/// passes.
fn is_json(headers: &HeaderMap) -> bool {
    let named = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    named.is_some_and(|named| {
        let kind = named.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    })
}

fn too_large(largest: usize) -> Problem {
    Problem::of_transport(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too_large",
        format!("the body is larger than {} MiB", largest / MIB),
        "send less at once",
    )
}

fn unsupported(what: &str) -> Problem {
    Problem::of_transport(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        what,
        "send it uncompressed, with `Content-Type: application/json`",
    )
}

pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match AxumQuery::<T>::try_from_uri(&parts.uri) {
            Ok(AxumQuery(query)) => Ok(Self(query)),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                let why = cause.unwrap_or_else(|| error.to_string());
                let (path, why) = why.split_once(": ").unwrap_or(("", &why));
                Err(Refusal::invalid(misfit::sentence("the query", path, why)).into())
            }
        }
    }
}

pub(crate) struct PathNames<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathNames<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(names)) => Ok(Self(names)),
            Err(_) => Err(Refusal::invalid("the address cannot be read").into()),
        }
    }
}
