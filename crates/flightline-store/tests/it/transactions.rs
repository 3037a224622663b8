//! A write is whole or absent; a read is one moment.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::note::Note;
use flightline_core::{Keys, Kind, Subject, Time};
use flightline_store::{Actor, EventFilter, Find, OpenOptions, Past, Store, StoreError, Tx};
use flightline_testkit::both_engines;
use flightline_testkit::value::{agent_id, lesson, mission};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A subject of any size and name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Crate {
    id: String,
    name: Option<String>,
    text: String,
}

impl Subject for Crate {
    const KIND: Kind = Kind::Agent;

    fn key(&self) -> String {
        self.id.clone()
    }

    fn keys(&self) -> Keys {
        Keys {
            name: self.name.clone(),
            status: "full",
            ..Keys::default()
        }
    }
}

/// A crate whose document has exactly so many bytes.
fn crate_of(bytes: usize) -> Crate {
    let mut it = Crate {
        id: "crate".to_owned(),
        name: None,
        text: String::new(),
    };
    it.text = "x".repeat(bytes - serde_json::to_string(&it).unwrap().len());
    it
}

/// Everything a reader can see of a store.
fn sight(store: &mut Store) -> (u64, u64, usize, usize, Past) {
    store
        .read(|tx| {
            Ok::<_, StoreError>((
                tx.rev(),
                tx.events_since(0)?,
                tx.rows(Kind::Mission, Find::All)?.len() + tx.rows(Kind::Agent, Find::All)?.len(),
                tx.pulses()?.len(),
                tx.past("ada", "key", "request")?,
            ))
        })
        .unwrap()
}

/// Writes something of everything.
fn write_everything(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}))?;
    tx.set(EventType::MissionCreated, &mission(2, "Two"), &json!({}))?;
    tx.note(
        EventType::MissionTransitioned,
        &mission(2, "Two"),
        &json!({}),
    )?;
    tx.beat(agent_id(1), 1, &json!({}))?;
    tx.remember("ada", "key", "request", "outcome".to_owned())
}

/// Panics without a word on the terminal.
fn panic_quietly() -> Result<(), StoreError> {
    resume_unwind(Box::new("on purpose"))
}

const NOTHING: (u64, u64, usize, usize, Past) = (0, 0, 0, 0, Past::Unknown);

