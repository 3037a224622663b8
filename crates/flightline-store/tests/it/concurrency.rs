//! Many writers at once: nothing is lost, nothing is half there.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use flightline_core::event::EventType;
use flightline_core::note::Note;
use flightline_core::{Kind, Subject};
use flightline_store::{EventFilter, Find, Location, OpenOptions, Store, StoreError};
use flightline_testkit::value::{agent_id, lesson, mission};
use flightline_testkit::{Engine, Schema, World, both_engines, postgres_url, with_option};
use postgres::{Client, NoTls};
use serde_json::json;

const WRITERS: u64 = 8;
const WRITES: u64 = 50;

/// A connection that runs each closure once.
fn connect(world: &World) -> Store {
    let options = OpenOptions {
        patience: Duration::from_secs(30),
        rehearse: false,
        ..world.options()
    };
    world.open(options)
}

/// Adds one to the number that all writers share, and writes down who did it.
fn count_up(store: &mut Store, writer: u64, turn: u64) -> Result<(u64, u64), StoreError> {
    let of = mission(1, "Counting");
    store.write(|tx| {
        let number = match tx.get::<Note>(&lesson(1, &of, "0").key())? {
            Some(note) => note.text.parse::<u64>().unwrap(),
            None => 0,
        };
        let first = tx.set(
            EventType::NoteReplaced,
            &lesson(1, &of, &(number + 1).to_string()),
            &json!({}),
        )?;
        let own = u128::from(1_000 + writer * WRITES + turn);
        let second = tx.set(
            EventType::NoteAdded,
            &lesson(own, &of, "done"),
            &json!({ "writer": writer }),
        )?;
        Ok((first, second))
    })
}

both_engines! {
    fn eight_writers_lose_nothing_and_leave_no_gap(world: &World) {
        let mut revs: Vec<u64> = thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    scope.spawn(move || {
                        let mut store = connect(world);
                        (0..WRITES)
                            .flat_map(|turn| {
                                let (first, second) = count_up(&mut store, writer, turn).unwrap();
                                assert_eq!(second, first + 1, "nobody comes between two events of a request");
                                [first, second]
                            })
                            .collect::<Vec<u64>>()
                    })
                })
                .collect();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        revs.sort_unstable();
        let all = WRITERS * WRITES;
        assert_eq!(revs, (1..=2 * all).collect::<Vec<u64>>());
        let (counter, rev, rows, events) = world
            .store()
            .read(|tx| {
                let filter = EventFilter { limit: 10_000, ..EventFilter::default() };
                Ok::<_, StoreError>((
                    tx.get::<Note>(&lesson(1, &mission(1, "x"), "0").key())?,
                    tx.rev(),
                    tx.rows(Kind::Note, Find::All)?,
                    tx.events_after(0, &filter)?,
                ))
            })
            .unwrap();
        assert_eq!(counter.unwrap().text.as_str(), all.to_string(), "every one counted");
        assert_eq!(rev, 2 * all);
        assert_eq!(rows.len() as u64, all + 1);
        let told: Vec<u64> = events.iter().map(|event| event.rev).collect();
        assert_eq!(told, revs);
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn a_collision_is_run_again_and_nobody_hears_of_it(world: &World) {
        let mut store = connect(world);
        let mut runs = 0;
        let rev = store
            .write(|tx| {
                runs += 1;
                let rev = tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}))?;
                if runs < 4 { Err(StoreError::Collision("on purpose".to_owned())) } else { Ok(rev) }
            })
            .unwrap();
        assert_eq!((runs, rev), (4, 1));
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn a_heartbeat_that_collides_is_run_again_too(world: &World) {
        let mut runs = 0;
        connect(world)
            .pulse(|tx| {
                runs += 1;
                tx.beat(agent_id(1), 1, &json!({}))?;
                if runs < 4 { Err(StoreError::Collision("on purpose".to_owned())) } else { Ok(()) }
            })
            .unwrap();
        assert_eq!(runs, 4);
        assert!(world.store().read(|tx| tx.pulse(agent_id(1))).unwrap().is_some());
    }

    fn a_write_that_always_collides_gives_up_and_leaves_nothing(world: &World) {
        let mut store = connect(world);
        let mut runs = 0;
        let refused = store.write(|tx| {
            runs += 1;
            tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}))?;
            Err::<(), _>(StoreError::Collision("on purpose".to_owned()))
        });
        assert!(matches!(refused, Err(StoreError::Collision(_))), "{refused:?}");
        assert_eq!(runs, 8);
        assert_eq!(store.read(|tx| tx.events_since(0)).unwrap(), 0);
    }

    fn writers_of_one_project_leave_another_alone(world: &World) {
        let other = format!("{}-other", world.project);
        let mut beside = Store::create(&world.location, &other, "beside", world.options()).unwrap();
        connect(world).write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}))).unwrap();
        let (rev, ids, name) = beside
            .read(|tx| Ok::<_, StoreError>((tx.rev(), tx.ids(Kind::Mission)?, tx.project_name().to_owned())))
            .unwrap();
        assert_eq!((rev, ids, name.as_str()), (0, vec![], "beside"));
        let rev = beside.write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}))).unwrap();
        assert_eq!(rev, 1, "each has a counter of its own");
        let mut projects = beside.projects().unwrap();
        projects.retain(|project| project.starts_with(&world.project));
        assert_eq!(projects, [world.project.clone(), other]);
    }
}

