//! Dying while the doctor writes files anew, or builds a whole store from them: afterwards there is the old
//! one or the new one, never a part of it, and he can begin again.

use std::fs;

use flightline_testkit::Engine;
use serde_json::{Value, json};

use crate::crash::beside;
use crate::crash::world::{Answer, World};

pub const REBUILD: [&str; 3] = ["doctor", "--rebuild", "-y"];

#[test]
fn a_rebuild_that_dies_at_any_step_has_replaced_everything_or_nothing_on_sqlite() {
    rebuild_dies_everywhere(Engine::Sqlite, 9);
}

#[test]
fn a_rebuild_that_dies_at_any_step_has_replaced_everything_or_nothing_on_postgres() {
    rebuild_dies_everywhere(Engine::Postgres, 23);
}

#[test]
fn a_rebuild_of_a_lost_store_that_dies_at_any_step_leaves_none_or_a_whole_one() {
    let world = ready(Engine::Sqlite);
    let lose = |mark: &str| {
        fs::write(world.database(), mark).unwrap();
        fs::write(world.database().with_extension("db-wal"), mark).unwrap();
    };
    let whole = Sight::of(&world).work;
    lose("not a database");
    let last = steps_of(&world, &|| lose("not a database"));
    let (mut none, mut there) = (0, 0);
    for step in spread(last, 11) {
        lose("not a database");
        assert!(died(world.run(&REBUILD).dies_at(step).ends()), "{step}");
        let seen = world.run(&["missions", "list"]).in_json().ends();
        match seen.code() {
            Some(0) => {
                there += 1;
                let sight = Sight::of(&world);
                assert_eq!(sight.work, whole, "step {step}");
                sight.is_well(&world, &format!("step {step}"));
            }
            code => {
                none += 1;
                assert!(matches!(code, Some(3 | 6)), "step {step}: {seen}");
            }
        }
        died(world.run(&REBUILD).dies_at(step * 5 % last + 1).ends());
        world.run(&REBUILD).works();
        let sight = Sight::of(&world);
        assert_eq!(sight.work, whole, "step {step}");
        sight.is_well(&world, &format!("step {step}"));
    }
    assert!(none >= 5 && there >= 5, "{none}, {there}");
    nothing_is_left(&world);
}

#[test]
fn a_repair_of_files_that_dies_at_any_step_leaves_no_half_file_on_sqlite() {
    repair_dies_everywhere(Engine::Sqlite);
}

#[test]
fn a_repair_of_files_that_dies_at_any_step_leaves_no_half_file_on_postgres() {
    repair_dies_everywhere(Engine::Postgres);
}

/// Two missions with work under way, and a file of each.
pub fn ready(engine: Engine) -> World {
    let world = World::timeless(engine);
    for mission in ["Login", "Search"] {
        let create = [
            "mission", "create", mission, "--sortie", "Model", "--sortie", "Docs",
        ];
        let made = world.ask(&create);
        let id = made["id"]
            .as_str()
            .or(made["mission"]["id"].as_str())
            .unwrap();
        let next = ["sorties", "claim", "--next", "--mission", id];
        world.run(&next).by("ada").works();
        world.run(&["checkpoint", "--mission", id]).works();
    }
    world
}

/// What a rebuild changes, and what it keeps.
#[derive(Debug, PartialEq)]
pub struct Sight {
    /// The missions that had a file, and the sorties of the current one.
    pub work: Value,
    rev: u64,
    history: String,
}

impl Sight {
    pub fn of(world: &World) -> Self {
        let status = world.ask(&["status"]);
        let mut work = json!({});
        for mission in world.ask(&["missions", "list"]).as_array().unwrap() {
            // The first mission never had a checkpoint, and so no file.
            if mission["title"] != "First" {
                let title = mission["title"].as_str().unwrap();
                work[title] = json!([mission["id"], mission["status"], mission["progress"]]);
            }
        }
        let sorties = status["mission"]["sorties"].as_array().unwrap();
        let sortie =
            |one: &Value| json!([one["id"], one["title"], one["status"], one["assigned_to"]]);
        work["sorties"] = sorties.iter().map(sortie).collect();
        let list = world.ask(&["events", "list", "--limit", "0"]);
        Self {
            work,
            rev: list["cursor"]["rev"].as_u64().unwrap(),
            history: list["cursor"]["history"].as_str().unwrap().to_owned(),
        }
    }

