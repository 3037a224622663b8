//! `fleet doctor` looks at the connection of coding agents: it tries the very hook that a client would run, and says what keeps it from working.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::cli::running::Ran;
use crate::cli::world::{PATH, World};

const CLIENTS: [&str; 7] = [
    "claude", "codex", "gemini", "opencode", "copilot", "cline", "cursor",
];

fn connect(world: &World, client: &str) {
    let consent = if client == "codex" {
        " --trust-hooks"
    } else {
        ""
    };
    world.ok(&format!("setup {client}{consent} -y"));
}

/// What is found about the one client that is connected.
fn found(world: &World) -> (i32, Value) {
    let ran = world.fleet("doctor --agents --json");
    let all = ran.json();
    assert_eq!(all.as_array().map(Vec::len), Some(1), "{ran:?}");
    (ran.code, all[0].clone())
}

/// Checks that exactly this keeps the client from working.
fn blocked(world: &World, what: &str, remedy: &str) {
    let (code, seen) = found(world);
    assert_eq!((code, &seen["ok"]), (5, &Value::Bool(false)), "{seen}");
    let mut all = seen["findings"].as_array().expect("a list").iter();
    let hit = all.any(|it| {
        let has = |key: &str, part: &str| it[key].as_str().is_some_and(|text| text.contains(part));
        it["blocks"] == true && has("what", what) && has("remedy", remedy)
    });
    assert!(hit, "no {what:?} in {seen}");
}

/// Changes a file of the user.
fn edit(world: &World, path: &str, change: impl FnOnce(String) -> String) {
    let path = world.home().join(path);
    let text = fs::read_to_string(&path).unwrap_or_default();
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(&path, change(text)).expect("written");
}

#[test]
fn the_hook_of_every_client_is_tried_and_leaves_nothing_behind() {
    for client in CLIENTS {
        let world = World::with_sorties(&["Model"]);
        connect(&world, client);
        let before = world.rev();
        let (code, seen) = found(&world);
        assert_eq!((code, &seen["ok"]), (0, &Value::Bool(true)), "{seen}");
        assert_eq!(seen["client"], client);
        assert_eq!(seen["scope"], "user");
        assert!(seen["answered_ms"].is_u64(), "{seen}");
        assert_eq!(world.rev(), before, "{client}");
        assert_eq!(world.json("agents list"), Value::Array(Vec::new()));
        let whole = world.fleet("doctor");
        assert_eq!(whole.code, 0, "{whole:?}");
        assert!(
            whole
                .stdout
                .contains(&format!("✓ ok   hooks of {client} (HOME/")),
            "{whole:?}"
        );
        let json = world.fleet("doctor --json").json();
        assert_eq!(json["connections"][0]["client"], client, "{json}");
        assert_eq!(json["healthy"], true, "{json}");
    }
}

#[test]
fn without_a_connection_that_is_said_and_the_doctor_says_nothing_of_it() {
    let world = World::new();
    let ran: Ran = world.fleet("doctor --agents");
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(
        ran.stdout.contains("No coding agent is connected."),
        "{ran:?}"
    );
    assert!(!world.ok("doctor").stdout.contains("hooks of"));
}

#[test]
fn a_program_that_is_gone_or_another_is_found() {
    let world = World::new();
    connect(&world, "claude");
    let settings = ".claude/settings.json";
    let own = env!("CARGO_BIN_EXE_fleet");
    edit(&world, settings, |text| text.replace(own, "/nowhere/fleet"));
    blocked(
        &world,
        "/nowhere/fleet does not exist",
        "`fleet setup claude`",
    );
    let plain = world.fleet("doctor");
    assert_eq!(plain.code, 5, "{plain:?}");
    assert!(
        plain
            .stdout
            .contains("The store is sound; the connection of a coding agent needs attention."),
        "{plain:?}"
    );
    let other = world.home().join("fleet");
    fs::write(&other, "#!/bin/sh\ntouch \"$HOME/was-run\"\n").expect("written");
    edit(&world, settings, |text| {
        text.replace("/nowhere/fleet", &other.display().to_string())
    });
    blocked(&world, "the hooks run HOME/fleet", "`fleet setup claude`");
    assert!(
        !world.home().join("was-run").exists(),
        "another program is not tried"
    );
    // The way out that is named works.
    world.ok("setup claude -y");
    assert_eq!(found(&world).0, 0);
    edit(&world, settings, |text| {
        text.replace("\"PreCompact\"", "\"Old\"")
    });
    blocked(&world, "PreCompact", "`fleet setup claude`");
}

