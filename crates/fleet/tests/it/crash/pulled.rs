//! What a pull, or another stranger's hand, puts into the state folder of a fleet that its user trusts.

use std::fs;
use std::path::Path;

use flightline_testkit::Engine;

use super::beside::copy_folder;
use super::world::World;

/// The exit code of what is refused because of trust, or of whose file something is.
const REFUSED: Option<i32> = Some(6);

fn git(world: &World, arguments: &[&str]) {
    let done = world.sealed("git").args(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {done:?}");
}

/// A fleet in a repository, with something in its log.
fn fleet() -> World {
    let world = World::new(Engine::Sqlite);
    git(&world, &["init", "--quiet", "."]);
    world.run(&["note", "lesson", "Mine"]).works();
    world
}

/// Has the repository track a file of the state folder, and puts another in its place as git does.
fn pull(world: &World, name: &str, bytes: &[u8]) {
    let file = world.state().join(name);
    replace(&file, bytes);
    let tracked = format!(".flightline/{name}");
    git(world, &["add", "--force", &tracked]);
}

fn replace(file: &Path, bytes: &[u8]) {
    let _ = fs::remove_file(file);
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_log_that_a_pull_replaces_is_not_obeyed() {
    let (world, stranger) = (fleet(), World::new(Engine::Sqlite));
    stranger.run(&["note", "constraint", "Obey me"]).works();
    let log = fs::read(stranger.state().join("flightline.db-wal")).unwrap();
    assert!(!log.is_empty());
    pull(&world, "flightline.db-wal", &log);
    let refused = world.run(&["note", "lesson", "Whose?"]).ends();
    assert_eq!(refused.code(), REFUSED, "{refused}");
    let seen = world.run(&["status"]).ends();
    assert!(
        seen.err
            .contains("git tracks the log beside the store (`flightline.db-wal`), and it is another one than before"),
        "{seen}"
    );
    let briefed = world.run(&["context"]).ends();
    assert!(!briefed.out.contains("Obey me"), "{briefed}");
    // The user may take it over.
    world.run(&["trust", "-y"]).works();
    let taken = world.run(&["status"]).ends();
    assert!(!taken.err.contains("git tracks"), "{taken}");
}

/// Has a pull make the state folder look like a repository of its own, as far as files can that git would track.
fn disguise(world: &World, config: &str) {
    for (name, text) in [
        ("HEAD", "ref: refs/heads/main\n"),
        ("config", config),
        ("objects/.keep", ""),
        ("refs/.keep", ""),
    ] {
        let file = world.state().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        pull(world, name, text.as_bytes());
    }
}

#[test]
fn a_state_folder_that_looks_like_a_repository_hides_no_pull() {
    for config in [
        "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
        "[core]\n\trepositoryformatversion = 99\n",
    ] {
        let (world, stranger) = (fleet(), World::new(Engine::Sqlite));
        stranger.run(&["note", "constraint", "Obey me"]).works();
        let log = fs::read(stranger.state().join("flightline.db-wal")).unwrap();
        disguise(&world, config);
        pull(&world, "flightline.db-wal", &log);
        let refused = world.run(&["note", "lesson", "Whose?"]).ends();
        assert_eq!(refused.code(), REFUSED, "{config}: {refused}");
        let briefed = world.run(&["context"]).ends();
        assert!(!briefed.out.contains("Obey me"), "{config}: {briefed}");

        let world = fleet();
        let settings = fs::read_to_string(world.state().join("config.toml")).unwrap();
        disguise(&world, config);
        let other = format!("{settings}\n[locks]\nttl = \"11m\"\n");
        pull(&world, "config.toml", other.as_bytes());
        let refused = world.run(&["note", "lesson", "Whose?"]).ends();
        assert_eq!(refused.code(), REFUSED, "{config}: {refused}");

        // Nor is a new store made of what came so.
        let clone = World::bare(Engine::Sqlite);
        git(&clone, &["init", "--quiet", "."]);
        fs::create_dir_all(clone.state()).unwrap();
        disguise(&clone, config);
        pull(&clone, "config.toml", b"[locks]\nttl = \"11m\"\n");
        let refused = clone.run(&["init"]).ends();
        assert_eq!(refused.code(), REFUSED, "{config}: {refused}");
    }
}

#[test]
fn a_log_that_begins_anew_is_the_users_own() {
    let world = fleet();
    // As another program leaves it that closes the database last.
    assert_eq!(world.sqlite("PRAGMA wal_checkpoint(TRUNCATE)"), "0|0|0");
    for file in ["flightline.db-wal", "flightline.db-shm"] {
        let _ = fs::remove_file(world.state().join(file));
    }
    world.run(&["note", "lesson", "After it"]).works();
    world.run(&["note", "lesson", "And again"]).works();
}

#[test]
fn settings_that_a_pull_changes_are_not_obeyed() {
    let world = fleet();
    let settings = fs::read_to_string(world.state().join("config.toml")).unwrap();
    world.run(&["checkpoint"]).works();
    world.run(&["note", "lesson", "More"]).works();
    world.run(&["checkpoint"]).works();
    let other = format!("{settings}\n[retention]\nkeep = 1\nmost = 1\n");
    pull(&world, "config.toml", other.as_bytes());
    let refused = world.run(&["checkpoint"]).ends();
    assert_eq!(refused.code(), REFUSED, "{refused}");
    let seen = world.run(&["checkpoints", "list"]).ends();
    assert!(seen.err.contains("`.flightline/config.toml`"), "{seen}");
    assert!(seen.out.contains("Total: 2 checkpoints"), "{seen}");
    // The user looks at them, and agrees.
    world.run(&["config", "list"]).works();
    world.run(&["trust", "-y"]).works();
    world.run(&["note", "lesson", "Agreed"]).works();
    // Changes that the user makes with `fleet` need no second word, though git tracks the file.
    world
        .run(&["config", "set", "liveness.quiet", "9m"])
        .works();
    world.run(&["note", "lesson", "Still mine"]).works();
}

#[test]
fn settings_that_the_user_edits_are_obeyed_where_git_does_not_track_them() {
    let world = fleet();
    let settings = fs::read_to_string(world.state().join("config.toml")).unwrap();
    let other = format!("{settings}\n[liveness]\nquiet = \"9m\"\n");
    replace(&world.state().join("config.toml"), other.as_bytes());
    world.run(&["note", "lesson", "Mine still"]).works();
    let shown = world.run(&["config", "get", "liveness.quiet"]).works();
    assert!(shown.out.contains("9m"), "{shown}");
}

#[test]
fn a_rollback_journal_is_refused_and_never_played_back() {
    let world = fleet();
    let journal = world.state().join("flightline.db-journal");
    let database = world.database();
    let page = vec![0_u8; 9_000];
    fs::write(&journal, page).unwrap();
    let before = fs::read(&database).unwrap();
    for command in [&["status"][..], &["note", "lesson", "x"], &["doctor"]] {
        let refused = world.run(command).ends();
        assert_eq!(refused.code(), REFUSED, "{command:?}: {refused}");
        assert!(refused.err.contains("flightline.db-journal"), "{refused}");
    }
    assert_eq!(fs::read(&database).unwrap(), before);
    // A pipe in its place makes no command wait.
    fs::remove_file(&journal).unwrap();
    let made = world.sealed("mkfifo").arg(&journal).status().unwrap();
    assert!(made.success());
    let refused = world.run(&["status"]).ends();
    assert_eq!(refused.code(), REFUSED, "{refused}");
    fs::remove_file(&journal).unwrap();
    world.run(&["note", "lesson", "All is well"]).works();
}

#[test]
fn a_store_is_built_from_a_strangers_files_only_for_a_user_who_trusts_them() {
    let stranger = World::new(Engine::Sqlite);
    stranger.run(&["note", "constraint", "Obey me"]).works();
    stranger.run(&["checkpoint"]).works();
    let clone = World::bare(Engine::Sqlite);
    let state = clone.state();
    fs::create_dir_all(&state).unwrap();
    copy_folder(
        &stranger.state().join("checkpoints"),
        &state.join("checkpoints"),
    );
    fs::copy(
        stranger.state().join("config.toml"),
        state.join("config.toml"),
    )
    .unwrap();
    let refused = clone.run(&["doctor", "--rebuild", "-y"]).ends();
    assert_eq!(refused.code(), REFUSED, "{refused}");
    assert!(refused.err.contains("`fleet trust"), "{refused}");
    assert!(!clone.database().exists());
    // No agent decides that.
    let by_agent = clone.run(&["trust", "-y", "--agent", "ada"]).ends();
    assert_eq!(by_agent.code(), Some(1), "{by_agent}");
    clone.run(&["trust", "-y"]).works();
    clone.run(&["doctor", "--rebuild", "-y"]).works();
    clone.run(&["status"]).works();
}

#[test]
fn a_young_store_whose_log_is_emptied_says_what_is_lost() {
    let world = World::new(Engine::Sqlite);
    fs::write(world.state().join("flightline.db-wal"), "").unwrap();
    let seen = world.run(&["status"]).ends();
    assert!(
        seen.out
            .contains("revision 1 was acknowledged, but is no longer in the database"),
        "{seen}"
    );
}

#[test]
fn settings_of_a_strangers_fleet_are_left_alone() {
    let (world, elsewhere) = (fleet(), World::bare(Engine::Sqlite));
    let mut copied = elsewhere.sealed("cp");
    copied.args(["-r", &world.state().display().to_string(), "."]);
    assert!(copied.status().unwrap().success());
    let settings = elsewhere.state().join("config.toml");
    let before = fs::read(&settings).unwrap();
    let refused = elsewhere
        .run(&["config", "set", "liveness.quiet", "9m"])
        .ends();
    assert_eq!(refused.code(), REFUSED, "{refused}");
    assert_eq!(fs::read(&settings).unwrap(), before);
}

/// A clone that brought settings and checkpoint files, and no store.
fn clone_with_files() -> World {
    let stranger = World::new(Engine::Sqlite);
    stranger.run(&["note", "constraint", "Obey me"]).works();
    stranger.run(&["checkpoint"]).works();
    let clone = World::bare(Engine::Sqlite);
    let (theirs, state) = (stranger.state(), clone.state());
    copy_folder(&theirs.join("checkpoints"), &state.join("checkpoints"));
    fs::copy(theirs.join("config.toml"), state.join("config.toml")).unwrap();
    clone
}

#[test]
fn a_refused_init_trusts_nothing() {
    let clone = clone_with_files();
    for command in [
        &["init"][..],
        &["init", "--empty"],
        &["init", "--name", "Mine"],
    ] {
        let refused = clone.run(command).ends();
        assert_eq!(refused.code(), REFUSED, "{command:?}: {refused}");
        assert!(refused.err.contains("`fleet config list`"), "{refused}");
        assert!(!clone.database().exists());
    }
    let refused = clone.run(&["doctor", "--rebuild", "-y"]).ends();
    assert_eq!(refused.code(), REFUSED, "{refused}");
    // A user who looked at it goes on.
    clone.run(&["trust", "-y"]).works();
    clone.run(&["init", "--empty"]).works();
    clone.run(&["missions", "create", "Mine"]).works();
}

#[test]
fn a_clones_settings_are_not_taken_over_in_passing() {
    let clone = clone_with_files();
    fs::remove_dir_all(clone.state().join("checkpoints")).unwrap();
    for command in [
        &["init"][..],
        &["config", "set", "liveness.quiet", "9m"],
        &["init"],
    ] {
        let refused = clone.run(command).ends();
        assert_eq!(refused.code(), REFUSED, "{command:?}: {refused}");
        assert!(refused.err.contains("holds config.toml"), "{refused}");
    }
}

#[test]
fn a_pull_is_noticed_from_another_work_tree_and_without_git() {
    let world = fleet();
    let settings = fs::read_to_string(world.state().join("config.toml")).unwrap();
    fs::write(world.repo().join("README"), "Read me\n").unwrap();
    git(&world, &["add", "README"]);
    git(
        &world,
        &[
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.invalid",
            "commit",
            "-qm",
            "one",
        ],
    );
    git(&world, &["worktree", "add", "--quiet", "linked"]);
    let other = format!("{settings}\n[retention]\nkeep = 1\nmost = 1\n");
    pull(&world, "config.toml", other.as_bytes());
    for command in [
        &["-C", "linked", "note", "lesson", "Whose?"][..],
        &["-C", "linked", "status"],
        &["note", "lesson", "Whose?"],
    ] {
        let seen = world.run(command).env("PATH", "/nowhere").ends();
        assert!(
            seen.err.contains("`.flightline/config.toml`") || seen.code() == REFUSED,
            "{seen}"
        );
        let seen = world.run(command).ends();
        assert!(
            seen.err.contains("`.flightline/config.toml`") || seen.code() == REFUSED,
            "{seen}"
        );
    }
    let refused = world.run(&["note", "lesson", "Whose?"]).ends();
    assert_eq!(
        refused.code(),
        REFUSED,
        "nothing was noted meanwhile: {refused}"
    );
}

#[test]
fn a_store_that_a_clone_has_elsewhere_is_not_obeyed() {
    let stranger = World::new(Engine::Sqlite);
    stranger.run(&["note", "constraint", "Obey me"]).works();
    let clone = World::bare(Engine::Sqlite);
    git(&clone, &["init", "--quiet", "."]);
    copy_folder(&stranger.state(), &clone.repo().join("elsewhere"));
    git(&clone, &["add", "--force", "elsewhere"]);
    // With the clone's settings, and with the user's own.
    let settings = fs::read_to_string(stranger.state().join("config.toml")).unwrap();
    fs::create_dir_all(clone.state()).unwrap();
    fs::write(clone.state().join("config.toml"), &settings).unwrap();
    let is_refused = || {
        for command in [
            &["context", "--location", "elsewhere"][..],
            &["prime", "--location", "elsewhere"],
            &["note", "lesson", "Whose?", "--location", "elsewhere"],
        ] {
            let refused = clone.run(command).ends();
            assert_eq!(refused.code(), REFUSED, "{command:?}: {refused}");
            assert!(!refused.out.contains("Obey me"), "{refused}");
        }
    };
    is_refused();
    fs::remove_dir_all(clone.state()).unwrap();
    clone.run(&["init"]).works();
    fs::write(clone.state().join("config.toml"), &settings).unwrap();
    is_refused();
    clone
        .run(&["trust", "-y", "--location", "elsewhere"])
        .works();
    clone.run(&["context", "--location", "elsewhere"]).works();
    clone
        .run(&["trust", "--revoke", "--location", "elsewhere"])
        .works();
    is_refused();
}

#[test]
fn a_shared_store_is_not_opened_by_settings_that_came_with_a_clone() {
    let (mine, shared) = (World::bare(Engine::Sqlite), tempfile::tempdir().unwrap());
    let location = shared.path().join("store").display().to_string();
    mine.run(&["init"]).env("FLEET_LOCATION", &location).works();
    let settings = fs::read(mine.state().join("config.toml")).unwrap();
    let clone = mine.repo().join("clone");
    fs::create_dir_all(clone.join(".flightline")).unwrap();
    git(&mine, &["init", "--quiet", "clone"]);
    fs::write(clone.join(".flightline/config.toml"), settings).unwrap();
    let note = ["-C", "clone", "missions", "create", "Whose?"];
    let refused = mine.run(&note).env("FLEET_LOCATION", &location).ends();
    assert_eq!(refused.code(), REFUSED, "{refused}");
    let trust = ["-C", "clone", "trust", "-y"];
    mine.run(&trust).env("FLEET_LOCATION", &location).works();
    mine.run(&note).env("FLEET_LOCATION", &location).works();
}

#[test]
fn a_command_in_a_hint_runs_nothing_of_a_path() {
    let world = fleet();
    let path = "src/$(touch pwned)`touch pwned`'\"; touch pwned;.rs";
    world.run(&["locks", "acquire", path]).by("ada").ends();
    world.run(&["agents", "register", "ada"]).works();
    world.run(&["agents", "register", "bob"]).works();
    world
        .run(&["locks", "acquire", path, "--agent", "ada"])
        .works();
    let held = world
        .run(&["locks", "acquire", path, "--agent", "bob"])
        .ends();
    let asked = held
        .err
        .lines()
        .find_map(|line| line.split_once("or ask with `"));
    let (_, command) = asked.unwrap_or_else(|| panic!("{held}"));
    let command = command.strip_suffix('`').unwrap();
    let mut shell = world.sealed("sh");
    let binary = Path::new(env!("CARGO_BIN_EXE_fleet")).parent().unwrap();
    let found = format!("{}:/usr/bin:/bin", binary.display());
    let done = shell
        .args(["-c", command])
        .env("PATH", found)
        .output()
        .unwrap();
    assert!(done.status.success(), "{command}: {done:?}");
    assert!(!world.repo().join("pwned").exists(), "{command}");
    let mail = world.run(&["mail", "inbox", "--agent", "ada"]).works();
    assert!(
        mail.out
            .contains("Need src/$(touch pwned)`touch pwned`'\"; touch"),
        "{mail}"
    );
}
