//! Repositories that a stranger made: wherever a command reads, writes or deletes below the repository there is a link
//! that leads outside, or the store itself is a lie. Nothing outside is read, written, made, emptied, deleted or
//! changed, and nothing of a stranger's store is obeyed.
//!
//! `FLEET_HOSTILE=all` puts every kind of link in every place; by default each place gets a few of them in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use flightline::core::event::sha256_hex;
use flightline_testkit::Engine;

use super::world::World;
use crate::cli::every;
use crate::cli::world::words;

/// What a person or an agent would run in such a repository: between them they read, write and delete everything there
/// is below the state folder and in the mirrors.
const COMMANDS: &[&[&str]] = &[
    &["status"],
    &["sorties", "claim", "--next", "--agent", "eve"],
    &["note", "lesson", "Look before you leap"],
    &["checkpoint"],
    &["heartbeat", "--agent", "ada"],
    &["checkpoints", "prune", "--older-than", "0s", "-y"],
    &["checkpoints", "verify"],
    &["doctor"],
    &["doctor", "--fix"],
    &["context", "--agent", "ada"],
    &["backup", "copy.db"],
    &["export", "epic", "exported"],
    &["import", "epic", "agent_checkpoints"],
    &["config", "set", "liveness.quiet", "9m"],
    &["init"],
    &["resume"],
    &["restore", "copy.db", "-y"],
    &["doctor", "--rebuild", "-y"],
    &["agents", "retire", "ada"],
    // Files and folders that are typed, where the repository has a link.
    &[
        "checkpoints",
        "export",
        "@latest",
        "typed/out.json",
        "--force",
    ],
    &["checkpoints", "export", "@latest", "typed", "--force"],
    &["checkpoints", "import", "typed/a.json"],
    &["checkpoints", "import", "typed"],
    &["backup", "typed/copy.db"],
    &["restore", "typed/flightline.db", "-y"],
    &["restore", "typed", "-y"],
    &["note", "artifact", "Start", "--path", "typed/a.json"],
    &["note", "artifact", "Start", "--path", "typed"],
    &["export", "epic", "typed/below"],
    &["import", "epic", "typed"],
    &["man", "--to", "typed/man"],
    &["status", "--location", "typed"],
    &["init", "--location", "typed/store"],
    &["prime", "--agent", "ada"],
    &["handoff", "ada"],
    &["setup", "claude", "--project"],
    &["agents-md", "--write"],
    &["serve", "--addr", "127.0.0.1:0", "--for", "0s"],
    &["checkpoints", "delete", "@latest", "-y"],
    &["undo"],
    &["conflicts", "list"],
    &["detect"],
    &["agents", "sync", "ada"],
    &["trust", "--revoke"],
    &["trust", "-y"],
];

/// What a link leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    File,
    Folder,
    Nothing,
    Pipe,
    Device,
}

const TARGETS: [Target; 5] = [
    Target::File,
    Target::Folder,
    Target::Nothing,
    Target::Pipe,
    Target::Device,
];

/// What must not change: a folder beside the repository.
struct Sentinel {
    folder: PathBuf,
}

impl Sentinel {
    fn make(folder: &Path) -> Self {
        fs::create_dir_all(folder.join("folder/inner")).unwrap();
        for name in [
            "file",
            "folder/a.json",
            "folder/inner/b.json",
            "folder/flightline.db",
        ] {
            fs::write(folder.join(name), format!("what {name} says\n")).unwrap();
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o664)).unwrap();
        }
        fs::set_permissions(folder.join("folder"), fs::Permissions::from_mode(0o775)).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(folder.join("pipe"))
            .status();
        assert!(made.unwrap().success());
        Self {
            folder: folder.to_path_buf(),
        }
    }

    fn target(&self, target: Target) -> PathBuf {
        match target {
            Target::File => self.folder.join("file"),
            Target::Folder => self.folder.join("folder"),
            Target::Nothing => self.folder.join("not/there"),
            Target::Pipe => self.folder.join("pipe"),
            Target::Device => PathBuf::from("/dev/full"),
        }
    }

    /// Everything that could have changed: names, contents, modes, times of change.
    fn seen(&self) -> BTreeMap<PathBuf, (u32, i64, i64, u64, String)> {
        let mut seen = BTreeMap::new();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let about = fs::symlink_metadata(&path).unwrap();
                let text = match about.is_file() {
                    true => sha256_hex(&fs::read_to_string(&path).unwrap()),
                    false => String::new(),
                };
                if about.is_dir() {
                    folders.push(path.clone());
                }
                let changed = (about.ctime(), about.ctime_nsec());
                let all = (about.mode(), changed.0, changed.1, about.nlink(), text);
                seen.insert(path, all);
            }
        }
        seen
    }
}

