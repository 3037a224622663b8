//! Sorties, on both engines: who may move them, and where to.

use flightline::core::JsonData;
use flightline_testkit::prelude::*;
use serde_json::json;

pub fn begun<'w>(world: &'w World, named: &str) -> Story<'w> {
    let story = Story::new(world);
    story.mission("Implement user authentication", &[named]);
    story.claim("ada", named).unwrap();
    story
}

pub fn block() -> SortieAction {
    SortieAction::Block {
        reason: note("waiting for the schema"),
    }
}

pub fn fail() -> SortieAction {
    SortieAction::Fail {
        reason: note("out of ideas"),
    }
}

fn assign(to: &str) -> SortieAction {
    SortieAction::Assign { to: to.to_owned() }
}

fn reassign(to: &str) -> SortieAction {
    SortieAction::Reassign {
        to: to.to_owned(),
        reason: Some(note("ada is away")),
    }
}

pub fn approve() -> SortieAction {
    SortieAction::Approve { reason: None }
}

pub fn reject() -> SortieAction {
    SortieAction::Reject {
        reason: note("tests are missing"),
    }
}

/// Every way to move a sortie, with its name.
fn every_move() -> Vec<(&'static str, SortieAction)> {
    vec![
        ("assign", assign("bob")),
        ("start", SortieAction::Start),
        ("block", block()),
        ("unblock", SortieAction::Unblock),
        ("resume", SortieAction::Resume),
        ("complete", DONE),
        ("fail", fail()),
        ("release", GIVEN_BACK),
        ("approve", approve()),
        ("reject", reject()),
    ]
}

