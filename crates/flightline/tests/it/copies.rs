//! Every value has copies, on both engines: one sound one is enough, it is said, and it mends the others.

use std::fs;

use flightline::checkpoint::mend::MendCheckpoint;
use flightline::checkpoint::serve::{rehearse, serve};
use flightline::core::event::sha256_hex;
use flightline_testkit::prelude::*;
use serde_json::json;

fn all_sound(story: &Story<'_>) -> bool {
    let verdicts = story.run("", &verify_checkpoints());
    verdicts.unwrap().iter().all(|verdict| verdict.sound)
}

both_engines! {
    fn a_value_that_is_damaged_in_the_journal_is_taken_from_the_last_value(world: &World) {
        let story = at_endpoint(world);
        let taken = story.checkpoint();
        damage::journal(world, Kind::Sortie, &story.sortie_id("Endpoint"), story.checkpoints()[0].cut.rev);
        assert!(all_sound(&story));
        let shown = story.run("", &ShowCheckpoint { checkpoint: "@latest".to_owned() }).unwrap();
        assert_eq!(shown.sorties, taken.sorties);
        let said = story.with_fleet(|fleet| fleet.store().unwrap().take_noticed());
        assert!(said.iter().any(|damage| damage.to_string().contains("is damaged in the journal")), "{said:?}");
        let done = story.resume("", vec![]).unwrap();
        assert_eq!(done.checkpoint_id, taken.id);
        assert!(done.warnings.len() == 1 && done.warnings[0].starts_with(&format!("sortie {} is damaged in the journal", story.sortie_id("Endpoint"))), "{:?}", done.warnings);
        assert!(done.warnings[0].ends_with("; repaired"), "{:?}", done.warnings);
        let repaired = story.events_of("value_repaired").pop().unwrap();
        assert_eq!((repaired.actor.as_str(), repaired.subject), ("flightline", story.sortie_id("Endpoint")));
        assert_eq!(story.resume("", vec![]).unwrap().warnings, [] as [&str; 0], "said once");
        assert_eq!(story.checkpoints().pop().unwrap().status, CheckpointStatus::Valid);
    }

    fn a_dry_run_repairs_nothing(world: &World) {
        let story = at_endpoint(world);
        story.checkpoint();
        damage::journal(world, Kind::Sortie, &story.sortie_id("Endpoint"), 0);
        let (rev, before) = (story.rev(), world.problems());
        let predicted = story.with_fleet(|fleet| fleet.rehearse(&roll_forward(vec![]), &caller(""))).unwrap();
        assert_eq!((story.rev(), world.problems()), (rev, before));
        assert_eq!(predicted.warnings, story.resume("", vec![]).unwrap().warnings);
    }

    fn a_damaged_last_value_is_read_from_the_journal_and_work_goes_on(world: &World) {
        let story = at_endpoint(world);
        let (endpoint, mission) = (story.sortie_id("Endpoint"), story.all::<Mission>()[0].id.to_string());
        damage::live(world, Kind::Sortie, &endpoint);
        damage::live(world, Kind::Mission, &mission);
        let status = story.run("", &show_status()).unwrap();
        let said = status.attention.iter().find(|one| one.command == "fleet doctor --fix").unwrap();
        assert!(said.what.starts_with(&format!("the last value of mission {mission} is damaged")) && said.what.ends_with("(and 1 more like it)"), "{said:?}");
        assert_eq!(story.damaged_values().len(), 2, "the doctor sees it: {:?}", story.damaged_values());
        let done = story.claim("ada", "Docs").and_then(|_| story.resume("ada", vec![])).unwrap();
        assert!(done.warnings.iter().any(|said| said.ends_with("; repaired")), "{:?}", done.warnings);
        assert_eq!(story.damaged_values(), [] as [&str; 0]);
    }

    fn what_has_no_sound_copy_is_an_error_that_names_it(world: &World) {
        let story = at_endpoint(world);
        let endpoint = story.sortie_id("Endpoint");
        damage::everywhere(world, Kind::Sortie, &endpoint, 0);
        let refused = story.change("ada", "Endpoint", DONE).unwrap_err();
        assert!(refused.message.contains(&format!("sortie {endpoint} does not match its checksum")), "{}", refused.message);
    }
}

