//! Tables on a terminal: they fit it, and what is shortened says so.

use std::process::Command;

use crate::cli::stage;
use crate::cli::world::World;

/// What a command shows on a terminal of 80 columns.
fn on_80_columns(world: &World, typed: &str) -> String {
    let mut script = Command::new("script");
    script
        .args(["--quiet", "--return", "--command"])
        .arg(format!(
            "stty cols 80 rows 500; {} --color never {typed}",
            env!("CARGO_BIN_EXE_fleet")
        ))
        .arg("/dev/null");
    let ran = world.wrapped(script).env("TERM", "xterm").run();
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.stdout.replace('\r', "")
}

/// How many columns a line takes: every character that we print takes one.
fn columns(line: &str) -> usize {
    line.chars().count()
}

#[test]
fn lists_fit_a_terminal_of_80_columns() {
    let world = stage::world();
    let long = "a title that goes on and on until no terminal is wide enough for it, whatever its owner paid";
    world.ok(&format!("sorties add \"{long}\""));
    world.ok(&format!(
        "mail send --to ada --subject \"{long}\" --agent bob"
    ));
    world.ok(&format!("note decision \"{long}\""));
    world.ok(&format!("agents update --step \"{long}\" --agent ada"));
    for typed in [
        "agents list",
        "checkpoints list",
        "config list",
        "effect list",
        "events list --limit 20",
        "locks list",
        "log -n 20",
        "mail inbox --agent ada",
        "missions list",
        "note list",
        "report",
        "sorties list",
        "sorties tree",
        "token list",
    ] {
        let text = on_80_columns(&world, typed);
        assert!(text.lines().count() > 1, "{typed}: {text}");
        for line in text.lines() {
            assert!(
                columns(line) <= 80,
                "{typed}: {} columns: {line}",
                columns(line)
            );
        }
    }
    let sorties = on_80_columns(&world, "sorties list");
    assert!(sorties.contains('…'), "{sorties}");
    assert!(
        world.ok("sorties list").stdout.contains(long),
        "a pipe gets all of it"
    );
}
