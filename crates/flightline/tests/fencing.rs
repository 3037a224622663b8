//! Fences, on both engines: what an old session, epoch or fence asks for is not done.
#![expect(clippy::unwrap_used, reason = "tests")]

use flightline::agent::{Heartbeat, RegisterAgent, RetireAgent, UpdateAgent};
use flightline::core::mission::MissionStatus;
use flightline::core::note::NoteKind;
use flightline::core::sortie::SubtaskStatus;
use flightline::core::{Body, Code, Refusal};
use flightline::effect::{BeginEffect, FinishEffect};
use flightline::lock::{ReleaseLocks, RenewLocks, StealLock};
use flightline::mail::{AcknowledgeMail, OpenInbox, ReadMail, ReplyMail, RequeueMail, SendMail};
use flightline::mission::{ChangeMission, TransitionMission, UseMission};
use flightline::note::AddNote;
use flightline::sortie::add::AddSorties;
use flightline::sortie::change::{ChangeSortie, SortieAction};
use flightline::sortie::claim::{ClaimNext, ClaimSortie};
use flightline::sortie::report::{
    AddReview, ClearErrors, ReportError, SubtaskReport, UpdateSortie,
};
use flightline::{Access, Caller, Operation};
use flightline_testkit::story::{
    Story, create_mission, locks_on, name, note, path, registration, sortie, title,
};
use flightline_testkit::{both_engines, caller};

