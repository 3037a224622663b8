//! Ends notes: closes, withdraws or replaces them. Each is kept.

use crate::Schema;
use flightline_core::event::EventType;
use flightline_core::note::{Note, NoteEnd, NoteEnding, NoteKind};
use flightline_core::text;
use flightline_core::{Code, NoteId, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::check_pinning;
use crate::checkpoint::milestone::catch_up;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mission::short;
use crate::op_context::OpContext;

/// Ends a note: from now on it is in no briefing and no recovery context.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct EndNote {
    /// The note that ends.
    pub note: String,
    /// The way in which the note ends.
    pub how: EndHow,
    /// The reason for the end of the note.
    #[serde(default)]
    pub reason: Option<text::NoteText>,
}

/// The ways to end a note without writing another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum EndHow {
    /// The matter of the note is dealt with.
    Closed,
    /// The note should not have been written, or does not hold any more.
    Withdrawn,
}

/// Replaces a note by a new one: the old note is kept, and holds no longer.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ReplaceNote {
    /// The note that is replaced.
    pub note: String,
    /// The text of the new note.
    pub text: text::NoteText,
    /// The rationale of a decision; that of the old note when it is left out.
    #[serde(default)]
    pub rationale: Option<text::NoteText>,
}

impl From<EndHow> for NoteEnding {
    fn from(how: EndHow) -> Self {
        match how {
            EndHow::Closed => Self::Closed,
            EndHow::Withdrawn => Self::Withdrawn,
        }
    }
}

impl Operation for EndNote {
    const NAME: &'static str = "end_note";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Note;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Note> {
        let note = ctx.by_id::<Note>(&self.note, NoteId::PREFIX)?;
        let how = NoteEnding::from(self.how);
        if note.ended.as_ref().is_some_and(|end| end.how == how) {
            return Ok(note);
        }
        check(ctx, &note, how)?;
        let ended = end(ctx, note, how, self.reason.clone())?;
        catch_up(ctx, ended.mission_id)?;
        Ok(ended)
    }
}

impl Operation for ReplaceNote {
    const NAME: &'static str = "replace_note";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Note;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Note> {
        let old = ctx.by_id::<Note>(&self.note, NoteId::PREFIX)?;
        let id = NoteId::new(ctx.tx.uuid());
        check(ctx, &old, NoteEnding::Replaced { by: id })?;
        if old.kind == NoteKind::Late {
            return Err(
                Refusal::invalid("a late note is kept as it is, and cannot be edited")
                    .hint(format!(
                        "when it is dealt with: `fleet note close {}`",
                        short(old.id)
                    ))
                    .into(),
            );
        }
        if old.kind == NoteKind::Constraint {
            let mission = ctx.mission_of(old.mission_id)?;
            check_pinning(ctx, &mission, &self.text, Some(old.id))?;
        }
        let old = end(ctx, old, NoteEnding::Replaced { by: id }, None)?;
        let note = Note {
            id,
            text: self.text.clone(),
            rationale: self.rationale.clone().or_else(|| old.rationale.clone()),
            author: ctx.actor(),
            author_id: ctx.agent_id(),
            at: ctx.now(),
            after_cut: None,
            replaces: Some(old.id),
            ended: None,
            failure: None,
            ..old
        };
        let data = json!({ "kind": note.kind.as_str(), "replaces": note.replaces });
        ctx.tx.set(EventType::NoteAdded, &note, &data)?;
        catch_up(ctx, note.mission_id)?;
        Ok(note)
    }
}

/// Refuses to end a note that has ended, or that the caller may not end.
fn check(ctx: &OpContext<'_, '_>, note: &Note, how: NoteEnding) -> Result<()> {
    let id = short(note.id);
    if let Some(end) = &note.ended {
        let (was, by) = (end.how.as_str(), &end.by);
        let message = format!("{id} is no longer valid: it was {was} by {by}");
        let refusal = Refusal::new(Code::IllegalTransition, message);
        return Err(match end.how {
            NoteEnding::Replaced { by } => refusal.hint(format!("{} replaces it", short(by))),
            NoteEnding::Closed | NoteEnding::Withdrawn => {
                refusal.hint("write it again if it is still valid")
            }
        }
        .into());
    }
    if ctx.is_in_charge() || note.may_be_ended(ctx.agent_id(), how) {
        return Ok(());
    }
    let verb = match how {
        NoteEnding::Closed => "close",
        NoteEnding::Withdrawn => "withdraw",
        NoteEnding::Replaced { .. } => "edit",
    };
    let (kind, author) = (note.kind.as_str().replace('_', " "), &note.author);
    Err(Refusal::new(
        Code::NotYours,
        format!("only {author}, dispatch and people may {verb} {id}, a {kind} of {author}"),
    )
    .hint(format!(
        "ask with `fleet mail send --to dispatch --subject \"About {id}\"`"
    ))
    .details(json!({ "author": author }))
    .into())
}

pub(super) fn end(
    ctx: &mut OpContext<'_, '_>,
    note: Note,
    how: NoteEnding,
    reason: Option<text::NoteText>,
) -> Result<Note> {
    let event = match how {
        NoteEnding::Closed => EventType::NoteClosed,
        NoteEnding::Withdrawn => EventType::NoteWithdrawn,
        NoteEnding::Replaced { .. } => EventType::NoteReplaced,
    };
    let data = json!({ "kind": note.kind.as_str(), "reason": reason });
    let ended = Note {
        ended: Some(NoteEnd {
            how,
            by: ctx.tx.actor().name.clone(),
            at: ctx.now(),
            reason,
        }),
        ..note
    };
    ctx.tx.set(event, &ended, &data)?;
    Ok(ended)
}
