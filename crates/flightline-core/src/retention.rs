//! Retention: plans which checkpoints and which old values of the journal go. Pure functions from rows and `now`.

mod evidence;
mod journal;

use crate::Schema;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::checkpoint::Trigger;
use crate::id::{CheckpointId, MissionId};
use crate::time::{Millis, Time};

pub use evidence::ClockEvidence;
pub use journal::{KeptCuts, Superseded};

const DAY: Millis = 86_400_000;

/// Time for which the checkpoints of a completed mission are those of one that goes on: a mission that was completed by
/// mistake can go back to them.
pub const COMPLETED_GRACE: Millis = DAY;

/// The numbers that retention decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Retention {
    /// The age above which checkpoints go, in milliseconds.
    pub older_than_ms: Millis,
    /// The number of the newest checkpoints of a mission that stay at least.
    pub keep: u64,
    /// The number of checkpoints of a mission that stay at most.
    pub most: u64,
    /// Time for which a completed mission keeps its final checkpoint, in milliseconds.
    pub completed_ms: Millis,
    /// Time for which the journal keeps every value, in milliseconds; older values stay while a checkpoint needs them.
    /// None means as long as checkpoints are kept.
    #[serde(default)]
    pub history_ms: Option<Millis>,
    /// The action on checkpoints above `most`, and on all but the final one of a completed mission.
    #[serde(default)]
    pub surplus: Surplus,
    /// True when checkpoints of a context that was about to be lost are archived instead of deleted, and count for
    /// nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emergencies_apart: bool,
}

words! {
    /// The end of a checkpoint that is one too many, though its time is not over.
    #[derive(Default)]
    pub enum Surplus {
        /// The checkpoint is deleted.
        #[default]
        Delete = "delete",
        /// The checkpoint is archived, and goes when its time is over.
        Archive = "archive",
    }
}

impl Retention {
    /// Returns the time for which the journal keeps values that later ones have replaced.
    pub fn history(&self) -> Millis {
        self.history_ms.unwrap_or(self.older_than_ms)
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            older_than_ms: 7 * DAY,
            keep: 3,
            most: 100,
            completed_ms: 30 * DAY,
            history_ms: None,
            surplus: Surplus::default(),
            emergencies_apart: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionCandidate {
    pub id: CheckpointId,
    pub mission: MissionId,
    /// The checkpoint's place in the journal.
    pub rev: u64,
    pub at: Time,
    pub trigger: Trigger,
    pub pinned: bool,
    pub verified: bool,
    /// True when the checkpoint is archived: it counts for nothing, and goes when its time is over.
    pub archived: bool,
    /// True when the checkpoint is of a context that was about to be lost.
    pub emergency: bool,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissionCompletion {
    /// Time at which the mission was completed; none while it is not.
    pub completed_at: Option<Time>,
}

/// The checkpoints that will be deleted and archived, oldest first, and those that stay only because a guard forbids
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionPlan {
    pub delete: Vec<RetentionCandidate>,
    /// Checkpoints that are archived: one too many, and their time is not over.
    pub archive: Vec<RetentionCandidate>,
    /// Checkpoints that stay, though their time is over.
    pub guarded: Vec<(CheckpointId, Guard)>,
    /// The rule by which each checkpoint is deleted or archived.
    pub rules: BTreeMap<CheckpointId, RetentionRule>,
}

/// The reason why a checkpoint goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum RetentionRule {
    /// The checkpoint is older than checkpoints are kept.
    Old,
    /// The mission has more checkpoints than are kept.
    Surplus,
    /// The mission is completed, and keeps only its final checkpoint.
    NotFinal,
    /// The mission was completed so long ago that even the final checkpoint goes.
    LongCompleted,
}

/// The reason that forbids deleting a checkpoint whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// The checkpoint was pinned.
    Pinned,
    /// The checkpoint is the newest sound one of a mission that is not finished.
    Last,
    /// The checkpoint is one of the newest, of which so many stay.
    Minimum,
    /// The checkpoint is the final one of a completed mission, and its days are not over.
    Final,
    /// The checkpoint is damaged, and newer than the sound ones that stay.
    Damaged,
}

impl Guard {
    /// Returns the reason for keeping the checkpoint, to follow "it is".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Last => "the last of an unfinished mission",
            Self::Minimum => "among the newest that stay",
            Self::Final => "the final one of a completed mission",
            Self::Damaged => "damaged, and newer than the sound ones that stay",
        }
    }
}

