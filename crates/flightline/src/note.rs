//! Operations on notes.

use std::collections::BTreeMap;

use flightline_core::briefing::check_constraint;
use flightline_core::note::{Note, NoteKind};
use flightline_core::setting::{Recovery, RecoveryKind};
use flightline_core::text;
use flightline_core::{Kind, MissionId, Name, NoteId, Refusal, RepoPath, Subject};
use flightline_store::{Find, SubjectRow};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::checkpoint::milestone::catch_up;
use crate::checkpoint::readable;
use crate::desk::Desk;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::remote::Offline;

/// Writes a note.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddNote {
    /// To which mission; the current one when none is named.
    pub mission: Option<String>,
    /// What kind of note.
    pub kind: NoteKind,
    /// What it says.
    pub text: text::Note,
    /// Why, for a decision.
    pub rationale: Option<text::Note>,
    /// The sortie it belongs to.
    pub sortie: Option<String>,
    /// The file, for an artifact.
    pub path: Option<RepoPath>,
    /// The SHA-256 of the file's bytes, as the caller found them.
    #[schemars(regex(pattern = r"^[0-9A-Fa-f]{64}$"))]
    pub checksum: Option<String>,
    /// What sort of artifact.
    pub artifact_type: Option<Name>,
}

impl AddNote {
    /// A note of a kind, and nothing else.
    #[must_use]
    pub fn of(kind: NoteKind, text: text::Note) -> Self {
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
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListNotes {
    /// Of which mission; the current one when none is named.
    pub mission: Option<String>,
    /// Of this kind only.
    pub kind: Option<NoteKind>,
}

impl Operation for AddNote {
    const NAME: &'static str = "add_note";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const OFFLINE: Offline = Offline::Kept;
    type Outcome = Note;

    fn acts_for(&self) -> ActsFor<'_> {
        ActsFor::Caller
    }

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<Note> {
        if self.kind == NoteKind::Late {
            return Err(Refusal::invalid(
                "a late note is written when something comes too late, and by nobody",
            )
            .into());
        }
        let mission = desk.mission(self.mission.as_deref())?;
        let sortie_id = match &self.sortie {
            Some(reference) => {
                let sortie = desk.sortie(reference)?;
                if sortie.mission_id != mission.id {
                    return Err(Refusal::invalid(format!(
                        "{reference} belongs to another mission"
                    ))
                    .into());
                }
                Some(sortie.id)
            }
            None => None,
        };
        if self.kind == NoteKind::Constraint {
            // Briefings repeat a constraint byte for byte, or not at all: better to hear it now.
            check_constraint(&self.text)?;
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
            id: NoteId::new(desk.tx.uuid()),
            kind: self.kind,
            mission_id: mission.id,
            sortie_id,
            text: self.text.clone(),
            rationale: self.rationale.clone(),
            path: self.path.clone(),
            checksum: self.checksum.clone(),
            artifact_type: self.artifact_type.clone(),
            author: desk.actor(),
            author_id: desk.agent_id(),
            at: desk.now(),
            after_cut: None,
        };
        desk.tx
            .set("note_added", &note, &json!({ "kind": note.kind.as_str() }))?;
        catch_up(desk, mission.id)?;
        Ok(note)
    }
}

impl Operation for ListNotes {
    const NAME: &'static str = "list_notes";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    type Outcome = Vec<Note>;

    fn acts_for(&self) -> ActsFor<'_> {
        ActsFor::Caller
    }

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<Vec<Note>> {
        let mission = desk.mission(self.mission.as_deref())?;
        let mut notes = of_mission(desk, mission.id)?;
        notes.retain(|note| self.kind.is_none_or(|kind| note.kind == kind));
        Ok(notes)
    }
}

/// The notes of a mission, oldest first. Those written on a way that the mission went back from say so.
pub(crate) fn of_mission(desk: &mut Desk<'_, '_>, mission: MissionId) -> Result<Vec<Note>> {
    let find = Find::Mission(mission);
    let mut notes = desk.tx.find::<Note>(find)?;
    let (mut rewinds, _) = readable::<Recovery>(desk.tx, find)?;
    rewinds.retain(|it| it.kind == RecoveryKind::Rewind && it.undone_at.is_none());
    if notes.is_empty() || rewinds.is_empty() {
        return Ok(notes);
    }
    let born = |rows: Vec<SubjectRow>| -> BTreeMap<String, u64> {
        rows.into_iter().map(|row| (row.id, row.born)).collect()
    };
    let written = born(desk.tx.rows(Kind::Note, find)?);
    let gone_back = born(desk.tx.rows(Kind::Recovery, find)?);
    for note in &mut notes {
        let Some(written) = written.get(&note.key()) else {
            continue;
        };
        let between = |it: &&Recovery| {
            it.cut_rev < *written && gone_back.get(&it.key()).is_some_and(|rev| written < rev)
        };
        note.after_cut = rewinds
            .iter()
            .rev()
            .find(between)
            .map(|it| it.checkpoint_id);
    }
    Ok(notes)
}
