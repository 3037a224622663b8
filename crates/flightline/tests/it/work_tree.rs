//! What the work tree looked like is part of every checkpoint, and on resume what was said of files is
//! compared with it: on both engines, with real repositories.

mod claims;
mod copies;

use flightline::checkpoint::tree::RecordFiles;
use flightline::core::checkpoint::Backup;
use flightline::core::event::sha256_hex;
use flightline::core::file_system::{FileSystem, RecordedFiles, SeenFile};
use flightline_testkit::prelude::*;
use flightline_testkit::read_checkpoint;
use flightline_testkit::repository::{TestRepository, work_tree};

/// A repository with a mission in it, in which ada has changed a file.
fn working(world: &World) -> (Story<'_>, TestRepository) {
    let root = world.folder().join("repo");
    let repository = TestRepository::new(
        &root,
        &[
            ("src/model.rs", "model"),
            ("src/api.rs", "api"),
            ("README", "read"),
        ],
    );
    let story = Story::in_tree(world, repository.tree());
    story.mission("Add login", &["Model", "Endpoint", "Docs", "Tests"]);
    story.claim("ada", "Model").unwrap();
    story.lock("ada", &["src/api.rs"]).unwrap();
    repository.write("src/model.rs", "another model");
    report(&story, "src/model.rs", FileChange::Modified);
    (story, repository)
}

fn report(story: &Story<'_>, at: &str, change: FileChange) {
    let update = UpdateSortie {
        sortie: story.sortie_id("Model"),
        files: vec![file(at, change)],
        ..UpdateSortie::default()
    };
    story.run("ada", &update).unwrap();
}

/// Takes a checkpoint, and does what a command does before it ends.
fn checkpoint(story: &Story<'_>) -> CheckpointDocument {
    let taken = story.checkpoint();
    story.settle();
    shown(story, taken.id)
}

fn shown(story: &Story<'_>, id: CheckpointId) -> CheckpointDocument {
    let request = ShowCheckpoint {
        checkpoint: id.to_string(),
    };
    story.run("", &request).unwrap()
}

fn names(files: &[SeenFile]) -> Vec<&str> {
    files.iter().map(|file| file.path.as_str()).collect()
}

both_engines! {
    fn a_checkpoint_of_a_repository_holds_its_work_tree(world: &World) {
        let (story, repository) = working(world);
        repository.write("new.rs", "new");
        repository.remove("README");
        let taken = checkpoint(&story);
        let seen = taken.file_system.clone().unwrap();
        assert_eq!(names(&seen.modified_files), ["src/model.rs"]);
        assert_eq!(seen.modified_files[0].checksum.as_deref(), Some(&*sha256_hex("another model")));
        assert_eq!(names(&seen.created_files), ["new.rs"]);
        assert_eq!(seen.deleted_files, [path("README")]);
        // Locked, and as it was committed.
        assert_eq!(names(&seen.named_files), ["src/api.rs"]);
        let git = seen.git_status.as_ref().unwrap();
        assert_eq!(git.commit_hash.as_ref().unwrap().as_str(), repository.git(&["rev-parse", "HEAD"]));
        assert_eq!((git.branch.as_ref().unwrap().as_str(), git.is_dirty), ("main", Some(true)));
        assert_eq!(seen.seen_at, Some(taken.timestamp));
        // The file has it too, with its hash, and everything verifies.
        let file = read_checkpoint(&story.file_of(&taken)).unwrap();
        assert_eq!(file.file_system, taken.file_system);
        let kept = file.state.unwrap().file_system.unwrap();
        assert_eq!(sha256_hex(&kept.text), kept.sha);
        let verdicts = story.run("", &verify_checkpoints()).unwrap();
        assert!(verdicts.iter().all(|verdict| verdict.sound), "{verdicts:?}");
        assert_eq!(world.problems(), Vec::<String>::new());
    }

    fn a_checkpoint_that_other_work_triggers_holds_it_as_well(world: &World) {
        let (story, _repository) = working(world);
        story.finish("ada", &["Endpoint"]);
        story.settle();
        let milestone = story.checkpoints().into_iter().find(|it| it.cut.reason == Reason::Milestone);
        let seen = shown(&story, milestone.unwrap().id).file_system.unwrap();
        assert_eq!(names(&seen.modified_files), ["src/model.rs"]);
    }

    fn that_somebody_looked_is_no_work_and_no_change(world: &World) {
        let (story, _repository) = working(world);
        let first = checkpoint(&story);
        // Nothing has changed: it is the same one, and nothing is looked at again.
        let rev = story.rev();
        assert_eq!(checkpoint(&story).id, first.id);
        assert_eq!(story.kinds_after(rev), Vec::<String>::new());
        let look = story.events_of("file_system_recorded").remove(0);
        assert_eq!((look.actor.as_str(), look.mission_id), ("flightline", None));
        assert!(look.is_bookkeeping());
    }

    fn the_first_look_counts_and_a_late_one_says_nothing(world: &World) {
        let (story, _repository) = working(world);
        let first = checkpoint(&story);
        let again = RecordFiles { checkpoint: first.id, file_system: FileSystem::default() };
        assert!(story.run("", &again).unwrap().is_some());
        assert_eq!(shown(&story, first.id).file_system, first.file_system);
        // A command that died between the two: the next command sees another work tree.
        story.report("ada", "Model", "half");
        let late = story.checkpoint();
        story.pass_minutes(2);
        story.settle();
        let late = shown(&story, late.id);
        assert_eq!(late.file_system, None);
        assert!(matches!(late.backup, Backup::Written { .. }));
        let request = RecordFiles { checkpoint: late.id, file_system: FileSystem::default() };
        assert_eq!(story.run("", &request).unwrap(), None);
    }

    fn without_a_repository_it_holds_the_files_that_are_named(world: &World) {
        let root = world.folder().join("plain");
        std::fs::create_dir(&root).unwrap();
        let story = Story::in_tree(world, work_tree(&root));
        story.mission("Add login", &["Model", "Endpoint"]);
        story.claim("ada", "Model").unwrap();
        report(&story, "model.rs", FileChange::Modified);
        // Named, and not there: that says nothing.
        let rev = story.rev();
        assert_eq!(checkpoint(&story).file_system, None);
        assert_eq!(story.kinds_after(rev), ["fleet_checkpointed", "checkpoint_created"]);
        std::fs::write(root.join("model.rs"), "model").unwrap();
        std::fs::write(root.join("other.rs"), "other").unwrap();
        report(&story, "model.rs", FileChange::Modified);
        let seen = checkpoint(&story).file_system.unwrap();
        assert_eq!(names(&seen.named_files), ["model.rs"]);
        assert_eq!(seen.git_status, None);
    }

    fn it_goes_with_its_checkpoint(world: &World) {
        let (story, _repository) = working(world);
        let taken = checkpoint(&story);
        let kept = |story: &Story<'_>| story.look(|tx| tx.find::<RecordedFiles>(flightline::store::Find::All)).len();
        assert_eq!(kept(&story), 1);
        story.mark("", taken.id, CheckpointMark::Delete).unwrap();
        assert_eq!(kept(&story), 0);
        assert_eq!(story.look(|tx| tx.rows(Kind::FileSystem, flightline::store::Find::All)).len(), 0);
        assert_eq!(world.problems(), Vec::<String>::new());
    }
}
