//! Locks on patterns of paths, and how long locks stay.

use std::process::Command;

use expect_test::expect;

use crate::cli::world::World;

#[test]
fn a_pattern_locks_every_path_it_can_match() {
    let world = World::new();
    world
        .agent_ok("ada", "locks acquire src/*.rs docs/**")
        .expect(expect![[r#"
            Locked src/*.rs for ada (fence 2, lapses 30m after your last sign of life)
            Locked docs/** for ada (fence 3, lapses 30m after your last sign of life)
        "#]]);
    world
        .agent("bob", "locks acquire src/a.rs")
        .expect(expect![[r#"
            [stderr]
            error: `src/a.rs` overlaps `src/*.rs`, locked by ada (last sign 1s ago)

            hint: wait for it with `fleet locks acquire src/a.rs --wait 15m`
                  or ask with `fleet mail send --to ada --subject "Need src/a.rs"`
            [exit 4]
        "#]]);
    for taken in [
        "src",
        "src/a*",
        "**/b.rs",
        "docs/deep/x.md",
        "docs",
        "d?cs/y",
        "[a-f]ocs/z",
    ] {
        let refused = world.agent("bob", &format!("locks acquire {taken}"));
        assert!(refused.refused(4).contains("locked by ada"), "{refused:?}");
    }
    world
        .agent("bob", "locks check src/b.rs src/b.ts docs/a src/deep/a.rs")
        .expect(expect![[r#"
            ✗ locked  src/b.rs       by ada, who holds src/*.rs
            ✓ free    src/b.ts
            ✗ locked  docs/a         by ada, who holds docs/**
            ✓ free    src/deep/a.rs
            [exit 5]
        "#]]);
    world.agent_ok("bob", "locks acquire src/*.ts src/deep");
    // Of one's own lock on a pattern, a path of it is no lock by itself.
    world
        .agent("ada", "locks release src/a.rs")
        .expect(expect![[r#"
            [stderr]
            error: there is no lock on `src/a.rs` alone: `src/*.rs` covers it

            hint: name that one: `'src/*.rs'`
            [exit 3]
        "#]]);
    world.agent_ok("ada", "locks release src/*.rs");
    world.agent_ok("bob", "locks acquire src/a.rs");
    world.agent("ada", "locks acquire src/**/*.rs").refused(4);
    world.agent_ok("ada", "locks steal src/**/*.rs --reason \"a large change\"");
    let held = world.json("locks list --holder bob");
    let held: Vec<&str> = held
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|view| view["lock"]["file"].as_str())
        .collect();
    assert_eq!(held, ["src/*.ts"], "the other two are in the way");
}

#[test]
fn a_folder_whose_name_is_like_a_files_is_locked_with_what_is_in_it() {
    let world = World::new();
    world.write("conf.d/a.conf", "");
    world.agent_ok("ada", "locks acquire **/*.conf");
    world.agent_ok("bob", "locks acquire README.md");
    let refused = world.agent("bob", "locks acquire conf.d");
    assert!(
        refused
            .refused(4)
            .contains("`conf.d/**` overlaps `**/*.conf`")
    );
    world.agent_ok("ada", "locks release --all");
    world.agent_ok("bob", "locks acquire conf.d");
    world.agent_ok("bob", "locks release conf.d");
}

#[test]
fn a_file_whose_name_looks_like_a_pattern_can_be_locked() {
    let world = World::new();
    world.agent_ok("ada", "locks acquire app/[slug]/page.tsx");
    for taken in ["app/[slug]/page.tsx", "app/[slug]", "app/s/page.tsx"] {
        world
            .agent("bob", &format!("locks acquire {taken}"))
            .refused(4);
    }
    world.agent_ok("ada", "locks release --all");
    // After a backslash it is itself and nothing else.
    world.agent_ok("ada", r"locks acquire app/\[slug\]/page.tsx");
    world
        .agent("bob", "locks acquire app/[slug]/page.tsx")
        .refused(4);
    world.agent_ok("bob", "locks acquire app/s/page.tsx");
    let help = world.ok("help locks").stdout;
    assert!(help.contains("A backslash escapes"), "{help}");
}

#[test]
fn of_two_that_race_for_a_pattern_and_a_path_in_it_one_wins() {
    for _ in 0..4 {
        let world = World::new();
        for name in ["ada", "bob", "eve", "dan"] {
            world.ok(&format!("agents register {name}"));
        }
        let racing: Vec<_> = [
            ("ada", "src/*.rs"),
            ("bob", "src/a.rs"),
            ("eve", "**/a.*"),
            ("dan", "src/[a-c].rs"),
        ]
        .into_iter()
        .map(|(name, path)| {
            world
                .line(&format!("locks acquire {path}"))
                .agent(name)
                .spawn()
        })
        .collect();
        let codes: Vec<i32> = racing.into_iter().map(|it| it.wait().code).collect();
        let won = codes.iter().filter(|code| **code == 0).count();
        assert_eq!(won, 1, "{codes:?}");
        assert_eq!(world.json("locks list").as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_lock_goes_with_its_sortie() {
    let world = World::with_sorties(&["Model", "Endpoint", "Tests", "Docs"]);
    let claimed = |title: &str, path: &str| {
        let id = world.sortie(title);
        world.agent_ok("ada", &format!("sorties claim {id}"));
        world.agent_ok("ada", &format!("locks acquire {path} --sortie {id}"));
        id
    };
    let model = claimed("Model", "src/model.rs");
    world
        .agent_ok("ada", &format!("sorties complete {model}"))
        .expect(expect![[r#"
            ✓ completed  srt-af9e  Model   ada   100 %   (mission 25 %)   checkpoint chk-3434eb97
              Released src/model.rs of ada
        "#]]);
    let endpoint = claimed("Endpoint", "src/endpoint.rs");
    let failed = world.agent_ok(
        "ada",
        &format!("sorties fail {endpoint} --reason \"no way\""),
    );
    assert!(failed.stdout.contains("Released src/endpoint.rs of ada"));
    let tests = claimed("Tests", "src/tests.rs");
    let released = world.agent_ok("ada", &format!("sorties release {tests}"));
    assert!(released.stdout.contains("Released src/tests.rs of ada"));
    let docs = claimed("Docs", "docs");
    let kept = world.agent_ok("ada", &format!("sorties complete {docs} --keep"));
    assert!(!kept.stdout.contains("Released"), "{kept:?}");
    assert_eq!(world.json("locks list")[0]["lock"]["file"], "docs");
    // What belongs to no sortie goes with the mission, at the latest.
    world.agent_ok("bob", "locks acquire README.md");
    let failed = world.ok("mission fail --reason \"no time\"");
    for path in ["docs of ada", "README.md of bob"] {
        assert!(
            failed.stdout.contains(&format!("Released {path}")),
            "{failed:?}"
        );
    }
    world.ok("locks list").expect(expect![[r#"
        Nothing is locked.
    "#]]);
}

#[test]
fn a_lock_goes_when_its_sortie_is_given_to_another() {
    let world = World::with_sorties(&["Model"]);
    let id = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties claim {id}"));
    world.agent_ok("ada", "locks acquire src/model.rs");
    world.ok("agents register bob");
    let given = world.ok(&format!("sorties reassign {id} --to bob"));
    assert!(
        given.stdout.contains("Released src/model.rs of ada"),
        "{given:?}"
    );
    world.agent_ok("bob", "locks acquire src/model.rs");
}

#[test]
fn a_lapsed_lock_is_granted_anew_by_resuming() {
    let world = World::with_sorties(&["Model", "Tests"]);
    let id = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties claim {id}"));
    world.agent_ok("ada", "locks acquire src/model.rs --ttl 5s");
    world.ok("checkpoint");
    let fence = world.json("locks list")[0]["lock"]["fence"].clone();
    world.ok("agents register bob");
    for _ in 0..20 {
        // Somebody else goes on: it is no pause of everything.
        world.agent_ok("bob", "heartbeat");
    }
    assert_eq!(world.json("locks list")[0]["remaining_ms"], 0);
    let resumed = world.ok("resume");
    let said = resumed.text();
    let again = world.json("locks list");
    assert_ne!(again[0]["lock"]["fence"], fence, "{said}");
    assert_eq!(again[0]["remaining_ms"], 4000, "{again}");
    let anew = format!(
        "src/model.rs had lapsed; ada holds it again with fence {}",
        again[0]["lock"]["fence"]
    );
    assert!(said.contains(&anew), "{said}");
    // While it lasts, nobody takes it.
    world.agent("bob", "locks acquire src/model.rs").refused(4);
}

#[test]
fn a_shell_that_registered_is_fenced_when_another_takes_the_name() {
    let world = World::with_sorties(&["Model", "Tests"]);
    let (model, tests) = (world.sortie("Model"), world.sortie("Tests"));
    let fleet = env!("CARGO_BIN_EXE_fleet");
    let shell = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        world.wrapped(shell)
    };
    // Each command is a child of its shell; nobody sets FLEET_EPOCH.
    let old = shell(&format!(
        "{fleet} agents register ada && {fleet} sorties claim {model} --agent ada && touch ready \
         && while ! test -e over; do sleep 0.02; done; {fleet} sorties complete {model} --agent ada; echo $?"
    ))
    .spawn();
    crate::cli::running::until("the first shell to begin", || {
        world.repo().join("ready").exists()
    });
    let new = shell(&format!(
        "{fleet} agents register ada && {fleet} sorties claim {tests} --agent ada && touch over; echo $?"
    ))
    .run();
    assert!(new.stdout.ends_with("0\n"), "{new:?}");
    let old = old.wait();
    assert!(
        old.stderr
            .contains("epoch 1 of ada is over: epoch 2 has taken its place"),
        "{old:?}"
    );
    assert!(old.stdout.ends_with("4\n"), "{old:?}");
    // A shell that never registered it says nothing of an epoch, as before.
    world.agent_ok("ada", &format!("sorties complete {tests}"));
}
