//! Several nodes on one database, each with a state folder of its own: whose file a checkpoint's is.

use std::fs;
use std::path::Path;
use std::time::Duration;

use flightline::checkpoint::backups::{self, RecordBackups};
use flightline::checkpoint::files::name_of;
use flightline::checkpoint::inspect::Verification;
use flightline::core::checkpoint::Backup;
use flightline::doctor::{Care, examine_backups};
use flightline::store_job::CompareFiles;
use flightline_testkit::prelude::*;

fn verify(world: &World, folder: &Path) -> Verification {
    let mut fleet = world.fleet();
    let found = fleet.run(&verify_checkpoints(), &caller(""));
    let compare = CompareFiles {
        found: found.unwrap(),
    };
    let mut found = fleet.run_job(&compare, folder, &caller("")).unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn doctor(world: &World, folder: &Path) -> bool {
    let checks = examine_backups(&mut world.fleet(), folder, Care::Look).unwrap();
    checks.iter().all(|check| check.ok)
}

#[test]
fn each_node_answers_for_its_own_files() {
    let world = World::new(Engine::Postgres);
    let story = Story::new(&world);
    story.mission("Add login", &["Model"]);
    let taken = story.checkpoint();
    let folder = |name: &str| {
        let folder = world.folder().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    };
    let [a, b, c] = ["a", "b", "c"].map(folder);
    let file = |folder: &Path| folder.join(name_of(taken.mission_id, taken.id));
    backups::settle(&mut world.fleet(), &a, &caller("")).unwrap();
    // Another looked before that was recorded, and writes its own a little later.
    let pending = RecordBackups::of(taken.id, Backup::Pending);
    world.run("", &pending).unwrap();
    world.pass(Duration::from_secs(20));
    let pin = MarkCheckpoint {
        checkpoint: taken.id.to_string(),
        mark: CheckpointMark::Pin,
    };
    world.run("", &pin).unwrap();
    backups::settle(&mut world.fleet(), &b, &caller("")).unwrap();
    let text = |folder: &Path| fs::read_to_string(file(folder)).unwrap();
    assert_ne!(text(&a), text(&b), "they tell of different moments");
    for (node, has) in [(&a, true), (&b, true), (&c, false)] {
        assert_eq!(file(node).exists(), has);
        let verdict = verify(&world, node);
        assert!(verdict.sound, "{}: {verdict:?}", node.display());
        assert!(doctor(&world, node), "{}", node.display());
    }
    // What a node has is held to its own hashes, wherever it was written.
    fs::write(file(&a), text(&a).replace("Add login", "Add logout")).unwrap();
    fs::remove_file(file(&b)).unwrap();
    for (node, problem) in [
        (&a, "its file does not match its checksum"),
        (&b, "its file is missing"),
    ] {
        let verdict = verify(&world, node);
        assert_eq!(
            (verdict.sound, verdict.problem.as_deref()),
            (false, Some(problem))
        );
        assert!(!doctor(&world, node));
    }
}
