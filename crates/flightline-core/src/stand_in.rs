//! Stand-ins: values that take the place of those of which every copy is damaged, so that everything else goes on. A
//! stand-in never allows what the lost value may have forbidden, and never has work done twice.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use uuid::Uuid;

use crate::agent::{Agent, Role};
use crate::checkpoint::Milestone;
use crate::effect::{Effect, EffectState};
use crate::event::EventType;
use crate::history::Branch;
use crate::id::{AgentId, CheckpointId, EffectId, MissionId, SortieId};
use crate::message::{Delivery, DeliveryState, Message, MessageKind};
use crate::mission::{Mission, MissionStatus, Pinning};
use crate::note::{Note, NoteEnd, NoteEnding, NoteKind};
use crate::setting::{Deadlines, EpochFloor, NotifiedUpTo, Recovery, RecoveryKind, Restoration};
use crate::sortie::{Sortie, SortieStatus};
use crate::subject::Kind;
use crate::text::{Body, Name, NoteText, Title, read_stored};
use crate::time::Time;
use crate::token::{Scope, Token};

#[cfg(test)]
mod tests;

/// Distance of an epoch above the known ones when some were lost.
pub const FORGOTTEN_EPOCHS: u64 = 1_000;

const LOST: &str = "Every copy of this record was damaged; what could be told of it stands here.";
const LOST_CONSTRAINT: &str =
    "A constraint stood here, and every copy of it was damaged: ask what it was before you go on.";

/// The remains of a subject of which every copy of the last value is damaged.
#[derive(Clone, Debug)]
pub struct Remains<'a> {
    pub kind: Kind,
    pub id: &'a str,
    /// The newest sound value that was given to the subject since it was removed last.
    pub former: Option<&'a str>,
    /// The columns by which the subject is found, where they are as they were written.
    pub columns: Option<FoundBy>,
    /// The event that gave the lost value, where it is as it was written.
    pub event: Option<EventType>,
    /// The mission of that event.
    pub mission: Option<String>,
    /// The data of that event.
    pub data: Json,
    /// The number of values that the subject was given, the lost ones included.
    pub changes: u32,
    /// The recipients of the message, when the subject is one.
    pub recipients: Vec<AgentId>,
    /// The highest epoch that any agent is known to have.
    pub highest_epoch: u64,
    /// The last revision of the project.
    pub rev: u64,
    pub now: Time,
}

/// The columns by which a subject is found.
#[derive(Clone, Debug, Default)]
pub struct FoundBy {
    pub mission: Option<String>,
    pub parent: Option<String>,
    pub agent: Option<String>,
    pub name: Option<String>,
    pub status: String,
}

/// The value that takes the place of a lost one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandIn {
    /// The newest sound value stands again.
    Former,
    /// A value that was made of what remains, as the text of its document.
    Made(String),
    /// The subject is removed.
    Removal,
}

/// Returns the value that may take the place of a lost one; none where nothing may.
pub fn stand_in(remains: &Remains<'_>) -> Option<StandIn> {
    let former = remains.former.map(|_| StandIn::Former);
    match remains.kind {
        // A fence that was voided must not be valid again.
        Kind::Lock => Some(StandIn::Removal),
        Kind::Recovery => remains.recovery().map_or(Some(StandIn::Removal), made),
        Kind::Subtask
        | Kind::File
        | Kind::Error
        | Kind::Review
        | Kind::Step
        | Kind::Briefing
        | Kind::Original
        | Kind::FileSystem => Some(former.unwrap_or(StandIn::Removal)),
        // A note that binds must not be gone in silence, nor one that was withdrawn bind again.
        Kind::Note => remains.note(former),
        // Removed or older, work or an act on the world outside could be done twice.
        Kind::Sortie => remains.sortie().map_or(Some(StandIn::Removal), made),
        Kind::Effect => remains.effect().map_or(Some(StandIn::Removal), made),
        Kind::Message => former.or_else(|| made(remains.message()?)),
        Kind::Milestone => former.or_else(|| made(remains.milestone()?)),
        Kind::Agent => made(remains.agent()?),
        Kind::Mission => made(remains.mission()?),
        Kind::Delivery => made(remains.delivery()?),
        Kind::Token => made(remains.token()?),
        Kind::Setting => remains.setting(),
        // Checkpoints are quarantined, together with the values that they came with.
        Kind::Checkpoint | Kind::Import => None,
    }
}

