//! Traces: a span for every request that was answered and every job that ran, sent to a collector of
//! OpenTelemetry. Only a build with the feature `otel` has them; in others the same calls do nothing.

#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
mod span;

#[cfg(feature = "otel")]
pub use self::export::{Sampling, Traces};
#[cfg(feature = "otel")]
pub(crate) use self::span::Tracing;

#[cfg(not(feature = "otel"))]
pub use self::without::Traces;
#[cfg(not(feature = "otel"))]
pub(crate) use self::without::Tracing;

#[cfg(not(feature = "otel"))]
mod without {
    use std::net::SocketAddr;
    use std::time::Instant;

    use flightline::core::Refusal;

    use crate::request_log::ServedRequest;
    use crate::serve::MessageSink;

    /// The collector of traces: there is none in this build.
    #[derive(Debug)]
    pub enum Traces {}

    #[derive(Clone, Debug, Default)]
    pub(crate) struct Tracing(());

    impl Tracing {
        pub(crate) fn start(_: Option<Traces>, _: SocketAddr, _: &MessageSink) -> Self {
            Self(())
        }

        pub(crate) fn request(&self, _: &ServedRequest<'_>) -> Option<String> {
            None
        }

        pub(crate) fn job(&self, _: &'static str, _: Instant, _: Option<&Refusal>) {}

        pub(crate) fn end(&self) {}
    }
}
