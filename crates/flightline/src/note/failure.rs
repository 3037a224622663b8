//! Failures that are blockers: noted when they happen, and ended once the failed request has worked.

use flightline_core::event::EventType;
use flightline_core::lock::Lock;
use flightline_core::message::{Delivery, DeliveryState, Message};
use flightline_core::mission::Mission;
use flightline_core::note::{Failure, Note, NoteEnding, NoteKind};
use flightline_core::text;
use flightline_core::{AgentId, MissionId, NoteId, RepoPath, SortieId, Subject, Title};
use flightline_store::{Actor, Find};
use serde_json::json;

use super::end::end;
use crate::agent::held_sorties;
use crate::checkpoint::readable;
use crate::error::Result;
use crate::op_context::OpContext;

pub(crate) struct FailureAuthor {
    pub(crate) author: String,
    pub(crate) id: Option<AgentId>,
}

/// Notes a failure as a blocker, in the words it was told in. One that is open already is told anew, not twice.
pub(crate) fn note_failure(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    whose: FailureAuthor,
    told: &text::NoteText,
    failure: Option<Failure>,
) -> Result<NoteId> {
    let known = open(ctx, Find::Mission(mission.id))?
        .into_iter()
        .find(|note| {
            note.author == whose.author
                && match &failure {
                    Some(failure) => note.failure.as_ref() == Some(failure),
                    None => note.text == *told,
                }
        });
    if let Some(known) = known.as_ref().filter(|known| known.text == *told) {
        return Ok(known.id);
    }
    let sortie_id = match whose.id {
        Some(id) => work_of(ctx, id, mission)?,
        None => None,
    };
    let note = Note {
        id: known.map_or_else(|| NoteId::new(ctx.tx.uuid()), |known| known.id),
        kind: NoteKind::Blocker,
        mission_id: mission.id,
        sortie_id,
        text: told.clone(),
        rationale: None,
        path: None,
        checksum: None,
        artifact_type: None,
        author: whose.author,
        author_id: whose.id,
        at: ctx.now(),
        after_cut: None,
        replaces: None,
        ended: None,
        failure,
    };
    // The failure was observed: noting it is no activity of an agent.
    as_flightline(ctx, |ctx| {
        let data = json!({ "kind": note.kind.as_str(), "author": note.author });
        ctx.tx.set(EventType::FailureNoted, &note, &data)?;
        Ok(())
    })?;
    Ok(note.id)
}

/// The sortie of a mission that an agent is at.
fn work_of(
    ctx: &mut OpContext<'_, '_>,
    agent: AgentId,
    mission: &Mission,
) -> Result<Option<SortieId>> {
    for id in held_sorties(ctx, agent)?.iter().rev() {
        let sortie = ctx.sortie(id)?;
        if sortie.mission_id == mission.id {
            return Ok(Some(sortie.id));
        }
    }
    Ok(None)
}

/// Ends the blockers about timed-out waits for locks, once the agent that waited gets such a lock.
pub(crate) fn settle_locks<'a>(
    ctx: &mut OpContext<'_, '_>,
    agent: AgentId,
    granted: impl Iterator<Item = &'a RepoPath> + Clone,
) -> Result<()> {
    let blockers = Find::AgentStatus(agent, NoteKind::Blocker.as_str());
    settle(ctx, blockers, |failure| match failure {
        Failure::LockTimeout { files } => {
            let overlaps = |file: &RepoPath| granted.clone().any(|path| path.overlaps(file));
            files.iter().any(overlaps)
        }
        Failure::Undelivered { .. } | Failure::Unacknowledged { .. } => false,
    })
}

/// A message was sent: an earlier undelivered one about the same is no longer a blocker.
pub(crate) fn settle_sent(
    ctx: &mut OpContext<'_, '_>,
    mission: Option<MissionId>,
    sent: &Title,
) -> Result<()> {
    let Some(mission) = mission else {
        return Ok(());
    };
    let author = ctx.actor();
    settle_of(
        ctx,
        Find::Mission(mission),
        Some(&author),
        |failure| match failure {
            Failure::Undelivered { subject } => subject == sent,
            Failure::LockTimeout { .. } | Failure::Unacknowledged { .. } => false,
        },
    )
}

/// A message was acknowledged late: unless others still have to, it is no longer in the way.
pub(crate) fn settle_acknowledged(ctx: &mut OpContext<'_, '_>, of: &Message) -> Result<()> {
    let (deliveries, _) = readable::<Delivery>(ctx.tx, Find::Parent(&of.key()))?;
    let is_late = |it: &Delivery| {
        it.overdue_at.is_some() && !matches!(it.state, DeliveryState::Acknowledged { .. })
    };
    let Some(mission) = of.mission_id.filter(|_| !deliveries.iter().any(is_late)) else {
        return Ok(());
    };
    settle(ctx, Find::Mission(mission), |failure| match failure {
        Failure::Unacknowledged { message } => *message == of.id,
        Failure::LockTimeout { .. } | Failure::Undelivered { .. } => false,
    })
}

fn settle(
    ctx: &mut OpContext<'_, '_>,
    find: Find<'_>,
    is_over: impl Fn(&Failure) -> bool,
) -> Result<()> {
    settle_of(ctx, find, None, is_over)
}

fn settle_of(
    ctx: &mut OpContext<'_, '_>,
    find: Find<'_>,
    author: Option<&str>,
    is_over: impl Fn(&Failure) -> bool,
) -> Result<()> {
    for note in open(ctx, find)? {
        let theirs = author.is_none_or(|author| author == note.author);
        if theirs && note.failure.as_ref().is_some_and(&is_over) {
            as_flightline(ctx, |ctx| {
                end(ctx, note, NoteEnding::Closed, None).map(drop)
            })?;
        }
    }
    Ok(())
}

/// Blockers that hold. An unreadable one is the doctor's, and stops no work.
fn open(ctx: &mut OpContext<'_, '_>, find: Find<'_>) -> Result<Vec<Note>> {
    let (mut notes, _) = readable::<Note>(ctx.tx, find)?;
    notes.retain(|note| note.kind == NoteKind::Blocker && note.holds());
    Ok(notes)
}

/// Leaves out blockers that block nothing at the moment: locks that could not be had and are free now.
pub(super) fn retain_open(ctx: &mut OpContext<'_, '_>, notes: &mut Vec<Note>) -> Result<()> {
    let waited = |note: &Note| matches!(note.failure, Some(Failure::LockTimeout { .. }));
    if !notes.iter().any(waited) {
        return Ok(());
    }
    let locks = ctx.tx.find::<Lock>(Find::All)?;
    notes.retain(|note| match &note.failure {
        Some(Failure::LockTimeout { files }) => locks.iter().any(|lock| {
            Some(lock.held_by) != note.author_id
                && files.iter().any(|file| lock.file.overlaps(file))
        }),
        Some(Failure::Undelivered { .. } | Failure::Unacknowledged { .. }) | None => true,
    });
    Ok(())
}

fn as_flightline(
    ctx: &mut OpContext<'_, '_>,
    act: impl FnOnce(&mut OpContext<'_, '_>) -> Result<()>,
) -> Result<()> {
    let who = ctx.tx.actor().clone();
    ctx.tx.act_as(Actor::flightline());
    let done = act(ctx);
    ctx.tx.act_as(who);
    done
}
