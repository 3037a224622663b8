//! Seed C's agents on the command line: the monitor's report, and the three ways to recover, as the seed
//! prints them.

use std::process::Command;

use expect_test::expect;

use crate::cli::colour::on_a_terminal;
use crate::cli::running::until;
use crate::cli::world::World;

/// The seed's epic: the primary, and a secondary at the step of the seed's example.
fn epic() -> World {
    let world = World::empty();
    world.ok("init --preset epic");
    world.ok("agents register Agent-Primary --role dispatch");
    world
        .ok("missions create Epic --dispatch Agent-Primary --sortie spec.md --sortie checklist.md");
    world.ok("agents register Secondary-A --session abc123def456");
    let spec = world.sortie("spec.md");
    for typed in [
        &format!("sorties claim {spec}"),
        "locks acquire feature_02_team_penalty/spec.md --purpose specification",
        "agents update --status in-progress --feature feature_02_team_penalty --stage S2.P2 \
         --phase \"Specification - In Progress\" --step \"Writing Acceptance Criteria in spec.md\" \
         --completed \"S2.P1 complete (Research Phase)\" --next-step \"Complete Acceptance Criteria section\" \
         --next-step \"Finish checklist.md questions\" --next-step \"Transition to S2.P3\" \
         --file feature_02_team_penalty/spec.md \
         --recovery-instructions \"Resume from S2.P2 Specification Phase. spec.md is 80% complete.\"",
    ] {
        world.agent_ok("Secondary-A", typed);
    }
    world
}

fn minutes(world: &World, minutes: u64) {
    world.pass(minutes * 60);
}

