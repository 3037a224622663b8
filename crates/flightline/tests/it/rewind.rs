//! Going back to exactly what a checkpoint names, on both engines: kind by kind, guarded, and listed.

use std::collections::BTreeMap;

use expect_test::expect;
use flightline::core::checkpoint::Milestone;
use flightline::core::note::Note;
use flightline::core::setting::Briefing;
use flightline_testkit::prelude::*;

/// Ada is at "Endpoint" of a mission whose "Model" is completed.
fn working(world: &World) -> Story<'_> {
    let story = at_endpoint(world);
    report(&story, "routes", SubtaskStatus::InProgress, "src/api.rs");
    story
}

/// Ada reports a subtask and a file of "Endpoint".
fn report(story: &Story<'_>, part: &str, status: SubtaskStatus, at: &str) {
    let update = UpdateSortie {
        sortie: story.sortie_id("Endpoint"),
        note: Some(note(&format!("at {part}"))),
        subtasks: vec![subtask(part, status)],
        files: vec![file(at, FileChange::Modified)],
        ..UpdateSortie::default()
    };
    story.run("ada", &update).unwrap();
}

/// Everything of these kinds, as text.
fn values(story: &Story<'_>, kinds: &[Kind]) -> BTreeMap<(Kind, String), String> {
    let all = story.state().into_iter();
    all.filter(|value| kinds.contains(&value.kind))
        .map(|value| ((value.kind, value.id), value.text))
        .collect()
}

const WORK: [Kind; 5] = [
    Kind::Sortie,
    Kind::Subtask,
    Kind::File,
    Kind::Error,
    Kind::Review,
];

fn mission(story: &Story<'_>) -> Mission {
    story.all::<Mission>().remove(0)
}

fn milestones(story: &Story<'_>) -> Vec<String> {
    let taken = story.checkpoints().into_iter();
    taken
        .filter(|one| one.cut.reason == Reason::Milestone)
        .filter_map(|one| one.cut.trigger_details)
        .collect()
}

