//! Policy: the numbers and switches Flightline decides by. Every one has a name in `config.toml`, and each
//! seed's are a preset.

mod knob;
mod preset;

use crate::Schema;
use serde::{Deserialize, Serialize};

pub use knob::{Knob, KnobType, knobs};
pub use preset::Preset;

use crate::checkpoint::Reason;
use crate::dialect::Dialect;
use crate::dialect::compress::Compression;
use crate::retention::Retention;
use crate::text::Name;
use crate::time::Millis;

/// The numbers and switches that Flightline decides by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Policy {
    /// The preset whose numbers these are, where no setting says otherwise.
    pub preset: Preset,
    /// Silence after which an agent is quiet and a mission a candidate for recovery, in milliseconds.
    pub quiet_ms: Millis,
    /// Silence after which an agent needs a warning, in milliseconds.
    pub warning_ms: Millis,
    /// Silence after which an agent is stalled, in milliseconds.
    pub stalled_ms: Millis,
    /// The interval at which an agent is expected to give a sign of life, in milliseconds.
    pub heartbeat_ms: Millis,
    /// Time after its holder's last sign of life at which a lock lapses, in milliseconds, unless the lock was taken
    /// with a time of its own.
    pub lock_ttl_ms: Millis,
    /// Time without a write by any process after which Flightline itself may have been asleep, in milliseconds: silence
    /// before that moment proves nothing.
    pub downtime_ms: Millis,
    /// The percentages at which a mission gets a checkpoint when it first reaches them.
    pub milestones: [u8; 3],
    /// The reasons for which checkpoints are taken.
    pub triggers: Triggers,
    /// Time between the checkpoints of a mission that changed, in milliseconds, with the trigger `interval`.
    pub interval_ms: Millis,
    /// The number of lines above which a change of a file is significant.
    pub significant_lines: u64,
    /// True when an error that is reported takes a checkpoint even when work can go on.
    pub every_error: bool,
    /// True when progress of a sortie is posted to the mailbox of its mission's dispatch.
    pub progress_mail: bool,
    /// True when a file that a coding agent edits is locked by its hook.
    #[serde(default = "yes")]
    pub lock_edits: bool,
    /// True when tasks that need a decision are found beside missions: a lost session, open errors, unmet criteria.
    pub find_tasks: bool,
    /// The percentage at which a context is full enough to be saved.
    pub token_warning: u8,
    /// The percentage at which a context is about to be lost.
    pub token_critical: u8,
    /// The age above which a checkpoint is not resumed from by itself, in milliseconds.
    pub valid_ms: Millis,
    /// The destructive operations: a checkpoint is taken before each.
    pub destructive: Vec<Name>,
    /// The number of attempts after which a failed sortie blocks a resume, until a decision is made.
    pub retry_limit: u64,
    /// True when a resume is refused while a blocker needs a decision.
    pub strict: bool,
    /// True when a mission that needs recovery is resumed without asking, where there is no terminal to ask on.
    pub auto_resume: bool,
    /// The other systems whose files are kept up to date.
    #[serde(default)]
    pub mirrors: Mirrored,
    /// The compression of those files, where their system can read it.
    #[serde(default)]
    pub mirror_compression: Compression,
    /// True when full contexts and ending sessions are minded at all.
    pub recovery_enabled: bool,
    /// The effect of a full context.
    pub recovery_mode: RecoveryMode,
    /// The stack that the project is built on, unless a mission says otherwise.
    #[serde(default)]
    pub stack_id: Option<Name>,
    /// The rules for deleting and archiving checkpoints.
    pub retention: Retention,
}

fn yes() -> bool {
    true
}

words! {
    /// The effect of a full context.
    #[derive(Default)]
    pub enum RecoveryMode {
        /// The agent is given only what is required until its task is complete.
        #[default]
        Minimal = "minimal",
        /// A checkpoint is taken, and nothing else is done.
        Full = "full",
    }
}

impl Default for Policy {
    fn default() -> Self {
        Preset::Fleet.policy()
    }
}

impl Policy {
    /// Returns true when people and agents are spoken to in a dialect's words: only under the preset of its system. It
    /// is not enough that the dialect's files are kept.
    pub fn speaks(&self, dialect: Dialect) -> bool {
        self.preset.mirror() == Some(dialect)
    }
}

/// A set of reasons for which checkpoints are taken. A requested checkpoint is always taken, and so is the one that a rewind
/// needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(into = "Vec<Reason>", from = "Vec<Reason>")]
#[schemars(with = "Vec<Reason>")]
pub struct Triggers(u32);

impl Triggers {
    pub fn of(reasons: &[Reason]) -> Self {
        let mut set = Self::default();
        for reason in reasons {
            set.switch(*reason, true);
        }
        set
    }

    pub fn has(self, reason: Reason) -> bool {
        !is_switchable(reason) || self.0 & bit(reason) != 0
    }

