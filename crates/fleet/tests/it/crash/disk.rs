//! A disk that is full, a file that may not grow, a folder that cannot be written.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use flightline_testkit::Engine;
use serde_json::Value;
use tempfile::TempDir;

use crate::crash::journal::{self, texts};
use crate::crash::world::{Answer, World};

/// A note that takes several pages, and says which one it is.
pub fn long(name: &str) -> String {
    format!("{name}: {}.", "all work and no play ".repeat(380))
}

/// What was acknowledged in a world.
struct Kept {
    notes: Vec<String>,
}

impl Kept {
    fn new() -> Self {
        Self { notes: Vec::new() }
    }

    /// Writes until a write fails, and gives what that one says. It writes `most` times at most.
    fn fill(&mut self, name: &str, most: u32, write: impl Fn(&str) -> Answer) -> Option<Answer> {
        for number in 0..most {
            let note = long(&format!("{name}-{number}"));
            let answer = write(&note);
            if answer.code() == Some(0) {
                self.notes.push(note);
                continue;
            }
            assert!(matches!(answer.code(), Some(1 | 7)), "{answer}");
            assert!(answer.err.starts_with("error: "), "{answer}");
            assert!(!answer.err.contains("panicked"), "{answer}");
            return Some(answer);
        }
        None
    }

    /// A listing holds exactly what was acknowledged.
    fn is(&self, list: &Value) {
        let found = texts(list, "/text");
        let names = |notes: &[String]| -> Vec<String> {
            let name = |note: &String| note.split(": ").next().unwrap().to_owned();
            notes.iter().map(name).collect()
        };
        assert_eq!(names(&found), names(&self.notes));
        assert!(found == self.notes, "and every byte of it");
    }

    /// Exactly what was acknowledged is there, and more can be written.
    fn is_all_there(&mut self, world: &World) {
        world.is_well();
        self.is(&world.ask(&["note", "list"]));
        let after = format!("after {}", self.notes.len());
        world.run(&["note", "lesson", &after]).works();
        self.notes.push(after);
        journal::all(world);
    }
}

#[test]
fn a_file_that_may_not_grow_fails_the_write_and_nothing_else() {
    let world = World::new(Engine::Sqlite);
    let mut kept = Kept::new();
    let mut refusals = 0;
    // From less than the index of the log to more than the log is allowed to grow.
    for kib in [0, 1, 8, 31, 60, 100, 130, 170, 260, 420, 700, 900] {
        let write = |note: &str| within(&world, kib, &["note", "lesson", note]);
        let name = format!("limit-{kib}");
        refusals += u32::from(kept.fill(&name, 60, write).is_some());
        // A reader is let in, or told why not.
        let looked = within(&world, kib, &["note", "list", "-q"]);
        assert!(matches!(looked.code(), Some(0 | 1 | 7)), "{looked}");
        kept.is_all_there(&world);
    }
    assert!(refusals >= 10, "{refusals} writes were refused");
}

#[test]
fn a_new_store_that_may_not_grow_is_made_later() {
    for kib in [0, 1, 4, 31, 32, 40, 80] {
        let world = World::bare(Engine::Sqlite);
        let refused = within(&world, kib, &["init"]);
        assert!(matches!(refused.code(), Some(1 | 7)), "{kib}: {refused}");
        assert!(refused.err.starts_with("error: "), "{refused}");
        world.begin();
        world.is_well();
        assert_eq!(world.sqlite("SELECT count(*) FROM project"), "1");
    }
}

#[test]
fn a_backup_that_may_not_grow_leaves_no_file() {
    let world = World::new(Engine::Sqlite);
    let mut kept = Kept::new();
    let full = kept.fill("note", 12, |note| {
        world.run(&["note", "lesson", note]).ends()
    });
    assert!(full.is_none());
    for kib in [0, 8, 33, 64, 128] {
        let refused = within(&world, kib, &["backup", "copy.db"]);
        assert!(matches!(refused.code(), Some(1 | 7)), "{kib}: {refused}");
        let here = fs::read_dir(world.repo()).unwrap();
        let left: Vec<_> = here.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".flightline"], "{kib}: {refused}");
    }
    world.run(&["backup", "copy.db"]).works();
    // A restore that cannot be written changes nothing.
    kept.fill("later", 2, |note| {
        world.run(&["note", "lesson", note]).ends()
    });
    for kib in [33, 128, 400] {
        let refused = within(&world, kib, &["restore", "copy.db", "-y"]);
        assert!(matches!(refused.code(), Some(1 | 7)), "{kib}: {refused}");
        kept.is_all_there(&world);
    }
}

