//! Commands that are shown are pasted: each works as it stands, in the shell in which it was shown, for the agent it was
//! shown to.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::cli::every;
use crate::cli::running::Ran;
use crate::cli::stage;
use crate::cli::world::{PATH, World};

/// Lines beyond those of every command that end in some other way.
const MORE: [&str; 25] = [
    "sorties claim --next --agent bob --mission {Quick}",
    "sorties claim --next --agent bob --mission {Later}",
    "sorties claim --next --agent bob",
    "sorties complete {Login} --agent bob",
    "sorties claim {Done} --agent bob",
    "sorties unblock {Login} --agent bob",
    "sorties start {Given} --agent ada",
    "locks acquire src/a.rs --agent bob",
    "locks release --agent bob",
    "locks steal src/a.rs --reason urgent --agent old",
    "mail send --to old --subject Hello --agent bob",
    "mail ack --agent bob",
    "note artifact Start --path README.md --sortie srt-ffff --agent bob",
    "effect done nothing --agent bob --mission {Quick}",
    "effect begin deploy --agent bob",
    "missions complete {Quick} --agent bob",
    "resume --checkpoint @latest --mission {Add login} -y",
    "resume --checkpoint @latest --mission {Quick}",
    "checkpoints delete @latest --mission {Quick} --agent bob",
    "agents takeover ada bob --agent bob",
    "handoff bob --agent ada",
    "handoff old --agent bob",
    "heartbeat --context-percent 93 --agent bob",
    "init --preset epic",
    "status --mission {Later}",
];

/// Commands that take long, start a server, or show a text that is not about this fleet.
const LEFT_OUT: [&str; 11] = [
    "agents-md",
    "completions",
    "demo",
    "help",
    "login",
    "man",
    "openapi",
    "prime",
    "schema",
    "serve",
    "setup",
];

/// Runs a line as a shell does, with `fleet` on its path.
fn paste(world: &World, line: &str, agent: Option<&str>) -> Ran {
    let bin = world.home().join("bin");
    if !bin.exists() {
        fs::create_dir(&bin).unwrap();
        symlink(env!("CARGO_BIN_EXE_fleet"), bin.join("fleet")).unwrap();
    }
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line);
    let shell = world
        .wrapped(shell)
        .env("PATH", format!("{}:{PATH}", bin.display()));
    match agent {
        Some(agent) => shell.agent(agent).run(),
        None => shell.run(),
    }
}

/// The commands of ours in a text: in backticks, or at the end of a line.
fn commands(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 1 && part.starts_with("fleet ") {
            found.insert(part.to_owned());
        }
    }
    for line in text.lines() {
        for before in [
            "→ fleet ",
            "run: fleet ",
            "with: fleet ",
            "then: fleet ",
            "Next: fleet ",
            "briefing: fleet ",
        ] {
            if let Some((_, rest)) = line.split_once(before) {
                let ends = ["   ", ", or fleet ", "; then ", "; or "];
                let end = ends.iter().filter_map(|end| rest.find(end)).min();
                let command = &rest[..end.unwrap_or(rest.len())];
                found.insert(format!("fleet {}", command.trim_end()));
            }
        }
    }
    found
}

/// A command with something in the place of each word that the reader fills in; nothing when that is not to be had here.
fn filled(command: &str) -> Option<String> {
    let words: Vec<String> = command
        .split(' ')
        .map(|word| match (word, command) {
            ("NAME", command) if command.contains("--to NAME") => Some("bob".to_owned()),
            ("NAME" | "NEW", _) => Some("nina".to_owned()),
            ("15m", _) => Some("1s".to_owned()),
            ("PATH", _) => Some("src/a.rs".to_owned()),
            ("FILE", command) if command.contains(" restore ") => Some("copy.db".to_owned()),
            ("FILE", _) => Some("another.file".to_owned()),
            ("ID", command) if command.contains("missions ") => Some(stage::named("{Later}")),
            ("ID", command) if command.contains("sorties ") => Some(stage::named("{Done}")),
            ("ID", _) => Some(format!("@latest --mission {}", stage::named("{Quick}"))),
            (word, _) if word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase()) => None,
            (word, _) => Some(word.to_owned()),
        })
        .collect::<Option<_>>()?;
    let filled = words.join(" ");
    // Where the line names a mission of its own, one is enough.
    Some(match filled.matches("--mission").count() {
        2.. => filled
            .rsplit_once(" --mission ")
            .map_or(filled.clone(), |(line, _)| line.to_owned()),
        _ => filled,
    })
}

