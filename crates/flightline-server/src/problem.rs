//! Problems, as RFC 9457 has them. This is the one place that knows which status a refusal has.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flightline::core::{Code, Refusal};
use flightline::remote;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(crate) struct Problem(Box<ProblemFields>);

#[derive(Clone, Debug)]
struct ProblemFields {
    status: StatusCode,
    code: String,
    message: String,
    hint: Option<String>,
    details: Value,
    retryable: bool,
    allow: Option<HeaderValue>,
    warnings: Vec<String>,
    noticed: Vec<String>,
    test_ids: Option<HeaderValue>,
}

pub(crate) const fn status(code: Code) -> StatusCode {
    match code {
        Code::InvalidInput | Code::ConfirmationNeeded => StatusCode::BAD_REQUEST,
        Code::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Forbidden => StatusCode::FORBIDDEN,
        Code::NotFound | Code::NoProject => StatusCode::NOT_FOUND,
        Code::AmbiguousId
        | Code::IllegalTransition
        | Code::NotYours
        | Code::AlreadyTaken
        | Code::NothingReady
        | Code::NothingLeft
        | Code::AlreadyExists
        | Code::LockHeld
        | Code::Fenced
        | Code::EffectDone
        | Code::EffectInDoubt
        | Code::KeyReused
        | Code::Unfinished
        | Code::HistoryChanged
        | Code::HistoryThinned
        | Code::Attention => StatusCode::CONFLICT,
        Code::Changed => StatusCode::PRECONDITION_FAILED,
        Code::Integrity | Code::NewerStore | Code::NotOurStore | Code::Untrusted | Code::Failed => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
        Code::OtherVersion => StatusCode::UPGRADE_REQUIRED,
        Code::Unavailable | Code::CommitUnknown => StatusCode::SERVICE_UNAVAILABLE,
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = serde_json::to_value(refusal.code)
            .ok()
            .and_then(|code| code.as_str().map(str::to_owned));
        Self(Box::new(ProblemFields {
            status: status(refusal.code),
            code: code.unwrap_or_else(|| "failed".to_owned()),
            message: refusal.message,
            hint: refusal.hint,
            details: refusal.details,
            retryable: refusal.retryable,
            allow: None,
            warnings: Vec::new(),
            noticed: Vec::new(),
            test_ids: None,
        }))
    }
}

impl Problem {
    pub(crate) fn of_transport(
        status: StatusCode,
        code: &str,
        message: impl Into<String>,
        hint: &str,
    ) -> Self {
        Self(Box::new(ProblemFields {
            status,
            code: code.to_owned(),
            message: message.into(),
            hint: Some(hint.to_owned()),
            details: Value::Null,
            retryable: false,
            allow: None,
            warnings: Vec::new(),
            noticed: Vec::new(),
            test_ids: None,
        }))
    }

    /// Adds the methods that are possible to this problem.
    pub(crate) fn allowing(mut self, allow: Option<HeaderValue>) -> Self {
        self.0.allow = allow;
        self
    }

    /// Adds the warnings of the operation, and the damage it noticed.
    pub(crate) fn saying(mut self, warnings: &[String], noticed: &[String]) -> Self {
        self.0.warnings = warnings.to_vec();
        self.0.noticed = noticed.to_vec();
        self
    }

    /// Adds the number of the next id, in tests.
    pub(crate) fn counting(mut self, next: HeaderValue) -> Self {
        self.0.test_ids = Some(next);
        self
    }

    /// The code of the problem in logs.
    pub(crate) fn code(&self) -> &str {
        &self.0.code
    }

    pub(crate) fn response(&self, request_id: &str) -> Response {
        let clean = |text: &str| flightline::core::redact::redact(text).into_owned();
        let mut body = json!({
            "type": format!("urn:flightline:problem:{}", self.0.code),
            "title": self.0.status.canonical_reason().unwrap_or("Problem"),
            "status": self.0.status.as_u16(),
            "detail": clean(&self.0.message),
            "code": self.0.code,
            "retryable": self.0.retryable,
            "request_id": request_id,
        });
        if let Some(hint) = &self.0.hint {
            body["hint"] = json!(clean(hint));
        }
        if !self.0.details.is_null() {
            body["details"] = self.0.details.clone();
        }
        for (name, said) in [("warnings", &self.0.warnings), ("noticed", &self.0.noticed)] {
            if !said.is_empty() {
                body[name] = said.iter().map(|text| clean(text)).collect();
            }
        }
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = self.0.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(allow) = &self.0.allow {
            headers.insert(header::ALLOW, allow.clone());
        }
        if let Some(next) = &self.0.test_ids {
            headers.insert(remote::header::TEST_IDS, next.clone());
        }
        match self.0.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static("Bearer realm=\"fleet\""),
                );
            }
            _ => {}
        }
        response
    }
}

/// A handler gives the problem; the middleware writes it down, because only the middleware knows the request's id.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.0.status;
        response.extensions_mut().insert(self);
        response
    }
}
