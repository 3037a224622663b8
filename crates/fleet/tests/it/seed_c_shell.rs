//! Seed C's own shell functions, run against our mirror: they read our files, we read theirs, and both come to
//! the same verdicts.

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use flightline_testkit::test_bed::{TestBed, said};

const FUNCTIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/seed_c.sh");

const FIRST: &str = include_str!("../../../flightline-core/tests/it/dialects/data/epic_first.json");

/// A repository under the preset `epic`. Its clock is the machine's, which the functions ask too, or one that the test
/// moves.
struct World {
    place: TestBed,
    /// Seconds since 1970, where the test decides.
    now: Cell<Option<i64>>,
}

impl World {
    fn new() -> Self {
        Self::at(None)
    }

    fn at(now: Option<i64>) -> Self {
        let world = Self {
            place: TestBed::temporary(),
            now: Cell::new(now),
        };
        world.fleet("init --preset epic", "");
        world
    }

    fn sealed(&self, program: &str) -> Command {
        let mut command = self.place.sealed(program);
        command.env("LC_ALL", "C.UTF-8");
        if let Some(now) = self.now.get() {
            command.env("FLEET_TEST_NOW", written(now));
        }
        command
    }

    /// What the seed's own monitor says, by the clock of this world.
    fn their_monitor(&self) -> String {
        let now = self.now.get().unwrap();
        let clock =
            "date() { if [ \"$*\" = \"-u +%s\" ]; then echo $NOW; else command date \"$@\"; fi; }";
        self.shell(&format!("NOW={now}\n{clock}\ncheck_stale_agents"))
    }

    /// What ours says.
    fn our_monitor(&self) -> String {
        let ours = self.run("agents monitor", "");
        assert!(matches!(ours.status.code(), Some(0 | 5)), "{ours:?}");
        String::from_utf8(ours.stdout).unwrap()
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
        said(self.sealed("bash").args(["-c", &script]))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.repo().join("agent_checkpoints").join(name)
    }

    fn read(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.file(name)).unwrap()).unwrap()
    }

    /// An agent wrote its file so many seconds ago, by its own hand.
    fn wrote(&self, agent: &str, seconds: i64) {
        let then = match self.now.get() {
            Some(now) => written(now - seconds),
            None => self.shell(&format!(
                "date -u -d '-{seconds} seconds' +%Y-%m-%dT%H:%M:%SZ"
            )),
        };
        let mut document: Value = serde_json::from_str(FIRST).unwrap();
        document["agent_id"] = agent.into();
        document["last_checkpoint"] = then.trim().into();
        let file = agent.to_lowercase().replace('-', "_") + ".json";
        let text = serde_json::to_string_pretty(&document).unwrap();
        fs::create_dir_all(self.file("")).unwrap();
        fs::write(self.file(&file), text).unwrap();
    }

    fn conflicts(&self) -> Vec<String> {
        let files = fs::read_dir(self.file("")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(".conflict")).collect()
    }
}

