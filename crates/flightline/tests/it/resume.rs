//! Bringing a mission back and keeping everything, on both engines: only what the dead held moves.

use std::thread;

use expect_test::expect;
use flightline_testkit::prelude::*;
use serde_json::json;

/// Ada, in process 7, and bob, in process 8, are each at a sortie with a lock; one of five is completed.
fn working(world: &World) -> Story<'_> {
    let acts = "
        mission Add login: Model, Endpoint, Docs, Tests, Deploy
        ada boards 7
        bob boards 8
        ada finishes Model
        ada claims Endpoint
        ada locks src/api.rs
        bob claims Docs
        bob locks docs
    ";
    Story::begun(world, acts)
}

/// Everything there is, but what checkpointing and recovering write for themselves.
fn state(story: &Story<'_>) -> Vec<StoredEvent> {
    let mut values = story.state();
    values.retain(|value| !matches!(value.kind, Kind::Checkpoint | Kind::Recovery));
    values
}

fn deliveries(story: &Story<'_>, to: &str) -> Vec<&'static str> {
    let agent = story.agent(to).id;
    let all = story.all::<Delivery>().into_iter();
    all.filter(|one| one.to == agent)
        .map(|one| one.state.as_str())
        .collect()
}

/// An outcome without the ids that every run makes anew.
fn without_ids(mut done: Resumed) -> serde_json::Value {
    done.before = None;
    let mut value = serde_json::to_value(done).unwrap();
    value.as_object_mut().unwrap().remove("recovery_id");
    value
}

both_engines! {
    fn an_offer_to_recover_is_taken_by_recovering(world: &World) {
        let story = working(world);
        story.register("control", Role::Dispatch);
        story.checkpoint();
        story.send("bob", &["ada"], "Review").unwrap();
        story.send("", &["ada"], "recovery_available: says somebody").unwrap();
        story.pass_minutes(6);
        story.detect("", vec![]);
        assert_eq!(deliveries(&story, "control"), ["pending"]);
        let done = story.resume("", vec![]).unwrap();
        assert_eq!(deliveries(&story, "control"), ["acknowledged"], "nobody has to answer it any more");
        assert_eq!((deliveries(&story, "ada"), done.restored.messages), (vec!["pending", "pending"], 0), "the rest is still to be read, and waits as before");
    }

    fn nothing_that_was_acknowledged_is_lost(world: &World) {
        let story = working(world);
        story.play("
            bob writes to ada: Review
            checkpoint
            ada completes Endpoint
            user adds Extra
            bob reports Docs: half of it
            ada acknowledges Review
            ada learns measure first
            bob locks b.rs
        ");
        let (before, rev) = (state(&story), story.rev());
        let done = story.resume("", vec![]).unwrap();
        assert!(state(&story) == before, "{:?}", story.kinds_after(rev));
        assert_eq!(story.kinds_after(rev), ["fleet_recovered"]);
        expect![[r#"
            carried on: 2 of 6, 33%
        "#]].assert_eq(&story.told(&done));
        expect![[r#"
            mission "Add login" in_progress 33%
              sortie "Model" completed ada
              sortie "Endpoint" completed ada
              sortie "Docs" in_progress bob
              sortie "Tests" pending -
              sortie "Deploy" pending -
              sortie "Extra" pending -
              lesson ada "measure first"
            lock docs bob
            lock b.rs bob
            mail bob "Review"
              to ada acknowledged
        "#]].assert_eq(&story.as_text());
        let recovery = story.all::<Recovery>().pop().unwrap();
        assert_eq!((recovery.kind, recovery.checkpoint_id, recovery.by.as_str()), (RecoveryKind::RollForward, done.checkpoint_id, "user:tester"));
        assert_eq!(done.before, None);
    }

    fn the_work_of_the_dead_is_free_again_and_the_living_keep_theirs(world: &World) {
        let story = working(world);
        story.checkpoint();
        let done = story.resume("", story.seen(false, &["ada"])).unwrap();
        expect![[r#"
            carried on: 1 of 5, 20%
            sorties changed: 1
            free: Endpoint
            unlocked: src/api.rs
        "#]].assert_eq(&story.told(&done));
        expect![[r#"
            mission "Add login" in_progress 20%
              sortie "Model" completed ada
              sortie "Endpoint" pending -
              sortie "Docs" in_progress bob
              sortie "Tests" pending -
              sortie "Deploy" pending -
            agent ada epoch 2
            lock docs bob
        "#]].assert_eq(&story.as_text());
        let requeued = story.events_of("sortie_requeued").pop().unwrap();
        assert_eq!(requeued.data, json!({ "from": "ada", "reason": "process 7 is gone", "attempt": 2 }));
        assert_eq!(requeued.actor, "flightline");
        story.lock("bob", &["src/api.rs"]).unwrap();
        assert_eq!(story.claim("bob", "Endpoint").unwrap().sortie.attempts, 2);
    }

    fn one_of_the_dead_that_wakes_is_fenced(world: &World) {
        let story = working(world);
        story.checkpoint();
        story.resume("", story.seen(false, &["ada"])).unwrap();
        let asleep = Caller { epoch: Some(1), ..caller("ada") };
        let report = UpdateSortie { sortie: story.sortie_id("Endpoint"), note: Some(note("where was I?")), ..UpdateSortie::default() };
        assert_eq!(story.run_as(&asleep, &report).unwrap_err().code, Code::Fenced);
        let awake = Caller { epoch: Some(1), ..caller("bob") };
        assert!(story.run_as(&awake, &UpdateSortie { sortie: story.sortie_id("Docs"), ..UpdateSortie::default() }).is_ok());
    }

    fn one_of_the_dead_that_wakes_with_nothing_but_its_session_is_fenced_too(world: &World) {
        let story = working(world);
        let register = |session: &str| RegisterAgent { session: Some(title(session)), process: Some(process(7)), ..registration("ada") };
        story.run("", &register("s-1")).unwrap();
        story.checkpoint();
        story.resume("", story.seen(false, &["ada"])).unwrap();
        let asleep = Caller { session: Some("s-1".to_owned()), ..caller("ada") };
        let report = UpdateSortie { sortie: story.sortie_id("Endpoint"), ..UpdateSortie::default() };
        let refused = story.run_as(&asleep, &report).unwrap_err();
        assert_eq!((refused.code, refused.message.as_str()), (Code::Fenced, "the session of ada was ended, and no other has begun"));
        story.run("", &register("s-2")).unwrap();
        assert_eq!(story.run_as(&asleep, &report).unwrap_err().code, Code::Fenced);
        assert!(story.run_as(&Caller { session: Some("s-2".to_owned()), ..caller("ada") }, &Heartbeat::default()).is_ok());
    }

    fn damage_in_another_mission_of_one_of_the_dead_stops_nothing(world: &World) {
        let story = working(world);
        let login = story.sortie("Endpoint").sortie.mission_id;
        story.checkpoint();
        story.mission("Another", &["Elsewhere"]);
        story.claim("ada", "Elsewhere").unwrap();
        let lock = story.lock("ada", &["other.rs"]).unwrap()[0].lock.id.to_string();
        for (kind, id) in [(Kind::Sortie, story.sortie_id("Elsewhere")), (Kind::Lock, lock)] {
            damage::live(world, kind, &id);
            damage::journal(world, kind, &id, 0);
        }
        let dead = story.seen(false, &["ada"]);
        let request = Resume { mission: Some(login.to_string()), ..roll_forward(dead) };
        let done = story.run("", &request).unwrap();
        assert_eq!(done.requeued_sorties, [story.sortie_id("Endpoint")]);
        assert_eq!(done.released_locks, ["src/api.rs"], "what cannot be read stays where it is");
    }

    fn silence_is_death_only_after_half_an_hour(world: &World) {
        let story = working(world);
        story.checkpoint();
        for (minutes, lost) in [(6, 0), (23, 0), (2, 1)] {
            story.pass_minutes(minutes);
            story.beat("bob").unwrap();
            assert_eq!(story.resume("", vec![]).unwrap().requeued_sorties.len(), lost, "{minutes} minutes more");
        }
        assert_eq!(story.stored_sortie("Docs").status, SortieStatus::InProgress);
    }

    fn a_process_that_runs_keeps_its_work_however_silent(world: &World) {
        let story = working(world);
        story.play("
            checkpoint
            600 minutes pass
        ");
        let done = story.resume("", story.seen(true, &["ada"])).unwrap();
        expect![[r#"
            carried on: 1 of 5, 20%
            sorties changed: 1
            free: Docs
            unlocked: docs
        "#]].assert_eq(&story.told(&done));
        assert_eq!(story.stored_sortie("Endpoint").status, SortieStatus::InProgress);
    }

    fn an_agent_that_comes_back_and_resumes_is_alive(world: &World) {
        let story = working(world);
        story.play("
            checkpoint
            45 minutes pass
            bob beats
        ");
        let done = story.resume("ada", story.seen(false, &["ada"])).unwrap();
        // Whatever was seen of her old process, she keeps what she had.
        expect![[r#"
            carried on: 1 of 5, 20%
        "#]].assert_eq(&story.told(&done));
        assert_eq!(story.stored_sortie("Endpoint").assigned_to, Some(story.agent("ada").id));
    }

    fn the_dead_keep_what_they_hold_in_other_missions(world: &World) {
        let story = working(world);
        story.checkpoint();
        let login = story.all::<Mission>()[0].id.to_string();
        story.mission("Another", &["Elsewhere"]);
        story.claim("ada", "Elsewhere").unwrap();
        let request = Resume { mission: Some(login), ..roll_forward(story.seen(false, &["ada"])) };
        assert_eq!(story.run("", &request).unwrap().requeued_sorties.len(), 1);
        assert_eq!(story.stored_sortie("Elsewhere").status, SortieStatus::InProgress);
    }

    fn unread_mail_comes_again_and_what_was_acknowledged_does_not(world: &World) {
        let story = working(world);
        story.play("
            bob writes to ada: Seen and done
            bob writes to ada: Seen
            ada reads mail
            ada acknowledges Seen and done
            bob writes to ada: Not seen
            ada writes to bob: Yours
            bob reads mail
            checkpoint
            6 minutes pass
            bob beats
        ");
        let done = story.resume("", vec![]).unwrap();
        expect![[r#"
            carried on: 1 of 5, 20%
            messages come again: 1
        "#]].assert_eq(&story.told(&done));
        // Bob is there, and has his in his context.
        expect![[r#"
            mission "Add login" in_progress 20%
              sortie "Model" completed ada
              sortie "Endpoint" in_progress ada
              sortie "Docs" in_progress bob
              sortie "Tests" pending -
              sortie "Deploy" pending -
            lock src/api.rs ada
            lock docs bob
            mail bob "Seen and done"
              to ada acknowledged
            mail bob "Seen"
              to ada pending
            mail bob "Not seen"
              to ada pending
            mail ada "Yours"
              to bob delivered
        "#]].assert_eq(&story.as_text());
        assert_eq!(story.events_of("message_requeued").len(), 1);
    }

    fn fleet_recovered_has_seed_as_fields(world: &World) {
        let story = working(world);
        let checkpoint = story.checkpoint();
        let done = story.resume("", vec![]).unwrap();
        let event = serde_json::to_value(&story.events_of("fleet_recovered")[0]).unwrap();
        assert_eq!((&event["type"], &event["timestamp"]), (&json!("fleet_recovered"), &json!("2026-01-04T12:00:00.000Z")));
        let mut data = event["data"].clone();
        assert!(data["recovery_duration_ms"].take().is_u64());
        assert_eq!(data, json!({
            "checkpoint_id": checkpoint.id, "mission_id": checkpoint.mission_id, "recovered_sorties": 0, "recovered_locks": 0,
            "requeued_messages": done.restored.messages, "recovery_duration_ms": null,
        }));
    }

    fn resuming_twice_is_resuming_once(world: &World) {
        let story = working(world);
        story.register("control", Role::Dispatch);
        story.checkpoint();
        story.pass_minutes(6);
        let sightings = story.seen(false, &["ada"]);
        story.resume("control", sightings.clone()).unwrap();
        let once = state(&story);
        let again = story.resume("control", sightings).unwrap();
        assert!(state(&story) == once);
        assert_eq!((again.requeued_sorties, again.released_locks), (vec![], vec![]));
        assert_eq!(story.events_of("sortie_requeued").len(), 1);
    }

    fn one_request_is_one_recovery_however_often_it_is_sent(world: &World) {
        let story = working(world);
        story.checkpoint();
        let keyed = keyed("", "resume-1");
        let first = story.run_as(&keyed, &roll_forward(vec![])).unwrap();
        let second = story.run_as(&keyed, &roll_forward(vec![])).unwrap();
        assert_eq!(first.recovery_id, second.recovery_id);
        assert_eq!(story.all::<Recovery>().len(), 1);
    }

    fn a_dry_run_changes_nothing_and_predicts_the_outcome(world: &World) {
        let story = working(world);
        story.register("control", Role::Dispatch);
        story.play("
            bob writes to ada: Review
            ada reads mail
            checkpoint
            6 minutes pass
        ");
        let request = roll_forward(story.seen(false, &["ada"]));
        let pulses = |fleet: &mut Fleet| fleet.store().unwrap().read(|tx| tx.pulses()).unwrap();
        let (before, rev, beats) = (state(&story), story.rev(), story.with_fleet(pulses));
        let predicted = story.with_fleet(|fleet| fleet.rehearse(&request, &caller("control"))).unwrap();
        assert!(state(&story) == before && story.rev() == rev && story.with_fleet(pulses) == beats);
        expect![[r#"
            carried on: 1 of 5, 20%
            sorties changed: 1
            messages come again: 1
            free: Endpoint
            unlocked: src/api.rs
        "#]].assert_eq(&story.told(&predicted));
        let done = story.run("control", &request).unwrap();
        assert_eq!(without_ids(predicted), without_ids(done));
    }

    fn a_damaged_checkpoint_is_passed_over_and_kept(world: &World) {
        let story = working(world);
        let first = story.checkpoint();
        story.claim("bob", "Tests").unwrap();
        let second = story.checkpoint();
        // What the second names is no longer the last value, which would serve in its place.
        story.change("bob", "Tests", GIVEN_BACK).unwrap();
        story.claim("bob", "Tests").unwrap();
        damage::journal(world, Kind::Sortie, &story.sortie_id("Tests"), first.rev);
        let done = story.resume("", vec![]).unwrap();
        assert_eq!(done.checkpoint_id, first.id);
        assert_eq!(done.warnings.len(), 1);
        assert!(done.warnings[0].starts_with(&second.id.to_string()[..12]) && done.warnings[0].contains("is damaged"), "{:?}", done.warnings);
        let kept = story.checkpoints().pop().unwrap();
        assert_eq!((kept.id, kept.status), (second.id, CheckpointStatus::Corrupted));
        let said = story.events_of("checkpoint_corrupted");
        assert_eq!((said.len(), &said[0].data["checkpoint_id"]), (1, &json!(second.id)));
        assert_eq!(story.stored_sortie("Tests").status, SortieStatus::InProgress, "the work itself is there");
        story.resume("", vec![]).unwrap();
        assert_eq!(story.events_of("checkpoint_corrupted").len(), 1);
    }

    fn a_checkpoint_whose_record_cannot_be_read_is_passed_over_too(world: &World) {
        let story = working(world);
        let first = story.checkpoint();
        story.claim("bob", "Tests").unwrap();
        let second = story.checkpoint();
        damage::live(world, Kind::Checkpoint, &second.id.to_string());
        let done = story.resume("", vec![]).unwrap();
        assert_eq!(done.checkpoint_id, first.id);
        assert_eq!(done.warnings, [format!("{} is damaged: its record does not match its checksum", &second.id.to_string()[..12])]);
        assert_ne!(story.checkpoint().id, second.id, "work and checkpoints go on");
    }

    fn when_every_checkpoint_is_damaged_it_says_so_and_does_nothing(world: &World) {
        let story = working(world);
        story.checkpoint();
        damage::everywhere(world, Kind::Sortie, &story.sortie_id("Model"), 0);
        let rev = story.rev();
        let refused = story.resume("", vec![]).unwrap_err();
        assert_eq!(refused.code, Code::Integrity);
        assert!(refused.message.contains("cannot resume") && refused.message.contains("is damaged"), "{}", refused.message);
        assert_eq!(story.rev(), rev);
    }

    fn without_a_checkpoint_it_says_so_and_what_to_do(world: &World) {
        let story = working(world);
        let refused = story.resume("", vec![]).unwrap_err();
        assert_eq!(refused.code, Code::NotFound);
        assert!(refused.message.ends_with("(\"Add login\"): it has no checkpoint"), "{}", refused.message);
        assert!(refused.hint.unwrap().contains("`fleet checkpoint`"));
    }

    fn a_mission_that_was_put_aside_is_under_way_again(world: &World) {
        let story = working(world);
        story.checkpoint();
        for status in [MissionStatus::Paused, MissionStatus::Failed] {
            story.run("", &change_mission(status)).unwrap();
            let mission = story.all::<Mission>()[0].id.to_string();
            let again = Resume { mission: Some(mission), ..roll_forward(vec![]) };
            if status == MissionStatus::Failed {
                let refused = story.run("", &again).unwrap_err();
                assert_eq!(refused.code, Code::ConfirmationNeeded, "the agent that gave it up meant it");
            }
            story.run("", &Resume { reopen: true, ..again }).unwrap();
            let mission = &story.all::<Mission>()[0];
            assert_eq!((mission.status, mission.completed_at), (MissionStatus::InProgress, None));
        }
    }

    fn a_mission_that_is_over_is_not_resumed(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        story.finish("ada", &["Model"]);
        story.run("", &change_mission(MissionStatus::Completed)).unwrap();
        let refused = story.resume("", vec![]).unwrap_err();
        assert_eq!(refused.code, Code::IllegalTransition);
        assert!(refused.message.ends_with("it is completed"));
    }

    fn a_new_dispatch_takes_the_place_of_a_dead_one_and_the_living_are_told(world: &World) {
        let story = led(world, &["Model", "Docs"]);
        story.play("
            ada boards 7
            ada finishes Model
            ada claims Docs
            ada locks docs
        ");
        story.board("tower", Role::Dispatch, 4);
        story.board("late", Role::Dispatch, 5);
        let sightings = story.seen(false, &["control"]);
        story.resume("tower", sightings.clone()).unwrap();
        // What the dead one never acknowledged comes to the new one.
        expect![[r#"
            mission "Add login" in_progress 50% led by tower
              sortie "Model" completed ada
              sortie "Docs" in_progress ada
            agent control epoch 2
            lock docs ada
            mail flightline "Progress of Model: Model"
              to control pending
              to tower pending
            mail flightline "dispatch_changed: tower now coordinates Add login"
              to ada pending
            mail flightline "dispatch_changed: tower now coordinates Add login"
              to late pending
        "#]].assert_eq(&story.as_text());
        story.resume("late", sightings).unwrap();
        assert_eq!(story.all::<Mission>()[0].dispatch, Some(story.agent("tower").id), "one wins");
        assert_eq!(story.events_of("dispatch_changed").len(), 1);
        story.report("ada", "Docs", "half");
        assert!(story.mail_of("tower").last().unwrap().contains("is at"), "reports go to it from now on");
    }

    fn of_two_that_want_to_be_dispatch_at_once_one_wins(world: &World) {
        let story = led(world, &["Model", "Docs"]);
        story.finish("ada", &["Model"]);
        story.board("tower", Role::Dispatch, 4);
        story.board("late", Role::Dispatch, 5);
        let sightings = story.seen(false, &["control"]);
        thread::scope(|scope| {
            for agent in ["tower", "late"] {
                let request = roll_forward(sightings.clone());
                scope.spawn(move || world.fleet().run(&request, &caller(agent)).unwrap());
            }
        });
        assert_eq!(story.events_of("dispatch_changed").len(), 1);
    }

    fn a_dispatch_that_lives_keeps_its_mission(world: &World) {
        let story = Story::new(world);
        story.register("control", Role::Dispatch);
        story.run("control", &create_mission("Add login", vec![sortie("Model"), sortie("Docs")])).unwrap();
        story.finish("ada", &["Model"]);
        story.register("tower", Role::Dispatch);
        story.pass_minutes(20);
        story.resume("tower", vec![]).unwrap();
        assert_eq!(story.all::<Mission>()[0].dispatch, Some(story.agent("control").id), "quiet is not gone");
    }

    fn a_lock_that_was_given_up_or_taken_with_a_word_stays_so(world: &World) {
        let story = working(world);
        story.checkpoint();
        story.run("ada", &release(&["src/api.rs"])).unwrap();
        story.run("ada", &StealLock { path: path("docs"), reason: note("urgent") }).unwrap();
        story.run("ada", &release(&["docs"])).unwrap();
        let done = story.resume("", vec![]).unwrap();
        expect![[r#"
            carried on: 1 of 5, 20%
        "#]].assert_eq(&story.told(&done));
        assert!(story.all::<Lock>().is_empty());
    }

    fn what_was_happening_and_what_comes_next_is_told(world: &World) {
        let story = working(world);
        story.checkpoint();
        story.run("ada", &UpdateSortie { sortie: story.sortie_id("Endpoint"), note: Some(note("routes are wired")), ..UpdateSortie::default() }).unwrap();
        let act = world.clock.now();
        story.pass_minutes(6);
        let context = story.resume("", story.seen(false, &["ada"])).unwrap().recovery_context;
        assert_eq!((context.last_action.as_str(), context.last_activity_at), ("ada on \"Endpoint\": routes are wired", act));
        assert_eq!(context.next_steps, ["Complete \"Docs\" (bob)", "Start \"Endpoint\"", "Start \"Tests\"", "Start \"Deploy\""]);
        assert_eq!((context.mission_summary.as_str(), context.elapsed_time_ms), ("Add login", 360_000));
    }
}