#[test]
fn hooks_that_the_client_would_not_run_are_found() {
    let world = World::new();
    world.ok("setup codex -y");
    blocked(
        &world,
        "Codex skips 10 hooks that you have not trusted",
        "fleet setup codex --trust-hooks",
    );
    connect(&world, "codex");
    assert_eq!(found(&world).0, 0);
    edit(&world, ".codex/hooks.json", |text| {
        text.replacen("\"timeout\": 20", "\"timeout\": 21", 1)
    });
    blocked(&world, "Codex skips 1 hook: all changed", "--trust-hooks");
    connect(&world, "codex");
    edit(&world, ".codex/config.toml", |text| {
        format!("{text}\n[features]\nhooks = false\n")
    });
    blocked(&world, "features.hooks", "features.hooks");

    let world = World::new();
    connect(&world, "claude");
    edit(&world, ".claude/settings.json", |text| {
        text.replacen('{', "{\"disableAllHooks\": true,", 1)
    });
    blocked(&world, "disableAllHooks", "disableAllHooks");

    let world = World::new();
    connect(&world, "gemini");
    edit(&world, ".gemini/settings.json", |text| {
        text.replacen('{', "{\"hooksConfig\": {\"enabled\": false},", 1)
    });
    blocked(&world, "hooksConfig.enabled", "hooksConfig.enabled");
}

#[test]
fn a_fleet_that_nobody_trusts_and_a_broken_store_are_told_by_the_hook_itself() {
    let world = World::new().local_only("trust is of this machine");
    connect(&world, "claude");
    world.ok("trust --revoke");
    blocked(&world, "refused", "`fleet trust`");
    world.ok("trust -y");
    assert_eq!(found(&world).0, 0);
    for beside in ["flightline.db-wal", "flightline.db-shm"] {
        let _ = fs::remove_file(world.state().join(beside));
    }
    fs::write(world.database(), "this is no database").expect("written");
    world.trust();
    blocked(&world, "refused", "`fleet doctor`");
    let nowhere = World::empty();
    connect(&nowhere, "claude");
    blocked(&nowhere, "there is no fleet in this folder", "`fleet init`");
}

/// Changes a settings file so that it would leave a mark if any of its text were run.
fn tampered(text: &str) -> String {
    text.replace(
        " hook claude ",
        " hook claude SessionStart; touch was-run; : ",
    )
    .replace(" || true", "; touch was-run || true")
    .replace("\nexec ", "\ntouch was-run\nexec ")
    .replace("\nconst LIMIT_MS", "\n// changed\nconst LIMIT_MS")
}

#[test]
fn a_hook_that_setup_did_not_write_is_named_and_nothing_of_it_is_run() {
    for (client, file) in [
        ("claude", ".claude/settings.json"),
        ("copilot", ".copilot/hooks/flightline.json"),
        ("cline", ".cline/hooks/TaskStart"),
        ("opencode", ".config/opencode/plugins/flightline.js"),
    ] {
        let world = World::new();
        connect(&world, client);
        assert_eq!(found(&world).0, 0, "{client}");
        edit(&world, file, |text| {
            let changed = tampered(&text);
            assert_ne!(changed, text, "{client}");
            changed
        });
        let setup = format!("`fleet setup {client}`");
        blocked(&world, "is not as `fleet setup` writes it", &setup);
        assert_eq!(world.fleet("doctor").code, 5);
        for folder in [world.repo(), world.home()] {
            assert!(!folder.join("was-run").exists(), "{client}");
        }
        // The way out that is named works.
        world.ok(&format!("setup {client} -y"));
        assert_eq!(found(&world).0, 0, "{client}");
    }
}

