//! Seed E's own example of a recovery file, as the next session finds it.

use expect_test::expect;

use crate::cli::world::World;

/// The seed's own example, as a session that nobody knows wrote it a minute ago.
fn example() -> String {
    let example =
        include_str!("../../../../flightline-core/tests/it/dialects/data/recovery_example.json");
    let fresh = example.replace("2025-10-30T15:30:00Z", "2026-01-04T11:59:00Z");
    assert_ne!(fresh, example);
    fresh
}

#[test]
fn the_seeds_example_is_resumed_by_the_next_session() {
    let world = World::empty();
    world.ok("init --preset recovery");
    world.ok("config set recovery.stack_id fastapi");
    world.write("checkpoints/latest.json", &example());
    world.fleet("sorties list").expect(expect![[r#"
        ID        STATUS       OWNER  CHANGED                   TITLE
        srt-b851  ✓ completed  -      2026-01-04T12:00:03.000Z  T001
        srt-5689  ✓ completed  -      2026-01-04T12:00:03.000Z  T002
        srt-f4c0  ✓ completed  -      2026-01-04T12:00:03.000Z  T003
        srt-92f8  ✓ completed  -      2026-01-04T12:00:03.000Z  T004
        srt-312f  ○ pending    -      2026-01-04T12:00:03.000Z  T005
        srt-cf67  ○ pending    -      2026-01-04T12:00:03.000Z  T006: Add rate limiting
        srt-6d9e  ○ pending    -      2026-01-04T12:00:03.000Z  T007: Implement caching
        srt-0bd6  ○ pending    -      2026-01-04T12:00:03.000Z  T008: Setup monitoring
        [stderr]
        took in checkpoints/latest.json (checkpoint of Complete authentication system): new
    "#]]);
    let ran = world.fleet("agents register ada --session next");
    assert!(ran.stdout.contains("in recovery mode"), "{ran:?}");
    assert!(ran.stdout.contains("fleet context --agent ada"), "{ran:?}");
    let ran = world.agent("ada", "context");
    assert!(
        ran.stdout
            .contains("complete T005 JWT refresh implementation"),
        "{ran:?}"
    );
    assert!(
        ran.stdout.contains("Finish T005: JWT refresh token logic"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("Run pytest suite"), "{ran:?}");
    assert!(ran.stdout.contains("recovery"), "{ran:?}");
    // It is offered once: another session begins with something else.
    let ran = world.fleet("agents register bob --session other");
    assert!(!ran.stdout.contains("continues"), "{ran:?}");
    let ran = world.agent("bob", "sorties claim --next");
    assert!(ran.stdout.contains("T006"), "{ran:?}");
    let latest = || {
        let text = std::fs::read_to_string(world.repo().join("checkpoints/latest.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    assert_eq!(latest()["timestamp"], "2026-01-04T11:59:00Z");
    // Completing the task is the full sync: back to normal, and nothing resumes twice.
    let ran = world.agent("ada", "sorties complete T005");
    assert!(ran.stdout.contains("completed"), "{ran:?}");
    assert_eq!(latest()["timestamp"], "");
    let ran = world.fleet("agents show ada");
    assert!(!ran.stdout.contains("recovery"), "{ran:?}");
    assert!(!ran.stdout.contains("JWT"), "{ran:?}");
}

#[test]
fn the_agent_that_claims_the_interrupted_task_goes_on_from_the_seeds_example() {
    let world = World::empty();
    world.ok("init --preset recovery");
    world.write("checkpoints/latest.json", &example());
    let ran = world.agent("ada", "sorties claim --next");
    assert!(ran.stdout.contains("T005"), "{ran:?}");
    assert!(
        ran.stdout.contains("Finish T005: JWT refresh token logic"),
        "{ran:?}"
    );
    let shown = world.json("agents show ada");
    assert_eq!(shown["agent"]["mode"], "recovery");
}

#[test]
fn an_example_of_another_stack_falls_back_and_says_so() {
    let world = World::empty();
    world.ok("init --preset recovery");
    world.ok("config set recovery.stack_id django");
    world.write("checkpoints/latest.json", &example());
    let ran = world.fleet("agents register ada --session next");
    assert!(
        ran.stderr
            .contains("its STACK_ID is `fastapi`, and the project's is `django`"),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("is kept"), "{ran:?}");
    let ran = world.agent("ada", "sorties claim --next");
    assert!(
        ran.stdout
            .contains("Checkpoint resume failed: its STACK_ID is `fastapi`"),
        "{ran:?}"
    );
    let shown = world.json("agents show ada");
    assert!(shown["agent"]["mode"].is_null(), "normal: {shown}");
    let logged = world.json("events list --type resume_fell_back");
    assert_eq!(logged["events"].as_array().unwrap().len(), 2);
}

#[test]
fn an_example_of_a_day_ago_falls_back() {
    let world = World::empty();
    world.ok("init --preset recovery");
    let old = example().replace("2026-01-04T11:59:00Z", "2026-01-03T11:59:00Z");
    world.write("checkpoints/latest.json", &old);
    let ran = world.fleet("agents register ada --session next");
    assert!(
        ran.stderr.contains("too old to be resumed from by itself"),
        "{ran:?}"
    );
}