/// A repository with everything in it: four mirrors, checkpoints with files, a backup, a rebuilt past.
struct Sound {
    world: World,
    /// What is below the repository, folders too.
    names: Vec<PathBuf>,
}

static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let world = World::bare(Engine::Sqlite);
    let git = |arguments: &[&str]| {
        let done = world.sealed("git").args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    };
    git(&["init", "--quiet", "."]);
    world.run(&["init"]).works();
    for mirror in ["sitebuilder", "epic", "orchestrator", "recovery"] {
        let name = format!("mirrors.{mirror}");
        world.run(&["config", "set", &name, "true"]).works();
    }
    for line in [
        &[
            "mission", "create", "First", "--sortie", "One", "--sortie", "Two",
        ][..],
        &["agents", "register", "ada"],
        &["sorties", "claim", "--next", "--agent", "ada"],
        &["locks", "acquire", "src/a.rs", "--agent", "ada"],
        &["heartbeat", "--agent", "ada", "--tokens", "190000/200000"],
        &["checkpoint"],
        &["note", "constraint", "Keep it small"],
        &["checkpoint"],
        &["status"],
    ] {
        world.run(line).works();
    }
    fs::create_dir(world.state().join("backups")).unwrap();
    world
        .run(&["backup", ".flightline/backups/by-hand.db"])
        .works();
    let mut names = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(world.repo().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let below = folder.join(entry.file_name());
            if below.starts_with(".git") {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(below.clone());
            }
            names.insert(below);
        }
    }
    // What is made only now and then.
    for name in [
        "exported",
        "copy.db",
        "typed",
        "typed/out.json",
        "typed/copy.db",
        "AGENTS.md",
        ".claude",
        ".claude/settings.json",
        ".flightline/flightline.db-wal",
        ".flightline/flightline.db-shm",
        ".flightline/flightline.db-journal",
        ".flightline/mirrors/epic/.again",
        ".flightline/mirrors/epic/.seen",
        ".flightline/mirrors/epic/.turn",
        "agent_checkpoints/backups",
        "agent_checkpoints/archive",
        "checkpoints/archive",
        "progress/archive",
        "progress/STATUS.md",
    ] {
        names.insert(PathBuf::from(name));
    }
    Sound {
        names: names.into_iter().collect(),
        world,
    }
});

/// A copy of the sound repository with a link in one place, and what lies outside of it.
fn copy(folder: &Path) -> (World, Sentinel) {
    let (world, sentinel) = (
        World::at(&folder.join("repo"), None),
        Sentinel::make(&folder.join("outside")),
    );
    for name in [".git"].map(PathBuf::from).iter().chain(&SOUND.names) {
        let (from, to) = (SOUND.world.repo().join(name), world.repo().join(name));
        match fs::symlink_metadata(&from) {
            Ok(seen) if seen.is_dir() => {
                fs::create_dir_all(&to).unwrap();
                fs::set_permissions(&to, seen.permissions()).unwrap();
            }
            Ok(seen) if seen.is_file() => drop(fs::copy(&from, &to).unwrap()),
            Ok(_) => symlink(fs::read_link(&from).unwrap(), &to).unwrap(),
            Err(_) => {}
        }
    }
    world.trust();
    (world, sentinel)
}