#[test]
fn the_hooks_that_came_with_a_clone_are_not_run() {
    let world = World::new();
    with_path(&world, "setup claude --project -y");
    with_path(&world, "setup cline --project -y");
    for file in [".claude/settings.json", ".cline/hooks/TaskStart"] {
        let path = world.repo().join(file);
        let text = fs::read_to_string(&path).expect(file);
        assert_ne!(tampered(&text), text, "{file}");
        fs::write(&path, tampered(&text)).expect("written");
    }
    for command in ["doctor --agents", "doctor"] {
        let seen = with_path(&world, command);
        assert_eq!(seen.code, 5, "{command}: {seen:?}");
        assert!(!world.repo().join("was-run").exists(), "{command}");
    }
}

#[test]
fn a_hook_that_no_client_could_run_is_found() {
    let world = World::new();
    connect(&world, "cline");
    let script = world.home().join(".cline/hooks/TaskStart");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o600)).expect("changed");
    blocked(&world, "is not executable", "`fleet setup cline`");
}

#[test]
fn the_hooks_of_a_project_run_what_is_on_the_path() {
    let world = World::new();
    world.ok("setup claude --project -y");
    blocked(&world, "there is no `fleet` on the PATH", "PATH");
    let programs = world.home().join("bin");
    fs::create_dir_all(&programs).expect("made");
    symlink(env!("CARGO_BIN_EXE_fleet"), programs.join("fleet")).expect("linked");
    let with = |line: &str| {
        let path = format!("{}:{PATH}", programs.display());
        world.line(line).env("PATH", path).run()
    };
    let seen = with("doctor --agents --json");
    assert_eq!(seen.code, 0, "{seen:?}");
    let trust = &seen.json()[0]["findings"];
    // `claude -p` runs them all the same.
    assert_eq!(trust[0]["blocks"], false, "{trust}");
    assert!(
        trust[0]["what"]
            .as_str()
            .expect("a sentence")
            .contains("trust this folder"),
        "{trust}"
    );
    connect(&world, "claude");
    let twice = with("doctor --agents");
    assert_eq!(twice.code, 0, "{twice:?}");
    assert!(
        twice.stdout.contains("every event is reported twice"),
        "{twice:?}"
    );
}

/// Has `fleet` on the PATH, as the hooks of a plugin need it.
fn with_path(world: &World, line: &str) -> Ran {
    let programs = world.home().join("bin");
    if !programs.exists() {
        fs::create_dir_all(&programs).expect("made");
        symlink(env!("CARGO_BIN_EXE_fleet"), programs.join("fleet")).expect("linked");
    }
    let path = format!("{}:{PATH}", programs.display());
    world.line(line).env("PATH", path).run()
}

/// Installs the plugin as Claude Code does.
fn plug_into_claude(world: &World) {
    world.ok("setup claude --plugin made");
    let installed = world.repo().join("made/flightline");
    edit(world, ".claude/plugins/installed_plugins.json", |_| {
        let entry =
            serde_json::json!([{ "scope": "user", "installPath": installed, "version": "0.1.0" }]);
        serde_json::json!({ "version": 2, "plugins": { "flightline@flightline": entry } })
            .to_string()
    });
    edit(world, ".claude/settings.json", |_| {
        "{\"enabledPlugins\": {\"flightline@flightline\": true}}".to_owned()
    });
}

