//! Dying while a fleet is made, copied or replaced.

use std::fs;
use std::path::{Path, PathBuf};

use flightline_testkit::{Engine, postgres_url};
use postgres::{Client, NoTls};
use serde_json::Value;
use tempfile::TempDir;

use crate::crash::journal::{self, texts};
use crate::crash::rebuild::died;
use crate::crash::world::World;

#[test]
fn init_that_dies_at_any_step_can_be_repeated_on_sqlite() {
    let deaths = init_dies_everywhere(|folder| World::at(&folder.join("repo"), None));
    assert!(deaths >= 12, "{deaths} deaths");
}

#[test]
fn init_takes_up_the_store_that_an_earlier_one_left_without_a_name() {
    let world = World::new(Engine::Sqlite);
    world.run(&["note", "lesson", "kept"]).works();
    fs::remove_file(world.state().join("config.toml")).unwrap();
    assert_eq!(world.run(&["note", "list"]).ends().code(), Some(3));
    world.run(&["init"]).works();
    assert_eq!(notes(&world), ["kept"]);
    assert_eq!(world.sqlite("SELECT count(*) FROM project"), "1");
}

#[test]
fn init_that_dies_at_any_step_can_be_repeated_on_postgres() {
    let schemas = Schemas::new();
    let deaths =
        init_dies_everywhere(|folder| World::at(&folder.join("repo"), Some(schemas.fresh())));
    assert!(deaths >= 8, "{deaths} deaths");
}

#[test]
fn a_backup_that_dies_at_any_step_leaves_a_whole_file_or_none_on_sqlite() {
    backup_dies_everywhere(Engine::Sqlite);
}

#[test]
fn a_backup_that_dies_at_any_step_leaves_a_whole_file_or_none_on_postgres() {
    backup_dies_everywhere(Engine::Postgres);
}

#[test]
fn a_restore_that_dies_at_any_step_has_replaced_everything_or_nothing_on_sqlite() {
    restore_dies_everywhere(Engine::Sqlite);
}

#[test]
fn a_restore_that_dies_at_any_step_has_replaced_everything_or_nothing_on_postgres() {
    restore_dies_everywhere(Engine::Postgres);
}

/// Dies at every step of `init`, each time in a new place. Says at how many.
fn init_dies_everywhere(place: impl Fn(&Path) -> World) -> u64 {
    for step in 1.. {
        let folder = TempDir::new().unwrap();
        let world = place(folder.path());
        let first = died(world.run(&["init"]).dies_at(step).ends());
        if first {
            // Nothing yet, which is said, or a sound fleet.
            let seen = world.run(&["doctor"]).ends();
            assert!(matches!(seen.code(), Some(0 | 3)), "step {step}: {seen}");
            let again = step * 5 % 7 + 1;
            died(world.run(&["init"]).dies_at(again).ends());
            world.run(&["init"]).works();
        }
        let named = fs::read_to_string(world.state().join("config.toml")).unwrap();
        world.is_well();
        assert_eq!(journal::newest(&world, 10), (0, vec![]), "step {step}");
        world.run(&["mission", "create", "First"]).works();
        assert_eq!(journal::since(&world, 0), ["mission_created"]);
        // Once more is harmless.
        world.run(&["init"]).works();
        let now = fs::read_to_string(world.state().join("config.toml")).unwrap();
        assert_eq!(now, named);
        assert_eq!(journal::newest(&world, 0).0, 1);
        world.is_well();
        if world.database().exists() {
            let projects = world.sqlite("SELECT count(*) FROM project");
            assert_eq!(projects, "1", "step {step}");
        }
        if !first {
            return step - 1;
        }
    }
    unreachable!("there is an end to the steps")
}

fn backup_dies_everywhere(engine: Engine) {
    let world = small(engine);
    let before = (notes(&world), journal::newest(&world, 20));
    let beside = TempDir::new().unwrap();
    let (mut absent, mut there) = (0, 0);
    for step in 1.. {
        let file = beside.path().join(format!("{step}.db"));
        let answer = world.run(&["backup", file.to_str().unwrap()]);
        let dead = died(answer.dies_at(step).ends());
        if file.exists() {
            there += 1;
            is_a_backup_of(&file, &before.0);
        } else {
            assert!(dead, "step {step}: acknowledged, and not there");
            absent += 1;
            world.run(&["backup", file.to_str().unwrap()]).works();
            assert!(file.exists());
        }
        assert_eq!((notes(&world), journal::newest(&world, 20)), before);
        if !dead {
            break;
        }
    }
    world.is_well();
    assert!(absent >= 10 && there >= 2, "{absent} absent, {there} there");
}

