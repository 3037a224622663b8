//! Releases locks together with the work that they were taken for.

use flightline_core::event::EventType;
use flightline_core::lock::Lock;
use flightline_core::sortie::Sortie;
use flightline_core::{AgentId, MissionId, SortieId};
use flightline_store::Find;
use serde_json::json;

use super::{LockView, view};
use crate::checkpoint::readable;
use crate::error::Result;
use crate::op_context::OpContext;

/// The fate of a sortie's locks when its owner is done with it.
#[derive(Clone, Copy)]
pub(crate) enum Locks {
    Go,
    Stay,
}

impl Locks {
    /// Releases them, except those of the sortie's next owner.
    pub(crate) fn settle(
        self,
        ctx: &mut OpContext<'_, '_>,
        sortie: &Sortie,
        next: Option<AgentId>,
        why: &str,
    ) -> Result<Vec<LockView>> {
        match self {
            Self::Go => release_for(ctx, sortie.id, next, why),
            Self::Stay => Ok(Vec::new()),
        }
    }
}

/// Releases everything that was locked for a sortie, but for what its next owner holds.
pub(crate) fn release_for(
    ctx: &mut OpContext<'_, '_>,
    sortie: SortieId,
    next: Option<AgentId>,
    why: &str,
) -> Result<Vec<LockView>> {
    release(ctx, Find::Parent(&sortie.to_string()), next, why)
}

/// Releases everything that was locked in a mission.
pub(crate) fn release_all_of(
    ctx: &mut OpContext<'_, '_>,
    mission: MissionId,
    why: &str,
) -> Result<Vec<LockView>> {
    release(ctx, Find::Mission(mission), None, why)
}

fn release(
    ctx: &mut OpContext<'_, '_>,
    which: Find<'_>,
    next: Option<AgentId>,
    why: &str,
) -> Result<Vec<LockView>> {
    // A lock that cannot be read stays, and the doctor names it.
    let (mut locks, _) = readable::<Lock>(ctx.tx, which)?;
    locks.retain(|lock| Some(lock.held_by) != next);
    let mut released = Vec::new();
    for lock in locks {
        let data = json!({ "file": lock.file, "fence": lock.fence, "reason": why });
        ctx.tx.remove(EventType::LockReleased, &lock, &data)?;
        released.push(view(ctx, lock)?);
    }
    Ok(released)
}
