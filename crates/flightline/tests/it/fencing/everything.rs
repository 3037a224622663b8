//! Every kind of write, asked for once.

use flightline::agent::monitor::MonitorAgents;
use flightline::agent::restart::RestartAgent;
use flightline::agent::takeover::TakeOver;
use flightline::agent::{Heartbeat, RetireAgent, UpdateAgent};
use flightline::core::mission::MissionStatus;
use flightline::core::note::NoteKind;
use flightline::core::sortie::SubtaskStatus;
use flightline::core::{Body, Refusal};
use flightline::effect::{BeginEffect, FinishEffect};
use flightline::lock::{ReleaseLocks, RenewLocks, StealLock};
use flightline::mail::{AcknowledgeMail, OpenInbox, ReadMail, ReplyMail, RequeueMail, SendMail};
use flightline::mission::{ChangeMission, TransitionMission, UseMission};
use flightline::note::AddNote;
use flightline::registry::Registered;
use flightline::sortie::add::AddSorties;
use flightline::sortie::change::{ChangeSortie, SortieAction};
use flightline::sortie::claim::{ClaimNext, ClaimSortie};
use flightline::sortie::edit::{EditSortie, MoveSortie, NewPlace};
use flightline::sortie::report::{
    AddReview, ClearErrors, ReportError, SubtaskReport, UpdateSortie,
};
use flightline::{Access, Caller};
use flightline_testkit::story::epic::take_over;
use flightline_testkit::story::{Story, create_mission, locks_on, name, note, path, sortie, title};

