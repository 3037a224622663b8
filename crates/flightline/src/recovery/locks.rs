//! Locks in a recovery: what the dead held is free, what was held at the checkpoint is granted anew.

use std::collections::BTreeSet;

use flightline_core::lock::Lock;
use flightline_core::setting::RecoveryKind;
use flightline_core::sortie::{Interruption, Sortie, SortieStatus};
use flightline_core::{AgentId, Kind, LockId, MissionId, RepoPath, Subject};
use flightline_store::{Actor, Find};
use serde_json::json;

use super::Fate;
use crate::desk::Desk;
use crate::error::Result;

/// What was locked for a sortie: under its name, or in its mission and overlapping its files.
pub(super) fn locked_for(sortie: &Sortie, held: &[Lock]) -> Vec<RepoPath> {
    let own = |lock: &&Lock| match lock.sortie_id {
        Some(id) => id == sortie.id,
        None => sortie.files.iter().any(|file| file.overlaps(&lock.file)),
    };
    let files: BTreeSet<&RepoPath> = held.iter().filter(own).map(|lock| &lock.file).collect();
    files
        .into_iter()
        .take(Interruption::MOST_LOCKS)
        .cloned()
        .collect()
}

pub(super) fn release_locks(
    desk: &mut Desk<'_, '_>,
    fates: &[Fate],
    taken_from: &mut BTreeSet<AgentId>,
) -> Result<Vec<String>> {
    let mut released = Vec::new();
    for fate in fates.iter().filter(|fate| fate.is_gone()) {
        for lock in desk.tx.find::<Lock>(Find::Agent(fate.agent.id))? {
            let data =
                json!({ "file": lock.file, "fence": lock.fence, "reason": fate.liveness.evidence });
            desk.tx.remove("lock_released", &lock, &data)?;
            taken_from.insert(fate.agent.id);
            released.push(lock.file.to_string());
        }
    }
    Ok(released)
}

/// Locks that were held at the checkpoint: kept by those who still hold them, granted anew to those who
/// are alive when the path is free; else a blocker. Rolling forward, what its holder gave up since, or
/// was told that it lost, stays given up.
pub(super) fn regrant(
    desk: &mut Desk<'_, '_>,
    mission: MissionId,
    mut wanted: Vec<Lock>,
    fates: &[Fate],
    kind: RecoveryKind,
) -> Result<(u64, Vec<String>)> {
    wanted.sort_by_key(|lock| lock.fence);
    let mut held = desk.tx.find::<Lock>(Find::All)?;
    let (mut count, mut blockers) = (0, Vec::new());
    for old in wanted {
        if held
            .iter()
            .any(|lock| lock.file == old.file && lock.held_by == old.held_by)
        {
            count += 1;
            continue;
        }
        let Some(fate) = fates
            .iter()
            .find(|fate| fate.agent.id == old.held_by && !fate.is_gone())
        else {
            if kind == RecoveryKind::Rewind {
                blockers.extend(without_holder(desk, &old, &held)?);
            }
            continue;
        };
        // Work that was finished since needs its lock no more. A lock that was not for one sortie is for
        // all that its holder has in this mission.
        let work = desk.tx.find::<Sortie>(Find::Agent(old.held_by))?;
        let needed = work.iter().any(|sortie| {
            sortie.status.is_held()
                && match old.sortie_id {
                    Some(id) => sortie.id == id,
                    None => sortie.mission_id == mission,
                }
        });
        let lapsed = has_lapsed(desk, &old)?;
        if !needed || (kind == RecoveryKind::RollForward && !lapsed) {
            continue;
        }
        let in_the_way =
            |lock: &&Lock| lock.held_by != old.held_by && lock.file.overlaps(&old.file);
        if let Some(other) = held.iter().find(in_the_way) {
            blockers.push(held_by_another(desk, &old, other)?);
            continue;
        }
        let lock = Lock {
            id: LockId::new(desk.tx.uuid()),
            epoch: fate.agent.epoch,
            fence: desk.tx.next_rev(),
            acquired_at: desk.now(),
            ..old
        };
        desk.tx.set(
            "lock_acquired",
            &lock,
            &json!({ "file": lock.file, "fence": lock.fence, "reason": "recovered" }),
        )?;
        if lapsed {
            blockers.push(format!(
                "{} had lapsed; {} holds it again with fence {}",
                lock.file, fate.agent.name, lock.fence
            ));
        }
        held.push(lock);
        count += 1;
    }
    Ok((count, blockers))
}

fn held_by_another(desk: &mut Desk<'_, '_>, old: &Lock, now: &Lock) -> Result<String> {
    let (now, before) = (desk.agent_name(now.held_by)?, desk.agent_name(old.held_by)?);
    Ok(format!(
        "{} is locked by {now}, {before} held it before",
        old.file
    ))
}

/// A lock of the checkpoint whose holder is gone is granted to nobody: whoever takes up the work has to
/// have it. Work that is completed needs it no more.
fn without_holder(desk: &mut Desk<'_, '_>, old: &Lock, held: &[Lock]) -> Result<Option<String>> {
    if let Some(id) = old.sortie_id {
        let sortie = desk.tx.get::<Sortie>(&id.to_string())?;
        if sortie.is_none_or(|sortie| sortie.status == SortieStatus::Completed) {
            return Ok(None);
        }
    }
    if let Some(other) = held.iter().find(|lock| lock.file.overlaps(&old.file)) {
        return held_by_another(desk, old, other).map(Some);
    }
    let before = desk.agent_name(old.held_by)?;
    Ok(Some(format!(
        "{} was locked by {before}, who is gone: nobody holds it now",
        old.file
    )))
}

/// Whether a lock that is gone was taken from a holder that seemed to be, not given up by it and not taken
/// from it with a word.
fn has_lapsed(desk: &mut Desk<'_, '_>, lock: &Lock) -> Result<bool> {
    let newest = desk.tx.events_of(Kind::Lock, &lock.key(), 1)?;
    Ok(newest.first().is_some_and(|event| {
        event.kind == "lock_reclaimed"
            || (event.kind == "lock_released" && event.actor == Actor::flightline().name)
    }))
}
