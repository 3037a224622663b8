//! The middleware: the checks that every request passes before it is handled, and the completion of every answer.

pub(crate) mod etag;
mod input;
mod principal;
mod version;

use std::sync::Arc;

use axum::body::HttpBody as _;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use flightline::core::token::{Presented, unknown};
use flightline::core::{Code, Refusal};
use flightline::registry::Commit;
use flightline::token::{CheckToken, TokenView};
use flightline::{Access, Caller};

pub(crate) use input::{JsonBody, PathNames, Query};
pub(crate) use principal::Principal;

use crate::problem::Problem;
use crate::projects::REFUSAL;
use crate::request_log::{self, AnsweredRequest, RequestLog};
use crate::route::Shared;

/// The paths that need no token.
const OPEN_TO_ALL: [&str; 2] = ["/healthz", "/readyz"];

const REQUEST_ID: &str = "x-request-id";

/// Lets a request in or refuses it, writes down its problem if it has one, and logs its outcome.
pub(crate) async fn enter(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let notes = RequestLog::begin();
    let id = request_id(request.headers(), &shared);
    let method = request.method().clone();
    let length = length_of(request.headers());
    let path = request.uri().path().to_owned();
    // The route as we wrote it, not as it was asked for: nothing private gets into a log that way.
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "unknown".to_owned(), |path| path.as_str().to_owned());
    let asked = request.headers().clone();
    let answer = notes.follow(answer(&shared, &asked, request, next)).await;
    let (mut response, code) = match answer {
        Ok(response) => (response, None),
        Err(problem) => (problem.response(&id), Some(problem.code().to_owned())),
    };
    let status = response.status().as_u16();
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    version::sign(headers, shared.api);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    let checkpoint = takes_checkpoint(&method, &path) && status < 300;
    let answered = AnsweredRequest {
        request_id: id,
        method,
        route,
        status,
        code,
        headers: &asked,
        path: &path,
        request_bytes: length,
        response_bytes: response.body().size_hint().exact(),
        checkpoint,
    };
    notes.tell(&shared, answered);
    response
}

/// Handles a request that is let in, or returns the problem for which it is not.
async fn answer(
    shared: &Shared,
    asked: &HeaderMap,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let method = request.method().clone();
    let principal = admit(shared, asked.clone(), request.uri().clone()).await?;
    if let Some(principal) = principal {
        request_log::project(&principal.project().id);
        request.extensions_mut().insert(principal);
    }
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<Problem>() {
        Some(problem) => Err(problem),
        None if response.status() == StatusCode::METHOD_NOT_ALLOWED => {
            let allowed = response.headers().get(header::ALLOW).cloned();
            Err(wrong_method(&method, allowed))
        }
        None if response.status() == StatusCode::OK
            && method == Method::GET
            && etag::is_known(asked, response.headers().get(header::ETAG)) =>
        {
            Ok(unchanged(response))
        }
        None => Ok(response),
    }
}

/// Reduces the answer to a client that has it already to the status.
fn unchanged(response: Response) -> Response {
    let mut answer = Response::new(axum::body::Body::empty());
    *answer.status_mut() = StatusCode::NOT_MODIFIED;
    if let Some(tag) = response.headers().get(header::ETAG) {
        answer.headers_mut().insert(header::ETAG, tag.clone());
    }
    answer
}

/// Returns the length of the body as its sender declared it, or 0.
fn length_of(headers: &HeaderMap) -> u64 {
    let said = headers.get(header::CONTENT_LENGTH);
    said.and_then(|length| length.to_str().ok()?.parse().ok())
        .unwrap_or(0)
}

fn takes_checkpoint(method: &Method, path: &str) -> bool {
    let routes = ["/api/v1/checkpoints", "/api/v1/ops/take_checkpoint"];
    *method == Method::POST && routes.contains(&path)
}

pub(crate) async fn nowhere() -> Problem {
    Problem::of_transport(
        StatusCode::NOT_FOUND,
        "not_found",
        "there is nothing at this address",
        "`/openapi.json` describes the API",
    )
}

