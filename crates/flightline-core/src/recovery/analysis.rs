//! Analyses whether work can go on, from where, which obstacles there are, and how to remove them. The rule is seed
//! D's; its own words for it are in [`crate::dialect::orchestrator`].

use crate::Schema;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::mission::{Mission, MissionStatus};
use crate::sortie::{Sortie, SortieStatus};

/// The state of a workflow that is done.
pub const COMPLETE: &str = "COMPLETE";
/// States of a workflow from which nothing goes on by itself.
const DEAD_ENDS: [&str; 2] = ["ERROR", "ABORTED"];

/// A unit of work, as far as the rule looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    pub name: &'a str,
    pub standing: UnitStanding,
    pub attempts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitStanding {
    Running,
    Failed,
    /// The unit waits, is done, or is left out.
    Settled,
}

/// The blockers of a resume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryObstacles<'a> {
    /// The first unit that was being worked on: work continues there, and it blocks nothing.
    pub running: Option<&'a str>,
    /// Units that failed too often to be tried again.
    pub exhausted: Vec<&'a str>,
    /// The state of the workflow, if nothing goes on from it.
    pub dead_end: Option<&'a str>,
}

impl RecoveryObstacles<'_> {
    /// Returns true when work can go on without a decision.
    pub fn can_resume(&self) -> bool {
        self.exhausted.is_empty() && self.dead_end.is_none()
    }
}

/// Finds the obstacles to work in this state, with these units.
pub fn in_the_way<'a>(
    state: Option<&'a str>,
    units: impl IntoIterator<Item = Unit<'a>>,
    retry_limit: u64,
) -> RecoveryObstacles<'a> {
    let mut found = RecoveryObstacles {
        dead_end: state.filter(|state| DEAD_ENDS.contains(state)),
        ..RecoveryObstacles::default()
    };
    for unit in units {
        match unit.standing {
            UnitStanding::Running => found.running = found.running.or(Some(unit.name)),
            UnitStanding::Failed if unit.attempts >= retry_limit => {
                found.exhausted.push(unit.name);
            }
            UnitStanding::Failed | UnitStanding::Settled => {}
        }
    }
    found
}

/// The analysis of a resume: whether the mission can be resumed, from where, the obstacles, and suggestions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Analysis {
    /// True when work can go on without a decision.
    pub can_resume: bool,
    /// The agent whose work was under way.
    pub resume_from_agent: Option<String>,
    /// The state that the mission's workflow is in.
    pub resume_from_state: Option<String>,
    /// The blockers of a resume.
    pub blockers: Vec<String>,
    /// The things to do about the blockers, with commands.
    pub suggestions: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Analyzed<'a> {
    pub mission: &'a Mission,
    pub sorties: &'a [&'a Sortie],
    pub agents: &'a [&'a Agent],
    pub when: AnalysedAt<'a>,
    /// A sortie that failed after so many attempts is not tried again.
    pub retry_limit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnalysedAt<'a> {
    /// Now, and it is the current mission.
    Now,
    /// Now, and it has to be named, like this.
    NowOf(&'a str),
    /// At the checkpoint that people name like this.
    At(&'a str),
}

impl AnalysedAt<'_> {
    fn command(self) -> String {
        match self {
            Self::Now => "fleet resume".to_owned(),
            Self::NowOf(mission) => format!("fleet resume --mission {mission}"),
            Self::At(checkpoint) => format!("fleet resume --checkpoint {checkpoint}"),
        }
    }
}

pub fn analyze(at: &Analyzed<'_>) -> Analysis {
    let workflow = &at.mission.workflow;
    let state = workflow.current.as_ref().map(|state| state.as_str());
    let ids: Vec<String> = at.sorties.iter().map(|it| it.id.to_string()).collect();
    let units = at.sorties.iter().zip(&ids).map(|(sortie, id)| Unit {
        name: id,
        standing: standing(sortie.status),
        attempts: sortie.attempts.into(),
    });
    let found = in_the_way(state, units, at.retry_limit);
    let of = |id: &str| {
        let place = ids.iter().position(|known| known == id);
        place.and_then(|place| at.sorties.get(place).copied())
    };
    let running = found.running.and_then(of);
    let exhausted: Vec<&Sortie> = found.exhausted.iter().filter_map(|id| of(id)).collect();
    let ended = matches!(
        at.mission.status,
        MissionStatus::Completed | MissionStatus::Archived
    );
    let mut blockers = Vec::new();
    if ended {
        blockers.push(format!("the mission is {}", at.mission.status.as_str()));
    }
    if let Some(sortie) = running {
        let owner = owner(sortie, at.agents).map_or_else(String::new, |it| format!(" by {it}"));
        blockers.push(format!("{} was worked on{owner}", told(sortie)));
    }
    blockers.extend(exhausted.iter().map(|it| gave_up(it)));
    blockers.extend(found.dead_end.map(stuck));
    Analysis {
        can_resume: found.can_resume() && !ended,
        resume_from_agent: running.and_then(|sortie| owner(sortie, at.agents)),
        resume_from_state: state.map(str::to_owned),
        suggestions: match ended {
            true => Vec::new(),
            false => suggestions(at, &found, &exhausted),
        },
        blockers,
    }
}

