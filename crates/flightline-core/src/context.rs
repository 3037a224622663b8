//! An agent's context: how full it is, which mode that has led to, and what of its task is left.

mod delta;
mod document;
mod remaining_steps;

use crate::Schema;
use serde::{Deserialize, Serialize};

pub use self::delta::{
    DeltaChange, DeltaDecision, DeltaFile, changes, column_of, decide, task_label,
};
pub use self::document::recovery_document;
pub use self::remaining_steps::remaining_steps;
use crate::agent::Agent;
use crate::checkpoint::Reason;
use crate::error::Refusal;
use crate::id::{AgentId, SortieId};
use crate::policy::{Policy, RecoveryMode};
use crate::subject::{Keys, Kind, Subject};
use crate::text::Name;
use crate::time::Time;

words! {
    /// The amount that an agent is given to read.
    #[derive(Default)]
    pub enum ContextMode {
        /// The agent is given everything there is room for.
        #[default]
        Normal = "normal",
        /// The agent is given only what is required: its context is filling up.
        Minimal = "minimal",
        /// The agent is given only what is required, and what to load later: it goes on where a full context ended.
        Recovery = "recovery",
    }
}

impl ContextMode {
    /// Returns true when nothing is left out.
    pub fn is_normal(&self) -> bool {
        *self == Self::Normal
    }

    /// Returns the mode of an agent whose context led to a checkpoint for this reason.
    #[must_use]
    pub fn after(self, reason: Reason, policy: &Policy) -> Self {
        let led_to = match (policy.recovery_mode, reason) {
            (RecoveryMode::Minimal, Reason::TokenCritical) => Self::Recovery,
            (RecoveryMode::Minimal, Reason::TokenWarning) => Self::Minimal,
            _ => Self::Normal,
        };
        self.max(led_to)
    }
}

/// The fill level of a context, by its client's own figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct ContextUsage {
    /// The fill level in percent, rounded down.
    pub percent: u8,
    /// The number of tokens used, where the client counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// The number of tokens that the context can hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl ContextUsage {
    /// Reads the figures of a client: a percentage, tokens, both or neither. A percentage that is given counts.
    pub fn read(percent: Option<u8>, tokens: Option<(u64, u64)>) -> Result<Option<Self>, Refusal> {
        if percent.is_some_and(|percent| percent > 100) {
            return Err(Refusal::invalid("a context is at most 100 % full")
                .hint("give `--context-percent` from 0 to 100, or `--tokens USED/TOTAL`"));
        }
        let Some((used, total)) = tokens else {
            return Ok(percent.map(|percent| Self {
                percent,
                used: None,
                total: None,
            }));
        };
        if total == 0 {
            return Err(
                Refusal::invalid(format!("`{used}/{total}` does not count tokens"))
                    .hint("write how many are used of how many: `--tokens 120000/200000`"),
            );
        }
        // Clients also count tokens of an earlier or later context: more than there is room for is full.
        let counted = u128::from(used) * 100 / u128::from(total);
        let counted = u8::try_from(counted.min(100)).unwrap_or(100);
        Ok(Some(Self {
            percent: percent.unwrap_or(counted),
            used: Some(used),
            total: Some(total),
        }))
    }
}

/// The thresholds that an agent's present context has crossed: each counts once per context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct ContextGauge {
    /// The agent whose context it is.
    pub agent_id: AgentId,
    /// The epoch of the agent's session.
    pub epoch: u64,
    /// The number of the context among those of the agent.
    pub context: u64,
    /// Time at which the context crossed the first threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warned_at: Option<Time>,
    /// Time at which the context crossed the second threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_at: Option<Time>,
    /// The reason of a checkpoint that could not be taken then, and is to be taken as soon as it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owed: Option<Reason>,
}

impl ContextGauge {
    pub fn key_of(agent: AgentId) -> String {
        format!("gauge/{agent}")
    }

    /// The gauge of an agent's present context: the known one, or a new one when that is of another context.
    pub fn present(agent: &Agent, known: Option<Self>) -> Self {
        let same = |gauge: &Self| (gauge.epoch, gauge.context) == (agent.epoch, agent.context);
        known.filter(same).unwrap_or(Self {
            agent_id: agent.id,
            epoch: agent.epoch,
            context: agent.context,
            warned_at: None,
            critical_at: None,
            owed: None,
        })
    }

    /// The thresholds that a context so full crosses for the first time, the lower one first. One that is
    /// switched off is not there.
    pub fn crosses(&self, percent: u8, policy: &Policy) -> Vec<Reason> {
        let thresholds = [
            (policy.token_warning, Reason::TokenWarning, self.warned_at),
            (
                policy.token_critical,
                Reason::TokenCritical,
                self.critical_at,
            ),
        ];
        let first = thresholds.into_iter().filter(|(threshold, reason, at)| {
            percent >= *threshold && at.is_none() && policy.saves_context_for(*reason)
        });
        first.map(|(_, reason, _)| reason).collect()
    }

    /// Notes that thresholds were crossed. A context that crosses the second has crossed the first.
    pub fn cross(&mut self, crossed: &[Reason], now: Time) {
        if crossed.contains(&Reason::TokenCritical) {
            self.critical_at = Some(now);
        }
        if !crossed.is_empty() {
            self.warned_at.get_or_insert(now);
        }
    }
}

