//! The answer to a commit is lost: whether it was made is found out, and never guessed. PostgreSQL only.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use flightline_core::Kind;
use flightline_store::{Find, Location, OpenOptions, Store, StoreError};
use flightline_testkit::commits::Commits;
use flightline_testkit::{Engine, World, outside};

use crate::groups::learn;

/// What befalls the next commit.
const NOTHING: u8 = 0;
/// The connection is cut before the server hears of it.
const BEFORE: u8 = 1;
/// The server commits, and the connection is cut before its answer.
const AFTER: u8 = 2;
/// The connection is cut before, and no server answers any more.
const FOR_EVER: u8 = 3;
/// The connection is cut, and the server hears of it a moment later, when nobody is there any more.
const LATE: u8 = 4;
/// How much later.
const A_MOMENT: Duration = Duration::from_millis(400);

/// A wire between us and the server, that can be cut.
struct Wire {
    port: u16,
    fate: Arc<AtomicU8>,
}

impl Wire {
    fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, server) = (listener.local_addr().unwrap().port(), server.to_owned());
        let fate = Arc::new(AtomicU8::new(NOTHING));
        let shared = Arc::clone(&fate);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                if shared.load(Ordering::SeqCst) == FOR_EVER {
                    continue;
                }
                let server = TcpStream::connect(&server).unwrap();
                let (fate, answer) = (Arc::clone(&shared), Arc::new(AtomicU8::new(NOTHING)));
                carry_answers(&server, &client, Arc::clone(&answer));
                thread::spawn(move || carry_questions(client, server, &fate, &answer));
            }
        });
        Self { port, fate }
    }
}

