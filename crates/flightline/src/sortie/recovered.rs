//! Hands a sortie that another agent began to its new owner: its context, and its locks.

use flightline_core::recovery::{RecoveryContext, told};
use flightline_core::sortie::{FileChange, Sortie, SortieFile};
use flightline_core::{Code, Kind, RepoPath, Subject};
use flightline_store::Find;

use super::{SortieView, view};
use crate::checkpoint::recovery_context::context;
use crate::context::own;
use crate::error::{Error, Result};
use crate::lock::{LockView, grant_all};
use crate::op_context::OpContext;

/// A sortie that its owner takes up: with its context when another agent began it before, and with the locks of the
/// owner that lost it, where they are free.
pub(super) fn taken_up(
    ctx: &mut OpContext<'_, '_>,
    sortie: Sortie,
    locking: Locking,
) -> Result<SortieView> {
    let (mut locks, mut held) = (Vec::new(), Vec::new());
    if locking == Locking::Again && sortie.interrupted.is_some() {
        (locks, held) = lock_again(ctx, &sortie)?;
    }
    let context = match sortie.attempts {
        0 | 1 => None,
        _ => Some(left_behind(ctx, &sortie, held)?),
    };
    Ok(SortieView {
        recovery_context: context,
        locks,
        ..view(ctx, sortie)?
    })
}

/// The choice of whether the locks of the owner that lost a sortie are taken again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Locking {
    Again,
    No,
}

fn left_behind(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
    held: Vec<String>,
) -> Result<RecoveryContext> {
    let mission = ctx.mission_of(sortie.mission_id)?;
    let owner = match sortie.assigned_to {
        Some(id) => ctx.tx.get(&id.to_string())?,
        None => None,
    };
    // The newest is that it was taken up just now.
    let events = ctx.tx.events_of(Kind::Sortie, &sortie.key(), 50)?;
    let before = events.iter().skip(1).find(|event| event.is_work());
    let sorties = std::slice::from_ref(sortie);
    let last_act = before.map_or_else(String::new, |event| {
        told(event, &sorties.iter().collect::<Vec<_>>())
    });
    let own = own(ctx, owner.as_ref(), sorties, &last_act)?;
    let texts = |quotes: Vec<flightline_core::briefing::Quote>| -> Vec<String> {
        quotes.into_iter().map(|quote| quote.text).collect()
    };
    Ok(RecoveryContext {
        last_action: own.last_action.text,
        next_steps: texts(own.next_steps),
        blockers: held.into_iter().chain(texts(own.blockers)).collect(),
        files_modified: own.files,
        ..context(ctx, &mission, Vec::new())?
    })
}

/// Locks the files that the sortie changed and that were locked for it, for the acting agent. A file that another agent
/// holds is reported, and stops nothing.
fn lock_again(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
) -> Result<(Vec<LockView>, Vec<String>)> {
    let me = ctx.acting()?.id;
    let mine = ctx
        .tx
        .find::<flightline_core::lock::Lock>(Find::Agent(me))?;
    let (mut taken, mut held) = (Vec::new(), Vec::new());
    for path in wanted(ctx, sortie)? {
        // A second grant would void the fence of the first.
        if mine.iter().any(|lock| lock.file.contains(&path)) {
            continue;
        }
        let purpose = Some(sortie.title.clone());
        let paths = std::slice::from_ref(&path);
        let granted = ctx.attempt(|ctx| grant_all(ctx, paths, purpose, None, Some(sortie), &[]))?;
        match granted {
            Ok(locks) => taken.extend(locks),
            Err(Error::Refused(refusal)) if refusal.code == Code::LockHeld => {
                held.push(refusal.message);
            }
            Err(error) => return Err(error),
        }
    }
    Ok((taken, held))
}

fn wanted(ctx: &mut OpContext<'_, '_>, sortie: &Sortie) -> Result<Vec<RepoPath>> {
    let mut files = ctx.tx.find::<SortieFile>(Find::Parent(&sortie.key()))?;
    files.retain(|file| file.change != FileChange::Deleted);
    let locked = sortie.interrupted.iter().flat_map(|before| &before.locks);
    let mut paths: Vec<RepoPath> = files.into_iter().map(|file| file.path).collect();
    paths.extend(locked.cloned());
    paths.sort();
    paths.dedup();
    // A folder that is locked holds its files.
    let all = paths.clone();
    paths.retain(|path| {
        !all.iter()
            .any(|folder| folder != path && folder.contains(path))
    });
    Ok(paths)
}
