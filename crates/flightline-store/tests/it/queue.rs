//! Writers of different processes take turns, and none waits for ever. SQLite only: PostgreSQL
//! queues by itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use flightline_core::Kind;
use flightline_core::event::EventType;
use flightline_store::{Location, OpenOptions, Store, StoreError};
use flightline_testkit::value::{agent_id, mission};
use flightline_testkit::{Engine, World};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

const FOLDER: &str = "FLEET_TEST_FOLDER";
const PROJECT: &str = "FLEET_TEST_PROJECT";

/// Another process in the middle of a write. It ends with this value.
struct Holder {
    child: Child,
    _stdin: ChildStdin,
}

impl Holder {
    fn start(world: &World) -> Self {
        let Location::Folder(folder) = &world.location else {
            unreachable!("the queue is SQLite's")
        };
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "queue::the_other_process", "--nocapture"])
            .env(FOLDER, folder)
            .env(PROJECT, &world.project)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let holds = said.lines().any(|line| line.unwrap().contains("holding"));
        assert!(holds, "the other process got its turn");
        Self {
            child,
            _stdin: stdin,
        }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of [`Holder`]: begins a write and does not end it while its standard input is open.
/// Without a test above it that says where, there is nothing to hold.
#[test]
fn the_other_process() {
    let (Some(folder), Some(project)) = (told(FOLDER), told(PROJECT)) else {
        return;
    };
    let options = OpenOptions {
        purpose: "hold still".to_owned(),
        ..OpenOptions::default()
    };
    let mut store = Store::open(&Location::parse(&folder), &project, options).unwrap();
    let ended = store.write(|tx| {
        tx.set(
            EventType::MissionCreated,
            &mission(66, "Never seen"),
            &json!({}),
        )?;
        std::io::stdout().write_all(b"holding\n").unwrap();
        let _ = std::io::stdin().read(&mut [0]);
        Err::<(), _>(StoreError::Missing("time is up".to_owned()))
    });
    assert!(ended.is_err());
}

#[expect(
    clippy::disallowed_methods,
    reason = "a process that a test started learns from its environment what to do"
)]
fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn open(world: &World, patience: Duration) -> Store {
    let options = OpenOptions {
        patience,
        rehearse: false,
        ..world.options()
    };
    world.open(options)
}

/// Runs `attempt`, which must fail within a time that no hook would notice.
fn refused_in_time<T: std::fmt::Debug>(attempt: impl FnOnce() -> Result<T, StoreError>) -> String {
    let began = Instant::now();
    let refused = attempt().unwrap_err();
    let waited = began.elapsed();
    assert!(matches!(refused, StoreError::Busy(_)), "{refused:?}");
    assert!(
        (Duration::from_millis(290)..Duration::from_secs(3)).contains(&waited),
        "{waited:?}"
    );
    refused.to_string()
}

#[test]
fn a_frozen_writer_is_named_and_waited_for_no_longer_than_allowed() {
    let world = World::new(Engine::Sqlite);
    let holder = Holder::start(&world);
    holder.send(Signal::STOP);
    let mut store = open(&world, Duration::from_millis(300));
    let expected = format!(
        "the store is busy: process {} (`fleet hold still`) has been writing for longer than 0.3s",
        holder.child.id()
    );
    let said = refused_in_time(|| {
        store.write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({})))
    });
    assert_eq!(said, expected);
    let said = refused_in_time(|| store.pulse(|tx| tx.beat(agent_id(1), 1, &json!({}))));
    assert_eq!(said, expected);
    let ids = store.read(|tx| tx.ids(Kind::Mission)).unwrap();
    assert_eq!(ids, [] as [&str; 0], "readers do not wait");
}

