//! What a store remembers is what is in it, for every writer and whatever became of it. In builds for tests every answer from
//! memory is compared with the tables' own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use flightline_core::checkpoint::{Digest, sections};
use flightline_core::event::EventType;
use flightline_core::note::Note;
use flightline_core::{Kind, Subject};
use flightline_store::{Actor, Find, Store, StoreError, Tx};
use flightline_testkit::value::{lesson, mission};
use flightline_testkit::{Engine, World, both_engines, outside};
use serde_json::json;

use crate::groups::refuse;

fn learn(tx: &mut Tx<'_>, number: u128, text: &str) -> Result<u64, StoreError> {
    tx.act_as(Actor {
        name: "ada".to_owned(),
        epoch: Some(1),
    });
    let note = lesson(number, &mission(1, "One"), text);
    tx.set(EventType::NoteAdded, &note, &json!({}))
}

/// What a write sees.
fn texts(store: &mut Store) -> Vec<String> {
    let seen = store.write(|tx| {
        let of_mission = tx.find::<Note>(Find::Mission(mission(1, "One").id))?;
        assert_eq!(tx.find::<Note>(Find::All)?, of_mission);
        for note in &of_mission {
            assert_eq!(tx.get::<Note>(&note.key())?.as_ref(), Some(note));
        }
        assert_eq!(tx.rows(Kind::Note, Find::All)?.len(), of_mission.len());
        Ok::<_, StoreError>(of_mission)
    });
    let seen = seen.unwrap().into_iter();
    seen.map(|note| note.text.to_string()).collect()
}

/// Numbers that look random, and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Does one of the things that happen to notes of two missions.
fn act(tx: &mut Tx<'_>, dice: &mut Dice) -> Result<u64, StoreError> {
    let which = 1 + u128::from(dice.roll(2));
    let of = mission(which, "One");
    let number = 10 * which + u128::from(dice.roll(9));
    let note = lesson(number, &of, &format!("text {}", dice.roll(4)));
    match dice.roll(5) {
        0 => tx.remove(EventType::NoteWithdrawn, &note, &json!({})),
        1 => tx.set(EventType::MissionUpdated, &of, &json!({})),
        _ => tx.set(EventType::NoteAdded, &note, &json!({})),
    }
}

/// What both missions hash to: as it is kept up to date, and as it is computed from the rows.
fn check_sections(remembering: &mut Store, plain: &mut Store) {
    for number in [1, 2] {
        let of = mission(number, "One").id;
        let kept: Result<_, StoreError> = remembering.write(|tx| tx.sections(of));
        let lines: Result<_, StoreError> = plain.read(|tx| tx.lines(of));
        assert_eq!(kept.unwrap(), sections(lines.unwrap(), Digest::NEW), "{of}");
    }
}

