//! Checkpoints leave in files and come back, on both engines: to the store they were taken in, and to others.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use flightline::checkpoint::export::{self, Replacing};
use flightline::checkpoint::files::BackedUpState;
use flightline::checkpoint::import::{ImportArrival, ImportCheckpoint, ImportedCheckpoint};
use flightline::checkpoint::inspect::VerifyCheckpoint;
use flightline::core::event::sha256_hex;
use flightline_testkit::named;
use flightline_testkit::prelude::*;

/// A mission with a checkpoint in the middle of its work, and more work since.
fn working(world: &World) -> (Story<'_>, CheckpointDocument) {
    let story = at_model(world);
    story.lock("ada", &["src/model.rs"]).unwrap();
    story.send("ada", &["ada"], "Have a look").unwrap();
    let taken = story.checkpoint();
    story.pass_minutes(1);
    story.finish("ada", &["Docs"]);
    let blocked = SortieAction::Block {
        reason: note("no token"),
    };
    story.change("ada", "Model", blocked).unwrap();
    story.pass_minutes(1);
    (story, taken)
}

/// What a checkpoint says, but for what became of it since.
fn said(document: &CheckpointDocument) -> serde_json::Value {
    let mut value = serde_json::to_value(document).unwrap();
    let fields = value.as_object_mut().unwrap();
    for marks in [
        "status", "pinned", "backup", "state", "rev", "note", "warnings",
    ] {
        fields.remove(marks);
    }
    value
}

/// Out to a file and in again, as a person does it.
fn import(story: &Story<'_>, document: &CheckpointDocument) -> Result<ImportedCheckpoint, Refusal> {
    let text = export::text(document).unwrap();
    let document = export::from_text(&format!("{text}\n"), "there")?;
    story.run("", &ImportCheckpoint { document })
}

fn listed(story: &Story<'_>, archived: bool) -> Vec<(CheckpointId, CheckpointStatus)> {
    let list = ListCheckpoints {
        mission: None,
        archived,
        limit: 100,
    };
    let list = story.run("", &list).unwrap();
    list.checkpoints
        .iter()
        .map(|one| (one.id, one.status))
        .collect()
}

fn is_sound(story: &Story<'_>, id: CheckpointId) -> bool {
    let verdict = story.run("", &VerifyCheckpoint { checkpoint: id });
    verdict.unwrap().sound
}

/// A copy of the fleet in another store, as of now: what a backup carries to another machine.
fn elsewhere<'w>(story: &Story<'_>, other: &'w World) -> Story<'w> {
    let (file, before) = (
        other.folder().join("copy.db"),
        other.folder().join("before.db"),
    );
    story
        .with_fleet(|fleet| flightline::backup::back_up(fleet, &file))
        .unwrap();
    let there = Story::new(other);
    there
        .with_fleet(|fleet| flightline::backup::restore(fleet, &named(&file), &before, &caller("")))
        .unwrap();
    there
}

/// A forged file, with all its hashes right.
fn forged(
    document: &CheckpointDocument,
    change: impl FnOnce(&mut BackedUpState),
) -> CheckpointDocument {
    let mut document = document.clone();
    let state = document.state.as_mut().unwrap();
    change(state);
    for value in &mut state.values {
        value.sha = sha256_hex(&value.text);
    }
    let lines = state
        .values
        .iter()
        .map(|value| flightline::core::checkpoint::DigestLine {
            kind: value.kind,
            id: value.id.clone(),
            rev: value.rev,
            sha: value.sha.clone(),
        });
    let digest = state.checkpoint.cut.digest;
    state.checkpoint.cut.sections = flightline::core::checkpoint::sections(lines.collect(), digest);
    state.checkpoint.sha256 = state.checkpoint.cut.sha256();
    document
}