both_engines! {
    fn sorties_and_their_parts_are_exactly_what_the_checkpoint_names(world: &World) {
        let story = working(world);
        let (cut, before) = (story.checkpoint().id, values(&story, &WORK));
        story.pass_minutes(1);
        report(&story, "routes", SubtaskStatus::Complete, "src/api.rs");
        report(&story, "handlers", SubtaskStatus::Complete, "src/handlers.rs");
        story.run("ada", &report_error(story.sortie_id("Endpoint"), "lint", "two warnings")).unwrap();
        story.run("bob", &AddReview { sortie: story.sortie_id("Endpoint"), reviewer: None, score: Some(90), note: None }).unwrap();
        story.change("ada", "Endpoint", DONE).unwrap();
        story.change("", "Model", SortieAction::Reject { reason: note("no tests") }).unwrap();
        let done = story.force_rewind(cut);
        assert!(values(&story, &WORK) == before, "{:?}", story.as_text());
        expect![[r#"
            gone back: 1 of 4, 25%
            sorties changed: 2
            lost: Endpoint ("Endpoint") is no longer completed
            lost: Model ("Model") is completed again, not in_progress
            lost: error 1 was reported since
            lost: file src/api.rs has changed since
            lost: file src/handlers.rs was reported since
            lost: review bob was reported since
            lost: subtask handlers was reported since
            lost: subtask routes has changed since
            warning: going back to chk-* would undo 1 sortie of agents that are alive, first Endpoint ("Endpoint") of ada; that is refused without `--force`
        "#]].assert_eq(&story.told(&done));
        assert!(story.damaged_values().is_empty());
    }

    fn what_it_takes_away_is_listed(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        report(&story, "routes", SubtaskStatus::Complete, "src/handlers.rs");
        story.play("
            ada completes Endpoint
            bob finishes Docs
            bob claims Tests
            user adds Deploy
        ");
        expect![[r#"
            mission "Add login" in_progress 60%
              sortie "Model" completed ada
              sortie "Endpoint" completed ada
              sortie "Docs" completed bob
              sortie "Tests" in_progress bob
              sortie "Deploy" pending -
        "#]].assert_eq(&story.as_text());
        let done = story.force_rewind(cut);
        expect![[r#"
            gone back: 1 of 4, 25%
            sorties changed: 4
            lost: Docs ("Docs") is no longer completed
            lost: Endpoint ("Endpoint") is no longer completed
            lost: Tests ("Tests") is pending again, not in_progress
            lost: file src/handlers.rs was reported since
            lost: srt-* ("Deploy") was added since
            lost: subtask routes has changed since
            warning: going back to chk-* would undo 3 sorties of agents that are alive, first Endpoint ("Endpoint") of ada; that is refused without `--force`
        "#]].assert_eq(&story.told(&done));
        expect![[r#"
            mission "Add login" in_progress 25%
              sortie "Model" completed ada
              sortie "Endpoint" in_progress ada
              sortie "Docs" pending -
              sortie "Tests" pending -
        "#]].assert_eq(&story.as_text());
    }

    fn attempts_are_never_lowered(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        story.play("
            ada returns Endpoint
            ada claims Endpoint
            ada returns Endpoint
            ada claims Endpoint
        ");
        assert_eq!(story.stored_sortie("Endpoint").attempts, 3);
        story.force_rewind(cut);
        expect![[r#"
            mission "Add login" in_progress 25%
              sortie "Model" completed ada
              sortie "Endpoint" in_progress ada attempt 3
              sortie "Docs" pending -
              sortie "Tests" pending -
        "#]].assert_eq(&story.as_text());
    }

    fn what_was_created_after_it_is_gone(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        story.play("user adds Deploy, Announce");
        let done = story.force_rewind(cut);
        expect![[r#"
            gone back: 1 of 4, 25%
            sorties changed: 2
            lost: srt-* ("Announce") was added since
            lost: srt-* ("Deploy") was added since
        "#]].assert_eq(&story.told(&done));
        expect![[r#"
            mission "Add login" in_progress 25%
              sortie "Model" completed ada
              sortie "Endpoint" in_progress ada
              sortie "Docs" pending -
              sortie "Tests" pending -
        "#]].assert_eq(&story.as_text());
        assert_eq!(story.events_of("sortie_removed").len(), 2);
    }

    fn the_mission_and_its_workflow_go_back_on_a_new_timeline(world: &World) {
        let story = working(world);
        let move_to = |state: &str| { story.run("ada", &transition_mission(state)).unwrap(); };
        move_to("implementing");
        let (cut, before) = (story.checkpoint().id, mission(&story));
        move_to("reviewing");
        story.run("", &ChangeMission { reason: Some(note("lunch")), ..change_mission(MissionStatus::Paused) }).unwrap();
        story.force_rewind(cut);
        let after = mission(&story);
        assert_eq!((after.timeline, after.workflow.current.clone()), (1, Some(name("implementing"))));
        assert_eq!(Mission { timeline: before.timeline, updated_at: before.updated_at, ..after }, before);
        story.force_rewind(cut);
        assert_eq!(mission(&story).timeline, 2);
    }

    fn milestones_reached_at_the_checkpoint_stay_reached_and_later_ones_fire_again(world: &World) {
        let story = working(world);
        story.change("ada", "Endpoint", DONE).unwrap();
        let cut = story.checkpoint().id;
        story.finish("ada", &["Docs"]);
        assert_eq!(milestones(&story), ["Reached 25% milestone", "Reached 50% milestone", "Reached 75% milestone"]);
        story.force_rewind(cut);
        let marks: Vec<(u32, u8)> = story.all::<Milestone>().iter().map(|mark| (mark.timeline, mark.percent)).collect();
        assert_eq!(marks, [(0, 25), (0, 50), (0, 75), (1, 25), (1, 50)]);
        story.finish("ada", &["Docs"]);
        assert_eq!(milestones(&story)[3..], ["Reached 75% milestone"]);
        assert_eq!(story.checkpoints().pop().unwrap().cut.timeline, 1);
    }

    fn a_milestone_after_the_checkpoint_fires_again_from_the_beginning(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model", "Endpoint"]);
        let cut = story.checkpoint().id;
        story.finish("ada", &["Model"]);
        story.force_rewind(cut);
        story.finish("ada", &["Model"]);
        assert_eq!(milestones(&story), ["Reached 25%, 50% milestones", "Reached 25%, 50% milestones"]);
    }

    fn agents_are_untouched(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        story.board("ada", Role::Specialist, 9);
        story.run("ada", &UpdateAgent { step: Some(title("thinking")), ..UpdateAgent::default() }).unwrap();
        story.board("eve", Role::Specialist, 10);
        let before: Vec<Agent> = story.all();
        story.force_rewind(cut);
        assert_eq!(story.all::<Agent>(), before);
        assert_eq!(story.agent("ada").epoch, 2);
    }

    fn mail_is_never_unsent_or_unacknowledged(world: &World) {
        let story = working(world);
        story.send("ada", &["bob"], "Before").unwrap_err();
        story.play("
            bob boards 8
            ada writes to bob: Before
            checkpoint
        ");
        let cut = story.checkpoint().id;
        story.play("
            bob acknowledges Before
            ada writes to bob: Seen
            bob reads mail
            ada writes to bob: Not seen
            6 minutes pass
        ");
        let sent: Vec<Message> = story.all();
        story.force_rewind(cut);
        assert_eq!(story.all::<Message>(), sent);
        expect![[r#"
            mission "Add login" in_progress 25%
              sortie "Model" completed ada
              sortie "Endpoint" in_progress ada
              sortie "Docs" pending -
              sortie "Tests" pending -
            mail ada "Before"
              to bob acknowledged
            mail ada "Seen"
              to bob pending
            mail ada "Not seen"
              to bob pending
        "#]].assert_eq(&story.as_text());
    }

    fn notes_are_kept(world: &World) {
        let story = working(world);
        story.play("ada learns measure first");
        let cut = story.checkpoint().id;
        story.play("ada learns measure twice");
        let before: Vec<Note> = story.all();
        story.force_rewind(cut);
        assert_eq!((before.len(), story.all::<Note>()), (2, before));
    }

    fn notes_after_the_cut_are_marked_so(world: &World) {
        let story = working(world);
        let say = |kind: NoteKind, text: &str| { story.run("bob", &add_note(kind, text)).unwrap(); };
        say(NoteKind::Decision, "JSON");
        let cut = story.checkpoint().id;
        let lists: [(NoteKind, &str); 5] = [(NoteKind::Decision, "XML"), (NoteKind::DeadEnd, "the parser"), (NoteKind::NextStep, "drop XML"), (NoteKind::Blocker, "no parser"), (NoteKind::Constraint, "Keep XML")];
        for (kind, text) in lists {
            say(kind, text);
        }
        story.force_rewind(cut);
        say(NoteKind::Decision, "YAML");
        let list = || story.run("", &list_notes()).unwrap();
        let marked: Vec<(String, bool)> = list().iter().map(|note| (note.text.to_string(), note.after_cut == Some(cut))).collect();
        let expected = [("JSON", false), ("XML", true), ("the parser", true), ("drop XML", true), ("no parser", true), ("Keep XML", true), ("YAML", false)];
        assert_eq!(marked, expected.map(|(text, marked)| (text.to_owned(), marked)));
        assert_eq!(serde_json::to_value(&list()[1]).unwrap()["after_cut"], serde_json::json!(cut));
        assert_eq!(serde_json::to_value(&list()[0]).unwrap()["after_cut"], serde_json::Value::Null);
        let aside = format!("(written before the mission went back to {})", &cut.to_string()[..12]);
        let facts = story.run("bob", &brief_agent()).unwrap().facts;
        let said = |quotes: &[flightline::core::briefing::Quote]| quotes.iter().map(|quote| quote.text.clone()).collect::<Vec<_>>();
        assert_eq!(said(&facts.decisions), ["JSON".to_owned(), format!("XML {aside}"), "YAML".to_owned()]);
        assert_eq!(said(&facts.constraints), ["Keep XML"], "a rule holds until somebody withdraws it");
        assert_eq!(said(&facts.dead_ends), [format!("the parser {aside}")]);
        let context = story.checkpoint().recovery_context;
        assert!(context.next_steps.contains(&format!("drop XML {aside}")) && context.blockers.contains(&format!("no parser {aside}")), "{context:?}");
    }

    fn a_constraint_after_the_cut_binds_word_for_word(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        story.run("", &add_note(NoteKind::Constraint, "Never push to main.")).unwrap();
        story.force_rewind(cut);
        let facts = story.run("ada", &brief_agent()).unwrap().facts;
        assert_eq!(facts.constraints[0].text, "Never push to main.");
    }

    fn a_rewind_that_is_taken_back_leaves_no_mark_and_marks_what_came_between(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        story.run("ada", &lesson("measure twice")).unwrap();
        let before = story.force_rewind(cut).before;
        story.run("ada", &lesson("on the other way")).unwrap();
        story.undo().unwrap();
        let notes = story.run("", &list_notes()).unwrap();
        assert_eq!(notes.iter().map(|note| note.after_cut).collect::<Vec<_>>(), [None, before]);
        assert!(notes.iter().all(|note| note.kind == NoteKind::Lesson));
    }

    fn a_lock_whose_holder_is_dead_is_a_blocker(world: &World) {
        let story = working(world);
        story.lock("ada", &["src/api.rs"]).unwrap();
        let cut = story.checkpoint().id;
        let request = Resume { sightings: story.seen(false, &["ada"]), ..back_to(cut, Force::No) };
        let done = story.run("", &request).unwrap();
        expect![[r#"
            gone back: 1 of 4, 25%
            sorties changed: 1
            free: Endpoint
            unlocked: src/api.rs
            blocker: src/api.rs was locked by ada, which is gone: it is not locked now
        "#]].assert_eq(&story.told(&done));
        assert_eq!(story.all::<Lock>(), [], "and it is granted to nobody");
        let taken = story.claim("bob", "Endpoint").unwrap();
        assert_eq!(taken.locks.len(), 1, "but to the agent that takes up the work");
    }

    fn a_lock_of_the_dead_that_another_holds_is_a_blocker_too(world: &World) {
        let story = working(world);
        story.lock("ada", &["src/api.rs"]).unwrap();
        let cut = story.checkpoint().id;
        story.run("ada", &release_all()).unwrap();
        story.lock("bob", &["src"]).unwrap();
        let request = Resume { sightings: story.seen(false, &["ada"]), ..back_to(cut, Force::No) };
        let done = story.run("", &request).unwrap();
        assert_eq!(done.recovery_context.blockers, ["src/api.rs is locked by bob, ada held it before"]);
    }

    fn a_lock_of_the_dead_for_work_that_is_completed_is_no_blocker(world: &World) {
        let story = working(world);
        story.lock("ada", &["src/api.rs"]).unwrap();
        story.change("ada", "Endpoint", DONE).unwrap();
        let cut = story.checkpoint().id;
        let request = Resume { sightings: story.seen(false, &["ada"]), ..back_to(cut, Force::No) };
        assert_eq!(story.run("", &request).unwrap().recovery_context.blockers, [] as [&str; 0]);
    }

    fn a_lock_without_a_sortie_belongs_to_the_cut_of_its_holders_mission_alone(world: &World) {
        let story = working(world);
        let login = mission(&story).id;
        story.claim("ada", "Docs").unwrap();
        story.mission("Another", &["Elsewhere"]);
        story.claim("bob", "Elsewhere").unwrap();
        story.lock("ada", &["notes.md"]).unwrap();
        let another = story.all::<Mission>()[1].id;
        let of = |mission: MissionId| {
            let take = TakeCheckpoint { mission: Some(mission.to_string()), ..take_checkpoint() };
            story.run("", &take).unwrap().active_locks.into_iter().map(|lock| lock.file).collect::<Vec<_>>()
        };
        assert_eq!(story.all::<Lock>()[0].sortie_id, None, "she is at two");
        assert_eq!((of(login), of(another)), (vec!["notes.md".to_owned()], vec![]));
        story.run("eve", &UseMission { mission: another.to_string() }).unwrap();
        story.lock("eve", &["free.md"]).unwrap();
        assert_eq!((of(login).len(), of(another)), (1, vec!["free.md".to_owned()]), "who works nowhere is in the current one");
    }

    fn effects_are_untouched_because_they_happened(world: &World) {
        let story = working(world);
        story.run("ada", &begin_effect("deploy")).unwrap();
        let cut = story.checkpoint().id;
        story.run("ada", &finish_effect("deploy")).unwrap();
        story.run("ada", &begin_effect("announce")).unwrap();
        story.force_rewind(cut);
        let effects: Vec<Effect> = story.all();
        assert!(matches!(effects[0].state, EffectState::Done { .. }) && matches!(effects[1].state, EffectState::Intent { .. }), "{effects:?}");
    }

    fn checkpoints_briefings_heartbeats_and_recoveries_are_untouched(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        story.run("ada", &brief_agent()).unwrap();
        story.finish("bob", &["Docs"]);
        let (checkpoints, briefings) = (story.checkpoints(), story.all::<Briefing>());
        let pulses = |fleet: &mut Fleet| fleet.store().unwrap().read(|tx| tx.pulses()).unwrap();
        let beats = story.with_fleet(pulses);
        let done = story.force_rewind(cut);
        let mut after = story.checkpoints();
        let (now, saved) = (after.pop().unwrap(), after.pop().unwrap());
        assert_eq!((saved.id, now.cut.reason, &after), (done.before.unwrap(), Reason::AfterRestore, &checkpoints), "one of before, one of now, and nothing else");
        assert_eq!((story.all::<Briefing>(), story.with_fleet(pulses)), (briefings, beats));
        let recovery = story.all::<Recovery>().pop().unwrap();
        assert_eq!((recovery.kind, recovery.checkpoint_id, recovery.before), (RecoveryKind::Rewind, cut, done.before));
    }

    fn the_state_before_is_saved_first_and_in_the_same_transaction(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        story.finish("bob", &["Docs"]);
        let (before, rev) = (values(&story, &WORK), story.rev());
        let done = story.force_rewind(cut);
        let saved = story.checkpoints().into_iter().find(|one| Some(one.id) == done.before).unwrap();
        assert_eq!((saved.cut.trigger, saved.cut.reason, saved.cut.rev), (Trigger::Manual, Reason::BeforeRestore, rev));
        assert_eq!(saved.cut.trigger_details, Some(format!("Before going back to {}", &cut.to_string()[..12])));
        let held = story.whole(saved.id).state.unwrap();
        let work: BTreeMap<_, _> = held.values.into_iter().filter(|value| WORK.contains(&value.kind)).map(|value| ((value.kind, value.id), value.text)).collect();
        assert!(work == before);
        let events = story.events_after(rev);
        assert_eq!(events[0].kind, "fleet_checkpointed");
        assert!(events.iter().all(|event| event.step == events[0].step));
        assert_eq!(events.last().unwrap().kind, "fleet_recovered");
    }

    fn work_that_the_living_finished_is_not_undone_without_force(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        story.change("ada", "Endpoint", DONE).unwrap();
        let (before, rev) = (values(&story, &WORK), story.rev());
        let refused = story.rewind(cut).unwrap_err();
        assert_eq!(refused.code, Code::Unfinished);
        assert!(refused.message.contains("would undo 1 sortie of agents that are alive") && refused.message.ends_with("(\"Endpoint\") of ada"), "{}", refused.message);
        assert!(refused.hint.unwrap().contains("--force"));
        assert!(values(&story, &WORK) == before && story.rev() == rev, "nothing was done");
        story.force_rewind(cut);
        assert_eq!(story.stored_sortie("Endpoint").status, SortieStatus::InProgress);
    }

    fn parts_that_the_living_completed_are_not_undone_without_force(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        report(&story, "routes", SubtaskStatus::Complete, "src/api.rs");
        let (before, rev) = (values(&story, &WORK), story.rev());
        let refused = story.rewind(cut).unwrap_err();
        assert_eq!(refused.code, Code::Unfinished);
        assert!(refused.message.contains("would undo the subtask routes of") && refused.message.ends_with("(\"Endpoint\"), which ada has completed and is alive"), "{}", refused.message);
        assert!(refused.hint.unwrap().contains("--force"));
        assert!(values(&story, &WORK) == before && story.rev() == rev, "nothing was done");
        story.force_rewind(cut);
        assert!(story.rewind(cut).is_ok(), "what a rewind restored is nobody's new work");
    }

    fn work_that_the_living_hold_is_not_taken_from_them_without_force(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        story.claim("bob", "Docs").unwrap();
        assert_eq!(story.rewind(cut).unwrap_err().code, Code::Unfinished, "it was free then");
        story.change("bob", "Docs", GIVEN_BACK).unwrap();
        story.run("", &add_sorties(vec![sortie("Deploy")])).unwrap();
        story.claim("bob", "Deploy").unwrap();
        assert_eq!(story.rewind(cut).unwrap_err().code, Code::Unfinished, "it would vanish under his hands");
        story.change("bob", "Deploy", GIVEN_BACK).unwrap();
        story.change("", "Endpoint", SortieAction::Reassign { to: "bob".to_owned(), reason: None }).unwrap();
        assert_eq!(story.rewind(cut).unwrap_err().code, Code::Unfinished, "it was another's then");
        story.change("", "Endpoint", SortieAction::Reassign { to: "ada".to_owned(), reason: None }).unwrap();
        assert!(story.rewind(cut).is_ok());
    }

    fn work_of_the_dead_is_undone_without_asking(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        story.change("ada", "Endpoint", DONE).unwrap();
        let request = Resume { sightings: story.seen(false, &["ada"]), ..back_to(cut, Force::No) };
        let done = story.run("", &request).unwrap();
        expect![[r#"
            gone back: 1 of 4, 25%
            sorties changed: 1
            free: Endpoint
            lost: Endpoint ("Endpoint") is no longer completed
        "#]].assert_eq(&story.told(&done));
        expect![[r#"
            mission "Add login" in_progress 25%
              sortie "Model" completed ada
              sortie "Endpoint" pending -
              sortie "Docs" pending -
              sortie "Tests" pending -
            agent ada epoch 2
        "#]].assert_eq(&story.as_text());
    }

    fn what_a_retired_agent_held_is_free_again(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        story.change("ada", "Endpoint", DONE).unwrap();
        story.run("", &retire("ada")).unwrap();
        let done = story.rewind(cut).unwrap();
        expect![[r#"
            gone back: 1 of 4, 25%
            sorties changed: 1
            free: Endpoint
            lost: Endpoint ("Endpoint") is no longer completed
        "#]].assert_eq(&story.told(&done));
        assert_eq!(story.claim("bob", "Endpoint").unwrap().owner.as_deref(), Some("bob"));
    }

    fn a_dry_run_of_a_rewind_lists_what_would_be_lost_and_changes_nothing(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        story.change("ada", "Endpoint", DONE).unwrap();
        let (before, rev) = (values(&story, &Kind::ALL), story.rev());
        let predicted = story.with_fleet(|fleet| fleet.rehearse(&back_to(cut, Force::Yes), &caller(""))).unwrap();
        assert!(values(&story, &Kind::ALL) == before && story.rev() == rev);
        let done = story.force_rewind(cut);
        assert_eq!((predicted.lost, predicted.completed, predicted.recovery_context), (done.lost, done.completed, done.recovery_context));
        assert_eq!(predicted.restored, done.restored);
    }

    fn a_damaged_checkpoint_is_not_gone_back_to(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        damage::everywhere(world, Kind::Sortie, &story.sortie_id("Model"), 0);
        let rev = story.rev();
        assert_eq!(story.rewind(cut).unwrap_err().code, Code::Integrity);
        assert_eq!(story.rev(), rev, "a caller that names a checkpoint gets that one or none");
        assert_eq!(story.checkpoints().pop().unwrap().status, CheckpointStatus::Valid);
    }

    fn other_missions_are_untouched(world: &World) {
        let story = working(world);
        let cut = story.checkpoint().id;
        story.mission("Another", &["Elsewhere"]);
        story.claim("bob", "Elsewhere").unwrap();
        story.run("bob", &lesson("of the other")).unwrap();
        let other = story.all::<Mission>()[1].clone();
        let done = story.force_rewind(cut);
        assert_eq!((done.mission_id, done.lost), (mission(&story).id, vec![]));
        assert_eq!((&story.all::<Mission>()[1], story.stored_sortie("Elsewhere").status), (&other, SortieStatus::InProgress));
    }
}
