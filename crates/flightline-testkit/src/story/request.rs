//! Requests that say one thing and leave the rest out: a test names the fields it is about.

use flightline::agent::{RegisterAgent, RetireAgent, ShowAgent};
use flightline::checkpoint::inspect::VerifyCheckpoints;
use flightline::checkpoint::take::TakeCheckpoint;
use flightline::context::BriefAgent;
use flightline::core::mission::MissionStatus;
use flightline::core::note::NoteKind;
use flightline::core::sortie::{FileChange, SubtaskStatus};
use flightline::effect::{BeginEffect, FinishEffect};
use flightline::lock::{AcquireLocks, ReleaseLocks};
use flightline::mail::{AcknowledgeMail, OpenInbox, PeekInbox, SendMail};
use flightline::mission::{ChangeMission, CreateMission, TransitionMission};
use flightline::note::{AddNote, ListNotes};
use flightline::recovery::undo::Undo;
use flightline::sortie::add::{AddSorties, NewSortie};
use flightline::sortie::change::{ChangeSortie, SortieAction};
use flightline::sortie::claim::ClaimNext;
use flightline::sortie::report::{FileReport, ReportError, SubtaskReport};
use flightline::status::ShowStatus;

use super::recovery::Force;
use super::{name, note, path, title};

/// The action that completes a sortie, without a word on its output.
pub const DONE: SortieAction = SortieAction::Complete { output: None };

pub const GIVEN_BACK: SortieAction = SortieAction::Release { reason: None };

/// A sortie with this title and nothing else.
pub fn sortie(named: &str) -> NewSortie {
    NewSortie::titled(title(named))
}

pub fn create_mission(named: &str, sorties: Vec<NewSortie>) -> CreateMission {
    CreateMission {
        title: title(named),
        objective: None,
        phase: None,
        stack_id: None,
        sprint: None,
        dispatch: None,
        states: [].into(),
        sorties,
    }
}

/// The request to move the current mission to a status.
pub fn change_mission(to: MissionStatus) -> ChangeMission {
    ChangeMission {
        mission: None,
        to,
        reason: None,
    }
}

/// The request to move the workflow of the current mission to a state.
pub fn transition_mission(to: &str) -> TransitionMission {
    TransitionMission {
        mission: None,
        to: name(to),
        reason: None,
        pending: false,
    }
}

/// The request to add sorties to the current mission.
pub fn add_sorties(sorties: Vec<NewSortie>) -> AddSorties {
    AddSorties {
        mission: None,
        sorties,
    }
}

/// The request to claim the next sortie of the current mission.
pub fn claim_next() -> ClaimNext {
    ClaimNext {
        mission: None,
        lock: false,
    }
}

/// The request to move the sortie with this id.
pub fn change_sortie(sortie: String, action: SortieAction) -> ChangeSortie {
    ChangeSortie {
        sortie,
        action,
        keep_locks: false,
        checkpoint: false,
    }
}

/// The request to report an error that blocks nothing, of the sortie with this id.
pub fn report_error(sortie: String, kind: &str, message: &str) -> ReportError {
    ReportError {
        sortie,
        kind: name(kind),
        status: None,
        message: note(message),
        blocking: false,
    }
}

pub fn subtask(named: &str, status: SubtaskStatus) -> SubtaskReport {
    SubtaskReport {
        name: name(named),
        title: None,
        status,
        output: None,
    }
}

pub fn file(at: &str, change: FileChange) -> FileReport {
    FileReport {
        path: path(at),
        change,
    }
}

/// The request to keep a note of the current mission.
pub fn add_note(kind: NoteKind, text: &str) -> AddNote {
    AddNote::of(kind, note(text))
}

/// The request to keep a lesson of the current mission.
pub fn lesson(text: &str) -> AddNote {
    add_note(NoteKind::Lesson, text)
}

/// The request for all notes of the current mission that still hold.
pub fn list_notes() -> ListNotes {
    ListNotes {
        mission: None,
        kind: None,
        all: false,
    }
}