/// Two transactions that each wait for what the other holds: PostgreSQL ends one of them, ours.
#[test]
fn on_postgres_a_deadlock_is_run_again() {
    let world = World::new(Engine::Postgres);
    let location = Location::Postgres(with_option("deadlock_timeout%3D10ms"));
    let options = OpenOptions {
        rehearse: false,
        ..world.options()
    };
    let mut store = Store::open(&location, &world.project, options).unwrap();
    store
        .pulse(|tx| tx.beat(agent_id(1), 1, &json!({})))
        .unwrap();

    let connect = || Client::connect(&postgres_url(), NoTls).unwrap();
    let (mut other, mut watching) = (connect(), connect());
    other.batch_execute("SET deadlock_timeout = '60s'").unwrap();
    let pid: i32 = other
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    let (pulse_held, pulse_is_held) = mpsc::channel::<()>();
    let (row_held, row_is_held) = mpsc::channel::<()>();
    let mut runs = 0;
    thread::scope(|scope| {
        let project = world.project.as_str();
        scope.spawn(move || {
            let mut rival = other.transaction().unwrap();
            let pulse = "UPDATE pulse SET epoch = epoch WHERE project = $1";
            rival.execute(pulse, &[&project]).unwrap();
            pulse_held.send(()).unwrap();
            row_is_held.recv_timeout(Duration::from_secs(10)).unwrap();
            let row = "SELECT rev FROM project WHERE id = $1 FOR UPDATE";
            rival.query(row, &[&project]).unwrap();
            rival.commit().unwrap();
        });
        pulse_is_held.recv_timeout(Duration::from_secs(10)).unwrap();
        let now = world.clock.now();
        store
            .write(|tx| {
                runs += 1;
                tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}))?;
                if runs == 1 {
                    row_held.send(()).unwrap();
                    let deadline = Instant::now() + Duration::from_secs(10);
                    let waits = "SELECT 1 WHERE cardinality(pg_blocking_pids($1)) > 0";
                    while watching.query(waits, &[&pid]).unwrap().is_empty() {
                        assert!(Instant::now() < deadline, "the rival does not wait");
                    }
                    tx.hold_pulse(agent_id(1), now)?;
                }
                Ok::<_, StoreError>(())
            })
            .unwrap();
    });
    assert_eq!(runs, 2);
    assert_eq!(store.read(|tx| tx.events_since(0)).unwrap(), 1);
    assert_eq!(world.problems(), [] as [&str; 0]);
}

/// Something in the database takes the event away as it is written: the commit succeeds, and the write does not.
#[test]
fn a_write_whose_events_are_not_there_afterwards_is_no_success() {
    let world = World::new(Engine::Sqlite);
    let database =
        rusqlite::Connection::open(world.folder().join(".flightline/flightline.db")).unwrap();
    database
        .execute_batch(
            "CREATE TRIGGER thief AFTER INSERT ON event BEGIN \
             DELETE FROM event WHERE project = NEW.project AND rev = NEW.rev; END",
        )
        .unwrap();
    let outcome = world
        .store()
        .write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({})));
    assert!(
        matches!(&outcome, Err(StoreError::Corrupt(why)) if why.contains("read back")),
        "{outcome:?}"
    );
}

/// Another connection locks the journal the moment it is written: the write stands, but cannot be read back.
#[test]
fn on_postgres_a_write_that_cannot_be_read_back_is_not_called_undone() {
    let schema = Schema::new();
    let options = OpenOptions {
        patience: Duration::from_millis(300),
        ..OpenOptions::default()
    };
    let mut store = Store::create(&schema.location, "prj", "test", options).unwrap();
    let (mut locking, mut watching) = (schema.client(), schema.client());
    let pid: i32 = locking
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    let (release, released) = mpsc::channel::<()>();
    let outcome = thread::scope(|scope| {
        scope.spawn(move || {
            // It waits for the write, and gets the table before anybody else.
            released.recv_timeout(Duration::from_secs(10)).unwrap();
            let mut locked = locking.transaction().unwrap();
            locked.batch_execute("LOCK TABLE event").unwrap();
            released.recv_timeout(Duration::from_secs(10)).unwrap();
        });
        let outcome = store.write(|tx| {
            let rev = tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}))?;
            tx.deliver()?;
            release.send(()).unwrap();
            let deadline = Instant::now() + Duration::from_secs(10);
            let waits = "SELECT 1 WHERE cardinality(pg_blocking_pids($1)) > 0";
            while watching.query(waits, &[&pid]).unwrap().is_empty() {
                assert!(Instant::now() < deadline, "nobody waits for the journal");
            }
            Ok::<_, StoreError>(rev)
        });
        release.send(()).unwrap();
        outcome
    });
    assert!(
        matches!(outcome, Err(StoreError::CommitUnknown(_))),
        "{outcome:?}"
    );
    assert_eq!(store.read(|tx| tx.events_since(0)).unwrap(), 1);
}
