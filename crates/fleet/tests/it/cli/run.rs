//! `fleet run`: any program is an agent, and its end is no loss.

use std::fs;

use crate::cli::world::World;

#[test]
fn a_program_that_dies_is_started_again_with_its_briefing() {
    let world = World::with_sorties(&["Model", "Docs"]);
    world.ok("agents register ada");
    world.agent_ok("ada", "sorties claim --next");
    // It dies the first time, and reads its briefing the second time.
    let script = "if [ -e died ]; then printf %s \"$1\" > briefed; else touch died; exit 3; fi";
    fs::write(world.repo().join("agent.sh"), script).expect("written");
    let ran = world
        .command(&[
            "run",
            "--agent",
            "ada",
            "--restart",
            "2",
            "--",
            "sh",
            "agent.sh",
            "{briefing}",
        ])
        .run();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("exit code 3"), "{ran:?}");
    let briefed = fs::read_to_string(world.repo().join("briefed")).expect("it was briefed");
    assert!(
        briefed.contains("Recovery Context") && briefed.contains("Model"),
        "{briefed}"
    );
    let agent = world.json("agents show ada --json");
    assert_eq!(agent["agent"]["epoch"], 3, "{agent}");
    let taken = world.json("checkpoints list --json");
    let reasons: Vec<&str> = taken
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["reason"].as_str())
        .collect();
    assert!(reasons.contains(&"blocker"), "{reasons:?}");
    assert_eq!(
        agent["sorties"].as_array().unwrap().len(),
        1,
        "it keeps its work"
    );
}

#[test]
fn one_that_is_not_started_again_gives_its_work_back() {
    let world = World::with_sorties(&["Model"]);
    world.ok("agents register ada");
    world.agent_ok("ada", "sorties claim --next");
    let ran = world
        .command(&["run", "--agent", "ada", "--", "sh", "-c", "exit 7"])
        .run();
    assert_eq!(ran.code, 7, "{ran:?}");
    let sorties = world.json("sorties list --json");
    assert_eq!(sorties[0]["status"], "pending", "{sorties}");
    let agent = world.json("agents show ada --json");
    assert_ne!(
        agent["agent"]["session_ended_at"],
        serde_json::Value::Null,
        "{agent}"
    );
    assert_ne!(agent["liveness"]["life"], "active", "{agent}");
}

#[test]
fn the_program_acts_as_its_agent() {
    let world = World::with_sorties(&["Model"]).local_only("the program finds the store by itself");
    let fleet = env!("CARGO_BIN_EXE_fleet");
    let script = format!("{fleet} sorties claim --next");
    let ran = world
        .command(&["run", "--agent", "ada", "--", "sh", "-c", &script])
        .run();
    assert_eq!(ran.code, 0, "{ran:?}");
    let sorties = world.json("sorties list --json");
    assert_eq!(sorties[0]["assigned_to"], "ada", "{sorties}");
    assert_eq!(world.fleet("run --agent ada -- no-such-program").code, 3);
}

#[test]
fn a_program_that_runs_again_is_in_nobodys_way() {
    let world = World::with_sorties(&["Model"]);
    world.ok("agents register ada");
    world.agent_ok("ada", "sorties claim --next");
    let script = "if [ -e died ]; then printf %s \"$1\" > briefed; else touch died; exit 3; fi";
    fs::write(world.repo().join("agent.sh"), script).expect("written");
    let line = "run --agent ada --restart 1 -- sh agent.sh {briefing}";
    let ran = world.fleet(line);
    assert_eq!(ran.code, 0, "{ran:?}");
    let briefed = fs::read_to_string(world.repo().join("briefed")).expect("it was briefed");
    assert!(briefed.contains("exit code 3"), "it is told why: {briefed}");
    let open = world.ok("note list").stdout;
    assert!(!open.contains("exit code 3"), "{open}");
    assert!(!world.ok("status").stdout.contains("exit code 3"));
    // One that is not started again stays in the way.
    let failed = world.fleet("run --agent ada -- sh -c \"exit 9\"");
    assert_eq!(failed.code, 9, "{failed:?}");
    let open = world.ok("note list").stdout;
    assert!(open.contains("exit code 9"), "{open}");
}

#[test]
fn a_failure_that_cannot_be_recorded_leaves_no_session_open() {
    let world = World::with_sorties(&["Model"]);
    let ran = world.fleet("run --agent ada --mission nonsense -- sh -c \"exit 7\"");
    assert!(ran.stderr.contains("`nonsense`"), "{ran:?}");
    let agent = world.json("agents show ada --json");
    let ended = &agent["agent"]["session_ended_at"];
    assert!(ended.is_string(), "{agent}");
}
