//! What needs a person: `status` and `doctor` name each thing with the command that settles it, and that command does.

use flightline_testkit::program::ChildGuard;

use crate::cli::running::Ran;
use crate::cli::world::World;

/// What needs a person, as programs see it: what, and the command.
fn needs(world: &World) -> Vec<(String, String)> {
    let status = world.json("status");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let all = status["attention"].as_array().unwrap();
    all.iter()
        .map(|one| (text(&one["what"]), text(&one["command"])))
        .collect()
}

/// The command beside the one thing that is about `about`.
#[track_caller]
fn command_for(world: &World, about: &str) -> String {
    let all = needs(world);
    let mut found = all.iter().filter(|(what, _)| what.contains(about));
    let one = found
        .next()
        .unwrap_or_else(|| panic!("nothing about {about:?} in {all:?}"));
    assert!(found.next().is_none(), "{all:?}");
    let doctor = world.fleet("doctor");
    assert!(doctor.stdout.contains(about), "{doctor:?}");
    assert!(!doctor.stdout.contains("Everything is well"), "{doctor:?}");
    one.1.strip_prefix("fleet ").unwrap_or(&one.1).to_owned()
}

/// Runs the command that settles something, and looks that it is settled.
#[track_caller]
fn settle(world: &World, about: &str) -> Ran {
    let command = command_for(world, about);
    let ran = world.ok(&command);
    let left = needs(world);
    assert!(
        !left.iter().any(|(what, _)| what.contains(about)),
        "after {command}: {left:?}"
    );
    ran
}

#[test]
fn nothing_needs_a_person_where_nothing_does() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "sorties claim --next");
    assert_eq!(needs(&world), []);
    assert!(world.ok("doctor").stdout.ends_with("Everything is well.\n"));
}

#[test]
fn an_effect_in_doubt_is_named_until_somebody_says_what_became_of_it() {
    let world = World::with_sorties(&["Model"]).local_only("its process is on this machine");
    let mut process = ChildGuard::sleeper();
    world.ok(&format!("agents register ada --pid {}", process.id()));
    world.agent_ok("ada", "effect begin deploy");
    assert_eq!(needs(&world), [], "ada is at it");
    process.end();
    let command = command_for(&world, "`deploy`");
    assert!(
        command.starts_with("effect done deploy --mission msn-"),
        "{command}"
    );
    settle(&world, "`deploy`");
}

#[test]
fn a_blocked_sortie_and_a_failed_one_are_settled_by_their_commands() {
    let world = World::with_sorties(&["Model", "Login", "Tests"]);
    for (title, line) in [
        ("Model", "block {} --reason \"waits for the schema\""),
        ("Login", "error {} --message boom --blocking"),
        ("Tests", "fail {} --reason rain"),
    ] {
        let id = world.sortie(title);
        world.agent_ok("ada", &format!("sorties claim {id}"));
        world.agent_ok("ada", &format!("sorties {}", line.replace("{}", &id)));
    }
    settle(&world, "waits for the schema");
    // First the error, then the sortie that it blocked.
    world.ok(&command_for(&world, "boom"));
    settle(&world, "boom");
    settle(&world, "(\"Tests\") failed");
}

#[test]
fn an_agent_that_says_it_is_blocked_is_named() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "agents update --blocker \"no access\"");
    settle(&world, "no access");
}

#[test]
fn a_context_that_is_almost_full_is_named_until_its_session_ends() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "sorties claim --next");
    world.agent_ok("ada", "heartbeat --context-percent 93");
    settle(&world, "the context of ada is 93 % full");
}

#[test]
fn mail_for_a_dead_agent_is_named() {
    let world = World::with_sorties(&["Model"]).local_only("its process is on this machine");
    let mut process = ChildGuard::sleeper();
    world.ok(&format!("agents register ada --pid {}", process.id()));
    world.ok("mail send --to ada --subject Hello");
    assert_eq!(needs(&world), [], "ada will read it");
    process.end();
    let command = command_for(&world, "1 message waits for ada, which is dead");
    assert_eq!(command, "agents resume ada");
}

#[test]
fn a_blocker_that_somebody_noted_is_named() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "note blocker \"The API is down\"");
    let command = command_for(
        &world,
        "ada noted a blocker of \"Add login\": The API is down",
    );
    world.ok(&command);
}

#[test]
fn what_a_mirror_could_not_take_in_is_named() {
    let world = World::empty().local_only("mirrors are files of this work tree");
    world.ok("init --preset epic");
    world.ok("missions create \"Epic\" --sortie One");
    world.write("agent_checkpoints/ada.json.conflict", "{");
    let text = world.ok("status").stdout;
    assert!(
        text.contains("agent_checkpoints/ada.json.conflict: cannot read"),
        "{text}"
    );
    assert!(
        text.contains("→ fleet conflicts drop agent_checkpoints/ada.json.conflict"),
        "{text}"
    );
    assert!(world.fleet("doctor").stdout.contains("ada.json.conflict"));
}