both_engines! {
    fn nothing_is_written_under_a_clock_that_cannot_be_right(world: &World) {
        let set = |tx: &mut Tx<'_>| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}));
        world.store().write(set).unwrap();
        let before = sight(&mut world.store());
        let right = world.clock.now();
        for wrong in [Time::LATEST.plus(1), Time::from_millis(i64::MAX), Time::from_millis(-1)] {
            world.clock.advance(wrong.as_millis() - world.clock.now().as_millis());
            let mut store = world.store();
            assert!(matches!(store.write(set), Err(StoreError::Clock(at)) if at == wrong));
            let beat = store.pulse(|tx| tx.beat(agent_id(1), 1, &json!({})));
            assert!(matches!(beat, Err(StoreError::Clock(_))));
            assert_eq!(sight(&mut store), before, "what is there can be looked at all the same");
            let refusal = flightline_core::Refusal::from(StoreError::Clock(wrong));
            assert!(refusal.hint.is_some_and(|hint| hint.contains("set the clock")));
        }
        world.clock.advance(right.as_millis() - world.clock.now().as_millis());
        world.store().write(set).unwrap();
    }

    fn what_was_written_at_the_end_of_time_is_read(world: &World) {
        let mut last = lesson(1, &mission(1, "One"), "the last one");
        last.at = Time::from_millis(i64::MAX);
        world.store().write(|tx| tx.set(EventType::NoteAdded, &last, &json!({}))).unwrap();
        let read = world.store().read(|tx| tx.get::<Note>(&last.key()));
        assert_eq!(read.unwrap(), Some(last));
        assert!(world.problems().is_empty());
    }

    fn a_rehearsal_leaves_no_trace(world: &World) {
        let mut store = world.open(OpenOptions { rehearse: true, ..world.options() });
        let mut runs = Vec::new();
        store
            .write(|tx| {
                runs.push((tx.rev(), tx.rows(Kind::Mission, Find::All)?.len()));
                write_everything(tx)
            })
            .unwrap();
        assert_eq!(runs, [(0, 0), (0, 0)], "it ran twice, and the second time saw nothing of the first");
        let (rev, events, subjects, pulses, _) = sight(&mut world.store());
        assert_eq!((rev, events, subjects, pulses), (3, 3, 2, 1));
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn a_write_that_is_not_rehearsed_runs_once(world: &World) {
        let mut store = world.unrehearsed();
        let mut runs = 0;
        store.write(|tx| { runs += 1; write_everything(tx) }).unwrap();
        assert_eq!(runs, 1);
    }

    fn a_refusal_writes_nothing(world: &World) {
        for rehearse in [true, false] {
            let options = OpenOptions { rehearse, ..world.options() };
            let mut store = world.open(options);
            let refused = store.write(|tx| {
                write_everything(tx)?;
                Err::<(), _>(StoreError::Missing("second thoughts".to_owned()))
            });
            assert!(matches!(refused, Err(StoreError::Missing(_))), "{refused:?}");
            assert_eq!(sight(&mut world.store()), NOTHING);
            let refused = store.pulse(|tx| {
                tx.beat(agent_id(1), 1, &json!({}))?;
                Err::<(), _>(StoreError::Missing("second thoughts".to_owned()))
            });
            assert!(matches!(refused, Err(StoreError::Missing(_))), "{refused:?}");
            assert_eq!(sight(&mut world.store()), NOTHING);
        }
        let rev = world.store().write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}))).unwrap();
        assert_eq!(rev, 1, "a revision that was handed out in vain is handed out again");
    }

    fn a_read_sees_one_moment_while_others_write(world: &World) {
        let (mut reader, mut writer) = (world.store(), world.store());
        writer.write(|tx| tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}))).unwrap();
        reader
            .read(|tx| {
                let before = (tx.rev(), tx.ids(Kind::Mission)?, tx.events_since(0)?, tx.state_at(9, None)?);
                writer.write(|tx| {
                    tx.set(EventType::MissionCreated, &mission(2, "Two"), &json!({}))?;
                    tx.remove(EventType::MissionArchived, &mission(1, "One"), &json!({}))
                })?;
                let after = (tx.rev(), tx.ids(Kind::Mission)?, tx.events_since(0)?, tx.state_at(9, None)?);
                assert_eq!(before, after);
                Ok::<_, StoreError>(())
            })
            .unwrap();
        let (rev, ids) = reader.read(|tx| Ok::<_, StoreError>((tx.rev(), tx.ids(Kind::Mission)?))).unwrap();
        assert_eq!((rev, ids), (3, vec![mission(2, "Two").key()]), "the next read sees it all");
    }

    fn a_write_sees_what_it_wrote(world: &World) {
        let first = mission(1, "One");
        world
            .store()
            .write(|tx| {
                assert_eq!(tx.next_rev(), 1);
                tx.set(EventType::MissionCreated, &first, &json!({}))?;
                assert_eq!(tx.get::<Mission>(&first.key())?.as_ref(), Some(&first));
                assert_eq!(tx.next_rev(), 2);
                tx.remove(EventType::MissionArchived, &first, &json!({}))?;
                assert_eq!(tx.get::<Mission>(&first.key())?, None);
                Ok::<_, StoreError>(())
            })
            .unwrap();
    }

    fn a_statement_that_failed_cannot_be_shrugged_off(world: &World) {
        let taken = |id: &str| Crate { id: id.to_owned(), name: Some("ada".to_owned()), text: String::new() };
        let outcome = world.store().write(|tx| {
            tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}))?;
            tx.set(EventType::AgentRegistered, &taken("agt-1"), &json!({}))?;
            // The name is taken. Its event has been written by now, its value has not.
            let failed = tx.set(EventType::AgentRegistered, &taken("agt-2"), &json!({})).and_then(|_| tx.deliver());
            assert!(failed.is_err());
            Ok::<_, StoreError>(())
        });
        assert!(outcome.is_err());
        assert_eq!(sight(&mut world.store()), NOTHING);
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn after_a_failed_statement_the_connection_goes_on(world: &World) {
        let mut store = world.store();
        let twin = |id: &str| Crate { id: id.to_owned(), name: Some("ada".to_owned()), text: String::new() };
        let failed = store.write(|tx| {
            tx.set(EventType::AgentRegistered, &twin("agt-1"), &json!({}))?;
            tx.set(EventType::AgentRegistered, &twin("agt-2"), &json!({}))
        });
        assert!(failed.is_err());
        store.write(|tx| tx.set(EventType::AgentRegistered, &twin("agt-1"), &json!({}))).unwrap();
        assert_eq!(sight(&mut store).0, 1);
    }

    fn a_closure_that_panics_leaves_nothing_and_holds_nobody_up(world: &World) {
        let options = OpenOptions { patience: Duration::from_secs(2), ..world.options() };
        let mut store = Store::open(&world.location, &world.project, options.clone()).unwrap();
        let mut other = world.open(options);
        let panics = |act: &mut dyn FnMut()| {
            assert!(catch_unwind(AssertUnwindSafe(act)).is_err());
        };
        panics(&mut || {
            let _ = store.write(|tx| {
                write_everything(tx)?;
                panic_quietly()
            });
        });
        assert_eq!(sight(&mut other), NOTHING);
        other.write(|tx| tx.set(EventType::MissionCreated, &mission(3, "Three"), &json!({}))).unwrap();
        panics(&mut || {
            let _ = store.pulse(|tx| {
                tx.beat(agent_id(1), 1, &json!({}))?;
                panic_quietly()
            });
        });
        panics(&mut || {
            let _ = store.read(|tx| {
                tx.events_since(0)?;
                panic_quietly()
            });
        });
        let rev = store.write(|tx| tx.set(EventType::MissionCreated, &mission(4, "Four"), &json!({}))).unwrap();
        assert_eq!(rev, 2, "the same connection goes on");
        assert_eq!(sight(&mut other), (2, 2, 2, 0, Past::Unknown));
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn a_document_over_32_kib_is_refused_and_nothing_is_written(world: &World) {
        let mut store = world.store();
        let refused = store.write(|tx| {
            tx.set(EventType::MissionCreated, &mission(1, "One"), &json!({}))?;
            tx.set(EventType::AgentUpdated, &crate_of(32 * 1024 + 1), &json!({}))
        });
        assert!(
            matches!(refused, Err(StoreError::TooLarge { kind: "agent", size: 32_769, max: 32_768 })),
            "{refused:?}"
        );
        assert_eq!(sight(&mut store), NOTHING);
        let largest = crate_of(32 * 1024);
        store.write(|tx| tx.set(EventType::AgentUpdated, &largest, &json!({}))).unwrap();
        assert_eq!(store.read(|tx| tx.get::<Crate>("crate")).unwrap(), Some(largest));
    }

    fn a_key_gives_back_its_first_outcome_and_fits_one_request(world: &World) {
        let mut store = world.store();
        let past = |actor: &str, key: &str, request: &str| {
            world.store().read(|tx| tx.past(actor, key, request)).unwrap()
        };
        assert_eq!(past("ada", "key", "request"), Past::Unknown);
        store.write(|tx| tx.remember("ada", "key", "request", "outcome".to_owned())).unwrap();
        assert_eq!(past("ada", "key", "request"), Past::Same("outcome".to_owned()));
        assert_eq!(past("ada", "key", "another request"), Past::Other);
        assert_eq!(past("bob", "key", "request"), Past::Unknown, "keys belong to their actor");
        assert_eq!(past("ada", "another key", "request"), Past::Unknown);
        assert!(
            store.write(|tx| tx.remember("ada", "key", "request", "another".to_owned())).is_err(),
            "a key has one outcome"
        );
        assert_eq!(past("ada", "key", "request"), Past::Same("outcome".to_owned()));
    }

    fn a_key_is_forgotten_after_thirty_days_and_not_before(world: &World) {
        let mut store = world.store();
        store.write(|tx| tx.remember("ada", "first", "request", "outcome".to_owned())).unwrap();
        let forget = || world.store().write(|tx| tx.forget_requests(tx.now())).unwrap();
        let past = || world.store().read(|tx| tx.past("ada", "first", "request")).unwrap();
        world.pass(Duration::from_hours(30 * 24));
        assert_eq!((forget(), past()), (0, Past::Same("outcome".to_owned())));
        world.pass(Duration::from_millis(1));
        assert_eq!(forget(), 1);
        assert_eq!(past(), Past::Unknown);
    }

    fn events_say_who_did_what_when_and_are_found_by_it(world: &World) {
        let (first, second) = (mission(1, "One"), mission(2, "Two"));
        let mut store = world.store();
        store.write(|tx| tx.set(EventType::MissionCreated, &first, &json!({}))).unwrap();
        world.pass(Duration::from_mins(1));
        store
            .write(|tx| {
                tx.act_as(Actor { name: "ada".to_owned(), epoch: Some(3) });
                tx.set(EventType::MissionCreated, &second, &json!({ "why": "because" }))?;
                tx.set(EventType::NoteAdded, &lesson(3, &second, "Measure first"), &json!({}))
            })
            .unwrap();
        let all = EventFilter { limit: 100, ..EventFilter::default() };
        let mut revs = |filter: EventFilter| -> (Vec<u64>, Vec<u64>) {
            let (after, newest) = store
                .read(|tx| Ok::<_, StoreError>((tx.events_after(0, &filter)?, tx.newest_events(&filter)?)))
                .unwrap();
            (after.iter().map(|event| event.rev).collect(), newest.iter().map(|event| event.rev).collect())
        };
        assert_eq!(revs(all.clone()), (vec![1, 2, 3], vec![3, 2, 1]));
        assert_eq!(revs(EventFilter { limit: 2, ..all.clone() }), (vec![1, 2], vec![3, 2]));
        assert_eq!(revs(EventFilter { mission: Some(second.id), ..all.clone() }), (vec![2, 3], vec![3, 2]));
        assert_eq!(revs(EventFilter { subject: Some(first.key()), ..all.clone() }), (vec![1], vec![1]));
        assert_eq!(revs(EventFilter { kind: Some("note_added".to_owned()), ..all.clone() }), (vec![3], vec![3]));
        let since = Some(world.clock.now());
        assert_eq!(revs(EventFilter { since, ..all.clone() }).1, [3, 2]);

        let events = store.read(|tx| tx.events_after(1, &all)).unwrap();
        let told = (&*events[0].actor, events[0].epoch, events[0].step, events[1].step, events[0].timestamp);
        assert_eq!(told, ("ada", Some(3), 2, 2, world.clock.now()));
        assert_eq!(events[0].data, json!({ "why": "because" }));
        assert_eq!(store.read(|tx| tx.last_work_rev(second.id)).unwrap(), Some(3));
        assert_eq!(store.read(|tx| tx.last_work_rev(first.id)).unwrap(), None, "Flightline did it");
        assert_eq!(store.read(|tx| tx.last_work_rev(mission(9, "x").id)).unwrap(), None);
    }

    fn ids_are_found_by_their_beginning_byte_by_byte(world: &World) {
        let mut store = world.store();
        let named = |id: &str| Crate { id: id.to_owned(), name: None, text: String::new() };
        store
            .write(|tx| {
                for id in ["src/a", "src/b", "SRC/c", "src+x/d", "src-y", "srd"] {
                    tx.set(EventType::AgentRegistered, &named(id), &json!({}))?;
                }
                Ok::<_, StoreError>(())
            })
            .unwrap();
        let found = store.read(|tx| tx.ids_between(Kind::Agent, "src/", "src0")).unwrap();
        assert_eq!(found, ["src/a", "src/b"]);
        let all = store.read(|tx| tx.ids(Kind::Agent)).unwrap();
        assert_eq!(all, ["SRC/c", "src+x/d", "src-y", "src/a", "src/b", "srd"]);
    }
}
