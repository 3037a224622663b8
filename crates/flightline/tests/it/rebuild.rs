//! A new store from the files of checkpoints, on both engines: same ids, nothing old granted.

use std::collections::BTreeMap;
use std::fs;

use flightline::backup;
use flightline::checkpoint::inspect::Difference;
use flightline::doctor::{Care, attend};
use flightline::rebuild::{Rebuild, Rebuilt, rebuild};
use flightline_testkit::named;
use flightline_testkit::prelude::*;

/// Two missions, each with work under way, mail, a note and a checkpoint file; one agent in both.
fn working(world: &World) -> Story<'_> {
    let story = Story::new(world);
    story.mission("Add login", &["Model", "Endpoint", "Docs"]);
    story.board("ada", Role::Specialist, 7);
    story.finish("ada", &["Model"]);
    story.claim("ada", "Endpoint").unwrap();
    story.lock("ada", &["src/api.rs"]).unwrap();
    story.run("ada", &lesson("measure first")).unwrap();
    let seen = story.send("ada", &["ada"], "Seen").unwrap().message.id;
    story.run("ada", &acknowledge(&seen.to_string())).unwrap();
    story.send("ada", &["ada"], "Not seen").unwrap();
    story.checkpoint();
    story.mission("Another", &["Elsewhere"]);
    story.claim("bob", "Elsewhere").unwrap();
    story.checkpoint();
    story.settle();
    story
}

pub fn rebuilt(world: &World) -> Result<Rebuilt, Refusal> {
    rebuilt_at(world, "now")
}

/// Builds the store anew from the files of checkpoints; what is set aside bears the stamp.
pub fn rebuilt_at(world: &World, stamp: &str) -> Result<Rebuilt, Refusal> {
    let state = world.folder().join(".flightline");
    let request = Rebuild {
        state: &state,
        project: &world.project,
        name: "test",
        location: &world.location,
        options: world.options(),
        stamp,
    };
    rebuild(&request, &caller("")).map_err(flightline::Error::into_refusal)
}

/// A mission that changes from file to file: before the work, at 25 %, and with a lock held.
fn changing(world: &World) -> (Story<'_>, Vec<CheckpointId>) {
    let story = Story::new(world);
    story.mission("Add login", &["Model", "Endpoint", "Docs", "Tests"]);
    story.checkpoint();
    story.claim("ada", "Endpoint").unwrap();
    story.lock("ada", &["src/api.rs"]).unwrap();
    story.pass_minutes(1);
    story.finish("bob", &["Model"]);
    story.send("ada", &["bob"], "Look").unwrap();
    story.checkpoint();
    story.settle();
    let files = story.checkpoints().iter().map(|one| one.id).collect();
    (story, files)
}

fn show(story: &Story<'_>, id: CheckpointId) -> CheckpointDocument {
    let checkpoint = id.to_string();
    story.run("", &ShowCheckpoint { checkpoint }).unwrap()
}

fn diff(story: &Story<'_>, a: CheckpointId, b: CheckpointId) -> Vec<Difference> {
    let (a, b) = (a.to_string(), Some(b.to_string()));
    story.run("", &DiffCheckpoints { a, b }).unwrap()
}

/// What the doctor finds wrong with the whole of it.
fn wrong(story: &Story<'_>) -> Vec<String> {
    let folder = story.state_folder();
    let look = |fleet: &mut Fleet| attend(fleet, &folder, Care::Look, "now");
    let checks = story.with_fleet(look).unwrap().checks.into_iter();
    let bad = checks.filter(|check| !check.ok);
    bad.flat_map(|check| check.findings).collect()
}

/// The work, mail and notes there are, by id.
fn work(story: &Story<'_>) -> BTreeMap<(Kind, String), String> {
    let kept = [
        Kind::Mission,
        Kind::Sortie,
        Kind::Message,
        Kind::Delivery,
        Kind::Note,
    ];
    story
        .state()
        .into_iter()
        .filter(|value| kept.contains(&value.kind))
        .map(|value| ((value.kind, value.id), value.text))
        .collect()
}

