//! A fleet in the middle of its work, with something in every state, for tests that need one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::cli::world::{Snapshot, World};

/// What was set up, and what the things in it are called.
pub struct Stage {
    snapshot: Snapshot,
    names: BTreeMap<String, String>,
}

static STAGE: LazyLock<Stage> = LazyLock::new(Stage::set);

/// A world with the stage set.
pub fn world() -> World {
    STAGE.snapshot.world()
}

/// `line` with `{Title}` replaced by the id of the mission, sortie or message that is called so.
pub fn named(line: &str) -> String {
    let mut line = line.to_owned();
    for (name, id) in &STAGE.names {
        line = line.replace(&format!("{{{name}}}"), id);
    }
    assert!(!line.contains('{'), "an unknown name in {line}");
    line
}

impl Stage {
    fn set() -> Self {
        let world = World::new();
        world.write("README.md", "# Read me\n");
        world.write(
            "secondary.json",
            include_str!("../../../../flightline-core/tests/it/dialects/data/epic_first.json"),
        );
        let mut names = BTreeMap::new();
        for line in [
            "agents register lead --role dispatch",
            "missions create Later --sortie \"Some day\"",
            "missions create Quick --sortie Only",
            "sorties claim --next --agent idle",
            "missions create \"Add login\" --dispatch lead --sortie Model --sortie Login --sortie Given \
             --sortie Stuck --sortie Done",
        ] {
            world.ok(line);
        }
        for mission in world.json("missions list").as_array().unwrap() {
            let id = mission["id"].as_str().unwrap();
            names.insert(mission["title"].as_str().unwrap().to_owned(), id.to_owned());
            for sortie in world
                .json(&format!("sorties list --mission {id}"))
                .as_array()
                .unwrap()
            {
                let title = sortie["title"].as_str().unwrap().to_owned();
                names.insert(title, sortie["id"].as_str().unwrap().to_owned());
            }
        }
        for line in [
            "sorties complete {Only} --agent idle",
            "sorties claim {Model} --agent ada",
            "sorties claim {Stuck} --agent ada",
            "sorties block {Stuck} --reason \"waits for the schema\" --agent ada",
            "sorties claim {Done} --agent bob",
            "sorties complete {Done} --agent bob",
            "sorties assign {Given} --to bob",
            "locks acquire src/a.rs --purpose \"new model\" --sortie {Model} --agent ada",
            "effect begin deploy --what \"to staging\" --agent ada",
            "note lesson \"Read the manual\"",
            "agents register old",
            "agents retire old",
            "missions use {Add login}",
            "backup copy.db",
            "token create desk",
        ] {
            let mut line = line.to_owned();
            for (name, id) in &names {
                line = line.replace(&format!("{{{name}}}"), id);
            }
            let said = world.ok(&line).stdout;
            if let Some(noted) = said.strip_prefix("Noted lesson ") {
                let id = noted.split(':').next().unwrap_or_default();
                names.insert("Lesson".to_owned(), id.to_owned());
            }
        }
        let hello = world.json("mail send --to ada --subject Hello --agent bob");
        names.insert(
            "Hello".to_owned(),
            hello["message"]["id"].as_str().unwrap().to_owned(),
        );
        let quick = &names["Quick"];
        world.ok(&format!(
            "resume --checkpoint @latest --mission {quick} --force -y"
        ));
        let file = format!("checkpoints/{quick}/latest.json");
        std::fs::copy(world.state().join(file), world.repo().join("chk.json")).unwrap();
        Self {
            snapshot: world.snapshot(),
            names,
        }
    }
}