/// Plans retention. Never plans to delete a pinned checkpoint, the newest verified one of a mission,
/// the verified minimum, or the last of an unfinished mission; a corrupt one does not count.
pub fn plan(
    candidates: &[RetentionCandidate],
    missions: &BTreeMap<MissionId, MissionCompletion>,
    policy: &Retention,
    now: Time,
) -> RetentionPlan {
    let mut by_mission: BTreeMap<MissionId, Vec<&RetentionCandidate>> = BTreeMap::new();
    for candidate in candidates {
        by_mission
            .entry(candidate.mission)
            .or_default()
            .push(candidate);
    }
    let mut plan = RetentionPlan::default();
    for (mission, mut all) in by_mission {
        all.sort_by_key(|candidate| std::cmp::Reverse(candidate.rev));
        let completed = missions
            .get(&mission)
            .and_then(|mission| mission.completed_at);
        plan_mission(&all, completed, policy, now, (0, 0), &mut plan);
    }
    plan.delete.sort_by_key(|candidate| candidate.rev);
    plan.archive.sort_by_key(|candidate| candidate.rev);
    plan
}

/// Dates no checkpoint earlier than one that was taken before it: a date of a clock that was behind becomes as young as
/// the one before. Dates that lie in the future say nothing of the checkpoints after them.
pub fn mind_the_order(candidates: &mut [RetentionCandidate], now: Time) {
    candidates.sort_by_key(|candidate| candidate.rev);
    let mut newest = Time::from_millis(i64::MIN);
    for candidate in candidates {
        if candidate.at <= now {
            newest = newest.max(candidate.at);
            candidate.at = newest;
        }
    }
}

/// Returns the guards of a mission's checkpoints that stay though their time is over. The fate of a checkpoint depends on
/// newer ones alone: of those that are not given, it is enough to know how many there are, and how many of them are sound.
pub fn guards(
    candidates: &[RetentionCandidate],
    mission: MissionCompletion,
    policy: &Retention,
    now: Time,
    newer: (u64, u64),
) -> BTreeMap<CheckpointId, Guard> {
    let mut all: Vec<&RetentionCandidate> = candidates.iter().collect();
    all.sort_by_key(|candidate| std::cmp::Reverse(candidate.rev));
    let mut plan = RetentionPlan::default();
    plan_mission(&all, mission.completed_at, policy, now, newer, &mut plan);
    plan.guarded.into_iter().collect()
}

