//! Settings files of coding agents are read back after they were written: what another program made of them meanwhile is told.

use std::fs;
use std::path::PathBuf;

use flightline_testkit::Engine;
use rustix::process::Signal;

use crate::crash::world::{Answer, World};

/// Runs a command that writes a file, and lets another program have its way with the file right after that.
fn meddled(world: &World, line: &str, meddle: impl FnOnce()) -> Answer {
    let arguments: Vec<&str> = line.split(' ').collect();
    let mut running = world
        .run(&arguments)
        .env("FLEET_TEST_FREEZE_AT", 1)
        .starts();
    running.has_stopped();
    meddle();
    running.send(Signal::CONT);
    running.ends()
}

fn refused(answer: &Answer, file: &str) {
    assert_eq!(answer.code(), Some(6), "{answer}");
    let told = format!("{file} does not read back as written");
    assert!(answer.err.contains(&told), "{answer}");
    assert!(answer.err.contains("close the client"), "{answer}");
}

#[test]
fn a_settings_file_that_a_client_writes_over_is_told() {
    let world = World::new(Engine::Sqlite);
    let settings: PathBuf = world.home().join(".claude/settings.json");
    let over = || fs::write(&settings, "{\"theme\": \"dark\"}").unwrap();
    let answer = meddled(&world, "setup claude -y", over);
    refused(&answer, ".claude/settings.json");
    assert_eq!(
        fs::read_to_string(&settings).unwrap(),
        "{\"theme\": \"dark\"}"
    );
    let gone = || fs::remove_file(&settings).unwrap();
    refused(
        &meddled(&world, "setup claude -y", gone),
        ".claude/settings.json",
    );
    // The way out that is named works.
    world.run(&["setup", "claude", "-y"]).works();
    world.run(&["setup", "claude", "--check"]).works();
    let files = ["settings.json", "skills/flightline/SKILL.md"];
    let last = files.map(|file| world.home().join(".claude").join(file));
    let back = || {
        for file in &last {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "{}").unwrap();
        }
    };
    let answer = meddled(&world, "setup claude --remove -y", back);
    assert_eq!(answer.code(), Some(6), "{answer}");
}

#[test]
fn a_plugin_and_a_block_are_read_back_too() {
    let world = World::new(Engine::Sqlite);
    let root = world.state().parent().unwrap().to_path_buf();
    let market = root.join("made/.claude-plugin/marketplace.json");
    let over = || fs::write(&market, "{}").unwrap();
    let answer = meddled(&world, "setup claude --plugin made", over);
    refused(&answer, "marketplace.json");
    let agents = root.join("AGENTS.md");
    let over = || fs::write(&agents, "# Rules\n").unwrap();
    refused(&meddled(&world, "agents-md --write", over), "AGENTS.md");
}