both_engines! {
    fn digests_follow_whatever_happens(world: &World) {
        let (mut one, mut other, mut plain) = (world.store(), world.store(), world.store());
        let mut dice = Dice(7);
        for _ in 0..60 {
            match dice.roll(4) {
                // What is refused, or tried and dropped, was never there.
                0 => {
                    let refused = one.write(|tx| {
                        act(tx, &mut dice)?;
                        let _ = tx.sections(mission(1, "One").id)?;
                        act(tx, &mut dice)?;
                        refuse()
                    });
                    assert!(refused.is_err());
                }
                1 => {
                    let tried = one.write(|tx| {
                        act(tx, &mut dice)?;
                        let place = tx.savepoint()?;
                        act(tx, &mut dice)?;
                        let _ = tx.sections(mission(2, "One").id)?;
                        tx.roll_back_to(place)?;
                        act(tx, &mut dice)
                    });
                    tried.unwrap();
                }
                2 => {
                    other.write(|tx| act(tx, &mut dice)).unwrap();
                }
                _ => {
                    one.write(|tx| act(tx, &mut dice)).unwrap();
                }
            }
            check_sections(&mut one, &mut plain);
            if dice.roll(3) == 0 {
                check_sections(&mut other, &mut plain);
            }
        }
    }

    fn what_others_wrote_is_seen(world: &World) {
        let (mut one, mut other) = (world.store(), world.store());
        one.write(|tx| learn(tx, 1, "one")).unwrap();
        assert_eq!(texts(&mut one), ["one"]);
        assert_eq!(texts(&mut other), ["one"]);
        other.write(|tx| learn(tx, 2, "two")).unwrap();
        other.write(|tx| learn(tx, 1, "one again")).unwrap();
        assert_eq!(texts(&mut one), ["one again", "two"]);
        one.write(|tx| tx.remove(EventType::NoteWithdrawn, &lesson(1, &mission(1, "One"), "one again"), &json!({}))).unwrap();
        assert_eq!(texts(&mut one), ["two"]);
        assert_eq!(texts(&mut other), ["two"]);
        // What comes back is as old as it was.
        other.write(|tx| learn(tx, 1, "back")).unwrap();
        assert_eq!(texts(&mut other), ["back", "two"]);
        assert_eq!(texts(&mut one), ["back", "two"]);
    }

    fn the_last_event_is_the_last_that_was_kept(world: &World) {
        let (mut one, mut other) = (world.store(), world.store());
        let of = mission(1, "One").id;
        let last = |tx: &mut Tx<'_>| {
            let found = tx.newest_work(of, |event| event.is(EventType::NoteAdded))?;
            Ok::<_, StoreError>(found.event.map(|event| event.subject))
        };
        let name = |number| Some(lesson(number, &mission(1, "One"), "x").key());
        assert_eq!(one.write(last).unwrap(), None);
        one.write(|tx| learn(tx, 1, "one")).unwrap();
        assert_eq!(one.write(last).unwrap(), name(1));
        // What is dropped was looked at first, for the first time or again.
        for _ in 0..2 {
            let refused = one.write(|tx| {
                learn(tx, 2, "two")?;
                assert_eq!(last(tx)?, name(2));
                refuse()
            });
            assert!(refused.is_err());
            assert_eq!(one.write(last).unwrap(), name(1));
        }
        one.write(|tx| {
            let place = tx.savepoint()?;
            learn(tx, 3, "three")?;
            assert_eq!(last(tx)?, name(3));
            tx.roll_back_to(place)?;
            assert_eq!(last(tx)?, name(1));
            learn(tx, 4, "four")
        }).unwrap();
        assert_eq!(one.write(last).unwrap(), name(4));
        // Others write, and more than is remembered.
        other.write(|tx| learn(tx, 5, "five")).unwrap();
        assert_eq!(one.write(last).unwrap(), name(5));
        one.write(|tx| {
            for text in 0..40 {
                let note = lesson(6, &mission(1, "One"), &format!("six {text}"));
                tx.set(EventType::NoteReplaced, &note, &json!({}))?;
            }
            Ok::<_, StoreError>(())
        }).unwrap();
        assert_eq!(one.write(last).unwrap(), name(5));
        assert_eq!(other.write(last).unwrap(), name(5));
        // That it was thinned is no event, and nobody else hears of it.
        one.write(|tx| learn(tx, 7, "seven")).unwrap();
        let old = one.write(|tx| tx.newest_work(of, |event| event.is(EventType::NoteAdded)));
        let old: Result<_, StoreError> = old;
        one.write(|tx| tx.set(EventType::NoteReplaced, &lesson(7, &mission(1, "One"), "eight"), &json!({}))).unwrap();
        let thinned = other.write(|tx| tx.thin(&[old.as_ref().unwrap().event.as_ref().unwrap().rev]));
        assert_eq!(thinned.unwrap(), 1);
        assert_eq!(one.write(last).unwrap(), name(7));
    }

    fn what_was_rolled_back_was_never_there(world: &World) {
        let mut store = world.store();
        store.write(|tx| learn(tx, 1, "one")).unwrap();
        assert_eq!(texts(&mut store), ["one"]);
        let refused = store.write(|tx| {
            learn(tx, 1, "changed")?;
            learn(tx, 2, "two")?;
            tx.remove(EventType::NoteWithdrawn, &lesson(1, &mission(1, "One"), "changed"), &json!({}))?;
            refuse()
        });
        assert!(matches!(refused, Err(StoreError::Location(_))));
        assert_eq!(texts(&mut store), ["one"]);
        // A sign of life that is refused says nothing about what was written before it.
        store.write(|tx| learn(tx, 3, "three")).unwrap();
        store.pulse(|_| refuse()).unwrap_err();
        assert_eq!(texts(&mut store), ["one", "three"]);
    }

    fn what_was_tried_and_dropped_within_a_write_was_never_there(world: &World) {
        let mut store = world.store();
        store.write(|tx| learn(tx, 1, "one")).unwrap();
        let seen = store.write(|tx| {
            learn(tx, 2, "two")?;
            let place = tx.savepoint()?;
            // Read for the first time, with what will be dropped.
            learn(tx, 3, "three")?;
            assert_eq!(tx.find::<Note>(Find::All)?.len(), 3);
            tx.roll_back_to(place)?;
            Ok::<_, StoreError>(tx.find::<Note>(Find::All)?.len())
        });
        assert_eq!(seen.unwrap(), 2);
        assert_eq!(texts(&mut store), ["one", "two"]);
    }

    fn a_refused_member_leaves_nothing_behind(world: &World) {
        let mut store = world.store();
        assert!(texts(&mut store).is_empty());
        store.begin_group().unwrap();
        store.write(|tx| learn(tx, 1, "one")).unwrap();
        let refused = store.write(|tx| {
            learn(tx, 1, "changed")?;
            learn(tx, 2, "two")?;
            refuse()
        });
        assert!(matches!(refused, Err(StoreError::Location(_))));
        assert_eq!(texts(&mut store), ["one"]);
        let panicked = catch_unwind(AssertUnwindSafe(|| store.write(|tx| {
            learn(tx, 3, "three")?;
            if tx.rev() > 0 { panic!("half way") }
            Ok::<_, StoreError>(())
        })));
        assert!(panicked.is_err());
        assert_eq!(texts(&mut store), ["one"]);
        store.commit_group().unwrap();
        assert_eq!(texts(&mut store), ["one"]);
        store.begin_group().unwrap();
        store.write(|tx| learn(tx, 4, "four")).unwrap();
        store.abandon_group();
        assert_eq!(texts(&mut store), ["one"]);
    }
}

/// It is memory that answers, and the comparison that notices.
#[test]
fn a_change_behind_the_back_is_noticed_by_tests() {
    let world = World::new(Engine::Sqlite);
    let mut store = world.store();
    store.write(|tx| learn(tx, 1, "one")).unwrap();
    assert_eq!(texts(&mut store), ["one"]);
    let changed = outside::query(
        &world,
        "UPDATE subject SET rev = 7 WHERE kind = 'note' AND project = {project} RETURNING id",
    );
    assert_eq!(changed.len(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| texts(&mut store))).is_err());
}
