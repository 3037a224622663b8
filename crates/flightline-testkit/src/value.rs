//! Values to write into a store, each named by a number.

use flightline::core::mission::{Mission, MissionStatus};
use flightline::core::note::{Note, NoteKind};
use flightline::core::text::NoteText;
use flightline::core::{AgentId, MissionId, NoteId, Time, Title};
use uuid::Uuid;

pub fn agent_id(number: u128) -> AgentId {
    AgentId::new(Uuid::from_u128(number))
}

/// A mission that is under way.
pub fn mission(number: u128, title: &str) -> Mission {
    let at = Time::from_millis(1_767_528_000_000);
    let title = Title::parse("title", title).expect("a title");
    Mission {
        status: MissionStatus::InProgress,
        timeline: 1,
        started_at: Some(at),
        ..Mission::new(MissionId::new(Uuid::from_u128(number)), title, at)
    }
}

/// A lesson that was learned in a mission.
pub fn lesson(number: u128, mission: &Mission, text: &str) -> Note {
    Note {
        id: NoteId::new(Uuid::from_u128(number)),
        kind: NoteKind::Lesson,
        mission_id: mission.id,
        sortie_id: None,
        text: NoteText::parse("note", text).expect("a text"),
        rationale: None,
        path: None,
        checksum: None,
        artifact_type: None,
        author: "user:tester".to_owned(),
        author_id: None,
        at: mission.created_at,
        after_cut: None,
        replaces: None,
        ended: None,
        failure: None,
    }
}