impl Subject for ContextGauge {
    const KIND: Kind = Kind::Setting;

    fn key(&self) -> String {
        Self::key_of(self.agent_id)
    }

    fn keys(&self) -> Keys {
        Keys::of_setting()
    }
}

/// The agent's context at the checkpoint: whose it was, how full, and the remaining steps of its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct AgentContext {
    /// The agent whose context it was.
    pub agent_id: AgentId,
    /// The name of the agent at that time.
    pub agent: Name,
    /// The epoch of the agent's session.
    pub epoch: u64,
    /// The number of the context among those of the agent.
    pub context: u64,
    /// The fill level of the context, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<ContextUsage>,
    /// The mode that the context led to.
    pub mode: ContextMode,
    /// The technology stack that the project is built on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_id: Option<Name>,
    /// The sortie that the agent was at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sortie_id: Option<SortieId>,
    /// The remaining steps of that sortie.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaining: Vec<String>,
    /// The changes on the mission since the checkpoint before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delta_changes: Vec<DeltaChange>,
}

impl AgentContext {
    /// Returns true when both are the same context, however full each was.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.agent_id, self.epoch, self.context) == (other.agent_id, other.epoch, other.context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Triggers;

    fn gauge() -> ContextGauge {
        ContextGauge {
            agent_id: "agt-00000000-0000-4000-8000-000000000001".parse().unwrap(),
            epoch: 1,
            context: 0,
            warned_at: None,
            critical_at: None,
            owed: None,
        }
    }

    #[test]
    fn each_threshold_is_crossed_once_and_a_jump_crosses_both() {
        use Reason::{TokenCritical as Critical, TokenWarning as Warning};
        let (policy, now) = (Policy::default(), Time::from_millis(0));
        let mut gauge = gauge();
        for (percent, crossed) in [
            (74, vec![]),
            (75, vec![Warning]),
            (89, vec![]),
            (60, vec![]),
            (76, vec![]),
            (90, vec![Critical]),
            (100, vec![]),
        ] {
            assert_eq!(gauge.crosses(percent, &policy), crossed, "at {percent} %");
            gauge.cross(&crossed, now);
        }
        let mut jumping = self::gauge();
        assert_eq!(jumping.crosses(95, &policy), [Warning, Critical]);
        jumping.cross(&[Warning, Critical], now);
        assert_eq!(jumping.crosses(100, &policy), []);
    }

    #[test]
    fn what_is_switched_off_is_not_crossed() {
        use Reason::{TokenCritical as Critical, TokenWarning as Warning};
        let only = |reason| Policy {
            triggers: Triggers::of(&[reason]),
            ..Policy::default()
        };
        assert_eq!(gauge().crosses(95, &only(Warning)), [Warning]);
        assert_eq!(gauge().crosses(95, &only(Critical)), [Critical]);
        assert_eq!(gauge().crosses(80, &only(Critical)), []);
        let off = Policy {
            recovery_enabled: false,
            ..Policy::default()
        };
        assert_eq!(gauge().crosses(100, &off), []);
        // Critical at once, and the warning switched on later: that comes too late to be one.
        let mut gauge = gauge();
        gauge.cross(&[Critical], Time::from_millis(0));
        assert_eq!(gauge.crosses(96, &Policy::default()), []);
    }

    #[test]
    fn figures_are_judged_in_whole_percents_and_nonsense_is_refused() {
        let read =
            |percent, tokens| ContextUsage::read(percent, tokens).map(|it| it.map(|it| it.percent));
        for (percent, tokens, expected) in [
            (None, None, None),
            (Some(91), None, Some(91)),
            (None, Some((149_999, 200_000)), Some(74)),
            (None, Some((150_000, 200_000)), Some(75)),
            (None, Some((u64::MAX, u64::MAX)), Some(100)),
            (None, Some((300_000, 200_000)), Some(100)),
            (Some(50), Some((150_000, 200_000)), Some(50)),
        ] {
            assert_eq!(read(percent, tokens).unwrap(), expected);
        }
        for (percent, tokens) in [
            (Some(101), None),
            (None, Some((5, 0))),
            (Some(101), Some((1, 2))),
        ] {
            assert!(read(percent, tokens).is_err(), "{percent:?} {tokens:?}");
        }
    }

    #[test]
    fn a_fuller_context_leads_to_a_narrower_mode_and_never_back() {
        use ContextMode::{Minimal, Normal, Recovery};
        let minimal = Policy::default();
        let full = Policy {
            recovery_mode: RecoveryMode::Full,
            ..Policy::default()
        };
        for (before, reason, policy, after) in [
            (Normal, Reason::TokenWarning, &minimal, Minimal),
            (Normal, Reason::TokenCritical, &minimal, Recovery),
            (Minimal, Reason::TokenCritical, &minimal, Recovery),
            (Recovery, Reason::TokenWarning, &minimal, Recovery),
            (Minimal, Reason::SessionEnd, &minimal, Minimal),
            (Normal, Reason::TokenCritical, &full, Normal),
        ] {
            assert_eq!(before.after(reason, policy), after, "{before:?} {reason:?}");
        }
    }
}