fn made(value: impl Serialize) -> Option<StandIn> {
    serde_json::to_string(&value).ok().map(StandIn::Made)
}

impl Remains<'_> {
    /// The newest sound value, as its type.
    fn former<T: DeserializeOwned>(&self) -> Option<T> {
        read_stored(self.former?).ok()
    }

    fn id<T: std::str::FromStr>(&self) -> Option<T> {
        self.id.parse().ok()
    }

    fn name(&self) -> Option<&str> {
        self.columns.as_ref()?.name.as_deref()
    }

    fn status(&self) -> Option<&str> {
        self.columns.as_ref().map(|columns| &*columns.status)
    }

    fn mission_id(&self) -> Option<MissionId> {
        let found = self.columns.as_ref().and_then(|it| it.mission.as_deref());
        found.or(self.mission.as_deref())?.parse().ok()
    }

    fn agent_id(&self) -> Option<AgentId> {
        self.columns.as_ref()?.agent.as_deref()?.parse().ok()
    }

    /// The agent without a session and without the coordinator's part: no earlier session of it can write. One that may have
    /// been retired is.
    fn agent(&self) -> Option<Agent> {
        let id = self.id::<AgentId>()?;
        let lost = format!("lost-{}", &id.to_string()[4..12]);
        let name = Name::parse("agent name", self.name().unwrap_or(&lost)).ok()?;
        let known = self.former::<Agent>();
        let known = known.unwrap_or_else(|| Agent::new(id, name, Role::Specialist, self.now));
        let is_retired = known.retired_at.is_some()
            || self.event == Some(EventType::AgentRetired)
            || self.status().is_none_or(|status| status == "retired");
        Some(Agent {
            role: Role::Specialist,
            epoch: known
                .epoch
                .max(self.highest_epoch)
                .saturating_add(FORGOTTEN_EPOCHS),
            session_id: None,
            process: None,
            updated_at: self.now,
            session_ended_at: Some(self.now),
            retired_at: is_retired.then(|| known.retired_at.unwrap_or(self.now)),
            ..known
        })
    }

    /// The mission without a coordinator, in the status that it is found by, or else waiting for a person.
    fn mission(&self) -> Option<Mission> {
        let title = || Title::parse("title", self.name().unwrap_or("A mission")).ok();
        let known = match self.former::<Mission>() {
            Some(former) => former,
            None => Mission::new(self.id()?, title()?, self.now),
        };
        // It may have ended since its newest sound value.
        let last = match known.status.is_open() {
            true => MissionStatus::Paused,
            false => known.status,
        };
        let found = self.status().and_then(MissionStatus::from_word);
        let status = found.unwrap_or(last);
        let has_ended = matches!(status, MissionStatus::Completed | MissionStatus::Failed);
        Some(Mission {
            status,
            dispatch: None,
            constraints_by: Pinning::Dispatch,
            // A rewind may have begun another one with each value.
            timeline: known.timeline.saturating_add(self.changes),
            updated_at: self.now,
            completed_at: known.completed_at.or(has_ended.then_some(self.now)),
            reason: Some(NoteText::parse("reason", LOST).ok()?),
            ..known
        })
    }

    /// The token, revoked.
    fn token(&self) -> Option<Token> {
        let name = || Name::parse("name", self.name().unwrap_or("lost")).ok();
        let known = match self.former::<Token>() {
            Some(former) => former,
            None => Token {
                id: self.id()?,
                name: name()?,
                scope: Scope::Read,
                agent: None,
                sha256: String::new(),
                created_by: "flightline".to_owned(),
                created_at: self.now,
                expires_at: None,
                revoked_at: None,
            },
        };
        Some(Token {
            revoked_at: Some(known.revoked_at.unwrap_or(self.now)),
            ..known
        })
    }

    /// The sortie with the status and the owner by which it is found; where they are not known, a failed one, so that a person
    /// decides whether it is begun again. Work that was done stays done.
    fn sortie(&self) -> Option<Sortie> {
        use SortieStatus::{Blocked, Completed, Failed, Skipped};
        let former = self.former::<Sortie>();
        let found = self.status().and_then(SortieStatus::from_word);
        let status = match (found, &former) {
            (Some(status), Some(_)) | (Some(status @ (Completed | Skipped)), None) => status,
            (None, Some(former)) if matches!(former.status, Completed | Skipped) => former.status,
            (None, _) | (Some(_), None) => Failed,
        };
        let known = match former {
            Some(former) => former,
            None => {
                let title = Title::parse("title", self.name().unwrap_or("A sortie")).ok()?;
                Sortie::new(self.id()?, self.mission_id()?, title, self.now)
            }
        };
        let owner = match &self.columns {
            Some(_) => self.agent_id(),
            None => known.assigned_to,
        };
        let lost = || NoteText::parse("reason", LOST).ok();
        let is = |this: SortieStatus| status == this;
        Some(Sortie {
            status,
            assigned_to: owner,
            assigned_epoch: known.assigned_epoch.filter(|_| owner == known.assigned_to),
            failure: known
                .failure
                .filter(|_| is(Failed))
                .or_else(|| lost().filter(|_| is(Failed))),
            blocked_reason: known
                .blocked_reason
                .filter(|_| is(Blocked))
                .or_else(|| lost().filter(|_| is(Blocked))),
            completed_at: is(Completed).then(|| known.completed_at.unwrap_or(self.now)),
            ..known
        })
    }

    /// An effect in doubt, unless it is known to be done.
    fn effect(&self) -> Option<Effect> {
        let is_done = self.status() == Some(EffectState::DONE);
        let done = EffectState::Done {
            at: self.now,
            result: None,
        };
        if let Some(former) = self.former::<Effect>() {
            let is_news = is_done && !former.is_done();
            let state = if is_news { done } else { former.state.clone() };
            return Some(Effect { state, ..former });
        }
        let id = self.id::<EffectId>()?;
        let lost = format!("lost-{}", &id.to_string()[4..12]);
        let parent = self.columns.as_ref().and_then(|it| it.parent.as_deref());
        Some(Effect {
            id,
            key: Name::parse("key", self.name().unwrap_or(&lost)).ok()?,
            mission_id: self.mission_id()?,
            sortie_id: parent.and_then(|id| id.parse().ok()),
            what: Some(NoteText::parse("effect", LOST).ok()?),
            by: "flightline".to_owned(),
            agent_id: None,
            epoch: None,
            state: match is_done {
                true => done,
                false => EffectState::Intent { at: self.now },
            },
            attempts: 1,
        })
    }

    /// The note as it was before, ended where it is found by its end. A constraint leaves one that says so.
    fn note(&self, former: Option<StandIn>) -> Option<StandIn> {
        let found = self.status().or_else(|| self.data.get("kind")?.as_str());
        let is_ended = found.is_some_and(|found| NoteEnding::WORDS.contains(&found));
        match self.former::<Note>() {
            Some(note) if is_ended && note.ended.is_none() => made(Note {
                ended: Some(NoteEnd {
                    how: match found == Some(NoteEnding::WORDS[0]) {
                        true => NoteEnding::Closed,
                        false => NoteEnding::Withdrawn,
                    },
                    by: "flightline".to_owned(),
                    at: self.now,
                    reason: None,
                }),
                ..note
            }),
            Some(_) => former,
            None if found == Some(NoteKind::Constraint.as_str()) => made(Note {
                id: self.id()?,
                kind: NoteKind::Constraint,
                mission_id: self.mission_id()?,
                sortie_id: None,
                text: NoteText::parse("note", LOST_CONSTRAINT).ok()?,
                rationale: None,
                path: None,
                checksum: None,
                artifact_type: None,
                author: "flightline".to_owned(),
                author_id: None,
                at: self.now,
                after_cut: None,
                replaces: None,
                ended: None,
                failure: None,
            }),
            None => Some(StandIn::Removal),
        }
    }

    /// A message of Flightline's with the subject of the lost one: its recipients learn that there was one.
    fn message(&self) -> Option<Message> {
        let id = self.id()?;
        let thread = self.columns.as_ref().and_then(|it| it.parent.as_deref());
        let title = self.name().unwrap_or("A message that was lost");
        Some(Message {
            id,
            thread_id: thread.and_then(|id| id.parse().ok()).unwrap_or(id),
            in_reply_to: None,
            mission_id: self.mission_id(),
            from: "flightline".to_owned(),
            from_id: self.agent_id(),
            to: self.recipients.clone(),
            subject: Title::parse("subject", title).ok()?,
            body: Some(Body::parse("body", LOST).ok()?),
            kind: MessageKind::Notice,
            sent_at: self.now,
            acknowledge_by: None,
            event: None,
        })
    }

    /// The delivery in the state that it is found by: an acknowledged message is not delivered again.
    fn delivery(&self) -> Option<Delivery> {
        let at = self.now;
        let state = match self.status() {
            Some("acknowledged") => Some(DeliveryState::Acknowledged { at }),
            Some("delivered") => Some(DeliveryState::Delivered { at }),
            Some("pending") => Some(DeliveryState::Pending),
            _ if self.event == Some(EventType::MessageAcknowledged) => {
                Some(DeliveryState::Acknowledged { at })
            }
            _ => None,
        };
        let (message, to) = self.id.split_once('/')?;
        let known = self.former::<Delivery>().or_else(|| {
            let is_digest = self.status() == Some(Delivery::OPEN_DIGEST);
            Some(Delivery {
                message_id: message.parse().ok()?,
                to: to.parse().ok()?,
                mission_id: self.mission_id(),
                state: DeliveryState::Pending,
                acknowledge_by: None,
                overdue_at: None,
                digest: self.name().filter(|_| is_digest).map(str::to_owned),
                progress_of: self.name().and_then(|name| name.parse::<SortieId>().ok()),
            })
        })?;
        Some(Delivery {
            state: state.unwrap_or(known.state),
            ..known
        })
    }

    /// A recovery that cannot be taken back, so that none before it is taken back in its place; none for one that was.
    fn recovery(&self) -> Option<Recovery> {
        let gone = CheckpointId::new(Uuid::nil());
        (self.status() != Some("undone")).then_some(Recovery {
            id: self.id()?,
            mission_id: self.mission_id()?,
            kind: RecoveryKind::RollForward,
            checkpoint_id: gone,
            cut_rev: 0,
            before: Some(gone),
            by: "flightline".to_owned(),
            at: self.now,
            undone_at: None,
            skipped: Vec::new(),
            reset_to: None,
            gone: Vec::new(),
            lost: Vec::new(),
        })
    }

    fn milestone(&self) -> Option<Milestone> {
        let mut parts = self.id.split('/');
        Some(Milestone {
            mission_id: parts.next()?.parse().ok()?,
            timeline: parts.next()?.parse().ok()?,
            percent: parts.next()?.parse().ok()?,
            at: self.now,
            owed: self.status() == Some(Milestone::OWED),
        })
    }

    /// A setting without which Flightline only looks again is removed; the others are made of what is known.
    fn setting(&self) -> Option<StandIn> {
        let number = |at: &str| self.data.pointer(at).and_then(Json::as_u64);
        let text = |at: &str| self.data.pointer(at).and_then(Json::as_str);
        let above = self.highest_epoch.saturating_add(FORGOTTEN_EPOCHS);
        match self.id {
            EpochFloor::KEY => made(EpochFloor {
                epoch: number("/above").unwrap_or(0).max(above),
            }),
            // Which histories it continued is not known any more.
            Restoration::KEY => made(Restoration {
                at: self.now,
                rev: number("/rev").unwrap_or(self.rev),
                events: number("/events").unwrap_or(0),
                history: None,
                follows: Vec::new(),
            }),
            // The next look finds the next deadline.
            Deadlines::KEY => made(Deadlines {
                next: Some(self.now),
            }),
            NotifiedUpTo::KEY => made(NotifiedUpTo { rev: self.rev }),
            id if id.starts_with("history/") => made(Branch {
                history: id.strip_prefix("history/")?.to_owned(),
                before: text("/before/history")?.to_owned(),
                left_at: number("/before/rev")?,
                epochs_above: above,
                at: self.now,
            }),
            _ => Some(StandIn::Removal),
        }
    }
}
