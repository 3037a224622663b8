//! The fleet in figures, for monitoring: one read, without going through everything.

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::agent::Agent;
use flightline_core::event::EventType;
use flightline_core::lock::Lock;
use flightline_core::setting::Receipt;
use flightline_core::time::Millis;
use flightline_store::{EventCounts, Find, Pulse};
use serde::{Deserialize, Serialize};

use crate::agent::{last_sign, liveness};
use crate::checkpoint::readable;
use crate::context::receipt::standing;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::lock::watch::silent_since;
use crate::op_context::OpContext;

/// Maximum number of revisions counted by one read; the rest is left to the next.
const AT_ONCE: u64 = 20_000;

/// Reads the figures of a fleet.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ReadMetricsSnapshot {
    /// The position in a journal after which events are counted; nothing is counted when none is given.
    pub after: Option<Counted>,
}

/// The position up to which a journal was counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Counted {
    /// The journal's id.
    pub history: String,
    /// The last revision that was counted.
    pub rev: u64,
}

/// Figures about a fleet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct MetricsSnapshot {
    /// The position up to which the journal is counted now.
    pub counted: Counted,
    /// The last revision of the journal.
    pub rev: u64,
    /// Number of missions per status.
    pub missions: BTreeMap<String, u64>,
    /// Number of agents that are not retired, per liveness.
    pub agents: BTreeMap<String, u64>,
    /// Time since the last sign of life of the agent that was silent longest.
    pub oldest_heartbeat_age_ms: Option<Millis>,
    /// Figures about locks.
    pub locks: LockFigures,
    /// Number of messages that were not read.
    pub messages_pending: u64,
    /// Number of agents that lost their context and were not briefed since.
    pub briefings_pending: u64,
    /// Number of checkpoints per state of their copy in a file.
    pub backups: BTreeMap<String, u64>,
    /// Figures about the room that the store takes.
    pub space: SpaceFigures,
    /// The events since the given position.
    pub happened: Happened,
}

/// Figures about locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct LockFigures {
    /// The number of locks that are granted.
    pub held: u64,
    /// Number of those that expired, or whose agent is no more.
    pub orphaned: u64,
}

/// The room that the store takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct SpaceFigures {
    /// The size of the database in bytes.
    pub database: u64,
    /// The size of the log beside the database, in bytes.
    pub log: u64,
    /// The free space in the database in bytes, where it is known.
    pub free: Option<u64>,
}

/// The events after a position of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
pub struct Happened {
    /// Checkpoints that were taken.
    pub checkpoints: Vec<CheckpointFigure>,
    /// The duration of each recovery.
    pub recoveries_ms: Vec<Millis>,
    /// Number of briefings by their outcome.
    pub briefings: BTreeMap<String, u64>,
    /// Number of contexts that were lost, by the evidence of the loss.
    pub compactions: BTreeMap<String, u64>,
    /// Number of locks that were taken from their holders, by the way they were taken.
    pub locks_lost: BTreeMap<String, u64>,
    /// Number of copies of checkpoints that could not be written.
    pub backup_failures: u64,
}

/// A checkpoint that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct CheckpointFigure {
    /// The class of the reason: `progress`, `error`, `manual` or `compaction`.
    pub trigger: String,
    /// The exact reason for the checkpoint.
    pub reason: String,
    /// Size of the checkpoint's record in bytes.
    pub bytes: u64,
}

