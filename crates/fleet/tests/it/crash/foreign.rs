//! Programs that are not ours: the distribution's `sqlite3` reads the store while our processes run, are
//! killed, or are gone.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flightline_testkit::Engine;
use flightline_testkit::program::ChildGuard;
use tempfile::TempDir;

use crate::crash::journal::{self, texts};
use crate::crash::kill::{self, Storm};
use crate::crash::world::World;

const COUNT: &str = "SELECT count(*) FROM event";

#[test]
fn another_program_reads_while_ours_write_and_are_killed() {
    let world = World::new(Engine::Sqlite);
    let storm = Storm::prepare(&world, 10);
    let over = AtomicBool::new(false);
    let (deeds, looks) = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut seen, mut looks) = (0, 0);
            while !over.load(Ordering::SeqCst) {
                let now: u64 = world.sqlite(COUNT).parse().unwrap();
                assert!(now >= seen, "{now} events after {seen}");
                (seen, looks) = (now, looks + 1);
                // A busy reader is not what this is about.
                thread::sleep(Duration::from_millis(5));
            }
            looks
        });
        let deeds = {
            let _ends = Ends(&over);
            storm.rage(&world)
        };
        (deeds, reader.join().unwrap())
    });
    assert!(looks > 3, "{looks} looks");
    // Nobody has it open now: the foreigner replays the log, folds it, and takes it away.
    let events = journal::all(&world).len();
    assert_eq!(world.sqlite(COUNT), events.to_string());
    assert_eq!(world.sqlite("PRAGMA integrity_check"), "ok");
    let missions = "SELECT title, status FROM missions ORDER BY title";
    assert_eq!(world.sqlite(missions), "First|pending\nStorm|in_progress");
    assert!(!world.state().join("flightline.db-wal").exists());
    kill::whole(&world, &deeds);
    assert_eq!(journal::all(&world).len(), events + 1);
    assert_eq!(world.sqlite("PRAGMA journal_mode"), "wal");
}

#[test]
fn another_program_that_holds_the_database_is_waited_for_and_named() {
    let world = World::new(Engine::Sqlite);
    for ending in ["COMMIT;", ""] {
        let mut holder = Holder::start(&world);
        let began = Instant::now();
        let refused = world
            .run(&["note", "lesson", "refused"])
            .env("FLEET_TEST_PATIENCE_MS", 300)
            .ends();
        assert!(began.elapsed() < Duration::from_secs(7), "it gave up soon");
        assert_eq!(refused.code(), Some(7), "{refused}");
        let said = "another program holds the database";
        assert!(refused.err.contains(said), "{refused}");
        assert!(refused.err.contains("nothing was written"), "{refused}");
        world.run(&["note", "list"]).works();
        // It ends well, or is killed: the writer that waits goes on.
        let waiting = world
            .run(&["note", "lesson", "waited"])
            .env("FLEET_TEST_PATIENCE_MS", 120_000)
            .starts();
        holder.end(ending);
        let began = Instant::now();
        let answer = waiting.ends();
        assert_eq!(answer.code(), Some(0), "{answer}");
        // Long before its patience ends, however busy the machine is.
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    let notes = texts(&world.ask(&["note", "list"]), "/text");
    assert_eq!(notes, ["waited", "waited"]);
    world.is_well();
}

/// As after a power cut: only the database and its log are left, and the log may end anywhere. What
/// was committed before that is there, and nothing is half there.
#[test]
fn a_log_that_ends_anywhere_replays_whole_requests() {
    let world = World::new(Engine::Sqlite);
    world.run(&["agents", "register", "bob"]).works();
    world.run(&["agents", "register", "eve"]).works();
    let file = world.state().join("flightline.db-wal");
    // Commands fold it now and then: as many letters as make it long.
    let log = (0..20).find_map(|number| {
        let subject = format!("Letter {number}");
        world.run(&kill::letter(&subject)).works();
        let log = fs::read(&file).unwrap();
        (number >= 4 && log.len() > 300_000).then_some(log)
    });
    let log = log.expect("a long log");
    let events = journal::all(&world);
    // The schema is older than all that: a log without it is a store that was never made.
    let schema = log.len() * 6 / 10;
    let cuts = (0..16).map(|part| schema + (log.len() - schema) * part / 15);
    let (mut lengths, folder) = (Vec::new(), TempDir::new().unwrap());
    for cut in cuts {
        let copy = World::at(&folder.path().join(format!("cut-{cut}")), None);
        fs::create_dir(copy.state()).unwrap();
        for file in ["config.toml", "flightline.db"] {
            fs::copy(world.state().join(file), copy.state().join(file)).unwrap();
        }
        let torn = [&log[..cut], &[0x5a; 999][..(log.len() - cut).min(999)]].concat();
        fs::write(copy.state().join("flightline.db-wal"), torn).unwrap();
        copy.trust();
        copy.is_well();
        let left = journal::all(&copy);
        assert_eq!(left, events[..left.len()]);
        if let Some(next) = events.get(left.len()) {
            assert_eq!(next.rev, next.step, "the cut is between two requests");
        }
        lengths.push(left.len());
        copy.run(&["mission", "create", "Later"]).works();
        let found = journal::all(&copy).len();
        assert_eq!(copy.sqlite(COUNT), found.to_string());
        copy.is_well();
    }
    assert_eq!(lengths.last(), Some(&events.len()), "nothing was cut");
    assert!(lengths.first() < lengths.last());
    assert!(lengths.is_sorted(), "a longer log holds more: {lengths:?}");
}

/// Says that it is over, whatever happened.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A `sqlite3` that is in the middle of a write. It ends with this value.
struct Holder {
    child: ChildGuard,
}

impl Holder {
    fn start(world: &World) -> Self {
        let mut command = world.sealed("sqlite3");
        command.arg("-batch").arg(world.database());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = Self {
            child: ChildGuard::spawn(&mut command),
        };
        holder.type_in("BEGIN IMMEDIATE;\nSELECT 'holding';\n");
        let out = holder.child.stdout.as_mut().unwrap();
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line, "holding\n");
        holder
    }

    fn type_in(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Ends it with a last statement, or kills it when there is none.
    fn end(&mut self, statement: &str) {
        if statement.is_empty() {
            self.child.kill().unwrap();
        } else {
            self.type_in(statement);
            drop(self.child.stdin.take());
        }
        self.child.wait().unwrap();
    }
}
