//! Work that goes on in other hands: those of the same agent in a new session, or of one that takes over.

use std::collections::BTreeSet;

use flightline_core::agent::Agent;
use flightline_core::event::EventType;
use flightline_core::lock::Lock;
use flightline_core::sortie::{Interruption, Sortie, SortieStatus};
use flightline_core::{Kind, LockId, RepoPath, SortieId, Time};
use flightline_store::{EventFilter, Find};
use serde_json::json;

use super::locks::{held_paths, locked_for, taken_by};
use crate::agent::held_sorties;
use crate::agent::takeover::REASSIGNED_BY_TAKEOVER;
use crate::error::Result;
use crate::op_context::OpContext;

const LOST_LOOKED_AT: u64 = 1_000;

/// The sorties, locks and mail that came along.
pub(crate) struct CarriedWork {
    pub(crate) sorties: Vec<Sortie>,
    pub(crate) locks: Vec<Lock>,
    /// Locks that were lost meanwhile, and what became of them.
    pub(crate) blockers: Vec<String>,
}

/// Puts the sorties and locks of `from` into the hands of `to`, who may be the same agent in a new session.
/// No lock is the old one: each is granted anew, with a new fence. One that was lost since `since` is taken
/// again where it is free, and is a blocker either way.
pub(crate) fn follow(
    ctx: &mut OpContext<'_, '_>,
    from: &Agent,
    to: &Agent,
    since: Option<Time>,
) -> Result<CarriedWork> {
    let held = ctx.tx.find::<Lock>(Find::Agent(from.id))?;
    let mut followed = CarriedWork {
        sorties: Vec::new(),
        locks: Vec::new(),
        blockers: Vec::new(),
    };
    for id in held_sorties(ctx, from.id)? {
        if let Some(sortie) = ctx.tx.get::<Sortie>(&id)? {
            followed.sorties.push(give(ctx, sortie, &held, from, to)?);
        }
    }
    for lock in held {
        followed.locks.push(grant_anew(ctx, lock, from, to)?);
    }
    take_again(ctx, from, to, since, &mut followed)?;
    Ok(followed)
}

fn give(
    ctx: &mut OpContext<'_, '_>,
    mut sortie: Sortie,
    held: &[Lock],
    from: &Agent,
    to: &Agent,
) -> Result<Sortie> {
    sortie.assigned_to = Some(to.id);
    sortie.assigned_epoch = Some(to.epoch);
    sortie.updated_at = ctx.now();
    if from.id == to.id {
        let data = json!({ "epoch": to.epoch });
        ctx.tx.set(EventType::SortieKept, &sortie, &data)?;
        return Ok(sortie);
    }
    sortie.assigned_at = Some(ctx.now());
    // The successor begins a started sortie anew.
    sortie.attempts += u32::from(sortie.status != SortieStatus::Assigned);
    sortie.interrupted = Some(Interruption {
        owner: from.name.clone(),
        at: ctx.now(),
        locks: locked_for(&sortie, held),
        blocked_reason: sortie.blocked_reason.clone(),
    });
    let data = json!({ "from": from.name, "to": to.name, "reason": REASSIGNED_BY_TAKEOVER });
    ctx.tx.set(EventType::SortieReassigned, &sortie, &data)?;
    Ok(sortie)
}

/// The holder under the old fence must not write any more.
fn grant_anew(ctx: &mut OpContext<'_, '_>, old: Lock, from: &Agent, to: &Agent) -> Result<Lock> {
    let mut id = old.id;
    if from.id != to.id {
        let data = json!({ "file": old.file, "fence": old.fence, "reason": "taken over" });
        ctx.tx.remove(EventType::LockReleased, &old, &data)?;
        id = LockId::new(ctx.tx.uuid());
    }
    ctx.tx.end_watch(id)?;
    let lock = Lock {
        id,
        held_by: to.id,
        epoch: to.epoch,
        fence: ctx.tx.next_rev(),
        acquired_at: ctx.now(),
        ..old
    };
    record(ctx, &lock)?;
    Ok(lock)
}

fn record(ctx: &mut OpContext<'_, '_>, lock: &Lock) -> Result<()> {
    let data = json!({ "file": lock.file, "fence": lock.fence, "reason": "recovered" });
    ctx.tx.set(EventType::LockAcquired, lock, &data)?;
    Ok(())
}

