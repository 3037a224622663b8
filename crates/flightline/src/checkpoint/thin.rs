//! Thins the journal: values go that later ones have replaced and no checkpoint needs. Candidates are found in a
//! read; each batch is decided again and taken away in a short transaction of its own, so that no writer waits long.

use crate::Schema;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use flightline_core::event::EventType;
use flightline_core::retention::{KeptCuts, Superseded};
use flightline_core::setting::LastPrune;
use flightline_core::time::Millis;
use flightline_core::{CheckpointId, Kind, MissionId, Time};
use flightline_store::{Find, Tx};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::clock::{believed, forget_requests};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Caller, Fleet, Operation, Scope, WhenFull};
use crate::op_context::OpContext;

/// Maximum number of values that go in one transaction.
const BATCH: usize = 500;
/// Maximum number of revisions that one transaction looks at.
const SPAN: u64 = 5_000;

/// Plans which old values leave the journal. Changes nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct PlanThinning {
    /// Thin only the values of this mission.
    pub mission: Option<String>,
    /// Minimum age of replaced values to delete; the policy's when not given.
    pub older_than_ms: Option<Millis>,
    /// Checkpoints about to be deleted; their values need not be kept.
    #[serde(default)]
    pub without: Vec<CheckpointId>,
    /// The revision to begin with.
    #[serde(default)]
    pub from: u64,
    /// Maximum number of revisions to check; all when not given.
    #[serde(default)]
    pub revisions: Option<u64>,
    /// Maximum number of values; all when not given.
    #[serde(default)]
    pub most: Option<u64>,
    /// Believe the clock, even when it is far ahead of confirmed time.
    #[serde(default)]
    pub force: bool,
}

/// The old values that leave the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct ThinningPlan {
    /// Number and size of the values.
    pub journal: Thinned,
    /// Ranges of revisions that hold the values, one for each transaction.
    pub batches: Vec<(u64, u64)>,
    /// The revision at which the next thinning continues; zero when all were checked.
    pub next: u64,
}

/// A number of old values of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct Thinned {
    /// Number of values that were removed.
    pub values: u64,
    /// Size of their texts in bytes.
    pub bytes: u64,
}

/// Removes the old values among these revisions that no checkpoint needs: 500 at most.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ThinJournal {
    /// Thin only the values of this mission.
    pub mission: Option<String>,
    /// Minimum age of replaced values to delete; the policy's when not given.
    pub older_than_ms: Option<Millis>,
    /// The first revision of the range.
    pub from: u64,
    /// The last revision of the range.
    pub to: u64,
    /// Believe the clock, even when it is far ahead of confirmed time.
    #[serde(default)]
    pub force: bool,
}

/// Records the outcome of a thinning, and removes requests whose time is over.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct RecordThinning {
    /// The values that were removed.
    pub journal: Thinned,
    /// The revision at which the next thinning continues.
    pub next: u64,
}

impl Operation for PlanThinning {
    const NAME: &'static str = "plan_thinning";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = ThinningPlan;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<ThinningPlan> {
        let looking = Looking::new(ctx, self)?;
        let without: BTreeSet<CheckpointId> = self.without.iter().copied().collect();
        let kept = kept_cuts(ctx.tx, &without)?;
        // Not through the revisions left out between two histories.
        let end = ctx.tx.rev();
        let begin = ctx.tx.next_there(self.from)?.unwrap_or(end);
        let to = self
            .revisions
            .map_or(end, |revisions| begin.saturating_add(revisions));
        let mut plan = ThinningPlan {
            journal: Thinned::default(),
            batches: Vec::new(),
            next: if to < end { to + 1 } else { 0 },
        };
        let (mut from, mut size) = (begin, 0);
        loop {
            let page = looking.superseded(ctx.tx, from, to)?;
            let Some(last) = page.last() else { break };
            from = last.rev + 1;
            for value in page.iter().filter(|value| !kept.need(value)) {
                if self.most.is_some_and(|most| plan.journal.values >= most) {
                    plan.next = value.rev;
                    return Ok(plan);
                }
                plan.journal.values += 1;
                plan.journal.bytes += value.bytes;
                match plan.batches.last_mut() {
                    Some((first, end)) if size < BATCH && value.rev - *first < SPAN => {
                        *end = value.rev;
                        size += 1;
                    }
                    _ => {
                        plan.batches.push((value.rev, value.rev));
                        size = 1;
                    }
                }
            }
        }
        Ok(plan)
    }
}

