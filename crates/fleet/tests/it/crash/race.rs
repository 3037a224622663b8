//! Several processes at once want the same thing, and exactly one gets it.

use std::sync::Barrier;
use std::thread;

use flightline_testkit::Engine;
use serde_json::Value;

use crate::crash::journal::{self, texts};
use crate::crash::world::{Answer, World};

const RACERS: [&str; 4] = ["ada", "bob", "cleo", "dan"];

#[test]
fn a_sortie_has_one_winner_on_sqlite() {
    race_for_sorties(Engine::Sqlite, 75);
}

#[test]
fn a_sortie_has_one_winner_on_postgres() {
    race_for_sorties(Engine::Postgres, 20);
}

#[test]
fn a_path_has_one_holder_and_fences_grow_on_sqlite() {
    race_for_paths(Engine::Sqlite, 75);
}

#[test]
fn a_path_has_one_holder_and_fences_grow_on_postgres() {
    race_for_paths(Engine::Postgres, 20);
}

#[test]
fn thirty_two_processes_at_once_all_write_on_sqlite() {
    crowd(Engine::Sqlite);
}

#[test]
fn thirty_two_processes_at_once_all_write_on_postgres() {
    crowd(Engine::Postgres);
}

/// Half of the rounds for the one sortie that is ready, half for one by its id.
fn race_for_sorties(engine: Engine, rounds: usize) {
    let world = ready(engine);
    let mut won = [0; RACERS.len()];
    for round in 0..rounds {
        let added = world.ask(&["sorties", "add", &format!("Prize {round}")]);
        let id = added[0]["id"].as_str().unwrap();
        let winner = match round % 2 {
            0 => race(&world, |_| vec!["sorties", "claim", "--next"]),
            _ => race(&world, |_| vec!["sorties", "claim", id]),
        };
        let (place, view) = winner;
        assert_eq!(view["sortie"]["id"], id);
        assert_eq!(view["owner"], RACERS[place]);
        assert_eq!(view["sortie"]["attempts"], 1);
        won[place] += 1;
    }
    let owners = texts(&world.ask(&["sorties", "list"]), "/assigned_to");
    for (racer, won) in RACERS.iter().zip(won) {
        let owned = owners.iter().filter(|owner| owner == racer).count();
        assert_eq!(owned, won, "{racer}");
    }
    world.is_well();
    journal::all(&world);
}

/// Half of the rounds for the same path, half for a folder and a file in it.
fn race_for_paths(engine: Engine, rounds: usize) {
    let world = ready(engine);
    let mut last = 0;
    for round in 0..rounds {
        let (place, granted) = race(&world, |place| match (round + place) % 2 * (round % 2) {
            0 => vec!["locks", "acquire", "src/models"],
            _ => vec!["locks", "acquire", "src/models/user.rs"],
        });
        let fence = granted[0]["lock"]["fence"].as_u64().unwrap();
        assert!(fence > last, "fence {fence} comes after {last}");
        last = fence;
        assert_eq!(granted[0]["holder"], RACERS[place]);
        let held = world.ask(&["locks", "list"]);
        assert_eq!(texts(&held, "/holder"), [RACERS[place]]);
        let fence = fence.to_string();
        let path = granted[0]["lock"]["file"].as_str().unwrap();
        let release = ["locks", "release", path, "--fence", &fence];
        world.run(&release).by(RACERS[place]).works();
    }
    world.is_well();
    journal::all(&world);
}

fn crowd(engine: Engine) {
    const CROWD: usize = 32;
    let world = World::new(engine);
    let before = journal::all(&world).len();
    let name = |number| format!("one of many: {number}");
    let running: Vec<_> = (0..CROWD)
        .map(|number| world.run(&["note", "lesson", &name(number)]).starts())
        .collect();
    for one in running {
        let answer = one.ends();
        assert_eq!(answer.code(), Some(0), "{answer}");
    }
    let mut notes = texts(&world.ask(&["note", "list"]), "/text");
    notes.sort();
    let mut wanted: Vec<String> = (0..CROWD).map(name).collect();
    wanted.sort();
    assert_eq!(notes, wanted);
    assert_eq!(journal::all(&world).len(), before + CROWD);
    world.is_well();
}

fn ready(engine: Engine) -> World {
    let world = World::new(engine);
    for racer in RACERS {
        world.run(&["agents", "register", racer]).works();
    }
    world
}

/// Lets the racers run at once. Exactly one wins; the others are told so. Says who, and its answer.
fn race<'a>(world: &World, arguments: impl Fn(usize) -> Vec<&'a str> + Sync) -> (usize, Value) {
    let line = Barrier::new(RACERS.len());
    let answers: Vec<Answer> = thread::scope(|scope| {
        let run = |place: usize| {
            let run = world.run(&arguments(place)).by(RACERS[place]).in_json();
            line.wait();
            run.ends()
        };
        let racers: Vec<_> = (0..RACERS.len())
            .map(|place| scope.spawn(move || run(place)))
            .collect();
        racers
            .into_iter()
            .map(|racer| racer.join().unwrap())
            .collect()
    });
    let mut winner = None;
    for (place, answer) in answers.iter().enumerate() {
        match answer.code() {
            Some(0) => {
                assert!(winner.is_none(), "two winners: {answer}");
                winner = Some((place, serde_json::from_str(&answer.out).unwrap()));
            }
            code => assert_eq!(code, Some(4), "{answer}"),
        }
    }
    winner.expect("somebody wins")
}