fn carry_questions(
    mut client: TcpStream,
    mut server: TcpStream,
    fate: &AtomicU8,
    answer: &AtomicU8,
) {
    let (mut buffer, mut commits) = (vec![0; 256 * 1024], Commits::default());
    while let Ok(read) = client.read(&mut buffer) {
        if read == 0 {
            break;
        }
        let commits = commits.are_in(&buffer[..read]);
        match fate.load(Ordering::SeqCst) {
            BEFORE if commits => {
                fate.store(NOTHING, Ordering::SeqCst);
                break;
            }
            FOR_EVER if commits => break,
            LATE if commits => {
                fate.store(NOTHING, Ordering::SeqCst);
                answer.store(AFTER, Ordering::SeqCst);
                let _ = client.shutdown(Shutdown::Both);
                thread::sleep(A_MOMENT);
                let _ = server.write_all(&buffer[..read]);
                let _ = server.peek(&mut [0]);
                break;
            }
            AFTER if commits => {
                fate.store(NOTHING, Ordering::SeqCst);
                answer.store(AFTER, Ordering::SeqCst);
            }
            _ => {}
        }
        if server.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

fn carry_answers(server: &TcpStream, client: &TcpStream, answer: Arc<AtomicU8>) {
    let (mut server, mut client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(read) = server.read(&mut buffer) {
            if read == 0 || answer.load(Ordering::SeqCst) == AFTER {
                break;
            }
            if client.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    });
}

/// A store behind such a wire.
fn behind_a_wire(world: &World) -> (Store, Wire) {
    let Location::Postgres(url) = &world.location else {
        panic!("a server")
    };
    let from = url.find('@').unwrap() + 1;
    let to = from + url[from..].find('/').unwrap();
    let wire = Wire::to(&url[from..to]);
    let url = format!("{}127.0.0.1:{}{}", &url[..from], wire.port, &url[to..]);
    let options = OpenOptions {
        rehearse: false,
        patience: Duration::from_secs(2),
        ..world.options()
    };
    let store = Store::open(&Location::Postgres(url), &world.project, options).unwrap();
    (store, wire)
}

fn notes(world: &World) -> usize {
    world
        .store()
        .read(|tx| Ok::<_, StoreError>(tx.rows(Kind::Note, Find::All)?.len()))
        .unwrap()
}

#[test]
fn a_write_is_done_once_whenever_its_connection_is_cut() {
    let world = World::new(Engine::Postgres);
    let (mut store, wire) = behind_a_wire(&world);
    for (fate, number) in [
        (NOTHING, 1),
        (BEFORE, 2),
        (AFTER, 3),
        (AFTER, 4),
        (BEFORE, 5),
    ] {
        wire.fate.store(fate, Ordering::SeqCst);
        let mut runs = 0;
        let rev = store.write(|tx| {
            runs += 1;
            learn(tx, number)
        });
        assert_eq!(rev.unwrap(), u64::try_from(number).unwrap());
        assert_eq!(runs, if fate == BEFORE { 2 } else { 1 });
        assert_eq!(wire.fate.load(Ordering::SeqCst), NOTHING, "it was cut");
    }
    assert_eq!(notes(&world), 5);
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn so_is_a_group() {
    let world = World::new(Engine::Postgres);
    let (mut store, wire) = behind_a_wire(&world);
    store.begin_group().unwrap();
    store.write(|tx| learn(tx, 1)).unwrap();
    store.write(|tx| learn(tx, 2)).unwrap();
    wire.fate.store(AFTER, Ordering::SeqCst);
    store.commit_group().unwrap();
    assert_eq!(notes(&world), 2);
    store.begin_group().unwrap();
    store.write(|tx| learn(tx, 3)).unwrap();
    wire.fate.store(BEFORE, Ordering::SeqCst);
    assert!(matches!(
        store.commit_group(),
        Err(StoreError::Collision(_))
    ));
    assert_eq!(notes(&world), 2);
    // Somebody else takes the revision that it would have had, with the same kind of act.
    world.store().write(|tx| learn(tx, 4)).unwrap();
    store.write(|tx| learn(tx, 3)).unwrap();
    assert_eq!(notes(&world), 4);
    assert_eq!(world.problems(), Vec::<String>::new());
}

/// A group that is decided on what is known of the project is one statement: nothing of it holds the project while it is on its way.
#[test]
fn so_is_a_group_that_holds_nothing() {
    let world = World::new(Engine::Postgres);
    let (mut store, wire) = behind_a_wire(&world);
    let mut number = 0;
    for fate in [NOTHING, NOTHING, BEFORE, AFTER, LATE, LATE] {
        // After another connection it is held once, and what is remembered may have to be read anew.
        for _ in 0..3 {
            number += 1;
            store.begin_group().unwrap();
            store.write(|tx| learn(tx, number)).unwrap();
            store.commit_group().unwrap();
        }
        number += 1;
        for runs in 1.. {
            store.begin_group().unwrap();
            store.write(|tx| learn(tx, number)).unwrap();
            if runs == 1 {
                wire.fate.store(fate, Ordering::SeqCst);
            }
            match store.commit_group() {
                Ok(()) => {
                    assert_eq!(runs, if matches!(fate, BEFORE | LATE) { 2 } else { 1 });
                    break;
                }
                Err(error) => assert!(matches!(error, StoreError::Collision(_)), "{error:?}"),
            }
            // What comes late finds the project changed, though nobody has decided again yet.
            thread::sleep(A_MOMENT * 2);
        }
        assert_eq!(wire.fate.load(Ordering::SeqCst), NOTHING, "it was cut");
        let rev = world
            .store()
            .read(|tx| Ok::<_, StoreError>(tx.rev()))
            .unwrap();
        assert_eq!(u128::from(rev), number);
    }
    assert_eq!(world.problems(), Vec::<String>::new());
}

/// A write that was sent, and waits for the project, when its connection is ended.
#[test]
fn a_group_whose_connection_the_server_ends_is_not_made_by_halves() {
    let world = World::new(Engine::Postgres);
    let (mut store, _wire) = behind_a_wire(&world);
    for number in 1..4 {
        store.begin_group().unwrap();
        store.write(|tx| learn(tx, number)).unwrap();
        store.commit_group().unwrap();
    }
    store.begin_group().unwrap();
    store.write(|tx| learn(tx, 4)).unwrap();
    thread::scope(|scope| {
        let (held, is_held) = std::sync::mpsc::channel();
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let world = &world;
        let other = scope.spawn(move || {
            let mut other = world.unrehearsed();
            other.write(|tx| {
                held.send(()).unwrap();
                may_go_on.recv().unwrap();
                learn(tx, 5)
            })
        });
        is_held.recv().unwrap();
        let waiting = "SELECT CAST(pg_terminate_backend(pid) AS TEXT) FROM pg_stat_activity \
                       WHERE query LIKE 'WITH ahead%' AND wait_event_type = 'Lock' AND datname = current_database()";
        let ended = scope.spawn(move || {
            while outside::query(world, waiting).is_empty() {
                thread::sleep(Duration::from_millis(10));
            }
            go_on.send(()).unwrap();
        });
        let lost = store.commit_group();
        assert!(matches!(lost, Err(StoreError::Collision(_))), "{lost:?}");
        ended.join().unwrap();
        other.join().unwrap().unwrap();
    });
    assert_eq!(notes(&world), 4);
    store.write(|tx| learn(tx, 4)).unwrap();
    assert_eq!(notes(&world), 5);
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn what_others_wrote_in_its_place_is_not_taken_for_it() {
    let world = World::new(Engine::Postgres);
    let (mut store, wire) = behind_a_wire(&world);
    wire.fate.store(BEFORE, Ordering::SeqCst);
    thread::scope(|scope| {
        let mut revs = Vec::new();
        let rev = store.write(|tx| {
            revs.push(tx.rev());
            let rev = learn(tx, 1)?;
            if revs.len() == 1 {
                // It waits for the row we hold, and has it once our connection is gone.
                let (started, is_started) = std::sync::mpsc::channel();
                let world = &world;
                scope.spawn(move || {
                    let mut other = world.store();
                    started.send(()).unwrap();
                    other.write(|tx| learn(tx, 2)).unwrap();
                });
                is_started.recv().unwrap();
                thread::sleep(Duration::from_millis(200));
            }
            Ok::<_, StoreError>(rev)
        });
        assert_eq!((rev.unwrap(), revs), (2, vec![0, 1]));
    });
    assert_eq!(notes(&world), 2);
    assert_eq!(world.problems(), Vec::<String>::new());
}

#[test]
fn who_cannot_find_out_says_so() {
    let world = World::new(Engine::Postgres);
    let (mut store, wire) = behind_a_wire(&world);
    wire.fate.store(FOR_EVER, Ordering::SeqCst);
    let unknown = store.write(|tx| learn(tx, 1));
    assert!(
        matches!(unknown, Err(StoreError::CommitUnknown(_))),
        "{unknown:?}"
    );
    assert_eq!(notes(&world), 0);
    // A process that opens it anew goes on.
    wire.fate.store(NOTHING, Ordering::SeqCst);
    world.store().write(|tx| learn(tx, 1)).unwrap();
}
