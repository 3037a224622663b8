//! `fleet replay`: as text, as JSON lines and with keys; and that it leaves no trace.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use expect_test::expect;
use flightline_testkit::program::ChildGuard;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::Value;

use crate::cli::running::until;
use crate::cli::world::World;

/// Ada finished the model, bob is at the endpoint, and somebody went back and forth.
fn eventful() -> World {
    let world = World::with_sorties(&["Model", "Endpoint", "Docs", "Tests"]);
    world.agent_ok("ada", "sorties claim --next");
    let model = world.sortie("Model");
    world.agent_ok("ada", "locks acquire src/a.rs --purpose \"new model\"");
    world.agent_ok("ada", &format!("sorties complete {model}"));
    world.agent_ok("bob", "sorties claim --next");
    world.ok("resume --checkpoint @latest --force -y");
    world
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// What the store holds on disk: the file and its log.
fn stored(world: &World) -> Vec<Vec<u8>> {
    ["flightline.db", "flightline.db-wal"]
        .map(|name| fs::read(world.state().join(name)).unwrap_or_default())
        .into()
}

#[test]
fn a_history_as_text() {
    eventful().fleet("replay").expect(expect![[r#"
        Replay of msn-1166 "Add login", revisions 1 to 35

        Step 1   2026-01-04T12:00:02Z   user:grace
          creates the mission "Add login"
          adds the sortie "Model"
          adds the sortie "Endpoint"
          adds the sortie "Docs"
          adds the sortie "Tests"

        Step 6   2026-01-04T12:00:03Z   ada
          registers
          starts "Add login"
            status: pending → in progress
          claims "Model"
            assigned epoch: nothing → 1
            assigned to: nothing → ada
            attempts: 0 → 1
            status: pending → in progress

        Step 9   2026-01-04T12:00:05Z   ada
          locks src/a.rs

        Step 10   2026-01-04T12:00:06Z   ada
          completes "Model"
            status: in progress → completed
          releases src/a.rs: its sortie is completed
          takes checkpoint chk-3434 at 25 % (milestone)

        Step 14   2026-01-04T12:00:06Z   ada
          writes the file of chk-3434

        Step 15   2026-01-04T12:00:06Z   flightline
          makes a mailbox for dispatch

        Step 21   2026-01-04T12:00:07Z   bob
          registers
          claims "Endpoint"
            assigned epoch: nothing → 1
            assigned to: nothing → bob
            attempts: 0 → 1
            status: pending → in progress

        Step 23   2026-01-04T12:00:08Z   user:grace   timeline 1
          Went back to chk-3434; timeline 1 begins
          takes checkpoint chk-459b at 25 % (before restore)
          puts "Endpoint" back as it was in chk-3434
            assigned at: 2026-01-04T12:00:07.000Z → nothing
            assigned epoch: 1 → nothing
            assigned to: bob → nothing
            started at: 2026-01-04T12:00:07.000Z → nothing
            status: in progress → pending
          takes "Add login" back to chk-3434
            timeline: 0 → 1
          takes checkpoint chk-820a at 25 % (after restore)
          recovers the mission from chk-3434: 1 sortie, 0 locks, 0 messages

        Step 29   2026-01-04T12:00:08Z   user:grace   timeline 1
          writes the file of chk-459b
          writes the file of chk-820a

        9 steps; at the end 4 sorties, 25 % complete
        The state at a step: fleet replay --step 29
    "#]]);
}

#[test]
fn one_step_and_the_state_after_it() {
    let world = eventful();
    world.fleet("replay --step @latest~1").expect(expect![[r#"
        Step 23   2026-01-04T12:00:08Z   user:grace   timeline 1
          Went back to chk-3434; timeline 1 begins
          takes checkpoint chk-459b at 25 % (before restore)
          puts "Endpoint" back as it was in chk-3434
            assigned at: 2026-01-04T12:00:07.000Z → nothing
            assigned epoch: 1 → nothing
            assigned to: bob → nothing
            started at: 2026-01-04T12:00:07.000Z → nothing
            status: in progress → pending
          takes "Add login" back to chk-3434
            timeline: 0 → 1
          takes checkpoint chk-820a at 25 % (after restore)
          recovers the mission from chk-3434: 1 sortie, 0 locks, 0 messages

        State after step 23 (revision 28)
        Mission: msn-1166 "Add login", in progress
        Progress: 25%
        Timeline: 1

        Sorties (4):
          srt-af9e  completed   ada  Model
          srt-4dd5  pending     -    Endpoint
          srt-ec0d  pending     -    Docs
          srt-8a44  pending     -    Tests

        Active Locks (0):

        Pending Messages (0):

        Agents (3):
          ada       idle
          bob       idle
          dispatch  idle
    "#]]);
    world.fleet("replay --step 1").expect(expect![[r#"
        Step 1   2026-01-04T12:00:02Z   user:grace
          creates the mission "Add login"
          adds the sortie "Model"
          adds the sortie "Endpoint"
          adds the sortie "Docs"
          adds the sortie "Tests"

        State after step 1 (revision 5)
        Mission: msn-1166 "Add login", pending
        Progress: 0%
        Timeline: 0

        Sorties (4):
          srt-af9e  pending     -  Model
          srt-4dd5  pending     -  Endpoint
          srt-ec0d  pending     -  Docs
          srt-8a44  pending     -  Tests

        Active Locks (0):

        Pending Messages (0):

        Agents (0):
    "#]]);
}

#[test]
fn a_history_as_json_lines() {
    let world = eventful();
    let ran = world.ok("replay --json");
    let all = lines(&ran.stdout);
    let (header, end) = (&all[0], all.last().unwrap());
    assert_eq!(header["type"], "replay");
    assert_eq!(
        (&header["from"], &header["to"]),
        (&1.into(), &world.rev().into())
    );
    assert_eq!(header["title"], "Add login");
    let steps = &all[1..all.len() - 1];
    assert!(steps.iter().all(|step| step["type"] == "step"));
    assert_eq!(
        (&end["type"], &end["steps"]),
        (&"end".into(), &steps.len().into())
    );
    assert_eq!(end["state"]["progress_percent"], 25);
    assert_eq!(end["state"]["mission"]["timeline"], 1);
    // Each line is what the schema says, and the last state is the present one.
    for line in &all {
        let schema = match line["type"].as_str() {
            Some("replay") => "replay",
            Some("step") => "replay-step",
            _ => "replay-end",
        };
        let schema = world.json(&format!("schema {schema}"));
        let valid = jsonschema::validator_for(&schema).unwrap();
        let problems: Vec<String> = valid.iter_errors(line).map(|it| it.to_string()).collect();
        assert_eq!(problems, [""; 0], "{line}");
    }
    let sorties = world.json("sorties list");
    let titles = |list: &Value| -> Vec<(Value, Value)> {
        let list = list.as_array().unwrap().iter();
        list.map(|one| (one["title"].clone(), one["status"].clone()))
            .collect()
    };
    assert_eq!(titles(&end["state"]["sorties"]), titles(&sorties));
    // Fields are those of steps.
    let few = lines(&world.ok("replay --json --fields step,actor").stdout);
    assert_eq!(few.len(), steps.len());
    assert!(
        few.iter().all(|step| step.as_object().unwrap().len() == 2),
        "{few:?}"
    );
}

#[test]
fn a_part_of_a_history() {
    let world = eventful();
    let steps = |typed: &str| -> Vec<u64> {
        let all = lines(&world.ok(&format!("{typed} --json")).stdout);
        all.iter()
            .filter_map(|line| line["step"].as_u64())
            .collect()
    };
    let all = steps("replay");
    let from = steps("replay --from @latest");
    assert!(
        from.len() > 1 && all.ends_with(&from),
        "{from:?} of {all:?}"
    );
    let to = steps("replay --to @latest");
    assert!(
        all.starts_with(&to) && to.last() == from.first(),
        "{to:?} of {all:?}"
    );
    assert_eq!(
        steps(&format!("replay --from {} --to {}", all[1], all[2])),
        all[1..3]
    );
}

#[test]
fn what_is_not_there_is_said() {
    let world = eventful();
    world.fleet("replay --from chk-ffff").refused(3);
    world.fleet("replay --to 4711").expect(expect![[r#"
        [stderr]
        error: there is no revision 4711: the newest is 35

        hint: list them with `fleet events list`, or name a checkpoint
        [exit 3]
    "#]]);
    world.fleet("replay --from 9 --to 3").refused(2);
    world.fleet("replay --from nonsense").refused(2);
    world.fleet("replay --step 3 --from 1").refused(2);
    world.fleet("replay --mission msn-ffff").refused(3);
}

#[test]
fn what_retention_took_is_said_and_the_rest_is_told() {
    let world = eventful();
    world.pass(40 * 86_400 / 2);
    world.ok("checkpoints prune --older-than 0 --keep 1 -y");
    let ran = world.ok("replay");
    assert!(
        ran.stdout
            .contains("are no longer known: retention has taken them."),
        "{ran:?}"
    );
    assert!(
        ran.stdout
            .contains("Nearest checkpoints that were kept: `fleet checkpoints show chk-"),
        "{ran:?}"
    );
    let step = world.ok("replay --step 7");
    assert!(
        step.stdout
            .contains("The state is not known: the value of "),
        "{step:?}"
    );
    let json = world.json("replay --step 7");
    assert_eq!(json["no_state"]["code"], "history_thinned");
}

#[test]
fn a_replay_leaves_no_trace() {
    let world = eventful().local_only("it compares the bytes of the store");
    // Whatever a server that was killed has left to tidy up is tidied up by the next process.
    world.ok("status");
    // Much is due: a day has passed, and so has every deadline.
    world.pass(3 * 86_400);
    let before = stored(&world);
    for typed in [
        "replay",
        "replay --json",
        "replay --step @latest",
        "replay --from @latest",
        "replay --step 999",
    ] {
        world.fleet(typed);
        world.agent("ada", typed);
        world.agent("somebody-new", typed);
        assert!(stored(&world) == before, "{typed} wrote something");
    }
}

#[test]
fn resume_then_replay() {
    let world = eventful();
    let ran = world.ok("resume --replay");
    let (resumed, replay) = ran
        .stdout
        .split_once("Recovery complete. Mission resumed.\n")
        .unwrap();
    assert!(resumed.contains("Resuming from checkpoint: "));
    let id = resumed.lines().next().unwrap().rsplit(' ').next().unwrap();
    assert!(replay.starts_with("Replay of msn-"), "{replay}");
    let first = replay.split("\n\n").nth(1).unwrap();
    assert!(
        first.starts_with("Step ") && first.contains(&format!("takes checkpoint {id}")),
        "{first}"
    );
    assert!(replay.contains(&format!("  Resumed from {id}")), "{replay}");
    let json = lines(
        &world
            .ok("resume --checkpoint @latest --force -y --replay --json")
            .stdout,
    );
    assert!(
        json[0]["last_action"].is_string(),
        "what resume gives comes first"
    );
    assert_eq!(
        (&json[1]["type"], &json.last().unwrap()["type"]),
        (&"replay".into(), &"end".into())
    );
    world.fleet("resume --replay --dry-run").refused(2);
}

#[test]
fn a_checkpoint_that_is_not_there_is_said_before_anything_is_asked() {
    let world = eventful();
    let rev = world.rev();
    world
        .fleet("resume --checkpoint chk-ffff")
        .expect(expect![[r#"
            [stderr]
            error: there is no checkpoint `chk-ffff`

            hint: list them with `fleet checkpoints list`
            [exit 3]
        "#]]);
    world.fleet("resume --checkpoint @latest~99").refused(3);
    world.fleet("resume --checkpoint nonsense").refused(2);
    let there = world.fleet("resume --checkpoint @latest --force --json");
    assert_eq!(
        (there.code, there.error_code()),
        (2, "confirmation_needed".to_owned())
    );
    assert_eq!(world.rev(), rev, "nothing was changed");
}

/// A command at a terminal of its own.
struct Seat {
    child: ChildGuard,
    keys: fs::File,
    said: Arc<Mutex<Vec<u8>>>,
    terminal: OwnedFd,
}

impl Seat {
    fn take(world: &World, typed: &str) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let terminal = open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let end = || Stdio::from(terminal.try_clone().unwrap());
        let mut command = world.line(typed).command;
        let child = ChildGuard::spawn(command.stdin(end()).stdout(end()).stderr(end()));
        let keys = fs::File::from(master);
        let (said, mut screen) = (Arc::new(Mutex::new(Vec::new())), keys.try_clone().unwrap());
        let kept = Arc::clone(&said);
        // Ends when the last end of the terminal is closed.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                kept.lock().unwrap().extend(&buffer[..count]);
            }
        });
        Self {
            child,
            keys,
            said,
            terminal,
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }

    /// Waits for words, and gives all that was said up to and with them.
    fn hears(&self, words: &str) {
        until(words, || self.text().contains(words));
    }

    /// Presses keys and waits for what is said after them.
    fn press(&mut self, keys: &[u8], words: &str) {
        self.said.lock().unwrap().clear();
        self.keys.write_all(keys).unwrap();
        self.hears(words);
    }

    fn shows_keys(&self) -> bool {
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }
}

#[test]
fn on_a_terminal_one_goes_forwards_and_back_with_keys() {
    let world = eventful().local_only("it compares the bytes of the store");
    // Whatever a server that was killed has left to tidy up is tidied up by the next process.
    world.ok("status");
    let before = stored(&world);
    let mut seat = Seat::take(&world, "replay");
    let prompt = |step: &str| format!("step {step}: n next, p previous, s state, ? keys, q quit");
    seat.hears(&prompt("1"));
    assert!(seat.text().contains("creates the mission") && !seat.shows_keys());
    seat.press(b"p", "This is the first step.");
    seat.press(b"n", "claims \"");
    seat.press(b"\x1b[C", "locks src/");
    seat.press(b" ", "completes \"");
    seat.press(b"\x1b[D", "locks src/");
    seat.press(b"p", "claims \"");
    seat.press(b"s", "Agents (1):");
    assert!(seat.text().contains("Progress: 0%"), "{}", seat.text());
    seat.press(b"G", "q quit");
    seat.press(b"n", "This is the last step.");
    seat.press(b"s", "Agents (");
    assert!(seat.text().contains("Timeline: 1"), "{}", seat.text());
    seat.press(b"g", &prompt("1"));
    seat.press(b"?", "the state after this step");
    seat.press(b"x\x1b[Z", "");
    seat.keys.write_all(b"q").unwrap();
    assert_eq!(seat.child.wait().unwrap().code(), Some(0));
    assert!(seat.shows_keys(), "the terminal is as it was");
    assert!(stored(&world) == before, "nothing was written");
}

#[test]
fn the_terminal_is_as_it_was_whatever_ends_the_replay() {
    let world = eventful();
    for (end, signal) in [(Signal::TERM, 15), (Signal::HUP, 1), (Signal::INT, 2)] {
        let mut seat = Seat::take(&world, "replay");
        seat.hears("q quit");
        assert!(!seat.shows_keys());
        kill_process(Pid::from_child(&seat.child), end).unwrap();
        assert_eq!(seat.child.wait().unwrap().signal(), Some(signal));
        assert!(seat.shows_keys(), "{end:?}");
    }
    // Ctrl-C is a key like q.
    let mut seat = Seat::take(&world, "replay");
    seat.hears("q quit");
    seat.keys.write_all(b"\x03").unwrap();
    assert_eq!(seat.child.wait().unwrap().code(), Some(0));
    assert!(seat.shows_keys());
}

#[test]
fn a_replay_opens_at_the_checkpoint_and_goes_back_from_there() {
    let world = eventful();
    let mut seat = Seat::take(&world, "resume --replay");
    seat.hears("q quit");
    let text = seat.text();
    let opened = text.split("Replay of").nth(1).unwrap();
    assert!(
        opened.contains("Went back to chk-"),
        "it was the newest: {opened}"
    );
    seat.press(b"p", "claims \"");
    seat.press(b"n", "Went back to chk-");
    seat.keys.write_all(b"q").unwrap();
    assert_eq!(seat.child.wait().unwrap().code(), Some(0));
    let seat = Seat::take(&world, "replay --no-input");
    seat.hears("The state at a step: fleet replay --step");
}
