//! Colours and terminals: none in pipes, and no meaning by colour alone.

use std::process::Command;

use crate::cli::running::Ran;
use crate::cli::stage;
use crate::cli::world::World;

const ESCAPE: char = '\u{1b}';

/// Runs a command on a terminal of its own, made by `script` from util-linux. Both streams come as one.
pub fn on_a_terminal(world: &World, typed: &str, environment: &[(&str, &str)], keys: &str) -> Ran {
    let mut script = Command::new("script");
    script
        .args(["--quiet", "--return", "--command"])
        .arg(format!("{} {typed}", env!("CARGO_BIN_EXE_fleet")))
        .arg("/dev/null");
    let there = Command::new("script").arg("--version").output();
    assert!(
        there.is_ok_and(|said| said.status.success()),
        "this test needs a terminal from the `script` command of util-linux, which is missing here: \
         install `bsdutils`"
    );
    let mut fleet = world.wrapped(script).env("TERM", "xterm-256color");
    for (name, value) in environment {
        fleet = fleet.env(name, value);
    }
    let ran = fleet.stdin(keys).run();
    Ran {
        stdout: ran.stdout.replace('\r', ""),
        ..ran
    }
}

fn without_colours(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(ESCAPE) {
        plain += before;
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

#[test]
fn a_pipe_gets_no_colours() {
    let world = stage::world();
    for typed in [
        "status",
        "missions list",
        "agents list",
        "log",
        "doctor",
        "--help",
        "sorties show srt-ffff",
        "nonsense",
    ] {
        let ran = world.fleet(typed);
        assert!(!ran.text().contains(ESCAPE), "{typed}: {ran:?}");
        let never = world.fleet(&format!("--color never {typed}"));
        assert!(!never.text().contains(ESCAPE), "{typed}: {never:?}");
    }
}

#[test]
fn colours_come_when_they_are_asked_for() {
    let world = stage::world();
    for typed in [
        "status",
        "missions list",
        "doctor",
        "sorties show srt-ffff",
        "nonsense",
    ] {
        let ran = world.fleet(&format!("--color always {typed}"));
        assert!(ran.text().contains(ESCAPE), "{typed}: {ran:?}");
    }
    // Documents have none.
    let json = world.fleet("--color always status --json");
    assert!(!json.stdout.contains(ESCAPE), "{json:?}");
    json.json();
    let error = world.fleet("--color always sorties show srt-ffff --json");
    assert!(!error.stdout.contains(ESCAPE), "{error:?}");
}

#[test]
fn nothing_is_said_by_colour_alone() {
    let world = stage::world();
    for typed in [
        "status",
        "missions list",
        "sorties list",
        "agents list",
        "locks check src/a.rs",
        "effect list",
    ] {
        let at_one_moment = |typed: &str| {
            let command = world
                .line(typed)
                .env("FLEET_TEST_NOW", crate::cli::world::time(3600));
            command.run().stdout
        };
        let plain = at_one_moment(typed);
        let coloured = at_one_moment(&format!("--color always {typed}"));
        assert_ne!(plain, coloured, "{typed}");
        assert_eq!(without_colours(&coloured), plain, "{typed}");
    }
}

#[test]
fn a_terminal_gets_colours_unless_told_otherwise() {
    let world = stage::world();
    let coloured = on_a_terminal(&world, "missions list", &[], "");
    assert!(coloured.stdout.contains(ESCAPE), "{coloured:?}");
    for (typed, environment) in [
        ("missions list", [("NO_COLOR", "1")]),
        ("missions list", [("TERM", "dumb")]),
        ("--color never missions list", [("X", "")]),
    ] {
        let plain = on_a_terminal(&world, typed, &environment, "");
        assert!(!plain.stdout.contains(ESCAPE), "{environment:?}: {plain:?}");
        assert!(plain.stdout.contains("Add login"), "{plain:?}");
    }
    let help = on_a_terminal(&world, "--help --color never", &[], "");
    assert!(!help.stdout.contains(ESCAPE), "{help:?}");
}

#[test]
fn a_terminal_gets_times_as_people_tell_them() {
    let world = World::with_sorties(&["Model"]);
    world.pass(7 * 60);
    let shown = on_a_terminal(&world, "missions list", &[("NO_COLOR", "1")], "").stdout;
    assert!(
        shown.contains("  7m ago  ") && !shown.contains("2026-"),
        "{shown}"
    );
    let piped = world.ok("missions list").stdout;
    assert!(
        piped.contains("2026-01-04T12:00:02.000Z") && !piped.contains("ago"),
        "{piped}"
    );
}

#[test]
pub fn on_a_terminal_a_restore_asks_first() {
    let world = stage::world();
    world.ok("sorties add Later");
    let before = world.rev();
    for no in ["\n", "perhaps\n"] {
        let ran = on_a_terminal(&world, "restore copy.db", &[], no);
        let asked =
            "This will replace everything in this project's store with copy.db. Continue? [y/N] ";
        assert!(ran.stdout.contains(asked), "{ran:?}");
        assert_eq!((ran.code, world.rev()), (2, before), "{no:?}: {ran:?}");
    }
    // A user that forbids questions gets none.
    let forbidden = on_a_terminal(&world, "restore copy.db --no-input", &[], "y\n");
    assert!(!forbidden.stdout.contains("Continue?"), "{forbidden:?}");
    assert_eq!((forbidden.code, world.rev()), (2, before));
    let yes = on_a_terminal(&world, "restore copy.db", &[], "y\n");
    assert_eq!(yes.code, 0, "{yes:?}");
    assert!(
        world
            .json("sorties list")
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["title"] != "Later")
    );
}
