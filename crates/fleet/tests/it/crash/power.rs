//! The power goes while commands write: a file system of our own loses everything that was not on the disk. What a command
//! said is done is there when it comes back, and the fleet is sound and still trusted.
//!
//! `FLEET_POWER_ROUNDS` says how often the power goes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use flightline_testkit::power::TestDisk;

use crate::crash::journal::texts;
use crate::crash::lost::Chance;
use crate::crash::world::World;

/// What a command makes, and where it is seen: the words of the command, the list to look at, and the field with the name.
type Deed = (
    &'static str,
    fn(&str) -> Vec<String>,
    &'static [&'static str],
    &'static str,
);

fn words(line: &str, name: &str) -> Vec<String> {
    line.split(' ')
        .map(|word| word.replace("NAME", name))
        .collect()
}

const DEEDS: [Deed; 9] = [
    (
        "note",
        |name| words("note lesson NAME", name),
        &["note", "list"],
        "/text",
    ),
    (
        "mission",
        |name| words("missions create NAME --sortie One --sortie Two", name),
        &["missions", "list", "--limit", "1000"],
        "/title",
    ),
    (
        "sortie",
        |name| words("sorties add NAME", name),
        &["sorties", "list"],
        "/title",
    ),
    (
        "lock",
        |name| words("locks acquire NAME --agent ada", name),
        &["locks", "list"],
        "/lock/file",
    ),
    (
        "mail",
        |name| words("mail send --to ada --subject NAME", name),
        &["mail", "inbox", "--of", "ada", "--all", "--limit", "1000"],
        "/message/subject",
    ),
    (
        "effect",
        |name| words("effect begin NAME --agent ada", name),
        &["effect", "list"],
        "/key",
    ),
    (
        "agent",
        |name| words("agents register NAME", name),
        &["agents", "list"],
        "/agent/name",
    ),
    (
        "token",
        |name| words("token create NAME", name),
        &["token", "list"],
        "/name",
    ),
    (
        "checkpoint",
        |name| words("checkpoint --note NAME", name),
        &["checkpoints", "list", "--limit", "1000"],
        "/note",
    ),
];

#[test]
fn what_a_command_acknowledged_survives_a_power_cut() {
    let Some(disk) = TestDisk::mount(64) else {
        return;
    };
    let world = World::at(&disk.path.join("repo"), None);
    world.begin();
    world.run(&["agents", "register", "ada"]).works();
    // Past the first cut, which comes at once: what `init` said is done is there, and trusted.
    let mission = texts(&world.ask(&["missions", "list"]), "/id").remove(0);
    let mut chance = Chance::new(7);
    // By kind: its names, and whether each was acknowledged.
    let mut told: BTreeMap<&str, Vec<(String, bool)>> = BTreeMap::new();
    let mut before = "";
    for round in 0..rounds() {
        let patience = match round {
            0 => Duration::ZERO,
            _ => Duration::from_micros(chance.below(400_000)),
        };
        let gone = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(patience);
                // The kernel lets an fsync that is under way succeed when it must not.
                gone.store(true, Ordering::SeqCst);
                disk.cut_power();
            });
            for turn in 0.. {
                if gone.load(Ordering::SeqCst) {
                    break;
                }
                let place = usize::try_from(chance.below(DEEDS.len() as u64)).unwrap();
                let (kind, words, ..) = DEEDS[place];
                // Of a state that has a checkpoint no other is taken.
                if (before, kind) == ("checkpoint", "checkpoint") {
                    continue;
                }
                before = kind;
                let name = format!("{kind}-{round}-{turn}");
                let line = words(&name);
                let line: Vec<&str> = line.iter().map(String::as_str).collect();
                let answer = world.run(&line).env("FLEET_MISSION", &mission).ends();
                let done = answer.code() == Some(0) && !gone.load(Ordering::SeqCst);
                assert!(!answer.err.contains("panicked"), "{name}: {answer}");
                assert!(
                    done || gone.load(Ordering::SeqCst),
                    "nothing fails before the power does: {name}: {answer}"
                );
                told.entry(kind).or_default().push((name, done));
            }
        });
        disk.come_back();
        let seen = world.run(&["doctor"]).ends();
        if seen.code() != Some(0) {
            world.run(&["doctor", "--fix"]).ends();
        }
        world.is_well();
        for (kind, _, list, field) in DEEDS {
            let words = [list, &["--mission", &mission]].concat();
            let there = names(&world.ask(&words), field);
            for (name, acknowledged) in told.get(kind).into_iter().flatten() {
                let count = there.iter().filter(|one| *one == name).count();
                assert!(
                    count == 1 || (count == 0 && !acknowledged),
                    "round {round}: {name}, acknowledged: {acknowledged}, is there {count} times"
                );
            }
        }
    }
    let all = told.values().flatten();
    let (acknowledged, open): (Vec<_>, Vec<_>) = all.partition(|(_, acknowledged)| *acknowledged);
    println!(
        "{} power cuts: {} acknowledged and there once, {} left open",
        rounds(),
        acknowledged.len(),
        open.len()
    );
    assert!(acknowledged.len() as u64 > rounds());
}

/// The names in a list; a thing without one has none.
fn names(list: &serde_json::Value, field: &str) -> Vec<String> {
    let items = list.as_array().unwrap().iter();
    let names = items.filter_map(|item| item.pointer(field)?.as_str());
    names.map(str::to_owned).collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "how much is tried is said from outside"
)]
fn rounds() -> u64 {
    let said = std::env::var("FLEET_POWER_ROUNDS").ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(8)
}
