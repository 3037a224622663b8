//! Preconditions of a request: the subject that it is about, and the revision at which the caller saw it.

use flightline_core::lock::Lock;
use flightline_core::message::Message;
use flightline_core::note::Note;
use flightline_core::setting::Recovery;
use flightline_core::{Code, Kind, LockId, MessageId, NoteId, RecoveryId, Refusal, Subject};
use flightline_store::Find;

use crate::checkpoint;
use crate::error::{Error, Result};
use crate::event::Cursor;
use crate::mission::short;
use crate::op_context::OpContext;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub kind: Kind,
    /// The target's id, the beginning of it, or its name, as requests name it.
    pub reference: String,
    /// The condition on the target, for a write.
    pub if_unchanged: IfUnchanged,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IfUnchanged {
    #[default]
    NoCondition,
    /// The write is refused when the target changed since every one of these positions.
    Since(Vec<Cursor>),
}

/// Refuses a write about a target that changed since the caller looked. It runs in the transaction of the write, so that
/// no other write comes in between.
pub(super) fn check(ctx: &mut OpContext<'_, '_>) -> Result<()> {
    let Some(target) = &ctx.caller.target else {
        return Ok(());
    };
    let IfUnchanged::Since(places) = &target.if_unchanged else {
        return Ok(());
    };
    let id = find(ctx, target)?;
    let now = place(ctx, target.kind, &id)?;
    for seen in places.iter().filter(|seen| seen.rev == now.rev) {
        if ctx.tx.has_place(&seen.history, seen.rev)? {
            return Ok(());
        }
    }
    Err(Refusal::new(
        Code::Changed,
        format!("{} changed since you looked", short(&id)),
    )
    .hint("read it again, then decide again")
    .into())
}

/// Refuses a caller that continues from a place that is not in this journal.
pub(super) fn check_place(ctx: &mut OpContext<'_, '_>) -> Result<()> {
    match &ctx.caller.place {
        Some(place) => place.check(ctx.tx),
        None => Ok(()),
    }
}

/// Returns the position since which the caller's target has not changed; that of the whole journal when it named
/// none, or none that is still there.
pub(super) fn since(ctx: &mut OpContext<'_, '_>) -> Result<Cursor> {
    let all = Cursor {
        history: ctx.tx.history().to_owned(),
        rev: ctx.tx.rev(),
    };
    let Some(target) = &ctx.caller.target else {
        return Ok(all);
    };
    match find(ctx, target) {
        Ok(id) => place(ctx, target.kind, &id),
        Err(Error::Refused(_)) => Ok(all),
        Err(error) => Err(error),
    }
}

fn find(ctx: &mut OpContext<'_, '_>, target: &Target) -> Result<String> {
    let reference = target.reference.as_str();
    Ok(match target.kind {
        Kind::Mission => ctx.mission(Some(reference))?.key(),
        Kind::Sortie => ctx.sortie(reference)?.key(),
        Kind::Agent => ctx.find_agent(reference)?.key(),
        Kind::Checkpoint => checkpoint::find(ctx, reference)?.key(),
        Kind::Lock => ctx.by_id::<Lock>(reference, LockId::PREFIX)?.key(),
        Kind::Message => ctx.by_id::<Message>(reference, MessageId::PREFIX)?.key(),
        Kind::Note => ctx.by_id::<Note>(reference, NoteId::PREFIX)?.key(),
        Kind::Recovery => ctx.by_id::<Recovery>(reference, RecoveryId::PREFIX)?.key(),
        Kind::Subtask
        | Kind::File
        | Kind::Error
        | Kind::Review
        | Kind::Step
        | Kind::Delivery
        | Kind::Effect
        | Kind::Setting
        | Kind::Milestone
        | Kind::Briefing
        | Kind::Import
        | Kind::Original
        | Kind::FileSystem
        | Kind::Token => {
            return Err(Refusal::invalid("this record cannot be read by itself").into());
        }
    })
}

/// Returns the position at which a target, or a part of it, last changed.
fn place(ctx: &mut OpContext<'_, '_>, kind: Kind, id: &str) -> Result<Cursor> {
    let mut rev = ctx.tx.changed(kind, id)?.unwrap_or(0);
    let parts: &[Kind] = match kind {
        Kind::Sortie => &[Kind::Subtask, Kind::File, Kind::Error, Kind::Review],
        Kind::Message => &[Kind::Delivery],
        _ => &[],
    };
    for part in parts {
        let rows = ctx.tx.rows(*part, Find::Parent(id))?;
        rev = rows.iter().map(|row| row.rev).fold(rev, u64::max);
    }
    Ok(Cursor {
        history: ctx.tx.history().to_owned(),
        rev,
    })
}
