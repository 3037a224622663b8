//! MCP over HTTP: stateless, one JSON answer for each request.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use crate::runner::OperationRunner;
use crate::server::Server;
use crate::tool::Loaded;

/// Answers one request. The server's middleware has checked the caller's token, host and origin.
pub async fn answer(
    runner: impl OperationRunner,
    loaded: Loaded,
    request: Request<Body>,
) -> Response<Body> {
    let server = Server::new(runner, loaded);
    let largest = flightline::registry::LARGEST;
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(largest)
        .disable_allowed_hosts();
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    service.handle(request).await.map(Body::new)
}