#[test]
fn a_full_disk_fails_the_write_and_nothing_else() {
    let Some(disk) = Disk::mount(1536) else {
        return;
    };
    let world = World::at(&disk.path.join("repo"), None);
    world.begin();
    let mut kept = Kept::new();
    let mut refused = None;
    for spare in [0, 4, 12, 40, 90, 160] {
        let ballast = disk.leave(spare);
        let write = |note: &str| world.run(&["note", "lesson", note]).ends();
        let full = kept.fill(&format!("spare-{spare}"), 30, write).unwrap();
        assert_eq!(full.code(), Some(7), "{full}");
        assert!(full.err.contains("the disk is full"), "{full}");
        assert!(full.err.contains("nothing was written"), "{full}");
        // A reader is not kept from it, and a copy on the same disk is refused. The doctor finds the store sound,
        // and says that its disk is full.
        let doctor = world.run(&["doctor"]).ends();
        let bad = doctor.out.lines().filter(|line| line.starts_with('✗'));
        let bad: Vec<&str> = bad.collect();
        assert!(
            bad.iter().all(|line| line.ends_with("the disk")),
            "{doctor}"
        );
        assert_eq!(doctor.code(), Some(if bad.is_empty() { 0 } else { 5 }));
        kept.is(&world.ask(&["note", "list"]));
        let backup = world.run(&["backup", "copy.db"]).ends();
        assert!(matches!(backup.code(), Some(1 | 7)), "{backup}");
        assert!(!world.repo().join("copy.db").exists());
        refused = Some(backup);
        fs::remove_file(ballast).unwrap();
        kept.is_all_there(&world);
    }
    let refused = refused.unwrap();
    assert!(
        refused.err.contains("full") || refused.err.contains("space"),
        "{refused}"
    );
}

#[test]
fn a_full_disk_lets_agents_look_and_end_their_trouble() {
    let Some(disk) = Disk::mount(2048) else {
        // The rules themselves are tested without a disk: `full_disk` of the library.
        return;
    };
    let world = World::at(&disk.path.join("repo"), None);
    world.begin();
    for agent in ["ada", "bob"] {
        world.run(&["agents", "register", agent]).works();
    }
    world.run(&["sorties", "add", "Model"]).works();
    world.run(&["sorties", "add", "Docs"]).works();
    world.run(&["sorties", "claim", "--next"]).by("ada").works();
    world.run(&["locks", "acquire", "src"]).by("ada").works();
    world
        .run(&["mail", "send", "--to", "ada", "--subject", "Please look"])
        .by("bob")
        .works();
    assert!(world.state().join("reserve").exists());
    let ballast = disk.leave(0);
    let refused = world.run(&["note", "lesson", &long("one too many")]).ends();
    assert_eq!(refused.code(), Some(7), "{refused}");
    assert!(refused.err.contains("the disk is full"), "{refused}");
    // Who looks gets an answer, and is told what could not be noted.
    let status = world.run(&["status"]).works();
    assert!(!status.out.is_empty(), "{status}");
    for looks in [&["context"][..], &["mail", "inbox"], &["log"]] {
        let seen = world.run(looks).by("ada").works();
        assert!(!seen.out.is_empty(), "{looks:?}: {seen}");
    }
    let inbox = world.run(&["mail", "inbox"]).by("ada").works();
    assert!(inbox.out.contains("Please look"), "{inbox}");
    // What ends trouble is written, into the room that was kept for it.
    world.run(&["heartbeat"]).by("ada").works();
    world.run(&["locks", "release", "--all"]).by("ada").works();
    assert_eq!(world.ask(&["locks", "list"]), serde_json::json!([]));
    world.run(&["heartbeat"]).by("ada").works();
    // Nothing else is, until there is room again; and that is said. What the log gave back is taken by others.
    disk.fill("more");
    let refused = world.run(&["note", "lesson", "small"]).ends();
    assert_eq!(refused.code(), Some(7), "{refused}");
    assert!(refused.err.contains("the disk is full"), "{refused}");
    let status = world.run(&["status"]).works();
    assert!(status.out.contains("the disk is full ("), "{status}");
    let doctor = world.run(&["doctor"]).ends();
    assert_eq!(doctor.code(), Some(5), "{doctor}");
    assert!(doctor.out.contains("the disk is full ("), "{doctor}");
    fs::remove_file(ballast).unwrap();
    world.run(&["note", "lesson", "small"]).works();
    assert!(world.state().join("reserve").exists(), "it is kept again");
    world.is_well();
    let status = world.run(&["status"]).works();
    assert!(!status.out.contains("the disk is full"), "{status}");
    journal::all(&world);
}