/// Two checkpoints with files: before ada began, and while she is at it. What both name is no longer the
/// last value of anything, so that only the journal and the files have it.
fn with_files(world: &World) -> (Story<'_>, CheckpointDocument, CheckpointDocument) {
    let story = at_endpoint(world);
    let first = story.checkpoint();
    story.claim("bob", "Docs").unwrap();
    let second = story.checkpoint();
    story.settle();
    for (agent, sortie) in [("bob", "Docs"), ("ada", "Endpoint")] {
        story.change(agent, sortie, GIVEN_BACK).unwrap();
    }
    (story, first, second)
}

/// Damages what the second checkpoint names and the first does not.
fn damage_second(
    world: &World,
    story: &Story<'_>,
    first: &CheckpointDocument,
    second: &CheckpointDocument,
) {
    let (docs, from, to) = (story.sortie_id("Docs"), first.rev, second.rev);
    let sql = format!(
        "UPDATE event SET after = after || ' ' WHERE project = {{project}} AND subject = '{docs}' AND rev > {from} AND rev <= {to}"
    );
    assert_eq!(damage::raw(world, &sql), 1);
}

fn resume(story: &Story<'_>) -> Result<Resumed, Refusal> {
    let (outcome, said) = story.serve(&roll_forward(vec![]));
    assert!(outcome.is_err() || said.is_empty(), "it is in the outcome");
    outcome
}

fn remove_record(world: &World, checkpoint: &CheckpointDocument) {
    let id = checkpoint.id;
    for table in [
        "event WHERE subject",
        "subject WHERE id",
        "backup WHERE checkpoint",
    ] {
        let sql = format!("DELETE FROM {table} = '{id}' AND project = {{project}}");
        assert!(damage::raw(world, &sql) > 0, "{sql}");
    }
}

