//! Missions: objectives of the fleet, their workflows and their progress.

use crate::Schema;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Refusal};
use crate::id::{AgentId, MissionId};
use crate::subject::{Keys, Kind, Subject};
use crate::text::{Name, NoteText, Title};
use crate::time::Time;

/// An objective of the fleet, divided into sorties.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Mission {
    /// The mission's id.
    pub id: MissionId,
    /// The title of the mission.
    pub title: Title,
    /// The state to be reached at the end of the mission.
    pub objective: Option<NoteText>,
    /// The status of the mission.
    pub status: MissionStatus,
    /// The phase that the mission is in, in the project's own words.
    pub phase: Option<Title>,
    /// The mission's state machine, when it has one.
    pub workflow: Workflow,
    /// The technology stack that the mission belongs to.
    pub stack_id: Option<Name>,
    /// The sprint that the mission belongs to.
    pub sprint: Option<Title>,
    /// The agent that coordinates the mission, and gets its reports.
    pub dispatch: Option<AgentId>,
    /// The timeline that the mission is on; one more at each rewind.
    pub timeline: u32,
    /// Time at which the mission was created.
    pub created_at: Time,
    /// Time of the last change of the mission's record.
    pub updated_at: Time,
    /// Time at which work on the mission began.
    pub started_at: Option<Time>,
    /// Time at which the mission was completed or failed.
    pub completed_at: Option<Time>,
    /// The reason why the mission was paused, failed or archived.
    pub reason: Option<NoteText>,
    /// True when the order of the mission's sorties was changed since they were added.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reordered: bool,
    /// The actors that may pin constraints on the mission.
    #[serde(default, skip_serializing_if = "Pinning::is_everyone")]
    pub constraints_by: Pinning,
}

impl Mission {
    /// The record of a mission that has not begun yet.
    pub fn new(id: MissionId, title: Title, now: Time) -> Self {
        Self {
            id,
            title,
            objective: None,
            status: MissionStatus::Pending,
            phase: None,
            workflow: Workflow::default(),
            stack_id: None,
            sprint: None,
            dispatch: None,
            timeline: 0,
            created_at: now,
            updated_at: now,
            started_at: None,
            completed_at: None,
            reason: None,
            reordered: false,
            constraints_by: Pinning::default(),
        }
    }
}

/// The actors that may pin constraints, which bind every agent on a mission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum Pinning {
    /// Every agent, dispatch and people may pin constraints.
    #[default]
    Everyone,
    /// Only dispatch and people may pin constraints.
    Dispatch,
}

impl Pinning {
    pub fn is_everyone(&self) -> bool {
        *self == Self::Everyone
    }
}

/// A declared state machine and the mission's place in it. Its history is in the events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
pub struct Workflow {
    /// The state that the workflow is in.
    pub current: Option<Name>,
    /// The state that the workflow came from.
    pub previous: Option<Name>,
    /// Time at which the workflow entered the current state.
    pub entered_at: Option<Time>,
    /// The declared states, each with those that may follow; empty when any state may follow any other.
    pub states: BTreeMap<Name, Vec<Name>>,
    /// Transitions that were asked for and wait for something.
    pub pending: Vec<Name>,
}

impl Workflow {
    /// Refuses a move of the workflow to `to` that is not allowed. The refusal says which states may follow.
    pub fn check(&self, to: &Name) -> Result<(), Refusal> {
        if self.states.is_empty() {
            return Ok(());
        }
        if !self.states.contains_key(to) {
            let known: Vec<&str> = self.states.keys().map(Name::as_str).collect();
            return Err(Refusal::new(
                Code::IllegalTransition,
                format!("`{to}` is not a declared state"),
            )
            .hint(format!("declared states: {}", known.join(", "))));
        }
        let Some(current) = &self.current else {
            return Ok(());
        };
        let next = self.states.get(current).map_or(&[][..], Vec::as_slice);
        if next.contains(to) {
            return Ok(());
        }
        let legal: Vec<&str> = next.iter().map(Name::as_str).collect();
        let legal = if legal.is_empty() {
            "none".to_owned()
        } else {
            legal.join(", ")
        };
        Err(Refusal::new(
            Code::IllegalTransition,
            format!("`{to}` cannot follow `{current}`"),
        )
        .hint(format!("after `{current}` may come: {legal}")))
    }
}

impl Workflow {
    /// Refuses to set the workflow back to `to`, unless that is a declared state, or one of those it `was_in` where
    /// none is declared. Transitions that are declared do not count: a reset is a decision, not a move. The refusal
    /// says which states there are.
    pub fn check_reset(&self, to: &Name, was_in: &[String]) -> Result<(), Refusal> {
        let (mut known, what) = match self.states.is_empty() {
            true => (was_in.to_vec(), "a state that the workflow was in"),
            false => (
                self.states.keys().map(ToString::to_string).collect(),
                "a declared state",
            ),
        };
        known.sort();
        known.dedup();
        if known.iter().any(|state| state == to.as_str()) {
            return Ok(());
        }
        if known.is_empty() {
            return Err(Refusal::new(
                Code::IllegalTransition,
                format!("the workflow cannot be set back to `{to}`: the mission has none"),
            )
            .hint("resume without `--reset-to`"));
        }
        let which = if self.states.is_empty() {
            "states so far"
        } else {
            "declared states"
        };
        Err(
            Refusal::new(Code::IllegalTransition, format!("`{to}` is not {what}"))
                .hint(format!("{which}: {}", known.join(", "))),
        )
    }

