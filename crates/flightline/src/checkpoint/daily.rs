//! Automatic retention: once a day, after a command has answered. Because it was not asked for, it believes no clock that
//! jumped.

use std::time::Duration;

use flightline_core::event::EventType;
use flightline_core::retention::ClockEvidence;
use flightline_core::setting::LastPrune;
use flightline_core::time::Millis;
use flightline_core::{CheckpointId, Time};
use flightline_store::Tx;
use serde_json::json;

use super::clock::least_time;
use super::prune::{AT_ONCE, ApplyPrune, PlanPrune, PrunedCheckpoint, ids};
use super::thin::thin_within;
use crate::error::{Error, Result};
use crate::fleet::{Caller, Fleet};

const DAILY: Millis = 86_400_000;
/// The user waits for the command to end: the journal is thinned for so long, and the commands after it continue for so long
/// each until all of it was looked at.
const DAILY_THINNING: Duration = Duration::from_millis(250);
const FURTHER_THINNING: Duration = Duration::from_millis(50);

/// Applies retention when it was not applied for a day, and says what went: the caller removes their files. Does
/// nothing, and costs one look, on every other day. Ages are judged as of the time it is at least, by all evidence
/// there is (`core::retention::ClockEvidence`).
pub fn daily(fleet: &mut Fleet, caller: &Caller) -> Result<Vec<PrunedCheckpoint>> {
    let (now, last) = fleet.store()?.read(last_prune)?;
    if last.at.since(now) > ClockEvidence::NOTICED {
        // A note made by a clock that was ahead must not postpone retention.
        put_right(fleet, now, last)?;
        return Ok(Vec::new());
    }
    let is_due = now.since(last.at) >= DAILY;
    if !is_due && last.thinned_to == 0 {
        return Ok(Vec::new());
    }
    let as_of = fleet.store()?.read(least_time)?;
    let age = as_of_age(fleet.policy().retention.history(), now, as_of);
    let caller = Caller {
        idempotency_key: None,
        agent: None,
        ..caller.clone()
    };
    if !is_due {
        thin_within(fleet, &caller, last.thinned_to, age, FURTHER_THINNING)?;
        return Ok(Vec::new());
    }
    let as_of_then = PlanPrune {
        as_of: Some(as_of),
        ..PlanPrune::default()
    };
    let plan = fleet.run(&as_of_then, &caller)?;
    let apply = ApplyPrune {
        plan: as_of_then,
        delete: some(&plan.details),
        archive: some(&plan.archived),
        more: plan.details.len().max(plan.archived.len()) > AT_ONCE,
    };
    let done = fleet.run(&apply, &caller)?;
    thin_within(fleet, &caller, last.thinned_to, age, DAILY_THINNING)?;
    Ok(done.details)
}

/// Returns true when [`daily`] would do anything.
pub(crate) fn is_daily_due(tx: &mut Tx<'_>) -> Result<bool> {
    let (now, last) = last_prune(tx)?;
    let ahead = last.at.since(now) > ClockEvidence::NOTICED;
    Ok(ahead || now.since(last.at) >= DAILY || last.thinned_to > 0)
}

/// The time, and when retention was applied last.
fn last_prune(tx: &mut Tx<'_>) -> Result<(Time, LastPrune)> {
    let last = tx.get::<LastPrune>(LastPrune::KEY)?;
    let last = last.unwrap_or(LastPrune::never(tx.project_created_at()));
    Ok((tx.now(), last))
}

/// The age now of something that has this age at another time.
fn as_of_age(age: Millis, now: Time, as_of: Time) -> Millis {
    age.saturating_add(now.since(as_of))
}

/// The user waits for the command to end: the next commands continue.
fn some(these: &[PrunedCheckpoint]) -> Vec<CheckpointId> {
    ids(&these[..these.len().min(AT_ONCE)])
}

/// Corrects marks that lie in the future.
fn put_right(fleet: &mut Fleet, now: Time, last: LastPrune) -> Result<()> {
    fleet.store()?.write(|tx| {
        let right = LastPrune {
            at: now,
            sure: Some(least_time(tx)?),
            uptime: tx.uptime(),
            ..last.clone()
        };
        let data = json!({ "was": last.at, "is": now });
        tx.set(EventType::RetentionPutRight, &right, &data)?;
        Ok::<_, Error>(())
    })
}
