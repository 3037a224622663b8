//! Mirrors of a command that dies: each file is the old document or the new one, and the next command brings
//! it up to date without taking our own text for somebody else's.

use std::fs;
use std::path::Path;

use flightline_testkit::Engine;
use serde_json::Value;

use crate::crash::world::World;

/// Where a preset's files are, and what makes one and then changes it.
struct Case {
    preset: &'static str,
    folder: &'static str,
    agent: &'static str,
    before: &'static [&'static str],
    /// The command in its n-th round.
    change: fn(u64) -> String,
    /// Where the change can be seen in the document.
    seen: &'static str,
}

const CASES: [Case; 2] = [
    Case {
        preset: "epic",
        folder: "agent_checkpoints",
        agent: "Secondary-A",
        before: &["agents register Secondary-A"],
        change: |n| format!("agents update --step step-{n}"),
        seen: "/current_step",
    },
    Case {
        preset: "sitebuilder",
        folder: "progress/checkpoints",
        agent: "riley",
        before: &[
            "mission create Site --sortie Convert",
            "sorties claim --next --agent riley",
        ],
        change: |n| format!("sorties update @mine --last step-{n}"),
        seen: "/context/last_processed",
    },
];

#[test]
fn a_mirror_is_the_old_document_or_the_new_one_on_sqlite() {
    CASES
        .iter()
        .for_each(|case| die_everywhere(Engine::Sqlite, case));
}

#[test]
fn a_mirror_is_the_old_document_or_the_new_one_on_postgres() {
    CASES
        .iter()
        .for_each(|case| die_everywhere(Engine::Postgres, case));
}

fn die_everywhere(engine: Engine, case: &Case) {
    let world = World::bare(engine);
    world.run(&["init", "--preset", case.preset]).works();
    for line in case.before {
        world.run(&words(line)).works();
    }
    let mine = match case.preset {
        "sitebuilder" => world.ask(&["sorties", "list"])[0]["id"].clone(),
        _ => Value::Null,
    };
    let mine = mine.as_str().unwrap_or_default();
    let folder = world.repo().join(case.folder);
    let mut last = only(&folder);
    let mut died_in_mirror = 0;
    for round in 1..200 {
        let line = (case.change)(round).replace("@mine", mine);
        let words = words(&line);
        let answer = world.run(&words).by(case.agent).dies_at(round).ends();
        let killed = answer.died();
        assert!(killed || answer.code() == Some(0), "{answer}");
        let now = only(&folder);
        let wanted = Value::String(format!("step-{round}"));
        let is_new = now.pointer(case.seen) == Some(&wanted);
        assert!(is_new || now == last, "{line}, dead at {round}: {now}");
        died_in_mirror += u32::from(killed && is_new);
        // The next command, whatever it is, and nobody is said to have written there.
        let next = world.run(&words).by(case.agent).works();
        assert_eq!(next.err, "", "nobody else wrote there");
        last = only(&folder);
        assert_eq!(last.pointer(case.seen), Some(&wanted));
        if !killed {
            assert!(died_in_mirror > 1, "no step of the mirror was met");
            return;
        }
    }
    panic!("it never came through");
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// The one document in a folder.
fn only(folder: &Path) -> Value {
    let files = fs::read_dir(folder).unwrap().flatten();
    let mut files: Vec<_> = files
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "json"))
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    serde_json::from_str(&fs::read_to_string(files.remove(0)).unwrap()).unwrap()
}
