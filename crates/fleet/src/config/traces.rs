//! Reads where traces go from the standard variables of OpenTelemetry. A value that cannot be understood is reported, and
//! taken for not set, as its specification wants it: no server stays down for the sake of its traces.

#[cfg(feature = "otel")]
mod variables;

use flightline_server::Traces;

#[cfg(feature = "otel")]
pub use self::variables::traces;

#[derive(Debug, Default)]
pub struct TraceSettings {
    /// The collector of the traces; none when no variable asks for them.
    pub traces: Option<Traces>,
    /// The collector's address for people.
    pub to: Option<String>,
    pub warnings: Vec<String>,
}

/// The variables that name the collector; the first goes before the second.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// Reads the variables; `get` gives the value of one that is set.
#[cfg(not(feature = "otel"))]
pub fn traces(get: impl Fn(&str) -> Option<String>) -> TraceSettings {
    let set = ENDPOINTS.into_iter().find(|name| get(name).is_some());
    let warning = set.map(|name| {
        format!(
            "{name} is set, and this `fleet` was built without OpenTelemetry: no traces are sent"
        )
    });
    TraceSettings {
        warnings: warning.into_iter().collect(),
        ..TraceSettings::default()
    }
}