impl Analyzed<'_> {
    /// Returns the obstacles that still stop the work, in words: none when it can go on.
    pub fn stops(&self) -> Vec<String> {
        let limit = self.retry_limit;
        let exhausted = self.sorties.iter().filter(|sortie| {
            sortie.status == SortieStatus::Failed && u64::from(sortie.attempts) >= limit
        });
        let state = self.mission.workflow.current.as_ref();
        let found = in_the_way(state.map(|state| state.as_str()), [], limit);
        exhausted
            .map(|sortie| gave_up(sortie))
            .chain(found.dead_end.map(stuck))
            .collect()
    }
}

fn gave_up(sortie: &Sortie) -> String {
    let times = match sortie.attempts {
        1 => "1 attempt".to_owned(),
        times => format!("{times} attempts"),
    };
    format!("{} failed after {times}", told(sortie))
}

fn stuck(state: &str) -> String {
    format!("the workflow is in `{state}`, which has no next state")
}

fn suggestions(
    at: &Analyzed<'_>,
    found: &RecoveryObstacles<'_>,
    exhausted: &[&Sortie],
) -> Vec<String> {
    let resume = at.when.command();
    let mut suggestions = Vec::new();
    if let Some(first) = exhausted.first() {
        suggestions.push(format!("skip failed work: `{resume} --skip-failed`"));
        if !matches!(at.when, AnalysedAt::At(_)) {
            let id = first.id.to_string();
            let id = id.get(..12).unwrap_or(&id);
            suggestions.push(format!("retry it: `fleet sorties release {id}`"));
        }
    }
    if found.dead_end.is_some() {
        let workflow = &at.mission.workflow;
        let goes_on = |state: &&str| !DEAD_ENDS.contains(state);
        let before = workflow.previous.iter().map(|state| state.as_str());
        let declared = workflow.states.keys().map(|state| state.as_str());
        let state = before.chain(declared).find(goes_on).unwrap_or("STATE");
        suggestions.push(format!(
            "reset the workflow to a state that can continue: `{resume} --reset-to {state}`"
        ));
    }
    suggestions
}

/// Returns the standing of a sortie, as far as the rule looks at it.
const fn standing(status: SortieStatus) -> UnitStanding {
    match status {
        SortieStatus::InProgress => UnitStanding::Running,
        SortieStatus::Failed => UnitStanding::Failed,
        SortieStatus::Pending
        | SortieStatus::Assigned
        | SortieStatus::Blocked
        | SortieStatus::Completed
        | SortieStatus::Skipped => UnitStanding::Settled,
    }
}

fn told(sortie: &Sortie) -> String {
    let id = sortie.id.to_string();
    format!("{} (\"{}\")", id.get(..12).unwrap_or(&id), sortie.title)
}

fn owner(sortie: &Sortie, agents: &[&Agent]) -> Option<String> {
    let owner = agents.iter().find(|it| Some(it.id) == sortie.assigned_to);
    owner.map(|owner| owner.name.to_string())
}

/// Returns seed D's name for the agent of each sortie: the id that other tools know the sortie by, else its owner where
/// the owner has no other sortie, else its own id. No two names are the same.
pub fn agents_of(sorties: &[Sortie], agents: &[Agent]) -> Vec<String> {
    let agents: Vec<&Agent> = agents.iter().collect();
    let by_name = |sortie: &Sortie| {
        let task = sortie.task_id.as_ref().map(ToString::to_string);
        task.or_else(|| owner(sortie, &agents))
    };
    let names: Vec<Option<String>> = sorties.iter().map(by_name).collect();
    let is_only = |name: &&String| names.iter().flatten().filter(|it| it == name).count() == 1;
    names
        .iter()
        .zip(sorties)
        .map(|(name, sortie)| match name.as_ref().filter(is_only) {
            Some(name) => name.clone(),
            None => sortie.id.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(name: &str, standing: UnitStanding, attempts: u64) -> Unit<'_> {
        Unit {
            name,
            standing,
            attempts,
        }
    }

    #[test]
    fn work_stops_at_what_failed_too_often_and_at_dead_ends() {
        use UnitStanding::{Failed, Running, Settled};
        let units = [
            unit("planner", Settled, 9),
            unit("coder", Running, 1),
            unit("writer", Running, 1),
            unit("tester", Failed, 2),
            unit("deployer", Failed, 3),
        ];
        let found = in_the_way(Some("CODING"), units, 3);
        assert_eq!(
            (found.running, &*found.exhausted, found.dead_end),
            (Some("coder"), &["deployer"][..], None)
        );
        assert!(!found.can_resume());
        assert!(
            in_the_way(Some("CODING"), units, 4).can_resume(),
            "the limit counts"
        );
        for (state, goes_on) in [
            (None, true),
            (Some("COMPLETE"), true),
            (Some("ERROR"), false),
            (Some("ABORTED"), false),
            (Some("error"), true),
        ] {
            assert_eq!(in_the_way(state, [], 3).can_resume(), goes_on, "{state:?}");
        }
    }
}