both_engines! {
    fn a_rebuild_takes_no_restore_back_and_no_way_back_from_one(world: &World) {
        let (story, _) = changing(world);
        story.settle();
        let folder = world.folder();
        let (file, keep, again) = (folder.join("kept.db"), folder.join("before.db"), folder.join("after.db"));
        story.with_fleet(|fleet| backup::back_up(fleet, &file)).unwrap();
        story.mission("Late", &["Other"]);
        let late = story.checkpoint().id;
        story.settle();
        story.with_fleet(|fleet| backup::restore(fleet, &named(&file), &keep, &caller(""))).unwrap();
        story.settle();
        let done = rebuilt(world).unwrap();
        assert!(!done.checkpoints.contains(&late) && done.skipped.iter().any(|why| why.contains("left behind")), "{done:?}");
        let titles = |story: &Story<'_>| story.all::<Mission>().iter().map(|it| it.title.to_string()).collect::<Vec<_>>();
        assert_eq!(titles(&Story::new(world)), ["Add login"]);
        // The way back from the restore leaves what the restore had made of it.
        let story = Story::new(world);
        story.with_fleet(|fleet| backup::restore(fleet, &named(&keep), &again, &caller(""))).unwrap();
        story.settle();
        rebuilt(world).unwrap();
        assert_eq!(titles(&Story::new(world)), ["Add login", "Late"]);
    }

    fn a_store_is_built_anew_with_the_same_ids(world: &World) {
        let story = working(world);
        let before = work(&story);
        let files: Vec<_> = story.checkpoints().iter().filter(|one| one.cut.reason == Reason::Manual).map(|one| one.id).collect();
        drop(story);
        let mut done = rebuilt(world).unwrap();
        done.from.sort();
        let mut expected = files;
        expected.sort();
        assert_eq!((done.from, done.skipped.len()), (expected, 0));
        let story = Story::new(world);
        assert!(work(&story) == before, "{}", story.as_text());
        assert!(story.damaged_values().is_empty(), "{:?}", story.damaged_values());
        assert!(done.lost.iter().any(|line| line.contains("locks")));
    }

    fn nothing_old_is_granted(world: &World) {
        let story = working(world);
        let here = story.cursor();
        let rev = story.rev();
        drop(story);
        rebuilt(world).unwrap();
        let story = Story::new(world);
        assert!(story.all::<Lock>().is_empty());
        assert_eq!(story.agent("ada").epoch, 2);
        let asleep = Caller { epoch: Some(1), ..caller("ada") };
        let report = UpdateSortie { sortie: story.sortie_id("Endpoint"), ..UpdateSortie::default() };
        assert_eq!(story.run_as(&asleep, &report).unwrap_err().code, Code::Fenced);
        let cursor = ListEvents { after: Some(Cursor { ..here }), limit: 1, ..ListEvents::default() };
        assert_eq!(story.run("", &cursor).unwrap_err().code, Code::HistoryChanged);
        assert!(story.rev() > rev, "no fence is ever given twice");
    }

    fn work_goes_on_from_there(world: &World) {
        drop(working(world));
        rebuilt(world).unwrap();
        let story = Story::new(world);
        let mission = story.all::<Mission>()[0].id.to_string();
        let request = Resume { mission: Some(mission), ..Default::default() };
        assert!(story.run("", &request).is_ok(), "each mission has a checkpoint again");
        story.change("ada", "Endpoint", DONE).unwrap();
        story.settle();
        let verdict = story.with_fleet(|fleet| flightline::doctor::examine_backups(fleet, &world.folder().join(".flightline"), flightline::doctor::Care::Look)).unwrap();
        assert!(verdict.iter().all(|check| check.ok), "{verdict:?}");
    }

    fn a_damaged_file_is_passed_over_for_the_one_before(world: &World) {
        let story = working(world);
        let first = story.checkpoints().into_iter().find(|one| one.cut.reason == Reason::Manual).unwrap();
        let mission = first.cut.mission_id.to_string();
        story.run("", &UseMission { mission }).unwrap();
        story.change("ada", "Endpoint", GIVEN_BACK).unwrap();
        let second = story.checkpoint();
        story.settle();
        let file = story.file_of(&second);
        fs::write(&file, fs::read_to_string(&file).unwrap().replace("\"Endpoint\"", "\"Endpoints\"")).unwrap();
        drop(story);
        let done = rebuilt(world).unwrap();
        assert!(done.from.contains(&first.id) && !done.from.contains(&second.id));
        assert_eq!(done.skipped.len(), 1);
        assert_eq!(Story::new(world).stored_sortie("Endpoint").status.as_str(), "in_progress");
    }

    fn without_a_sound_file_the_old_store_stays(world: &World) {
        let story = working(world);
        let (before, rev) = (work(&story), story.rev());
        fs::remove_dir_all(story.state_folder().join("checkpoints")).unwrap();
        drop(story);
        assert_eq!(rebuilt(world).unwrap_err().code, Code::NotFound);
        let story = Story::new(world);
        assert!(work(&story) == before && story.rev() == rev);
    }

    fn a_store_with_damage_in_it_is_replaced(world: &World) {
        let story = working(world);
        let before = work(&story);
        damage::everywhere(world, Kind::Sortie, &story.sortie_id("Endpoint"), 0);
        damage::journal(world, Kind::Mission, &story.all::<Mission>()[0].id.to_string(), 0);
        drop(story);
        rebuilt(world).unwrap();
        let story = Story::new(world);
        assert!(work(&story) == before);
        assert!(story.damaged_values().is_empty(), "{:?}", story.damaged_values());
    }

    fn older_checkpoints_come_back_with_their_ids_and_everything_they_name(world: &World) {
        let (story, files) = changing(world);
        let (before, shown) = (story.checkpoints(), files.iter().map(|id| show(&story, *id)).collect::<Vec<_>>());
        let differences = diff(&story, files[0], files[1]);
        assert!(!differences.is_empty());
        drop(story);
        let done = rebuilt(world).unwrap();
        assert_eq!(done.checkpoints, files, "oldest first");
        let story = Story::new(world);
        for (id, old) in files.iter().zip(shown) {
            let new = show(&story, *id);
            let fields = |one: &CheckpointDocument| (one.timestamp, one.trigger.clone(), one.reason.clone(), one.trigger_details.clone(), one.recovery_context.clone(), one.created_by.clone(), one.progress_percent, one.note.clone());
            assert_eq!(fields(&new), fields(&old));
            assert_eq!((&new.sorties, &new.active_locks, &new.pending_messages), (&old.sorties, &old.active_locks, &old.pending_messages));
        }
        let verdicts = story.run("", &verify_checkpoints()).unwrap();
        assert!(verdicts.len() > before.len() - 1 && verdicts.iter().all(|verdict| verdict.sound), "{verdicts:?}");
        assert_eq!(diff(&story, files[0], files[1]), differences);
        assert_eq!(story.events_of("checkpoint_rebuilt").len(), files.len());
        assert_eq!((story.damaged_values(), wrong(&story)), (vec![], vec![]));
    }

    fn one_can_go_back_to_an_older_checkpoint(world: &World) {
        let (story, files) = changing(world);
        drop(story);
        rebuilt(world).unwrap();
        let story = Story::new(world);
        assert_eq!(story.stored_sortie("Model").status.as_str(), "completed");
        story.force_rewind(files[0]);
        assert_eq!(story.stored_sortie("Model").status.as_str(), "pending");
        story.undo().unwrap();
        assert_eq!(story.stored_sortie("Model").status.as_str(), "completed");
    }

    fn what_was_taken_away_between_files_stays_away(world: &World) {
        let (story, files) = changing(world);
        story.force_rewind(files[0]);
        let (last, before) = (story.checkpoint(), work(&story));
        story.settle();
        drop(story);
        let done = rebuilt(world).unwrap();
        assert_eq!(done.checkpoints.last(), Some(&last.id));
        let story = Story::new(world);
        assert!(work(&story) == before);
        assert!(story.all::<Lock>().is_empty(), "and no lock comes back, though files name one");
        assert!(show(&story, files[1]).active_locks.len() == 1);
    }

    fn a_milestone_is_not_reached_again(world: &World) {
        let (story, _) = changing(world);
        assert_eq!(story.events_of("milestone_reached").len(), 1);
        drop(story);
        rebuilt(world).unwrap();
        let story = Story::new(world);
        let rev = story.rev();
        story.change("ada", "Endpoint", DONE).unwrap();
        let reached: Vec<_> = story.events_after(rev).into_iter().filter(|event| event.kind == "milestone_reached").map(|event| event.data["percent"].clone()).collect();
        assert_eq!(reached, [50], "25 was reached before");
    }

    fn every_file_is_written_anew_and_can_be_built_from_again(world: &World) {
        let (story, files) = changing(world);
        drop(story);
        rebuilt(world).unwrap();
        let again = rebuilt(world).unwrap();
        assert!(files.iter().all(|id| again.checkpoints.contains(id)) && again.skipped.is_empty(), "{again:?}");
        let story = Story::new(world);
        assert_eq!(wrong(&story), [] as [&str; 0]);
    }

    fn a_name_that_another_bears_by_now_is_no_obstacle(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        story.lock("ada", &["src"]).unwrap();
        story.checkpoint();
        story.run("ada", &release_all()).unwrap();
        story.mission("Another", &["Elsewhere"]);
        story.lock("bob", &["src"]).unwrap();
        story.checkpoint();
        story.settle();
        drop(story);
        let done = rebuilt(world).unwrap();
        assert_eq!((done.checkpoints.len(), done.skipped.len()), (2, 0), "{done:?}");
    }

    fn what_was_there_is_kept(world: &World) {
        drop(working(world));
        let done = rebuilt(world).unwrap();
        assert_eq!(done.set_aside, [world.folder().join(".flightline/backups/before-rebuild-now.db")]);
        assert!(done.set_aside[0].exists());
    }
}

#[test]
fn a_database_that_cannot_be_opened_is_set_aside() {
    let world = World::new(Engine::Sqlite);
    let story = working(&world);
    let before = work(&story);
    drop(story);
    let database = world.folder().join(".flightline/flightline.db");
    fs::write(&database, "not a database").unwrap();
    let _ = fs::remove_file(database.with_extension("db-wal"));
    let done = rebuilt(&world).unwrap();
    let aside = world.folder().join(".flightline/lost-now");
    assert_eq!(done.set_aside, [aside.as_path()]);
    let kept = fs::read_to_string(aside.join("flightline.db")).unwrap();
    assert_eq!(kept, "not a database");
    let story = Story::new(&world);
    assert!(work(&story) == before);
    let epoch = story.agent("ada").epoch;
    assert!(
        epoch > 1_000,
        "{epoch}: nobody knows how often ada came back since"
    );
}