#[test]
fn fleet_agents_monitor() {
    let world = epic();
    world.ok("agents monitor").expect(expect![[r#"
        ✅ Secondary-A: ACTIVE (0 min ago)
    "#]]);
    minutes(&world, 41);
    world.ok("agents register Secondary-B");
    minutes(&world, 10);
    let ran = world.fleet("agents monitor");
    assert_eq!(ran.code, 5);
    ran.expect(expect![[r#"
        ⚠️ Secondary-A: WARNING (51 min) - May be slow
        ✅ Secondary-B: ACTIVE (10 min ago)
        [stderr]
        Secondary-A was warned.
        [exit 5]
    "#]]);
    // Said once; the exit code stays as long as somebody is silent.
    let again = world.fleet("agents monitor");
    assert_eq!((again.code, again.stderr.as_str()), (5, ""));
    minutes(&world, 10);
    let ran = world.fleet("agents monitor");
    assert_eq!(ran.code, 5);
    ran.expect(expect![[r#"
        ❌ Secondary-A: STALE (61 min) - Likely crashed
        ✅ Secondary-B: ACTIVE (20 min ago)
        [stderr]
        warning: Secondary-A hasn't updated checkpoint in 61 minutes. Agent-Primary was told; continue with `fleet agents resume Secondary-A`, `fleet agents takeover Secondary-A NEW` or `fleet agents restart Secondary-A`
        [exit 5]
    "#]]);
    world
        .agent_ok("Secondary-A", "mail inbox")
        .expect(expect![[r#"
            ID        SENT                      FROM           SUBJECT                                       STATE
            msg-5fb6  2026-01-04T12:51:11.000Z  Agent-Primary  CHECKPOINT WARNING - No Update in 30 Minutes  Secondary-A delivered
        "#]]);
    world
        .agent_ok("Agent-Primary", "mail inbox")
        .expect(expect![[r#"
            ID        SENT                      FROM        SUBJECT                              STATE
            msg-711d  2026-01-04T13:01:13.000Z  flightline  Secondary-A: STALE (likely crashed)  Agent-Primary delivered
        "#]]);
    world.ok("heartbeat --agent Secondary-B");
    world.ok("agents monitor").expect(expect![[r#"
        ✅ Secondary-A: ACTIVE (0 min ago)
        ✅ Secondary-B: ACTIVE (0 min ago)
    "#]]);
}

#[test]
fn fleet_agents_monitor_as_json() {
    let world = epic();
    minutes(&world, 61);
    let ran = world.fleet("agents monitor --json");
    assert_eq!(
        (ran.code, ran.json()["attention"].as_bool()),
        (5, Some(true))
    );
    let agent = ran.json()["agents"][0].clone();
    assert_eq!(
        (agent["standing"].as_str(), agent["minutes"].as_i64()),
        (Some("stale"), Some(61))
    );
    assert_eq!(agent["told"]["escalated"]["to"], "Agent-Primary");
    assert_eq!(ran.json()["failure_minutes"], 60);
}

#[test]
fn fleet_agents_monitor_on_an_empty_fleet_says_so() {
    World::new().ok("agents monitor").expect(expect![[r#"
        No agent to monitor: only coordinating agents have begun.
    "#]]);
}

#[test]
fn fleet_agents_monitor_watch_looks_again_and_again() {
    let world = epic();
    let ran = world.ok("agents monitor --watch --interval 1ms --for 1s");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines.len() > 1, "{ran:?}");
    assert!(
        lines
            .iter()
            .all(|line| *line == "✅ Secondary-A: ACTIVE (0 min ago)")
    );
    let ran = world.ok("agents monitor --watch --interval 1ms --for 1s --json");
    for line in ran.stdout.lines() {
        let seen: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(seen["agents"][0]["standing"], "active");
    }
    let seen = on_a_terminal(
        &world,
        "agents monitor --watch --interval 1ms --for 1ms",
        &[],
        "",
    );
    assert!(
        seen.stdout
            .contains("\u{1b}[H\u{1b}[2J✅ Secondary-A: ACTIVE"),
        "{seen:?}"
    );
    let wrong = world.fleet("agents monitor --interval 5m");
    assert_eq!(wrong.code, 2, "{wrong:?}");
}

#[test]
fn an_interrupted_watch_leaves_everything_whole() {
    let world = epic();
    minutes(&world, 61);
    // A shell that starts the tests in the background has them ignore it, and their children too.
    let mut watch = Command::new("env");
    watch.args(["--default-signal=INT", env!("CARGO_BIN_EXE_fleet")]);
    watch.args(["agents", "monitor", "--watch", "--interval", "10m"]);
    let watch = world.wrapped(watch).spawn();
    until("the first look", || {
        watch.has_said("STALE") && watch.has_said("hasn't updated checkpoint")
    });
    watch.interrupt();
    let ran = watch.wait();
    assert!(ran.stdout.ends_with("Likely crashed\n"), "{ran:?}");
    assert_eq!(
        ran.stderr.matches("hasn't updated checkpoint").count(),
        1,
        "{ran:?}"
    );
    world.ok("doctor");
    let inbox = world.agent_ok("Agent-Primary", "mail inbox").stdout;
    assert_eq!(
        inbox.matches("STALE (likely crashed)").count(),
        1,
        "{inbox}"
    );
}

#[test]
fn fleet_agents_resume() {
    let world = epic();
    minutes(&world, 45);
    world
        .ok("agents resume Secondary-A --session fed654cba321")
        .expect(expect![[r#"
            ✅ Checkpoint found! Resuming work...

            **Previous Session:**
            - Stage: S2.P2 (Specification)
            - Last Update: 12:00 (45 minutes ago)
            - Status: IN_PROGRESS

            **Current State:**
            - spec.md: Started
            - feature_02_team_penalty/spec.md

            **Resuming from:** Writing Acceptance Criteria in spec.md

            **Next Steps:**
            1. Complete Acceptance Criteria section
            2. Finish checklist.md questions
            3. Transition to S2.P3

            I'll continue where I left off...

            Instructions: Resume from S2.P2 Specification Phase. spec.md is 80% complete.

            Continues with 1 sortie, 1 lock and 0 messages.
            Act as it with: export FLEET_AGENT=Secondary-A FLEET_EPOCH=2 FLEET_SESSION=fed654cba321
        "#]]);
    let old = world.line("heartbeat").agent("Secondary-A");
    let old = old.env("FLEET_SESSION", "abc123def456").run();
    assert_eq!(
        (old.code, old.stderr.contains("another has taken its place")),
        (4, true)
    );
    let new = world.line("heartbeat").agent("Secondary-A");
    assert_eq!(new.env("FLEET_SESSION", "fed654cba321").run().code, 0);
    // An agent that comes back by itself knows its session, and asking twice is harmless.
    for _ in 0..2 {
        let own = world.line("agents resume Secondary-A --json");
        let own = own.agent("Secondary-A").env("FLEET_SESSION", "third").run();
        let agent = &own.json()["agent"];
        assert_eq!(
            (agent["epoch"].as_u64(), agent["session_id"].as_str()),
            (Some(3), Some("third"))
        );
    }
    let made = world.json("agents resume Secondary-A");
    assert_eq!(made["agent"]["session_id"].as_str().unwrap().len(), 36);
    assert_eq!(made["checkpoint"]["session_id"], "third");
}

#[test]
fn fleet_agents_takeover_and_handoff() {
    let world = epic();
    world.ok("handoff Secondary-A").expect(expect![[r#"
        I'm taking over feature_02_team_penalty from crashed Secondary-A.

        Checkpoint File: agent_checkpoints/secondary_a.json
        Resume from: S2.P2 Specification Phase
    "#]]);
    world
        .fleet("agents takeover Secondary-A Secondary-C")
        .expect(expect![[r#"
            [stderr]
            error: Secondary-A is not known to be gone: last sign 2s ago

            hint: nothing was changed; ask it with `fleet mail send --to Secondary-A --subject "Still working?"`
                  to do it anyway: `fleet agents takeover Secondary-A Secondary-C --force`
            [exit 4]
        "#]]);
    minutes(&world, 61);
    world
        .ok("agents takeover Secondary-A Secondary-C")
        .expect(expect![[r#"
            I'm taking over feature_02_team_penalty from crashed Secondary-A.

            Checkpoint File: agent_checkpoints/archive/secondary_a_crashed_1767531671.json
            Resume from: S2.P2 Specification Phase

            Secondary-C has 1 sortie, 1 lock and 0 messages of Secondary-A (last sign 1h 1m ago).
            Its briefing: fleet context --agent Secondary-C
            Act as it with: export FLEET_AGENT=Secondary-C FLEET_EPOCH=1
        "#]]);
    world.ok("handoff Secondary-A").expect(expect![[r#"
        I'm taking over feature_02_team_penalty from crashed Secondary-A.

        Checkpoint File: agent_checkpoints/archive/secondary_a_crashed_1767531671.json
        Resume from: S2.P2 Specification Phase
    "#]]);
    let handoff = world.json("handoff Secondary-A");
    assert_eq!(handoff["to"], "Secondary-C");
    assert_eq!(
        handoff["checkpoint"]["recovery_instructions"],
        "Resume from S2.P2 Specification Phase. spec.md is 80% complete."
    );
    world
        .fleet("agents takeover Secondary-A Secondary-D")
        .expect(expect![[r#"
            [stderr]
            error: Secondary-C has taken over from Secondary-A already

            hint: see its handoff with `fleet handoff Secondary-A`; to take over from it: `fleet agents takeover Secondary-C NEW`
            [exit 4]
        "#]]);
    world
        .fleet("agents takeover Secondary-C Secondary-C")
        .expect(expect![[r#"
            [stderr]
            error: Secondary-C cannot take over from itself

            hint: bring it back in a new session with `fleet agents resume Secondary-C`
            [exit 2]
        "#]]);
}

#[test]
fn fleet_agents_restart() {
    let world = epic();
    minutes(&world, 61);
    let before = world.rev();
    world
        .fleet("agents restart Secondary-A")
        .expect(expect![[r#"
            [stderr]
            error: this would discard the progress of Secondary-A on 1 sortie, and release 1 lock, and needs confirmation

            hint: nothing was changed; run `fleet agents restart Secondary-A -y`
            [exit 2]
        "#]]);
    assert_eq!(world.rev(), before);
    let no = on_a_terminal(&world, "agents restart Secondary-A", &[], "n\n");
    assert!(no.stdout.contains("Continue? [y/N]"), "{no:?}");
    assert_eq!((no.code, world.rev()), (2, before));
    world
        .ok("agents restart Secondary-A -y")
        .expect(expect![[r#"
            Secondary-A begins from scratch: 1 sortie to begin again, 1 lock released.
            Begin with: fleet agents register Secondary-A
        "#]]);
    world.fleet("agents restart nobody").expect(expect![[r#"
        [stderr]
        error: there is no agent `nobody`

        hint: known agents: Agent-Primary, Secondary-A
        [exit 3]
    "#]]);
    world.ok("sorties list").expect(expect![[r#"
        ID        STATUS     OWNER  CHANGED                   TITLE
        srt-b851  ○ pending  -      2026-01-04T13:01:14.000Z  spec.md
        srt-5689  ○ pending  -      2026-01-04T12:00:03.000Z  checklist.md
    "#]]);
}

fn read(world: &World, name: &str) -> serde_json::Value {
    let path = world.repo().join("agent_checkpoints").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn an_agents_file_may_be_called_after_its_id() {
    let world = epic();
    let mut document = read(&world, "secondary_a.json");
    document["agent_id"] = "Secondary-B".into();
    document["session_id"] = "b1".into();
    document["current_step"] = "Reading the guide".into();
    world.write("agent_checkpoints/Secondary-B.json", &document.to_string());
    world.ok("status");
    let shown = world.json("agents show Secondary-B");
    assert_eq!(shown["agent"]["current_step"], "Reading the guide");
    assert_eq!(
        read(&world, "secondary_b.json")["current_step"],
        "Reading the guide"
    );
    // One that is about somebody else is not taken in, and that is said once.
    world.write("agent_checkpoints/notes.json", &document.to_string());
    let ran = world.fleet("agents monitor");
    assert!(
        ran.stderr
            .contains("it is about Secondary-B, whose file is agent_checkpoints/secondary_b.json"),
        "{ran:?}"
    );
    assert_eq!(world.fleet("agents monitor").stderr, "");
}

#[test]
fn every_session_has_an_id() {
    let world = epic();
    world.ok("agents register Secondary-B");
    world.agent_ok("Secondary-B", "agents update --step \"Reading the guide\"");
    let first = read(&world, "secondary_b.json");
    let id = first["session_id"].as_str().unwrap().to_owned();
    assert!(id.ends_with("-1"), "{id}");
    // Its own file, written on by its own session, is taken in as before.
    let mut next = first.clone();
    next["current_step"] = "Writing".into();
    world.pass(60);
    next["last_checkpoint"] = "2026-01-04T12:00:40Z".into();
    world.write("agent_checkpoints/secondary_b.json", &next.to_string());
    world.ok("status");
    let shown = world.json("agents show Secondary-B");
    assert_eq!(
        (&shown["agent"]["current_step"], &shown["agent"]["epoch"]),
        (&"Writing".into(), &1.into())
    );
    world.ok("agents register Secondary-B");
    world.agent_ok("Secondary-B", "agents update --step \"Again\"");
    let second = read(&world, "secondary_b.json");
    assert!(second["session_id"].as_str().unwrap().ends_with("-2"));
    // What the session before still writes is not taken in.
    world.pass(60);
    next["last_checkpoint"] = "2026-01-04T12:01:50Z".into();
    world.write("agent_checkpoints/secondary_b.json", &next.to_string());
    let said = world.fleet("status").stderr;
    assert!(
        said.contains("the session of Secondary-B that wrote this is over"),
        "{said}"
    );
}

#[test]
fn a_file_that_is_moved_away_by_hand_stays_away() {
    let world = epic();
    let (from, to) = (
        world.repo().join("agent_checkpoints/secondary_a.json"),
        world
            .repo()
            .join("agent_checkpoints/secondary_a_crashed_1767528100.json"),
    );
    std::fs::rename(&from, &to).unwrap();
    let ran = world.fleet("agents list");
    assert!(
        ran.stderr
            .contains("is not written again until Secondary-A acts"),
        "{ran:?}"
    );
    // What others do brings it not back, and it is said once.
    assert_eq!(world.ok("note decision \"Two columns\"").stderr, "");
    assert!(!from.exists() && to.exists());
    world.agent_ok("Secondary-A", "agents update --step \"Back again\"");
    assert_eq!(
        read(&world, "secondary_a.json")["current_step"],
        "Back again"
    );
    assert!(to.exists());
}