fn wrong_method(method: &Method, allowed: Option<HeaderValue>) -> Problem {
    let named = allowed
        .as_ref()
        .and_then(|allowed| allowed.to_str().ok())
        .unwrap_or("another method")
        .to_owned();
    let problem = Problem::of_transport(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("{method} is not possible here"),
        &format!("use {named}"),
    );
    problem.allowing(allowed)
}

/// Returns the id of the request in answers and logs: the caller's own, when it is a plain one.
fn request_id(headers: &HeaderMap, shared: &Shared) -> String {
    let plain = |text: &&str| {
        (1..=64).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    headers
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(plain)
        .map_or_else(
            || format!("req-{}", shared.ids.next()),
            |text| flightline::core::redact::redact(text).into_owned(),
        )
}

async fn admit(
    shared: &Shared,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Option<Principal>, Problem> {
    check_host(&shared.hosts, &headers, &uri)?;
    if OPEN_TO_ALL.contains(&uri.path()) {
        // A caller with a token is told more.
        let known = known(shared, &headers, false).await;
        return Ok(known.ok());
    }
    let cached = uri.path().starts_with("/api/");
    Ok(Some(known(shared, &headers, cached).await?))
}

/// Returns the holder of the token that a request brings.
async fn known(shared: &Shared, headers: &HeaderMap, cached: bool) -> Result<Principal, Problem> {
    version::check(headers, shared.api)?;
    let presented = bearer(headers)?;
    if let Some(test_mode) = &shared.test_mode
        && let Some(view) = test_mode.admits(&presented)?
    {
        let home = shared.projects.home();
        return Ok(Principal::new(Arc::new(view), None, Arc::clone(home)));
    }
    // Handlers below `/api` check the token again inside their transaction, so the cache is enough; other paths have no such
    // transaction and must ask the store.
    let view = match (shared.projects.token(&presented), cached) {
        (Some(view), true) => view,
        (Some(_), false) => check(shared, &presented).await?,
        (None, _) => lookup_token(shared, &presented).await?,
    };
    let project = shared.projects.of(&presented.project);
    Ok(Principal::new(view, Some(presented), project))
}

/// Looks up a token that is not known yet, when it is its turn.
async fn lookup_token(shared: &Shared, presented: &Presented) -> Result<Arc<TokenView>, Refusal> {
    let _turn = shared.projects.token_lookups.turn().await?;
    // Another request may have brought the same token meanwhile.
    if let Some(view) = shared.projects.token(presented) {
        return Ok(view);
    }
    let until = tokio::time::Instant::now() + REFUSAL;
    let met = check(shared, presented).await;
    if met.is_err() {
        tokio::time::sleep_until(until).await;
    }
    met
}

async fn check(shared: &Shared, presented: &Presented) -> Result<Arc<TokenView>, Refusal> {
    let check = CheckToken {
        presented: presented.clone(),
    };
    let project = Arc::from(presented.project.as_str());
    let checked = shared
        .queues
        .run(&project, Access::Read, Commit::Grouped, move |fleet| {
            fleet
                .run(&check, &Caller::default())
                .map_err(flightline::Error::into_refusal)
        });
    match checked.await {
        Ok(view) => {
            let view = Arc::new(view);
            shared.projects.remember(presented, &view);
            Ok(view)
        }
        // A caller without a token must not learn which projects there are.
        Err(refusal) if refusal.code == Code::NoProject => Err(unknown()),
        Err(refusal) if refusal.code == Code::Unauthenticated => Err(refusal),
        // Nor must it learn where the store is, and what is wrong with it.
        Err(refusal) => Err(
            Refusal::new(Code::Unavailable, "the token cannot be checked now").hint(match refusal
                .retryable
            {
                true => "retry in a moment",
                false => "the reason is in the server's log",
            }),
        ),
    }
}

/// Checks the host and the origin of a request. A foreign web page that reaches the server through a browser on this
/// machine gives itself away: by the host name in its request (a name of its own that points here), or by its origin.
fn check_host(hosts: &[String], headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let foreign_host = || {
        Problem::of_transport(
            StatusCode::MISDIRECTED_REQUEST,
            "foreign_host",
            "this server does not accept that host name",
            "use the address it printed when it started, or start it with `--allow-host NAME`",
        )
    };
    let several = headers.get_all(header::HOST).iter().count() > 1;
    let host = headers.get(header::HOST).map(HeaderValue::to_str);
    let host = match (host, uri.authority()) {
        (Some(Ok(host)), _) if !several => host,
        // A request that names us in its request line, and in no header.
        (None, Some(authority)) => authority.as_str(),
        _ => return Err(foreign_host()),
    };
    // A request line that names a server goes before the header: both must mean us.
    let named = uri.authority().map(axum::http::uri::Authority::as_str);
    for host in named.into_iter().chain([host]) {
        if !hosts.contains(&without_port(host).to_ascii_lowercase()) {
            return Err(foreign_host());
        }
    }
    for origin in headers.get_all(header::ORIGIN) {
        let own = origin.to_str().ok().and_then(|origin| {
            let (scheme, rest) = origin.split_once("://")?;
            matches!(scheme, "http" | "https").then_some(rest)
        });
        if own.is_none_or(|own| !own.eq_ignore_ascii_case(host)) {
            return Err(Problem::of_transport(
                StatusCode::FORBIDDEN,
                "foreign_origin",
                "this request comes from a page of another site",
                "a page may send requests only to its own server",
            ));
        }
    }
    Ok(())
}

/// The name in `name:port`, `1.2.3.4:port` or `[::1]:port`.
pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit())
                && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

fn bearer(headers: &HeaderMap) -> Result<Presented, Refusal> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let missing = || {
        Refusal::new(Code::Unauthenticated, "this needs a token")
            .hint("send `Authorization: Bearer TOKEN`; get one with `fleet token create NAME`, where the store is")
    };
    let (Some(only), None) = (given.next(), given.next()) else {
        return Err(missing());
    };
    let (scheme, token) = only
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .ok_or_else(missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(missing());
    }
    Presented::parse(token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(host: &[&str], origin: Option<&str>) -> Option<String> {
        let mut headers = HeaderMap::new();
        for host in host {
            headers.append(header::HOST, HeaderValue::from_str(host).unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        let hosts = [
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "[::1]".to_owned(),
        ];
        check_host(&hosts, &headers, &Uri::from_static("/"))
            .err()
            .map(|problem| problem.code().to_owned())
    }

    #[test]
    fn only_those_come_in_who_call_us_by_our_name() {
        for good in [
            "localhost",
            "LOCALHOST:7878",
            "127.0.0.1:1",
            "[::1]:7878",
            "[::1]",
        ] {
            assert_eq!(refused(&[good], None), None, "{good}");
        }
        for foreign in [
            "",
            "evil.example",
            "evil.example:7878",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "::1",
            "localhost:evil",
        ] {
            let host = refused(&[foreign], None);
            assert_eq!(host.as_deref(), Some("foreign_host"), "{foreign}");
        }
        assert_eq!(refused(&[], None).as_deref(), Some("foreign_host"));
        let twice = refused(&["localhost", "evil.example"], None);
        assert_eq!(twice.as_deref(), Some("foreign_host"));
    }

    #[test]
    fn pages_come_in_only_from_where_we_are() {
        let from = |origin| refused(&["localhost:7878"], Some(origin));
        assert_eq!(from("http://localhost:7878"), None);
        for foreign in [
            "null",
            "http://localhost",
            "http://localhost:80",
            "http://evil.example",
            "file://localhost:7878",
            "localhost:7878",
            "",
        ] {
            assert_eq!(
                from(foreign).as_deref(),
                Some("foreign_origin"),
                "{foreign}"
            );
        }
    }
}
