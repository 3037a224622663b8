//! A store with something broken in it, byte by byte and column by column: `fleet` says so, or uses the
//! other copy or the checkpoint before and says that; it never panics, never takes a wrong state for the
//! right one, and one mission's damage leaves the others alone.

mod cells;
mod files;
mod rows;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use flightline_testkit::Engine;
use serde_json::{Map, Value, json};

use crate::crash::beside;
use crate::crash::world::{Answer, World};

/// Two missions with work under way and three checkpoints each, and all that is true of them.
struct Sound {
    world: World,
    login: Mission,
    search: Mission,
}

/// What is true of a mission.
struct Mission {
    id: String,
    sorties: Value,
    checkpoints: Vec<Checkpoint>,
}

/// What is true of a checkpoint.
struct Checkpoint {
    id: String,
    shown: Value,
}

/// Made once, and copied for each damage.
fn sound() -> &'static Sound {
    static SOUND: OnceLock<Sound> = OnceLock::new();
    SOUND.get_or_init(|| {
        let world = World::timeless(Engine::Sqlite);
        let login = build(&world, "Login", "ada");
        let search = build(&world, "Search", "bob");
        // Nothing but the database: the copies need no log.
        world.sqlite("PRAGMA wal_checkpoint(TRUNCATE)");
        Sound {
            world,
            login,
            search,
        }
    })
}

fn build(world: &World, title: &str, agent: &str) -> Mission {
    let mut create = vec!["mission", "create", title];
    for sortie in ["Model", "Endpoint", "Docs", "Tests", "Deploy"] {
        create.extend(["--sortie", sortie]);
    }
    world.run(&create).works();
    let missions = world.ask(&["missions", "list"]);
    let mut missions = missions.as_array().unwrap().iter();
    let id = missions.find(|mission| mission["title"] == title).unwrap()["id"]
        .as_str()
        .unwrap();
    let by = |words: &[&str]| {
        world
            .run(&[words, &["--mission", id]].concat())
            .by(agent)
            .json()
    };
    let claimed = by(&["sorties", "claim", "--next"]);
    by(&["locks", "acquire", &format!("src/{title}.rs")]);
    by(&["mail", "send", "--to", agent, "--subject", "Remember"]);
    by(&["checkpoint", "--note", "the first"]);
    by(&[
        "sorties",
        "complete",
        claimed["sortie"]["id"].as_str().unwrap(),
    ]);
    by(&["note", "lesson", "measure first"]);
    by(&["checkpoint", "--note", "the second"]);
    by(&["sorties", "claim", "--next"]);
    by(&["checkpoint", "--note", "the third"]);
    by(&["note", "lesson", "and then cut"]);
    let list = by(&["checkpoints", "list"]);
    let mut checkpoints: Vec<Checkpoint> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let id = one["id"].as_str().unwrap().to_owned();
            let shown = essence(&world.ask(&["checkpoints", "show", &id]));
            Checkpoint { id, shown }
        })
        .collect();
    checkpoints.reverse();
    assert_eq!(checkpoints.len(), 3);
    Mission {
        id: id.to_owned(),
        sorties: sorties(&by(&["sorties", "list"])),
        checkpoints,
    }
}

/// What a checkpoint holds, without what is noted about it.
fn essence(shown: &Value) -> Value {
    let mut essence = Map::new();
    for field in [
        "id",
        "mission_id",
        "rev",
        "timestamp",
        "trigger",
        "progress_percent",
        "sorties",
        "active_locks",
        "pending_messages",
        "recovery_context",
        "created_by",
        "version",
    ] {
        essence.insert(field.to_owned(), shown[field].clone());
    }
    Value::Object(essence)
}

/// Where each sortie stands.
fn sorties(list: &Value) -> Value {
    let list = list.as_array().unwrap().iter();
    list.map(|one| json!([one["id"], one["title"], one["status"], one["assigned_to"]]))
        .collect()
}

/// How much of the world a damage may spoil.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// One mission.
    Mission,
    /// What one mission is listed by: lists read no documents, and it is the doctor who compares.
    Listing,
    /// What anything is found by: a list lacks it, or has it twice and says so, until the doctor compares.
    Key,
    /// What all missions share.
    Fleet,
}

/// What the doctor has to say about a damage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doctor {
    Finds,
    /// It is no part of the state.
    MayNotCare,
}

/// How closely a mission is looked at: to ask everything of each takes long.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Quick,
    Closely,
}

struct Damage {
    name: String,
    reach: Reach,
    doctor: Doctor,
}

/// A damage, and how it is done.
type Case = (Damage, Box<dyn Fn(&World)>);

/// A copy of the sound world.
fn copy() -> World {
    let world = World::timeless_bare(Engine::Sqlite);
    beside::copy_folder(&sound().world.state(), &world.state());
    world.trust();
    world
}

/// A command that may say that something is damaged, and does nothing worse.
fn bears(world: &World, damage: &str, words: &[&str]) -> Answer {
    let answer = world.run(words).in_json().ends();
    let said = format!("{damage}: {}: {answer}", words.join(" "));
    let thinned = answer.code() == Some(4) && answer.out.contains("\"history_thinned\"");
    assert!(
        matches!(answer.code(), Some(0 | 3 | 5 | 6)) || thinned,
        "{said}"
    );
    assert!(!answer.err.contains("panicked"), "{said}");
    answer
}

