//! A store that is damaged in any way gives way to one built from sound checkpoint files, and is kept.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use flightline_testkit::Engine;
use serde_json::{Value, json};

use crate::crash::beside;
use crate::crash::rebuild::{REBUILD, Sight, died, ready, spread, steps_of};
use crate::crash::world::World;

/// Numbers that look random and are the same in every run.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count)
            .map(|_| u8::try_from(self.next() & 0xFF).unwrap())
            .collect()
    }
}

/// A way in which a store is lost. Whether its log was folded into it before.
const WAYS: [(&str, bool); 16] = [
    ("pages overwritten", true),
    ("pages overwritten", false),
    ("header destroyed", true),
    ("header destroyed", false),
    ("truncated", true),
    ("truncated", false),
    ("log damaged", false),
    ("zeros", false),
    ("not a database", false),
    ("another program's", true),
    ("schema damaged", true),
    ("newer", true),
    ("gone, its log left", false),
    ("bits flipped", true),
    ("an index dropped", true),
    ("a table dropped", true),
];

fn damage(world: &World, way: &str, chance: &mut Chance) {
    let database = world.database();
    let write = |bytes: &[u8], at: u64| {
        let file = OpenOptions::new().write(true).open(&database).unwrap();
        file.write_all_at(bytes, at).unwrap();
    };
    let length = fs::metadata(&database).unwrap().len();
    let pages = length / 8192;
    match way {
        "pages overwritten" => {
            for _ in 0..=chance.below(4) {
                let page = chance.below(pages);
                write(&chance.bytes(8192), page * 8192);
            }
        }
        "header destroyed" => write(&chance.bytes(100), 0),
        "truncated" => {
            let file = OpenOptions::new().write(true).open(&database).unwrap();
            file.set_len(chance.below(length)).unwrap();
        }
        "log damaged" => {
            let log = database.with_extension("db-wal");
            let length = fs::metadata(&log).unwrap().len();
            assert!(length > 0, "there is a log to damage");
            let file = OpenOptions::new().write(true).open(&log).unwrap();
            for _ in 0..=chance.below(6) {
                let at = chance.below(length);
                file.write_all_at(&chance.bytes(64), at).unwrap();
            }
        }
        "zeros" => {
            fs::remove_file(&database).unwrap();
            File::create(&database).unwrap().set_len(64 << 20).unwrap();
        }
        "not a database" => fs::write(&database, "Dear diary, ".repeat(900)).unwrap(),
        "another program's" => write(b"ELSE", 68),
        "schema damaged" => {
            let at = 100 + chance.below(8000);
            write(&chance.bytes(8192 - at), at);
        }
        "newer" => write(&[0, 0, 0, 99], 60),
        "gone, its log left" => fs::remove_file(&database).unwrap(),
        "bits flipped" => {
            for _ in 0..60 {
                let at = chance.below(length);
                write(&chance.bytes(1), at);
            }
        }
        "an index dropped" => {
            let name = world.sqlite(
                "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name LIMIT 1",
            );
            world.sqlite(&format!("DROP INDEX {name}"));
        }
        "a table dropped" => {
            world.sqlite("PRAGMA foreign_keys = OFF; DROP TABLE backup");
        }
        other => panic!("{other}"),
    }
}

/// All that the newest checkpoint files hold, and that a rebuild must bring back.
fn held(world: &World) -> Value {
    let mut work = Sight::of(world).work;
    // Each mission's own are below. Which of two is the current one is the newest file's word, and that file may be
    // missing after a death.
    work.as_object_mut().unwrap().remove("sorties");
    let mut held = json!({ "work": work });
    let missions = world.ask(&["missions", "list"]);
    for mission in missions.as_array().unwrap() {
        let id = mission["id"].as_str().unwrap();
        if mission["title"] == "First" {
            continue;
        }
        let texts = |list: Value, fields: &[&str]| -> Value {
            let one = |value: &Value| -> Value {
                fields.iter().map(|field| value[*field].clone()).collect()
            };
            list.as_array().unwrap().iter().map(one).collect()
        };
        held[id] = json!({
            "sorties": texts(
                world.ask(&["sorties", "list", "--mission", id]),
                &["id", "title", "status", "assigned_to"],
            ),
            "notes": texts(world.ask(&["note", "list", "--mission", id]), &["id", "kind", "text", "author"]),
        });
    }
    held
}

