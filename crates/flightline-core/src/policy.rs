//! Policy: the numbers Flightline decides by. Every one has a name in `config.toml`.

use serde::{Deserialize, Serialize};

use crate::retention::Retention;
use crate::time::Millis;

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
    pub get: fn(&Policy) -> Millis,
    /// How to set it.
    pub set: fn(&mut Policy, Millis),
}

/// Every number of the policy.
pub const KNOBS: [Knob; 5] = [
    Knob {
        name: "liveness.quiet",
        meaning: "silence after which an agent is quiet",
        get: |policy| policy.quiet_ms,
        set: |policy, span| policy.quiet_ms = span,
    },
    Knob {
        name: "liveness.warning",
        meaning: "silence after which an agent needs a warning",
        get: |policy| policy.warning_ms,
        set: |policy, span| policy.warning_ms = span,
    },
    Knob {
        name: "liveness.stalled",
        meaning: "silence after which an agent is stalled",
        get: |policy| policy.stalled_ms,
        set: |policy, span| policy.stalled_ms = span,
    },
    Knob {
        name: "locks.ttl",
        meaning: "how long after its holder's last sign of life a lock lapses",
        get: |policy| policy.lock_ttl_ms,
        set: |policy, span| policy.lock_ttl_ms = span,
    },
    Knob {
        name: "liveness.downtime",
        meaning: "a pause of all writing after which silence proves nothing",
        get: |policy| policy.downtime_ms,
        set: |policy, span| policy.downtime_ms = span,
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
        Ok(())
    }
}
