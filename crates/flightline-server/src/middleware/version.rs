//! Compares the protocol versions of the two ends.

use axum::http::{HeaderMap, HeaderValue};
use flightline::core::redact::shown;
use flightline::core::{Code, Refusal};
use flightline::remote::{OLDEST_API, VERSION, header};

/// Refuses a `fleet` whose protocol we do not speak. A client without the header is not a `fleet`, and follows our OpenAPI
/// description.
pub(super) fn check(headers: &HeaderMap, api: u32) -> Result<(), Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(named) = text(header::API) else {
        return Ok(());
    };
    let theirs: u32 = named.parse().map_err(|_| {
        Refusal::invalid(format!(
            "`{}` is `{}`, which is not a number",
            header::API,
            shown(named)
        ))
    })?;
    if (OLDEST_API..=api).contains(&theirs) {
        return Ok(());
    }
    let version = shown(text(header::VERSION).unwrap_or("unknown"));
    let (which, hint) = if theirs > api {
        (
            "newer",
            format!("upgrade the server; or use `fleet` {VERSION} here"),
        )
    } else {
        ("older", format!("upgrade `fleet` here to {VERSION}"))
    };
    Err(Refusal::new(
        Code::OtherVersion,
        format!(
            "this `fleet` ({version}, API {theirs}) is {which} than the server ({VERSION}, API {api}) understands"
        ),
    )
    .hint(format!("nothing was done; {hint}"))
    .details(serde_json::json!({
        "client": { "version": version, "api": theirs },
        "server": { "version": VERSION, "api": api },
    })))
}

/// Writes this end's versions into the headers of an answer.
pub(super) fn sign(headers: &mut HeaderMap, api: u32) {
    headers.insert(header::API, HeaderValue::from(api));
    headers.insert(header::VERSION, HeaderValue::from_static(VERSION));
}