fn put_link(world: &World, name: &Path, target: &Path) {
    let place = world.repo().join(name);
    match fs::symlink_metadata(&place) {
        Ok(seen) if seen.is_dir() => fs::remove_dir_all(&place).unwrap(),
        Ok(_) => fs::remove_file(&place).unwrap(),
        Err(_) => fs::create_dir_all(place.parent().unwrap()).unwrap(),
    }
    symlink(target, place).unwrap();
}

/// Runs a command that may be refused, and must neither panic nor hang.
fn runs(world: &World, arguments: &[&str], about: &str) {
    let mut command = world.sealed("timeout");
    command
        .args(["20", env!("CARGO_BIN_EXE_fleet")])
        .args(arguments)
        .stdin(Stdio::null());
    let answer = super::world::Answer::new(command.output().unwrap());
    let code = answer.code();
    assert!(
        code.is_some_and(|code| (0..=7).contains(&code)),
        "{about}: {arguments:?}: {answer}"
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "how much is tried is said from outside"
)]
pub fn all_of_them() -> bool {
    std::env::var("FLEET_HOSTILE").is_ok_and(|wanted| wanted == "all")
}

#[test]
fn no_link_below_the_repository_is_followed_by_any_command() {
    for (number, name) in SOUND.names.iter().enumerate() {
        for (at, target) in TARGETS.into_iter().enumerate() {
            // Each place meets two kinds of targets, each kind every place but two.
            if !all_of_them() && !matches!((number + at) % 5, 0 | 1) {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let (world, sentinel) = copy(folder.path());
            put_link(&world, name, &sentinel.target(target));
            let before = sentinel.seen();
            let about = format!("{} leads to {target:?}", name.display());
            let some = COMMANDS.iter().enumerate();
            let some =
                some.filter(|(command, _)| all_of_them() || (command + number + at) % 6 == 0);
            for (_, command) in some {
                runs(&world, command, &about);
            }
            assert_eq!(sentinel.seen(), before, "{about}");
        }
    }
}

#[test]
fn a_link_that_is_swapped_in_while_a_command_runs_leads_nowhere() {
    for name in [
        ".flightline/mirrors",
        ".flightline/checkpoints",
        ".flightline/backups",
        "agent_checkpoints",
        "progress",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (world, sentinel) = copy(folder.path());
        let before = sentinel.seen();
        let (place, aside) = (world.repo().join(name), folder.path().join("aside"));
        let over = Arc::new(AtomicBool::new(false));
        let swapping = {
            let (over, target) = (Arc::clone(&over), sentinel.target(Target::Folder));
            let link = folder.path().join("link");
            thread::spawn(move || {
                let mut swaps = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    // Away with the folder, in with the link, and back.
                    if fs::rename(&place, &aside).is_ok() {
                        // A command may make the folder anew at any moment: then the link is not there, and the folder goes, too.
                        let _ = fs::remove_file(&link);
                        let swapped =
                            symlink(&target, &link).and_then(|()| fs::rename(&link, &place));
                        swaps += u64::from(swapped.is_ok());
                        thread::sleep(Duration::from_micros(300));
                        let _ = fs::remove_file(&place);
                        while fs::rename(&aside, &place).is_err() && aside.exists() {
                            let _ = fs::remove_dir_all(&place);
                        }
                    }
                    thread::sleep(Duration::from_micros(300));
                }
                swaps
            })
        };
        for round in 0..if all_of_them() { 100 } else { 6 } {
            for command in [
                &["note", "lesson", "Again"][..],
                &["checkpoint"],
                &["doctor", "--fix"],
                &["checkpoints", "prune", "--older-than", "0s", "-y"],
            ] {
                runs(
                    &world,
                    command,
                    &format!("{name} is swapped, round {round}"),
                );
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(swapping.join().unwrap() > 20, "{name} was swapped");
        assert_eq!(sentinel.seen(), before, "{name}");
    }
}

#[test]
fn no_command_opens_what_lies_outside() {
    let folder = tempfile::tempdir().unwrap();
    let (world, sentinel) = copy(folder.path());
    for (name, target) in [
        (".flightline/mirrors/epic/.turn", Target::File),
        (".flightline/backups", Target::Folder),
        ("agent_checkpoints", Target::Folder),
        ("progress/STATUS.md", Target::File),
        ("typed", Target::Folder),
        ("chk.json", Target::File),
        (".claude/settings.json", Target::File),
    ] {
        put_link(&world, Path::new(name), &sentinel.target(target));
    }
    let trace = folder.path().join("trace");
    let outside = sentinel.folder.to_str().unwrap();
    // Every command there is, also those that do nothing here.
    let lines = every::lines();
    let every = lines.iter().map(|line| words(line));
    let typed = COMMANDS.iter();
    let typed = typed.map(|command| command.iter().map(OsString::from).collect());
    for command in typed.chain(every) {
        let mut traced = world.sealed("strace");
        traced
            .args([
                "-f",
                "-y",
                "-e",
                "trace=%file,ftruncate,fchmod,fchown",
                "-o",
            ])
            .arg(&trace)
            .arg(env!("CARGO_BIN_EXE_fleet"))
            .args(&command)
            .stdin(Stdio::null());
        let done = traced.output().unwrap();
        assert!(done.status.code().is_some(), "{command:?}: {done:?}");
        let text = fs::read_to_string(&trace).unwrap();
        assert!(text.contains("execve"), "the trace sees something");
        for line in text.lines().filter(|line| line.contains(outside)) {
            // To look where a link leads is no harm; to open that is.
            let looks = [
                "readlink",
                "lstat",
                "newfstatat",
                "statx",
                "symlink",
                "execve",
            ];
            assert!(
                looks.iter().any(|call| line.contains(call)) || line.contains("= -1 "),
                "{command:?}: {line}"
            );
        }
    }
}

#[test]
fn a_store_that_came_with_a_clone_is_shown_and_never_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let (world, _) = copy(folder.path());
    world.run(&["trust", "--revoke"]).works();
    let before = world.sqlite("SELECT rev FROM project");
    let shown = world.run(&["status"]).ends();
    assert_eq!(shown.code(), Some(0), "{shown}");
    assert!(
        shown
            .err
            .contains("this fleet was neither created nor trusted"),
        "{shown}"
    );
    for command in [
        &["context", "--agent", "ada"][..],
        &["handoff", "ada"],
        &["serve", "--addr", "127.0.0.1:0", "--for", "0s"],
        &["sorties", "claim", "--next", "--agent", "eve"],
        &["resume", "--dry-run"],
        &["token", "create", "eve"],
        &["doctor", "--fix"],
        &["doctor", "--rebuild", "-y"],
        &["init"],
        &["heartbeat", "--agent", "ada"],
        &["prime", "--agent", "ada"],
    ] {
        let refused = world.run(command).ends();
        assert_eq!(refused.code(), Some(6), "{command:?}: {refused}");
        assert!(
            refused.err.contains("fleet trust"),
            "{command:?}: {refused}"
        );
        assert!(
            !refused.out.contains("Keep it small"),
            "{command:?}: {refused}"
        );
    }
    assert_eq!(world.sqlite("SELECT rev FROM project"), before);
    // A person who knows where it comes from says so, once.
    let asked = world.run(&["trust"]).ends();
    assert_eq!(asked.code(), Some(2), "nobody is there to say yes: {asked}");
    world.run(&["trust", "-y"]).works();
    let briefed = world.run(&["context", "--agent", "ada", "--full"]).works();
    assert!(briefed.out.contains("Keep it small"), "{briefed}");
    assert_eq!(briefed.err, "");
}

#[test]
fn a_store_that_a_pull_puts_in_place_of_a_trusted_one_is_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let (world, _) = copy(folder.path());
    world.run(&["note", "lesson", "Mine"]).works();
    let database = world.database();
    let bytes = fs::read(SOUND.world.database()).unwrap();
    // As git does it: the old file goes, and a new one is made in its place.
    fs::remove_file(&database).unwrap();
    for beside in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{beside}", database.display()));
    }
    fs::write(&database, bytes).unwrap();
    let refused = world.run(&["note", "lesson", "Whose?"]).ends();
    assert_eq!(refused.code(), Some(6), "{refused}");
    world.run(&["trust", "-y"]).works();
    world.run(&["note", "lesson", "Mine again"]).works();
    // A repository that was only moved is the same.
    let moved = World::at(&folder.path().join("moved"), None);
    fs::remove_dir(moved.repo()).unwrap();
    fs::rename(world.repo(), moved.repo()).unwrap();
    let mut run = moved.sealed(env!("CARGO_BIN_EXE_fleet"));
    let done = run
        .env("HOME", world.home())
        .args(["note", "lesson", "Moved"]);
    assert!(done.status().unwrap().success());
}

