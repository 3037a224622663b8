//! The text that Prometheus reads.

use std::fmt::{Display, Write as _};

/// A page of figures. Each family is written once, whole.
#[derive(Debug, Default)]
pub(super) struct MetricsPage(String);

/// The kind of figures that a family holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum MetricType {
    Counter,
    Gauge,
    Histogram,
}

pub(super) type Label<'a> = (&'a str, &'a str);

impl MetricsPage {
    pub(super) fn family(&mut self, name: &str, kind: MetricType, help: &str) {
        let kind = match kind {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn figure(&mut self, name: &str, labels: &[Label<'_>], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"");
            for letter in text.chars() {
                match letter {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// Writes a family of one figure.
    pub(super) fn single(&mut self, name: &str, kind: MetricType, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.figure(name, &[], value);
    }

    /// Writes a family of figures that differ in one label.
    pub(super) fn by<'a, V: Display>(
        &mut self,
        (name, label): (&str, &str),
        kind: MetricType,
        help: &str,
        figures: impl IntoIterator<Item = (&'a str, V)>,
    ) {
        self.family(name, kind, help);
        for (text, value) in figures {
            self.figure(name, &[(label, text)], value);
        }
    }

    pub(super) fn text(self) -> String {
        self.0
    }
}

/// Writes millionths of a second as seconds.
pub(super) fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}
