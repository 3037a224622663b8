//! The files of checkpoints, on both engines: whole, private, checked, and never in the way.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use flightline::checkpoint::files::name_of;
use flightline::checkpoint::{backups, leftovers};
use flightline::core::checkpoint::Backup;
use flightline::core::event::sha256_hex;
use flightline::doctor::{Care, DoctorCheck, examine_backups};
use flightline_testkit::prelude::*;
use flightline_testkit::read_checkpoint;
use flightline_testkit::value::lesson;
use serde_json::{Value, json};

fn working(world: &World) -> Story<'_> {
    let story = at_model(world);
    story.lock("ada", &["src/model.rs"]).unwrap();
    story
}

fn engine(world: &World) -> &'static str {
    match world.engine {
        Engine::Sqlite => "sqlite",
        Engine::Postgres => "postgres",
    }
}

/// Where a checkpoint stands, and what became of its file.
fn stored(story: &Story<'_>, taken: &CheckpointDocument) -> (CheckpointStatus, Backup) {
    story.look(|tx| {
        let backup = tx.backup_of(taken.id)?;
        let checkpoint = tx.get::<Checkpoint>(taken.id)?.unwrap();
        Ok((checkpoint.shown_status(&backup), backup))
    })
}

/// The one mission there is.
fn story_mission(
    tx: &mut flightline::store::Tx<'_>,
) -> Result<Mission, flightline::store::StoreError> {
    let missions = tx.find::<Mission>(flightline::store::Find::All)?;
    Ok(missions.into_iter().next().unwrap())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn latest(story: &Story<'_>, taken: &CheckpointDocument) -> String {
    let link = story.file_of(taken).with_file_name("latest.json");
    fs::read_link(link).unwrap().to_str().unwrap().to_owned()
}

/// What the doctor finds, and what he did about it.
fn examine(story: &Story<'_>, care: Care) -> Vec<DoctorCheck> {
    let folder = story.state_folder();
    story
        .with_fleet(|fleet| examine_backups(fleet, &folder, care))
        .unwrap()
}

fn findings(story: &Story<'_>) -> Vec<String> {
    let bad = examine(story, Care::Look)
        .into_iter()
        .filter(|check| !check.ok);
    bad.flat_map(|check| check.findings).collect()
}

both_engines! {
    fn a_file_holds_the_whole_checkpoint(world: &World) {
        let story = working(world);
        let taken = story.checkpoint();
        let whole = story.whole(taken.id);
        story.settle();
        let mut read = read_checkpoint(&story.file_of(&taken)).unwrap();
        assert_eq!(read.file_sha256.take().map(|sha| sha.len()), Some(64));
        assert!(read == whole);
        let json: Value = serde_json::from_str(&fs::read_to_string(story.file_of(&taken)).unwrap()).unwrap();
        for field in ["id", "mission_id", "timestamp", "trigger", "trigger_details", "progress_percent", "sorties", "active_locks", "pending_messages", "recovery_context", "created_by", "version"] {
            assert!(json.get(field).is_some(), "seed A's {field}");
        }
    }

    fn files_are_private_whole_and_alone(world: &World) {
        let story = working(world);
        let taken = story.checkpoint();
        story.settle();
        let (file, home) = (story.file_of(&taken), story.file_of(&taken).parent().unwrap().to_path_buf());
        assert_eq!(file, story.state_folder().join(format!("checkpoints/{}/{}.json", taken.mission_id, taken.id)));
        assert_eq!((mode(&file), mode(&home), mode(home.parent().unwrap())), (0o600, 0o700, 0o700));
        assert_eq!(names(&home), [format!("{}.json", taken.id), "latest.json".to_owned()], "nothing half written");
        assert_eq!(latest(&story, &taken), format!("{}.json", taken.id));
    }

    fn a_checkpoint_is_created_when_its_backup_is_settled(world: &World) {
        let story = working(world);
        let taken = story.checkpoint();
        assert_eq!(stored(&story, &taken), (CheckpointStatus::Creating, Backup::Pending));
        assert!(story.events_of("checkpoint_created").is_empty(), "nobody knows yet where it will be");
        story.settle();
        let text = fs::read_to_string(story.file_of(&taken)).unwrap();
        let (status, backup) = stored(&story, &taken);
        let Backup::Written { at, bytes, sha256, node } = backup else { panic!("{backup:?}") };
        assert_eq!((status, at, bytes, sha256), (CheckpointStatus::Valid, world.clock.now(), text.len() as u64, sha256_hex(&text)));
        assert_eq!(node.is_some(), world.engine == Engine::Postgres, "several nodes may share a database");
        let event = serde_json::to_value(&story.events_of("checkpoint_created")[0]).unwrap();
        assert_eq!((&event["type"], &event["timestamp"]), (&json!("checkpoint_created"), &json!("2026-01-04T12:00:00.000Z")));
        assert_eq!(event["data"], json!({ "checkpoint_id": taken.id, "mission_id": taken.mission_id, "trigger": "manual", "storage_locations": [engine(world), "file"] }));
        let rev = story.rev();
        story.settle();
        assert_eq!(story.rev(), rev, "settled once");
    }

    fn of_many_that_wait_at_once_the_newest_has_a_file_for_all_of_the_last_seconds(world: &World) {
        let story = working(world);
        let long_ago = story.checkpoint();
        world.pass(std::time::Duration::from_secs(11));
        let mut taken = Vec::new();
        for number in 0..9 {
            let request = TakeCheckpoint { note: Some(note(&format!("number {number}"))), ..take_checkpoint() };
            taken.push(story.run("", &request).unwrap());
        }
        story.settle();
        let has_file = |one: &CheckpointDocument| story.file_of(one).exists();
        assert!(has_file(&long_ago), "it is too far from the others");
        let (newest, others) = taken.split_last().unwrap();
        assert!(has_file(newest) && !others.iter().any(has_file));
        assert!(others.iter().all(|one| stored(&story, one).1 == Backup::Shared));
        assert_eq!(latest(&story, newest), format!("{}.json", newest.id));
        assert_eq!(story.events_of("checkpoint_created").len(), 10, "each is told");
        // The file of the newest fails: then nobody has one, and each is tried again.
        for number in 0..9 {
            let request = TakeCheckpoint { note: Some(note(&format!("again {number}"))), ..take_checkpoint() };
            taken.push(story.run("", &request).unwrap());
        }
        let place = story.state_folder().join("checkpoints");
        let aside = story.state_folder().join("aside");
        fs::rename(&place, &aside).unwrap();
        fs::write(&place, "in the way").unwrap();
        story.settle();
        assert!(!taken[9..].iter().any(|one| stored(&story, one).1 == Backup::Shared));
        fs::remove_file(&place).unwrap();
        fs::rename(&aside, &place).unwrap();
        story.settle();
        assert!(taken[9..].iter().all(|one| matches!(stored(&story, one).1, Backup::Written { .. } | Backup::Shared)));
        assert!(has_file(taken.last().unwrap()));
    }

    fn a_failed_backup_fails_nothing_says_so_and_is_tried_again(world: &World) {
        let story = working(world);
        let place = story.state_folder().join("checkpoints");
        fs::create_dir_all(story.state_folder()).unwrap();
        fs::write(&place, "in the way").unwrap();
        let taken = story.checkpoint();
        story.settle();
        assert_eq!(stored(&story, &taken).0, CheckpointStatus::Creating, "not settled");
        assert!(matches!(stored(&story, &taken).1, Backup::Failed { .. }));
        let event = story.events_of("checkpoint_created").pop().unwrap();
        assert_eq!(event.data["storage_locations"], json!([engine(world)]));
        assert!(event.data["backup_error"].is_string());
        assert!(story.resume("", vec![]).is_ok(), "the store has it");
        let rev = story.rev();
        story.pass_minutes(1);
        story.settle();
        assert_eq!(story.rev(), rev, "what fails in the same way again is no news");
        fs::remove_file(&place).unwrap();
        story.settle();
        assert_eq!(stored(&story, &taken).0, CheckpointStatus::Valid);
        assert_eq!(story.kinds_after(rev), ["checkpoint_backed_up"]);
        assert_eq!(story.events_of("checkpoint_backed_up")[0].data["storage_locations"], json!([engine(world), "file"]));
        assert!(read_checkpoint(&story.file_of(&taken)).is_ok());
    }

    fn a_checkpoint_above_a_megabyte_says_so_once(world: &World) {
        let story = working(world);
        let small = story.checkpoint();
        story.settle();
        assert_eq!(small.warnings, [] as [&str; 0]);
        story.with_fleet(|fleet| fleet.store().unwrap().write(|tx| {
            for number in 0..130 {
                let lesson = lesson(number, &story_mission(tx)?, &"word ".repeat(1_630));
                tx.set(EventType::NoteAdded, &lesson, &json!({}))?;
            }
            Ok::<_, flightline::store::StoreError>(())
        })).unwrap();
        let large = story.checkpoint();
        assert!(large.warnings[0].starts_with("the checkpoint takes 1."), "{:?}", large.warnings);
        let folder = story.state_folder();
        let tell = || story.with_fleet(|fleet| backups::settle_and_tell(fleet, &folder, &caller(""))).unwrap();
        let told = tell();
        assert_eq!((told.len(), told[0].0), (1, large.id));
        assert_eq!(tell(), []);
        let shown = story.run("", &ShowCheckpoint { checkpoint: large.id.to_string() }).unwrap();
        assert_eq!(shown.warnings, [told[0].1.as_str()]);
        assert_eq!(story.events_of("checkpoint_created").pop().unwrap().data["warning"], json!(told[0].1));
        assert!(read_checkpoint(&story.file_of(&large)).unwrap().warnings.is_empty(), "the file says what was, not what to think of it");
        assert!(findings(&story).is_empty());
    }

    fn one_missions_trouble_does_not_keep_the_others_from_their_files(world: &World) {
        let story = working(world);
        let first = story.checkpoint();
        let home = story.file_of(&first).parent().unwrap().to_path_buf();
        fs::create_dir_all(home.parent().unwrap()).unwrap();
        fs::write(&home, "in the way").unwrap();
        story.mission("Another", &["Elsewhere"]);
        let second = story.checkpoint();
        story.settle();
        assert!(matches!(stored(&story, &first).1, Backup::Failed { .. }));
        assert!(read_checkpoint(&story.file_of(&second)).is_ok());
    }

    fn latest_only_moves_forwards(world: &World) {
        let story = working(world);
        let first = story.checkpoint();
        story.settle();
        story.finish("bob", &["Docs"]);
        let second = story.checkpoint_for("", Reason::Manual).unwrap();
        story.settle();
        assert_eq!(latest(&story, &first), format!("{}.json", second.id));
        fs::remove_file(story.file_of(&first)).unwrap();
        examine(&story, Care::Repair);
        assert!(read_checkpoint(&story.file_of(&first)).is_ok(), "an older file was written later");
        assert_eq!(latest(&story, &first), format!("{}.json", second.id));
    }

    fn frequent_checkpoints_share_a_file_for_ten_seconds(world: &World) {
        let story = working(world);
        let mut number = 0;
        let mut take = |reason: Reason| {
            number += 1;
            story.send("ada", &["ada"], &format!("number {number}")).unwrap();
            let taken = story.checkpoint_for("ada", reason).unwrap();
            story.settle();
            (story.file_of(&taken).exists(), stored(&story, &taken))
        };
        assert!(take(Reason::SubtaskDone).0);
        world.pass(Duration::from_millis(9_999));
        let (exists, shared) = take(Reason::FileCreated);
        assert_eq!((exists, shared), (false, (CheckpointStatus::Valid, Backup::Shared)));
        assert_eq!(story.events_of("checkpoint_created").pop().unwrap().data["storage_locations"], json!([engine(world)]));
        assert!(take(Reason::Manual).0, "what somebody asked for has its own");
        world.pass(Duration::from_secs(10));
        assert!(take(Reason::Heartbeat).0, "later");
        assert!(take(Reason::Milestone).0, "and what is rare");
    }

    fn what_a_dead_process_left_half_written_is_no_obstacle(world: &World) {
        let story = working(world);
        let taken = story.checkpoint();
        let home = story.file_of(&taken).parent().unwrap().to_path_buf();
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join(format!(".{}.json.{}", taken.id, std::process::id())), "{\"id\": ").unwrap();
        symlink("chk-gone.json", home.join(format!(".latest.json.{}", std::process::id()))).unwrap();
        story.settle();
        assert!(read_checkpoint(&story.file_of(&taken)).is_ok());
        assert_eq!(names(&home).len(), 2);
    }

    fn what_a_dead_process_was_writing_goes_with_the_next_checkpoint_when_it_is_old(world: &World) {
        let story = working(world);
        let first = story.checkpoint();
        story.settle();
        let home = story.file_of(&first).parent().unwrap().to_path_buf();
        let (old, new, not_ours) = (home.join(format!(".{}.4711", first.id)), home.join(".latest.4711"), home.join(".swp"));
        for file in [&old, &new, &not_ours] {
            fs::write(file, "{ half").unwrap();
        }
        let long_ago = fs::metadata(&old).unwrap().modified().unwrap() - Duration::from_secs(61);
        for file in [&old, &not_ours] {
            fs::File::options().write(true).open(file).unwrap().set_modified(long_ago).unwrap();
        }
        assert_eq!(findings(&story), [] as [&str; 0], "harmless");
        story.finish("bob", &["Docs"]);
        story.checkpoint_for("", Reason::Manual).unwrap();
        story.settle();
        assert_eq!((old.exists(), new.exists(), not_ours.exists()), (false, true, true), "somebody may still be writing");
    }

    fn files_of_checkpoints_that_are_gone_go_and_latest_leads_to_the_newest_that_stays(world: &World) {
        let story = working(world);
        let mut taken = vec![story.checkpoint()];
        for title in ["Docs", "Tests"] {
            story.finish("bob", &[title]);
            taken.push(story.checkpoint_for("", Reason::Manual).unwrap());
        }
        story.settle();
        let spare = story.file_of(&taken[0]).with_file_name("chk-00000000-0000-4000-8000-000000000000.json");
        fs::copy(story.file_of(&taken[0]), &spare).unwrap();
        let delete = |one: &CheckpointDocument| {
            story.mark("", one.id, CheckpointMark::Delete).unwrap();
        };
        let clear = || story.with_fleet(|fleet| leftovers::clear(fleet, &story.state_folder())).unwrap();
        delete(&taken[0]);
        clear();
        assert!(!story.file_of(&taken[0]).exists());
        assert_eq!(latest(&story, &taken[0]), format!("{}.json", taken[2].id));
        delete(&taken[2]);
        clear();
        assert!(!story.file_of(&taken[2]).exists());
        let next = latest(&story, &taken[0]);
        assert!(read_checkpoint(&story.file_of(&taken[0]).with_file_name(next)).unwrap().rev >= taken[1].rev);
        for one in story.checkpoints() {
            story.mark("", one.id, CheckpointMark::Delete).unwrap();
        }
        assert!(spare.exists(), "a file that the store never knew is nobody's to remove");
        fs::remove_file(&spare).unwrap();
        clear();
        let home = story.file_of(&taken[0]).parent().unwrap().to_path_buf();
        assert_eq!(names(&home), [] as [&str; 0], "a link that leads nowhere goes too");
    }

    fn a_link_is_not_followed(world: &World) {
        let story = working(world);
        let taken = story.checkpoint();
        let home = story.file_of(&taken).parent().unwrap().to_path_buf();
        let elsewhere = world.folder().join("elsewhere");
        fs::create_dir_all(home.parent().unwrap()).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, &home).unwrap();
        story.settle();
        assert!(matches!(stored(&story, &taken).1, Backup::Failed { .. }));
        assert!(names(&elsewhere).is_empty());
    }

    fn a_damaged_file_is_refused_wherever_it_is_damaged(world: &World) {
        let story = working(world);
        let request = TakeCheckpoint { details: Some(note("Before the refactoring")), note: Some(note("look")), ..take_checkpoint() };
        let taken = story.run("", &request).unwrap();
        story.settle();
        let (file, aside) = (story.file_of(&taken), world.folder().join("copy.json"));
        let bytes = fs::read(&file).unwrap();
        let refused = |damaged: &[u8], what: String| {
            fs::write(&aside, damaged).unwrap();
            let refusal = read_checkpoint(&aside).expect_err(&what);
            assert_eq!(refusal.code, Code::Integrity, "{what}");
        };
        for step in 0..200 {
            let at = step * (bytes.len() - 1) / 199;
            for flip in [0x01, 0x20, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                refused(&damaged, format!("byte {at} of {} flipped with {flip:#x}", bytes.len()));
            }
        }
        for step in 0..40 {
            let length = step * bytes.len() / 40;
            refused(&bytes[..length], format!("cut to {length} bytes"));
        }
        refused(&[&bytes[..], b"\n"].concat(), "with something at its end".to_owned());
        let without_sorties = String::from_utf8(bytes).unwrap().replace("\"in_progress\"", "\"completed\"");
        refused(without_sorties.as_bytes(), "with its words changed".to_owned());
        assert!(read_checkpoint(&file).is_ok());
    }

    fn only_a_plain_file_is_read(world: &World) {
        let story = working(world);
        let taken = story.checkpoint();
        story.settle();
        let (file, link) = (story.file_of(&taken), world.folder().join("link.json"));
        symlink(&file, &link).unwrap();
        assert_eq!(read_checkpoint(&link).unwrap_err().code, Code::Integrity);
        assert_eq!(read_checkpoint(world.folder()).unwrap_err().code, Code::Integrity);
        assert_eq!(read_checkpoint(&world.folder().join("none.json")).unwrap_err().code, Code::NotFound);
    }

    fn the_doctor_finds_nothing_where_all_is_well(world: &World) {
        let story = working(world);
        story.checkpoint();
        story.settle();
        let checks = examine(&story, Care::Look);
        assert_eq!(checks.iter().map(|check| check.name.as_str()).collect::<Vec<_>>(), ["checkpoints match their hashes", "checkpoint files match the store", "no file without a checkpoint"]);
        assert!(checks.iter().all(|check| check.ok && check.findings.is_empty()), "{checks:?}");
    }

    fn a_missing_or_damaged_file_is_found_and_written_anew(world: &World) {
        let story = working(world);
        let first = story.checkpoint();
        story.finish("bob", &["Docs"]);
        let second = story.checkpoint_for("", Reason::Manual).unwrap();
        story.settle();
        fs::remove_file(story.file_of(&first)).unwrap();
        fs::write(story.file_of(&second), "{}").unwrap();
        let found = findings(&story);
        assert!(found.contains(&format!("{}: its file is missing", first.id)), "{found:?}");
        assert!(found.contains(&format!("{}: its file does not match its checksum", second.id)), "{found:?}");
        assert!(examine(&story, Care::Repair).iter().all(|check| check.ok), "repaired, and said so");
        for taken in [&first, &second] {
            assert_eq!(read_checkpoint(&story.file_of(taken)).unwrap().id, taken.id);
        }
        assert_eq!(findings(&story), [] as [&str; 0]);
    }

    fn a_file_is_replaced_whole_and_never_rewritten_in_place(world: &World) {
        let story = working(world);
        let taken = story.checkpoint();
        story.settle();
        fs::write(story.file_of(&taken), "{ half").unwrap();
        let mut reader = fs::File::open(story.file_of(&taken)).unwrap();
        examine(&story, Care::Repair);
        let mut seen = String::new();
        reader.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "{ half", "who had the old one open still has all of it");
        assert!(read_checkpoint(&story.file_of(&taken)).is_ok());
    }

    fn the_doctor_keeps_a_sound_file_of_a_checkpoint_that_is_damaged_in_the_store(world: &World) {
        let story = working(world);
        let taken = story.checkpoint();
        story.settle();
        damage::everywhere(world, flightline::core::Kind::Sortie, &story.sortie_id("Model"), 0);
        let before = fs::read(story.file_of(&taken)).unwrap();
        let found = examine(&story, Care::Repair);
        assert!(!found[0].ok && found[0].findings[0].ends_with("; its file is sound"), "{found:?}");
        assert!(fs::read(story.file_of(&taken)).unwrap() == before);
    }

    fn a_record_that_cannot_be_read_is_reported_and_hides_no_other(world: &World) {
        let story = working(world);
        let first = story.checkpoint();
        story.mission("Another", &["Elsewhere"]);
        let second = story.checkpoint();
        story.settle();
        damage::live(world, flightline::core::Kind::Checkpoint, &first.id.to_string());
        fs::remove_file(story.file_of(&second)).unwrap();
        let checks = examine(&story, Care::Repair);
        assert!(checks[0].findings[0].ends_with("its record does not match its checksum; its file is sound"), "{checks:?}");
        assert_eq!(checks.iter().map(|check| check.ok).collect::<Vec<_>>(), [false, true, true], "{checks:?}");
        assert!(read_checkpoint(&story.file_of(&second)).is_ok());
        assert!(story.file_of(&first).exists(), "its file may be all that is left of it");
    }

    fn what_belongs_to_no_checkpoint_is_reported(world: &World) {
        let story = working(world);
        let taken = story.checkpoint();
        story.settle();
        fs::write(story.file_of(&taken).with_file_name("chk-strange.json"), "{}").unwrap();
        let found = findings(&story);
        assert!(found.len() == 1 && found[0].contains("chk-strange.json"), "{found:?}");
    }

    fn secrets_are_not_in_files(world: &World) {
        let story = Story::new(world);
        story.mission("Use ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789", &["Model"]);
        let request = TakeCheckpoint { note: Some(note("password=hunter2hunter2hunter2")), ..take_checkpoint() };
        let taken = story.run("", &request).unwrap();
        story.settle();
        let text = fs::read_to_string(story.file_of(&taken)).unwrap();
        assert!(!text.contains("AbCdEfGhIjKl") && !text.contains("hunter2"), "redacted where it entered");
    }
}

#[test]
fn the_place_of_a_file_is_seed_as() {
    let world = World::new(Engine::Sqlite);
    let story = working(&world);
    let mission = story.all::<Mission>()[0].id;
    let taken = story.checkpoint();
    let place = Path::new(".flightline").join(name_of(mission, taken.id));
    assert_eq!(
        place,
        Path::new(&format!(
            ".flightline/checkpoints/{mission}/{}.json",
            taken.id
        ))
    );
}