/// Whether a command that was pasted did what a hint promises.
fn worked(line: &str, command: &str, ran: &Ran) -> bool {
    match ran.code {
        0 | 5 => true,
        // It asks, and there is nobody to ask; who gave a yes before is not asked again.
        2 => ran.stderr.contains("needs confirmation") && !line.contains(" -y"),
        // It waits for somebody who goes on working; or only the owner and people may.
        4 => command.contains("--wait") || ran.stderr.contains("it is ada's"),
        _ => false,
    }
}

/// Runs a line, and pastes every command that it shows. Says what is wrong.
fn check(line: &str, agent: Option<&str>, seen: &mut BTreeSet<String>) -> Vec<String> {
    let world = stage::world().local_only("hints are the same wherever the store is");
    let ran = match agent {
        Some(agent) => world.agent(agent, line),
        None => world.fleet(line),
    };
    let shown = commands(&format!("{}\n{}", ran.stdout, ran.stderr));
    let (mut wrong, after) = (Vec::new(), world.snapshot());
    for command in shown {
        let Some(filled) = filled(&command) else {
            continue;
        };
        if !seen.insert(format!("{agent:?} {filled}")) {
            continue;
        }
        let world = after
            .world()
            .local_only("hints are the same wherever the store is");
        let before = world.rev();
        let filled = filled.replace("REPO", &world.repo().display().to_string());
        let pasted = paste(&world, &filled, agent);
        if !worked(line, &filled, &pasted) {
            wrong.push(format!(
                "{line}\n  shows {command}\n  which gives {}",
                pasted.text()
            ));
            continue;
        }
        // The agent that was spoken to acts, not the one that the shell is set up for.
        let acts_as_bob = line.contains("--agent bob");
        let last = world.json("events list --limit 1")["events"][0].clone();
        let is_new = last["rev"].as_u64() > Some(before);
        if acts_as_bob && is_new && last["actor"] == "ada" {
            wrong.push(format!(
                "{line}\n  shows {command}\n  which ada does instead of bob"
            ));
        }
    }
    wrong
}

#[test]
fn every_command_that_is_shown_can_be_pasted() {
    let lines: Vec<String> = every::lines()
        .into_iter()
        .chain(MORE.map(stage::named))
        .filter(|line| !LEFT_OUT.iter().any(|name| line.starts_with(name)))
        .collect();
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for line in &lines {
        wrong.extend(check(line, Some("ada"), &mut seen));
        if !line.contains("--agent") {
            wrong.extend(check(line, None, &mut seen));
            wrong.extend(check(
                &format!("{line} --agent bob"),
                Some("ada"),
                &mut seen,
            ));
        }
    }
    assert!(seen.len() > 60, "only {} commands were pasted", seen.len());
    assert!(
        wrong.is_empty(),
        "{} commands do not work:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn a_hint_is_for_the_agent_that_was_named_and_for_the_folder() {
    let world = World::with_sorties(&["Model"]);
    world.ok("locks acquire src/a.rs --agent ada");
    let refused = world.agent("ada", "locks acquire src/a.rs --agent bob");
    let waits = "fleet locks acquire src/a.rs --wait 15m --agent bob";
    assert!(commands(&refused.stderr).contains(waits), "{refused:?}");
    world.ok("locks release src/a.rs --agent ada");
    assert_eq!(paste(&world, waits, Some("ada")).code, 0);
    assert_eq!(world.json("locks list")[0]["holder"], "bob");

    let elsewhere = world.home();
    let typed = format!("-C {} sorties show srt-ffff", world.repo().display());
    let mut away = world.line(&typed);
    away.command.current_dir(&elsewhere);
    let told = away.run().stderr;
    assert!(told.contains("`fleet -C REPO sorties list`"), "{told}");
    let id = world.sortie("Model");
    let json = world.fleet(&format!("sorties complete {id} --agent bob --json"));
    let json = json.json();
    let hint = json["error"]["hint"].as_str().unwrap();
    assert!(hint.contains(" --agent bob`"), "{hint}");
}

#[test]
fn a_hint_keeps_a_yes_and_a_mission() {
    let world = stage::world();
    let quick = stage::named("{Quick}");
    let asked = world.fleet(&format!("checkpoints delete @latest --mission {quick}"));
    assert!(
        asked.stderr.contains(&format!("-y --mission {quick}`")) || asked.stderr.contains("-y`"),
        "{asked:?}"
    );
    let told = world.fleet(&format!(
        "sorties claim --next --agent bob --mission {quick}"
    ));
    assert_eq!(told.code, 3, "{told:?}");
}
