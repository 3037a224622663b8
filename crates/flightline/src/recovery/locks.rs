//! Locks in a recovery: locks of the dead are free, locks held at the checkpoint are granted anew.

use std::collections::BTreeSet;

use flightline_core::agent::Agent;
use flightline_core::event::EventType;
use flightline_core::lock::Lock;
use flightline_core::setting::RecoveryKind;
use flightline_core::sortie::{Interruption, Sortie, SortieStatus};
use flightline_core::{AgentId, Kind, LockId, MissionId, RepoPath, Subject};
use flightline_store::{Actor, Find, StoreError};
use serde_json::json;

use super::AgentVerdict;
use crate::agent::last_sign;
use crate::checkpoint::readable;
use crate::error::Result;
use crate::lock::watch::silent_since;
use crate::op_context::OpContext;

/// The paths locked for a sortie: under its name, or in its mission and overlapping its files.
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
    ctx: &mut OpContext<'_, '_>,
    verdicts: &[AgentVerdict],
    taken_from: &mut BTreeSet<AgentId>,
) -> Result<Vec<String>> {
    let mut released = Vec::new();
    for verdict in verdicts.iter().filter(|verdict| verdict.is_gone()) {
        // A lock that cannot be read stays, and the doctor names it.
        let (locks, _) = readable::<Lock>(ctx.tx, Find::Agent(verdict.agent.id))?;
        for lock in locks {
            let data = json!({ "file": lock.file, "fence": lock.fence, "from": verdict.agent.name, "sortie": lock.sortie_id, "reason": verdict.liveness.evidence });
            ctx.tx.remove(EventType::LockReleased, &lock, &data)?;
            taken_from.insert(verdict.agent.id);
            released.push(lock.file.to_string());
        }
    }
    Ok(released)
}

/// Locks that were held at the checkpoint: kept by agents that still hold them, granted anew to living agents when the
/// path is free; else a blocker. A lapsed lock that no agent has taken yet is granted anew as well: its old fence may
/// become void at any time. Rolling forward, a lock that its holder gave up since, or was told that it lost, stays
/// given up.
pub(super) fn regrant(
    ctx: &mut OpContext<'_, '_>,
    mission: MissionId,
    mut wanted: Vec<Lock>,
    verdicts: &[AgentVerdict],
    kind: RecoveryKind,
) -> Result<(u64, Vec<String>)> {
    wanted.sort_by_key(|lock| lock.fence);
    let mut held = held_paths(ctx)?;
    let (mut count, mut blockers) = (0, Vec::new());
    for old in wanted {
        if held
            .iter()
            .any(|(file, by)| file.is_same(&old.file) && *by == old.held_by)
        {
            blockers.extend(renew_lapsed(ctx, &old, verdicts)?);
            count += 1;
            continue;
        }
        let Some(verdict) = verdicts
            .iter()
            .find(|verdict| verdict.agent.id == old.held_by && !verdict.is_gone())
        else {
            if kind == RecoveryKind::Rewind {
                blockers.extend(without_holder(ctx, &old, &held)?);
            }
            continue;
        };
        // Work that was finished since needs its lock no more. A lock that was not for one sortie is for
        // all that its holder has in this mission.
        let work = ctx.tx.rows(Kind::Sortie, Find::Agent(old.held_by))?;
        let needed = work.iter().any(|row| {
            SortieStatus::from_word(&row.status).is_some_and(SortieStatus::is_held)
                && match old.sortie_id {
                    Some(id) => row.id == id.to_string(),
                    None => row.mission == Some(mission.to_string()),
                }
        });
        let lapsed = has_lapsed(ctx, &old)?;
        if !needed || (kind == RecoveryKind::RollForward && !lapsed) {
            continue;
        }
        let in_the_way =
            |(file, by): &&(RepoPath, AgentId)| *by != old.held_by && file.overlaps(&old.file);
        if let Some((_, other)) = held.iter().find(in_the_way) {
            blockers.push(held_by_another(ctx, &old, *other)?);
            continue;
        }
        let lock = Lock {
            id: LockId::new(ctx.tx.uuid()),
            epoch: verdict.agent.epoch,
            fence: ctx.tx.next_rev(),
            acquired_at: ctx.now(),
            ..old
        };
        ctx.tx.set(
            EventType::LockAcquired,
            &lock,
            &json!({ "file": lock.file, "fence": lock.fence, "reason": "recovered" }),
        )?;
        if lapsed {
            blockers.push(holds_again(&lock, &verdict.agent));
        }
        held.push((lock.file, lock.held_by));
        count += 1;
    }
    Ok((count, blockers))
}