fn answer(of: &Answer) -> Option<Value> {
    (of.code() == Some(0)).then(|| serde_json::from_str(&of.out).unwrap())
}

/// Asks a damaged world for everything about a mission: what it answers is true.
fn is_true_or_refused(world: &World, damage: &Damage, mission: &Mission, look: Look) {
    let (damage, lists_are_true) = (
        &*damage.name,
        !matches!(damage.reach, Reach::Listing | Reach::Key),
    );
    let ask = |words: &[&str]| {
        bears(
            world,
            damage,
            &[words, &["--mission", &mission.id]].concat(),
        )
    };
    let is_as_it_was = |what: &str| {
        if let Some(list) = answer(&ask(&["sorties", "list"])).filter(|_| lists_are_true) {
            assert_eq!(sorties(&list), mission.sorties, "{damage}: {what}");
        }
    };
    if look == Look::Closely {
        ask(&["status"]);
        ask(&["checkpoints", "list"]);
        ask(&["checkpoints", "verify"]);
    }
    is_as_it_was("at first");
    for checkpoint in &mission.checkpoints[1..] {
        if let Some(shown) = answer(&bears(
            world,
            damage,
            &["checkpoints", "show", &checkpoint.id],
        )) {
            assert_eq!(essence(&shown), checkpoint.shown, "{damage}");
        }
    }
    let newest = &mission.checkpoints.last().unwrap().id;
    if let Some(plan) = answer(&ask(&["resume", "--dry-run"])) {
        let passed_over = plan["checkpoint_id"] != **newest;
        let warnings = plan["warnings"].as_array().unwrap();
        assert!(
            !passed_over || !warnings.is_empty(),
            "{damage}: passed over in silence"
        );
    }
    ask(&["resume", "-y"]);
    is_as_it_was("after a resume");
    let first = &mission.checkpoints[0];
    let back = bears(
        world,
        damage,
        &["resume", "--checkpoint", &first.id, "--force", "-y"],
    );
    match (back.code(), answer(&ask(&["sorties", "list"]))) {
        _ if !lists_are_true => {}
        (Some(0), Some(list)) => {
            let then = first.shown["sorties"].as_array().unwrap().iter();
            let then: Value = then
                .map(|one| json!([one["id"], one["title"], one["status"], one["assigned_to"]]))
                .collect();
            assert_eq!(sorties(&list), then, "{damage}: after a rewind");
        }
        (_, Some(list)) => assert_eq!(sorties(&list), mission.sorties, "{damage}: half a rewind"),
        (_, None) => {}
    }
}

/// A mission that nothing happened to works as ever.
fn is_untouched(world: &World, damage: &str, mission: &Mission, look: Look) {
    let ask = |words: &[&str]| {
        let words = [words, &["--mission", &mission.id]].concat();
        let answer = world.run(&words).in_json().ends();
        assert_eq!(
            answer.code(),
            Some(0),
            "{damage}: {}: {answer}",
            words.join(" ")
        );
        serde_json::from_str::<Value>(&answer.out).unwrap()
    };
    assert_eq!(
        sorties(&ask(&["sorties", "list"])),
        mission.sorties,
        "{damage}"
    );
    let plan = ask(&["resume", "--dry-run"]);
    assert_eq!(
        plan["checkpoint_id"],
        *mission.checkpoints.last().unwrap().id,
        "{damage}"
    );
    assert_eq!(plan["warnings"], json!([]), "{damage}");
    if look == Look::Quick {
        return;
    }
    ask(&["checkpoints", "verify"]);
    ask(&["resume", "-y"]);
    ask(&["checkpoint", "--note", "still here"]);
    let first = &mission.checkpoints[0];
    ask(&["resume", "--checkpoint", &first.id, "--force", "-y"]);
}

/// Does each damage to a copy of the sound world of its own, and looks what comes of it.
fn survive(damages: Vec<Case>) {
    let mut failed = Vec::new();
    for (place, (damage, act)) in damages.iter().enumerate() {
        let look = match place % 3 {
            0 => Look::Closely,
            _ => Look::Quick,
        };
        let came = catch_unwind(AssertUnwindSafe(|| survives(damage, act, look)));
        if came.is_err() {
            failed.push(&damage.name);
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {}: {failed:#?}",
        failed.len(),
        damages.len()
    );
}

fn survives(damage: &Damage, act: impl FnOnce(&World), look: Look) {
    let world = copy();
    act(&world);
    let name = &damage.name;
    let looked = bears(&world, name, &["doctor"]);
    if damage.doctor == Doctor::Finds {
        assert_ne!(looked.code(), Some(0), "{name}: the doctor finds nothing");
    }
    match damage.reach {
        Reach::Mission | Reach::Listing => is_untouched(&world, name, &sound().search, look),
        Reach::Key | Reach::Fleet => is_true_or_refused(&world, damage, &sound().search, look),
    }
    is_true_or_refused(&world, damage, &sound().login, look);
    bears(&world, name, &["doctor", "--fix"]);
}
