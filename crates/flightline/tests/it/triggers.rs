//! What makes a checkpoint by itself, on both engines: progress and failure, once each, and never at the
//! cost of the work.

use std::thread;
use std::time::Duration;

use flightline::core::checkpoint::Milestone;
use flightline::lock::acquire;
use flightline::mail::send;
use flightline::store::{OpenOptions, Store};
use flightline_testkit::prelude::*;
use serde_json::json;

fn numbered(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("Part {number}")).collect()
}

/// A mission with so many sorties, and their titles.
fn mission_of(story: &Story<'_>, count: usize) -> Vec<String> {
    let titles = numbered(count);
    let names: Vec<&str> = titles.iter().map(String::as_str).collect();
    story.mission("Add login", &names);
    titles
}

fn details(story: &Story<'_>) -> Vec<String> {
    let taken = story.checkpoints().into_iter();
    taken
        .map(|one| one.cut.trigger_details.unwrap_or_default())
        .collect()
}

/// The newest checkpoint.
fn last(story: &Story<'_>) -> Checkpoint {
    story.checkpoints().pop().unwrap()
}

fn error(story: &Story<'_>, kind: &str, status: Option<u16>, message: &str) -> ReportError {
    ReportError {
        status,
        ..report_error(story.sortie_id("Model"), kind, message)
    }
}

/// Bob waits for a lock that ada holds, and does not get it.
fn wait_in_vain(story: &Story<'_>, agent: &str, file: &str) -> Refusal {
    let waited = story.with_fleet(|fleet| {
        let wait = Duration::from_millis(1);
        acquire(fleet, &locks_on(&[file]), &caller(agent), wait, &mut |_| {})
    });
    waited.unwrap_err().into_refusal()
}

fn post(story: &Story<'_>, to: &str) -> Refusal {
    story
        .with_fleet(|fleet| send(fleet, &letter(&[to], "Anybody there?"), &caller("ada")))
        .unwrap_err()
        .into_refusal()
}

