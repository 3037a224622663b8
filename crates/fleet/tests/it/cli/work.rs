//! What the state of the work forbids: wrong moves, taken work, locked paths, paths that lead astray.

use expect_test::expect;

use crate::cli::running::Ran;
use crate::cli::stage;
use crate::cli::world::World;

#[test]
fn an_illegal_move_of_a_sortie_says_which_are_legal() {
    let world = World::with_sorties(&["Model", "Login"]);
    world.agent_ok("ada", "sorties claim --next");
    let id = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties complete {id}"));
    world
        .agent("ada", &format!("sorties block {id} --reason rain"))
        .expect(expect![[r#"
            [stderr]
            error: cannot block srt-af9e72eb ("Model"): it is completed

            hint: from completed it may become: in_progress
            [exit 4]
        "#]]);
    let json = world.agent("ada", &format!("sorties block {id} --reason rain --json"));
    assert_eq!(
        (json.code, json.error_code().as_str()),
        (4, "illegal_transition")
    );
    let details = &json.json()["error"]["details"];
    assert_eq!(details["status"], "completed");
    assert!(
        !details["legal"].as_array().unwrap().is_empty(),
        "{details}"
    );
    // Work that nobody has claimed cannot be done.
    let login = world.sortie("Login");
    world
        .fleet(&format!("sorties complete {login}"))
        .expect(expect![[r#"
            [stderr]
            error: cannot complete srt-4dd5eca5 ("Login"): it is pending and not claimed

            hint: claim it first with `fleet sorties claim srt-4dd5eca5 --agent NAME`
            [exit 4]
        "#]]);
    // The hint is the way out.
    world.agent_ok("bob", &format!("sortie claim {login}"));
    world.agent_ok("bob", &format!("sortie complete {login}"));
}

#[test]
fn an_illegal_move_of_a_mission_says_which_are_legal() {
    let world = World::with_sorties(&["Model"]);
    world.ok("missions fail --reason \"no time\"");
    let id = world.json("missions list")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    world
        .fleet(&format!("missions pause {id}"))
        .expect(expect![[r#"
            [stderr]
            error: msn-1166f932 ("Add login") is failed and cannot become paused

            hint: from failed it may become: in_progress, archived
            [exit 4]
        "#]]);
    world.ok(&format!("missions archive {id}"));
    world
        .fleet(&format!("missions start {id}"))
        .expect(expect![[r#"
            [stderr]
            error: msn-1166f932 ("Add login") is archived and cannot become in_progress

            hint: from archived it may become: nothing
            [exit 4]
        "#]]);
}

#[test]
fn a_workflow_says_where_it_may_go() {
    let world = World::new();
    world.ok("missions create Build --state planning:building --state building:testing,planning --state testing");
    world.ok("missions transition planning");
    world
        .fleet("missions transition testing")
        .expect(expect![[r#"
        [stderr]
        error: `testing` cannot follow `planning`

        hint: after `planning` may come: building
        [exit 4]
    "#]]);
    world
        .fleet("missions transition building --reason \"plan is good\"")
        .expect(expect![[r#"
            msn-1166  planning → building
        "#]]);
}

#[test]
fn work_is_claimed_once() {
    let world = World::with_sorties(&["Model"]);
    let id = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties claim {id}"));
    let before = world.rev();
    world
        .agent("bob", &format!("sorties claim {id}"))
        .expect(expect![[r#"
            [stderr]
            error: srt-af9e72eb ("Model") is ada's

            hint: take the next free one with `fleet sorties claim --next`
            [exit 4]
        "#]]);
    world
        .agent("bob", "sorties claim --next")
        .expect(expect![[r#"
            [stderr]
            error: no sortie of msn-1166f932 ("Add login") is ready

            hint: srt-af9e72eb ("Model") is in progress (ada)
                  wait for one with `fleet sorties claim --next --wait 15m`
            [exit 4]
        "#]]);
    assert_eq!(world.json("sorties list")[0]["assigned_to"], "ada");
    assert_eq!(world.rev(), before);
    // Its owner may ask twice.
    world.agent_ok("ada", &format!("sorties claim {id}"));
    world
        .agent("bob", &format!("sorties complete {id}"))
        .expect(expect![[r#"
            [stderr]
            error: bob cannot complete srt-af9e72eb ("Model"): it is ada's

            hint: ask with `fleet mail send --to ada --subject "…"`
            [exit 4]
        "#]]);
}

#[test]
fn a_folder_and_what_is_in_it_exclude_each_other() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "locks acquire src/models --purpose models");
    world
        .agent("bob", "locks acquire src/models/user.rs")
        .expect(expect![[r#"
            [stderr]
            error: `src/models/user.rs` overlaps `src/models`, locked by ada ("models", last sign 1s ago)

            hint: wait for it with `fleet locks acquire src/models/user.rs --wait 15m`
                  or ask with `fleet mail send --to ada --subject "Need src/models/user.rs"`
            [exit 4]
        "#]]);
    for taken in ["src", ".", "src/models/", "./src/models/a/b.rs"] {
        let json = world.agent("bob", &format!("locks acquire {taken} --json"));
        assert_eq!(
            (json.code, json.error_code().as_str()),
            (4, "lock_held"),
            "{taken}"
        );
        assert_eq!(json.json()["error"]["details"]["holder"], "ada");
        assert_eq!(json.json()["error"]["retryable"], true);
    }
    // All or none: what is free is not taken when the rest is not.
    world
        .agent("bob", "locks acquire docs src/models")
        .refused(4);
    assert_eq!(world.json("locks list").as_array().unwrap().len(), 1);
    // A name that merely begins alike is another.
    world.agent_ok("bob", "locks acquire src/models2 src/model");
}

#[test]
fn checking_a_path_ends_with_five_when_it_is_not_free() {
    let world = World::new();
    world.agent_ok("ada", "locks acquire src/a.rs");
    world
        .agent("ada", "locks check src/a.rs free.rs")
        .expect(expect![[r#"
            ✓ yours  src/a.rs  fence 2
            ✓ free   free.rs
        "#]]);
    world
        .agent("bob", "locks check src/a.rs free.rs")
        .expect(expect![[r#"
            ✗ locked  src/a.rs  by ada
            ✓ free    free.rs
            [exit 5]
        "#]]);
    // Under --json it is an answer, not an error.
    let json = world.agent("bob", "locks check src --json");
    assert_eq!(
        (json.code, &json.json()[0]["free"]),
        (5, &serde_json::json!(false))
    );
    assert_eq!(
        world.agent("bob", "locks check src -q").text(),
        "[exit 5]\n"
    );
}

#[test]
fn paths_that_lead_outside_are_refused() {
    let world = World::new();
    world
        .agent("ada", "locks acquire ../secrets")
        .expect(expect![[r#"
        [stderr]
        error: `../secrets` cannot be used as a path: it leads outside the repository

        hint: paths are inside REPO
        [exit 2]
    "#]]);
    let elsewhere = format!("{}/x", world.home().display());
    for outside in [
        "..",
        "/etc/passwd",
        "a/../../b",
        "/",
        "../repo2",
        &elsewhere,
    ] {
        for command in ["locks acquire", "locks check", "locks release"] {
            let ran = world.agent("ada", &format!("{command} {outside}"));
            let told = ran.refused(2);
            assert!(told.contains("it leads outside the repository"), "{told}");
        }
    }
    // What stays inside is welcome, however it is written.
    let absolute = format!(
        "locks acquire {}/src/../lib/a.rs ./b.rs c//d.rs e/",
        world.repo().display()
    );
    let granted = world.agent("ada", &format!("{absolute} --json"));
    assert_eq!(files(&granted), ["lib/a.rs", "b.rs", "c/d.rs", "e"]);
}

/// The files of the locks in an answer.
fn files(granted: &Ran) -> Vec<String> {
    let locks = granted.json();
    let locks = locks.as_array().unwrap().iter();
    locks
        .map(|view| view["lock"]["file"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn paths_are_read_where_they_are_typed() {
    let world = World::new();
    let below = |typed: &str| world.line(typed).agent("ada").in_folder("src/deep").run();
    let typed = below("locks acquire user.rs ../lib.rs . --json");
    assert_eq!(
        files(&typed),
        ["src/deep/user.rs", "src/lib.rs", "src/deep"]
    );
    assert!(
        below("locks acquire ../../../x")
            .refused(2)
            .contains("leads outside")
    );
    assert_eq!(
        below("locks release user.rs").text(),
        "Released src/deep/user.rs\n"
    );
    // `-C` is as good as being there, and an absolute path is the same everywhere.
    let there = world.agent("ada", "-C src locks release lib.rs");
    assert_eq!(there.text(), "Released src/lib.rs\n");
    world.fleet("missions create X");
    let added = below("sorties add Work --file user.rs --json");
    let id = added.json()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        world.json(&format!("sorties show {id}"))["sortie"]["files"][0],
        "src/deep/user.rs"
    );
}

#[test]
fn a_retired_agent_is_refused_until_it_comes_back() {
    let world = stage::world();
    world.agent("old", "note lesson X").expect(expect![[r#"
        [stderr]
        error: old was retired

        hint: bring it back with `fleet agents register old`
        [exit 4]
    "#]]);
    world.agent("old", "heartbeat").refused(4);
    world.fleet("agents retire old").expect(expect![[r#"
        [stderr]
        error: old was retired already
        [exit 4]
    "#]]);
    world.fleet("mail send --to old --subject Hello").refused(4);
    world.ok("agents register old");
    world.agent_ok("old", "note lesson X");
    // An agent that holds work is not sent away.
    world.fleet("agents retire ada").expect(expect![[r#"
        [stderr]
        error: ada still holds srt-d26c6550, srt-ad12d27d

        hint: give it to another with `fleet sorties reassign srt-d26c6550 --to NAME`, or back with `fleet sorties release srt-d26c6550`
        [exit 4]
    "#]]);
}

#[test]
fn an_effect_is_not_repeated() {
    let world = stage::world();
    // While ada is there, nobody else knows whether it happens.
    world.agent("bob", "effect begin deploy --again").refused(4);
    world.pass(31 * 60);
    world.agent("bob", "effect begin deploy").expect(expect![[r#"
        [stderr]
        error: `deploy` was begun by ada and never reported done

        hint: check whether it happened; if it did: `fleet effect done deploy`, if not: `fleet effect begin deploy --again`
        [exit 4]
    "#]]);
    world.agent_ok("bob", "effect begin deploy --again");
    world.agent_ok("bob", "effect done deploy --result \"v3 is live\"");
    world
        .agent("ada", "effect begin deploy --again")
        .expect(expect![[r#"
            [stderr]
            error: `deploy` was already done by bob at 2026-01-04T12:31:31.000Z

            hint: do not repeat it; see its result with `fleet effect list`
            [exit 4]
        "#]]);
}

#[test]
fn names_that_would_be_taken_for_somebody_else_are_refused() {
    let world = World::new();
    for name in [
        "flightline",
        "user:grace",
        "agt-1234",
        "-x",
        "a/b",
        "a b",
        "ä",
    ] {
        world
            .command(&["agents", "register", "--", name])
            .run()
            .refused(2);
        let acting = world.line("missions create X").agent(name).run();
        assert!(matches!(acting.code, 2 | 3), "{name}: {acting:?}");
    }
    assert_eq!(world.json("agents list"), serde_json::json!([]));
}
