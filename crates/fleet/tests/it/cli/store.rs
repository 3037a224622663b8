//! Stores that cannot be used, and settings that must not be obeyed: each is said, and nothing is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use expect_test::expect;

use crate::cli::world::{World, mode};

#[test]
fn without_a_fleet_it_says_how_to_make_one() {
    let world = World::empty();
    world.fleet("status").expect(expect![[r#"
        [stderr]
        error: there is no `.flightline/` in REPO or above

        hint: create one with `fleet init`
        [exit 3]
    "#]]);
    world.fleet("").refused(3);
    let json = world.fleet("sorties list --json");
    assert_eq!((json.code, json.error_code().as_str()), (3, "no_project"));
    assert_eq!(
        fs::read_dir(world.repo()).unwrap().count(),
        0,
        "something was made"
    );
    // The hint is the way out, and it is found from below as well.
    world.ok("init");
    world.ok("status");
    assert_eq!(world.line("status").in_folder("a/b").run().code, 0);
}

#[test]
fn init_is_harmless_where_a_fleet_is() {
    let world = World::with_sorties(&["Model"]).local_only("it removes the store's file");
    let before = world.json("status");
    world.fleet("init").expect(expect![[r#"
        REPO/.flightline exists already and is sound (preset fleet)
    "#]]);
    assert_eq!(world.json("init")["created"], false);
    assert_eq!(world.line("init").in_folder("below").run().code, 0);
    assert!(!world.repo().join("below/.flightline").exists());
    assert_eq!(world.json("status")["rev"], before["rev"]);
    // A store that went missing is made anew, and that is not called sound.
    fs::remove_file(world.database()).unwrap();
    world.fleet("status").expect(expect![[r#"
        [stderr]
        error: there is no store at REPO/.flightline

        hint: create it with `fleet init`
        [exit 3]
    "#]]);
    world.fleet("init").expect(expect![[r#"
        Created the missing sqlite store of REPO/.flightline: it is empty
    "#]]);
    assert_eq!(world.json("missions list"), serde_json::json!([]));
}

#[test]
fn init_keeps_what_a_settings_file_says() {
    let world = World::empty().local_only("a store is trusted where it is");
    world.write(
        ".flightline/config.toml",
        "# ours\n[locks]\nttl = \"45m\" # long\n",
    );
    // They may have come with a clone: the user says that they did not.
    let refused = world.fleet("init");
    assert!(
        refused.refused(6).contains("holds config.toml"),
        "{refused:?}"
    );
    world.ok("trust -y");
    world.ok("init");
    let kept = fs::read_to_string(world.state().join("config.toml")).unwrap();
    assert!(
        kept.contains("# ours") && kept.contains("ttl = \"45m\" # long"),
        "{kept}"
    );
    assert_eq!(world.json("config get locks.ttl")["value"], "45m");
    assert_eq!(
        world.ok("config get project").stdout.len(),
        "prj-".len() + 37
    );
}

#[test]
fn a_new_fleet_is_private_and_ignored_by_git() {
    let world = World::new();
    assert_eq!(mode(&world.state()), 0o700);
    for name in ["flightline.db", "config.toml"] {
        assert_eq!(mode(&world.state().join(name)), 0o600, "{name}");
    }
    assert_eq!(
        fs::read_to_string(world.state().join(".gitignore")).unwrap(),
        "*\n"
    );
    let config = fs::read_to_string(world.state().join("config.toml")).unwrap();
    let config = config.replace(
        world.json("config get project")["value"].as_str().unwrap(),
        "PROJECT",
    );
    expect![[r##"
        # Flightline's settings for this repository. `fleet config list` shows them all.
        project = "PROJECT"
    "##]]
    .assert_eq(&config);
}

#[test]
fn a_newer_store_is_left_alone() {
    let world = World::with_sorties(&["Model"]).local_only("it changes the store's file");
    let known = world.sql("PRAGMA user_version").trim().to_owned();
    world.sql("PRAGMA user_version = 99");
    let before = fs::read(world.database()).unwrap();
    let ran = world.fleet("status");
    let told = ran
        .text()
        .replace(&format!("knows {known} "), "knows KNOWN ");
    expect![[r#"
        [stderr]
        error: the store has schema version 99, and this version of `fleet` knows KNOWN at most

        hint: upgrade `fleet` on this machine
        [exit 6]
    "#]]
    .assert_eq(&told);
    for typed in [
        "missions create X",
        "init",
        "doctor",
        "backup x.db",
        "events tail --for 1s",
    ] {
        let json = world.fleet(&format!("{typed} --json"));
        assert_eq!(
            (json.code, json.error_code().as_str()),
            (6, "newer_store"),
            "{typed}"
        );
    }
    assert_eq!(fs::read(world.database()).unwrap(), before);
}

#[test]
fn somebody_elses_database_is_left_alone() {
    let world = World::new().local_only("it replaces the store's file");
    fs::remove_file(world.database()).unwrap();
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(world.state().join(format!("flightline.db{suffix}")));
    }
    world.sql("CREATE TABLE event (mine TEXT)");
    let before = fs::read(world.database()).unwrap();
    world.fleet("missions create X").expect(expect![[r#"
        [stderr]
        error: REPO/.flightline/flightline.db is not a Flightline store

        hint: point `--location` somewhere else, or move that file away
        [exit 6]
    "#]]);
    world.fleet("init").refused(6);
    assert_eq!(fs::read(world.database()).unwrap(), before);
    fs::write(
        world.database(),
        "not a database at all, but a longer text than a header has\n".repeat(20),
    )
    .unwrap();
    let json = world.fleet("status --json");
    assert_eq!(
        (json.code, json.error_code().as_str()),
        (6, "not_our_store")
    );
}

#[test]
fn a_link_in_the_place_of_the_database_is_not_followed() {
    let (world, other) = (World::new(), World::new());
    let world = world.local_only("it replaces the store's file");
    fs::remove_file(world.database()).unwrap();
    std::os::unix::fs::symlink(other.database(), world.database()).unwrap();
    let json = world.fleet("status --json");
    assert_eq!(
        (json.code, json.error_code().as_str()),
        (6, "not_our_store")
    );
}

#[test]
fn a_repository_cannot_say_where_the_store_is() {
    let world = World::new();
    let config = world.state().join("config.toml");
    let own = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        format!("{own}location = \"postgres://evil.example/x\"\n"),
    )
    .unwrap();
    world.fleet("status").expect(expect![[r#"
        [stderr]
        error: `location` is not allowed in REPO/.flightline/config.toml

        hint: a project's file holds data only: take it out, and keep it for yourself with `fleet config set location … --user`
        [exit 2]
    "#]]);
    for key in [
        "location = \"/tmp/x\"",
        "server = \"https://evil.example\"",
        "token = \"x\"",
        "location = 5",
    ] {
        fs::write(&config, format!("{own}{key}\n")).unwrap();
        for typed in ["status", "missions create X", "init", "config list"] {
            let json = world.fleet(&format!("{typed} --json"));
            assert_eq!(
                (json.code, json.error_code().as_str()),
                (2, "invalid_input"),
                "{key}: {typed}"
            );
        }
    }
    // Nor through the command that changes settings.
    fs::write(&config, &own).unwrap();
    world
        .fleet("config set location /tmp/x")
        .expect(expect![[r#"
        [stderr]
        error: the location of the store cannot be set for a project

        hint: keep it for yourself with `fleet config set location … --user`
        [exit 2]
    "#]]);
    assert_eq!(fs::read_to_string(&config).unwrap(), own);
}

#[test]
fn a_broken_settings_file_is_named_with_its_line() {
    let world = World::new();
    let config = world.state().join("config.toml");
    let own = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{own}\n[locks\nttl = 1\n")).unwrap();
    world.fleet("status").expect(expect![[r#"
        [stderr]
        error: REPO/.flightline/config.toml cannot be read: line 4: unclosed table, expected `]`

        hint: correct that line, and try again
        [exit 2]
    "#]]);
    for (wrong, told) in [
        ("project = 5\n".to_owned(), "`project`: write it as text"),
        (
            format!("{own}[locks]\nttl = 5\n"),
            "`locks.ttl`: write it as text, such as \"10m\"",
        ),
        (
            format!("{own}[locks]\nttl = \"soon\"\n"),
            "`locks.ttl`: `soon` is not a duration",
        ),
        (
            format!("{own}[liveness]\nquiet = \"2h\"\n"),
            "`liveness.quiet` must not be longer",
        ),
        (
            format!("{own}[locks]\nttl = \"0s\"\n"),
            "a duration of zero is not allowed",
        ),
    ] {
        fs::write(&config, wrong).unwrap();
        let ran = world.fleet("status");
        assert!(ran.refused(2).contains(told), "{told}: {ran:?}");
    }
    fs::write(&config, b"# caf\xe9\n").unwrap();
    assert!(world.fleet("status").refused(2).contains("it is not UTF-8"));
}

#[test]
fn files_that_others_could_read_are_closed_again_and_it_is_said() {
    let world = World::with_sorties(&["Model"]).local_only("it is about the store's files");
    let open = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    open(&world.state(), 0o755);
    open(&world.database(), 0o664);
    world.fleet("missions list -q").expect(expect![[""]]);
    open(&world.state(), 0o755);
    open(&world.database(), 0o664);
    let said = world.fleet("sorties list --json");
    expect![[r#"
        warning: `.flightline` was open to others (mode 755); made it 700
        warning: `flightline.db` was open to others (mode 664); made it 600
    "#]]
    .assert_eq(&said.stderr);
    assert_eq!((said.code, said.json().as_array().unwrap().len()), (0, 1));
    assert_eq!(
        (mode(&world.state()), mode(&world.database())),
        (0o700, 0o600)
    );
    assert_eq!(world.ok("status").stderr, "");
}

#[test]
fn a_folder_that_is_not_there_cannot_be_entered() {
    let world = World::new();
    world.fleet("-C missing status").expect(expect![[r#"
        [stderr]
        error: cannot enter missing: No such file or directory (os error 2)

        hint: give an existing folder to `-C`
        [exit 3]
    "#]]);
    world.write("file.txt", "");
    world.fleet("-C file.txt status").expect(expect![[r#"
        [stderr]
        error: cannot enter file.txt: it is not a folder

        hint: give an existing folder to `-C`
        [exit 3]
    "#]]);
    let json = world.fleet("-C missing status --json");
    assert_eq!((json.code, json.error_code().as_str()), (3, "not_found"));
}

#[test]
fn a_store_may_be_in_another_folder() {
    let world = World::empty();
    fs::create_dir(world.repo().join("below")).unwrap();
    // Relative to where the command runs: `-C` counts as being there.
    world.ok("-C below init --location store");
    assert!(world.repo().join("below/store/flightline.db").is_file());
    world.ok("-C below missions create X --location store");
    let by_environment = world.line("missions list --json").in_folder("below");
    let listed = by_environment.env("FLEET_LOCATION", "store").run();
    assert_eq!(listed.json().as_array().unwrap().len(), 1);
    assert_eq!(world.fleet("-C below missions list").code, 3);
    for (nowhere, exit) in [("mysql://host/x", 2), ("", 2), ("missing", 3)] {
        world
            .command(&["-C", "below", "--location", nowhere, "status"])
            .run()
            .refused(exit);
    }
    world
        .command(&["--location", "mysql://host/x", "init"])
        .run()
        .expect(expect![[r#"
        [stderr]
        error: `mysql://host/x` is not a location for a store

        hint: give a folder, or `postgres://USER@HOST/DATABASE`
        [exit 2]
    "#]]);
}

#[test]
fn two_projects_may_share_a_store_and_do_not_see_each_other() {
    let (one, two) = (World::empty(), World::empty());
    let one = one.local_only("it is about where the store is");
    let two = two.local_only("it is about where the store is");
    let shared = World::empty();
    let location = shared.repo().join("store").display().to_string();
    for (world, seed) in [(&one, "1"), (&two, "2")] {
        let init = world.command(&["init", "--location", &location]);
        assert_eq!(init.env("FLEET_TEST_IDS", seed).run().code, 0);
    }
    let in_shared = |world: &World, typed: &str| {
        world
            .line(&format!("{typed} --json --location {location}"))
            .run()
            .json()
    };
    in_shared(&one, "missions create X");
    assert_eq!(
        in_shared(&one, "missions list").as_array().unwrap().len(),
        1
    );
    assert_eq!(
        in_shared(&two, "missions list").as_array().unwrap().len(),
        0
    );
}

#[test]
fn work_trees_of_one_repository_share_a_fleet() {
    let world = World::empty();
    let git = |arguments: &[&str]| {
        let done = Command::new("git")
            .current_dir(world.repo())
            .env_clear()
            .env("PATH", crate::cli::world::PATH)
            .env("HOME", world.home())
            .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
            .args(arguments)
            .output()
            .expect("git");
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q", "main"]);
    git(&["-C", "main", "commit", "-q", "--allow-empty", "-m", "first"]);
    git(&["-C", "main", "worktree", "add", "-q", "../linked"]);
    world.line("init").in_folder("main/src").run();
    assert!(
        world.repo().join("main/.flightline").is_dir(),
        "not at the root of the repository"
    );
    world.ok("-C main missions create X");
    assert_eq!(
        world
            .json("-C linked missions list")
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // Paths are those of the work tree one is in.
    world.agent_ok("ada", "-C main locks acquire src/a.rs");
    let there = world
        .line("locks check a.rs --json")
        .agent("bob")
        .in_folder("linked/src")
        .run();
    assert_eq!(
        (there.code, &there.json()[0]["path"]),
        (5, &serde_json::json!("src/a.rs"))
    );
}

#[test]
fn a_project_that_the_store_does_not_have_is_told_with_those_it_has() {
    let world = World::with_sorties(&["Model"]).local_only("it edits the store's settings");
    let before = world.json("status");
    let file = world.state().join("config.toml");
    let project = world.ok("config get project").stdout.trim().to_owned();
    let text = fs::read_to_string(&file).unwrap();
    let last = project.chars().last().unwrap();
    let wrong = format!(
        "{}{}",
        &project[..project.len() - 1],
        if last == '0' { '1' } else { '0' }
    );
    fs::write(&file, text.replace(&project, &wrong)).unwrap();
    let told = format!("the store has no project {wrong}; it has: {project} (repo, 1 mission)");
    let hint = format!("hint: set it right with `fleet config set project {project}`");
    for command in [
        "status",
        "",
        "missions list",
        "doctor",
        "init",
        "checkpoint",
    ] {
        let ran = world.fleet(command);
        assert_eq!(ran.code, 3, "{command}: {ran:?}");
        assert!(ran.stderr.contains(&told), "{command}: {ran:?}");
        assert!(ran.stderr.contains(&hint), "{command}: {ran:?}");
    }
    let ran = world.fleet("config set project prj-elsewhere");
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stderr.contains(&hint), "{ran:?}");
    world.ok(&format!("config set project {project}"));
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(world.json("status")["rev"], before["rev"]);
}

#[test]
fn init_never_changes_a_fleet_that_is_there() {
    let world = World::new();
    let refused = world.fleet("init --preset epic");
    assert!(
        refused.refused(4).contains("with the preset `fleet`"),
        "{refused:?}"
    );
    assert_eq!(world.json("config get preset")["value"], "fleet");
    // The hint is the way to do it all the same.
    world.ok("config set preset epic");
    let again = world.ok("init --preset epic").stdout;
    assert!(
        again.contains("exists already and is sound (preset epic)"),
        "{again}"
    );
}

#[test]
fn a_repository_inside_another_is_asked_about() {
    let world = World::empty().local_only("it is about folders of this machine");
    for folder in [".git", "inner/.git", "inner/src"] {
        std::fs::create_dir_all(world.repo().join(folder)).unwrap();
    }
    world.ok("init");
    let refused = world.line("init").in_folder("inner/src").run();
    assert!(
        refused
            .refused(2)
            .contains("REPO/inner lies inside REPO, which has a fleet already"),
        "{refused:?}"
    );
    assert!(!world.repo().join("inner/.flightline").exists());
    let outer = world.line("-C .. status").in_folder("inner").run();
    assert_eq!(outer.code, 0, "{outer:?}");
    assert_eq!(world.line("init --here").in_folder("inner").run().code, 0);
    assert!(world.repo().join("inner/.flightline/config.toml").exists());
    // A folder of the same repository has its fleet.
    std::fs::create_dir_all(world.repo().join("docs")).unwrap();
    assert_eq!(world.line("init").in_folder("docs").run().code, 0);
    assert!(!world.repo().join("docs/.flightline").exists());
}