#[test]
fn a_disk_that_becomes_read_only_fails_writes_and_loses_nothing() {
    let Some(disk) = Disk::mount(2048) else {
        return;
    };
    let world = World::at(&disk.path.join("repo"), None);
    world.begin();
    let mut kept = Kept::new();
    let write = |note: &str| world.run(&["note", "lesson", note]).ends();
    // With a log beside the database, and without one.
    for folded in [false, true] {
        assert!(kept.fill(&format!("{folded}"), 3, write).is_none());
        if folded {
            // The distribution's `sqlite3` folds the log and takes it away when it is the last to leave.
            world.sqlite("SELECT count(*) FROM event");
            assert!(!world.state().join("flightline.db-wal").exists());
        }
        disk.remount("ro");
        let refused = kept.fill("read-only", 1, write).unwrap();
        assert_eq!(refused.code(), Some(7), "{refused}");
        assert!(refused.err.contains("nothing was written"), "{refused}");
        let looked = world.run(&["note", "list", "--json"]).ends();
        match looked.code() {
            Some(0) => kept.is(&serde_json::from_str(&looked.out).unwrap()),
            code => assert_eq!(code, Some(7), "{looked}"),
        }
        disk.remount("rw");
        kept.is_all_there(&world);
    }
}

/// Runs `fleet` where no file may become larger than this.
fn within(world: &World, kib: u32, arguments: &[&str]) -> Answer {
    let script = "ulimit -f \"$1\"; trap '' XFSZ; shift; exec \"$@\"";
    let mut command = world.sealed("bash");
    command.args(["-c", script, "bash", &kib.to_string()]);
    command.arg(env!("CARGO_BIN_EXE_fleet")).args(arguments);
    Answer::new(command.output().unwrap())
}

/// A small disk of our own. It goes with this value.
pub struct Disk {
    pub path: PathBuf,
    _folder: TempDir,
}

impl Disk {
    /// Nothing where this user may not mount one, which is said.
    pub fn mount(kib: u32) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("disk");
        fs::create_dir(&path).unwrap();
        let size = format!("size={kib}k");
        if run("mount", &["-t", "tmpfs", "-o", &size, "fleet-test"], &path) {
            return Some(Self {
                path,
                _folder: folder,
            });
        }
        // Past the capture of a test's output: nobody may take this for tested.
        let _ = writeln!(
            std::io::stderr(),
            "NOT RUN: this user cannot mount a tmpfs, so no test here met a real full or read-only disk"
        );
        None
    }

    pub fn remount(&self, mode: &str) {
        assert!(run(
            "mount",
            &["-o", &format!("remount,{mode}")],
            &self.path
        ));
    }

    /// Fills the disk but for so many KiB, with a file.
    pub fn leave(&self, kib: u64) -> PathBuf {
        let ballast = self.path.join("ballast");
        self.write_all_but(&ballast, kib * 1024);
        ballast
    }

    /// Writes a file as large as what is free but for so many bytes. A server on the disk may write at the same moment: then
    /// less is free than was seen, and it is looked at again.
    fn write_all_but(&self, file: &Path, left: u64) {
        for _ in 0..100 {
            let seen = rustix::fs::statvfs(&self.path).unwrap();
            let free = seen.f_bavail * seen.f_frsize;
            let bytes = usize::try_from(free.checked_sub(left).unwrap()).unwrap();
            match fs::write(file, vec![1; bytes]) {
                Ok(()) => return,
                Err(error) if error.kind() == ErrorKind::StorageFull => {
                    fs::remove_file(file).unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the disk is never as free as it seems");
    }

    /// Fills what is left with another file.
    pub fn fill(&self, name: &str) {
        self.write_all_but(&self.path.join(name), 0);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &["--lazy"], &self.path);
    }
}

pub fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let output = Command::new(program).args(arguments).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}