/// Grants a lapsed lock of its holder anew: any agent that asked for it would have got it. Says so.
fn renew_lapsed(
    ctx: &mut OpContext<'_, '_>,
    old: &Lock,
    verdicts: &[AgentVerdict],
) -> Result<Option<String>> {
    // A lock that cannot be read stays as it is, and the doctor names it.
    let (held, _) = readable::<Lock>(ctx.tx, Find::Agent(old.held_by))?;
    let held = held.into_iter().find(|lock| lock.file.is_same(&old.file));
    let verdict = verdicts
        .iter()
        .find(|verdict| verdict.agent.id == old.held_by);
    let (Some(lock), Some(verdict)) = (held, verdict.filter(|verdict| !verdict.is_gone())) else {
        return Ok(None);
    };
    let pulse = ctx.tx.pulse(old.held_by)?;
    let sign = last_sign(ctx, &verdict.agent, pulse.as_ref());
    let since = silent_since(ctx, &lock, sign)?;
    if !lock.has_lapsed(since, ctx.now()) || verdict.running {
        return Ok(None);
    }
    ctx.tx.end_watch(lock.id)?;
    let lock = Lock {
        epoch: verdict.agent.epoch,
        fence: ctx.tx.next_rev(),
        acquired_at: ctx.now(),
        ..lock
    };
    let data = json!({ "file": lock.file, "fence": lock.fence, "reason": "recovered" });
    ctx.tx.set(EventType::LockAcquired, &lock, &data)?;
    Ok(Some(holds_again(&lock, &verdict.agent)))
}

fn holds_again(lock: &Lock, holder: &Agent) -> String {
    format!(
        "{} had lapsed; {} holds it again with fence {}",
        lock.file, holder.name, lock.fence
    )
}

fn held_by_another(ctx: &mut OpContext<'_, '_>, old: &Lock, now: AgentId) -> Result<String> {
    let before = ctx.agent_name(old.held_by)?;
    taken_by(ctx, &old.file, &before, now)
}

pub(super) fn taken_by(
    ctx: &mut OpContext<'_, '_>,
    file: &RepoPath,
    before: &str,
    now: AgentId,
) -> Result<String> {
    let now = ctx.agent_name(now)?;
    Ok(format!(
        "{file} is locked by {now}, {before} held it before"
    ))
}

/// A lock of the checkpoint whose holder is gone is granted to no agent: the next owner of the work has to take it.
/// Completed work needs it no more.
fn without_holder(
    ctx: &mut OpContext<'_, '_>,
    old: &Lock,
    held: &[(RepoPath, AgentId)],
) -> Result<Option<String>> {
    if let Some(id) = old.sortie_id {
        let sortie = ctx.tx.get::<Sortie>(id)?;
        if sortie.is_none_or(|sortie| sortie.status.is_settled()) {
            return Ok(None);
        }
    }
    if let Some((_, other)) = held.iter().find(|(file, _)| file.overlaps(&old.file)) {
        return held_by_another(ctx, old, *other).map(Some);
    }
    let before = ctx.agent_name(old.held_by)?;
    Ok(Some(format!(
        "{} was locked by {before}, which is gone: it is not locked now",
        old.file
    )))
}

/// The locked paths, and their holders. Reads no documents: damage of another mission's lock is no reason to leave this
/// one where it is.
pub(super) fn held_paths(ctx: &mut OpContext<'_, '_>) -> Result<Vec<(RepoPath, AgentId)>> {
    let unreadable = || StoreError::Corrupt("a row of a lock cannot be read".to_owned());
    let rows = ctx.tx.rows(Kind::Lock, Find::All)?.into_iter();
    rows.map(|row| {
        let file = row.name.and_then(|name| RepoPath::parse(&name).ok());
        let holder = row.agent.and_then(|agent| agent.parse().ok());
        Ok((file.ok_or_else(unreadable)?, holder.ok_or_else(unreadable)?))
    })
    .collect()
}

/// Returns true when a lock that is gone was reclaimed from a holder that seemed to be gone: not released by it, and
/// not stolen from it with a reason.
fn has_lapsed(ctx: &mut OpContext<'_, '_>, lock: &Lock) -> Result<bool> {
    let newest = ctx.tx.events_of(Kind::Lock, &lock.key(), 1)?;
    Ok(newest.first().is_some_and(|event| {
        event.is(EventType::LockReclaimed)
            || (event.is(EventType::LockReleased) && event.actor == Actor::flightline().name)
    }))
}
