//! Writes the log of a server, a line at a time: as text for people, or as JSON for programs. A line never holds a token,
//! a body, or an address as it was typed: only the route as it stands in the router.

use clap::ValueEnum;
use flightline::core::redact::redact;
use flightline::store::clock::Clock;
use flightline_server::AccessLogLine;
use serde_json::{Value, json};

use crate::ui::Ui;

/// The format of log lines: for people, or as one JSON document each. (Explained value by value, the help of the command
/// would come in another layout.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

pub struct Log {
    pub ui: Ui,
    pub format: LogFormat,
    /// True when every request is logged, and not only trouble.
    pub verbose: bool,
    pub clock: Clock,
}

impl Log {
    /// Logs trouble that fails no request.
    pub fn warning(&self, text: &str) {
        match self.format {
            LogFormat::Text => self.ui.warn(text),
            LogFormat::Json => self.json("warning", "warning", json!({ "message": redact(text) })),
        }
    }

    /// Logs a fact worth knowing.
    pub fn note(&self, text: &str) {
        match (self.verbose, self.format) {
            (false, _) => {}
            (true, LogFormat::Text) => self.ui.talk(text),
            (true, LogFormat::Json) => {
                self.json("info", "note", json!({ "message": redact(text) }))
            }
        }
    }

    pub fn request(&self, line: &AccessLogLine) {
        match (self.verbose, self.format) {
            (false, _) => {}
            (true, LogFormat::Text) => self.ui.talk(text(line)),
            (true, LogFormat::Json) => {
                let level = if line.status >= 500 { "error" } else { "info" };
                let told = json!({
                    "request_id": redact(&line.request_id),
                    "method": line.method,
                    "route": line.route,
                    "status": line.status,
                    "code": line.code,
                    "duration_us": line.micros,
                    "queue_us": line.queue_micros,
                    "project": line.project,
                    "agent": line.agent,
                    "operation": line.operation,
                    "trace_id": line.trace_id,
                });
                self.json(level, "request", told);
            }
        }
    }

    fn json(&self, level: &str, event: &str, mut told: Value) {
        told["time"] = json!(self.clock.now());
        told["level"] = json!(level);
        told["event"] = json!(event);
        self.ui.log(&told);
    }
}

/// Renders a line that people and programs can read alike.
fn text(line: &AccessLogLine) -> String {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let millis = |micros: u64| format!("{}.{:03}", micros / 1000, micros % 1000);
    let mut said = format!(
        "request method={} route={} status={} code={} ms={} queue_ms={} operation={} agent={} id={}",
        line.method,
        line.route,
        line.status,
        known(&line.code),
        millis(line.micros),
        millis(line.queue_micros),
        line.operation.unwrap_or("-"),
        known(&line.agent),
        line.request_id,
    );
    if let Some(trace) = &line.trace_id {
        said += " trace=";
        said += trace;
    }
    said
}