    pub fn switch(&mut self, reason: Reason, on: bool) {
        if on {
            self.0 |= bit(reason);
        } else {
            self.0 &= !bit(reason);
        }
    }
}

impl From<Vec<Reason>> for Triggers {
    fn from(reasons: Vec<Reason>) -> Self {
        Self::of(&reasons)
    }
}

impl From<Triggers> for Vec<Reason> {
    fn from(triggers: Triggers) -> Self {
        let all = Reason::ALL.iter().copied();
        all.filter(|reason| triggers.has(*reason)).collect()
    }
}

/// A set of dialects whose files are kept up to date beside the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(into = "Vec<Dialect>", from = "Vec<Dialect>")]
#[schemars(with = "Vec<Dialect>")]
pub struct Mirrored(u8);

impl Mirrored {
    pub fn of(dialects: &[Dialect]) -> Self {
        let mut set = Self::default();
        for dialect in dialects {
            set.switch(*dialect, true);
        }
        set
    }

    pub fn dialects(self) -> Vec<Dialect> {
        let all = Dialect::ALL.into_iter();
        all.filter(|dialect| self.has(*dialect)).collect()
    }

    pub const fn has(self, dialect: Dialect) -> bool {
        self.0 & (1 << dialect as u8) != 0
    }

    pub const fn switch(&mut self, dialect: Dialect, on: bool) {
        if on {
            self.0 |= 1 << dialect as u8;
        } else {
            self.0 &= !(1 << dialect as u8);
        }
    }
}

impl From<Vec<Dialect>> for Mirrored {
    fn from(dialects: Vec<Dialect>) -> Self {
        Self::of(&dialects)
    }
}

impl From<Mirrored> for Vec<Dialect> {
    fn from(mirrored: Mirrored) -> Self {
        mirrored.dialects()
    }
}

/// Returns true when a reason can be switched off. A request cannot, nor can the reasons that make an undo possible,
/// nor the one that tells the files how things went on.
pub fn is_switchable(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::Manual | Reason::BeforeRestore | Reason::AfterRestore | Reason::MissionEnded
    )
}

// A set of reasons has a bit for each.
const _: () = assert!(Reason::ALL.len() <= 32);

fn bit(reason: Reason) -> u32 {
    let at = Reason::ALL.iter().position(|known| *known == reason);
    at.map_or(0, |at| 1 << at)
}

impl Policy {
    /// Checks that the numbers make sense together. The error says which two do not.
    pub fn check(&self) -> Result<(), String> {
        if self.quiet_ms > self.warning_ms || self.warning_ms >= self.stalled_ms {
            return Err(
                "`liveness.quiet` must not be longer than `liveness.warning`, and that must be shorter than `liveness.stalled`"
                    .to_owned(),
            );
        }
        if self.token_warning >= self.token_critical {
            return Err("`tokens.warning` must be below `tokens.critical`".to_owned());
        }
        if self.retention.keep > self.retention.most {
            return Err("`retention.keep` must not be above `retention.most`".to_owned());
        }
        Ok(())
    }

    /// Returns the reason why no checkpoint is taken before an operation; none when one is taken.
    pub fn unguarded(&self, operation: &Name) -> Option<String> {
        if !self.triggers.has(Reason::BeforeDestructive) {
            return Some("`triggers.before_destructive` is off".to_owned());
        }
        if self.destructive.contains(operation) {
            return None;
        }
        let known: Vec<&str> = self.destructive.iter().map(Name::as_str).collect();
        Some(format!(
            "`{operation}` is not among the destructive operations ({})",
            match known.is_empty() {
                true => "there is none".to_owned(),
                false => known.join(", "),
            }
        ))
    }

