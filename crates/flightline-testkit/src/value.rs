//! Values to write into a store, each named by a number.

use flightline::core::mission::{Mission, MissionStatus, Pinning, Workflow};
use flightline::core::note::{Note, NoteKind};
use flightline::core::text::NoteText;
use flightline::core::{AgentId, MissionId, NoteId, Time, Title};
use uuid::Uuid;

#[must_use]
pub fn agent_id(number: u128) -> AgentId {
    AgentId::new(Uuid::from_u128(number))
}

/// A mission that is under way.
///
/// # Panics
/// Panics when the title cannot be one.
#[must_use]
pub fn mission(number: u128, title: &str) -> Mission {
    let at = Time::from_millis(1_767_528_000_000);
    Mission {
        id: MissionId::new(Uuid::from_u128(number)),
        title: Title::parse("title", title).expect("a title"),
        objective: None,
        status: MissionStatus::InProgress,
        phase: None,
        workflow: Workflow::default(),
        stack_id: None,
        sprint: None,
        dispatch: None,
        timeline: 1,
        created_at: at,
        updated_at: at,
        started_at: Some(at),
        completed_at: None,
        reason: None,
        reordered: false,
        constraints_by: Pinning::default(),
    }
}

/// A lesson that was learned in a mission.
///
/// # Panics
/// Panics when the text cannot be a note.
#[must_use]
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