#[test]
fn the_doctor_warns_of_a_state_folder_that_the_repository_tracks() {
    let folder = tempfile::tempdir().unwrap();
    let (world, _) = copy(folder.path());
    let warning = "the repository tracks `.flightline/`, so that a pull can replace it: `git rm -r --cached .flightline`";
    let git = |arguments: &[&str]| {
        let done = world.sealed("git").args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    };
    git(&["init", "--quiet", "."]);
    // Her context is full, which needs somebody.
    world.run(&["agents", "end", "ada"]).works();
    let untracked = world.run(&["doctor", "--fix"]).works();
    assert!(!untracked.out.contains("tracks"), "{untracked}");
    git(&["add", "--force", ".flightline/flightline.db"]);
    // It is no damage: a repair would not help, and the exit code stays that of a sound store.
    for command in [&["doctor"][..], &["doctor", "--fix"]] {
        let seen = world.run(command).works();
        assert!(seen.out.contains(warning), "{seen}");
        assert!(seen.out.contains("is well"), "{seen}");
    }
    let json = world.ask(&["doctor"]);
    let checks = json["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "repository");
    assert_eq!(check.unwrap()["findings"][0], warning);
    // As the warning says, and all is quiet again; the files stay.
    git(&["rm", "-r", "--quiet", "--cached", ".flightline"]);
    let quiet = world.run(&["doctor"]).works();
    assert!(!quiet.out.contains("tracks"), "{quiet}");
}

#[test]
fn a_store_full_of_lies_is_refused_column_by_column() {
    let lies = [
        "'$(touch pwned)'",
        "x'ff00fe'",
        "'../../../etc/passwd'",
        "-1",
        "9223372036854775807",
        "NULL",
        "zeroblob(70000000)",
    ];
    let columns = "SELECT m.name || ' ' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c \
                   WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY 1";
    let columns = SOUND.world.sqlite(columns);
    for (number, column) in columns.lines().enumerate() {
        let (table, column) = column.split_once(' ').unwrap();
        for (at, lie) in lies.iter().enumerate() {
            if !all_of_them() && (number + at) % lies.len() != 0 {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let (world, sentinel) = copy(folder.path());
            let before = sentinel.seen();
            // Where a constraint forbids it, a stranger would not have had one.
            let sql = format!(
                "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF; \
                 UPDATE OR IGNORE {table} SET {column} = {lie}"
            );
            let mut command = world.sealed("sqlite3");
            let _ = command.arg(world.database()).arg(&sql).output().unwrap();
            let about = format!("{table}.{column} = {lie}");
            for command in [
                &["status"][..],
                &["context", "--agent", "ada"],
                &["log"],
                &["sorties", "claim", "--next", "--agent", "eve"],
                &["prime", "--agent", "ada"],
                &["doctor"],
                // The rest takes turns.
                COMMANDS[(number + at) % COMMANDS.len()],
            ] {
                runs(&world, command, &about);
            }
            assert!(!world.repo().join("pwned").exists(), "{about}");
            assert_eq!(sentinel.seen(), before, "{about}");
        }
    }
}
