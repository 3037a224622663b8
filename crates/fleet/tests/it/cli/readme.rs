//! The sessions of the README, run as they stand there: every line that it shows is what a command
//! really says.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::expect_file;

use crate::cli::world::World;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");

/// A shell's session: the variables that it exported, and where its commands run.
struct Session {
    world: World,
    exported: BTreeMap<String, String>,
}

impl Session {
    /// What a typed line prints.
    fn run(&mut self, typed: &str) -> String {
        let typed = typed.split("  #").next().unwrap_or(typed).trim_end();
        if let Some(variable) = typed.strip_prefix("export ") {
            let (name, value) = variable.split_once('=').expect("NAME=VALUE");
            self.exported.insert(name.to_owned(), value.to_owned());
            return String::new();
        }
        if let Some(name) = typed.strip_prefix("unset ") {
            self.exported.remove(name);
            return String::new();
        }
        let arguments = match typed.strip_prefix("fleet") {
            Some(arguments) => arguments.trim_start(),
            None => panic!("{typed:?} is no command of ours"),
        };
        let mut line = self.world.line(arguments);
        for (name, value) in &self.exported {
            line = line.env(name, value);
        }
        let ran = line.run();
        self.world
            .anonymous(&format!("{}{}", ran.stdout, ran.stderr))
    }
}

#[test]
fn every_session_shows_what_its_commands_say() {
    let text = std::fs::read_to_string(README).unwrap();
    let mut session = Session {
        world: World::empty().local_only("the sessions are those of one machine"),
        exported: BTreeMap::new(),
    };
    session.world.begin_at_noon();
    let (mut told, mut in_session, mut commands) = (String::new(), false, 0);
    for line in text.lines() {
        let command = line.strip_prefix("$ ").filter(|_| in_session);
        if let Some(typed) = command {
            if !told.ends_with("```console\n") && !told.ends_with("\n\n") && !is_command(&told) {
                told.push('\n');
            }
            writeln!(told, "{line}\n{}", session.run(typed).trim_end()).unwrap();
            // A command that says nothing leaves no empty line.
            told.truncate(told.trim_end().len());
            told.push('\n');
            commands += 1;
            continue;
        }
        if in_session && line != "```" {
            continue;
        }
        in_session = line == "```console";
        writeln!(told, "{line}").unwrap();
    }
    assert!(commands >= 10, "{commands} commands");
    expect_file![README].assert_eq(&told);
}

/// Whether a text ends with a typed command that said nothing.
fn is_command(told: &str) -> bool {
    told.lines()
        .last()
        .is_some_and(|line| line.starts_with("$ "))
}
