//! Liveness: a verdict on an agent from evidence, with its reason. Silence is not death.

use crate::Schema;
use serde::{Deserialize, Serialize};

use crate::policy::Policy;
use crate::time::{Millis, Time, human_span};

#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// The agent's last sign of life; none when it never gave one (a mere mailbox).
    pub last_sign: Option<Time>,
    pub process: ProcessSight,
    /// Time at which the agent's session was ended, if it gave no sign of life since.
    pub session_ended: Option<Time>,
    /// Time since which Flightline has been able to notice signs of life.
    pub awake_since: Time,
    pub retired: bool,
}

/// The sighting of an agent's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case", tag = "process")]
pub enum ProcessSight {
    /// The process was seen running: same pid, same start, same boot.
    Alive {
        /// The process id.
        pid: u32,
    },
    /// The process was looked for on its own machine and not found.
    Gone {
        /// The process id.
        pid: u32,
    },
    /// The process is not known, or on another machine.
    Unknown,
}

words! {
    /// The liveness of an agent.
    pub enum Life {
        /// The agent gave a sign of life lately.
        Active = "active",
        /// The agent has given no sign of life for a while.
        Quiet = "quiet",
        /// The agent is silent for so long that it should be asked.
        Warning = "warning",
        /// The agent is silent for so long that its work can be taken over.
        Stalled = "stalled",
        /// The agent's process is gone, or the agent was retired.
        Dead = "dead",
    }
}

/// A verdict, with the evidence it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Liveness {
    /// The liveness of the agent.
    pub life: Life,
    /// The reason for the verdict.
    pub evidence: String,
}

/// An agent's last sign of life, in seed B's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct HeartbeatStatus {
    /// Time of the sign of life.
    pub last_beat: Time,
    /// The interval at which signs of life are expected, in seconds.
    pub interval_seconds: u64,
    /// The meaning of the sign's age.
    pub status: HeartbeatLevel,
}

/// The meaning of the age of a sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum HeartbeatLevel {
    /// The agent is alive, and nothing needs to be done.
    Alive,
    /// The agent should be asked.
    Warning,
    /// The agent's work may need recovery.
    Stalled,
}

impl HeartbeatStatus {
    /// Returns the last sign of an agent that was judged so; none of an agent that never gave any.
    pub fn of(last_sign: Option<Time>, life: Life, policy: &Policy) -> Option<Self> {
        Some(Self {
            last_beat: last_sign?,
            interval_seconds: policy.heartbeat_ms / 1000,
            status: match life {
                Life::Active | Life::Quiet => HeartbeatLevel::Alive,
                Life::Warning => HeartbeatLevel::Warning,
                Life::Stalled | Life::Dead => HeartbeatLevel::Stalled,
            },
        })
    }
}

/// Judges an agent's life at `now`.
pub fn judge(evidence: &Evidence, policy: &Policy, now: Time) -> Liveness {
    let verdict = |life, evidence: String| Liveness { life, evidence };
    if evidence.retired {
        return verdict(Life::Dead, "retired".to_owned());
    }
    if let ProcessSight::Gone { pid } = evidence.process {
        return verdict(Life::Dead, format!("process {pid} is gone"));
    }
    let after = |silence: Millis| match silence {
        silence if silence > policy.stalled_ms => Life::Stalled,
        silence if silence > policy.warning_ms => Life::Warning,
        silence if silence > policy.quiet_ms => Life::Quiet,
        _ => Life::Active,
    };
    if let Some(ended) = evidence.session_ended {
        // The session has ended, whatever signs of life it gave before.
        let since = human_span(now.since(ended));
        return verdict(
            after(now.since(ended)).max(Life::Quiet),
            format!("its session ended {since} ago, and no other has begun"),
        );
    }
    let Some(last_sign) = evidence.last_sign else {
        return verdict(Life::Quiet, "never seen, only has a mailbox".to_owned());
    };
    let life = after(now.since(last_sign.max(evidence.awake_since)));
    let said = format!("last sign {} ago", human_span(now.since(last_sign)));
    match evidence.process {
        // A running process may be thinking; it is never more than worth a question.
        ProcessSight::Alive { pid } if life == Life::Stalled => verdict(
            Life::Warning,
            format!("{said}, but process {pid} is running"),
        ),
        ProcessSight::Alive { .. } | ProcessSight::Gone { .. } | ProcessSight::Unknown => {
            verdict(life, said)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: u64 = 60_000;

    fn after(minutes: u64, process: ProcessSight) -> Liveness {
        let start = Time::from_millis(0);
        let evidence = Evidence {
            last_sign: Some(start),
            process,
            session_ended: None,
            awake_since: start,
            retired: false,
        };
        judge(&evidence, &Policy::default(), start.plus(minutes * MINUTE))
    }

    #[test]
    fn silence_grows_into_a_verdict_but_never_into_death() {
        for (minutes, life) in [
            (0, Life::Active),
            (5, Life::Active),
            (6, Life::Quiet),
            (11, Life::Warning),
            (31, Life::Stalled),
            (100_000, Life::Stalled),
        ] {
            assert_eq!(
                after(minutes, ProcessSight::Unknown).life,
                life,
                "{minutes} minutes"
            );
        }
    }

    #[test]
    fn a_process_seen_alive_is_never_stalled_and_a_gone_one_is_dead_at_once() {
        let alive = after(600, ProcessSight::Alive { pid: 7 });
        assert_eq!(alive.life, Life::Warning);
        assert_eq!(
            alive.evidence,
            "last sign 10h ago, but process 7 is running"
        );
        assert_eq!(after(0, ProcessSight::Gone { pid: 7 }).life, Life::Dead);
    }

    #[test]
    fn our_own_downtime_is_not_held_against_anybody() {
        let start = Time::from_millis(0);
        let now = start.plus(600 * MINUTE);
        let evidence = Evidence {
            last_sign: Some(start),
            process: ProcessSight::Unknown,
            session_ended: None,
            awake_since: now,
            retired: false,
        };
        assert_eq!(judge(&evidence, &Policy::default(), now).life, Life::Active);
    }

    #[test]
    fn a_session_that_ended_is_no_life_however_lately_it_spoke() {
        let start = Time::from_millis(0);
        let ended = |minutes: u64| {
            let evidence = Evidence {
                last_sign: Some(start),
                process: ProcessSight::Unknown,
                session_ended: Some(start),
                awake_since: start,
                retired: false,
            };
            judge(&evidence, &Policy::default(), start.plus(minutes * MINUTE))
        };
        assert_eq!(ended(0).life, Life::Quiet);
        assert_eq!(
            ended(2).evidence,
            "its session ended 2m ago, and no other has begun"
        );
        assert_eq!(ended(31).life, Life::Stalled);
    }

    proptest! {
        #[test]
        fn more_silence_never_makes_an_agent_livelier(a in 0u64..10_000, b in 0u64..10_000) {
            let (less, more) = (a.min(b), a.max(b));
            prop_assert!(after(less, ProcessSight::Unknown).life <= after(more, ProcessSight::Unknown).life);
        }
    }
}