both_engines! {
    // Seed A: "Checkpoint file missing: fall back to SQLite, warn user".
    fn a_missing_checkpoint_file_is_made_good_by_the_store_and_warned_of(world: &World) {
        let (story, _, second) = with_files(world);
        assert_eq!(resume(&story).unwrap().warnings, [] as [&str; 0]);
        fs::remove_file(story.file_of(&second)).unwrap();
        let done = resume(&story).unwrap();
        assert_eq!(done.checkpoint_id, second.id);
        let id = &second.id.to_string()[..12];
        assert_eq!(done.warnings, [format!("the file of {id} is missing; the store has it: rewrite it with `fleet doctor --fix`")]);
        fs::write(story.file_of(&second), "{}").unwrap();
        assert_eq!(resume(&story).unwrap().warnings, [format!("the file of {id} is not as it was written; the store has it: rewrite it with `fleet doctor --fix`")]);
        let (shown, said) = story.serve(&ShowCheckpoint { checkpoint: second.id.to_string() });
        assert!(shown.is_ok() && said.len() == 1, "{said:?}");
    }

    // Seed A: "SQLite record missing: fall back to file, warn user".
    fn a_missing_record_is_brought_back_from_its_file_and_warned_of(world: &World) {
        let (story, _, second) = with_files(world);
        let before = story.checkpoints().pop().unwrap();
        remove_record(world, &second);
        assert_ne!(story.checkpoints().pop().unwrap().id, second.id);
        let done = resume(&story).unwrap();
        assert_eq!(done.checkpoint_id, second.id);
        assert_eq!(done.warnings, [format!("{} was missing in the store; brought back from its file", &second.id.to_string()[..12])]);
        assert_eq!(story.checkpoints().into_iter().find(|one| one.id == second.id).unwrap(), before);
        let told = story.events_of("checkpoint_recovered").pop().unwrap();
        assert_eq!((told.actor.as_str(), &told.data["checkpoint_id"]), ("flightline", &json!(second.id)));
        assert_eq!(resume(&story).unwrap().warnings, [] as [&str; 0], "and is there again");
        assert!(story.serve(&back_to(second.id, Force::Yes)).0.is_ok());
    }

    fn a_record_that_is_asked_for_by_name_is_brought_back_too(world: &World) {
        let (story, _, second) = with_files(world);
        remove_record(world, &second);
        let show = ShowCheckpoint { checkpoint: second.id.to_string()[..16].to_owned() };
        let (shown, said) = story.serve(&show);
        assert_eq!((shown.unwrap().sorties, said.len()), (second.sorties, 1));
    }

    fn a_row_that_is_lost_is_written_anew_from_the_journal(world: &World) {
        let (story, _, second) = with_files(world);
        let id = second.id;
        assert_eq!(damage::raw(world, &format!("DELETE FROM subject WHERE id = '{id}' AND project = {{project}}")), 1);
        let done = resume(&story).unwrap();
        assert_eq!((done.checkpoint_id, done.warnings.len()), (id, 1));
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    // Seed A: "Both missing: error, cannot recover".
    fn when_record_and_file_are_missing_it_is_an_error(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        let taken = story.checkpoint();
        story.settle();
        remove_record(world, &taken);
        fs::remove_file(story.file_of(&taken)).unwrap();
        let refused = resume(&story).unwrap_err();
        assert_eq!(refused.code, Code::NotFound);
        assert!(refused.message.starts_with("cannot resume") && refused.message.ends_with("it has no checkpoint"), "{}", refused.message);
        let hint = refused.hint.unwrap();
        assert!(hint.contains("`fleet checkpoint`") && !hint.contains("rebuild"), "{hint}");
    }

    // Seed A: "Corrupted checkpoint: try previous checkpoint, warn user"; the other copies come first.
    fn a_corrupted_checkpoint_is_repaired_from_its_file(world: &World) {
        let (story, first, second) = with_files(world);
        damage_second(world, &story, &first, &second);
        let done = resume(&story).unwrap();
        assert_eq!(done.checkpoint_id, second.id);
        assert_eq!(done.warnings, [format!("{} was damaged in the store; repaired 1 value from its file", &second.id.to_string()[..12])]);
        assert!(all_sound(&story));
        assert_eq!(world.problems(), [] as [&str; 0]);
        assert_eq!(story.checkpoints().pop().unwrap().status, CheckpointStatus::Valid);
    }

    fn a_corrupted_checkpoint_is_repaired_from_the_file_of_another(world: &World) {
        let (story, first, second) = with_files(world);
        damage::journal(world, Kind::Sortie, &story.sortie_id("Endpoint"), 0);
        for path in [story.file_of(&second), story.file_of(&first)] {
            assert!(path.exists());
        }
        fs::write(story.file_of(&second), "{}").unwrap();
        assert_eq!(resume(&story).unwrap().checkpoint_id, second.id, "the first one's file has the same value");
        assert!(all_sound(&story));
    }

    fn when_no_copy_is_sound_the_previous_checkpoint_is_used(world: &World) {
        let (story, first, second) = with_files(world);
        damage_second(world, &story, &first, &second);
        fs::write(story.file_of(&second), "{}").unwrap();
        let done = resume(&story).unwrap();
        assert_eq!(done.checkpoint_id, first.id);
        assert!(done.warnings.len() == 1 && done.warnings[0].contains("is damaged: sortie"), "{:?}", done.warnings);
        assert_eq!(story.checkpoints().pop().unwrap().status, CheckpointStatus::Corrupted);
    }

    fn what_was_quarantined_is_valid_again_when_its_file_comes_back(world: &World) {
        let (story, first, second) = with_files(world);
        damage_second(world, &story, &first, &second);
        let (file, aside) = (story.file_of(&second), world.folder().join("aside.json"));
        fs::rename(&file, &aside).unwrap();
        assert_eq!(resume(&story).unwrap().checkpoint_id, first.id);
        fs::rename(&aside, &file).unwrap();
        assert_eq!(resume(&story).unwrap().checkpoint_id, second.id);
        assert_eq!(story.checkpoints().pop().unwrap().status, CheckpointStatus::Valid);
    }

    fn a_damaged_record_is_repaired_from_its_file(world: &World) {
        let (story, _, second) = with_files(world);
        let before = story.state();
        damage::live(world, Kind::Checkpoint, &second.id.to_string());
        let (shown, said) = story.serve(&ShowCheckpoint { checkpoint: second.id.to_string() });
        assert_eq!(shown.unwrap().sorties, second.sorties);
        assert_eq!(said, [format!("the record of {} was damaged in the store; repaired", &second.id.to_string()[..12])]);
        assert_eq!(world.problems(), [] as [&str; 0]);
        assert!(story.state() == before, "healed, not changed");
    }

    fn a_pinned_record_is_repaired_though_its_file_is_older(world: &World) {
        let (story, _, second) = with_files(world);
        story.pass_minutes(1);
        story.mark("", second.id, CheckpointMark::Pin).unwrap();
        let before = story.state();
        damage::live(world, Kind::Checkpoint, &second.id.to_string());
        assert!(story.serve(&verify_checkpoints()).0.unwrap().iter().all(|one| one.sound));
        assert!(story.state() == before, "pin and all");
        story.mark("", second.id, CheckpointMark::Note { text: note("look") }).unwrap();
        damage::journal(world, Kind::Checkpoint, &second.id.to_string(), 0);
        let (shown, said) = story.serve(&ShowCheckpoint { checkpoint: second.id.to_string() });
        assert!(said[0].ends_with("a note on it may be lost"), "{said:?}");
        assert_eq!((shown.as_ref().unwrap().pinned, &shown.as_ref().unwrap().sorties), (true, &second.sorties));
    }

    fn events_that_are_lost_are_brought_back_from_a_file(world: &World) {
        let (story, first, second) = with_files(world);
        let docs = story.sortie_id("Docs");
        let sql = format!("DELETE FROM event WHERE subject = '{docs}' AND rev > {} AND rev <= {} AND project = {{project}}", first.rev, second.rev);
        assert!(damage::raw(world, &sql) > 0);
        let (done, _) = story.serve(&back_to(second.id, Force::Yes));
        assert_eq!(done.unwrap().checkpoint_id, second.id);
        assert_eq!(story.stored_sortie("Docs").status, SortieStatus::InProgress);
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn a_rewind_an_undo_and_a_difference_are_served_too(world: &World) {
        let (story, first, second) = with_files(world);
        damage_second(world, &story, &first, &second);
        let (differs, said) = story.serve(&DiffCheckpoints { a: first.id.to_string(), b: Some(second.id.to_string()) });
        assert!(!differs.unwrap().is_empty() && said.len() == 1, "{said:?}");
        damage_second(world, &story, &first, &second);
        let (done, _) = story.serve(&back_to(second.id, Force::Yes));
        assert!(done.unwrap().warnings.iter().any(|said| said.contains("from its file")));
        story.settle();
        let before = story.all::<Recovery>().pop().unwrap().before.unwrap();
        damage::journal(world, Kind::Sortie, &story.sortie_id("Docs"), second.rev);
        let (done, _) = story.serve(&undo_rewind(Force::Yes));
        assert_eq!(done.unwrap().checkpoint_id, before);
        assert_eq!(story.stored_sortie("Docs").status, SortieStatus::Pending);
    }

    fn a_dry_run_tells_of_the_repair_and_does_nothing(world: &World) {
        let (story, first, second) = with_files(world);
        damage_second(world, &story, &first, &second);
        let (rev, problems, folder) = (story.rev(), world.problems(), story.state_folder());
        let predicted = story.with_fleet(|fleet| rehearse(fleet, &folder, &caller(""), &roll_forward(vec![]))).done.unwrap().outcome;
        assert_eq!((story.rev(), world.problems()), (rev, problems));
        let done = resume(&story).unwrap();
        let foretold: Vec<String> = done.warnings.iter().map(|said| said.replace("; repaired ", "; would repair ")).collect();
        assert_eq!((predicted.checkpoint_id, predicted.warnings), (second.id, foretold));
    }

    fn a_file_cannot_change_what_happened(world: &World) {
        let (story, first, second) = with_files(world);
        let forged = fs::read_to_string(story.file_of(&second)).unwrap().replace("in_progress", "completed");
        damage_second(world, &story, &first, &second);
        fs::write(story.file_of(&second), forged).unwrap();
        assert_eq!(resume(&story).unwrap().checkpoint_id, first.id, "not sealed");
        // A caller that offers values past the files gets no further: the stored hashes decide.
        let mut document = story.whole(first.id);
        let mut values = document.state.take().unwrap().values;
        for value in &mut values {
            value.text = value.text.replace("Endpoint", "Forged");
            value.sha = sha256_hex(&value.text);
        }
        let mend = MendCheckpoint { checkpoint: second.id, record: None, values, file_system: None, file: None, quarantine: false };
        let before = story.state();
        assert!(!story.run("", &mend).unwrap().sound);
        assert!(story.state() == before);
        assert_eq!(story.run("ada", &mend).unwrap_err().code, Code::NotYours);
    }

    fn an_agent_that_resumes_is_served_by_files_too(world: &World) {
        let (story, first, second) = with_files(world);
        damage_second(world, &story, &first, &second);
        let folder = story.state_folder();
        let planned = story.with_fleet(|fleet| rehearse(fleet, &folder, &caller("ada"), &roll_forward(vec![])));
        assert_eq!(planned.done.unwrap().outcome.checkpoint_id, second.id);
        let done = story.with_fleet(|fleet| serve(fleet, &folder, &caller("ada"), &roll_forward(vec![])));
        assert_eq!(done.done.unwrap().outcome.checkpoint_id, second.id);
    }

    fn a_deleted_checkpoint_is_not_brought_back_by_its_file(world: &World) {
        let (story, first, second) = with_files(world);
        story.mark("", second.id, CheckpointMark::Delete).unwrap();
        assert!(story.file_of(&second).exists(), "as when a process dies before it removes it");
        assert_eq!(resume(&story).unwrap().checkpoint_id, first.id);
        let (shown, _) = story.serve(&ShowCheckpoint { checkpoint: second.id.to_string() });
        assert_eq!(shown.unwrap_err().code, Code::NotFound);
    }

    fn a_checkpoint_of_another_history_is_not_taken_in_and_the_way_is_told(world: &World) {
        let (story, _, second) = with_files(world);
        let sql = "UPDATE project SET history = 'another' WHERE id = {project}";
        assert_eq!(damage::raw(world, sql), 1);
        remove_record(world, &second);
        let done = resume(&story).unwrap();
        assert_ne!(done.checkpoint_id, second.id);
        let (shown, _) = story.serve(&ShowCheckpoint { checkpoint: second.id.to_string() });
        let refused = shown.unwrap_err();
        assert!(refused.code == Code::NotFound && refused.hint.as_ref().unwrap().contains("`fleet doctor --rebuild`"), "{refused:?}");
    }

    fn a_store_that_has_lost_everything_says_how_to_build_it_from_files(world: &World) {
        let (story, ..) = with_files(world);
        for table in ["event", "subject", "backup"] {
            damage::raw(world, &format!("DELETE FROM {table} WHERE project = {{project}}"));
        }
        let refused = resume(&story).unwrap_err();
        assert_eq!(refused.code, Code::NotFound);
        assert!(refused.hint.unwrap().contains("`fleet doctor --rebuild` builds one from 3 checkpoint files"));
    }

    fn a_rewind_mends_what_it_is_about_to_write_over(world: &World) {
        let (story, first, second) = with_files(world);
        // Only the last value is sound, and going back replaces it.
        damage::journal(world, Kind::Sortie, &story.sortie_id("Docs"), second.rev);
        let before = story.state();
        let done = story.force_rewind(first.id);
        assert!(done.warnings.len() == 1 && done.warnings[0].ends_with("; repaired"), "{:?}", done.warnings);
        story.undo().unwrap();
        let docs = story.sortie_id("Docs");
        let of = |values: Vec<StoredEvent>| values.into_iter().find(|value| value.id == docs).unwrap().text;
        assert_eq!(of(story.state()), of(before));
    }
}
