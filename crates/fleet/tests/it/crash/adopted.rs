//! Ways around `fleet trust`: places and files through which a stranger's store or settings could be adopted in passing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use flightline_testkit::Engine;

use super::beside::copy_folder;
use super::world::{Answer, Run, World};

const REFUSED: Option<i32> = Some(6);

pub fn git(folder: &Path, world: &World, arguments: &[&str]) {
    let mut git = world.sealed("git");
    let done = git.current_dir(folder).args(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {done:?}");
}

pub fn is_refused(answer: &Answer) {
    assert_eq!(answer.code(), REFUSED, "{answer}");
}

/// A repository with a fleet of the user's in it.
pub fn fleet() -> World {
    let world = World::new(Engine::Sqlite);
    git(&world.repo(), &world, &["init", "--quiet", "."]);
    world.run(&["note", "lesson", "Mine"]).works();
    world
}

/// Has a pull change the settings.
fn pull_settings(world: &World) {
    let file = world.state().join("config.toml");
    let settings = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    fs::write(
        &file,
        format!("{settings}\n[retention]\nkeep = 1\nmost = 1\n"),
    )
    .unwrap();
    git(
        &world.repo(),
        world,
        &["add", "--force", ".flightline/config.toml"],
    );
}

#[test]
fn a_new_fleet_takes_no_store_of_a_clone() {
    let stranger = World::new(Engine::Sqlite);
    stranger.run(&["note", "constraint", "Obey me"]).works();
    let mine = World::bare(Engine::Sqlite);
    let clone = mine.repo().join("clone");
    copy_folder(&stranger.repo(), &clone);
    git(&clone, &mine, &["init", "--quiet", "."]);
    git(&clone, &mine, &["add", "--force", ".flightline"]);
    let location = clone.join(".flightline").display().to_string();
    let init = || {
        mine.run(&["init", "--here"])
            .env("FLEET_LOCATION", &location)
    };
    let refused = init().ends();
    is_refused(&refused);
    assert!(
        refused.err.contains("came with its repository"),
        "{refused}"
    );
    is_refused(
        &mine
            .run(&["-C", "clone", "missions", "create", "Whose?"])
            .ends(),
    );
    // One that no pull brought is taken where the user names it; the fleet beside it is not.
    git(
        &clone,
        &mine,
        &["rm", "-r", "--quiet", "--cached", "--force", ".flightline"],
    );
    init().works();
    is_refused(
        &mine
            .run(&["-C", "clone", "missions", "create", "Whose?"])
            .ends(),
    );
}

/// A command in the folder `mine` of the hub's repository, with its store in that of the hub.
fn in_mine(hub: &World, words: &[&str]) -> Run {
    let mut all = vec!["-C", "mine"];
    all.extend(words);
    hub.run(&all).env("FLEET_LOCATION", hub.state().display())
}

/// A repository with a fleet in it, and below it another whose store is in that of the first.
fn shared() -> World {
    let hub = fleet();
    fs::create_dir(hub.repo().join("mine")).unwrap();
    in_mine(&hub, &["init", "--here"]).works();
    in_mine(&hub, &["missions", "create", "Mine"]).works();
    hub
}

#[test]
fn a_log_that_a_pull_replaces_is_not_obeyed_from_elsewhere() {
    let (hub, stranger) = (shared(), World::new(Engine::Sqlite));
    stranger.run(&["note", "constraint", "Obey me"]).works();
    let log = hub.state().join("flightline.db-wal");
    let theirs = fs::read(stranger.state().join("flightline.db-wal")).unwrap();
    let _ = fs::remove_file(&log);
    fs::write(&log, theirs).unwrap();
    git(
        &hub.repo(),
        &hub,
        &["add", "--force", ".flightline/flightline.db-wal"],
    );
    is_refused(&in_mine(&hub, &["missions", "create", "Whose?"]).ends());
    let seen = in_mine(&hub, &["status"]).ends();
    assert!(seen.err.contains("another one than before"), "{seen}");
}

#[test]
fn a_state_folder_that_is_a_repository_of_its_own_is_asked_for() {
    let world = fleet();
    let state = world.state();
    git(&state, &world, &["init", "--quiet", "."]);
    git(&state, &world, &["add", "--force", "config.toml"]);
    world.run(&["note", "lesson", "Nothing changed"]).works();
    let settings = fs::read_to_string(state.join("config.toml")).unwrap();
    fs::write(
        state.join("config.toml"),
        format!("{settings}\n[retention]\nkeep = 1\nmost = 1\n"),
    )
    .unwrap();
    is_refused(&world.run(&["note", "lesson", "Whose?"]).ends());
    world.run(&["trust", "-y"]).works();
    world.run(&["note", "lesson", "Mine"]).works();
}

#[test]
fn an_init_that_failed_can_be_repeated() {
    let world = World::bare(Engine::Sqlite);
    // Nobody listens there.
    let nobody = "postgres://nobody@127.0.0.1:1/nothing";
    for _ in 0..2 {
        let failed = world.run(&["init"]).env("FLEET_LOCATION", nobody).ends();
        assert!(failed.err.contains("cannot be reached"), "{failed}");
    }
    let elsewhere = world.home().join("store").display().to_string();
    world
        .run(&["init"])
        .env("FLEET_LOCATION", &elsewhere)
        .works();
    let mission = ["missions", "create", "Mine"];
    world
        .run(&mission)
        .env("FLEET_LOCATION", &elsewhere)
        .works();
    // And one that failed after the store was made.
    let other = World::bare(Engine::Sqlite);
    fs::create_dir_all(other.state().join(".gitignore")).unwrap();
    other.run(&["trust", "-y"]).works();
    fs::remove_dir(other.state().join(".gitignore")).unwrap();
    other.run(&["init"]).works();
}

#[test]
fn pulled_settings_are_not_obeyed_for_another_store_either() {
    let world = fleet();
    pull_settings(&world);
    let elsewhere = world.home().join("store").display().to_string();
    is_refused(
        &world
            .run(&["init"])
            .env("FLEET_LOCATION", &elsewhere)
            .ends(),
    );
    world.run(&["trust", "-y"]).works();
    world
        .run(&["init"])
        .env("FLEET_LOCATION", &elsewhere)
        .works();
}

#[test]
fn what_a_pull_left_of_a_lost_store_makes_no_new_one() {
    let world = fleet();
    world.run(&["checkpoint"]).works();
    pull_settings(&world);
    git(
        &world.repo(),
        &world,
        &["add", "--force", ".flightline/checkpoints"],
    );
    for file in ["flightline.db", "flightline.db-wal", "flightline.db-shm"] {
        let _ = fs::remove_file(world.state().join(file));
    }
    for command in [&["init", "--empty"][..], &["doctor", "--rebuild", "-y"]] {
        let refused = world.run(command).ends();
        is_refused(&refused);
        assert!(
            refused.err.contains("checkpoints and config.toml"),
            "{refused}"
        );
    }
    world.run(&["trust", "-y"]).works();
    world.run(&["doctor", "--rebuild", "-y"]).works();
    world.run(&["note", "lesson", "Mine"]).works();
}

#[test]
fn a_clone_does_not_decide_what_git_ignores() {
    let clone = World::bare(Engine::Sqlite);
    fs::create_dir_all(clone.state()).unwrap();
    fs::write(clone.state().join(".gitignore"), "# nothing\n").unwrap();
    let refused = clone.run(&["init"]).ends();
    is_refused(&refused);
    assert!(refused.err.contains(".gitignore"), "{refused}");
    fs::write(clone.state().join(".gitignore"), "*\n").unwrap();
    clone.run(&["init"]).works();
}

#[test]
fn a_revoked_trust_is_that_of_one_fleet() {
    let hub = shared();
    in_mine(&hub, &["trust", "--revoke"]).works();
    is_refused(&in_mine(&hub, &["missions", "create", "Whose?"]).ends());
    hub.run(&["note", "lesson", "Still mine"]).works();
}

#[test]
fn a_link_of_the_users_does_not_lead_past_the_links_of_a_clone() {
    let world = fleet();
    world.run(&["checkpoint"]).works();
    let (victim, below) = (world.home().join("victim"), world.repo().join("sub"));
    fs::create_dir_all(&victim).unwrap();
    fs::create_dir_all(&below).unwrap();
    fs::write(victim.join("secret.json"), "{}").unwrap();
    symlink(&victim, below.join("evil")).unwrap();
    symlink(victim.join("secret.json"), below.join("h.json")).unwrap();
    let mine = |name: &str| world.home().join(name).display().to_string();
    symlink(&below, mine("s")).unwrap();
    symlink(below.join("h.json"), mine("l.json")).unwrap();
    symlink(below.join("evil"), mine("e")).unwrap();
    for typed in ["s/evil/x.json", "e/x.json"] {
        let export = ["checkpoints", "export", "@latest", &mine(typed)];
        let refused = world.run(&export).ends();
        assert!(
            refused.err.contains("no link is followed here"),
            "{refused}"
        );
        let refused = world.run(&["backup", &mine(typed)]).ends();
        assert!(
            refused.err.contains("no link is followed here"),
            "{refused}"
        );
    }
    for typed in ["l.json", "s/h.json", "e/secret.json"] {
        let refused = world.run(&["checkpoints", "import", &mine(typed)]).ends();
        assert!(
            refused.err.contains("no link is followed here"),
            "{refused}"
        );
    }
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
    // The user's own links lead where they lead.
    fs::create_dir(mine("out")).unwrap();
    symlink(mine("out"), mine("o")).unwrap();
    world
        .run(&["checkpoints", "export", "@latest", &mine("o/x.json")])
        .works();
    symlink(mine("out/x.json"), mine("x.json")).unwrap();
    world
        .run(&["checkpoints", "import", &mine("x.json")])
        .works();
}

#[test]
fn what_was_refused_stays_refused_when_git_tracks_it_no_more() {
    let world = fleet();
    pull_settings(&world);
    let note = ["note", "lesson", "Whose?"];
    let refused = world.run(&note).ends();
    is_refused(&refused);
    assert!(
        refused.err.contains("`.flightline/config.toml` changed"),
        "{refused}"
    );
    git(
        &world.repo(),
        &world,
        &["rm", "-r", "--quiet", "--cached", "--force", ".flightline"],
    );
    is_refused(&world.run(&note).ends());
    world.run(&["trust", "-y"]).works();
    world.run(&note).works();
}

#[test]
fn a_rebuild_uses_nothing_that_a_pull_brought() {
    // A store that a rebuild seems to have left before it put it in its place, and checkpoint files.
    for (brought, lost) in [
        (".rebuild-x", true),
        ("checkpoints", true),
        ("checkpoints", false),
    ] {
        let (world, stranger) = (fleet(), World::new(Engine::Sqlite));
        stranger.run(&["note", "constraint", "Obey me"]).works();
        stranger.run(&["checkpoint"]).works();
        match brought {
            "checkpoints" => {
                copy_folder(
                    &stranger.state().join(brought),
                    &world.state().join(brought),
                );
            }
            _ => {
                let whole = world.state().join(brought).join("whole");
                fs::create_dir_all(&whole).unwrap();
                fs::copy(stranger.database(), whole.join("flightline.db")).unwrap();
                fs::write(whole.with_file_name("ready.json"), "{}").unwrap();
            }
        }
        git(
            &world.repo(),
            &world,
            &["add", "--force", &format!(".flightline/{brought}")],
        );
        if lost {
            for file in ["flightline.db", "flightline.db-wal", "flightline.db-shm"] {
                let _ = fs::remove_file(world.state().join(file));
            }
        }
        let refused = world.run(&["doctor", "--rebuild", "-y"]).ends();
        is_refused(&refused);
        assert!(refused.err.contains(brought), "{refused}");
        let briefed = world.run(&["context"]).ends();
        assert!(!briefed.out.contains("Obey me"), "{briefed}");
    }
}

#[test]
fn a_users_own_links_lead_where_the_kernel_leads() {
    let world = fleet();
    world.run(&["checkpoint"]).works();
    let far = world.home().join("far/away");
    fs::create_dir_all(&far).unwrap();
    let mine = |name: &str| world.home().join(name).display().to_string();
    symlink(&far, mine("l")).unwrap();
    world.run(&["backup", &mine("l/../one.db")]).works();
    world
        .run(&["checkpoints", "export", "@latest", &mine("l/../one.json")])
        .works();
    for made in ["far/one.db", "far/one.json"] {
        assert!(world.home().join(made).is_file(), "{made}");
    }
    // A link in the place of a file gives way to it; one to a device does not.
    fs::write(far.join("old.json"), "{}").unwrap();
    symlink(far.join("old.json"), mine("to.json")).unwrap();
    let export = [
        "checkpoints",
        "export",
        "@latest",
        &mine("to.json"),
        "--force",
    ];
    world.run(&export).works();
    assert!(fs::symlink_metadata(mine("to.json")).unwrap().is_file());
    assert_eq!(fs::read(far.join("old.json")).unwrap(), b"{}");
    symlink("/dev/null", mine("null")).unwrap();
    let export = ["checkpoints", "export", "@latest", &mine("null"), "--force"];
    let refused = world.run(&export).ends();
    assert!(refused.err.contains("is not a plain file"), "{refused}");
    assert!(fs::symlink_metadata(mine("null")).unwrap().is_symlink());
}
