//! The primary's verdicts on the other agents: at work, slow, crashed.

use crate::Schema;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::MINUTE;
use crate::dialect::json::Json;
use crate::dialect::one_line;
use crate::policy::Policy;
use crate::time::Time;

/// The minutes the monitor decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The minutes within which an agent should write again.
    pub expected_minutes: u64,
    /// The minutes of silence after which an agent gets a warning.
    pub warning_minutes: u64,
    /// The minutes of silence after which an agent is taken to have crashed.
    pub failure_minutes: u64,
}

impl From<&Policy> for Thresholds {
    fn from(policy: &Policy) -> Self {
        Self {
            expected_minutes: policy.heartbeat_ms / MINUTE,
            warning_minutes: policy.warning_ms / MINUTE,
            failure_minutes: policy.stalled_ms / MINUTE,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorVerdict {
    pub agent_id: String,
    /// The agent's silence in whole minutes; less than none when its clock is ahead.
    pub minutes: i64,
    pub standing: MonitorLevel,
}

/// The meaning of an agent's silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum MonitorLevel {
    /// The agent wrote lately.
    Active,
    /// The agent may be slow.
    Warning,
    /// The agent has likely crashed.
    Stale,
}

/// The line of the report, to the letter.
impl fmt::Display for MonitorVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (agent, minutes) = (one_line(&self.agent_id), self.minutes);
        match self.standing {
            MonitorLevel::Stale => write!(f, "❌ {agent}: STALE ({minutes} min) - Likely crashed"),
            MonitorLevel::Warning => write!(f, "⚠️ {agent}: WARNING ({minutes} min) - May be slow"),
            MonitorLevel::Active => write!(f, "✅ {agent}: ACTIVE ({minutes} min ago)"),
        }
    }
}

pub(super) fn last_checkpoint(checkpoint: &Json) -> Time {
    let last = checkpoint.time("last_checkpoint");
    last.unwrap_or(Time::EARLIEST)
}

/// The minutes between two points in time as the seed's script counts them: seconds are dropped first,
/// then what is left of a minute.
pub const fn age_minutes(last: Time, now: Time) -> i64 {
    let seconds = now.as_millis().div_euclid(1000) - last.as_millis().div_euclid(1000);
    seconds / 60
}

/// Judges one agent. Whether one that is `COMPLETE` should be looked at at all is for the caller to say:
/// the seed's script does.
pub fn judge(checkpoint: &Json, thresholds: &Thresholds, now: Time) -> MonitorVerdict {
    let minutes = age_minutes(last_checkpoint(checkpoint), now);
    let age = u64::try_from(minutes).unwrap_or(0);
    let standing = match age {
        age if age > thresholds.failure_minutes => MonitorLevel::Stale,
        age if age > thresholds.warning_minutes => MonitorLevel::Warning,
        _ => MonitorLevel::Active,
    };
    MonitorVerdict {
        agent_id: checkpoint.word("agent_id").to_owned(),
        minutes,
        standing,
    }
}
