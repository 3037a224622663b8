//! Checkpoints, on both engines: exactly the state before their own events, hashed, and the same for the
//! same state.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;

use flightline::checkpoint::files::StateValue;
use flightline::core::checkpoint::section_of;
use flightline::core::event::sha256_hex;
use flightline_testkit::outside;
use flightline_testkit::prelude::*;
use serde_json::{Value, json};

fn manual(words: Option<&str>) -> TakeCheckpoint {
    TakeCheckpoint {
        note: words.map(note),
        ..take_checkpoint()
    }
}

/// A mission with one sortie completed, one under way and two to come; a lock, mail, a note, an effect.
fn busy(world: &World) -> Story<'_> {
    let story = Story::new(world);
    story.mission("Add login", &["Model", "Endpoint", "Docs", "Tests"]);
    story.finish("ada", &["Model"]);
    story.claim("bob", "Endpoint").unwrap();
    let update = UpdateSortie {
        sortie: story.sortie_id("Endpoint"),
        note: Some(note("routes are wired")),
        subtasks: vec![subtask("routes", SubtaskStatus::Complete)],
        files: vec![file("src/api.rs", FileChange::Modified)],
        ..UpdateSortie::default()
    };
    story.run("bob", &update).unwrap();
    let lock = AcquireLocks {
        purpose: Some(title("wiring")),
        ..locks_on(&["src/api.rs"])
    };
    story.run("bob", &lock).unwrap();
    story.send("ada", &["bob"], "Review the model").unwrap();
    story.run("ada", &lesson("measure first")).unwrap();
    story.run("bob", &begin_effect("deploy")).unwrap();
    story
}

/// Everything at a revision that a checkpoint holds, when there is only one mission.
fn at(story: &Story<'_>, rev: u64) -> Vec<StateValue> {
    let held = story
        .look(|tx| tx.state_at(rev, None))
        .into_iter()
        .filter(|value| section_of(value.kind).is_some());
    held.map(|value| StateValue {
        kind: value.kind,
        id: value.id,
        rev: value.rev,
        sha: value.sha,
        text: value.text,
    })
    .collect()
}