#[test]
fn a_plugin_of_claude_code_is_a_connection() {
    let world = World::new();
    plug_into_claude(&world);
    let seen = with_path(&world, "doctor --agents --json");
    assert_eq!(seen.code, 0, "{seen:?}");
    let all = seen.json();
    assert_eq!(all.as_array().map(Vec::len), Some(1), "{all}");
    assert_eq!(
        (&all[0]["scope"], &all[0]["ok"]),
        (&"plugin".into(), &true.into()),
        "{all}"
    );
    assert!(all[0]["answered_ms"].is_u64(), "{all}");
    let check = with_path(&world, "setup claude --check");
    assert_eq!(check.code, 0, "{check:?}");
    assert_eq!(
        check.stdout,
        "Claude Code is connected by the plugin flightline@flightline.\nEverything is set up.\n"
    );
    // With entries as well it is told how to remove one of them, by every command that looks.
    let removal = "`claude plugin uninstall flightline@flightline`";
    let set = with_path(&world, "setup claude -y");
    let (check, seen) = (
        with_path(&world, "setup claude --check"),
        with_path(&world, "doctor --agents"),
    );
    for ran in [&set, &check, &seen] {
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(
            ran.stdout.contains("every event is reported twice"),
            "{ran:?}"
        );
        assert!(ran.stdout.contains(removal), "{ran:?}");
        assert!(
            ran.stdout.contains("`fleet setup claude --remove`"),
            "{ran:?}"
        );
    }
    with_path(&world, "setup claude --remove -y");
    let alone = with_path(&world, "doctor --agents");
    assert!(!alone.stdout.contains("twice"), "{alone:?}");
    // Its files are gone, or it is switched off.
    fs::remove_dir_all(world.repo().join("made")).expect("removed");
    blocked(
        &world,
        "the plugin flightline@flightline is switched on",
        "claude plugin uninstall",
    );
    let lacking = with_path(&world, "setup claude --check");
    assert_eq!(lacking.code, 5, "{lacking:?}");
    edit(&world, ".claude/settings.json", |text| {
        text.replace("true", "false")
    });
    assert!(
        world
            .fleet("doctor --agents")
            .stdout
            .contains("No coding agent is connected.")
    );
}

#[test]
fn a_plugin_of_codex_is_a_connection_once_its_hooks_are_trusted() {
    let world = World::new();
    world.ok("setup codex --plugin made");
    let cache = world
        .home()
        .join(".codex/plugins/cache/flightline/flightline/0.1.0");
    fs::create_dir_all(cache.join("hooks")).expect("made");
    let hooks = world.repo().join("made/flightline/hooks/hooks.json");
    fs::copy(hooks, cache.join("hooks/hooks.json")).expect("copied");
    let listed = "[plugins.\"flightline@flightline\"]\nenabled = true\n";
    edit(&world, ".codex/config.toml", |_| listed.to_owned());
    let seen = with_path(&world, "doctor --agents --json");
    assert_eq!(seen.code, 5, "{seen:?}");
    let found = &seen.json()[0];
    assert_eq!(found["scope"], "plugin", "{found}");
    let told = found["findings"].to_string();
    assert!(
        told.contains("Codex skips 10 hooks that you have not trusted"),
        "{told}"
    );
    assert!(
        told.contains("`/hooks` in Codex") && !told.contains("--trust-hooks"),
        "{told}"
    );
    // The hooks of a project run the same commands: their hashes are the same.
    world.ok("setup codex --project --trust-hooks -y");
    let file = world.repo().join(".codex/hooks.json").display().to_string();
    edit(&world, ".codex/config.toml", |text| {
        text.replace(&file, "flightline@flightline:hooks/hooks.json")
    });
    fs::remove_file(world.repo().join(".codex/hooks.json")).expect("removed");
    let seen = with_path(&world, "doctor --agents --json");
    assert_eq!(seen.code, 0, "{seen:?}");
    assert_eq!(seen.json()[0]["scope"], "plugin");
    let check = with_path(&world, "setup codex --check");
    assert_eq!(check.code, 0, "{check:?}");
    assert!(
        check
            .stdout
            .contains("Codex CLI is connected by the plugin"),
        "{check:?}"
    );
}