both_engines! {
    fn a_mission_of_four_gets_a_checkpoint_at_each_quarter(world: &World) {
        let story = Story::new(world);
        let titles = mission_of(&story, 4);
        let mut seen = Vec::new();
        for title in &titles {
            story.finish("ada", &[title]);
            seen.push(details(&story).len());
        }
        assert_eq!(seen, [1, 2, 3, 3], "the end is no milestone");
        assert_eq!(details(&story), ["Reached 25% milestone", "Reached 50% milestone", "Reached 75% milestone"]);
        for (taken, percent) in story.checkpoints().iter().zip([25, 50, 75]) {
            assert_eq!((taken.cut.trigger, taken.cut.reason, taken.cut.progress_percent), (Trigger::Progress, Reason::Milestone, percent));
            assert_eq!(taken.cut.created_by, "ada");
        }
    }

    fn several_milestones_at_once_are_one_checkpoint_that_names_them_all(world: &World) {
        let story = Story::new(world);
        mission_of(&story, 1);
        story.finish("ada", &["Part 1"]);
        assert_eq!(details(&story), ["Reached 25%, 50%, 75% milestones"]);
        mission_of(&story, 2);
        story.finish("ada", &["Part 1"]);
        story.finish("ada", &["Part 2"]);
        assert_eq!(details(&story)[1..], ["Reached 25%, 50% milestones", "Reached 75% milestone"]);
        assert_eq!(story.all::<Milestone>().len(), 6);
    }

    fn crossing_is_judged_in_integers_not_by_what_is_shown(world: &World) {
        let story = Story::new(world);
        let titles = mission_of(&story, 53);
        for title in &titles[..13] {
            story.finish("ada", &[title]);
        }
        let mission = story.run("", &ShowMission { mission: None }).unwrap();
        assert_eq!((mission.progress_percent, details(&story).len()), (25, 0), "13 of 53 is shown as 25 % and is less");
        story.finish("ada", &[&titles[13]]);
        assert_eq!(details(&story), ["Reached 25% milestone"]);
    }

    fn a_milestone_is_reached_once_whatever_happens_to_the_work(world: &World) {
        let story = Story::new(world);
        mission_of(&story, 4);
        story.finish("ada", &["Part 1"]);
        story.change("", "Part 1", SortieAction::Reject { reason: note("no tests") }).unwrap();
        story.change("ada", "Part 1", DONE).unwrap();
        assert_eq!(details(&story).len(), 1, "rejected and completed again");
        let more = add_sorties(vec![sortie("Part 5"), sortie("Part 6"), sortie("Part 7"), sortie("Part 8")]);
        story.run("", &more).unwrap();
        story.finish("ada", &["Part 2"]);
        assert_eq!(details(&story).len(), 1, "back below, and crossed again");
    }

    fn a_milestone_is_remembered_by_the_store_and_not_by_a_process(world: &World) {
        let first = Story::new(world);
        mission_of(&first, 8);
        first.finish("ada", &["Part 1", "Part 2"]);
        drop(first);
        let second = Story::new(world);
        second.finish("ada", &["Part 3"]);
        assert_eq!(details(&second), ["Reached 25% milestone"]);
        let marks = second.all::<Milestone>();
        assert_eq!(marks.iter().map(|mark| (mark.percent, mark.timeline)).collect::<Vec<_>>(), [(25, 0)]);
    }

    fn agents_that_finish_at_once_reach_each_milestone_once(world: &World) {
        let story = Story::new(world);
        mission_of(&story, 20);
        thread::scope(|scope| {
            for agent in ["ada", "bob", "eve"] {
                scope.spawn(move || {
                    let mut fleet = world.fleet();
                    while let Ok(claimed) = fleet.run(&claim_next(), &caller(agent)) {
                        let done = change_sortie(claimed.sortie.id.to_string(), DONE);
                        fleet.run(&done, &caller(agent)).unwrap();
                    }
                });
            }
        });
        assert_eq!(details(&story), ["Reached 25% milestone", "Reached 50% milestone", "Reached 75% milestone"]);
        assert_eq!(story.all::<Milestone>().iter().map(|mark| mark.percent).collect::<Vec<_>>(), [25, 50, 75]);
    }

    fn a_failed_sortie_leaves_an_error_checkpoint(world: &World) {
        let story = at_model(world);
        story.change("ada", "Model", SortieAction::Fail { reason: note("NullPointerException in save()") }).unwrap();
        let taken = last(&story);
        assert_eq!((taken.cut.trigger, taken.cut.reason), (Trigger::Error, Reason::SortieFailed));
        assert_eq!(taken.cut.trigger_details.as_deref(), Some("\"Model\" failed: NullPointerException in save()"));
        assert_eq!(taken.cut.recovery_context.blockers, ["\"Model\" failed: NullPointerException in save()"]);
        assert_eq!(taken.cut.sorties.get("failed"), Some(&1), "the failure is in it");
    }

    fn an_api_error_leaves_an_error_checkpoint(world: &World) {
        let story = at_model(world);
        story.run("ada", &error(&story, "api_error", Some(503), "upstream is down")).unwrap();
        let taken = last(&story);
        assert_eq!((taken.cut.trigger, taken.cut.reason), (Trigger::Error, Reason::ApiError));
        assert_eq!(taken.cut.recovery_context.blockers, ["api_error 503: upstream is down"]);
        story.run("ada", &error(&story, "http", Some(404), "no such route")).unwrap();
        assert_eq!(last(&story).cut.reason, Reason::ApiError, "any status code is an API's");
        assert!(last(&story).cut.recovery_context.blockers.contains(&"http 404: no such route".to_owned()));
    }

    fn an_error_that_blocks_leaves_an_error_checkpoint_and_a_small_one_does_not(world: &World) {
        let story = at_model(world);
        story.run("ada", &error(&story, "lint", None, "two warnings")).unwrap();
        assert!(story.checkpoints().is_empty());
        story.run("ada", &ReportError { blocking: true, ..error(&story, "compiler", None, "it does not build") }).unwrap();
        assert_eq!((last(&story).cut.trigger, last(&story).cut.reason), (Trigger::Error, Reason::Blocker));
        let blockers = last(&story).cut.recovery_context.blockers;
        assert!(blockers.contains(&"compiler: it does not build".to_owned()), "{blockers:?}");
    }

    fn a_sortie_that_is_blocked_leaves_an_error_checkpoint(world: &World) {
        let story = at_model(world);
        story.change("ada", "Model", SortieAction::Block { reason: note("no token for staging") }).unwrap();
        let taken = last(&story);
        assert_eq!((taken.cut.trigger, taken.cut.reason, taken.cut.created_by.as_str()), (Trigger::Error, Reason::Blocker, "ada"));
        let said = "\"Model\" is blocked: no token for staging";
        assert_eq!((taken.cut.trigger_details.as_deref(), taken.cut.recovery_context.blockers), (Some(said), vec![said.to_owned()]));
        assert_eq!(taken.cut.sorties.get("blocked"), Some(&1), "it is in it");
    }

    fn waiting_for_a_lock_in_vain_leaves_an_error_checkpoint(world: &World) {
        let story = at_model(world);
        story.lock("ada", &["a.rs"]).unwrap();
        let refused = wait_in_vain(&story, "bob", "a.rs");
        assert_eq!(refused.code, Code::LockHeld);
        let taken = last(&story);
        assert_eq!((taken.cut.trigger, taken.cut.reason, taken.cut.created_by.as_str()), (Trigger::Error, Reason::LockTimeout, "bob"));
        assert_eq!(taken.cut.recovery_context.blockers, [refused.message]);
        assert_eq!(story.all::<Lock>().len(), 1, "nothing else was written");
    }

    fn a_lock_that_nobody_waited_for_leaves_none(world: &World) {
        let story = at_model(world);
        story.lock("ada", &["a.rs"]).unwrap();
        let refused = story.with_fleet(|fleet| acquire(fleet, &locks_on(&["a.rs"]), &caller("bob"), Duration::ZERO, &mut |_| {}));
        assert!(refused.is_err());
        assert!(story.checkpoints().is_empty());
    }

    fn mail_that_cannot_be_delivered_leaves_an_error_checkpoint(world: &World) {
        let story = at_model(world);
        assert_eq!(post(&story, "nobody").code, Code::NotFound);
        assert_eq!((last(&story).cut.trigger, last(&story).cut.reason), (Trigger::Error, Reason::DeliveryFailed));
        assert_eq!(last(&story).cut.recovery_context.blockers, ["there is no agent `nobody`"]);
        story.run("", &flightline_testkit::story::registration("bob")).unwrap();
        story.run("", &retire("bob")).unwrap();
        assert_eq!(post(&story, "bob").message, "bob was retired and reads no mail");
        assert_eq!(last(&story).cut.recovery_context.blockers, ["bob was retired and reads no mail"]);
    }

    fn one_cause_leaves_one_checkpoint_a_minute(world: &World) {
        let story = at_model(world);
        let down = error(&story, "api_error", Some(503), "upstream is down");
        for _ in 0..3 {
            story.run("ada", &down).unwrap();
            world.pass(Duration::from_secs(19));
        }
        assert_eq!(details(&story).len(), 1);
        story.run("ada", &error(&story, "api_error", Some(500), "upstream is down")).unwrap();
        assert_eq!(details(&story).len(), 2, "another cause");
        world.pass(Duration::from_secs(3));
        story.run("ada", &down).unwrap();
        assert_eq!(details(&story).len(), 3, "another minute");
    }

    fn two_causes_leave_two_checkpoints_even_when_nothing_changed_between(world: &World) {
        let story = at_model(world);
        story.lock("ada", &["a.rs", "b.rs"]).unwrap();
        wait_in_vain(&story, "bob", "a.rs");
        wait_in_vain(&story, "bob", "b.rs");
        wait_in_vain(&story, "bob", "b.rs");
        assert_eq!(details(&story).len(), 2);
        assert!(details(&story)[0].contains("`a.rs`") && details(&story)[1].contains("`b.rs`"), "{:?}", details(&story));
    }

    fn a_failure_is_noted_in_the_mission_of_the_agent_that_failed(world: &World) {
        let story = at_model(world);
        let login = story.all::<Mission>()[0].id;
        story.lock("ada", &["a.rs"]).unwrap();
        story.claim("bob", "Endpoint").unwrap();
        story.mission("Another, and newer", &["Elsewhere"]);
        wait_in_vain(&story, "bob", "a.rs");
        assert_eq!(last(&story).cut.mission_id, login);
        let named = SendMail { mission: Some(login.to_string()), ..letter(&["nobody"], "Anybody there?") };
        story.with_fleet(|fleet| send(fleet, &named, &caller(""))).unwrap_err();
        assert_eq!((last(&story).cut.mission_id, last(&story).cut.reason), (login, Reason::DeliveryFailed));
    }

    fn a_failure_without_a_mission_is_refused_as_ever(world: &World) {
        let story = Story::new(world);
        assert_eq!(post(&story, "nobody").code, Code::NotFound);
        assert!(story.checkpoints().is_empty());
    }

    fn a_checkpoint_that_grows_too_large_does_not_fail_the_work(world: &World) {
        let story = at_model(world);
        let names: Vec<String> = (10..23).map(|number| format!("agent{number}-{}", "x".repeat(92))).collect();
        story.run("", &add_sorties(names.iter().map(|name| sortie(name)).collect())).unwrap();
        for name in &names {
            story.claim(name, name).unwrap();
        }
        // Each step is told with its agent's name, and so all of them are more than 8 MiB.
        let step = title("x");
        let mut fleet = Fleet::new(Store::open(&world.location, &world.project, OpenOptions { rehearse: false, ..world.options() }).unwrap(), Policy::default());
        fleet.store().unwrap().write(|tx| {
            for name in &names {
                let agent = tx.find::<Agent>(Find::AgentName(name))?.remove(0);
                tx.set(EventType::AgentUpdated, &Agent { next_steps: vec![step.clone(); 7_500], ..agent }, &json!({}))?;
            }
            Ok::<_, flightline::store::StoreError>(())
        }).unwrap();
        let rev = story.rev();
        let fail = SortieAction::Fail { reason: note("gave up") };
        fleet.run(&change_sortie(story.sortie_id("Model"), fail), &caller("ada")).unwrap();
        assert_eq!(story.stored_sortie("Model").status, SortieStatus::Failed);
        assert!(story.checkpoints().is_empty());
        assert_eq!(story.kinds_after(rev), ["sortie_failed", "checkpoint_failed"]);
        let failed = story.events_of("checkpoint_failed").pop().unwrap();
        assert_eq!(failed.data["reason"], "sortie_failed");
        assert!(failed.data["error"].as_str().unwrap().contains("8388608"), "{}", failed.data["error"]);
    }

    fn damage_does_not_fail_the_work_and_is_noted(world: &World) {
        let story = at_model(world);
        let id = story.run("ada", &lesson("measure first")).unwrap().id.to_string();
        damage::everywhere(world, Kind::Note, &id, 0);
        let rev = story.rev();
        story.change("ada", "Model", DONE).unwrap();
        story.claim("ada", "Endpoint").unwrap();
        story.change("ada", "Endpoint", SortieAction::Fail { reason: note("gave up") }).unwrap();
        assert_eq!((story.stored_sortie("Model").status, story.stored_sortie("Endpoint").status), (SortieStatus::Completed, SortieStatus::Failed));
        let failed: Vec<serde_json::Value> = story.events_after(rev).into_iter().filter(|event| event.kind == "checkpoint_failed").map(|event| event.data["reason"].clone()).collect();
        assert_eq!(failed, ["milestone", "sortie_failed"]);
        assert!(story.checkpoints().is_empty());
        assert_eq!(story.checkpoint_for("", Reason::Manual).unwrap_err().code, Code::Integrity, "a caller that asks for one is told");
    }

    fn a_milestone_whose_checkpoint_failed_is_taken_with_the_next_change(world: &World) {
        let story = Story::new(world);
        mission_of(&story, 8);
        let written = story.run("ada", &lesson("measure first")).unwrap();
        damage::everywhere(world, Kind::Note, &written.id.to_string(), 0);
        story.finish("ada", &["Part 1", "Part 2"]);
        story.claim("ada", "Part 3").unwrap();
        assert!(story.checkpoints().is_empty(), "nothing could be taken, and the work went on");
        assert_eq!(story.events_of("checkpoint_failed").len(), 1, "what goes on failing is no news");
        story.with_fleet(|fleet| fleet.store().unwrap().write(|tx| tx.set(EventType::NoteAdded, &written, &json!({})))).unwrap();
        story.change("ada", "Part 3", GIVEN_BACK).unwrap();
        assert_eq!(details(&story), ["Reached 25% milestone"]);
        assert_eq!(last(&story).cut.reason, Reason::Milestone);
        story.claim("ada", "Part 3").unwrap();
        assert_eq!((details(&story).len(), story.events_of("milestone_settled").len()), (1, 1), "once");
        assert!(story.all::<Milestone>().iter().all(|mark| !mark.owed));
    }

    fn a_milestone_that_is_owed_is_named_with_the_next_one(world: &World) {
        let story = Story::new(world);
        mission_of(&story, 4);
        let written = story.run("ada", &lesson("measure first")).unwrap();
        story.claim("ada", "Part 2").unwrap();
        damage::everywhere(world, Kind::Note, &written.id.to_string(), 0);
        story.finish("ada", &["Part 1"]);
        story.with_fleet(|fleet| fleet.store().unwrap().write(|tx| tx.set(EventType::NoteAdded, &written, &json!({})))).unwrap();
        story.change("ada", "Part 2", DONE).unwrap();
        assert_eq!(details(&story), ["Reached 25%, 50% milestones"]);
    }

    fn an_error_checkpoint_is_refused_for_what_is_no_error(world: &World) {
        let story = at_model(world);
        let wrong = flightline::checkpoint::trigger::RecordFailure { mission: None, reason: Reason::Milestone, details: note("x"), failure: None };
        assert_eq!(story.run("ada", &wrong).unwrap_err().message, "`milestone` is not a failure");
    }
}
