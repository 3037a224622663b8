//! Operations on notes.

pub mod end;
pub(crate) mod failure;

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::briefing::{ConstraintRoom, Quote, check_constraint};
use flightline_core::event::EventType;
use flightline_core::mission::{Mission, Pinning};
use flightline_core::note::{Note, NoteEnding, NoteKind};
use flightline_core::text;
use flightline_core::{Code, Kind, MissionId, Name, NoteId, Refusal, RepoPath, Subject};
use flightline_store::{Find, ListOrder, ListScope, RowList};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::checkpoint::milestone::catch_up;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, documents, some_rows};
use crate::mission::short;
use crate::op_context::OpContext;
use crate::recovery::undone::Undone;
use crate::remote::Offline;

/// Adds a note to a mission.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct AddNote {
    /// The mission that the note belongs to; the current one when none is named.
    pub mission: Option<String>,
    /// The kind of the note.
    pub kind: NoteKind,
    /// The text of the note.
    pub text: text::NoteText,
    /// The rationale of a decision.
    pub rationale: Option<text::NoteText>,
    /// The sortie that the note belongs to.
    pub sortie: Option<String>,
    /// The path of the file, for an artifact.
    pub path: Option<RepoPath>,
    /// The SHA-256 of the file's bytes, as the caller found them.
    #[schemars(regex(pattern = r"^[0-9A-Fa-f]{64}$"))]
    pub checksum: Option<String>,
    /// The type of an artifact, in the caller's word.
    pub artifact_type: Option<Name>,
}

impl AddNote {
    /// A note of a kind, and nothing else.
    pub fn of(kind: NoteKind, text: text::NoteText) -> Self {
        Self {
            mission: None,
            kind,
            text,
            rationale: None,
            sortie: None,
            path: None,
            checksum: None,
            artifact_type: None,
        }
    }
}

/// Lists notes, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListNotes {
    /// The mission whose notes are listed; the current one when none is named.
    pub mission: Option<String>,
    /// List only notes of this kind.
    pub kind: Option<NoteKind>,
    /// List closed, withdrawn and replaced notes too.
    #[serde(default)]
    pub all: bool,
}

impl Operation for AddNote {
    const NAME: &'static str = "add_note";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const OFFLINE: Offline = Offline::Kept;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Note;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Note> {
        if self.kind == NoteKind::Late {
            return Err(Refusal::invalid(
                "a late note is written only by Flightline itself, when a request comes too late",
            )
            .into());
        }
        let mission = ctx.mission(self.mission.as_deref())?;
        let sortie_id = match &self.sortie {
            Some(reference) => Some(ctx.sortie_in(mission.id, reference)?.id),
            None => None,
        };
        if self.kind == NoteKind::Constraint {
            check_pinning(ctx, &mission, &self.text, None)?;
        }
        if self.kind == NoteKind::Artifact && self.path.is_none() {
            return Err(Refusal::invalid("an artifact needs a file")
                .hint("give `--path FILE`")
                .into());
        }
        if self
            .checksum
            .as_ref()
            .is_some_and(|sum| sum.len() != 64 || !sum.bytes().all(|byte| byte.is_ascii_hexdigit()))
        {
            return Err(Refusal::invalid("a checksum has 64 hexadecimal digits").into());
        }
        let note = Note {
            id: NoteId::new(ctx.tx.uuid()),
            kind: self.kind,
            mission_id: mission.id,
            sortie_id,
            text: self.text.clone(),
            rationale: self.rationale.clone(),
            path: self.path.clone(),
            checksum: self.checksum.clone(),
            artifact_type: self.artifact_type.clone(),
            author: ctx.actor(),
            author_id: ctx.agent_id(),
            at: ctx.now(),
            after_cut: None,
            replaces: None,
            ended: None,
            failure: None,
        };
        ctx.tx.set(
            EventType::NoteAdded,
            &note,
            &json!({ "kind": note.kind.as_str() }),
        )?;
        catch_up(ctx, mission.id)?;
        Ok(note)
    }
}

impl Operation for ListNotes {
    const NAME: &'static str = "list_notes";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<Note>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<Note>> {
        let mission = ctx.mission(self.mission.as_deref())?;
        // The kind of a note that ended is only in its text: to filter those, all notes are read.
        if ctx.caller.window.is_some() && !(self.all && self.kind.is_some()) {
            return self.page(ctx, mission.id);
        }
        let mut notes = all_of_mission(ctx, mission.id)?;
        notes.retain(|note| {
            (self.all || note.holds()) && self.kind.is_none_or(|kind| note.kind == kind)
        });
        Ok(notes)
    }
}