impl ThinJournal {
    fn plan(&self) -> PlanThinning {
        PlanThinning {
            mission: self.mission.clone(),
            older_than_ms: self.older_than_ms,
            force: self.force,
            ..PlanThinning::default()
        }
    }
}

impl Operation for ThinJournal {
    const NAME: &'static str = "thin_journal";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Thinned;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Thinned> {
        let looking = Looking::new(ctx, &self.plan())?;
        // Decided again here: a checkpoint may have come back since that needs them.
        let kept = kept_cuts(ctx.tx, &BTreeSet::new())?;
        let to = self.to.min(self.from.saturating_add(SPAN));
        let (mut from, mut going) = (self.from, Vec::new());
        while going.len() < BATCH {
            let page = looking.superseded(ctx.tx, from, to)?;
            let Some(last) = page.last() else { break };
            from = last.rev + 1;
            going.extend(page.into_iter().filter(|value| !kept.need(value)));
        }
        going.truncate(BATCH);
        let revs: Vec<u64> = going.iter().map(|value| value.rev).collect();
        Ok(Thinned {
            values: ctx.tx.thin(&revs)?,
            bytes: going.iter().map(|value| value.bytes).sum(),
        })
    }
}

impl Operation for RecordThinning {
    const NAME: &'static str = "record_thinning";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = ();

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<()> {
        forget_requests(ctx.tx)?;
        let last = ctx.tx.get::<LastPrune>(LastPrune::KEY)?;
        let last = last.unwrap_or_else(|| LastPrune::never(ctx.tx.project_created_at()));
        if self.journal.values > 0 || last.thinned_to != self.next {
            let data = json!({ "values": self.journal.values, "bytes": self.journal.bytes });
            let noted = LastPrune {
                thinned_to: self.next,
                ..last
            };
            ctx.tx.set(EventType::JournalThinned, &noted, &data)?;
        }
        Ok(())
    }
}

/// Number of revisions looked at in one transaction: while one is open, other processes' writes stay in SQLite's log.
const LOOKED_AT_ONCE: u64 = 20_000;

/// Plans which old values go, some revisions after the other.
pub fn plan_thinning(
    fleet: &mut Fleet,
    caller: &Caller,
    request: &PlanThinning,
) -> Result<Thinned> {
    let (mut part, mut found) = (in_parts(request), Thinned::default());
    loop {
        let plan = fleet.run(&part, caller)?;
        found.values += plan.journal.values;
        found.bytes += plan.journal.bytes;
        part.from = plan.next;
        if plan.next == 0 || request.revisions.is_some() {
            return Ok(found);
        }
    }
}

/// Takes away the old values that a plan names, some revisions after the other, and a batch at a time. When this fails, the
/// values taken away until then are gone, and the rest goes another time.
pub fn thin(fleet: &mut Fleet, caller: &Caller, request: &PlanThinning) -> Result<Thinned> {
    let (mut part, mut done) = (in_parts(request), Thinned::default());
    loop {
        part.from = thin_part(fleet, caller, &part, &mut done)?;
        if part.from == 0 || request.revisions.is_some() {
            return record(fleet, caller, done, part.from);
        }
    }
}

/// Takes away the values of one part, a batch at a time. Returns the revision where the next part begins; zero after the last.
fn thin_part(
    fleet: &mut Fleet,
    caller: &Caller,
    part: &PlanThinning,
    done: &mut Thinned,
) -> Result<u64> {
    let plan = fleet.run(part, caller)?;
    for (from, to) in plan.batches {
        let batch = ThinJournal {
            mission: part.mission.clone(),
            older_than_ms: part.older_than_ms,
            from,
            to,
            force: part.force,
        };
        let gone = fleet.run(&batch, caller)?;
        done.values += gone.values;
        done.bytes += gone.bytes;
    }
    Ok(plan.next)
}