both_engines! {
    fn an_exported_file_is_whole_private_and_never_written_over(world: &World) {
        let (story, taken) = working(world);
        let (document, file) = (story.whole(taken.id), world.folder().join("out.json"));
        let done = export::write(&document, &named(&file), Replacing::No).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!((done.id, done.bytes, done.sha256), (taken.id, text.len() as u64, sha256_hex(&text)));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(flightline_testkit::read_checkpoint(&file).unwrap().state, document.state, "as a checkpoint's own file");
        let again = export::write(&document, &named(&file), Replacing::No).unwrap_err();
        assert_eq!(again.code, Code::AlreadyExists);
        fs::write(&file, "mine").unwrap();
        assert!(export::write(&document, &named(&file), Replacing::No).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        export::write(&document, &named(&file), Replacing::Yes).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        let (link, target) = (world.folder().join("link.json"), world.folder().join("target.json"));
        symlink(&target, &link).unwrap();
        assert!(export::write(&document, &named(&link), Replacing::No).is_err());
        export::write(&document, &named(&link), Replacing::Yes).unwrap();
        assert!(!target.exists() && fs::symlink_metadata(&link).unwrap().is_file(), "a link is replaced, not followed");
        assert!(export::write(&document, &named(&world.folder().join("none/out.json")), Replacing::No).is_err());
        let left = fs::read_dir(world.folder()).unwrap().filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(".json.")).count();
        assert_eq!(left, 0, "nothing half written stays");
    }

    fn one_that_was_deleted_comes_back_to_its_place(world: &World) {
        let (story, taken) = working(world);
        let document = story.whole(taken.id);
        let newest = story.checkpoint_for("", Reason::Shutdown).unwrap().id;
        assert_eq!(import(&story, &document).unwrap().arrival, ImportArrival::There);
        story.mark("", taken.id, CheckpointMark::Delete).unwrap();
        let rev = story.rev();
        let done = import(&story, &document).unwrap();
        assert_eq!((done.arrival, done.checkpoint.pinned, done.agents), (ImportArrival::Returned, true, vec![]));
        assert_eq!(story.kinds_after(rev), ["checkpoint_imported"]);
        assert_eq!(story.whole(taken.id).state.unwrap().values, document.state.unwrap().values);
        let order: Vec<CheckpointId> = listed(&story, false).iter().map(|(id, _)| *id).collect();
        assert_eq!((order[0], order.last()), (newest, Some(&taken.id)), "in its place, not on top");
        assert!(is_sound(&story, taken.id) && story.damaged_values().is_empty());
        story.settle();
        assert!(flightline_testkit::read_checkpoint(&story.file_of(&taken)).is_ok(), "it has its file again");
        let rev = story.rev();
        assert_eq!((import(&story, &story.whole(taken.id)).unwrap().arrival, story.rev()), (ImportArrival::There, rev), "twice is once");
        world.pass(Duration::from_secs(86_400 * 20));
        let planned = story.run("", &PlanPrune::default()).unwrap();
        assert_eq!(planned.deleted, 0, "retention leaves it alone");
    }

    fn one_whose_values_are_thinned_away_comes_back_with_them(world: &World) {
        let (story, taken) = working(world);
        let (document, shown) = (story.whole(taken.id), said(&taken));
        story.mark("", taken.id, CheckpointMark::Delete).unwrap();
        story.pass_minutes(1);
        story.thin_all();
        let done = import(&story, &document).unwrap();
        assert_eq!((done.arrival, done.values), (ImportArrival::Copied, document.state.as_ref().unwrap().values.len() as u64));
        let found = story.run("", &ShowCheckpoint { checkpoint: taken.id.to_string() }).unwrap();
        assert_eq!((said(&found), found.rev, found.pinned), (shown, taken.rev, true));
        assert!(is_sound(&story, taken.id) && story.damaged_values().is_empty());
        let diff = story.run("", &DiffCheckpoints { a: taken.id.to_string(), b: None }).unwrap();
        assert!(diff.iter().any(|one| one.kind == Kind::Sortie && one.change == "changed"));
        story.pass_minutes(1);
        story.thin_all();
        assert!(is_sound(&story, taken.id));
        story.settle();
        assert!(flightline_testkit::read_checkpoint(&story.file_of(&taken)).is_ok());
        let before = story.as_text();
        story.force_rewind(taken.id);
        assert_eq!(story.stored_sortie("Docs").status.as_str(), "pending");
        assert!(story.stored_sortie("Model").blocked_reason.is_none());
        story.run("", &undo_rewind(Force::Yes)).unwrap();
        assert_eq!(story.as_text().replace("lock src/model.rs ada\n", ""), before.replace("lock src/model.rs ada\n", ""));
        assert!(story.damaged_values().is_empty());
        assert_eq!(import(&story, &document).unwrap().arrival, ImportArrival::There);
    }

    fn what_was_kept_for_it_goes_with_it(world: &World) {
        let (story, taken) = working(world);
        let document = story.whole(taken.id);
        story.mark("", taken.id, CheckpointMark::Delete).unwrap();
        story.pass_minutes(1);
        story.thin_all();
        import(&story, &document).unwrap();
        story.mark("", taken.id, CheckpointMark::Unpin).unwrap();
        story.mark("", taken.id, CheckpointMark::Delete).unwrap();
        story.pass_minutes(1);
        let size = |story: &Story<'_>| story.run("", &flightline::stats::ShowStats {}).unwrap().storage.kinds.into_iter().find(|one| one.kind == Kind::Import).unwrap();
        assert_eq!(size(&story).count, 0);
        story.thin_all();
        assert_eq!((size(&story).bytes, size(&story).journal.thinned), (0, 1));
        assert_eq!(import(&story, &document).unwrap().arrival, ImportArrival::Copied, "and comes again when it is asked for");
        assert!(story.damaged_values().is_empty());
    }

    fn one_of_another_store_comes_in_archived_and_can_be_gone_back_to(world: &World) {
        let (here, taken) = working(world);
        let other = World::new(world.engine);
        let there = elsewhere(&here, &other);
        there.claim("zoe", "Tests").unwrap();
        there.lock("zoe", &["tests"]).unwrap();
        let theirs = there.checkpoint();
        let document = there.whole(theirs.id);
        let (latest, before, rev) = (here.checkpoint().id, here.as_text(), here.rev());
        let done = import(&here, &document).unwrap();
        assert_eq!((done.arrival, done.agents.as_slice()), (ImportArrival::Foreign, ["zoe".to_owned()].as_slice()));
        assert_eq!(here.as_text().replace("agent zoe epoch 2 retired\n", ""), before, "nothing of the work has changed");
        assert!(here.rev() > rev);
        assert!(listed(&here, false).iter().all(|(id, _)| *id != theirs.id));
        assert!(listed(&here, true).contains(&(theirs.id, CheckpointStatus::Archived)));
        assert_eq!(here.run("", &ShowCheckpoint { checkpoint: "@latest".to_owned() }).unwrap().id, latest);
        let found = here.run("", &ShowCheckpoint { checkpoint: theirs.id.to_string() }).unwrap();
        assert_eq!(said(&found), said(&theirs));
        here.settle();
        assert!(!here.file_of(&theirs).exists(), "a store built from files must not begin with it");
        assert!(here.damaged_values().is_empty() && is_sound(&here, theirs.id));
        assert_eq!(import(&here, &document).unwrap().arrival, ImportArrival::There);
        assert_eq!(import(&there, &here.whole(theirs.id)).unwrap().arrival, ImportArrival::There, "it is the same wherever it is");
        let diff = here.run("", &DiffCheckpoints { a: taken.id.to_string(), b: Some(theirs.id.to_string()) }).unwrap();
        assert!(diff.iter().any(|one| one.kind == Kind::Sortie));
        assert_eq!(here.resume("", vec![]).unwrap().checkpoint_id, latest, "nobody gets it who did not ask for it");
        here.force_rewind(theirs.id);
        let tests = here.stored_sortie("Tests");
        assert_eq!((tests.status.as_str(), tests.assigned_to), ("pending", None), "an owner that is not here holds nothing");
        assert_eq!(here.stored_sortie("Docs").status.as_str(), "completed");
        assert!(here.damaged_values().is_empty(), "{:?}", here.damaged_values());
        world.pass(Duration::from_secs(86_400 * 400));
        let planned = here.run("", &PlanPrune::default()).unwrap();
        assert!(planned.details.iter().all(|one| one.id != theirs.id));
    }

    fn it_crosses_from_one_engine_to_the_other(world: &World) {
        use flightline_testkit::Engine::{Postgres, Sqlite};
        let (here, _) = working(world);
        let other = World::new(if world.engine == Sqlite { Postgres } else { Sqlite });
        let there = elsewhere(&here, &other);
        there.finish("bob", &["Tests"]);
        let theirs = there.checkpoint();
        assert_eq!(import(&here, &there.whole(theirs.id)).unwrap().arrival, ImportArrival::Foreign);
        assert_eq!(here.whole(theirs.id).state.unwrap().values, there.whole(theirs.id).state.unwrap().values);
    }

    fn a_name_that_is_taken_here_stays_with_who_has_it(world: &World) {
        let (here, _) = working(world);
        let other = World::new(world.engine);
        let there = elsewhere(&here, &other);
        // Ids differ from store to store, as they do on two machines.
        there.look(|tx| Ok((0..50).map(|_| tx.uuid()).collect::<Vec<_>>()));
        there.claim("zoe", "Tests").unwrap();
        let document = there.whole(there.checkpoint().id);
        here.register("zoe", flightline::core::agent::Role::Specialist);
        let done = import(&here, &document).unwrap();
        assert_eq!(done.agents.len(), 1);
        assert!(done.agents[0].starts_with("zoe-"), "{:?}", done.agents);
        assert!(here.agent("zoe").retired_at.is_none());
        assert!(here.damaged_values().is_empty());
    }

    fn what_belongs_to_a_mission_that_is_not_here_is_refused(world: &World) {
        let (story, taken) = working(world);
        let other = World::new(world.engine);
        let refusal = import(&Story::new(&other), &story.whole(taken.id)).unwrap_err();
        assert_eq!(refusal.code, Code::NotFound);
        assert!(refusal.message.ends_with("which this store does not know"), "{}", refusal.message);
        assert!(refusal.hint.unwrap().contains("`fleet doctor --rebuild`"));
    }

    fn a_newer_version_is_refused_as_such(world: &World) {
        let (story, taken) = working(world);
        let mut document = story.whole(taken.id);
        document.version = "2.0.0".to_owned();
        let refusal = import(&story, &document).unwrap_err();
        assert_eq!((refusal.code, refusal.message.as_str()), (Code::NewerStore, "there: the checkpoint has version 2.0.0, and this `fleet` reads versions 1.x"));
        document.version = "1.9.0".to_owned();
        assert!(import(&story, &document).is_ok());
        let newer = forged(&story.whole(taken.id), |state| state.checkpoint.cut.version = "3.0.0".to_owned());
        assert_eq!(import(&story, &newer).unwrap_err().code, Code::NewerStore);
    }

    fn another_checkpoint_under_the_same_id_is_refused(world: &World) {
        let (story, taken) = working(world);
        let document = forged(&story.whole(taken.id), |state| state.checkpoint.cut.created_by = "somebody else".to_owned());
        let rev = story.rev();
        assert_eq!((import(&story, &document).unwrap_err().code, story.rev()), (Code::AlreadyExists, rev));
    }

    fn what_does_not_fit_its_hashes_is_refused(world: &World) {
        let (story, taken) = working(world);
        let document = story.whole(taken.id);
        story.mark("", taken.id, CheckpointMark::Delete).unwrap();
        let rev = story.rev();
        let refused = |document: &CheckpointDocument| {
            let refusal = story.run("", &ImportCheckpoint { document: document.clone() }).unwrap_err();
            assert_eq!((refusal.code, story.rev()), (Code::Integrity, rev), "{}", refusal.message);
        };
        let damaged = |change: &dyn Fn(&mut BackedUpState)| {
            let mut document = document.clone();
            change(document.state.as_mut().unwrap());
            document
        };
        refused(&damaged(&|state| state.values[0].text.push(' ')));
        refused(&damaged(&|state| drop(state.values.pop())));
        refused(&damaged(&|state| state.values[0].rev += 1));
        refused(&damaged(&|state| state.checkpoint.cut.progress_percent += 1));
        refused(&CheckpointDocument { state: None, ..document.clone() });
        let text = export::text(&document).unwrap();
        for wrong in [format!("{text}\n\n"), text.replace("\"ada\"", "\"eve\""), String::new(), "{}".to_owned(), text[..text.len() / 2].to_owned()] {
            assert_eq!(export::from_text(&wrong, "there").unwrap_err().code, Code::Integrity);
        }
    }

    fn what_no_door_would_let_in_does_not_come_in_this_way(world: &World) {
        let (story, taken) = working(world);
        let document = story.whole(taken.id);
        story.mark("", taken.id, CheckpointMark::Delete).unwrap();
        let refused = |change: &dyn Fn(&mut BackedUpState)| {
            let refusal = import(&story, &forged(&document, change)).unwrap_err();
            assert_eq!(refusal.code, Code::Integrity, "{}", refusal.message);
            refusal.message
        };
        let edit = |from: &'static str, to: &'static str| move |state: &mut BackedUpState| {
            let value = state.values.iter_mut().find(|value| value.text.contains(from)).unwrap();
            value.text = value.text.replace(from, to);
        };
        assert!(refused(&edit("Endpoint", "ghp_abcdefghijklmnopqrstuvwxyz0123456789")).contains("a secret"));
        assert!(refused(&edit("Endpoint", "\\u001b[31m")).contains("control characters"));
        refused(&edit("\"status\":\"pending\"", "\"status\":\"asleep\""));
        refused(&|state| state.values[0].id.push('x'));
        refused(&|state| state.values[0].kind = Kind::Setting);
        let other = "msn-00000000-0000-4000-8000-00000000beef";
        let mission = document.mission_id.to_string();
        assert!(refused(&move |state: &mut BackedUpState| {
            let sortie = state.values.iter_mut().find(|value| value.kind == Kind::Sortie).unwrap();
            sortie.text = sortie.text.replace(&mission, other);
        }).contains("another mission"));
        assert!(story.checkpoints().iter().all(|one| one.id != taken.id) && story.damaged_values().is_empty());
    }

    fn a_checkpoint_that_is_damaged_here_is_made_whole_by_its_file(world: &World) {
        let (story, taken) = working(world);
        let document = story.whole(taken.id);
        damage::everywhere(world, Kind::Sortie, &story.sortie_id("Endpoint"), 0);
        assert!(!is_sound(&story, taken.id));
        assert_eq!(import(&story, &document).unwrap().arrival, ImportArrival::Copied);
        assert!(is_sound(&story, taken.id));
        damage::everywhere(world, Kind::Import, &taken.id.to_string(), 0);
        let verdict = story.run("", &VerifyCheckpoint { checkpoint: taken.id }).unwrap();
        assert!(verdict.problem.unwrap().contains("is damaged"));
        assert_eq!(import(&story, &document).unwrap().arrival, ImportArrival::Copied, "and again");
        assert!(is_sound(&story, taken.id));
    }
}