both_engines! {
    fn a_checkpoint_is_exactly_the_state_before_its_own_events(world: &World) {
        let story = busy(world);
        let rev = story.rev();
        let taken = story.checkpoint();
        assert_eq!(taken.rev, rev);
        assert_eq!(story.kinds_after(rev), ["fleet_checkpointed"]);
        let expected = at(&story, rev);
        assert!(expected.len() > 12, "a little of everything");
        assert!(story.whole(taken.id).state.unwrap().values == expected);
    }

    fn what_happens_later_does_not_change_it(world: &World) {
        let story = busy(world);
        let taken = story.checkpoint();
        let (before, shown) = (story.whole(taken.id).state.unwrap().values, ShowCheckpoint { checkpoint: taken.id.to_string() });
        story.change_keeping_locks("bob", "Endpoint", DONE).unwrap();
        story.finish("ada", &["Docs", "Tests"]);
        story.run("bob", &open_inbox(9)).unwrap();
        story.run("bob", &finish_effect("deploy")).unwrap();
        story.run("ada", &StealLock { path: path("src/api.rs"), reason: note("mine now") }).unwrap();
        assert!(story.run("", &shown).unwrap() == taken);
        assert!(story.whole(taken.id).state.unwrap().values == before);
    }

    fn taken_inside_the_transaction_of_some_work_it_holds_that_work(world: &World) {
        let story = at_model(world);
        let rev = story.rev();
        story.change("ada", "Model", DONE).unwrap();
        let events = story.events_after(rev);
        let own = events.iter().find(|event| event.kind == "fleet_checkpointed").unwrap();
        assert!(events.iter().all(|event| event.step == own.step), "in one transaction");
        let taken = story.checkpoints().pop().unwrap();
        assert_eq!(taken.cut.rev, own.rev - 1);
        let held = story.whole(taken.id).state.unwrap().values;
        let model = held.iter().find(|value| value.id == story.sortie_id("Model")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&model.text).unwrap()["status"], "completed");
        assert_eq!(taken.cut.progress_percent, 25);
    }

    fn a_sections_hash_is_that_of_its_kinds_buckets_and_lines(world: &World) {
        let story = busy(world);
        let taken = story.checkpoint();
        let state = story.whole(taken.id).state.unwrap();
        let bucket = |id: &str| {
            let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            id.bytes().fold(0xcbf2_9ce4_8422_2325, step) & 255
        };
        let mut lines: BTreeMap<&str, BTreeMap<&str, BTreeMap<u64, Vec<String>>>> = BTreeMap::new();
        for value in &state.values {
            assert_eq!(sha256_hex(&value.text), value.sha);
            let line = format!("{} {} {} {}\n", value.kind, value.id, value.rev, value.sha);
            let of_kind = lines.entry(section_of(value.kind).unwrap()).or_default().entry(value.kind.as_str()).or_default();
            of_kind.entry(bucket(&value.id)).or_default().push(line);
        }
        let mut found = BTreeMap::new();
        for (section, kinds) in lines {
            let (mut text, mut count) = (String::new(), 0);
            for (kind, buckets) in kinds {
                let hash_of = |(number, mut lines): (u64, Vec<String>)| {
                    lines.sort();
                    count += lines.len() as u64;
                    format!("{number:02x} {}\n", sha256_hex(&lines.concat()))
                };
                let hashes: String = buckets.into_iter().map(hash_of).collect();
                text += &format!("{kind} {}\n", sha256_hex(&hashes));
            }
            found.insert(section.to_owned(), (sha256_hex(&text), count));
        }
        let said: BTreeMap<_, _> = state.checkpoint.cut.sections.into_iter().map(|(name, section)| (name, (section.sha256, section.count))).collect();
        assert_eq!(said, found);
        assert_eq!(said.into_keys().collect::<Vec<_>>(), ["agents", "effects", "locks", "messages", "mission", "notes", "sorties"]);
    }

    fn the_overall_hash_covers_header_sections_and_recovery_context(world: &World) {
        let story = busy(world);
        story.checkpoint();
        let stored = story.checkpoints().pop().unwrap();
        assert_eq!(stored.sha256, sha256_hex(&serde_json::to_string(&stored.cut).unwrap()));
        let whole = serde_json::to_value(&stored.cut).unwrap();
        for field in ["mission_id", "rev", "timeline", "timestamp", "trigger", "reason", "trigger_details", "progress_percent", "sorties", "locks",
                      "messages", "sections", "recovery_context", "created_by", "version"] {
            assert!(whole.get(field).is_some(), "{field}");
        }
    }

    fn a_change_shows_in_the_hash_of_its_section_and_in_no_other(world: &World) {
        let story = busy(world);
        let mut before = story.checkpoints().pop().unwrap().cut.sections;
        let mut changed_by = |act: &dyn Fn()| {
            act();
            story.checkpoint();
            let after = story.checkpoints().pop().unwrap().cut.sections;
            let changed: Vec<String> = after.iter().filter(|(name, section)| before.get(*name) != Some(*section)).map(|(name, _)| name.clone()).collect();
            before = after;
            changed
        };
        changed_by(&|| drop(story.run("ada", &lesson("to begin with")).unwrap()));
        assert_eq!(changed_by(&|| drop(story.run("ada", &lesson("measure twice")).unwrap())), ["notes"]);
        assert_eq!(changed_by(&|| drop(story.lock("ada", &["b.rs"]).unwrap())), ["locks"]);
        assert_eq!(changed_by(&|| drop(story.send("ada", &["bob"], "Again").unwrap())), ["messages"]);
        assert_eq!(changed_by(&|| drop(story.run("bob", &finish_effect("deploy")).unwrap())), ["effects"]);
        assert_eq!(changed_by(&|| drop(story.claim("ada", "Docs").unwrap())), ["sorties"]);
    }

    fn a_checkpoint_reads_as_seed_a_writes_it(world: &World) {
        let story = busy(world);
        let taken = serde_json::to_value(story.checkpoint()).unwrap();
        let now = "2026-01-04T12:00:00.000Z";
        let sorties = &taken["sorties"];
        assert_eq!((sorties.as_array().unwrap().len(), &taken["progress_percent"], &taken["trigger"]), (4, &json!(25), &json!("manual")));
        assert_eq!(sorties[1], json!({
            "id": story.sortie_id("Endpoint"), "status": "in_progress", "assigned_to": "bob", "files": ["src/api.rs"],
            "started_at": now, "progress_notes": "routes are wired", "title": "Endpoint",
        }));
        assert_eq!(sorties[3], json!({ "id": story.sortie_id("Tests"), "status": "pending", "files": [], "title": "Tests" }));
        let lock = &taken["active_locks"][0];
        assert_eq!((&lock["file"], &lock["held_by"], &lock["purpose"], &lock["acquired_at"], &lock["timeout_ms"]),
                   (&json!("src/api.rs"), &json!("bob"), &json!("wiring"), &json!(now), &json!(1_800_000)));
        let mail = taken["pending_messages"].as_array().unwrap();
        let review = mail.iter().find(|message| message["subject"] == "Review the model").unwrap();
        assert_eq!((&review["from"], &review["to"], &review["sent_at"], &review["delivered"]), (&json!("ada"), &json!(["bob"]), &json!(now), &json!(false)));
        let context = &taken["recovery_context"];
        assert_eq!(context["last_action"], "bob began the effect deploy");
        assert_eq!(context["next_steps"], json!(["Complete \"Endpoint\" (bob)", "Start \"Docs\"", "Start \"Tests\""]));
        assert_eq!((&context["blockers"], &context["files_modified"]), (&json!([]), &json!(["src/api.rs"])));
        assert_eq!((&context["mission_summary"], &context["elapsed_time_ms"], &context["last_activity_at"]), (&json!("Add login"), &json!(0), &json!(now)));
        assert_eq!((&taken["created_by"], &taken["version"], &taken["timestamp"]), (&json!("user:tester"), &json!("1.0.0"), &json!(now)));
    }

    fn fleet_checkpointed_has_seed_as_fields(world: &World) {
        let story = busy(world);
        let taken = story.checkpoint();
        let event = serde_json::to_value(story.events_of("fleet_checkpointed").pop().unwrap()).unwrap();
        assert_eq!((&event["type"], &event["timestamp"]), (&json!("fleet_checkpointed"), &json!("2026-01-04T12:00:00.000Z")));
        assert_eq!(event["data"], json!({
            "checkpoint_id": taken.id, "mission_id": taken.mission_id, "trigger": "manual", "reason": "manual", "progress_percent": 25,
            "sortie_count": 4, "lock_count": 1, "message_count": taken.pending_messages.len(),
        }));
    }

    fn a_checkpoint_holds_its_own_mission_and_no_other(world: &World) {
        let story = busy(world);
        story.mission("Another", &["Elsewhere"]);
        story.claim("eve", "Elsewhere").unwrap();
        story.lock("eve", &["other.rs"]).unwrap();
        story.send("eve", &["bob"], "Not yours").unwrap();
        let taken = story.checkpoint();
        assert_eq!(taken.sorties.len(), 1);
        assert_eq!(taken.active_locks.iter().map(|lock| lock.file.as_str()).collect::<Vec<_>>(), ["other.rs"]);
        assert_eq!(taken.pending_messages.len(), 1);
        let first = story.all::<Mission>()[0].id.to_string();
        let of_first = story.run("", &TakeCheckpoint { mission: Some(first), ..manual(None) }).unwrap();
        assert_eq!((of_first.sorties.len(), of_first.active_locks.len()), (4, 1));
    }

    fn the_same_state_and_reason_is_the_same_checkpoint(world: &World) {
        let story = busy(world);
        let first = story.checkpoint();
        world.pass(std::time::Duration::from_secs(600));
        story.beat("bob").unwrap();
        assert_eq!(story.checkpoint().id, first.id, "a heartbeat changes nothing");
        let shutdown = story.checkpoint_for("", Reason::Shutdown).unwrap();
        assert_ne!(shutdown.id, first.id);
        assert_eq!(story.checkpoint().id, first.id, "whatever was taken between");
        assert_eq!(story.checkpoint_for("", Reason::Shutdown).unwrap().id, shutdown.id);
        assert_eq!(story.events_of("fleet_checkpointed").len(), story.checkpoints().len());
    }

    fn what_flightline_itself_says_makes_no_new_checkpoint(world: &World) {
        let story = busy(world);
        let first = story.checkpoint();
        story.pass_minutes(40);
        assert_eq!(story.detect("", vec![]).len(), 1);
        assert_eq!(story.checkpoint().id, first.id);
    }

    fn any_change_or_a_note_makes_a_new_checkpoint(world: &World) {
        let story = busy(world);
        let mut last = story.checkpoint().id;
        let mut is_new = |taken: CheckpointId| {
            let new = taken != last;
            last = taken;
            new
        };
        assert!(is_new(story.run("", &manual(Some("before the refactoring"))).unwrap().id), "somebody has something to say");
        story.send("ada", &["bob"], "Something new").unwrap();
        assert!(is_new(story.checkpoint().id), "mail is pending");
        story.run("bob", &open_inbox(9)).unwrap();
        assert!(is_new(story.checkpoint().id), "mail was delivered");
        story.lock("ada", &["b.rs"]).unwrap();
        assert!(is_new(story.checkpoint().id), "a lock");
        story.claim("ada", "Docs").unwrap();
        assert!(is_new(story.checkpoint().id), "a sortie");
    }

    fn two_checkpoints_at_once_both_succeed_and_are_one(world: &World) {
        let story = busy(world);
        let (racers, rounds) = (4, 5);
        for round in 0..rounds {
            story.run("ada", &lesson(&format!("number {round}"))).unwrap();
            let start = Barrier::new(racers);
            let ids: Vec<CheckpointId> = thread::scope(|scope| {
                let runs: Vec<_> = (0..racers).map(|_| scope.spawn(|| {
                    let mut fleet = world.fleet();
                    start.wait();
                    fleet.run(&manual(None), &caller("")).unwrap().id
                })).collect();
                runs.into_iter().map(|run| run.join().unwrap()).collect()
            });
            assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        }
        assert_eq!(story.checkpoints().iter().filter(|one| one.cut.reason == Reason::Manual).count(), rounds);
    }

    fn checkpoints_in_the_middle_of_work_are_all_sound(world: &World) {
        let story = Story::new(world);
        let titles: Vec<String> = (0..24).map(|number| format!("Part {number}")).collect();
        story.mission("Add login", &titles.iter().map(String::as_str).collect::<Vec<_>>());
        thread::scope(|scope| {
            for agent in ["ada", "bob"] {
                scope.spawn(move || {
                    let mut fleet = world.fleet();
                    let next = claim_next();
                    while let Ok(claimed) = fleet.run(&next, &caller(agent)) {
                        let sortie = claimed.sortie.id.to_string();
                        fleet.run(&change_sortie(sortie, DONE), &caller(agent)).unwrap();
                    }
                });
            }
            scope.spawn(move || {
                let mut fleet = world.fleet();
                for _ in 0..12 {
                    fleet.run(&manual(None), &caller("")).unwrap();
                }
            });
        });
        let verdicts = story.run("", &verify_checkpoints()).unwrap();
        assert!(verdicts.iter().all(|verdict| verdict.sound), "{verdicts:?}");
        for taken in story.checkpoints().iter().filter(|one| one.cut.reason == Reason::Manual) {
            assert!(story.whole(taken.id).state.unwrap().values == at(&story, taken.cut.rev), "{} does not hold the state at {}", taken.id, taken.cut.rev);
        }
        assert_eq!(story.checkpoints().iter().filter(|one| one.cut.reason == Reason::Milestone).count(), 3);
    }

    fn seed_as_tables_can_be_read_by_others(world: &World) {
        let story = busy(world);
        let first = story.checkpoints().remove(0);
        let seen = story.send("ada", &["bob"], "Seen").unwrap().message.id.to_string();
        story.run("bob", &acknowledge(&seen)).unwrap();
        let taken = story.checkpoint();
        story.change("bob", "Endpoint", DONE).unwrap();
        let rows = outside::query(world, "SELECT id, mission_id, timestamp, trigger, trigger_details, CAST(progress_percent AS TEXT), sorties_json, locks_json, \
            messages_json, recovery_context_json, created_by, version FROM checkpoints WHERE project = {project} AND trigger IN ('manual', 'progress') ORDER BY timestamp DESC, trigger, progress_percent");
        let text = |row: usize, at: usize| rows[row][at].clone().unwrap_or_default();
        assert_eq!((text(0, 0), text(1, 0)), (taken.id.to_string(), first.id.to_string()));
        assert_eq!((text(0, 1), text(0, 2), text(0, 3), rows[0][4].clone()), (taken.mission_id.to_string(), "2026-01-04T12:00:00.000Z".to_owned(), "manual".to_owned(), None));
        assert_eq!((text(0, 5), text(1, 4), text(0, 10), text(0, 11)), ("25".to_owned(), "Reached 25% milestone".to_owned(), "user:tester".to_owned(), "1.0.0".to_owned()));
        let json = |at: usize| serde_json::from_str::<Value>(&text(0, at)).unwrap();
        let statuses: Vec<Value> = json(6).as_array().unwrap().iter().map(|one| one["status"].clone()).collect();
        assert_eq!((statuses.len(), statuses.iter().filter(|one| *one == "completed").count()), (4, 1), "as it was, not as it is");
        assert_eq!((json(7)[0]["file"].clone(), json(8).as_array().unwrap().is_empty()), (json!("src/api.rs"), false));
        assert_eq!(json(9), serde_json::to_value(&taken.recovery_context).unwrap());
        // Agents by their names, and only mail that somebody had yet to acknowledge: as the document says it.
        let document = serde_json::to_value(&taken).unwrap();
        let told = |list: &Value, field: &str| {
            let each = list.as_array().unwrap().iter();
            each.map(|one| (one["id"].to_string(), one[field].clone())).collect::<std::collections::BTreeMap<_, _>>()
        };
        for (at, part, field) in [(6, "sorties", "assigned_to"), (7, "active_locks", "held_by"), (8, "pending_messages", "to")] {
            assert_eq!(told(&json(at), field), told(&document[part], field), "{part}");
        }
        assert!(!text(0, 8).contains(&seen));
        let missions = outside::query(world, "SELECT id, title, status, created_at, updated_at, completed_at, metadata_json FROM missions WHERE project = {project}");
        assert_eq!(missions[0][..3], [Some(taken.mission_id.to_string()), Some("Add login".to_owned()), Some("in_progress".to_owned())]);
    }

    fn who_took_it_and_what_for_is_remembered(world: &World) {
        let story = busy(world);
        let request = TakeCheckpoint { reason: Some(Reason::BeforeDestructive), details: Some(note("Before git_push main")), ..manual(Some("look here")) };
        let taken = story.run("ada", &request).unwrap();
        assert_eq!((taken.created_by.as_str(), taken.trigger.as_str(), taken.reason.as_str()), ("ada", "manual", "before_destructive"));
        assert_eq!((taken.trigger_details.as_deref(), taken.note.as_deref()), (Some("Before git_push main"), Some("look here")));
        let stored = story.checkpoints().pop().unwrap();
        assert_eq!((stored.cut.trigger, stored.cut.sorties.get("completed"), stored.cut.sortie_count()), (Trigger::Manual, Some(&1), 4));
    }

    fn an_agents_own_words_are_in_the_recovery_context(world: &World) {
        let story = busy(world);
        let say = UpdateAgent { next_steps: vec![title("write the tests")], blockers: vec![title("no token")], files: vec![path("src/extra.rs")], ..UpdateAgent::default() };
        story.run("bob", &say).unwrap();
        story.run("ada", &UpdateAgent { next_steps: vec![title("rest")], ..UpdateAgent::default() }).unwrap();
        let context = story.checkpoint_for("", Reason::Shutdown).unwrap().recovery_context;
        assert!(context.next_steps.contains(&"write the tests (bob)".to_owned()));
        assert!(!context.next_steps.iter().any(|step| step.contains("rest")), "ada holds nothing");
        assert_eq!(context.blockers, ["no token (bob)"]);
        assert_eq!(context.files_modified, ["src/api.rs", "src/extra.rs"]);
    }

    fn there_is_nothing_to_checkpoint_without_a_mission(world: &World) {
        let refused = Story::new(world).run("", &manual(None)).unwrap_err();
        assert_eq!((refused.code, refused.message.as_str()), (flightline::core::Code::NotFound, "there is no mission yet"));
    }

    fn an_effect_and_a_sortie_keep_their_states_in_a_checkpoint(world: &World) {
        let story = busy(world);
        let taken = story.checkpoint();
        story.run("bob", &finish_effect("deploy")).unwrap();
        let held = story.whole(taken.id).state.unwrap().values;
        let effect: Effect = held.iter().find(|value| value.kind == flightline::core::Kind::Effect).map(|value| serde_json::from_str(&value.text).unwrap()).unwrap();
        assert!(matches!(effect.state, EffectState::Intent { .. }));
        assert_eq!(taken.sorties[0].status, SortieStatus::Completed);
    }
}
