//! Signs of life, and since when silence can be noticed.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use flightline_core::Time;
use flightline_core::event::EventType;
use flightline_store::{OpenOptions, Pulse, Store, StoreError};
use flightline_testkit::value::{agent_id, mission};
use flightline_testkit::{Engine, World, both_engines, postgres_url};
use postgres::{Client, NoTls};
use serde_json::{Value, json};

const DOWNTIME: u64 = 600_000;

fn beat(world: &World, agent: u128, epoch: u64, data: &Value) {
    world
        .store()
        .pulse(|tx| tx.beat(agent_id(agent), epoch, data))
        .unwrap();
}

fn pulse(world: &World, agent: u128) -> Option<Pulse> {
    world.store().read(|tx| tx.pulse(agent_id(agent))).unwrap()
}

fn write(world: &World) {
    let made = mission(1, "One");
    let mut store = world.store();
    store
        .write(|tx| tx.set(EventType::MissionCreated, &made, &json!({})))
        .unwrap();
}

fn awake_since(world: &World) -> Time {
    world
        .store()
        .read(|tx| Ok::<_, StoreError>(tx.awake_since()))
        .unwrap()
}

fn pass(world: &World, millis: u64) {
    world.pass(Duration::from_millis(millis));
}

both_engines! {
    fn a_heartbeat_is_seen_and_makes_no_event(world: &World) {
        assert_eq!(pulse(world, 1), None);
        beat(world, 1, 4, &json!({ "step": "testing" }));
        let seen = Pulse {
            agent: agent_id(1).to_string(),
            epoch: 4,
            at: world.clock.now(),
            data: json!({ "step": "testing" }),
        };
        assert_eq!(pulse(world, 1), Some(seen.clone()));
        beat(world, 2, 1, &json!({}));
        let (pulses, rev, events) = world
            .store()
            .read(|tx| Ok::<_, StoreError>((tx.pulses()?, tx.rev(), tx.events_since(0)?)))
            .unwrap();
        assert_eq!(pulses.len(), 2);
        assert_eq!(pulses[0], seen);
        assert_eq!((rev, events), (0, 0));
    }

    fn what_is_told_of_later_happened_then_and_takes_nothing_back(world: &World) {
        let now = world.clock.now();
        let then = now.minus(3_600_000);
        let tell = |at: Time, epoch: u64| {
            let made = mission(1, "One");
            let told = world.store().write(|tx| {
                tx.happen_at(Some(at));
                assert_eq!(tx.now(), at.min(now));
                tx.record_past_pulse(agent_id(1), epoch)?;
                tx.set(EventType::MissionCreated, &made, &json!({ "a": 1 }))
            });
            told.unwrap();
        };
        tell(then, 1);
        assert_eq!(pulse(world, 1).map(|it| (it.at, it.epoch)), Some((then, 1)));
        let mut store = world.store();
        let event = store.read(|tx| tx.events_of(flightline_core::Kind::Mission, &mission(1, "One").id.to_string(), 1)).unwrap().remove(0);
        assert_eq!((event.happened_at(), event.timestamp, event.data["a"].as_i64()), (then, now, Some(1)));
        // A sign of life of now is far ahead of that, and stays; so does what is known of another epoch.
        beat(world, 1, 2, &json!({ "step": "testing" }));
        tell(then.plus(60_000), 2);
        tell(now.plus(60_000), 1);
        let seen = pulse(world, 1).unwrap();
        assert_eq!((seen.at, seen.epoch, seen.data), (now, 2, json!({ "step": "testing" })));
    }

    fn a_sign_of_life_never_moves_backwards(world: &World) {
        let newest = world.clock.now();
        beat(world, 1, 1, &json!({}));
        world.clock.advance(-60_000);
        beat(world, 1, 1, &json!({ "step": "late" }));
        let seen = pulse(world, 1).unwrap();
        assert_eq!((seen.at, seen.data), (newest, json!({ "step": "late" })));
        world.clock.advance(60_001);
        beat(world, 1, 1, &json!({}));
        let seen = pulse(world, 1).unwrap();
        assert_eq!(seen.at, newest.plus(1));
        assert_eq!(seen.data, json!({ "step": "late" }), "a beat that says nothing takes nothing back");
    }

    fn an_older_incarnation_does_not_overwrite_a_newer_one(world: &World) {
        beat(world, 1, 2, &json!({ "of": "the new one" }));
        let seen = pulse(world, 1);
        pass(world, 1_000);
        beat(world, 1, 1, &json!({ "of": "the old one" }));
        assert_eq!(pulse(world, 1), seen);
        beat(world, 1, 3, &json!({ "of": "the newest" }));
        assert_eq!(pulse(world, 1).unwrap().epoch, 3);
    }

    fn a_pulse_is_held_only_when_no_beat_came_later(world: &World) {
        beat(world, 1, 1, &json!({}));
        let seen = world.clock.now();
        let hold = |since| world.store().write(|tx| tx.hold_pulse(agent_id(1), since)).unwrap();
        assert!(hold(seen), "nothing came after it");
        assert!(!hold(seen.minus(1)), "it came after that");
        pass(world, 5);
        beat(world, 1, 1, &json!({}));
        assert!(!hold(seen), "it is alive after all");
        assert!(hold(seen.plus(5)));
        let other = world.store().write(|tx| tx.hold_pulse(agent_id(2), seen)).unwrap();
        assert!(!other, "there is nothing to hold");
    }

    fn a_pause_of_all_writing_moves_the_moment_since_when_silence_counts(world: &World) {
        let start = world.clock.now();
        write(world);
        assert_eq!(awake_since(world), start);
        pass(world, DOWNTIME);
        write(world);
        assert_eq!(awake_since(world), start, "as long as it may be");
        pass(world, DOWNTIME + 1);
        write(world);
        assert_eq!(awake_since(world), world.clock.now(), "longer than it may be");
        let woke = world.clock.now();
        pass(world, DOWNTIME - 1);
        write(world);
        assert_eq!(awake_since(world), woke, "it stays there");
    }

    fn a_clock_that_jumps_back_moves_it_too(world: &World) {
        let start = world.clock.now();
        write(world);
        world.clock.advance(-600_000);
        write(world);
        assert_eq!(awake_since(world), start, "a small step is none");
        world.clock.advance(-600_001);
        write(world);
        assert_eq!(awake_since(world), world.clock.now());
    }

    fn a_clock_that_jumps_back_is_noticed_by_a_heartbeat_too(world: &World) {
        beat(world, 1, 1, &json!({}));
        world.clock.advance(-3_600_000);
        beat(world, 1, 1, &json!({}));
        let noticed = world.clock.now();
        assert_eq!(awake_since(world), noticed);
        pass(world, 1_000);
        beat(world, 1, 1, &json!({}));
        write(world);
        assert_eq!(awake_since(world), noticed, "once");
    }

    fn heartbeats_that_went_on_show_that_nobody_slept(world: &World) {
        let start = world.clock.now();
        write(world);
        for _ in 0..4 {
            pass(world, DOWNTIME);
            beat(world, 1, 1, &json!({}));
        }
        write(world);
        assert_eq!(awake_since(world), start);
    }

    fn the_first_heartbeat_after_a_pause_does_not_hide_it(world: &World) {
        write(world);
        beat(world, 1, 1, &json!({}));
        pass(world, 3_600_000);
        let woke = world.clock.now();
        beat(world, 1, 1, &json!({}));
        pass(world, 1_000);
        beat(world, 2, 1, &json!({}));
        write(world);
        assert_eq!(awake_since(world), woke);
        let rev = world.store().read(|tx| Ok::<_, StoreError>(tx.rev())).unwrap();
        assert_eq!(rev, 2, "a heartbeat leaves the counter alone");
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn looking_wakes_nobody(world: &World) {
        let start = awake_since(world);
        pass(world, 3_600_000);
        assert_eq!(awake_since(world), start);
        beat(world, 1, 1, &json!({}));
        assert_eq!(awake_since(world), world.clock.now());
    }
}

/// A connection that gives up soon.
fn impatient(world: &World) -> Store {
    let options = OpenOptions {
        patience: Duration::from_millis(300),
        rehearse: false,
        ..world.options()
    };
    world.open(options)
}

#[test]
fn on_postgres_a_heartbeat_does_not_wait_for_a_writer() {
    let world = World::new(Engine::Postgres);
    let (mut writer, mut other) = (impatient(&world), impatient(&world));
    writer
        .write(|tx| {
            tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}))?;
            // The first makes the row and the second changes it.
            for step in ["first", "second"] {
                other.pulse(|tx| tx.beat(agent_id(1), 1, &json!({ "step": step })))?;
            }
            let second =
                other.write(|tx| tx.set(EventType::MissionCreated, &mission(2, "Two"), &json!({})));
            assert!(
                matches!(second, Err(StoreError::Busy(_))),
                "a second writer does wait: {second:?}"
            );
            Ok::<_, StoreError>(())
        })
        .unwrap();
    assert_eq!(pulse(&world, 1).unwrap().data, json!({ "step": "second" }));
}

