//! Values that are told against earlier ones: each comes back as it was written, whatever becomes of the others.

use std::collections::BTreeMap;

use flightline_core::event::{Change, EventType, sha256_hex};
use flightline_core::mission::Mission;
use flightline_core::text::Text;
use flightline_core::{Kind, Subject};
use flightline_store::{
    CopyLocation, EventFilter, Location, Mended, PastValue, ReplayFrom, Store, StoreError,
    StoredEvent,
};
use flightline_testkit::value::mission;
use flightline_testkit::{World, both_engines, damage};
use postgres::{Client, NoTls};
use serde_json::json;

/// A mission of some size, of which each value differs in its title and in one letter of its objective.
fn value(number: u64) -> Mission {
    let text = format!("Ümläuts → \"and\" {number} {}", "so forth, ".repeat(60));
    Mission {
        objective: Some(Text::parse("objective", &text).unwrap()),
        ..mission(1, &format!("Number {number}"))
    }
}

fn text(number: u64) -> String {
    serde_json::to_string(&value(number)).unwrap()
}

/// Gives one mission so many values, one per revision.
fn fill(store: &mut Store, values: std::ops::RangeInclusive<u64>) {
    for number in values {
        let rev = store.write(|tx| {
            // As operations do it: what is read is remembered.
            tx.get::<Mission>(&value(number).key())?;
            tx.set(
                EventType::MissionUpdated,
                &value(number),
                &json!({ "number": number }),
            )
        });
        assert_eq!(rev.unwrap(), number);
    }
}

/// What the journal says of each revision, by a view or a table, as others read it.
fn told(world: &World, from: &str) -> BTreeMap<i64, (Option<String>, Option<i64>)> {
    let sql = match from {
        "event" => "SELECT rev, after, base FROM event WHERE project = {project}",
        _ => "SELECT rev, after, CAST(NULL AS BIGINT) FROM event_text WHERE project = {project}",
    };
    let sql = sql.replace("{project}", &format!("'{}'", world.project));
    match &world.location {
        Location::Folder(folder) => {
            let database = rusqlite::Connection::open(folder.join("flightline.db")).unwrap();
            let mut statement = database.prepare(&sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))));
            rows.unwrap().collect::<Result<_, _>>().unwrap()
        }
        Location::Postgres(url) => {
            let rows = Client::connect(url, NoTls).unwrap().query(&sql, &[]);
            let rows = rows.unwrap();
            rows.iter()
                .map(|row| (row.get(0), (row.get(1), row.get(2))))
                .collect()
        }
    }
}

fn at(store: &mut Store, rev: u64) -> Result<Vec<StoredEvent>, StoreError> {
    store.read(|tx| tx.state_at(rev, None))
}

fn is_there(store: &mut Store, revs: impl IntoIterator<Item = u64>) {
    for rev in revs {
        let state = at(store, rev).unwrap();
        assert_eq!(state.len(), 1);
        assert_eq!((state[0].rev, &state[0].text), (rev, &text(rev)));
        assert_eq!(state[0].sha, sha256_hex(&text(rev)));
    }
}

fn thinned(store: &mut Store, revs: &[u64]) -> u64 {
    store.write(|tx| tx.thin(revs)).unwrap()
}