/// What came of an operation by its name.
pub type Answer = (&'static str, Result<(), Refusal>);

fn ask<O: Registered>(story: &Story<'_>, caller: &Caller, operation: O) -> Answer {
    assert_ne!(O::ACCESS, Access::Read);
    (O::NAME, story.run_as(caller, &operation).map(drop))
}

/// Asks for every kind of write. Each would be done for a caller that is not fenced.
pub fn ask_for_everything(story: &Story<'_>, caller: &Caller) -> Vec<Answer> {
    let sortie_id = story.sortie_id("Ada's");
    let mission = story.sortie("Ada's").sortie.mission_id.to_string();
    let mail = story.send("", &["ada"], "Hello").unwrap().message.id;
    let change = |action| ChangeSortie {
        sortie: sortie_id.clone(),
        action,
        keep_locks: true,
        checkpoint: false,
    };
    let mut answers = vec![
        ask(story, caller, create_mission("Another", vec![])),
        ask(
            story,
            caller,
            TransitionMission {
                mission: Some(mission.clone()),
                to: name("building"),
                reason: None,
                pending: false,
            },
        ),
        ask(
            story,
            caller,
            UseMission {
                mission: mission.clone(),
            },
        ),
        ask(
            story,
            caller,
            AddSorties {
                mission: Some(mission.clone()),
                sorties: vec![sortie("More")],
            },
        ),
        ask(
            story,
            caller,
            ClaimSortie {
                sortie: story.sortie_id("Free"),
                lock: false,
            },
        ),
        ask(
            story,
            caller,
            ClaimNext {
                mission: Some(mission.clone()),
                lock: false,
            },
        ),
        ask(
            story,
            caller,
            EditSortie {
                sortie: sortie_id.clone(),
                priority: Some(3),
                ..EditSortie::default()
            },
        ),
        ask(
            story,
            caller,
            MoveSortie {
                sortie: sortie_id.clone(),
                to: NewPlace::Last,
            },
        ),
        ask(
            story,
            caller,
            AddNote {
                mission: Some(mission.clone()),
                kind: NoteKind::Lesson,
                text: note("learned"),
                rationale: None,
                sortie: None,
                path: None,
                checksum: None,
                artifact_type: None,
            },
        ),
        ask(
            story,
            caller,
            BeginEffect {
                key: name("deploy"),
                mission: Some(mission.clone()),
                sortie: None,
                what: None,
                again: true,
                sightings: Vec::new(),
            },
        ),
        ask(
            story,
            caller,
            FinishEffect {
                key: name("publish"),
                mission: Some(mission.clone()),
                result: None,
            },
        ),
    ];
    let moves = [
        SortieAction::Block {
            reason: note("stuck"),
        },
        SortieAction::Unblock,
        SortieAction::Resume,
        SortieAction::Reassign {
            to: "ada".to_owned(),
            reason: None,
        },
        SortieAction::Start,
        SortieAction::Complete { output: None },
        SortieAction::Approve { reason: None },
        SortieAction::Reject {
            reason: note("again"),
        },
    ];
    answers.extend(moves.map(|action| ask(story, caller, change(action))));
    let subtasks = vec![SubtaskReport {
        name: name("part"),
        title: None,
        status: SubtaskStatus::Complete,
        output: None,
    }];
    answers.extend([
        ask(
            story,
            caller,
            UpdateSortie {
                sortie: sortie_id.clone(),
                subtasks,
                ..UpdateSortie::default()
            },
        ),
        ask(
            story,
            caller,
            ReportError {
                sortie: sortie_id.clone(),
                kind: name("oops"),
                status: None,
                message: note("oops"),
                blocking: false,
            },
        ),
        ask(
            story,
            caller,
            ClearErrors {
                sortie: sortie_id.clone(),
            },
        ),
        ask(
            story,
            caller,
            AddReview {
                sortie: sortie_id.clone(),
                reviewer: None,
                score: Some(1),
                note: None,
            },
        ),
        ask(
            story,
            caller,
            change(SortieAction::Fail {
                reason: note("enough"),
            }),
        ),
        ask(
            story,
            caller,
            change(SortieAction::Assign {
                to: "ada".to_owned(),
            }),
        ),
        ask(
            story,
            caller,
            change(SortieAction::Release { reason: None }),
        ),
        ask(story, caller, Heartbeat::default()),
        ask(story, caller, UpdateAgent::default()),
        ask(story, caller, locks_on(&["src/b.rs"])),
        ask(
            story,
            caller,
            RenewLocks {
                locks: vec!["src/a.rs".to_owned()],
                fence: None,
                ttl_ms: None,
            },
        ),
        ask(
            story,
            caller,
            ReleaseLocks {
                locks: vec!["src/a.rs".to_owned()],
                all: false,
                fence: None,
            },
        ),
        ask(
            story,
            caller,
            StealLock {
                path: path("docs"),
                reason: note("urgent"),
            },
        ),
        ask(
            story,
            caller,
            SendMail {
                to: vec!["eve".to_owned()],
                subject: title("Hi"),
                body: None,
                mission: None,
                acknowledge_within_ms: None,
            },
        ),
        ask(
            story,
            caller,
            ReadMail {
                message: mail.to_string(),
            },
        ),
        ask(
            story,
            caller,
            OpenInbox {
                all: true,
                limit: 10,
            },
        ),
        ask(
            story,
            caller,
            RequeueMail {
                message: mail.to_string(),
            },
        ),
        ask(
            story,
            caller,
            ReplyMail {
                message: story
                    .send("eve", &["ada"], "Question")
                    .unwrap()
                    .message
                    .id
                    .to_string(),
                body: Body::parse("body", "Answer").unwrap(),
            },
        ),
        ask(
            story,
            caller,
            AcknowledgeMail {
                messages: vec![],
                all: true,
            },
        ),
        ask(story, caller, MonitorAgents::default()),
        ask(
            story,
            caller,
            RestartAgent {
                agent: "idle".to_owned(),
                force: true,
                sightings: Vec::new(),
            },
        ),
        ask(
            story,
            caller,
            TakeOver {
                force: true,
                ..take_over("eve", "idle")
            },
        ),
        ask(
            story,
            caller,
            RetireAgent {
                agent: "idle".to_owned(),
                reason: None,
            },
        ),
        ask(
            story,
            caller,
            ChangeMission {
                mission: Some(mission),
                to: MissionStatus::Paused,
                reason: None,
            },
        ),
    ]);
    answers
}