impl Operation for ReadMetricsSnapshot {
    const NAME: &'static str = "read_figures";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = MetricsSnapshot;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<MetricsSnapshot> {
        let (rev, history) = (ctx.tx.rev(), ctx.tx.history().to_owned());
        let from = match &self.after {
            // The revisions left out between two histories are nothing to count.
            Some(it) if ctx.tx.has_place(&it.history, it.rev)? => {
                let next = ctx.tx.next_there(it.rev.saturating_add(1))?;
                next.map_or(rev, |next| next.saturating_sub(1))
            }
            // A place in another journal says nothing about this one.
            Some(_) | None => rev,
        };
        let to = rev.min(from.saturating_add(AT_ONCE));
        let mut happened = Happened::default();
        for event in ctx.tx.notable(from, to)? {
            happened.count(&event);
        }
        let (agents, _) = readable::<Agent>(ctx.tx, Find::All)?;
        let pulses: BTreeMap<String, Pulse> = ctx
            .tx
            .pulses()?
            .into_iter()
            .map(|pulse| (pulse.agent.clone(), pulse))
            .collect();
        let mut lives: BTreeMap<String, u64> = BTreeMap::new();
        let (mut signs, mut briefings_pending) = (BTreeMap::new(), 0);
        for agent in agents.iter().filter(|agent| agent.retired_at.is_none()) {
            let pulse = pulses.get(&agent.id.to_string());
            let life = liveness(ctx, agent, pulse, &[]).life;
            *lives.entry(life.as_str().to_owned()).or_default() += 1;
            if let Some(sign) = last_sign(ctx, agent, pulse) {
                signs.insert(agent.id, sign);
            }
            let lost = agent.epoch > 1 || agent.context > 0;
            let pending = lost
                && standing(ctx, agent)?
                    .is_some_and(|view| view.status == Receipt::Pending.as_str());
            briefings_pending += u64::from(pending);
        }
        let mut locks = LockFigures::default();
        let (granted, _) = readable::<Lock>(ctx.tx, Find::All)?;
        for lock in granted {
            locks.held += 1;
            let lapsed = match signs.get(&lock.held_by) {
                Some(sign) => {
                    let since = silent_since(ctx, &lock, Some(*sign))?;
                    lock.remaining(since, ctx.now()) == 0
                }
                None => true,
            };
            locks.orphaned += u64::from(lapsed);
        }
        let space = ctx.tx.space()?;
        Ok(MetricsSnapshot {
            counted: Counted { history, rev: to },
            rev,
            missions: ctx.tx.missions_by_status()?.into_iter().collect(),
            agents: lives,
            oldest_heartbeat_age_ms: signs.values().min().map(|oldest| ctx.now().since(*oldest)),
            locks,
            messages_pending: ctx.tx.unread_messages()?,
            briefings_pending,
            backups: ctx.tx.backups_by_state()?.into_iter().collect(),
            space: SpaceFigures {
                database: space.database,
                log: space.log,
                free: space.free,
            },
            happened,
        })
    }
}

impl Happened {
    fn count(&mut self, event: &EventCounts) {
        let word = |field: &str| {
            let word = event.data.get(field).and_then(|value| value.as_str());
            word.unwrap_or("unknown").to_owned()
        };
        match EventType::from_word(&event.kind) {
            Some(EventType::FleetCheckpointed) => self.checkpoints.push(CheckpointFigure {
                trigger: word("trigger"),
                reason: word("reason"),
                bytes: event.bytes,
            }),
            Some(EventType::FleetRecovered) => {
                let took = event.data.get("recovery_duration_ms");
                self.recoveries_ms
                    .push(took.and_then(serde_json::Value::as_u64).unwrap_or(0));
            }
            Some(EventType::ContextCompacted) => add(&mut self.compactions, word("evidence")),
            Some(EventType::LockReclaimed) => add(&mut self.locks_lost, "reclaimed".to_owned()),
            Some(EventType::LockStolen) => add(&mut self.locks_lost, "stolen".to_owned()),
            Some(EventType::CheckpointCreated | EventType::CheckpointBackupFailed) => {
                self.backup_failures += u64::from(event.data.get("backup_error").is_some());
            }
            Some(EventType::BriefingOffered) => add(&mut self.briefings, "offered".to_owned()),
            Some(EventType::BriefingRepeated) => add(&mut self.briefings, "repeated".to_owned()),
            Some(EventType::BriefingAcknowledged) => {
                add(&mut self.briefings, "acknowledged".to_owned());
            }
            Some(EventType::BriefingExpired) => add(&mut self.briefings, "expired".to_owned()),
            _ => {}
        }
    }
}

fn add(counts: &mut BTreeMap<String, u64>, word: String) {
    *counts.entry(word).or_default() += 1;
}
