//! Queued requests that came too late to be done: they are recorded, not lost.

use crate::Schema;
use flightline_core::event::EventType;
use flightline_core::message::MessageKind;
use flightline_core::mission::Mission;
use flightline_core::note::{Note, NoteKind};
use flightline_core::text;
use flightline_core::{Body, Code, Name, NoteId, Refusal, SortieId, Time, Title};
use flightline_store::Actor;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mail::{Letter, post};
use crate::mission::short;
use crate::op_context::{OpContext, agent_named, find_acting};

/// Records a queued request that came too late, by a note on its sortie or mission, and mail to the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct RecordRejected {
    /// The id of the note, the same for every delivery. Without one, a new id is generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<NoteId>,
    /// The operation that was requested, such as `update_sortie`.
    pub operation: Name,
    /// The text of the request.
    pub said: text::NoteText,
    /// The time of the request, by the clock of the machine on which it was made.
    pub asked_at: Time,
    /// The agent that made the request.
    pub agent: Option<Name>,
    /// The mission of the request.
    pub mission: Option<String>,
    /// The sortie of the request.
    pub sortie: Option<String>,
    /// The code of the refusal.
    pub code: Code,
    /// The refusal as a sentence.
    pub why: text::NoteText,
}

impl Operation for RecordRejected {
    const NAME: &'static str = "record_late";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    /// The agent that asked may have no session any more: that is why it is late.
    const FENCED: bool = false;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> =
        |op| ActsFor::named(op.agent.as_ref().map(Name::as_str));
    type Outcome = Note;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Note> {
        // Another token may have delivered it, and so under a key of its own.
        if let Some(id) = self.note
            && let Some(known) = ctx.tx.get::<Note>(id)?
        {
            return match known.kind {
                NoteKind::Late => Ok(known),
                _ => Err(Refusal::invalid(format!("{id} is another note")).into()),
            };
        }
        let (mission, sortie_id) = self.about(ctx)?;
        let agent = match &self.agent {
            Some(name) => agent_named(ctx.tx, name.as_str())?,
            None => find_acting(ctx.tx, ctx.caller)?,
        };
        let author = match &self.agent {
            Some(name) => name.to_string(),
            None => ctx.principal(),
        };
        let said_by = agent.clone();
        let note = Note {
            id: self.note.unwrap_or_else(|| NoteId::new(ctx.tx.uuid())),
            kind: NoteKind::Late,
            mission_id: mission.id,
            sortie_id,
            text: self.said.clone(),
            rationale: Some(text::NoteText::parse(
                "rationale",
                &format!(
                    "{} of {}, refused on delivery: {}",
                    self.operation, self.asked_at, self.why
                ),
            )?),
            path: None,
            checksum: None,
            artifact_type: None,
            author,
            author_id: agent.map(|agent| agent.id),
            at: ctx.now(),
            after_cut: None,
            replaces: None,
            ended: None,
            failure: None,
        };
        // The caller that delivers it records it: its words are not Flightline's.
        ctx.tx.act_as(Actor {
            name: ctx.principal(),
            epoch: None,
        });
        let data = json!({
            "kind": note.kind.as_str(),
            "operation": self.operation,
            "asked_at": self.asked_at,
            "code": self.code,
        });
        ctx.tx.set(EventType::NoteAdded, &note, &data)?;
        let dispatch = ctx.dispatch_of(&mission)?;
        let of = match sortie_id {
            Some(id) => format!("{} of {}", short(id), mission.title),
            None => mission.title.to_string(),
        };
        let subject = format!("Too late from {}: {of}", note.author);
        let subject: String = subject.chars().take(120).collect();
        let body = format!(
            "Said at {}, while the server could not be reached, and refused on delivery: {}\n\n{}",
            self.asked_at, self.why, self.said
        );
        let letter = Letter {
            from: said_by.as_ref(),
            to: &[dispatch],
            subject: Title::parse("subject", &subject)?,
            body: Some(Body::parse("body", &body)?),
            kind: MessageKind::Note,
            mission: Some(mission.id),
            reply_to: None,
            acknowledge_by: None,
            progress_of: None,
        };
        post(ctx, &letter)?;
        Ok(note)
    }
}

impl RecordRejected {
    /// The mission it is about, and the sortie, as far as they are known any more.
    fn about(&self, ctx: &mut OpContext<'_, '_>) -> Result<(Mission, Option<SortieId>)> {
        if let Some(reference) = &self.sortie
            && let Ok(sortie) = ctx.sortie(reference)
        {
            let mission = ctx.mission_of(sortie.mission_id)?;
            return Ok((mission, Some(sortie.id)));
        }
        if let Some(reference) = &self.mission
            && let Ok(mission) = ctx.mission(Some(reference))
        {
            return Ok((mission, None));
        }
        Ok((ctx.mission(None)?, None))
    }
}