/// Seconds since 1970 as the seed writes them.
fn written(seconds: i64) -> String {
    let time = flightline::core::Time::from_millis(seconds * 1_000);
    time.to_seconds()
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

/// Noon of a certain day.
const NOON: i64 = 1_767_528_000;

#[test]
fn files_of_every_age_are_judged_alike_however_late_they_are_seen() {
    let world = World::at(Some(NOON));
    for minutes in 0..=120 {
        world.wrote(&format!("Secondary-{minutes:03}"), minutes * 60);
    }
    let (ours, theirs) = (world.our_monitor(), world.their_monitor());
    assert_eq!(ours, theirs);
    assert_eq!(theirs.lines().count(), 121);
    for line in [
        "✅ Secondary-030: ACTIVE (30 min ago)",
        "⚠️ Secondary-031: WARNING (31 min) - May be slow",
        "⚠️ Secondary-060: WARNING (60 min) - May be slow",
        "❌ Secondary-061: STALE (61 min) - Likely crashed",
    ] {
        assert!(theirs.lines().any(|it| it == line), "{theirs}");
    }
    world.now.set(Some(NOON + 59));
    assert_eq!(world.our_monitor(), world.their_monitor());
}

#[test]
fn both_monitors_say_the_same_at_every_minute() {
    let world = World::at(Some(NOON));
    world.fleet("agents register Secondary-A", "");
    world.fleet("agents update --step Writing", "Secondary-A");
    // One wrote its file by hand a while before anybody looked.
    world.wrote("Secondary-B", 17 * 60 + 30);
    for minutes in 0..=120 {
        world.now.set(Some(NOON + minutes * 60));
        let (ours, theirs) = (world.our_monitor(), world.their_monitor());
        assert_eq!(ours, theirs, "after {minutes} minutes");
        assert_eq!(theirs.lines().count(), 2, "{theirs}");
    }
}

#[test]
fn a_clock_that_is_ahead_makes_nobody_look_alive_for_as_long() {
    let world = World::at(Some(NOON));
    world.wrote("Secondary-A", -24 * 3_600);
    assert_eq!(world.our_monitor(), "✅ Secondary-A: ACTIVE (0 min ago)\n");
    world.now.set(Some(NOON + 61 * 60));
    assert_eq!(
        world.our_monitor(),
        "❌ Secondary-A: STALE (61 min) - Likely crashed\n"
    );
    world.wrote("Secondary-A", 0);
    assert_eq!(world.our_monitor(), "✅ Secondary-A: ACTIVE (0 min ago)\n");
}

/// So many times an agent writes its file.
const WRITES: u64 = 500;
/// After so many of them it waits until two commands have looked.
const BETWEEN: u64 = 20;

/// The seed's `cat`, over and over: the file is empty while the dates are asked for, and then there is all of it.
const WRITER: &str = r#"
SESSION_ID=abc123
for STEP in $(seq 1 $WRITES); do
cat > agent_checkpoints/secondary_a.json <<EOF
{
  "agent_id": "Secondary-A",
  "agent_type": "secondary",
  "session_id": "$SESSION_ID",
  "feature": "feature_02_team_penalty",
  "stage": "S2.P2",
  "phase": "Specification - In Progress",
  "last_checkpoint": "$(date -u +"%Y-%m-%dT%H:%M:%SZ")",
  "next_checkpoint_expected": "$(date -u -d "+15 minutes" +"%Y-%m-%dT%H:%M:%SZ")",
  "status": "IN_PROGRESS",
  "can_resume": true,
  "blockers": [],
  "files_modified": ["feature_02_team_penalty/spec.md"],
  "recovery_instructions": "Go on with step $STEP.",
  "current_step": "Step $STEP",
  "completed_steps": ["S2.P1 complete"],
  "next_steps": ["Transition to S2.P3"],
  "coordination_state": {
    "last_inbox_check": "$(date -u +"%Y-%m-%dT%H:%M:%SZ")",
    "unread_messages": 0,
    "last_status_update": "$(date -u -d "-15 minutes" +"%Y-%m-%dT%H:%M:%SZ")"
  }
}
EOF
if [ $((STEP % BETWEEN)) = 0 ]; then
  LOOKED=$(stat -c %s looked)
  while [ $(stat -c %s looked) -lt $((LOOKED + 2)) ]; do sleep 0.01; done
fi
done
"#;

#[test]
fn what_an_agent_writes_beside_commands_is_waited_for_and_never_lost() {
    let world = World::new();
    fs::create_dir_all(world.file("")).unwrap();
    let mut looked = fs::File::create(world.place.repo().join("looked")).unwrap();
    let mut writer = world.sealed("bash");
    writer.env("WRITES", WRITES.to_string());
    writer.env("BETWEEN", BETWEEN.to_string());
    let mut writer = writer.args(["-c", WRITER]).spawn().unwrap();
    let commands = [
        ("agents list", ""),
        ("heartbeat", "Secondary-B"),
        ("agents update --step Beside", "Secondary-B"),
        ("heartbeat", "Secondary-A"),
    ];
    world.fleet("agents register Secondary-B", "");
    let (mut number, mut is_known) = (0, false);
    while writer.try_wait().unwrap().is_none() {
        let (line, agent) = commands[number % commands.len()];
        number += 1;
        let ran = world.run(line, agent);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        // The first ones may come before the agent has written its file.
        let may_fail = agent == "Secondary-A" && !is_known;
        assert!(ran.status.success() || may_fail, "{line}: {ran:?}");
        is_known |= agent == "Secondary-A" && ran.status.success();
        assert!(!said.contains(".conflict"), "{said}");
        looked.write_all(b"x").unwrap();
    }
    assert!(writer.wait().unwrap().success() && is_known);
    world.fleet("agents list", "");
    assert_eq!(world.conflicts(), [] as [&str; 0]);
    let shown = world.fleet("agents show Secondary-A --json", "");
    let agent = &serde_json::from_str::<Value>(&shown).unwrap()["agent"];
    assert_eq!(agent["current_step"], format!("Step {WRITES}"));
    let events = world.fleet("events list --limit 100000 --json", "");
    for step in (1..=WRITES / BETWEEN).map(|part| part * BETWEEN) {
        assert!(events.contains(&format!("\"Step {step}\"")), "step {step}");
    }
}
