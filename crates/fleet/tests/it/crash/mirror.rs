//! An orchestrator's files, while commands die: each is the old or the new one, never half, and the next
//! command brings all of them up to date.

use std::fs;

use flightline::core::dialect::compress::unfolded;
use flightline::core::dialect::orchestrator::{self, read_index};
use flightline::core::dialect::{Dialect, DialectDocument};
use flightline_testkit::Engine;

use crate::crash::world::World;

/// Every file is whole and sound, and the index one that can be read. How many there are, and how many the
/// index lists.
fn look(world: &World, when: &str) -> (usize, usize) {
    let folder = world.state().join("orchestrator");
    let mut there = 0;
    for folder in [folder.clone(), folder.join("archive")] {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(!name.contains(".conflict"), "{when}: {name}");
            if orchestrator::is_document(name) {
                let text = unfolded(&fs::read(&path).unwrap(), name).unwrap();
                let document = DialectDocument::read(Dialect::Orchestrator, &text).unwrap();
                assert!(orchestrator::verify(&document).is_empty(), "{when}: {name}");
                assert!(name.starts_with(document.word("id")));
                there += 1;
            }
        }
    }
    let index = fs::read_to_string(folder.join("index.json"));
    let listed = index.map_or(0, |text| read_index(&text).unwrap().len());
    (there, listed)
}

fn die_everywhere(engine: Engine) {
    let world = World::timeless(engine);
    world
        .run(&["config", "set", "preset", "orchestrator"])
        .works();
    world.run(&["config", "set", "retention.keep", "1"]).works();
    world.run(&["config", "set", "retention.most", "3"]).works();
    let mut deaths = 0;
    for step in 1.. {
        let note = format!("round {step}");
        let answer = world
            .run(&["checkpoint", "--note", &note])
            .dies_at(step)
            .ends();
        let when = format!("after step {step}");
        look(&world, &when);
        world
            .run(&["mail", "send", "--to", "dispatch", "--subject", "Hello"])
            .works();
        let (there, listed) = look(&world, &when);
        let live = world.ask(&["checkpoints", "list", "--limit", "100"]);
        let live = live.as_array().unwrap().len();
        let all = world.ask(&["checkpoints", "list", "--archived", "--limit", "1000"]);
        let all = all.as_array().unwrap().len();
        assert_eq!((there, listed), (all, live), "{when}");
        if !answer.died() {
            assert_eq!(answer.code(), Some(0), "{answer}");
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 10, "{deaths} deaths");
    world.is_well();
}

#[test]
fn a_mirror_is_always_old_or_new_sqlite() {
    die_everywhere(Engine::Sqlite);
}

#[test]
fn a_mirror_is_always_old_or_new_postgres() {
    die_everywhere(Engine::Postgres);
}