#[test]
fn a_waiter_goes_on_at_once_when_the_frozen_writer_is_killed() {
    let world = World::new(Engine::Sqlite);
    let holder = Holder::start(&world);
    holder.send(Signal::STOP);
    // Somebody has given up before: it must not take the turn it no longer wants.
    let mut hasty = open(&world, Duration::from_millis(300));
    refused_in_time(|| {
        hasty.write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({})))
    });

    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut patient = open(&world, Duration::from_secs(20));
            let written = patient
                .write(|tx| tx.set(EventType::MissionCreated, &mission(2, "Two"), &json!({})));
            send.send(written).unwrap();
        });
        let early = receive.recv_timeout(Duration::from_millis(100));
        assert!(early.is_err(), "it waits: {early:?}");
        holder.send(Signal::KILL);
        let written = receive.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(written.unwrap(), 1, "what the dead one wrote is not there");
    });
    hasty
        .write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({})))
        .unwrap();
    let ids = hasty.read(|tx| tx.ids(Kind::Mission)).unwrap();
    assert_eq!(ids.len(), 2);
    assert_eq!(world.problems(), [] as [&str; 0]);
}

#[test]
fn another_program_that_holds_the_database_is_waited_for_no_longer_than_allowed() {
    let world = World::new(Engine::Sqlite);
    let file = world.folder().join(".flightline/flightline.db");
    let other = rusqlite::Connection::open(file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut store = open(&world, Duration::from_millis(300));
    let said = refused_in_time(|| {
        store.write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({})))
    });
    assert_eq!(
        said,
        "the store is busy: another program holds the database"
    );
    other.execute_batch("ROLLBACK").unwrap();
    store
        .write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({})))
        .unwrap();
}

#[test]
fn a_turn_ends_with_the_write_even_when_the_write_fails() {
    let world = World::new(Engine::Sqlite);
    let (mut one, mut two) = (
        open(&world, Duration::from_millis(300)),
        open(&world, Duration::from_millis(300)),
    );
    let refused = one.write(|_| Err::<(), _>(StoreError::Missing("second thoughts".to_owned())));
    assert!(refused.is_err());
    two.write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({})))
        .unwrap();
    one.write(|tx| tx.set(EventType::MissionCreated, &mission(2, "Two"), &json!({})))
        .unwrap();
}

#[test]
fn a_link_in_place_of_the_queue_is_not_followed() {
    let world = World::new(Engine::Sqlite);
    let victim = world.folder().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let queue = world.folder().join(".flightline/queue.lock");
    std::fs::remove_file(&queue).unwrap();
    symlink(&victim, &queue).unwrap();
    let mut store = open(&world, Duration::from_millis(300));
    let refused =
        store.write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({})));
    assert!(refused.is_err());
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn a_queue_that_was_removed_is_made_anew() {
    let world = World::new(Engine::Sqlite);
    let mut store = open(&world, Duration::from_millis(300));
    let queue = world.folder().join(".flightline/queue.lock");
    for number in 1..3 {
        std::fs::remove_file(&queue).unwrap();
        store
            .write(|tx| {
                tx.set(
                    EventType::MissionCreated,
                    &mission(number, "One"),
                    &json!({}),
                )
            })
            .unwrap();
        assert!(queue.exists());
    }
}

#[test]
fn who_has_the_turn_is_named_though_another_had_it_before() {
    let world = World::new(Engine::Sqlite);
    // Its name is in the file, and it keeps the file open.
    let mut first = open(&world, Duration::from_millis(300));
    let write = |store: &mut Store, number| {
        store.write(|tx| {
            tx.set(
                EventType::MissionCreated,
                &mission(number, "One"),
                &json!({}),
            )
        })
    };
    write(&mut first, 1).unwrap();
    let holder = Holder::start(&world);
    let said = refused_in_time(|| write(&mut first, 2));
    let expected = format!("process {} (`fleet hold still`)", holder.child.id());
    assert!(said.contains(&expected), "{said}");
    drop(holder);
    write(&mut first, 2).unwrap();
    // And again when it has the turn for the second time.
    let mut patient = open(&world, Duration::from_millis(300));
    let said = first.write(|tx| {
        tx.set(EventType::MissionCreated, &mission(3, "One"), &json!({}))?;
        Ok::<_, StoreError>(refused_in_time(|| write(&mut patient, 4)))
    });
    let expected = format!("process {} (`fleet test`)", std::process::id());
    assert!(said.as_ref().unwrap().contains(&expected), "{said:?}");
}
