//! Policy: the numbers Flightline decides by. Every one has a name in `config.toml`.

use serde::{Deserialize, Serialize};

use crate::retention::Retention;
use crate::time::{Millis, human_span, parse_span};

const MINUTE: Millis = 60_000;

/// The numbers Flightline decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Policy {
    /// An agent without a sign of life for this long is quiet.
    pub quiet_ms: Millis,
    /// … needs a warning.
    pub warning_ms: Millis,
    /// … is stalled.
    pub stalled_ms: Millis,
    /// A lock lapses this long after its holder's last sign of life, unless it was taken with another.
    pub lock_ttl_ms: Millis,
    /// When nobody wrote for this long, Flightline itself may have been asleep: silence before that
    /// moment proves nothing.
    pub downtime_ms: Millis,
    /// A mission that first reaches one of these percentages gets a checkpoint.
    pub milestones: [u8; 3],
    /// Which checkpoints go, and when.
    pub retention: Retention,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            quiet_ms: 5 * MINUTE,
            warning_ms: 10 * MINUTE,
            stalled_ms: 30 * MINUTE,
            lock_ttl_ms: 30 * MINUTE,
            downtime_ms: 10 * MINUTE,
            milestones: [25, 50, 75],
            retention: Retention::default(),
        }
    }
}

/// A number of the policy: its name in `config.toml` and what it means.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Its dotted name.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// Where it is in the policy.
    pub get: fn(&Policy) -> u64,
    /// How to set it.
    pub set: fn(&mut Policy, u64),
    /// How it is written.
    pub unit: Unit,
}

/// How a number of the policy is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A span; a bare number counts these.
    Span(&'static str),
    /// How many.
    Count,
}

impl Unit {
    /// Reads a number as people write it.
    ///
    /// # Errors
    /// When it is not one.
    pub fn parse(self, text: &str) -> Result<u64, String> {
        match self {
            Self::Span(unit) => parse_span(text, unit),
            Self::Count => text
                .parse::<u32>()
                .map(u64::from)
                .map_err(|_| format!("`{text}` is not a number")),
        }
    }

    /// A number as people read it.
    #[must_use]
    pub fn show(self, number: u64) -> String {
        match self {
            Self::Span(_) => human_span(number).replace(' ', ""),
            Self::Count => number.to_string(),
        }
    }
}

/// Every number of the policy.
pub const KNOBS: [Knob; 10] = [
    Knob {
        name: "liveness.quiet",
        meaning: "silence after which an agent is quiet",
        get: |policy| policy.quiet_ms,
        set: |policy, span| policy.quiet_ms = span,
        unit: Unit::Span("s"),
    },
    Knob {
        name: "liveness.warning",
        meaning: "silence after which an agent needs a warning",
        get: |policy| policy.warning_ms,
        set: |policy, span| policy.warning_ms = span,
        unit: Unit::Span("s"),
    },
    Knob {
        name: "liveness.stalled",
        meaning: "silence after which an agent is stalled",
        get: |policy| policy.stalled_ms,
        set: |policy, span| policy.stalled_ms = span,
        unit: Unit::Span("s"),
    },
    Knob {
        name: "locks.ttl",
        meaning: "how long after its holder's last sign of life a lock lapses",
        get: |policy| policy.lock_ttl_ms,
        set: |policy, span| policy.lock_ttl_ms = span,
        unit: Unit::Span("s"),
    },
    Knob {
        name: "liveness.downtime",
        meaning: "a pause of all writing after which silence proves nothing",
        get: |policy| policy.downtime_ms,
        set: |policy, span| policy.downtime_ms = span,
        unit: Unit::Span("s"),
    },
    Knob {
        name: "retention.older_than",
        meaning: "age after which a checkpoint goes",
        get: |policy| policy.retention.older_than_ms,
        set: |policy, span| policy.retention.older_than_ms = span,
        unit: Unit::Span("d"),
    },
    Knob {
        name: "retention.keep",
        meaning: "how many of a mission's newest checkpoints stay at any age",
        get: |policy| policy.retention.keep,
        set: |policy, count| policy.retention.keep = count,
        unit: Unit::Count,
    },
    Knob {
        name: "retention.most",
        meaning: "how many checkpoints a mission has at most",
        get: |policy| policy.retention.most,
        set: |policy, count| policy.retention.most = count,
        unit: Unit::Count,
    },
    Knob {
        name: "retention.completed",
        meaning: "how long a completed mission keeps its final checkpoint",
        get: |policy| policy.retention.completed_ms,
        set: |policy, span| policy.retention.completed_ms = span,
        unit: Unit::Span("d"),
    },
    Knob {
        name: "retention.history",
        meaning: "how long the journal keeps every value (default: as retention.older_than)",
        get: |policy| policy.retention.history(),
        set: |policy, span| policy.retention.history_ms = Some(span),
        unit: Unit::Span("d"),
    },
];

impl Policy {
    /// Whether the numbers make sense together.
    ///
    /// # Errors
    /// A sentence that says which two do not.
    pub fn check(&self) -> Result<(), String> {
        if self.quiet_ms >= self.warning_ms || self.warning_ms >= self.stalled_ms {
            return Err(
                "`liveness.quiet` must be shorter than `liveness.warning`, and that shorter than `liveness.stalled`"
                    .to_owned(),
            );
        }
        if KNOBS.iter().any(|knob| (knob.get)(self) == 0) {
            return Err("a duration of zero is not allowed".to_owned());
        }
        if self.retention.most < self.retention.keep {
            return Err("`retention.most` must not be less than `retention.keep`".to_owned());
        }
        Ok(())
    }
}