/// Plans retention for one mission; `all` is newest first, after so many that stay, and so many of those that are sound.
fn plan_mission(
    all: &[&RetentionCandidate],
    completed: Option<Time>,
    policy: &Retention,
    now: Time,
    newer: (u64, u64),
    plan: &mut RetentionPlan,
) {
    let finished = completed.is_some_and(|at| now.since(at) > COMPLETED_GRACE);
    // A completed mission's minimum is its final checkpoint, and ends some time after completion.
    let over = completed.is_some_and(|at| now.since(at) > policy.completed_ms);
    let minimum = match (finished, over) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => policy.keep.max(1),
    };
    let apart = |candidate: &RetentionCandidate| policy.emergencies_apart && candidate.emergency;
    let (mut kept, mut verified_kept) = newer;
    let (archived, all): (Vec<&RetentionCandidate>, Vec<&RetentionCandidate>) =
        all.iter().partition(|candidate| candidate.archived);
    for candidate in all {
        let old = now.since(candidate.at) > policy.older_than_ms;
        let spare = finished && kept >= minimum;
        let wanted = kept >= policy.most || old || spare || over;
        let guarded = candidate.pinned || (candidate.verified && verified_kept < minimum);
        if wanted && !guarded && (candidate.verified || verified_kept >= minimum || over) {
            // A damaged one is not worth keeping aside: the mark that says so would be lost.
            let surplus = policy.surplus == Surplus::Archive && !old && !over;
            let aside = candidate.verified && (surplus || apart(candidate));
            let list = match aside {
                true => &mut plan.archive,
                false => &mut plan.delete,
            };
            list.push((*candidate).clone());
            let rule = match (over, old) {
                (true, _) => RetentionRule::LongCompleted,
                (false, true) => RetentionRule::Old,
                (false, false) if kept >= policy.most => RetentionRule::Surplus,
                (false, false) => RetentionRule::NotFinal,
            };
            plan.rules.insert(candidate.id, rule);
            continue;
        }
        if wanted {
            let guard = match (candidate.pinned, candidate.verified, completed) {
                (true, ..) => Guard::Pinned,
                (false, false, _) => Guard::Damaged,
                (false, true, _) if verified_kept > 0 => Guard::Minimum,
                (false, true, Some(_)) => Guard::Final,
                (false, true, None) => Guard::Last,
            };
            plan.guarded.push((candidate.id, guard));
        }
        kept += u64::from(!apart(candidate));
        verified_kept += u64::from(candidate.verified);
    }
    // Archived ones go when their time is over, but for those that are all there is.
    for candidate in archived {
        let old = now.since(candidate.at) > policy.older_than_ms;
        let needed = candidate.verified && verified_kept < minimum;
        verified_kept += u64::from(needed);
        if old && !needed && !candidate.pinned && !apart(candidate) {
            plan.rules.insert(candidate.id, RetentionRule::Old);
            plan.delete.push(candidate.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::subject::Kind;

    fn mission(number: u128) -> MissionId {
        MissionId::new(Uuid::from_u128(number))
    }

    fn candidate(number: u64, age_days: u64, now: Time) -> RetentionCandidate {
        RetentionCandidate {
            id: CheckpointId::new(Uuid::from_u128(u128::from(number))),
            mission: mission(1),
            rev: number,
            at: now.minus(age_days * DAY),
            trigger: Trigger::Progress,
            pinned: false,
            verified: true,
            archived: false,
            emergency: false,
            bytes: 100,
        }
    }

    fn deleted(candidates: &[RetentionCandidate], completed: Option<Time>, now: Time) -> Vec<u64> {
        let missions = BTreeMap::from([(
            mission(1),
            MissionCompletion {
                completed_at: completed,
            },
        )]);
        plan(candidates, &missions, &Retention::default(), now)
            .delete
            .iter()
            .map(|candidate| candidate.rev)
            .collect()
    }

    #[test]
    fn older_than_seven_days_goes_but_three_stay() {
        let now = Time::from_millis(0).plus(1000 * DAY);
        let all: Vec<RetentionCandidate> = (1..=6).map(|n| candidate(n, 20 - n, now)).collect();
        assert_eq!(deleted(&all, None, now), [1, 2, 3]);
        let young: Vec<RetentionCandidate> = (1..=6).map(|n| candidate(n, 6, now)).collect();
        assert_eq!(deleted(&young, None, now), [] as [u64; 0]);
    }

    #[test]
    fn what_a_clock_that_was_behind_has_dated_is_as_young_as_what_came_before() {
        let now = Time::from_millis(0).plus(20_000 * DAY);
        let mut all: Vec<RetentionCandidate> = (1..=6).map(|n| candidate(n, 1, now)).collect();
        all[2].at = Time::from_millis(0);
        all[3].at = now.plus(9_000 * DAY);
        assert_eq!(deleted(&all, None, now), [3]);
        mind_the_order(&mut all, now);
        assert_eq!(deleted(&all, None, now), [] as [u64; 0]);
        assert_eq!(deleted(&all, None, now.plus(8 * DAY)), [1, 2, 3]);
    }

    #[test]
    fn a_completed_mission_keeps_its_final_checkpoint_for_thirty_days() {
        let now = Time::from_millis(0).plus(1000 * DAY);
        let all: Vec<RetentionCandidate> = (1..=4).map(|n| candidate(n, 2, now)).collect();
        let done = |days: u64| Some(now.minus(days * DAY));
        assert_eq!(
            deleted(&all, done(1), now),
            [] as [u64; 0],
            "somebody may think again"
        );
        assert_eq!(deleted(&all, done(2), now), [1, 2, 3]);
        assert_eq!(deleted(&all, Some(now.minus(31 * DAY)), now), [1, 2, 3, 4]);
    }

    #[test]
    fn at_most_a_hundred_stay() {
        let now = Time::from_millis(0).plus(1000 * DAY);
        let all: Vec<RetentionCandidate> = (1..=130).map(|n| candidate(n, 0, now)).collect();
        assert_eq!(deleted(&all, None, now), (1..=30).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_one_too_many_is_archived_where_the_policy_says_so_and_goes_in_its_time() {
        let now = Time::from_millis(0).plus(1000 * DAY);
        let policy = Retention {
            older_than_ms: 30 * DAY,
            most: 50,
            surplus: Surplus::Archive,
            ..Retention::default()
        };
        let planned = |all: &[RetentionCandidate], completed: Option<Time>| {
            let missions = BTreeMap::from([(
                mission(1),
                MissionCompletion {
                    completed_at: completed,
                },
            )]);
            let plan = plan(all, &missions, &policy, now);
            let revs =
                |list: &[RetentionCandidate]| list.iter().map(|it| it.rev).collect::<Vec<_>>();
            (revs(&plan.archive), revs(&plan.delete))
        };
        let mut all: Vec<RetentionCandidate> = (1..=55).map(|n| candidate(n, 2, now)).collect();
        assert_eq!(planned(&all, None), (vec![1, 2, 3, 4, 5], vec![]));
        all[1].pinned = true;
        all[2].verified = false;
        assert_eq!(
            planned(&all, None),
            (vec![1, 4, 5], vec![3]),
            "guarded, and damaged"
        );
        all[1].pinned = false;
        all[2].verified = true;
        for one in &mut all[..5] {
            one.archived = true;
        }
        assert_eq!(
            planned(&all, None),
            (vec![], vec![]),
            "archived ones do not count"
        );
        all[0].at = now.minus(31 * DAY);
        all[1].at = now.minus(31 * DAY);
        all[1].pinned = true;
        assert_eq!(
            planned(&all, None),
            (vec![], vec![1]),
            "pinned ones stay all the same"
        );
        let done = Some(now.minus(2 * DAY));
        let (archived, deleted) = planned(&all, done);
        assert_eq!(
            (archived.len(), deleted),
            (49, vec![1]),
            "only the final one stays in lists"
        );
        // All checkpoints were archived by a person: the minimum of them stays.
        let mut old: Vec<RetentionCandidate> = (1..=5).map(|n| candidate(n, 40, now)).collect();
        old.iter_mut().for_each(|one| one.archived = true);
        assert_eq!(planned(&old, None), (vec![], vec![1, 2]));
    }

    #[test]
    fn emergencies_are_put_apart_and_neither_count_nor_go() {
        let now = Time::from_millis(0).plus(1000 * DAY);
        let policy = crate::policy::Preset::Recovery.policy().retention;
        let planned = |all: &[RetentionCandidate]| {
            let missions = BTreeMap::from([(mission(1), MissionCompletion { completed_at: None })]);
            let plan = plan(all, &missions, &policy, now);
            let revs =
                |list: &[RetentionCandidate]| list.iter().map(|it| it.rev).collect::<Vec<_>>();
            (revs(&plan.archive), revs(&plan.delete))
        };
        // The latest and five more stay, and what is older than a week goes.
        let mut all: Vec<RetentionCandidate> = (1..=10).map(|n| candidate(n, 1, now)).collect();
        assert_eq!(planned(&all), (vec![], vec![1, 2, 3, 4]));
        all[9].at = now.minus(8 * DAY);
        assert_eq!(
            planned(&all),
            (vec![], vec![1, 2, 3, 4]),
            "the latest stays"
        );
        for one in &mut all {
            one.at = now.minus(8 * DAY);
        }
        assert_eq!(planned(&all).1, (1..=9).collect::<Vec<_>>());
        // Three emergencies among them: archived once they are a week old, and not counted before.
        let mut all: Vec<RetentionCandidate> = (1..=10).map(|n| candidate(n, 1, now)).collect();
        for one in &mut all[4..7] {
            one.emergency = true;
        }
        assert_eq!(planned(&all), (vec![], vec![1]));
        for one in &mut all[4..7] {
            one.at = now.minus(8 * DAY);
        }
        assert_eq!(planned(&all), (vec![5, 6, 7], vec![1]));
        for one in &mut all[4..7] {
            one.archived = true;
        }
        assert_eq!(planned(&all), (vec![], vec![1]), "and there they stay");
        all[9].emergency = true;
        all[9].at = now.minus(8 * DAY);
        assert_eq!(
            planned(&all),
            (vec![], vec![]),
            "the latest, whatever it is"
        );
    }

    #[test]
    fn corrupt_ones_do_not_count_towards_the_minimum_and_pinned_ones_stay() {
        let now = Time::from_millis(0).plus(1000 * DAY);
        let mut all: Vec<RetentionCandidate> = (1..=6).map(|n| candidate(n, 20, now)).collect();
        all[5].verified = false;
        all[0].pinned = true;
        // 6 is corrupt: 5, 4 and 3 are the verified minimum; 1 is pinned; 2 goes.
        let gone = deleted(&all, None, now);
        assert!(
            gone.contains(&2) && !gone.contains(&1) && !gone.contains(&3),
            "{gone:?}"
        );
    }

    fn value(kind: Kind, mission: Option<MissionId>, rev: u64, next: u64) -> Superseded {
        Superseded {
            rev,
            next,
            kind,
            mission,
            bytes: 1,
        }
    }

    #[test]
    fn a_checkpoint_needs_what_was_so_when_it_was_taken_and_nothing_else() {
        let mut kept = KeptCuts::default();
        kept.add(mission(1), 10);
        for (rev, next, needed) in [
            (1, 10, false),
            (1, 11, true),
            (10, 11, true),
            (11, 12, false),
        ] {
            let value = value(Kind::Sortie, Some(mission(1)), rev, next);
            assert_eq!(kept.need(&value), needed, "{rev} to {next}");
        }
    }

    #[test]
    fn a_checkpoint_includes_its_mission_and_the_projects_agents_and_locks() {
        let mut kept = KeptCuts::default();
        kept.add(mission(1), 10);
        for (kind, of, needed) in [
            (Kind::Sortie, Some(mission(1)), true),
            (Kind::Sortie, Some(mission(2)), false),
            (Kind::Lock, Some(mission(2)), false),
            (Kind::Lock, None, true),
            (Kind::Agent, None, true),
            (Kind::Step, None, true),
            (Kind::Message, None, false),
            (Kind::Checkpoint, Some(mission(1)), false),
            (Kind::Briefing, Some(mission(1)), false),
            (Kind::Setting, None, false),
        ] {
            assert_eq!(kept.need(&value(kind, of, 5, 20)), needed, "{kind} {of:?}");
        }
    }

    #[test]
    fn what_stays_though_its_time_is_over_is_named_with_what_guards_it() {
        let now = Time::from_millis(0).plus(1000 * DAY);
        let mut all: Vec<RetentionCandidate> = (1..=6).map(|n| candidate(n, 20, now)).collect();
        all[0].pinned = true;
        all[5].verified = false;
        let guards = |all: &[RetentionCandidate], completed: Option<Time>| {
            let missions = BTreeMap::from([(
                mission(1),
                MissionCompletion {
                    completed_at: completed,
                },
            )]);
            let plan = plan(all, &missions, &Retention::default(), now);
            plan.guarded
                .into_iter()
                .map(|(_, guard)| guard)
                .collect::<Vec<_>>()
        };
        use Guard::{Damaged, Final, Last, Minimum, Pinned};
        assert_eq!(
            guards(&all, None),
            [Damaged, Last, Minimum, Minimum, Pinned]
        );
        all[5].verified = true;
        assert_eq!(guards(&all, Some(now.minus(2 * DAY))), [Final, Pinned]);
        assert_eq!(guards(&all, Some(now.minus(40 * DAY))), [Pinned]);
        let young: Vec<RetentionCandidate> = (1..=6).map(|n| candidate(n, 6, now)).collect();
        assert_eq!(guards(&young, None), [], "their time is not over");
    }

    proptest! {
        #[test]
        fn whatever_the_clock_says_the_newest_verified_and_the_minimum_stay(
            ages in prop::collection::vec(0u64..4000, 1..60),
            bad in prop::collection::vec(any::<bool>(), 60),
            ahead in 0u64..4000,
        ) {
            let now = Time::from_millis(0).plus(9000 * DAY);
            let all: Vec<RetentionCandidate> = ages.iter().enumerate().map(|(at, age)| {
                let mut one = candidate(at as u64 + 1, *age, now);
                one.verified = !bad[at];
                one
            }).collect();
            let gone = deleted(&all, None, now.plus(ahead * DAY));
            let kept_verified = all.iter().filter(|one| one.verified && !gone.contains(&one.rev)).count();
            let verified = all.iter().filter(|one| one.verified).count();
            prop_assert!(kept_verified >= verified.min(3));
            if let Some(newest) = all.iter().filter(|one| one.verified).max_by_key(|one| one.rev) {
                prop_assert!(!gone.contains(&newest.rev));
            }
            prop_assert!(gone.len() < all.len(), "an unfinished mission keeps its last");
        }
    }
}