    fn has_replaced(&self, before: &Self, when: &str) {
        assert_eq!(self.work, before.work, "{when}");
        assert_ne!(self.history, before.history, "{when}");
        assert!(
            self.rev > before.rev,
            "{when}: no revision is given out twice"
        );
    }

    /// The store is sound, and both missions can be resumed.
    pub fn is_well(&self, world: &World, when: &str) {
        world.is_well();
        beside::files_are_whole(world, when);
        for title in ["Login", "Search"] {
            let id = self.work[title][0].as_str().unwrap();
            let plan = world.ask(&["resume", "--dry-run", "--mission", id]);
            assert_eq!(plan["warnings"], json!([]), "{when}");
        }
    }
}

fn rebuild_dies_everywhere(engine: Engine, stride: u64) {
    let world = ready(engine);
    let last = steps_of(&world, &|| {});
    let mut replaced = 0;
    let mut before = move_on(&world);
    for step in spread(last, stride) {
        let when = format!("step {step} of {last}");
        assert!(died(world.run(&REBUILD).dies_at(step).ends()), "{when}");
        let mut after = Sight::of(&world);
        if after != before {
            after.has_replaced(&before, &when);
            replaced += 1;
        }
        after.is_well(&world, &when);
        if step % 2 == 0 {
            // Dies again in the repetition, somewhere else, and then does not.
            died(world.run(&REBUILD).dies_at(step * 5 % last + 1).ends());
            world.run(&REBUILD).works();
            after = Sight::of(&world);
            after.has_replaced(&before, &when);
            after.is_well(&world, &when);
        }
        if after != before {
            before = move_on(&world);
        }
    }
    assert!(replaced >= 3, "{replaced}");
    nothing_is_left(&world);
}

/// Does what a rebuild cannot bring back.
fn move_on(world: &World) -> Sight {
    world
        .run(&["note", "lesson", "after the last checkpoint"])
        .works();
    Sight::of(world)
}

/// At how many steps a rebuild can die.
pub fn steps_of(world: &World, lose: &dyn Fn()) -> u64 {
    let (mut dies, mut lives) = (1, 1_024);
    while lives - dies > 1 {
        lose();
        let middle = (dies + lives) / 2;
        match died(world.run(&REBUILD).dies_at(middle).ends()) {
            true => dies = middle,
            false => lives = middle,
        }
    }
    world.run(&REBUILD).works();
    dies
}

/// Every `stride`-th step, and the last ones all: there the new store is put in place and gets its files.
pub fn spread(last: u64, stride: u64) -> Vec<u64> {
    let all = last.saturating_sub(12);
    (1..=last)
        .filter(|step| *step > all || step % stride == 1)
        .collect()
}

/// What the dead had begun goes with the next rebuild.
fn nothing_is_left(world: &World) {
    world.run(&REBUILD).works();
    let mut left = beside::entries(&world.state());
    left.retain(|path| beside::name(path).starts_with(".rebuild"));
    assert!(left.is_empty(), "{left:?}");
}

fn repair_dies_everywhere(engine: Engine) {
    let world = ready(engine);
    let fix = ["doctor", "--fix"];
    let files = beside::files(&world);
    let mut deaths = 0;
    let stride = match engine {
        Engine::Sqlite => 1,
        Engine::Postgres => 3,
    };
    for step in (1..).step_by(stride) {
        fs::remove_file(&files[0]).unwrap();
        fs::write(&files[1], "{ half").unwrap();
        assert_eq!(world.run(&["doctor"]).ends().code(), Some(5));
        let first = died(world.run(&fix).dies_at(step).ends());
        for (file, damaged) in files.iter().zip([None, Some("{ half")]) {
            let sound = flightline_testkit::read_checkpoint(file).is_ok();
            let as_before = fs::read_to_string(file).ok().as_deref() == damaged;
            assert!(sound || as_before, "step {step}: {}", file.display());
        }
        if first {
            died(world.run(&fix).dies_at(step * 7 % 17 + 1).ends());
            world.run(&fix).works();
        }
        world.is_well();
        beside::files_are_whole(&world, &format!("step {step}"));
        if !first {
            break;
        }
        deaths += 1;
    }
    assert!(deaths >= 4, "{deaths} deaths");
    beside::what_the_dead_wrote_goes(&world);
}

/// Whether a command died. If not, it did what it was asked to.
pub fn died(answer: Answer) -> bool {
    assert!(answer.died() || answer.code() == Some(0), "{answer}");
    answer.died()
}