impl ListNotes {
    /// The notes of the caller's window. The status of a note that holds is its kind.
    fn page(&self, ctx: &mut OpContext<'_, '_>, mission: MissionId) -> Result<Vec<Note>> {
        let others = NoteKind::ALL
            .into_iter()
            .filter(|kind| self.kind.is_some_and(|it| it != *kind));
        let ended = NoteEnding::WORDS.into_iter().filter(|_| !self.all);
        let without: Vec<&str> = ended.chain(others.map(NoteKind::as_str)).collect();
        let list = RowList::new(Kind::Note, ListScope::Mission(mission), &without);
        let rows = some_rows(ctx, list, ListOrder::OLDEST, u64::MAX)?;
        let mut notes: Vec<Note> = documents(ctx, &rows)?;
        let undone = Undone::of(ctx, mission)?;
        let born: BTreeMap<&str, u64> = rows.iter().map(|row| (&*row.id, row.born)).collect();
        for note in &mut notes {
            let written = born.get(note.key().as_str());
            note.after_cut = written.and_then(|rev| undone.at(*rev));
        }
        Ok(notes)
    }
}

/// Refuses a constraint that the caller may not pin, or that briefings could not repeat word for word beside those
/// that hold already; `instead_of` is the one it replaces.
fn check_pinning(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    text: &text::NoteText,
    instead_of: Option<NoteId>,
) -> Result<()> {
    match mission.constraints_by {
        Pinning::Dispatch if !ctx.is_in_charge() => {
            return Err(Refusal::new(
                Code::NotYours,
                format!(
                    "only people and dispatch may pin constraints on {} (\"{}\")",
                    short(mission.id),
                    mission.title
                ),
            )
            .hint("say it as your decision with `fleet note decision TEXT`, or ask dispatch to pin it")
            .into());
        }
        Pinning::Dispatch | Pinning::Everyone => {}
    }
    check_constraint(text)?;
    let mut known = of_mission(ctx, mission.id)?;
    known.retain(|note| note.kind == NoteKind::Constraint && Some(note.id) != instead_of);
    let new = Quote {
        author: ctx.actor(),
        text: text.to_string(),
    };
    let quotes: Vec<Quote> = known.iter().map(quote).collect();
    let room = ConstraintRoom::of(&quotes, &new);
    room.check().map_err(|refusal| {
        let longest = known.iter().max_by_key(|note| note.text.len());
        let Some(longest) = longest else {
            return refusal;
        };
        let hint = refusal.hint.clone().unwrap_or_default();
        refusal.hint(format!(
            "{hint}\nor make room: `fleet note list --kind constraint` shows all {}, `fleet note withdraw {}` ends the longest",
            known.len(),
            short(longest.id)
        ))
    })?;
    Ok(())
}

pub(crate) fn quote(note: &Note) -> Quote {
    Quote {
        author: note.author.clone(),
        text: note.text.to_string(),
    }
}

/// The notes of a mission that hold, oldest first. Those written on a way that the mission went back from say so.
pub(crate) fn of_mission(ctx: &mut OpContext<'_, '_>, mission: MissionId) -> Result<Vec<Note>> {
    let mut notes = all_of_mission(ctx, mission)?;
    notes.retain(Note::holds);
    failure::retain_open(ctx, &mut notes)?;
    Ok(notes)
}

/// The notes of a mission, also those that hold no longer, oldest first. Those written on a way that the mission went back from say so.
fn all_of_mission(ctx: &mut OpContext<'_, '_>, mission: MissionId) -> Result<Vec<Note>> {
    let find = Find::Mission(mission);
    let mut notes = ctx.tx.find::<Note>(find)?;
    let undone = Undone::of(ctx, mission)?;
    if notes.is_empty() || undone.last().is_none() {
        return Ok(notes);
    }
    let rows = ctx.tx.rows(Kind::Note, find)?;
    let written: BTreeMap<String, u64> = rows.into_iter().map(|row| (row.id, row.born)).collect();
    for note in &mut notes {
        let written = written.get(&note.key());
        note.after_cut = written.and_then(|rev| undone.at(*rev));
    }
    Ok(notes)
}
