//! Earlier incarnations of an agent: whatever they try to write is refused, and nothing is written.

use expect_test::expect;

use crate::cli::running::Fleet;
use crate::cli::stage;
use crate::cli::world::World;

/// Every kind of write, as ada could do it on the stage.
const WRITES: [&str; 49] = [
    "missions create New",
    "missions edit {Later} --title Sooner",
    "missions start {Later}",
    "missions pause",
    "missions complete {Quick}",
    "missions fail --reason rain",
    "missions archive {Later}",
    "missions transition planning",
    "missions use {Later}",
    "sorties add New",
    "sorties claim {Login}",
    "sorties claim --next",
    "sorties assign {Login} --to bob",
    "sorties reassign {Model} --to bob",
    "sorties start {Given}",
    "sorties update {Model} --note half",
    "sorties error {Model} --message boom",
    "sorties error {Model} --clear",
    "sorties block {Model} --reason rain",
    "sorties unblock {Stuck}",
    "sorties resume {Model}",
    "sorties complete {Model}",
    "sorties fail {Model} --reason rain",
    "sorties release {Model}",
    "sorties review {Done} --score 9",
    "sorties approve {Done}",
    "sorties reject {Done} --reason slow",
    "agents update --step plan",
    "agents retire idle",
    "heartbeat",
    "locks acquire src/b.rs",
    "locks acquire src/b.rs --wait 1s",
    "locks renew src/a.rs",
    "locks release src/a.rs",
    "locks release --all",
    "locks steal src/a.rs --reason urgent",
    "mail send --to bob --subject Hello",
    "mail inbox",
    "mail read {Hello}",
    "mail reply {Hello} --body Yes",
    "mail ack {Hello}",
    "mail ack --all",
    "mail requeue {Hello}",
    "note decision Rust",
    "note close {Lesson}",
    "note edit {Lesson} Anew",
    "note withdraw {Lesson}",
    "effect begin release",
    "effect done deploy",
];

/// A world where ada has come back in a second session.
fn ada_is_back() -> World {
    let world = stage::world();
    world.ok("agents register ada --session first");
    world.ok("agents register ada --session second");
    world
}

fn check_refused(stale: impl Fn(Fleet<'_>) -> Fleet<'_>, told: &str) {
    let world = ada_is_back();
    let (before, signs) = (
        world.rev(),
        world.json("agents show ada")["last_sign"].clone(),
    );
    for typed in WRITES {
        let typed = stage::named(typed);
        let said = stale(world.line(&typed).agent("ada")).run();
        assert!(
            said.refused(4).starts_with(&format!("error: {told}\n")),
            "{typed}: {said:?}"
        );
        let json = stale(world.line(&format!("{typed} --json")).agent("ada")).run();
        assert_eq!(
            (json.code, json.error_code().as_str()),
            (4, "fenced"),
            "{typed}"
        );
        // A key does not help an old incarnation either.
        let keyed = stale(
            world
                .line(&format!("{typed} --idempotency-key k"))
                .agent("ada"),
        )
        .run();
        keyed.refused(4);
    }
    assert_eq!(world.rev(), before, "an old incarnation wrote");
    let seen = world.json("agents show ada")["last_sign"].clone();
    assert_eq!(seen, signs, "an old incarnation passed for a sign of life");
}

#[test]
fn an_old_epoch_is_refused_on_every_write() {
    check_refused(
        |command| command.env("FLEET_EPOCH", "2"),
        "epoch 2 of ada is over: epoch 3 has taken its place",
    );
}

#[test]
fn an_old_session_is_refused_on_every_write() {
    check_refused(
        |command| command.env("FLEET_SESSION", "first"),
        "this session of ada is over: another has taken its place",
    );
}

#[test]
fn the_present_incarnation_is_not_refused() {
    let as_now = |command: Fleet<'_>| -> crate::cli::running::Ran {
        let command = command.agent("ada").env("FLEET_EPOCH", "3");
        command.env("FLEET_SESSION", "second").run()
    };
    // Each by itself: many of them exclude each other.
    for typed in [
        "sorties complete {Model}",
        "locks acquire src/b.rs",
        "heartbeat",
        "mail inbox",
        "note lesson X",
    ] {
        let ran = as_now(ada_is_back().line(&stage::named(typed)));
        assert_eq!(ran.code, 0, "{typed}: {ran:?}");
    }
}

#[test]
fn an_old_incarnation_is_told_how_to_come_back() {
    let world = ada_is_back();
    let stale = |typed: &str| world.line(typed).agent("ada").env("FLEET_EPOCH", "1").run();
    stale("note lesson X").expect(expect![[r#"
        [stderr]
        error: epoch 1 of ada is over: epoch 3 has taken its place

        hint: nothing was written; start a new session with `fleet agents register ada`
        [exit 4]
    "#]]);
    // Looking is allowed.
    assert_eq!(stale("status").code, 0);
    assert_eq!(stale("sorties list").code, 0);
    world.fleet("agents register ada").expect(expect![[r#"
        ada  specialist  epoch 4
        Act as it with: export FLEET_AGENT=ada FLEET_EPOCH=4
        It has work from before. Its briefing: fleet context --agent ada
    "#]]);
    let back = world
        .line("note lesson X")
        .agent("ada")
        .env("FLEET_EPOCH", "4")
        .run();
    assert_eq!(back.code, 0, "{back:?}");
}

#[test]
fn a_session_that_registers_again_keeps_its_epoch() {
    let world = ada_is_back();
    let again = world.json("agents register ada --session second");
    assert_eq!(again["agent"]["epoch"], 3);
    let other = world.json("agents register ada --session third");
    assert_eq!(other["agent"]["epoch"], 4);
}

#[test]
fn an_epoch_that_is_not_a_number_is_refused() {
    let world = World::with_sorties(&["Model"]);
    for wrong in ["soon", "-1", "1.5", "99999999999999999999999"] {
        for typed in ["sorties claim --next", "heartbeat", "status"] {
            let ran = world
                .line(typed)
                .agent("ada")
                .env("FLEET_EPOCH", wrong)
                .run();
            let told = format!("error: FLEET_EPOCH is `{wrong}`, which is not a number\n");
            assert!(ran.refused(2).starts_with(&told), "{typed}: {ran:?}");
        }
    }
    let shown = world.line("heartbeat").env("FLEET_EPOCH", "x").run();
    shown.expect(expect![[r#"
        [stderr]
        error: FLEET_EPOCH is `x`, which is not a number

        hint: `fleet agents register NAME` says which to set
        [exit 2]
    "#]]);
}

#[test]
fn who_knows_an_epoch_of_an_unknown_agent_is_not_taken_for_a_new_one() {
    let world = World::with_sorties(&["Model"]);
    let ran = world
        .line("sorties claim --next")
        .agent("ada")
        .env("FLEET_EPOCH", "3")
        .run();
    ran.expect(expect![[r#"
        [stderr]
        error: epoch 3 of ada is over: no agent of that name is known here

        hint: nothing was written; start a new session with `fleet agents register ada`
        [exit 4]
    "#]]);
    assert_eq!(world.json("agents list"), serde_json::json!([]));
}
