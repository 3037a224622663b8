//! Locks over time: waiting for them, giving them back, and holders that are gone.

use expect_test::expect;
use flightline_testkit::program::ChildGuard;

use crate::cli::running::until;
use crate::cli::world::World;

#[test]
fn waiting_ends_when_the_holder_lets_go() {
    let world = World::new();
    world.agent_ok("ada", "locks acquire src");
    let waiting = world
        .line("locks acquire src/a.rs --wait 50s")
        .agent("bob")
        .spawn();
    until("bob to wait", || waiting.has_said("waiting"));
    world.agent_ok("ada", "locks release src");
    waiting.wait().expect(expect![[r#"
        Locked src/a.rs for bob (fence 5, lapses 30m after your last sign of life)
        [stderr]
        waiting for the lock …
    "#]]);
    assert_eq!(world.json("locks list")[0]["holder"], "bob");
}

#[test]
fn waiting_too_short_says_how_long_it_waited() {
    let world = World::new();
    world.agent_ok("ada", "locks acquire src --purpose \"big change\"");
    world.agent("bob", "locks acquire src/a.rs --wait 1s").expect(expect![[r#"
        [stderr]
        waiting for the lock …
        error: timed out after 1s: `src/a.rs` overlaps `src`, locked by ada ("big change", last sign 1s ago)

        hint: wait for it with `fleet locks acquire src/a.rs --wait 15m`
              or ask with `fleet mail send --to ada --subject "Need src/a.rs"`
        [exit 4]
    "#]]);
    let json = world.agent("bob", "locks acquire src/a.rs --wait 1s --json");
    assert_eq!((json.code, json.error_code().as_str()), (4, "lock_held"));
    assert_eq!(json.stderr, "waiting for the lock …\n");
    assert_eq!(
        world
            .agent("bob", "locks acquire src/a.rs --wait 1ms -q --json")
            .stderr,
        ""
    );
    assert_eq!(world.json("locks list").as_array().unwrap().len(), 1);
}

/// Has bob wait for ada's lock while she is not heard of again; every second without a write is a pause. Whatever she is, the
/// lock is judged by how long bob has watched.
fn outlast_ada(world: &World) {
    world.ok("config set liveness.downtime 1s");
    world.agent_ok("ada", "locks acquire src --ttl 2s");
    let waited = world
        .line("locks acquire src --wait 50s")
        .agent("bob")
        .without("FLEET_TEST_NOW")
        .run();
    assert_eq!(waited.code, 0, "{waited:?}");
    let told = world.ok("events list --type lock_reclaimed --json").stdout;
    assert!(told.contains("ada gave no sign of life for 2s"), "{told}");
}

#[test]
fn waiting_ends_when_the_time_to_live_of_a_silent_holder_is_over() {
    let world = World::new().local_only("a server has a clock of its own");
    outlast_ada(&world);
}

#[test]
fn a_process_that_is_frozen_keeps_its_lock_no_longer_than_the_time_to_live() {
    let world = World::new().local_only("a server has a clock of its own");
    let process = ChildGuard::sleeper();
    world.ok(&format!("agents register ada --pid {}", process.id()));
    outlast_ada(&world);
}

#[test]
fn a_lock_of_a_process_that_ended_is_taken_at_once() {
    let world = World::new();
    let mut process = ChildGuard::sleeper();
    let pid = process.id();
    world.ok(&format!("agents register ada --pid {pid}"));
    world.agent_ok("ada", "locks acquire src/a.rs");
    // While it runs it keeps its lock for the time to live, which begins with the first look after a pause.
    world.pass(86_400);
    let kept = world.agent("bob", "locks acquire src/a.rs");
    assert!(kept.refused(4).contains("locked by ada"), "{kept:?}");
    process.end();
    let anonymous = |text: String| text.replace(&pid.to_string(), "PID");
    let status = anonymous(world.ok("status").text());
    expect![[r#"
        No mission yet.
        Next: fleet missions create "…" --sortie "…"
        Agents     ada dead (1d)
        Locks      src/a.rs (ada)
        Mail       none
        Needs you  ada is dead (process PID is gone) and holds src/a.rs   → fleet agents show ada
    "#]]
    .assert_eq(&status);
    world
        .agent("bob", "locks acquire src/a.rs")
        .expect(expect![[r#"
        Locked src/a.rs for bob (fence 5, lapses 30m after your last sign of life)
    "#]]);
    let told = anonymous(world.ok("events list --type lock_reclaimed --json").stdout);
    assert!(told.contains("process PID of ada is gone"), "{told}");
    // Nobody who waits is kept waiting by the dead.
    let late = world.fleet(&format!("agents register eve --pid {pid}"));
    assert_eq!(
        anonymous(late.text()),
        "[stderr]\nerror: there is no process PID on this machine\n\nhint: leave `--pid` out, or give a running one\n[exit 2]\n"
    );
}

#[test]
fn a_lock_lapses_after_silence_and_not_before() {
    let world = World::new();
    world.agent_ok("ada", "locks acquire src/a.rs --ttl 20m");
    // Somebody is there all the time: the whole fleet was not asleep.
    for _ in 0..3 {
        world.pass(300);
        world.agent_ok("bob", "agents update --step walking");
    }
    world.agent("bob", "locks acquire src/a.rs").refused(4);
    world.agent_ok("ada", "heartbeat");
    for _ in 0..4 {
        world.agent("bob", "locks acquire src/a.rs").refused(4);
        world.pass(300);
    }
    world.agent_ok("bob", "locks acquire src/a.rs");
    world.agent("ada", "locks renew src/a.rs").expect(expect![[r#"
        [stderr]
        error: the lock on `src/a.rs` is bob's

        hint: only its holder can renew or release it; take it with `fleet locks steal PATH --reason "…"`
        [exit 4]
    "#]]);
}

#[test]
fn a_fence_that_is_void_is_refused() {
    let world = World::new();
    let taken = world.agent("ada", "locks acquire src/a.rs --json");
    let fence = taken.json()[0]["lock"]["fence"].as_u64().unwrap();
    world.agent_ok(
        "ada",
        &format!("locks renew src/a.rs --fence {fence} --ttl 1h"),
    );
    let again = world.agent("ada", "locks acquire src/a.rs --json");
    let newer = again.json()[0]["lock"]["fence"].as_u64().unwrap();
    assert!(newer > fence);
    for act in ["renew", "release"] {
        let ran = world.agent(
            "ada",
            &format!("locks {act} src/a.rs --fence {fence} --json"),
        );
        assert_eq!(
            (ran.code, ran.error_code().as_str()),
            (4, "fenced"),
            "{act}"
        );
    }
    world.agent_ok("ada", &format!("locks release src/a.rs --fence {newer}"));
    world
        .agent("ada", "locks release --all")
        .expect(expect![[r#"
        Nothing was held
    "#]]);
}

#[test]
fn a_stolen_lock_is_told_to_its_holder() {
    let world = World::new();
    world.agent_ok("ada", "locks acquire src/a.rs");
    world
        .agent("bob", "locks steal src/a.rs --reason \"the build is red\"")
        .expect(expect![[r#"
        Took over src/a.rs for bob (fence 7, lapses 30m after your last sign of life)
    "#]]);
    let mail = world.agent("ada", "mail inbox --json").json();
    let id = mail[0]["message"]["id"].as_str().unwrap().to_owned();
    world
        .agent("ada", &format!("mail read {id}"))
        .expect(expect![[r#"
        Your lock on src/a.rs was taken   msg-b851
        From flightline to ada (delivered), 2026-01-04T12:00:03.000Z

          bob took it: the build is red. Stop writing there; its fence 2 is void.
    "#]]);
    world.agent("ada", "locks release src/a.rs").refused(4);
}

#[test]
fn a_time_to_live_makes_sense_or_is_refused() {
    let world = World::new();
    world
        .agent("ada", "locks acquire src --ttl soon")
        .expect(expect![[r#"
            [stderr]
            error: `--ttl <TTL>`: `soon` is not a duration: write `90s`, `15m`, `12h` or `7d`

            hint: see `fleet locks acquire --help`
            [exit 2]
        "#]]);
    for wrong in ["0s", "8d"] {
        let ran = world.agent("ada", &format!("locks acquire src --ttl {wrong}"));
        assert!(ran.refused(2).contains("between 1s and 7d"), "{ran:?}");
    }
}

#[test]
fn a_claim_with_its_files_is_all_or_nothing() {
    let world = World::new();
    world.ok("missions create X");
    world.ok("sorties add Work --file src/a.rs --file src/b.rs");
    world.agent_ok("bob", "locks acquire src/b.rs");
    let id = world.sortie("Work");
    world
        .agent("ada", &format!("sorties claim {id} --lock"))
        .refused(4);
    world
        .agent("ada", "sorties claim --next")
        .expect(expect![[r#"
            [stderr]
            error: no sortie of msn-1166f932 ("X") is ready

            hint: srt-1a1a75cb ("Work") needs src/b.rs, which bob has locked
                  wait for one with `fleet sorties claim --next --wait 15m`
            [exit 4]
        "#]]);
    assert_eq!(world.json("sorties list")[0]["status"], "pending");
    world.agent_ok("bob", "locks release --all");
    world.agent_ok("ada", &format!("sorties claim {id} --lock"));
    assert_eq!(
        world
            .json("locks list --holder ada")
            .as_array()
            .unwrap()
            .len(),
        2
    );
}