/// Tries once to take again each lock that lapsed or was taken away while its holder was silent.
fn take_again(
    ctx: &mut OpContext<'_, '_>,
    from: &Agent,
    to: &Agent,
    since: Option<Time>,
    followed: &mut CarriedWork,
) -> Result<()> {
    if followed.sorties.is_empty() {
        return Ok(());
    }
    let mut held = held_paths(ctx)?;
    for (file, sortie) in lost_locks(ctx, from, since)? {
        let of = followed.sorties.iter();
        let work = sortie.and_then(|id| of.clone().find(|sortie| sortie.id == id));
        // The sortie of the lock is no longer in these hands.
        if sortie.is_some() && work.is_none() {
            continue;
        }
        let overlapping = || held.iter().filter(|(other, _)| other.overlaps(&file));
        if let Some((_, other)) = overlapping().find(|(_, by)| *by != to.id) {
            let other = *other;
            let blocker = taken_by(ctx, &file, from.name.as_str(), other)?;
            followed.blockers.push(blocker);
            continue;
        }
        if overlapping().any(|(other, _)| other.contains(&file)) {
            continue;
        }
        let mission = work.or_else(|| of.clone().next());
        let lock = Lock {
            id: LockId::new(ctx.tx.uuid()),
            file: file.clone(),
            held_by: to.id,
            epoch: to.epoch,
            fence: ctx.tx.next_rev(),
            sortie_id: work.map(|sortie| sortie.id),
            mission_id: mission.map(|sortie| sortie.mission_id),
            purpose: None,
            timeout_ms: ctx.policy.lock_ttl_ms,
            acquired_at: ctx.now(),
        };
        record(ctx, &lock)?;
        followed.blockers.push(format!(
            "{file} had lapsed; {} holds it again with fence {}",
            to.name, lock.fence
        ));
        held.push((file, to.id));
        followed.locks.push(lock);
    }
    Ok(())
}

/// The locks that an agent lost since, with the sortie each was for; each path once.
fn lost_locks(
    ctx: &mut OpContext<'_, '_>,
    from: &Agent,
    since: Option<Time>,
) -> Result<Vec<(RepoPath, Option<SortieId>)>> {
    let mut events = ctx.tx.removals(Kind::Lock, LOST_LOOKED_AT)?;
    events.retain(|event| {
        matches!(
            event.event_type(),
            Some(EventType::LockReclaimed | EventType::LockReleased)
        ) && since.is_none_or(|since| event.timestamp >= since)
    });
    events.reverse();
    let (mut seen, mut lost) = (BTreeSet::new(), Vec::new());
    for event in events {
        if event.data["from"].as_str() != Some(from.name.as_str()) {
            continue;
        }
        let file = event.data["file"].as_str();
        let Some(file) = file.and_then(|file| RepoPath::parse(file).ok()) else {
            continue;
        };
        let sortie = event.data["sortie"].as_str();
        if seen.insert(file.to_string()) {
            lost.push((file, sortie.and_then(|id| id.parse().ok())));
        }
    }
    Ok(lost)
}

/// The result of an earlier request: the ids of the sorties, the locked files, and the number of messages.
pub(crate) fn given_in(
    ctx: &mut OpContext<'_, '_>,
    step: u64,
) -> Result<(Vec<String>, Vec<String>, u64)> {
    let (mut sorties, mut locks, mut messages) = (Vec::new(), Vec::new(), 0);
    let mut after = step.saturating_sub(1);
    loop {
        let filter = EventFilter {
            limit: LOST_LOOKED_AT,
            ..EventFilter::default()
        };
        let events = ctx.tx.events_after(after, &filter)?;
        let Some(last) = events.last().map(|event| event.rev) else {
            break;
        };
        let in_step = events.iter().take_while(|event| event.step == step);
        for event in in_step {
            match event.event_type() {
                Some(EventType::SortieReassigned) => sorties.push(event.subject.clone()),
                Some(EventType::LockAcquired) => {
                    locks.extend(event.data["file"].as_str().map(str::to_owned))
                }
                Some(EventType::MessageMoved) => messages += 1,
                _ => {}
            }
        }
        if events.iter().any(|event| event.step != step) {
            break;
        }
        after = last;
    }
    Ok((sorties, locks, messages))
}