fn record(fleet: &mut Fleet, caller: &Caller, journal: Thinned, next: u64) -> Result<Thinned> {
    fleet.run(&RecordThinning { journal, next }, caller)?;
    Ok(journal)
}

fn in_parts(request: &PlanThinning) -> PlanThinning {
    PlanThinning {
        revisions: request.revisions.or(Some(LOOKED_AT_ONCE)),
        ..request.clone()
    }
}

/// Number of revisions looked at between two looks at the clock.
const SLICE: u64 = 2_000;

/// Thins the journal from `from` on until `budget` is used up, slice by slice, and notes where the next one goes on. One
/// slice is done in any case. When this fails, the values taken away until then are gone, and the rest goes another time.
pub fn thin_within(
    fleet: &mut Fleet,
    caller: &Caller,
    from: u64,
    older_than_ms: Millis,
    budget: Duration,
) -> Result<Thinned> {
    let (began, mut done) = (Instant::now(), Thinned::default());
    let mut slice = PlanThinning {
        from,
        revisions: Some(SLICE),
        most: Some(BATCH as u64),
        older_than_ms: Some(older_than_ms),
        // The age is as of a time that is sure.
        force: true,
        ..PlanThinning::default()
    };
    loop {
        slice.from = thin_part(fleet, caller, &slice, &mut done)?;
        if slice.from == 0 || began.elapsed() >= budget {
            return record(fleet, caller, done, slice.from);
        }
    }
}

/// Number of revisions looked at by a process that comes back, and of values that go.
const SOME_REVISIONS: u64 = 20_000;
const SOME_VALUES: u64 = 5_000;

/// Continues the last thinning for a while. Returns the values that went, and true when there is more to look at.
pub fn thin_some(fleet: &mut Fleet, caller: &Caller) -> Result<(Thinned, bool)> {
    let now = fleet.now()?;
    let last = fleet
        .store()?
        .read(|tx| tx.get::<LastPrune>(LastPrune::KEY))?;
    let Some(sure) = last.and_then(|last| last.sure) else {
        return Ok((Thinned::default(), false));
    };
    let history = fleet.policy().retention.history();
    let some = PlanThinning {
        from: thinned_to(fleet)?,
        revisions: Some(SOME_REVISIONS),
        most: Some(SOME_VALUES),
        older_than_ms: Some(history.saturating_add(now.since(sure))),
        force: true,
        ..PlanThinning::default()
    };
    let gone = thin(fleet, caller, &some)?;
    Ok((gone, thinned_to(fleet)? > 0))
}

fn thinned_to(fleet: &mut Fleet) -> Result<u64> {
    fleet.store()?.read(|tx| {
        let last = tx.get::<LastPrune>(LastPrune::KEY)?;
        Ok(last.map_or(0, |last| last.thinned_to))
    })
}

struct Looking {
    before: Time,
    mission: Option<MissionId>,
}

impl Looking {
    fn new(ctx: &mut OpContext<'_, '_>, request: &PlanThinning) -> Result<Self> {
        let history = ctx.policy.retention.history();
        let now = match request.force {
            true => ctx.now(),
            false => believed(ctx.tx)?,
        };
        Ok(Self {
            before: now.minus(request.older_than_ms.unwrap_or(history)),
            mission: match &request.mission {
                Some(reference) => Some(ctx.mission(Some(reference))?.id),
                None => None,
            },
        })
    }

    fn superseded(&self, tx: &mut Tx<'_>, from: u64, to: u64) -> Result<Vec<Superseded>> {
        Ok(tx.superseded(from, to, self.before, self.mission)?)
    }
}

/// The values that kept checkpoints name, damaged and archived ones included. The record of a checkpoint comes right
/// after the revision it names, so it need not be read.
fn kept_cuts(tx: &mut Tx<'_>, without: &BTreeSet<CheckpointId>) -> Result<KeptCuts> {
    let mut kept = KeptCuts::default();
    for row in tx.rows(Kind::Checkpoint, Find::All)? {
        let id: CheckpointId = row.id.parse()?;
        if let Some(mission) = row.mission.filter(|_| !without.contains(&id)) {
            kept.add(mission.parse()?, row.born - 1);
        }
    }
    Ok(kept)
}