#[test]
fn on_postgres_a_heartbeat_waits_while_its_pulse_is_held() {
    let world = World::new(Engine::Postgres);
    beat(&world, 1, 1, &json!({}));
    let (mut writer, mut other) = (impatient(&world), impatient(&world));
    let since = world.clock.now();
    writer
        .write(|tx| {
            assert!(tx.hold_pulse(agent_id(1), since)?);
            let late = other.pulse(|tx| tx.beat(agent_id(1), 1, &json!({})));
            assert!(matches!(late, Err(StoreError::Busy(_))), "{late:?}");
            other.pulse(|tx| tx.beat(agent_id(2), 1, &json!({})))
        })
        .unwrap();
}

/// Waits until another backend waits for what the backend `pid` holds.
fn wait_until_blocked_by(watching: &mut Client, pid: i32) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let waiting = "SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))";
    while watching.query(waiting, &[&pid]).unwrap().is_empty() {
        assert!(Instant::now() < deadline, "nobody waits for {pid}");
    }
}

/// A write holds the project and then touches pulses; a heartbeat that did it the other way round would wait for it for ever.
#[test]
fn on_postgres_a_heartbeat_that_wakes_the_project_holds_no_pulse_before_it() {
    let world = World::new(Engine::Postgres);
    for agent in 1..=2 {
        beat(&world, agent, 1, &json!({}));
    }
    // The clock is put right: both pulses lie in the future.
    world.clock.advance(-3_600_000);
    let mut writing = Client::connect(&postgres_url(), NoTls).unwrap();
    let mut watching = Client::connect(&postgres_url(), NoTls).unwrap();
    let pid: i32 = writing
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    writing.batch_execute("SET lock_timeout = '5s'").unwrap();
    let mut write = writing.transaction().unwrap();
    let hold = "SELECT 1 FROM project WHERE id = $1 FOR UPDATE";
    write.query(hold, &[&world.project]).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| beat(&world, 1, 1, &json!({})));
        wait_until_blocked_by(&mut watching, pid);
        let touch = "UPDATE pulse SET at = at WHERE project = $1";
        assert_eq!(write.execute(touch, &[&world.project]).unwrap(), 2);
        write.commit().unwrap();
    });
}

#[test]
fn on_postgres_a_heartbeat_under_way_is_waited_for_and_counts() {
    let world = World::new(Engine::Postgres);
    beat(&world, 1, 1, &json!({}));
    let since = world.clock.now();
    let mut beating = Client::connect(&postgres_url(), NoTls).unwrap();
    let mut watching = Client::connect(&postgres_url(), NoTls).unwrap();
    let pid: i32 = beating
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    let mut under_way = beating.transaction().unwrap();
    under_way
        .execute(
            "UPDATE pulse SET at = at + 1 WHERE project = $1",
            &[&world.project],
        )
        .unwrap();
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let held = world.store().write(|tx| tx.hold_pulse(agent_id(1), since));
            send.send(held.unwrap()).unwrap();
        });
        wait_until_blocked_by(&mut watching, pid);
        under_way.commit().unwrap();
        let held = receive.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(!held, "the agent is alive after all");
    });
}