both_engines! {
    fn every_value_comes_back_and_one_of_sixteen_is_kept_whole(world: &World) {
        let mut store = world.store();
        fill(&mut store, 1..=50);
        is_there(&mut store, 1..=50);
        let stored = told(world, "event");
        let whole: Vec<i64> = stored.iter().filter(|(_, (_, base))| base.is_none()).map(|(rev, _)| *rev).collect();
        assert!((4..=6).contains(&whole.len()), "{whole:?}");
        assert!(whole.windows(2).all(|two| two[1] - two[0] <= 16), "{whole:?}");
        for (rev, (after, base)) in &stored {
            let after = after.as_ref().unwrap();
            match base {
                Some(base) => {
                    assert!(whole.contains(base) && base < rev, "{rev} {base}");
                    assert!(after.len() < 120, "{after}");
                }
                None => assert_eq!(*after, text(rev.unsigned_abs())),
            }
        }
        // Others read them whole, with SQL alone.
        for (rev, (after, _)) in told(world, "event_text") {
            assert_eq!(after, Some(text(rev.unsigned_abs())), "{rev}");
        }
        let mission = value(1).id;
        let replayed = store.read(|tx| tx.happenings(mission, ReplayFrom::After(0), 100)).unwrap();
        for happening in replayed {
            let rev = happening.event.rev;
            assert!(matches!(happening.after, Some(PastValue::There(was)) if was.text == text(rev)), "{rev}");
            let before = store.read(|tx| tx.was_before(Kind::Mission, &value(1).key(), rev)).unwrap();
            match rev {
                1 => assert_eq!(before, PastValue::NotThere),
                _ => assert!(matches!(before, PastValue::There(was) if was.text == text(rev - 1)), "{rev}"),
            }
        }
        let told = store.read(|tx| tx.told(Kind::Mission, &value(1).key())).unwrap();
        assert!(told.iter().all(|told| told.is_sound() && told.text == text(told.rev)));
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn what_is_rolled_back_is_no_base(world: &World) {
        let mut store = world.store();
        fill(&mut store, 1..=3);
        let dropped = store.write(|tx| {
            for number in 4..30 {
                tx.set(EventType::MissionUpdated, &value(number), &json!({}))?;
            }
            Err::<(), _>(StoreError::Corrupt("no".to_owned()))
        });
        assert!(dropped.is_err());
        store.write(|tx| {
            let place = tx.savepoint()?;
            for number in 4..30 {
                tx.set(EventType::MissionUpdated, &value(number), &json!({}))?;
            }
            tx.roll_back_to(place)
        }).unwrap();
        fill(&mut store, 4..=20);
        is_there(&mut store, 1..=20);
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn what_was_taken_away_begins_whole(world: &World) {
        let mut store = world.store();
        fill(&mut store, 1..=5);
        store.write(|tx| tx.remove(EventType::MissionArchived, &value(5), &json!({}))).unwrap();
        store.write(|tx| tx.set(EventType::MissionCreated, &value(7), &json!({}))).unwrap();
        assert_eq!(told(world, "event")[&7], (Some(text(7)), None));
        is_there(&mut store, [1, 5, 7]);
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn a_whole_value_that_is_thinned_is_kept_for_those_that_need_it(world: &World) {
        let mut store = world.store();
        fill(&mut store, 1..=20);
        let bases: Vec<u64> = told(world, "event").values().filter_map(|(_, base)| *base).map(i64::unsigned_abs).collect();
        let first = bases[0];
        assert_eq!(thinned(&mut store, &[first]), 1);
        let refused = at(&mut store, first);
        assert!(matches!(refused, Err(StoreError::Thinned { .. })), "{refused:?}");
        is_there(&mut store, first + 1..=20);
        assert!(told(world, "event")[&first.cast_signed()].0.is_some(), "the others need it");
        assert_eq!(told(world, "event_text")[&first.cast_signed()].0, None, "and nobody else is given it");
        assert_eq!(world.problems(), [] as [&str; 0]);
        // A copy, on the other engine as well, is as good.
        let file = world.folder().join("backup.db");
        store.back_up(&file).unwrap();
        // Another thins all that were replaced, while this one goes on with what it remembers.
        let all: Vec<u64> = (1..20).collect();
        assert_eq!(thinned(&mut world.store(), &all), 18);
        fill(&mut store, 21..=40);
        is_there(&mut store, 20..=40);
        let left: Vec<i64> = told(world, "event").into_iter().filter(|(rev, (after, _))| *rev < 20 && after.is_some()).map(|(rev, _)| rev).collect();
        assert!(left.len() <= 1, "{left:?}");
        let all: Vec<u64> = (1..40).collect();
        thinned(&mut store, &all);
        let left: Vec<i64> = told(world, "event").into_iter().filter(|(rev, (after, _))| *rev < 40 && after.is_some()).map(|(rev, _)| rev).collect();
        assert!(left.len() <= 1, "{left:?}");
        is_there(&mut store, [40]);
        let events = store.read(|tx| tx.events_after(0, &EventFilter { limit: 100, ..EventFilter::default() })).unwrap();
        assert_eq!(events.iter().filter(|event| event.change == Change::Thinned).count(), 39);
        assert_eq!(world.problems(), [] as [&str; 0]);
        store.restore_above(&file, 0, |tx, _| tx.note(EventType::StoreRestored, &value(1), &json!({}))).unwrap();
        is_there(&mut store, first + 1..=20);
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn a_damaged_base_is_named_with_all_that_need_it_and_mended_with_them(world: &World) {
        let mut store = world.store();
        fill(&mut store, 1..=10);
        let stored = told(world, "event");
        let base = stored[&10].1.unwrap();
        let need: Vec<i64> = stored.iter().filter(|(_, (_, of))| *of == Some(base)).map(|(rev, _)| *rev).collect();
        assert!(need.len() > 5, "{need:?}");
        damage::raw(world, &format!("UPDATE event SET after = replace(after, 'so forth', 'and more') WHERE project = {{project}} AND rev = {base}"));
        let said = world.problems();
        for rev in need.iter().chain([&base]) {
            let named = format!("the value at revision {rev} does not match its checksum");
            assert!(said.contains(&named) || said.len() > 9, "{said:?}");
        }
        // The last value is in its row, too.
        let mut store = world.store();
        is_there(&mut store, [10]);
        let noticed = store.take_noticed();
        assert!(noticed.iter().any(|damage| damage.place == CopyLocation::Journal && damage.rev == 10), "{noticed:?}");
        assert_eq!(store.write(|tx| tx.mend(&noticed[0])).unwrap(), Mended::Healed);
        assert_eq!(told(world, "event")[&10], (Some(text(10)), None));
        // And with the base itself all others are well.
        let copy = StoredEvent { kind: Kind::Mission, id: value(1).key(), rev: base.unsigned_abs(), text: text(base.unsigned_abs()), sha: sha256_hex(&text(base.unsigned_abs())) };
        assert_eq!(store.write(|tx| tx.mend_value(&copy, "a file")).unwrap(), Mended::Healed);
        is_there(&mut store, 1..=10);
        assert_eq!(world.problems(), [] as [&str; 0]);
        // What is written next is whole, or against a whole one that is sound.
        let rev = store.write(|tx| tx.set(EventType::MissionUpdated, &value(13), &json!({}))).unwrap();
        assert_eq!((rev, at(&mut store, 13).unwrap()[0].text.clone()), (13, text(13)));
    }

    fn nothing_is_told_against_a_damaged_value(world: &World) {
        let mut store = world.store();
        fill(&mut store, 1..=4);
        drop(store);
        damage::raw(world, "UPDATE event SET after = replace(after, 'so forth', 'and more') WHERE project = {project} AND base IS NULL AND rev < 3");
        let mut store = world.store();
        let rev = store.write(|tx| tx.set(EventType::MissionUpdated, &value(5), &json!({}))).unwrap();
        let (after, base) = told(world, "event").remove(&rev.cast_signed()).unwrap();
        assert!(base.is_none() || after == Some(text(5)) || base > Some(2), "{base:?}");
        is_there(&mut store, [5]);
    }

    fn a_damaged_delta_harms_itself_alone(world: &World) {
        let mut store = world.store();
        fill(&mut store, 1..=10);
        let told = told(world, "event");
        let delta = *told.iter().find(|(rev, (_, base))| **rev < 10 && base.is_some()).unwrap().0;
        for spoil in ["after = after || ' '", "after = replace(after, '[1,', '[2,')", "base = base - 1", "base = base + 1", "base = NULL", "base = 4000"] {
            let other = World::new(world.engine);
            let mut store = other.store();
            fill(&mut store, 1..=10);
            other.forget();
            damage::raw(&other, &format!("UPDATE event SET {spoil} WHERE project = {{project}} AND rev = {delta}"));
            assert_eq!(other.problems(), [format!("the value at revision {delta} does not match its checksum")], "{spoil}");
            let delta = delta.unsigned_abs();
            let refused = at(&mut store, delta);
            assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{spoil}: {refused:?}");
            is_there(&mut store, (1..=10).filter(|rev| *rev != delta));
        }
    }
}
