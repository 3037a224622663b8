//! A PostgreSQL that stops answering, with connections that stand: it is noticed in time, and nothing is guessed.

use std::time::{Duration, Instant};

use flightline_core::event::EventType;
use flightline_core::{Code, Refusal};
use flightline_store::{Location, OpenOptions, Store, StoreError};
use flightline_testkit::database::Database;
use flightline_testkit::value::mission;
use serde_json::json;

/// How long it may take to notice: until it is suspected, until nobody answers another connection either, and some.
const NOTICED: Duration = Duration::from_secs(13);

fn options() -> OpenOptions {
    OpenOptions {
        patience: Duration::from_secs(2),
        purpose: "test".to_owned(),
        ..OpenOptions::default()
    }
}

fn create(store: &mut Store, number: u128) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.set(EventType::MissionCreated, &mission(number, "M"), &json!({}))
            .map(drop)
    })
}

#[test]
fn a_frozen_server_is_given_up_in_time_and_served_again_when_it_wakes() {
    let database = Database::start();
    let location = Location::Postgres(database.url().to_owned());
    let project = "prj-00000000-0000-4000-8000-0000000000f0";
    let mut store = Store::create(&location, project, "test", options()).unwrap();
    let mut reader = Store::open(&location, project, options()).unwrap();
    create(&mut store, 1).unwrap();
    reader.read(|tx| Ok::<_, StoreError>(tx.rev())).unwrap();
    database.freeze();
    let began = Instant::now();
    let (wrote, read) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| reader.read(|tx| Ok::<_, StoreError>(tx.rev())));
        (create(&mut store, 2), reading.join().unwrap())
    });
    let took = began.elapsed();
    database.thaw();
    for refused in [wrote.unwrap_err(), read.unwrap_err()] {
        assert_eq!(Refusal::from(refused).code, Code::Unavailable);
    }
    assert!(took < NOTICED, "{took:?}");
    // Over new connections, as a server and the next command have them.
    let mut store = Store::open(&location, project, options()).unwrap();
    create(&mut store, 3).unwrap();
    let rev = store.read(|tx| Ok::<_, StoreError>(tx.rev())).unwrap();
    assert_eq!(rev, 2, "what was refused was not written");
}

#[test]
fn a_server_that_is_slow_is_waited_for() {
    let database = Database::start();
    let location = Location::Postgres(database.url().to_owned());
    let project = "prj-00000000-0000-4000-8000-0000000000f1";
    let patient = OpenOptions {
        patience: Duration::from_secs(20),
        ..options()
    };
    let mut store = Store::create(&location, project, "test", patient).unwrap();
    let mut holder = postgres::Client::connect(database.url(), postgres::NoTls).unwrap();
    // Another node holds the project's row for longer than an answer is waited for without suspicion.
    let mut transaction = holder.transaction().unwrap();
    transaction
        .execute("SELECT 1 FROM project FOR UPDATE", &[])
        .unwrap();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| create(&mut store, 4));
        std::thread::sleep(Duration::from_secs(7));
        transaction.commit().unwrap();
        writing.join().unwrap().unwrap();
    });
}