    /// Returns true when a context that is full or ends leads to a checkpoint for this reason.
    pub fn saves_context_for(&self, reason: Reason) -> bool {
        self.recovery_enabled && self.triggers.has(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Trigger;
    use crate::dialect::orchestrator;
    use crate::retention::Surplus;

    #[test]
    fn what_is_destructive_is_said_and_can_be_changed() {
        let name = |text: &str| Name::parse("operation", text).unwrap();
        let mut policy = Policy::default();
        assert_eq!(policy.unguarded(&name("git_push")), None);
        assert_eq!(
            policy.unguarded(&name("git_pull")).unwrap(),
            "`git_pull` is not among the destructive operations (git_push, git_force_push, file_delete, database_migrate, deploy, publish)"
        );
        let all = knobs();
        let knob = all
            .iter()
            .find(|knob| knob.name == "checkpoints.destructive")
            .unwrap();
        (knob.set)(&mut policy, None, "git_pull, drop_table").unwrap();
        assert_eq!((knob.get)(&policy, None), "git_pull,drop_table");
        assert!(policy.unguarded(&name("git_pull")).is_none());
        assert!(policy.unguarded(&name("git_push")).is_some());
        assert!((knob.set)(&mut policy, None, "git push").is_err());
        (knob.set)(&mut policy, None, "").unwrap();
        assert_eq!(
            policy.unguarded(&name("deploy")).unwrap(),
            "`deploy` is not among the destructive operations (there is none)"
        );
        policy.triggers.switch(Reason::BeforeDestructive, false);
        assert_eq!(
            policy.unguarded(&name("deploy")).unwrap(),
            "`triggers.before_destructive` is off"
        );
    }

    #[test]
    fn every_preset_makes_sense_and_has_its_own_word() {
        for preset in Preset::ALL {
            let policy = preset.policy();
            policy.check().unwrap();
            assert_eq!(
                (policy.preset, Preset::from_word(preset.as_str())),
                (preset, Some(preset))
            );
        }
        assert_eq!(Policy::default().preset, Preset::Fleet);
    }

    #[test]
    fn every_setting_reads_back_what_it_shows() {
        for preset in Preset::ALL {
            for knob in knobs() {
                let mut policy = preset.policy();
                let shown = (knob.get)(&policy, knob.reason);
                (knob.set)(&mut policy, knob.reason, &shown).unwrap();
                assert_eq!(
                    (knob.get)(&policy, knob.reason),
                    shown,
                    "{} of {}",
                    knob.name,
                    preset.as_str()
                );
            }
        }
    }

    #[test]
    fn what_somebody_asks_for_cannot_be_switched_off() {
        let policy = Policy {
            triggers: Triggers::default(),
            ..Policy::default()
        };
        assert!(policy.triggers.has(Reason::Manual) && policy.triggers.has(Reason::BeforeRestore));
        let mut errors = Reason::ALL
            .iter()
            .filter(|reason| reason.trigger() == Trigger::Error);
        assert!(!policy.triggers.has(Reason::Milestone));
        assert!(errors.all(|reason| !policy.triggers.has(*reason)));
        assert!(!knobs().iter().any(|knob| knob.name == "triggers.manual"));
    }

    #[test]
    fn a_dialect_is_spoken_under_its_own_preset_only() {
        for preset in Preset::ALL {
            let policy = Policy {
                mirrors: Mirrored::of(&Dialect::ALL),
                ..preset.policy()
            };
            let spoken = Dialect::ALL.into_iter().filter(|it| policy.speaks(*it));
            assert_eq!(
                spoken.collect::<Vec<_>>(),
                Vec::from_iter(preset.mirror()),
                "{}",
                preset.as_str()
            );
        }
    }

    #[test]
    fn the_presets_are_the_seeds_numbers() {
        const MINUTE: Millis = 60_000;
        let of = |preset: Preset| preset.policy();
        let silence = |policy: Policy| {
            (
                policy.quiet_ms / MINUTE,
                policy.warning_ms / MINUTE,
                policy.stalled_ms / MINUTE,
            )
        };
        assert_eq!(silence(of(Preset::Fleet)), (5, 10, 30));
        assert_eq!(silence(of(Preset::Epic)), (30, 30, 60));
        let epic = of(Preset::Epic);
        assert!(epic.triggers.has(Reason::SyncPoint) && !epic.triggers.has(Reason::Milestone));
        assert_eq!((epic.heartbeat_ms / MINUTE, epic.retention.keep), (15, 10));
        let orchestrator = of(Preset::Orchestrator);
        assert_eq!(
            (
                orchestrator.interval_ms / MINUTE,
                orchestrator.retention.most
            ),
            (5, 50)
        );
        assert!(orchestrator.triggers.has(Reason::Interval));
        assert_eq!(orchestrator.retention.surplus, Surplus::Archive);
        assert!(orchestrator.strict && !of(Preset::Fleet).strict);
        assert_eq!(orchestrator.retry_limit, orchestrator::RETRY_LIMIT);
        let destructive: Vec<&str> = orchestrator.destructive.iter().map(Name::as_str).collect();
        assert_eq!(destructive, orchestrator::DESTRUCTIVE_OPERATIONS);
        let recovery = of(Preset::Recovery);
        assert_eq!((recovery.token_warning, recovery.token_critical), (75, 90));
        assert!(
            recovery.triggers.has(Reason::SessionEnd)
                && !recovery.triggers.has(Reason::TaskComplete)
        );
        let sitebuilder = of(Preset::Sitebuilder);
        assert_eq!(silence(sitebuilder.clone()), (10, 10, 30));
        assert!(
            sitebuilder.triggers.has(Reason::SubtaskDone)
                && sitebuilder.triggers.has(Reason::Heartbeat)
        );
        let of_tasks =
            |policy: &Policy| (policy.every_error, policy.progress_mail, policy.find_tasks);
        assert_eq!(of_tasks(&sitebuilder), (true, true, true));
        assert_eq!(of_tasks(&of(Preset::Fleet)), (false, true, false));
        assert_eq!(of_tasks(&epic), (false, false, false));
    }
}