/// What came of an operation by its name.
type Answer = (&'static str, Result<(), Refusal>);

fn ask<O: Operation>(story: &Story<'_>, caller: &Caller, operation: O) -> Answer {
    assert_ne!(O::ACCESS, Access::Read);
    (O::NAME, story.run_as(caller, &operation).map(drop))
}

/// Asks for every kind of write. Each would be done for a caller that is not fenced.
fn ask_for_everything(story: &Story<'_>, caller: &Caller) -> Vec<Answer> {
    let sortie_id = story.sortie_id("Ada's");
    let mission = story.sortie("Ada's").sortie.mission_id.to_string();
    let mail = story.send("", &["ada"], "Hello").unwrap().message.id;
    let change = |action| ChangeSortie {
        sortie: sortie_id.clone(),
        action,
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

/// Ada is dispatch in session `s-1`, epoch 1, with a sortie and a lock; eve holds `docs`.
fn stage(world: &flightline_testkit::World) -> Story<'_> {
    let story = Story::new(world);
    let register = |agent: &str| RegisterAgent {
        role: Some(flightline::core::agent::Role::Dispatch),
        session: Some(title("s-1")),
        ..registration(agent)
    };
    story.run("", &register("ada")).unwrap();
    story.run("", &registration("idle")).unwrap();
    story.mission("Add login", &["Ada's", "Free", "Next"]);
    story.claim("ada", "Ada's").unwrap();
    story.lock("ada", &["src/a.rs"]).unwrap();
    story.lock("eve", &["docs"]).unwrap();
    let begun = BeginEffect {
        key: name("publish"),
        mission: None,
        sortie: None,
        what: None,
        again: false,
    };
    story.run("ada", &begun).unwrap();
    story
}

fn assert_all_fenced(story: &Story<'_>, caller: &Caller) {
    // What the test itself sends is not the fenced caller's doing.
    let sent_by_others = |kind: &str| kind.starts_with("message_");
    let rev = story.rev();
    for (operation, answer) in ask_for_everything(story, caller) {
        let refusal = answer.expect_err(operation);
        assert_eq!(refusal.code, Code::Fenced, "{operation}: {refusal}");
        assert_eq!(
            refusal.hint.unwrap(),
            "nothing was written; come back as a new session with `fleet agents register ada`",
            "{operation}"
        );
    }
    let written = story.events_after(rev);
    assert!(
        written.iter().all(|event| sent_by_others(&event.kind)),
        "{written:?}"
    );
}

both_engines! {
    fn a_caller_of_the_current_epoch_and_session_may_do_everything(world: &World) {
        let story = stage(world);
        let current = Caller { epoch: Some(1), session: Some("s-1".to_owned()), ..caller("ada") };
        for (operation, answer) in ask_for_everything(&story, &current) {
            answer.expect(operation);
        }
        assert!(story.ailments().is_empty());
    }

    fn an_old_epoch_writes_nothing_at_all(world: &World) {
        let story = stage(world);
        story.run("", &RegisterAgent { session: Some(title("s-2")), ..registration("ada") }).unwrap();
        assert_all_fenced(&story, &Caller { epoch: Some(1), ..caller("ada") });
    }

    fn an_old_session_writes_nothing_at_all(world: &World) {
        let story = stage(world);
        story.run("", &RegisterAgent { session: Some(title("s-2")), ..registration("ada") }).unwrap();
        assert_all_fenced(&story, &Caller { session: Some("s-1".to_owned()), ..caller("ada") });
    }

    fn an_epoch_to_come_writes_nothing_either(world: &World) {
        let story = stage(world);
        assert_all_fenced(&story, &Caller { epoch: Some(2), ..caller("ada") });
    }

    fn a_fenced_caller_is_told_which_epoch_took_its_place(world: &World) {
        let story = stage(world);
        story.run("", &registration("ada")).unwrap();
        let refusal = story.run_as(&Caller { epoch: Some(1), ..caller("ada") }, &Heartbeat::default()).unwrap_err();
        assert_eq!(refusal.message, "epoch 1 of ada is over: epoch 2 has taken its place");
        assert_eq!(refusal.details["epoch"], 2);
    }

    fn a_fenced_heartbeat_is_no_sign_of_life(world: &World) {
        let story = stage(world);
        story.run("", &registration("ada")).unwrap();
        let before = world.clock.now();
        story.pass_minutes(5);
        story.run_as(&Caller { epoch: Some(1), ..caller("ada") }, &Heartbeat::default()).unwrap_err();
        let show = flightline::agent::ShowAgent { agent: Some("ada".to_owned()), sightings: vec![] };
        assert_eq!(story.run("", &show).unwrap().last_sign, Some(before));
    }

    fn an_epoch_of_an_agent_nobody_knows_is_fenced(world: &World) {
        let story = stage(world);
        let ghost = Caller { epoch: Some(3), ..caller("ghost") };
        let refusal = story.run_as(&ghost, &locks_on(&["a"])).unwrap_err();
        assert_eq!((refusal.code, refusal.message.as_str()), (Code::Fenced, "epoch 3 of ghost is over: nobody of that name is known here"));
    }

    fn a_session_is_compared_as_it_was_stored(world: &World) {
        let story = Story::new(world);
        let token = format!("eyJ{0}.eyJ{0}.{0}", "a1B2c3D4e5");
        for session in [" padded ", "tab\u{1}bed", token.as_str()] {
            let agent = format!("agent-{}", session.len());
            let caller = Caller { session: Some(session.to_owned()), ..caller(&agent) };
            story.run_as(&caller, &locks_on(&[agent.as_str()])).unwrap();
            story.run_as(&caller, &locks_on(&[agent.as_str()])).unwrap();
        }
        let empty = Caller { session: Some(String::new()), ..caller("ada") };
        assert_eq!(story.run_as(&empty, &locks_on(&["a"])).unwrap_err().code, Code::InvalidInput);
    }

    fn work_of_an_earlier_epoch_stays_with_the_agent(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        story.claim("ada", "User model").unwrap();
        story.run("", &registration("ada")).unwrap();
        let complete = ChangeSortie { sortie: story.sortie_id("User model"), action: SortieAction::Complete { output: None } };
        story.run_as(&Caller { epoch: Some(1), ..caller("ada") }, &complete).unwrap_err();
        story.run_as(&Caller { epoch: Some(2), ..caller("ada") }, &complete).unwrap();
    }
}
