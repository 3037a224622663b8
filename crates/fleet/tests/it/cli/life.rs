//! One judgement of life for all commands: who is there, who is dead, and what is no sign of life.

use expect_test::expect;
use flightline_testkit::program::ChildGuard;

use crate::cli::world::World;

/// Where somebody registered with a process that has ended since, having spoken a moment ago.
fn with_a_dead_agent(preset: &str) -> (World, u32) {
    let world = World::empty();
    world.ok(&format!("init --preset {preset}"));
    world.ok("agents register lead --role dispatch");
    world.ok("missions create Work --dispatch lead --sortie Model --sortie Tests");
    let mut process = ChildGuard::sleeper();
    let pid = process.id();
    world.ok(&format!("agents register ada --pid {pid}"));
    let model = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties claim {model}"));
    world.agent_ok("ada", "agents update --step \"Writing it\"");
    process.end();
    (world, pid)
}

#[test]
fn the_monitor_knows_who_is_dead_and_says_it_in_plain_words() {
    let (world, pid) = with_a_dead_agent("fleet");
    let plain = |text: String| text.replace(&pid.to_string(), "PID");
    let seen = world.fleet("agents monitor");
    assert_eq!(seen.code, 5);
    expect![[r#"
        ✗ dead  ada  process PID is gone
        [stderr]
        warning: ada is dead (process PID is gone). lead was told; continue with `fleet agents resume ada`, `fleet agents takeover ada NEW` or `fleet agents restart ada`
        [exit 5]
    "#]]
    .assert_eq(&plain(seen.text()));
    let listed = world.ok("agents list").stdout;
    assert!(listed.contains("✗ dead"), "{listed}");
    let status = world.ok("status").stdout;
    assert!(status.contains("ada dead"), "{status}");
    // Said once.
    assert_eq!(world.fleet("agents monitor").stderr, "");
}

#[test]
fn the_monitor_of_seed_c_keeps_its_words_and_believes_a_death() {
    let (world, pid) = with_a_dead_agent("epic");
    let seen = world.fleet("agents monitor");
    expect![[r#"
        ❌ ada: STALE (0 min) - Likely crashed
        [stderr]
        warning: ada is dead (process PID is gone). lead was told; continue with `fleet agents resume ada`, `fleet agents takeover ada NEW` or `fleet agents restart ada`
        [exit 5]
    "#]]
    .assert_eq(&seen.text().replace(&pid.to_string(), "PID"));
}

#[test]
fn what_others_do_with_an_agent_is_no_sign_of_its_life() {
    let (world, _) = with_a_dead_agent("fleet");
    world.ok("agents restart ada -y");
    let listed = world.ok("agents list").stdout;
    let ada = listed.lines().find(|line| line.starts_with("ada")).unwrap();
    assert!(
        ada.contains("◐ quiet") && ada.contains("its session ended 1s ago, and no other has begun"),
        "{listed}"
    );
    world.ok("agents register eve");
    world.agent_ok("eve", "agents end");
    let shown = world.ok("agents show eve").stdout;
    assert!(shown.contains("◐ quiet"), "{shown}");
    world.ok("agents register eve");
    let shown = world.ok("agents show eve").stdout;
    assert!(shown.contains("✓ active"), "{shown}");
}

#[test]
fn one_that_is_silent_is_found_while_another_goes_on() {
    let world = World::with_sorties(&["Model", "Tests"]);
    let (model, tests) = (world.sortie("Model"), world.sortie("Tests"));
    world.agent_ok("ada", &format!("sorties claim {model}"));
    world.agent_ok("bob", &format!("sorties claim {tests}"));
    world.ok("checkpoint");
    for _ in 0..4 {
        world.pass(600);
        world.agent_ok("bob", "heartbeat");
    }
    let found = world.fleet("detect --json");
    assert_eq!(found.code, 5, "{found:?}");
    let candidate = found.json()[0].clone();
    assert_eq!(candidate["evidence"], "agent_silent");
    let agents = candidate["agents"].as_array().unwrap();
    let silent: Vec<&str> = agents
        .iter()
        .filter(|agent| agent["silent_ms"].is_number())
        .filter_map(|agent| agent["name"].as_str())
        .collect();
    assert_eq!(silent, ["ada"]);
    // It is told once, whatever the other does meanwhile.
    world.agent_ok("bob", "heartbeat");
    world.fleet("detect");
    let told = world
        .ok("events list --type context_compacted --json")
        .json();
    assert_eq!(told["events"].as_array().unwrap().len(), 1, "{told}");
    let resumed = world.ok("resume").text();
    assert!(resumed.contains(&model[..8]), "{resumed}");
    world.ok("detect");
}

#[test]
fn an_effect_that_somebody_is_doing_is_not_begun_again() {
    let world = World::with_sorties(&["Deploy"]);
    let mut process = ChildGuard::sleeper();
    world.ok(&format!("agents register ada --pid {}", process.id()));
    world.agent_ok("ada", "effect begin deploy");
    let under_way = expect![[r#"
        [stderr]
        error: `deploy`: ada is doing it now (active, last sign 1s ago)

        hint: wait until it is done, see `fleet effect list`; or ask with `fleet mail send --to ada --subject "Is deploy done?"`
        [exit 4]
    "#]];
    world.agent("bob", "effect begin deploy").expect(under_way);
    world
        .agent("bob", "effect begin deploy --again")
        .expect(expect![[r#"
            [stderr]
            error: `deploy`: ada is doing it now (active, last sign 2s ago)

            hint: wait until it is done, see `fleet effect list`; or ask with `fleet mail send --to ada --subject "Is deploy done?"`
            [exit 4]
        "#]]);
    // Who began it knows best.
    world
        .agent("ada", "effect begin deploy")
        .expect(expect![[r#"
            [stderr]
            error: `deploy` was begun by ada and never reported done

            hint: check whether it happened; if it did: `fleet effect done deploy`, if not: `fleet effect begin deploy --again`
            [exit 4]
        "#]]);
    process.end();
    let doubt = world.agent("bob", "effect begin deploy");
    assert!(
        doubt.text().contains("effect begin deploy --again"),
        "{doubt:?}"
    );
    world.agent_ok("bob", "effect begin deploy --again");
    // In a session of before nobody is at it, either.
    world.agent_ok("eve", "effect begin publish");
    world.ok("agents register eve");
    world.agent_ok("bob", "effect begin publish --again");
}

#[test]
fn to_look_at_a_briefing_is_not_to_be_its_agent() {
    let world = World::with_sorties(&["Model"]);
    let id = world.sortie("Model");
    world.agent_ok("carl", &format!("sorties claim {id}"));
    world.pass(120);
    let (rev, before) = (
        world.rev(),
        world.json("agents show carl")["last_sign"].clone(),
    );
    let seen = world.ok("context --of carl");
    assert!(seen.stdout.contains("Model"), "{seen:?}");
    assert_eq!(world.rev(), rev, "nothing was noted");
    // Nor is what the agent is given a sign of its life.
    world.agent_ok("carl", "context");
    assert_eq!(world.json("agents show carl")["last_sign"], before);
    for typed in ["context --of calr", "context --agent calr"] {
        world.fleet(typed).expect(expect![[r#"
            [stderr]
            error: there is no agent `calr`

            hint: did you mean `carl`? known agents: carl
            [exit 3]
        "#]]);
    }
    assert_eq!(world.json("agents list").as_array().unwrap().len(), 1);
}

#[test]
fn what_a_dead_agent_has_locked_is_named() {
    let (world, pid) = with_a_dead_agent("fleet");
    world.agent_ok("ada", "locks acquire src/model.rs");
    let found = world.fleet("detect");
    assert_eq!(found.code, 5, "{found:?}");
    let model = &world.sortie("Model")[..8];
    let line = format!("dead: process {pid} is gone; held {model}, the lock on src/model.rs");
    assert!(found.stdout.contains(&line), "{line}: {found:?}");
    let json = world.fleet("detect --json").json();
    let agents = json[0]["agents"].as_array().expect("a list").clone();
    let ada = agents.iter().find(|it| it["name"] == "ada").expect("ada");
    assert_eq!(ada["locks"][0], "src/model.rs", "{json}");
}

#[test]
fn a_session_that_has_ended_is_in_no_ones_way() {
    let world = World::with_sorties(&["Model", "Docs"]);
    let cut = world.json("checkpoint")["id"].clone();
    let cut = cut.as_str().expect("an id").to_owned();
    world.ok("agents register ada");
    world.agent_ok("ada", "sorties claim --next");
    let model = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties complete {model}"));
    let back = format!("resume --checkpoint {cut} -y");
    let refused = world.fleet(&back);
    assert_ne!(refused.code, 0, "ada is alive: {refused:?}");
    world.agent_ok("ada", "agents end");
    world.ok(&back);
}

#[test]
fn a_dry_run_says_that_there_is_nothing_to_resume() {
    let world = World::with_sorties(&["Model"]);
    let plan = world.fleet("resume --dry-run");
    assert_eq!(plan.code, 0, "{plan:?}");
    assert!(
        plan.stdout.contains("Would resume nothing")
            && plan.stdout.contains("it has no checkpoint"),
        "{plan:?}"
    );
    assert!(plan.stdout.contains("`fleet checkpoint`"), "{plan:?}");
    let json = world.json("resume --dry-run");
    assert_eq!(json["checkpoint_id"], serde_json::Value::Null, "{json}");
    assert_eq!(world.fleet("resume").code, 3, "to do it is refused");
}

#[test]
fn a_stranger_s_fleet_is_called_that_whatever_is_typed() {
    let world = World::new().local_only("trust is of this machine");
    world.ok("trust --revoke");
    for line in ["", "status"] {
        let seen = world.fleet(line);
        assert!(
            seen.stderr.contains("neither created nor trusted"),
            "{line:?}: {seen:?}"
        );
    }
}