/// The request to begin an effect of the current mission.
pub fn begin_effect(key: &str) -> BeginEffect {
    BeginEffect {
        key: name(key),
        mission: None,
        sortie: None,
        what: None,
        again: false,
        sightings: Vec::new(),
    }
}

/// The request to finish an effect of the current mission.
pub fn finish_effect(key: &str) -> FinishEffect {
    FinishEffect {
        key: name(key),
        mission: None,
        result: None,
    }
}

/// The request to register an agent that says nothing of itself but its name.
pub fn registration(agent: &str) -> RegisterAgent {
    RegisterAgent {
        name: name(agent),
        role: None,
        kind: None,
        session: None,
        process: None,
        feature: None,
    }
}

pub fn retire(agent: &str) -> RetireAgent {
    RetireAgent {
        agent: agent.to_owned(),
        reason: None,
    }
}

/// The request to show an agent, without a look at its process.
pub fn show_agent(agent: &str) -> ShowAgent {
    ShowAgent {
        agent: Some(agent.to_owned()),
        ..show_self()
    }
}

/// The request of an agent to be shown itself.
pub fn show_self() -> ShowAgent {
    ShowAgent {
        agent: None,
        sightings: Vec::new(),
    }
}

/// The request for the status of the current mission.
pub fn show_status() -> ShowStatus {
    ShowStatus {
        mission: None,
        sightings: Vec::new(),
    }
}

/// The request for a briefing in the current mission.
pub fn brief_agent() -> BriefAgent {
    BriefAgent {
        mission: None,
        max_tokens: None,
        minimal: false,
        tree: None,
    }
}

pub fn locks_on(paths: &[&str]) -> AcquireLocks {
    AcquireLocks {
        paths: paths.iter().map(|text| path(text)).collect(),
        ttl_ms: None,
        purpose: None,
        sortie: None,
        sightings: Vec::new(),
    }
}

pub fn release(locks: &[&str]) -> ReleaseLocks {
    ReleaseLocks {
        locks: locks.iter().map(ToString::to_string).collect(),
        all: false,
        fence: None,
    }
}

/// The request to release every lock that the caller holds.
pub fn release_all() -> ReleaseLocks {
    ReleaseLocks {
        all: true,
        ..release(&[])
    }
}

/// The request to write to agents.
pub fn letter(to: &[&str], about: &str) -> SendMail {
    SendMail {
        to: to.iter().map(ToString::to_string).collect(),
        subject: title(about),
        body: None,
        mission: None,
        acknowledge_within_ms: None,
    }
}

/// The request of an agent to read its new mail.
pub fn open_inbox(limit: u64) -> OpenInbox {
    OpenInbox { all: false, limit }
}

/// The request to look at the unread mail of an agent.
pub fn peek_inbox(agent: &str, limit: u64) -> PeekInbox {
    PeekInbox {
        agent: agent.to_owned(),
        all: false,
        limit,
    }
}

pub fn acknowledge(message: &str) -> AcknowledgeMail {
    AcknowledgeMail {
        messages: vec![message.to_owned()],
        all: false,
    }
}

/// The request to acknowledge everything that was read.
pub fn acknowledge_all() -> AcknowledgeMail {
    AcknowledgeMail {
        messages: Vec::new(),
        all: true,
    }
}

/// The request to take a checkpoint of the current mission.
pub fn take_checkpoint() -> TakeCheckpoint {
    TakeCheckpoint {
        mission: None,
        reason: None,
        details: None,
        note: None,
    }
}

pub fn verify_checkpoints() -> VerifyCheckpoints {
    VerifyCheckpoints { checkpoint: None }
}

/// The request to take the last rewind of the current mission back.
pub fn undo_rewind(force: Force) -> Undo {
    Undo {
        mission: None,
        force: force == Force::Yes,
        sightings: Vec::new(),
    }
}