    /// Moves the workflow to `to`.
    pub fn enter(&mut self, to: Name, now: Time) {
        self.pending.retain(|state| *state != to);
        self.previous = self.current.replace(to);
        self.entered_at = Some(now);
    }
}

words! {
    /// The status of a mission.
    pub enum MissionStatus {
        /// The mission is planned, and nothing was begun.
        Pending = "pending",
        /// The mission is being worked on.
        InProgress = "in_progress",
        /// The mission is put aside for now.
        Paused = "paused",
        /// All work on the mission is done.
        Completed = "completed",
        /// The mission was given up.
        Failed = "failed",
        /// The mission is out of the way, and kept.
        Archived = "archived",
    }
}

impl MissionStatus {
    #[must_use]
    pub const fn next(self) -> &'static [Self] {
        use MissionStatus::{Archived, Completed, Failed, InProgress, Paused};
        match self {
            Self::Pending => &[InProgress, Failed, Archived],
            Self::InProgress => &[Paused, Completed, Failed, Archived],
            Self::Paused => &[InProgress, Completed, Failed, Archived],
            Self::Completed => &[Archived],
            Self::Failed => &[InProgress, Archived],
            Self::Archived => &[],
        }
    }

    /// Returns true when work on the mission may still happen.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::InProgress | Self::Paused)
    }
}

/// The progress of a mission: sorties completed of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Progress {
    /// The number of completed sorties.
    pub completed: u64,
    /// The number of all sorties.
    pub total: u64,
}

impl Progress {
    /// Returns the percentage to show: rounded, but 100 only when everything is complete.
    pub fn percent(self) -> u8 {
        if self.total == 0 {
            return 0;
        }
        if self.completed >= self.total {
            return 100;
        }
        let rounded = (self.completed * 200 + self.total) / (self.total * 2);
        u8::try_from(rounded.min(99)).unwrap_or(99)
    }

    /// Returns true when `percent` has been reached, judged in integers.
    pub const fn reached(self, percent: u64) -> bool {
        self.total > 0 && self.completed * 100 >= percent * self.total
    }
}

impl Subject for Mission {
    const KIND: Kind = Kind::Mission;

    fn key(&self) -> String {
        self.id.to_string()
    }

    fn keys(&self) -> Keys {
        Keys {
            mission: Some(self.id),
            agent: self.dispatch,
            name: Some(self.title.to_string()),
            status: self.status.as_str(),
            ..Keys::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shown_progress_rounds_but_is_honest_at_the_end() {
        for (completed, total, percent) in [
            (0, 0, 0),
            (0, 4, 0),
            (1, 4, 25),
            (1, 3, 33),
            (2, 3, 67),
            (199, 200, 99),
            (999, 1000, 99),
            (4, 4, 100),
        ] {
            assert_eq!(
                Progress { completed, total }.percent(),
                percent,
                "{completed}/{total}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_milestone_is_reached_exactly_when_the_fraction_says_so(total in 1u64..5000, share in 0.0f64..=1.0, percent in 1u64..=100) {
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
            let completed = (total as f64 * share) as u64;
            let progress = Progress { completed, total };
            prop_assert_eq!(progress.reached(percent), u128::from(completed) * 100 >= u128::from(percent) * u128::from(total));
            prop_assert_eq!(progress.percent() == 100, completed == total);
        }

        #[test]
        fn no_status_follows_itself_and_archived_is_final(index in 0usize..6) {
            let all = [MissionStatus::Pending, MissionStatus::InProgress, MissionStatus::Paused,
                       MissionStatus::Completed, MissionStatus::Failed, MissionStatus::Archived];
            prop_assert!(!all[index].next().contains(&all[index]));
            prop_assert!(MissionStatus::Archived.next().is_empty());
        }
    }

    #[test]
    fn a_workflow_says_what_may_follow() {
        let name = |text: &str| Name::parse("state", text).unwrap();
        let workflow = Workflow {
            current: Some(name("planning")),
            states: BTreeMap::from([
                (name("planning"), vec![name("implementing")]),
                (name("implementing"), vec![name("done")]),
                (name("done"), vec![]),
            ]),
            ..Workflow::default()
        };
        assert!(workflow.check(&name("implementing")).is_ok());
        let refusal = workflow.check(&name("done")).unwrap_err();
        assert_eq!(
            refusal.hint.unwrap(),
            "after `planning` may come: implementing"
        );
        assert!(workflow.check(&name("nowhere")).is_err());
    }
}