/// Which moves are legal for a person, from the status that `prepare` brings a sortie to.
fn legal_moves(story: &Story<'_>, prepare: &[SortieAction]) -> Vec<&'static str> {
    let mut legal = Vec::new();
    for (word, action) in every_move() {
        story.mission(word, &[word]);
        for step in prepare {
            story.change("", word, step.clone()).unwrap();
        }
        let before = story.sortie(word).sortie;
        match story.change("", word, action) {
            Ok(_) => legal.push(word),
            Err(refused) => {
                assert_eq!(refused.code, Code::IllegalTransition, "{word}");
                assert_eq!(
                    story.sortie(word).sortie,
                    before,
                    "{word}: a refusal changes nothing"
                );
            }
        }
    }
    legal
}

pub fn refused(moved: Result<SortieView, Refusal>) -> Code {
    moved.unwrap_err().code
}

both_engines! {
    fn a_sortie_goes_from_claimed_to_completed(world: &World) {
        let story = Story::new(world);
        story.mission("Implement user authentication", &["User model", "Login endpoint"]);
        let claimed = story.claim_next("ada").unwrap();
        assert_eq!(claimed.sortie.title.as_str(), "User model");
        assert_eq!(claimed.owner.as_deref(), Some("ada"));
        let refused = story.change("bob", "User model", DONE).unwrap_err();
        assert_eq!(refused.code, Code::NotYours);
        story.pass_minutes(7);
        let output = Some(JsonData::new(json!({ "tests": 12 })).unwrap());
        let done = story
            .change("ada", "User model", SortieAction::Complete { output: output.clone() })
            .unwrap();
        assert_eq!(
            (done.sortie.status, done.sortie.output.clone()),
            (SortieStatus::Completed, output)
        );
        assert_eq!(
            (done.mission_percent, done.progress.percent, done.actual_ms),
            (50, 100, Some(7 * 60_000))
        );
        let view = story.run("", &ShowMission { mission: None }).unwrap();
        assert_eq!(view.mission.status, MissionStatus::InProgress);
        assert!(story.damaged_values().is_empty());
    }

    fn each_status_has_its_legal_moves_and_no_others(world: &World) {
        let story = Story::new(world);
        story.register("ada", Role::Specialist);
        story.register("bob", Role::Specialist);
        let given = [assign("bob")];
        let started = [assign("bob"), SortieAction::Start];
        let blocked = [assign("bob"), SortieAction::Start, block()];
        let completed = [assign("bob"), SortieAction::Start, DONE];
        let failed = [assign("bob"), SortieAction::Start, fail()];
        assert_eq!(legal_moves(&story, &[]), ["assign", "fail"]);
        assert_eq!(legal_moves(&story, &given), ["assign", "start", "block", "fail", "release"]);
        assert_eq!(
            legal_moves(&story, &started),
            ["assign", "start", "block", "resume", "complete", "fail", "release"]
        );
        assert_eq!(
            legal_moves(&story, &blocked),
            ["assign", "block", "unblock", "resume", "fail", "release"]
        );
        assert_eq!(legal_moves(&story, &completed), ["complete", "approve", "reject"]);
        assert_eq!(legal_moves(&story, &failed), ["assign", "fail", "release"]);
        assert!(story.damaged_values().is_empty());
    }

    fn an_illegal_move_says_what_to_do_instead(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        let refusal = |action| story.change("", "User model", action).unwrap_err();
        assert!(refusal(DONE).message.ends_with("(\"User model\"): it is pending and not claimed"));
        assert!(
            refusal(SortieAction::Start)
                .hint
                .unwrap()
                .starts_with("claim it first with `fleet sorties claim srt-")
        );
        assert_eq!(
            refusal(block()).details["legal"],
            json!(["assigned", "in_progress", "failed", "skipped"])
        );
        story.register("bob", Role::Specialist);
        story.change("", "User model", assign("bob")).unwrap();
        assert!(
            refusal(DONE).hint.unwrap().starts_with("begin it first with `fleet sorties start srt-")
        );
        story.change("", "User model", block()).unwrap();
        assert!(
            refusal(DONE)
                .hint
                .unwrap()
                .starts_with("unblock it first with `fleet sorties unblock srt-")
        );
        story.change("", "User model", SortieAction::Unblock).unwrap();
        story.change("", "User model", DONE).unwrap();
        assert_eq!(refusal(fail()).hint.unwrap(), "from completed it may become: in_progress");
    }

    fn another_agents_sortie_is_not_yours_to_move(world: &World) {
        let story = begun(world, "User model");
        story.register("bob", Role::Specialist);
        for (word, action) in every_move() {
            if !["assign", "approve", "reject"].contains(&word) {
                assert_eq!(
                    refused(story.change("bob", "User model", action)),
                    Code::NotYours,
                    "{word}"
                );
            }
        }
        assert_eq!(refused(story.change("bob", "User model", assign("bob"))), Code::AlreadyTaken);
        assert_eq!(refused(story.change("bob", "User model", reassign("bob"))), Code::NotYours);
        let update =
            UpdateSortie { sortie: story.sortie_id("User model"), ..UpdateSortie::default() };
        let refusal = story.run("bob", &update).unwrap_err();
        assert_eq!(refusal.code, Code::NotYours);
        assert!(
            refusal.message.starts_with("bob cannot update srt-")
                && refusal.message.ends_with("it is ada's")
        );
        assert_eq!(refusal.hint.unwrap(), "ask with `fleet mail send --to ada --subject \"…\"`");
    }

    fn dispatch_and_people_may_move_what_belongs_to_others(world: &World) {
        let story = begun(world, "User model");
        story.register("lead", Role::Dispatch);
        story.register("bob", Role::Specialist);
        story.change("lead", "User model", block()).unwrap();
        story.change("", "User model", SortieAction::Unblock).unwrap();
        let update = UpdateSortie {
            sortie: story.sortie_id("User model"),
            note: Some(note("seen")),
            ..UpdateSortie::default()
        };
        story.run("lead", &update).unwrap();
        let given = story.change("lead", "User model", reassign("bob")).unwrap();
        assert_eq!(
            (given.owner.as_deref(), given.sortie.status),
            (Some("bob"), SortieStatus::Assigned)
        );
        story.change("", "User model", GIVEN_BACK).unwrap();
    }

    fn a_sortie_resumed_by_dispatch_stays_its_owners(world: &World) {
        let story = begun(world, "User model");
        story.register("lead", Role::Dispatch);
        story.register("lead", Role::Dispatch);
        let resumed = story.change("lead", "User model", SortieAction::Resume).unwrap();
        assert_eq!(
            (resumed.owner.as_deref(), resumed.sortie.assigned_epoch),
            (Some("ada"), Some(1))
        );
        story.change("ada", "User model", DONE).unwrap();
    }

    fn assigning_gives_a_sortie_and_its_owner_starts_it(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        assert_eq!(
            refused(story.change("", "User model", assign("ada"))),
            Code::NotFound,
            "nobody knows ada"
        );
        story.register("ada", Role::Specialist);
        let given = story.change("", "User model", assign("ada")).unwrap().sortie;
        assert_eq!(
            (given.status, given.attempts, given.started_at),
            (SortieStatus::Assigned, 0, None)
        );
        assert_eq!(refused(story.change("bob", "User model", SortieAction::Start)), Code::NotYours);
        let started = story.change("ada", "User model", SortieAction::Start).unwrap().sortie;
        assert_eq!((started.status, started.attempts), (SortieStatus::InProgress, 1));
        let again = story.change("ada", "User model", SortieAction::Start).unwrap();
        assert_eq!((again.already, again.sortie), (true, started), "it is so already");
        let view = story.run("", &ShowMission { mission: None }).unwrap();
        assert_eq!(view.mission.status, MissionStatus::InProgress, "starting began the mission");
    }

    fn a_taken_sortie_is_reassigned_and_not_assigned(world: &World) {
        let story = begun(world, "User model");
        story.register("bob", Role::Specialist);
        let taken = story.change("", "User model", assign("bob")).unwrap_err();
        assert_eq!(taken.code, Code::AlreadyTaken);
        assert!(
            taken.hint.unwrap().starts_with("take it from ada with `fleet sorties reassign srt-")
        );
        let rev = story.rev();
        let given = story.change("", "User model", reassign("bob")).unwrap().sortie;
        assert_eq!((given.status, given.attempts), (SortieStatus::Assigned, 1));
        let event = story.events_after(rev).pop().unwrap();
        assert_eq!(
            (event.kind.as_str(), &event.data["from"], &event.data["reason"]),
            ("sortie_reassigned", &json!("ada"), &json!("ada is away"))
        );
        assert_eq!(refused(story.change("ada", "User model", DONE)), Code::NotYours);
        story.change("bob", "User model", SortieAction::Start).unwrap();
        assert_eq!(story.sortie("User model").sortie.attempts, 2);
    }

    fn an_owner_may_hand_its_sortie_on(world: &World) {
        let story = begun(world, "User model");
        story.register("bob", Role::Specialist);
        assert_eq!(
            story.change("ada", "User model", reassign("bob")).unwrap().owner.as_deref(),
            Some("bob")
        );
    }

    fn a_retired_agent_gets_no_work(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        story.register("bob", Role::Specialist);
        story.run("", &retire("bob")).unwrap();
        let refusal = story.change("", "User model", assign("bob")).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.message.as_str()),
            (Code::IllegalTransition, "bob was retired")
        );
    }

    fn sorties_are_listed_by_status_and_owner_in_their_order(world: &World) {
        let story = Story::new(world);
        story
            .run(
                "",
                &create_mission("Add login", vec![sortie("One"), sortie("Two"), sortie("Three")]),
            )
            .unwrap();
        story.claim("ada", "Three").unwrap();
        story.claim("bob", "One").unwrap();
        let list = |status, agent: Option<&str>, limit| {
            let list =
                ListSorties { mission: None, status, agent: agent.map(str::to_owned), limit };
            let listed = story.run("", &list).unwrap();
            listed.into_iter().map(|sortie| sortie.title).collect::<Vec<_>>()
        };
        assert_eq!(list(None, None, 9), ["One", "Two", "Three"]);
        assert_eq!(list(Some(SortieStatus::InProgress), None, 9), ["One", "Three"]);
        assert_eq!(list(None, Some("ada"), 9), ["Three"]);
        assert_eq!(list(None, None, 2), ["One", "Two"]);
    }
}