fn checkpoints(world: &World) -> Vec<String> {
    let files = beside::files(world);
    let mut ids: Vec<String> = files
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

/// Two missions whose newest files hold everything.
fn template(folded: bool) -> (World, Value) {
    let world = ready(Engine::Sqlite);
    for mission in ["Login", "Search"] {
        let missions = world.ask(&["missions", "list"]);
        let all = missions.as_array().unwrap();
        let of = all.iter().find(|one| one["title"] == mission).unwrap();
        let id = of["id"].as_str().unwrap();
        for number in 0..6 {
            let text = format!("{mission} {number}: {}", "as it was found out. ".repeat(40));
            world
                .run(&["note", "lesson", &text, "--mission", id])
                .by("ada")
                .works();
        }
        world.run(&["checkpoint", "--mission", id]).works();
    }
    let held = held(&world);
    if folded {
        world.sqlite("PRAGMA wal_checkpoint(TRUNCATE)");
    } else {
        world
            .run(&["locks", "acquire", "src/late.rs"])
            .by("ada")
            .works();
    }
    (world, held)
}

#[test]
fn however_a_store_is_damaged_its_checkpoint_files_bring_it_back() {
    let templates = [template(false), template(true)];
    let mut moved = 0;
    for seed in 0..64_u64 {
        let (way, folded) = WAYS[usize::try_from(seed).unwrap() % WAYS.len()];
        let (world, held_before) = &templates[usize::from(folded)];
        let spare = world.repo().with_extension("spare");
        if !spare.exists() {
            beside::copy_folder(&world.state(), &spare);
        }
        beside::copy_folder(&spare, &world.state());
        let when = format!("seed {seed}, {way}, log folded: {folded}");
        let ids = checkpoints(world);
        damage(world, way, &mut Chance(seed.wrapping_mul(7919)));
        // It is the user's own, however it came to be so.
        world.trust();
        // What it says while it cannot be used leads out, and not in a circle.
        let seen = world.run(&["doctor"]).ends();
        if matches!(seen.code(), Some(3 | 6)) {
            let count = ids.len();
            let way_out = format!(" from {count} sound checkpoint");
            let says = |what: &str| seen.err.contains(what);
            assert!(
                says("`fleet doctor --rebuild` brings back ") && says(&way_out),
                "{when}: {seen}"
            );
        }
        let done = world.run(&REBUILD).in_json().ends();
        assert_eq!(done.code(), Some(0), "{when}: {done}");
        let done: Value = serde_json::from_str(&done.out).unwrap();
        assert_eq!(done["skipped"], json!([]), "{when}");
        let back: Vec<&str> = done["checkpoints"]
            .as_array()
            .unwrap()
            .iter()
            .map(|id| id.as_str().unwrap())
            .collect();
        assert!(ids.iter().all(|id| back.contains(&id.as_str())), "{when}");
        for kept in done["set_aside"].as_array().unwrap() {
            let kept = Path::new(kept.as_str().unwrap());
            assert!(kept.exists(), "{when}: {}", kept.display());
            if kept.is_dir() {
                moved += 1;
                assert!(kept.join("flightline.db").exists(), "{when}");
            }
        }
        if way != "gone, its log left" {
            assert_ne!(
                done["set_aside"],
                json!([]),
                "{when}: the old store is kept"
            );
        }
        world.run(&["status"]).works();
        world.is_well();
        assert_eq!(held(world), *held_before, "{when}");
        beside::files_are_whole(world, &when);
        world.run(&["note", "lesson", "and it goes on"]).works();
    }
    assert!(moved >= 40, "{moved} could take nothing new");
}

#[test]
fn a_store_that_gives_way_can_die_at_any_step_and_is_completed() {
    let (world, held_before) = template(true);
    let spare = world.repo().with_extension("spare");
    beside::copy_folder(&world.state(), &spare);
    let lose = || {
        beside::copy_folder(&spare, &world.state());
        // Readable, so that what is in it is salvaged; and not intact, so that it gives way.
        damage(&world, "an index dropped", &mut Chance(1));
        world.trust();
    };
    lose();
    let last = steps_of(&world, &lose);
    let mut without = 0;
    let looked_at = spread(last, 13);
    for step in 1..=last {
        lose();
        let when = format!("step {step} of {last}");
        assert!(died(world.run(&REBUILD).dies_at(step).ends()), "{when}");
        if world.database().exists() && !looked_at.contains(&step) {
            continue;
        }
        if !world.database().exists() {
            without += 1;
            // Nobody makes an empty one in the meantime.
            let refused = world.run(&["init"]).ends();
            assert_eq!(refused.code(), Some(3), "{when}: {refused}");
            assert!(
                refused.err.contains("`fleet doctor --rebuild -y`"),
                "{refused}"
            );
        }
        died(world.run(&REBUILD).dies_at(step * 5 % 9 + 1).ends());
        world.run(&REBUILD).works();
        assert_eq!(held(&world), held_before, "{when}");
        world.is_well();
        beside::files_are_whole(&world, &when);
        let log = world.ask(&["agents", "show", "ada"]);
        let epoch = log["agent"]["epoch"]
            .as_u64()
            .or(log["epoch"].as_u64())
            .unwrap();
        assert!(
            epoch < 1_000,
            "{when}: what could be read was read: {epoch}"
        );
    }
    assert!(without >= 4, "{without}");
}

#[test]
fn a_healthy_store_never_suggests_to_rebuild_it() {
    let world = ready(Engine::Sqlite);
    for command in [
        &["status"][..],
        &["doctor"],
        &["missions", "list"],
        &["init"],
    ] {
        let seen = world.run(command).works();
        assert!(
            !format!("{seen}").contains("rebuild"),
            "{command:?}: {seen}"
        );
    }
}

#[test]
fn another_project_in_the_same_store_comes_along() {
    let (world, held_before) = template(true);
    let place = world.state().display().to_string();
    let other = World::at(&world.repo().with_extension("other"), Some(place));
    other.begin();
    other.run(&["note", "lesson", "of the neighbours"]).works();
    let notes = other.ask(&["note", "list"]);
    let list = other.ask(&["events", "list", "--limit", "0"]);
    damage(&world, "an index dropped", &mut Chance(1));
    let done = world.run(&REBUILD).json();
    assert!(!done["lost"].to_string().contains("the project"), "{done}");
    assert_eq!(held(&world), held_before);
    assert_eq!(other.ask(&["note", "list"]), notes);
    let after = other.ask(&["events", "list", "--limit", "0"]);
    assert_eq!(after["cursor"], list["cursor"], "its history goes on");
    other.is_well();
}
