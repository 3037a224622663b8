//! Every kind of write, asked for once.

use flightline::Access;
use flightline::agent::monitor::MonitorAgents;
use flightline::registry::Registered;
use flightline::sortie::edit::NewPlace;
use flightline_testkit::prelude::*;
use flightline_testkit::story::epic::take_over;

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
        keep_locks: true,
        ..change_sortie(sortie_id.clone(), action)
    };
    let mut answers = vec![
        ask(story, caller, create_mission("Another", vec![])),
        ask(
            story,
            caller,
            TransitionMission {
                mission: Some(mission.clone()),
                ..transition_mission("building")
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
                ..add_sorties(vec![sortie("More")])
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
                ..claim_next()
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
                ..lesson("learned")
            },
        ),
        ask(
            story,
            caller,
            BeginEffect {
                mission: Some(mission.clone()),
                again: true,
                ..begin_effect("deploy")
            },
        ),
        ask(
            story,
            caller,
            FinishEffect {
                mission: Some(mission.clone()),
                ..finish_effect("publish")
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
        DONE,
        SortieAction::Approve { reason: None },
        SortieAction::Reject {
            reason: note("again"),
        },
    ];
    answers.extend(moves.map(|action| ask(story, caller, change(action))));
    let subtasks = vec![subtask("part", SubtaskStatus::Complete)];
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
            report_error(sortie_id.clone(), "oops", "oops"),
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
        ask(story, caller, change(GIVEN_BACK)),
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
        ask(story, caller, release(&["src/a.rs"])),
        ask(
            story,
            caller,
            StealLock {
                path: path("docs"),
                reason: note("urgent"),
            },
        ),
        ask(story, caller, letter(&["eve"], "Hi")),
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
        ask(story, caller, acknowledge_all()),
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
        ask(story, caller, retire("idle")),
        ask(
            story,
            caller,
            ChangeMission {
                mission: Some(mission),
                ..change_mission(MissionStatus::Paused)
            },
        ),
    ]);
    answers
}
