//! Seed C's own shell functions, run against our mirror: they read our files, we read theirs, and both come to
//! the same verdicts.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests make, read and spoil files as anybody could"
)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const FUNCTIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/seed_c.sh");

const FIRST: &str = include_str!("../../flightline-core/tests/dialects/data/epic_first.json");

/// A repository under the preset `epic`, with the clock as it is: the functions ask it too.
struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self {
            folder: TempDir::new().unwrap(),
        };
        fs::create_dir(world.root()).unwrap();
        world.fleet("init --preset epic", "");
        world
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    fn sealed(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.root())
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.folder.path())
            .env("LC_ALL", "C.UTF-8")
            .env("USER", "tester");
        command
    }

    fn run(&self, line: &str, agent: &str) -> Output {
        let mut command = self.sealed(env!("CARGO_BIN_EXE_fleet"));
        command.args(line.split(' '));
        if !agent.is_empty() {
            command.env("FLEET_AGENT", agent);
        }
        command.output().unwrap()
    }

    fn fleet(&self, line: &str, agent: &str) -> String {
        let output = self.run(line, agent);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a line of shell with the seed's functions at hand.
    fn shell(&self, line: &str) -> String {
        let script = format!("source {FUNCTIONS}\n{line}");
        let output = self.sealed("bash").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root().join("agent_checkpoints").join(name)
    }

    fn read(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.file(name)).unwrap()).unwrap()
    }

    /// An agent wrote its file so many seconds ago, by its own hand.
    fn wrote(&self, agent: &str, seconds: u32) {
        let then = self.shell(&format!(
            "date -u -d '-{seconds} seconds' +%Y-%m-%dT%H:%M:%SZ"
        ));
        let mut document: Value = serde_json::from_str(FIRST).unwrap();
        document["agent_id"] = agent.into();
        document["last_checkpoint"] = then.trim().into();
        let file = agent.to_lowercase().replace('-', "_") + ".json";
        let text = serde_json::to_string_pretty(&document).unwrap();
        fs::write(self.file(&file), text).unwrap();
    }
}

#[test]
fn the_seeds_monitor_and_ours_come_to_the_same_verdicts() {
    let world = World::new();
    world.fleet("agents register Secondary-A", "");
    world.fleet("agents update --step Writing --stage S2.P2", "Secondary-A");
    // Half a minute from where a verdict changes, so that the time this test takes does not matter.
    world.wrote("Secondary-B", 45 * 60 + 30);
    world.wrote("Secondary-C", 75 * 60 + 30);
    let ours = world.run("agents monitor", "");
    assert_eq!(ours.status.code(), Some(5), "{ours:?}");
    let theirs = world.shell("check_stale_agents");
    assert_eq!(String::from_utf8(ours.stdout).unwrap(), theirs);
    assert!(
        theirs.contains("Secondary-A: ACTIVE (0 min ago)"),
        "{theirs}"
    );
    assert!(
        theirs.contains("Secondary-B: WARNING (45 min) - May be slow"),
        "{theirs}"
    );
    assert!(
        theirs.contains("Secondary-C: STALE (75 min) - Likely crashed"),
        "{theirs}"
    );
}

#[test]
fn what_the_seeds_update_writes_is_what_we_know() {
    let world = World::new();
    world.fleet("agents register Secondary-A --session abc123", "");
    world.fleet("agents update --step Reading --stage S2.P1", "Secondary-A");
    assert_eq!(world.shell("update_checkpoint"), "Checkpoint updated\n");
    let shown = world.fleet("agents show Secondary-A --json", "");
    let agent = &serde_json::from_str::<Value>(&shown).unwrap()["agent"];
    assert_eq!(agent["stage"], "S2.P2");
    assert_eq!(
        agent["current_step"],
        "Writing Acceptance Criteria in spec.md"
    );
    assert_eq!(agent["session_id"], "abc123", "the seed's function kept it");
    assert_eq!(agent["epoch"], 1);
    assert_eq!(
        world.shell("jq -r .stage agent_checkpoints/secondary_a.json"),
        "S2.P2\n"
    );
}

#[test]
fn the_seeds_backups_are_ours_too() {
    let world = World::new();
    world.fleet("agents register Secondary-A", "");
    world.fleet("agents update --step One", "Secondary-A");
    let before = world.read("secondary_a.json");
    world.shell("backup_checkpoint agent_checkpoints/secondary_a.json");
    fs::write(world.file("secondary_a.json"), "{ \"agent_id\": ").unwrap();
    let said = world.shell("restore_checkpoint agent_checkpoints/secondary_a.json");
    assert!(said.ends_with("Checkpoint restored\n"), "{said}");
    assert_eq!(world.read("secondary_a.json"), before);
    world.fleet("agents update --step Two", "Secondary-A");
    assert_eq!(world.read("secondary_a.json")["current_step"], "Two");
}