/// A file that has a backup's name is one: another fleet can be made from it.
fn is_a_backup_of(file: &Path, wanted: &[String]) {
    let other = World::new(Engine::Sqlite);
    let restore = ["restore", file.to_str().unwrap(), "-y"];
    other.run(&restore).works();
    assert_eq!(notes(&other), wanted);
    other.is_well();
}

fn restore_dies_everywhere(engine: Engine) {
    let world = small(engine);
    let backup = world.repo().join("saved.db");
    let file = backup.to_str().unwrap();
    let saved = notes(&world);
    world.run(&["backup", file]).works();
    let restore = || world.run(&["restore", file, "-y"]);
    let mut before = move_on(&world);
    let (mut deaths, mut replaced) = (0, 0);
    for step in 1.. {
        let dead = died(restore().dies_at(step).ends());
        world.is_well();
        let mut after = Sight::of(&world);
        if after == before {
            assert!(dead, "step {step}: acknowledged, and not done");
        } else {
            after.has_replaced(&before, &saved);
            replaced += 1;
        }
        if !dead {
            break;
        }
        deaths += 1;
        if step % 4 == 0 {
            // Dies again in the repetition, somewhere else.
            died(restore().dies_at(step * 5 % 31 + 1).ends());
            restore().works();
            after = Sight::of(&world);
            after.has_replaced(&before, &saved);
        }
        if after != before {
            before = move_on(&world);
        }
    }
    assert!(deaths >= 20 && replaced >= 2, "{deaths}, {replaced}");
    let locks = world.ask(&["locks", "list"]);
    assert_eq!(locks, Value::Array(vec![]), "no lock came back");
    // What was there before each replacement has been kept, whole.
    let kept = fs::read_dir(world.state().join("backups")).unwrap();
    let kept: Vec<PathBuf> = kept.map(|entry| entry.unwrap().path()).collect();
    let kept = kept.iter().filter(|path| path.extension().is_some());
    let undo = kept.max().unwrap().to_str().unwrap();
    world.run(&["restore", undo, "-y"]).works();
    assert!(notes(&world).contains(&LATER.to_owned()));
    world.is_well();
}

const LATER: &str = "added later";

/// Does what a restore will take back.
fn move_on(world: &World) -> Sight {
    world.run(&["note", "lesson", LATER]).works();
    world.run(&["locks", "acquire", "src"]).by("ada").works();
    Sight::of(world)
}

/// What a restore changes.
#[derive(Debug, PartialEq)]
struct Sight {
    notes: Vec<String>,
    rev: u64,
    history: Value,
}

impl Sight {
    fn of(world: &World) -> Self {
        let list = world.ask(&["events", "list", "--limit", "0"]);
        Self {
            notes: notes(world),
            rev: list["cursor"]["rev"].as_u64().unwrap(),
            history: list["cursor"]["history"].clone(),
        }
    }

    fn has_replaced(&self, before: &Self, saved: &[String]) {
        assert_eq!(self.notes, saved);
        assert_ne!(self.history, before.history);
        assert!(self.rev > before.rev, "no revision is given out twice");
    }
}

/// A world with little in it, so that a copy has few steps.
fn small(engine: Engine) -> World {
    let world = World::timeless(engine);
    world.run(&["note", "lesson", "kept"]).by("ada").works();
    world
}

fn notes(world: &World) -> Vec<String> {
    texts(&world.ask(&["note", "list"]), "/text")
}

/// Places on the PostgreSQL server where no store is yet. They go with this value.
struct Schemas {
    name: String,
    made: std::cell::Cell<u32>,
}

impl Schemas {
    fn new() -> Self {
        Self {
            name: format!("crash_{}", std::process::id()),
            made: std::cell::Cell::new(0),
        }
    }

    /// The address of a new one.
    fn fresh(&self) -> String {
        let number = self.made.get() + 1;
        self.made.set(number);
        let name = format!("{}_{number}", self.name);
        connect()
            .batch_execute(&format!("CREATE SCHEMA {name}"))
            .unwrap();
        let url = postgres_url();
        let separator = if url.contains('?') { '&' } else { '?' };
        format!("{url}{separator}options=-c%20search_path%3D{name}")
    }
}

impl Drop for Schemas {
    fn drop(&mut self) {
        for number in 1..=self.made.get() {
            let drop = format!("DROP SCHEMA IF EXISTS {}_{number} CASCADE", self.name);
            let _ = connect().batch_execute(&drop);
        }
    }
}

fn connect() -> Client {
    Client::connect(&postgres_url(), NoTls).unwrap()
}
